//! Random numbers of the kernel: xoshiro256++ streams named by seed, purpose and number. [`Chance`]
//! turns their bits into draws, with `libm`, so that every machine draws the same.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crypto::hash::Hash;
use engine::link::Chance;

/// A stream.
#[derive(Clone)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// The stream with this seed, purpose and number.
    pub fn new(seed: u64, purpose: &str, number: u64) -> Self {
        let (seed, number) = (seed.to_be_bytes(), number.to_be_bytes());
        let digest = Hash::Sha256.digest(&[&seed, purpose.as_bytes(), &number]);
        let mut state = [0; 32];
        state.copy_from_slice(digest.as_ref());
        Self(Xoshiro256PlusPlus::from_seed(state))
    }

    /// Pareto: at least `smallest`, with this shape.
    pub fn pareto(&mut self, shape: f64, smallest: f64) -> f64 {
        smallest * libm::pow(1.0 - self.unit(), -1.0 / shape)
    }

    /// Fills `octets`.
    pub fn fill(&mut self, octets: &mut [u8]) {
        self.0.fill_bytes(octets);
    }
}

impl Chance for Random {
    #[inline]
    fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_number_and_repeat() {
        let draw = |seed, purpose, number| Random::new(seed, purpose, number).below(u64::MAX);
        assert_eq!(draw(1, "loss", 0), draw(1, "loss", 0));
        let all = [
            draw(1, "loss", 0),
            draw(2, "loss", 0),
            draw(1, "delay", 0),
            draw(1, "loss", 1),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one));
        }
    }

    #[test]
    fn means_are_what_they_are_called() {
        let mut random = Random::new(7, "means", 0);
        let count = 200_000;
        let mean = |mut draw: Box<dyn FnMut() -> f64>| {
            (0..count).map(|_| draw()).sum::<f64>() / f64::from(count)
        };
        let mut other = random.clone();
        let exponential = mean(Box::new(move || random.exponential()));
        assert!((exponential - 1.0).abs() < 0.01, "{exponential}");
        let pareto = mean(Box::new(move || other.pareto(3.0, 2.0)));
        assert!((pareto - 3.0).abs() < 0.03, "{pareto}");
    }
}
