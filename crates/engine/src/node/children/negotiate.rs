//! Quick mode for the children of a session: initiate, answer, accept or refuse, and install the
//! SAs.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::session::PendingQuick;
use super::super::session_id::SessionId;
use super::super::timers::renewal;
use super::super::{Event, Node};
use super::crossing::overlap;
use super::selectors::{
    association, holds_local, holds_remote, is_renewal, mismatch, one_family, wanted_selectors,
};
use super::takeover::{READING_TIME, TAKEOVER_DELAY};
use super::{ChildEntry, Pair, REFUSED_RETRY};
use crate::config::{Child, Connection, Encapsulation};
use crate::counters::DropReason;
use crate::ike::{Fault, Outbox, Role};
use crate::ikev1::informational;
use crate::ikev1::informational::ProposedSpi;
use crate::ikev1::message::Message;
use crate::ikev1::quick::{
    Groups, NegotiatedChild, Quick, QuickOffer, QuickProgress, QuickRequest,
};
use crate::plane::Change;
use crate::sa::{ChildId, Direction, Mode, Path};
use crate::time::{Duration, Instant};

impl Node {
    /// Begins quick mode for a child under a session, or lets it wait for its turn.
    pub(in super::super) fn begin_quick(&mut self, id: SessionId, child: ChildId, now: Instant) {
        let Some(session) = self.sessions.get(&id).filter(|it| it.sa.is_some()) else {
            return;
        };
        let mut quicks = session.quicks.iter();
        let is_begun = quicks.any(|pending| pending.child == child && !pending.quick.is_done());
        let Some(entry) = self.children.get_mut(&child).filter(|_| !is_begun) else {
            return;
        };
        entry.session = Some(id);
        entry.rekey_at = None;
        if !self.has_turn(id, child) {
            return self.arm_child(child);
        }
        let spi = self.fresh_spi(child);
        let message_id = self.fresh_message_id(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (Some(sa), Some(entry)) = (session.sa.as_ref(), self.children.get_mut(&child)) else {
            return;
        };
        let remote = entry.remote;
        let leads_to = |address: &&IpAddr| {
            remote.is_none_or(|remote| remote.first.is_ipv4() == address.is_ipv4())
        };
        let lease = session.lease.as_ref();
        let inner = lease.and_then(|lease| lease.addresses.iter().find(leads_to).copied());
        let (local, remote) = wanted_selectors(entry, session.path, inner);
        let request = QuickRequest {
            child: entry.child(),
            spi,
            local,
            remote,
            needs_udp: entry.connection.encapsulation == Encapsulation::Always,
            groups: Groups {
                agreed: entry.current.map(|pair| pair.suite.pfs),
                refused: &entry.refused,
            },
        };
        let mut out = Outbox::over(session.round_trip);
        let random = &mut self.random;
        let begun = one_family(&local, &remote)
            .and_then(|()| Quick::initiate(sa, request, message_id, random, now, &mut out));
        match begun {
            Ok(quick) => {
                session.keep_quick(PendingQuick {
                    quick: Box::new(quick),
                    child,
                    spi,
                    begun: now,
                    renews: entry.current.map(|pair| pair.spi_in),
                });
                self.flush(Some(id), out);
                self.arm_session(id);
                self.arm_child(child);
            }
            Err(fault) => {
                self.flush(Some(id), out);
                self.quick_failed(id, child, spi, &fault, now);
            }
        }
    }

    pub(in super::super) fn on_quick(
        &mut self,
        id: SessionId,
        path: Path,
        message: &Message<'_>,
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(sa) = session.sa.as_ref() else {
            return self.drops.count(DropReason::UnexpectedMessage);
        };
        let mut out = Outbox::over(session.round_trip);
        let of_message = |pending: &&mut PendingQuick| pending.quick.message_id() == message.id();
        let Some(pending) = session.quicks.iter_mut().find(of_message) else {
            if session.has_seen(message.id()) {
                return self.drops.count(DropReason::RetransmittedMessage);
            }
            return self.on_quick_offer(id, path, message.octets(), now);
        };
        let (child, spi) = (pending.child, pending.spi);
        let message_id = message.id();
        let progress = pending
            .quick
            .on_message(sa, message.octets(), now, &mut out);
        let is_ours = pending.quick.is_initiator();
        out.answer_repetition_at(path, session.role);
        match progress {
            // A duplicate, or what does not prove itself.
            Ok(QuickProgress::Pending) => {
                let is_repeated = is_ours && !out.messages.is_empty();
                self.flush(Some(id), out);
                if is_repeated {
                    self.wait_for_reader(child, spi, now);
                }
            }
            Ok(progress) => {
                let proves = self.quick_proves(id, path, message_id);
                self.authentic_from(id, path, now);
                if proves {
                    self.prove(id);
                }
                if is_ours {
                    self.ready_to_receive(id, child, &progress);
                }
                self.flush(Some(id), out);
                self.quick_progress(id, child, progress, now);
            }
            Err(fault) => {
                self.flush(Some(id), out);
                self.count_fault(&fault);
                let proves_nothing = matches!(
                    fault,
                    Fault::Malformed(_) | Fault::Misbehaved(_) | Fault::Dropped(_)
                );
                if !proves_nothing {
                    self.quick_failed(id, child, spi, &fault, now);
                }
            }
        }
        self.begin_waiting(id, now);
        self.arm_session(id);
    }

    /// Message 1 of a quick mode that the peer begins.
    fn on_quick_offer(&mut self, id: SessionId, path: Path, message: &[u8], now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (Some(sa), Some(connection)) = (session.sa.as_ref(), session.connection.clone()) else {
            return;
        };
        if session.open_quicks() >= self.config.limits.quick_modes {
            return self.drops.count(DropReason::TooManyExchanges);
        }
        let mut out = Outbox::default();
        let offered = Quick::offered(sa, message, &mut out);
        self.flush(Some(id), out);
        let (quick, offer) = match offered {
            Ok(offered) => offered,
            Err(fault) => return self.count_fault(&fault),
        };
        if let Err(reason) = self.charge_child(id, &connection, now) {
            // It is sent again, and is served then. Nobody remembers that it was here, so it shows
            // nothing about where the peer is: it may be a replay.
            self.drops.count(reason);
            return self.tell_refused(path);
        }
        self.authentic_from(id, path, now);
        match self.child_for(id, &connection, &offer) {
            Ok(child) => self.accept_quick(id, child, quick, now),
            Err(fault) => {
                self.remember(id, quick.message_id());
                self.count_fault(&fault);
                self.refuse(id, &fault, quick.proposed());
            }
        }
    }

    fn accept_quick(&mut self, id: SessionId, child: ChildId, mut quick: Quick, now: Instant) {
        let spi = self.fresh_spi(child);
        let heir = self.heir_of(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (Some(sa), Some(entry)) = (session.sa.as_ref(), self.children.get_mut(&child)) else {
            return;
        };
        entry.session = Some(heir);
        let renews = entry.current.map(|pair| pair.spi_in);
        let own = session.path.local.ip();
        let proposed = quick.proposed();
        let mut out = Outbox::over(session.round_trip);
        let accepted = quick.accept(sa, entry.child(), spi, own, &mut self.random, now, &mut out);
        match accepted {
            Ok(progress) => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.make_room(self.config.limits.quick_modes);
                    session.keep_quick(PendingQuick {
                        quick: Box::new(quick),
                        child,
                        spi,
                        begun: now,
                        renews,
                    });
                }
                if let Some(session) = self.sessions.get_mut(&heir)
                    && !session.children.contains(&child)
                {
                    session.children.push(child);
                }
                // The peer may send as soon as it reads message 2: install the inbound SA first.
                self.quick_progress(id, child, progress, now);
                self.flush(Some(id), out);
                self.arm_session(id);
            }
            Err(fault) => {
                self.remember(id, quick.message_id());
                self.flush(Some(id), out);
                self.count_fault(&fault);
                self.by_spi.remove(&spi);
                self.refuse(id, &fault, proposed);
                self.drop_unused_child(child);
            }
        }
    }

