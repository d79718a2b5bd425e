//! The exchanges for the children of a session (quick mode, IKE_AUTH, CREATE_CHILD_SA): begin,
//! answer, accept or refuse, and install the SAs.

use std::net::IpAddr;
use std::sync::Arc;

use super::super::session_id::SessionId;
use super::super::timers::renewal;
use super::super::{Event, Node};
use super::crossing::overlap;
use super::selectors::{
    Ends, Traffic, accepted, association, common, is_renewal, mismatch, one_family,
    wanted_selectors,
};
use super::takeover::{READING_TIME, TAKEOVER_DELAY};
use super::{Pair, REFUSED_RETRY};
use crate::config::{Child, Connection};
use crate::counters::DropReason;
use crate::ike::{
    AgreedChild, ChildOffer, ChildRequest, Fault, Grant, Groups, NegotiatedChild, Outbox, Refusal,
    Role,
};
use crate::ikev1::session::About;
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Direction, Mode, Path};
use crate::selector::TrafficSelector;
use crate::time::{Duration, Instant};

/// Lifetimes that a child has whose peer alone renews it.
const PEERS_TURN: u32 = 4;

/// The time until a pair expires. `is_left`: the peer alone renews it.
pub(super) fn hard_lifetime(lifetime: Duration, is_left: bool) -> Duration {
    match is_left {
        true => lifetime.saturating_mul(PEERS_TURN),
        false => lifetime,
    }
}

