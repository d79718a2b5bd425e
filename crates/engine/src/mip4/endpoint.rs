//! A mobile node or an agent with both packet planes on one thread: what such a host does,
//! without its sockets, its links and its clock. The lab and tests drive a host through this, as
//! they drive a [`Node`](crate::node::Node) through [`crate::endpoint`].
//!
//! Give it an input, then call [`Endpoint::poll`] until it returns `None`. Left out: a disk: a
//! bound of n ([`crate::plane::Notice::StoreN`]) counts as stored at once.

mod foreign;
mod inside;
mod secured;

use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use crypto::rand::Seed;
use wire::mip4::{Code, PORT};

use super::carriers::{Carriers, Change, HomeCarriers, HomeNetwork, Owner, of_node};
use super::firewall::Side;
use super::foreign_agent::{self, ForeignAgent};
use super::home_agent::{self, HomeAgent};
use super::identification::Clock;
use super::mobile_node::{self, Attachment, MobileNode, State};
use super::security::{Security, SecurityLayer};
use crate::counters::DropCounters;
use crate::firewall::Firewall;
use crate::plane::{
    Datagrams, InboundChange, InboundPlane, Offloads, OutboundChange, OutboundPlane, Packets,
    Received, Run, TooBig, Verdict,
};
use crate::sa::{Path, Via};
use crate::selector::TrafficSelector;
use crate::skip::udp::KEEPALIVE;
use crate::time::{Deadline, Instant};
use crate::work::Work;

/// A host of Mobile IPv4.
pub struct Endpoint {
    machine: Machine,
    inbound: InboundPlane,
    outbound: OutboundPlane,
    sealed: Datagrams,
    packets: Packets,
    effects: VecDeque<Effect>,
    /// What our own links carry.
    link_mtu: Option<u16>,
}

enum Machine {
    Node {
        node: Box<MobileNode>,
        own: HomeNetwork,
        home_agent: Ipv4Addr,
        carriers: Carriers,
        layer: SecurityLayer,
    },
    /// A security layer without Mobile IPv4.
    Guest(SecurityLayer),
    ForeignAgent {
        agent: Box<ForeignAgent>,
        carriers: Carriers,
        /// On the visitors' link.
        address: Ipv4Addr,
        care_of: Ipv4Addr,
    },
    HomeAgent {
        agent: Box<HomeAgent>,
        carriers: HomeCarriers,
        /// Home addresses with bindings: their packets are intercepted.
        away: BTreeSet<Ipv4Addr>,
        /// Its own SKIP, from end to end.
        guard: Option<Box<Firewall>>,
    },
}

/// What a host does, as its driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A UDP payload to send.
    Datagram {
        /// From this address of ours.
        from: SocketAddrV4,
        /// To this one.
        to: SocketAddrV4,
        /// The TTL, if it is not the usual one.
        ttl: Option<u8>,
        /// Past all tunnels: it is a node's own, without a security layer, or for a node that has
        /// come home. Otherwise it goes where [`Endpoint::carries`] says.
        is_direct: bool,
        /// The payload.
        payload: Vec<u8>,
    },
    /// An Agent Solicitation to send.
    Solicit,
    /// An ICMP message of a foreign agent, to send to this address of its visitors' link with a TTL
    /// of 1.
    Advertise(Ipv4Addr, Vec<u8>),
    /// A packet in its tunnel, to send: a UDP payload, or a whole IP packet if the path is raw.
    Sealed(Path, Vec<u8>),
    /// A packet for our own stack or for a neighbour, out of a tunnel or about one.
    Opened(Vec<u8>),
    /// From now on we answer ARP for this address, or do no more. At first, neighbours are told.
    AnswerArp(Ipv4Addr, bool),
    /// What a mobile node's home address can do has changed.
    State(State),
    /// A home address has so many bindings now.
    Bound(Ipv4Addr, usize),
    /// A request of this mobile node was denied.
    Denied(Code),
    /// The registration of this mobile node was revoked (RFC 3543).
    Revoked,
    /// The home agent did not serve a message.
    Refused(home_agent::Refusal),
}

