//! Received datagrams: marker, fragments, their session, and the resulting facts.

use super::first_message::First;
use super::half_open::{Begun, Room, Slot};
use super::ike::Ike;
use super::proof::LEAST_MESSAGE_BYTES;
use super::session::{Session, Stage};
use super::session_id::SessionId;
use super::{EndCause, Event, Node};
use crate::counters::DropReason;
use crate::ike::{Complaint, Fact, Fault, Lease, Notification, Outbox, Size, Terms, Wanted};
use crate::ikev1::fragments::{Sender, Standing};
use crate::ikev1::in_clear::InClear;
use crate::ikev1::message::{Kind, Message};
use crate::ikev1::session::{About, Means, Session as Ikev1};
use crate::sa::{Path, Via};
use crate::time::Instant;
use wire::esp::NON_ESP_MARKER;

impl Node {
    pub(super) fn on_datagram(&mut self, path: Path, payload: &[u8], now: Instant) {
        let message = match path.via {
            Via::Udp => Some(payload),
            Via::UdpWithMarker => payload.strip_prefix(&NON_ESP_MARKER),
            Via::Raw | Via::UdpWithType | Via::UdpWithSkip => None,
        };
        let Some(message) = message else {
            return self.drops.count(DropReason::MalformedMessage);
        };
        let size = Size::of(payload);
        if self.takes_ikev2(path, (message, size), now)
            || self.takes_later_version(path, message, now)
        {
            return;
        }
        let message = match Message::of_size(message, size) {
            Ok(message) => message,
            Err(reason) => return self.drops.count(reason),
        };
        if !message.is_fragment() {
            return self.on_message(path, &message, now);
        }
        let Some(standing) = self.standing(&message, path) else {
            return self.drops.count(DropReason::UnknownCookies);
        };
        let from = path.remote;
        let sender = Sender { from, standing };
        let taken = self.assembly.take(&message, sender, now);
        self.drops
            .add(DropReason::IncompleteMessage, taken.given_up);
        let whole = match taken.whole {
            Ok(Some(whole)) => whole,
            Ok(None) => return,
            Err(reason) => return self.drops.count(reason),
        };
        match whole.message() {
            Ok(whole) => self.on_message(path, &whole, now),
            Err(reason) => self.drops.count(reason),
        }
    }

    /// What the sender of a fragment has proven. Fragments are kept only for known senders and for
    /// first messages.
    fn standing(&self, message: &Message<'_>, path: Path) -> Option<Standing> {
        if message.is_unanswered() {
            return Some(Standing::First);
        }
        let session = &self.sessions[&self.sessions.named(message.spis())?];
        let is_unproven = |slot: &Slot| !slot.is_proven();
        Some(match &session.stage {
            // Cookies are not encrypted: a sender at another address may have read them.
            _ if session.path().remote.ip() != path.remote.ip() => Standing::Unproven,
            _ if session.ike.is_established() => Standing::Established,
            Stage::HalfOpen(slot) if is_unproven(slot) => Standing::Unproven,
            _ => Standing::Proven,
        })
    }

    fn on_message(&mut self, path: Path, message: &Message<'_>, now: Instant) {
        let is_first = message.is_phase1() && message.is_unanswered();
        let known = if is_first {
            let first = First::of_v1(path.remote, message.spis().initiator);
            self.sessions.begun_by(first)
        } else {
            self.sessions.named(message.spis())
        };
        let Some(id) = known else {
            return match message.kind() {
                _ if is_first => self.on_first_message(path, message, now),
                Kind::Unknown => self.drops.count(DropReason::UnsupportedExchange),
                _ => {
                    self.drops.count(DropReason::UnknownCookies);
                    self.deny_cookies(path, message, now);
                    self.on_hint(path, message, now);
                }
            };
        };
        if self.sessions[&id].began_elsewhere(path) {
            return self.drops.count(DropReason::UnprovenPath);
        }
        let is_established = self.hear(id);
        if message.kind() == Kind::Unknown {
            return self.drops.count(DropReason::UnsupportedExchange);
        }
        let ike = self.sessions[&id].ike.v1();
        if !ike.is_some_and(|ike| ike.is_phase1(message)) {
            return self.on_fact(id, path, message, now);
        }
        if message.kind() == Kind::Informational && !is_established {
            self.on_complaint(id, path, message);
        }
        self.on_phase1(id, path, message, now);
    }

