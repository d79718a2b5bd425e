//! The paper's network (Gupta and Montenegro, 1998): nodes outside and inside, one firewall, one
//! home agent, correspondents. Every packet on a wire is looked at.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use crypto::dh::long_term::Group;
use crypto::rand::{Seed, Stream};
use wire::ip::{Flow, ipv4, protocol, udp};
use wire::mip4::PORT;
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use crate::counters::DropReason;
use crate::firewall::access::Origin;
use crate::firewall::endpoint::{Effect, Endpoint};
use crate::firewall::{Config, Event, Mode, Template};
use crate::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
use crate::mip4::endpoint as mobile;
use crate::mip4::firewall::{HomeFirewall, Outside};
use crate::mip4::home_agent;
use crate::mip4::identification::Clock;
use crate::mip4::mobile_node::{self, Attachment, State};
use crate::mip4::security::{Form, Security, Skip};
use crate::mip4::tunnel::{ReverseTunnel, UdpWish};
use crate::sa::{Encapsulation, Path, Via};
use crate::selector::TrafficSelector;
use crate::skip::udp::PORT as SKIP_PORT;
use crate::skip::{self, IvLen, MasterKey, Parts, Profile, Renewal, SkipTime};
use crate::time::{Calendar, Duration, Instant};

/// The firewall, outside and inside.
pub(super) const WALL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
pub(super) const WALL_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 18, 0, 254);
pub(super) const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 0, 1);
pub(super) const CORRESPONDENT: Ipv4Addr = Ipv4Addr::new(10, 19, 5, 2);
/// A second one.
pub(super) const WALL_2: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
pub(super) const WALL_2_INSIDE: Ipv4Addr = Ipv4Addr::new(10, 18, 0, 253);
/// Care-of addresses outside, and one inside.
pub(super) const CARE_OF: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
pub(super) const ELSEWHERE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 40);
pub(super) const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 30, 0, 5);
pub(super) const LIFETIME: u16 = 300;
/// 2026-11-23 05:30 UTC.
pub(super) const CALENDAR: Calendar = Calendar(1_795_411_800);

const RECORDED_MAX: usize = 64;

/// The home address of a node.
pub(super) fn home(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 18, 3, 17 + number as u8)
}

/// A packet on a wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) is_outside: bool,
    pub(super) packet: Vec<u8>,
}

pub(super) struct World {
    pub(super) nodes: Vec<mobile::Endpoint>,
    /// Where each node is attached.
    pub(super) places: Vec<Attachment>,
    pub(super) wall: Endpoint,
    /// Further firewalls.
    pub(super) others: Vec<Other>,
    pub(super) agent: mobile::Endpoint,
    /// Everything that was on a wire, in order.
    pub(super) wire: Vec<Sent>,
    /// What correspondents got.
    pub(super) at_correspondent: Vec<Vec<u8>>,
    /// What the programs of nodes got.
    pub(super) at_nodes: Vec<Vec<Vec<u8>>>,
    pub(super) events: Vec<Event>,
    /// What is on the firewall's disk, by entry.
    pub(super) disk: BTreeMap<usize, Counts>,
    /// What is on the disk of each node.
    pub(super) node_disks: Vec<Counts>,
    pub(super) now: Instant,
    /// Packets that are lost, of 256.
    pub(super) loss: u32,
    /// The last packets that arrived outside, in no order: what somebody there could repeat.
    pub(super) recorded: Vec<Vec<u8>>,
    pub(super) random: Stream,
    pub(super) options: Options,
    queue: VecDeque<Sent>,
    next_id: u16,
}

/// How far n of `skip-paper` has come.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    /// Every n that was sent is below it.
    pub(super) sent: u32,
    /// The highest that was heard.
    pub(super) heard: u32,
}

/// A firewall with this configuration.
pub(super) fn wall_of(config: Config, seed: u8, now: Instant) -> Endpoint {
    let seed = Seed::new([seed; 32]);
    let passed = now.since(Instant(0)).as_secs() as i64;
    Endpoint::new(config, &seed, Calendar(CALENDAR.0 + passed), now).expect("a good list")
}

