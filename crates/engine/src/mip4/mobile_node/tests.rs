//! A mobile node in virtual time: against its real home agent, and against agents that a test
//! plays.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Seed;
use wire::codec::Writer;
use wire::mip4::{
    AgentAdvertisement, AgentFlags, Authentication, Extension, Message, MobilityAgent, PORT, Reply,
    Request, RequestFlags, Router, extensions,
};

use super::agents::AGENTS_MAX;
use super::*;
use crate::mip4::association::{Algorithm, Association, ReplayProtection};
use crate::mip4::home_agent::{self, Datagram, HomeAgent};
use crate::mip4::tunnel::{KEEPALIVE_MIN, ReverseTunnel};
use crate::selector::TrafficSelector;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const AGENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const AGENT_CARE_OF: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const FIREWALL: Ipv4Addr = Ipv4Addr::new(192, 168, 4, 20);
const KEY: &[u8] = b"0123456789abcdef";

fn associations(replay: ReplayProtection) -> Associations {
    let one = Association::new(0x1000, Algorithm::HmacMd5, replay, KEY);
    Associations::new(vec![one.unwrap()]).unwrap()
}

fn config(replay: ReplayProtection) -> Config {
    Config {
        home_address: HOME,
        home_agent: HOME_AGENT,
        nai: None,
        aaa: None,
        associations: associations(replay),
        foreign_agents: BTreeMap::new(),
        lifetime: 300,
        encapsulation: Encapsulation::IpInIp,
        is_reverse: true,
        encapsulates_delivery: false,
        wants_broadcasts: false,
        is_simultaneous: false,
        udp: UdpWish::Never,
        firewall: None,
        hears_revocations: false,
        monitor: None,
    }
}

fn clock(ahead: u64) -> Clock {
    Clock::new(Instant(0), Duration::from_secs(1_795_000_000 + ahead))
}

fn at(milliseconds: u64) -> Instant {
    Instant(0) + Duration::from_millis(milliseconds)
}

fn node(config: Config) -> MobileNode {
    MobileNode::new(config, clock(0), Seed::new([2; 32]).stream("node", 0))
}

fn agent_config(replay: ReplayProtection, firewall: Option<Ipv4Addr>) -> home_agent::Config {
    let client = home_agent::Client {
        home_address: HOME,
        nai: None,
        aaa: None,
        associations: associations(replay),
    };
    home_agent::Config {
        address: HOME_AGENT,
        prefix_len: 24,
        max_lifetime: 600,
        max_bindings: 4,
        encapsulations: [].into(),
        reverse_tunnel: ReverseTunnel::Allowed,
        udp_keepalive: Some(110),
        allows_forced_udp: true,
        clients: vec![client],
        foreign_agents: BTreeMap::new(),
        outside: vec![],
        trusts_traversal: firewall.into_iter().collect(),
        trusted: Vec::new(),
        tunnelled: Vec::new(),
        revocation: None,
    }
}

fn home_agent(config: home_agent::Config) -> HomeAgent {
    let random = Seed::new([3; 32]).stream("home agent", 0);
    HomeAgent::new(config, clock(0), Instant(0), random)
}

fn drain(node: &mut MobileNode) -> Vec<Output> {
    std::iter::from_fn(|| node.poll()).collect()
}

/// What the node sent: source, destination and payload.
fn sent(outputs: &[Output]) -> Option<(Ipv4Addr, SocketAddrV4, Vec<u8>)> {
    outputs.iter().find_map(|it| match it {
        Output::Send {
            from, to, payload, ..
        } => Some((*from, *to, payload.clone())),
        _ => None,
    })
}

fn request_of(payload: &[u8]) -> Request {
    match Message::parse(payload).unwrap().0 {
        Message::Request(request) => request,
        other => panic!("a request, not {other:?}"),
    }
}

/// A node and its home agent; `loses` says which message is lost, in either direction.
struct Road {
    node: MobileNode,
    agent: HomeAgent,
    now: Instant,
    latency: Duration,
    /// What a NAT writes over the source.
    nat: Option<Ipv4Addr>,
    states: Vec<State>,
    requests: u32,
}

impl Road {
    fn new(config: Config) -> Self {
        let replay = config.associations.first().replay();
        Self {
            agent: home_agent(agent_config(
                replay,
                config.firewall.as_ref().map(|it| it.address),
            )),
            node: node(config),
            now: Instant(0),
            latency: Duration::from_millis(10),
            nat: None,
            states: vec![],
            requests: 0,
        }
    }

