//! Delays of a stream. Up to [`FEW`] delays are kept. Of more, only counts are kept, in buckets
//! whose width grows with the delay.
//!
//! There are 32 buckets per octave, from a nanosecond to a day and a half. So a percentile of a
//! long stream lies between two delays at most 3.2 % apart, which are reported with it, and never
//! outside the smallest and largest delay. The reasons are in `docs/design/percentiles.md`.

use serde::{Deserialize, Serialize};

/// Mantissa bits that select a bucket.
const FINE: u32 = 5;
/// The lower bits of an `f32` mantissa.
pub(super) const SHIFT: u32 = 23 - FINE;
/// The first bucket begins at 2^-30 s.
pub(super) const LOWEST: u32 = (127 - 30) << FINE;
/// The number of buckets, from 2^-30 to 2^17 s.
pub const BUCKETS: usize = 47 << FINE;

/// The largest count of one bucket that a text may have.
const COUNT_MAX: u64 = 1 << 48;

/// The number of delays up to which all are kept and percentiles are exact.
pub const FEW: usize = 1024;

/// Counts of delays by bucket, and further data that makes percentiles more exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "Sparse", try_from = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    /// The smallest and the largest delay; the empty interval if none was counted.
    range: [f64; 2],
    /// All delays in order, as long as they are few.
    few: Option<Vec<f64>>,
}

/// The delay below which a share lies, and the interval in which it is known to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// Seconds.
    pub delay_s: f64,
    /// The interval in seconds; both ends are the delay itself if it is exact.
    pub between_s: [f64; 2],
}

/// The text form: pairs of bucket and count, without empty buckets.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sparse {
    counts: Vec<(u16, u64)>,
    range: Option<[f64; 2]>,
    few: Option<Vec<f64>>,
}

/// The range of no delays.
const NOTHING: [f64; 2] = [f64::INFINITY, f64::NEG_INFINITY];

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            range: NOTHING,
            few: Some(Vec::new()),
        }
    }
}

impl Histogram {
    /// Counts one delay; a delay outside the range of the buckets counts in the first or last one.
    pub fn add(&mut self, delay_s: f64) {
        self.counts[bucket(delay_s as f32)] += 1;
        self.range = union(self.range, [delay_s, delay_s]);
        if let Some(few) = self.few.as_mut().filter(|few| few.len() < FEW) {
            let at = few.partition_point(|other| *other <= delay_s);
            few.insert(at, delay_s);
        } else {
            self.few = None;
        }
    }

    /// Data counted elsewhere: counts by bucket, the range, and the delays if all are known.
    pub(super) fn of(counts: &[u64], range: [f64; 2], few: Option<&[f32]>) -> Self {
        let few = few.map(|few| {
            let mut few: Vec<f64> = few.iter().copied().map(f64::from).collect();
            few.sort_by(f64::total_cmp);
            few
        });
        let mut histogram = Self {
            range,
            few,
            ..Self::default()
        };
        histogram.add_counts(counts);
        histogram
    }

    fn add_counts(&mut self, counts: &[u64]) {
        for (own, more) in self.counts.iter_mut().zip(counts) {
            *own = own.saturating_add(*more);
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.add_counts(&other.counts);
        self.range = union(self.range, other.range);
        let both = self.few.take().zip(other.few.as_ref());
        self.few = both.and_then(|(mut few, more)| {
            few.extend_from_slice(more);
            few.sort_by(f64::total_cmp);
            (few.len() <= FEW).then_some(few)
        });
    }

    /// The number of delays counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The delay that a share of 0 to 1 of them do not exceed; `None` if there are none.
    ///
    /// Of few delays it is one of them; of many it is interpolated linearly inside its bucket.
    pub fn quantile(&self, share: f64) -> Option<Quantile> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let wanted = share.clamp(0.0, 1.0) * total as f64;
        if let Some(few) = &self.few {
            let rank = (libm::ceil(wanted) as usize).clamp(1, few.len());
            let delay_s = few[rank - 1];
            return Some(Quantile {
                delay_s,
                between_s: [delay_s; 2],
            });
        }
        let mut below = 0.0;
        let mut place = (BUCKETS - 1, 1.0);
        let counts = self.counts.iter().enumerate();
        for (index, &count) in counts.filter(|(_, count)| **count > 0) {
            let with = below + count as f64;
            place = (index, ((wanted - below) / count as f64).min(1.0));
            if with >= wanted {
                break;
            }
            below = with;
        }
        let (index, inside) = place;
        let [least, most] = self.range;
        // the first and the last bucket also count delays beyond them
        let low = if index == 0 { least } else { edge(index) };
        let high = if index == BUCKETS - 1 {
            most
        } else {
            edge(index + 1)
        };
        let between_s = [low, high].map(|edge| edge.clamp(least, most));
        Some(Quantile {
            delay_s: between_s[0] + inside * (between_s[1] - between_s[0]),
            between_s,
        })
    }
}

fn union(one: [f64; 2], other: [f64; 2]) -> [f64; 2] {
    [one[0].min(other[0]), one[1].max(other[1])]
}

/// The bucket of a delay, by its exponent and first mantissa bits.
fn bucket(delay_s: f32) -> usize {
    let index = (delay_s.max(0.0).to_bits() >> SHIFT).saturating_sub(LOWEST);
    (index as usize).min(BUCKETS - 1)
}

