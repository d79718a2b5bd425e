//! Time as an argument: a monotonic [`Instant`] of our own, and calendar time for certificates.

use core::fmt;
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

const DAY_SECONDS: i64 = 86_400;
/// Days of 400 years of the Gregorian calendar.
const CYCLE_DAYS: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01. Years are counted from March, so that a leap day is the last.
const MARCH_TO_EPOCH_DAYS: i64 = 719_468;
/// The last second of the year 9999, the last that RFC 3339 can write.
const LAST: i64 = 253_402_300_799;

/// UTC as RFC 3339 writes it: `2027-01-15T08:00:00Z`. A time before 1970 or after the year 9999 is
/// written as its seconds.
impl fmt::Display for Calendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !(0..=LAST).contains(&self.0) {
            return write!(f, "{}", self.0);
        }
        let (days, second) = (self.0 / DAY_SECONDS, self.0 % DAY_SECONDS);
        let days = days + MARCH_TO_EPOCH_DAYS;
        let (cycle, day) = (days / CYCLE_DAYS, days % CYCLE_DAYS);
        let year = (day - day / 1_460 + day / 36_524 - day / (CYCLE_DAYS - 1)) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let is_next = month >= 10;
        let month = if is_next { month - 9 } else { month + 3 };
        let year = 400 * cycle + year + i64::from(is_next);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
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
    fn a_calendar_time_is_written_as_rfc_3339_does() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_800_000_000, "2027-01-15T08:00:00Z"),
            (4_107_542_399, "2100-02-28T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
            (LAST + 1, "253402300800"),
            (-1, "-1"),
        ] {
            assert_eq!(Calendar(seconds).to_string(), text);
        }
        // Each day follows the one before.
        let of = |day: i64| Calendar(day * DAY_SECONDS).to_string();
        let mut last = of(0);
        for day in 1..2 * CYCLE_DAYS {
            let next = of(day);
            let (date, before) = (&next[..10], &last[..10]);
            let is_next = date > before && (date.ends_with("-01") || date[..8] == before[..8]);
            assert!(is_next, "{before} {date}");
            last = next;
        }
    }

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
