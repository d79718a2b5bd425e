//! The network of a scenario with every address and every route: the event kernel builds its
//! elements from it, and the testbed its namespaces.
//!
//! Links that relays join are one *segment*, with one range of addresses. If the file gives no
//! range, it follows from the node at the far end: a private range before a NAT, a documentation
//! range before a gateway, an operator's range between routers, and the private network behind a
//! gateway. Packets take the route with the fewest segments; among equal routes, the one over the
//! link that is named first. A NAT is passed outwards only. No route leads through a gateway: it
//! protects or publishes. A segment has addresses of one family, and a route stays in one family; a
//! router joins networks of both families and translates nothing. Left out: segments with both
//! families.

pub mod crossing;
mod inside;
mod range;
pub mod route;
mod segments;
pub mod setup;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use document::Fault;
use serde::Serialize;

use self::range::SegmentKind;
use self::segments::{segments, taken};
use super::address::Network;
use super::motion::{Change, Tunnel};
use super::{Role, Scenario};

/// Every address and route.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Graph {
    /// In the order of their first links.
    pub segments: Vec<Segment>,
    /// The addresses of nodes on links.
    pub ports: Vec<Port>,
    /// The address by which others reach each node; none for relays.
    pub addresses: Vec<Option<IpAddr>>,
    /// Which node has a tunnel to which gateway, and under which policy.
    pub tunnels: Vec<Tunnel>,
    /// The routes of routers, NATs and gateways. Stations and servers have one default route, to
    /// the head of their segment.
    pub hops: Vec<Hop>,
}

/// Links that share one range of addresses.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// The range.
    pub network: Network,
    /// Indices of its links, those nearest to the stations first.
    pub links: Vec<usize>,
    /// The index of the gateway that it is behind.
    pub behind: Option<usize>,
    /// The node that forwards what leaves it; where none does, its first node.
    pub head: IpAddr,
}

/// The connection of a node to a link; a station has one for each link that it ever uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Port {
    /// Index of the node.
    pub node: usize,
    /// Index of the link.
    pub link: usize,
    /// Whether it is at the side of the stations.
    pub is_near: bool,
    /// Index of the segment.
    pub segment: usize,
    /// Its address there.
    pub address: IpAddr,
    /// Whether it is there when all begins: a move brings a station to its other links.
    pub is_first: bool,
}

/// The route of a node to a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Index of the node.
    pub node: usize,
    /// Index of the destination segment.
    pub to: usize,
    /// Index of the link that it takes.
    pub link: usize,
    /// The next node; none: the destination is on that link's segment.
    pub via: Option<IpAddr>,
    /// The number of segments on the route.
    pub segments: usize,
}

/// What inner addresses begin with.
const POOLS_OCTETS: [u8; 2] = [10, 99];
const POOLS_V6_WORD: u16 = 0xfd99;
/// Inner addresses are assigned from here, 256 for each policy of a gateway.
pub const POOLS: Network = Network {
    first: IpAddr::V4(Ipv4Addr::new(POOLS_OCTETS[0], POOLS_OCTETS[1], 0, 0)),
    bits: 16,
};
/// The same for IPv6 (RFC 4193 §3).
pub const POOLS_V6: Network = Network {
    first: IpAddr::V6(Ipv6Addr::new(POOLS_V6_WORD, 0, 0, 0, 0, 0, 0, 0)),
    bits: 48,
};

impl Graph {
    /// Computes every address and route of a scenario.
    pub fn of(scenario: &Scenario) -> Result<Self, Fault> {
        let mut graph = Self {
            segments: segments(scenario),
            ports: Vec::new(),
            addresses: Vec::new(),
            tunnels: Vec::new(),
            hops: Vec::new(),
        };
        graph.place(scenario);
        graph.assign_ranges(scenario)?;
        graph.number(scenario)?;
        let nodes = 0..scenario.nodes.len();
        graph.addresses = nodes.map(|node| graph.first_address(node)).collect();
        graph.check_families(scenario)?;
        graph.check_homes(scenario)?;
        for (index, node) in scenario.nodes.iter().enumerate() {
            if node.role.has_routes() {
                graph.hops.extend(graph.reach(index, scenario));
            }
        }
        graph.protect(scenario)?;
        graph.check_flows(scenario)?;
        Ok(graph)
    }

    /// The port of a node on a link.
    pub fn port(&self, node: usize, link: usize) -> Option<&Port> {
        let mut ports = self.ports.iter();
        ports.find(|port| port.node == node && port.link == link)
    }

