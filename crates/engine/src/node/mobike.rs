//! Addresses that change under a session of IKEv2 (RFC 4555).
//!
//! The end that began the first IKE SA, the *mover*, decides where both ends send: it takes the
//! first of its candidate paths, which are its own addresses towards the gateway's. The one in use
//! is the first candidate as long as a route leads there. If it falls silent, open requests are
//! sent over the others too, and the first answer decides. The other end follows at once, and
//! `proof.rs` bounds what it sends to an address that is not proven.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use super::roaming::Roaming;
use super::session::Session;
use super::session_id::SessionId;
use super::ways::Way;
use super::{Event, Node, Output};
use crate::config::Connection;
use crate::ike::{Fact, Notification, Outbox};
use crate::ikev2::addresses::told;
use crate::sa::{ChildId, Path, Protocol};
use crate::time::{Duration, Instant};

/// Paths that are tested at a time.
const MAX_TESTED: usize = 8;
/// Refused paths that are remembered.
const MAX_REFUSED: usize = 8;
/// A mover tells addresses that it does not use so much later.
const TELL_AFTER: Duration = Duration::from_secs(2);
/// After an update, packets that were in flight do not move the peer back for this long.
const IN_FLIGHT: Duration = Duration::from_secs(2);

impl Session {
    /// What it has done with its paths.
    pub(super) fn roaming(&mut self) -> &mut Roaming {
        self.roaming.get_or_insert_default()
    }

    /// Our addresses or routes are others: a peer may follow where it did not.
    pub(super) fn forget_refusals(&mut self) {
        if let Some(roaming) = &mut self.roaming {
            roaming.refused.clear();
        }
    }

    /// Whether a mover may send to this address of its peer: it does, or its file names it, or the
    /// peer has named it under keys. Nobody has authenticated where a packet comes from.
    pub(super) fn may_go_to(&self, there: IpAddr) -> bool {
        let is_configured = self.connection().is_some_and(|it| it.names(there));
        let is_named = || self.ike.peer_addresses().contains(&there);
        self.path().remote.ip() == there || is_configured || is_named()
    }

    /// How often its path has changed.
    pub(super) fn moves(&self) -> u32 {
        self.roaming.as_ref().map_or(0, |it| it.moves)
    }
}

/// Our addresses.
impl Node {
    /// Our addresses are others. Stations say so when the ways come.
    pub(super) fn on_addresses(&mut self, own: BTreeSet<IpAddr>, now: Instant) {
        if self.own == own {
            return;
        }
        self.own = own;
        let stations: Vec<SessionId> = self.stations.sessions().collect();
        for id in self.sessions.ids(|it| it.ike.has_mobike()) {
            if !stations.contains(&id) {
                self.leave_lost_address(id, now);
                self.tell_addresses(id, now);
            }
        }
    }

    /// All our addresses, as far as anybody has said.
    pub(super) fn own_addresses(&self) -> Vec<IpAddr> {
        let towards_peers = self.ways.0.values().flatten();
        let all: BTreeSet<IpAddr> = self.own.iter().chain(towards_peers).copied().collect();
        all.into_iter().collect()
    }

    /// What a peer is told of our addresses.
    pub(super) fn told_of(&self, connection: &Connection, path: Path) -> Vec<IpAddr> {
        told(connection, &self.own_addresses(), path.local.ip())
    }

    /// Tells a peer our addresses, unless it knows.
    pub(super) fn tell_addresses(&mut self, id: SessionId, now: Instant) {
        let Some(own) = self.told_in(id) else { return };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        let (is_proven, random) = (session.unproven.is_none(), &mut self.random);
        if let Some(ike) = session.ike.v2_mut() {
            ike.tell_addresses(own, is_proven, random, now, &mut out);
        }
        self.flush(Some(id), out);
        self.arm_session(id);
    }

    /// A mover's addresses are others and its path is not. It tells them a little later: an address
    /// that has just come is often the one that it moves to next, and the update must not wait for
    /// an exchange that is open.
    pub(super) fn tell_later(&mut self, id: SessionId, now: Instant) {
        let Some(own) = self.told_in(id) else { return };
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        if !session.ike.is_told(&own) {
            session.roaming().tell_at.get_or_insert(now + TELL_AFTER);
            self.arm_session(id);
        }
    }

    /// Tells them if it is time.
    pub(super) fn tell_late(&mut self, id: SessionId, now: Instant) {
        let session = self.sessions.get_mut(&id);
        let roaming = session.and_then(|it| it.roaming.as_mut());
        let is_due = roaming.and_then(|it| it.tell_at.take_if(|at| *at <= now));
        if is_due.is_some() {
            self.tell_addresses(id, now);
        }
    }