    /// Runs until `end`. Both machines' deadlines are kept.
    fn run(&mut self, end: Instant, mut loses: impl FnMut() -> bool) {
        loop {
            // An answer may lead to the next question at once.
            while let Some(output) = self.node.poll() {
                match output {
                    Output::State(state) => self.states.push(state),
                    Output::Send { from, payload, .. } if !loses() => {
                        self.requests += 1;
                        self.exchange(from, &payload, &mut loses);
                    }
                    _ => {}
                }
            }
            let due = [self.node.deadline(), self.agent.deadline()];
            let next = due.into_iter().flatten().map(|it| it.at).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                break;
            };
            self.now = self.now.max(next);
            self.agent.handle_timeout(self.now);
            self.node.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn exchange(&mut self, from: Ipv4Addr, payload: &[u8], loses: &mut impl FnMut() -> bool) {
        self.now = self.now + self.latency;
        let datagram = Datagram {
            from: SocketAddrV4::new(self.nat.unwrap_or(from), 5_000),
            to: SocketAddrV4::new(HOME_AGENT, PORT),
            payload,
        };
        self.agent.handle(datagram, self.now);
        while let Some(output) = self.agent.poll() {
            if let home_agent::Output::Send { from, payload, .. } = output
                && !loses()
            {
                self.now = self.now + self.latency;
                self.node.handle(from, &payload, self.now);
            }
        }
    }

    fn care_of(&self) -> Vec<Ipv4Addr> {
        let bindings = self.agent.bindings(HOME);
        bindings.map(|it| it.tunnel.care_of).collect()
    }
}

#[test]
fn a_node_registers_renews_and_goes_home() {
    for replay in [ReplayProtection::Timestamps, ReplayProtection::Nonces] {
        let mut road = Road::new(config(replay));
        road.node.attach(Attachment::Colocated(CARE_OF), at(0));
        road.run(at(5_000), || false);
        assert_eq!(road.care_of(), [CARE_OF]);
        assert!(matches!(
            road.node.state(),
            State::Registered { through: None, .. }
        ));
        let before = road.requests;
        // Three quarters of 300 s, for an hour.
        road.run(at(3_600_000), || false);
        assert_eq!(road.care_of(), [CARE_OF]);
        assert_eq!(road.requests - before, 15, "{replay:?}");
        assert_eq!(road.states.len(), 1);
        road.node.attach(Attachment::Home, road.now);
        road.run(at(3_601_000), || false);
        assert_eq!((road.node.state(), road.care_of()), (State::Home, vec![]));
        assert_eq!(road.node.deadline(), None);
    }
}

/// RFC 5944 §4.6: the order of ARP and request.
#[test]
fn arp_is_silent_before_the_request_away_and_answers_before_it_at_home() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Colocated(CARE_OF), at(0));
    let outputs = drain(&mut node);
    assert_eq!(outputs[0], Output::AnswerArp(false));
    assert!(matches!(
        outputs[1],
        Output::Send {
            from: CARE_OF,
            ttl: None,
            ..
        }
    ));
    node.attach(Attachment::Home, at(1_000));
    let outputs = drain(&mut node);
    assert_eq!(outputs[0], Output::AnswerArp(true));
    let (from, to, payload) = sent(&outputs).unwrap();
    assert_eq!((from, *to.ip()), (HOME, HOME_AGENT));
    let request = request_of(&payload);
    assert_eq!((request.lifetime, request.care_of_address), (0, HOME));
}

/// RFC 5944 §3.6.3.
#[test]
fn an_unanswered_request_is_repeated_later_and_later() {
    for replay in [ReplayProtection::Timestamps, ReplayProtection::Nonces] {
        let mut node = node(config(replay));
        node.attach(Attachment::Colocated(CARE_OF), at(0));
        let mut last = sent(&drain(&mut node)).unwrap().2;
        let mut before = at(0);
        for seconds in [1, 2, 4, 8, 16, 32, 64, 64] {
            let due = node.deadline().unwrap().at;
            assert_eq!(due.since(before), Duration::from_secs(seconds));
            before = due;
            node.handle_timeout(due);
            let payload = sent(&drain(&mut node)).unwrap().2;
            let is_same = replay == ReplayProtection::Nonces;
            assert_eq!(payload == last, is_same, "{replay:?}");
            last = payload;
        }
    }
}

#[test]
fn a_node_with_a_wrong_clock_is_served_after_one_refusal() {
    let mut road = Road::new(config(ReplayProtection::Timestamps));
    road.node.set_clock(clock(86_400));
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    road.run(at(10_000), || false);
    assert_eq!((road.requests, road.care_of()), (2, vec![CARE_OF]));
}

#[test]
fn behind_a_nat_the_tunnel_is_in_udp() {
    let mut road = Road::new(Config {
        udp: UdpWish::BehindNat,
        ..config(ReplayProtection::Timestamps)
    });
    let private = Ipv4Addr::new(172, 16, 0, 9);
    road.nat = Some(CARE_OF);
    road.node.attach(Attachment::Colocated(private), at(0));
    road.run(at(1_000), || false);
    let State::Registered {
        tunnel, keepalive, ..
    } = road.node.state()
    else {
        panic!("registered");
    };
    assert_eq!(keepalive, 110);
    assert_eq!(tunnel.udp, Some(SocketAddrV4::new(HOME_AGENT, PORT)));
    let seen = road.agent.bindings(HOME).next().unwrap().tunnel.udp;
    assert_eq!(seen, Some(SocketAddrV4::new(CARE_OF, 5_000)));
    // Without a NAT there is none.
    road.nat = None;
    road.node.attach(Attachment::Colocated(CARE_OF), road.now);
    road.run(at(3_000), || false);
    assert!(matches!(road.node.state(), State::Registered { tunnel, .. } if tunnel.udp.is_none()));
}

#[test]
fn forged_and_foreign_replies_are_ignored_and_counted() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Colocated(CARE_OF), at(0));
    let request = request_of(&sent(&drain(&mut node)).unwrap().2);
    let reply = |code, key: &[u8], identification| {
        let mut w = Writer::new();
        Reply {
            code,
            lifetime: 300,
            home_address: HOME,
            home_agent: HOME_AGENT,
            identification,
        }
        .write(&mut w);
        let replay = ReplayProtection::Timestamps;
        let one = Association::new(0x1000, Algorithm::HmacMd5, replay, key).unwrap();
        one.sign(Authentication::MobileHome, &mut w);
        w.into_vec()
    };
    let server = SocketAddrV4::new(HOME_AGENT, PORT);
    let right = request.identification;
    node.handle(server, &reply(Code::Accepted, b"wrong", right), at(1));
    // A foreign agent's denial needs no authenticator, but we have asked none.
    node.handle(server, &reply(Code::ForeignProhibited, KEY, right), at(1));
    node.handle(server, &reply(Code::Accepted, KEY, right ^ 1), at(1));
    let elsewhere = SocketAddrV4::new(AGENT, PORT);
    node.handle(elsewhere, &reply(Code::Accepted, KEY, right), at(1));
    node.handle(server, &[3, 0, 1], at(1));
    let expected = Ignored {
        malformed: 1,
        unexpected: 2,
        unauthenticated: 2,
        stale: 0,
        untrusted: 0,
    };
    assert_eq!(node.ignored(), expected);
    assert_eq!(
        (node.state(), drain(&mut node)),
        (State::Unreachable, vec![])
    );
    let good = reply(Code::Accepted, KEY, right);
    node.handle(server, &good, at(2));
    assert!(matches!(node.state(), State::Registered { .. }));
    node.handle(server, &good, at(3));
    assert_eq!(node.ignored().unexpected, 3);
}

