//! The elements of a path: two links for each joint, then the nodes by index, then a fork for each
//! link that several nodes share.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use engine::selector::TrafficSelector;

use super::blueprint::{Blueprint, NodeBlueprint};
use super::tunnel::{self, Tunnel};
use super::{access, mobility, skip};
use crate::kernel::access_point::{self, AccessPoint, AccessPointConfig};
use crate::kernel::fork::{FROM_ELSEWHERE, Fork, OWN_PORTS};
use crate::kernel::host::{self, Control, Part, Stack};
use crate::kernel::nat::Nat;
use crate::kernel::random::Random;
use crate::kernel::{Element, Host, Kernel, KernelFault, Link, Port, Router, Subject, Target};
use crate::scenario::graph::setup::TunnelSetup;
use crate::scenario::graph::{Hop, Port as End};
use crate::scenario::{Network, Role};

/// The positions of elements. A node of the blueprint has the element with the same index in
/// `nodes`.
pub(super) struct Elements {
    pub(super) nodes: Vec<u32>,
    /// Up and down link of each joint.
    pub(super) links: Vec<(u32, u32)>,
    /// The fork at the near end of each joint, where there is one.
    pub(super) forks: Vec<Option<u32>>,
    /// The link up to the gateway, or the last one.
    pub(super) outer_link: u32,
}

impl Elements {
    /// What an element stands for.
    pub(super) fn subject(&self, number: u32) -> Subject {
        let is_link = |(link, fork): (&(u32, u32), &Option<u32>)| {
            [link.0, link.1].contains(&number) || *fork == Some(number)
        };
        let mut links = self.links.iter().zip(&self.forks);
        let link = links.position(is_link).map(Subject::Link);
        let node = || self.nodes.iter().position(|node| *node == number);
        let found = link.or_else(|| node().map(Subject::Node));
        found.unwrap_or(Subject::Element(number))
    }
}

pub(super) fn build(blueprint: &Blueprint) -> Result<(Kernel, Elements), KernelFault> {
    let builder = Builder::new(blueprint);
    let mut kernel = Kernel::default();
    let mut links = Vec::new();
    for (index, joint) in blueprint.joints.iter().enumerate() {
        let back = format!("{} back", joint.name);
        let ways = [(&joint.name, &joint.up, "up"), (&back, &joint.down, "down")];
        let [first, second] = ways.map(|(name, shape, purpose)| {
            let shape = shape.clone().try_map(|trace| trace.replay());
            let shape = shape.map_err(|why| KernelFault::Impossible {
                subject: Subject::Link(index),
                name: name.clone(),
                why: why.to_string(),
            })?;
            let link = Link::new(shape, Random::new(blueprint.seed, purpose, index as u64));
            let to = builder.end(index, purpose == "up");
            Ok(kernel.add(name, Element::Link(link, to)))
        });
        let (up, down) = (first?, second?);
        // Whoever sends onto one direction gets what the other one brings.
        for (link, is_up) in [(up, true), (down, false)] {
            if let Some(own) = builder.sender(index, is_up) {
                kernel.report(link, builder.end(index, !is_up), own);
            }
        }
        if joint.is_half_duplex {
            kernel.share(up, down);
        }
        links.push((up, down));
    }
    let nodes = blueprint.nodes.iter().enumerate();
    let nodes = nodes.map(|(index, one)| kernel.add(&one.name, builder.element(index, one)));
    let nodes = nodes.collect();
    for (index, joint) in blueprint.joints.iter().enumerate() {
        if builder.forks[index].is_some() {
            let name = format!("{} near", joint.name);
            kernel.add(&name, Element::Fork(builder.near_fork(index)));
        }
    }
    let gateway = blueprint
        .nodes
        .iter()
        .position(|one| one.role == Role::Gateway);
    let to_gateway = |gateway| {
        blueprint
            .joints
            .iter()
            .position(|joint| joint.far == gateway)
    };
    let outer = gateway.and_then(to_gateway);
    let outer = outer.unwrap_or(links.len().saturating_sub(1));
    let elements = Elements {
        nodes,
        outer_link: links.get(outer).map_or(0, |link| link.0),
        links,
        forks: builder.forks,
    };
    Ok((kernel, elements))
}

struct Builder<'a> {
    blueprint: &'a Blueprint,
    forks: Vec<Option<u32>>,
}

impl<'a> Builder<'a> {
    fn new(blueprint: &'a Blueprint) -> Self {
        let mut next = (2 * blueprint.joints.len() + blueprint.nodes.len()) as u32;
        let forks = (0..blueprint.joints.len()).map(|joint| {
            let is_shared = blueprint.graph.is_shared(joint) || blueprint.is_bridged(joint);
            is_shared.then(|| {
                next += 1;
                next - 1
            })
        });
        let forks = forks.collect();
        Self { blueprint, forks }
    }

