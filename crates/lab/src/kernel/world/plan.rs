//! What a road or a graph is made of, and how it is read from a scenario.

use std::net::Ipv4Addr;
use std::rc::Rc;

use engine::link::{Carrier, Delay, Limit, Shape};
use engine::plane::Shape as PacketShape;
use engine::sa::Mode;
use engine::time::{Calendar, Duration};

use super::tunnel::{Proof, Tunnel};
use super::{MOST_BYTES, after};
use crate::cost::{self, Direction, Policy};
use crate::kernel::Costs;
use crate::kernel::nat;
use crate::kernel::source::{Gaps, Sizes};
use crate::kernel::trace::{Open, Trace, bits_per_second};
use crate::scenario::{self, Catalogue, Fault, Graph, Kind, Model, Move, NoRoad, Role, Scenario};

/// A road: a chain, or a graph.
#[derive(Clone)]
pub struct Plan {
    /// Of everything random.
    pub seed: u64,
    /// What calendars show at time 0.
    pub calendar: Calendar,
    /// What stands on the road; on a chain in order, the station first.
    pub stations: Vec<Station>,
    /// What joins them; on a chain `joints[i]` joins `stations[i]` and the next.
    pub joints: Vec<Joint>,
    /// Addresses and ways.
    pub graph: Graph,
    /// Of all tunnels; none: in clear.
    pub tunnel: Option<Tunnel>,
    /// What is done with the road, never empty; on a chain one program.
    pub programs: Vec<Programs>,
    /// What changes meanwhile, in the order of time.
    pub moves: Vec<Move>,
    /// Whether it is a chain of the short form, whose tunnel is measured before it is used.
    pub is_short: bool,
}

/// What stands on the road.
#[derive(Clone)]
pub struct Station {
    /// For messages and captures.
    pub name: String,
    /// What it does.
    pub role: Role,
    /// What its processor takes.
    pub costs: Option<Costs>,
    /// Of a NAT.
    pub nat: nat::Plan,
}

/// A link both ways.
#[derive(Clone, Debug)]
pub struct Joint {
    /// As the scenario calls it.
    pub link: String,
    /// For messages and captures: that and its far end.
    pub name: String,
    /// Indices of the stations that share its near side when all begins.
    pub near: Vec<usize>,
    /// Index of the station at its other end.
    pub far: usize,
    /// Away from the station.
    pub up: Shape<Trace>,
    /// Towards the station.
    pub down: Shape<Trace>,
}

/// What is done with the road once it is open: one flow. Of a chain round trips are measured too.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Of the flow.
    pub name: String,
    /// Index of the station.
    pub station: usize,
    /// Index of the other end.
    pub server: usize,
    /// From the station, else to it.
    pub is_up: bool,
    /// A TCP transfer of so many octets.
    pub transfer: Option<u64>,
    /// Datagrams.
    pub stream: Option<(Gaps, Sizes)>,
    /// How long datagrams are sent, and how long a transfer may last.
    pub limit: Duration,
}

/// Smallest window of TCP, as Linux begins with.
const MIN_WINDOW_BYTES: usize = 65_536;
/// Largest window: Linux's `tcp_rmem`.
const MAX_WINDOW_BYTES: usize = 6 << 20;
/// Bandwidth-delay products that a window holds: the path is full, and half of it may wait.
const WINDOW_PRODUCTS: f64 = 2.0;
/// What TCP's timer and delayed acknowledgements need beyond the path's own delay.
const SLACK_S: f64 = 0.05;
/// A packet that is overtaken waits for so many full packets of others.
const OVERTAKEN_BY_BITS: f64 = 2.0 * 1500.0 * 8.0;

