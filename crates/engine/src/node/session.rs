//! A session: one IKE SA (of IKEv1: one ISAKMP SA) from its first message on, the exchanges that
//! run under it, and the children that depend on it.

mod predecessors;
mod stage;

use std::net::IpAddr;
use std::sync::Arc;

use super::first_message::First;
use super::ike::Ike;
use super::liveness::{Liveness, UNHEARD};

use super::proof::Unproven;
use super::roaming::Roaming;
use super::session_id::SessionId;
use super::silence::SmallQuestion;
use super::stay::AccountId;
use super::timers::renewal;
use super::{EndCause, Event, Node, Output, Timer};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::{Fault, Lease, Outbox, Role, Size, Spi, Wear};
use crate::ikev1::fragments;
use crate::sa::{ChildId, Path, Via};
use crate::site::Site;
use crate::time::{Deadline, Duration, Instant};
use wire::esp::NON_ESP_MARKER;

pub(super) use stage::{End, Purpose, Rule, Stage, Tenure};

/// Wait before a failed renewal is tried again.
const RENEWAL_RETRY: Duration = Duration::from_secs(10);
/// How long the old IKE SA of IKEv1 stays after a renewal.
const RENEWAL_OVERLAP: Duration = Duration::from_secs(3);

/// One IKE SA and what depends on it.
pub(super) struct Session {
    /// Its keys and exchanges.
    pub(super) ike: Ike,
    pub(super) stage: Stage,
    /// The key by which a responder finds the session when its first message is repeated.
    pub(super) first_message: Option<Box<First>>,
    pub(super) held: Held,
    pub(super) liveness: Liveness,
    /// The peer has moved and has not yet answered from there.
    pub(super) unproven: Option<Box<Unproven>>,
    /// None: it never moved.
    pub(super) roaming: Option<Box<Roaming>>,
    pub(super) asked_small: Option<Box<SmallQuestion>>,
    /// IKEv2: the child that we ask for with our authentication, and our SPI.
    pub(super) first_child: Option<(ChildId, u32)>,
    /// Our SPIs by which messages find it.
    pub(super) spis: Vec<Spi>,
    armed: Option<Instant>,
}

/// What a session holds for its peer. The session that takes over gets all of it.
#[derive(Default)]
pub(super) struct Held {
    pub(super) children: Vec<ChildId>,
    /// Children whose exchange waits for those in progress.
    pub(super) waiting: Vec<ChildId>,
    /// Inner addresses by mode config.
    pub(super) lease: Option<Box<Lease>>,
    /// Pool addresses that represent a peer of transport mode.
    pub(super) stand_ins: Vec<IpAddr>,
    /// The account of the peer's stay, from the first child on.
    pub(super) account: Option<AccountId>,
}

impl Held {
    /// Takes over what another session of the peer held. Returns addresses that both had: they were
    /// assigned twice.
    fn take_over(&mut self, from: Self) -> Vec<IpAddr> {
        self.children.extend(from.children);
        self.waiting.extend(from.waiting);
        self.account = self.account.or(from.account);
        let mut twice = Vec::new();
        match (&self.lease, from.lease) {
            (Some(_), Some(lease)) => twice.extend(lease.addresses),
            (None, lease) => self.lease = lease,
            (Some(_), None) => {}
        }
        for address in from.stand_ins {
            match self.stand_ins.contains(&address) {
                true => twice.push(address),
                false => self.stand_ins.push(address),
            }
        }
        twice
    }
}

impl Session {
    /// The path to the peer.
    pub(super) fn path(&self) -> Path {
        self.ike.path()
    }

    /// The proven path to the peer.
    pub(super) fn home(&self) -> Path {
        let unproven = self.unproven.as_ref();
        unproven.map_or_else(|| self.path(), |it| it.proven)
    }

    pub(super) fn new(ike: Ike, stage: Stage, now: Instant) -> Self {
        Self {
            ike,
            stage,
            first_message: None,
            held: Held::default(),
            liveness: Liveness::new(now),
            unproven: None,
            roaming: None,
            asked_small: None,
            first_child: None,
            spis: Vec::new(),
            armed: None,
        }
    }

