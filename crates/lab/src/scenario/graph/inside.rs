//! What is behind a gateway, and which stations are sometimes there and sometimes not: these ask
//! whether they are inside (RFC 5265 §3).

use document::Fault;
use engine::mip4::tunnel::UdpWish;

use super::{Graph, Segment};
use crate::scenario::address::Network;
use crate::scenario::{Change, Role, Scenario, Tunnel};

impl Graph {
    /// Whether a node is in the networks behind a gateway.
    pub fn is_behind(&self, node: usize, gateway: usize) -> bool {
        let own = self.ports_of(node).next();
        own.is_some_and(|own| self.is_inside(own.segment, gateway))
    }

    /// The segment behind a gateway.
    pub fn behind(&self, gateway: usize) -> Option<&Segment> {
        let mut segments = self.segments.iter();
        segments.find(|segment| segment.behind == Some(gateway))
    }

    /// Whether a gateway leads to a segment over its link inside.
    pub fn is_inside(&self, segment: usize, gateway: usize) -> bool {
        let inward = self.ports_of(gateway).find(|port| port.is_near);
        let hop = self.hop(gateway, segment);
        inward
            .zip(hop)
            .is_some_and(|(inward, hop)| hop.link == inward.link)
    }

    /// The networks behind a gateway, if the tunnel there leads its station home and that is ever
    /// in one of them; else none.
    pub(super) fn trusted(
        &self,
        scenario: &Scenario,
        tunnel: &Tunnel,
        leads_home: bool,
    ) -> Vec<Network> {
        let inside = |segment: &usize| self.is_inside(*segment, tunnel.to);
        let mut segments = scenario.segments_of(tunnel.from, self);
        if !leads_home || !segments.any(|segment| inside(&segment)) {
            return Vec::new();
        }
        let all = (0..self.segments.len()).filter(inside);
        all.map(|segment| self.segments[segment].network).collect()
    }

    /// The number of segments of the way of a station's tunnel to a gateway, which begins at
    /// `start`. Of a station that begins inside, that of the shortest way from outside, later.
    pub(super) fn way(
        &self,
        scenario: &Scenario,
        (station, gateway): (usize, usize),
        start: usize,
    ) -> Option<usize> {
        if !self.begins_inside(scenario, (station, gateway), start) {
            return self.distance(start, gateway, scenario);
        }
        let ways = self.routes(start, gateway).map(|way| way.nodes.len() + 1);
        ways.min()
    }

    /// Whether a station that goes home through a gateway begins behind it.
    fn begins_inside(
        &self,
        scenario: &Scenario,
        (station, gateway): (usize, usize),
        start: usize,
    ) -> bool {
        let mut mobile = scenario.mobile.iter();
        let goes_home = mobile.any(|it| it.station == station && self.is_behind(it.agent, gateway));
        goes_home && start == station && self.is_behind(start, gateway)
    }

    /// Refuses a tunnel that begins at `start` and is never used.
    pub(super) fn check_way(
        &self,
        scenario: &Scenario,
        tunnel: &Tunnel,
        start: usize,
    ) -> Result<(), Fault> {
        let ends = (tunnel.from, tunnel.to);
        if self.way(scenario, ends, start).is_some() {
            return Ok(());
        }
        let name = |node: usize| &scenario.nodes[node].name;
        let (from, to) = (name(tunnel.from), name(tunnel.to));
        let begins_inside = self.begins_inside(scenario, ends, start);
        let what = match begins_inside {
            true => format!(
                "'{from}' is never outside of '{to}', so it needs no tunnel: move it to a link \
                 before '{to}', or leave out its policy"
            ),
            false => format!("no path leads from '{from}' to '{to}'"),
        };
        let own = scenario.policy_key(tunnel.from);
        let keys: &[&str] = match begins_inside {
            true => &[&own, "layer"],
            false => &["layer", "link"],
        };
        Err(scenario.fault(keys, what))
    }

    /// Refuses what a station that asks whether it is inside cannot do outside.
    pub(in crate::scenario) fn check_asking(
        &self,
        scenario: &Scenario,
        (tunnel, is_in_tunnel_mode): (&Tunnel, bool),
    ) -> Result<(), Fault> {
        let name = |node: usize| &scenario.nodes[node].name;
        if !is_in_tunnel_mode {
            let what = format!(
                "'{}' goes home through its tunnel, whose inner address is its care-of address: \
                 use a policy in tunnel mode",
                name(tunnel.from)
            );
            let key = scenario.policy_key(tunnel.from);
            return Err(scenario.fault(&[&key, "layer"], what));
        }
        let mut mobile = scenario.mobile.iter();
        if mobile.any(|it| it.station == tunnel.from && it.udp == UdpWish::Always) {
            let what = format!(
                "'{}' goes home through its tunnel, and nothing else leaves it: leave out udp",
                name(tunnel.from)
            );
            let key = format!("layer.{}.udp", name(tunnel.from));
            return Err(scenario.fault(&[&key, "layer"], what));
        }
        let mut outside = scenario.outside.iter();
        if outside.any(|layer| layer.station == tunnel.from) {
            return Ok(());
        }
        let segments: Vec<usize> = scenario.segments_of(tunnel.from, self).collect();
        let outside = self.ports.iter().filter(|port| {
            let is_agent = scenario.nodes[port.node].role == Role::ForeignAgent;
            is_agent && segments.contains(&port.segment) && !self.is_inside(port.segment, tunnel.to)
        });
        match outside.into_iter().next() {
            None => Ok(()),
            Some(port) => {
                let what = format!(
                    "'{}' asks whether it is inside, and outside needs an address of its own, \
                     which no foreign agent gives: use a router in the place of '{}', or a home \
                     agent outside",
                    name(tunnel.from),
                    name(port.node)
                );
                let key = format!("node.{}.role", name(port.node));
                Err(scenario.fault(&[&key, "layer"], what))
            }
        }
    }
}

impl Scenario {
    /// The segments on which a station ever is: at the beginning, or after a move.
    fn segments_of<'a>(
        &'a self,
        station: usize,
        graph: &'a Graph,
    ) -> impl Iterator<Item = usize> + 'a {
        let is_brought = move |link: usize| {
            let mut moves = self.moves.iter();
            moves.any(|step| match step.change {
                Change::Station { node, to } => (node, to) == (station, link),
                Change::Link { .. } => false,
            })
        };
        let ports = graph.ports.iter().filter(move |port| port.node == station);
        ports
            .filter(move |port| port.is_first || is_brought(port.link))
            .map(|port| port.segment)
    }
}
