//! The path of packets by way of a firewall and a home agent, and what each computes.
//!
//! A station away from home sends from its care-of address. With SKIP, the firewall opens its
//! packets and sends them on to the agent in IP in IP, which hides the care-of address inside. The
//! agent removes both tunnels. Without a reverse tunnel (RFC 3024), only packets to the station go
//! by way of the agent. Left out: foreign agents, and stations whose link changes.

use document::Fault;
use engine::mip4::tunnel::UdpWish;
use engine::plane::shape::TunnelShape;
use engine::sa::Encapsulation;

use super::super::graph::crossing::SkipSetup;
use super::super::graph::setup::MobileSetup;
use super::super::mobile::MobileIp;
use super::super::{Catalogue, Direction, Resolved, Scenario, Uncomputable};
use crate::cost::{self, Missing};
use crate::staircase::Staircase;
use crate::tandem;

/// What hides care-of addresses between firewall and agent.
const INSIDE: TunnelShape = TunnelShape {
    encapsulation: Encapsulation::IpInIp,
    is_in_udp: false,
};

/// The path of the scenario's flow.
pub(super) struct Path<'a> {
    way: Direction,
    /// The station's tunnel, if these packets are in it.
    tunnel: Option<TunnelShape>,
    skip: Option<&'a SkipSetup>,
    /// In the direction away from the station.
    stops: Vec<Stop>,
}

/// A node that computes, and the links behind it.
struct Stop {
    node: usize,
    role: Part,
    links: Vec<usize>,
}

/// What a node does to packets.
#[derive(Clone, Copy)]
enum Part {
    Station,
    Firewall,
    Agent,
}

impl Scenario {
    pub(super) fn path<'a>(&self, resolved: &'a Resolved) -> Result<Path<'a>, Fault> {
        let flow = self.chain()?;
        let way = flow.traffic.direction;
        let (station, server) = flow.ends();
        let graph = &resolved.graph;
        let first = graph.ports_of(station).next().map(|port| port.link);
        let is_away = |it: &&MobileSetup| it.layer.station == station && first != Some(it.link);
        let mobile = resolved.setup.mobile.iter().find(is_away);
        let through = |it: &&MobileSetup| way == Direction::Down || it.layer.is_reverse;
        let mobile = mobile.filter(through).map(|it| it.layer);
        let skip = resolved.setup.skip.iter().find(|it| it.station == station);
        let mut passed = vec![(station, Part::Station)];
        passed.extend(skip.map(|it| (it.firewall, Part::Firewall)));
        passed.extend(mobile.map(|it| (it.agent, Part::Agent)));
        let nexts = passed.iter().skip(1).map(|(node, _)| *node).chain([server]);
        let mut stops = Vec::new();
        for (&(node, role), next) in passed.iter().zip(nexts) {
            let links = graph.leg(node, next).ok_or_else(|| {
                let name = |node: usize| &self.nodes[node].name;
                let what = format!("no path leads from '{}' to '{}'", name(node), name(next));
                self.fault(&["link", "layer"], what)
            })?;
            stops.push(Stop { node, role, links });
        }
        Ok(Path {
            way,
            tunnel: mobile.map(|layer| shape_of(&layer)),
            skip,
            stops,
        })
    }
}

fn shape_of(layer: &MobileIp) -> TunnelShape {
    TunnelShape {
        encapsulation: layer.encapsulation,
        is_in_udp: layer.udp == UdpWish::Always,
    }
}

impl Path<'_> {
    pub(super) fn propagation_s(&self, scenario: &Scenario) -> f64 {
        let links = self.stops.iter().flat_map(|stop| &stop.links);
        links.map(|link| scenario.links[*link].link.delay_s).sum()
    }

    /// Octets of the station's tunnel header.
    fn header(&self) -> f64 {
        self.tunnel
            .map_or(0.0, |tunnel| tunnel.header_bytes() as f64)
    }

    /// Octets between the station and what its packets reach first.
    pub(super) fn protected(&self, scenario: &Scenario) -> Result<Staircase, Uncomputable> {
        let size = match self.skip {
            Some(skip) => scenario.protected_size(&skip.protection)?,
            None => Staircase::linear(1.0),
        };
        Ok(size.of_larger(self.header()))
    }

    /// Octets on the links behind a node.
    fn size(&self, scenario: &Scenario, stop: &Stop) -> Result<Staircase, Uncomputable> {
        let hidden = match self.tunnel {
            Some(_) => self.header() + INSIDE.header_bytes() as f64,
            None => 0.0,
        };
        match stop.role {
            Part::Station => self.protected(scenario),
            Part::Firewall => Ok(Staircase::linear(1.0).of_larger(hidden)),
            Part::Agent => Ok(Staircase::linear(1.0)),
        }
    }

    pub(super) fn tandem(
        &self,
        scenario: &Scenario,
        catalogue: &Catalogue,
    ) -> Result<tandem::Tandem, Uncomputable> {
        let mut queues = Vec::new();
        for stop in &self.stops {
            queues.push(tandem::Queue {
                name: scenario.nodes[stop.node].name.clone(),
                service: self.service(scenario, catalogue, stop)?,
            });
            let size = self.size(scenario, stop)?;
            for link in &stop.links {
                let joint = &scenario.links[*link];
                queues.push(tandem::Queue {
                    name: joint.name.clone(),
                    service: joint.link.service(&size, self.way),
                });
            }
        }
        if self.way == Direction::Down {
            queues.reverse();
        }
        Ok(tandem::Tandem {
            policy: scenario.policy.clone(),
            queues,
            protected: self.protected(scenario)?,
        })
    }

    /// Seconds of a node for a packet of the flow.
    fn service(
        &self,
        scenario: &Scenario,
        catalogue: &Catalogue,
        stop: &Stop,
    ) -> Result<Staircase, Uncomputable> {
        let node = &scenario.nodes[stop.node];
        let Some(computer) = &node.computer else {
            return Ok(Staircase::default());
        };
        let device = scenario.device(&node.name, computer, catalogue)?;
        let (seal, open) = (cost::Direction::Seal, cost::Direction::Open);
        let (outward, inward) = match self.way {
            Direction::Up => (seal, open),
            Direction::Down => (open, seal),
        };
        let tunnel = |shape: Option<TunnelShape>, direction| {
            shape.map_or_else(Staircase::default, |shape| device.tunnel(shape, direction))
        };
        let skip = |direction| -> Result<Staircase, Missing> {
            let Some(skip) = self.skip else {
                return Ok(Staircase::default());
            };
            let service = device.service(&skip.protection, direction)?;
            Ok(service.of_larger(self.header()))
        };
        let has_both = self.tunnel.is_some() && self.skip.is_some();
        let inside =
            |direction| tunnel(has_both.then_some(INSIDE), direction).of_larger(self.header());
        let service = match stop.role {
            Part::Station => skip(outward).map(|it| it.plus(&tunnel(self.tunnel, outward))),
            Part::Firewall => skip(inward).map(|it| it.plus(&inside(outward))),
            Part::Agent => Ok(inside(inward).plus(&tunnel(self.tunnel, inward))),
        };
        service.map_err(|missing| scenario.unpriced((&node.name, stop.node), missing))
    }
}

#[cfg(test)]
mod tests;