impl Plan {
    /// The road of a scenario, or which of its lines the kernel cannot follow. Recordings are
    /// looked through here, and read as the road is used.
    pub fn of(scenario: &Scenario, catalogue: &Catalogue, open: &Open) -> Result<Self, NoRoad> {
        let policy = scenario.resolved_policy(catalogue)?;
        let tunnel = Tunnel::of(&policy).map_err(|why| scenario.fault(&["policy"], why))?;
        let graph = Graph::of(scenario)?;
        let second = scenario.with_role(Role::Nat).nth(1);
        if let Some(second) = second.filter(|_| scenario.is_short) {
            let key = format!("node.{}.role", scenario.nodes[second].name);
            let why = "a second NAT: the event kernel simulates one on a road";
            return Err(scenario.fault(&[&key], why).into());
        }
        let nodes = scenario.nodes.iter().enumerate();
        let stations = nodes.map(|node| Station::of(node, &graph, &policy, scenario, catalogue));
        let links = scenario.links.iter();
        let joints = links.map(|joint| Joint::of(joint, scenario, (catalogue, open)));
        if tunnel.is_some() && scenario.gateway().is_none() {
            return Err(scenario
                .fault(&["policy"], "a tunnel needs a gateway")
                .into());
        }
        let flows = scenario.flows.iter();
        let programs = flows.map(|flow| Programs::of(flow, scenario, &graph, tunnel.as_ref()));
        Ok(Self {
            seed: scenario.seed,
            calendar: Calendar(i64::try_from(scenario.calendar_s).unwrap_or(i64::MAX)),
            stations: stations.collect::<Result<_, _>>()?,
            joints: joints.collect::<Result<_, Fault>>()?,
            programs: programs.collect::<Result<_, Fault>>()?,
            graph,
            tunnel,
            moves: scenario.moves.clone(),
            is_short: scenario.is_short,
        })
    }

    /// The first flow: of a chain the only one.
    pub fn program(&self) -> &Programs {
        &self.programs[0]
    }

    /// Which of the gateways this is, for its inner addresses.
    pub(super) fn pool_number(&self, gateway: usize) -> u8 {
        let before = self.stations[..gateway].iter();
        let gateways = before.filter(|one| one.role == Role::Gateway).count();
        // nodes have a smaller limit
        u8::try_from(gateways).unwrap_or(u8::MAX)
    }

    /// The address that a station sends to when it means `server`.
    pub(super) fn far_end(&self, server: usize) -> Ipv4Addr {
        let door = self.graph.door(server);
        let node = if self.is_published() { door } else { server };
        self.graph.address(node).unwrap_or(Ipv4Addr::UNSPECIFIED)
    }

    /// Octets of TCP's window: what fills the road, within what Linux gives.
    pub fn window_bytes(&self) -> usize {
        let shapes = || {
            self.joints
                .iter()
                .flat_map(|joint| [&joint.up, &joint.down])
        };
        let rates = shapes().map(bits_per_second);
        let slowest = rates.fold(f64::INFINITY, f64::min).min(1e12);
        let delay_s: f64 = shapes().map(Shape::mean_delay_s).sum();
        let products = slowest / 8.0 * (delay_s + SLACK_S) * WINDOW_PRODUCTS;
        (products as usize).clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES)
    }

    /// The smallest MTU on the road.
    pub fn mtu_bytes(&self) -> u32 {
        let shapes = self
            .joints
            .iter()
            .flat_map(|joint| [&joint.up, &joint.down]);
        shapes
            .filter_map(|shape| shape.mtu)
            .min()
            .map_or(MAX_IP_BYTES, |mtu| mtu.min(MAX_IP_BYTES))
    }

    /// The largest clear IP packet whose protected form is a UDP datagram.
    pub fn most_bytes(&self) -> u32 {
        let shape = self.tunnel.as_ref().map(|tunnel| self.shape(tunnel));
        let largest = shape.map_or(MAX_IP_BYTES, |shape| {
            shape.largest_packet(MAX_IP_BYTES as usize) as u32
        });
        largest.min(MOST_BYTES)
    }

    /// Whether a NAT stands before the gateway.
    pub fn has_nat(&self) -> bool {
        self.stations.iter().any(|one| one.role == Role::Nat)
    }

    /// What decides the size of protected packets.
    pub fn shape(&self, tunnel: &Tunnel) -> PacketShape {
        PacketShape {
            protection: tunnel.esp.protection,
            protocol: tunnel.esp.protocol,
            mode: tunnel.mode,
            is_udp_encapsulated: self.has_nat() || tunnel.forces_udp,
            is_outer_v6: false,
        }
    }

    /// Whether the station talks to the gateway's own address.
    pub fn is_published(&self) -> bool {
        let has_gateway = self.stations.iter().any(|one| one.role == Role::Gateway);
        let is_tunnel = self
            .tunnel
            .as_ref()
            .is_some_and(|one| one.mode == Mode::Tunnel);
        has_gateway && !is_tunnel
    }
}

