//! When an agent advertises (RFC 5944 §2.3, RFC 1256 §4.3).

use crypto::rand::Stream;

use crate::time::{Duration, Instant};

/// The sequence number after the last one (RFC 5944 §2.3.2).
const AFTER_WRAP: u16 = 256;
/// The shortest time between two advertisements for all (RFC 5944 §2.3).
const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Solicitations that are answered at once within [`INTERVAL_MIN`]. Anybody can solicit.
const ANSWERS_MAX: u32 = 8;

/// The clock of advertisements.
pub(super) struct Pace {
    /// Of the next one.
    sequence: u16,
    due: Instant,
    sent: Option<Instant>,
    /// Since when answers are counted, and how many there are.
    answers: (Instant, u32),
}

impl Pace {
    /// The first one is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sequence: 0,
            due: now,
            sent: None,
            answers: (now, 0),
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// The sequence number of an advertisement for one node that solicits. RFC 1256 §4.3 lets it
    /// go at once. After too many of them there is none: then all hear the next one, no sooner than
    /// a second after the last one.
    pub(super) fn answer(&mut self, now: Instant) -> Option<u16> {
        if now >= self.answers.0 + INTERVAL_MIN {
            self.answers = (now, 0);
        }
        if self.answers.1 == ANSWERS_MAX {
            let soonest = self.sent.map_or(now, |sent| sent + INTERVAL_MIN);
            self.due = self.due.min(soonest.max(now));
            return None;
        }
        self.answers.1 += 1;
        Some(self.count())
    }

    /// The sequence number of the advertisement that is due, if one is. It holds for this many
    /// seconds.
    pub(super) fn next(&mut self, lifetime: u16, now: Instant, random: &mut Stream) -> Option<u16> {
        if self.due > now {
            return None;
        }
        let sequence = self.count();
        self.sent = Some(now);
        // At most a third of the lifetime apart, at random between three quarters of that and it.
        let longest = (Duration::from_secs(lifetime.into()) / 3).max(INTERVAL_MIN);
        let part = random.u32() % 256;
        self.due = now + longest * 3 / 4 + longest / 4 * part / 256;
        Some(sequence)
    }

    fn count(&mut self) -> u16 {
        let sequence = self.sequence;
        self.sequence = sequence.checked_add(1).unwrap_or(AFTER_WRAP);
        sequence
    }
}
