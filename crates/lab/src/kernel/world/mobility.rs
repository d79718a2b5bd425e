//! The machines of Mobile IPv4 in a world: mobile nodes and home agents with common keys. Stations
//! with SKIP alone are here too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use engine::mip4::association::{
    Algorithm, Association, Associations, FIRST_SPI, ReplayProtection,
};
use engine::mip4::endpoint::Endpoint;
use engine::mip4::identification::Clock;
use engine::mip4::tunnel::{ReverseTunnel, UdpWish};
use engine::mip4::{foreign_agent, home_agent, mobile_node};
use engine::sa::Encapsulation;
use engine::time::{Duration, Instant};

use super::blueprint::Blueprint;
use crate::kernel::host::{Agent, Mobile};
use crate::scenario::Role;
use crate::scenario::graph::setup::MobileSetup;

/// How long a node inside believes the last answer that said so: the program's default.
const MONITOR: Duration = Duration::from_secs(60);
/// The longest lifetime that home agents grant: they take what a scenario asks for.
const MAX_LIFETIME_S: u16 = u16::MAX - 1;
/// Seconds between keepalives in UDP tunnels (RFC 3519 §4.9).
const KEEPALIVE_S: u16 = 110;

/// Visitors of a foreign agent at a time.
const MAX_VISITORS: usize = 64;
/// Seconds that an advertisement holds: three of them come in that time (RFC 5944 §2.3).
const ADVERTISED_S: u16 = 3;

/// The machine of a node, if it has one. Its links carry packets of `mtu` octets.
pub(super) fn of(blueprint: &Blueprint, index: usize, mtu: u32) -> Option<Mobile> {
    let all = &blueprint.setup.mobile;
    let has_skip = blueprint.setup.skip.iter().any(|it| it.station == index);
    let mobile = match all.iter().find(|it| it.layer.station == index) {
        Some(own) => node(blueprint, own),
        None if has_skip => guest(blueprint, index),
        None => agent(blueprint, index)?,
    };
    Some(fitted(blueprint, mobile, mtu))
}

/// The machine by which a home agent outside keeps the outer address of a station's tunnel.
pub(super) fn outer(blueprint: &Blueprint, index: usize, mtu: u32) -> Option<Mobile> {
    let own = *blueprint.outers(index).first()?;
    Some(fitted(blueprint, node(blueprint, own), mtu))
}

fn fitted(blueprint: &Blueprint, mobile: Mobile, mtu: u32) -> Mobile {
    let mut mobile = mobile;
    if !blueprint.clamps_mss {
        mobile.keep_mss();
    }
    mobile.set_link_mtu(blueprint.carried_mtu(mtu));
    mobile
}

fn agent(blueprint: &Blueprint, index: usize) -> Option<Mobile> {
    let all = blueprint.setup.mobile.iter();
    let all = all.chain(&blueprint.setup.outside);
    let is_agent = blueprint.nodes[index].role == Role::HomeAgent;
    let of_agent = all.filter(|it| it.layer.agent == index);
    let clients: Vec<&MobileSetup> = of_agent.collect();
    let first = clients.first().filter(|_| is_agent)?;
    let (outside, trusts_traversal) = blueprint.outsides(index);
    let config = home_agent::Config {
        address: first.home_agent,
        prefix_len: first.network.bits,
        max_lifetime: MAX_LIFETIME_S,
        max_bindings: 1,
        encapsulations: [Encapsulation::Minimal, Encapsulation::Gre].into(),
        reverse_tunnel: ReverseTunnel::Allowed,
        udp_keepalive: Some(KEEPALIVE_S),
        allows_forced_udp: true,
        clients: clients
            .iter()
            .map(|one| home_agent::Client {
                home_address: one.home,
                nai: None,
                aaa: None,
                associations: associations(blueprint, one),
            })
            .collect(),
        foreign_agents: blueprint.agents_inside(&clients),
        outside,
        trusts_traversal,
        trusted: blueprint.trusted(&clients),
        tunnelled: blueprint.tunnelled(&clients),
        revocation: None,
    };
    let seed = blueprint.secrets(&blueprint.nodes[index].name);
    let endpoint = Endpoint::home_agent(config, clock(blueprint), Instant(0), &seed);
    Some(Mobile::home_agent(endpoint))
}

fn node(blueprint: &Blueprint, own: &MobileSetup) -> Mobile {
    let layer = &own.layer;
    let config = mobile_node::Config {
        home_address: own.home,
        home_agent: own.home_agent,
        nai: None,
        aaa: None,
        associations: associations(blueprint, own),
        foreign_agents: blueprint.agents_of(own),
        lifetime: layer.lifetime_s,
        encapsulation: layer.encapsulation,
        is_reverse: layer.is_reverse,
        encapsulates_delivery: false,
        wants_broadcasts: false,
        is_simultaneous: false,
        udp: layer.udp,
        firewall: blueprint.firewall(layer.station),
        hears_revocations: false,
        monitor: blueprint.asks(own).then_some(MONITOR),
    };
    let seed = blueprint.secrets(&blueprint.nodes[layer.station].name);
    let bits = own.network.bits;
    let mut endpoint = Endpoint::mobile_node(config, bits, clock(blueprint), &seed);
    endpoint.secure(blueprint.security(layer.station));
    let network = (own.network.first, own.network.last());
    Mobile::node(endpoint, (own.home, network))
        .with_agent(own.home_agent)
        .with_approaches(blueprint.approaches(layer.station))
        .with_visits(blueprint.visits(layer.station))
}

