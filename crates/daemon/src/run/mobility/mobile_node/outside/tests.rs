use std::collections::BTreeMap;

use crypto::rand::Seed;
use engine::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
use engine::mip4::home_agent::{self, Datagram, HomeAgent};
use engine::mip4::tunnel::{ReverseTunnel, Tunnel, UdpWish};
use engine::sa::Encapsulation;
use wire::mip4::{AgentAdvertisement, AgentFlags, MobilityAgent};

use super::*;

const HOME: Ipv4Addr = Ipv4Addr::new(198, 18, 30, 17);
const AGENT: Ipv4Addr = Ipv4Addr::new(198, 18, 30, 1);
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const OFFICE: Ipv4Addr = Ipv4Addr::new(10, 18, 20, 7);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const LABORATORY: Ipv4Addr = Ipv4Addr::new(10, 18, 21, 7);

fn associations() -> Associations {
    let key = b"0123456789abcdef";
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(2000, Algorithm::HmacMd5, replay, key);
    Associations::new(vec![one.expect("a key")]).expect("one")
}

fn clock() -> Clock {
    Clock::new(Instant(0), Duration::from_secs(1_795_000_000))
}

fn node() -> Outer {
    let config = Config {
        home_address: HOME,
        home_agent: AGENT,
        nai: None,
        aaa: None,
        associations: associations(),
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
    };
    let random = Seed::new([2; 32]).stream("node", 0);
    Outer::new((&config, &[]), clock(), random)
}

fn agent() -> HomeAgent {
    let client = home_agent::Client {
        home_address: HOME,
        nai: None,
        aaa: None,
        associations: associations(),
    };
    let config = home_agent::Config {
        address: AGENT,
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
        trusts_traversal: [].into(),
        trusted: Vec::new(),
        tunnelled: Vec::new(),
        revocation: None,
    };
    let random = Seed::new([3; 32]).stream("home agent", 0);
    HomeAgent::new(config, clock(), Instant(0), random)
}

/// Where the requests come from that the node sends; each is answered if this leads to it.
fn asks(outer: &mut Outer, agent: Option<&mut HomeAgent>, now: Instant) -> Vec<Ipv4Addr> {
    let mut sent = Vec::new();
    while let Some(output) = outer.node.poll() {
        if let Output::Send {
            from, to, payload, ..
        } = output
        {
            sent.push((SocketAddrV4::new(from, PORT), to, payload));
        }
    }
    let sources = sent.iter().map(|(from, ..)| *from.ip()).collect();
    let Some(agent) = agent else { return sources };
    for (from, to, payload) in &sent {
        let (from, to, payload) = (*from, *to, payload.as_slice());
        agent.handle(Datagram { from, to, payload }, now);
        while let Some(output) = agent.poll() {
            if let home_agent::Output::Send { payload, .. } = output {
                outer.handle(to, &payload, now);
            }
        }
    }
    sources
}

#[test]
fn a_registration_is_taken_back_from_the_network_inside_that_leads_there() {
    let (mut outer, mut agent) = (node(), agent());
    let at = |seconds| Instant(0) + Duration::from_secs(seconds);
    outer.follow(Some(Attachment::Colocated(OUTSIDE)), None, at(1));
    assert_eq!(asks(&mut outer, Some(&mut agent), at(1)), [OUTSIDE]);
    assert_eq!(outer.care_of(), Some(OUTSIDE));
    // The first network inside does not lead to the home agent.
    outer.follow(Some(Attachment::Colocated(OFFICE)), Some(OFFICE), at(10));
    assert_eq!(asks(&mut outer, None, at(10)), [OFFICE]);
    outer.follow(Some(Attachment::Colocated(OFFICE)), Some(OFFICE), at(11));
    assert!(asks(&mut outer, None, at(11)).is_empty(), "asked once");
    outer.follow(
        Some(Attachment::Colocated(LABORATORY)),
        Some(LABORATORY),
        at(20),
    );
    assert_eq!(asks(&mut outer, Some(&mut agent), at(20)), [LABORATORY]);
    assert_eq!(outer.care_of(), None);
    // Outside again.
    outer.follow(Some(Attachment::Colocated(OUTSIDE)), None, at(30));
    assert_eq!(asks(&mut outer, Some(&mut agent), at(30)), [OUTSIDE]);
    assert_eq!(outer.care_of(), Some(OUTSIDE));
}

