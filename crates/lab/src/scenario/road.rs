//! A scenario as the tandem and the closed forms see it: stations in series, and traffic.
//!
//! A link's delay is no station: it holds nobody up. [`Scenario::propagation_s`] is what all links
//! add to every packet's delay. Left out: what only the event kernel has (loss, finite queues, MTU,
//! NATs, traces); of a link with a trace the tandem takes the mean rate that its file states.

use super::catalogue::{Catalogue, Kind};
use super::fault::{Fault, Place};
use super::{After, Computer, Direction, Link, Model, Pace, Scenario, Sizes, Speed};
use crate::cost;
use crate::staircase::Staircase;
use crate::tandem;

impl Scenario {
    /// The policy, from its file or by its suite's name.
    pub fn resolved_policy(&self, catalogue: &Catalogue) -> Result<cost::Policy, Fault> {
        match catalogue.find(Kind::Policy, &self.policy) {
            Some(entry) => cost::Policy::parse(&entry.file, &entry.text).map_err(Fault::from),
            None => match self.policy.parse() {
                Ok(suite) => Ok(cost::Policy::of(suite)),
                Err(fault) => Err(self.fault("policy", format!("{fault}"))),
            },
        }
    }

    /// A device of the catalogue, at the scenario's clock.
    pub fn resolved_device(
        &self,
        computer: &Computer,
        catalogue: &Catalogue,
    ) -> Result<cost::Device, Fault> {
        let Some(entry) = catalogue.find(Kind::Device, &computer.device) else {
            let what = format!("the device '{}' is not in the catalogue", computer.device);
            return Err(self.fault("device", what));
        };
        let profile = cost::Profile::parse(&entry.file, &entry.text)?;
        let clock = computer.speed.map(|speed| match speed {
            Speed::Mips(mips) => cost::Clock::Mips(mips),
            Speed::ClockHz(hz) => cost::Clock::MegaHertz(hz / 1e6),
        });
        cost::Device::new(profile, clock)
            .map_err(|refusal| self.fault("device", refusal.to_string()))
    }

    /// Stations in the order in which the counted packets meet them: processors by the name of
    /// their node, links by the names of both ends.
    pub fn road(&self, catalogue: &Catalogue) -> Result<tandem::Road, Fault> {
        let policy = self.resolved_policy(catalogue)?;
        let protected = self.protected_size(&policy)?;
        let gateway = self.gateway().unwrap_or(self.nodes.len());
        let clear = Staircase::linear(1.0);
        let mut stations = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if index == 0 || index == gateway {
                let seals = (index == 0) == (self.traffic.direction == Direction::Up);
                let direction = match seals {
                    true => cost::Direction::Seal,
                    false => cost::Direction::Open,
                };
                let service = match &node.computer {
                    Some(computer) => self
                        .resolved_device(computer, catalogue)?
                        .service(&policy, direction)
                        .map_err(|missing| self.fault("policy", missing.to_string()))?,
                    None => Staircase::constant(0.0),
                };
                stations.push(tandem::Station {
                    name: node.name.clone(),
                    service,
                });
            }
            if let Some(link) = self.links.get(index) {
                let size = if index < gateway { &protected } else { &clear };
                stations.push(tandem::Station {
                    name: format!("{}-{}", node.name, self.nodes[index + 1].name),
                    service: link.service(size, self.traffic.direction),
                });
            }
        }
        if self.traffic.direction == Direction::Down {
            stations.reverse();
        }
        Ok(tandem::Road {
            policy: self.policy.clone(),
            stations,
            protected,
        })
    }

    /// What all links' delays add to each packet's.
    pub fn propagation_s(&self) -> f64 {
        self.links.iter().map(|link| link.delay_s).sum()
    }

    /// The traffic for the tandem; none where packets come from a capture.
    pub fn tandem_traffic(&self) -> Result<Option<tandem::Traffic>, Fault> {
        let arrivals = match &self.traffic.model {
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
            Model::ClosedLoop {
                after,
                packets,
                think_s,
                pace,
                ..
            } => tandem::Arrivals::ClosedLoop(tandem::traffic::ClosedLoop {
                after: self.station_after(*after),
                packets: *packets,
                think_s: *think_s,
                // The question goes the other way round: what it waits for is what links delay.
                ask_s: match after {
                    After::Road => 2.0 * self.propagation_s(),
                    After::Processor | After::Link => 0.0,
                },
                pace: match pace {
                    Pace::Making => tandem::traffic::Pace::Making,
                    Pace::Exponential => tandem::traffic::Pace::Exponential,
                },
            }),
            Model::Pcap { .. } => return Ok(None),
            Model::Tcp { .. } => {
                let what = "tcp needs the event kernel or the testbed: take another model here";
                return Err(self.fault("traffic.model", what.to_owned()));
            }
        };
        let sizes = self.traffic.sizes.as_ref().map(Sizes::tandem);
        Ok(sizes.map(|sizes| tandem::Traffic {
            arrivals,
            sizes,
            rate: self.traffic.model.rate_bps().unwrap_or_default(),
        }))
    }

    fn protected_size(&self, policy: &cost::Policy) -> Result<Staircase, Fault> {
        let accounting: cost::Accounting =
            self.accounting
                .parse()
                .map_err(|fault: cost::UnknownAccounting| {
                    self.fault("accounting", fault.to_string())
                })?;
        accounting.size(policy).map_err(|_no_formula| {
            let (accounting, policy) = (&self.accounting, &self.policy);
            let what = format!(
                "{accounting} has no formula for the size of {policy}: \
                 take the true sizes, --set accounting=rfc or accounting = \"rfc\" in the file"
            );
            self.fault("accounting", what)
        })
    }

    /// Stations come as processor, link, ... on either way but for a road that ends behind its
    /// gateway: there a link comes first.
    fn station_after(&self, after: After) -> Option<usize> {
        let processor_first = match self.traffic.direction {
            Direction::Up => true,
            Direction::Down => self.gateway() == Some(self.nodes.len() - 1),
        };
        match (after, processor_first) {
            (After::Road, _) => None,
            (After::Processor, true) | (After::Link, false) => Some(0),
            (After::Link, true) => Some(1),
            (After::Processor, false) => {
                let gateway = self.gateway()?;
                Some(self.nodes.len() - 1 - gateway)
            }
        }
    }

    /// A fault of the scenario as a whole, which only shows when it is used.
    fn fault(&self, key: &str, what: String) -> Fault {
        Fault {
            place: Place {
                file: self.name.as_str().into(),
                line: None,
                key: key.to_owned(),
            },
            what,
        }
    }
}

impl Link {
    /// Seconds on the wire of a packet that has this size there.
    fn service(&self, size: &Staircase, direction: Direction) -> Staircase {
        size.clone()
            .plus(&Staircase::constant(self.overhead_bytes))
            .times(8.0 / self.rate.of(direction))
    }
}

impl Sizes {
    fn tandem(&self) -> tandem::Sizes {
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

impl From<cost::Fault> for Fault {
    fn from(fault: cost::Fault) -> Self {
        Self {
            place: Place {
                file: fault.file.as_str().into(),
                line: Some(fault.line),
                key: fault.key,
            },
            what: fault.why,
        }
    }
}
