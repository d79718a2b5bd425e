//! A foreign agent in virtual time, between a real mobile node and its real home agent.

use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Seed;
use wire::codec::Writer;
use wire::mip4::{
    AgentAdvertisement, AgentFlags, Authentication, Extension, Located, Message, PORT, Reply,
    Request, RequestFlags, extensions,
};

use super::*;
use crate::mip4::aaa::CHAP_SPI;
use crate::mip4::association::{Algorithm, Association, ReplayProtection};
use crate::mip4::home_agent::{self, HomeAgent};
use crate::mip4::identification::Clock;
use crate::mip4::mobile_node::{self, Attachment, MobileNode, State};
use crate::mip4::tunnel::UdpWish;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const OTHER_CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const NODE_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
const KEY: &[u8] = b"0123456789abcdef";

fn associations(spi: u32) -> Associations {
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(spi, Algorithm::HmacMd5, replay, KEY);
    Associations::new(vec![one.unwrap()]).unwrap()
}

fn config() -> Config {
    Config {
        address: ADDRESS,
        care_of: CARE_OF,
        max_lifetime: 120,
        max_visitors: 8,
        encapsulations: BTreeSet::new(),
        reverse_tunnel: ReverseTunnel::Allowed,
        is_required: false,
        challenges: false,
        advertised_lifetime: 30,
        mobile_nodes: BTreeMap::new(),
        aaa: BTreeMap::new(),
        home_agents: BTreeMap::new(),
        relays_to: None,
        revocation: None,
        udp: UdpWish::Never,
        clock: Clock::new(Instant(0), Duration::from_secs(1_795_000_000)),
    }
}

/// All associations that there can be, and challenges.
fn strict() -> Config {
    Config {
        challenges: true,
        mobile_nodes: [(HOME, associations(0x2000))].into(),
        home_agents: [(HOME_AGENT, associations(0x3000))].into(),
        ..config()
    }
}

fn at(milliseconds: u64) -> Instant {
    Instant(0) + Duration::from_millis(milliseconds)
}

/// A node on the agent's link, and its home agent elsewhere.
struct Trio {
    node: MobileNode,
    foreign: ForeignAgent,
    home: HomeAgent,
    now: Instant,
    refused: Vec<Refusal>,
    came: Vec<Visitor>,
    left: u32,
    revoked: Vec<Ipv4Addr>,
    /// Others than the node that were told of their end.
    informed: Vec<Mac>,
    /// What a NAT writes over the foreign agent's address.
    nat: Option<Ipv4Addr>,
    /// Whether the home agent hears anything.
    is_home_reachable: bool,
}

impl Trio {
    fn new(foreign: Config) -> Self {
        let is_shared = !foreign.home_agents.is_empty();
        let with_agent = !foreign.mobile_nodes.is_empty();
        let random = |name| Seed::new([5; 32]).stream(name, 0);
        let clock = Clock::new(Instant(0), Duration::from_secs(1_795_000_000));
        let aaa = foreign.aaa.get(&HOME).cloned();
        let client = home_agent::Client {
            home_address: HOME,
            nai: None,
            aaa: aaa.clone(),
            associations: associations(0x1000),
        };
        let home = home_agent::Config {
            address: HOME_AGENT,
            prefix_len: 24,
            max_lifetime: 600,
            max_bindings: 1,
            encapsulations: [Encapsulation::Gre].into(),
            reverse_tunnel: ReverseTunnel::Allowed,
            udp_keepalive: Some(60),
            allows_forced_udp: true,
            clients: vec![client],
            foreign_agents: match is_shared {
                true => [(CARE_OF, associations(0x3000))].into(),
                false => BTreeMap::new(),
            },
            outside: vec![],
            trusts_traversal: BTreeSet::new(),
            trusted: Vec::new(),
            tunnelled: Vec::new(),
            revocation: None,
        };
        let node = mobile_node::Config {
            home_address: HOME,
            home_agent: HOME_AGENT,
            nai: None,
            aaa,
            associations: associations(0x1000),
            foreign_agents: match with_agent {
                true => [(ADDRESS, associations(0x2000))].into(),
                false => BTreeMap::new(),
            },
            lifetime: 300,
            encapsulation: Encapsulation::IpInIp,
            is_reverse: true,
            encapsulates_delivery: true,
            wants_broadcasts: false,
            is_simultaneous: false,
            udp: UdpWish::Never,
            firewall: None,
            hears_revocations: false,
            monitor: None,
        };
        Self {
            node: MobileNode::new(node, clock, random("node")),
            foreign: ForeignAgent::new(foreign, Instant(0), random("foreign")),
            home: HomeAgent::new(home, clock, Instant(0), random("home")),
            now: Instant(0),
            refused: vec![],
            came: vec![],
            left: 0,
            revoked: vec![],
            informed: vec![],
            nat: None,
            is_home_reachable: true,
        }
    }