    /// A node as the target of one of its links.
    fn node(&self, index: usize, is_up: bool) -> Target {
        let node = &self.blueprint.nodes[index];
        let port = match node.role {
            Role::Station | Role::HomeAgent => Port(0),
            Role::Router if node.filters_sources && !is_up => FROM_ELSEWHERE,
            Role::Server if self.has_only_near_ports(index) => Port(0),
            Role::ForeignAgent if self.has_only_near_ports(index) => Port(0),
            Role::AccessPoint => match is_up {
                true => access_point::RADIO,
                false => access_point::BEHIND,
            },
            _ => Port(u8::from(!is_up)),
        };
        Target {
            element: (2 * self.blueprint.joints.len() + index) as u32,
            port,
        }
    }

    /// Whether a node has no link that ends at it.
    fn has_only_near_ports(&self, index: usize) -> bool {
        self.blueprint
            .graph
            .ports_of(index)
            .all(|port| port.is_near)
    }

    /// A node as the target of a link: a router that ends tunnels has a port for each.
    fn node_on(&self, index: usize, joint: usize, is_up: bool) -> Target {
        let target = self.node(index, is_up);
        if !self.blueprint.nodes[index].ends_tunnels {
            return target;
        }
        let mut ports = self.blueprint.graph.ports_of(index);
        let port = ports
            .position(|port| port.link == joint)
            .unwrap_or_default();
        Target {
            port: Port(port as u8),
            ..target
        }
    }

    /// The port of a router at the far end of a link: the links from its own networks are numbered.
    fn own_port(&self, joint: usize) -> Port {
        let joints = &self.blueprint.joints;
        let before = joints[..joint].iter();
        let before = before.filter(|it| it.far == joints[joint].far).count();
        Port(before.min(usize::from(OWN_PORTS - 1)) as u8)
    }

    /// The target of a joint's link: its end or, past a relay, the next link.
    fn end(&self, joint: usize, is_up: bool) -> Target {
        let found = &self.blueprint.joints[joint];
        let role = |node: usize| self.blueprint.nodes[node].role;
        if is_up {
            let next = self
                .blueprint
                .joints
                .iter()
                .position(|it| it.near == [found.far]);
            return match next.filter(|_| role(found.far) == Role::Relay) {
                Some(next) => link(next, true),
                None if self.blueprint.nodes[found.far].filters_sources => Target {
                    port: self.own_port(joint),
                    ..self.node(found.far, true)
                },
                None => self.node_on(found.far, joint, true),
            };
        }
        match (self.forks[joint], found.near.first()) {
            (Some(element), _) => Target {
                element,
                port: Port(0),
            },
            (None, Some(near)) if role(*near) == Role::Relay => {
                let before = self.blueprint.joints.iter().position(|it| it.far == *near);
                before.map_or(self.node(*near, false), |before| link(before, false))
            }
            (None, near) => {
                // if nobody is there before a move brings a node, this is a fork
                self.node_on(near.copied().unwrap_or_default(), joint, false)
            }
        }
    }

    /// The target for sending onto a link from this side.
    fn onto(&self, port: &End) -> Target {
        link(port.link, port.is_near)
    }

    /// The IPv4 address of a node that sends onto a link.
    fn sender(&self, joint: usize, is_up: bool) -> Option<Ipv4Addr> {
        let mut ports = self.blueprint.graph.ports.iter();
        ports.find_map(|port| match port.address {
            IpAddr::V4(own) if port.link == joint && port.is_near == is_up => Some(own),
            _ => None,
        })
    }

    fn element(&self, index: usize, node: &NodeBlueprint) -> Element {
        match node.role {
            Role::Station
            | Role::Gateway
            | Role::Server
            | Role::HomeAgent
            | Role::ForeignAgent
            | Role::Firewall => Element::Host(Box::new(self.host(index, node))),
            // a relay has no element: this one takes its index and no packet
            Role::Relay => Element::Sink(crate::kernel::Sink::default()),
            Role::AccessPoint => Element::AccessPoint(Box::new(self.access_point(index, node))),
            Role::Router if node.ends_tunnels => Element::Host(Box::new(self.host(index, node))),
            Role::Router => Element::Fork(self.router(index, node)),
            Role::Nat => self.nat(index, node),
        }
    }

