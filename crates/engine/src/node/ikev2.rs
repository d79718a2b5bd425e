//! Messages of IKEv2: their session, and the resulting facts.

use std::sync::Arc;

use super::first_message::First;
use super::half_open::{Begun, Room, Slot};
use super::ike::Ike;
use super::session::{Session, Stage};
use super::session_id::SessionId;
use super::{Event, Node, Output};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::{Fact, Fault, Notification, Outbox, Role, Sent, Size};
use crate::ikev2::Gate;
use crate::ikev2::message::{Message, is_of_this_version};
use crate::ikev2::session::{Means, Session as Ikev2};
use crate::rate::Rate;
use crate::sa::{ChildId, Path};
use crate::time::{Duration, Instant};

/// From this many half-open exchanges on, a first message needs a cookie (RFC 7296 §2.6). Without
/// load a cookie would cost every client a round trip.
pub(super) const COOKIE_THRESHOLD: usize = 100;
/// First messages that are refused without a cookie: these at once, then one in each interval. A
/// refusal costs a look at each suite, and leaves nothing half-open that would count as load.
pub(super) const REFUSALS: Rate = Rate::new(100, Duration::from_millis(50));

impl Node {
    /// Handles a message of IKEv2. Returns whether it was one that a connection here may have.
    pub(super) fn takes_ikev2(
        &mut self,
        path: Path,
        (octets, size): (&[u8], Size),
        now: Instant,
    ) -> bool {
        if !is_of_this_version(octets) {
            return false;
        }
        let speaks = |it: &Arc<Connection>| it.version.has_v2();
        if !self.config.connections.iter().any(speaks) {
            return false;
        }
        let message = match Message::of_size(octets, size) {
            Ok(message) => message,
            Err(reason) => {
                self.drops.count(reason);
                return true;
            }
        };
        let initiator = message.spis().initiator;
        let known = match message.is_first() {
            true => self.sessions.begun_by_v2(path.remote, initiator, octets),
            false => self.sessions.of_own_spi(message.own_spi()),
        };
        match known {
            Some(id) if self.sessions[&id].ike.is_v2() => {
                self.on_ikev2(id, path, &message, now);
                true
            }
            None if message.is_first() => self.on_first_of_ikev2(path, &message, now),
            _ => {
                match self.farewells.of_own_spi(message.own_spi()) {
                    Some(id) => self.on_farewell(id, path, &message, now),
                    None if self.repeats_end(path, &message, now) => {}
                    None => {
                        self.drops.count(DropReason::UnknownCookies);
                        self.deny_ike_sa(path, &message, now);
                    }
                }
                true
            }
        }
    }

    fn on_first_of_ikev2(&mut self, path: Path, message: &Message<'_>, now: Instant) -> bool {
        let mut candidates = self.config.between(path);
        candidates.retain(|it| it.version.has_v2());
        if candidates.is_empty() {
            // IKEv1 may be spoken with this peer, which is then told so.
            return false;
        }
        // An exchange with ourselves: an attacker who relays our messages between both ends of it
        // would make us authenticate ourselves.
        if self.has_ike_sa(message.spis().initiator) {
            self.drops.count(DropReason::Reflected);
            return true;
        }
        if self.is_stopping {
            self.drops.count(DropReason::NoConnection);
            return true;
        }
        let address = path.remote.ip();
        let (familiar, limits) = (&self.familiar, &self.config.limits);
        let random = &mut self.random;
        let (share, room) =
            self.half_open
                .room(Begun::Ikev2, address, familiar, limits, random, now);
        let is_loaded = self.half_open.total() >= COOKIE_THRESHOLD || room != Room::Free;
        let is_loaded = is_loaded || !self.refusals.has(REFUSALS, now) || limits.asks_cookies;
        let mut out = Outbox::default();
        let calendar = self.today(now);
        let gate = Gate {
            cookies: is_loaded.then_some(&mut self.cookies),
            away: self.away.to.as_ref(),
            tickets: Some(self.kept.tickets().0),
            is_full: room == Room::None,
            calendar,
        };
        let random = &mut self.random;
        let begun = Ikev2::respond(&candidates, path, message, gate, random, now, &mut out);
        match begun {
            Ok(mut ike) => {
                ike.give_up_at(now + self.config.limits.half_open_lifetime);
                if let Room::Of(oldest, _) = room {
                    self.make_room(oldest, now);
                }
                let slot = Slot::new(Begun::Ikev2, share, address, now);
                let stage = Stage::HalfOpen(Box::new(slot));
                let mut session = Session::new(Ike::V2(Box::new(ike)), stage, now);
                let spi = message.spis().initiator;
                let first = First::of_v2(path.remote, spi, message.octets());
                session.first_message = Some(Box::new(first));
                let id = self.sessions.add(session);
                self.half_open.begin(id, slot);
                self.flush(Some(id), out);
                self.arm_session(id);
            }
            Err(fault) => {
                self.flush(None, out);
                self.drops.count(fault.drop_reason());
                if !matches!(fault, Fault::Dropped(_)) {
                    self.refusals.take_one(REFUSALS, now);
                    self.outputs.tell(Event::NegotiationFailed {
                        connection: None,
                        path,
                        reason: fault.to_string(),
                    });
                }
            }
        }
        true
    }

