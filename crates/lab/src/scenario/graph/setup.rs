//! What is set up on a graph: what each tunnel protects, which ports gateways publish, and where
//! the datagrams and connections of each flow go. The event kernel and the testbed both follow it.

use std::net::{IpAddr, Ipv4Addr};

use engine::sa::Mode;
use serde::Serialize;

use super::crossing::{Crossing, SkipSetup};
use super::{Graph, POOLS_OCTETS, POOLS_V6_WORD, Port};
use crate::cost::Policy;
use crate::scenario::address::Network;
use crate::scenario::{Flow, MobileIp, Model, NODES_MAX, Role, Scenario, Tunnel};

/// The TCP port of the first flow: iperf3's.
pub const SERVER_PORT: u16 = 5201;
/// The UDP port of the first flow: the discard port.
pub const DISCARD_PORT: u16 = 9;
/// The ports of other flows start here.
const FLOW_PORTS: u16 = 20_000;

/// Everything that is set up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setup {
    /// The tunnels of the graph that protect something, in its order.
    pub tunnels: Vec<TunnelSetup>,
    /// Ports of gateways that lead to servers behind them.
    pub published: Vec<Published>,
    /// One for each flow, in the order of the scenario.
    pub flows: Vec<Destination>,
    /// The mobile nodes, in the order of the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mobile: Vec<MobileSetup>,
    /// The same for home agents that keep the outer address of a tunnel.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<MobileSetup>,
    /// The stations with SKIP, in the order of the scenario.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<SkipSetup>,
    /// How these get inside.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crossings: Vec<Crossing>,
}

/// A mobile node, and where its home is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MobileSetup {
    /// What its layer says.
    #[serde(flatten)]
    pub layer: MobileIp,
    /// Its home address.
    pub home: Ipv4Addr,
    /// Address of its home agent.
    pub home_agent: Ipv4Addr,
    /// The home network.
    pub network: Network,
    /// Index of the home link.
    pub link: usize,
}

/// What a tunnel protects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TunnelSetup {
    /// Index of the station.
    pub from: usize,
    /// Index of the gateway.
    pub to: usize,
    /// Name of its policy in the scenario.
    pub policy: String,
    /// The key that names it there: `policy`, or that of its layer.
    pub policy_key: String,
    /// The policy itself, with the outer header of the path's family.
    pub protection: Policy,
    /// Whether a NAT is on its path at the beginning: ESP is in UDP then, whatever the policy says.
    pub has_nat: bool,
    /// Number of its policy among those of its gateway, from 0.
    pub rank: usize,
    /// Tunnel mode, otherwise transport mode.
    pub is_tunnel: bool,
    /// Address at which the station reaches the gateway.
    pub gateway: IpAddr,
    /// Network that the station reaches through it in tunnel mode.
    pub inside: Network,
    /// Inner addresses for stations, or in transport mode addresses that represent them. At a
    /// router the addresses of its peer: its own, or those of its network.
    pub pool: Network,
    /// Whether the gateway is a router, which lends no addresses.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_at_router: bool,
    /// Whether it leads a mobile node to its home agent, and its inner address is a care-of address
    /// (RFC 5266).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub leads_home: bool,
    /// The networks behind the gateway, if it leads a station home that is ever in one of them:
    /// that station asks whether it is inside (RFC 5265 §3), and its home agent trusts them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trusted: Vec<Network>,
}

/// A port of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Index of the gateway.
    pub gateway: usize,
    /// TCP, otherwise UDP.
    pub is_tcp: bool,
    /// The same at the gateway and at the server.
    pub port: u16,
    /// Address of the server.
    pub address: IpAddr,
}

/// Where a flow goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Destination {
    /// Index of the station.
    pub station: usize,
    /// Index of the other end.
    pub server: usize,
    /// Destination address of packets to the server: its own, or that of the gateway that publishes
    /// it.
    pub server_address: IpAddr,
    /// Destination address of packets to the station; none: the inner address that the gateway
    /// leases.
    pub station_address: Option<IpAddr>,
    /// Port of the server. Datagrams use it at both ends.
    pub port: u16,
}

/// Whether a NAT is on a way of a tunnel. A station that begins inside passes none at first.
fn has_nat(scenario: &Scenario, graph: &Graph, tunnel: &Tunnel) -> bool {
    let first = graph.route(tunnel.from, tunnel.to).into_iter();
    let mut all = first.chain(graph.routes(tunnel.from, tunnel.to));
    let is_nat = |node: &usize| scenario.nodes[*node].role == Role::Nat;
    all.any(|way| way.nodes.iter().any(is_nat))
}

