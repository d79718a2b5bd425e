//! Children: the SAs for one pair of selectors, with their successors by rekey. `negotiate.rs`
//! makes them, `queue.rs` decides in which order, `selectors.rs` decides which traffic they
//! protect.

mod claims;
mod crossing;
mod first;
mod negotiate;
mod queue;
mod refused;
mod selectors;
mod stand_in;
mod table;
mod takeover;

use std::net::IpAddr;
use std::sync::Arc;

use super::session::Session;
use super::session_id::SessionId;
use super::{EndCause, Event, Node, Timer};
use crate::config::{Child, Connection};
use crate::counters::DropReason;
use crate::ike::{NegotiatedChild, Outbox};
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Direction, Mode, Path, Protocol};
use crate::selector::TrafficSelector;
use crate::suite::{EspSuite, Pfs};
use crate::time::{Deadline, Duration, Instant};
use negotiate::hard_lifetime;
use selectors::Traffic;
pub(super) use selectors::listed;
pub(super) use table::Children;
use table::SpiUse;
use takeover::Takeover;

/// After a renewal, the old inbound SA stays for packets in flight.
const OVERLAP: Duration = Duration::from_secs(3);
/// Wait before a lost child is set up again while its session stands.
const CHILD_RETRY: Duration = Duration::from_secs(1);
/// Wait before a child is set up again that the peer refused or could not install.
const REFUSED_RETRY: Duration = Duration::from_secs(30);

/// One pair of selectors of one connection and what protects it.
pub(super) struct ChildEntry {
    pub(super) id: ChildId,
    pub(super) connection: Arc<Connection>,
    /// Index in the connection's children.
    pub(super) index: usize,
    pub(super) session: Option<SessionId>,
    /// We initiate and renew it; otherwise the peer does.
    pub(super) is_ours: bool,
    /// The selectors that we request; none: our inner or own address.
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
    pub(super) current: Option<Pair>,
    /// PFS groups that the peer has refused since the child was last agreed on.
    refused: Vec<Option<Pfs>>,
    /// Renewed pairs, and when to remove them.
    pub(super) old: Vec<(Pair, Instant)>,
    /// The outbound half of `current`, while it waits for the peer.
    takeover: Option<Box<Takeover>>,
    /// The address that represents a peer of transport mode; its session holds it.
    pub(super) pool_address: Option<IpAddr>,
    rekey_at: Option<Instant>,
    expire_at: Option<Instant>,
    armed: Option<Instant>,
}

/// A pair of SAs.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) since: Instant,
    /// When its exchange was started or answered, and who started it.
    begun: Instant,
    is_ours: bool,
    pub(super) spi_in: u32,
    pub(super) spi_out: u32,
    /// Whether its outbound SA is in the plane. It may wait for the peer, and may never get there.
    is_sealing: bool,
    pub(super) suite: EspSuite,
    pub(super) mode: Mode,
    pub(super) is_udp_encapsulated: bool,
    pub(super) local: Arc<[TrafficSelector]>,
    pub(super) remote: Arc<[TrafficSelector]>,
}

impl ChildEntry {
    pub(super) fn child(&self) -> &Child {
        &self.connection.children[self.index]
    }

    /// It is renewed then.
    pub(super) fn renew_by(&mut self, at: Instant) {
        self.rekey_at = Some(at);
    }