/// What the length of an IP packet can say.
const MAX_IP_BYTES: u32 = 65_535;

impl Station {
    fn of(
        (index, node): (usize, &scenario::Node),
        graph: &Graph,
        policy: &Policy,
        scenario: &Scenario,
        catalogue: &Catalogue,
    ) -> Result<Self, NoRoad> {
        let costs = match &node.computer {
            Some(computer) => Some(costs(&node.name, computer, policy, scenario, catalogue)?),
            None => None,
        };
        let outer = graph.ports_of(index).find(|port| port.is_near);
        let mut nat = nat::Plan::default();
        nat.address = outer.map_or(nat.address, |port| port.address);
        if let Some(timeout) = node.udp_timeout_s {
            nat.udp_timeout = after(timeout);
            nat.udp_stream_timeout = after(timeout);
        }
        Ok(Self {
            name: node.name.clone(),
            role: node.role,
            costs,
            nat,
        })
    }
}

impl Joint {
    fn of(
        joint: &scenario::Joint,
        scenario: &Scenario,
        (catalogue, open): (&Catalogue, &Open),
    ) -> Result<Self, Fault> {
        let link = &joint.link;
        let trace = match &link.trace {
            None => None,
            Some(trace) => {
                let entry = catalogue.find(Kind::Trace, trace).ok_or_else(|| {
                    let keys = ["trace", "link"].map(|key| format!("link.{}.{key}", joint.name));
                    let why =
                        format!("there is no trace '{trace}', neither beside this file nor here");
                    scenario.fault(&keys.each_ref().map(String::as_str), why)
                })?;
                Some(Trace::new(entry, open)?)
            }
        };
        let shape = |rate_bps: f64| Shape {
            carrier: match &trace {
                Some(trace) => Carrier::Recording(trace.clone()),
                None => Carrier::Rate(rate_bps.clamp(1.0, 1e15) as u64),
            },
            delay: Delay::Fixed(after(link.delay_s)),
            loss: link.loss,
            queue: link
                .queue_bytes
                .map_or(Limit::None, |most| Limit::Bytes(most as u64)),
            held_back: (link.reorder > 0.0)
                .then(|| (link.reorder, after(OVERTAKEN_BY_BITS / rate_bps))),
            mtu: link.mtu_bytes.map(|mtu| mtu as u32),
            overhead_bytes: link.overhead_bytes.ceil() as u32,
        };
        Ok(Self {
            link: joint.name.clone(),
            // what a message names begins with the link's own name: the key is found by it
            name: format!("{} - {}", joint.name, scenario.nodes[joint.far].name),
            near: joint.near.clone(),
            far: joint.far,
            up: shape(link.rate.up_bps),
            down: shape(link.rate.down_bps),
        })
    }
}

