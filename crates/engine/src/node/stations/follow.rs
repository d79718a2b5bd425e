//! What a station does when our own addresses or the routes change.
//!
//! Its own end of a path is what the routing table says. Only the remote end follows packets,
//! because those that were in flight during a move still arrive at the former address.

use std::net::{IpAddr, SocketAddr};

use super::race::first_path;
use super::{State, Station};
use crate::config::Connection;
use crate::ike::IKE_PORT;
use crate::node::session::Purpose;
use crate::node::session_id::SessionId;
use crate::node::ways::Way;
use crate::node::{EndCause, Node};
use crate::sa::{Mode, Path, Via};
use crate::time::Instant;

impl Station {
    /// Whether a child that it requests names our own address.
    fn names_own_address(&self) -> bool {
        let mut children = self.connection.children.iter();
        !self.connection.wants_inner.is_any() || children.any(|it| it.mode == Mode::Transport)
    }

    /// Its tunnel leads to another address of the gateway.
    fn gateway_moved(&mut self, to: SocketAddr) {
        let named = self.connection.remote_addrs.iter();
        let named = named.copied().find(|it| it.ip() == to.ip());
        let to = named.unwrap_or_else(|| (to.ip(), IKE_PORT).into());
        let former = self.used.replace(to).filter(|it| *it != to);
        self.passed_over.retain(|(it, _)| *it != to);
        if let Some(former) = former {
            self.passed_over.retain(|(it, _)| *it != former);
            self.passed_over.push((former, "left".to_owned()));
        }
    }
}

impl Node {
    /// The path to the peer of a session after something authentic came over `path`. At a station,
    /// our own end stays. Elsewhere we answer from the address that the peer has used.
    pub(in crate::node) fn path_shown(&self, id: SessionId, path: Path) -> Path {
        let current = self.sessions.heir_of(id);
        match (self.stations.of_session(current), self.sessions.get(&id)) {
            (Some(_), Some(session)) => {
                let own = session.path();
                match own.local.is_ipv4() == path.remote.is_ipv4() {
                    true => Path {
                        local: own.local,
                        ..path
                    },
                    // It was under way when we left that family.
                    false => own,
                }
            }
            _ => path,
        }
    }

    /// The way to an address of a connection's peer.
    pub(super) fn way_from_here(&self, connection: &Connection, remote: IpAddr) -> Way {
        self.ways.way_to(remote, &connection.local_addrs)
    }

    /// The ways to the gateway's addresses.
    pub(super) fn ways_of(&self, index: usize) -> Vec<Way> {
        let connection = &self.stations[index].connection;
        let remotes = connection.remote_addrs.iter();
        let ways = remotes.map(|remote| self.way_from_here(connection, remote.ip()));
        ways.collect()
    }

    /// After a change of our addresses: a tunnel moves to the one that leads to its gateway,
    /// attempts begin again from there, and a station in backoff tries again at once. Changes that
    /// are too frequent are followed later. Does nothing if this station's ways are the same.
    pub(in crate::node) fn follow_addresses(&mut self, index: usize, now: Instant) {
        if self.stations[index].is_retired {
            return;
        }
        let stray = self.stray_session(index);
        let racers = self.stray_racers(index);
        let retries = self.has_new_way(index, now);
        if let (None, Some(id)) = (&stray, self.stations[index].state.session()) {
            self.tell_later(id, now);
        }
        let is_moved = stray.is_some() || !racers.is_empty() || retries;
        if is_moved && self.stations[index].followed.take(now) {
            for (racer, path) in racers {
                self.race_again(index, racer, path, now);
            }
            if let Some((id, path)) = stray {
                self.own_address_moved(index, id, path, now);
            }
            if retries {
                self.stations[index].attempt = 0;
                self.attempt(index, now);
            }
        }
        self.arm_station(index);
    }

    /// Racers that send from another address than the one that leads to theirs now, and their path
    /// from there.
    fn stray_racers(&self, index: usize) -> Vec<(SessionId, Path)> {
        let racers = self.stations[index].race.racers.iter();
        let strays = racers.filter_map(|racer| {
            let former = self.sessions.get(&racer.id)?.path();
            if racer.is_beside && self.leads_from(former.local.ip(), racer.address.ip()) {
                return None;
            }
            let connection = &self.stations[index].connection;
            let Way::From(local) = self.way_from_here(connection, racer.address.ip()) else {
                return None;
            };
            (local != former.local.ip()).then(|| (racer.id, first_path(local, racer.address)))
        });
        strays.collect()
    }

    /// A racer begins again over this path.
    fn race_again(&mut self, index: usize, id: SessionId, path: Path, now: Instant) {
        let mut others = self.stations[index].race.racers.iter();
        if others.any(|it| it.id != id && it.own == path.local.ip() && it.address == path.remote) {
            // It has begun from there already.
            self.stations[index].race.take(id);
            return self.cut_off(id, EndCause::OwnAddressChanged, now);
        }
        let connection = self.stations[index].connection.clone();
        // The new one goes on with the ticket, if the old one has not got anywhere with it.
        self.settle_ticket(id, &EndCause::OwnAddressChanged);
        let anew = self.initiate(connection, path, Purpose::Connect, now);
        let race = &mut self.stations[index].race;
        race.replace(id, anew);
        let mut racers = race.racers.iter_mut();
        if let Some(racer) = racers.find(|racer| racer.id == anew) {
            (racer.own, racer.is_beside) = (path.local.ip(), false);
        }
        self.cut_off(id, EndCause::OwnAddressChanged, now);
    }

