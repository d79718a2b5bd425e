//! Randomness as an argument: one seed, named streams.
//!
//! The operating system is never asked; who makes the seed decides how good everything is.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::hash::Hash;

/// The one seed of a process or a simulation.
#[derive(Clone, zeroize::ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

/// A stream of random octets (ChaCha20), independent of every other name's.
pub struct Stream(ChaCha20Rng);

impl Seed {
    /// From 32 octets; a daemon takes them from the operating system, a test from a number.
    pub fn new(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// The stream of this name and number: SHA-256 of seed, name and number keys it.
    pub fn stream(&self, name: &str, number: u64) -> Stream {
        let digest = Hash::Sha256.digest(&[&self.0, name.as_bytes(), &number.to_be_bytes()]);
        let mut key = zeroize::Zeroizing::new([0; 32]);
        key.copy_from_slice(digest.as_ref());
        Stream(ChaCha20Rng::from_seed(*key))
    }
}

impl Stream {
    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }

    /// Four octets as a number.
    pub fn u32(&mut self) -> u32 {
        let mut octets = [0; 4];
        self.fill(&mut octets);
        u32::from_be_bytes(octets)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The generator cannot wipe itself: a public key takes the secret one's place.
        self.0 = ChaCha20Rng::from_seed([0; 32]);
        core::hint::black_box(&self.0);
    }
}

#[cfg(test)]
mod tests;