#[test]
fn a_foreign_agent_gets_packets_that_nothing_is_around() {
    let outer = Outer {
        gateways: vec![GATEWAY],
        ..node()
    };
    let state = |is_colocated| State::Registered {
        tunnel: Tunnel {
            care_of: OUTSIDE,
            encapsulation: Encapsulation::IpInIp,
            udp: None,
            firewall: None,
            is_reverse: true,
            has_broadcasts: false,
            is_colocated,
        },
        through: Some(Ipv4Addr::new(198, 51, 100, 1)),
        encapsulates_delivery: false,
        keepalive: 0,
    };
    let [by_link] = &*outer.carriers(&state(false)) else {
        panic!("one for each gateway");
    };
    assert_eq!(by_link.path, Path::raw(HOME.into(), GATEWAY.into()));
    assert_eq!((by_link.encapsulation, &by_link.inbound), (None, &None));
    // Where an agent has to be asked, and the node has an address, it is the tunnel's end.
    let [tunnel] = &*outer.carriers(&state(true)) else {
        panic!("one tunnel");
    };
    assert_eq!(tunnel.path, Path::raw(OUTSIDE.into(), AGENT.into()));
    assert_eq!(tunnel.outbound, by_link.outbound);
}

#[test]
fn a_foreign_agent_is_asked_on_a_link_without_an_address_alone() {
    let mut outer = node();
    let required = AgentFlags::FOREIGN_AGENT | AgentFlags::REGISTRATION_REQUIRED;
    let advertisement = AgentAdvertisement {
        routes_common_traffic: true,
        lifetime: 30,
        routers: Vec::new(),
        agent: MobilityAgent {
            sequence: 1,
            registration_lifetime: 300,
            flags: AgentFlags(required | AgentFlags::REVERSE_TUNNEL),
            care_of_addresses: vec![LABORATORY],
        },
        challenge: None,
    };
    let icmp = advertisement.to_icmp();
    outer.follow(Some(Attachment::Colocated(OUTSIDE)), None, Instant(0));
    assert_eq!(asks(&mut outer, None, Instant(0)), [OUTSIDE]);
    outer.hear(LABORATORY, &icmp, Instant(1));
    assert!(asks(&mut outer, None, Instant(1)).is_empty());
    outer.lose();
    outer.follow(Some(Attachment::Visiting), None, Instant(2));
    outer.hear(LABORATORY, &icmp, Instant(2));
    assert_eq!(asks(&mut outer, None, Instant(2)), [HOME]);
    assert_eq!(outer.through(), Some(LABORATORY));
}

/// At home, what held on the link before holds no more, though nobody was told.
#[test]
fn a_registration_of_another_link_leads_nowhere() {
    let (mut outer, mut agent) = (node(), agent());
    let at = Instant(0) + Duration::from_secs(1);
    outer.follow(Some(Attachment::Colocated(OUTSIDE)), None, at);
    asks(&mut outer, Some(&mut agent), at);
    assert_eq!(outer.reach(), Outside::Tunnelled);
    outer.lose();
    outer.follow(None, None, at);
    assert_eq!(outer.reach(), Outside::Unreachable);
    assert_eq!(outer.care_of(), Some(OUTSIDE), "until its lifetime ends");
}

#[test]
fn who_is_far_advertises_on_no_link() {
    let outer = Outer {
        gateways: vec![GATEWAY],
        ..node()
    };
    assert!([AGENT, HOME, GATEWAY].iter().all(|it| outer.is_far(*it)));
    assert!(!outer.is_far(OUTSIDE));
}