    /// The ports of a node at the beginning, in the order of its links in the file.
    pub fn ports_of(&self, node: usize) -> impl Iterator<Item = &Port> {
        let ports = self.ports.iter();
        ports.filter(move |port| port.node == node && port.is_first)
    }

    /// The route of a router, NAT or gateway to a segment.
    pub fn hop(&self, node: usize, to: usize) -> Option<&Hop> {
        let mut hops = self.hops.iter();
        hops.find(|hop| hop.node == node && hop.to == to)
    }

    /// The ports that share the near side of a link at any time.
    pub fn near(&self, link: usize) -> impl Iterator<Item = &Port> {
        let ports = self.ports.iter();
        ports.filter(move |port| port.link == link && port.is_near)
    }

    /// Whether packets down a link may be for several nodes, or for one that has left.
    pub fn is_shared(&self, link: usize) -> bool {
        let is_elsewhere = |port: &Port| {
            let mut others = self.ports.iter();
            others.any(|other| other.node == port.node && other.is_first != port.is_first)
        };
        let near = self.near(link).count();
        near > 1 || self.near(link).any(is_elsewhere)
    }

    /// The address by which others reach a node.
    pub fn address(&self, node: usize) -> Option<IpAddr> {
        self.addresses[node]
    }

    /// On its first link towards the stations, else on its first link.
    fn first_address(&self, node: usize) -> Option<IpAddr> {
        let inward = self.ports_of(node).find(|port| !port.is_near);
        let port = inward.or_else(|| self.ports_of(node).next());
        port.map(|port| port.address)
    }

    /// The address by which a station reaches a node: the same, but of the station's own family if
    /// the node has one.
    pub fn address_for(&self, station: usize, node: usize) -> Option<IpAddr> {
        let own = self.address(station)?;
        let mut inward = self.ports_of(node).filter(|port| !port.is_near);
        let alike = inward.find(|port| port.address.is_ipv6() == own.is_ipv6());
        alike.map(|port| port.address).or(self.address(node))
    }

    /// Finds segments and ports, still without addresses. Relays have no ports.
    fn place(&mut self, scenario: &Scenario) {
        for (link, joint) in scenario.links.iter().enumerate() {
            let segment = self.segments.iter().position(|it| it.links.contains(&link));
            let brought = scenario.moves.iter().filter_map(|step| match step.change {
                Change::Station { node, to } if to == link => Some(node),
                _ => None,
            });
            // A mobile node has its address at home, even if it is never there.
            let mobile = scenario.mobile.iter().chain(&scenario.outside);
            let at_home = mobile.filter(|it| joint.near.contains(&it.agent));
            let at_home = at_home.map(|it| it.station);
            // Behind an access point it is on the link of a radio.
            let links = segment.map(|index| &self.segments[index].links);
            let is_on = |station: usize, link: &usize| {
                let is_brought = |step: &super::Move| match step.change {
                    Change::Station { node, to } => node == station && to == *link,
                    Change::Link { .. } => false,
                };
                scenario.links[*link].near.contains(&station)
                    || scenario.moves.iter().any(is_brought)
            };
            let has_radio = |station: usize| {
                links.is_some_and(|links| links.iter().any(|link| is_on(station, link)))
            };
            let at_home = at_home.filter(|station| !has_radio(*station));
            let near = joint.near.iter().copied().chain(brought).chain(at_home);
            let ends = near.map(|node| (node, true)).chain([(joint.far, false)]);
            for (node, is_near) in ends {
                // An access point has an address on the link that starts from it alone.
                let is_bridge = match scenario.nodes[node].role {
                    Role::AccessPoint => !is_near,
                    role => role.is_bridge(),
                };
                if !is_bridge && self.port(node, link).is_none() {
                    self.ports.push(Port {
                        node,
                        link,
                        is_near,
                        segment: segment.unwrap_or_default(),
                        address: Ipv4Addr::UNSPECIFIED.into(),
                        is_first: !is_near || joint.near.contains(&node),
                    });
                }
            }
        }
        self.ports.sort_by_key(|port| (port.node, port.link));
    }