    fn on_ikev2(&mut self, id: SessionId, path: Path, message: &Message<'_>, now: Instant) {
        if let Some(reason) = self.ignores(id, path, message, now) {
            return self.drops.count(reason);
        }
        let room = self.room_to_authenticate(id, message, now);
        if room == Room::None {
            return self.drops.count(DropReason::TooManyHalfOpen);
        }
        self.hear(id);
        let is_new = self.sessions.get(&id).is_some_and(|it| it.ike.has_phase1());
        let addresses = if is_new {
            self.own_addresses()
        } else {
            Vec::new()
        };
        let calendar = self.today(now);
        let has_quotas = self.config.limits.has_quotas;
        let maker = is_new.then(|| self.maker_of(None)).flatten();
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (home, mut out) = (session.path(), session.ike.outbox());
        let Some(ike) = session.ike.v2_mut() else {
            return;
        };
        let (was_proven, had_open_proof) = (ike.has_proven(), ike.has_open_proof());
        let means = Means {
            random: &mut self.random,
            quotas: has_quotas.then_some(&mut self.quotas),
            may_ask: self.radius.may_ask(path.remote.ip()),
            calendar,
            addresses: &addresses,
            maker,
        };
        let facts = ike.on_message(path, message, means, now, &mut out);
        if !message.is_first() && facts.iter().any(is_authentic) {
            self.half_open_heard(id, room, now);
        }
        let Some(ike) = self.sessions.get(&id).and_then(|it| it.ike.v2()) else {
            return;
        };
        if had_open_proof && !ike.has_open_proof() {
            self.proof_was_wrong(path.remote.ip(), now);
        }
        let Some(ike) = self.sessions.get(&id).and_then(|it| it.ike.v2()) else {
            return;
        };
        let answers = out.messages.iter().filter(|it| !it.step.is_request());
        let went: usize = answers.map(Sent::octets).sum();
        let is_answered = ike.role() == Role::Initiator && ike.has_proven() && !was_proven;
        let sizes = (message.octets().len() as u64, went as u64);
        self.credit(id, path, &facts, sizes, now);
        self.bound(&mut out, home, path, message.octets().len());
        self.withhold(id, &mut out);
        self.flush(Some(id), out);
        if is_answered {
            self.racer_heard(id, now);
        }
        for fact in facts {
            // The previous fact may have ended the session.
            if self.sessions.contains_key(&id) {
                self.on_ikev2_fact(id, path, fact, now);
            }
        }
        self.conclude(id, now);
        self.sessions.rename(id);
        self.arm_session(id);
        self.keep_secrets();
    }

