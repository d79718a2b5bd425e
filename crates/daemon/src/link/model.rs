//! What a link does to a datagram: a finite queue, a rate or a recorded trace, a delay, a loss.
//! Pure: time and chance are arguments.
//!
//! Each datagram of the wire is charged by itself. Loss is after the carrier, as on the air: a lost
//! datagram was still paid for. A trace is an [`engine::recording`], read as time goes on.

use std::collections::VecDeque;

use engine::recording::{BadRecording, Replay, Rewind};
use engine::time::{Duration, Instant};

/// Most datagrams under way on a link without a rate.
const MAX_UNDER_WAY: usize = 65_536;

/// Everything fixed about one direction of a link.
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
pub enum Carrier {
    /// At once.
    Unlimited,
    /// Bits a second, not 0.
    Rate(u64),
    /// As recorded.
    Trace(Replay<Box<dyn Rewind + Send>>),
}

/// The bound of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// In datagrams.
    Datagrams(usize),
    /// In octets.
    Bytes(usize),
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
    /// uniform in 0..1. A trace that cannot be read on is a fault, and ends the link.
    pub fn offer(&mut self, bytes: usize, now: Instant, chance: f64) -> Result<Fate, BadRecording> {
        self.counters.offered += 1;
        while let Some((_, done)) = self.waiting.pop_front_if(|(departs, _)| *departs <= now) {
            self.waiting_bytes -= done;
        }
        if !self.has_room(bytes) {
            self.counters.overflowed += 1;
            return Ok(Fate::Overflows);
        }
        let departs = match &mut self.shape.carrier {
            Carrier::Unlimited => now,
            Carrier::Rate(bits) => {
                let span = bytes as u128 * 8_000_000_000 / u128::from(*bits);
                let span = u64::try_from(span).unwrap_or(u64::MAX);
                self.free_at.max(now) + Duration::from_nanos(span)
            }
            Carrier::Trace(trace) => trace.carry(u32::try_from(bytes).unwrap_or(u32::MAX), now)?,
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
            return Ok(Fate::Lost);
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += bytes as u64;
        Ok(Fate::Arrives(departs + self.shape.delay))
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

#[cfg(test)]
mod tests;