#[test]
fn a_denied_node_says_so_and_tries_later_and_later() {
    let mut road = Road::new(Config {
        encapsulation: Encapsulation::Gre,
        ..config(ReplayProtection::Timestamps)
    });
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    road.run(at(600_000), || false);
    assert_eq!(
        (road.care_of(), road.node.state()),
        (vec![], State::Unreachable)
    );
    // At 0, 2, 6, 14, 30 and 62 s, then one more about every 64 s.
    assert!((13..=15).contains(&road.requests), "{}", road.requests);
}

/// An authentic reply of the home agent.
fn reply_with(code: Code, replay: ReplayProtection, identification: u64) -> Vec<u8> {
    let mut w = Writer::new();
    Reply {
        code,
        lifetime: 300,
        home_address: HOME,
        home_agent: HOME_AGENT,
        identification,
    }
    .write(&mut w);
    let shared = associations(replay);
    shared.first().sign(Authentication::MobileHome, &mut w);
    w.into_vec()
}

/// Whoever hears a request may get a copy denied, and pass that on before the true answer.
#[test]
fn a_denial_is_not_the_last_word() {
    let server = SocketAddrV4::new(HOME_AGENT, PORT);
    for replay in [ReplayProtection::Timestamps, ReplayProtection::Nonces] {
        for denial in [Code::HomeMobileAuthentication, Code::HomeProhibited] {
            let mut node = node(config(replay));
            node.attach(Attachment::Colocated(CARE_OF), at(0));
            let asked = request_of(&sent(&drain(&mut node)).unwrap().2).identification;
            for _ in 0..2 {
                node.handle(server, &reply_with(denial, replay, asked), at(1));
            }
            assert_eq!(drain(&mut node), [Output::Denied(denial)]);
            assert_eq!(node.ignored().unexpected, 1, "the second one");
            let answer = reply_with(Code::Accepted, replay, asked);
            node.handle(server, &answer, at(2));
            assert!(
                matches!(node.state(), State::Registered { .. }),
                "{denial:?}"
            );
            // It answers no other request.
            node.attach(Attachment::Home, at(3_500));
            drain(&mut node);
            node.handle(server, &answer, at(3_501));
            assert_eq!(node.state(), State::Unreachable);
        }
    }
}

/// Nothing proves the identification that such a denial echoes.
#[test]
fn a_denial_of_a_request_that_is_not_proven_teaches_nothing() {
    let server = SocketAddrV4::new(HOME_AGENT, PORT);
    let another = |identification: u64| identification ^ (0x0bad << 32);
    let mut node = node(config(ReplayProtection::Nonces));
    node.attach(Attachment::Colocated(CARE_OF), at(0));
    let asked = request_of(&sent(&drain(&mut node)).unwrap().2).identification;
    let replay = ReplayProtection::Nonces;
    let denial = reply_with(Code::HomeMobileAuthentication, replay, another(asked));
    node.handle(server, &denial, at(1));
    // The true answer may be a denial, too: of a wrong nonce.
    let due = node.deadline().unwrap().at;
    node.handle_timeout(due);
    let again = request_of(&sent(&drain(&mut node)).unwrap().2).identification;
    assert_eq!(again >> 32, asked >> 32);
    let denial = reply_with(Code::HomeMobileAuthentication, replay, another(again));
    node.handle(server, &denial, due);
    let low = again & 0xffff_ffff;
    let truth = reply_with(Code::IdentificationMismatch, replay, 0x600d << 32 | low);
    node.handle(server, &truth, due);
    node.handle_timeout(node.deadline().unwrap().at);
    let last = request_of(&sent(&drain(&mut node)).unwrap().2).identification;
    assert_eq!(last >> 32, 0x600d);
}

fn advertisement(sequence: u16, flags: u16) -> AgentAdvertisement {
    AgentAdvertisement {
        routes_common_traffic: true,
        lifetime: 30,
        routers: vec![Router {
            address: AGENT,
            preference: 0,
            prefix_len: None,
        }],
        agent: MobilityAgent {
            sequence,
            registration_lifetime: 120,
            flags: AgentFlags(flags),
            care_of_addresses: vec![AGENT_CARE_OF],
        },
        challenge: Some(vec![9; 4]),
    }
}

const FOREIGN: u16 = AgentFlags::FOREIGN_AGENT | AgentFlags::REVERSE_TUNNEL;

