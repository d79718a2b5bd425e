//! One direction of a link: a finite queue, a rate or a recorded trace, a delay that may vary,
//! loss, packets held back, an MTU.
//!
//! Each packet is charged by its IP length and the framing that the link adds. Loss comes after
//! the carrier, as on the air: a lost packet was paid for. Left out: loss in bursts.

use std::collections::VecDeque;

use engine::recording::{BadRecording, Replay, Rewind};
use engine::time::{Duration, Instant};

use super::random::Random;
use super::trace::Trace;

/// What is fixed about a link.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How fast.
    pub carrier: Carrier,
    /// From the end of transmission to arrival.
    pub delay: Delay,
    /// Share of the packets that are carried and lost, 0 to 1.
    pub loss: f64,
    /// What may wait, the packet in transmission included.
    pub queue: Limit,
    /// Share of the packets that are held back, and how long: others overtake them.
    pub held_back: Option<(f64, Duration)>,
    /// Largest IP packet: a larger real one is cut into fragments before the link or, where it
    /// forbids that, dropped; a larger plain one is dropped.
    pub mtu: Option<u32>,
    /// Octets that the link adds to each IP packet.
    pub overhead_bytes: u32,
}

/// How fast a link carries.
#[derive(Clone, Debug)]
pub enum Carrier {
    /// At once.
    Unlimited,
    /// Bits a second, not 0.
    Rate(u64),
    /// As recorded.
    Trace(Trace),
}

/// A delay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Delay {
    /// Always the same.
    Fixed(Duration),
    /// Uniform from the first to the second. Packets do not overtake each other.
    Uniform(Duration, Duration),
    /// The first, and an exponential part of the second's mean. Packets do not overtake each other.
    Exponential(Duration, Duration),
}

/// The bound of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Everything; the kernel bounds what is under way.
    None,
    /// In packets.
    Packets(usize),
    /// In octets, framing included.
    Bytes(u64),
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then.
    Arrives(Instant),
    /// It is carried and lost.
    Lost,
    /// The queue is full.
    Overflows,
    /// It is larger than the MTU.
    TooBig,
    /// The recording cannot be read on: [`Link::broken`] says why, and the link is of no use.
    Unreadable,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets offered.
    pub offered: u64,
    /// Their octets, framing left out.
    pub offered_bytes: u64,
    /// Packets that arrive.
    pub delivered: u64,
    /// Their octets, framing left out.
    pub delivered_bytes: u64,
    /// Carried and lost.
    pub lost: u64,
    /// Refused by a full queue.
    pub overflowed: u64,
    /// Larger than the MTU.
    pub too_big: u64,
    /// Most packets that waited at once, where the queue is bounded.
    pub longest_queue: usize,
}

/// One direction of a link.
pub struct Link {
    shape: Shape,
    carrier: Running,
    random: Random,
    waiting: VecDeque<(Instant, u32)>,
    waiting_bytes: u64,
    free_at: Instant,
    last_arrival: Instant,
    counters: Counters,
}

enum Running {
    Unlimited,
    Rate(u64),
    Trace(Box<Result<Replay<Box<dyn Rewind>>, BadRecording>>),
}

impl Shape {
    /// A lossless link of a rate and a delay, without a bound.
    pub fn plain(bits_per_second: u64, delay: Duration) -> Self {
        Self {
            carrier: Carrier::Rate(bits_per_second),
            delay: Delay::Fixed(delay),
            loss: 0.0,
            queue: Limit::None,
            held_back: None,
            mtu: None,
            overhead_bytes: 0,
        }
    }

