//! A mobile node and its home agent, each with its planes, on one wire.

use std::collections::BTreeMap;

use wire::ip::{Flow, ipv4, protocol};

use super::*;
use crate::counters::DropReason;
use crate::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
use crate::mip4::tunnel::{ReverseTunnel, UdpWish};
use crate::sa::{Encapsulation, Via};
use crate::time::Duration;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 2);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const CORRESPONDENT: Ipv4Addr = Ipv4Addr::new(10, 19, 5, 2);

fn associations() -> Associations {
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(256, Algorithm::HmacMd5, replay, &[7; 16]);
    Associations::new(one.into_iter().collect()).expect("one association")
}

/// Both ends, and what came out of tunnels at either of them.
struct Pair {
    node: Endpoint,
    agent: Endpoint,
    at_node: Vec<Vec<u8>>,
    at_agent: Vec<Vec<u8>>,
    /// The outer protocol and the octets of each tunnelled packet on the wire.
    wire: Vec<(u8, usize)>,
    arp: Vec<(Ipv4Addr, bool)>,
    now: Instant,
}

impl Pair {
    fn new(encapsulation: Encapsulation, udp: UdpWish) -> Self {
        let clock = Clock::new(Instant(0), Duration::from_secs(1_795_000_000));
        let node = mobile_node::Config {
            home_address: HOME,
            home_agent: AGENT,
            nai: None,
            aaa: None,
            associations: associations(),
            foreign_agents: BTreeMap::new(),
            lifetime: 300,
            encapsulation,
            is_reverse: true,
            encapsulates_delivery: false,
            wants_broadcasts: false,
            is_simultaneous: false,
            udp,
            firewall: None,
            hears_revocations: false,
            monitor: None,
        };
        let agent = home_agent::Config {
            address: AGENT,
            prefix_len: 24,
            max_lifetime: 600,
            max_bindings: 1,
            encapsulations: [Encapsulation::Minimal, Encapsulation::Gre].into(),
            reverse_tunnel: ReverseTunnel::Allowed,
            udp_keepalive: Some(110),
            allows_forced_udp: true,
            clients: vec![home_agent::Client {
                home_address: HOME,
                nai: None,
                aaa: None,
                associations: associations(),
            }],
            foreign_agents: BTreeMap::new(),
            outside: Vec::new(),
            trusts_traversal: BTreeSet::new(),
            trusted: Vec::new(),
            tunnelled: Vec::new(),
            revocation: None,
        };
        let seed = |number| Seed::new([number; 32]);
        Self {
            node: Endpoint::mobile_node(node, 24, clock, &seed(1)),
            agent: Endpoint::home_agent(agent, clock, Instant(0), &seed(2)),
            at_node: Vec::new(),
            at_agent: Vec::new(),
            wire: Vec::new(),
            arp: Vec::new(),
            now: Instant(0) + Duration::from_secs(5),
        }
    }

    /// Carries everything to the other end until nothing is left.
    fn settle(&mut self) {
        loop {
            let (from_node, effect) = match (self.node.poll(), self.agent.poll()) {
                (None, None) => return,
                (Some(effect), other) => {
                    assert!(other.is_none(), "one end speaks at a time");
                    (true, effect)
                }
                (None, Some(effect)) => (false, effect),
            };
            self.carry(from_node, effect);
        }
    }

    fn carry(&mut self, from_node: bool, effect: Effect) {
        let other = match from_node {
            true => &mut self.agent,
            false => &mut self.node,
        };
        match effect {
            Effect::Datagram {
                from,
                to,
                mut payload,
                ..
            } => other.receive(Path::udp_with_type(to, from), &mut payload, self.now),
            Effect::Sealed(path, mut octets) => {
                let outer = match path.via {
                    Via::Raw => Flow::of(&octets).expect("a packet").protocol,
                    _ => protocol::UDP,
                };
                self.wire.push((outer, octets.len()));
                other.receive(path.reversed(), &mut octets, self.now);
            }
            Effect::Opened(packet) if from_node => self.at_node.push(packet),
            Effect::Opened(packet) => self.at_agent.push(packet),
            Effect::AnswerArp(address, answers) if !from_node => self.arp.push((address, answers)),
            Effect::Refused(why) => panic!("{why:?}"),
            Effect::Denied(code) => panic!("{code:?}"),
            _ => {}
        }
    }

