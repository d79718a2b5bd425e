//! Mobile IPv4, and the firewall of its nodes: one machine at a time against a script of messages,
//! authentic ones, damaged ones and any octets, while time passes, clocks jump and administrators
//! revoke.

pub mod firewall;
pub mod foreign_agent;
pub mod home_agent;
pub mod mobile_node;
pub mod seeds;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use crypto::rand::{Seed, Stream};
use engine::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
use engine::mip4::identification::Clock;
use engine::time::{Duration, Instant};
use wire::codec::Writer;
use wire::mip4::{Authentication, Message, PORT, Revocation, RevocationAcknowledgment, extensions};

/// The node's home address and its home agent's.
pub const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
pub const HOME_AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
/// The foreign agent's care-of address, and its address on its link.
pub const AGENT: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
pub const ON_LINK: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
/// An address of the node's own, a firewall, and somebody else.
pub const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
pub const FIREWALL: Ipv4Addr = Ipv4Addr::new(192, 168, 4, 20);
pub const STRANGER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 66);
/// The longest lifetime, in seconds.
pub const LIFETIME: u16 = 300;
/// SPIs: between node and home agent, agents, node and foreign agent.
pub const OWN: u32 = 0x1000;
pub const SHARED: u32 = 0x3000;
pub const VISITOR: u32 = 0x2000;
/// Steps of one input at most.
const MAX_STEPS: usize = 64;
const KEY: &[u8] = b"0123456789abcdef";

/// An input, read leniently so that mutations stay scripts.
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Plays up to the end of the input or [`MAX_STEPS`].
    pub fn play(mut self, mut step: impl FnMut(u8, &mut Self)) {
        for _ in 0..MAX_STEPS {
            let Some((kind, rest)) = self.0.split_first() else {
                return;
            };
            self.0 = rest;
            step(*kind, &mut self);
        }
    }

    /// The next octet, 0 behind the end.
    pub fn octet(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.octet(), self.octet()])
    }

    pub fn one_of<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::from(self.octet()) % list.len()]
    }

    pub fn address(&mut self) -> Ipv4Addr {
        let known = [
            CARE_OF, AGENT, HOME, HOME_AGENT, ON_LINK, FIREWALL, STRANGER,
        ];
        self.one_of(&known)
    }

    /// An address and the port of agents.
    pub fn end(&mut self) -> SocketAddrV4 {
        SocketAddrV4::new(self.address(), PORT)
    }

    pub fn octets(&mut self) -> Vec<u8> {
        let len = usize::from(self.octet()).min(self.0.len());
        let (octets, rest) = self.0.split_at(len);
        self.0 = rest;
        octets.to_vec()
    }

    /// Changes an octet of a message, unless the script says 0.
    pub fn damage(&mut self, mut message: Vec<u8>) -> Vec<u8> {
        let (at, change) = (self.octet(), self.octet());
        let len = message.len().max(1);
        if let Some(octet) = message.get_mut(usize::from(at) % len) {
            *octet ^= change;
        }
        message
    }

    /// A time step, mostly short.
    pub fn span(&mut self) -> Duration {
        Duration::from_millis(u64::from(self.number()) * 10)
    }

    /// A revocation or an acknowledgment with the right key, of this second of the clock.
    pub fn revocation(&mut self, now: u32, spi: u32) -> Vec<u8> {
        let flags = self.octet();
        let identifier = now.wrapping_add(u32::from(self.octet())).wrapping_sub(4);
        let between = self.one_of(&[Authentication::ForeignHome, Authentication::MobileHome]);
        let mut w = Writer::new();
        if flags & 4 == 0 {
            Revocation {
                is_from_home_agent: flags & 1 != 0,
                informs: flags & 2 != 0,
                home_address: HOME,
                home_domain: HOME_AGENT,
                foreign_domain: self.one_of(&[AGENT, CARE_OF]),
                identifier,
            }
            .write(&mut w);
        } else {
            RevocationAcknowledgment {
                informs: flags & 2 != 0,
                home_address: HOME,
                identifier,
            }
            .write(&mut w);
        }
        association(spi).sign(between, &mut w);
        w.into_vec()
    }
}

/// Both sides' association of this number.
pub fn association(spi: u32) -> Association {
    let replay = ReplayProtection::Timestamps;
    Association::new(spi, Algorithm::HmacMd5, replay, KEY).expect("a key")
}

pub fn associations(spi: u32) -> Associations {
    Associations::new(vec![association(spi)]).expect("one")
}

/// The message of a datagram, if the one authenticator between these two is right. Not who wrote it
/// counts: the fuzzer keeps what it has seen, and may write an authentic message itself.
pub fn authentic(payload: &[u8], between: Authentication, spi: u32) -> Option<Message> {
    let (message, at) = Message::parse(payload).ok()?;
    let list = extensions(payload, at).ok()?;
    let mut of = list.iter().filter(|it| it.between() == Some(between));
    let one = of.next()?;
    association(spi).verifies(payload, one).then_some(message)
}

/// A calendar that is ahead by these seconds.
pub fn clock(ahead: u16) -> Clock {
    let seconds = 1_795_000_000 + u64::from(ahead);
    Clock::new(Instant(0), Duration::from_secs(seconds))
}

/// Seconds of a clock, as revocations have them.
pub fn seconds(clock: Clock, now: Instant) -> u32 {
    (clock.ntp(now) >> 32) as u32
}

pub fn random(name: &'static str) -> Stream {
    Seed::new([4; 32]).stream(name, 0)
}
