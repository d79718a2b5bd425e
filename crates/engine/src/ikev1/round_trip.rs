//! How long an answer takes on a path: the estimate of RFC 6298, and what it makes of a message
//! that was sent more than once (Karn's algorithm).
//!
//! A sample is the time from a message's departure until its answer was understood, so that it
//! holds what the peer computes. Left out: the clock's granularity, since ours is a nanosecond.

use crate::time::Duration;

/// Before anything is known of the path (RFC 6298 §2.1).
pub const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// RFC 6298 §2.4 rounds up to a second, for streams that fill a path. A handshake is a dozen
/// messages: a repetition costs the path little, and a second of waiting costs the user a second.
pub const MIN_TIMEOUT: Duration = Duration::from_millis(500);
/// So that a message is sent at least twice before it is given up.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(20);

/// What is known of a path's round trips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    estimate: Option<Estimate>,
    /// The timeout that the last message had when its answer came, after repetitions: it counts
    /// until an answer is to one sending alone (RFC 6298 §5, step 5.5 and Karn's algorithm).
    backed_off: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

impl RoundTrip {
    /// How long an answer is waited for before its message is sent again.
    pub fn timeout(&self) -> Duration {
        let learned = self.estimate.map(|it| it.smoothed + it.variation * 4);
        self.backed_off
            .or(learned)
            .map_or(FIRST_TIMEOUT, |it| it.clamp(MIN_TIMEOUT, MAX_TIMEOUT))
    }

    /// A message that was sent once was answered after `sample` (RFC 6298 §2.2 and §2.3).
    pub fn learn(&mut self, sample: Duration) {
        self.backed_off = None;
        self.estimate = Some(match self.estimate {
            None => Estimate {
                smoothed: sample,
                variation: sample / 2,
            },
            Some(Estimate {
                smoothed,
                variation,
            }) => Estimate {
                variation: (variation * 3 + smoothed.abs_diff(sample)) / 4,
                smoothed: (smoothed * 7 + sample) / 8,
            },
        });
    }

    /// A message that was sent more than once was answered, and nobody knows which sending: the
    /// next message waits as long as this one did at last (RFC 6298 §3).
    pub fn back_off(&mut self, timeout: Duration) {
        self.backed_off = Some(timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_first_sample_is_tripled_and_later_ones_are_smoothed() {
        let mut path = RoundTrip::default();
        assert_eq!(path.timeout(), FIRST_TIMEOUT);
        path.learn(ms(800));
        assert_eq!(path.timeout(), ms(2400));
        // SRTT 800, RTTVAR (3 x 400 + 0) / 4
        path.learn(ms(800));
        assert_eq!(path.timeout(), ms(800 + 4 * 300));
        // RTTVAR (3 x 300 + 800) / 4 = 425, SRTT (7 x 800 + 1600) / 8 = 900
        path.learn(ms(1600));
        assert_eq!(path.timeout(), ms(900 + 4 * 425));
    }

    #[test]
    fn the_timeout_stays_within_its_limits() {
        let mut path = RoundTrip::default();
        path.learn(ms(1));
        assert_eq!(path.timeout(), MIN_TIMEOUT);
        path.learn(Duration::from_secs(3600));
        assert_eq!(path.timeout(), MAX_TIMEOUT);
        path.back_off(Duration::from_secs(3600));
        assert_eq!(path.timeout(), MAX_TIMEOUT);
    }

    #[test]
    fn a_timeout_that_was_backed_off_counts_until_an_answer_is_to_one_sending() {
        let mut path = RoundTrip::default();
        path.learn(ms(200));
        path.back_off(ms(4000));
        assert_eq!(path.timeout(), ms(4000));
        path.learn(ms(200));
        assert_eq!(path.timeout(), ms(200 + 4 * 75));
    }
}