    /// Assigns ranges: those that the file gives, then the next free ones.
    fn assign_ranges(&mut self, scenario: &Scenario) -> Result<(), Fault> {
        let mut used = vec![POOLS, POOLS_V6];
        let mut given = Vec::new();
        for segment in &self.segments {
            let links = segment.links.iter().map(|link| &scenario.links[*link]);
            let mut networks = links.filter_map(|joint| joint.network);
            let fault = |what: String| Err(scenario.fault_of_networks(&segment.links, what));
            let network = match (networks.next(), networks.next()) {
                (Some(first), Some(second)) if first != second => {
                    return fault(format!("relays join links with {first} and {second}"));
                }
                (network, _) => network,
            };
            let overlapped = |network: &Network| used.iter().find(|it| it.overlaps(*network));
            if let Some(network) = network
                && let Some(other) = overlapped(&network)
            {
                return fault(format!("{network} overlaps {other}, which is in use"));
            }
            used.extend(network);
            given.push(network);
        }
        let mut taken = [0; 4];
        for (index, given) in given.into_iter().enumerate() {
            let kind = self.kind(scenario, index);
            let links = &self.segments[index].links;
            let network = match given {
                Some(network) => network,
                None => kind
                    .range(scenario.is_v6, &mut taken, &used)
                    .ok_or_else(|| {
                        let what = "the networks that the file gives leave no range for this link: \
                                give it a network too";
                        scenario.fault_of_networks(links, what.to_owned())
                    })?,
            };
            self.segments[index].network = network;
        }
        Ok(())
    }

    /// Assigns addresses and heads. The first address of a range is that of the node that others
    /// send to: the far end, or behind a gateway the gateway. Nodes whose address the file gives
    /// have that one.
    fn number(&mut self, scenario: &Scenario) -> Result<(), Fault> {
        for (index, segment) in self.segments.iter().enumerate() {
            let network = segment.network;
            let given = |node: usize| {
                let given = scenario.nodes[node].address;
                given.filter(|address| network.has(*address))
            };
            let own = self.ports.iter().filter(|port| port.segment == index);
            let taken = taken(
                scenario,
                own.filter_map(|port| Some((port.node, given(port.node)?))),
            )?;
            let mut number = 1;
            for port in self.ports.iter_mut().filter(|port| port.segment == index) {
                let is_first = match segment.behind {
                    Some(gateway) => port.node == gateway,
                    None => !port.is_near,
                };
                let fault = |host: u32| {
                    let what = format!("{network} is too small for host {host}");
                    scenario.fault_of_networks(&segment.links, what)
                };
                if let Some(address) = given(port.node) {
                    port.address = address;
                    continue;
                }
                let mut host = 1;
                let mut address = network.host(host).ok_or_else(|| fault(host))?;
                while !is_first && (host == 1 || taken.contains(&address)) {
                    number += 1;
                    host = number;
                    address = network.host(host).ok_or_else(|| fault(host))?;
                }
                port.address = address;
            }
        }
        for index in 0..self.segments.len() {
            let head = self.head(index, scenario);
            self.segments[index].head = head.unwrap_or(self.segments[index].network.first);
        }
        Ok(())
    }

    /// The address of who forwards what leaves a segment: the node that has the first address, or
    /// if that is a server, a node on the near side that forwards.
    fn head(&self, segment: usize, scenario: &Scenario) -> Option<IpAddr> {
        let ports = self.ports.iter().filter(|port| port.segment == segment);
        let forwards = |port: &&Port| scenario.nodes[port.node].role.has_routes();
        let first = self.segments[segment].network.host(1);
        let (of_first, others): (Vec<&Port>, Vec<&Port>) =
            ports.partition(|port| Some(port.address) == first);
        let mut heads = of_first.into_iter().chain(others).filter(forwards);
        heads.next().map(|port| port.address).or(first)
    }

    /// Checks families: a NAT translates IPv4 only, and a tunnel of IKEv1 stays in the family in
    /// which it began.
    fn check_families(&self, scenario: &Scenario) -> Result<(), Fault> {
        for port in self.ports.iter().filter(|port| port.address.is_ipv6()) {
            let node = &scenario.nodes[port.node];
            if node.role == Role::Nat {
                let network = self.segments[port.segment].network;
                let what = format!(
                    "a NAT translates only IPv4, and {network} is IPv6: use a \
                                    router"
                );
                let keys = [&*format!("node.{}.role", node.name), "family"];
                return Err(scenario.fault(&keys, what));
            }
        }
        for step in &scenario.moves {
            let Change::Station { node, to } = step.change else {
                continue;
            };
            let (before, after) = (self.address(node), self.port(node, to));
            let after = after.map(|port| port.address);
            if before.map(|it| it.is_ipv6()) != after.map(|it| it.is_ipv6()) {
                let name = |index: usize| &scenario.links[index].name;
                let what = format!(
                    "'{}' moves to '{}', which has the other IP version: an IKEv1 tunnel cannot \
                     follow",
                    scenario.nodes[node].name,
                    name(to)
                );
                let network = format!("link.{}.network", name(to));
                return Err(scenario.fault(&[&network, "move"], what));
            }
        }
        Ok(())
    }