/// Another firewall.
pub(super) struct Other {
    pub(super) outside: Ipv4Addr,
    pub(super) inside: Ipv4Addr,
    /// Behind the first firewall.
    pub(super) is_inner: bool,
    pub(super) wall: Endpoint,
}

/// What differs from test to test.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) nodes: usize,
    pub(super) profile: Profile,
    pub(super) names: fn(usize) -> Name,
    pub(super) seed: u8,
    /// Whether the home agent's configuration says which care-of addresses are outside.
    pub(super) knows_outside: bool,
    /// Where the home agent sends packets for care-of addresses outside.
    pub(super) last_wall: Ipv4Addr,
    /// Whether nodes know of a firewall.
    pub(super) has_wall: bool,
    pub(super) mode: Mode,
    pub(super) removes_header: bool,
    /// Whether nodes keep their former binding.
    pub(super) is_simultaneous: bool,
    pub(super) form: Form,
    /// The address outside of the NAT that each node is behind.
    pub(super) nat: Option<fn(usize) -> Ipv4Addr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 1,
            profile: Profile::Draft,
            names: |number| Name::ipv4(home(number)),
            seed: 1,
            knows_outside: true,
            last_wall: WALL_INSIDE,
            has_wall: true,
            mode: Mode::Binding,
            removes_header: false,
            is_simultaneous: false,
            form: Form::Raw,
            nat: None,
        }
    }
}

impl World {
    pub(super) fn new(options: Options) -> Self {
        let now = Instant(0) + Duration::from_secs(5);
        let seed = |number| Seed::new([options.seed.wrapping_add(number); 32]);
        let nodes = (0..options.nodes).map(|number| node(&options, number, Counts::default()));
        let nodes: Vec<_> = nodes.collect();
        let wall = wall(&options, &BTreeMap::new(), now);
        let config = agent_config(&options);
        let mut agent = mobile::Endpoint::home_agent(config, clock(), now, &seed(2));
        if options.removes_header {
            agent.take_short_form();
        }
        let mut world = Self {
            places: vec![Attachment::Detached; nodes.len()],
            at_nodes: vec![Vec::new(); nodes.len()],
            nodes,
            wall,
            others: Vec::new(),
            agent,
            wire: Vec::new(),
            at_correspondent: Vec::new(),
            events: Vec::new(),
            disk: BTreeMap::new(),
            node_disks: vec![Counts::default(); options.nodes],
            now,
            loss: 0,
            recorded: Vec::new(),
            random: seed(3).stream("world", 0),
            options,
            queue: VecDeque::new(),
            next_id: 1,
        };
        world.settle();
        world
    }

    /// A node comes to a link, and everything that follows happens.
    pub(super) fn attach(&mut self, number: usize, attachment: Attachment) {
        self.pass(Duration::from_secs(2));
        self.places[number] = attachment;
        self.nodes[number].attach(attachment, self.now);
        self.settle();
    }

    /// Time passes, with all that is due in it.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let nodes = self.nodes.iter().filter_map(mobile::Endpoint::deadline);
            let others = [self.wall.deadline(), self.agent.deadline()];
            let due = nodes.chain(others.into_iter().flatten()).min();
            let Some(due) = due.filter(|due| due.at <= end) else {
                break;
            };
            self.now = self.now.max(due.at);
            for node in &mut self.nodes {
                node.handle_timeout(self.now);
            }
            self.wall.handle_timeout(self.now);
            self.agent.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// A program of a node sends a packet.
    pub(super) fn send_from_node(&mut self, number: usize, mut packet: Vec<u8>) -> bool {
        let is_sent = self.nodes[number].send(&mut packet, self.now);
        self.settle();
        is_sent
    }

    /// A correspondent sends a packet to a home address, where the home agent intercepts it.
    pub(super) fn send_to_node(&mut self, packet: &[u8]) -> bool {
        let to = Flow::of(packet).expect("a packet").destination;
        assert!(self.agent.intercepts(to), "{to}");
        let is_sent = self.agent.send(&mut packet.to_vec(), self.now);
        self.settle();
        is_sent
    }