    fn run(&mut self, end: Instant) {
        loop {
            self.carry();
            let due = [self.node.deadline(), self.home.deadline()];
            let due = due.into_iter().flatten().chain([self.foreign.deadline()]);
            let next = due.map(|it| it.at).min().expect("an advertisement");
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.home.handle_timeout(self.now);
            self.foreign.handle_timeout(self.now);
            self.node.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Carries messages until nobody has one.
    fn carry(&mut self) {
        loop {
            if let Some(output) = self.node.poll() {
                self.carry_from_node(output);
            } else if let Some(output) = self.foreign.poll() {
                self.carry_from_foreign(output);
            } else if let Some(output) = self.home.poll() {
                if let home_agent::Output::Send {
                    from, to, payload, ..
                } = output
                {
                    self.now = self.now + Duration::from_millis(10);
                    let back = from_home(from, to, &payload);
                    self.foreign.handle(back, self.now);
                }
            } else {
                return;
            }
        }
    }

    fn carry_from_node(&mut self, output: mobile_node::Output) {
        match output {
            mobile_node::Output::Solicit => self.foreign.solicited(NODE_MAC, self.now),
            mobile_node::Output::Send {
                from,
                to,
                ttl,
                payload,
                ..
            } => {
                self.now = self.now + Duration::from_millis(1);
                let datagram = Datagram {
                    from: SocketAddrV4::new(from, 700),
                    to,
                    ttl: ttl.unwrap_or(64),
                    mac: Some(NODE_MAC),
                    payload: &payload,
                };
                self.foreign.handle(datagram, self.now);
            }
            _ => {}
        }
    }

    fn carry_from_foreign(&mut self, output: Output) {
        match output {
            Output::Relay { from, to, payload } if self.is_home_reachable => {
                self.now = self.now + Duration::from_millis(10);
                let payload = &payload;
                let from = match self.nat {
                    Some(nat) => SocketAddrV4::new(nat, 60_000),
                    None => from,
                };
                let datagram = home_agent::Datagram { from, to, payload };
                self.home.handle(datagram, self.now);
            }
            Output::Relay { .. } => {}
            Output::Reply { mac, to, payload } => {
                assert_eq!((mac, to), (NODE_MAC, SocketAddrV4::new(HOME, 700)));
                let from = SocketAddrV4::new(ADDRESS, PORT);
                self.node.handle(from, &payload, self.now);
            }
            Output::Advertise(icmp) => self.node.hear(ADDRESS, &icmp, self.now),
            Output::Came(visitor) => self.came.push(visitor),
            Output::Left(_) => self.left += 1,
            Output::Inform { mac, .. } if mac != NODE_MAC => self.informed.push(mac),
            Output::Inform { mac, to, icmp } => {
                assert_eq!((mac, to), (NODE_MAC, ALL_SYSTEMS), "it has solicited");
                self.node.hear(ADDRESS, &icmp, self.now);
            }
            Output::Revoked { home_address, .. } => self.revoked.push(home_address),
            Output::Unacknowledged { .. } => panic!("no revocation was agreed on"),
            Output::Refused { why, .. } => self.refused.push(why),
        }
    }
}

fn from_home(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Datagram<'_> {
    Datagram {
        from,
        to,
        ttl: 60,
        mac: None,
        payload,
    }
}

#[test]
fn a_visitor_comes_renews_and_leaves() {
    for config in [config(), strict()] {
        let mut trio = Trio::new(config);
        trio.node.attach(Attachment::Visiting, at(0));
        trio.run(at(5_000));
        assert_eq!(trio.refused, []);
        let visitor = Visitor {
            home_address: HOME,
            home_agent: HOME_AGENT,
            mac: NODE_MAC,
            encapsulation: Encapsulation::IpInIp,
            is_reverse: true,
            encapsulates_delivery: true,
            udp: None,
            keepalive: 0,
        };
        assert_eq!(trio.came, [visitor]);
        assert!(matches!(
            trio.node.state(),
            State::Registered {
                through: Some(ADDRESS),
                encapsulates_delivery: true,
                ..
            }
        ));
        // The advertised lifetime is 120 s: renewed each 90 s, for an hour.
        trio.run(at(3_600_000));
        assert_eq!((trio.refused.as_slice(), trio.left), (&[][..], 0));
        assert_eq!(trio.came.len(), 40);
        let bindings: Vec<Ipv4Addr> = trio
            .home
            .bindings(HOME)
            .map(|it| it.tunnel.care_of)
            .collect();
        assert_eq!(bindings, [CARE_OF]);
        trio.node.attach(Attachment::Detached, trio.now);
        trio.run(trio.now + Duration::from_secs(130));
        assert_eq!((trio.left, trio.foreign.visitors().count()), (1, 0));
    }
}

#[test]
fn a_home_agent_that_does_not_answer_leaves_nothing_behind() {
    let mut trio = Trio::new(config());
    trio.is_home_reachable = false;
    trio.node.attach(Attachment::Visiting, at(0));
    trio.run(at(20_000));
    assert!(!trio.foreign.pending.is_empty());
    trio.foreign
        .unreachable(HOME_AGENT, Code::HomeAgentPortUnreachable, trio.now);
    assert!(trio.foreign.pending.is_empty());
    trio.carry();
    assert_eq!(trio.node.ignored(), mobile_node::Ignored::default());
    trio.node.attach(Attachment::Detached, trio.now);
    trio.run(trio.now + Duration::from_secs(130));
    assert_eq!((trio.foreign.pending.len(), trio.came.len()), (0, 0));
}

/// The requests that a node sends on the link of an agent, which the tests below change.
fn request(config: Config) -> (Trio, Vec<u8>) {
    let mut trio = Trio::new(config);
    // Later than the home agent's start, before which it believes no timestamp.
    trio.now = at(5);
    trio.node.attach(Attachment::Visiting, trio.now);
    trio.foreign.handle_timeout(trio.now);
    while let Some(output) = trio.foreign.poll() {
        trio.carry_from_foreign(output);
    }
    loop {
        if let Some(mobile_node::Output::Send { payload, .. }) = trio.node.poll() {
            return (trio, payload);
        }
    }
}

fn tell(
    foreign: &mut ForeignAgent,
    mac: Mac,
    ttl: u8,
    payload: &[u8],
    now: Instant,
) -> Vec<Output> {
    let datagram = Datagram {
        from: SocketAddrV4::new(HOME, 700),
        to: SocketAddrV4::new(ADDRESS, PORT),
        ttl,
        mac: Some(mac),
        payload,
    };
    foreign.handle(datagram, now);
    std::iter::from_fn(|| foreign.poll()).collect()
}

fn code(outputs: &[Output]) -> Option<Code> {
    outputs.iter().find_map(|it| match it {
        Output::Reply { payload, .. } => match Message::parse(payload).unwrap().0 {
            Message::Reply(Reply { code, .. }) => Some(code),
            other => panic!("a reply, not {other:?}"),
        },
        _ => None,
    })
}

#[test]
fn what_an_agent_cannot_do_is_denied_with_its_code() {
    let (mut trio, good) = request(config());
    let mut denied = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut payload = good.clone();
        change(&mut payload);
        code(&tell(&mut trio.foreign, NODE_MAC, 255, &payload, at(1_000)))
    };
    let care_of = denied(&|it| it[12..16].copy_from_slice(&[192, 0, 2, 1]));
    assert_eq!(care_of, Some(Code::InvalidCareOfAddress));
    let lifetime = denied(&|it| it[2..4].copy_from_slice(&[1, 0]));
    assert_eq!(lifetime, Some(Code::LifetimeTooLong));
    let ours = denied(&|it| it[8..12].copy_from_slice(&ADDRESS.octets()));
    assert_eq!(ours, Some(Code::InvalidHomeAgentAddress));
    let nobody = denied(&|it| it[8..12].fill(255));
    assert_eq!(nobody, Some(Code::InvalidHomeAgentAddress));
    let loopback = denied(&|it| it[4..8].copy_from_slice(&[127, 0, 0, 1]));
    assert_eq!(loopback, Some(Code::ForeignBadRequest));
    let nameless = denied(&|it| it[4..8].fill(0));
    assert_eq!(nameless, Some(Code::MissingNai));
    let encapsulation = denied(&|it| it[1] |= 0x08);
    assert_eq!(encapsulation, Some(Code::ForeignEncapsulation));
    let delivery = denied(&|it| it[1] &= !0x02);
    assert_eq!(delivery, Some(Code::ForeignBadRequest));
    let bare = denied(&|it| it.truncate(24));
    assert_eq!(bare, Some(Code::ForeignBadRequest));
    assert_eq!(denied(&|_| {}), None);

    let (mut trio, good) = request(config());
    trio.foreign.config.max_visitors = 0;
    let full = code(&tell(&mut trio.foreign, NODE_MAC, 255, &good, at(1)));
    assert_eq!(full, Some(Code::ForeignResources));
}

/// RFC 3024 §4.1: told at most once a second.
#[test]
fn a_request_from_another_link_is_too_distant() {
    let (mut trio, good) = request(config());
    let mut told = |now| code(&tell(&mut trio.foreign, NODE_MAC, 64, &good, at(now)));
    assert_eq!(told(0), Some(Code::TooDistant));
    assert_eq!(told(999), None);
    assert_eq!(told(1_000), Some(Code::TooDistant));
}

#[test]
fn a_node_with_an_association_must_prove_itself() {
    let (mut trio, good) = request(strict());
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    let refused = code(&tell(&mut trio.foreign, NODE_MAC, 255, &damaged, at(0)));
    assert_eq!(refused, Some(Code::ForeignMobileAuthentication));
    // Its challenge may be answered until it is two advertisements old.
    for expected in [None, None, Some(Code::UnknownChallenge)] {
        assert_eq!(
            code(&tell(&mut trio.foreign, NODE_MAC, 255, &good, at(0))),
            expected
        );
        trio.foreign.handle_timeout(trio.foreign.advertiser.due());
        while trio.foreign.poll().is_some() {}
    }
}

/// What is relayed ends with the authenticator for the home agent, then has the agent's.
#[test]
fn extensions_for_the_agent_are_not_relayed() {
    let (mut trio, good) = request(strict());
    let outputs = tell(&mut trio.foreign, NODE_MAC, 255, &good, at(0));
    let [Output::Relay { from, payload, .. }] = outputs.as_slice() else {
        panic!("relayed, not {outputs:?}");
    };
    assert_eq!(*from, SocketAddrV4::new(CARE_OF, PORT));
    let list = extensions(payload, 24).unwrap();
    assert!(
        list.iter()
            .all(|it| matches!(it.extension, Extension::Authenticator(_)))
    );
    assert_eq!(list.len(), 2);
    let prefix = list[0].range.end;
    assert_eq!(payload[..prefix], good[..prefix]);
}

/// A neighbour that repeats a request does not get its reply, and cannot displace it.
#[test]
fn a_neighbour_cannot_take_a_request_over() {
    let (mut trio, good) = request(config());
    tell(&mut trio.foreign, NODE_MAC, 255, &good, at(0));
    let refused = tell(&mut trio.foreign, OTHER_MAC, 255, &good, at(1));
    assert_eq!(code(&refused), Some(Code::ForeignProhibited));
    let mut payload = good.clone();
    for number in 0..100 {
        payload[23] = number;
        payload[22] = 1;
        tell(&mut trio.foreign, OTHER_MAC, 255, &payload, at(2));
    }
    assert_eq!(trio.foreign.pending.len(), 1 + PENDING_EACH_MAX);
    assert!(trio.foreign.pending.values().any(|it| it.mac() == NODE_MAC));
    for number in 0..u32::try_from(2 * PENDING_MAX).unwrap() {
        let [_, b, c, d] = number.to_be_bytes();
        payload[21..24].copy_from_slice(&[b, c, d]);
        tell(
            &mut trio.foreign,
            Mac([4, 0, 0, b, c, d]),
            255,
            &payload,
            at(3),
        );
    }
    assert_eq!(trio.foreign.pending.len(), PENDING_MAX);
}

/// The accepted request once more, from a neighbour: the visitor's packets stay its own.
#[test]
fn a_neighbour_cannot_take_a_visit_over() {
    let (mut trio, good) = request(config());
    let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, at(1));
    for output in relayed {
        trio.carry_from_foreign(output);
    }
    trio.carry();
    assert_eq!(trio.came.len(), 1);
    let again = tell(&mut trio.foreign, OTHER_MAC, 255, &good, trio.now);
    assert_eq!(code(&again), Some(Code::ForeignProhibited));
    // Nor can he with a home agent of his own, which says yes to everything.
    let mut other = good.clone();
    other[8..12].copy_from_slice(&[192, 0, 2, 99]);
    other[20..24].fill(7);
    let refused = tell(&mut trio.foreign, OTHER_MAC, 255, &other, trio.now);
    assert_eq!(code(&refused), Some(Code::ForeignProhibited));
    assert!(trio.foreign.visitors().all(|it| it.mac == NODE_MAC));
}

