//! What a world is built from: the elements of a chain or a graph, read from a scenario.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crypto::hash::Hash;
use crypto::rand::Seed;
use engine::link::{Carrier, Delay, Limit, Shape};
use engine::sa::Mode;
use engine::time::{Calendar, Duration};

use super::MOST_BYTES;
use super::protection::{Protection, carrier_costs, costs, tunnels};
use super::scripts;
use super::tunnel::Tunnel;
use crate::IP_BYTES_MAX;
use crate::kernel::cpu::{Costs, PacketCosts};
use crate::kernel::dialogue::Script;
use crate::kernel::host::stack::Security;
use crate::kernel::nat;
use crate::kernel::source::{Departures, Gaps, Sizes, least_bytes};
use crate::kernel::trace::{Open, Trace, bits_per_second};
use crate::scenario::graph::route::Route;
use crate::scenario::graph::setup::{Setup, TunnelSetup};
use crate::scenario::{
    self, Catalogue, Fault, Graph, Kind, Model, Resolved, Role, Scenario, Uncomputable, WholeLink,
    WholeMove,
};
use crate::time::after;

/// All that is needed to build the network of a scenario, a chain or a graph.
#[derive(Clone)]
pub struct Blueprint {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The date and time at time 0 of the simulation.
    pub calendar: Calendar,
    /// The nodes; of a chain in order, the station first.
    pub nodes: Vec<NodeBlueprint>,
    /// The links between them; in a chain `joints[i]` joins `nodes[i]` and the next.
    pub joints: Vec<Joint>,
    /// Addresses and routes.
    pub graph: Graph,
    /// What is set up on the path: tunnels, published ports, and where flows go.
    pub setup: Setup,
    /// How each tunnel of the setup protects packets. Empty: packets are sent in clear.
    pub tunnels: Vec<Tunnel>,
    /// What is done with the network, never empty; in a chain there is one program.
    pub programs: Vec<Programs>,
    /// What changes during the run, in the order of time.
    pub moves: Vec<WholeMove>,
    /// Whether it is a chain in the short form, whose tunnel is measured before it is used.
    pub is_short: bool,
    /// Whether tunnels make TCP's segments small enough.
    pub clamps_mss: bool,
    /// The dialogues of stations and access points, by the index of each.
    pub dialogues: BTreeMap<(usize, usize), Script>,
    /// Both ends of the flows in TLS, that of the station first, by the flow's index.
    pub securities: BTreeMap<usize, [Security; 2]>,
    /// The first operation of a dialogue or of TLS that a device has no cost of.
    pub unpriced: Option<String>,
}

/// A node of the network.
#[derive(Clone)]
pub struct NodeBlueprint {
    /// The name for messages and captures.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The time that its processor takes for operations.
    pub costs: Option<Costs>,
    /// Whether it drops foreign sources of its own networks.
    pub filters_sources: bool,
    /// The settings of a NAT.
    pub nat: nat::NatConfig,
    /// Whether it is a router that ends tunnels.
    pub ends_tunnels: bool,
    /// Index of an access point's server of RADIUS.
    pub radius: Option<usize>,
    /// Seconds of a frame of its radio.
    pub frames: Option<PacketCosts>,
}

/// A link in both directions.
#[derive(Clone, Debug)]
pub struct Joint {
    /// Its name in the scenario.
    pub link: String,
    /// The name for messages and captures: the link's name and its far end.
    pub name: String,
    /// Indices of the nodes that share its near side at the beginning.
    pub near: Vec<usize>,
    /// Index of the node at its other end.
    pub far: usize,
    /// The direction away from the stations.
    pub up: Shape<Trace>,
    /// The direction towards the stations.
    pub down: Shape<Trace>,
    /// Whether both directions share one wire.
    pub is_half_duplex: bool,
}

/// What is done with the network once its tunnels are up: one flow. In a chain round trips are
/// measured too.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The name of the flow.
    pub name: String,
    /// Index of the station.
    pub station: usize,
    /// Index of the other end.
    pub server: usize,
    /// Whether data goes from the station to the server.
    pub is_up: bool,
    /// The octets of a TCP transfer.
    pub transfer: Option<u64>,
    /// The gaps and sizes of datagrams.
    pub stream: Option<(Gaps, Sizes)>,
    /// How long datagrams are sent, or the time limit of a transfer.
    pub limit: Duration,
    /// When a transfer begins, after the first flows.
    pub begins: Duration,
}