    fn attach(&mut self, attachment: Attachment) {
        self.now = self.now + Duration::from_secs(2);
        self.node.attach(attachment, self.now);
        self.settle();
    }
}

/// A packet of an unassigned protocol.
fn packet(source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let mut packet = vec![5; 120];
    ipv4::Header {
        tos: 0,
        id: 9,
        dont_fragment: true,
        ttl: 60,
        protocol: 253,
        source,
        destination,
    }
    .write(&mut packet);
    packet
}

#[test]
fn packets_of_a_node_that_is_away_go_both_ways_through_every_form_of_tunnel() {
    for (encapsulation, udp, outer, added) in [
        (Encapsulation::IpInIp, UdpWish::Never, protocol::IPV4, 20),
        (
            Encapsulation::Minimal,
            UdpWish::Never,
            protocol::MINIMAL,
            12,
        ),
        (Encapsulation::Gre, UdpWish::Never, protocol::GRE, 24),
        (Encapsulation::IpInIp, UdpWish::Always, protocol::UDP, 4),
    ] {
        let mut pair = Pair::new(encapsulation, udp);
        assert!(!pair.agent.intercepts(HOME.into()));
        pair.attach(Attachment::Colocated(CARE_OF));
        assert!(pair.agent.intercepts(HOME.into()));
        let (there, back) = (packet(CORRESPONDENT, HOME), packet(HOME, CORRESPONDENT));
        assert!(pair.agent.carries(CORRESPONDENT.into(), HOME.into()));
        assert!(pair.agent.send(&mut there.clone(), pair.now));
        pair.settle();
        assert!(pair.node.carries(HOME.into(), CORRESPONDENT.into()));
        assert!(pair.node.send(&mut back.clone(), pair.now));
        pair.settle();
        assert_eq!((pair.at_node, pair.at_agent), (vec![there], vec![back]));
        assert_eq!(pair.wire, [(outer, 120 + added); 2], "{encapsulation:?}");
    }
}

#[test]
fn a_home_agent_answers_arp_only_while_its_node_is_away() {
    let mut pair = Pair::new(Encapsulation::IpInIp, UdpWish::Never);
    pair.attach(Attachment::Home);
    assert!(pair.arp.is_empty());
    pair.attach(Attachment::Colocated(CARE_OF));
    pair.attach(Attachment::Colocated([192, 0, 2, 8].into()));
    assert_eq!(pair.arp, [(HOME, true)], "it answers already");
    pair.attach(Attachment::Home);
    assert_eq!(pair.arp, [(HOME, true), (HOME, false)]);
    assert!(!pair.agent.intercepts(HOME.into()));
    assert!(!pair.node.carries(HOME.into(), CORRESPONDENT.into()));
}

#[test]
fn only_the_bindings_own_end_may_send_for_a_home_address() {
    let mut pair = Pair::new(Encapsulation::IpInIp, UdpWish::Never);
    pair.attach(Attachment::Colocated(CARE_OF));
    let mut sealed = None;
    pair.node.send(&mut packet(HOME, CORRESPONDENT), pair.now);
    while let Some(effect) = pair.node.poll() {
        if let Effect::Sealed(_, octets) = effect {
            sealed = Some(octets);
        }
    }
    let sealed = sealed.expect("a packet");
    let stranger = Path::raw(AGENT.into(), [192, 0, 2, 99].into());
    pair.agent.receive(stranger, &mut sealed.clone(), pair.now);
    pair.settle();
    assert!(pair.at_agent.is_empty());
    assert_eq!(pair.agent.drops().of(DropReason::UnknownTunnel), 1);
    let own = Path::raw(AGENT.into(), CARE_OF.into());
    pair.agent.receive(own, &mut sealed.clone(), pair.now);
    pair.settle();
    assert_eq!(pair.at_agent.len(), 1);
}
