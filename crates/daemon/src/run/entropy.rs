//! The operating system's entropy: the seed of all randomness, and more from time to time, so that
//! a leaked seed reveals nothing about later output.

use std::fs::File;
use std::io::Read;

use anyhow::Context;
use crypto::rand::Seed;
use zeroize::Zeroizing;

/// The source, open as long as the process runs.
pub(super) struct Entropy(File);

impl Entropy {
    pub(super) fn open() -> anyhow::Result<Self> {
        let source = File::open("/dev/urandom").context("cannot open /dev/urandom")?;
        Ok(Self(source))
    }

    /// The seed of a process.
    pub(super) fn seed(&mut self) -> anyhow::Result<Seed> {
        Ok(Seed::new(*self.draw()?))
    }

    /// Fresh octets.
    pub(super) fn draw(&mut self) -> anyhow::Result<Zeroizing<[u8; 32]>> {
        let mut octets = Zeroizing::new([0; 32]);
        self.0
            .read_exact(&mut octets[..])
            .context("cannot read /dev/urandom")?;
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_draws_are_alike() {
        let mut entropy = Entropy::open().unwrap();
        let first = *entropy.draw().unwrap();
        assert_ne!(first, *entropy.draw().unwrap());
        assert_ne!(first, [0; 32]);
    }
}