    /// The next update of a session names our addresses as they are.
    pub(super) fn set_addresses(&mut self, id: SessionId) {
        let Some(own) = self.told_in(id) else { return };
        if let Some(session) = self.sessions.get_mut(&id) {
            let is_proven = session.unproven.is_none();
            if let Some(ike) = session.ike.v2_mut() {
                ike.set_addresses(own, is_proven);
            }
        }
    }

    fn told_in(&self, id: SessionId) -> Option<Vec<IpAddr>> {
        let session = self.sessions.get(&id).filter(|it| it.ike.has_mobike())?;
        Some(self.told_of(session.connection()?, session.path()))
    }

    /// A gateway's address is gone: it sends from another one, and the peer follows (RFC 4555
    /// §3.6).
    fn leave_lost_address(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let path = session.path();
        if self.own.is_empty() || self.own.contains(&path.local.ip()) {
            return;
        }
        let others = self.told_in(id).unwrap_or_default();
        let mut others = others.into_iter();
        if let Some(other) = others.find(|it| it.is_ipv4() == path.local.is_ipv4()) {
            let local = SocketAddr::new(other, path.local.port());
            self.move_session(id, Path { local, ..path }, 0, now);
            let session = self.sessions.get_mut(&id);
            if let Some(ike) = session.and_then(|it| it.ike.v2_mut()) {
                ike.note_lost();
            }
        }
    }
}

/// The end that follows.
impl Node {
    /// The peer is where its message came from, and wants everything there.
    pub(super) fn follow_update(
        &mut self,
        id: SessionId,
        path: Path,
        (came, went): (u64, u64),
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let former = session.path();
        if former != path {
            session.roaming().left = Some((former, now));
            self.relocate(id, path, credit(came, went), now);
        }
        self.follow_nat(id, now);
    }

    /// Whether a packet only shows where its peer was before its last update.
    pub(super) fn is_late(&self, id: SessionId, path: Path, now: Instant) -> bool {
        let session = self.sessions.get(&id);
        let roaming = session.and_then(|it| it.roaming.as_deref());
        let Some((left, at)) = roaming.and_then(|it| it.left) else {
            return false;
        };
        let here = session.map(|it| it.path().remote);
        // Behind one address of a NAT, only ports differ.
        let is_there = match here.is_some_and(|it| it.ip() == path.remote.ip()) {
            true => left.remote == path.remote && here != Some(path.remote),
            false => left.remote.ip() == path.remote.ip(),
        };
        is_there && now.since(at) < IN_FLIGHT
    }

    /// Octets of an authentic message came from the peer's address. If it is unproven, three times
    /// as many may go there, those of our answers included.
    pub(super) fn credit(
        &mut self,
        id: SessionId,
        path: Path,
        facts: &[Fact],
        sizes: (u64, u64),
        now: Instant,
    ) {
        let is_new = |fact: &Fact| {
            !matches!(
                fact,
                Fact::Pending | Fact::Dropped(_) | Fact::Unproven(_) | Fact::Unreadable(_)
            )
        };
        // The answer to a question takes all.
        let is_question = |fact: &Fact| matches!(fact, Fact::AsksChild(_) | Fact::AsksAddress(_));
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        // What moves the peer, if only to another port, counts with the move: what may be sent then
        // goes there.
        let moves = |fact: &Fact| {
            let is_move = |it: &Notification| matches!(it, Notification::Moved { .. });
            matches!(fact, Fact::Told(_, notices) if notices.iter().any(is_move))
        };
        let here = session.path();
        let is_there = here.remote.ip() == path.remote.ip();
        if session.unproven.is_some()
            && is_there
            && (here == path || !facts.iter().any(moves))
            && facts.iter().any(is_new)
            && !facts.iter().any(is_question)
        {
            self.allow(id, credit(sizes.0, sizes.1));
            let session = self.sessions.get_mut(&id);
            let unproven = session.and_then(|it| it.unproven.as_mut());
            if unproven.is_some_and(|it| core::mem::take(&mut it.is_withholding)) {
                self.repeat_requests(id, now);
            }
        }
    }

