//! One direction of a link: a finite queue, a rate or a recording, a delay that may vary, loss,
//! packets held back, an MTU.
//!
//! A pure machine: its input is the length of an IP packet and the time, its output a [`Fate`]. The
//! event kernel of `lab` schedules packets with it, and the relay of `daemon` (`caravan link`)
//! schedules real frames with it. So a simulated and a real link with the same [`Shape`] differ
//! only by what the operating system adds.
//!
//! Each packet is charged by its IP length, the link's framing and its access time. Loss comes
//! after transmission, as on radio: a lost packet has used the link. Left out: loss in bursts, and
//! fragmenting packets that are too big, which needs their octets. What a wireless link does to a
//! frame's octets is in [`wireless`].

pub mod chance;
pub mod recording;
pub mod shape;
pub mod wireless;

use std::collections::VecDeque;

pub use chance::Chance;
pub use shape::{BadShape, Carrier, Delay, Limit, RATE_BPS_MAX, Shape};

use crate::time::{Duration, Instant};
use recording::{BadRecording, Replay, Rewind};

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives at this time, never before one that was offered earlier, unless that one was held
    /// back.
    Arrives(Instant),
    /// It is transmitted and lost.
    Lost,
    /// The queue is full.
    Overflows,
    /// It is larger than the MTU.
    TooBig,
    /// The link is down.
    Down,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered: u64,
    /// Their octets, without framing.
    pub offered_bytes: u64,
    /// Packets that arrive.
    pub delivered: u64,
    /// Their octets, without framing.
    pub delivered_bytes: u64,
    /// Transmitted and lost.
    pub lost: u64,
    /// Refused by a full queue.
    pub overflowed: u64,
    /// Larger than the MTU.
    pub too_big: u64,
    /// Offered while the link was down.
    pub down: u64,
    /// Most packets that waited at once, if the queue is bounded.
    pub longest_queue: usize,
}

/// A change of a running link. Packets already accepted keep their fate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// This rate in bits per second from now on. Also replaces a recording.
    Rate(u64),
    /// From the end of transmission to arrival. No packet overtakes one in flight.
    Delay(Duration),
    /// Share of the packets that are transmitted and lost.
    Loss(f64),
    /// Whether it accepts packets at all.
    Up(bool),
}

/// One direction of a link that reads its recording from an `R` and draws from a `C`.
pub struct Link<R, C> {
    shape: Shape<Box<Replay<R>>>,
    chance: C,
    waiting: VecDeque<(Instant, u32)>,
    waiting_bytes: u64,
    free_at: Instant,
    last_arrival: Instant,
    is_down: bool,
    counters: Counters,
    broken: Option<BadRecording>,
}

/// The size of two full packets.
const OVERTAKERS_BITS: f64 = 2.0 * 1500.0 * 8.0;

/// Bits of an octet, and nanoseconds of a second.
const OCTET_NS: u64 = 8 * 1_000_000_000;

impl<R: Rewind, C: Chance> Link<R, C> {
    /// A link that is idle at time 0. `chance` draws its losses and delays.
    pub fn new(shape: Shape<Box<Replay<R>>>, chance: C) -> Self {
        Self {
            shape,
            chance,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Instant(0),
            last_arrival: Instant(0),
            is_down: false,
            counters: Counters::default(),
            broken: None,
        }
    }

    /// Applies a change. Refuses values that no link can have.
    pub fn change(&mut self, change: Change) -> Result<(), BadShape> {
        match change {
            Change::Rate(0) => return Err(BadShape::Rate),
            Change::Rate(bits) => {
                self.shape.carrier = Carrier::Rate(bits);
                self.broken = None;
            }
            Change::Delay(delay) => self.shape.delay = Delay::Fixed(delay),
            Change::Loss(loss) if !(0.0..=1.0).contains(&loss) => {
                return Err(BadShape::Loss(loss));
            }
            Change::Loss(loss) => self.shape.loss = loss,
            Change::Up(is_up) => self.is_down = !is_up,
        }
        Ok(())
    }

