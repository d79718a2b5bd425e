//! A storm: a stranger sends every kind of hostile datagram, four thousand per second, drawn from a
//! seed. Honest stations of IKEv2 and of both modes of IKEv1 connect in the middle of it, with keys
//! and with certificate chains, which travel in fragments. Afterwards everything held for the
//! stranger is released.

use super::ikev2::{has_certificate, speaks};
use super::*;
use crate::ikev1::fragments::MAX_HELD;
use crate::ikev1::tests::pair::JANUARY_2027;

/// Duration of the storm.
const STORM: Duration = Duration::from_secs(13);
/// A station is up within this time: in the worst case its third repetition is answered.
const BOUND: Duration = Duration::from_secs(8);
const EVERY: Duration = Duration::from_micros(250);
/// The station starts when the storm has filled all that it can.
const BEGIN: Duration = Duration::from_secs(4);

/// The kind of a station.
#[derive(Clone, Copy, Debug)]
struct Kind {
    mode: (Version, bool),
    has_certificates: bool,
}

const fn kind(version: Version, is_aggressive: bool, has_certificates: bool) -> Kind {
    Kind {
        mode: (version, is_aggressive),
        has_certificates,
    }
}

const KINDS: [Kind; 6] = [
    kind(Version::V1, false, false),
    kind(Version::V1, true, false),
    kind(Version::V1, false, true),
    kind(Version::V1, true, true),
    kind(Version::V2, false, false),
    kind(Version::V2, false, true),
];

impl Kind {
    fn apply(self, connection: &mut Connection, is_station: bool) {
        speaks(connection, self.mode.0);
        connection.is_aggressive = self.mode.1;
        connection.proposals = vec!["aes128-sha256-modp768".parse().unwrap()];
        connection.children[0].proposals = vec!["aes128gcm16".parse().unwrap()];
        if !self.has_certificates {
            return;
        }
        has_certificate(connection, is_station);
    }

    /// The station of this kind, down, at a gateway for all kinds.
    fn world(self, seed: u8) -> World {
        let apply = move |connection: &mut Connection, is_station| {
            self.apply(connection, is_station);
        };
        let mut world = World::new(seed, apply);
        let mut all = config(false, &world.change);
        for (n, kind) in KINDS.into_iter().enumerate() {
            let change: Change = Arc::new(move |connection, is_station| {
                kind.apply(connection, is_station);
                connection.name = format!("kind {n}");
            });
            all.connections
                .append(&mut config(false, &change).connections);
        }
        all.limits = Limits::default();
        world.input(1, Input::Configure(Arc::new(all)));
        for end in [0, 1] {
            world.input(end, Input::Calendar(JANUARY_2027));
        }
        world
    }

    /// Its first message.
    fn first(self) -> Vec<u8> {
        self.world(130).first_message().expect("a first message")
    }
}

/// The stranger.
struct Stranger {
    random: Stream,
    firsts: Vec<Vec<u8>>,
    /// An earlier tunnel of the station, from its first message to its last. Anyone who overhears
    /// messages of an exchange in progress can end it, because IKEv1 starts unencrypted.
    overheard: Vec<Vec<u8>>,
    /// Answers to its own first messages: source and cookies, or SPIs of IKEv2.
    answered: Vec<(SocketAddr, Version, Cookies)>,
}

impl Stranger {
    fn below(&mut self, bound: usize) -> usize {
        self.random.u32() as usize % bound
    }

    fn octets(&mut self, len: usize) -> Vec<u8> {
        let mut octets = vec![0; len];
        self.random.fill(&mut octets);
        octets
    }

    /// One address of its own, an address of its /64, or a forged one.
    fn address(&mut self) -> SocketAddr {
        let port = 1_024 + (self.random.u32() % 60_000) as u16;
        let number = self.random.u32();
        match number % 3 {
            0 => ([203, 0, 113, 66], port).into(),
            1 => {
                let host = [number as u16, (number >> 16) as u16];
                let address = [0x2001, 0xdb8, 0, 0x66, 0, 0, host[0], host[1]];
                (address, port).into()
            }
            _ => ((number | 0x0100_0000).to_be_bytes(), port).into(),
        }
    }

    /// The same of IKEv2 (RFC 7383 §2.5): it is of IKE_AUTH, and nobody has its key.
    fn fragment_of_ikev2(&mut self, spis: Cookies) -> Vec<u8> {
        let len = 40 + self.below(1_200);
        let (number, total) = (1 + self.below(250) as u16, 2 + self.below(250) as u16);
        let mut octets = [spis.initiator.0, spis.responder.0].concat();
        // SKF, version 2.0, IKE_AUTH, from the initiator, the second message.
        octets.extend([53, 0x20, 35, 0x08, 0, 0, 0, 1]);
        octets.extend((28 + 8 + len as u32).to_be_bytes());
        octets.extend([35, 0]);
        octets.extend((8 + len as u16).to_be_bytes());
        octets.extend(number.to_be_bytes());
        octets.extend(total.to_be_bytes());
        octets.extend(self.octets(len));
        octets
    }

    /// A fragment that never becomes a message.
    fn fragment(&mut self, cookies: Cookies) -> Vec<u8> {
        let header = Header {
            cookies,
            next_payload: PayloadKind::Fragment,
            exchange: Exchange::Aggressive,
            flags: Flags::default(),
            message_id: 0,
        };
        let len = 1 + self.below(3_000);
        let fragment = wire::isakmp::Fragment {
            id: self.random.u32() as u16,
            number: 2 + self.below(250) as u8,
            is_last: self.below(8) == 0,
            data: self.octets(len),
        };
        header.write(&wire::isakmp::write_payloads(&[Payload::Fragment(fragment)]).1)
    }