/// Smallest window of TCP: Linux's initial window.
const MIN_WINDOW_BYTES: usize = 65_536;
/// Largest window: Linux's `tcp_rmem`.
const MAX_WINDOW_BYTES: usize = 6 << 20;
/// Bandwidth-delay products that a window holds: the path is full, and as much may wait in a queue.
const WINDOW_PRODUCTS: f64 = 2.0;
/// What TCP's timer and delayed acknowledgements need in addition to the path's delay.
const SLACK_S: f64 = 0.05;

/// Refuses what no element simulates: an advertisement reaches one node.
fn check_roles(scenario: &Scenario, graph: &Graph) -> Result<(), Fault> {
    for (joint, _) in scenario.links.iter().enumerate() {
        let points = |is_near: bool| {
            let points = scenario.with_role(Role::AccessPoint);
            let count = points.filter(|point| match is_near {
                true => scenario.links[joint].near.contains(point),
                false => scenario.links[joint].far == *point,
            });
            count.count()
        };
        let point = scenario.links[joint].far;
        let radios = scenario.links.iter().filter(|other| other.far == point);
        if points(true) > 1 || (points(false) == 1 && radios.count() > 1) {
            let key = format!("link.{}.from", scenario.links[joint].name);
            let what = "in the event kernel, a link has one access point, and that one radio";
            return Err(scenario.fault(&[&key], what));
        }
    }
    for index in scenario.with_role(Role::ForeignAgent) {
        for port in graph.ports_of(index) {
            let is_visitor = |station: usize, agent: usize| {
                let home = graph.ports_of(agent).next().map(|port| port.segment);
                let mut ports = graph.ports.iter();
                let is_there = ports.any(|it| (it.node, it.segment) == (station, port.segment));
                is_there && home != Some(port.segment)
            };
            let mobile = scenario.mobile.iter();
            let visitors = mobile.filter(|it| is_visitor(it.station, it.agent));
            if visitors.count() > 1 {
                let key = format!("node.{}.role", scenario.nodes[index].name);
                let what = "in the event kernel, a foreign agent has one mobile node on a link";
                return Err(scenario.fault(&[&key], what));
            }
        }
    }
    Ok(())
}

impl Blueprint {
    /// The network of a scenario, or the line that the kernel cannot simulate. Recordings are
    /// checked here and read again during the run.
    pub fn of(
        scenario: &Scenario,
        resolved: &Resolved,
        catalogue: &Catalogue,
        open: &Open,
    ) -> Result<Self, Uncomputable> {
        let Resolved {
            graph,
            setup,
            links,
            moves,
        } = resolved;
        let tunnels = tunnels(setup, scenario)?;
        let second = scenario.with_role(Role::Nat).nth(1);
        if let Some(second) = second.filter(|_| scenario.is_short) {
            let key = format!("node.{}.role", scenario.nodes[second].name);
            let why = "a second NAT: in a chain, the event kernel supports only one";
            return Err(scenario.fault(&[&key], why).into());
        }
        check_roles(scenario, graph)?;
        let nodes = scenario.nodes.iter().enumerate();
        let nodes = nodes.map(|(index, node)| {
            let own = setup.tunnels.iter();
            let own = own.filter(|set| [set.from, set.to].contains(&index));
            let own = own.map(|set| Protection {
                station: set.from,
                policy: set.applied(),
                peers: match set.from == index {
                    true => set.inside.hosts(),
                    false => set.pool.hosts(),
                },
            });
            let own: Vec<_> = own.collect();
            NodeBlueprint::of((index, node), (graph, setup), &own, scenario, catalogue)
        });
        let joints = links
            .iter()
            .map(|joint| Joint::of(joint, scenario, (catalogue, open)));
        let flows = scenario.flows.iter();
        let programs = flows.map(|flow| Programs::of(flow, scenario, graph, &tunnels));
        let mut nodes = nodes.collect::<Result<Vec<_>, _>>()?;
        let (dialogues, mut unpriced) = scripts::dialogues(scenario, catalogue)?;
        let securities = scripts::securities(scenario, catalogue, &mut unpriced)?;
        for (node, named) in nodes.iter_mut().zip(scenario.nodes.iter().enumerate()) {
            node.frames = scripts::frames(named, scenario, catalogue, &mut unpriced)?;
        }
        let blueprint = Self {
            seed: scenario.seed,
            calendar: Calendar(i64::try_from(scenario.calendar_s).unwrap_or(i64::MAX)),
            nodes,
            joints: joints.collect::<Result<_, Fault>>()?,
            programs: programs.collect::<Result<_, Fault>>()?,
            graph: graph.clone(),
            setup: setup.clone(),
            tunnels,
            moves: moves.clone(),
            is_short: scenario.is_short,
            clamps_mss: scenario.clamps_mss,
            dialogues,
            securities,
            unpriced,
        };
        blueprint.check_skip(scenario)?;
        Ok(blueprint)
    }

