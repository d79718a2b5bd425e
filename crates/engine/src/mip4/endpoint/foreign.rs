//! A foreign agent's part: its visitors' link, and the tunnels of its visitors.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use crypto::rand::Seed;
use wire::mip4::PORT;

use super::{Effect, Endpoint, Machine};
use crate::mip4::carriers::{Carriers, Owner, of_visitor};
use crate::mip4::foreign_agent::{Config, Datagram, ForeignAgent, Mac, Output};
use crate::time::Instant;

impl Endpoint {
    /// A foreign agent without visitors.
    pub fn foreign_agent(config: Config, now: Instant, seed: &Seed) -> Self {
        let (clock, address, care_of) = (config.clock, config.address, config.care_of);
        let agent = ForeignAgent::new(config, now, seed.stream("foreign-agent", 0));
        let machine = Machine::ForeignAgent {
            agent: Box::new(agent),
            carriers: Carriers::default(),
            address,
            care_of,
        };
        Self::new(machine, clock, seed)
    }

    /// A UDP payload for port 434 on the visitors' link of a foreign agent.
    pub fn hear_visitor(&mut self, datagram: Datagram<'_>, now: Instant) {
        if let Machine::ForeignAgent { agent, .. } = &mut self.machine {
            agent.handle(datagram, now);
        }
        self.follow(now);
    }

    /// A host on the visitors' link of a foreign agent solicits agents.
    pub fn solicited(&mut self, mac: Mac, now: Instant) {
        if let Machine::ForeignAgent { agent, .. } = &mut self.machine {
            agent.solicited(mac, now);
        }
        self.follow(now);
    }

    /// Whether an address is that of a visitor of a foreign agent: its packets go onto the link.
    pub fn has_visitor(&self, address: IpAddr) -> bool {
        let Machine::ForeignAgent { agent, .. } = &self.machine else {
            return false;
        };
        let mut visitors = agent.visitors();
        visitors.any(|visitor| IpAddr::V4(visitor.home_address) == address)
    }

    /// Does what a foreign agent wants after an input.
    pub(super) fn follow_foreign(&mut self, now: Instant) {
        loop {
            let Machine::ForeignAgent {
                agent,
                carriers,
                address,
                care_of,
            } = &mut self.machine
            else {
                return;
            };
            let Some(output) = agent.poll() else { return };
            let own = SocketAddrV4::new(*address, PORT);
            let changes = match &output {
                Output::Came(visitor) => {
                    let wanted = of_visitor((*address, 0), *care_of, visitor);
                    carriers.follow(Owner::Home(visitor.home_address), wanted)
                }
                Output::Left(home) => carriers.follow(Owner::Home(*home), Vec::new()),
                _ => Vec::new(),
            };
            self.effects.extend(Effect::of_foreign_agent(output, own));
            self.apply(changes, now);
        }
    }
}

impl Effect {
    fn of_foreign_agent(output: Output, own: SocketAddrV4) -> Option<Self> {
        let datagram = |from, to, payload, is_direct| Self::Datagram {
            from,
            to,
            ttl: None,
            is_direct,
            payload,
        };
        Some(match output {
            Output::Relay { from, to, payload } => datagram(from, to, payload, false),
            Output::Reply { to, payload, .. } => datagram(own, to, payload, true),
            Output::Advertise(icmp) => Self::Advertise(Ipv4Addr::BROADCAST, icmp),
            Output::Inform { to, icmp, .. } if to.is_multicast() => {
                Self::Advertise(Ipv4Addr::BROADCAST, icmp)
            }
            Output::Inform { to, icmp, .. } => Self::Advertise(to, icmp),
            Output::Came(visitor) => Self::Bound(visitor.home_address, 1),
            Output::Left(home) => Self::Bound(home, 0),
            Output::Revoked { .. } | Output::Unacknowledged { .. } | Output::Refused { .. } => {
                return None;
            }
        })
    }
}
