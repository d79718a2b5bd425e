//! A scenario for the tandem and the closed forms: queues in series, and traffic.
//!
//! Of a graph with Mobile IP or SKIP, they are those of the one flow's path by way of its agent and
//! its firewall ([`path`]).
//!
//! A link's delay is not a queue, because no packet waits for another during it.
//! [`Scenario::propagation_s`] is what all links add to every packet's delay. Left out: properties
//! that only the event kernel simulates (loss, reordering, finite queues, MTU, traces). They are
//! refused if a scenario states them itself. If only the link's catalogue file states them, its MTU
//! is ignored, and for a link with a trace the tandem uses the mean rate in that file.

mod path;

use document::Fault;

use super::catalogue::{Catalogue, Kind};
use super::graph::setup::TunnelSetup;
use super::{
    After, Computer, Direction, Link, Model, Pace, Resolved, Scenario, Sizes, Speed, Uncomputable,
};
use crate::IP_BYTES_MAX;
use crate::cost;
use crate::staircase::Staircase;
use crate::tandem;

impl Scenario {
    /// How packets are protected between the station of a chain and its gateway.
    fn policy_of_chain(
        &self,
        resolved: &Resolved,
        catalogue: &Catalogue,
    ) -> Result<cost::Policy, Fault> {
        match resolved.setup.tunnels.first() {
            Some(tunnel) => Ok(tunnel.applied()),
            None => self.policy_named(&self.policy, "policy", catalogue),
        }
    }

    /// The device of a node that computes, at the scenario's clock.
    pub(crate) fn device(
        &self,
        node: &str,
        computer: &Computer,
        catalogue: &Catalogue,
    ) -> Result<cost::Device, Fault> {
        let keys = ["device", "mips", "clock", "mips=", "clock="];
        let keys = keys.map(|key| format!("node.{node}.{key}"));
        let keys = keys.each_ref().map(String::as_str);
        let Some(entry) = catalogue.find(Kind::Device, &computer.device) else {
            let what = format!("the device '{}' is not in the catalogue", computer.device);
            return Err(self.fault(&keys, what));
        };
        let profile = cost::Profile::parse(&entry.file, &entry.text)?;
        let clock = computer.speed.map(|speed| match speed {
            Speed::Mips(mips) => cost::Clock::Mips(mips),
            Speed::ClockHz(hz) => cost::Clock::MegaHertz(hz / 1e6),
        });
        cost::Device::new(profile, clock).map_err(|refusal| self.fault(&keys, refusal.to_string()))
    }

    /// Refuses properties that the tandem and the closed forms would silently ignore.
    pub fn check_tandem(
        &self,
        resolved: &Resolved,
        catalogue: &Catalogue,
    ) -> Result<(), Uncomputable> {
        self.chain()?;
        for joint in &self.links {
            let link = &joint.link;
            let key = |name: &str| format!("link.{}.{name}", joint.name);
            // For these two, only the scenario's own values need the event kernel.
            let is_stated = |name| self.places.contains_key(&key(name));
            let mtu = link.mtu_bytes.filter(|_| is_stated("mtu"));
            let is_beyond = match mtu {
                Some(mtu) => self.largest_bytes(resolved, catalogue)? + link.overhead_bytes > mtu,
                None => false,
            };
            let beyond = [
                ("loss", link.loss > 0.0),
                ("reorder", link.reorder > 0.0),
                ("queue", link.queue_bytes.is_some()),
                ("mtu", is_beyond),
                ("trace", link.trace.is_some() && is_stated("trace")),
                ("half_duplex", link.is_half_duplex),
            ];
            if let Some((name, _)) = beyond.iter().find(|(_, is_there)| *is_there) {
                let what = format!(
                    "the tandem does not support {name}: use the event kernel (simulate \
                     --events), or leave it out"
                );
                return Err(self.fault(&[&key(name), &key("link")], what).into());
            }
        }
        Ok(())
    }

    /// The largest packet of the traffic after protection.
    fn largest_bytes(
        &self,
        resolved: &Resolved,
        catalogue: &Catalogue,
    ) -> Result<f64, Uncomputable> {
        let clear = match &self.chain()?.traffic.sizes {
            Some(Sizes::Fixed { bytes }) => *bytes,
            Some(Sizes::Pareto { largest_bytes, .. }) => *largest_bytes,
            Some(Sizes::Empirical { points }) => {
                points.iter().map(|(bytes, _)| *bytes).fold(0.0, f64::max)
            }
            // A capture may have packets of any size.
            None => f64::from(IP_BYTES_MAX),
        };
        if self.is_carried() {
            return Ok(self.path(resolved)?.protected(self)?.at(clear));
        }
        let policy = self.policy_of_chain(resolved, catalogue)?;
        Ok(self.protected_size(&policy)?.at(clear))
    }

