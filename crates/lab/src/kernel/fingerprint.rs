//! The fingerprint of a run: SHA-256 over its event trace, with each event's time, element, kind
//! and length. Two runs with the same fingerprint did the same.
//!
//! Blocks of [`BLOCK_EVENTS`] are hashed in order, each with the hash of its predecessors.

use crypto::hash::Hash;
use engine::time::Instant;

/// Events per block.
pub const BLOCK_EVENTS: usize = 2048;
const EVENT_BYTES: usize = 17;

/// The hash so far, and the current block.
pub struct Fingerprint {
    state: [u8; 32],
    block: Vec<u8>,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self {
            state: [0; 32],
            block: Vec::with_capacity(BLOCK_EVENTS * EVENT_BYTES),
        }
    }
}

impl Fingerprint {
    /// Adds an event.
    #[inline]
    pub fn add(&mut self, at: Instant, element: u32, kind: u8, bytes: u32) {
        let mut event = [0; EVENT_BYTES];
        event[..8].copy_from_slice(&at.0.to_be_bytes());
        event[8..12].copy_from_slice(&element.to_be_bytes());
        event[12] = kind;
        event[13..].copy_from_slice(&bytes.to_be_bytes());
        self.block.extend_from_slice(&event);
        if self.block.len() == BLOCK_EVENTS * EVENT_BYTES {
            self.close_block();
        }
    }

    /// The hash of all events so far.
    pub fn hash(&self) -> [u8; 32] {
        self.hash_of_block()
    }

    fn close_block(&mut self) {
        self.state = self.hash_of_block();
        self.block.clear();
    }

    fn hash_of_block(&self) -> [u8; 32] {
        let digest = Hash::Sha256.digest(&[&self.state, &self.block]);
        let mut hash = [0; 32];
        hash.copy_from_slice(digest.as_ref());
        hash
    }
}

/// A hash in lower-case hexadecimal.
pub fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_and_the_order_count() {
        let hash = |events: &[(u64, u32, u8, u32)]| {
            let mut fingerprint = Fingerprint::default();
            for &(at, element, kind, bytes) in events {
                fingerprint.add(Instant(at), element, kind, bytes);
            }
            hex(&fingerprint.hash())
        };
        let all = [
            hash(&[]),
            hash(&[(1, 2, 3, 4)]),
            hash(&[(2, 2, 3, 4)]),
            hash(&[(1, 3, 3, 4)]),
            hash(&[(1, 2, 4, 4)]),
            hash(&[(1, 2, 3, 5)]),
            hash(&[(1, 2, 3, 4), (2, 2, 3, 4)]),
            hash(&[(2, 2, 3, 4), (1, 2, 3, 4)]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn blocks_are_chained() {
        let mut fingerprint = Fingerprint::default();
        for at in 0..3 * BLOCK_EVENTS as u64 {
            fingerprint.add(Instant(at), 0, 0, 0);
        }
        assert!(fingerprint.block.is_empty());
        assert_ne!(fingerprint.state, [0; 32]);
    }
}