    /// The child for an offer: the one that it renews, otherwise a new one of the first configured
    /// child with a matching mode and selectors.
    fn child_for(
        &mut self,
        id: SessionId,
        connection: &Arc<Connection>,
        offer: &QuickOffer,
    ) -> Result<ChildId, Fault> {
        one_family(&offer.local, &offer.remote)?;
        let session = &self.sessions[&id];
        let held = &self.sessions[&self.heir_of(id)].children;
        let renewed = held.iter().copied().find(|child| {
            let current = self.children.get(child).and_then(|entry| entry.current);
            current.is_some_and(|pair| is_renewal(&pair, offer))
        });
        if let Some(child) = renewed {
            return Ok(child);
        }
        let path = session.path;
        let inner = self.lease_of(id).map(|lease| lease.addresses);
        let inner: Vec<IpAddr> = inner.unwrap_or_default();
        let fits = |child: &Child| {
            child.mode == offer.mode
                && holds_local(child, &offer.local, path)
                && holds_remote(child, &offer.remote, &inner)
        };
        let Some(index) = connection.children.iter().position(fits) else {
            return Err(mismatch(connection, offer, &inner));
        };
        // A peer with several sessions has no more children than one with one.
        let siblings = self.siblings(id).into_iter();
        let siblings = siblings.filter_map(|it| self.sessions.get(&it));
        let held: usize = siblings.map(|it| it.children.len()).sum();
        if session.children.len() + held >= self.config.limits.children {
            return Err(DropReason::TooManyExchanges.into());
        }
        self.check_claim(id, connection, &connection.children[index], offer)?;
        let stand_in = match offer.mode {
            Mode::Transport => self.stand_in(id, connection)?,
            Mode::Tunnel => None,
        };
        let selectors = (Some(offer.local), Some(offer.remote));
        let child = self.add_child(connection, index, false, selectors);
        if let Some(entry) = self.children.get_mut(&child) {
            entry.pool_address = stand_in;
        }
        Ok(child)
    }