    /// Checks that mobile nodes have IPv4 at home.
    fn check_homes(&self, scenario: &Scenario) -> Result<(), Fault> {
        let is_v6 = |agent: usize| self.address(agent).is_some_and(|address| address.is_ipv6());
        let mut mobile = scenario.mobile.iter().chain(&scenario.outside);
        match mobile.find(|it| is_v6(it.agent)) {
            Some(layer) => {
                let agent = &scenario.nodes[layer.agent].name;
                let what = format!("the home of '{agent}' is IPv6, and mobile-ip is for IPv4");
                Err(scenario.fault(&["family", "layer"], what))
            }
            None => Ok(()),
        }
    }

    fn kind(&self, scenario: &Scenario, segment: usize) -> SegmentKind {
        if self.segments[segment].behind.is_some() {
            return SegmentKind::Behind;
        }
        let mut ports = self.ports.iter().filter(|port| port.segment == segment);
        let Some(head) = ports.find(|port| !port.is_near) else {
            return SegmentKind::Between;
        };
        match scenario.nodes[head.node].role {
            Role::Nat => SegmentKind::Private,
            Role::Gateway | Role::Firewall | Role::Server => SegmentKind::Public,
            _ if self.meets_nat(scenario, head.node, self.segments.len()) => SegmentKind::Private,
            _ => SegmentKind::Between,
        }
    }

    /// Whether packets that a router forwards meet a NAT.
    fn meets_nat(&self, scenario: &Scenario, router: usize, depth: usize) -> bool {
        let onward = self
            .ports
            .iter()
            .find(|port| port.node == router && port.is_near);
        let head = onward.and_then(|onward| {
            let mut ports = self.ports.iter();
            ports.find(|port| port.segment == onward.segment && !port.is_near)
        });
        head.is_some_and(|head| match scenario.nodes[head.node].role {
            Role::Nat => true,
            role => role.is_router() && depth > 0 && self.meets_nat(scenario, head.node, depth - 1),
        })
    }

    /// The routes from a node to all segments that it reaches at the beginning.
    fn reach(&self, node: usize, scenario: &Scenario) -> Vec<Hop> {
        let mut hops: Vec<Hop> = Vec::new();
        for port in self.ports_of(node) {
            if !hops.iter().any(|hop| hop.to == port.segment) {
                hops.push(Hop {
                    node,
                    to: port.segment,
                    link: port.link,
                    via: None,
                    segments: 1,
                });
            }
        }
        let mut at = 0;
        while let Some(hop) = hops.get(at).copied() {
            at += 1;
            let entrances = self.ports.iter().filter(|port| port.segment == hop.to);
            for entrance in entrances.filter(|port| port.node != node) {
                let onward = |port: &&Port| match scenario.nodes[entrance.node].role {
                    role if role.is_router() => port.node == entrance.node,
                    Role::Nat => port.node == entrance.node && !entrance.is_near && port.is_near,
                    Role::Firewall if scenario.nodes[entrance.node].announces => {
                        port.node == entrance.node && entrance.is_near && !port.is_near
                    }
                    _ => false,
                };
                let is_v6 = self.segments[hop.to].network.is_v6();
                let is_alike = |port: &&Port| port.address.is_ipv6() == is_v6;
                for port in self.ports.iter().filter(onward).filter(is_alike) {
                    if !hops.iter().any(|known| known.to == port.segment) {
                        hops.push(Hop {
                            to: port.segment,
                            via: hop.via.or(Some(entrance.address)),
                            segments: hop.segments + 1,
                            ..hop
                        });
                    }
                }
            }
        }
        hops
    }

    /// The number of segments between a station, at the beginning, and the near side of a gateway,
    /// or the last node if there is no gateway.
    fn distance(&self, station: usize, to: usize, scenario: &Scenario) -> Option<usize> {
        let reached = self.reach(station, scenario);
        let is_inward = self.ports_of(to).any(|port| !port.is_near);
        let outer = self.ports_of(to).filter(|port| !port.is_near || !is_inward);
        let hops = outer.filter_map(|port| reached.iter().find(|hop| hop.to == port.segment));
        hops.map(|hop| hop.segments).min()
    }