    fn router(&self, index: usize, node: &NodeBlueprint) -> Fork {
        let mut fork = Fork::default();
        let graph = &self.blueprint.graph;
        fork.own = graph.ports_of(index).map(|port| port.address).collect();
        if node.filters_sources {
            let is_own = |link: usize| self.blueprint.joints[link].far == index;
            let own = graph
                .hops
                .iter()
                .filter(|hop| hop.node == index && is_own(hop.link));
            let range = |hop: &Hop| {
                let network = graph.segments[hop.to].network;
                (self.own_port(hop.link), network.first, network.last())
            };
            fork.filter_sources(own.map(range).collect());
        }
        for hop in graph.hops.iter().filter(|hop| hop.node == index) {
            let network = graph.segments[hop.to].network;
            if let Some(port) = graph.port(index, hop.link) {
                fork.lead(network.first, network.last(), self.onto(port));
            }
        }
        // Inside, routers lead care-of addresses that are those of tunnels to their gateways.
        let tunnels = self.blueprint.setup.tunnels.iter();
        for set in tunnels.filter(|set| set.leads_home) {
            let mut segments = graph.segments.iter();
            let behind = segments.position(|it| it.behind == Some(set.to));
            let hop = behind.and_then(|behind| graph.hop(index, behind));
            if let Some(port) = hop.and_then(|hop| graph.port(index, hop.link)) {
                fork.lead(set.pool.first, set.pool.last(), self.onto(port));
                // A station that comes inside reaches the gateway itself, to end its tunnel.
                if !set.trusted.is_empty() {
                    fork.lead_one(set.gateway, self.onto(port));
                }
            }
        }
        fork
    }

    /// The fork at the near end of a link: each node there by its address, and what routers reach.
    fn near_fork(&self, joint: usize) -> Fork {
        let (graph, mut fork) = (&self.blueprint.graph, Fork::default());
        let is_there = |node: usize| self.blueprint.joints[joint].near.contains(&node);
        for port in graph.near(joint).filter(|port| is_there(port.node)) {
            fork.lead_one(port.address, self.node_on(port.node, joint, false));
            let is_station = self.blueprint.nodes[port.node].role == Role::Station;
            if is_station && self.blueprint.is_radio(joint) {
                fork.frames
                    .insert(port.node as u32, self.node(port.node, false));
                // A mobile node is found by its home address, and hears what is sent to all.
                if let Some(home) = self.blueprint.visitor(port.node, joint) {
                    fork.lead_one(home, self.node(port.node, false));
                    fork.lead_one(Ipv4Addr::BROADCAST.into(), self.node(port.node, false));
                }
            }
        }
        for (index, segment) in graph.segments.iter().enumerate() {
            let below = graph.near(joint).filter_map(|port| {
                let hop = graph.hop(port.node, index)?;
                (hop.link != joint).then_some((hop.segments, port.node))
            });
            let is_router = |node: usize| self.blueprint.nodes[node].role == Role::Router;
            let nearest = below.filter(|(_, node)| is_router(*node)).min();
            if let Some((_, node)) = nearest {
                let network = segment.network;
                fork.lead(
                    network.first,
                    network.last(),
                    self.node_on(node, joint, false),
                );
            }
        }
        // All others are on the radio of an access point.
        let mut near = self.blueprint.joints[joint].near.iter();
        let is_point = |node: &&usize| self.blueprint.nodes[**node].role == Role::AccessPoint;
        if let Some(point) = near.find(is_point) {
            let all = Network::all(false);
            fork.lead(all.first, all.last(), self.node(*point, false));
        }
        fork
    }

    /// An access point with the stations that are there at the beginning.
    fn access_point(&self, index: usize, node: &NodeBlueprint) -> AccessPoint {
        let blueprint = self.blueprint;
        let radio = |joint: &usize| blueprint.joints[*joint].far == index;
        let joints = 0..blueprint.joints.len();
        let radio = joints.clone().find(radio).unwrap_or_default();
        let mut joints = joints;
        let behind = joints.find(|joint| blueprint.joints[*joint].near.contains(&index));
        let mut point = AccessPoint::new(AccessPointConfig {
            address: blueprint
                .graph
                .address(index)
                .unwrap_or(Ipv4Addr::UNSPECIFIED.into()),
            radio: link(radio, false),
            behind: link(behind.unwrap_or_default(), true),
            server: node
                .radius
                .and_then(|server| blueprint.graph.address(server)),
            frames: node.frames.clone().unwrap_or_default(),
        });
        for station in &blueprint.joints[radio].near {
            let (addresses, script) = access::expected(blueprint, *station, radio);
            let script = script.filter(|_| blueprint.is_measured(*station));
            point.expect(*station as u32, addresses, script);
        }
        point
    }

