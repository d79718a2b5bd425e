//! One mobile node, its home agent and two foreign agents in virtual time, joined by a network
//! that delays messages and may lose them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::{Seed, Stream};
use wire::mip4::{Message, PORT};

use crate::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
use crate::mip4::foreign_agent::{self, ForeignAgent, Mac};
use crate::mip4::home_agent::{self, HomeAgent};
use crate::mip4::identification::Clock;
use crate::mip4::mobile_node::{self, Attachment, MobileNode, State};
use crate::mip4::revocation::Policy;
use crate::mip4::tunnel::{ReverseTunnel, Tunnel, UdpWish};
use crate::sa::Encapsulation;
use crate::time::{Duration, Instant};

pub(super) const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
pub(super) const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
pub(super) const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
/// On the links of the foreign agents, and their care-of addresses.
pub(super) const AGENTS: [(Ipv4Addr, Ipv4Addr); 2] = [
    (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(203, 0, 113, 1)),
    (Ipv4Addr::new(10, 2, 0, 1), Ipv4Addr::new(203, 0, 113, 2)),
];
pub(super) const LIFETIME: u16 = 120;
pub(super) const SHARED: u32 = 0x3000;
pub(super) const OWN: u32 = 0x1000;
const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const KEY: &[u8] = b"0123456789abcdef";

/// To what the node is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Detached,
    Home,
    /// With an address of its own.
    Colocated(Ipv4Addr),
    /// On the link of this foreign agent.
    Agent(usize),
}

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    Udp {
        from: SocketAddrV4,
        to: SocketAddrV4,
        ttl: u8,
        /// Sent on this link, not routed.
        link: Option<Link>,
        payload: Vec<u8>,
    },
    Icmp {
        link: usize,
        from: Ipv4Addr,
        icmp: Vec<u8>,
    },
}

/// What the machines told their owners.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) changes: Vec<home_agent::Change>,
    pub(super) refused: Vec<home_agent::Refusal>,
    pub(super) refused_abroad: Vec<foreign_agent::Refusal>,
    pub(super) revoked: Vec<bool>,
    pub(super) informed: u32,
    pub(super) unacknowledged: u32,
    pub(super) node_revoked: u32,
    /// Revocations and acknowledgments that were sent, when and by whom.
    pub(super) revocations: Vec<(Instant, Packet)>,
}

pub(super) struct World {
    pub(super) node: MobileNode,
    pub(super) home: HomeAgent,
    pub(super) foreign: Vec<ForeignAgent>,
    pub(super) link: Link,
    pub(super) now: Instant,
    pub(super) seen: Seen,
    /// Messages that are lost, of 256.
    pub(super) loss: u32,
    /// Revocations and acknowledgments that are lost, of 256.
    pub(super) revocation_loss: u32,
    pub(super) random: Stream,
    policies: Policies,
    /// How far the clocks of home agent, foreign agents and node are ahead.
    ahead: [u64; 3],
    starts: u64,
    queue: BTreeMap<(Instant, u64), Packet>,
    count: u64,
}

/// Who takes part in revocation.
#[derive(Clone, Copy)]
pub(super) struct Policies {
    pub(super) home: Option<Policy>,
    pub(super) foreign: Option<Policy>,
    pub(super) node: bool,
}

pub(super) const INFORMS: Policy = Policy {
    has_inform: true,
    informs: true,
};
pub(super) const ALL: Policies = Policies {
    home: Some(INFORMS),
    foreign: Some(INFORMS),
    node: true,
};

pub(super) fn at(milliseconds: u64) -> Instant {
    Instant(0) + Duration::from_millis(milliseconds)
}

pub(super) fn association(spi: u32) -> Association {
    let replay = ReplayProtection::Timestamps;
    Association::new(spi, Algorithm::HmacMd5, replay, KEY).unwrap()
}

fn associations(spi: u32) -> Associations {
    Associations::new(vec![association(spi)]).unwrap()
}