    fn on_first_message(&mut self, path: Path, message: &Message<'_>, now: Instant) {
        // An exchange with ourselves: an attacker who relays our messages between both ends of it
        // would make us authenticate ourselves.
        if self.sessions.has_spi(message.spis().initiator) {
            return self.drops.count(DropReason::Reflected);
        }
        let address = path.remote.ip();
        let mode = match message.kind() {
            Kind::Aggressive => Begun::AggressiveMode,
            _ => Begun::MainMode,
        };
        let (familiar, limits) = (&self.familiar, &self.config.limits);
        let random = &mut self.random;
        let (share, room) = self
            .half_open
            .room(mode, address, familiar, limits, random, now);
        if room == Room::None {
            return self.drops.count(DropReason::TooManyHalfOpen);
        }
        let mut candidates = self.config.between(path);
        let is_known = !candidates.is_empty();
        candidates.retain(|it| it.version.has_v1());
        if candidates.is_empty() && is_known {
            self.tell_former_version(path, now);
        }
        if candidates.is_empty() || self.is_stopping {
            return self.drops.count(DropReason::NoConnection);
        }
        let mut out = Outbox::default();
        let (decoys, random) = (&self.decoys, &mut self.random);
        let begun = Ikev1::respond(&candidates, decoys, path, message, random, now, &mut out);
        match begun {
            Ok(mut ike) => {
                ike.give_up_at(now + self.config.limits.half_open_lifetime);
                if let Room::Of(oldest, _) = room {
                    self.make_room(oldest, now);
                }
                let slot = Slot::new(mode, share, address, now);
                let stage = Stage::HalfOpen(Box::new(slot));
                let mut session = Session::new(Ike::V1(ike), stage, now);
                let first = First::of_v1(path.remote, message.spis().initiator);
                session.first_message = Some(Box::new(first));
                let id = self.sessions.add(session);
                self.half_open.begin(id, slot);
                self.flush(Some(id), out);
                self.arm_session(id);
            }
            Err(fault) => {
                self.flush(None, out);
                self.drops.count(fault.drop_reason());
                self.outputs.tell(Event::NegotiationFailed {
                    connection: None,
                    path,
                    reason: fault.to_string(),
                });
            }
        }
    }

    /// A half-open exchange is dropped for a newer one.
    pub(super) fn make_room(&mut self, oldest: SessionId, now: Instant) {
        self.drops.count(DropReason::TooManyHalfOpen);
        self.close_session(oldest, EndCause::HalfOpenLimit, false, now);
    }