    /// The seed of one host's secrets.
    pub(super) fn secrets(&self, name: &str) -> Seed {
        let digest = Hash::Sha256.digest(&[&self.seed.to_be_bytes(), name.as_bytes()]);
        let mut octets = [0; 32];
        octets.copy_from_slice(digest.as_ref());
        Seed::new(octets)
    }

    /// The first flow; in a chain it is the only one.
    pub fn program(&self) -> &Programs {
        &self.programs[0]
    }

    /// The tunnel of a chain.
    pub fn tunnel(&self) -> Option<&Tunnel> {
        self.tunnels.first()
    }

    /// The tunnels that end at a node.
    pub(super) fn tunnels_at(&self, node: usize) -> Vec<(Tunnel, &TunnelSetup)> {
        let all = self.tunnels.iter().copied().zip(&self.setup.tunnels);
        all.filter(|(_, set)| [set.from, set.to].contains(&node))
            .collect()
    }

    /// The datagrams of a flow; none of TCP.
    pub fn departures(&self, flow: usize) -> Option<Departures> {
        let program = &self.programs[flow];
        let stream = program.stream.clone()?;
        let names = (self.seed, flow as u64);
        let is_v6 = self.setup.flows[flow].server_address.is_ipv6();
        let sizes = (least_bytes(is_v6), self.most_bytes(program));
        Some(Departures::new(stream, sizes, program.limit, names))
    }

    /// The window of a flow's TCP in octets: the largest bandwidth-delay product of its routes,
    /// within Linux's limits.
    pub fn window_bytes(&self, flow: usize) -> usize {
        let program = &self.programs[flow];
        let routes = self.graph.routes(program.station, program.server);
        let products = routes.map(|route| {
            let rates = self.shapes_along(&route).map(bits_per_second);
            let slowest = rates.fold(f64::INFINITY, f64::min).min(1e12);
            let delay_s: f64 = self.shapes_along(&route).map(Shape::mean_delay_s).sum();
            slowest / 8.0 * (delay_s + SLACK_S) * WINDOW_PRODUCTS
        });
        let product = products.fold(0.0, f64::max);
        (product as usize).clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES)
    }

    /// The smallest MTU of all routes between a station and another node.
    pub fn mtu_bytes(&self, station: usize, other: usize) -> u32 {
        let routes = self.graph.routes(station, other);
        let least =
            routes.filter_map(|route| self.shapes_along(&route).filter_map(|it| it.mtu).min());
        least.min().unwrap_or(u32::MAX).min(IP_BYTES_MAX.into())
    }

    /// Both directions of the links of a route.
    fn shapes_along(&self, route: &Route) -> impl Iterator<Item = &Shape<Trace>> {
        let joints = route.links.iter().map(|link| &self.joints[*link]);
        joints.flat_map(|joint| [&joint.up, &joint.down])
    }

    /// The largest clear IP packet of a program whose protected form fits into a UDP datagram.
    pub fn most_bytes(&self, program: &Programs) -> u32 {
        let mut tunnels = self.setup.tunnels.iter();
        let tunnel = tunnels.find(|tunnel| tunnel.from == program.station);
        let most = u32::from(IP_BYTES_MAX);
        let largest = tunnel.map_or(most, |tunnel| tunnel.largest_packet(most));
        largest.min(MOST_BYTES)
    }
}

impl NodeBlueprint {
    fn of(
        (index, node): (usize, &scenario::Node),
        (graph, setup): (&Graph, &Setup),
        tunnels: &[Protection],
        scenario: &Scenario,
        catalogue: &Catalogue,
    ) -> Result<Self, Uncomputable> {
        let costs = match &node.computer {
            Some(computer) => match costs(&node.name, computer, tunnels, scenario, catalogue)? {
                None => {
                    let named = (index, &*node.name);
                    carrier_costs(named, computer, setup, scenario, catalogue)?
                }
                of_tunnels => of_tunnels,
            },
            None => None,
        };
        let outer = graph.ports_of(index).find(|port| port.is_near);
        let mut nat = nat::NatConfig::default();
        if let Some(IpAddr::V4(address)) = outer.map(|port| port.address) {
            nat.address = address;
        }
        if let Some(timeout) = node.udp_timeout_s {
            nat.udp_timeout = after(timeout);
            nat.udp_stream_timeout = after(timeout);
        }
        let named = |name: &String| scenario.nodes.iter().position(|it| it.name == *name);
        Ok(Self {
            ends_tunnels: node.ends_tunnels,
            radius: node.radius.as_ref().and_then(named),
            frames: None,
            name: node.name.clone(),
            role: node.role,
            filters_sources: node.filters_sources,
            costs,
            nat,
        })
    }
}