    /// An initiator knows it at once, a responder once the peer has authenticated.
    pub(super) fn connection(&self) -> Option<&Arc<Connection>> {
        self.stage.connection()
    }

    /// The name of its connection, for events.
    pub(super) fn connection_name(&self) -> Option<String> {
        self.connection().map(|connection| connection.name.clone())
    }

    /// The session that this one will take over from.
    pub(super) fn replaces(&self) -> Option<SessionId> {
        match self.stage {
            Stage::Begun(_, Purpose::Renew(old)) => Some(old),
            _ => None,
        }
    }

    /// The session that took over from this one.
    pub(super) fn heir(&self) -> Option<SessionId> {
        match &self.stage {
            Stage::Established(_, tenure) => match tenure.rule {
                Rule::Replaced(by) => Some(by),
                Rule::Current(_) => None,
            },
            _ => None,
        }
    }

    /// Whether it is established, and no other has taken over.
    pub(super) fn is_current(&self) -> bool {
        self.ike.is_established() && self.heir().is_none()
    }

    /// Whether its connection has this name.
    pub(super) fn is_of(&self, connection: &str) -> bool {
        self.connection().is_some_and(|it| it.name == connection)
    }

    /// Whether it is half-open and began at another address than this one.
    pub(super) fn began_elsewhere(&self, path: Path) -> bool {
        let is_half_open = matches!(self.stage, Stage::HalfOpen(_));
        is_half_open && self.path().remote.ip() != path.remote.ip()
    }

    #[cfg(test)]
    pub(super) fn slot(&self) -> Option<&super::half_open::Slot> {
        match &self.stage {
            Stage::HalfOpen(slot) => Some(slot),
            _ => None,
        }
    }

    /// Whether another address of the same gateway authenticated first.
    pub(super) fn is_surplus(&self) -> bool {
        matches!(self.stage, Stage::Begun(_, Purpose::Surplus(_)))
    }

    /// Renews it, or ends it if its exchange numbers are used up.
    fn wear(&mut self, wear: Wear) {
        match wear {
            Wear::None => {}
            Wear::Renew => self.stage.renew_at(Some(Instant(0))),
            Wear::End => self.stage.use_up(),
        }
    }

    /// How long it sends without an answer before it probes.
    pub(super) fn patience(&self) -> Duration {
        let delay = self.connection().and_then(|it| it.dpd_delay);
        delay.unwrap_or(UNHEARD).min(UNHEARD)
    }