    /// A session with MOBIKE has moved, perhaps to another address of its gateway.
    pub(in crate::node) fn follow_gateway(&mut self, id: SessionId) {
        let session = self.sessions.get(&id).filter(|it| it.ike.is_mover());
        let Some(remote) = session.map(|it| it.path().remote) else {
            return;
        };
        if let Some(index) = self.stations.of_session(id) {
            let station = &mut self.stations[index];
            if station.used.is_some_and(|it| it.ip() != remote.ip()) {
                station.gateway_moved(remote);
            }
        }
    }

    /// The station's session, if it uses another address of ours than the one that leads to the
    /// gateway now, and the path from there. With MOBIKE the gateway may have several addresses.
    fn stray_session(&self, index: usize) -> Option<(SessionId, Path)> {
        let station = &self.stations[index];
        let id = station.state.session()?;
        let session = self.sessions.get(&id)?;
        if session.ike.is_mover() {
            return self.better_path(id).map(|path| (id, path));
        }
        if !station.race.is_idle() {
            // A new session is on its way, and follows by itself.
            return None;
        }
        let path = session.path();
        match self.way_from_here(&station.connection, station.used?.ip()) {
            Way::From(local) if local != path.local.ip() && !self.stays_on_path(session) => {
                let local = (local, path.local.port()).into();
                Some((id, Path { local, ..path }))
            }
            _ => None,
        }
    }

    /// Whether a station in backoff has a way that its last attempt did not have.
    fn has_new_way(&mut self, index: usize, now: Instant) -> bool {
        let ways = self.ways_of(index);
        let station = &mut self.stations[index];
        if !ways.iter().any(|way| matches!(way, Way::From(_))) {
            // The same way is a new one when it comes back.
            station.ways = ways;
            return false;
        }
        let waits = matches!(station.state, State::Backoff(_)) && !station.ousted.is_resting(now);
        waits && station.ways != ways
    }

    /// Another session has taken over. It may have begun from an address that we have left since.
    pub(super) fn look_soon(&mut self, index: usize, now: Instant) {
        self.stations[index].followed.again_at = Some(now);
        self.arm_station(index);
    }

    /// Our own address changed under a session. In IKEv1 and UDP the peer follows authenticated
    /// messages, so a probe at once shows it the new path; in IKEv2 an update of MOBIKE does.
    /// Without UDP or MOBIKE the SAs contain our address, so start again.
    fn own_address_moved(&mut self, index: usize, id: SessionId, moved: Path, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let path = session.path();
        let is_mover = session.ike.is_mover();
        let follows = session.held.children.iter().all(|child| {
            let pair = self
                .children
                .get(child)
                .and_then(|entry| entry.current.as_ref());
            pair.is_none_or(|pair| {
                (pair.is_udp_encapsulated || is_mover) && pair.mode == Mode::Tunnel
            })
        });
        if is_mover && follows {
            return self.move_session(id, moved, 0, now);
        }
        if session.ike.is_v2() {
            return self.race_elsewhere(id, now);
        }
        let may_move = match self.stations[index].state {
            State::Up(_) => true,
            // The peer may not have our last message of phase 1, only a probe shows it the new
            // path, and its children may name our address.
            _ => {
                !session.ike.has_phase1()
                    && session.ike.answers_probes()
                    && !self.stations[index].names_own_address()
            }
        };
        if !follows || !may_move || path.via != Via::UdpWithMarker {
            return self.begin_from_here(index, id, now);
        }
        self.move_session(id, moved, 0, now);
        self.ask(id, now);
        self.renew_from_here(index, id, now);
    }

    /// A session of IKEv2 that cannot move: a new one takes over, and the old one stays until then.
    /// It has the same inner address.
    pub(in crate::node) fn race_elsewhere(&mut self, id: SessionId, now: Instant) {
        let Some(index) = self.stations.of_session(id) else {
            return;
        };
        match self.stations[index].state {
            State::Up(_) => self.race_anew(index, now),
            _ => self.begin_from_here(index, id, now),
        }
    }

    /// Ends a session that cannot move. An attempt begins again at once.
    fn begin_from_here(&mut self, index: usize, id: SessionId, now: Instant) {
        let station = &mut self.stations[index];
        let was_up = matches!(station.state, State::Up(_));
        if !was_up {
            // Then the end of its session is no loss that it waits after.
            (station.state, station.attempt) = (State::AwaitingAddress, 0);
        }
        self.close_session(id, EndCause::OwnAddressChanged, true, now);
        if !was_up {
            self.attempt(index, now);
        }
    }

    /// A renewal in progress uses the former address: it begins again, unless its last message has
    /// left.
    fn renew_from_here(&mut self, index: usize, id: SessionId, now: Instant) {
        let renewal = self.stations[index].renewal;
        let session = renewal.and_then(|renewal| self.sessions.get(&renewal));
        let has_proven = session.is_none_or(|session| session.ike.has_proven());
        if let (Some(renewal), false) = (renewal, has_proven) {
            self.close_session(renewal, EndCause::OwnAddressChanged, false, now);
            self.rekey_session(id, now);
        }
    }
}
