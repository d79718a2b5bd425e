//! How much of something costly is done for strangers.

use crate::time::{Duration, Instant};

/// So many at once, and then one each interval.
pub(super) struct Pace {
    most: u32,
    interval: Duration,
    left: u32,
    counted_at: Instant,
}

impl Pace {
    pub(super) fn new(most: u32, interval: Duration) -> Self {
        Self {
            most,
            interval,
            left: most,
            counted_at: Instant(0),
        }
    }

    /// Whether there is one more.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        while self.left < self.most && self.counted_at + self.interval <= now {
            self.left += 1;
            self.counted_at = self.counted_at + self.interval;
        }
        if self.left == self.most {
            self.counted_at = now;
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_those_at_once_there_is_one_each_interval() {
        let mut pace = Pace::new(3, Duration::from_secs(1));
        let mut taken = |seconds: u64, asked: usize| {
            let now = Instant(0) + Duration::from_millis(seconds * 1_000 + 500);
            (0..asked).filter(|_| pace.take(now)).count()
        };
        assert_eq!(
            [taken(0, 9), taken(0, 1), taken(1, 9), taken(3, 9)],
            [3, 0, 1, 2]
        );
        assert_eq!([taken(90, 9), taken(91, 2)], [3, 1]);
    }
}
