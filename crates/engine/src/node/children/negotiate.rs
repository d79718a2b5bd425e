//! Quick mode for the children of a session: initiate, answer, accept or refuse, and install the
//! SAs.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::session_id::SessionId;
use super::super::timers::renewal;
use super::super::{Event, Node};
use super::crossing::overlap;
use super::selectors::{
    association, holds_local, holds_remote, is_renewal, mismatch, one_family, wanted_selectors,
};
use super::takeover::{READING_TIME, TAKEOVER_DELAY};
use super::{Pair, REFUSED_RETRY};
use crate::config::{Child, ChildLayer, Connection, Encapsulation};
use crate::counters::DropReason;
use crate::ike::{
    AgreedChild, ChildOffer, ChildRequest, Fault, Grant, Groups, NegotiatedChild, Outbox, Role,
};
use crate::ikev1::session::About;
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Direction, Mode, Path};
use crate::time::{Duration, Instant};

impl Node {
    /// Starts quick mode for a child under a session, or queues it.
    pub(in super::super) fn begin_child(&mut self, id: SessionId, child: ChildId, now: Instant) {
        let session = self.sessions.get(&id);
        let Some(session) = session.filter(|it| it.ike.is_established()) else {
            return;
        };
        let is_begun = session.ike.under_way().any(|other| other == child);
        let Some(entry) = self.children.get_mut(&child).filter(|_| !is_begun) else {
            return;
        };
        entry.session = Some(id);
        entry.rekey_at = None;
        if !self.has_turn(id, child) {
            return self.arm_child(child);
        }
        let spi = self.children.take_spi(&mut self.random);
        let (Some(session), Some(entry)) =
            (self.sessions.get_mut(&id), self.children.get_mut(&child))
        else {
            return;
        };
        let remote = entry.remote;
        let leads_to = |address: &&IpAddr| {
            remote.is_none_or(|remote| remote.first.is_ipv4() == address.is_ipv4())
        };
        let lease = session.held.lease.as_ref();
        let inner = lease.and_then(|lease| lease.addresses.iter().find(leads_to).copied());
        let (local, remote) = wanted_selectors(entry, session.path(), inner);
        let request = ChildRequest {
            child: entry.child(),
            spi,
            local,
            remote,
            needs_udp: entry.connection.encapsulation == Encapsulation::Always
                && entry.child().layer == ChildLayer::Alone,
            groups: Groups {
                agreed: entry.current.map(|pair| pair.suite.pfs),
                refused: &entry.refused,
            },
        };
        let renews = entry.current.map(|pair| pair.spi_in);
        let mut out = session.ike.outbox();
        let (ike, random) = (&mut session.ike, &mut self.random);
        let begun = one_family(&local, &remote)
            .and_then(|()| ike.begin_child(child, request, renews, random, now, &mut out));
        self.flush(Some(id), out);
        match begun {
            Ok(()) => {
                self.arm_session(id);
                self.arm_child(child);
            }
            Err(fault) => self.child_failed(id, child, spi, &fault, now),
        }
    }

    /// Both ends have agreed on a pair. `out`: the message of the exchange. It leaves after the
    /// inbound plane has the new SA, because the peer may send as soon as it reads it.
    pub(in super::super) fn child_agreed(
        &mut self,
        id: SessionId,
        path: Path,
        agreed: AgreedChild,
        out: Outbox,
        now: Instant,
    ) {
        let proves = self.exchange_proves(id, path, agreed.exchange);
        self.authentic_from(id, path, now);
        if proves {
            self.prove(id);
        }
        let (child, negotiated) = (agreed.child, &agreed.negotiated);
        if agreed.is_ours && self.children.contains_key(&child) {
            let home = self.home_of(id, child);
            self.install(home, child, negotiated, Direction::Inbound);
        }
        self.flush(Some(id), out);
        self.child_complete(id, &agreed, now);
    }

