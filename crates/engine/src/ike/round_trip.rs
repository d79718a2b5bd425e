//! The round trip time of a path: the estimate of RFC 6298, with Karn's algorithm for messages that
//! were sent more than once.
//!
//! A sample is the time from a message's departure until its answer was understood, so it includes
//! the peer's computation. On a slow link it grows with the message: a message longer than all
//! measured ones gets proportionally more time. Left out: the clock's granularity, because ours is
//! a nanosecond.

use crate::time::Duration;

/// The timeout before any measurement (RFC 6298 §2.1).
pub const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// RFC 6298 §2.4 rounds up to a second, for streams that fill a path. A handshake has a dozen
/// messages: a repetition costs the path little, and a second of waiting costs the user a second.
pub const MIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Ensures that a message is sent at least twice before it is given up.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(20);

/// A longer message gets at most this multiple of the round trip: on most paths length costs
/// little.
const MAX_STRETCH: usize = 8;

/// The measurements of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrip {
    estimate: Option<Estimate>,
    /// The last message's timeout after repetitions. It applies until a message that was sent only
    /// once is answered (RFC 6298 §5, step 5.5 and Karn's algorithm).
    backed_off: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
    /// Octets of the longest measured message.
    longest: usize,
}

impl RoundTrip {
    /// How long to wait for the answer to a message of this many octets before sending it again.
    pub fn timeout(&self, octets: usize) -> Duration {
        let learned = self.estimate.map(|it| {
            let stretched = octets.min(it.longest.saturating_mul(MAX_STRETCH));
            let smoothed = match it.longest {
                longest if stretched > longest => it.smoothed * stretched as u32 / longest as u32,
                _ => it.smoothed,
            };
            smoothed + it.variation * 4
        });
        self.backed_off
            .or(learned)
            .map_or(FIRST_TIMEOUT, |it| it.clamp(MIN_TIMEOUT, MAX_TIMEOUT))
    }

    /// A message of this many octets, sent once, was answered after `sample` (RFC 6298 §2.2 and
    /// §2.3).
    pub fn learn(&mut self, sample: Duration, octets: usize) {
        self.backed_off = None;
        self.estimate = Some(match self.estimate {
            None => Estimate {
                smoothed: sample,
                variation: sample / 2,
                longest: octets,
            },
            Some(Estimate {
                smoothed,
                variation,
                longest,
            }) => Estimate {
                longest: longest.max(octets),
                variation: (variation * 3 + smoothed.abs_diff(sample)) / 4,
                smoothed: (smoothed * 7 + sample) / 8,
            },
        });
    }

    /// A message that was sent more than once was answered, and the answer belongs to an unknown
    /// sending: the next message starts with the last timeout of this one (RFC 6298 §3).
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
        assert_eq!(path.timeout(100), FIRST_TIMEOUT);
        path.learn(ms(800), 100);
        assert_eq!(path.timeout(100), ms(2400));
        // SRTT 800, RTTVAR (3 x 400 + 0) / 4
        path.learn(ms(800), 100);
        assert_eq!(path.timeout(100), ms(800 + 4 * 300));
        // RTTVAR (3 x 300 + 800) / 4 = 425, SRTT (7 x 800 + 1600) / 8 = 900
        path.learn(ms(1600), 100);
        assert_eq!(path.timeout(100), ms(900 + 4 * 425));
    }

    #[test]
    fn the_timeout_stays_within_its_limits() {
        let mut path = RoundTrip::default();
        path.learn(ms(1), 100);
        assert_eq!(path.timeout(100), MIN_TIMEOUT);
        path.learn(Duration::from_secs(3600), 100);
        assert_eq!(path.timeout(100), MAX_TIMEOUT);
        path.back_off(Duration::from_secs(3600));
        assert_eq!(path.timeout(100), MAX_TIMEOUT);
    }

    #[test]
    fn a_timeout_that_was_backed_off_counts_until_an_answer_is_to_one_sending() {
        let mut path = RoundTrip::default();
        path.learn(ms(200), 100);
        path.back_off(ms(4000));
        assert_eq!(path.timeout(100), ms(4000));
        path.learn(ms(200), 100);
        assert_eq!(path.timeout(100), ms(200 + 4 * 75));
    }

    #[test]
    fn a_message_longer_than_all_that_were_timed_is_given_more_time() {
        let mut path = RoundTrip::default();
        path.learn(ms(400), 200);
        assert_eq!(path.timeout(200), ms(400 + 4 * 200));
        assert_eq!(path.timeout(100), path.timeout(200));
        assert_eq!(path.timeout(1000), ms(5 * 400 + 4 * 200));
        assert_eq!(path.timeout(1 << 20), ms(8 * 400 + 4 * 200));
        path.learn(ms(400), 1000);
        assert_eq!(path.timeout(1000), ms(400 + 4 * 150));
        // Without a measured round trip, the lengths of messages do not matter.
        assert_eq!(RoundTrip::default().timeout(1 << 20), FIRST_TIMEOUT);
    }
}
