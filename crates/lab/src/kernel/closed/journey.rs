//! The way of one packet through a graph with access points: every link and processor that it
//! passes, and how long it takes each, without any other packet.
//!
//! It follows the routes of the event kernel: frames of a segment go by way of its head, a mobile
//! node's packets by way of its home agent and its foreign agent, those that tunnels protect by way
//! of their routers. Left out: fragments, and packets that are too large.

use std::net::IpAddr;

use engine::sa::Encapsulation;
use engine::work::{Task, Work};
use wire::ip::ipv4;

use super::sends_s;
use crate::kernel::dialogue::Step;
use crate::kernel::world::Blueprint;
use crate::scenario::Role;
use crate::scenario::graph::setup::{MobileSetup, TunnelSetup};

/// Something that works on one packet at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Server {
    /// A node's processor, by index.
    Node(usize),
    /// A link, by index, in a direction; of half duplex, in both.
    Link(usize, bool),
}

/// The way of a packet.
#[derive(Clone, Debug, Default)]
pub(super) struct Journey {
    /// In the order of time.
    pub(super) visits: Vec<(Server, f64)>,
    /// The delays of links.
    pub(super) delay_s: f64,
    /// Whether a packet is larger than a link's MTU.
    pub(super) is_too_big: bool,
}

/// A packet with the ones around it.
struct Packet {
    bytes: u32,
    source: IpAddr,
    destination: IpAddr,
    next: Option<IpAddr>,
    /// Whether no tunnel of a station protects it.
    is_clear: bool,
    /// What is inside, the innermost first.
    inside: Vec<Inside>,
}

struct Inside {
    form: Form,
    bytes: u32,
    source: IpAddr,
    destination: IpAddr,
}

/// What is around a packet.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// A tunnel of the setup, by index.
    Tunnel(usize),
    /// IP in IP of a home agent or to it.
    Mobile,
}

/// More steps than any way has.
const STEPS_MAX: usize = 64;

impl Journey {
    /// Seconds on an empty path.
    pub(super) fn seconds(&self) -> f64 {
        let each = self.visits.iter().map(|(_, seconds)| seconds);
        each.sum::<f64>() + self.delay_s
    }

    fn visit(&mut self, server: Server, seconds: f64) {
        if seconds > 0.0 {
            self.visits.push((server, seconds));
        }
    }
}

/// Where a packet is.
enum At {
    /// It leaves a node that made it or took it out of something.
    From(usize),
    /// It arrives at a node over a link.
    On(usize, usize),
}

impl Blueprint {
    /// The way of an IP packet of so many octets between two nodes; none if no path leads there.
    /// `is_clear`: it is a message of a tunnel's exchange or of Mobile IP, which no tunnel of a
    /// station protects.
    pub(super) fn journey(
        &self,
        (from, to): (usize, usize),
        bytes: u32,
        is_clear: bool,
    ) -> Option<Journey> {
        let mut journey = Journey::default();
        let mut packet = Packet {
            bytes,
            source: self.own_address(from)?,
            destination: self.own_address(to)?,
            next: None,
            is_clear,
            inside: Vec::new(),
        };
        let mut at = At::From(from);
        if self.nodes[from].role == Role::Station && !is_clear {
            self.seal_at_station(from, &mut packet, &mut journey);
        }
        for _ in 0..STEPS_MAX {
            at = match at {
                At::From(node) => self.leave(node, &mut packet, &mut journey)?,
                At::On(node, link) => {
                    if self.nodes[node].role == Role::Station {
                        self.open_at_station(node, &mut packet, &mut journey)?;
                        let is_there = node == to && packet.inside.is_empty();
                        return is_there.then_some(journey);
                    }
                    let is_for = packet.destination == self.own_address(to)?;
                    if node == to && packet.inside.is_empty() && is_for {
                        return Some(journey);
                    }
                    self.pass(node, link, &mut packet, &mut journey)?
                }
            };
        }
        None
    }

    /// Seconds of the frames of a dialogue from one step to another, with what RADIUS takes. The
    /// station's last message ends it when it leaves.
    pub(super) fn dialogue_s(&self, point: usize, steps: &[Step]) -> Option<f64> {
        let radio = self.joints.iter().position(|joint| joint.far == point)?;
        let server = self.nodes[point].radius;
        let joint = &self.joints[radio];
        let mut seconds = 0.0;
        for (index, step) in steps.iter().enumerate() {
            seconds += step.station_s;
            if step.is_from_station && index + 1 == steps.len() {
                break;
            }
            let shape = match step.is_from_station {
                true => &joint.up,
                false => &joint.down,
            };
            seconds += sends_s(shape, f64::from(step.frame_bytes)) + shape.mean_delay_s();
            seconds += step.server_s;
            if let (Some(bytes), Some(server)) = (step.relayed_bytes, server) {
                let ends = match step.is_from_station {
                    true => (point, server),
                    false => (server, point),
                };
                seconds += self.journey(ends, bytes, true)?.seconds();
            }
        }
        Some(seconds)
    }

