//! A firewall, two mobile nodes and a host that hold keys, a home agent, and everybody who may send
//! to it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use engine::firewall::access::{EntryId, Origin};
use engine::firewall::endpoint::{Effect, Endpoint};
use engine::firewall::{Config, Mode, Template};
use engine::sa::{Path, Via};
use engine::selector::TrafficSelector;
use engine::skip::udp::PORT as SKIP_PORT;
use engine::skip::{self, IvLen, MasterKey, Parts, Profile, Renewal, Sealer, SkipTime};
use engine::time::{Calendar, Duration, Instant};
use wire::ip::{Ipv4, ipv4, protocol};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use super::*;

/// The firewall outside; inside it is [`FIREWALL`].
const WALL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 254);
const HOST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 20);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 19, 5, 2);
/// A silent node is forgotten after so long.
const SILENCE: Duration = Duration::from_secs(300);
/// 2026-11-23 05:30 UTC.
const CALENDAR: i64 = 1_795_411_800;
const KEYS: usize = 3;

/// The firewall, and what those with keys have sent to it.
pub struct Stage {
    wall: Endpoint,
    config: Config,
    sealers: Vec<Sealer>,
    random: Stream,
    now: Instant,
    /// From where packets of each key have come, whether or not they were damaged.
    heard: BTreeSet<(usize, SocketAddrV4)>,
    sent: Vec<(Path, Option<usize>, Vec<u8>)>,
}

impl Stage {
    /// The first octet of an input chooses the configuration.
    pub fn new(choice: u8) -> Self {
        let config = config(choice);
        Self {
            wall: made(&config, Instant(0)),
            config,
            sealers: (0..KEYS).map(|key| Sealer::new(&ends(key)[0], 0)).collect(),
            random: random("firewall"),
            now: Instant(0) + Duration::from_secs(1),
            heard: BTreeSet::new(),
            sent: Vec::new(),
        }
    }

    pub fn step(&mut self, kind: u8, script: &mut Script<'_>) {
        match kind % 8 {
            0 => {
                let path = Path::raw(one(script, &[WALL, FIREWALL]), script.address().into());
                let octets = script.octets();
                self.deliver(path, None, octets);
            }
            1 | 2 => {
                let inner = inside(script);
                self.send(script, &inner);
            }
            3 => {
                let inner = script.octets();
                self.send(script, &inner);
            }
            4 => {
                // Of the home agent, in its tunnel.
                let inner = inside(script);
                let packet = packet((HOME_AGENT, FIREWALL), protocol::IPV4, &inner);
                let packet = script.damage(packet);
                let path = Path::raw(FIREWALL.into(), HOME_AGENT.into());
                self.deliver(path, None, packet);
            }
            5 => {
                let at = usize::from(script.octet());
                if let Some((mut path, key, octets)) = self.sent.iter().rev().nth(at).cloned() {
                    if script.octet() & 1 != 0 {
                        path.remote.set_ip(script.address().into());
                    }
                    self.deliver(path, key, octets);
                }
            }
            6 => match script.octet() {
                0 => self.wall = made(&self.config, self.now),
                ahead => {
                    let ahead = i64::from(ahead) * 60;
                    self.wall.set_calendar(Calendar(CALENDAR + ahead), self.now);
                }
            },
            _ => {
                self.now = self.now + script.span();
                self.wall.handle_timeout(self.now);
            }
        }
        self.drain();
        self.check();
    }

    /// When all are silent, nothing is left.
    pub fn end(mut self) {
        for _ in 0..4 {
            self.now = self.now + SILENCE;
            self.wall.handle_timeout(self.now);
            self.drain();
            self.check();
        }
        assert_eq!(self.bindings(), 0);
        assert_eq!(self.wall.deadline(), None);
    }

    /// How many bindings there are.
    pub fn bindings(&self) -> usize {
        self.wall.firewall().bindings().count()
    }

    /// A packet of somebody with a key.
    fn send(&mut self, script: &mut Script<'_>, inner: &[u8]) {
        let choice = script.octet();
        let key = usize::from(choice) % KEYS;
        let own = match key {
            2 => HOST,
            _ => script.one_of(&[CARE_OF, AGENT, ON_LINK]),
        };
        let sealer = &mut self.sealers[key];
        let mut packet = packet(
            (own, WALL),
            protocol::SKIP,
            &vec![0; sealer.sealed(inner.len())],
        );
        let start = ipv4::HEADER_LEN + sealer.clear_at();
        packet[start..start + inner.len()].copy_from_slice(inner);
        let time = SkipTime {
            calendar: Calendar(CALENDAR).at(Instant(0), self.now),
            now: self.now,
        };
        let (header, next) = (ipv4::HEADER_LEN, protocol::IPV4);
        let sealed = sealer.seal(
            &mut packet,
            header,
            inner.len(),
            next,
            time,
            &mut self.random,
        );
        sealed.expect("it is sealed");
        let packet = script.damage(packet);
        let path = match choice & 0x40 {
            0 => Path::raw(WALL.into(), own.into()),
            _ => {
                let nat = (script.address(), 40_000 + u16::from(choice & 3));
                Path::udp_with_skip((WALL, SKIP_PORT), nat)
            }
        };
        self.deliver(path, Some(key), packet);
    }

