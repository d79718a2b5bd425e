//! Seconds as the whole nanoseconds of [`engine::time`].

use engine::time::Duration;

/// The longest time that is told apart: sums of such times do not overflow.
const MAX_SECONDS: f64 = 1e6;

/// The nearest whole nanoseconds; invalid numbers count as zero.
pub(crate) fn nanoseconds(seconds: f64) -> u64 {
    if seconds > 0.0 {
        libm::round(seconds.min(MAX_SECONDS) * 1e9) as u64
    } else {
        0
    }
}

/// The same as a duration.
pub(crate) fn after(seconds: f64) -> Duration {
    Duration::from_nanos(nanoseconds(seconds))
}