    fn quick_progress(
        &mut self,
        id: SessionId,
        child: ChildId,
        progress: QuickProgress,
        now: Instant,
    ) {
        let home = self.home_of(id, child);
        match progress {
            QuickProgress::Pending => {}
            QuickProgress::InboundReady(negotiated) => {
                self.install(home, child, &negotiated, Direction::Inbound);
                self.expect_answers(home, child, &negotiated);
            }
            QuickProgress::Complete(negotiated) => {
                let Some(negotiated) = negotiated else { return };
                if !self.children.contains_key(&child) {
                    // Deleted between our answer and message 3.
                    return self.remove_inbound(child, negotiated.spi_in);
                }
                let of_pair = |it: &&PendingQuick| it.spi == negotiated.spi_in;
                let quicks = self.sessions.get(&id).map(|session| &session.quicks);
                let Some(pending) = quicks.and_then(|all| all.iter().find(of_pair)) else {
                    return;
                };
                let is_ours = pending.quick.is_initiator();
                let (new, renews) = (pending.pair(&negotiated, now), pending.renews);
                if self.is_outdone(child, &new, renews) {
                    return self.keep_beside(child, new);
                }
                let is_up = |entry: &ChildEntry| entry.current.is_some();
                if self.children.get(&child).is_some_and(|entry| is_up(entry)) {
                    let latest = if is_ours {
                        READING_TIME
                    } else {
                        TAKEOVER_DELAY
                    };
                    self.take_over_later(home, child, negotiated.clone(), now + latest);
                } else {
                    self.install(home, child, &negotiated, Direction::Outbound);
                }
                if !is_ours && !self.is_of_station(child) {
                    self.change(Direction::Outbound, Change::Forget(child));
                }
                if let Some(session) = self.sessions.get_mut(&id) {
                    // A peer that has a child has received our mode config answer.
                    session.config_reply = None;
                }
                self.child_established(home, child, &negotiated, new);
            }
        }
    }

    /// The peer may send as soon as it reads message 3: our inbound SA is installed before it
    /// leaves.
    fn ready_to_receive(&mut self, id: SessionId, child: ChildId, progress: &QuickProgress) {
        if let QuickProgress::Complete(Some(negotiated)) = progress
            && self.children.contains_key(&child)
        {
            let home = self.home_of(id, child);
            self.install(home, child, negotiated, Direction::Inbound);
        }
    }

