//! Randomness as an argument: one seed, named streams.
//!
//! The operating system is never asked; who makes the seed decides how good everything is, and
//! may stir more entropy in later.
//!
//! A stream forgets what it gave: each key makes its successor and some octets ahead, and is gone
//! before the first of them is drawn; each octet is gone once it is drawn ("fast key erasure").
//! Memory that is read later tells nothing of what was drawn before.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::hash::Hash;
use crate::sys::{KEY_LEN, keystream};

/// The one seed of a process or a simulation.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

/// A stream of random octets (ChaCha20), independent of every other name's. It stays where it is
/// in memory, so that no copy of it is left behind.
pub struct Stream(Box<State>);

/// Octets that one key makes.
const LEN: usize = 512;
/// Those of them that are drawn; the next key follows them.
const AHEAD: usize = LEN - KEY_LEN;

#[derive(ZeroizeOnDrop)]
struct State {
    octets: [u8; LEN],
    /// So many are drawn, and zero.
    drawn: usize,
}

impl Seed {
    /// From 32 octets; a daemon takes them from the operating system, a test from a number.
    pub fn new(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// The stream of this name and number: SHA-256 of seed, name and number keys it.
    pub fn stream(&self, name: &str, number: u64) -> Stream {
        let digest = Hash::Sha256.digest(&[&self.0, name.as_bytes(), &number.to_be_bytes()]);
        let mut stream = Stream(Box::new(State {
            octets: [0; LEN],
            drawn: 0,
        }));
        stream.0.restart(digest.as_ref());
        stream
    }
}

impl Stream {
    /// Fills `out`.
    pub fn fill(&mut self, mut out: &mut [u8]) {
        let state = &mut *self.0;
        while !out.is_empty() {
            if state.drawn == AHEAD {
                state.advance();
            }
            let len = out.len().min(AHEAD - state.drawn);
            let (now, later) = out.split_at_mut(len);
            let drawn = &mut state.octets[state.drawn..state.drawn + len];
            now.copy_from_slice(drawn);
            drawn.zeroize();
            state.drawn += len;
            out = later;
        }
    }

    /// Four octets as a number.
    pub fn u32(&mut self) -> u32 {
        let mut octets = [0; 4];
        self.fill(&mut octets);
        u32::from_be_bytes(octets)
    }

    /// Goes on from what it is and from `entropy`: whoever knows only one of them does not know
    /// what comes.
    pub fn stir(&mut self, entropy: &[u8; 32]) {
        let key = &self.0.octets[AHEAD..];
        let digest = Hash::Sha256.digest(&[key, entropy]);
        self.0.restart(digest.as_ref());
    }
}

impl State {
    /// Goes on with its own next key.
    fn advance(&mut self) {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(&self.octets[AHEAD..]);
        keystream(&key, &mut self.octets);
        self.drawn = 0;
    }

    /// Goes on with this key.
    fn restart(&mut self, key: &[u8]) {
        self.octets[AHEAD..].copy_from_slice(key);
        self.advance();
    }
}

#[cfg(test)]
mod tests;