    fn nat(&self, index: usize, node: &NodeBlueprint) -> Element {
        let nat = Nat::new(node.nat.clone());
        let ports = || self.blueprint.graph.ports_of(index);
        let inside = ports().find(|port| !port.is_near);
        let outside = ports().find(|port| port.is_near);
        let onto =
            |port: Option<&End>| port.map_or(self.node(index, false), |port| self.onto(port));
        Element::Nat(Box::new(Router::new(nat, onto(inside), onto(outside))))
    }

    fn host(&self, index: usize, node: &NodeBlueprint) -> Host {
        let (blueprint, graph) = (self.blueprint, &self.blueprint.graph);
        let unspecified = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let address = graph.address(index).unwrap_or(unspecified);
        let is_station = node.role == Role::Station;
        let is_near = self.has_only_near_ports(index);
        let outward = |port: &&End| port.is_near == is_station || is_near;
        let mut outer = graph.ports_of(index).filter(outward);
        let first = outer.next();
        let outer = first.map_or(self.node(index, false), |port| self.onto(port));
        let mut host = host::HostConfig::new(address, outer);
        let home = (is_station && !blueprint.tunnels_at(index).is_empty())
            .then(|| blueprint.outer_home(index))
            .flatten();
        if let Some(home) = home {
            host.addresses = vec![home];
        }
        let mut inward = graph.ports_of(index).filter(|port| !port.is_near);
        let other = inward.find(|port| port.address.is_ipv4() != address.is_ipv4());
        host.addresses.extend(other.map(|port| port.address));
        if let Some(costs) = &node.costs {
            host.costs = costs.clone();
        }
        match node.role {
            Role::Gateway => self.ports_of_gateway(index, &mut host),
            Role::Firewall | Role::ForeignAgent if !is_near => {
                self.ports_of_both_sides(index, &mut host);
            }
            Role::Router => self.ports_of_router(index, &mut host),
            _ => {}
        }
        // An access point knows by itself who is on its radio.
        let wired = first.filter(|port| !blueprint.is_radio(port.link));
        host.neighbours = wired.and_then(|port| self.forks[port.link]);
        let mtu = self.stack_mtu(index);
        let own = match node.role {
            Role::Router => blueprint.tunnel_addresses(index),
            _ => host.addresses.clone(),
        };
        let control = self.control(index, node, own);
        let radio = first.filter(|port| blueprint.is_radio(port.link));
        let point = radio.map(|port| self.node(blueprint.joints[port.link].far, true));
        let entrance = access::entrance(blueprint, index, mtu, point);
        let part = match (node.role, control) {
            (Role::Firewall, _) => Part::Wall(Box::new(skip::wall(blueprint, index, mtu))),
            (Role::ForeignAgent, _) => {
                Part::Agent(Box::new(mobility::foreign(blueprint, index, mtu)))
            }
            (_, Some(control)) => Part::Control(Box::new(control)),
            (_, None) => match mobility::of(blueprint, index, mtu) {
                Some(mobile) => Part::Mobile(Box::new(mobile)),
                None => Part::Plain,
            },
        };
        let mut stack = Stack::new(address, mtu, blueprint.seed);
        if blueprint.has_radio() {
            stack.fill_segments();
        }
        Host::new(host, part, Some(stack), entrance)
    }

    /// Each link of a router that ends tunnels has a port, in their order.
    fn ports_of_router(&self, index: usize, host: &mut host::HostConfig) {
        let graph = &self.blueprint.graph;
        host.is_router = true;
        host.addresses = graph.ports_of(index).map(|port| port.address).collect();
        host.targets.clear();
        for (number, port) in graph.ports_of(index).enumerate() {
            host.targets.push(self.onto(port));
            let hops = graph.hops.iter();
            let hops = hops.filter(|hop| (hop.node, hop.link) == (index, port.link));
            for hop in hops {
                let network = graph.segments[hop.to].network;
                let to = Port(number as u8);
                host.routes.push((network.first, network.last(), to));
            }
        }
        host.protects = self.blueprint.protects(index);
        host.radius = access::asked(self.blueprint, index);
    }

    /// Port 0 of a firewall leads to its first link outside, that of a foreign agent to its first
    /// link with visitors; all others have ports of their own.
    fn ports_of_both_sides(&self, index: usize, host: &mut host::HostConfig) {
        let graph = &self.blueprint.graph;
        let first = graph.outside(index).map(|port| port.link);
        host.addresses.clear();
        host.addresses
            .extend(graph.outside(index).map(|port| port.address));
        host.addresses.extend(graph.inside(index));
        for port in graph.ports_of(index).filter(|it| Some(it.link) != first) {
            let to = Port(host.targets.len() as u8);
            host.targets.push(self.onto(port));
            let hops = graph.hops.iter();
            let hops = hops.filter(|hop| (hop.node, hop.link) == (index, port.link));
            for hop in hops {
                let network = graph.segments[hop.to].network;
                host.routes.push((network.first, network.last(), to));
            }
        }
    }