    /// The peer requests a child.
    pub(in super::super) fn on_asks_child(
        &mut self,
        id: SessionId,
        path: Path,
        offer: &ChildOffer,
        now: Instant,
    ) {
        let session = self.sessions.get(&id);
        let Some(connection) = session.and_then(|it| it.connection().cloned()) else {
            return;
        };
        if let Err(excess) = self.charge_child(id, &connection, now) {
            // It will be repeated and served then. It is not remembered, and proves nothing about
            // where the peer is: it may be a replay.
            self.drops.count(excess.reason);
            if let Some(reason) = excess.line {
                self.outputs.tell(Event::NegotiationFailed {
                    connection: Some(connection.name.clone()),
                    path,
                    reason,
                });
            }
            return;
        }
        self.authentic_from(id, path, now);
        match self.child_for(id, &connection, offer) {
            Ok(child) => self.grant_child(id, child, now),
            Err(fault) => {
                self.drops.count(fault.drop_reason());
                self.refuse(id, &fault, About::Question);
            }
        }
    }

    fn grant_child(&mut self, id: SessionId, child: ChildId, now: Instant) {
        let spi = self.children.take_spi(&mut self.random);
        let heir = self.sessions.heir_of(id);
        let (Some(session), Some(entry)) =
            (self.sessions.get_mut(&id), self.children.get_mut(&child))
        else {
            return;
        };
        entry.session = Some(heir);
        let grant = Grant {
            id: child,
            child: entry.child(),
            spi,
            renews: entry.current.map(|pair| pair.spi_in),
            exchanges_max: self.config.limits.quick_modes,
        };
        let mut out = session.ike.outbox();
        let granted = session
            .ike
            .grant_child(grant, &mut self.random, now, &mut out);
        match granted {
            Ok(negotiated) => {
                if let Some(session) = self.sessions.get_mut(&heir)
                    && !session.held.children.contains(&child)
                {
                    session.held.children.push(child);
                }
                // The peer may send as soon as it reads message 2: install the inbound SA first.
                let home = self.home_of(id, child);
                self.install(home, child, &negotiated, Direction::Inbound);
                self.expect_answers(home, child, &negotiated);
                self.flush(Some(id), out);
                self.arm_session(id);
            }
            Err(fault) => {
                self.flush(Some(id), out);
                self.drops.count(fault.drop_reason());
                self.release(child, spi);
                self.refuse(id, &fault, About::Question);
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
        offer: &ChildOffer,
    ) -> Result<ChildId, Fault> {
        one_family(&offer.local, &offer.remote)?;
        let session = &self.sessions[&id];
        let held = &self.sessions[&self.sessions.heir_of(id)].held.children;
        let renewed = held.iter().copied().find(|child| {
            let current = self.children.get(child).and_then(|entry| entry.current);
            current.is_some_and(|pair| is_renewal(&pair, offer))
        });
        if let Some(child) = renewed {
            return Ok(child);
        }
        let path = session.path();
        let inner = self.lease_of(id).map(|lease| lease.addresses);
        let inner: Vec<IpAddr> = inner.unwrap_or_default();
        let fits = |child: &Child| {
            child.mode == offer.mode
                && holds_local(child, &offer.local, path)
                && holds_remote(child, &offer.remote, path, &inner)
        };
        let Some(index) = connection.children.iter().position(fits) else {
            return Err(mismatch(connection, offer, &inner));
        };
        // A peer with several sessions may have as many children as one with a single session.
        let siblings = self.siblings(id).into_iter();
        let siblings = siblings.filter_map(|it| self.sessions.get(&it));
        let held: usize = siblings.map(|it| it.held.children.len()).sum();
        if session.held.children.len() + held >= self.config.limits.children {
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

    /// The planes may send on a new pair, now or when the peer is ready for it.
    fn child_complete(&mut self, id: SessionId, agreed: &AgreedChild, now: Instant) {
        let (child, negotiated) = (agreed.child, &agreed.negotiated);
        let home = self.home_of(id, child);
        if !self.children.contains_key(&child) {
            // Deleted between our answer and message 3.
            return self.undo_exchange(child, negotiated.spi_in);
        }
        if self.names_an_old_sa(child, negotiated.spi_out) {
            let what = format!("its SPI {:08x} names another SA of it", negotiated.spi_out);
            return self.child_failed(id, child, negotiated.spi_in, &Fault::Misbehaved(what), now);
        }
        let mut new = Pair::agreed(agreed, now);
        if self.is_outdone(child, &new, agreed.renews) {
            return self.keep_beside(child, new);
        }
        if self.children.is_up(child) {
            let latest = match agreed.is_ours {
                true => READING_TIME,
                false => TAKEOVER_DELAY,
            };
            self.take_over_later(home, child, negotiated.clone(), now + latest);
        } else {
            new.is_sealing = self.install(home, child, negotiated, Direction::Outbound);
        }
        if !agreed.is_ours && self.stations.of_child(child).is_none() {
            self.outputs.outbound(OutboundChange::Forget(child));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.ike.forget_answer();
        }
        self.child_established(home, child, negotiated, new);
    }

    /// Whether the peer has chosen an SPI for this child before, and that SA still stands. Its
    /// deletes would not say which of the two they mean.
    fn names_an_old_sa(&self, child: ChildId, spi_out: u32) -> bool {
        let entry = self.children.get(&child);
        entry.is_some_and(|entry| entry.pairs().any(|pair| pair.spi_out == spi_out))
    }

    /// Gives a new SA to its plane. Returns whether it is there.
    pub(super) fn install(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: &NegotiatedChild,
        direction: Direction,
    ) -> bool {
        let Some(session) = self.sessions.get(&id) else {
            return false;
        };
        let (path, home) = (session.path(), session.home());
        let Some(entry) = self.children.get(&child) else {
            return false;
        };
        let sa = association(entry, negotiated, direction, (path, home));
        let place = (child, direction, sa.spi());
        self.charge(self.sessions.heir_of(id), place);
        let sa = Box::new(sa);
        match direction {
            Direction::Inbound => {
                self.children.keep_spi(negotiated.spi_in);
                self.outputs.inbound(InboundChange::Install(sa));
            }
            Direction::Outbound => {
                self.outputs.outbound(OutboundChange::Install(sa));
                self.limit_new(id, child);
            }
        }
        true
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
        let expect = OutboundChange::Expect(child, vec![local], vec![remote]);
        self.outputs.outbound(expect);
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
        self.outputs.tell(event);
        if is_ours && !is_rekey {
            self.tell_narrowed(id, child, new);
        }
        if let Some(session) = self.sessions.get_mut(&id)
            && !session.held.children.contains(&child)
        {
            session.held.children.push(child);
        }
        self.arm_child(child);
        self.tell_stay(id, now);
        self.station_child_up(id, now);
    }

    /// The peer protects only a part of what we requested: the rest is refused.
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
            path: session.path(),
            complaint: format!(
                "it protects only {} === {}, not all of {asked}; nothing else passes",
                pair.local, pair.remote
            ),
        };
        self.outputs.tell(event);
    }

    /// A quick mode ended without SAs. The caller starts the next one.
    pub(in super::super) fn child_failed(
        &mut self,
        id: SessionId,
        child: ChildId,
        spi: u32,
        fault: &Fault,
        now: Instant,
    ) {
        self.refuse(id, fault, About::Exchange(spi));
        if let Some(session) = self.sessions.get_mut(&id) {
            session.ike.forget_exchange(spi);
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
        self.undo_exchange(child, spi);
        if is_up {
            self.arm_child(child);
        } else {
            self.drop_unused_child(child);
            self.station_child_down(home, child, REFUSED_RETRY, now);
        }
    }

    /// Quick modes of a child that will not be finished.
    pub(in super::super) fn abandon_child(&mut self, id: SessionId, child: ChildId) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let spis = session.ike.forget_exchanges_of(child);
        for spi in spis {
            self.undo_exchange(child, spi);
        }
        self.drop_unused_child(child);
    }

    /// Logs a refusal and tells the peer its notify type, no more.
    pub(in super::super) fn refuse(&mut self, id: SessionId, fault: &Fault, about: About) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let event = Event::NegotiationFailed {
            connection: session.connection_name(),
            path: session.path(),
            reason: fault.to_string(),
        };
        let mut out = Outbox::default();
        let random = &mut self.random;
        session.ike.refuse(fault.refusal(), about, random, &mut out);
        self.flush(Some(id), out);
        self.outputs.tell(event);
    }
}
