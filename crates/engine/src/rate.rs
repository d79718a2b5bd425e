//! A rate with a burst: so many at once, then one more after each interval. Whoever limits what
//! others can make us do uses this.

use crate::time::{Duration, Instant};

/// This many at once, then one more after each `every`.
#[derive(Clone, Copy)]
pub(crate) struct Rate {
    pub(crate) burst: u32,
    pub(crate) every: Duration,
}

impl Rate {
    pub(crate) const fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every }
    }

    /// The same, with another number at once.
    pub(crate) const fn with_burst(self, burst: u32) -> Self {
        Self { burst, ..self }
    }
}

/// The amount taken, as the time when it is refilled.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bucket(Instant);

impl Bucket {
    /// Whether there is one to take.
    pub(crate) fn has(self, rate: Rate, now: Instant) -> bool {
        self.0.since(now) + rate.every <= rate.every * rate.burst
    }

    /// Takes one, whether there is one or not.
    pub(crate) fn take(&mut self, rate: Rate, now: Instant) {
        self.0 = self.0.max(now) + rate.every;
    }

    /// Takes one, if there is one.
    pub(crate) fn take_one(&mut self, rate: Rate, now: Instant) -> bool {
        let has = self.has(rate, now);
        if has {
            self.take(rate, now);
        }
        has
    }

    /// Gives one back.
    pub(crate) fn give_back(&mut self, rate: Rate) {
        self.0 = Instant(self.0.0.saturating_sub(rate.every.as_nanos() as u64));
    }

    /// When nothing is missing from it.
    pub(crate) fn full_at(self) -> Instant {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_at_once_and_then_one_after_each_interval() {
        let rate = Rate::new(3, Duration::from_secs(1));
        let (mut bucket, mut now) = (Bucket::default(), Instant(0));
        let taken = (0..10).filter(|_| bucket.take_one(rate, now)).count();
        assert_eq!(taken, 3);
        now = now + Duration::from_secs(1);
        let taken = (0..10).filter(|_| bucket.take_one(rate, now)).count();
        assert_eq!(taken, 1);
        bucket.give_back(rate);
        assert!(bucket.take_one(rate, now) && !bucket.take_one(rate, now));
        assert!(bucket.take_one(rate.with_burst(4), now));
        assert_eq!(bucket.full_at(), now + Duration::from_secs(4));
        // What was not taken for long is not more than the burst.
        now = now + Duration::from_secs(3_600);
        let taken = (0..10).filter(|_| bucket.take_one(rate, now)).count();
        assert_eq!(taken, 3);
    }
}