impl Endpoint {
    /// A mobile node that is attached to nothing. `prefix_len`: that of its home network.
    pub fn mobile_node(
        config: mobile_node::Config,
        prefix_len: u8,
        clock: Clock,
        seed: &Seed,
    ) -> Self {
        let own = HomeNetwork {
            address: config.home_address,
            prefix_len,
        };
        let home_agent = config.home_agent;
        let node = MobileNode::new(config, clock, seed.stream("mobile-node", 0));
        let machine = Machine::Node {
            node: Box::new(node),
            own,
            home_agent,
            carriers: Carriers::default(),
            layer: SecurityLayer::new(Security::None, home_agent),
        };
        Self::new(machine, clock, seed)
    }

    /// A host that has the security layer of a mobile node, but no home: what it sends to these
    /// addresses goes through it.
    pub fn guest(
        security: Security,
        targets: Vec<TrafficSelector>,
        clock: Clock,
        seed: &Seed,
    ) -> Self {
        let layer = SecurityLayer::toward(security, targets);
        Self::new(Machine::Guest(layer), clock, seed)
    }

    /// A home agent without bindings.
    pub fn home_agent(config: home_agent::Config, clock: Clock, now: Instant, seed: &Seed) -> Self {
        let own = HomeNetwork {
            address: config.address,
            prefix_len: config.prefix_len,
        };
        let mut carriers = HomeCarriers::new(own, config.outside.clone());
        let begun = carriers.begin(&config.trusts_traversal);
        let agent = HomeAgent::new(config, clock, now, seed.stream("home-agent", 0));
        let machine = Machine::HomeAgent {
            agent: Box::new(agent),
            carriers,
            away: BTreeSet::new(),
            guard: None,
        };
        let mut endpoint = Self::new(machine, clock, seed);
        endpoint.apply(begun, now);
        endpoint
    }

    fn new(machine: Machine, clock: Clock, seed: &Seed) -> Self {
        let mut endpoint = Self {
            machine,
            inbound: InboundPlane::new(Offloads::default()),
            outbound: OutboundPlane::new(seed.stream("outbound", 0), Offloads::default()),
            sealed: Datagrams::new(),
            packets: Packets::new(),
            effects: VecDeque::new(),
            link_mtu: None,
        };
        endpoint.tell(clock);
        endpoint
    }

    /// The calendar time was set.
    pub fn set_clock(&mut self, clock: Clock) {
        match &mut self.machine {
            Machine::Node { node, .. } => node.set_clock(clock),
            Machine::HomeAgent { agent, .. } => agent.set_clock(clock),
            Machine::ForeignAgent { agent, .. } => agent.set_clock(clock),
            Machine::Guest(_) => {}
        }
        self.tell(clock);
    }

    /// Tells the planes what the clock says.
    fn tell(&mut self, clock: Clock) {
        let (calendar, told) = clock.calendar();
        self.inbound.apply(InboundChange::Calendar(calendar, told));
        self.outbound
            .apply(OutboundChange::Calendar(calendar, told), told);
    }

    /// A mobile node has moved, or its address has changed. Nothing happens at a home agent.
    pub fn attach(&mut self, attachment: Attachment, now: Instant) {
        match (&mut self.machine, attachment) {
            (Machine::Node { node, .. }, _) => node.attach(attachment, now),
            (Machine::Guest(layer), Attachment::Colocated(address)) => {
                let changes = layer.follow(Some(address));
                self.secure_by(changes, now);
            }
            (Machine::Guest(_) | Machine::ForeignAgent { .. } | Machine::HomeAgent { .. }, _) => {}
        }
        self.follow(now);
    }

    /// The user says on which side of the firewall a mobile node is.
    pub fn set_side(&mut self, side: Side, now: Instant) {
        if let Machine::Node { node, .. } = &mut self.machine {
            node.set_side(side, now);
        }
        self.follow(now);
    }

