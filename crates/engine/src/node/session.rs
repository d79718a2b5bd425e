//! A session: one ISAKMP SA from its first message on, the exchanges that run under it, and the
//! children that depend on it.

pub(super) mod message_ids;
mod predecessors;
mod quicks;

use std::net::IpAddr;
use std::sync::Arc;

use super::half_open::Place;
use super::liveness::{Liveness, UNHEARD};
use super::proof::Unproven;
use super::session_id::SessionId;
use super::silence::SmallQuestion;
use super::stay::AccountId;
use super::timers::renewal;
use super::{EndCause, Event, Node, Output, Timer};
use crate::config::Connection;
use crate::ike::round_trip::RoundTrip;
use crate::ike::{Fault, Outbox, Role, Spi};
use crate::ikev1::mode_config::{ConfigRequest, Lease};
use crate::ikev1::phase1::Phase1;
use crate::ikev1::{IsakmpSa, fragments, informational};
use crate::sa::{ChildId, Path};
use crate::site::Site;
use crate::time::{Deadline, Duration, Instant};
use message_ids::{MessageIds, RENEWAL_IDS};
pub(super) use quicks::PendingQuick;

/// Wait before a failed renewal is tried again.
const RENEWAL_RETRY: Duration = Duration::from_secs(10);
/// How long the old ISAKMP SA stays after a renewal.
const RENEWAL_OVERLAP: Duration = Duration::from_secs(3);

/// One ISAKMP SA and what depends on it.
pub(super) struct Session {
    /// Known to an initiator at once, to a responder when phase 1 is done.
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) role: Role,
    /// Kept after success while its last message may have to be sent again.
    pub(super) phase1: Option<Box<Phase1>>,
    pub(super) sa: Option<Box<IsakmpSa>>,
    pub(super) first_message: Option<Box<(std::net::SocketAddr, Spi)>>,
    pub(super) own_spi: Option<Spi>,
    pub(super) path: Path,
    pub(super) quicks: Vec<PendingQuick>,
    /// Children whose quick mode is to follow those that are under way.
    pub(super) waiting: Vec<ChildId>,
    /// Message IDs of all exchanges of phase 2 so far, including ours. A first message that comes
    /// back is not a new exchange.
    message_ids: MessageIds,
    pub(super) config_request: Option<Box<ConfigRequest>>,
    /// Our last mode config answer, for a duplicate of its request.
    pub(super) config_reply: Option<Box<ConfigReply>>,
    pub(super) lease: Option<Box<Lease>>,
    /// Addresses of our pools that stand for a peer of transport mode.
    pub(super) stand_ins: Vec<IpAddr>,
    pub(super) children: Vec<ChildId>,
    pub(super) liveness: Liveness,
    /// The peer has moved and has not answered from there.
    pub(super) unproven: Option<Box<Unproven>>,
    pub(super) asked_small: Option<Box<SmallQuestion>>,
    pub(super) rekey_at: Option<Instant>,
    pub(super) expire_at: Option<Instant>,
    /// The session that this one is to take over from.
    pub(super) replaces: Option<SessionId>,
    /// The session that took over from this one.
    pub(super) heir: Option<SessionId>,
    /// Of a responder, before there is an ISAKMP SA.
    pub(super) half_open: Option<Box<Place>>,
    /// What is known of the path to the peer.
    pub(super) round_trip: RoundTrip,
    /// Another address of the same gateway was first: this session is deleted when it is
    /// established.
    pub(super) is_surplus: bool,
    /// The account of the peer's stay, from the first child on.
    pub(super) account: Option<AccountId>,
    armed: Option<Instant>,
}

/// A mode config answer that was given.
pub(super) struct ConfigReply {
    pub(super) request: Vec<u8>,
    pub(super) reply: Vec<u8>,
    /// How often it was given again.
    pub(super) repetitions: u32,
}

impl ConfigReply {
    pub(super) fn given(request: Vec<u8>, reply: Vec<u8>) -> Box<Self> {
        Box::new(Self {
            request,
            reply,
            repetitions: 0,
        })
    }
}

impl Session {
    /// Where the peer has proven to be.
    pub(super) fn home(&self) -> Path {
        self.unproven.as_ref().map_or(self.path, |it| it.proven)
    }

    pub(super) fn new(role: Role, path: Path, now: Instant) -> Self {
        Self {
            connection: None,
            role,
            phase1: None,
            sa: None,
            first_message: None,
            own_spi: None,
            path,
            quicks: Vec::new(),
            waiting: Vec::new(),
            message_ids: MessageIds::default(),
            config_request: None,
            config_reply: None,
            lease: None,
            stand_ins: Vec::new(),
            children: Vec::new(),
            liveness: Liveness::new(now),
            unproven: None,
            asked_small: None,
            rekey_at: None,
            expire_at: None,
            replaces: None,
            heir: None,
            half_open: None,
            round_trip: RoundTrip::default(),
            is_surplus: false,
            account: None,
            armed: None,
        }
    }