    /// Why a message is not even read.
    fn ignores(
        &self,
        id: SessionId,
        path: Path,
        message: &Message<'_>,
        now: Instant,
    ) -> Option<DropReason> {
        let is_first_answer = message.is_response() && message.id() == 0;
        if is_first_answer && self.has_proven_elsewhere(id, now) {
            return Some(DropReason::UnexpectedMessage);
        }
        let session = self.sessions.get(&id)?;
        let is_elsewhere = session.began_elsewhere(path);
        is_elsewhere.then_some(DropReason::UnprovenPath)
    }

    /// Whether a half-open exchange may go on with this message: the next steps cost signatures.
    fn room_to_authenticate(&mut self, id: SessionId, message: &Message<'_>, now: Instant) -> Room {
        match self.sessions.get(&id).map(|it| &it.stage) {
            Some(Stage::HalfOpen(slot)) if !slot.is_proven() && !message.is_first() => {
                let (limits, random) = (&self.config.limits, &mut self.random);
                self.half_open.room_to_prove(**slot, limits, random, now)
            }
            _ => Room::Free,
        }
    }

    /// A message under keys has shown that the initiator of an exchange receives our answers.
    fn half_open_heard(&mut self, id: SessionId, room: Room, now: Instant) {
        let stage = self.sessions.get_mut(&id).map(|it| &mut it.stage);
        if let Some(Stage::HalfOpen(slot)) = stage
            && !slot.is_proven()
        {
            self.half_open.prove(id, slot, now);
            if let Room::Of(oldest, _) = room {
                self.make_room(oldest, now);
            }
        }
    }

    /// Sends the answer to the peer's request, with what was granted.
    pub(super) fn conclude(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        session.ike.conclude(&mut self.random, now, &mut out);
        self.withhold(id, &mut out);
        self.flush(Some(id), out);
        self.forget_overtaken(id, now);
    }

    pub(super) fn on_ikev2_fact(&mut self, id: SessionId, path: Path, fact: Fact, now: Instant) {
        match fact {
            Fact::Pending => {}
            Fact::Heard => self.authentic_from(id, path, now),
            Fact::Dropped(reason) => self.drops.count(reason),
            Fact::Unproven(fault) | Fact::Unreadable(fault) => {
                self.drops.count(fault.drop_reason());
            }
            Fact::Unfit(fault) | Fact::Failed(fault) => {
                self.drops.count(fault.drop_reason());
                self.fail_session(id, &fault, now);
            }
            Fact::Established(connection) => {
                self.establish(id, &connection, now);
                self.ask_for_ways(id);
                self.send_away_at_once(id, now);
            }
            Fact::SentTo(gateway) => self.sent_to(id, &gateway, now),
            Fact::AsksTicket | Fact::AsksAddress(_) | Fact::AsksChild(_)
                if self.is_sent_away(id) => {}
            Fact::AsksTicket => self.give_ticket(id, now),
            Fact::TicketTooLarge(octets, most) => self.tell_ticket_too_large(id, (octets, most)),
            Fact::Renewed => self.ike_sa_renewed(id, path, now),
            Fact::AsksAddress(wanted) => self.on_asks_address(id, path, &wanted, now),
            Fact::Lease(lease) => {
                self.authentic_from(id, path, now);
                self.take_lease(id, lease.unwrap_or_default(), now);
            }
            Fact::AsksChild(offer) => self.on_asks_child(id, path, &offer, now),
            Fact::Child(agreed) if !agreed.is_ours => {
                self.authentic_from(id, path, now);
                self.granted(id, &agreed, now);
            }
            Fact::Child(agreed) => {
                self.first_child_done(id, agreed.child);
                self.child_agreed(id, path, *agreed, Outbox::default(), now);
            }
            Fact::ChildFailed(child, spi, fault) => {
                self.first_child_done(id, child);
                self.drops.count(fault.drop_reason());
                self.child_failed(id, child, spi, &fault, now);
            }
            Fact::ChildPostponed(child, spi, after) => {
                self.authentic_from(id, path, now);
                self.child_postponed(child, spi, after, now);
            }
            Fact::Childless(child, spi) => {
                self.undo_exchange(child, spi);
                self.first_child_done(id, child);
            }
            Fact::Crashed => self.peer_crashed(id, now),
            Fact::AsksServer(question) => self.ask_server(id, *question, now),
            Fact::Told(_, notices) => self.on_told(id, path, notices, now),
            Fact::Unread(..) => {}
        }
    }