    fn on_phase1(&mut self, id: SessionId, path: Path, message: &Message<'_>, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let home = session.path();
        let Some(ike) = session.ike.v1_mut() else {
            return;
        };
        let room = match &session.stage {
            Stage::HalfOpen(slot)
                if ike.has_phase1() && !slot.is_proven() && !ike.is_aggressive() =>
            {
                let (limits, random) = (&self.config.limits, &mut self.random);
                self.half_open.room_to_prove(**slot, limits, random, now)
            }
            _ => Room::Free,
        };
        if room == Room::None {
            return self.drops.count(DropReason::TooManyHalfOpen);
        }
        let mut out = ike.outbox();
        let calendar = self.calendar.0.at(self.calendar.1, now);
        let has_quotas = self.config.limits.has_quotas;
        let means = Means {
            random: &mut self.random,
            quotas: has_quotas.then_some(&mut self.quotas),
            calendar,
        };
        let result = ike.on_phase1(path, message, means, now, &mut out);
        if let Stage::HalfOpen(slot) = &mut session.stage
            && result.as_ref().is_ok_and(|(shown, _)| shown.is_proven)
        {
            self.half_open.prove(id, slot, now);
            if let Room::Of(oldest, _) = room {
                self.make_room(oldest, now);
            }
        }
        self.bound(&mut out, home, path, message.octets().len());
        self.flush(Some(id), out);
        match result {
            Ok((shown, connection)) => {
                if shown.is_heard {
                    self.racer_heard(id, now);
                }
                if let Some(connection) = connection {
                    self.establish(id, &connection, now);
                }
                self.arm_session(id);
            }
            // Authenticated as the peer's; otherwise the exchange only counted it.
            Err(fault) => {
                self.drops.count(fault.drop_reason());
                self.fail_session(id, &fault, now);
            }
        }
    }

