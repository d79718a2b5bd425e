//! A network between two ends, in memory: delay, loss and a NAT. Its random numbers come from a
//! seed.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crypto::rand::Stream;

use crate::sa::Path;
use crate::time::{Duration, Instant};

/// A network between two ends, and what it does to datagrams.
pub struct Network {
    /// The delay in each direction.
    pub delay: Duration,
    /// If it is not zero, each message arrives twice, each time up to this much later.
    pub jitter: Duration,
    /// The fraction of IKE messages that are lost.
    pub loss: f64,
    /// The number of one message that is lost, counted from 1.
    pub loses: Option<usize>,
    /// If a message contains these octets, one bit of them is changed.
    pub garbles: Option<Vec<u8>>,
    /// The NAT in front of the first end.
    pub nat: Option<Nat>,
    /// Addresses that no end has.
    pub dead: Vec<IpAddr>,
    /// An address, and its additional delay in each direction.
    pub slow: Option<(IpAddr, Duration)>,
    /// Datagrams in flight.
    pub wire: Vec<Datagram>,
    /// How many IKE messages were sent. Each fragment counts.
    pub sent: usize,
    /// The IKE messages that were sent.
    pub log: Vec<Vec<u8>>,
    /// IKE messages to dead addresses.
    pub unheard: Vec<(Path, Vec<u8>)>,
    random: Stream,
}

/// A datagram in flight.
pub struct Datagram {
    /// When it arrives.
    pub at: Instant,
    /// The end where it arrives.
    pub to: usize,
    /// The path as that end sees it.
    pub path: Path,
    /// What [`receive`](super::Endpoint::receive) gets.
    pub octets: Vec<u8>,
}

/// Translates the first end's address and ports.
pub struct Nat {
    /// The first end's own address.
    pub inside: IpAddr,
    /// Its public address.
    pub outside: IpAddr,
    /// The public port of each private port.
    pub ports: BTreeMap<u16, u16>,
    last_port: u16,
}

impl Network {
    /// A network without a NAT and without loss, with a delay of 20 ms in each direction.
    pub fn new(random: Stream) -> Self {
        Self {
            delay: Duration::from_millis(20),
            jitter: Duration::ZERO,
            loss: 0.0,
            loses: None,
            garbles: None,
            nat: None,
            dead: Vec::new(),
            slow: None,
            wire: Vec::new(),
            sent: 0,
            log: Vec::new(),
            unheard: Vec::new(),
            random,
        }
    }

    /// The path of an end's datagram as the other end sees it. `None`: the NAT drops the datagram.
    pub fn translate(&mut self, end: usize, path: Path) -> Option<Path> {
        let (local, remote) = match (end, &mut self.nat) {
            (0, Some(nat)) => (path.remote, nat.outward(path.local.port())),
            (_, Some(nat)) => (nat.inward(path.remote)?, path.local),
            (_, None) => (path.remote, path.local),
        };
        Some(Path {
            via: path.via,
            local,
            remote,
        })
    }

    /// Sends a sealed packet. None of them is lost.
    pub(super) fn packet(&mut self, end: usize, path: Path, octets: Vec<u8>, now: Instant) {
        let path = self.translate(end, path);
        if let Some(path) = path.filter(|it| !self.dead.contains(&it.local.ip())) {
            let at = now + self.delay;
            let to = 1 - end;
            self.wire.push(Datagram {
                at,
                to,
                path,
                octets,
            });
        }
    }

    /// Sends an IKE message.
    pub(super) fn message(&mut self, end: usize, path: Path, mut octets: Vec<u8>, now: Instant) {
        self.sent += 1;
        if let Some(garbled) = &self.garbles {
            let mut places = octets.windows(garbled.len());
            if let Some(at) = places.position(|it| it == garbled) {
                octets[at] ^= 1;
            }
        }
        self.log.push(octets.clone());
        if self.loses.take_if(|lost| *lost == self.sent).is_some() || self.chance() < self.loss {
            return;
        }
        if self.dead.contains(&path.remote.ip()) {
            return self.unheard.push((path, octets));
        }
        let is_end = |address| {
            [path.local, path.remote]
                .iter()
                .any(|end| end.ip() == address)
        };
        let slower = self.slow.filter(|(address, _)| is_end(*address));
        let slower = slower.map_or(Duration::ZERO, |(_, slower)| slower);
        let Some(path) = self.translate(end, path) else {
            return;
        };
        let times = if self.jitter.is_zero() { 1 } else { 2 };
        for _ in 0..times {
            let late = self.jitter.mul_f64(self.chance());
            self.wire.push(Datagram {
                at: now + self.delay + slower + late,
                to: 1 - end,
                path,
                octets: octets.clone(),
            });
        }
    }

    /// When the next datagram arrives.
    pub(super) fn next(&self) -> Option<Instant> {
        self.wire.iter().map(|datagram| datagram.at).min()
    }

    /// The datagram that arrives next. If several arrive at once, the one that was sent first.
    pub(super) fn take(&mut self) -> Option<Datagram> {
        let next = self.next()?;
        let first = self.wire.iter().position(|datagram| datagram.at == next)?;
        Some(self.wire.remove(first))
    }

    /// A random number from 0 to 1.
    fn chance(&mut self) -> f64 {
        f64::from(self.random.u32()) / f64::from(u32::MAX)
    }
}

impl Nat {
    /// A NAT without mappings.
    pub fn new(inside: IpAddr, outside: IpAddr) -> Self {
        Self {
            inside,
            outside,
            ports: BTreeMap::new(),
            last_port: 40_000,
        }
    }

    /// Forgets its mappings. The next ones get other ports.
    pub fn forget(&mut self) {
        self.ports.clear();
    }

    fn outward(&mut self, port: u16) -> SocketAddr {
        let last = &mut self.last_port;
        let port = *self.ports.entry(port).or_insert_with(|| {
            *last += 1;
            *last
        });
        (self.outside, port).into()
    }

    fn inward(&self, to: SocketAddr) -> Option<SocketAddr> {
        let mut ports = self.ports.iter();
        let (private, _) = ports.find(|(_, public)| **public == to.port())?;
        (to.ip() == self.outside).then(|| (self.inside, *private).into())
    }
}