    /// Puts a packet on a wire, as an attacker does.
    pub(super) fn inject(&mut self, is_outside: bool, packet: Vec<u8>) {
        self.queue.push_back(Sent { is_outside, packet });
        self.settle();
    }

    /// The firewall starts anew, with what is on its disk.
    pub(super) fn restart_wall(&mut self) {
        self.wall = wall(&self.options, &self.disk, self.now);
        self.settle();
    }

    /// A node starts anew where it is, with what is on its disk.
    pub(super) fn restart_node(&mut self, number: usize) {
        self.nodes[number] = node(&self.options, number, self.node_disks[number]);
        self.attach(number, self.places[number]);
    }

    /// The firewall and all nodes start anew, before any of them says anything.
    pub(super) fn restart_all(&mut self) {
        for (number, disk) in self.node_disks.iter().enumerate() {
            self.nodes[number] = node(&self.options, number, *disk);
        }
        self.restart_wall();
        for number in 0..self.nodes.len() {
            self.attach(number, self.places[number]);
        }
    }

    pub(super) fn is_registered(&self, number: usize) -> bool {
        matches!(self.nodes[number].state(), Some(State::Registered { .. }))
    }

    pub(super) fn wall_drops(&self, reason: DropReason) -> u64 {
        self.wall.drops().of(reason)
    }

    /// Whether data goes both ways between a node and a correspondent.
    pub(super) fn is_joined(&mut self, number: usize) -> bool {
        let (there, back) = (
            data(home(number), CORRESPONDENT),
            data(CORRESPONDENT, home(number)),
        );
        let before = (self.at_correspondent.len(), self.at_nodes[number].len());
        let is_intercepted = self.agent.intercepts(home(number).into());
        let is_sent = self.send_from_node(number, there) && is_intercepted;
        let is_sent = is_sent && self.send_to_node(&back);
        let after = (self.at_correspondent.len(), self.at_nodes[number].len());
        is_sent && after == (before.0 + 1, before.1 + 1)
    }

    /// Carries packets until nothing is left.
    pub(super) fn settle(&mut self) {
        loop {
            self.collect();
            let Some(sent) = self.queue.pop_front() else {
                return;
            };
            self.wire.push(sent.clone());
            if self.random.u32() % 256 >= self.loss {
                self.record(&sent);
                self.deliver(sent);
            }
        }
    }

    /// Somebody outside keeps a packet, in the place of an old one.
    fn record(&mut self, sent: &Sent) {
        if !sent.is_outside {
            return;
        }
        if self.recorded.len() < RECORDED_MAX {
            self.recorded.push(sent.packet.clone());
        } else {
            self.recorded[usize::from(self.next_id) % RECORDED_MAX].clone_from(&sent.packet);
        }
    }

    fn collect(&mut self) {
        for number in 0..self.nodes.len() {
            while let Some(effect) = self.nodes[number].poll() {
                let is_outside = self.is_outside(number);
                self.take_mobile(Some(number), is_outside, effect);
            }
        }
        while let Some(effect) = self.agent.poll() {
            self.take_mobile(None, false, effect);
        }
        while let Some(effect) = self.wall.poll() {
            self.take_wall(None, effect);
        }
        for number in 0..self.others.len() {
            while let Some(effect) = self.others[number].wall.poll() {
                self.take_wall(Some(number), effect);
            }
        }
    }

    /// An effect of the first firewall, or of another one.
    fn take_wall(&mut self, number: Option<usize>, effect: Effect) {
        let (outside, is_inner) = match number {
            Some(number) => (self.others[number].outside, self.others[number].is_inner),
            None => (WALL, false),
        };
        match effect {
            Effect::Sealed(path, octets) => {
                let is_outside = path.local.ip() == IpAddr::V4(outside) && !is_inner;
                let packet = self.on_wire(path, octets);
                self.queue.push_back(Sent { is_outside, packet });
            }
            Effect::Opened(packet) => self.queue.push_back(Sent {
                is_outside: false,
                packet,
            }),
            Effect::StoreN(entry, bound) if number.is_none() => {
                self.disk.entry(entry.0).or_default().sent = bound;
                self.wall.n_is_stored(entry, bound, self.now);
            }
            Effect::KeepN(entry, n) if number.is_none() => {
                self.disk.entry(entry.0).or_default().heard = n;
            }
            Effect::Event(event) if number.is_none() => self.events.push(event),
            Effect::StoreN(..) | Effect::KeepN(..) | Effect::Event(_) => {}
        }
    }

