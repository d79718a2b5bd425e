//! What a station does when our own addresses or the routes change.
//!
//! Its own end of a path is what the routing table says. Only the remote end follows packets,
//! because those that were in flight during a move still arrive at the former address.

use std::net::{IpAddr, SocketAddr};

use super::State;
use crate::node::addresses::Way;
use crate::node::session_id::SessionId;
use crate::node::{EndCause, Node};
use crate::sa::{Mode, Path, Via};
use crate::time::Instant;

impl Node {
    /// The path to the peer of a session after something authentic came over `path`. At a station,
    /// our own end stays. Elsewhere we answer from the address that the peer has used.
    pub(in crate::node) fn path_shown(&self, id: SessionId, path: Path) -> Path {
        let current = self.sessions.heir_of(id);
        match (self.stations.of_session(current), self.sessions.get(&id)) {
            (Some(_), Some(session)) => Path {
                local: session.path().local,
                ..path
            },
            _ => path,
        }
    }

    /// After a change of our addresses: a tunnel moves to the one that leads to its gateway, and a
    /// station in backoff tries again at once. Changes that are too frequent are followed later.
    pub(in crate::node) fn follow_addresses(&mut self, index: usize, now: Instant) {
        let station = &mut self.stations[index];
        let among = &station.connection.local_addrs;
        let way = |remote: &SocketAddr| self.addresses.way_to(remote.ip(), among);
        match station.state {
            _ if station.is_retired => {}
            State::Up(id) => {
                let (Some(Way::From(local)), Some(session)) =
                    (station.used.as_ref().map(way), self.sessions.get(&id))
                else {
                    return;
                };
                if session.path().local.ip() != local && station.followed.take(now) {
                    self.own_address_moved(id, local, now);
                }
            }
            State::Backoff(_) if station.ousted.rest(now).is_zero() => {
                let mut remotes = station.connection.remote_addrs.iter();
                let has_way = remotes.any(|remote| matches!(way(remote), Way::From(_)));
                if has_way && station.followed.take(now) {
                    station.attempt = 0;
                    self.attempt(index, now);
                }
            }
            _ => {}
        }
        self.arm_station(index);
    }

    /// Another session has taken over. It may have begun from an address that we have left since.
    pub(super) fn look_soon(&mut self, index: usize, now: Instant) {
        self.stations[index].followed.again_at = Some(now);
        self.arm_station(index);
    }

    /// Our own address changed under a session. In UDP the peer follows authenticated messages, so
    /// a probe at once shows it the new path. Without UDP the SAs contain our address, so start
    /// again.
    fn own_address_moved(&mut self, id: SessionId, local: IpAddr, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let path = session.path();
        let follows = session.held.children.iter().all(|child| {
            let pair = self.children.get(child).and_then(|entry| entry.current);
            pair.is_none_or(|pair| pair.is_udp_encapsulated && pair.mode == Mode::Tunnel)
        });
        if !follows || path.via != Via::UdpWithMarker {
            return self.close_session(id, EndCause::OwnAddressChanged, true, now);
        }
        let moved = Path {
            local: (local, path.local.port()).into(),
            ..path
        };
        self.move_session(id, moved, 0, now);
        self.ask(id, now);
    }
}