    /// NATs on the path may be others: keepalives follow, and children that must be in UDP and are
    /// not are renewed.
    pub(super) fn follow_nat(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(connection) = session.connection().cloned() else {
            return;
        };
        session.liveness.follow_nat(&connection, &session.ike, now);
        let is_natted = session.ike.nat().is_between() && session.ike.is_mover();
        let children = session.held.children.clone();
        let is_raw = |child: &ChildId| {
            let entry = self.children.get(child);
            let pair = entry.and_then(|entry| entry.current.as_ref());
            pair.is_some_and(|it| {
                !it.is_udp_encapsulated && it.suite.protocol == Protocol::Esp && is_natted
            })
        };
        let raw: Vec<ChildId> = children.into_iter().filter(is_raw).collect();
        raw.into_iter()
            .for_each(|child| self.rekey_child(child, now));
        self.arm_session(id);
    }
}

/// The mover.
impl Node {
    /// A mover must know the ways to all addresses of its peer.
    pub(super) fn ask_for_ways(&mut self, id: SessionId) {
        let is_known = |session: &Session| {
            let here = core::iter::once(session.path().remote.ip());
            let mut all = here.chain(session.ike.peer_addresses().iter().copied());
            all.all(|it| self.ways.0.contains_key(&it))
        };
        let session = self.sessions.get(&id);
        if session.is_some_and(|it| it.ike.is_mover() && !is_known(it)) {
            self.outputs.push(Output::WantsAddresses);
        }
    }

    /// The peer has named its other addresses. If it has left the one that we use, we follow it to
    /// where it sends from, if we know that address.
    pub(super) fn addresses_told(
        &mut self,
        id: SessionId,
        path: Path,
        (came, went): (u64, u64),
        now: Instant,
    ) {
        self.ask_for_ways(id);
        let Some(session) = self.sessions.get(&id).filter(|it| it.ike.is_mover()) else {
            return;
        };
        let (current, remote) = (session.path(), path.remote);
        let (here, there) = (current.remote.ip(), remote.ip());
        let is_gone = there != here && !session.ike.peer_addresses().contains(&here);
        if !is_gone || !session.may_go_to(there) {
            return;
        }
        let own = session.connection().map_or(&[][..], |it| &it.local_addrs);
        let local = match self.ways.way_to(there, own) {
            _ if there.is_ipv4() == here.is_ipv4() => current.local,
            Way::From(chosen) => (chosen, current.local.port()).into(),
            // It sent this before it heard that we have left that family.
            Way::Unknown | Way::Nowhere => return,
        };
        let path = Path {
            local,
            remote,
            ..current
        };
        self.move_session(id, path, credit(came, went), now);
    }

    /// The peer sends to where the session is. A new session in its place is not needed any more.
    pub(super) fn followed(&mut self, id: SessionId, now: Instant) {
        self.call_off_move(id, now);
        self.follow_nat(id, now);
    }

    /// A session is to stay on its path while the routing table chooses as now: its choice did not
    /// answer.
    pub(super) fn stay_on_path(&mut self, id: SessionId) {
        let ways = self.ways.clone();
        if let Some(session) = self.sessions.get_mut(&id) {
            let path = session.path();
            session.roaming().chosen = Some((path, ways));
        }
    }

    /// Whether it does, although the routing table chooses another way.
    pub(super) fn stays_on_path(&self, session: &Session) -> bool {
        let roaming = session.roaming.as_deref();
        let chosen = roaming.and_then(|it| it.chosen.as_ref());
        chosen.is_some_and(|(path, ways)| {
            *path == session.path()
                && ways.chooses_as(&self.ways)
                && self.leads_from(path.local.ip(), path.remote.ip())
        })
    }

    /// The path that a mover's session should take, if it is another one.
    pub(super) fn better_path(&self, id: SessionId) -> Option<Path> {
        let session = self.sessions.get(&id)?;
        let current = session.path();
        let here = current.remote.ip();
        let addresses = &session.connection()?.local_addrs;
        if self.ways.way_to(here, addresses) == Way::Unknown {
            return None;
        }
        if self.stays_on_path(session) {
            return None;
        }
        let best = self.candidates(session).into_iter().next()?;
        (best != current).then_some(best)
    }