    /// An ICMP message that came from `from` on the link of a mobile node, with a TTL of 1.
    pub fn hear(&mut self, from: Ipv4Addr, icmp: &[u8], now: Instant) {
        if let Machine::Node { node, .. } = &mut self.machine {
            node.hear(from, icmp, now);
        }
        self.follow(now);
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &mut self.machine {
            Machine::Node { node, layer, .. } => {
                node.handle_timeout(now);
                let keepalive = layer.keepalive(now);
                let effect = keepalive.map(|path| Effect::Sealed(path, KEEPALIVE.into()));
                self.effects.extend(effect);
            }
            Machine::ForeignAgent { agent, .. } => agent.handle_timeout(now),
            Machine::Guest(layer) => {
                let keepalive = layer.keepalive(now);
                let effect = keepalive.map(|path| Effect::Sealed(path, KEEPALIVE.into()));
                self.effects.extend(effect);
            }
            Machine::HomeAgent { agent, guard, .. } => {
                agent.handle_timeout(now);
                guard.iter_mut().for_each(|it| it.handle_timeout(now));
            }
        }
        self.follow(now);
    }

    /// Takes what came for us: a UDP payload of port 434, or a whole IP packet if the path is raw.
    pub fn receive(&mut self, path: Path, octets: &mut [u8], now: Instant) {
        let received = Received {
            path,
            traffic_class: 0,
            interface: 0,
            segment_bytes: octets.len(),
            bytes: &mut *octets,
        };
        self.inbound.open(0, received, now, &mut self.packets);
        let mut packets = core::mem::take(&mut self.packets);
        for write in packets.writes() {
            let mut packet = write.header.to_vec();
            for slice in write.slices {
                packet.extend_from_slice(&octets[slice.range.clone()]);
            }
            self.effects.push_back(Effect::Opened(packet));
        }
        self.heed(packets.notices(), now);
        for slice in packets.returned() {
            // As from a TUN device; this endpoint's has no header before the packet.
            self.send(&mut octets[slice.range.clone()], now);
        }
        for message in packets.control() {
            self.take(message.path, &octets[message.slice.range.clone()], now);
        }
        packets.clear();
        self.packets = packets;
        self.follow(now);
    }

    /// What our own links carry. Without it tunnels learn by reports alone.
    pub fn set_link_mtu(&mut self, mtu: u16) {
        self.link_mtu = Some(mtu);
    }

    /// From now on, TCP's maximum segment size passes as it is
    /// ([`OutboundPlane::keep_mss`](crate::plane::OutboundPlane::keep_mss)).
    pub fn keep_mss(&mut self) {
        self.inbound.keep_mss();
        self.outbound.keep_mss();
    }

    /// An ICMP report that a packet of a tunnel did not fit.
    pub fn too_big(&mut self, report: &TooBig<'_>, now: Instant) {
        self.outbound.too_big(report, now);
        self.sealed.clear();
        self.outbound.release(now, &mut self.sealed);
        self.send_on(now);
    }

    /// Whether a packet between these addresses goes into a tunnel.
    pub fn carries(&self, source: IpAddr, destination: IpAddr) -> bool {
        let carriers = match &self.machine {
            Machine::Node { layer, .. } if layer.carries(source, destination) => return true,
            Machine::Guest(layer) => return layer.carries(source, destination),
            Machine::Node { carriers, .. } | Machine::ForeignAgent { carriers, .. } => carriers,
            Machine::HomeAgent {
                guard: Some(guard), ..
            } if guard.seals(source, destination) => return true,
            Machine::HomeAgent { carriers, .. } => carriers.carriers(),
        };
        let mut outbound = carriers
            .iter()
            .filter_map(|(.., one)| one.outbound.as_ref());
        outbound.any(|traffic| {
            let has = |list: &[TrafficSelector], address| {
                list.iter().any(|one| one.contains_address(address))
            };
            has(&traffic.local, source) && has(&traffic.remote, destination)
        })
    }

