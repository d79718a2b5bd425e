//! A home agent and everybody who may write to it.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use engine::mip4::firewall::Outside;
use engine::mip4::home_agent::{Client, Config, Datagram, HomeAgent, Output};
use engine::mip4::identification::Clock;
use engine::mip4::revocation::Policy;
use engine::mip4::tunnel::ReverseTunnel;
use engine::sa::Encapsulation;
use engine::selector::TrafficSelector;
use engine::time::{Duration, Instant};
use wire::codec::Writer;
use wire::mip4::{Authentication, Extension, Request, RequestFlags, UdpTunnelRequest};

use super::*;

/// Bindings of one node at a time.
const MAX_BINDINGS: usize = 3;

/// The agent, and what it was authentically asked.
pub struct Stage {
    agent: HomeAgent,
    clock: Clock,
    now: Instant,
    /// Care-of addresses of authentic requests that have arrived.
    arrived: BTreeSet<Ipv4Addr>,
    sent: Vec<(SocketAddrV4, Vec<u8>)>,
}

impl Stage {
    /// With firewalls, or, by the first bit of `kind`, without: then a node may be behind a NAT.
    pub fn new(kind: u8) -> Self {
        let has_firewalls = kind & 1 == 0;
        let client = Client {
            home_address: HOME,
            nai: Some(b"node@home".to_vec()),
            aaa: None,
            associations: associations(OWN),
        };
        let outside = Outside {
            care_of: TrafficSelector::subnet(CARE_OF.into(), 24),
            firewall: FIREWALL,
        };
        let config = Config {
            address: HOME_AGENT,
            prefix_len: 24,
            max_lifetime: LIFETIME,
            max_bindings: MAX_BINDINGS,
            encapsulations: [Encapsulation::Minimal, Encapsulation::Gre].into(),
            reverse_tunnel: ReverseTunnel::Allowed,
            udp_keepalive: Some(110),
            allows_forced_udp: true,
            clients: vec![client],
            foreign_agents: [(AGENT, associations(SHARED))].into(),
            outside: has_firewalls.then_some(outside).into_iter().collect(),
            trusts_traversal: has_firewalls.then_some(FIREWALL).into_iter().collect(),
            trusted: Vec::new(),
            tunnelled: Vec::new(),
            revocation: Some(Policy {
                has_inform: true,
                informs: true,
            }),
        };
        let clock = clock(0);
        Self {
            agent: HomeAgent::new(config, clock, Instant(0), random("home agent")),
            clock,
            now: Instant(0) + Duration::from_secs(1),
            arrived: BTreeSet::new(),
            sent: Vec::new(),
        }
    }

    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        match kind % 8 {
            0 => {
                let (from, payload) = (script.end(), script.octets());
                self.deliver(from, payload);
            }
            1 | 2 => {
                let request = self.request(script);
                let from = script.end();
                let payload = script.damage(request);
                self.deliver(from, payload);
            }
            3 => {
                let at = usize::from(script.octet());
                if let Some((from, payload)) = self.sent.iter().rev().nth(at).cloned() {
                    self.deliver(from, payload);
                }
            }
            4 => {
                let message = script.revocation(seconds(self.clock, self.now), SHARED);
                let from = script.end();
                let payload = script.damage(message);
                self.deliver(from, payload);
            }
            5 => {
                self.agent.revoke(HOME, self.now);
                assert_eq!(self.agent.bindings(HOME).count(), 0);
            }
            6 => {
                self.clock = clock(script.number());
                self.agent.set_clock(self.clock);
            }
            _ => {
                self.now = self.now + script.span();
                self.agent.handle_timeout(self.now);
            }
        }
        self.drain();
        self.check();
    }

    /// After a lifetime without requests, nothing is left.
    pub fn end(mut self) {
        // A revocation is given up after its last repetition.
        for _ in 0..20 {
            self.now = self.now + Duration::from_secs(u64::from(LIFETIME) / 10);
            self.agent.handle_timeout(self.now);
            self.drain();
            self.check();
        }
        assert_eq!(self.agent.bindings(HOME).count(), 0);
        assert_eq!(self.agent.deadline(), None);
    }

    /// How many bindings there are.
    pub fn bindings(&self) -> usize {
        self.agent.bindings(HOME).count()
    }

    /// An authentic request of the node, perhaps through the foreign agent.
    fn request(&self, script: &mut Script<'_>) -> Vec<u8> {
        let extensions = script.octet();
        let care_of = script.address();
        let late = u64::from(script.octet()) << 29;
        let mut w = Writer::new();
        Request {
            flags: RequestFlags(script.octet()),
            lifetime: script.one_of(&[100, 0, 5, 65_535]),
            home_address: match extensions & 1 {
                0 => HOME,
                _ => Ipv4Addr::UNSPECIFIED,
            },
            home_agent: HOME_AGENT,
            care_of_address: care_of,
            identification: self.clock.ntp(self.now).wrapping_add(late),
        }
        .write(&mut w);
        let udp = Extension::UdpTunnelRequest(UdpTunnelRequest {
            is_forced: extensions & 0x10 != 0,
            is_through_foreign_agent: extensions & 0x80 != 0,
            encapsulation: 0,
        });
        let support = Extension::RevocationSupport {
            informs: true,
            timestamp: seconds(self.clock, self.now),
        };
        let firewall = Extension::Traversal {
            firewall: script.one_of(&[FIREWALL, STRANGER]),
        };
        let nai = Extension::Nai(b"node@home".to_vec());
        for (bit, extension) in [(1, &nai), (2, &udp), (4, &support), (8, &firewall)] {
            if extensions & bit != 0 {
                extension.write(&mut w);
            }
        }
        association(OWN).sign(Authentication::MobileHome, &mut w);
        if extensions & 0x20 != 0 {
            if extensions & 0x40 != 0 {
                support.write(&mut w);
            }
            association(SHARED).sign(Authentication::ForeignHome, &mut w);
        }
        w.into_vec()
    }

    fn deliver(&mut self, from: SocketAddrV4, payload: Vec<u8>) {
        if let Some(Message::Request(request)) =
            authentic(&payload, Authentication::MobileHome, OWN)
        {
            self.arrived.insert(request.care_of_address);
        }
        let to = SocketAddrV4::new(HOME_AGENT, PORT);
        let payload = &payload;
        self.agent.handle(Datagram { from, to, payload }, self.now);
        self.sent.push((from, payload.clone()));
    }

    fn drain(&mut self) {
        while let Some(output) = self.agent.poll() {
            match output {
                Output::Send { from, firewall, .. } => {
                    assert_eq!(*from.ip(), HOME_AGENT);
                    assert!(firewall.is_none_or(|it| it == FIREWALL));
                }
                Output::Tunnels {
                    home_address,
                    tunnels,
                    ..
                } => {
                    assert_eq!(home_address, HOME);
                    assert!(tunnels.len() <= MAX_BINDINGS);
                }
                Output::Unacknowledged { .. } | Output::Refused { .. } => {}
            }
        }
    }

    fn check(&self) {
        let longest = self.now + Duration::from_secs(LIFETIME.into());
        let mut count = 0;
        for binding in self.agent.bindings(HOME) {
            count += 1;
            let is_bounded = |end| end > self.now && end <= longest;
            assert!(binding.end.is_some_and(is_bounded));
            let tunnel = &binding.tunnel;
            assert!(self.arrived.contains(&tunnel.care_of), "not asked for");
            assert!(tunnel.firewall.is_none_or(|it| it == FIREWALL));
        }
        assert!(count <= MAX_BINDINGS);
        let due = self.agent.deadline();
        assert!(due.is_none_or(|it| it.at > self.now), "{due:?}");
    }
}