    /// Queues in the order in which the counted packets pass them: processors with the name of
    /// their node, links with the names of both ends.
    pub fn tandem(
        &self,
        resolved: &Resolved,
        catalogue: &Catalogue,
    ) -> Result<tandem::Tandem, Uncomputable> {
        self.check_tandem(resolved, catalogue)?;
        if self.is_carried() {
            return self.path(resolved)?.tandem(self, catalogue);
        }
        let way = self.chain()?.traffic.direction;
        let policy = self.policy_of_chain(resolved, catalogue)?;
        let protected = self.protected_size(&policy)?;
        let gateway = self.gateway().unwrap_or(self.nodes.len());
        let clear = Staircase::linear(1.0);
        let mut queues = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if index == 0 || index == gateway {
                let seals = (index == 0) == (way == Direction::Up);
                let direction = match seals {
                    true => cost::Direction::Seal,
                    false => cost::Direction::Open,
                };
                let service = match &node.computer {
                    Some(computer) => self
                        .device(&node.name, computer, catalogue)?
                        .service(&policy, direction)
                        .map_err(|missing| self.unpriced((&node.name, 0), missing))?,
                    None => Staircase::constant(0.0),
                };
                queues.push(tandem::Queue {
                    name: node.name.clone(),
                    service,
                });
            }
            if let Some(joint) = self.links.get(index) {
                let size = if index < gateway { &protected } else { &clear };
                queues.push(tandem::Queue {
                    name: format!("{}-{}", node.name, self.nodes[index + 1].name),
                    service: joint.link.service(size, way),
                });
            }
        }
        if way == Direction::Down {
            queues.reverse();
        }
        Ok(tandem::Tandem {
            policy: self.policy.clone(),
            queues,
            protected,
        })
    }

    /// The nodes whose device has only a price per byte for protected packets. Their work, and all
    /// delays that depend on it, are lower bounds.
    pub fn priced_by_bytes_alone(&self, resolved: &Resolved, catalogue: &Catalogue) -> Vec<&str> {
        let seal = cost::Direction::Seal;
        let nodes = self.nodes.iter().enumerate().filter(|(index, node)| {
            let tunnels = resolved.setup.tunnels.iter();
            let own = tunnels.filter(|tunnel| [tunnel.from, tunnel.to].contains(index));
            let skip = resolved.setup.skip.iter();
            let skip = skip.filter(|layer| [layer.station, layer.firewall].contains(index));
            let skip = skip.map(|layer| layer.protection.clone());
            let mut own = own.map(TunnelSetup::applied).chain(skip);
            let computer = node.computer.as_ref();
            let device = computer.and_then(|it| self.device(&node.name, it, catalogue).ok());
            device.is_some_and(|device| {
                let has_work = |policy: cost::Policy| {
                    let bill = device.bill(&policy, seal);
                    bill.is_ok_and(|it| !it.parts.is_empty())
                };
                device.profile().prices_bytes_alone() && own.any(has_work)
            })
        });
        nodes.map(|(_, node)| node.name.as_str()).collect()
    }

    /// The sum of the delays of the flow's links, which is added to each packet's delay.
    pub fn propagation_s(&self, resolved: &Resolved) -> Result<f64, Fault> {
        match self.is_carried() {
            true => Ok(self.path(resolved)?.propagation_s(self)),
            false => Ok(self.propagation_of_chain_s()),
        }
    }

    fn propagation_of_chain_s(&self) -> f64 {
        self.links.iter().map(|joint| joint.link.delay_s).sum()
    }

    /// Seconds of a packet of `bytes` to the other end and of one as large back, if no other packet
    /// is on the path: an echo.
    pub fn round_trip_s(&self, catalogue: &Catalogue, bytes: f64) -> Result<f64, Uncomputable> {
        let mut sum_s = 0.0;
        for scenario in [self, &self.reversed()] {
            let resolved = scenario.resolved(catalogue)?;
            let queues = scenario.tandem(&resolved, catalogue)?.queues;
            let services = queues.iter().map(|queue| queue.service.at(bytes));
            sum_s += services.sum::<f64>() + scenario.propagation_s(&resolved)?;
        }
        Ok(sum_s)
    }

    /// The same with flows in the other direction.
    fn reversed(&self) -> Self {
        let mut other = self.clone();
        for flow in &mut other.flows {
            (flow.from, flow.to) = (flow.to, flow.from);
            flow.traffic.direction = match flow.traffic.direction {
                Direction::Up => Direction::Down,
                Direction::Down => Direction::Up,
            };
        }
        other
    }

    /// The traffic for the tandem; none if packets come from a capture.
    pub fn tandem_traffic(&self) -> Result<Option<tandem::Traffic>, Fault> {
        let traffic = &self.chain()?.traffic;
        let arrivals = match &traffic.model {
            Model::Poisson { .. } => tandem::Arrivals::Poisson,
            Model::Constant { .. } => tandem::Arrivals::Constant,
            Model::PacketCall {
                calls,
                reading_s,
                packets,
                idle_s,
                ..
            } => tandem::Arrivals::PacketCall(tandem::traffic::PacketCall {
                calls: *calls,
                reading_s: *reading_s,
                packets: *packets,
                idle_s: *idle_s,
            }),
            Model::ClosedLoop { .. } if self.is_carried() => {
                let what = "closed-loop needs a chain: use another model here";
                return Err(self.fault(&["traffic.model", "flow"], what));
            }
            Model::ClosedLoop {
                after,
                packets,
                think_s,
                pace,
                ..
            } => tandem::Arrivals::ClosedLoop(tandem::traffic::ClosedLoop {
                after: self.queue_after(*after, traffic.direction),
                packets: *packets,
                think_s: *think_s,
                // The question is sent in the other direction: its time is the delay of the links.
                ask_s: match after {
                    After::Path => 2.0 * self.propagation_of_chain_s(),
                    After::Processor | After::Link => 0.0,
                },
                pace: match pace {
                    Pace::Making => tandem::traffic::Pace::Making,
                    Pace::Exponential => tandem::traffic::Pace::Exponential,
                },
            }),
            Model::Pcap { .. } => return Ok(None),
            Model::Tcp { .. } => {
                let what = "tcp needs the event kernel or the testbed: use another model here";
                return Err(self.fault(&["traffic.model"], what.to_owned()));
            }
        };
        let sizes = traffic.sizes.as_ref().map(Sizes::tandem);
        Ok(sizes.map(|sizes| tandem::Traffic {
            arrivals,
            sizes,
            rate: traffic.model.rate_bps().unwrap_or_default(),
        }))
    }

    fn protected_size(&self, policy: &cost::Policy) -> Result<Staircase, Uncomputable> {
        self.accounting
            .size(policy)
            .map_err(|_no_formula| Uncomputable::NoFormula {
                place: self.blamed(&["accounting", &self.policy_key(0)]),
                accounting: self.accounting,
                policy: self.policy.clone(),
            })
    }

    /// Queues alternate: processor, link and so on in both directions, except in a chain that
    /// ends at its gateway, where a link comes first.
    fn queue_after(&self, after: After, way: Direction) -> Option<usize> {
        let processor_first = match way {
            Direction::Up => true,
            Direction::Down => self.gateway() == Some(self.nodes.len() - 1),
        };
        match (after, processor_first) {
            (After::Path, _) => None,
            (After::Processor, true) | (After::Link, false) => Some(0),
            (After::Link, true) => Some(1),
            (After::Processor, false) => {
                let gateway = self.gateway()?;
                Some(self.nodes.len() - 1 - gateway)
            }
        }
    }

    /// An error of the tandem about the traffic or the run, with the position of the value.
    pub fn unfit(&self, fault: &tandem::TandemFault) -> Fault {
        self.fault(&["traffic.rate", "run.time", "traffic"], fault.to_string())
    }
}

impl Link {
    /// Seconds on the wire of a packet that has this size there.
    fn service(&self, size: &Staircase, direction: Direction) -> Staircase {
        size.clone()
            .plus(&Staircase::constant(self.overhead_bytes))
            .times(8.0 / self.rate.of(direction))
            .plus(&Staircase::constant(self.access_s))
    }
}

impl Sizes {
    /// The same as the tandem draws them, with their mean.
    pub(crate) fn tandem(&self) -> tandem::Sizes {
        match self {
            Self::Fixed { bytes } => tandem::Sizes::Fixed(*bytes),
            Self::Pareto {
                shape,
                smallest_bytes,
                largest_bytes,
            } => tandem::Sizes::Pareto {
                shape: *shape,
                smallest: *smallest_bytes,
                largest: *largest_bytes,
            },
            Self::Empirical { points } => {
                let share =
                    |&(bytes, weight): &(f64, f64)| tandem::traffic::Share { bytes, weight };
                tandem::Sizes::Empirical(points.iter().map(share).collect())
            }
        }
    }
}