/// Where a bucket begins.
fn edge(index: usize) -> f64 {
    f64::from(f32::from_bits((index as u32 + LOWEST) << SHIFT))
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        let counts = histogram.counts.into_iter().enumerate();
        let filled = counts.filter(|(_, count)| *count > 0);
        Self {
            counts: filled.map(|(index, count)| (index as u16, count)).collect(),
            range: (histogram.range != NOTHING).then_some(histogram.range),
            few: histogram.few,
        }
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;

    fn try_from(sparse: Sparse) -> Result<Self, String> {
        let mut histogram = Self {
            range: sparse.range.unwrap_or(NOTHING),
            few: sparse.few,
            ..Self::default()
        };
        for (index, count) in sparse.counts {
            let Some(own) = histogram.counts.get_mut(usize::from(index)) else {
                return Err(format!(
                    "bucket {index} does not exist, the last is {}",
                    BUCKETS - 1
                ));
            };
            // so that sums over buckets cannot overflow
            if count > COUNT_MAX || *own > 0 {
                return Err(format!(
                    "bucket {index} is listed twice, or its count is too large"
                ));
            }
            *own = count;
        }
        let [least, most] = histogram.range;
        let total = histogram.total();
        let is_within = |delay: f64| delay.is_finite() && (least..=most).contains(&delay);
        let is_known = total == 0 || (least >= 0.0 && is_within(least) && is_within(most));
        if !is_known || (total == 0) != sparse.range.is_none() {
            return Err(format!(
                "the range {least} to {most} does not fit {total} delays"
            ));
        }
        if let Some(few) = &histogram.few {
            let is_sound = few.is_sorted() && few.iter().copied().all(is_within);
            if few.len() as u64 != total || few.len() > FEW || !is_sound {
                let listed = few.len();
                return Err(format!("{listed} delays are listed, the total is {total}"));
            }
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(delays: impl IntoIterator<Item = f64>) -> Histogram {
        let mut histogram = Histogram::default();
        delays.into_iter().for_each(|delay| histogram.add(delay));
        histogram
    }

    #[test]
    fn a_percentile_of_many_is_between_the_delays_that_are_said_with_it() {
        let histogram = counted((1..=10_000).map(|index| 1e-4 * f64::from(index)));
        for percent in [1, 10, 50, 90, 99] {
            let truth = f64::from(percent) * 0.01;
            let found = histogram.quantile(truth).unwrap();
            let [low, high] = found.between_s;
            assert!((low..=high).contains(&truth), "{percent}: {found:?}");
            assert!(
                (low..=high).contains(&found.delay_s),
                "{percent}: {found:?}"
            );
            assert!(high / low <= 1.0 + 1.0 / 32.0, "{percent}: {found:?}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn a_percentile_of_few_is_one_of_them() {
        let histogram = counted((1..=1000).rev().map(f64::from));
        for (share, delay_s) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let exact = Quantile {
                delay_s,
                between_s: [delay_s; 2],
            };
            assert_eq!(histogram.quantile(share), Some(exact));
        }
    }

    #[test]
    fn no_percentile_lies_outside_what_came() {
        for delay in [68.349e-3, 0.0, 1e-30, 1e9] {
            let histogram = counted((0..5000).map(|_| delay));
            for share in [0.0, 0.5, 0.99, 1.0] {
                let found = histogram.quantile(share).unwrap();
                assert_eq!((found.delay_s, found.between_s), (delay, [delay; 2]));
            }
        }
    }

    #[test]
    fn what_is_merged_says_the_same_as_what_was_counted_at_once() {
        for (first, second) in [(300, 400), (800, 800), (2000, 3), (0, 5)] {
            let delay = |index: u32| 1e-3 + 1e-5 * f64::from(index);
            let mut one = counted((0..first).map(delay));
            one.merge(&counted((first..first + second).map(delay)));
            assert_eq!(one, counted((0..first + second).map(delay)));
        }
    }

    #[test]
    fn delays_outside_the_range_are_counted_at_its_ends() {
        let histogram = counted([0.0, 1e-30, 1e9, f64::from(f32::MAX)]);
        assert_eq!(histogram.total(), 4);
        assert_eq!((histogram.counts[0], histogram.counts[BUCKETS - 1]), (2, 2));
    }

    #[test]
    fn the_text_form_keeps_every_count_and_refuses_nonsense() {
        let many = counted((0..2000).map(|index| 1e-3 * f64::from(index)));
        for histogram in [counted([0.1, 2.0]), Histogram::default(), many] {
            let text = serde_json::to_string(&histogram).unwrap();
            assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }
        for (counts, range, few) in [
            ("[[9999,1]]", "[1,1]", "null"),
            ("[[3,1],[3,1]]", "[1,1]", "null"),
            ("[[3,18446744073709551615]]", "[1,1]", "null"),
            ("[[3,1]]", "null", "null"),
            ("[[3,1]]", "[2,1]", "null"),
            ("[[3,1]]", "[-1,1]", "null"),
            ("[]", "[1,1]", "null"),
            ("[[3,2]]", "[1,2]", "[1]"),
            ("[[3,2]]", "[1,2]", "[2,1]"),
            ("[[3,2]]", "[1,2]", "[1,3]"),
        ] {
            let text = format!("{{\"counts\":{counts},\"range\":{range},\"few\":{few}}}");
            assert!(serde_json::from_str::<Histogram>(&text).is_err(), "{text}");
        }
    }
}
