//! Medians of repeated batches, and the clock of the time-stamp counter.

use std::time::{Duration, Instant};

use crate::sys::time_stamp;

/// How long and how often each thing is measured.
pub(super) struct Stopwatch {
    budget: Duration,
    least_batches: usize,
}

impl Stopwatch {
    pub(super) fn new(is_quick: bool) -> Self {
        let (ms, least_batches) = if is_quick { (8, 3) } else { (80, 9) };
        Self {
            budget: Duration::from_millis(ms),
            least_batches,
        }
    }

    /// The median over batches of ns for one operation. `batch` returns the time of its operations
    /// only, and their number.
    pub(super) fn median_ns(&self, mut batch: impl FnMut() -> (Duration, usize)) -> f64 {
        batch(); // caches and branch predictors
        let mut each = Vec::new();
        let mut spent = Duration::ZERO;
        while each.len() < self.least_batches || spent < self.budget {
            let (took, operations) = batch();
            spent += took;
            each.push(took.as_nanos() as f64 / operations.max(1) as f64);
        }
        median(each)
    }

    /// The same for an operation that is slow enough to be timed alone.
    pub(super) fn median_of_one_ns<T>(&self, mut operation: impl FnMut() -> T) -> f64 {
        self.median_ns(|| {
            let start = Instant::now();
            std::hint::black_box(operation());
            (start.elapsed(), 1)
        })
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    }
}

/// Measured against the monotonic clock. `None` if the processor has no such counter, or one that
/// changes its speed.
pub(super) fn tsc_mhz() -> Option<f64> {
    const SPAN: Duration = Duration::from_millis(100);
    let flags = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    if !flags.contains(" constant_tsc") {
        return None;
    }
    let (start, first) = (Instant::now(), time_stamp()?);
    std::thread::sleep(SPAN);
    let (last, took) = (time_stamp()?, start.elapsed());
    Some((last - first) as f64 / took.as_nanos() as f64 * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_ignores_what_is_far_off() {
        assert_eq!(median(vec![1.0, 900.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 2.0]), 3.0);
    }

    #[test]
    fn a_batch_is_divided_by_its_operations() {
        let stopwatch = Stopwatch::new(true);
        let ns = stopwatch.median_ns(|| (Duration::from_millis(5), 1000));
        assert_eq!(ns, 5000.0);
    }
}
