//! What a link does to a datagram: a finite queue, a rate or a recorded trace, a delay, a loss.
//! Pure: time and chance are arguments.
//!
//! Each datagram of the wire is charged by itself. Loss is after the carrier, as on the air: a lost
//! datagram was still paid for. A trace has Mahimahi's form: one delivery opportunity of
//! [`OPPORTUNITY_BYTES`] at each millisecond that a line names, repeated after the last one. What
//! an opportunity does not use is left to datagrams that wait already, and is wasted otherwise.

use std::collections::VecDeque;

use engine::time::{Duration, Instant};

/// Octets of one delivery opportunity: an IP packet of 1500 and the 4 octets that Mahimahi counts.
pub const OPPORTUNITY_BYTES: usize = 1504;
/// Octets beside each IP packet that Mahimahi charges.
const TRACE_OVERHEAD_BYTES: usize = 4;
/// Most opportunities of a trace.
const MAX_OPPORTUNITIES: usize = 10_000_000;
/// Most datagrams under way on a link without a rate.
const MAX_UNDER_WAY: usize = 65_536;

/// Everything fixed about one direction of a link.
#[derive(Clone, Debug)]
pub struct Shape {
    /// How fast.
    pub carrier: Carrier,
    /// From the end of transmission to arrival.
    pub delay: Duration,
    /// Probability of loss, 0 to 1.
    pub loss: f64,
    /// What may wait, the datagram in transmission included.
    pub queue: Queue,
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

/// The bound of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// In datagrams.
    Datagrams(usize),
    /// In octets.
    Bytes(usize),
}

/// Delivery opportunities and the place reached in them.
#[derive(Clone, Debug)]
pub struct Trace {
    opportunities_ms: Vec<u64>,
    at: u64,
    left: usize,
}

/// Why a trace is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTrace {
    /// Not a number of milliseconds, or smaller than the one before.
    #[error("line {0} is not a millisecond at or after the line before")]
    Line(usize),
    /// No opportunity after 0 ms: it would never end.
    #[error("a trace needs an opportunity after 0 ms")]
    Empty,
    /// Longer than we hold.
    #[error("a trace has at most {MAX_OPPORTUNITIES} lines")]
    TooLong,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then. Never earlier than one offered before.
    Arrives(Instant),
    /// It is carried and lost.
    Lost,
    /// The queue is full.
    Overflows,
}

/// Counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counters {
    /// Datagrams offered.
    pub offered: u64,
    /// Datagrams that arrive.
    pub delivered: u64,
    /// Their octets.
    pub delivered_bytes: u64,
    /// Carried and lost.
    pub lost: u64,
    /// Refused by a full queue.
    pub overflowed: u64,
    /// Most datagrams that waited at once.
    pub longest_queue: usize,
}

/// One direction of a link.
pub struct Link {
    shape: Shape,
    waiting: VecDeque<(Instant, usize)>,
    waiting_bytes: usize,
    free_at: Instant,
    counters: Counters,
}

impl Link {
    /// Idle at time 0.
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            free_at: Instant(0),
            counters: Counters::default(),
        }
    }

    /// A datagram of an IP packet of `bytes` octets comes. `now` never goes back; `chance` is
    /// uniform in 0..1.
    pub fn offer(&mut self, bytes: usize, now: Instant, chance: f64) -> Fate {
        self.counters.offered += 1;
        while let Some((_, done)) = self.waiting.pop_front_if(|(departs, _)| *departs <= now) {
            self.waiting_bytes -= done;
        }
        if !self.has_room(bytes) {
            self.counters.overflowed += 1;
            return Fate::Overflows;
        }
        let departs = match &mut self.shape.carrier {
            Carrier::Unlimited => now,
            Carrier::Rate(bits) => {
                let span = bytes as u128 * 8_000_000_000 / u128::from(*bits);
                let span = u64::try_from(span).unwrap_or(u64::MAX);
                self.free_at.max(now) + Duration::from_nanos(span)
            }
            Carrier::Trace(trace) => trace.carry(bytes + TRACE_OVERHEAD_BYTES, now),
        };
        self.free_at = departs;
        let leaves = match self.shape.carrier {
            Carrier::Unlimited => departs + self.shape.delay,
            _ => departs,
        };
        self.waiting.push_back((leaves, bytes));
        self.waiting_bytes += bytes;
        self.counters.longest_queue = self.counters.longest_queue.max(self.waiting.len());
        if chance < self.shape.loss {
            self.counters.lost += 1;
            return Fate::Lost;
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += bytes as u64;
        Fate::Arrives(departs + self.shape.delay)
    }

    /// Counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn has_room(&self, bytes: usize) -> bool {
        match (&self.shape.carrier, self.shape.queue) {
            // Nothing waits for a carrier without a rate; only memory bounds what is under way.
            (Carrier::Unlimited, _) => self.waiting.len() < MAX_UNDER_WAY,
            (_, Queue::Datagrams(most)) => self.waiting.len() < most,
            (_, Queue::Bytes(most)) => self.waiting_bytes + bytes <= most,
        }
    }
}

impl Trace {
    /// Reads one millisecond a line.
    pub fn parse(text: &str) -> Result<Self, BadTrace> {
        let mut opportunities_ms = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let ms: u64 = line.trim().parse().map_err(|_| BadTrace::Line(index + 1))?;
            if opportunities_ms.last().is_some_and(|last| ms < *last) {
                return Err(BadTrace::Line(index + 1));
            }
            if opportunities_ms.len() == MAX_OPPORTUNITIES {
                return Err(BadTrace::TooLong);
            }
            opportunities_ms.push(ms);
        }
        if opportunities_ms.last().is_none_or(|last| *last == 0) {
            return Err(BadTrace::Empty);
        }
        Ok(Self {
            opportunities_ms,
            at: 0,
            left: OPPORTUNITY_BYTES,
        })
    }

    /// When the last of `bytes` octets departs.
    fn carry(&mut self, bytes: usize, now: Instant) -> Instant {
        if self.time(self.at) < now {
            self.at = self.first_from(now);
            self.left = OPPORTUNITY_BYTES;
        }
        let mut bytes = bytes;
        loop {
            if self.left == 0 {
                self.at += 1;
                self.left = OPPORTUNITY_BYTES;
            }
            let taken = bytes.min(self.left);
            self.left -= taken;
            bytes -= taken;
            if bytes == 0 {
                return self.time(self.at);
            }
        }
    }

    fn time(&self, at: u64) -> Instant {
        let len = self.opportunities_ms.len() as u64;
        let within = self.opportunities_ms[(at % len) as usize];
        Instant((at / len * self.period_ms() + within) * 1_000_000)
    }

    /// The first opportunity at or after `now`.
    fn first_from(&self, now: Instant) -> u64 {
        let len = self.opportunities_ms.len() as u64;
        let ms = now.0.div_ceil(1_000_000);
        // The end of a round and the start of the next may be the same millisecond.
        let round = ms.saturating_sub(1) / self.period_ms();
        let within = ms - round * self.period_ms();
        let before = self.opportunities_ms.partition_point(|at| *at < within);
        round * len + before as u64
    }

    fn period_ms(&self) -> u64 {
        self.opportunities_ms.last().copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests;
