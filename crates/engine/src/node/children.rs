//! Children: what is protected for one pair of selectors, with its successors by rekey.

use std::net::IpAddr;
use std::sync::Arc;

use wire::isakmp::Header;

use super::session::{PendingQuick, SessionId};
use super::{Event, Node, Timer};
use crate::config::{Child, Connection};
use crate::counters::DropReason;
use crate::ikev1::quick::{NegotiatedChild, Quick, QuickOffer, QuickProgress, QuickRequest};
use crate::ikev1::{Fault, Outbox, informational};
use crate::plane::Change;
use crate::sa::{ChildId, Direction, Mode, Path, Protocol, Sa};
use crate::selector::TrafficSelector;
use crate::suite::EspSuite;
use crate::time::{Deadline, Duration, Instant};

/// After a renewal the old inbound SA still reads what is under way.
const OVERLAP: Duration = Duration::from_secs(3);

/// One pair of selectors of one connection and what protects it.
pub(super) struct ChildEntry {
    pub(super) id: ChildId,
    pub(super) connection: Arc<Connection>,
    /// Index in the connection's children.
    pub(super) index: usize,
    pub(super) session: Option<SessionId>,
    /// We begin it and renew it; else the peer does.
    pub(super) is_ours: bool,
    /// What we ask for; `None`: from our inner or own address.
    pub(super) local: Option<TrafficSelector>,
    pub(super) remote: Option<TrafficSelector>,
    pub(super) current: Option<Pair>,
    old: Vec<(Pair, Instant)>,
    pub(super) pool_address: Option<IpAddr>,
    rekey_at: Option<Instant>,
    expire_at: Option<Instant>,
}

/// A pair of SAs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) spi_in: u32,
    pub(super) spi_out: u32,
    pub(super) suite: EspSuite,
    pub(super) mode: Mode,
    pub(super) is_udp_encapsulated: bool,
    pub(super) local: TrafficSelector,
    pub(super) remote: TrafficSelector,
}

impl ChildEntry {
    pub(super) fn child(&self) -> &Child {
        &self.connection.children[self.index]
    }