    /// A packet as it is on the wire.
    fn on_wire(&mut self, path: Path, octets: Vec<u8>) -> Vec<u8> {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (path.local, path.remote) else {
            panic!("IPv6");
        };
        self.next_id += 1;
        match path.via {
            Via::Raw => octets,
            _ => datagram(from, to, &octets, self.next_id),
        }
    }

    fn is_outside(&self, number: usize) -> bool {
        let Attachment::Colocated(care_of) = self.places[number] else {
            return false;
        };
        care_of.octets()[0] != 10
    }

    /// An effect of a node, or of the home agent.
    fn take_mobile(&mut self, number: Option<usize>, is_outside: bool, effect: mobile::Effect) {
        match effect {
            mobile::Effect::Datagram {
                from,
                to,
                is_direct,
                payload,
                ..
            } => {
                self.next_id += 1;
                let mut packet = datagram(from, to, &payload, self.next_id);
                let host = match number {
                    Some(number) => &mut self.nodes[number],
                    None => &mut self.agent,
                };
                if !is_direct && host.carries((*from.ip()).into(), (*to.ip()).into()) {
                    host.send(&mut packet, self.now);
                } else {
                    self.queue.push_back(Sent { is_outside, packet });
                }
            }
            mobile::Effect::Sealed(path, octets) => {
                if let (Some(number), Ok((header, _))) =
                    (number, skip::peek(&octets, ipv4::HEADER_LEN))
                {
                    let disk = &mut self.node_disks[number];
                    disk.sent = disk.sent.max(header.n + 1);
                }
                let mut packet = self.on_wire(path, octets);
                if let (Some(number), Some(nat), true) = (number, self.options.nat, is_outside) {
                    leave_nat(&mut packet, nat(number), number);
                }
                self.queue.push_back(Sent { is_outside, packet });
            }
            mobile::Effect::Opened(mut packet) => {
                let flow = Flow::of(&packet).expect("a packet");
                let host = match number {
                    Some(number) => &mut self.nodes[number],
                    None => &mut self.agent,
                };
                // A message that came through a tunnel.
                match path_of(&flow) {
                    Some((path, start)) if path.via == Via::UdpWithType => {
                        host.receive(path, &mut packet[start..], self.now);
                    }
                    _ => match number {
                        Some(number) => self.at_nodes[number].push(packet),
                        None => self.at_correspondent.push(packet),
                    },
                }
            }
            _ => {}
        }
    }

    fn deliver(&mut self, sent: Sent) {
        let mut packet = sent.packet;
        let number = self.enter_nat(&mut packet);
        // From one side to the other only what the firewall forwards.
        let sides = [12, 16].map(|at| packet[at] == 10);
        let ours = [WALL, WALL_2].map(|it| it.octets());
        let is_ours = |it: &[u8; 4]| packet[12..16] == *it || packet[16..20] == *it;
        let crosses = sides[0] != sides[1] && !ours.iter().any(is_ours);
        if crosses && sent.is_outside && !self.wall.forwards(&packet) {
            return;
        }
        let Ok(flow) = Flow::of(&packet) else {
            return;
        };
        let IpAddr::V4(to) = flow.destination else {
            return;
        };
        let (path, start) = match path_of(&flow) {
            Some(known) => known,
            None => (Path::raw(flow.destination, flow.source), 0),
        };
        let is_for = |it: &Other| to == it.outside || to == it.inside;
        let other = self.others.iter().position(is_for);
        let is_sealed = !sent.is_outside && self.wall.carries(flow.source, flow.destination);
        let bytes = &mut packet[start..flow.total_len];
        if is_sealed {
            self.wall.send(bytes, self.now);
        } else if let Some(number) = other {
            self.others[number].wall.receive(path, bytes, self.now);
        } else if to == WALL || to == WALL_INSIDE {
            self.wall.receive(path, bytes, self.now);
        } else if to == AGENT {
            self.agent.receive(path, bytes, self.now);
        } else if self.agent.intercepts(to.into()) {
            self.agent.send(&mut packet, self.now);
        } else {
            let is_there = |it: &Attachment| *it == Attachment::Colocated(to);
            let number = number.or_else(|| self.places.iter().position(is_there));
            if let Some(number) = number {
                if let Ok((header, _)) = skip::peek(bytes, ipv4::HEADER_LEN) {
                    let disk = &mut self.node_disks[number];
                    disk.heard = disk.heard.max(header.n);
                }
                self.nodes[number].receive(path, bytes, self.now);
            } else if to == CORRESPONDENT {
                self.at_correspondent.push(packet);
            }
        }
    }
}