#[test]
fn a_visiting_node_solicits_and_registers_through_the_agent_that_answers() {
    let mut node = node(Config {
        encapsulates_delivery: true,
        foreign_agents: [(AGENT, associations(ReplayProtection::Timestamps))].into(),
        ..config(ReplayProtection::Timestamps)
    });
    node.attach(Attachment::Visiting, at(0));
    assert_eq!(drain(&mut node), [Output::AnswerArp(false)]);
    // Switches open their ports a moment after the link is up.
    let first = node.deadline().unwrap().at;
    assert!((at(2)..=at(4)).contains(&first), "{first:?}");
    for _ in 0..4 {
        node.handle_timeout(node.deadline().unwrap().at);
        assert_eq!(drain(&mut node), [Output::Solicit]);
    }
    let now = node.deadline().unwrap().at;
    let busy = advertisement(0, FOREIGN | AgentFlags::BUSY);
    node.hear(AGENT, &busy.to_icmp(), now);
    assert_eq!(drain(&mut node), []);
    node.hear(AGENT, &advertisement(1, FOREIGN).to_icmp(), now);
    let outputs = drain(&mut node);
    assert!(matches!(
        outputs[0],
        Output::Send {
            ttl: Some(255),
            from: HOME,
            ..
        }
    ));
    let (_, to, payload) = sent(&outputs).unwrap();
    assert_eq!(to, SocketAddrV4::new(AGENT, PORT));
    let request = request_of(&payload);
    assert_eq!(
        (request.care_of_address, request.lifetime),
        (AGENT_CARE_OF, 120)
    );
    assert!(!request.flags.has(RequestFlags::DECAPSULATES));
    let kinds: Vec<String> = extensions(&payload, 24)
        .unwrap()
        .iter()
        .map(|it| match &it.extension {
            Extension::Authenticator(one) => format!("{:?}", one.between),
            other => format!("{other:?}"),
        })
        .collect();
    let expected = [
        "MobileHome",
        "Challenge([9, 9, 9, 9])",
        "EncapsulatingDelivery",
        "MobileForeign",
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_restarted_or_silent_agent_is_noticed() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Visiting, at(0));
    node.hear(AGENT, &advertisement(300, FOREIGN).to_icmp(), at(10));
    let request = request_of(&sent(&drain(&mut node)).unwrap().2);
    let mut w = Writer::new();
    Reply {
        code: Code::Accepted,
        lifetime: 120,
        home_address: HOME,
        home_agent: HOME_AGENT,
        identification: request.identification,
    }
    .write(&mut w);
    let shared = associations(ReplayProtection::Timestamps);
    shared.first().sign(Authentication::MobileHome, &mut w);
    node.handle(SocketAddrV4::new(AGENT, PORT), w.as_slice(), at(15));
    drain(&mut node);
    // After 65535 comes 256: no restart.
    node.hear(AGENT, &advertisement(256, FOREIGN).to_icmp(), at(20));
    assert_eq!(sent(&drain(&mut node)), None);
    node.hear(AGENT, &advertisement(0, FOREIGN).to_icmp(), at(30));
    assert_eq!(sent(&drain(&mut node)), None);
    // A second after the last request.
    assert_eq!(node.deadline().unwrap().at, at(1_010));
    node.handle_timeout(at(1_010));
    assert!(sent(&drain(&mut node)).is_some());
    node.handle_timeout(at(30_030));
    node.handle_timeout(node.deadline().unwrap().at);
    let outputs = drain(&mut node);
    assert!(outputs.contains(&Output::Solicit), "{outputs:?}");
}

#[test]
fn a_node_that_slept_longer_than_its_lifetime_registers_again() {
    let mut road = Road::new(config(ReplayProtection::Timestamps));
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    road.run(at(1_000), || false);
    drain(&mut road.node);
    road.node.handle_timeout(at(400_000));
    let outputs = drain(&mut road.node);
    assert_eq!(outputs[0], Output::State(State::Unreachable));
    assert!(sent(&outputs).is_some());
}

/// A lifetime of zero would deregister.
#[test]
fn an_agent_that_grants_no_time_is_not_asked() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Visiting, at(0));
    let mut none = advertisement(1, FOREIGN);
    none.agent.registration_lifetime = 0;
    node.hear(AGENT, &none.to_icmp(), at(10));
    assert_eq!(sent(&drain(&mut node)), None);
    node.hear(AGENT, &advertisement(2, FOREIGN).to_icmp(), at(20));
    node.hear(AGENT, &none.to_icmp(), at(30));
    drain(&mut node);
    node.handle_timeout(node.deadline().unwrap().at);
    assert_eq!(request_of(&sent(&drain(&mut node)).unwrap().2).lifetime, 1);
}

/// Anybody can advertise, for as long as he likes, at the lowest address.
#[test]
fn an_agent_through_which_nothing_comes_back_is_given_up_where_there_is_another() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Visiting, at(0));
    let mut forever = advertisement(1, FOREIGN);
    forever.lifetime = u16::MAX;
    let [first, second] = [[1, 0, 0, 1].into(), [1, 0, 0, 2].into()];
    node.hear(first, &forever.to_icmp(), at(0));
    let mut asked = Vec::new();
    let mut ask = |node: &mut MobileNode, now| {
        let outputs = drain(node);
        asked.extend(sent(&outputs).map(|(_, to, _)| (now, *to.ip())));
    };
    ask(&mut node, at(0));
    // Alone, it is asked later and later.
    while node.deadline().expect("one").at < at(14_000) {
        let now = node.deadline().expect("one").at;
        node.handle_timeout(now);
        ask(&mut node, now);
    }
    // Others are heard: one after the other, until something comes back.
    node.hear(second, &forever.to_icmp(), at(14_000));
    ask(&mut node, at(14_000));
    node.hear(AGENT, &advertisement(1, FOREIGN).to_icmp(), at(14_000));
    while node.deadline().expect("one").at < at(36_000) {
        let now = node.deadline().expect("one").at;
        node.handle_timeout(now);
        ask(&mut node, now);
    }
    let seconds = [0, 1, 3, 7, 14, 15, 17, 21, 22, 24, 28, 29, 31, 35];
    let turns = [(first, 4), (second, 3), (AGENT, 3), (first, 3), (second, 1)];
    let agents = turns
        .into_iter()
        .flat_map(|(agent, count)| vec![agent; count]);
    let seconds = seconds.map(|it| at(it * 1_000)).into_iter();
    let expected: Vec<_> = seconds.zip(agents).collect();
    assert_eq!(asked, expected);
}