    /// Whether a home agent takes packets for this address, which is another's.
    pub fn intercepts(&self, destination: IpAddr) -> bool {
        match (&self.machine, destination) {
            (Machine::HomeAgent { away, .. }, IpAddr::V4(address)) => away.contains(&address),
            _ => false,
        }
    }

    /// Puts a packet into its tunnel. Returns whether all of it went.
    pub fn send(&mut self, frame: &mut [u8], now: Instant) -> bool {
        self.sealed.clear();
        let verdict = self.outbound.seal(frame, now, &mut self.sealed);
        self.send_on(now);
        verdict == Verdict::Sealed
    }

    /// Does what the outbound plane wants.
    fn send_on(&mut self, now: Instant) {
        let is_in_udp = |run: &Run| run.path.via == Via::UdpWithSkip;
        if let Machine::Node { layer, .. } | Machine::Guest(layer) = &mut self.machine
            && self.sealed.runs().iter().any(is_in_udp)
        {
            layer.sent(now);
        }
        for run in self.sealed.runs() {
            for octets in self.sealed.bytes(run).chunks(run.segment_bytes.max(1)) {
                let effect = self.leaves(run.path, octets.to_vec());
                self.effects.push_back(effect);
            }
        }
        let replies = self.sealed.replies();
        self.effects
            .extend(replies.map(|packet| Effect::Opened(packet.to_vec())));
        let notices = self.sealed.notices().to_vec();
        self.heed(&notices, now);
    }

    /// The next effect. `None`: it waits for [`Endpoint::deadline`] or an input.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`Endpoint::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.machine {
            Machine::Node { node, layer, .. } => {
                node.deadline().into_iter().chain(layer.deadline()).min()
            }
            Machine::Guest(layer) => layer.deadline(),
            Machine::ForeignAgent { agent, .. } => Some(agent.deadline()),
            Machine::HomeAgent { agent, guard, .. } => {
                let guard = guard.as_ref().and_then(|it| it.deadline());
                agent.deadline().into_iter().chain(guard).min()
            }
        }
    }

    /// What a mobile node's home address can do now.
    pub fn state(&self) -> Option<State> {
        match &self.machine {
            Machine::Node { node, .. } => Some(node.state()),
            Machine::Guest(_) | Machine::ForeignAgent { .. } | Machine::HomeAgent { .. } => None,
        }
    }

    /// Packets dropped, by reason.
    pub fn drops(&self) -> DropCounters {
        let mut all = self.outbound.report().drops;
        all.merge(&self.inbound.report().drops);
        all
    }

    /// All work of the planes so far.
    pub fn work(&self) -> Work {
        let mut all = self.outbound.report().work;
        all.merge(&self.inbound.report().work);
        all
    }

    fn take(&mut self, path: Path, payload: &[u8], now: Instant) {
        let (IpAddr::V4(from), IpAddr::V4(to)) = (path.remote.ip(), path.local.ip()) else {
            return;
        };
        match &mut self.machine {
            Machine::Node { node, .. } => {
                let from = SocketAddrV4::new(from, path.remote.port());
                node.handle(from, payload, now);
            }
            Machine::Guest(_) => {}
            Machine::ForeignAgent { agent, .. } => {
                let datagram = foreign_agent::Datagram {
                    from: SocketAddrV4::new(from, path.remote.port()),
                    to: SocketAddrV4::new(to, path.local.port()),
                    ttl: 0, // of no interest for what comes another way than the link
                    mac: None,
                    payload,
                };
                agent.handle(datagram, now);
            }
            Machine::HomeAgent { agent, .. } => {
                let datagram = home_agent::Datagram {
                    from: SocketAddrV4::new(from, path.remote.port()),
                    to: SocketAddrV4::new(to, path.local.port()),
                    payload,
                };
                agent.handle(datagram, now);
            }
        }
    }

    /// Does what the machine wants after an input.
    fn follow(&mut self, now: Instant) {
        self.secure_care_of(now);
        self.follow_guard(now);
        self.follow_foreign(now);
        loop {
            let changes = match &mut self.machine {
                Machine::Guest(_) | Machine::ForeignAgent { .. } => return,
                Machine::Node {
                    node,
                    own,
                    home_agent,
                    carriers,
                    layer,
                } => {
                    let Some(output) = node.poll() else { return };
                    let mut changes = Vec::new();
                    if let mobile_node::Output::State(state) = &output {
                        let mut wanted = of_node(*own, *home_agent, state);
                        layer.nest(&mut wanted);
                        changes = carriers.follow(Owner::Home(own.address), wanted);
                    }
                    let effect = Effect::of_node(own.address, output, layer);
                    self.effects.extend(effect);
                    changes
                }
                Machine::HomeAgent {
                    agent,
                    carriers,
                    away,
                    ..
                } => {
                    let Some(output) = agent.poll() else { return };
                    let home_agent::Output::Tunnels {
                        home_address,
                        tunnels,
                        ..
                    } = &output
                    else {
                        let changes = match &output {
                            home_agent::Output::Send {
                                to,
                                firewall: Some(firewall),
                                ..
                            } => carriers.reply(*to.ip(), *firewall),
                            _ => Vec::new(),
                        };
                        self.effects.extend(Effect::of_home_agent(output));
                        self.apply(changes, now);
                        continue;
                    };
                    let changes = carriers.follow(*home_address, tunnels);
                    let has_changed = match tunnels.is_empty() {
                        true => away.remove(home_address),
                        false => away.insert(*home_address),
                    };
                    if has_changed {
                        let arp = Effect::AnswerArp(*home_address, !tunnels.is_empty());
                        self.effects.push_back(arp);
                    }
                    let bound = Effect::Bound(*home_address, tunnels.len());
                    self.effects.push_back(bound);
                    changes
                }
            };
            self.apply(changes, now);
        }
    }

    fn apply(&mut self, changes: Vec<Change>, now: Instant) {
        for change in changes {
            match change {
                Change::Inbound(change) => drop(self.inbound.apply(change)),
                Change::Outbound(change) => drop(self.outbound.apply(change, now)),
            }
        }
        let Some(mtu) = self.link_mtu else {
            return;
        };
        while let Some((child, _)) = self.outbound.link_to_ask(now) {
            let answer = OutboundChange::LinkMtu(child, mtu);
            self.outbound.apply(answer, now);
        }
    }
}