impl Setup {
    /// `policies`: those of the graph's tunnels, in the same order; `skip`: the layers of SKIP and
    /// how their stations get inside.
    pub fn of(
        scenario: &Scenario,
        graph: &Graph,
        policies: Vec<Policy>,
        (skip, crossings): (Vec<SkipSetup>, Vec<Crossing>),
    ) -> Self {
        let some = |address: Option<IpAddr>| address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let address = |node: usize| some(graph.address(node));
        let mut setup = Self {
            tunnels: Vec::new(),
            published: Vec::new(),
            flows: Vec::new(),
            mobile: MobileSetup::all(&scenario.mobile, graph),
            outside: MobileSetup::all(&scenario.outside, graph),
            skip,
            crossings,
        };
        for (tunnel, policy) in graph.tunnels.iter().zip(policies) {
            let mode = policy.mode;
            let is_at_router = scenario.nodes[tunnel.to].ends_tunnels;
            let gateway = match graph.between(tunnel.from, tunnel.to) {
                Some(address) if is_at_router => address,
                _ => some(graph.address_for(tunnel.from, tunnel.to)),
            };
            let is_site = scenario.nodes[tunnel.from].ends_tunnels;
            let home_agent = setup.home_agent_behind(tunnel, graph);
            let inside = match (home_agent, is_at_router && !is_site) {
                (Some(agent), _) => Network::alone(agent.into()),
                (None, true) => Network::all(gateway.is_ipv6()),
                (None, false) => inside(graph, tunnel, is_at_router),
            };
            let is_inner_v6 = match mode {
                Mode::Tunnel => inside.is_v6(),
                Mode::Transport => gateway.is_ipv6(),
            };
            let rank = setup.rank(tunnel, (gateway.is_ipv6(), is_inner_v6));
            setup.tunnels.push(TunnelSetup {
                from: tunnel.from,
                to: tunnel.to,
                policy: tunnel.policy.clone(),
                policy_key: scenario.policy_key(tunnel.from),
                protection: Policy {
                    is_outer_v6: gateway.is_ipv6(),
                    ..policy
                },
                has_nat: has_nat(scenario, graph, tunnel),
                rank,
                is_tunnel: mode == Mode::Tunnel,
                gateway,
                inside,
                pool: match (is_at_router, is_site) {
                    (false, _) => pool(scenario, tunnel.to, rank, is_inner_v6),
                    (true, true) => graph
                        .own_network(tunnel.from, tunnel.to)
                        .unwrap_or(Network::alone(address(tunnel.from))),
                    (true, false) => Network::alone(setup.home_or(tunnel.from, address)),
                },
                is_at_router,
                leads_home: home_agent.is_some(),
                trusted: graph.trusted(scenario, tunnel, home_agent.is_some() && !is_at_router),
            });
        }
        for (number, flow) in scenario.flows.iter().enumerate() {
            setup.lead(number, flow, graph);
        }
        setup
    }

    /// Where the packets of a flow go, and what is published for it.
    fn lead(&mut self, number: usize, flow: &Flow, graph: &Graph) {
        let some = |address: Option<IpAddr>| address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        let address = |node: usize| some(graph.address(node));
        let (station, server) = flow.ends();
        let end = graph.outer_end(server);
        let tunnel = self.tunnels.iter().find(|tunnel| tunnel.from == station);
        let is_inner = tunnel.is_some_and(|tunnel| tunnel.is_tunnel);
        let is_lent =
            is_inner && !tunnel.is_some_and(|tunnel| tunnel.is_at_router || tunnel.leads_home);
        let is_tcp = matches!(flow.traffic.model, Model::Tcp { .. });
        let port = port(number, is_tcp);
        self.flows.push(Destination {
            station,
            server,
            server_address: match is_inner {
                true => self.home_or(server, address),
                false if end == server => {
                    self.home_or(server, |end| some(graph.address_for(station, end)))
                }
                false => some(graph.address_for(station, end)),
            },
            station_address: match tunnel {
                Some(_) if is_lent => None,
                Some(tunnel) if !tunnel.is_tunnel && !tunnel.is_at_router => tunnel.pool.host(1),
                _ => Some(self.home_or(station, address)),
            },
            port,
        });
        // what the server sends by itself leaves the gateway from its published port too
        if !is_inner && end != server {
            self.published.push(Published {
                gateway: end,
                is_tcp,
                port,
                address: address(server),
            });
        }
    }