    /// Every pair with SAs in the planes.
    fn pairs(&self) -> impl Iterator<Item = &Pair> {
        let old = self.old.iter().map(|(pair, _)| pair);
        self.current.iter().chain(old)
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
            at(
                self.takeover.as_ref().map(|takeover| takeover.at),
                "send on the renewed SA",
            ),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Node {
    /// Whether control will remove this SA from its plane: it belongs to a pair, or to an exchange
    /// in progress.
    pub(crate) fn has_sa(&self, child: ChildId, direction: Direction, spi: u32) -> bool {
        let is_in = |pair: &Pair| match direction {
            Direction::Inbound => pair.spi_in == spi,
            Direction::Outbound => pair.spi_out == spi && pair.is_sealing,
        };
        let entry = self.children.get(&child);
        let is_half_agreed = || {
            let mut exchanges = self.sessions.values().flat_map(|it| it.ike.exchanges());
            exchanges.any(|it| !it.is_done && (it.child, it.spi) == (child, spi))
        };
        entry.is_some_and(|entry| entry.pairs().any(is_in))
            || (direction == Direction::Inbound && is_half_agreed())
    }

    pub(super) fn add_child(
        &mut self,
        connection: &Arc<Connection>,
        index: usize,
        is_ours: bool,
        selectors: Traffic,
    ) -> ChildId {
        self.children.add(|id| ChildEntry {
            id,
            connection: connection.clone(),
            index,
            session: None,
            is_ours,
            local: selectors.0,
            remote: selectors.1,
            current: None,
            refused: Vec::new(),
            old: Vec::new(),
            takeover: None,
            pool_address: None,
            rekey_at: None,
            expire_at: None,
            armed: None,
        })
    }

    fn is_v2(&self, id: SessionId) -> bool {
        self.sessions.get(&id).is_some_and(|it| it.ike.is_v2())
    }

    /// Renews a child under its session, if that is established.
    pub(super) fn rekey_child(&mut self, child: ChildId, now: Instant) {
        let Some(session) = self.children.get(&child).and_then(|entry| entry.session) else {
            return;
        };
        let is_left = |it: &Session| it.ike.leaves_children_to_peer();
        if !self.sessions.get(&session).is_some_and(is_left) {
            self.begin_child(session, child, now);
        }
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
        let is_time = |waits: &Takeover| waits.at <= now || !over.is_empty();
        if entry.takeover.as_deref().is_some_and(is_time) {
            self.take_over(child);
        }
        for (pair, _) in over {
            if let Some(session) = session
                && (is_ours || self.is_v2(session))
            {
                self.send_delete(session, &pair, now);
            }
            self.remove_pair(child, &pair);
        }
        if is_expired {
            return self.close_child(child, EndCause::Expired, true, now);
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
        for child in self.children_of_peer(id) {
            let Some(entry) = self.children.get_mut(&child) else {
                continue;
            };
            let is_old = |(pair, _): &(Pair, Instant)| spis.contains(&pair.spi_out);
            let gone: Vec<Pair> = entry
                .old
                .iter()
                .filter(|p| is_old(p))
                .map(|p| p.0.clone())
                .collect();
            entry.old.retain(|pair| !is_old(pair));
            let current = entry.current.as_ref();
            let is_current = current.is_some_and(|pair| spis.contains(&pair.spi_out));
            // strongSwan names our SPI if it could not install its SAs (RFC 2408 §3.15 says the
            // sender's), and would fail again at once.
            let is_taken_back = entry
                .current
                .as_ref()
                .is_some_and(|pair| spis.contains(&pair.spi_in));
            if !gone.is_empty() {
                self.take_over(child);
                self.arm_child(child);
            }
            gone.iter().for_each(|pair| self.remove_pair(child, pair));
            if is_current && !self.fall_back(id, child) {
                self.close_child(child, EndCause::DeletedByPeer, false, now);
            } else if is_taken_back {
                let cause = EndCause::NotPutToUse;
                self.close_and_retry(child, cause, false, REFUSED_RETRY, now);
            }
        }
    }

    /// The peer of IKEv2 ends the pair of its renewal while ours of the same child is under way: it
    /// knows both, and ours stands (RFC 7296 §2.8.1). Until we have the answer, the pair before
    /// both is in use again. Returns whether there is one.
    fn fall_back(&mut self, id: SessionId, child: ChildId) -> bool {
        let session = self.sessions.get(&id).filter(|it| it.ike.is_v2());
        let is_asked = session.is_some_and(|it| it.ike.under_way().contains(&child));
        let is_left = session.is_some_and(|it| it.ike.leaves_children_to_peer());
        let entry = self.children.get_mut(&child).filter(|_| is_asked);
        let Some(entry) = entry.filter(|it| it.current.as_ref().is_some_and(|it| !it.is_ours))
        else {
            return false;
        };
        let Some((before, _)) = entry.old.pop() else {
            return false;
        };
        // With the end of its own life.
        let lifetime = entry.child().lifetime;
        entry.expire_at = Some(before.since + hard_lifetime(lifetime, is_left));
        let redundant = entry.current.replace(before);
        (entry.takeover, entry.rekey_at) = (None, None);
        redundant.iter().for_each(|it| self.remove_pair(child, it));
        self.arm_child(child);
        true
    }

    /// The children of a session's peer. A later session may have taken some over, and the peer may
    /// still name them under the earlier one. Not those of another peer with the same identity.
    fn children_of_peer(&self, id: SessionId) -> Vec<ChildId> {
        let mut sessions = self.siblings(id);
        let mut next = Some(id);
        while let Some(id) = next.filter(|id| !sessions.contains(id)) {
            sessions.push(id);
            next = self.sessions.get(&id).and_then(Session::heir);
        }
        let sessions = sessions.iter().filter_map(|id| self.sessions.get(id));
        sessions.flat_map(|it| it.held.children.clone()).collect()
    }

    /// The session that owns a child when an exchange under `id` ends: another session may have
    /// taken over meanwhile.
    pub(super) fn home_of(&self, id: SessionId, child: ChildId) -> SessionId {
        let home = self.children.get(&child).and_then(|entry| entry.session);
        home.filter(|home| self.sessions.contains_key(home))
            .unwrap_or(id)
    }

    /// Ends a child: its SAs leave the planes. A station's child stays expected.
    pub(super) fn close_child(
        &mut self,
        child: ChildId,
        cause: EndCause,
        tells_peer: bool,
        now: Instant,
    ) {
        self.close_and_retry(child, cause, tells_peer, CHILD_RETRY, now);
    }

    fn close_and_retry(
        &mut self,
        child: ChildId,
        cause: EndCause,
        tells_peer: bool,
        retry: Duration,
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
        (entry.rekey_at, entry.expire_at, entry.takeover) = (None, None, None);
        entry.refused = Vec::new();
        let event = Event::ChildClosed {
            connection: entry.connection.name.clone(),
            child: entry.child().name.clone(),
            cause,
        };
        for pair in &pairs {
            if let (true, Some(session)) = (tells_peer, session) {
                self.send_delete(session, pair, now);
            }
            self.remove_pair(child, pair);
        }
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(&id)) {
            session.held.children.retain(|other| *other != child);
        }
        if !pairs.is_empty() {
            self.outputs.tell(event);
        }
        self.arm_child(child);
        self.drop_unused_child(child);
        if let Some(session) = session {
            self.station_child_down(session, child, retry, now);
        }
    }

    /// Removes a child with its last SA, unless a station waits for it.
    pub(super) fn drop_unused_child(&mut self, child: ChildId) {
        if self.children.is_up(child) || self.stations.of_child(child).is_some() {
            return;
        }
        if let Some(mut entry) = self.children.remove(child) {
            self.timers.arm(Timer::Child(child), &mut entry.armed, None);
        }
    }

    fn remove_pair(&mut self, child: ChildId, pair: &Pair) {
        self.release(child, pair.spi_in);
        if pair.is_sealing {
            let removed = OutboundChange::Remove(child, pair.spi_out);
            self.outputs.outbound(removed);
        }
    }

    /// Releases an SPI of ours. If it names an SA in the inbound plane, removes that.
    fn release(&mut self, child: ChildId, spi: u32) {
        if self.children.free_spi(spi) == Some(SpiUse::Installed) {
            self.outputs.inbound(InboundChange::Remove(child, spi));
        }
    }

    /// A peer of IKEv2 has a pair that nobody wants here any more.
    fn delete_unwanted(&mut self, id: SessionId, negotiated: &NegotiatedChild, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id).filter(|it| it.ike.is_v2()) else {
            return;
        };
        let (protocol, spi) = (negotiated.suite.protocol, negotiated.spi_in);
        let (mut out, random) = (session.ike.outbox(), &mut self.random);
        session
            .ike
            .delete_child(protocol, spi, random, now, &mut out);
        self.flush(Some(id), out);
    }

    fn send_delete(&mut self, id: SessionId, pair: &Pair, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (protocol, random) = (pair.suite.protocol, &mut self.random);
        let mut out = Outbox::default();
        session
            .ike
            .delete_child(protocol, pair.spi_in, random, now, &mut out);
        self.flush(Some(id), out);
    }

    /// Cleans up after an exchange for a child that failed. A responder's inbound SA was installed
    /// with message 2.
    pub(super) fn undo_exchange(&mut self, child: ChildId, spi: u32) {
        if self.stations.of_child(child).is_none() {
            self.outputs.outbound(OutboundChange::Forget(child));
        }
        self.release(child, spi);
    }

    pub(super) fn move_child(&mut self, child: ChildId, path: Path, bytes: u64, now: Instant) {
        let Some(id) = self.children.get(&child).and_then(|entry| entry.session) else {
            return;
        };
        let shown = self.path_shown(id, path);
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let is_of_other_family = shown.remote.is_ipv4() != path.remote.is_ipv4();
        let is_astray = session.ike.is_mover() && !session.may_go_to(path.remote.ip());
        let home = session.path();
        if self.is_late(id, path, now) || is_of_other_family || is_astray {
            return self.lead(&[child], home);
        }
        if home == shown {
            self.allow(id, bytes);
            if shown == path {
                // IKE was received from there first.
                self.lead(&[child], path);
            }
            return;
        }
        self.move_session(id, shown, bytes, now);
    }

    /// The peer of a session has moved, and `bytes` have come from its new address: IKE and every
    /// child follow. The new port counts too. A path with another encapsulation is not
    /// followed, and neither is an address that no tunnel can lead to.
    pub(super) fn move_session(&mut self, id: SessionId, path: Path, bytes: u64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let former = session.path();
        if former != path && path.via == former.via {
            self.relocate(id, path, bytes, now);
        }
    }

    /// The same, and encapsulation may be another one: an update of MOBIKE comes over port 4500.
    /// The ends of a path are of one family.
    pub(super) fn relocate(&mut self, id: SessionId, path: Path, bytes: u64, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let former = session.path();
        let mut connection = session.connection().into_iter();
        let is_of_one_family = path.local.is_ipv4() == path.remote.is_ipv4();
        if !is_of_one_family || !connection.all(|it| it.has_room_at(path.remote.ip())) {
            return self.drops.count(DropReason::UnusableAddress);
        }
        session.ike.move_to(path);
        session.roaming().moves += 1;
        let name = session.connection_name();
        let children = session.held.children.clone();
        let is_back = self.doubt(id, former, bytes, now);
        self.lead(&children, path);
        self.follow_gateway(id);
        match is_back {
            true => self.prove(id),
            false => self.allow(id, bytes),
        }
        self.repeat_requests(id, now);
        if let Some(connection) = name {
            self.outputs.tell(Event::PathMoved { connection, path });
        }
        self.set_addresses(id);
        self.check_proof(id, now);
        self.tell_moved(id, now);
    }

    /// Moves the packets of these children to this path.
    pub(super) fn lead(&mut self, children: &[ChildId], path: Path) {
        for child in children {
            self.outputs.outbound(OutboundChange::Move(*child, path));
            self.outputs.inbound(InboundChange::Move(*child, path));
        }
    }

    pub(super) fn arm_child(&mut self, child: ChildId) {
        if let Some(entry) = self.children.get_mut(&child) {
            let deadline = entry.deadline();
            self.timers
                .arm(Timer::Child(child), &mut entry.armed, deadline);
        }
    }
}

/// Names a protocol in sentences.
pub(super) fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Esp => "ESP",
        Protocol::Ah => "AH",
    }
}