    pub(super) fn install(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: &NegotiatedChild,
        direction: Direction,
    ) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let (path, home) = (session.path, session.home());
        let Some(entry) = self.children.get(&child) else {
            return;
        };
        let sa = association(entry, negotiated, direction, (path, home));
        let place = (child, direction, sa.spi);
        self.by_spi.insert(negotiated.spi_in, child);
        self.charge(self.heir_of(id), place);
        self.change(direction, Change::Install(Box::new(sa)));
        if direction == Direction::Outbound {
            self.limit_new(id, child);
        }
    }

    /// The initiator may send packets right after message 3, and a server may answer them before we
    /// have read message 3. The answer waits for the outbound SA.
    fn expect_answers(&mut self, id: SessionId, child: ChildId, negotiated: &NegotiatedChild) {
        let (Some(session), Some(entry)) = (self.sessions.get(&id), self.children.get(&child))
        else {
            return;
        };
        if entry.current.is_some() || entry.is_ours {
            return;
        }
        let path = session.home();
        let (local, remote) = match negotiated.mode {
            Mode::Tunnel => (negotiated.local, negotiated.remote),
            Mode::Transport => {
                let peer = entry.pool_address.unwrap_or(path.remote.ip());
                let own = path.local.ip();
                (negotiated.local.at(own), negotiated.remote.at(peer))
            }
        };
        let expect = Change::Expect(child, vec![local], vec![remote]);
        self.change(Direction::Outbound, expect);
    }

    fn child_established(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: &NegotiatedChild,
        new: Pair,
    ) {
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let (is_ours, now) = (new.is_ours, new.since);
        let is_rekey = entry.current.is_some();
        if let Some(old) = entry.current.replace(new) {
            entry.old.push((old, now + overlap(&new)));
        }
        let lifetime = Duration::from_secs(negotiated.lifetime_s);
        let role = if is_ours {
            Role::Initiator
        } else {
            Role::Responder
        };
        let (own, margin) = (entry.child().lifetime, entry.child().rekey_margin);
        entry.rekey_at = Some(now + renewal(lifetime, own, margin, role));
        entry.expire_at = Some(now + lifetime);
        entry.is_ours |= is_ours;
        entry.refused = Vec::new();
        let event = Event::ChildEstablished {
            connection: entry.connection.name.clone(),
            child: entry.child().name.clone(),
            suite: negotiated.suite.to_string(),
            spis: (negotiated.spi_in, negotiated.spi_out),
            is_rekey,
        };
        self.tell(event);
        if is_ours && !is_rekey {
            self.tell_narrowed(id, child, new);
        }
        if let Some(session) = self.sessions.get_mut(&id)
            && !session.children.contains(&child)
        {
            session.children.push(child);
        }
        self.arm_child(child);
        self.tell_stay(id, now);
        self.station_child_up(id, now);
    }

    /// The peer protects only a part of what we asked for: the rest is refused.
    fn tell_narrowed(&mut self, id: SessionId, child: ChildId, pair: Pair) {
        let (Some(session), Some(entry)) = (self.sessions.get(&id), self.children.get(&child))
        else {
            return;
        };
        let is_tunnel = pair.mode == Mode::Tunnel;
        let asked = entry.remote.filter(|it| is_tunnel && *it != pair.remote);
        let asked = asked.or_else(|| entry.local.filter(|it| is_tunnel && *it != pair.local));
        let Some(asked) = asked else { return };
        let event = Event::PeerComplains {
            connection: Some(entry.connection.name.clone()),
            path: session.path,
            complaint: format!(
                "it protects only {} === {}, not all of {asked}; nothing else passes",
                pair.local, pair.remote
            ),
        };
        self.tell(event);
    }

    /// A quick mode ended without SAs. The caller starts the next one.
    pub(in super::super) fn quick_failed(
        &mut self,
        id: SessionId,
        child: ChildId,
        spi: u32,
        fault: &Fault,
        now: Instant,
    ) {
        let quicks = self.sessions.get(&id).map(|session| &session.quicks);
        let failed = quicks.and_then(|quicks| quicks.iter().find(|pending| pending.spi == spi));
        let proposed = failed.and_then(|pending| pending.quick.proposed());
        self.refuse(id, fault, proposed);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.quicks.retain(|pending| pending.spi != spi);
        }
        let home = self.home_of(id, child);
        let mut entry = self.children.get_mut(&child);
        if let Some(entry) = &mut entry {
            entry.refused = Vec::new();
        }
        let up = entry.as_mut().filter(|entry| entry.current.is_some());
        let is_up = up.is_some();
        if let Some(entry) = up {
            // A failed renewal is tried again before the old SAs expire.
            entry.rekey_at.get_or_insert(now + REFUSED_RETRY);
        }
        // A responder's inbound SA was installed with message 2.
        self.remove_inbound(child, spi);
        if is_up {
            self.arm_child(child);
        } else {
            self.drop_unused_child(child);
            self.station_child_down(home, child, REFUSED_RETRY, now);
        }
    }

    /// Quick modes of a child that will not be finished.
    pub(in super::super) fn abandon_quick(&mut self, id: SessionId, child: ChildId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let spis: Vec<u32> = session
            .quicks
            .iter()
            .filter(|pending| pending.child == child)
            .map(|pending| pending.spi)
            .collect();
        session.quicks.retain(|pending| pending.child != child);
        let current = self.children.get(&child).and_then(|entry| entry.current);
        for spi in spis {
            if current.is_none_or(|pair| pair.spi_in != spi) {
                self.remove_inbound(child, spi);
            }
        }
        self.drop_unused_child(child);
    }

    /// Logs a refusal and tells the peer its notify type, no more.
    pub(in super::super) fn refuse(
        &mut self,
        id: SessionId,
        fault: &Fault,
        refused: Option<ProposedSpi>,
    ) {
        let message_id = self.fresh_message_id(id);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let event = Event::NegotiationFailed {
            connection: session
                .connection
                .as_ref()
                .map(|connection| connection.name.clone()),
            path: session.path,
            reason: fault.to_string(),
        };
        let mut out = Outbox::default();
        if let (Some(sa), Some(refusal)) = (&session.sa, fault.refusal()) {
            let payload = informational::refusal(sa, refusal, refused);
            informational::send(sa, vec![payload], message_id, &mut out);
            self.remember(id, message_id);
        }
        self.flush(Some(id), out);
        self.tell(event);
    }
}