/// Where an agent asks for it, a node with an address goes through it, and back if nothing comes.
#[test]
fn an_agent_that_asks_for_registrations_and_is_silent_keeps_no_node_with_an_address() {
    let mut road = Road::new(config(ReplayProtection::Timestamps));
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    road.run(at(1_000), || false);
    let node = &mut road.node;
    let mut required = advertisement(1, FOREIGN | AgentFlags::REGISTRATION_REQUIRED);
    required.lifetime = u16::MAX;
    node.hear(AGENT, &required.to_icmp(), at(2_000));
    assert_eq!(node.through(), Some(AGENT));
    let mut targets = Vec::new();
    for second in 2..12 {
        node.handle_timeout(at(second * 1_000));
        node.hear(AGENT, &required.to_icmp(), at(second * 1_000));
        targets.extend(sent(&drain(node)).map(|(_, to, _)| *to.ip()));
    }
    let expected = [AGENT, AGENT, AGENT, HOME_AGENT, HOME_AGENT];
    assert_eq!(targets, expected);
    assert_eq!(node.through(), None);
}

/// Sixteen that are forged and never heard again make room for one that is.
#[test]
fn an_agent_that_is_heard_has_a_place_among_many() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Visiting, at(0));
    let mut forever = advertisement(1, FOREIGN);
    forever.lifetime = u16::MAX;
    for last in 0..AGENTS_MAX as u8 {
        node.hear([1, 0, 0, last].into(), &forever.to_icmp(), at(last.into()));
    }
    node.hear(AGENT, &advertisement(1, FOREIGN).to_icmp(), at(1_000));
    let mut asked = BTreeSet::new();
    for second in 1..=7 * (AGENTS_MAX as u64 + 1) {
        node.handle_timeout(at(second * 1_000));
        node.hear(
            AGENT,
            &advertisement(1, FOREIGN).to_icmp(),
            at(second * 1_000),
        );
        asked.extend(sent(&drain(&mut node)).map(|(_, to, _)| *to.ip()));
    }
    assert!(
        asked.contains(&AGENT) && asked.len() == AGENTS_MAX,
        "{asked:?}"
    );
}

/// Whoever advertises on the link, in whatever order: a request a second at most.
#[test]
fn advertisements_cannot_hurry_requests() {
    let mut random = Seed::new([6; 32]).stream("advertisements", 0);
    for attachment in [Attachment::Visiting, Attachment::Colocated(CARE_OF)] {
        let mut node = node(config(ReplayProtection::Timestamps));
        node.attach(attachment, at(0));
        let mut requests = 0;
        for step in 0..10_000 {
            let required = AgentFlags::REGISTRATION_REQUIRED * (random.u32() % 2) as u16;
            let busy = AgentFlags::BUSY * (random.u32() % 2) as u16;
            let sequence = (random.u32() % 20) as u16;
            let icmp = advertisement(sequence, FOREIGN | required | busy).to_icmp();
            node.hear(AGENT, &icmp, at(step));
            node.handle_timeout(at(step));
            let outputs = drain(&mut node);
            requests += outputs
                .iter()
                .filter(|it| matches!(it, Output::Send { .. }))
                .count();
        }
        assert!(requests <= 12, "{requests}");
    }
}

#[test]
fn hearing_the_home_agent_means_home() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Visiting, at(0));
    drain(&mut node);
    let mut home = advertisement(5, AgentFlags::HOME_AGENT);
    home.agent.care_of_addresses.clear();
    // Another's home agent is not ours.
    node.hear(AGENT, &home.to_icmp(), at(5));
    assert_eq!(sent(&drain(&mut node)), None);
    node.hear(HOME_AGENT, &home.to_icmp(), at(10));
    let (from, to, payload) = sent(&drain(&mut node)).unwrap();
    assert_eq!(
        (from, *to.ip(), request_of(&payload).lifetime),
        (HOME, HOME_AGENT, 0)
    );
}

#[test]
fn a_flood_of_agents_is_bounded() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.attach(Attachment::Visiting, at(0));
    let icmp = advertisement(1, FOREIGN | AgentFlags::BUSY).to_icmp();
    for number in 0..10_000u32 {
        let from = Ipv4Addr::from_bits(AGENT.to_bits() + number);
        node.hear(from, &icmp, at(1));
    }
    drain(&mut node);
    assert_eq!(node.agents.count(), agents::AGENTS_MAX);
}

/// Moves, losses, clock jumps and restarts of the home agent from a seed. After a quiet time both
/// sides agree, and never does the home agent bind an address that the node never had.
#[test]
fn a_storm_ends_in_agreement() {
    for seed in 0..20 {
        let mut random = Seed::new([seed; 32]).stream("storm", 0);
        let replay = match seed % 2 {
            0 => ReplayProtection::Timestamps,
            _ => ReplayProtection::Nonces,
        };
        let mut road = Road::new(config(replay));
        let mut had = vec![];
        for _ in 0..60 {
            let care_of = Ipv4Addr::from_bits(CARE_OF.to_bits() + random.u32() % 9);
            match random.u32() % 8 {
                0 => road.node.attach(Attachment::Home, road.now),
                1 => road.node.attach(Attachment::Detached, road.now),
                2 => road
                    .node
                    .set_clock(clock(u64::from(random.u32() % 100_000))),
                3 => {
                    road.agent = home_agent(agent_config(replay, None));
                }
                _ => {
                    had.push(care_of);
                    road.node.attach(Attachment::Colocated(care_of), road.now);
                }
            }
            let end = road.now + Duration::from_millis(u64::from(random.u32() % 90_000));
            road.run(end, || random.u32().is_multiple_of(3));
            assert!(road.care_of().iter().all(|it| had.contains(it)));
        }
        // A restarted agent is heard of at the next renewal.
        road.node.attach(Attachment::Colocated(CARE_OF), road.now);
        road.run(road.now + Duration::from_secs(600), || false);
        assert_eq!(road.care_of(), [CARE_OF], "seed {seed}");
        assert!(matches!(road.node.state(), State::Registered { .. }));
        road.node.attach(Attachment::Home, road.now);
        road.run(road.now + Duration::from_secs(200), || false);
        assert_eq!((road.care_of(), road.node.state()), (vec![], State::Home));
    }
}