    /// Seconds of the air for a frame that ends a dialogue, if the station sends it; otherwise 0.
    pub(super) fn last_frame_s(&self, point: usize, steps: &[Step]) -> f64 {
        let last = steps.last().filter(|step| step.is_from_station);
        let radio = self.joints.iter().find(|joint| joint.far == point);
        let found = last.zip(radio);
        found.map_or(0.0, |(step, joint)| {
            sends_s(&joint.up, f64::from(step.frame_bytes))
        })
    }

    fn own_address(&self, node: usize) -> Option<IpAddr> {
        let home = self.mobile(node).map(|it| it.home.into());
        home.or_else(|| self.graph.address(node))
    }

    fn mobile(&self, station: usize) -> Option<&MobileSetup> {
        let mut mobile = self.setup.mobile.iter();
        mobile.find(|it| it.layer.station == station)
    }

    /// The link of a node that has one, and its segment.
    fn first(&self, node: usize) -> Option<(usize, usize)> {
        let port = self.graph.ports_of(node).next()?;
        Some((port.link, port.segment))
    }

    /// Whether a mobile node is a guest, and of which agent.
    pub(in crate::kernel) fn agent_of(&self, station: usize) -> Option<(usize, IpAddr)> {
        let (link, segment) = self.first(station)?;
        self.visitor(station, link)?;
        let mut ports = self.graph.ports.iter();
        let agent = ports.find(|port| {
            let role = self.nodes[port.node].role;
            port.segment == segment && role == Role::ForeignAgent
        })?;
        Some((agent.node, agent.address))
    }

    /// The mobile node that is away and has this home address.
    fn away(&self, home: IpAddr) -> Option<&MobileSetup> {
        let mut mobile = self.setup.mobile.iter();
        mobile.find(|it| IpAddr::V4(it.home) == home && self.agent_of(it.layer.station).is_some())
    }

    fn seal_at_station(&self, station: usize, packet: &mut Packet, journey: &mut Journey) {
        let sets = self.setup.tunnels.iter().enumerate();
        let mut own = sets.filter(|(_, set)| set.from == station && set.is_at_router);
        if let Some((index, set)) = own.next() {
            let costs = self.nodes[station].costs.as_ref();
            let seal_s = costs.map_or(0.0, |costs| costs.packet.seal.at(packet.bytes.into()));
            journey.visit(Server::Node(station), seal_s);
            let ends = (packet.source, set.gateway);
            wrap(
                packet,
                Form::Tunnel(index),
                set.wire_bytes(packet.bytes),
                ends,
            );
        }
    }

    fn open_at_station(
        &self,
        station: usize,
        packet: &mut Packet,
        journey: &mut Journey,
    ) -> Option<()> {
        let frames = self.nodes[station].frames.as_ref();
        let open_s = frames.map_or(0.0, |costs| costs.open.at(packet.bytes.into()));
        journey.visit(Server::Node(station), open_s);
        if let Some(Form::Tunnel(_)) = packet.inside.last().map(|it| it.form) {
            unwrap(packet)?;
            let costs = self.nodes[station].costs.as_ref();
            let open_s = costs.map_or(0.0, |costs| costs.packet.open.at(packet.bytes.into()));
            journey.visit(Server::Node(station), open_s);
        }
        Some(())
    }

    /// A packet leaves a node with one link, or a router.
    fn leave(&self, node: usize, packet: &mut Packet, journey: &mut Journey) -> Option<At> {
        if self.nodes[node].ends_tunnels || self.nodes[node].role == Role::Router {
            return self.route(node, packet, journey);
        }
        if self.nodes[node].role == Role::Station {
            let frames = self.nodes[node].frames.as_ref();
            let seal_s = frames.map_or(0.0, |costs| costs.seal.at(packet.bytes.into()));
            journey.visit(Server::Node(node), seal_s);
            packet.next = self.agent_of(node).map(|(_, address)| address);
            let segment = &self.graph.segments[self.first(node)?.1];
            if packet.next.is_none() && !segment.network.has(packet.destination) {
                packet.next = Some(segment.head);
            }
        }
        if self.nodes[node].role == Role::ForeignAgent {
            let away = self.away(packet.destination);
            let agent = away.and_then(|it| self.agent_of(it.layer.station));
            let is_visitor = agent.is_some_and(|(agent, _)| agent == node);
            packet.next = is_visitor.then_some(packet.destination);
        }
        let port = self.graph.ports_of(node).next()?;
        self.cross(port.link, port.is_near, packet, journey);
        match port.is_near {
            true => Some(At::On(self.joints[port.link].far, port.link)),
            false => self.down(port.link, packet),
        }
    }

