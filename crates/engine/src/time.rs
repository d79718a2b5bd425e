//! Time as an argument: a monotonic [`Instant`] of our own, and calendar time for certificates.

use core::ops::{Add, Sub};
pub use core::time::Duration;

/// Nanoseconds since the owner's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Instant(pub u64);

/// Calendar time, seconds since 1970-01-01 UTC. Given only to protocols that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Calendar(pub i64);

impl Calendar {
    /// The calendar time at `now`, if it was this at the moment `told`.
    pub fn at(self, told: Instant, now: Instant) -> Self {
        let passed = i64::try_from(now.since(told).as_secs()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(passed))
    }
}

/// When a machine wants to be woken, and why. Traces print the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    /// The moment.
    pub at: Instant,
    /// A few words, such as "retransmit message 3".
    pub why: &'static str,
}

impl Instant {
    /// Time since `earlier`, zero when that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(
            self.0
                .saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calendar_goes_on_from_where_it_was_told() {
        let (told, minute) = (Instant(5), Instant(5 + 60_000_000_000));
        assert_eq!(
            Calendar(1_800_000_000).at(told, told),
            Calendar(1_800_000_000)
        );
        assert_eq!(
            Calendar(1_800_000_000).at(told, minute),
            Calendar(1_800_000_060)
        );
        assert_eq!(Calendar(7).at(minute, told), Calendar(7));
    }
}
