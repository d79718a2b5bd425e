//! A foreign agent between its link and home agents.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use engine::mip4::foreign_agent::{Config, Datagram, ForeignAgent, Mac, Output};
use engine::mip4::identification::Clock;
use engine::mip4::revocation::Policy;
use engine::mip4::tunnel::{ReverseTunnel, UdpWish};
use engine::time::{Duration, Instant};
use wire::codec::Writer;
use wire::mip4::{
    AgentAdvertisement, Authentication, Code, Extension, Message, Reply, Request, RequestFlags,
};

use super::*;

const MAX_VISITORS: usize = 3;

/// The agent, and what was said to it.
pub struct Stage {
    agent: ForeignAgent,
    clock: Clock,
    now: Instant,
    /// The last requests that it has relayed.
    relayed: Vec<Request>,
    challenge: Vec<u8>,
    /// Home addresses that have been accepted, by it or by one that shares no key with us.
    accepted: BTreeSet<Ipv4Addr>,
    /// Who has sent something on the link.
    macs: BTreeSet<Mac>,
}

impl Stage {
    /// With bit 0 of `kind`, nodes must prove themselves with a challenge; with bit 1, it takes
    /// part in revocation.
    pub fn new(kind: u8) -> Self {
        let is_strict = kind & 1 != 0;
        let config = Config {
            address: ON_LINK,
            care_of: AGENT,
            max_lifetime: LIFETIME,
            max_visitors: MAX_VISITORS,
            encapsulations: [].into(),
            reverse_tunnel: ReverseTunnel::Allowed,
            is_required: kind & 4 != 0,
            challenges: is_strict,
            advertised_lifetime: 30,
            aaa: Default::default(),
            mobile_nodes: match is_strict {
                true => [(HOME, associations(VISITOR))].into(),
                false => BTreeMap::new(),
            },
            home_agents: [(HOME_AGENT, associations(SHARED))].into(),
            relays_to: None,
            revocation: (kind & 2 != 0).then_some(Policy {
                has_inform: true,
                informs: true,
            }),
            udp: match kind & 8 {
                0 => UdpWish::Never,
                _ => UdpWish::Always,
            },
            clock: clock(0),
        };
        Self {
            agent: ForeignAgent::new(config, Instant(0), random("foreign agent")),
            clock: clock(0),
            now: Instant(0),
            relayed: Vec::new(),
            challenge: Vec::new(),
            accepted: BTreeSet::new(),
            macs: BTreeSet::new(),
        }
    }

    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        match kind % 10 {
            0 => {
                let mac = Some(Mac([2, 0, 0, 0, 0, script.octet()])).filter(|it| it.0[5] < 128);
                let (from, payload) = (script.end(), script.octets());
                self.deliver(from, mac, script.octet(), &payload);
            }
            1 | 2 => {
                let mac = Mac([2, 0, 0, 0, 0, script.octet()]);
                let request = self.request(script);
                let payload = script.damage(request);
                let from = script.end();
                let ttl = script.one_of(&[255, 64]);
                self.deliver(from, Some(mac), ttl, &payload);
            }
            3 | 4 => {
                if let Some(reply) = self.reply(script) {
                    let payload = script.damage(reply);
                    let from = script.one_of(&[HOME_AGENT, STRANGER]);
                    self.deliver(SocketAddrV4::new(from, PORT), None, 64, &payload);
                }
            }
            5 => {
                let message = script.revocation(seconds(self.clock, self.now), SHARED);
                let payload = script.damage(message);
                self.deliver(SocketAddrV4::new(HOME_AGENT, PORT), None, 64, &payload);
            }
            6 => {
                self.agent.revoke(HOME, self.now);
                assert!(self.agent.visitors().all(|it| it.home_address != HOME));
            }
            7 => {
                self.clock = clock(script.number());
                self.agent.set_clock(self.clock);
            }
            8 => match script.octet() % 2 {
                0 => {
                    let mac = Mac([2, 0, 0, 0, 0, script.octet()]);
                    self.macs.insert(mac);
                    self.agent.solicited(mac, self.now);
                }
                _ => {
                    let code = Code::HomeAgentPortUnreachable;
                    self.agent.unreachable(HOME_AGENT, code, self.now);
                }
            },
            _ => {
                self.now = self.now + script.span();
                self.agent.handle_timeout(self.now);
            }
        }
        self.drain();
        self.check();
    }

    /// After a lifetime without registrations, nobody is left.
    pub fn end(mut self) {
        for _ in 0..20 {
            self.now = self.now + Duration::from_secs(u64::from(LIFETIME) / 10);
            self.agent.handle_timeout(self.now);
            self.drain();
            self.check();
        }
        assert_eq!(self.agent.visitors().count(), 0);
        assert_eq!(self.agent.deadline().why, "advertise");
    }

    /// How many visitors there are.
    pub fn visitors(&self) -> usize {
        self.agent.visitors().count()
    }

    fn request(&self, script: &mut Script<'_>) -> Vec<u8> {
        let flags = script.octet();
        let home = script.octet();
        let mut w = Writer::new();
        Request {
            flags: RequestFlags(script.octet()),
            lifetime: script.one_of(&[100, 0, 5, LIFETIME]),
            home_address: match home % 4 {
                0 => HOME,
                1 => Ipv4Addr::UNSPECIFIED,
                // Others, so that visitors reach their limit.
                _ => Ipv4Addr::new(10, 9, 0, home),
            },
            home_agent: script.one_of(&[HOME_AGENT, STRANGER, HOME_AGENT]),
            care_of_address: script.one_of(&[AGENT, AGENT, CARE_OF]),
            identification: u64::from(script.number()),
        }
        .write(&mut w);
        let support = Extension::RevocationSupport {
            informs: false,
            timestamp: 1,
        };
        let before = [(1, Extension::Nai(b"node@home".to_vec())), (2, support)];
        let challenge = Extension::Challenge(self.challenge.clone());
        let after = [(4, Extension::EncapsulatingDelivery), (8, challenge)];
        let is_set = |it: &&(u8, Extension)| flags & it.0 != 0;
        before
            .iter()
            .filter(is_set)
            .for_each(|it| it.1.write(&mut w));
        association(OWN).sign(Authentication::MobileHome, &mut w);
        after
            .iter()
            .filter(is_set)
            .for_each(|it| it.1.write(&mut w));
        if flags & 16 != 0 {
            association(VISITOR).sign(Authentication::MobileForeign, &mut w);
        }
        w.into_vec()
    }

    /// What a home agent may answer to a relayed request.
    fn reply(&self, script: &mut Script<'_>) -> Option<Vec<u8>> {
        let at = usize::from(script.octet());
        let request = *self.relayed.iter().rev().nth(at % 4)?;
        let flags = script.octet();
        let mut w = Writer::new();
        Reply {
            code: script.octet().into(),
            lifetime: script.one_of(&[100, 0, 65_535]),
            home_address: match flags & 1 {
                0 if !request.home_address.is_unspecified() => request.home_address,
                _ => Ipv4Addr::new(10, 9, 0, flags),
            },
            home_agent: request.home_agent,
            identification: request.identification,
        }
        .write(&mut w);
        association(OWN).sign(Authentication::MobileHome, &mut w);
        if flags & 2 != 0 {
            Extension::RevocationSupport {
                informs: flags & 4 != 0,
                timestamp: seconds(self.clock, self.now),
            }
            .write(&mut w);
        }
        if flags & 8 == 0 {
            association(SHARED).sign(Authentication::ForeignHome, &mut w);
        }
        Some(w.into_vec())
    }

    fn deliver(&mut self, from: SocketAddrV4, mac: Option<Mac>, ttl: u8, payload: &[u8]) {
        self.macs.extend(mac);
        let is_signed = authentic(payload, Authentication::ForeignHome, SHARED).is_some();
        if mac.is_none()
            && let Ok((Message::Reply(reply), _)) = Message::parse(payload)
            && reply.code.is_accepted()
            && (*from.ip() == STRANGER || is_signed)
        {
            self.accepted.insert(reply.home_address);
        }
        let to = SocketAddrV4::new(AGENT, PORT);
        let datagram = Datagram {
            from,
            to,
            ttl,
            mac,
            payload,
        };
        self.agent.handle(datagram, self.now);
    }

    fn drain(&mut self) {
        while let Some(output) = self.agent.poll() {
            match output {
                Output::Relay { from, payload, .. } => {
                    assert_eq!(*from.ip(), AGENT);
                    if let Ok((Message::Request(request), _)) = Message::parse(&payload) {
                        self.relayed.push(request);
                    }
                }
                Output::Reply { mac, .. } | Output::Inform { mac, .. } => {
                    assert!(self.macs.contains(&mac), "an answer to nobody");
                }
                Output::Advertise(icmp) => {
                    let read = AgentAdvertisement::parse(&icmp).expect("what we write reads");
                    if let Some(challenge) = read.and_then(|it| it.challenge) {
                        self.challenge = challenge;
                    }
                }
                Output::Came(visitor) => {
                    assert!(self.accepted.contains(&visitor.home_address));
                    assert!(self.macs.contains(&visitor.mac));
                }
                Output::Left(_)
                | Output::Revoked { .. }
                | Output::Unacknowledged { .. }
                | Output::Refused { .. } => {}
            }
        }
    }

    fn check(&self) {
        assert!(self.agent.visitors().count() <= MAX_VISITORS);
        for visitor in self.agent.visitors() {
            assert!(self.accepted.contains(&visitor.home_address));
            let ours = [ON_LINK, AGENT];
            assert!(!ours.contains(&visitor.home_address));
        }
        let due = self.agent.deadline();
        assert!(due.at >= self.now, "{due:?} at {:?}", self.now);
    }
}