    /// The paths of a session, the best first: the peer's address in use, the configured ones, then
    /// those that it has named; from the address of ours that the routing table chooses, and, for a
    /// test, from the others.
    fn candidates(&self, session: &Session) -> Vec<Path> {
        let Some(connection) = session.connection() else {
            return Vec::new();
        };
        let current = session.path();
        let configured = connection.remote_addrs.iter().map(|it| it.ip());
        let named = session.ike.peer_addresses().iter().copied();
        let remotes = core::iter::once(current.remote.ip())
            .chain(configured)
            .chain(named);
        let roaming = session.roaming.as_ref();
        let refused = roaming.map_or(&[][..], |it| &it.refused[..]);
        let (mut first, mut others) = (Vec::new(), Vec::new());
        for remote in remotes {
            let Way::From(chosen) = self.ways.way_to(remote, &connection.local_addrs) else {
                continue;
            };
            let path = |local: IpAddr| Path {
                local: (local, current.local.port()).into(),
                remote: (remote, current.remote.port()).into(),
                via: current.via,
            };
            first.push(path(chosen));
            let all = self.ways.0.get(&remote).into_iter().flatten();
            let usable = all.filter(|it| connection.speaks_from(**it));
            others.extend(usable.map(|it| path(*it)));
        }
        let mut found: Vec<Path> = Vec::new();
        for path in first.into_iter().chain(others) {
            if !found.contains(&path) && !refused.contains(&path) {
                found.push(path);
            }
        }
        found
    }

    /// A mover's session has moved: the peer is told at once. Where the new address must be proven,
    /// a probe has said so.
    pub(super) fn tell_moved(&mut self, id: SessionId, now: Instant) {
        let session = self.sessions.get(&id);
        if session.is_some_and(|it| it.ike.is_mover() && it.unproven.is_none()) {
            self.ask(id, now);
        }
        self.ask_for_ways(id);
    }

    /// Probes have no answer: sends the open request over the other paths too (RFC 4555 §3.10).
    pub(super) fn test_paths(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get(&id).filter(|it| it.ike.is_mover()) else {
            return;
        };
        let current = session.path();
        let mut others = self.candidates(session);
        others.retain(|path| *path != current);
        others.truncate(MAX_TESTED);
        let Some(session) = self.sessions.get_mut(&id).filter(|_| !others.is_empty()) else {
            return;
        };
        session.roaming().is_testing = true;
        let mut out = session.ike.outbox();
        if let Some(ike) = session.ike.v2_mut() {
            others
                .into_iter()
                .for_each(|path| ike.try_over(path, &mut out));
        }
        self.flush(Some(id), out);
    }

    /// An authentic message came over this path. The first one ends a test, and decides.
    pub(super) fn end_test(&mut self, id: SessionId, path: Path, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let Some(roaming) = session.roaming.as_mut() else {
            return;
        };
        if !core::mem::take(&mut roaming.is_testing) || session.path() == path {
            return;
        }
        let session = self.sessions.get(&id);
        if !session.is_some_and(|it| self.candidates(it).contains(&path)) {
            return;
        }
        let ways = self.ways.clone();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.roaming().chosen = Some((path, ways));
        }
        self.move_session(id, path, 0, now);
    }

    /// The peer refuses to send to the session's path: the next candidate is tried, and if there is
    /// none, a new session.
    pub(super) fn stays_behind(&mut self, id: SessionId, name: String, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let path = session.path();
        let connection = session.connection_name();
        let refused = &mut session.roaming().refused;
        if refused.len() == MAX_REFUSED {
            refused.remove(0);
        }
        refused.push(path);
        self.outputs.tell(Event::PeerComplains {
            connection,
            path,
            complaint: format!("{name}: it does not send to our new address"),
            is_proven: true,
        });
        match self.better_path(id) {
            Some(path) => self.move_session(id, path, 0, now),
            None => self.race_elsewhere(id, now),
        }
    }
}

/// What an unproven address may get for what came from there, less what has gone there: a third of
/// it counts.
fn credit(came: u64, went: u64) -> u64 {
    came.saturating_sub(went.div_ceil(super::proof::AMPLIFICATION))
}

/// Requests that were open before a move.
impl Node {
    /// Repeats them at once.
    pub(super) fn repeat_requests(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let mut out = session.ike.outbox();
        if let Some(ike) = session.ike.v2_mut() {
            ike.repeat(now, &mut out);
        }
        self.withhold(id, &mut out);
        self.flush(Some(id), out);
    }

    /// Takes requests that may not go to the session's address yet out of an outbox. They are
    /// repeated by their timers.
    pub(super) fn withhold(&mut self, id: SessionId, out: &mut Outbox) {
        let Some(session) = self.sessions.get_mut(&id).filter(|it| it.ike.is_v2()) else {
            return;
        };
        let there = session.path().remote.ip();
        if let Some(unproven) = session.unproven.as_mut() {
            unproven.withhold(there, out);
        }
    }
}