#[test]
fn a_node_outside_names_its_firewall_as_its_rules_or_its_user_say() {
    let inside = Ipv4Addr::new(10, 20, 0, 9);
    let mut road = Road::new(Config {
        firewall: Some(HomeFirewall {
            address: FIREWALL,
            inside: vec![TrafficSelector::subnet(inside.into(), 8)],
        }),
        ..config(ReplayProtection::Timestamps)
    });
    let mut expect = |move_node: &dyn Fn(&mut MobileNode, Instant), care_of, firewall| {
        move_node(&mut road.node, road.now);
        road.run(road.now + Duration::from_secs(2), || false);
        let State::Registered { tunnel, .. } = road.node.state() else {
            panic!("registered");
        };
        assert_eq!((tunnel.care_of, tunnel.firewall), (care_of, firewall));
        let bound = road.agent.bindings(HOME).next().unwrap().tunnel;
        assert_eq!((bound.care_of, bound.firewall), (care_of, firewall));
        assert_eq!(road.node.is_outside(care_of), firewall.is_some());
        road.requests
    };
    let attach = |address| {
        move |node: &mut MobileNode, now| node.attach(Attachment::Colocated(address), now)
    };
    let say = |side| move |node: &mut MobileNode, now| node.set_side(side, now);
    expect(&attach(CARE_OF), CARE_OF, Some(FIREWALL));
    expect(&attach(inside), inside, None);
    let before = expect(&say(Side::Outside), inside, Some(FIREWALL));
    // What changes nothing asks nothing.
    expect(&say(Side::Outside), inside, Some(FIREWALL));
    assert_eq!(expect(&say(Side::Outside), inside, Some(FIREWALL)), before);
    expect(&attach(CARE_OF), CARE_OF, Some(FIREWALL));
    expect(&say(Side::Inside), CARE_OF, None);
    expect(&say(Side::ByAddress), CARE_OF, Some(FIREWALL));
}

#[test]
fn a_node_at_home_has_no_firewall_before_it() {
    let mut node = node(Config {
        firewall: Some(HomeFirewall {
            address: FIREWALL,
            inside: vec![],
        }),
        ..config(ReplayProtection::Timestamps)
    });
    node.attach(Attachment::Colocated(CARE_OF), at(0));
    let is_through = |outputs: &[Output]| {
        outputs.iter().any(|it| {
            let firewall = Some(FIREWALL);
            matches!(it, Output::Send { firewall: it, .. } if *it == firewall)
        })
    };
    assert!(is_through(&drain(&mut node)));
    node.attach(Attachment::Home, at(1_000));
    let outputs = drain(&mut node);
    let payload = sent(&outputs).unwrap().2;
    assert!(!is_through(&outputs));
    let list = extensions(&payload, 24).unwrap();
    assert!(matches!(list[0].extension, Extension::Authenticator(_)));
}

/// RFC 3519 §4.4: through an agent only if it offers tunnels in UDP, and then says so.
#[test]
fn a_udp_tunnel_is_asked_for_through_an_agent_that_offers_it() {
    for offers in [false, true] {
        let mut node = node(Config {
            udp: UdpWish::BehindNat,
            ..config(ReplayProtection::Timestamps)
        });
        node.attach(Attachment::Colocated(CARE_OF), at(0));
        drain(&mut node);
        let offer = AgentFlags::UDP_TUNNEL * u16::from(offers);
        let flags = FOREIGN | AgentFlags::REGISTRATION_REQUIRED | offer;
        node.hear(AGENT, &advertisement(1, flags).to_icmp(), at(2_000));
        let payload = sent(&drain(&mut node)).unwrap().2;
        let list = extensions(&payload, 24).unwrap();
        let asked = list.iter().find_map(|it| match it.extension {
            Extension::UdpTunnelRequest(request) => Some(request.is_through_foreign_agent),
            _ => None,
        });
        assert_eq!(asked, offers.then_some(true));
    }
}

/// RFC 3519 §4.4: after each registration, because the home agent waits for the port each time.
#[test]
fn a_keepalive_is_wanted_at_once_of_a_tunnel_through_an_agent() {
    for (agent, grants, wants) in [(true, true, 1), (true, false, 0), (false, true, 0)] {
        let mut node = node(Config {
            udp: UdpWish::BehindNat,
            ..config(ReplayProtection::Timestamps)
        });
        node.attach(Attachment::Colocated(CARE_OF), at(0));
        if agent {
            drain(&mut node);
            let flags = FOREIGN | AgentFlags::REGISTRATION_REQUIRED | AgentFlags::UDP_TUNNEL;
            node.hear(AGENT, &advertisement(1, flags).to_icmp(), at(2_000));
        }
        let from = if agent { AGENT } else { HOME_AGENT };
        for second in [3_000, 9_000] {
            let payload = sent(&drain(&mut node)).expect("a request").2;
            let request = request_of(&payload);
            let mut w = Writer::new();
            accepted(&request).write(&mut w);
            let reply = wire::mip4::UdpTunnelReply {
                code: if grants { 0 } else { 64 },
                is_forced: false,
                // Less than the minimum.
                keepalive: 3,
            };
            Extension::UdpTunnelReply(reply).write(&mut w);
            let shared = associations(ReplayProtection::Timestamps);
            shared.first().sign(Authentication::MobileHome, &mut w);
            let now = at(second);
            node.handle(SocketAddrV4::new(from, PORT), w.as_slice(), now);
            let outputs = drain(&mut node);
            let wanted = outputs.iter().filter(|it| **it == Output::WantsKeepalive);
            assert_eq!(wanted.count(), wants, "{agent} {grants} {second}");
            let least = if grants { KEEPALIVE_MIN } else { 0 };
            let state = node.state();
            assert!(matches!(state, State::Registered { keepalive, .. } if keepalive == least));
            node.renew(now);
        }
    }
}

