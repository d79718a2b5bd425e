//! Processors: first in, first out, with seconds from cost tables.
//!
//! A [`Cpu`] is in the path of plain packets and charges each by its clear size. Hosts charge their
//! own work through [`Costs`].

use std::net::IpAddr;
use std::rc::Rc;

use engine::time::{Duration, Instant};
use engine::work::Work;

use super::Target;
use crate::cost::WorkTime;
use crate::staircase::Staircase;
use crate::time::nanoseconds;

/// Sizes whose service time is cached.
const TABLE_BYTES: u32 = 2048;

/// The costs of a host's work.
#[derive(Clone)]
pub struct Costs {
    /// For packets, unless their peer is in `peers`.
    pub packet: PacketCosts,
    /// For packets of tunnels with other policies: first and last inner address of the peers.
    pub peers: Vec<(IpAddr, IpAddr, PacketCosts)>,
    /// The time of control's last work.
    pub control: Rc<dyn Fn(&Work) -> WorkTime>,
}

/// The costs of one packet under one policy.
#[derive(Clone, Debug, Default)]
pub struct PacketCosts {
    /// Seconds to seal it, by its clear size.
    pub seal: Staircase,
    /// Seconds to open it, by its clear size.
    pub open: Staircase,
}

/// A processor in the path of plain packets.
pub struct Cpu {
    service: Staircase,
    size: Option<Staircase>,
    table: Vec<u64>,
    pub(super) next: Target,
    free_at: Instant,
    busy: Duration,
    packets: u64,
}

impl Costs {
    /// Everything takes no time.
    pub fn free() -> Self {
        Self {
            packet: PacketCosts::default(),
            peers: Vec::new(),
            control: Rc::new(|_| WorkTime::default()),
        }
    }

    /// The costs of a clear packet from or to this peer, by its inner address.
    pub fn of_peer(&self, peer: impl FnOnce() -> Option<IpAddr>) -> &PacketCosts {
        let peers = Some(&self.peers).filter(|peers| !peers.is_empty());
        let Some((peers, peer)) = peers.and_then(|peers| Some((peers, peer()?))) else {
            return &self.packet;
        };
        let mut others = peers.iter();
        let other = others.find(|(first, last, _)| (*first..=*last).contains(&peer));
        other.map_or(&self.packet, |(.., costs)| costs)
    }
}

impl Cpu {
    /// `service`: seconds by clear size. `size`: the size of packets afterwards, by clear size;
    /// none: unchanged.
    pub fn new(service: Staircase, size: Option<Staircase>, next: Target) -> Self {
        let table = (0..TABLE_BYTES).map(|bytes| nanoseconds(service.at(f64::from(bytes))));
        Self {
            table: table.collect(),
            service,
            size,
            next,
            free_at: Instant(0),
            busy: Duration::ZERO,
            packets: 0,
        }
    }

    /// Accepts a packet of this clear size. Returns when it is done.
    #[inline]
    pub fn offer(&mut self, clear: u32, now: Instant) -> Instant {
        let span = match self.table.get(clear as usize) {
            Some(span) => *span,
            None => nanoseconds(self.service.at(f64::from(clear))),
        };
        self.packets += 1;
        self.busy += Duration::from_nanos(span);
        self.free_at = Instant(self.free_at.max(now).0.saturating_add(span));
        self.free_at
    }

    /// The size of a packet afterwards, in whole octets.
    #[inline]
    pub fn size(&self, clear: u32, bytes: u32) -> u32 {
        let size = |size: &Staircase| libm::ceil(size.at(f64::from(clear))) as u32;
        self.size.as_ref().map_or(bytes, size)
    }

    /// Its total working time and number of packets.
    pub fn busy(&self) -> (Duration, u64) {
        (self.busy, self.packets)
    }
}