    fn deadline(&self) -> Option<Deadline> {
        let at = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        [
            self.ike.deadline(),
            at(self.stage.rekey_at(), "renew the IKE SA"),
            at(
                self.stage.end().map(|(at, _)| at),
                "the IKE SA or its exchange expires",
            ),
            self.liveness.deadline(),
            self.unproven.as_ref().map(|it| it.deadline()),
            at(
                self.roaming.as_ref().and_then(|it| it.tell_at),
                "tell the peer our addresses",
            ),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Session {
    /// Its lifetime, from now on.
    fn tenure(&self, connection: &Connection, now: Instant) -> Tenure {
        let lifetime = Duration::from_secs(self.ike.lifetime_s());
        let (own, margin) = (connection.lifetime, connection.rekey_margin);
        let rekey_at = now + renewal(lifetime, own, margin, self.ike.role());
        Tenure {
            rule: Rule::Current(Some(rekey_at)),
            end: End::At(now + lifetime),
        }
    }

    /// Its lifetime begins again.
    pub(super) fn begin_tenure(&mut self, connection: &Connection, now: Instant) {
        let new = self.tenure(connection, now);
        if let Stage::Established(_, tenure) = &mut self.stage {
            *tenure = new;
        }
    }
}

impl Node {
    /// Rearms the session's timer. Call it after every change of its deadlines.
    pub(super) fn arm_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            let deadline = session.deadline();
            self.timers
                .arm(Timer::Session(id), &mut session.armed, deadline);
        }
    }

    /// Sends the messages of an outbox: marker, fragments, event. Adds up its work and drops.
    pub(super) fn flush(&mut self, id: Option<SessionId>, outbox: Outbox) {
        let session = id.and_then(|id| self.sessions.get_mut(&id));
        let mut name = None;
        if let Some(session) = session {
            name = session.connection_name();
            session.ike.learn(&outbox);
            session.wear(outbox.wear);
        }
        if let (Some(id), true) = (id, outbox.wear > Wear::None) {
            self.arm_session(id);
        }
        if let (Some(id), false) = (id, outbox.messages.is_empty()) {
            self.departures.add(id);
        }
        self.drops.merge(&outbox.drops);
        self.work.merge(&outbox.work);
        for received in outbox.received {
            self.outputs.tell(Event::Message {
                connection: name.clone(),
                step: received.step,
                is_sent: false,
                message_id: None,
                remote: None,
                bytes: received.size.bytes,
                datagrams: received.size.datagrams,
                payloads: received.payloads,
            });
        }
        for sent in outbox.messages {
            self.next_fragment_id = self.next_fragment_id.wrapping_add(1).max(1);
            let message_id = sent.message_id();
            let mut parts = if sent.may_fragment {
                fragments::split(sent.message, self.next_fragment_id)
            } else {
                vec![sent.message]
            };
            parts.extend(sent.more);
            let datagrams: Vec<Vec<u8>> = parts
                .into_iter()
                .map(|part| with_marker(sent.path, part))
                .collect();
            let size: Size = datagrams.iter().map(|it| Size::of(it)).sum();
            self.outputs.tell(Event::Message {
                connection: name.clone(),
                step: sent.step,
                is_sent: true,
                message_id,
                remote: Some(sent.path.remote),
                bytes: size.bytes,
                datagrams: size.datagrams,
                payloads: sent.payloads,
            });
            for datagram in datagrams {
                self.outputs.push(Output::Datagram(sent.path, datagram));
            }
        }
        for rejection in outbox.rejections {
            self.outputs.tell(Event::NegotiationFailed {
                connection: rejection.connection,
                path: rejection.path,
                reason: rejection.why,
            });
        }
    }

    /// Both ends have authenticated, in an exchange begun for this connection: continues with inner
    /// addresses and children.
    pub(super) fn establish(&mut self, id: SessionId, begun: &Connection, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        // The configuration may have changed during the exchange: the new one counts.
        let Some(connection) = self.config.successor(begun).cloned() else {
            return self.close_session(id, EndCause::ConfigurationChanged, true, now);
        };
        let path = session.path();
        let is_responder = session.ike.role() == Role::Responder;
        if is_responder && self.is_outdated(id, begun, &connection) {
            return self.close_session(id, EndCause::ConfigurationChanged, true, now);
        }
        if !connection.has_room_at(path.remote.ip()) {
            return self.refuse_address(id, &connection, now);
        }
        if self.refuses_downgrade(id, &connection, now) || self.refuses_ticket(id, &connection, now)
        {
            return;
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let tenure = session.tenure(&connection, now);
        if is_responder {
            self.familiar.add(Site::of(path.remote.ip()), now);
        }
        session.liveness.establish(&connection, &session.ike, now);
        let keys = session.ike.take_message_keys();
        let (Some(identity), Some((suite, _))) =
            (session.ike.identity().cloned(), session.ike.suite())
        else {
            return;
        };
        let nat = session.ike.nat();
        let event = Event::IkeEstablished {
            connection: connection.name.clone(),
            version: session.ike.version(),
            peer: identity.to_string(),
            suite,
            ppk: session.ike.ppk().cloned(),
            has_full_transcript: session.ike.has_full_transcript(),
            is_resumed: session.ike.is_resumed(),
            path,
            nat: (nat.is_local, nat.is_remote),
        };
        let keys = keys.map(|keys| Output::IkeKeys(session.ike.spis(), keys));
        let is_first_contact = session.ike.is_initial_contact();
        let before = core::mem::replace(&mut session.stage, Stage::Established(connection, tenure));
        let purpose = match before {
            Stage::Begun(_, purpose) => purpose,
            Stage::HalfOpen(slot) => {
                self.half_open.end(id, *slot);
                Purpose::Connect
            }
            Stage::Established(..) => return,
        };
        self.quotas.enter(&identity);
        self.outputs.blame(Some(identity.clone()));
        self.sessions.enter(id, identity);
        self.outputs.tell(event);
        if let Some(keys) = keys {
            self.outputs.push(keys);
        }
        self.settle_predecessors(id, purpose, is_first_contact, now);
        self.station_established(id, purpose, now);
        self.begin_waiting(id, now);
        self.arm_session(id);
        self.end_if_disbelieved(id, now);
    }

    /// The peer is at an address that no tunnel can lead to.
    fn refuse_address(&mut self, id: SessionId, connection: &Connection, now: Instant) {
        let session = &self.sessions[&id];
        let path = session.path();
        let peer = session.ike.identity().map(ToString::to_string);
        self.drops.count(DropReason::UnusableAddress);
        self.outputs.tell(Event::NegotiationFailed {
            connection: Some(connection.name.clone()),
            path,
            reason: format!(
                "{} has no pool address and is at {}, which no route can lead to",
                peer.unwrap_or_default(),
                path.remote.ip()
            ),
        });
        self.close_session(id, EndCause::Unroutable, true, now);
    }

    /// Ends a session and the children that are still its own. `tells_peer`: deletes are sent.
    pub(super) fn close_session(
        &mut self,
        id: SessionId,
        cause: EndCause,
        tells_peer: bool,
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let children = core::mem::take(&mut session.held.children);
        let had_children = children.iter().any(|child| self.children.is_up(*child));
        // In IKEv2 they end with their IKE SA (RFC 7296 §1.4.1).
        let deletes_each = tells_peer && !session.ike.is_v2();
        for child in children {
            self.close_child(child, cause.clone(), deletes_each, now);
        }
        let pending = self.sessions[&id].ike.exchanges().into_iter();
        let pending: Vec<(ChildId, bool)> = pending.map(|it| (it.child, it.is_asked)).collect();
        for (child, _) in &pending {
            self.abandon_child(id, *child);
        }
        self.abandon_first_child(id);
        let exchange = self.sessions[&id].ike.next_exchange(&mut self.random);
        self.forget_question(id);
        self.settle_ticket(id, &cause);
        let Some(mut session) = self.sessions.remove(id) else {
            return;
        };
        // The peer of an exchange that has failed may have been told already.
        let mut is_leaving = session.ike.v2().is_some_and(|ike| ike.is_telling());
        if tells_peer {
            let mut out = session.ike.outbox();
            let random = &mut self.random;
            is_leaving = session.ike.leave(exchange, random, now, &mut out);
            let there = session.path().remote.ip();
            if let (true, Some(unproven)) = (session.ike.is_v2(), &mut session.unproven) {
                unproven.withhold(there, &mut out);
            }
            self.flush(None, out);
        }
        self.give_up(id, &session, &cause, now);
        self.timers
            .arm(Timer::Session(id), &mut session.armed, None);
        if let Some(connection) = session.connection() {
            self.outputs.tell(Event::IkeClosed {
                connection: connection.name.clone(),
                had_children,
                cause: cause.clone(),
            });
        }
        let (replaced, stay) = (session.replaces(), (session.held.account, session.path()));
        if let Ike::V2(mut ike) = session.ike {
            let is_by_peer = matches!(cause, EndCause::DeletedByPeer | EndCause::Failed(_));
            match is_leaving {
                true => self.say_farewell(id, ike, session.unproven, now),
                false if is_by_peer => self.last_answers.keep(ike.take_answers(), now),
                false => {}
            }
        }
        self.end_stay(stay, cause.clone(), now);
        for (child, _) in pending.into_iter().filter(|(_, is_asked)| *is_asked) {
            // Another session took over: it continues the requests of this one.
            self.begin_child(self.home_of(id, child), child, now);
        }
        if let Some(old) = replaced {
            self.renew_later(old, now);
        }
        self.station_lost(id, &cause, now);
    }

    /// A renewal of this session failed: it is tried again while the session stands.
    fn renew_later(&mut self, old: SessionId, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&old) {
            session.stage.renew_at(Some(now + RENEWAL_RETRY));
            self.arm_session(old);
        }
    }

    /// Releases the entries and addresses of a session that was just removed.
    fn give_up(&mut self, id: SessionId, session: &Session, cause: &EndCause, now: Instant) {
        let has_open_proof = session.ike.v2().is_some_and(|ike| ike.has_open_proof());
        if has_open_proof && !cause.is_ours() {
            self.proof_was_wrong(session.path().remote.ip(), now);
        }
        match (&session.stage, session.ike.identity()) {
            (Stage::Established(..), Some(identity)) => self.quotas.leave(identity),
            (Stage::HalfOpen(slot), _) => self.half_open.fail(id, **slot, now),
            _ => {}
        }
        // A renewal of ours may have made us the initiator, so the role does not tell who assigns
        // addresses.
        let lends = |connection: &Arc<Connection>| !connection.wants_inner.is_any();
        if session.connection().is_some_and(lends) {
            self.give_back(session.held.lease.as_deref());
        }
        let stand_ins = session.held.stand_ins.iter();
        stand_ins.for_each(|address| self.leases.give_back(*address));
    }

    /// A fault ended an exchange of this session's authentication, or the session as a whole.
    pub(super) fn fail_session(&mut self, id: SessionId, fault: &Fault, now: Instant) {
        let then = match fault {
            Fault::Misdirected(_) => self.station_misdirected(id, now),
            _ => None,
        };
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        self.outputs.tell(Event::NegotiationFailed {
            connection: session.connection_name(),
            path: session.path(),
            reason: format!("{fault}{}", then.unwrap_or_default()),
        });
        // A peer that is there and has not ended it itself may consider the session established.
        let is_over_there = matches!(fault, Fault::TimedOut(_) | Fault::Unauthenticated(_));
        let tells = !is_over_there && session.ike.is_v2() && session.ike.is_established();
        if matches!(fault, Fault::PasswordRefused(_)) {
            self.station_refused(id);
        }
        self.begin_again(id, fault, now);
        self.close_session(id, EndCause::Failed(fault.to_string()), tells, now);
    }

    pub(super) fn on_session_timer(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = Outbox::default();
        let result = session.ike.on_deadline(&mut self.random, now, &mut out);
        self.withhold(id, &mut out);
        self.flush(Some(id), out);
        match result {
            Ok(true) => self.sessions.forget_first_message(id),
            Ok(false) => {}
            Err(fault) => return self.fail_session(id, &fault, now),
        }
        self.forget_overtaken(id, now);
        self.fire_children(id, now);
        self.begin_waiting(id, now);
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if let Some((at, cause)) = session.stage.end()
            && at <= now
        {
            return self.close_session(id, cause, true, now);
        }
        if session.stage.rekey_at().is_some_and(|at| at <= now) {
            self.rekey_session(id, now);
        }
        self.check_proof(id, now);
        self.tell_late(id, now);
        self.check_liveness(id, now);
        self.sessions.rename(id);
        self.arm_session(id);
    }

    /// The peer has all of our authentication: a first message with the same SPI is a new one. Does
    /// nothing before the session is established.
    pub(super) fn forget_phase1(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !session.ike.forget_phase1() {
            return;
        }
        self.sessions.forget_first_message(id);
        self.arm_session(id);
    }

    fn fire_children(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = Outbox::default();
        let failed = session.ike.on_child_deadlines(now, &mut out);
        self.flush(Some(id), out);
        for (child, spi, fault) in failed {
            self.child_failed(id, child, spi, &fault, now);
        }
    }
}

/// An IKE message in its form on this path: behind a marker if ESP shares the socket (RFC 3948
/// §2.2).
pub(super) fn with_marker(path: Path, message: Vec<u8>) -> Vec<u8> {
    if path.via != Via::UdpWithMarker {
        return message;
    }
    [&NON_ESP_MARKER[..], &message].concat()
}