    /// Assigns each station its gateway: as layers state, otherwise the nearest. A mobile node's is
    /// that of its home.
    fn protect(&mut self, scenario: &Scenario) -> Result<(), Fault> {
        self.tunnels = scenario.layers.clone().unwrap_or_default();
        if let Some(policy) = scenario.others.as_ref().filter(|it| *it != "none") {
            for from in scenario.with_role(Role::Station) {
                let gateways = 0..scenario.nodes.len();
                let gateways = gateways.filter(|to| scenario.nodes[*to].is_gateway());
                let near = gateways.map(|to| {
                    let start = self.start(from, to, scenario);
                    (self.way(scenario, (from, to), start), to)
                });
                let near = near.filter(|(distance, _)| distance.is_some());
                let is_named = self.tunnels.iter().any(|tunnel| tunnel.from == from);
                if let Some((_, to)) = near.min().filter(|_| !is_named) {
                    let policy = policy.clone();
                    self.tunnels.push(Tunnel { from, to, policy });
                }
            }
        }
        for tunnel in &self.tunnels {
            let start = self.start(tunnel.from, tunnel.to, scenario);
            self.check_way(scenario, tunnel, start)?;
        }
        Ok(())
    }

    /// Where the way of a station's tunnel to a gateway begins: at a mobile node's home, unless the
    /// tunnel leads there.
    fn start(&self, station: usize, gateway: usize, scenario: &Scenario) -> usize {
        let mut mobile = scenario.mobile.iter();
        let own = mobile.find(|it| it.station == station);
        let own = own.filter(|it| !self.is_behind(it.agent, gateway));
        own.map_or(station, |it| it.agent)
    }

    /// Where outer packets of a flow to or from this node end: at the gateway that it is behind, or
    /// without one at the node itself.
    pub fn outer_end(&self, node: usize) -> usize {
        let mut segments = self.ports_of(node).map(|port| &self.segments[port.segment]);
        segments.find_map(|segment| segment.behind).unwrap_or(node)
    }

    fn check_flows(&self, scenario: &Scenario) -> Result<(), Fault> {
        for flow in &scenario.flows {
            let (station, other) = flow.ends();
            let end = self.outer_end(other);
            let tunnel = self.tunnels.iter().find(|tunnel| tunnel.from == station);
            let name = |node: usize| &scenario.nodes[node].name;
            // A mobile node is reached by way of its home, wherever it is; a station with SKIP by
            // way of its firewall.
            let agent = scenario.mobile.iter().find(|it| it.station == station);
            let firewall = scenario.skip.iter().find(|it| it.station == station);
            let start = firewall.map_or(station, |it| it.firewall);
            let start = agent.map_or(start, |it| it.agent);
            let what = match tunnel {
                // Behind a router that ends tunnels is all that it reaches.
                Some(tunnel)
                    if scenario.nodes[tunnel.to].ends_tunnels
                        && self.distance(tunnel.to, end, scenario).is_some() =>
                {
                    continue;
                }
                // A mobile node whose home is behind its gateway reaches what its home does.
                Some(tunnel)
                    if agent.is_some_and(|it| self.is_behind(it.agent, tunnel.to))
                        && self.distance(start, end, scenario).is_some() =>
                {
                    continue;
                }
                Some(tunnel) if tunnel.to != end => format!(
                    "the tunnel of '{}' ends at '{}', which does not lead to '{}'",
                    name(station),
                    name(tunnel.to),
                    name(other)
                ),
                _ if self.distance(start, end, scenario).is_none() => {
                    format!(
                        "no path leads from '{}' to '{}'",
                        name(station),
                        name(other)
                    )
                }
                _ => continue,
            };
            let keys = ["to", "from"].map(|key| format!("flow.{}.{key}", flow.name));
            return Err(scenario.fault(&keys.each_ref().map(String::as_str), what));
        }
        Ok(())
    }
}

impl Scenario {
    /// A fault about the networks of links. If they give none, the first that is given is blamed.
    fn fault_of_networks(&self, links: &[usize], what: String) -> Fault {
        let own = links.iter().map(|link| &self.links[*link]);
        let given = self.links.iter().filter(|joint| joint.network.is_some());
        let joints = own.chain(given);
        let keys: Vec<String> = joints
            .map(|joint| format!("link.{}.network", joint.name))
            .collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        self.fault(&keys, what)
    }
}

#[cfg(test)]
mod tests;
