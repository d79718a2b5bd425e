//! Randomness as an argument: one seed, named streams.
//!
//! This module never asks the operating system. The maker of the seed decides how good all
//! randomness is, and may stir in more entropy later.
//!
//! A stream forgets its output ("fast key erasure"): each key makes the next key and some octets,
//! and is erased before the first of them is used. Each octet is erased once it is used. Memory
//! that is read later reveals nothing of earlier output.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::hash::Hash;
use crate::sys::{KEY_LEN, keystream};

/// The one seed of a process or a simulation.
#[derive(Clone, ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

/// A stream of random octets (ChaCha20), independent of all streams of other names. It stays at one
/// place in memory, so that no copy of it is left behind.
pub struct Stream(Box<State>);

/// Octets made by one key.
const LEN: usize = 512;
/// Octets of them that are output; the next key follows.
const AHEAD: usize = LEN - KEY_LEN;

#[derive(ZeroizeOnDrop)]
struct State {
    octets: [u8; LEN],
    /// Octets already used, which are zero.
    drawn: usize,
}

impl Seed {
    /// Takes 32 octets. A daemon takes them from the operating system, a test from a number.
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

    /// Mixes `entropy` into the state. Whoever knows only one of the two cannot predict the output.
    pub fn stir(&mut self, entropy: &[u8; 32]) {
        let key = &self.0.octets[AHEAD..];
        let digest = Hash::Sha256.digest(&[key, entropy]);
        self.0.restart(digest.as_ref());
    }
}

impl State {
    /// Continues with its own next key.
    fn advance(&mut self) {
        let mut key = Zeroizing::new([0; KEY_LEN]);
        key.copy_from_slice(&self.octets[AHEAD..]);
        keystream(&key, &mut self.octets);
        self.drawn = 0;
    }

    /// Continues with this key.
    fn restart(&mut self, key: &[u8]) {
        self.octets[AHEAD..].copy_from_slice(key);
        self.advance();
    }
}

#[cfg(test)]
mod tests;