    /// Port 1 leads behind the gateway; further outer links use the following ports.
    fn ports_of_gateway(&self, index: usize, host: &mut host::HostConfig) {
        let (blueprint, graph) = (self.blueprint, &self.blueprint.graph);
        if let Some(segment) = graph.behind(index) {
            let network = segment.network;
            let inside = graph.ports_of(index).find(|port| port.is_near);
            host.targets.extend(inside.map(|port| self.onto(port)));
            host.routes.push((network.first, network.last(), Port(1)));
            let hops = graph.hops.iter().filter(|hop| hop.node == index);
            let hops = hops.filter(|hop| inside.is_some_and(|port| port.link == hop.link));
            let onward = hops.map(|hop| graph.segments[hop.to].network);
            let onward = onward.map(|network| (network.first, network.last(), Port(1)));
            host.routes.extend(onward);
            let published = blueprint.setup.published.iter();
            for one in published.filter(|one| one.gateway == index) {
                if let IpAddr::V4(ip) = one.address {
                    let server = SocketAddrV4::new(ip, one.port);
                    host.published.push((one.port, server));
                }
            }
        }
        let world: Vec<_> = graph.ports_of(index).filter(|port| !port.is_near).collect();
        for port in world.iter().skip(1) {
            host.targets.push(self.onto(port));
            let to = Port((host.targets.len() - 1) as u8);
            let hops = graph
                .hops
                .iter()
                .filter(|hop| (hop.node, hop.link) == (index, port.link));
            for hop in hops {
                let network = graph.segments[hop.to].network;
                host.ways.push((network.first, network.last(), to));
            }
        }
    }

    fn control(&self, index: usize, node: &NodeBlueprint, own: Vec<IpAddr>) -> Option<Control> {
        let blueprint = self.blueprint;
        let tunnels = blueprint.tunnels_at(index);
        let (tunnel, set) = tunnels.first()?;
        let inside = TrafficSelector::subnet(set.inside.first, set.inside.bits);
        let mtu_of = |set: &TunnelSetup| blueprint.tunnel_mtu(set);
        let config = if node.ends_tunnels {
            tunnel::router(&tunnels, index, mtu_of)
        } else if set.is_at_router {
            let waits = blueprint.is_measured(index);
            tunnel.station_of_router(set, mtu_of(set), waits)
        } else if node.role == Role::Station {
            let waits = !blueprint.outers(index).is_empty() || !set.trusted.is_empty();
            tunnel.station(set.gateway, inside, mtu_of(set), waits)
        } else {
            Tunnel::gateway(&tunnels, inside, mtu_of)
        };
        let seed = blueprint.secrets(&node.name);
        Some(Control::new(config, own, &seed, blueprint.calendar))
    }

    /// The MTU of a stack: that of its first link, for a gateway of the last. The planes tell TCP
    /// by its maximum segment size what fits after protection.
    fn stack_mtu(&self, index: usize) -> u32 {
        let graph = &self.blueprint.graph;
        let port = match self.blueprint.nodes[index].role {
            Role::Station => graph.ports_of(index).next(),
            _ => graph.ports_of(index).last(),
        };
        let mtu = port.and_then(|port| self.blueprint.joints[port.link].up.mtu);
        mtu.unwrap_or(DEFAULT_MTU).min(DEFAULT_MTU)
    }
}

/// The machine of a gateway that begins anew, at these addresses.
pub(super) fn anew(blueprint: &Blueprint, gateway: usize, own: Vec<IpAddr>) -> Option<Control> {
    let tunnels = blueprint.tunnels_at(gateway);
    let (_, set) = tunnels.first()?;
    let inside = TrafficSelector::subnet(set.inside.first, set.inside.bits);
    let config = Tunnel::gateway(&tunnels, inside, |set| blueprint.tunnel_mtu(set));
    let seed = blueprint.secrets(&format!("{} again", blueprint.nodes[gateway].name));
    Some(Control::new(config, own, &seed, blueprint.calendar))
}

fn link(joint: usize, is_up: bool) -> Target {
    Target {
        element: 2 * joint as u32 + u32::from(!is_up),
        port: Port(0),
    }
}

/// Ethernet's MTU, which TCP uses if a link states none.
const DEFAULT_MTU: u32 = 1500;
