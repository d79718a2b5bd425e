//! Repetition of a message until it is answered, with growing pauses.

use crate::time::{Duration, Instant};

/// When a message is sent again, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// The first pause; each further one is twice as long.
    pub(super) first: Duration,
    /// How often it is sent, the first time included.
    pub(super) sends: u32,
}

/// Client's: 1, 2, 4, 8, 16 and 32 s, which is longer than Host may take.
pub(super) const OF_CLIENT: Schedule = Schedule {
    first: Duration::from_secs(1),
    sends: 6,
};
/// Host's to Target, for each of its two messages: 0.5, 1, 2, 4 and 8 s.
pub(super) const OF_HOST: Schedule = Schedule {
    first: Duration::from_millis(500),
    sends: 5,
};

/// A message that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Retry<M> {
    /// The message.
    pub(super) message: M,
    /// Pauses that have begun.
    pub(super) sent: u32,
    /// When the pause ends.
    pub(super) next: Instant,
    schedule: Schedule,
}

impl<M> Retry<M> {
    /// The message has just been sent for the first time.
    pub(super) fn new(message: M, schedule: Schedule, now: Instant) -> Self {
        Self {
            message,
            sent: 1,
            next: now + schedule.first,
            schedule,
        }
    }

    /// Whether it must be sent again. None: that was the last pause.
    pub(super) fn again(&mut self, now: Instant) -> Option<bool> {
        if now < self.next {
            return Some(false);
        }
        if self.sent >= self.schedule.sends {
            return None;
        }
        self.next = now + self.schedule.first * 2u32.pow(self.sent);
        self.sent += 1;
        Some(true)
    }
}
