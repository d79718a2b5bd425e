//! Delays counted in buckets whose width grows with the delay, for percentiles of streams.
//!
//! Thirty-two buckets an octave from a nanosecond to a day and a half: a percentile lies in the
//! right bucket, so it is at most 3.2 % from a delay that came. Left out: the delays themselves.

use serde::{Deserialize, Serialize};

/// Mantissa bits that tell buckets apart.
const FINE: u32 = 5;
/// Bits of an `f32` below them.
pub(super) const SHIFT: u32 = 23 - FINE;
/// The first bucket begins here: 2^-30 s.
pub(super) const LOWEST: u32 = (127 - 30) << FINE;
/// From 2^-30 to 2^17 s.
pub const BUCKETS: usize = 47 << FINE;

/// Counts of one bucket that a text may claim.
const COUNT_MAX: u64 = 1 << 48;

/// Counts of delays by bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Sparse", try_from = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
}

/// The text form: bucket and count, buckets that count nothing left out.
#[derive(Serialize, Deserialize)]
struct Sparse(Vec<(u16, u64)>);

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
        }
    }
}

impl Histogram {
    /// Counts one delay; what lies outside the range goes to its end.
    pub fn add(&mut self, delay_s: f64) {
        self.counts[bucket(delay_s as f32)] += 1;
    }

    /// Adds counts by bucket.
    pub(super) fn add_counts(&mut self, counts: &[u64]) {
        for (own, more) in self.counts.iter_mut().zip(counts) {
            *own = own.saturating_add(*more);
        }
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        self.add_counts(&other.counts);
    }

    /// Delays counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The delay below which a share of 0 to 1 of them lies, `None` if there are none.
    ///
    /// Inside the bucket by linear interpolation.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let wanted = share.clamp(0.0, 1.0) * total as f64;
        let mut below = 0.0;
        let mut last = 0;
        for (index, &count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            let with = below + count as f64;
            if with >= wanted {
                let inside = (wanted - below) / count as f64;
                return Some(edge(index) + inside * (edge(index + 1) - edge(index)));
            }
            below = with;
            last = index;
        }
        Some(edge(last + 1))
    }
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
        Self(filled.map(|(index, count)| (index as u16, count)).collect())
    }
}

impl TryFrom<Sparse> for Histogram {
    type Error = String;

    fn try_from(sparse: Sparse) -> Result<Self, String> {
        let mut histogram = Self::default();
        for (index, count) in sparse.0 {
            let Some(own) = histogram.counts.get_mut(usize::from(index)) else {
                return Err(format!(
                    "bucket {index} is beyond the last, {}",
                    BUCKETS - 1
                ));
            };
            // sums over buckets stay far from overflow
            if count > COUNT_MAX || *own > 0 {
                return Err(format!("bucket {index} is counted twice or beyond reason"));
            }
            *own = count;
        }
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_within_a_bucket_of_the_true_one() {
        let mut histogram = Histogram::default();
        for index in 1..=10_000 {
            histogram.add(1e-4 * f64::from(index));
        }
        for percent in [1, 10, 50, 90, 99] {
            let truth = f64::from(percent) * 0.01;
            let found = histogram.quantile(truth).unwrap();
            assert!(
                (found / truth - 1.0).abs() < 1.0 / 32.0,
                "{percent}: {found}"
            );
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn delays_outside_the_range_are_counted_at_its_ends() {
        let mut histogram = Histogram::default();
        for delay in [0.0, 1e-30, 1e9, f64::from(f32::MAX)] {
            histogram.add(delay);
        }
        assert_eq!(histogram.total(), 4);
        assert_eq!((histogram.counts[0], histogram.counts[BUCKETS - 1]), (2, 2));
    }

    #[test]
    fn the_text_form_keeps_every_count_and_refuses_nonsense() {
        let mut histogram = Histogram::default();
        histogram.add(0.1);
        histogram.add(2.0);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        for text in ["[[9999,1]]", "[[3,1],[3,1]]", "[[3,18446744073709551615]]"] {
            assert!(serde_json::from_str::<Histogram>(text).is_err(), "{text}");
        }
    }
}
