//! What mobile nodes did in a run, their states, and the gaps of their moves and of those of
//! stations with tunnels.

use std::net::IpAddr;

use engine::mip4::mobile_node;
use engine::time::Instant;
use serde::Serialize;

use super::{Told, World, seconds};
use crate::kernel::Host;
use crate::kernel::host::mobile::Log;

/// What a mobile node did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moved {
    /// Name of the station.
    pub station: String,
    /// What its home address could do, and since when.
    pub states: Vec<Since>,
    /// Registration requests that it sent.
    pub requests: u64,
    /// The same at a home agent outside of its gateway.
    #[serde(skip_serializing_if = "is_zero")]
    pub requests_outside: u64,
    /// The octets of their UDP payloads.
    pub request_bytes: u64,
    /// Why requests were denied.
    pub failures: Vec<String>,
    /// Its moves, in the order of time.
    pub moves: Vec<Gap>,
}

/// A move of a node, and what it cost in time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Seconds after the beginning of the simulation.
    pub at_s: f64,
    /// Name of the link that it moved to.
    pub to: String,
    /// Seconds from the move until the node was reachable; none: it was not before the next move.
    pub gap_s: Option<f64>,
    /// Seconds from the move until the first packet for the node's programs came there; none: none
    /// came before the next move.
    pub data_gap_s: Option<f64>,
    /// The messages of the move; of a mobile node with a gateway.
    #[serde(flatten)]
    pub told: Option<Told>,
}

/// A state of a mobile node.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Since {
    /// Seconds after the beginning of the simulation.
    pub at_s: f64,
    /// Its care-of address; none at home.
    pub care_of: Option<IpAddr>,
    /// Whether packets reach it.
    pub is_reachable: bool,
}

impl World {
    /// What each mobile node, and each other station with SKIP, did.
    pub(super) fn moved(&self) -> Vec<Moved> {
        let setup = &self.blueprint.setup;
        let mobile = setup.mobile.iter().map(|own| own.layer.station);
        let mut stations: Vec<usize> = mobile.collect();
        let guests = setup.crossings.iter().map(|own| own.station);
        let guests = guests.filter(|own| !stations.contains(own));
        stations.extend(guests.collect::<Vec<_>>());
        let all = stations.into_iter();
        let all = all.filter_map(|station| {
            let host = self.host(self.number(station))?;
            let log = &host.nomad()?.log;
            let outer = host.entrance.within.as_ref();
            let outer = outer.and(host.entrance.roaming.as_ref());
            let states = log.states.iter().map(|(at, state)| Since {
                at_s: seconds(Instant(0), *at),
                care_of: match state {
                    mobile_node::State::Registered { tunnel, .. } => Some(tunnel.care_of.into()),
                    _ => None,
                },
                is_reachable: *state != mobile_node::State::Unreachable,
            });
            Some(Moved {
                station: self.blueprint.nodes[station].name.clone(),
                moves: self.gaps(station, log, host),
                states: states.collect(),
                requests: log.sent,
                requests_outside: outer.map_or(0, |it| it.log.sent),
                request_bytes: log.sent_bytes,
                failures: log.failures.clone(),
            })
        });
        all.collect()
    }

    /// The moves of a station with a tunnel. It is reachable when its gateway has answered.
    pub(super) fn tunnel_moves(&self, station: usize) -> Vec<Gap> {
        let stays = self.log_of(self.number(station)).stays;
        // Inside, the tunnel ends.
        let stays = stays.iter();
        let stays = stays.filter(|stay| !self.is_inside_at(station, stay.address));
        let gaps = stays.map(|stay| {
            let after = |at: Option<Instant>| at.map(|at| seconds(stay.since, at));
            Gap {
                at_s: seconds(Instant(0), stay.since),
                to: self.link_of(station, stay.address),
                gap_s: after(stay.answered),
                data_gap_s: after(stay.heard),
                told: None,
            }
        });
        gaps.collect()
    }

    /// The name of the link on which a node has an address.
    fn link_of(&self, station: usize, address: IpAddr) -> String {
        let mut ports = self.blueprint.graph.ports.iter();
        let port = ports.find(|it| it.node == station && it.address == address);
        let link = port.map(|port| self.blueprint.joints[port.link].link.clone());
        link.unwrap_or_default()
    }

    /// The moves of a node. The first place is where it begins.
    fn gaps(&self, station: usize, log: &Log, host: &Host) -> Vec<Gap> {
        let is_nested = host.entrance.within.is_some();
        let moves_itself = is_nested && host.entrance.roaming.is_none();
        let is_reachable = |state: &mobile_node::State| *state != mobile_node::State::Unreachable;
        let next = log.places.iter().skip(1).map(|stay| stay.since);
        let ends = next.map(Some).chain([None]);
        let stays = log.places.iter().zip(ends).skip(1);
        let gaps = stays.map(|(stay, end)| {
            let is_here = |at: Instant| at >= stay.since && end.is_none_or(|end| at < end);
            let mut states = log.states.iter().filter(|(at, _)| is_here(*at)).peekable();
            let mut before = log
                .states
                .iter()
                .rev()
                .skip_while(|(at, _)| *at >= stay.since);
            let goes_on = moves_itself
                && before.next().is_some_and(|(_, state)| is_reachable(state))
                && states.peek().is_some_and(|(_, state)| is_reachable(state));
            // Through a tunnel that moves, or whose outer address does not, it stays reachable.
            let stayed = is_nested && (goes_on || states.peek().is_none());
            let reached = states.find(|(_, state)| is_reachable(state));
            let reached = reached.map(|(at, _)| *at).filter(|_| !stayed);
            let reached = reached.or(stayed.then_some(stay.since));
            Gap {
                at_s: seconds(Instant(0), stay.since),
                to: self.link_of(station, stay.address),
                gap_s: reached.map(|at| seconds(stay.since, at)),
                data_gap_s: stay.heard.map(|at| seconds(stay.since, at)),
                told: is_nested.then(|| self.told(station, stay.address, (stay.since, end))),
            }
        });
        gaps.collect()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