    fn deliver(&mut self, path: Path, key: Option<usize>, octets: Vec<u8>) {
        if let (Some(key), SocketAddr::V4(from)) = (key, path.remote) {
            self.heard.insert((key, from));
        }
        self.wall.receive(path, &mut octets.clone(), self.now);
        self.sent.push((path, key, octets));
    }

    fn drain(&mut self) {
        while let Some(effect) = self.wall.poll() {
            match effect {
                Effect::Sealed(path, octets) if path.local.ip() == IpAddr::V4(WALL) => {
                    // Outside there is nothing but SKIP.
                    let ip = Ipv4::new(&octets[..]).expect("a packet");
                    assert_eq!((ip.source(), ip.protocol()), (WALL, protocol::SKIP));
                    assert_eq!(ip.total_len(), octets.len());
                    assert!(path.via == Via::Raw || path.local.port() == SKIP_PORT);
                }
                Effect::Sealed(path, octets) => {
                    let ends = (path.local.ip(), path.remote.ip());
                    assert_eq!(ends, (FIREWALL.into(), HOME_AGENT.into()));
                    assert_eq!(octets[9], protocol::IPV4);
                }
                // Only the host has business with others than the home agent.
                Effect::Opened(packet) => {
                    let ip = Ipv4::new(&packet[..]).expect("a packet");
                    assert_eq!((ip.source(), ip.destination()), (HOST, SERVER));
                }
                Effect::StoreN(..) | Effect::KeepN(..) => panic!("the draft's n is the hour"),
                Effect::Event(_) => {}
            }
        }
    }

    fn check(&self) {
        let mut places = BTreeSet::new();
        for (EntryId(entry), binding) in self.wall.firewall().bindings() {
            assert!(entry < 2, "a host is bound");
            assert!(
                self.heard.contains(&(entry, binding.care_of)),
                "it was never there"
            );
            assert!(
                places.insert(binding.care_of),
                "an address belongs to one entry"
            );
        }
        let due = self.wall.deadline();
        assert!(due.is_none_or(|it| it.at >= self.now), "{due:?}");
    }
}

/// Bit 0: by parsing packets. Bit 1: without the header in the middle.
fn config(choice: u8) -> Config {
    let template = |key: usize, inside| Template {
        association: ends(key)[1].clone(),
        inside,
        home_address: None,
        stored_n: 0,
        heard_n: 0,
    };
    let server = TrafficSelector::host(SERVER.into());
    Config {
        outside: WALL,
        inside: FIREWALL,
        home_agents: vec![HOME_AGENT],
        entries: vec![
            (Origin::Nomadic, template(0, Vec::new())),
            (Origin::Nomadic, template(1, Vec::new())),
            (Origin::Host(HOST), template(2, vec![server])),
        ],
        lifetime: SILENCE,
        mode: match choice & 1 {
            0 => Mode::Binding,
            _ => Mode::PacketParsing,
        },
        removes_header: choice & 2 != 0,
        takes_udp: true,
        end_to_end: Vec::new(),
    }
}

fn made(config: &Config, now: Instant) -> Endpoint {
    let calendar = Calendar(CALENDAR).at(Instant(0), now);
    let seed = Seed::new([4; 32]);
    Endpoint::new(config.clone(), &seed, calendar, now).expect("a good list")
}

/// The peer's end of an association, and the firewall's.
fn ends(key: usize) -> [skip::Association; 2] {
    let algorithms = Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5);
    let algorithms = algorithms.expect("they go together");
    let name = match key {
        0 => Name::ipv4(HOME),
        1 => Name::ipv4(STRANGER),
        _ => Name::NONE,
    };
    [(name, Name::NONE), (Name::NONE, name)].map(|(local, remote)| {
        let parts = Parts {
            profile: Profile::Draft,
            algorithms,
            local,
            remote,
            iv_len: IvLen::Whole,
            renewal: Renewal::DRAFT,
            master: MasterKey::manual(&[1 + key as u8; 32]),
        };
        skip::Association::new(parts).expect("they fit")
    })
}

/// A packet between two addresses, with a packet, a message or anything in it.
fn inside(script: &mut Script<'_>) -> Vec<u8> {
    let kind = script.octet();
    let mut end = || match script.octet() {
        0 => HOST,
        1 => SERVER,
        _ => script.address(),
    };
    let ends = (end(), end());
    let innermost = packet((end(), end()), 253, &[7; 16]);
    match kind % 6 {
        0 => packet(ends, protocol::IPV4, &innermost),
        1 => {
            let gre = [&wire::ip::gre::HEADER[..], &innermost].concat();
            packet(ends, protocol::GRE, &gre)
        }
        2 => {
            let mut datagram = vec![1, 178, 1, 178, 0, 0, 0, 0];
            datagram.extend(script.octets());
            let length = (datagram.len() as u16).to_be_bytes();
            datagram[4..6].copy_from_slice(&length);
            packet(ends, protocol::UDP, &datagram)
        }
        3 => packet(ends, protocol::IPV4, &script.octets()),
        4 => packet(ends, script.octet(), &script.octets()),
        _ => innermost,
    }
}

fn packet(ends: (Ipv4Addr, Ipv4Addr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend_from_slice(payload);
    let header = ipv4::Header {
        tos: 0,
        id: 9,
        dont_fragment: true,
        ttl: 64,
        protocol,
        source: ends.0,
        destination: ends.1,
    };
    header.write(&mut packet);
    packet
}

fn one(script: &mut Script<'_>, list: &[Ipv4Addr]) -> IpAddr {
    script.one_of(list).into()
}