/// A reply of the home agent, which anybody on the link can write.
fn reply(home_address: Ipv4Addr, lifetime: u16, identification: u64) -> Vec<u8> {
    let mut w = Writer::new();
    Reply {
        code: Code::Accepted,
        lifetime,
        home_address,
        home_agent: HOME_AGENT,
        identification,
    }
    .write(&mut w);
    associations(0x4000)
        .first()
        .sign(Authentication::MobileHome, &mut w);
    w.into_vec()
}

/// A new request, and an answer that bears the home agent's address.
fn answer_as_home_agent(trio: &mut Trio, mac: Mac, change: impl Fn(&mut Vec<u8>), good: &[u8]) {
    let mut request = good.to_vec();
    request[20..24].fill(7);
    change(&mut request);
    tell(&mut trio.foreign, mac, 255, &request, trio.now);
    let identification = u64::from_be_bytes(request[16..24].try_into().unwrap());
    let forged = reply(HOME, 100, identification);
    let ends = [HOME_AGENT, CARE_OF].map(|it| SocketAddrV4::new(it, PORT));
    let datagram = from_home(ends[0], ends[1], &forged);
    trio.foreign.handle(datagram, trio.now);
    while trio.foreign.poll().is_some() {}
}

/// Without keys nobody proves a reply, so a visit stays with its link-layer address.
#[test]
fn a_neighbour_who_writes_the_reply_himself_takes_no_visit_over() {
    let (mut trio, good) = request(config());
    let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, at(1));
    for output in relayed {
        trio.carry_from_foreign(output);
    }
    trio.carry();
    answer_as_home_agent(&mut trio, OTHER_MAC, |_| {}, &good);
    let ends: fn(&mut Vec<u8>) = |it| it[2..4].fill(0);
    answer_as_home_agent(&mut trio, OTHER_MAC, ends, &good);
    let macs: Vec<Mac> = trio.foreign.visitors().map(|it| it.mac).collect();
    assert_eq!(macs, [NODE_MAC]);
    // The node itself renews.
    answer_as_home_agent(&mut trio, NODE_MAC, |_| {}, &good);
    assert_eq!(trio.foreign.visitors().count(), 1);
}