/// RFC 5944 §3.6.3: a request a second at most, even if the home agent grants hardly any time.
#[test]
fn a_registration_without_time_is_none_and_a_short_one_is_not_hurried() {
    for (lifetime, longest) in [(0, 12), (1, 61)] {
        let mut node = node(config(ReplayProtection::Timestamps));
        node.attach(Attachment::Colocated(CARE_OF), at(0));
        let mut requests = 0;
        let mut now = at(0);
        while now < at(60_000) {
            if let Some((_, _, payload)) = sent(&drain(&mut node)) {
                requests += 1;
                let mut w = Writer::new();
                Reply {
                    code: Code::Accepted,
                    lifetime,
                    home_address: HOME,
                    home_agent: HOME_AGENT,
                    identification: request_of(&payload).identification,
                }
                .write(&mut w);
                let shared = associations(ReplayProtection::Timestamps);
                shared.first().sign(Authentication::MobileHome, &mut w);
                now = now + Duration::from_millis(5);
                node.handle(SocketAddrV4::new(HOME_AGENT, PORT), w.as_slice(), now);
                let is_registered = matches!(node.state(), State::Registered { .. });
                assert_eq!(is_registered, lifetime > 0);
            }
            now = now.max(node.deadline().expect("a next request").at);
            node.handle_timeout(now);
        }
        assert!((4..=longest).contains(&requests), "{requests}");
    }
}

#[test]
fn a_node_that_ends_takes_its_bindings_back() {
    for replay in [ReplayProtection::Timestamps, ReplayProtection::Nonces] {
        let mut road = Road::new(config(replay));
        road.node.attach(Attachment::Colocated(CARE_OF), at(0));
        road.run(at(5_000), || false);
        road.node.leave(road.now);
        assert!(road.node.is_leaving());
        let mut lost = 1;
        let loses_first = || core::mem::replace(&mut lost, 0) == 1;
        road.run(at(9_000), loses_first);
        assert!(!road.node.is_leaving());
        assert_eq!(
            (road.node.state(), road.care_of()),
            (State::Unreachable, vec![])
        );
        assert_eq!(road.node.deadline(), None, "{replay:?}");
    }
    let mut nowhere = node(config(ReplayProtection::Timestamps));
    nowhere.leave(at(0));
    assert!(!nowhere.is_leaving() && drain(&mut nowhere).is_empty());
}

/// RFC 3519 §4.10.
#[test]
fn a_silent_tunnel_is_registered_anew_and_holds_meanwhile() {
    let mut road = Road::new(config(ReplayProtection::Timestamps));
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    road.run(at(5_000), || false);
    road.run(at(5_001), || false);
    let (states, requests) = (road.states.len(), road.requests);
    road.node.renew(road.now);
    road.node.renew(road.now);
    road.run(at(6_000), || false);
    assert_eq!(
        (road.states.len(), road.requests),
        (states, requests + 1),
        "one request, and no other state"
    );
}

#[test]
fn a_request_that_was_not_sent_is_made_again_at_once() {
    let mut node = node(config(ReplayProtection::Timestamps));
    node.retry(at(0));
    assert!(drain(&mut node).is_empty(), "there is none");
    node.attach(Attachment::Colocated(CARE_OF), at(0));
    let first = sent(&drain(&mut node)).unwrap().2;
    node.retry(at(10));
    let second = sent(&drain(&mut node)).unwrap().2;
    assert_ne!(request_of(&first), request_of(&second));
    assert_eq!(node.deadline().unwrap().at, at(1_010));
}

#[test]
fn a_changed_configuration_is_registered_while_the_former_holds() {
    let mut road = Road::new(config(ReplayProtection::Timestamps));
    road.node.attach(Attachment::Colocated(CARE_OF), at(0));
    road.run(at(5_000), || false);
    let changed = Config {
        is_reverse: false,
        ..config(ReplayProtection::Timestamps)
    };
    road.node.configure(changed, road.now);
    assert!(matches!(road.node.state(), State::Registered { tunnel, .. } if tunnel.is_reverse));
    road.run(at(6_000), || false);
    assert!(matches!(road.node.state(), State::Registered { tunnel, .. } if !tunnel.is_reverse));
    let binding = road.agent.bindings(HOME).next().unwrap();
    assert!(!binding.tunnel.is_reverse);
}

