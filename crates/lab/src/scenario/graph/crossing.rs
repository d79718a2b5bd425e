//! How a station with SKIP gets inside: the firewalls on its way, from each of its links.
//!
//! A firewall's inside is what it reaches over the links that start from it. The last firewall of
//! a station is the one whose inside has its home agent, or without one its correspondents. Another
//! firewall of the station comes before it if its inside has the last one's address outside.

use std::net::{IpAddr, Ipv4Addr};

use document::Fault;
use engine::mip4::tunnel::UdpWish;
use serde::Serialize;

use super::Graph;
use crate::cost::Policy;
use crate::scenario::address::Network;
use crate::scenario::mobile::udp;
use crate::scenario::{Role, Scenario};

/// A station with SKIP.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SkipSetup {
    /// Index of the station.
    pub station: usize,
    /// Index of the firewall.
    pub firewall: usize,
    /// How packets between the two are protected.
    pub protection: Policy,
    /// Whether they are in UDP.
    #[serde(serialize_with = "udp")]
    pub udp: UdpWish,
}

/// A station's way through its firewalls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crossing {
    /// Index of the station.
    pub station: usize,
    /// Its layers of SKIP, from the outermost firewall inwards: indices of the scenario's layers.
    pub chain: Vec<usize>,
    /// The networks inside the last firewall.
    pub inside: Vec<Network>,
    /// Where the station is ever, by its address there.
    pub places: Vec<Place>,
}

/// How packets of a station get from a link to its firewalls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The station's address.
    pub address: Ipv4Addr,
    /// Index of the link.
    pub link: usize,
    /// It is inside: no firewall is on the way.
    pub is_inside: bool,
    /// So many firewalls of the chain, from the outermost on, are not on the way.
    pub passed: usize,
    /// Whether a NAT is on the way to the first firewall.
    pub has_nat: bool,
}

impl Graph {
    /// The crossings of all stations with SKIP.
    pub(in crate::scenario) fn crossings(
        &self,
        scenario: &Scenario,
        layers: &[SkipSetup],
    ) -> Result<Vec<Crossing>, Fault> {
        let mut stations: Vec<usize> = layers.iter().map(|layer| layer.station).collect();
        stations.sort_unstable();
        stations.dedup();
        let each = stations.into_iter();
        each.map(|station| self.crossing(scenario, layers, station))
            .collect()
    }

    fn crossing(
        &self,
        scenario: &Scenario,
        layers: &[SkipSetup],
        station: usize,
    ) -> Result<Crossing, Fault> {
        let name = |node: usize| &scenario.nodes[node].name;
        let mut left: Vec<usize> = (0..layers.len()).collect();
        left.retain(|index| layers[*index].station == station);
        let agent = scenario.mobile.iter().find(|it| it.station == station);
        let mut flows = scenario.flows.iter().map(super::super::Flow::ends);
        let server = || flows.find(|(from, _)| *from == station).map(|ends| ends.1);
        let goal = agent.map(|it| it.agent).or_else(server);
        let mut goal = goal.and_then(|node| self.ports_of(node).next()).copied();
        let mut chain = Vec::new();
        while !left.is_empty() {
            let leads = |index: &usize| {
                let firewall = layers[*index].firewall;
                goal.is_some_and(|goal| self.has_inside(firewall, goal.segment))
            };
            let Some(at) = left.iter().position(leads) else {
                let firewall = layers[left[0]].firewall;
                let key = format!("layer.{}.to", name(station));
                let what = format!(
                    "'{}' does not lead '{}' inside: what is behind it is neither its home agent \
                     nor another of its firewalls",
                    name(firewall),
                    name(station)
                );
                return Err(scenario.fault(&[&key, "layer"], what));
            };
            let index = left.remove(at);
            goal = self.outside(layers[index].firewall);
            chain.insert(0, index);
        }
        let inside = chain.last().map(|last| layers[*last].firewall);
        let hops = self.hops.iter();
        let hops =
            hops.filter(|hop| Some(hop.node) == inside && self.is_onward(hop.node, hop.link));
        let mut crossing = Crossing {
            station,
            inside: hops.map(|hop| self.segments[hop.to].network).collect(),
            chain,
            places: Vec::new(),
        };
        let ports: Vec<_> = self.ports.iter().filter(|it| it.node == station).collect();
        for port in ports {
            let place = crossing.place(self, scenario, layers, port)?;
            crossing.places.push(place);
        }
        Ok(crossing)
    }

    /// Whether a link leads inside from a firewall.
    fn is_onward(&self, firewall: usize, link: usize) -> bool {
        self.port(firewall, link).is_some_and(|port| port.is_near)
    }

    fn has_inside(&self, firewall: usize, segment: usize) -> bool {
        let hop = self.hop(firewall, segment);
        hop.is_some_and(|hop| self.is_onward(firewall, hop.link))
    }

    /// A firewall's port outside.
    pub fn outside(&self, firewall: usize) -> Option<super::Port> {
        self.ports_of(firewall).find(|port| !port.is_near).copied()
    }

    /// A firewall's address inside.
    pub fn inside(&self, firewall: usize) -> Option<IpAddr> {
        let port = self.ports_of(firewall).find(|port| port.is_near);
        port.map(|port| port.address)
    }

    /// Whether packets get from one segment to another without crossing a firewall; and then
    /// whether they pass a NAT.
    fn passes(&self, scenario: &Scenario, from: usize, to: usize) -> Option<bool> {
        let mut known = vec![(from, false)];
        let mut at = 0;
        while let Some((segment, has_nat)) = known.get(at).copied() {
            if segment == to {
                return Some(has_nat);
            }
            at += 1;
            for entrance in self.ports.iter().filter(|port| port.segment == segment) {
                let role = scenario.nodes[entrance.node].role;
                let is_nat = role == Role::Nat && !entrance.is_near;
                if !role.is_router() && !is_nat {
                    continue;
                }
                let exits = self.ports_of(entrance.node);
                for exit in exits.filter(|exit| !is_nat || exit.is_near) {
                    if !known.iter().any(|(other, _)| *other == exit.segment) {
                        known.push((exit.segment, has_nat || is_nat));
                    }
                }
            }
        }
        None
    }
}

impl Crossing {
    fn place(
        &self,
        graph: &Graph,
        scenario: &Scenario,
        layers: &[SkipSetup],
        port: &super::Port,
    ) -> Result<Place, Fault> {
        let name = &scenario.nodes[self.station].name;
        let key = format!("layer.{name}.from");
        let IpAddr::V4(address) = port.address else {
            return Err(scenario.fault(&[&key, "layer"], "SKIP is for IPv4"));
        };
        let place = Place {
            address,
            link: port.link,
            is_inside: self.inside.contains(&graph.segments[port.segment].network),
            passed: 0,
            has_nat: false,
        };
        if place.is_inside {
            return Ok(place);
        }
        for (passed, index) in self.chain.iter().enumerate().rev() {
            let outside = graph.outside(layers[*index].firewall);
            let way = outside.and_then(|it| graph.passes(scenario, port.segment, it.segment));
            if let Some(has_nat) = way {
                return Ok(Place {
                    passed,
                    has_nat,
                    ..place
                });
            }
        }
        let link = &scenario.links[port.link].name;
        let what = format!("from '{link}', no path leads '{name}' to a firewall that has its keys");
        Err(scenario.fault(&[&format!("link.{link}.to"), &key, "layer"], what))
    }
}