/// A stranger has come first, with a home agent of his own: whoever proves itself takes its
/// address back.
#[test]
fn a_visit_that_nobody_has_proven_gives_way_to_one_that_is() {
    for keys in [
        Config {
            home_agents: strict().home_agents,
            ..config()
        },
        config(),
    ] {
        let is_proven = !keys.home_agents.is_empty();
        let (mut trio, good) = request(keys);
        let mut strange = good.clone();
        strange[8..12].copy_from_slice(&[192, 0, 2, 99]);
        tell(&mut trio.foreign, OTHER_MAC, 255, &strange, at(1));
        let identification = u64::from_be_bytes(good[16..24].try_into().unwrap());
        let yes = reply(HOME, 100, identification);
        let from = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 99), PORT);
        let to = SocketAddrV4::new(CARE_OF, PORT);
        trio.foreign.handle(from_home(from, to, &yes), at(2));
        while trio.foreign.poll().is_some() {}
        let macs = |trio: &Trio| -> Vec<Mac> { trio.foreign.visitors().map(|it| it.mac).collect() };
        assert_eq!(macs(&trio), [OTHER_MAC]);
        trio.now = at(5);
        let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, trio.now);
        for output in relayed {
            trio.carry_from_foreign(output);
        }
        trio.carry();
        let expected = if is_proven { NODE_MAC } else { OTHER_MAC };
        assert_eq!(macs(&trio), [expected]);
    }
}