    /// Acts on the result of a message under a session's keys.
    fn on_fact(&mut self, id: SessionId, path: Path, message: &Message<'_>, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(connection) = session.connection() else {
            return;
        };
        let terms = Terms {
            wants_inner: connection.wants_inner,
            exchanges_max: self.config.limits.quick_modes,
        };
        let mut out = session.ike.outbox();
        let home = session.path();
        let Some(ike) = session.ike.v1_mut() else {
            return;
        };
        let fact = ike.on_message(path, message, terms, now, &mut out);
        self.bound(&mut out, home, path, message.octets().len());
        // When a child is agreed, the planes get it before our last message leaves.
        if !matches!(fact, Fact::Child(_)) {
            self.flush(Some(id), core::mem::take(&mut out));
        }
        match fact {
            Fact::Pending => {}
            Fact::Dropped(reason) => self.drops.count(reason),
            Fact::Unproven(fault) => self.drops.count(fault.drop_reason()),
            Fact::Unreadable(fault) => {
                self.drops.count(fault.drop_reason());
                self.on_hint(path, message, now);
            }
            Fact::Unfit(fault) => {
                self.drops.count(fault.drop_reason());
                self.refuse(id, &fault, About::Session);
                self.close_session(id, EndCause::Failed(fault.to_string()), true, now);
            }
            Fact::AsksAddress(wanted) => self.on_asks_address(id, path, &wanted, now),
            Fact::Lease(lease) => {
                self.authentic_from(id, path, now);
                self.arm_session(id);
                if let Some(lease) = lease {
                    self.take_lease(id, lease, now);
                }
            }
            Fact::AsksChild(offer) => self.on_asks_child(id, path, &offer, now),
            Fact::Child(agreed) => self.child_agreed(id, path, *agreed, out, now),
            Fact::ChildFailed(child, spi, fault) => {
                self.drops.count(fault.drop_reason());
                self.child_failed(id, child, spi, &fault, now);
            }
            Fact::Unread(child, spi) => self.wait_for_reader(child, spi, now),
            Fact::Told(exchange, notices) => self.on_notices(id, path, exchange, notices, now),
            // Of IKEv2.
            Fact::Heard
            | Fact::Established(_)
            | Fact::Renewed
            | Fact::Crashed
            | Fact::AsksTicket
            | Fact::TicketTooLarge(..)
            | Fact::SentTo(_)
            | Fact::AsksServer(_)
            | Fact::ChildPostponed(..)
            | Fact::Childless(..)
            | Fact::Failed(_) => {}
        }
        self.begin_waiting(id, now);
        self.arm_session(id);
    }

    /// The gateway has replied or pushed. Addresses that we already have change nothing.
    pub(super) fn take_lease(&mut self, id: SessionId, lease: Lease, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.ike.end_request();
        let is_held = session.held.lease.as_deref() == Some(&lease);
        self.arm_session(id);
        if !is_held {
            self.lease_arrived(id, lease, now);
        }
    }

    /// The peer gets its last address, one that another session of it has, or a free one.
    pub(super) fn on_asks_address(
        &mut self,
        id: SessionId,
        path: Path,
        wanted: &Wanted,
        now: Instant,
    ) {
        let session = &self.sessions[&id];
        let (Some(peer), Some(connection)) = (
            session.ike.identity().cloned(),
            session.connection().cloned(),
        ) else {
            return;
        };
        let own = session.held.lease.as_deref().cloned();
        let mut lease = own
            .or_else(|| self.shared_lease(id))
            .or_else(|| self.lend(&connection, &peer, wanted));
        if let Some(lease) = &mut lease {
            // A session that it shares an address with may have asked for something else.
            lease.trust_anchors = self.trust_anchors(&connection, wanted, lease);
        }
        if lease.is_none() {
            self.drops.count(DropReason::NoInnerAddress);
            self.outputs.tell(Event::NegotiationFailed {
                connection: Some(connection.name.clone()),
                path: self.sessions[&id].path(),
                reason: format!("{peer} asks for an inner address, but none is free"),
            });
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        let answer = lease.clone().unwrap_or_default();
        session.ike.grant_address(&answer, &mut out);
        session.held.lease = lease.map(Box::new);
        self.flush(Some(id), out);
        self.authentic_from(id, path, now);
    }

    /// Acts on notices of an authenticated message, unless it repeats an earlier one, of the peer
    /// or our own. Probes are recognized by their numbers (RFC 3706 §6.2), others by message ID.
    fn on_notices(
        &mut self,
        id: SessionId,
        path: Path,
        exchange: u32,
        notices: Vec<Notification>,
        now: Instant,
    ) {
        let proves = match notices[..] {
            [Notification::IAmHere(number)] => self.proves(id, path, number),
            _ => false,
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        match notices[..] {
            [Notification::AreYouThere(number)] if session.liveness.is_question(number) => {}
            [Notification::IAmHere(number)] if proves || session.liveness.is_answer(number) => {}
            // A repetition: its sender still waits for the answer.
            [Notification::AreYouThere(number)] if session.liveness.is_last_question(number) => {
                self.drops.count(DropReason::RetransmittedMessage);
                return self.answer_life(id, number);
            }
            [Notification::AreYouThere(_) | Notification::IAmHere(_)] => {
                return self.drops.count(DropReason::RetransmittedMessage);
            }
            _ if session.ike.v1().is_some_and(|ike| ike.has_seen(exchange)) => {
                return self.drops.count(DropReason::RetransmittedMessage);
            }
            _ => self.remember(id, exchange),
        }
        self.authentic_from(id, path, now);
        if proves {
            self.prove(id);
        }
        for notice in notices {
            // The previous notice may have ended the session.
            if self.sessions.contains_key(&id) {
                self.on_peer_notice(id, notice, now);
            }
        }
    }

    /// Before the peer has authenticated, an unencrypted error proves nothing: the first few are
    /// logged at once, and the exchange waits for an authentic message.
    fn on_complaint(&mut self, id: SessionId, path: Path, message: &Message<'_>) {
        let Ok(said) = InClear::read(message) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let connection = session.connection_name();
        let Some(ike) = session.ike.v1_mut() else {
            return;
        };
        if !ike.takes_complaint() {
            return self.drops.count(DropReason::UnexpectedMessage);
        }
        let complaint = said.words();
        let offered = ike.offered().filter(|_| said.is_about_us());
        let complaint = match offered {
            Some(offered) => format!("{complaint}; {offered}"),
            None => complaint,
        };
        self.outputs.tell(Event::PeerComplains {
            connection,
            path,
            complaint,
            is_proven: false,
        });
    }

    pub(super) fn on_peer_notice(&mut self, id: SessionId, notice: Notification, now: Instant) {
        match notice {
            Notification::DeletedChildren(spis) => self.peer_deleted(id, &spis, now),
            Notification::DeletedIke => {
                self.station_ousted(id, false, now);
                // In IKEv2 the children end with their IKE SA (RFC 7296 §1.4.1).
                if self.sessions.get(&id).is_some_and(|it| !it.ike.is_v2()) {
                    self.hand_over(id, now);
                }
                self.close_session(id, EndCause::DeletedByPeer, false, now);
            }
            Notification::InitialContact => self.peer_restarted(id, now),
            Notification::Superseded => self.superseded(id, now),
            Notification::AreYouThere(number) => self.answer_life(id, number),
            // The authenticated message already counted as a sign of life.
            Notification::IAmHere(number) => self.small_answered(id, number, now),
            Notification::Followed => self.followed(id, now),
            Notification::StaysBehind(name) => self.stays_behind(id, name, now),
            Notification::SentTo(gateway) => self.sent_to(id, &gateway, now),
            Notification::AuthenticationLasts(lifetime) => {
                self.authentication_lasts(id, lifetime, now);
            }
            // Of MOBIKE, which needs the path.
            Notification::Moved { .. } | Notification::Addresses { .. } => {}
            Notification::Other(complaint) => self.peer_complains(id, &complaint, now),
        }
    }

    /// An authenticated complaint is reported once: with whatever it ends, or by itself.
    fn peer_complains(&mut self, id: SessionId, complaint: &Complaint, now: Instant) {
        if complaint.is_about_identity && self.ends_with_identity(id) {
            let name = &complaint.name;
            let fault = Fault::Unauthenticated(format!("the peer refused with {name}"));
            self.drops.count(fault.drop_reason());
            return self.fail_session(id, &fault, now);
        }
        if complaint.is_error && self.peer_refuses(id, complaint, now) {
            return;
        }
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if let Some(connection) = session.connection() {
            let event = Event::PeerComplains {
                connection: Some(connection.name.clone()),
                path: session.path(),
                complaint: complaint.name.clone(),
                is_proven: session.ike.is_established(),
            };
            self.outputs.tell(event);
        }
    }

    /// The end that sent the last message of an authentication is established before its peer,
    /// which may refuse it: such a session is useless. With IKEv1 it has no child. With IKEv2 the
    /// child came with it, and nothing else says that it is over (RFC 7296 §2.21.2).
    fn ends_with_identity(&self, id: SessionId) -> bool {
        let session = self.sessions.get(&id);
        session.is_some_and(|it| it.ike.v2().is_some() || it.held.children.is_empty())
    }

    fn answer_life(&mut self, id: SessionId, number: u32) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let mut out = Outbox::default();
        let random = &mut self.random;
        session.ike.answer_probe(number, random, &mut out);
        self.flush(Some(id), out);
    }

    /// Marks an exchange number of the peer as used.
    fn remember(&mut self, id: SessionId, exchange: u32) {
        let mut out = Outbox::default();
        let session = self.sessions.get_mut(&id);
        if let Some(ike) = session.and_then(|it| it.ike.v1_mut()) {
            ike.remember(exchange, &mut out);
        }
        self.flush(Some(id), out);
    }

    /// A new authenticated message of phase 2 came over `path`. It proves that the peer is alive,
    /// where it is, and that it has authenticated.
    pub(super) fn authentic_from(&mut self, id: SessionId, path: Path, now: Instant) {
        let shown = self.path_shown(id, path);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        session.liveness.sign(now);
        let is_moved = session.path() != shown;
        let has_mobike = session.ike.has_mobike();
        self.call_off(id, now);
        self.forget_phase1(id);
        // RFC 4555 §3.8: with MOBIKE only an update moves a peer, and packets of ESP may.
        match has_mobike {
            true => self.end_test(id, path, now),
            false if is_moved => self.move_session(id, shown, LEAST_MESSAGE_BYTES, now),
            false => {}
        }
    }
}