    /// A packet arrives at a node that is not its end.
    fn pass(
        &self,
        node: usize,
        link: usize,
        packet: &mut Packet,
        journey: &mut Journey,
    ) -> Option<At> {
        let own = |address: IpAddr| {
            let mut ports = self.graph.ports_of(node);
            ports.any(|port| port.address == address)
        };
        match self.nodes[node].role {
            Role::AccessPoint => self.bridge(node, link, packet, journey),
            Role::Router => {
                if let Some(next) = packet.next.filter(|next| !own(*next)) {
                    let is_near = self.joints[link].near.contains(&node);
                    self.cross(link, is_near, packet, journey);
                    packet.next = Some(next);
                    return self.down(link, packet);
                }
                packet.next = None;
                if own(packet.destination) {
                    self.open_at_router(node, packet, journey)?;
                }
                self.forward(node, packet, journey);
                self.route(node, packet, journey)
            }
            Role::HomeAgent => {
                packet.next = None;
                if let Some(away) = self.away(packet.destination) {
                    let agent = self.agent_of(away.layer.station)?.1;
                    self.encapsulate(node, packet, (away.home_agent.into(), agent), journey);
                } else {
                    self.decapsulate(node, packet, journey)?;
                }
                Some(At::From(node))
            }
            Role::ForeignAgent => {
                packet.next = None;
                if own(packet.destination) {
                    self.decapsulate(node, packet, journey)?;
                } else {
                    let mobile = self.away(packet.source)?;
                    let ends = (self.own_address(node)?, mobile.home_agent.into());
                    self.encapsulate(node, packet, ends, journey);
                }
                Some(At::From(node))
            }
            _ => None,
        }
    }

    /// A frame at an access point.
    fn bridge(
        &self,
        point: usize,
        link: usize,
        packet: &mut Packet,
        journey: &mut Journey,
    ) -> Option<At> {
        let radio = self.joints.iter().position(|joint| joint.far == point)?;
        let behind = self.behind(point)?;
        let frames = self.nodes[point].frames.as_ref();
        let cost = |is_open: bool| {
            frames.map_or(0.0, |costs| match is_open {
                true => costs.open.at(packet.bytes.into()),
                false => costs.seal.at(packet.bytes.into()),
            })
        };
        if link == radio {
            journey.visit(Server::Node(point), cost(true));
        }
        let to = packet.next.unwrap_or(packet.destination);
        match self.on_radio(radio, to) {
            Some(station) => {
                journey.visit(Server::Node(point), cost(false));
                self.cross(radio, false, packet, journey);
                Some(At::On(station, radio))
            }
            None if link == radio => {
                self.cross(behind, true, packet, journey);
                Some(At::On(self.joints[behind].far, behind))
            }
            None => None,
        }
    }

    /// The station of a radio that has this address, or as a guest this home address.
    fn on_radio(&self, radio: usize, address: IpAddr) -> Option<usize> {
        let mut near = self.joints[radio].near.iter().copied();
        near.find(|station| {
            let port = self.graph.port(*station, radio).map(|port| port.address);
            port == Some(address) || self.own_address(*station) == Some(address)
        })
    }

    /// Who gets a packet that comes down a link.
    fn down(&self, link: usize, packet: &Packet) -> Option<At> {
        let to = packet.next.unwrap_or(packet.destination);
        let joint = &self.joints[link];
        if self.nodes[joint.far].role == Role::AccessPoint {
            return self.on_radio(link, to).map(|station| At::On(station, link));
        }
        if packet.next.is_none()
            && let Some(away) = self.away(to)
            && joint.near.contains(&away.layer.agent)
        {
            return Some(At::On(away.layer.agent, link));
        }
        let mut near = joint.near.iter().copied();
        let named = |node: &usize| self.graph.port(*node, link).map(|port| port.address);
        let own = near.clone().find(|node| named(node) == Some(to));
        let point = || near.find(|node| self.nodes[*node].role == Role::AccessPoint);
        let router = || {
            let mut near = joint.near.iter().copied();
            near.find(|node| self.nodes[*node].role == Role::Router)
        };
        own.or_else(point)
            .or_else(router)
            .map(|node| At::On(node, link))
    }

    fn cross(&self, link: usize, is_up: bool, packet: &Packet, journey: &mut Journey) {
        let joint = &self.joints[link];
        let shape = if is_up { &joint.up } else { &joint.down };
        let server = Server::Link(link, is_up && !joint.is_half_duplex);
        journey.visit(server, sends_s(shape, packet.bytes.into()));
        journey.delay_s += shape.mean_delay_s();
        journey.is_too_big |= shape.mtu.is_some_and(|mtu| packet.bytes > mtu);
    }