/// The foreign agent of a node, by its index.
pub(super) fn foreign(blueprint: &Blueprint, index: usize, mtu: u32) -> Agent {
    let v4 = |address: Option<IpAddr>| match address {
        Some(IpAddr::V4(address)) => address,
        _ => Ipv4Addr::UNSPECIFIED,
    };
    let own = blueprint.graph.outside(index).map(|port| port.address);
    // One on a link of hosts has the same address for visitors and as their care-of address.
    let address = v4(own.or(blueprint.graph.inside(index)));
    let config = foreign_agent::Config {
        address,
        care_of: v4(blueprint.graph.inside(index)),
        max_lifetime: MAX_LIFETIME_S,
        max_visitors: MAX_VISITORS,
        encapsulations: [Encapsulation::Minimal, Encapsulation::Gre].into(),
        reverse_tunnel: ReverseTunnel::Allowed,
        is_required: false,
        challenges: false,
        advertised_lifetime: ADVERTISED_S,
        mobile_nodes: blueprint.visitors_of(index),
        aaa: BTreeMap::new(),
        home_agents: blueprint.homes_of(index),
        relays_to: None,
        revocation: None,
        udp: UdpWish::Never,
        clock: clock(blueprint),
    };
    let seed = blueprint.secrets(&blueprint.nodes[index].name);
    let endpoint = Endpoint::foreign_agent(config, Instant(0), &seed);
    let mut agent = Agent::new(endpoint, address);
    if !blueprint.clamps_mss {
        agent.keep_mss();
    }
    agent.set_link_mtu(blueprint.carried_mtu(mtu));
    agent
}

/// A station with SKIP and without Mobile IPv4.
fn guest(blueprint: &Blueprint, index: usize) -> Mobile {
    let seed = blueprint.secrets(&blueprint.nodes[index].name);
    let (security, inside) = (blueprint.security(index), blueprint.inside(index));
    let endpoint = Endpoint::guest(security, inside, clock(blueprint), &seed);
    Mobile::guest(endpoint).with_approaches(blueprint.approaches(index))
}

/// A key of 128 bits that the node and its home agent have in common.
fn associations(blueprint: &Blueprint, own: &MobileSetup) -> Associations {
    shared(blueprint, own.layer.station, "association", 0)
}

/// A key of 128 bits, which follows from a node's seed: `purpose` and `number` tell its keys apart.
pub(super) fn shared(
    blueprint: &Blueprint,
    node: usize,
    purpose: &str,
    number: u64,
) -> Associations {
    let name = &blueprint.nodes[node].name;
    let mut key = [0; 16];
    let mut stream = blueprint.secrets(name).stream(purpose, number);
    stream.fill(&mut key);
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(FIRST_SPI, Algorithm::HmacMd5, replay, &key);
    let list = Associations::new(one.into_iter().collect());
    list.expect("an association with a free SPI and a key")
}

fn clock(blueprint: &Blueprint) -> Clock {
    let since_1970 = u64::try_from(blueprint.calendar.0).unwrap_or(0);
    Clock::new(Instant(0), Duration::from_secs(since_1970))
}

impl Blueprint {
    /// The home agents outside of a station: one at most.
    pub(super) fn outers(&self, station: usize) -> Vec<&MobileSetup> {
        let all = self.setup.outside.iter();
        all.filter(|it| it.layer.station == station).collect()
    }

    /// Whether a station's tunnel leads it to its home agent.
    pub(super) fn goes_home(&self, station: usize) -> bool {
        let mut tunnels = self.setup.tunnels.iter();
        tunnels.any(|set| set.from == station && set.leads_home)
    }

    /// The address of a mobile node at which its tunnel begins, if that is one that a home agent
    /// keeps.
    pub(super) fn outer_home(&self, station: usize) -> Option<IpAddr> {
        match self.goes_home(station) {
            true => self.outers(station).first().map(|it| it.home.into()),
            false => self.home(station),
        }
    }

    /// The addresses that the graph gives to a station on links of foreign agents.
    fn visits(&self, station: usize) -> BTreeSet<Ipv4Addr> {
        let ports = self.graph.ports.iter().filter(|port| port.node == station);
        let agents = self.agents(station);
        let visits = ports.filter(|port| {
            self.is_visit(port.link) || agents.iter().any(|(own, _)| *own == port.address)
        });
        let addresses = visits.filter_map(|port| match port.address {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        });
        addresses.collect()
    }

    /// The largest packet of a tunnel of Mobile IP that the links of `mtu` octets carry, and the
    /// tunnels between routers on the way.
    pub(super) fn carried_mtu(&self, mtu: u32) -> u16 {
        let between = self.setup.tunnels.iter();
        let between = between.filter(|set| self.nodes[set.from].ends_tunnels);
        let largest = between.map(|set| set.largest_packet(mtu));
        let largest = largest.min().unwrap_or(mtu);
        u16::try_from(largest.min(mtu)).unwrap_or(u16::MAX)
    }

    /// Whether a link is that of a foreign agent's visitors.
    pub(super) fn is_visit(&self, link: usize) -> bool {
        self.nodes[self.joints[link].far].role == Role::ForeignAgent
    }
}

#[cfg(test)]
mod tests;