fn clock(ahead: u64) -> Clock {
    Clock::new(Instant(0), Duration::from_secs(1_795_000_000 + ahead))
}

impl World {
    pub(super) fn new(policies: Policies, seed: u8) -> Self {
        let random = |name| Seed::new([seed; 32]).stream(name, 0);
        let node = mobile_node::Config {
            home_address: HOME,
            home_agent: HOME_AGENT,
            nai: None,
            aaa: None,
            associations: associations(OWN),
            foreign_agents: BTreeMap::new(),
            lifetime: LIFETIME,
            encapsulation: Encapsulation::IpInIp,
            is_reverse: true,
            encapsulates_delivery: false,
            wants_broadcasts: false,
            is_simultaneous: false,
            udp: UdpWish::Never,
            firewall: None,
            hears_revocations: policies.node,
            monitor: None,
        };
        let now = at(0);
        let agent = |number| {
            let random = Seed::new([seed; 32]).stream("foreign", number as u64);
            ForeignAgent::new(foreign_config(number, policies.foreign, 0), now, random)
        };
        Self {
            node: MobileNode::new(node, clock(0), random("node")),
            home: HomeAgent::new(home_config(policies.home), clock(0), now, random("home")),
            foreign: (0..AGENTS.len()).map(agent).collect(),
            link: Link::Detached,
            now,
            seen: Seen::default(),
            loss: 0,
            revocation_loss: 0,
            random: random("world"),
            policies,
            ahead: [0; 3],
            starts: 0,
            queue: BTreeMap::new(),
            count: 0,
        }
    }

    /// A node that came to a link ten seconds ago, and is registered.
    pub(super) fn registered(policies: Policies, link: Link) -> Self {
        let mut world = Self::new(policies, 1);
        world.go(link);
        world.run(Duration::from_secs(10));
        assert!(matches!(world.node.state(), State::Registered { .. }));
        world
    }

    pub(super) fn go(&mut self, link: Link) {
        self.link = link;
        let attachment = match link {
            Link::Detached => Attachment::Detached,
            Link::Home => Attachment::Home,
            Link::Colocated(address) => Attachment::Colocated(address),
            Link::Agent(_) => Attachment::Visiting,
        };
        self.node.attach(attachment, self.now);
    }

    /// The home agent starts anew, without bindings.
    pub(super) fn restart_home(&mut self) {
        self.starts += 1;
        let random = Seed::new([9; 32]).stream("home", self.starts);
        let config = home_config(self.policies.home);
        self.home = HomeAgent::new(config, clock(self.ahead[0]), self.now, random);
    }

    /// A foreign agent starts anew, without visitors.
    pub(super) fn restart_foreign(&mut self, number: usize) {
        self.starts += 1;
        let random = Seed::new([9; 32]).stream("foreign", self.starts);
        let config = foreign_config(number, self.policies.foreign, self.ahead[1]);
        self.foreign[number] = ForeignAgent::new(config, self.now, random);
    }

    /// The clock of the home agent (0), the foreign agents (1) or the node (2) is set.
    pub(super) fn set_clock(&mut self, whose: usize, ahead: u64) {
        self.ahead[whose] = ahead;
        match whose {
            0 => self.home.set_clock(clock(ahead)),
            1 => self
                .foreign
                .iter_mut()
                .for_each(|it| it.set_clock(clock(ahead))),
            _ => self.node.set_clock(clock(ahead)),
        }
    }