    /// Whether an exchange of this message ID was begun or accepted.
    pub(super) fn has_seen(&self, message_id: u32) -> bool {
        self.message_ids.has(message_id)
    }

    /// Remembers the message ID of an exchange that must not happen twice. The caller arms the
    /// session's timer: the ISAKMP SA is to be renewed, or to end, where many IDs were used.
    pub(super) fn remember(&mut self, message_id: u32) {
        let before = self.message_ids.used();
        self.message_ids.add(message_id);
        let is_crossed = before < RENEWAL_IDS && self.message_ids.used() == RENEWAL_IDS;
        if is_crossed && self.heir.is_none() {
            self.rekey_at = Some(Instant(0));
        }
        if self.message_ids.are_used_up() {
            self.expire_at = Some(Instant(0));
        }
    }

    /// How long it sends into silence before it asks.
    pub(super) fn patience(&self) -> Duration {
        let delay = self.connection.as_ref().and_then(|it| it.dpd_delay);
        delay.unwrap_or(UNHEARD).min(UNHEARD)
    }

    fn deadline(&self) -> Option<Deadline> {
        let at = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        [
            self.phase1.as_ref().and_then(|phase1| phase1.deadline()),
            self.config_request
                .as_ref()
                .and_then(|request| request.deadline()),
            self.quicks
                .iter()
                .filter_map(|pending| pending.quick.deadline())
                .min(),
            at(self.rekey_at, "renew the ISAKMP SA"),
            at(self.expire_at, "the ISAKMP SA or its exchange expires"),
            self.liveness.deadline(),
            self.unproven.as_ref().map(|it| it.deadline()),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Node {
    pub(super) fn add_session(&mut self, session: Session) -> SessionId {
        // Strangers begin many sessions: numbers wrap around, and some are in use.
        while self.sessions.contains_key(&SessionId(self.next_session)) {
            self.next_session = self.next_session.wrapping_add(1);
        }
        let id = SessionId(self.next_session);
        self.next_session = self.next_session.wrapping_add(1);
        if let Some(spi) = session.own_spi {
            self.by_spi_of_ike.insert(spi, id);
        }
        if let Some(first) = &session.first_message {
            self.by_first_message.insert(**first, id);
        }
        self.sessions.insert(id, Box::new(session));
        id
    }

    /// Arms the session's timer anew; call after whatever changes its deadlines.
    pub(super) fn arm_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(&id) {
            let deadline = session.deadline();
            self.timers
                .arm(Timer::Session(id), &mut session.armed, deadline);
        }
    }

    /// Sends what a machine wrote: marker, fragments, event; adds up its work and drops.
    pub(super) fn flush(&mut self, id: Option<SessionId>, outbox: Outbox) {
        let session = id.and_then(|id| self.sessions.get_mut(&id));
        let mut name = None;
        if let Some(session) = session {
            let connection = session.connection.as_ref();
            name = connection.map(|connection| connection.name.clone());
            session.round_trip = outbox.learned().unwrap_or(session.round_trip);
        }
        if !outbox.messages.is_empty() && self.departing.last().copied() != id {
            self.departing.extend(id);
        }
        self.drops.merge(&outbox.drops);
        self.work.merge(&outbox.work);
        for received in outbox.received {
            self.tell(Event::Message {
                connection: name.clone(),
                step: received.step,
                is_sent: false,
                message_id: None,
                remote: None,
                bytes: received.bytes,
                datagrams: self.assembly.last_datagrams(),
                payloads: received.payloads,
            });
        }
        for sent in outbox.messages {
            self.next_fragment_id = self.next_fragment_id.wrapping_add(1).max(1);
            let message_id = sent.message_id();
            let parts = if sent.may_fragment {
                fragments::split(sent.message, self.next_fragment_id)
            } else {
                vec![sent.message]
            };
            let datagrams: Vec<Vec<u8>> = parts
                .into_iter()
                .map(|part| with_marker(sent.path, part))
                .collect();
            self.tell(Event::Message {
                connection: name.clone(),
                step: sent.step,
                is_sent: true,
                message_id,
                remote: Some(sent.path.remote),
                bytes: datagrams.iter().map(Vec::len).sum(),
                datagrams: datagrams.len(),
                payloads: sent.payloads,
            });
            for datagram in datagrams {
                self.outputs
                    .push_back(Output::Datagram(sent.path, datagram));
            }
        }
        for doubt in outbox.doubts {
            self.tell(Event::NegotiationFailed {
                connection: doubt.connection,
                path: doubt.path,
                reason: doubt.why,
            });
        }
    }

    /// Phase 1 has succeeded: takes its product, and goes on to mode config and children.
    pub(super) fn establish(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some((sa, connection)) = session.phase1.as_mut().and_then(|p| p.take_established())
        else {
            return;
        };
        if let Some(place) = session.half_open.take() {
            self.half_open.end(id, *place);
        }
        // The configuration may have changed during the exchange: the new one counts.
        let Some(connection) = self.config.successor(&connection).cloned() else {
            session.sa = Some(Box::new(sa));
            return self.close_session(id, EndCause::ConfigurationChanged, true, now);
        };
        let lifetime = core::time::Duration::from_secs(sa.lifetime_s);
        session.rekey_at = Some(
            now + renewal(
                lifetime,
                connection.lifetime,
                connection.rekey_margin,
                session.role,
            ),
        );
        session.expire_at = Some(now + lifetime);
        session.path = sa.path;
        if session.role == Role::Responder {
            self.familiar.add(Site::of(sa.path.remote.ip()), now);
        }
        session.liveness.establish(&connection, &sa, now);
        let event = Event::IkeEstablished {
            connection: connection.name.clone(),
            peer: sa.identity.to_string(),
            suite: sa.suite.to_string(),
            path: sa.path,
            nat: (sa.nat.is_local, sa.nat.is_remote),
        };
        let key = Output::IkeKey(sa.cookies.into(), sa.cipher_key.clone());
        let is_first_contact = sa.is_initial_contact;
        session.connection = Some(connection);
        self.quotas.enter(&sa.identity);
        self.speaker = Some(sa.identity.clone());
        self.by_identity.insert((sa.identity.clone(), id));
        session.sa = Some(Box::new(sa));
        let replaces = session.replaces.take();
        self.tell(event);
        self.outputs.push_back(key);
        self.settle_predecessors(id, replaces, is_first_contact, now);
        self.station_established(id, now);
        self.begin_waiting(id, now);
        self.arm_session(id);
        self.end_if_disbelieved(id, now);
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
        let children = core::mem::take(&mut session.children);
        for child in children {
            self.close_child(child, cause.clone(), tells_peer, now);
        }
        let pending = self.sessions[&id].quicks.iter();
        let pending: Vec<(ChildId, bool)> = pending
            .map(|pending| (pending.child, pending.quick.asked().is_some()))
            .collect();
        for (child, _) in &pending {
            self.abandon_quick(id, *child);
        }
        let message_id = self.fresh_message_id(id);
        let Some(mut session) = self.sessions.remove(&id) else {
            return;
        };
        if let (Some(sa), true) = (&session.sa, tells_peer) {
            let mut out = Outbox::default();
            let payload = informational::delete_ike(sa);
            informational::send(sa, vec![payload], message_id, &mut out);
            self.flush(None, out);
        }
        self.forget_session(id, &session, now);
        self.timers
            .arm(Timer::Session(id), &mut session.armed, None);
        if let Some(connection) = &session.connection {
            self.tell(Event::IkeClosed {
                connection: connection.name.clone(),
                cause: cause.clone(),
            });
        }
        self.end_stay(&session, cause.clone(), now);
        for (child, _) in pending.into_iter().filter(|(_, is_asked)| *is_asked) {
            // Another session took over: it continues the requests of this one.
            self.begin_quick(self.home_of(id, child), child, now);
        }
        if let Some(old) = session.replaces {
            self.renew_later(old, now);
        }
        self.station_lost(id, &cause, now);
    }

    /// A renewal of this session failed: it is tried again while the session stands.
    fn renew_later(&mut self, old: SessionId, now: Instant) {
        if let Some(session) = self.sessions.get_mut(&old).filter(|it| it.heir.is_none()) {
            session.rekey_at = Some(now + RENEWAL_RETRY);
            self.arm_session(old);
        }
    }

    fn forget_session(&mut self, id: SessionId, session: &Session, now: Instant) {
        if let Some(sa) = &session.sa
            && self.by_identity.remove(&(sa.identity.clone(), id))
        {
            self.quotas.leave(&sa.identity);
        }
        if let Some(place) = &session.half_open {
            self.half_open.fail(id, **place, now);
        }
        if let Some(spi) = session.own_spi {
            self.by_spi_of_ike.remove(&spi);
        }
        if let Some(first) = &session.first_message {
            self.by_first_message.remove(&**first);
        }
        // A renewal that we began may have made us the initiator: the roles do not tell who lends.
        let lends = |connection: &Arc<Connection>| !connection.wants_inner.is_any();
        if session.connection.as_ref().is_some_and(lends) {
            self.give_back(session.lease.as_deref());
        }
        let stand_ins = session.stand_ins.iter();
        stand_ins.for_each(|address| self.leases.give_back(*address));
    }

    /// A fault ended an exchange of this session's phase 1, or the session as a whole.
    pub(super) fn fail_session(&mut self, id: SessionId, fault: &Fault, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        self.tell(Event::NegotiationFailed {
            connection: session
                .connection
                .as_ref()
                .map(|connection| connection.name.clone()),
            path: session.path,
            reason: fault.to_string(),
        });
        self.begin_again(id, fault, now);
        self.close_session(id, EndCause::Failed(fault.to_string()), false, now);
    }

    pub(super) fn on_session_timer(&mut self, id: SessionId, now: Instant) {
        let mut out = Outbox::default();
        let result = self.fire_machines(id, now, &mut out);
        self.flush(Some(id), out);
        if let Err(fault) = result {
            return self.fail_session(id, &fault, now);
        }
        self.fire_quicks(id, now);
        self.begin_waiting(id, now);
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if session.expire_at.is_some_and(|at| at <= now) {
            let cause = match &session.sa {
                Some(_) if session.message_ids.are_used_up() => EndCause::MessageIdsUsedUp,
                Some(_) => EndCause::Expired,
                None => EndCause::NegotiationTooLong,
            };
            return self.close_session(id, cause, true, now);
        }
        if session.rekey_at.is_some_and(|at| at <= now) {
            self.rekey_session(id, now);
        }
        self.check_proof(id, now);
        self.check_liveness(id, now);
        self.arm_session(id);
    }

    fn fire_machines(
        &mut self,
        id: SessionId,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(());
        };
        let is_due = |deadline: Option<Deadline>| deadline.is_some_and(|d| d.at <= now);
        if let Some(phase1) = session.phase1.as_mut().filter(|p| is_due(p.deadline())) {
            phase1.on_deadline(now, out)?;
        }
        if session.sa.is_some()
            && session
                .phase1
                .as_ref()
                .is_some_and(|p| p.deadline().is_none())
        {
            self.forget_phase1(id);
        }
        let Some(session) = self.sessions.get_mut(&id) else {
            return Ok(());
        };
        if let Some(request) = session
            .config_request
            .as_mut()
            .filter(|r| is_due(r.deadline()))
        {
            request.on_deadline(now, out)?;
        }
        Ok(())
    }

    /// The peer has all of phase 1: none of its messages is sent again, and a first message under
    /// the same cookie is a new one. Nothing happens before there is an ISAKMP SA.
    pub(super) fn forget_phase1(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id).filter(|s| s.sa.is_some()) else {
            return;
        };
        if session.phase1.take().is_none() {
            return;
        }
        if let Some(first) = session.first_message.take() {
            self.by_first_message.remove(&*first);
        }
        self.arm_session(id);
    }