    fn cookie(&mut self) -> Cookie {
        Cookie(self.octets(8).try_into().expect("eight"))
    }

    /// An answer to one of its own messages, which came from this address.
    fn learn(&mut self, from: SocketAddr, message: &[u8]) {
        if let Ok((header, _)) = Header::parse(message) {
            self.answered.push((from, Version::V1, header.cookies));
        }
        if let Ok(read) = wire::ikev2::Message::parse(message) {
            let spis = read.header.spis;
            let cookies = Cookies {
                initiator: Cookie(spis.initiator.0),
                responder: Cookie(spis.responder.0),
            };
            self.answered.push((from, Version::V2, cookies));
        }
    }

    /// Sends one datagram to the gateway.
    fn strike(&mut self, world: &mut World) {
        let mut from = self.address();
        let octets = match self.below(8) {
            0 => {
                let len = self.below(400);
                self.octets(len)
            }
            1..=3 => {
                let which = self.below(self.firsts.len());
                let mut first = self.firsts[which].clone();
                first[..8].copy_from_slice(&self.cookie().0);
                first
            }
            4 => {
                let initiator = self.cookie();
                let responder = Cookie::ZERO;
                self.fragment(Cookies {
                    initiator,
                    responder,
                })
            }
            5 if !self.answered.is_empty() => {
                let which = self.below(self.answered.len());
                let (address, version, cookies) = self.answered[which];
                from = address;
                match version {
                    Version::V2 => self.fragment_of_ikev2(cookies),
                    _ => self.fragment(cookies),
                }
            }
            // Earlier messages of honest stations, from elsewhere and sometimes changed.
            _ => {
                let which = self.below(self.overheard.len());
                let mut octets = self.overheard[which].clone();
                for _ in 0..self.below(3) {
                    let at = self.below(octets.len());
                    octets[at] = self.random.u32() as u8;
                }
                octets
            }
        };
        let sent = world.network.log.len();
        let port = if self.below(4) == 0 {
            NAT_T_PORT
        } else {
            IKE_PORT
        };
        let local: SocketAddr = match from {
            SocketAddr::V4(_) => (GATEWAY, port).into(),
            SocketAddr::V6(_) => ([0x2001, 0xdb8, 0, 1, 0, 0, 0, 1], port).into(),
        };
        let octets = match port {
            NAT_T_PORT => [&[0; 4], &octets[..]].concat(),
            _ => octets,
        };
        world.deliver(1, arrives(local, from), &octets);
        for answer in world.network.log.drain(sent..) {
            let message = answer.strip_prefix(&[0; 4]).unwrap_or(&answer);
            self.learn(from, message);
        }
    }
}

#[test]
fn honest_stations_of_every_kind_come_up_in_a_storm_and_nothing_of_it_stays() {
    let firsts: Vec<Vec<u8>> = KINDS.into_iter().map(Kind::first).collect();
    for (seed, kind) in (131..).zip(KINDS) {
        let mut world = kind.world(seed);
        world.run(Duration::from_secs(3));
        world.assert_up();
        world.command(0, Command::Down("road".into()));
        world.run(Duration::from_secs(1));
        let mut stranger = Stranger {
            random: Seed::new([seed; 32]).stream("stranger", 0),
            firsts: firsts.clone(),
            overheard: world.network.log.clone(),
            answered: Vec::new(),
        };
        let began = world.now;
        let mut up_after = None;
        let mut is_asked = false;
        while world.now.since(began) < STORM {
            stranger.strike(&mut world);
            world.run(EVERY);
            let node = &world.ends[1].node;
            assert!(node.assembly.octets() <= MAX_HELD);
            assert!(node.sessions.len() <= 6_000, "{}", node.sessions.len());
            let elapsed = world.now.since(began);
            if !is_asked && elapsed > BEGIN {
                is_asked = true;
                world.command(0, Command::Up("road".into()));
            }
            if up_after.is_none() && world.ends[0].node.established() == 1 {
                up_after = Some(elapsed);
            }
        }
        let bound = BEGIN + BOUND;
        let is_in_time = up_after.is_some_and(|elapsed| elapsed < bound);
        assert!(is_in_time, "seed {seed}, {kind:?}: up after {up_after:?}");
        world.assert_up();
        for reason in [DropReason::TooManyHalfOpen, DropReason::IncompleteMessage] {
            assert!(world.drops(1, reason) > 1_000, "{reason:?}");
        }
        let in_fragments = |event: &Event| match event {
            Event::Message { datagrams, .. } => *datagrams > 1,
            _ => false,
        };
        assert_eq!(world.ends[0].told(in_fragments), kind.has_certificates);
        // Calm: everything held has expired when the next fragment comes.
        world.run(Duration::from_secs(60));
        world.assert_up();
        let node = &world.ends[1].node;
        assert_eq!((node.sessions.len(), node.half_open.total()), (1, 0));
        let cookies = Cookies {
            initiator: Cookie([9; 8]),
            responder: Cookie::ZERO,
        };
        let last = stranger.fragment(cookies);
        let path = arrives((GATEWAY, IKE_PORT), ([203, 0, 113, 66], IKE_PORT));
        world.deliver(1, path, &last);
        assert!(world.ends[1].node.assembly.messages() <= 1);
    }
}