/// A stranger asks for a node that he has made up, and answers as its home agent.
fn invent(trio: &mut Trio, number: u8, lifetime: u16, good: &[u8]) -> Option<Code> {
    let home = Ipv4Addr::new(10, 9, 9, number);
    let agent = Ipv4Addr::new(192, 0, 2, 99);
    let mut strange = good.to_vec();
    strange[4..8].copy_from_slice(&home.octets());
    strange[8..12].copy_from_slice(&agent.octets());
    let mac = Mac([4, 0, 0, 0, 0, number]);
    let refused = code(&tell(&mut trio.foreign, mac, 255, &strange, trio.now));
    let identification = u64::from_be_bytes(good[16..24].try_into().unwrap());
    let yes = reply(home, lifetime, identification);
    let ends = [agent, CARE_OF].map(|it| SocketAddrV4::new(it, PORT));
    trio.foreign
        .handle(from_home(ends[0], ends[1], &yes), trio.now);
    while trio.foreign.poll().is_some() {}
    refused
}

/// Whether the next advertisement says that nobody is taken.
fn says_busy(trio: &mut Trio) -> bool {
    trio.foreign.solicited(OTHER_MAC, trio.now);
    let told = std::iter::from_fn(|| trio.foreign.poll()).find_map(|it| match it {
        Output::Inform { icmp, .. } => AgentAdvertisement::parse(&icmp).unwrap(),
        _ => None,
    });
    told.expect("an advertisement")
        .agent
        .flags
        .has(AgentFlags::BUSY)
}

#[test]
fn made_up_visitors_do_not_shut_out_a_node_that_proves_itself() {
    let visitors = |trio: &Trio| -> Vec<Ipv4Addr> {
        trio.foreign.visitors().map(|it| it.home_address).collect()
    };
    let [early, late] = [1, 2].map(|number| Ipv4Addr::new(10, 9, 9, number));
    for keys in [strict().home_agents, BTreeMap::new()] {
        let has_keys = !keys.is_empty();
        let (mut trio, good) = request(Config {
            max_visitors: 2,
            home_agents: keys,
            ..config()
        });
        assert_eq!(invent(&mut trio, 1, 50, &good), None);
        assert_eq!(invent(&mut trio, 2, 100, &good), None);
        assert_eq!(visitors(&trio), [early, late]);
        assert_eq!(
            invent(&mut trio, 3, 100, &good),
            Some(Code::ForeignResources)
        );
        assert_eq!(says_busy(&mut trio), !has_keys);
        let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, trio.now);
        for output in relayed {
            trio.carry_from_foreign(output);
        }
        trio.carry();
        let expected = if has_keys {
            [late, HOME]
        } else {
            [early, late]
        };
        assert_eq!(visitors(&trio), expected);
        let ended = if has_keys { vec![early] } else { vec![] };
        assert_eq!((&trio.revoked, trio.informed.len()), (&ended, ended.len()));
    }
}

#[test]
fn a_proven_visit_is_nobodys_place() {
    let (mut trio, good) = request(Config {
        max_visitors: 1,
        home_agents: strict().home_agents,
        ..config()
    });
    let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, trio.now);
    for output in relayed {
        trio.carry_from_foreign(output);
    }
    trio.carry();
    assert!(says_busy(&mut trio));
    let mut other = good.clone();
    other[4..8].copy_from_slice(&[10, 9, 9, 1]);
    let refused = tell(&mut trio.foreign, OTHER_MAC, 255, &other, trio.now);
    assert_eq!(code(&refused), Some(Code::ForeignResources));
}