    /// What a peer said in an exchange that the session has answered.
    fn on_told(&mut self, id: SessionId, path: Path, notices: Vec<Notification>, now: Instant) {
        let proves = match notices[..] {
            [Notification::IAmHere(number), ..] => self.proves(id, path, number),
            _ => false,
        };
        self.authentic_from(id, path, now);
        if proves {
            self.prove(id);
        }
        for notice in notices {
            // The previous notice may have ended the session.
            if !self.sessions.contains_key(&id) {
                return;
            }
            match notice {
                Notification::Moved { came, went } => {
                    self.follow_update(id, path, (came, went), now);
                }
                Notification::Addresses { came, went } => {
                    self.addresses_told(id, path, (came, went), now);
                }
                other => self.on_peer_notice(id, other, now),
            }
        }
    }

    /// Some exchanges for children were not begun, because others stand in their place.
    pub(super) fn forget_overtaken(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        for fact in session.ike.take_overtaken() {
            if let Fact::ChildPostponed(child, spi, after) = fact {
                self.child_postponed(child, spi, after, now);
            }
        }
    }

    /// The child that was asked for together with the authentication is agreed or refused.
    fn first_child_done(&mut self, id: SessionId, child: ChildId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session
            .first_child
            .take_if(|(own, _)| *own == child)
            .is_some()
            && let Some(entry) = self.children.get_mut(&child)
        {
            entry.session = Some(id);
        }
    }

    /// The IKE SA was renewed: its lifetime begins again.
    fn ike_sa_renewed(&mut self, id: SessionId, path: Path, now: Instant) {
        self.authentic_from(id, path, now);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(connection) = session.connection().cloned() else {
            return;
        };
        session.begin_tenure(&connection, now);
        self.renew_ticket(id, now);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let keys = session.ike.take_message_keys();
        let keys = keys.map(|keys| Output::IkeKeys(session.ike.spis(), keys));
        let (Some(identity), Some((suite, _))) = (session.ike.identity(), session.ike.suite())
        else {
            return;
        };
        let nat = session.ike.nat();
        let event = Event::IkeEstablished {
            connection: connection.name.clone(),
            version: 2,
            peer: identity.to_string(),
            suite,
            ppk: session.ike.ppk().cloned(),
            has_full_transcript: session.ike.has_full_transcript(),
            is_resumed: false,
            path: session.path(),
            nat: (nat.is_local, nat.is_remote),
        };
        self.outputs.tell(event);
        if let Some(keys) = keys {
            self.outputs.push(keys);
        }
    }

    /// An exchange for a child is over without SAs of its own: others stand in their place, or it
    /// is tried again later.
    fn child_postponed(&mut self, child: ChildId, spi: u32, after: Option<Duration>, now: Instant) {
        self.undo_exchange(child, spi);
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        match (after, entry.current.is_some()) {
            (Some(after), true) => {
                entry.renew_by(now + after);
                self.arm_child(child);
            }
            (Some(after), false) => {
                let session = entry.session;
                if let Some(session) = session {
                    self.station_child_down(session, child, after, now);
                }
                self.drop_unused_child(child);
            }
            (None, true) => {}
            // The peer has not finished a new one.
            (None, false) => {
                let session = entry.session;
                let session = session.and_then(|id| self.sessions.get_mut(&id));
                if self.stations.of_child(child).is_none()
                    && let Some(session) = session
                {
                    session.held.children.retain(|it| *it != child);
                }
                self.drop_unused_child(child);
            }
        }
    }
}

/// Whether this comes of an authentic message.
fn is_authentic(fact: &Fact) -> bool {
    !matches!(
        fact,
        Fact::Dropped(_) | Fact::Unproven(_) | Fact::Unreadable(_)
    )
}