/// A UDP tunnel is in clear: outside it would lead data past the firewall, and inside somebody may
/// pretend a NAT. So a node with a firewall asks for none, and does not believe one that it gets.
#[test]
fn a_node_with_a_firewall_has_no_udp_tunnel() {
    let inside = Ipv4Addr::new(10, 20, 0, 9);
    for (care_of, is_inside, side) in [
        (inside, true, Side::ByAddress),
        (CARE_OF, false, Side::ByAddress),
        (CARE_OF, true, Side::Inside),
        (inside, false, Side::Outside),
    ] {
        for is_granted in [false, true] {
            let mut node = node(Config {
                udp: UdpWish::Always,
                firewall: Some(HomeFirewall {
                    address: FIREWALL,
                    inside: vec![TrafficSelector::subnet(inside.into(), 8)],
                }),
                ..config(ReplayProtection::Timestamps)
            });
            node.set_side(side, at(0));
            node.attach(Attachment::Colocated(care_of), at(0));
            let payload = sent(&drain(&mut node)).unwrap().2;
            let list = extensions(&payload, 24).unwrap();
            let is_udp =
                |it: &wire::mip4::Located| matches!(it.extension, Extension::UdpTunnelRequest(_));
            assert!(!list.iter().any(is_udp));
            assert!(!node.is_proven_inside());
            answer(&mut node, &request_of(&payload), is_granted, HOME_AGENT);
            let is_registered = matches!(node.state(), State::Registered { .. });
            assert_eq!(is_registered, !is_granted);
            assert_eq!(node.is_proven_inside(), is_inside && !is_granted);
        }
    }
}

#[test]
fn at_home_a_node_is_inside_unless_the_user_says_otherwise() {
    let mut road = Road::new(config(ReplayProtection::Timestamps));
    road.node.attach(Attachment::Home, at(0));
    assert!(!road.node.is_proven_inside());
    road.run(at(1_000), || false);
    assert_eq!(road.node.state(), State::Home);
    assert!(road.node.is_proven_inside());
    road.node.set_side(Side::Outside, at(1_000));
    assert!(!road.node.is_proven_inside());
}

/// A foreign agent is anybody, unless it has a key.
#[test]
fn a_foreign_agent_without_a_key_proves_no_node_to_be_inside() {
    for has_key in [false, true] {
        let shared = associations(ReplayProtection::Timestamps);
        let mut node = node(Config {
            firewall: Some(HomeFirewall {
                address: FIREWALL,
                inside: vec![TrafficSelector::host(AGENT_CARE_OF.into())],
            }),
            foreign_agents: has_key.then_some((AGENT, shared)).into_iter().collect(),
            ..config(ReplayProtection::Timestamps)
        });
        node.attach(Attachment::Visiting, at(0));
        node.hear(AGENT, &advertisement(1, FOREIGN).to_icmp(), at(10));
        let payload = sent(&drain(&mut node)).unwrap().2;
        answer(&mut node, &request_of(&payload), false, AGENT);
        assert!(matches!(
            node.state(),
            State::Registered {
                through: Some(_),
                ..
            }
        ));
        assert_eq!(node.is_proven_inside(), has_key);
    }
}

/// The home agent accepts a request, which may have come through a foreign agent.
fn answer(node: &mut MobileNode, request: &Request, grants_udp: bool, from: Ipv4Addr) {
    let mut w = Writer::new();
    accepted(request).write(&mut w);
    if grants_udp {
        Extension::UdpTunnelReply(wire::mip4::UdpTunnelReply {
            code: 0,
            is_forced: true,
            keepalive: 110,
        })
        .write(&mut w);
    }
    let shared = associations(ReplayProtection::Timestamps);
    shared.first().sign(Authentication::MobileHome, &mut w);
    if from == AGENT {
        shared.first().sign(Authentication::MobileForeign, &mut w);
    }
    node.handle(SocketAddrV4::new(from, PORT), &w.into_vec(), at(20));
}

fn accepted(request: &Request) -> Reply {
    Reply {
        code: Code::Accepted,
        lifetime: request.lifetime,
        home_address: HOME,
        home_agent: HOME_AGENT,
        identification: request.identification,
    }
}

mod secured;

#[test]
fn a_node_that_came_inside_takes_its_registration_back_and_goes_on_later() {
    let mut node = node(config(ReplayProtection::Timestamps));
    let mut agent = home_agent(agent_config(ReplayProtection::Timestamps, None));
    let answer = |agent: &mut HomeAgent, node: &mut MobileNode, now: Instant| {
        let (from, _, payload) = sent(&drain(node)).expect("a request");
        let (from, to) = (
            SocketAddrV4::new(from, PORT),
            SocketAddrV4::new(HOME_AGENT, PORT),
        );
        let payload = payload.as_slice();
        agent.handle(Datagram { from, to, payload }, now);
        let reply = std::iter::from_fn(|| agent.poll()).find_map(|it| match it {
            home_agent::Output::Send { payload, .. } => Some(payload),
            _ => None,
        });
        node.handle(to, &reply.expect("a reply"), now);
        request_of(payload)
    };
    node.attach(Attachment::Colocated(CARE_OF), at(1_000));
    answer(&mut agent, &mut node, at(1_010));
    drain(&mut node);
    assert!(matches!(node.state(), State::Registered { .. }));
    // Inside, with another address.
    let inside = Ipv4Addr::new(10, 20, 7, 7);
    node.leave_from(inside, at(2_000));
    let (from, ..) = sent(node.outputs.make_contiguous()).expect("a request");
    assert_eq!(from, inside);
    let request = answer(&mut agent, &mut node, at(2_010));
    assert_eq!((request.lifetime, request.care_of_address), (0, HOME));
    drain(&mut node);
    assert_eq!(node.state(), State::Unreachable);
    // Outside again, at the same address as before.
    node.rejoin(at(3_000));
    node.attach(Attachment::Colocated(CARE_OF), at(3_000));
    let request = answer(&mut agent, &mut node, at(3_010));
    assert_eq!((request.lifetime, request.care_of_address), (300, CARE_OF));
    assert!(matches!(node.state(), State::Registered { .. }));
}
