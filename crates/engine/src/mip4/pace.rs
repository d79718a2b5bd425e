//! When an agent advertises (RFC 5944 §2.3, RFC 1256 §6.2).

use crypto::rand::Stream;

use crate::time::{Duration, Instant};

/// The sequence number after the last one (RFC 5944 §2.3.2).
const AFTER_WRAP: u16 = 256;
/// The shortest time between two advertisements.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The clock of advertisements.
pub(super) struct Pace {
    /// Of the next one.
    sequence: u16,
    due: Instant,
    sent: Option<Instant>,
}

impl Pace {
    /// The first one is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sequence: 0,
            due: now,
            sent: None,
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// A solicitation brings the next one forward, to a second after the last one at most.
    pub(super) fn solicited(&mut self, now: Instant) {
        let soonest = self.sent.map_or(now, |sent| sent + INTERVAL_MIN);
        self.due = self.due.min(soonest.max(now));
    }

    /// The sequence number of the advertisement that is due, if one is. It holds for this many
    /// seconds.
    pub(super) fn next(&mut self, lifetime: u16, now: Instant, random: &mut Stream) -> Option<u16> {
        if self.due > now {
            return None;
        }
        let sequence = self.sequence;
        self.sequence = sequence.checked_add(1).unwrap_or(AFTER_WRAP);
        self.sent = Some(now);
        // At most a third of the lifetime apart, at random between three quarters of that and it.
        let longest = (Duration::from_secs(lifetime.into()) / 3).max(INTERVAL_MIN);
        let part = random.u32() % 256;
        self.due = now + longest * 3 / 4 + longest / 4 * part / 256;
        Some(sequence)
    }
}
