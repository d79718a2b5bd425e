//! The counter n: which one is sent, which ones are accepted.
//!
//! The draft's n is the hour, so it needs nothing but a clock. The paper's n is a count of the
//! pair. A sender that restarts must not send an n again, so the count is on disk. Not every step
//! needs a write: what is stored is a bound that n stays below. It leaps ahead by [`LEAP`], and a
//! sender that restarts continues at the bound. At most [`LEAP`] values are lost by a restart.
//!
//! The receiver of a count refuses what is below the highest n that it has heard, and what is more
//! than [`AHEAD`] above it. Only the sender can make a packet that verifies, so a tight limit would
//! stop nobody but the sender: after a long outage, or after a recorded packet was repeated to a
//! receiver that has lost its highest n.

use super::SkipTime;
use crate::counters::DropReason;
use crate::time::{Calendar, Duration, Instant};

/// The draft's zero hour, 1995-01-01 00:00:00 UTC.
pub const ZERO_HOUR: Calendar = Calendar(788_918_400);

/// How far n may be from the receiver's hour.
pub const HOURS_APART: u32 = 1;

/// The paper's n steps after this time.
pub const STEP_AGE: Duration = Duration::from_secs(30);

/// The paper's n steps after this many octets of clear text, 512 KB.
pub const STEP_BYTES: u64 = 512 * 1024;

/// How far the paper's n may be above the highest that was authentic: a year of steps of 30 s whose
/// packets were all lost, and 24 days of those of 2 s, at the paper's 269 KB/s.
pub const AHEAD: u32 = 1 << 20;

/// How far the paper's n may be below the highest that was authentic: the path may reorder packets.
pub const BEHIND: u32 = 1;

/// How far the stored bound leaps ahead of n: 8 minutes at the paper's rate.
pub const LEAP: u32 = 256;

const SECONDS_PER_HOUR: i64 = 3_600;

/// The draft's n at a time: whole hours since [`ZERO_HOUR`], 0 before it.
pub fn hours(time: Calendar) -> u32 {
    let hours = time.0.saturating_sub(ZERO_HOUR.0).max(0) / SECONDS_PER_HOUR;
    u32::try_from(hours).unwrap_or(u32::MAX)
}

/// Which n the sender uses.
pub(super) enum Sent {
    Hours,
    Steps(Steps),
}

/// The paper's count.
pub(super) struct Steps {
    n: u32,
    /// On disk: n stays below it.
    stored: u32,
    since: Option<Instant>,
    bytes: u64,
}

impl Sent {
    pub(super) fn steps(stored: u32) -> Self {
        Self::Steps(Steps {
            n: stored,
            stored,
            since: None,
            bytes: 0,
        })
    }

    /// The n of the next packet, of `clear` octets.
    pub(super) fn next(&mut self, time: SkipTime, clear: u64) -> Result<u32, DropReason> {
        match self {
            Self::Hours => Ok(hours(time.calendar)),
            Self::Steps(steps) => steps.next(time.now, clear),
        }
    }

    pub(super) fn to_store(&self) -> Option<u32> {
        match self {
            Self::Hours => None,
            Self::Steps(steps) => steps.to_store(),
        }
    }

    pub(super) fn is_stored(&mut self, bound: u32) {
        if let Self::Steps(steps) = self {
            steps.stored = steps.stored.max(bound);
        }
    }
}

impl Steps {
    fn next(&mut self, now: Instant, clear: u64) -> Result<u32, DropReason> {
        let since = *self.since.get_or_insert(now);
        let is_full = self.bytes > 0 && self.bytes + clear > STEP_BYTES;
        if is_full || now.since(since) >= STEP_AGE {
            self.n = self.n.checked_add(1).ok_or(DropReason::SequenceExhausted)?;
            self.since = Some(now);
            self.bytes = 0;
        }
        if self.n >= self.stored {
            return Err(DropReason::SkipUnstoredN);
        }
        self.bytes += clear;
        Ok(self.n)
    }

    /// The bound to write when half of the leap is used.
    fn to_store(&self) -> Option<u32> {
        let is_due = self.stored.saturating_sub(self.n) <= LEAP / 2;
        let bound = self.n.saturating_add(LEAP);
        (is_due && bound > self.stored).then_some(bound)
    }
}

/// Which n the receiver accepts.
pub(super) struct Accepted {
    is_hours: bool,
    /// Of the packets that were authentic.
    highest: Option<u32>,
}

impl Accepted {
    pub(super) fn hours() -> Self {
        Self {
            is_hours: true,
            highest: None,
        }
    }

    pub(super) fn steps(highest: Option<u32>) -> Self {
        Self {
            is_hours: false,
            highest,
        }
    }

    /// Whether n may be accepted. Changes nothing.
    pub(super) fn check(&self, n: u32, time: SkipTime) -> Result<(), DropReason> {
        let (first, last) = match (self.is_hours, self.highest) {
            (true, _) => {
                let hour = hours(time.calendar);
                let first = hour.saturating_sub(HOURS_APART);
                (first, hour.saturating_add(HOURS_APART))
            }
            (false, Some(highest)) => {
                let first = highest.saturating_sub(BEHIND);
                (first, highest.saturating_add(AHEAD))
            }
            // Nothing is known of the peer: its first authentic packet says where n is.
            (false, None) => (0, u32::MAX),
        };
        match n {
            _ if n < first => Err(DropReason::SkipOldN),
            _ if n > last => Err(DropReason::SkipFutureN),
            _ => Ok(()),
        }
    }

    /// Remembers the n of an authentic packet. Returns whether none was higher before. An hour that
    /// is not yet ours does not count: a sender whose clock was ahead, and is right again, would
    /// otherwise be old until then.
    pub(super) fn accept(&mut self, n: u32, time: SkipTime) -> bool {
        let ours = match self.is_hours {
            true => hours(time.calendar),
            false => u32::MAX,
        };
        let is_highest = self.highest.is_none_or(|highest| n >= highest.min(ours));
        self.highest = Some(self.highest.map_or(n, |highest| highest.max(n)));
        is_highest
    }

    pub(super) fn highest(&self) -> Option<u32> {
        self.highest
    }
}