    /// Offers an IP packet of `bytes`. `now` never goes back. An error: the recording cannot be
    /// read further, and the link carries nothing until it has a rate.
    #[inline]
    pub fn offer(&mut self, bytes: u32, now: Instant) -> Result<Fate, BadRecording> {
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(bytes);
        if self.is_down {
            self.counters.down += 1;
            return Ok(Fate::Down);
        }
        if self.shape.mtu.is_some_and(|mtu| bytes > mtu) {
            self.counters.too_big += 1;
            return Ok(Fate::TooBig);
        }
        let framed = bytes.saturating_add(self.shape.overhead_bytes);
        let has_queue = self.has_queue();
        if has_queue && !self.has_room(framed, now) {
            self.counters.overflowed += 1;
            return Ok(Fate::Overflows);
        }
        let departs = self.departure(framed, now)?;
        self.free_at = departs;
        if has_queue {
            self.waiting.push_back((departs, framed));
            self.waiting_bytes += u64::from(framed);
            self.counters.longest_queue = self.counters.longest_queue.max(self.waiting.len());
        }
        if self.shape.loss > 0.0 && self.chance.unit() < self.shape.loss {
            self.counters.lost += 1;
            return Ok(Fate::Lost);
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(bytes);
        Ok(Fate::Arrives(self.arrival(departs)))
    }

    /// Whether it accepts nothing.
    pub fn is_down(&self) -> bool {
        self.is_down
    }

    /// When its last accepted packet is sent; no recording changes it.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// The other direction uses the wire until then: both share it.
    pub fn occupy(&mut self, until: Instant) {
        self.free_at = self.free_at.max(until);
    }

    /// The counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The fixed properties.
    pub fn shape(&self) -> &Shape<Box<Replay<R>>> {
        &self.shape
    }

    /// Without a rate or recording, nothing ever waits.
    #[inline]
    fn has_queue(&self) -> bool {
        self.shape.queue != Limit::None && !matches!(self.shape.carrier, Carrier::Unlimited)
    }

    #[inline]
    fn has_room(&mut self, framed: u32, now: Instant) -> bool {
        while let Some((_, done)) = self.waiting.pop_front_if(|(departs, _)| *departs <= now) {
            self.waiting_bytes -= u64::from(done);
        }
        match self.shape.queue {
            Limit::None => true,
            Limit::Packets(most) => self.waiting.len() < most,
            Limit::Bytes(most) => self.waiting_bytes + u64::from(framed) <= most,
        }
    }

    /// When its last bit is sent.
    #[inline]
    fn departure(&mut self, framed: u32, now: Instant) -> Result<Instant, BadRecording> {
        match &mut self.shape.carrier {
            Carrier::Unlimited => Ok(now),
            Carrier::Rate(bits) => {
                let access = self.shape.access_time.as_nanos() as u64;
                let span = span_ns(framed, *bits).saturating_add(access);
                Ok(Instant(self.free_at.max(now).0.saturating_add(span)))
            }
            Carrier::Recording(replay) => {
                if let Some(fault) = &self.broken {
                    return Err(fault.clone());
                }
                let carried = replay.carry(framed, now);
                carried.inspect_err(|fault| self.broken = Some(fault.clone()))
            }
        }
    }

    #[inline]
    fn arrival(&mut self, departs: Instant) -> Instant {
        let delay = match self.shape.delay {
            Delay::Fixed(delay) => delay,
            Delay::Uniform(least, most) => {
                let width = most.saturating_sub(least).as_nanos() as u64;
                least + Duration::from_nanos(self.chance.below(width.saturating_add(1)))
            }
            Delay::Exponential(least, mean) => {
                let ns = mean.as_nanos() as f64 * self.chance.exponential();
                least + Duration::from_nanos(ns as u64)
            }
        };
        let arrives = (departs + delay).max(self.last_arrival);
        self.last_arrival = arrives;
        match self.shape.reorder > 0.0 && self.chance.unit() < self.shape.reorder {
            true => arrives + self.hold(),
            false => arrives,
        }
    }

    /// How long a packet is held back: until the link has carried [`OVERTAKERS_BITS`] of others.
    fn hold(&self) -> Duration {
        let bits_per_second = match &self.shape.carrier {
            Carrier::Unlimited => return Duration::ZERO,
            Carrier::Rate(bits) => *bits as f64,
            Carrier::Recording(replay) => replay.bytes_per_second() * 8.0,
        };
        Duration::from_secs_f64(OVERTAKERS_BITS / bits_per_second.max(1.0))
    }
}

/// The transmission time at a rate. A rate of 0, which [`Shape::check`] refuses, counts as 1 bit/s.
#[inline]
fn span_ns(framed: u32, bits_per_second: u64) -> u64 {
    // 64 bits are enough up to 2 GiB, and much faster to divide
    match u64::from(framed).checked_mul(OCTET_NS) {
        Some(product) => product / bits_per_second.max(1),
        None => {
            let product = u128::from(framed) * u128::from(OCTET_NS);
            u64::try_from(product / u128::from(bits_per_second.max(1))).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests;