    pub(super) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.collect();
            let foreign = self.foreign.iter().map(|it| it.deadline());
            let due = [self.node.deadline(), self.home.deadline()];
            let due = due.into_iter().flatten().chain(foreign).map(|it| it.at);
            let arrival = self.queue.keys().next().map(|(at, _)| *at);
            let next = due.chain(arrival).min().expect("an advertisement");
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            while self
                .queue
                .keys()
                .next()
                .is_some_and(|key| key.0 <= self.now)
            {
                let (_, packet) = self.queue.pop_first().expect("one");
                self.deliver(packet);
            }
            self.home.handle_timeout(self.now);
            let now = self.now;
            self.foreign
                .iter_mut()
                .for_each(|it| it.handle_timeout(now));
            self.node.handle_timeout(self.now);
        }
        self.now = end;
    }

    pub(super) fn care_of(&self) -> Vec<Ipv4Addr> {
        let bindings = self.home.bindings(HOME);
        bindings.map(|it| it.tunnel.care_of).collect()
    }

    pub(super) fn tunnel(&self) -> Option<Tunnel> {
        match self.node.state() {
            State::Registered { tunnel, .. } => Some(tunnel),
            _ => None,
        }
    }

    /// Whether both ends of each tunnel know of it, and nobody else of another.
    pub(super) fn agrees(&self) -> bool {
        let tunnel = self.tunnel();
        let own: Vec<Ipv4Addr> = tunnel.iter().map(|it| it.care_of).collect();
        let visits = (0..AGENTS.len()).all(|number| {
            let is_here = own.contains(&AGENTS[number].1);
            self.foreign[number].visitors().count() == usize::from(is_here)
        });
        self.care_of() == own && visits
    }

    /// What an attacker sends.
    pub(super) fn inject(&mut self, packet: Packet) {
        self.deliver(packet);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.node.poll() {
            self.collect_node(output);
        }
        while let Some(output) = self.home.poll() {
            self.collect_home(output);
        }
        for number in 0..AGENTS.len() {
            while let Some(output) = self.foreign[number].poll() {
                self.collect_foreign(number, output);
            }
        }
    }

    fn collect_node(&mut self, output: mobile_node::Output) {
        match output {
            mobile_node::Output::Send {
                from,
                to,
                ttl,
                payload,
                ..
            } => self.send(Packet::Udp {
                from: SocketAddrV4::new(from, PORT),
                to,
                ttl: ttl.unwrap_or(64),
                link: Some(self.link),
                payload,
            }),
            mobile_node::Output::Solicit => {
                if let Link::Agent(number) = self.link {
                    self.foreign[number].solicited(MAC, self.now);
                }
            }
            mobile_node::Output::Revoked => self.seen.node_revoked += 1,
            _ => {}
        }
    }

    fn collect_home(&mut self, output: home_agent::Output) {
        match output {
            home_agent::Output::Send {
                from, to, payload, ..
            } => self.send(Packet::Udp {
                from,
                to,
                ttl: 64,
                link: None,
                payload,
            }),
            home_agent::Output::Tunnels { why, .. } => self.seen.changes.push(why),
            home_agent::Output::Refused { why, .. } => self.seen.refused.push(why),
            home_agent::Output::Unacknowledged { .. } => self.seen.unacknowledged += 1,
        }
    }

    fn collect_foreign(&mut self, number: usize, output: foreign_agent::Output) {
        use foreign_agent::Output;
        let from = AGENTS[number].0;
        match output {
            Output::Relay { from, to, payload } => self.send(Packet::Udp {
                from,
                to,
                ttl: 64,
                link: None,
                payload,
            }),
            Output::Reply { to, payload, .. } => self.send(Packet::Udp {
                from: SocketAddrV4::new(from, PORT),
                to,
                ttl: 64,
                link: Some(Link::Agent(number)),
                payload,
            }),
            Output::Advertise(icmp) => self.send(Packet::Icmp {
                link: number,
                from,
                icmp,
            }),
            Output::Inform { mac, to, icmp } => {
                assert_eq!(mac, MAC);
                // A node that solicits is answered too.
                self.seen.informed += u32::from(to == HOME);
                self.send(Packet::Icmp {
                    link: number,
                    from,
                    icmp,
                });
            }
            Output::Revoked {
                is_by_home_agent, ..
            } => self.seen.revoked.push(is_by_home_agent),
            Output::Unacknowledged { .. } => self.seen.unacknowledged += 1,
            Output::Refused { why, .. } => self.seen.refused_abroad.push(why),
            Output::Came(_) | Output::Left(_) => {}
        }
    }

    fn send(&mut self, packet: Packet) {
        let is_revocation = packet.is_revocation();
        if is_revocation {
            self.seen.revocations.push((self.now, packet.clone()));
        }
        let loss = match is_revocation {
            true => self.loss.max(self.revocation_loss),
            false => self.loss,
        };
        if self.random.u32() % 256 < loss {
            return;
        }
        let latency = Duration::from_millis(u64::from(10 + self.random.u32() % 30));
        self.count += 1;
        self.queue.insert((self.now + latency, self.count), packet);
    }

    fn deliver(&mut self, packet: Packet) {
        let now = self.now;
        match packet {
            Packet::Icmp { link, from, icmp } => {
                if self.link == Link::Agent(link) {
                    self.node.hear(from, &icmp, now);
                }
            }
            Packet::Udp {
                from,
                to,
                ttl,
                link,
                payload,
            } => self.deliver_udp(from, to, ttl, link, &payload),
        }
    }

    fn deliver_udp(
        &mut self,
        from: SocketAddrV4,
        to: SocketAddrV4,
        ttl: u8,
        link: Option<Link>,
        payload: &[u8],
    ) {
        let now = self.now;
        let is_agents = |it: &(Ipv4Addr, Ipv4Addr)| *to.ip() == it.0 || *to.ip() == it.1;
        let agent = AGENTS.iter().position(is_agents);
        if *to.ip() == HOME_AGENT {
            let datagram = home_agent::Datagram { from, to, payload };
            self.home.handle(datagram, now);
        } else if let Some(number) = agent {
            let is_on_link = link == Some(Link::Agent(number));
            let datagram = foreign_agent::Datagram {
                from,
                to,
                ttl,
                mac: is_on_link.then_some(MAC),
                payload,
            };
            self.foreign[number].handle(datagram, now);
        } else {
            let is_here = match self.link {
                Link::Colocated(address) => *to.ip() == address,
                Link::Home => *to.ip() == HOME,
                Link::Agent(_) => *to.ip() == HOME && link == Some(self.link),
                Link::Detached => false,
            };
            if is_here {
                self.node.handle(from, payload, now);
            }
        }
    }
}

