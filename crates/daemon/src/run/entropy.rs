//! The operating system's entropy: the seed of all randomness, and more from time to time, so that
//! a leaked seed reveals nothing about later output.

use anyhow::Context;
use crypto::rand::Seed;
use zeroize::Zeroizing;

use crate::sys;

/// The source.
pub(super) struct Entropy;

impl Entropy {
    /// The seed of a process.
    pub(super) fn seed(&mut self) -> anyhow::Result<Seed> {
        Ok(Seed::new(*self.draw()?))
    }

    /// Fresh octets.
    pub(super) fn draw(&mut self) -> anyhow::Result<Zeroizing<[u8; 32]>> {
        let mut octets = Zeroizing::new([0; 32]);
        sys::random(&mut octets[..]).context("the kernel gives no random octets")?;
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let mut entropy = Entropy;
        let first = *entropy.draw().unwrap();
        assert_ne!(first, *entropy.draw().unwrap());
        assert_ne!(first, [0; 32]);
    }
}