    fn fire_quicks(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = Outbox::default();
        let mut failed = Vec::new();
        session.quicks.retain_mut(|pending| {
            if pending
                .quick
                .deadline()
                .is_none_or(|deadline| deadline.at > now)
            {
                return true;
            }
            match pending.quick.on_deadline(now, &mut out) {
                Ok(is_over) => !is_over,
                Err(fault) => {
                    failed.push((pending.child, pending.spi, fault));
                    false
                }
            }
        });
        if session.quicks.is_empty() {
            // Most of its life a session has none.
            session.quicks = Vec::new();
        }
        self.flush(Some(id), out);
        for (child, spi, fault) in failed {
            self.quick_failed(id, child, spi, &fault, now);
        }
    }

    /// A message ID that no exchange under this session has used; never zero.
    pub(super) fn fresh_message_id(&mut self, id: SessionId) -> u32 {
        loop {
            let message_id = self.random.u32().max(1);
            let session = self.sessions.get(&id);
            if !session.is_some_and(|session| session.has_seen(message_id)) {
                return message_id;
            }
        }
    }

    /// As [`Session::remember`], the timer too.
    pub(super) fn remember(&mut self, id: SessionId, message_id: u32) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.remember(message_id);
            self.arm_session(id);
        }
    }
}

/// On every port but 500 an IKE message follows four zero octets (RFC 3948 §2.2).
pub(super) fn with_marker(path: Path, message: Vec<u8>) -> Vec<u8> {
    if !has_marker(path) {
        return message;
    }
    let mut datagram = Vec::with_capacity(message.len() + 4);
    datagram.extend_from_slice(&[0; 4]);
    datagram.extend_from_slice(&message);
    datagram
}

/// Whether IKE messages on this path carry the non-ESP marker.
pub(super) fn has_marker(path: Path) -> bool {
    path.local.port() == super::NAT_T_PORT
}