    /// Why no link can be so; `None`: it can.
    pub fn fault(&self) -> Option<String> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        if !is_share(self.loss) {
            return Some(format!("a loss of {}, 0 to 1 can be", self.loss));
        }
        match (&self.carrier, self.delay, self.held_back, self.queue) {
            (Carrier::Rate(0), ..) => Some("a rate of 0 bit/s carries nothing".into()),
            (_, Delay::Uniform(least, most), ..) if most < least => {
                Some(format!("a delay from {least:?} to {most:?} has no values"))
            }
            (_, _, Some((share, _)), _) if !is_share(share) => {
                Some(format!("a share of {share} held back, 0 to 1 can be"))
            }
            (.., Limit::Packets(0) | Limit::Bytes(0)) => Some("a queue of 0 takes nothing".into()),
            _ => self
                .mtu
                .filter(|mtu| *mtu < MIN_MTU)
                .map(|mtu| format!("an mtu of {mtu} bytes, {MIN_MTU} is the least (RFC 791 §3.2)")),
        }
    }

    /// Bits a second in the long run; infinite without a carrier.
    pub fn bits_per_second(&self) -> f64 {
        match &self.carrier {
            Carrier::Unlimited => f64::INFINITY,
            Carrier::Rate(bits) => *bits as f64,
            Carrier::Trace(trace) => trace.bytes_per_second() * 8.0,
        }
    }

    /// The mean delay, in seconds.
    pub fn mean_delay_s(&self) -> f64 {
        match self.delay {
            Delay::Fixed(delay) => delay.as_secs_f64(),
            Delay::Uniform(least, most) => (least.as_secs_f64() + most.as_secs_f64()) / 2.0,
            Delay::Exponential(least, mean) => least.as_secs_f64() + mean.as_secs_f64(),
        }
    }
}

impl Link {
    /// Idle at time 0. `random`: of its losses and delays.
    pub fn new(shape: Shape, random: Random) -> Self {
        let carrier = match &shape.carrier {
            Carrier::Unlimited => Running::Unlimited,
            Carrier::Rate(bits) => Running::Rate((*bits).max(1)),
            Carrier::Trace(trace) => Running::Trace(Box::new(trace.replay())),
        };
        Self {
            shape,
            carrier,
            random,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Instant(0),
            last_arrival: Instant(0),
            counters: Counters::default(),
        }
    }

    /// An IP packet of `bytes` comes; `now` never goes back.
    #[inline]
    pub fn offer(&mut self, bytes: u32, now: Instant) -> Fate {
        self.counters.offered += 1;
        self.counters.offered_bytes += u64::from(bytes);
        if self.shape.mtu.is_some_and(|mtu| bytes > mtu) {
            self.counters.too_big += 1;
            return Fate::TooBig;
        }
        let framed = bytes.saturating_add(self.shape.overhead_bytes);
        if self.shape.queue != Limit::None && !self.has_room(framed, now) {
            self.counters.overflowed += 1;
            return Fate::Overflows;
        }
        let departs = match &mut self.carrier {
            Running::Unlimited => now,
            Running::Rate(bits) => {
                let span = u64::from(framed) * 8_000_000_000 / *bits;
                Instant(self.free_at.max(now).0.saturating_add(span))
            }
            Running::Trace(replay) => {
                let carried = (**replay).as_mut().map(|replay| replay.carry(framed, now));
                match carried {
                    Ok(Ok(departs)) => departs,
                    Ok(Err(fault)) => {
                        **replay = Err(fault);
                        return Fate::Unreadable;
                    }
                    Err(_) => return Fate::Unreadable,
                }
            }
        };
        self.free_at = departs;
        if self.shape.queue != Limit::None {
            self.waiting.push_back((departs, framed));
            self.waiting_bytes += u64::from(framed);
            self.counters.longest_queue = self.counters.longest_queue.max(self.waiting.len());
        }
        if self.shape.loss > 0.0 && self.random.unit() < self.shape.loss {
            self.counters.lost += 1;
            return Fate::Lost;
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += u64::from(bytes);
        Fate::Arrives(self.arrival(departs))
    }

    /// Counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Why its recording cannot be read on; none: it can, or there is none.
    pub fn broken(&self) -> Option<&BadRecording> {
        match &self.carrier {
            Running::Trace(replay) => replay.as_ref().as_ref().err(),
            Running::Unlimited | Running::Rate(_) => None,
        }
    }

    /// What is fixed.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    #[inline]
    fn arrival(&mut self, departs: Instant) -> Instant {
        let delay = match self.shape.delay {
            Delay::Fixed(delay) => delay,
            Delay::Uniform(least, most) => {
                let width = most.saturating_sub(least).as_nanos() as u64;
                least + Duration::from_nanos(self.random.below(width.saturating_add(1)))
            }
            Delay::Exponential(least, mean) => {
                let ns = mean.as_nanos() as f64 * self.random.exponential();
                least + Duration::from_nanos(ns as u64)
            }
        };
        let arrives = (departs + delay).max(self.last_arrival);
        self.last_arrival = arrives;
        match self.shape.held_back {
            Some((share, span)) if self.random.unit() < share => arrives + span,
            _ => arrives,
        }
    }

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
}

const MIN_MTU: u32 = 68;

#[cfg(test)]
mod tests;