impl Programs {
    fn of(
        flow: &scenario::Flow,
        scenario: &Scenario,
        graph: &Graph,
        tunnel: Option<&Tunnel>,
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
        };
        if tunnel.is_some()
            && let Some(why) = programs.unreached(scenario, graph)
        {
            return fault(&[if programs.is_up { "from" } else { "to" }], &why);
        }
        let (rate_bps, is_constant) = match &traffic.model {
            Model::Tcp { bytes } => {
                programs.transfer = Some(*bytes);
                return Ok(programs);
            }
            Model::Poisson { rate_bps } => (*rate_bps, false),
            Model::Constant { rate_bps } => (*rate_bps, true),
            Model::PacketCall { .. } | Model::ClosedLoop { .. } | Model::Pcap { .. } => {
                let why = "the event kernel runs tcp, poisson and constant; the others are the \
                           tandem's";
                return fault(&["model"], why);
            }
        };
        let Some((sizes, mean_bytes)) = sizes(traffic.sizes.as_ref()) else {
            let why = "the event kernel runs fixed and pareto, empirical is the tandem's";
            return fault(&["sizes.model", "sizes"], why);
        };
        let has_nat = scenario.nodes.iter().any(|node| node.role == Role::Nat);
        if !programs.is_up && tunnel.is_none() && has_nat {
            let why = "datagrams find no way in through a NAT that nobody inside has asked: take \
                       the direction up, or a policy";
            return fault(&["direction"], why);
        }
        let is_transport = tunnel.is_some_and(|tunnel| tunnel.mode == Mode::Transport);
        if !programs.is_up && is_transport && graph.tunnels.len() > 1 {
            let why = "in transport mode datagrams find one station, not one of several: take a \
                       policy of tunnel mode";
            return fault(&["from"], why);
        }
        let gap = after(mean_bytes * 8.0 / rate_bps);
        let gaps = if is_constant {
            Gaps::Constant(gap)
        } else {
            Gaps::Exponential(gap)
        };
        programs.stream = Some((gaps, sizes));
        Ok(programs)
    }

    /// Why no packet of the flow would arrive: a gateway lets nobody in without a tunnel.
    fn unreached(&self, scenario: &Scenario, graph: &Graph) -> Option<String> {
        let door = graph.door(self.server);
        let has_tunnel = graph.tunnels.iter().any(|one| one.from == self.station);
        let name = |node: usize| &scenario.nodes[node].name;
        (!has_tunnel && door != self.server).then(|| {
            format!(
                "'{}' has no tunnel to '{}', and only a tunnel leads to '{}': add a [[layer]]",
                name(self.station),
                name(door),
                name(self.server)
            )
        })
    }
}

fn sizes(sizes: Option<&scenario::Sizes>) -> Option<(Sizes, f64)> {
    match sizes? {
        scenario::Sizes::Fixed { bytes } => Some((Sizes::Fixed(bytes.ceil() as u32), *bytes)),
        scenario::Sizes::Pareto {
            shape,
            smallest_bytes,
            largest_bytes,
        } => {
            let sizes = Sizes::Pareto {
                shape: *shape,
                smallest: *smallest_bytes,
                most: *largest_bytes,
            };
            Some((sizes, pareto_mean(*shape, *smallest_bytes, *largest_bytes)))
        }
        scenario::Sizes::Empirical { .. } => None,
    }
}

/// The mean of `min(P, most)`.
fn pareto_mean(shape: f64, smallest: f64, most: f64) -> f64 {
    if shape == 1.0 {
        return smallest * (1.0 + libm::log(most / smallest));
    }
    let tail = libm::pow(smallest / most, shape - 1.0);
    smallest * (shape - tail) / (shape - 1.0)
}

fn costs(
    node: &str,
    computer: &scenario::Computer,
    policy: &Policy,
    scenario: &Scenario,
    catalogue: &Catalogue,
) -> Result<Costs, NoRoad> {
    let device = scenario.device(node, computer, catalogue)?;
    let service = |direction| {
        let service = device.service(policy, direction);
        service.map_err(|missing| scenario.unpriced(node, missing))
    };
    let (seal, open) = (service(Direction::Seal)?, service(Direction::Open)?);
    let policy = policy.clone();
    Ok(Costs {
        seal,
        open,
        control: Rc::new(move |work| device.work_time(&policy, work)),
    })
}

impl Tunnel {
    /// Of a policy; none where it protects nothing.
    fn of(policy: &Policy) -> Result<Option<Self>, String> {
        let Some(esp) = policy.suite.ipsec() else {
            return Ok(None);
        };
        if policy.is_outer_v6 {
            return Err("the simulated road is IPv4".into());
        }
        let keys = policy
            .keys
            .ok_or("it has no [keys]: the kernel brings tunnels up by IKE")?;
        let proof = match keys.proof {
            cost::Proof::Rsa2048 => Proof::Certificates,
            cost::Proof::Psk => Proof::Shared,
            cost::Proof::Rsa3072 | cost::Proof::Rsa4096 => {
                return Err("the simulator's certificates have keys of 2048 bits".into());
            }
        };
        Ok(Some(Self {
            mode: policy.mode,
            esp: *esp,
            ike: keys.proposal,
            is_aggressive: keys.exchange == cost::Exchange::Aggressive,
            proof,
            forces_udp: policy.is_udp_encapsulated,
        }))
    }
}