/// Link-layer addresses can be made up, too.
#[test]
fn requests_that_nobody_proves_push_out_none_that_its_node_has_proven() {
    let (mut trio, good) = request(Config {
        mobile_nodes: strict().mobile_nodes,
        ..config()
    });
    tell(&mut trio.foreign, NODE_MAC, 255, &good, at(0));
    let mut made_up = good.clone();
    made_up[4..8].copy_from_slice(&[10, 9, 9, 1]);
    for number in 0..u32::try_from(2 * PENDING_MAX).unwrap() {
        let [_, b, c, d] = number.to_be_bytes();
        made_up[21..24].copy_from_slice(&[b, c, d]);
        let mac = Mac([4, 0, 0, b, c, d]);
        tell(&mut trio.foreign, mac, 255, &made_up, at(1));
    }
    assert_eq!(trio.foreign.pending.len(), PENDING_MAX);
    assert!(trio.foreign.pending.values().any(|it| it.mac() == NODE_MAC));
    // Nor do those that bear its link-layer address.
    for number in 0..2 * PENDING_EACH_MAX as u8 {
        made_up[20..24].copy_from_slice(&[7, 7, 7, number]);
        tell(&mut trio.foreign, NODE_MAC, 255, &made_up, at(2));
    }
    assert!(trio.foreign.pending.values().any(Pending::is_proven));
}

/// Our own addresses, those of the link, those of home agents: their packets would go to a
/// stranger, or his would pass for theirs.
#[test]
fn an_address_of_this_place_is_no_home_address() {
    let (mut trio, good) = request(Config {
        home_agents: [(OTHER_CARE_OF, associations(0x3000))].into(),
        ..config()
    });
    let link = TrafficSelector::subnet(ADDRESS.into(), 24);
    let other = Ipv4Addr::new(172, 16, 0, 9);
    trio.foreign
        .set_local(vec![link, TrafficSelector::host(other.into())], at(0));
    let mut asked = |home: Ipv4Addr| {
        let mut payload = good.clone();
        payload[4..8].copy_from_slice(&home.octets());
        code(&tell(&mut trio.foreign, NODE_MAC, 255, &payload, at(1)))
    };
    for home in [
        ADDRESS,
        CARE_OF,
        Ipv4Addr::new(203, 0, 113, 99),
        other,
        OTHER_CARE_OF,
    ] {
        assert_eq!(asked(home), Some(Code::ForeignProhibited), "{home}");
    }
    assert_eq!(asked(HOME_AGENT), Some(Code::ForeignBadRequest));
    assert_eq!(asked(HOME), None);
}

#[test]
fn a_visitor_whose_address_this_host_gets_leaves() {
    let (mut trio, good) = request(config());
    let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, at(1));
    for output in relayed {
        trio.carry_from_foreign(output);
    }
    trio.carry();
    assert_eq!(trio.foreign.visitors().count(), 1);
    let taken = vec![TrafficSelector::subnet(HOME.into(), 24)];
    trio.foreign.set_local(taken, trio.now);
    let told: Vec<Output> = std::iter::from_fn(|| trio.foreign.poll()).collect();
    assert!(told.contains(&Output::Left(HOME)), "{told:?}");
    assert_eq!(trio.foreign.visitors().count(), 0);
}

#[test]
fn a_node_whose_address_this_host_gets_before_the_reply_does_not_come() {
    let (mut trio, good) = request(config());
    let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, at(1));
    let taken = vec![TrafficSelector::subnet(HOME.into(), 24)];
    trio.foreign.set_local(taken, trio.now);
    for output in relayed {
        trio.carry_from_foreign(output);
    }
    trio.carry();
    assert_eq!(trio.foreign.visitors().count(), 0);
}

#[test]
fn a_home_agent_that_is_not_named_is_refused() {
    let asked = |networks: Vec<TrafficSelector>| {
        let (mut trio, good) = request(Config {
            relays_to: Some(networks),
            ..config()
        });
        code(&tell(&mut trio.foreign, NODE_MAC, 255, &good, at(1)))
    };
    let near = TrafficSelector::subnet(HOME_AGENT.into(), 24);
    assert_eq!(asked(vec![near]), None);
    let far = TrafficSelector::subnet(OTHER_CARE_OF.into(), 24);
    assert_eq!(asked(vec![far]), Some(Code::ForeignProhibited));
}

