//! How many lines of what happens on the link are printed: anybody in the air makes things happen.

use engine::time::{Duration, Instant};

/// Lines at once.
const MOST: u32 = 100;
/// After which one more may be printed.
const INTERVAL: Duration = Duration::from_millis(500);

/// Counts the lines that are printed and those that are left out.
#[derive(Default)]
pub(super) struct Lines {
    printed: u32,
    forgotten_at: Instant,
    left_out: u64,
}

impl Lines {
    /// Whether a line is printed, and how many before it were not.
    pub(super) fn take(&mut self, now: Instant) -> Option<u64> {
        let passed = now.since(self.forgotten_at).as_nanos() / INTERVAL.as_nanos();
        if passed > 0 {
            self.printed = self
                .printed
                .saturating_sub(u32::try_from(passed).unwrap_or(MOST));
            self.forgotten_at = now;
        }
        if self.printed >= MOST {
            self.left_out += 1;
            return None;
        }
        self.printed += 1;
        Some(core::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_left_out_and_counted() {
        let mut lines = Lines::default();
        let at = |seconds| Instant(0) + Duration::from_secs(seconds);
        let printed = (0..500).filter(|_| lines.take(at(1)).is_some()).count();
        assert_eq!(printed, 100);
        assert_eq!(lines.take(at(2)), Some(400));
        assert_eq!(lines.take(at(2)), Some(0));
        assert_eq!(lines.take(at(2)), None);
        assert_eq!(lines.take(at(100)), Some(1));
    }
}
