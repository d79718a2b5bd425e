//! Streams of random numbers, each named by seed, purpose and replication.
//!
//! Xoshiro128++ per stream, seeded through SplitMix64. Left out: randomness of the system.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro128PlusPlus};

/// The purpose of a stream; streams of different purposes are independent.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    /// The time between packets.
    Gap = 1,
    /// The size of packets.
    Size = 2,
    /// Whether a packet call or a session ends.
    Call = 3,
}

/// The initial state of the stream.
pub(super) fn state(seed: u64, purpose: Purpose, replication: u64) -> [u32; 4] {
    // each word is hashed before the next is mixed in, so that similar names give different streams
    let first = SplitMix64::seed_from_u64(seed).next_u64();
    let second = SplitMix64::seed_from_u64(first ^ purpose as u64).next_u64();
    let mut third = SplitMix64::seed_from_u64(second ^ replication);
    let (low, high) = (third.next_u64(), third.next_u64());
    let words = [low, low >> 32, high, high >> 32].map(|word| word as u32);
    if words == [0; 4] { [1, 0, 0, 0] } else { words }
}

/// One stream, read one number at a time.
pub(super) struct Stream(Xoshiro128PlusPlus);

impl Stream {
    pub(super) fn new(seed: u64, purpose: Purpose, replication: u64) -> Self {
        let mut bytes = [0; 16];
        for (chunk, word) in bytes
            .chunks_exact_mut(4)
            .zip(state(seed, purpose, replication))
        {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        Self(Xoshiro128PlusPlus::from_seed(bytes))
    }

    /// A uniform number above 0, at most 1.
    pub(super) fn uniform(&mut self) -> f32 {
        uniform(self.0.next_u32())
    }

    /// An exponential number with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -libm::log(f64::from(self.uniform()))
    }
}

/// Maps 32 bits to (0, 1]: half a step above zero, exact near it, rounded to 24 bits near one.
///
/// The lanes do the same operations in the same order.
pub(super) fn uniform(bits: u32) -> f32 {
    let high = (bits >> 9) as f32 * (1.0 / 8_388_608.0);
    let low = (bits & 0x1ff) as f32 * (1.0 / 4_294_967_296.0);
    high + (low + 1.0 / 8_589_934_592.0)
}