    /// A router sends a packet onto the link of its route.
    fn route(&self, node: usize, packet: &Packet, journey: &mut Journey) -> Option<At> {
        let segments = self.graph.segments.iter();
        let mut segments = segments.enumerate();
        let to = segments
            .find(|(_, it)| it.network.has(packet.destination))?
            .0;
        let hop = self.graph.hop(node, to)?;
        let is_near = self.joints[hop.link].near.contains(&node);
        self.cross(hop.link, is_near, packet, journey);
        match is_near {
            true => Some(At::On(self.joints[hop.link].far, hop.link)),
            false => self.down(hop.link, packet),
        }
    }

    /// A router seals what its tunnels protect.
    fn forward(&self, node: usize, packet: &mut Packet, journey: &mut Journey) {
        let sets = self.setup.tunnels.iter().enumerate();
        let mut sets = sets.filter_map(|(index, set)| {
            let (from, to, ends) = match node {
                it if it == set.from => (set.pool, set.inside, (self.peer(set)?, set.gateway)),
                it if it == set.to => (set.inside, set.pool, (set.gateway, self.peer(set)?)),
                _ => return None,
            };
            let is_past = packet.is_clear && !self.nodes[set.from].ends_tunnels;
            let is_covered = from.has(packet.source) && to.has(packet.destination) && !is_past;
            is_covered.then_some((index, set, ends))
        });
        if let Some((index, set, ends)) = sets.next() {
            let costs = self.nodes[node].costs.as_ref();
            let to = packet.destination;
            let seal_s = costs.map_or(0.0, |costs| {
                costs.of_peer(|| Some(to)).seal.at(packet.bytes.into())
            });
            journey.visit(Server::Node(node), seal_s);
            wrap(
                packet,
                Form::Tunnel(index),
                set.wire_bytes(packet.bytes),
                ends,
            );
        }
    }

    fn open_at_router(
        &self,
        node: usize,
        packet: &mut Packet,
        journey: &mut Journey,
    ) -> Option<()> {
        let Some(Form::Tunnel(_)) = packet.inside.last().map(|it| it.form) else {
            return None;
        };
        unwrap(packet)?;
        let costs = self.nodes[node].costs.as_ref();
        let from = packet.source;
        let open_s = costs.map_or(0.0, |costs| {
            costs.of_peer(|| Some(from)).open.at(packet.bytes.into())
        });
        journey.visit(Server::Node(node), open_s);
        Some(())
    }

    /// The address of a tunnel's other end than the gateway.
    fn peer(&self, set: &TunnelSetup) -> Option<IpAddr> {
        let shared = self.graph.ports_of(set.from).find(|own| {
            let mut others = self.graph.ports_of(set.to);
            others.any(|it| it.segment == own.segment && self.nodes[set.from].ends_tunnels)
        });
        shared
            .map(|port| port.address)
            .or_else(|| self.own_address(set.from))
    }

    fn encapsulate(
        &self,
        node: usize,
        packet: &mut Packet,
        ends: (IpAddr, IpAddr),
        journey: &mut Journey,
    ) {
        let task = Task::Encapsulate(Encapsulation::IpInIp);
        journey.visit(Server::Node(node), self.worked(node, task, packet.bytes));
        let bytes = packet.bytes + ipv4::HEADER_LEN as u32;
        wrap(packet, Form::Mobile, bytes, ends);
    }

    fn decapsulate(&self, node: usize, packet: &mut Packet, journey: &mut Journey) -> Option<()> {
        if packet.inside.last()?.form != Form::Mobile {
            return None;
        }
        unwrap(packet)?;
        let task = Task::Decapsulate(Encapsulation::IpInIp);
        journey.visit(Server::Node(node), self.worked(node, task, packet.bytes));
        Some(())
    }

    fn worked(&self, node: usize, task: Task, bytes: u32) -> f64 {
        let mut work = Work::default();
        work.count(task, bytes.into());
        let costs = self.nodes[node].costs.as_ref();
        costs.map_or(0.0, |costs| (costs.control)(&work).seconds)
    }
}

fn wrap(packet: &mut Packet, form: Form, bytes: u32, (source, destination): (IpAddr, IpAddr)) {
    packet.inside.push(Inside {
        form,
        bytes: packet.bytes,
        source: packet.source,
        destination: packet.destination,
    });
    (packet.bytes, packet.source, packet.destination) = (bytes, source, destination);
}

fn unwrap(packet: &mut Packet) -> Option<()> {
    let inside = packet.inside.pop()?;
    packet.bytes = inside.bytes;
    (packet.source, packet.destination) = (inside.source, inside.destination);
    Some(())
}