impl World {
    /// A packet for a NAT becomes one for the node behind it.
    fn enter_nat(&self, packet: &mut [u8]) -> Option<usize> {
        let nat = self.options.nat?;
        let flow = Flow::of(packet).ok()?;
        let is_for = |number: &usize| {
            let port = flow.ports.map(|ports| ports.1);
            let is_ours = IpAddr::V4(nat(*number)) == flow.destination;
            is_ours && port.is_none_or(|port| port == nat_port(*number))
        };
        let number = (0..self.nodes.len()).find(is_for)?;
        let Attachment::Colocated(care_of) = self.places[number] else {
            return None;
        };
        packet[16..20].copy_from_slice(&care_of.octets());
        if flow.ports.is_some() {
            packet[22..24].copy_from_slice(&SKIP_PORT.to_be_bytes());
        }
        Some(number)
    }
}

/// A packet of a node becomes one of its NAT.
pub(super) fn leave_nat(packet: &mut [u8], nat: Ipv4Addr, number: usize) {
    packet[12..16].copy_from_slice(&nat.octets());
    if packet[9] == protocol::UDP {
        packet[20..22].copy_from_slice(&nat_port(number).to_be_bytes());
    }
    let mut ip = ipv4::Ipv4::new(packet).expect("a packet");
    ip.fill_checksum();
}

/// The port that a NAT gives to a node.
pub(super) fn nat_port(number: usize) -> u16 {
    40_001 + number as u16
}

/// How a packet for a host came, and where in it what the host's socket gets begins.
fn path_of(flow: &Flow) -> Option<(Path, usize)> {
    match (flow.protocol, flow.ports) {
        (protocol::UDP, Some((from, to))) if to == PORT => {
            let path = Path::udp_with_type((flow.destination, to), (flow.source, from));
            Some((path, flow.transport + udp::HEADER_LEN))
        }
        (protocol::UDP, Some((from, to))) if to == SKIP_PORT => {
            let path = Path::udp_with_skip((flow.destination, to), (flow.source, from));
            Some((path, flow.transport + udp::HEADER_LEN))
        }
        (protocol::SKIP | protocol::IPV4, _) => Some((Path::raw(flow.destination, flow.source), 0)),
        _ => None,
    }
}

pub(super) fn datagram(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8], id: u16) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + udp::HEADER_LEN];
    packet.extend_from_slice(payload);
    udp::write_header(&mut packet[ipv4::HEADER_LEN..], from.port(), to.port());
    write_ip(&mut packet, (*from.ip(), *to.ip()), protocol::UDP, id);
    packet
}

/// A packet of 64 octets, of an unassigned protocol.
pub(super) fn data(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    large_data(source, destination, 64)
}

/// The same of any size.
pub(super) fn large_data(source: Ipv4Addr, destination: Ipv4Addr, octets: usize) -> Vec<u8> {
    let mut packet = vec![0x5a; octets];
    write_ip(&mut packet, (source, destination), 253, 9);
    packet
}