/// A node without home address gets one from its home agent, but none that is protected here.
#[test]
fn a_reply_cannot_name_a_node_that_must_prove_itself() {
    for (named, is_allowed) in [
        (HOME, false),
        (ADDRESS, false),
        (Ipv4Addr::new(10, 9, 9, 9), true),
    ] {
        let mut trio = Trio::new(Config {
            challenges: false,
            home_agents: BTreeMap::new(),
            ..strict()
        });
        let mut w = Writer::new();
        Request {
            flags: RequestFlags(0),
            lifetime: 100,
            home_address: Ipv4Addr::UNSPECIFIED,
            home_agent: HOME_AGENT,
            care_of_address: CARE_OF,
            identification: 77,
        }
        .write(&mut w);
        Extension::Nai(b"x@y".to_vec()).write(&mut w);
        associations(0x1000)
            .first()
            .sign(Authentication::MobileHome, &mut w);
        let relayed = tell(&mut trio.foreign, OTHER_MAC, 64, w.as_slice(), at(1));
        assert!(matches!(relayed[0], Output::Relay { .. }));
        let mut w = Writer::new();
        Reply {
            code: Code::Accepted,
            lifetime: 100,
            home_address: named,
            home_agent: HOME_AGENT,
            identification: 77,
        }
        .write(&mut w);
        associations(0x1000)
            .first()
            .sign(Authentication::MobileHome, &mut w);
        let from = SocketAddrV4::new(HOME_AGENT, PORT);
        let to = SocketAddrV4::new(CARE_OF, PORT);
        trio.foreign
            .handle(from_home(from, to, w.as_slice()), at(2));
        let count = trio.foreign.visitors().count();
        assert_eq!(count, usize::from(is_allowed), "{named}");
    }
}

/// A node with an AAA key alone, as it registers here.
fn with_aaa(spi: u32) -> Config {
    let key = AaaKey::new(spi, Algorithm::HmacMd5, b"another key of 16").unwrap();
    Config {
        challenges: true,
        aaa: [(HOME, key)].into(),
        home_agents: [(HOME_AGENT, associations(0x3000))].into(),
        ..config()
    }
}

/// RFC 4721 §3.2: the home agent gets the challenge and what answers it, too.
#[test]
fn a_node_proves_its_aaa_key_to_both_agents() {
    for spi in [CHAP_SPI, 0x4000] {
        let mut trio = Trio::new(with_aaa(spi));
        trio.node.attach(Attachment::Visiting, at(0));
        trio.run(at(3_600_000));
        assert_eq!(trio.refused, []);
        assert_eq!(trio.came.len(), 40);
        // Without the agent in between, as in CHAP, whatever the key's number.
        trio.node
            .attach(Attachment::Colocated(OTHER_CARE_OF), trio.now);
        let Some(mobile_node::Output::Send { payload, .. }) =
            std::iter::from_fn(|| trio.node.poll())
                .find(|it| matches!(it, mobile_node::Output::Send { .. }))
        else {
            panic!("a request");
        };
        let list = extensions(&payload, 24).unwrap();
        let (last, rest) = list.split_last().unwrap();
        let is_chap = matches!(&last.extension, Extension::Authenticator(it)
            if it.spi == CHAP_SPI && it.between == Authentication::MobileAaa);
        assert!(is_chap, "{last:?}");
        assert!(
            !rest
                .iter()
                .any(|it| matches!(it.extension, Extension::Challenge(_)))
        );
    }
}

#[test]
fn a_wrong_aaa_key_is_told_by_code_and_a_bare_challenge_by_nothing() {
    for spi in [CHAP_SPI, 0x4000] {
        let (mut trio, good) = request(with_aaa(spi));
        let list = extensions(&good, 24).unwrap();
        let between = |one: &Located| one.between() == Some(Authentication::MobileAaa);
        let aaa = list.iter().find(|one| between(one)).unwrap().range.clone();
        let mut bare = good.clone();
        bare.drain(aaa.clone());
        let silent = tell(&mut trio.foreign, NODE_MAC, 255, &bare, at(0));
        assert!(matches!(
            silent.as_slice(),
            [Output::Refused {
                why: Refusal::UnprovenChallenge,
                ..
            }]
        ));
        // All that it covers, and itself.
        for octet in [1, aaa.start - 1, aaa.start + 4, aaa.end - 1] {
            let mut damaged = good.clone();
            damaged[octet] ^= 1;
            let told = code(&tell(&mut trio.foreign, NODE_MAC, 255, &damaged, at(0)));
            assert_eq!(told, Some(Code::ForeignAaaAuthentication), "{octet}");
        }
        // Twice is once too often.
        let mut twice = good[..aaa.end].to_vec();
        twice.extend_from_slice(&good[aaa.clone()]);
        let told = code(&tell(&mut trio.foreign, NODE_MAC, 255, &twice, at(0)));
        assert_eq!(told, Some(Code::ForeignAaaAuthentication));
        let relayed = tell(&mut trio.foreign, NODE_MAC, 255, &good, at(0));
        let [Output::Relay { payload, .. }] = relayed.as_slice() else {
            panic!("relayed, not {relayed:?}");
        };
        assert_eq!(payload[..aaa.end], good[..aaa.end]);
    }
}