impl Effect {
    /// None: what is driven through this has no agents that co-located nodes must register through,
    /// so that nobody waits for a keepalive.
    fn of_node(
        home_address: Ipv4Addr,
        output: mobile_node::Output,
        layer: &SecurityLayer,
    ) -> Option<Self> {
        Some(match output {
            mobile_node::Output::Send {
                from,
                to,
                ttl,
                payload,
                firewall: _,
            } => Self::Datagram {
                from: SocketAddrV4::new(from, PORT),
                to,
                ttl,
                is_direct: !layer.carries(from.into(), (*to.ip()).into()),
                payload,
            },
            mobile_node::Output::Solicit => Self::Solicit,
            mobile_node::Output::AnswerArp(answers) => Self::AnswerArp(home_address, answers),
            mobile_node::Output::State(state) => Self::State(state),
            mobile_node::Output::Denied(code) => Self::Denied(code),
            mobile_node::Output::Revoked => Self::Revoked,
            mobile_node::Output::WantsKeepalive => return None,
        })
    }

    fn of_home_agent(output: home_agent::Output) -> Option<Self> {
        match output {
            home_agent::Output::Send {
                from,
                to,
                is_at_home,
                payload,
                firewall: _,
            } => Some(Self::Datagram {
                from,
                to,
                ttl: None,
                is_direct: is_at_home,
                payload,
            }),
            home_agent::Output::Refused { why, .. } => Some(Self::Refused(why)),
            home_agent::Output::Tunnels { .. } | home_agent::Output::Unacknowledged { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