impl Joint {
    fn of(
        link: &WholeLink,
        scenario: &Scenario,
        (catalogue, open): (&Catalogue, &Open),
    ) -> Result<Self, Fault> {
        let trace = match &link.trace {
            None => None,
            Some(trace) => {
                let entry = catalogue.find(Kind::Trace, trace).ok_or_else(|| {
                    let keys = ["trace", "link"].map(|key| format!("link.{}.{key}", link.name));
                    let why = format!(
                        "there is no trace '{trace}', neither beside this file nor in the \
                                 current folder"
                    );
                    scenario.fault(&keys.each_ref().map(String::as_str), why)
                })?;
                Some(Trace::new(entry, open)?)
            }
        };
        let shape = |rate_bps: u64| Shape {
            carrier: match &trace {
                Some(trace) => Carrier::Recording(trace.clone()),
                None => Carrier::Rate(rate_bps),
            },
            delay: Delay::Fixed(Duration::from_nanos(link.delay_ns)),
            loss: link.loss,
            queue: link.queue_bytes.map_or(Limit::None, Limit::Bytes),
            reorder: link.reorder,
            mtu: link.mtu_bytes,
            overhead_bytes: link.overhead_bytes,
            access_time: Duration::from_nanos(link.access_ns),
        };
        Ok(Self {
            link: link.name.clone(),
            name: format!("{} - {}", link.name, scenario.nodes[link.far].name),
            near: link.near.clone(),
            far: link.far,
            up: shape(link.rate.up_bps),
            down: shape(link.rate.down_bps),
            is_half_duplex: link.is_half_duplex,
        })
    }
}

impl Programs {
    /// Who sends the data, and who receives it.
    pub(in crate::kernel) const fn ends(&self) -> (usize, usize) {
        match self.is_up {
            true => (self.station, self.server),
            false => (self.server, self.station),
        }
    }

    fn of(
        flow: &scenario::Flow,
        scenario: &Scenario,
        graph: &Graph,
        tunnels: &[Tunnel],
    ) -> Result<Self, Fault> {
        let traffic = &flow.traffic;
        let (station, server) = flow.ends();
        let fault = |keys: &[&str], why: &str| {
            let of_flow = |key: &&str| match scenario.is_short {
                true => format!("traffic.{key}"),
                false => format!("flow.{}.{key}", flow.name),
            };
            let mut keys: Vec<String> = keys.iter().map(of_flow).collect();
            keys.push(if scenario.is_short { "traffic" } else { "flow" }.to_owned());
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            Err(scenario.fault(&keys, why))
        };
        let mut programs = Self {
            name: flow.name.clone(),
            station,
            server,
            is_up: traffic.direction == scenario::Direction::Up,
            transfer: None,
            stream: None,
            limit: after(scenario.run.time_s),
            begins: after(flow.at_s),
        };
        let mut own = graph.tunnels.iter().zip(tunnels);
        let tunnel = own.find(|(ends, _)| ends.from == station);
        let tunnel_mode = tunnel.is_some_and(|(_, tunnel)| tunnel.mode == Mode::Tunnel);
        if let Some(why) = programs.unpublished(graph, tunnel_mode) {
            return fault(&[if programs.is_up { "to" } else { "from" }], why);
        }
        if let Some(why) = programs.unreached(scenario, graph) {
            return fault(&[if programs.is_up { "from" } else { "to" }], &why);
        }
        let rate_bps = match &traffic.model {
            Model::Tcp { bytes } => {
                programs.transfer = Some(*bytes);
                return Ok(programs);
            }
            Model::Poisson { rate_bps }
            | Model::Constant { rate_bps }
            | Model::PacketCall { rate_bps, .. } => *rate_bps,
            Model::ClosedLoop { .. } => {
                let why = "only the tandem supports closed-loop: no real network tells a source \
                           at once when a packet has passed";
                return fault(&["model"], why);
            }
            Model::Pcap { .. } => {
                let why = "only the tandem replays captures: the event kernel makes its packets";
                return fault(&["model"], why);
            }
        };
        let Some(sizes) = &traffic.sizes else {
            return fault(&["sizes"], "this model needs sizes");
        };
        if let Some((key, why)) = programs.astray(scenario, graph, tunnel) {
            return fault(&[key], why);
        }
        let gaps = gaps(
            &traffic.model,
            after(sizes.tandem().mean() * 8.0 / rate_bps),
        );
        programs.stream = Some((gaps, drawn(sizes)));
        Ok(programs)
    }