/// RFC 4721 §2.1: a challenge is answered once. A node that comes back and solicits gets another.
#[test]
fn a_used_challenge_is_not_offered_to_who_solicits() {
    let mut trio = Trio::new(strict());
    trio.node.attach(Attachment::Visiting, at(0));
    trio.run(at(100));
    for second in 1..4 {
        trio.node.attach(Attachment::Detached, at(second * 1_500));
        trio.node.attach(Attachment::Visiting, at(second * 1_500));
        trio.run(at(second * 1_500 + 100));
        let state = trio.node.state();
        assert!(
            matches!(state, State::Registered { .. }),
            "{second}: {state:?}"
        );
    }
    assert_eq!(trio.refused, []);
}

/// RFC 4721 §9: all have heard the last two, however often somebody asks and answers.
#[test]
fn who_solicits_pushes_no_challenge_out_that_all_have_heard() {
    let (mut trio, _) = request(strict());
    let read = |icmp: &[u8]| AgentAdvertisement::parse(icmp).unwrap().unwrap().challenge;
    let advertiser = &mut trio.foreign.advertiser;
    let config = strict();
    let mut heard = vec![];
    for _ in 0..CHALLENGES {
        let now = advertiser.due();
        heard.extend(read(&advertiser.next(&config, false, now).unwrap()));
    }
    let other = Ipv4Addr::new(10, 18, 3, 99);
    let mut last = heard[1].clone();
    for second in 1..6 {
        advertiser.used(HOME, &last);
        let now = advertiser.due() + Duration::from_secs(second);
        let asked = advertiser.solicited(&config, false, now);
        let next = read(&asked.unwrap()).unwrap();
        assert_ne!(next, last);
        // It may be answered, and is stale for who has used it.
        assert_eq!(advertiser.check(HOME, &next), Ok(()));
        assert_eq!(advertiser.check(HOME, &last), Err(Code::StaleChallenge));
        for one in &heard {
            assert_eq!(advertiser.check(other, one), Ok(()));
        }
        last = next;
    }
}

/// As many as stay in the window.
const CHALLENGES: usize = 2;

#[test]
fn advertisements_are_spread_and_solicitations_are_answered_at_once_up_to_a_bound() {
    let random = Seed::new([5; 32]).stream("foreign", 0);
    let mut foreign = ForeignAgent::new(config(), Instant(0), random);
    let mut sequences = vec![];
    let mut answers = 0;
    let mut now = Instant(0);
    let mut advertised = |foreign: &mut ForeignAgent| {
        let mut to_all = 0;
        while let Some(output) = foreign.poll() {
            let icmp = match output {
                Output::Advertise(icmp) => {
                    to_all += 1;
                    icmp
                }
                Output::Inform { mac, to, icmp } => {
                    assert_eq!((mac, to), (NODE_MAC, ALL_SYSTEMS));
                    answers += 1;
                    icmp
                }
                _ => panic!("an advertisement"),
            };
            let read = AgentAdvertisement::parse(&icmp).unwrap().unwrap();
            assert!(read.agent.flags.has(AgentFlags::FOREIGN_AGENT));
            sequences.push(read.agent.sequence);
        }
        to_all
    };
    for _ in 0..10 {
        let due = foreign.deadline().at;
        assert!(due.since(now) <= Duration::from_secs(10));
        now = due;
        foreign.handle_timeout(now);
        assert_eq!(advertised(&mut foreign), 1);
    }
    // A thousand solicitations in 10 s.
    let mut to_all = 0;
    for _ in 0..1_000 {
        now = now + Duration::from_millis(10);
        foreign.solicited(NODE_MAC, now);
        to_all += advertised(&mut foreign);
    }
    assert!((9..=11).contains(&to_all), "{to_all}");
    assert!((79..=88).contains(&answers), "{answers}");
    assert!(sequences.iter().copied().eq(0..sequences.len() as u16));
}

/// RFC 3519 §4.5: an agent behind a NAT, whose address and port the home agent sees.
#[test]
fn the_tunnel_to_an_agent_behind_a_nat_is_in_udp() {
    let nat = Ipv4Addr::new(198, 51, 100, 1);
    for (udp, nat, expected) in [
        (UdpWish::BehindNat, Some(nat), Some(nat)),
        (UdpWish::BehindNat, None, None),
        (UdpWish::Always, None, Some(CARE_OF)),
        (UdpWish::Never, None, None),
    ] {
        let home_agents = [(HOME_AGENT, associations(0x3000))].into();
        let mut trio = Trio::new(Config {
            udp,
            home_agents,
            ..config()
        });
        trio.nat = nat;
        trio.node.attach(Attachment::Visiting, at(0));
        trio.run(at(5_000));
        let seen = trio.home.bindings(HOME).next().unwrap().tunnel.udp;
        assert_eq!(seen.map(|it| *it.ip()), expected, "{udp:?}");
        let home = expected.map(|_| SocketAddrV4::new(HOME_AGENT, PORT));
        let visitor = trio.came[0];
        let keepalive = if expected.is_some() { 60 } else { 0 };
        assert_eq!((visitor.udp, visitor.keepalive), (home, keepalive));
        // The node's own tunnel is none of that.
        assert!(
            matches!(trio.node.state(), State::Registered { tunnel, .. } if tunnel.udp.is_none())
        );
    }
}