    fn deadline(&self) -> Option<Deadline> {
        let at = |at: Option<Instant>, why| at.map(|at| Deadline { at, why });
        [
            at(self.rekey_at, "renew the IPsec SAs"),
            at(self.expire_at, "the IPsec SAs expire"),
            at(
                self.old.iter().map(|(_, at)| *at).min(),
                "remove the SAs that were renewed",
            ),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Node {
    pub(super) fn add_child(
        &mut self,
        connection: &Arc<Connection>,
        index: usize,
        is_ours: bool,
        selectors: (Option<TrafficSelector>, Option<TrafficSelector>),
    ) -> ChildId {
        let id = ChildId(self.next_child);
        self.next_child += 1;
        let entry = ChildEntry {
            id,
            connection: connection.clone(),
            index,
            session: None,
            is_ours,
            local: selectors.0,
            remote: selectors.1,
            current: None,
            old: Vec::new(),
            pool_address: None,
            rekey_at: None,
            expire_at: None,
        };
        self.children.insert(id, entry);
        id
    }

    /// Begins quick mode for a child under a session.
    pub(super) fn begin_quick(&mut self, id: SessionId, child: ChildId, now: Instant) {
        let spi = self.fresh_spi(child);
        let message_id = self.fresh_message_id();
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (Some(sa), Some(entry)) = (session.sa.as_ref(), self.children.get_mut(&child)) else {
            return;
        };
        if session
            .quicks
            .iter()
            .any(|pending| pending.child == child && !pending.quick.is_done())
        {
            return;
        }
        entry.session = Some(id);
        entry.rekey_at = None;
        let inner = session
            .lease
            .as_ref()
            .and_then(|lease| lease.addresses.first().copied());
        let (local, remote) = wanted_selectors(entry, session.path, inner);
        let request = QuickRequest {
            child: entry.child(),
            spi,
            local,
            remote,
            forces_encapsulation: entry.connection.forces_encapsulation,
        };
        let mut out = Outbox::default();
        match Quick::initiate(sa, request, message_id, &mut self.random, now, &mut out) {
            Ok(quick) => {
                session.quicks.push(PendingQuick {
                    quick: Box::new(quick),
                    child,
                    spi,
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

    pub(super) fn on_quick(
        &mut self,
        id: SessionId,
        path: Path,
        header: &Header,
        message: &[u8],
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(sa) = session.sa.as_ref() else {
            return self.drops.count(DropReason::UnexpectedMessage);
        };
        let mut out = Outbox::default();
        let of_message =
            |pending: &&mut PendingQuick| pending.quick.message_id() == header.message_id;
        let Some(pending) = session.quicks.iter_mut().find(of_message) else {
            return self.on_quick_offer(id, path, message, now);
        };
        let (child, spi) = (pending.child, pending.spi);
        let progress = pending.quick.on_message(sa, message, now, &mut out);
        self.flush(Some(id), out);
        match progress {
            Ok(progress) => {
                self.authentic_from(id, path, now);
                self.quick_progress(id, child, progress, now);
            }
            Err(fault @ (Fault::Malformed(_) | Fault::Misbehaved(_) | Fault::Dropped(_))) => {
                self.count_fault(&fault)
            }
            Err(fault) => {
                self.count_fault(&fault);
                self.quick_failed(id, child, spi, &fault, now);
            }
        }
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
        if session.quicks.len() >= self.config.limits.quick_modes {
            return self.drops.count(DropReason::TooManyExchanges);
        }
        let mut out = Outbox::default();
        let offered = Quick::offered(sa, message, &mut out);
        self.flush(Some(id), out);
        let (quick, offer) = match offered {
            Ok(offered) => offered,
            Err(fault) => return self.count_fault(&fault),
        };
        self.authentic_from(id, path, now);
        match self.child_for(id, &connection, &offer) {
            Ok(child) => self.accept_quick(id, child, quick, now),
            Err(fault) => {
                self.count_fault(&fault);
                self.refuse(id, &fault);
            }
        }
    }

    fn accept_quick(&mut self, id: SessionId, child: ChildId, mut quick: Quick, now: Instant) {
        let spi = self.fresh_spi(child);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (Some(sa), Some(entry)) = (session.sa.as_ref(), self.children.get_mut(&child)) else {
            return;
        };
        entry.session = Some(id);
        let own = session.path.local.ip();
        let mut out = Outbox::default();
        let accepted = quick.accept(sa, entry.child(), spi, own, &mut self.random, now, &mut out);
        self.flush(Some(id), out);
        match accepted {
            Ok(progress) => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.quicks.push(PendingQuick {
                        quick: Box::new(quick),
                        child,
                        spi,
                    });
                    if !session.children.contains(&child) {
                        session.children.push(child);
                    }
                }
                self.quick_progress(id, child, progress, now);
                self.arm_session(id);
            }
            Err(fault) => {
                self.count_fault(&fault);
                self.by_spi.remove(&spi);
                self.refuse(id, &fault);
                self.drop_unused_child(child);
            }
        }
    }

    /// The child that an offer speaks of: the one it renews, else a new one of the first
    /// configured child whose mode and selectors hold it.
    fn child_for(
        &mut self,
        id: SessionId,
        connection: &Arc<Connection>,
        offer: &QuickOffer,
    ) -> Result<ChildId, Fault> {
        let session = &self.sessions[&id];
        let renewed = session.children.iter().copied().find(|child| {
            let current = self.children.get(child).and_then(|entry| entry.current);
            current.is_some_and(|pair| {
                pair.mode == offer.mode && pair.local == offer.local && pair.remote == offer.remote
            })
        });
        if let Some(child) = renewed {
            return Ok(child);
        }
        let inner: Vec<IpAddr> = session
            .lease
            .as_ref()
            .map(|lease| lease.addresses.clone())
            .unwrap_or_default();
        let path = session.path;
        let fits = |child: &Child| {
            child.mode == offer.mode
                && holds_local(child, &offer.local, path)
                && holds_remote(child, &offer.remote, &inner)
        };
        let Some(index) = connection.children.iter().position(fits) else {
            return Err(mismatch(connection, offer, &inner));
        };
        let selectors = (Some(offer.local), Some(offer.remote));
        Ok(self.add_child(connection, index, false, selectors))
    }

    fn quick_progress(
        &mut self,
        id: SessionId,
        child: ChildId,
        progress: QuickProgress,
        now: Instant,
    ) {
        match progress {
            QuickProgress::Pending => {}
            QuickProgress::InboundReady(negotiated) => {
                self.install(id, child, &negotiated, Direction::Inbound, now);
            }
            QuickProgress::Complete(negotiated) => {
                let Some(negotiated) = negotiated else { return };
                let is_ours = self.sessions.get(&id).is_some_and(|session| {
                    let of_pair = |p: &&PendingQuick| p.spi == negotiated.spi_in;
                    session
                        .quicks
                        .iter()
                        .find(of_pair)
                        .is_none_or(|p| p.quick.is_initiator())
                });
                if is_ours {
                    self.install(id, child, &negotiated, Direction::Inbound, now);
                }
                self.install(id, child, &negotiated, Direction::Outbound, now);
                self.child_established(id, child, &negotiated, is_ours, now);
            }
        }
    }

    fn install(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: &NegotiatedChild,
        direction: Direction,
        now: Instant,
    ) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let path = session.path;
        let needs_pool = negotiated.mode == Mode::Transport && self.takes_from_pool(child);
        if needs_pool && let Some(pool) = self.pool_of(child) {
            let name = format!("{child:?}");
            let address = self.leases.lend(&pool, &name, None);
            if let Some(entry) = self.children.get_mut(&child) {
                entry.pool_address = address;
            }
        }
        let Some(entry) = self.children.get(&child) else {
            return;
        };
        let sa = association(entry, negotiated, direction, path, now);
        self.by_spi.insert(negotiated.spi_in, child);
        self.change(direction, Change::Install(Box::new(sa)));
    }

    fn takes_from_pool(&self, child: ChildId) -> bool {
        self.children.get(&child).is_some_and(|entry| {
            !entry.is_ours && entry.pool_address.is_none() && entry.connection.pool.is_some()
        })
    }

    fn pool_of(&self, child: ChildId) -> Option<crate::config::Pool> {
        let index = self.children.get(&child)?.connection.pool?;
        self.config.pools.get(index).cloned()
    }

    fn child_established(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: &NegotiatedChild,
        is_ours: bool,
        now: Instant,
    ) {
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let is_rekey = entry.current.is_some();
        let new = Pair {
            spi_in: negotiated.spi_in,
            spi_out: negotiated.spi_out,
            suite: negotiated.suite,
            mode: negotiated.mode,
            is_udp_encapsulated: negotiated.is_udp_encapsulated,
            local: negotiated.local,
            remote: negotiated.remote,
        };
        if let Some(old) = entry.current.replace(new) {
            // Whoever renewed deletes the old pair after the overlap; the other side waits longer.
            let wait = if is_ours { OVERLAP } else { OVERLAP * 4 };
            entry.old.push((old, now + wait));
        }
        let lifetime = Duration::from_secs(negotiated.lifetime_s);
        let margin = entry.child().rekey_margin;
        let margin = if is_ours { margin } else { margin / 2 };
        entry.rekey_at = Some(now + lifetime.saturating_sub(margin));
        entry.expire_at = Some(now + lifetime);
        entry.is_ours |= is_ours;
        let event = Event::ChildEstablished {
            connection: entry.connection.name.clone(),
            child: entry.child().name.clone(),
            suite: negotiated.suite.to_string(),
            spis: (negotiated.spi_in, negotiated.spi_out),
            is_rekey,
        };
        self.tell(event);
        if let Some(session) = self.sessions.get_mut(&id)
            && !session.children.contains(&child)
        {
            session.children.push(child);
        }
        self.arm_child(child);
        self.station_child_up(id, now);
    }

    /// Renews a child under its session, if it still has one that is established.
    pub(super) fn rekey_child(&mut self, child: ChildId, now: Instant) {
        let Some(session) = self.children.get(&child).and_then(|entry| entry.session) else {
            return;
        };
        self.begin_quick(session, child, now);
    }

    pub(super) fn on_child_timer(&mut self, child: ChildId, now: Instant) {
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let session = entry.session;
        let (over, old) = core::mem::take(&mut entry.old)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, at)| *at <= now);
        entry.old = old;
        let is_expired = entry.expire_at.is_some_and(|at| at <= now);
        let is_due = entry.rekey_at.is_some_and(|at| at <= now);
        let is_ours = entry.is_ours;
        for (pair, _) in over {
            if is_ours && let Some(session) = session {
                self.send_delete(session, &pair);
            }
            self.remove_pair(child, &pair);
        }
        if is_expired {
            return self.close_child(child, "expired", true, now);
        }
        if is_due {
            if let Some(entry) = self.children.get_mut(&child) {
                entry.rekey_at = None;
            }
            self.rekey_child(child, now);
        }
        self.arm_child(child);
    }

    /// The peer deleted its inbound SAs: our outbound ones.
    pub(super) fn peer_deleted(&mut self, id: SessionId, spis: &[u32], now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        for child in session.children.clone() {
            let Some(entry) = self.children.get_mut(&child) else {
                continue;
            };
            let is_old = |(pair, _): &(Pair, Instant)| spis.contains(&pair.spi_out);
            let gone: Vec<Pair> = entry
                .old
                .iter()
                .filter(|p| is_old(p))
                .map(|p| p.0)
                .collect();
            entry.old.retain(|pair| !is_old(pair));
            let is_current = entry
                .current
                .is_some_and(|pair| spis.contains(&pair.spi_out));
            gone.iter().for_each(|pair| self.remove_pair(child, pair));
            if is_current {
                self.close_child(child, "deleted by the peer", false, now);
            }
        }
    }

    /// Ends a child: its SAs leave the planes. A station's child stays expected.
    pub(super) fn close_child(
        &mut self,
        child: ChildId,
        reason: &str,
        tells_peer: bool,
        now: Instant,
    ) {
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let session = entry.session.take();
        let pairs: Vec<Pair> = entry
            .current
            .take()
            .into_iter()
            .chain(entry.old.drain(..).map(|p| p.0))
            .collect();
        (entry.rekey_at, entry.expire_at) = (None, None);
        let pool_address = entry.pool_address.take();
        let event = Event::ChildClosed {
            connection: entry.connection.name.clone(),
            child: entry.child().name.clone(),
            reason: reason.to_owned(),
        };
        for pair in &pairs {
            if let (true, Some(session)) = (tells_peer, session) {
                self.send_delete(session, pair);
            }
            self.remove_pair(child, pair);
        }
        if let Some(address) = pool_address {
            self.leases.give_back(address);
        }
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.children.retain(|other| *other != child);
        }
        if !pairs.is_empty() {
            self.tell(event);
        }
        self.arm_child(child);
        self.drop_unused_child(child);
        if let Some(session) = session {
            self.station_child_down(session, child, now);
        }
    }

    /// A child that no station waits for leaves the table with its last SA.
    fn drop_unused_child(&mut self, child: ChildId) {
        let is_stations = self
            .stations
            .iter()
            .any(|station| station.children.contains(&child));
        let is_unused = self
            .children
            .get(&child)
            .is_some_and(|entry| entry.current.is_none());
        if is_unused && !is_stations {
            self.children.remove(&child);
            self.timers.arm(Timer::Child(child), None);
        }
    }

    fn remove_pair(&mut self, child: ChildId, pair: &Pair) {
        self.by_spi.remove(&pair.spi_in);
        self.change(
            Direction::Inbound,
            Change::Remove(child, pair.spi_in, Direction::Inbound),
        );
        self.change(
            Direction::Outbound,
            Change::Remove(child, pair.spi_out, Direction::Outbound),
        );
    }

    fn send_delete(&mut self, id: SessionId, pair: &Pair) {
        let message_id = self.fresh_message_id();
        let Some(sa) = self
            .sessions
            .get(&id)
            .and_then(|session| session.sa.as_ref())
        else {
            return;
        };
        let payload = informational::delete(sa, pair.suite.protocol, &[pair.spi_in]);
        let mut out = Outbox::default();
        informational::send(sa, vec![payload], message_id, &mut out);
        self.flush(Some(id), out);
    }

    /// A quick mode ended without SAs.
    pub(super) fn quick_failed(
        &mut self,
        id: SessionId,
        child: ChildId,
        spi: u32,
        fault: &Fault,
        now: Instant,
    ) {
        self.refuse(id, fault);
        self.by_spi.remove(&spi);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.quicks.retain(|pending| pending.spi != spi);
        }
        let is_up = self
            .children
            .get(&child)
            .is_some_and(|entry| entry.current.is_some());
        if !is_up {
            self.remove_inbound(child, spi);
            self.drop_unused_child(child);
            self.station_child_down(id, child, now);
        }
    }

    /// Quick modes of a child that will not be finished.
    pub(super) fn abandon_quick(&mut self, id: SessionId, child: ChildId) {
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

    fn remove_inbound(&mut self, child: ChildId, spi: u32) {
        self.by_spi.remove(&spi);
        self.change(
            Direction::Inbound,
            Change::Remove(child, spi, Direction::Inbound),
        );
    }

    /// Logs a refusal and tells the peer its notify type, no more.
    fn refuse(&mut self, id: SessionId, fault: &Fault) {
        let message_id = self.fresh_message_id();
        let Some(session) = self.sessions.get(&id) else {
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
        if let (Some(sa), Fault::Incompatible { notify, .. }) = (&session.sa, fault) {
            let payload = informational::refusal(*notify);
            informational::send(sa, vec![payload], message_id, &mut out);
        }
        self.flush(Some(id), out);
        self.tell(event);
    }

    pub(super) fn move_child(&mut self, child: ChildId, path: Path, _now: Instant) {
        if let Some(session) = self.children.get(&child).and_then(|entry| entry.session) {
            self.move_session(session, path);
        }
    }

    /// The peer of a session is elsewhere: IKE and every child follow. Ports are compared and
    /// taken as they came; a path of another family of encapsulation is not.
    pub(super) fn move_session(&mut self, id: SessionId, path: Path) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if session.path == path || path.local.port() != session.path.local.port() {
            return;
        }
        session.path = path;
        if let Some(sa) = session.sa.as_mut() {
            sa.path = path;
        }
        let name = session
            .connection
            .as_ref()
            .map(|connection| connection.name.clone());
        for child in session.children.clone() {
            self.change(Direction::Outbound, Change::Move(child, path));
            self.change(Direction::Inbound, Change::Move(child, path));
        }
        if let Some(connection) = name {
            self.tell(Event::PathMoved { connection, path });
        }
    }

    fn arm_child(&mut self, child: ChildId) {
        let deadline = self.children.get(&child).and_then(ChildEntry::deadline);
        self.timers.arm(Timer::Child(child), deadline);
    }

    /// An SPI that is not in use, over 255 (RFC 4303 §2.1).
    fn fresh_spi(&mut self, child: ChildId) -> u32 {
        loop {
            let spi = self.random.u32();
            if spi > 255 && !self.by_spi.contains_key(&spi) {
                self.by_spi.insert(spi, child);
                return spi;
            }
        }
    }
}

/// What quick mode asks for: in transport mode our own address and the peer's, with the protocol
/// and port that are configured; in tunnel mode what is configured, else our inner address.
fn wanted_selectors(
    entry: &ChildEntry,
    path: Path,
    inner: Option<IpAddr>,
) -> (TrafficSelector, TrafficSelector) {
    let host = |address: IpAddr, like: Option<TrafficSelector>| TrafficSelector {
        protocol: like.map_or(0, |selector| selector.protocol),
        port: like.map_or(0, |selector| selector.port),
        ..TrafficSelector::host(address)
    };
    let (own, peer) = (path.local.ip(), path.remote.ip());
    match entry.child().mode {
        Mode::Transport => (host(own, entry.local), host(peer, entry.remote)),
        Mode::Tunnel => {
            let local = entry
                .local
                .unwrap_or_else(|| host(inner.unwrap_or(own), None));
            let remote = entry.remote.unwrap_or_else(|| host(peer, None));
            (local, remote)
        }
    }
}

fn holds_local(child: &Child, offered: &TrafficSelector, path: Path) -> bool {
    if child.local.is_empty() || child.mode == Mode::Transport {
        let own = TrafficSelector::host(path.local.ip());
        // Behind a destination NAT of our own the peer names the address it sees.
        let is_own = child.mode == Mode::Transport || own.contains(offered);
        let fits = |own: &TrafficSelector| own.holds_ports_of(offered);
        return is_own && (child.local.is_empty() || child.local.iter().any(fits));
    }
    child.local.iter().any(|own| own.contains(offered))
}

fn holds_remote(child: &Child, offered: &TrafficSelector, inner: &[IpAddr]) -> bool {
    if child.mode == Mode::Transport {
        return offered.is_host();
    }
    if child.remote.is_empty() {
        return inner
            .iter()
            .any(|address| TrafficSelector::host(*address).contains(offered));
    }
    child.remote.iter().any(|remote| remote.contains(offered))
}

fn mismatch(connection: &Connection, offer: &QuickOffer, inner: &[IpAddr]) -> Fault {
    let ours: Vec<String> = connection
        .children
        .iter()
        .map(|child| {
            let list = |selectors: &[TrafficSelector], dynamic: &str| match selectors {
                [] => dynamic.to_owned(),
                some => some
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(","),
            };
            let lent = inner
                .first()
                .map_or("its inner address".to_owned(), IpAddr::to_string);
            let (local, remote) = (
                list(&child.local, "our address"),
                list(&child.remote, &lent),
            );
            format!("{:?} {local} === {remote}", child.mode)
        })
        .collect();
    Fault::Incompatible {
        what: format!(
            "no selector in common: the peer asks for {:?} {} === {}; we protect {}",
            offer.mode,
            offer.local,
            offer.remote,
            ours.join(" or ")
        ),
        notify: wire::isakmp::NotifyType::InvalidIdInformation,
    }
}

/// The SA of one direction. In transport mode the selectors are the addresses as our own stack
/// sees them: the peer's pool address, or the address it is seen at.
fn association(
    entry: &ChildEntry,
    negotiated: &NegotiatedChild,
    direction: Direction,
    path: Path,
    _now: Instant,
) -> Sa {
    let child = entry.child();
    let is_inbound = direction == Direction::Inbound;
    let keys = if is_inbound {
        &negotiated.keys_in
    } else {
        &negotiated.keys_out
    };
    let (local, remote) = match negotiated.mode {
        Mode::Tunnel => (negotiated.local, negotiated.remote),
        Mode::Transport => {
            let peer = entry.pool_address.unwrap_or(path.remote.ip());
            (
                negotiated.local.at(path.local.ip()),
                negotiated.remote.at(peer),
            )
        }
    };
    let path = if negotiated.is_udp_encapsulated {
        path
    } else {
        without_ports(path)
    };
    let is_authenticated = negotiated.suite.protection.is_authenticated();
    Sa {
        direction,
        child: entry.id,
        spi: if is_inbound {
            negotiated.spi_in
        } else {
            negotiated.spi_out
        },
        protocol: negotiated.suite.protocol,
        mode: negotiated.mode,
        protection: negotiated.suite.protection,
        encryption_key: keys.0.clone(),
        integrity_key: keys.1.clone(),
        has_esn: negotiated.suite.has_esn,
        replay_window: if is_authenticated {
            child.replay_window
        } else {
            0
        },
        is_udp_encapsulated: negotiated.is_udp_encapsulated,
        path,
        local: vec![local],
        remote: vec![remote],
        original: negotiated.original,
        pool_address: entry.pool_address,
        soft_packets: child.lifetime_packets,
        soft_bytes: child.lifetime_bytes,
        copies_df: true,
        path_mtu: child.path_mtu,
    }
}

fn without_ports(path: Path) -> Path {
    Path {
        local: (path.local.ip(), 0).into(),
        remote: (path.remote.ip(), 0).into(),
    }
}

/// Names a protocol in sentences.
pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Esp => "ESP",
        Protocol::Ah => "AH",
    }
}