impl Node {
    /// Starts the exchange for a child under a session, or queues it.
    pub(in super::super) fn begin_child(&mut self, id: SessionId, child: ChildId, now: Instant) {
        let session = self.sessions.get(&id);
        let Some(session) = session.filter(|it| it.ike.is_established()) else {
            return;
        };
        let is_first = session.first_child.is_some_and(|(first, _)| first == child);
        let is_begun = is_first || session.ike.under_way().contains(&child);
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
        let lease = session.held.lease.as_ref();
        let inner = lease.map(|lease| inner_towards(&entry.remote, &lease.addresses));
        let inner = inner.unwrap_or_default();
        let (local, remote) = wanted_selectors(entry, session.path(), &inner);
        let families = one_family(&local, &remote);
        let request = ChildRequest {
            child: entry.child(),
            spi,
            local,
            remote,
            needs_udp: entry.connection.must_be_in_udp(entry.child()),
            groups: Groups {
                agreed: entry.current.as_ref().map(|pair| pair.suite.pfs),
                refused: &entry.refused,
            },
        };
        let renews = entry.current.as_ref().map(|pair| pair.spi_in);
        let mut out = session.ike.outbox();
        let (ike, random) = (&mut session.ike, &mut self.random);
        let begun =
            families.and_then(|()| ike.begin_child(child, request, renews, random, now, &mut out));
        self.flush(Some(id), out);
        match begun {
            Ok(()) => {
                self.forget_overtaken(id, now);
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
        mut agreed: AgreedChild,
        out: Outbox,
        now: Instant,
    ) {
        let proves = self.exchange_proves(id, path, agreed.exchange);
        self.authentic_from(id, path, now);
        if proves {
            self.prove(id);
        }
        if let Err(fault) = self.narrow_to_lease(id, &mut agreed) {
            self.flush(Some(id), out);
            self.delete_unwanted(id, &agreed.negotiated, now);
            return self.child_failed(id, agreed.child, agreed.negotiated.spi_in, &fault, now);
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
            if let Some(session) = self.sessions.get_mut(&id) {
                session.ike.postpone();
            }
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
            Ok((child, traffic)) => self.grant_child(id, child, traffic, now),
            Err(fault) => {
                self.drops.count(fault.drop_reason());
                self.refuse(id, &fault, About::Question);
            }
        }
    }

    /// What a renewal in IKEv2 may have: the traffic of the pair that it renews.
    fn renewed_of(&self, child: ChildId, offer: &ChildOffer) -> Result<Traffic, Fault> {
        let current = self
            .children
            .get(&child)
            .and_then(|entry| entry.current.as_ref());
        let pair = current.filter(|pair| pair.mode == offer.mode);
        let traffic = pair.and_then(|pair| match pair.mode {
            Mode::Tunnel => Some((
                common(&offer.local, &pair.local),
                common(&offer.remote, &pair.remote),
            )),
            // The peer's addresses, as it sees them (RFC 7296 §2.23.1).
            Mode::Transport => {
                is_renewal(pair, offer).then(|| (offer.local.clone(), offer.remote.clone()))
            }
        });
        let traffic = traffic.filter(|(local, remote)| one_family(local, remote).is_ok());
        traffic.ok_or_else(|| Fault::Incompatible {
            what: "the peer renews a child with other traffic".into(),
            refusal: Refusal::Selectors,
        })
    }

    /// The peer has its child in IKEv2 with our answer, which leaves when the inbound SA is there.
    pub(in super::super) fn granted(&mut self, id: SessionId, agreed: &AgreedChild, now: Instant) {
        let child = agreed.child;
        let home = self.home_of(id, child);
        self.install(home, child, &agreed.negotiated, Direction::Inbound);
        self.expect_answers(home, child, &agreed.negotiated);
        self.conclude(id, now);
        self.child_complete(id, agreed, now);
        self.arm_session(id);
    }

    fn grant_child(
        &mut self,
        id: SessionId,
        child: ChildId,
        (local, remote): Traffic,
        now: Instant,
    ) {
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
            local,
            remote,
            renews: entry.current.as_ref().map(|pair| pair.spi_in),
            exchanges_max: self.config.limits.quick_modes,
        };
        let renews = grant.renews;
        let mut out = session.ike.outbox();
        let granted = session
            .ike
            .grant_child(grant, &mut self.random, now, &mut out);
        match granted {
            Ok(granted) => {
                if let Some(session) = self.sessions.get_mut(&heir)
                    && !session.held.children.contains(&child)
                {
                    session.held.children.push(child);
                }
                let Some(negotiated) = granted else {
                    return self.flush(Some(id), out);
                };
                if self.sessions.get(&id).is_some_and(|it| it.ike.is_v2()) {
                    let agreed = AgreedChild {
                        child,
                        exchange: 0,
                        is_ours: false,
                        begun: now,
                        renews,
                        negotiated,
                        is_redundant: Some(false),
                    };
                    return self.granted(id, &agreed, now);
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
    ) -> Result<(ChildId, Traffic), Fault> {
        one_family(&offer.local, &offer.remote)?;
        let session = &self.sessions[&id];
        if let Some(child) = offer.renews {
            return self
                .renewed_of(child, offer)
                .map(|traffic| (child, traffic));
        }
        let (path, narrows) = (session.path(), session.ike.is_v2());
        let held = &self.sessions[&self.sessions.heir_of(id)].held.children;
        let is_renewed = |child: &ChildId| {
            let entry = self.children.get(child);
            let current = entry.and_then(|entry| entry.current.as_ref());
            current.is_some_and(|pair| is_renewal(pair, offer))
        };
        // In IKEv2 a peer says which child it renews, and may have two for the same traffic
        // (RFC 7296 §1.3.3, RFC 4301 §4.1).
        if !session.ike.is_v2()
            && let Some(child) = held.iter().copied().find(is_renewed)
        {
            return Ok((child, (offer.local.clone(), offer.remote.clone())));
        }
        let inner = self.lease_of(id).map(|lease| lease.addresses);
        let inner: Vec<IpAddr> = inner.unwrap_or_default();
        let ends = Ends::new(connection, path, inner.clone());
        let accepts = |child: &Child| accepted(child, offer, &ends, narrows);
        let mut children = connection.children.iter().enumerate();
        let found = children.find_map(|(index, child)| Some((index, accepts(child)?)));
        let Some((index, (local, remote))) = found else {
            return Err(mismatch(connection, offer, &inner));
        };
        // A peer with several sessions may have as many children as one with a single session.
        let siblings = self.siblings(id).into_iter();
        let siblings = siblings.filter_map(|it| self.sessions.get(&it));
        let held: usize = siblings.map(|it| it.held.children.len()).sum();
        if session.held.children.len() + held >= self.config.limits.children {
            return Err(DropReason::TooManyExchanges.into());
        }
        let claimed = (&local[..], &remote[..]);
        self.check_claim(id, connection, &connection.children[index], claimed)?;
        let stand_in = match offer.mode {
            Mode::Transport => self.stand_in(id, connection)?,
            Mode::Tunnel => None,
        };
        let traffic = (local, remote);
        let child = self.add_child(connection, index, false, traffic.clone());
        if let Some(entry) = self.children.get_mut(&child) {
            entry.pool_address = stand_in;
        }
        Ok((child, traffic))
    }

    /// The planes may send on a new pair, now or when the peer is ready for it.
    fn child_complete(&mut self, id: SessionId, agreed: &AgreedChild, now: Instant) {
        let (child, negotiated) = (agreed.child, &agreed.negotiated);
        let home = self.home_of(id, child);
        if !self.children.contains_key(&child) {
            // Deleted between our answer and message 3, or before its last key exchange.
            self.delete_unwanted(id, negotiated, now);
            return self.undo_exchange(child, negotiated.spi_in);
        }
        if self.names_an_old_sa(child, negotiated.spi_out) {
            let what = format!("its SPI {:08x} names another SA of it", negotiated.spi_out);
            return self.child_failed(id, child, negotiated.spi_in, &Fault::Misbehaved(what), now);
        }
        let mut new = Pair::agreed(agreed, now);
        if self.is_outdone(&new, agreed) {
            return self.keep_beside(child, new);
        }
        if self.children.is_up(child) {
            let latest = match (agreed.is_ours, agreed.is_redundant) {
                // The answer of IKEv2 says that the peer has installed it (RFC 7296 §2.8).
                (true, Some(_)) => Duration::ZERO,
                (true, None) => READING_TIME,
                (false, _) => TAKEOVER_DELAY,
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

    /// The initiator may send packets right after message 3 of IKEv1, or our answer of IKEv2, and a
    /// server may answer them before the outbound SA is there. The answer waits for it.
    fn expect_answers(&mut self, id: SessionId, child: ChildId, negotiated: &NegotiatedChild) {
        let (Some(session), Some(entry)) = (self.sessions.get(&id), self.children.get(&child))
        else {
            return;
        };
        if entry.current.is_some() || entry.is_ours {
            return;
        }
        let path = session.home();
        let (mut local, mut remote) = (negotiated.local.clone(), negotiated.remote.clone());
        if negotiated.mode == Mode::Transport {
            let peer = entry.pool_address.unwrap_or(path.remote.ip());
            let own = path.local.ip();
            local.iter_mut().for_each(|it| *it = it.at(own));
            remote.iter_mut().for_each(|it| *it = it.at(peer));
        }
        let expect = OutboundChange::Expect(child, local, remote);
        self.outputs.outbound(expect);
    }

    fn child_established(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: &NegotiatedChild,
        new: Pair,
    ) {
        let session = self.sessions.get(&id);
        let is_left = session.is_some_and(|it| it.ike.leaves_children_to_peer());
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let (is_ours, now) = (new.is_ours, new.since);
        let is_rekey = entry.current.is_some();
        let until = now + overlap(&new);
        if let Some(old) = entry.current.replace(new) {
            entry.old.push((old, until));
        }
        let lifetime = Duration::from_secs(negotiated.lifetime_s);
        let role = if is_ours {
            Role::Initiator
        } else {
            Role::Responder
        };
        let (own, margin) = (entry.child().lifetime, entry.child().rekey_margin);
        entry.rekey_at = Some(now + renewal(lifetime, own, margin, role));
        entry.expire_at = Some(now + hard_lifetime(lifetime, is_left));
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
            self.tell_narrowed(id, child);
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

    /// An exchange for a child ended without SAs. The caller starts the next one.
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

    /// Exchanges of a child that will not be finished.
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

/// Our inner addresses of the families that a child leads to: the first one, if that is not known.
fn inner_towards(remote: &[TrafficSelector], inner: &[IpAddr]) -> Vec<IpAddr> {
    if remote.is_empty() {
        return inner.first().copied().into_iter().collect();
    }
    let leads_there = |it: &&IpAddr| {
        let mut all = remote.iter();
        all.any(|remote| remote.first.is_ipv4() == it.is_ipv4())
    };
    inner.iter().filter(leads_there).copied().collect()
}
