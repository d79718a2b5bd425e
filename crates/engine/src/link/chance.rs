//! Randomness as an argument: distributions drawn from any source of fair bits.

use crypto::rand::Stream;

/// A source of fair bits, and draws from it that are equal on every machine.
pub trait Chance {
    /// The next 64 bits.
    fn bits(&mut self) -> u64;

    /// Uniform over 0..1, without 1.
    #[inline]
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform over 0..`bound`, without `bound`; 0 for 0.
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// Exponential of mean 1.
    #[inline]
    fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.unit())
    }
}

impl Chance for Stream {
    fn bits(&mut self) -> u64 {
        let mut octets = [0; 8];
        self.fill(&mut octets);
        u64::from_be_bytes(octets)
    }
}