impl Packet {
    fn is_revocation(&self) -> bool {
        let Self::Udp { payload, .. } = self else {
            return false;
        };
        matches!(
            Message::parse(payload),
            Ok((
                Message::Revocation(_) | Message::RevocationAcknowledgment(_),
                _
            ))
        )
    }
}

fn home_config(revocation: Option<Policy>) -> home_agent::Config {
    let client = home_agent::Client {
        home_address: HOME,
        nai: None,
        aaa: None,
        associations: associations(OWN),
    };
    let agents = AGENTS.map(|(_, care_of)| (care_of, associations(SHARED)));
    home_agent::Config {
        address: HOME_AGENT,
        prefix_len: 24,
        max_lifetime: LIFETIME,
        max_bindings: 1,
        encapsulations: [].into(),
        reverse_tunnel: ReverseTunnel::Allowed,
        udp_keepalive: None,
        allows_forced_udp: true,
        clients: vec![client],
        foreign_agents: agents.into(),
        outside: vec![],
        trusts_traversal: [].into(),
        trusted: Vec::new(),
        tunnelled: Vec::new(),
        revocation,
    }
}

fn foreign_config(number: usize, revocation: Option<Policy>, ahead: u64) -> foreign_agent::Config {
    let (address, care_of) = AGENTS[number];
    foreign_agent::Config {
        address,
        care_of,
        max_lifetime: LIFETIME,
        max_visitors: 8,
        encapsulations: [].into(),
        reverse_tunnel: ReverseTunnel::Allowed,
        is_required: false,
        challenges: false,
        advertised_lifetime: 9,
        mobile_nodes: BTreeMap::new(),
        aaa: BTreeMap::new(),
        home_agents: [(HOME_AGENT, associations(SHARED))].into(),
        relays_to: None,
        revocation,
        udp: UdpWish::Never,
        clock: clock(ahead),
    }
}