fn write_ip(packet: &mut [u8], ends: (Ipv4Addr, Ipv4Addr), protocol: u8, id: u16) {
    let header = ipv4::Header {
        tos: 0,
        id,
        dont_fragment: true,
        ttl: 60,
        protocol,
        source: ends.0,
        destination: ends.1,
    };
    header.write(packet);
}

pub(super) fn clock() -> Clock {
    Clock::new(Instant(0), Duration::from_secs(CALENDAR.0 as u64))
}

fn associations() -> Associations {
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(256, Algorithm::HmacMd5, replay, &[7; 16]);
    Associations::new(one.into_iter().collect()).expect("one association")
}

/// The association of a node with the firewall: the node's end, or the firewall's.
pub(super) fn skip_association(
    options: &Options,
    number: usize,
    is_node: bool,
) -> skip::Association {
    let (name, none) = ((options.names)(number), Name::NONE);
    let names = match is_node {
        true => [name, none],
        false => [none, name],
    };
    let algorithms = Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5);
    let algorithms = match options.profile {
        Profile::X25519 => Algorithms::HKDF_AES_GCM_SIV,
        _ => algorithms.expect("they go together"),
    };
    let mut parts = parts(algorithms, number as u8, names);
    parts.profile = options.profile;
    if options.profile == Profile::X25519 {
        let mut publics = [[number as u8; 32], [200; 32]];
        if !is_node {
            publics.reverse();
        }
        let [own, peer] = publics.each_ref().map(|public| &public[..]);
        let shared = [40 + number as u8; 32];
        parts.master = MasterKey::of_shared(Group::Curve25519, &shared, [own, peer]);
    }
    skip::Association::new(parts).expect("they fit")
}

/// An association between our name and another.
pub(super) fn association(
    algorithms: Algorithms,
    number: u8,
    names: [Name; 2],
) -> skip::Association {
    skip::Association::new(parts(algorithms, number, names)).expect("they fit")
}

fn parts(algorithms: Algorithms, number: u8, [local, remote]: [Name; 2]) -> Parts {
    Parts {
        profile: Profile::Draft,
        algorithms,
        local,
        remote,
        iv_len: IvLen::Whole,
        renewal: Renewal::DRAFT,
        master: MasterKey::manual(&[40 + number; 32]),
    }
}

fn node(options: &Options, number: usize, disk: Counts) -> mobile::Endpoint {
    let mut config = node_config(number);
    config.is_simultaneous = options.is_simultaneous;
    config.firewall = config.firewall.filter(|_| options.has_wall);
    let seed = Seed::new([options.seed.wrapping_add(10 + number as u8); 32]);
    let mut node = mobile::Endpoint::mobile_node(config, 24, clock(), &seed);
    node.secure(node_security(options, number, disk));
    node
}

fn node_security(options: &Options, number: usize, disk: Counts) -> Security {
    Security::Skip(Box::new(Skip {
        association: skip_association(options, number, true),
        firewall: WALL,
        form: options.form,
        behind: None,
        others: Vec::new(),
        short_form: options.removes_header.then(|| home(number)),
        stored_n: disk.sent,
        heard_n: disk.heard,
    }))
}

pub(super) fn node_config(number: usize) -> mobile_node::Config {
    mobile_node::Config {
        home_address: home(number),
        home_agent: AGENT,
        nai: None,
        aaa: None,
        associations: associations(),
        foreign_agents: BTreeMap::new(),
        lifetime: LIFETIME,
        encapsulation: Encapsulation::IpInIp,
        is_reverse: true,
        encapsulates_delivery: false,
        wants_broadcasts: false,
        is_simultaneous: false,
        udp: UdpWish::Never,
        firewall: Some(HomeFirewall {
            address: WALL_INSIDE,
            inside: vec![inside()],
        }),
        hears_revocations: false,
        monitor: None,
    }
}