    /// The home agent of a tunnel's station, if it is behind the tunnel's gateway.
    fn home_agent_behind(&self, tunnel: &Tunnel, graph: &Graph) -> Option<Ipv4Addr> {
        let mut mobile = self.mobile.iter();
        let own = mobile.find(|it| it.layer.station == tunnel.from)?;
        let is_behind = graph.is_behind(own.layer.agent, tunnel.to);
        is_behind.then_some(own.home_agent)
    }

    /// A mobile node's home address, or a node's address on its link.
    fn home_or(&self, station: usize, address: impl Fn(usize) -> IpAddr) -> IpAddr {
        let mut mobile = self.mobile.iter();
        let mobile = mobile.find(|it| it.layer.station == station);
        mobile.map_or_else(|| address(station), |it| it.home.into())
    }

    /// Number of the next tunnel's policy. In other address families a policy counts as another.
    fn rank(&self, next: &Tunnel, families: (bool, bool)) -> usize {
        let others = self.tunnels.iter().filter(|other| other.to == next.to);
        let is_alike = |other: &&TunnelSetup| {
            let own = (other.gateway.is_ipv6(), other.pool.is_v6());
            other.policy == next.policy && own == families
        };
        let known = others.clone().find(is_alike).map(|other| other.rank);
        let most = others.map(|other| other.rank + 1).max();
        known.or(most).unwrap_or_default()
    }
}

impl MobileSetup {
    fn all(layers: &[MobileIp], graph: &Graph) -> Vec<Self> {
        let layers = layers.iter();
        layers.filter_map(|layer| Self::of(*layer, graph)).collect()
    }

    /// None for a network of IPv6, which [`Graph::of`] refuses.
    fn of(layer: MobileIp, graph: &Graph) -> Option<Self> {
        let own = graph.ports_of(layer.agent).next()?;
        let is_home = |port: &&Port| (port.node, port.segment) == (layer.station, own.segment);
        let port = graph.ports.iter().find(is_home)?;
        let (IpAddr::V4(home), IpAddr::V4(home_agent)) = (port.address, own.address) else {
            return None;
        };
        Some(Self {
            layer,
            home,
            home_agent,
            network: graph.segments[own.segment].network,
            link: port.link,
        })
    }
}

impl TunnelSetup {
    /// The policy as it applies to packets: behind a NAT, ESP is in UDP.
    pub fn applied(&self) -> Policy {
        Policy {
            is_udp_encapsulated: self.protection.is_udp_encapsulated || self.has_nat,
            ..self.protection.clone()
        }
    }

    /// Octets on the wire of a clear IP packet in it.
    pub fn wire_bytes(&self, packet: u32) -> u32 {
        self.applied().wire_bytes(packet as usize) as u32
    }

    /// The largest clear IP packet that a path carries in it.
    pub fn largest_packet(&self, path_mtu: u32) -> u32 {
        self.applied().largest_packet(path_mtu as usize) as u32
    }
}

/// The first flow has the well-known ports.
fn port(flow: usize, is_tcp: bool) -> u16 {
    match (u16::try_from(flow), is_tcp) {
        (Ok(0), true) => SERVER_PORT,
        (Ok(0), false) => DISCARD_PORT,
        // a list of flows has a smaller limit
        (number, _) => FLOW_PORTS.saturating_add(number.unwrap_or(u16::MAX)),
    }
}

/// The network that a station or another router reaches at the end of a tunnel.
fn inside(graph: &Graph, tunnel: &Tunnel, is_site: bool) -> Network {
    let behind = graph.behind(tunnel.to).map(|segment| segment.network);
    let own = match is_site {
        true => graph.own_network(tunnel.to, tunnel.from),
        false => None,
    };
    let address = graph.address(tunnel.to);
    let address = address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    own.or(behind).unwrap_or(Network::alone(address))
}

/// A network for each policy of each gateway, independent of the others.
fn pool(scenario: &Scenario, gateway: usize, rank: usize, is_v6: bool) -> Network {
    let before = scenario.with_role(Role::Gateway);
    let number = before.take_while(|index| *index < gateway).count() + rank * NODES_MAX;
    // 64 nodes at most, and four policies
    let number = u8::try_from(number).unwrap_or(u8::MAX);
    match is_v6 {
        true => Network::v6([POOLS_V6_WORD, 0, 0, number.into()]),
        false => Network::v4([POOLS_OCTETS[0], POOLS_OCTETS[1], number, 0]),
    }
}
