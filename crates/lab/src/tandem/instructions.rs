//! Which instruction set the lanes use: the widest that the machine has, or a chosen one.
//!
//! Left out: any influence on results, which have the same bits with every set.

use super::rows::Job;
use super::tally::Tally;
use pulp::Simd;

/// A set of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instructions {
    /// No vector instructions: one replication after another.
    Scalar,
    /// Eight lanes.
    Avx2,
    /// Sixteen lanes.
    Avx512,
    /// Four lanes.
    Neon,
}

impl Instructions {
    /// The sets of this machine, narrowest first.
    pub fn available() -> Vec<Self> {
        let mut found = vec![Self::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            found.extend(pulp::x86::V3::try_new().map(|_| Self::Avx2));
            found.extend(pulp::x86::V4::try_new().map(|_| Self::Avx512));
        }
        #[cfg(target_arch = "aarch64")]
        found.extend(pulp::aarch64::Neon::try_new().map(|_| Self::Neon));
        found
    }

    /// Runs the job with this set; if the machine does not have it, with scalar instructions.
    pub(super) fn perform(self, job: Job<'_>) -> Vec<Tally> {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                if let Some(simd) = pulp::x86::V3::try_new() {
                    return Simd::vectorize(simd, job);
                }
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                if let Some(simd) = pulp::x86::V4::try_new() {
                    return Simd::vectorize(simd, job);
                }
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => {
                if let Some(simd) = pulp::aarch64::Neon::try_new() {
                    return Simd::vectorize(simd, job);
                }
            }
            _ => {}
        }
        Simd::vectorize(pulp::Scalar::new(), job)
    }
}
