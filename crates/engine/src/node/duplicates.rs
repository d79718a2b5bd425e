//! Two devices with one credential: each one that connects ends the other's tunnel. If the device
//! that loses its tunnel is a Caravan, it is told why, and it waits longer each time
//! (`stations/ousted.rs`). When the devices alternate, the gateway's log says so.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::session_id::SessionId;
use crate::identity::Peer;
use crate::ike::Outbox;
use crate::node::{EndCause, Event, Node};
use crate::time::{Duration, Instant};

/// Peers that are watched. Beyond that, the one that was quiet longest is dropped.
const MAX_WATCHED: usize = 1_024;
/// Addresses of one peer that are kept.
const MAX_PLACES: usize = 4;
/// A device that returns to an address after this time may simply have gone home.
const WINDOW: Duration = Duration::from_secs(30 * 60);
/// One device may change its network and come back. This many returns mean two devices.
const RETURNS: u32 = 2;
/// The log reports a peer at most this often.
const TELL_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Peers whose tunnels were replaced by tunnels from elsewhere.
#[derive(Default)]
pub(super) struct Duplicates {
    by_peer: BTreeMap<Peer, Turns>,
}

#[derive(Default)]
struct Turns {
    /// The addresses of ended tunnels, the latest last.
    ended: Vec<SocketAddr>,
    last: Instant,
    /// How often a tunnel returned to an address where one had ended.
    returns: u32,
    told: Option<Instant>,
}

impl Duplicates {
    /// A tunnel at the first address ends for one at the second. Returns whether to report that two
    /// devices alternate.
    fn turn(&mut self, peer: &Peer, places: (SocketAddr, SocketAddr), now: Instant) -> bool {
        if !self.by_peer.contains_key(peer) && self.by_peer.len() >= MAX_WATCHED {
            let quiet = self.by_peer.iter().min_by_key(|(_, turns)| turns.last);
            if let Some(quiet) = quiet.map(|(peer, _)| peer.clone()) {
                self.by_peer.remove(&quiet);
            }
        }
        let turns = self.by_peer.entry(peer.clone()).or_default();
        turns.add(places, now);
        let is_told = |told: Instant| now.since(told) < TELL_INTERVAL;
        let tells = turns.returns >= RETURNS && !turns.told.is_some_and(is_told);
        if tells {
            turns.told = Some(now);
        }
        tells
    }
}

impl Turns {
    fn add(&mut self, (before, after): (SocketAddr, SocketAddr), now: Instant) {
        if now.since(self.last) >= WINDOW {
            (self.returns, self.ended) = (0, Vec::new());
        }
        self.last = now;
        // Behind a NAT a device may come back from another port.
        let is_there = |place: &SocketAddr| {
            *place == after || (place.ip() == after.ip() && before.ip() != after.ip())
        };
        self.returns += u32::from(self.ended.iter().any(is_there));
        self.ended.retain(|place| *place != before);
        if self.ended.len() == MAX_PLACES {
            self.ended.remove(0);
        }
        self.ended.push(before);
    }
}

impl Node {
    /// Tells a device, before its session ends, that another device has connected elsewhere.
    pub(super) fn supersede(
        &mut self,
        old: SessionId,
        places: (SocketAddr, SocketAddr),
        now: Instant,
    ) {
        let Some(session) = self.sessions.get_mut(&old) else {
            return;
        };
        let (Some(peer), Some(connection)) =
            (session.ike.identity().cloned(), session.connection())
        else {
            return;
        };
        let name = connection.name.clone();
        let mut out = Outbox::default();
        session.ike.supersede(&mut self.random, now, &mut out);
        self.flush(Some(old), out);
        if self.duplicates.turn(&peer, places, now) {
            let has_certificate = peer.has_certificate();
            self.outputs.tell(Event::CredentialShared {
                connection: name,
                peer: peer.to_string(),
                credential: if has_certificate {
                    "certificate"
                } else {
                    "pre-shared key"
                },
                places,
            });
        }
    }

    /// The peer ends one of our sessions in favour of another device.
    pub(super) fn superseded(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let event = Event::NegotiationFailed {
            connection: session.connection_name(),
            path: session.path(),
            reason: EndCause::Superseded.to_string(),
        };
        self.outputs.tell(event);
        self.station_ousted(id, true, now);
        self.close_session(id, EndCause::Superseded, false, now);
    }
}