    /// Why a gateway cannot publish the server. Publishing translates addresses, which is done for
    /// IPv4 only.
    fn unpublished(&self, graph: &Graph, is_tunnel_mode: bool) -> Option<&'static str> {
        let is_v6 = |node| graph.address(node).is_some_and(|address| address.is_ipv6());
        let is_behind = graph.outer_end(self.server) != self.server;
        let why = "without a tunnel mode policy, the gateway publishes this server by translating \
                   addresses, which works only with IPv4";
        let is_published = is_behind && !is_tunnel_mode;
        (is_published && (is_v6(self.server) || is_v6(self.station))).then_some(why)
    }

    /// Why datagrams to the station would not reach it, and the key to change.
    fn astray(
        &self,
        scenario: &Scenario,
        graph: &Graph,
        tunnel: Option<(&scenario::Tunnel, &Tunnel)>,
    ) -> Option<(&'static str, &'static str)> {
        let Some((ends, tunnel)) = tunnel else {
            let route = graph.route(self.station, self.server).unwrap_or_default();
            let mut passed = route.nodes.iter();
            let has_nat = passed.any(|node| scenario.nodes[*node].role == Role::Nat);
            let (key, why) = match scenario.is_short {
                true => (
                    "direction",
                    "the NAT drops datagrams from outside, because nothing from inside has opened \
                     a mapping: use the direction up, or a policy",
                ),
                false => (
                    "from",
                    "a NAT on the way drops datagrams from outside, because nothing from inside \
                     has opened a mapping: exchange from and to, or give the station a policy",
                ),
            };
            return (!self.is_up && has_nat).then_some((key, why));
        };
        let is_alike =
            |other: &&scenario::Tunnel| (other.to, &other.policy) == (ends.to, &ends.policy);
        let alike = graph.tunnels.iter().filter(is_alike).count();
        let why = "in transport mode, datagrams to the stations cannot be told apart if there are \
                   several: use a policy in tunnel mode";
        let is_shared = tunnel.mode == Mode::Transport && alike > 1;
        (!self.is_up && is_shared).then_some(("from", why))
    }

    /// Why no packet of the flow would arrive: a gateway forwards nothing from outside a tunnel.
    fn unreached(&self, scenario: &Scenario, graph: &Graph) -> Option<String> {
        let end = graph.outer_end(self.server);
        let has_tunnel = graph.tunnels.iter().any(|one| one.from == self.station);
        let is_closed = graph.tunnels.iter().any(|one| one.to == end);
        let name = |node: usize| &scenario.nodes[node].name;
        (is_closed && !has_tunnel && end != self.server).then(|| {
            format!(
                "'{}' has no tunnel to '{}', and only a tunnel leads to '{}': add a [[layer]]",
                name(self.station),
                name(end),
                name(self.server)
            )
        })
    }
}

/// The intervals of packets that follow each other after `pace` on average.
fn gaps(model: &Model, pace: Duration) -> Gaps {
    match model {
        Model::Constant { .. } => Gaps::Constant(pace),
        Model::PacketCall {
            calls,
            reading_s,
            packets,
            idle_s,
            ..
        } => Gaps::Calls {
            pace,
            packets: *packets,
            calls: *calls,
            reading: after(*reading_s),
            idle: after(*idle_s),
        },
        _ => Gaps::Exponential(pace),
    }
}

/// Sizes as the kernel draws them.
fn drawn(sizes: &scenario::Sizes) -> Sizes {
    match sizes {
        scenario::Sizes::Fixed { bytes } => Sizes::Fixed(bytes.ceil() as u32),
        scenario::Sizes::Pareto {
            shape,
            smallest_bytes,
            largest_bytes,
        } => Sizes::Pareto {
            shape: *shape,
            smallest: *smallest_bytes,
            most: *largest_bytes,
        },
        scenario::Sizes::Empirical { points } => {
            let total: f64 = points.iter().map(|(_, weight)| weight).sum();
            let mut below = 0.0;
            let table = points.iter().map(|(bytes, weight)| {
                below += weight / total;
                (below, bytes.ceil() as u32)
            });
            Sizes::Table(table.collect())
        }
    }
}