fn agent_config(options: &Options) -> home_agent::Config {
    let client = |number| home_agent::Client {
        home_address: home(number),
        nai: None,
        aaa: None,
        associations: associations(),
    };
    home_agent::Config {
        address: AGENT,
        prefix_len: 16,
        max_lifetime: LIFETIME,
        max_bindings: 2,
        encapsulations: BTreeSet::new(),
        reverse_tunnel: ReverseTunnel::Required,
        udp_keepalive: None,
        allows_forced_udp: true,
        clients: (0..options.nodes).map(client).collect(),
        foreign_agents: BTreeMap::new(),
        outside: match options.knows_outside {
            true => outside(options.last_wall),
            false => Vec::new(),
        },
        trusts_traversal: [WALL_INSIDE, options.last_wall].into(),
        trusted: Vec::new(),
        tunnelled: Vec::new(),
        revocation: None,
    }
}

/// Everything but the network inside.
fn outside(firewall: Ipv4Addr) -> Vec<Outside> {
    let ranges = [
        ("0.0.0.0", "9.255.255.255"),
        ("11.0.0.0", "255.255.255.255"),
    ];
    let outside = ranges.map(|(first, last)| Outside {
        care_of: TrafficSelector {
            first: first.parse().expect("an address"),
            last: last.parse().expect("an address"),
            ..inside()
        },
        firewall,
    });
    outside.into()
}

fn inside() -> TrafficSelector {
    TrafficSelector::subnet(Ipv4Addr::new(10, 0, 0, 0).into(), 8)
}

pub(super) fn wall_config(options: &Options) -> Config {
    let entries = (0..options.nodes).map(|number| {
        let template = Template {
            association: skip_association(options, number, false),
            inside: Vec::new(),
            home_address: Some(home(number)),
            stored_n: 0,
            heard_n: 0,
        };
        (Origin::Nomadic, template)
    });
    Config {
        outside: WALL,
        inside: WALL_INSIDE,
        home_agents: vec![AGENT],
        entries: entries.collect(),
        lifetime: Duration::from_secs(600),
        mode: options.mode,
        removes_header: options.removes_header,
        takes_udp: options.form == Form::Udp,
        end_to_end: Vec::new(),
    }
}

fn wall(options: &Options, disk: &BTreeMap<usize, Counts>, now: Instant) -> Endpoint {
    let mut config = wall_config(options);
    for (number, (_, template)) in config.entries.iter_mut().enumerate() {
        let counts = disk.get(&number).copied().unwrap_or_default();
        (template.stored_n, template.heard_n) = (counts.sent, counts.heard);
    }
    wall_of(config, options.seed.wrapping_add(5), now)
}

/// What is in a packet of SKIP, for the end that has this association.
pub(super) fn opened(association: &skip::Association, packet: &[u8], now: Instant) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let calendar = CALENDAR.at(Instant(0), now);
    let mut opener = skip::Opener::new(association, None);
    let opened = opener.open(&mut packet, ipv4::HEADER_LEN, SkipTime { calendar, now });
    packet[opened.expect("it opens").clear].to_vec()
}

/// A packet in an IP-in-IP tunnel.
pub(super) fn in_tunnel(packet: &[u8], ends: (Ipv4Addr, Ipv4Addr)) -> Vec<u8> {
    let mut outer = vec![0; ipv4::HEADER_LEN];
    outer.extend_from_slice(packet);
    write_ip(&mut outer, ends, protocol::IPV4, 3);
    outer
}

/// A packet of SKIP from an address to the firewall.
pub(super) fn sealed(
    association: &skip::Association,
    source: Ipv4Addr,
    inner: &[u8],
    now: Instant,
) -> Vec<u8> {
    let mut sealer = skip::Sealer::new(association, 0);
    let mut packet = vec![0; ipv4::HEADER_LEN + sealer.sealed(inner.len())];
    write_ip(&mut packet, (source, WALL), protocol::SKIP, 3);
    let start = ipv4::HEADER_LEN + sealer.clear_at();
    packet[start..start + inner.len()].copy_from_slice(inner);
    let calendar = CALENDAR.at(Instant(0), now);
    let time = SkipTime { calendar, now };
    let mut random = Seed::new([77; 32]).stream("sealed", 0);
    let (header, next) = (ipv4::HEADER_LEN, protocol::IPV4);
    let sealed = sealer.seal(&mut packet, header, inner.len(), next, time, &mut random);
    sealed.expect("it seals");
    packet
}
