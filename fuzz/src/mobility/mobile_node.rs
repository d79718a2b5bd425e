//! A mobile node on its way, among agents that may say anything.

use std::net::Ipv4Addr;

use engine::mip4::firewall::{HomeFirewall, Side};
use engine::mip4::identification::Clock;
use engine::mip4::mobile_node::{Attachment, Config, MobileNode, Output, State};
use engine::mip4::tunnel::UdpWish;
use engine::sa::Encapsulation;
use engine::selector::TrafficSelector;
use engine::time::{Duration, Instant};
use wire::codec::Writer;
use wire::mip4::{
    AgentAdvertisement, AgentFlags, Authentication, Extension, Message, MobilityAgent, Reply,
    Request, Router, UdpTunnelReply,
};

use super::*;

/// The node, and what it has said.
pub struct Stage {
    node: MobileNode,
    clock: Clock,
    now: Instant,
    /// Its requests, with where they went.
    asked: Vec<(Request, Ipv4Addr)>,
    /// Care-of addresses of requests that an authentic reply has accepted.
    accepted: Vec<Ipv4Addr>,
    states: usize,
}

impl Stage {
    /// Bit 0 of `kind`: it shares an association with the foreign agent; bit 1: it wants tunnels in
    /// UDP, and so has no firewall on its way.
    pub fn new(kind: u8) -> Self {
        let config = Config {
            home_address: HOME,
            home_agent: HOME_AGENT,
            nai: Some(b"node@home".to_vec()),
            aaa: None,
            associations: associations(OWN),
            foreign_agents: match kind & 1 {
                0 => [].into(),
                _ => [(ON_LINK, associations(VISITOR))].into(),
            },
            lifetime: LIFETIME,
            encapsulation: Encapsulation::IpInIp,
            is_reverse: true,
            encapsulates_delivery: true,
            wants_broadcasts: true,
            is_simultaneous: true,
            monitor: None,
            udp: match kind & 2 {
                0 => UdpWish::Never,
                _ => UdpWish::BehindNat,
            },
            firewall: (kind & 2 == 0).then(|| HomeFirewall {
                address: FIREWALL,
                inside: vec![TrafficSelector::subnet(HOME.into(), 8)],
            }),
            hears_revocations: true,
        };
        Self {
            node: MobileNode::new(config, clock(0), random("node")),
            clock: clock(0),
            now: Instant(0),
            asked: Vec::new(),
            accepted: Vec::new(),
            states: 0,
        }
    }

    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        let now = self.now;
        match kind % 9 {
            0 => {
                let (from, payload) = (script.end(), script.octets());
                self.deliver(from, &payload);
            }
            1 | 2 => self.reply(script),
            3 => {
                let attachment = match script.octet() % 4 {
                    0 => Attachment::Colocated(script.address()),
                    1 => Attachment::Visiting,
                    2 => Attachment::Home,
                    _ => Attachment::Detached,
                };
                self.node.attach(attachment, now);
            }
            4 => {
                let from = script.one_of(&[ON_LINK, AGENT, HOME_AGENT]);
                let icmp = advertisement(script);
                self.node.hear(from, &script.damage(icmp), now);
            }
            5 => {
                let message = script.revocation(seconds(self.clock, now), OWN);
                let payload = script.damage(message);
                let from = script.end();
                self.deliver(from, &payload);
            }
            6 => {
                self.clock = clock(script.number());
                self.node.set_clock(self.clock);
            }
            7 => {
                let side = script.one_of(&[Side::ByAddress, Side::Inside, Side::Outside]);
                self.node.set_side(side, now);
            }
            _ => self.now = now + script.span(),
        }
        // A late reply may leave something to do at once.
        self.node.handle_timeout(self.now);
        self.drain();
        self.check();
    }

    /// A node that is attached to nothing is silent and has nothing.
    pub fn end(mut self) {
        self.node.attach(Attachment::Detached, self.now);
        self.drain();
        for _ in 0..3 {
            self.now = self.now + Duration::from_secs(u64::from(LIFETIME));
            self.node.handle_timeout(self.now);
            assert_eq!(self.node.poll(), None);
        }
        assert_eq!(self.node.state(), State::Unreachable);
        assert_eq!(self.node.deadline(), None);
    }

    /// How often it was registered or at home.
    pub fn states(&self) -> usize {
        self.states
    }

    /// A reply to one of the last requests, authentic unless it is damaged.
    fn reply(&mut self, script: &mut Script<'_>) {
        let at = usize::from(script.octet());
        let Some((request, to)) = self.asked.iter().rev().nth(at % 4).copied() else {
            return;
        };
        let flags = script.octet();
        let high = u64::from(script.number()) << 32;
        let mut w = Writer::new();
        Reply {
            code: script.octet().into(),
            lifetime: script.one_of(&[100, 0, 1, 65_535]),
            home_address: HOME,
            home_agent: HOME_AGENT,
            identification: request.identification.wrapping_add(high),
        }
        .write(&mut w);
        if flags & 1 != 0 {
            Extension::UdpTunnelReply(UdpTunnelReply {
                code: flags & 0x40,
                is_forced: false,
                keepalive: 30,
            })
            .write(&mut w);
        }
        if flags & 2 != 0 {
            Extension::RevocationSupport {
                informs: false,
                timestamp: seconds(self.clock, self.now),
            }
            .write(&mut w);
        }
        association(OWN).sign(Authentication::MobileHome, &mut w);
        if flags & 4 != 0 {
            Extension::Challenge(vec![flags; 8]).write(&mut w);
        }
        association(VISITOR).sign(Authentication::MobileForeign, &mut w);
        let payload = script.damage(w.into_vec());
        let from = match flags & 16 {
            0 => to,
            _ => STRANGER,
        };
        self.deliver(SocketAddrV4::new(from, PORT), &payload);
    }

    fn deliver(&mut self, from: SocketAddrV4, payload: &[u8]) {
        if let Some(Message::Reply(reply)) = authentic(payload, Authentication::MobileHome, OWN)
            && reply.code.is_accepted()
        {
            let low = |identification: u64| identification as u32;
            let answers =
                |it: &&(Request, Ipv4Addr)| low(it.0.identification) == low(reply.identification);
            let requests = self.asked.iter().filter(answers);
            self.accepted
                .extend(requests.map(|it| it.0.care_of_address));
        }
        self.node.handle(from, payload, self.now);
    }

    fn drain(&mut self) {
        while let Some(output) = self.node.poll() {
            match output {
                Output::Send { to, payload, .. } => {
                    if let Ok((Message::Request(request), _)) = Message::parse(&payload) {
                        assert_eq!(request.home_address, HOME);
                        assert!(request.lifetime <= LIFETIME);
                        self.asked.push((request, *to.ip()));
                    }
                }
                Output::State(State::Unreachable) => {}
                Output::State(_) => self.states += 1,
                _ => {}
            }
        }
    }

    fn check(&self) {
        if let State::Registered { tunnel, .. } = self.node.state() {
            assert!(self.accepted.contains(&tunnel.care_of), "not granted");
            assert!(tunnel.firewall.is_none_or(|it| it == FIREWALL));
        }
        let due = self.node.deadline();
        assert!(
            due.is_none_or(|it| it.at >= self.now),
            "{due:?} at {:?}",
            self.now
        );
    }
}

fn advertisement(script: &mut Script<'_>) -> Vec<u8> {
    let flags = script.number();
    let sequence = script.number();
    let has_care_of = flags & AgentFlags::FOREIGN_AGENT != 0;
    AgentAdvertisement {
        routes_common_traffic: true,
        lifetime: script.one_of(&[30, 0, 3, 1_800]),
        routers: vec![Router {
            address: ON_LINK,
            preference: 0,
            prefix_len: None,
        }],
        agent: MobilityAgent {
            sequence,
            registration_lifetime: script.one_of(&[200, 0, 1, 65_535]),
            flags: AgentFlags(flags),
            care_of_addresses: if has_care_of { vec![AGENT] } else { vec![] },
        },
        challenge: (flags & 1 != 0).then(|| vec![7; 8]),
    }
    .to_icmp()
}
