//! Hashes, HMAC as IKE's prf and as ESP's and AH's integrity (RFC 2104), HKDF on top of it, and the
//! keyed hashes that were before it.
//!
//! HMAC is built here on aws-lc's compression functions, so that a prepared key is only the two
//! chaining values after the inner and the outer pad (RFC 2104 §4): 128 octets for every hash.

mod function;
mod hkdf;
mod keyed;

use zeroize::{Zeroize, Zeroizing};

use crate::sys::{Chain, Running};

pub use function::Hash;
pub use hkdf::{expand, extract};
pub use keyed::KeyedHash;

/// A hash or prf output: up to 64 octets, wiped on drop, compared in constant time.
#[derive(Clone, zeroize::ZeroizeOnDrop)]
pub struct Digest {
    octets: [u8; 64],
    len: u8,
}

/// A prepared HMAC key: the key is hashed once, not for each message. Wiped on drop.
#[derive(Clone)]
pub struct HmacKey {
    hash: Hash,
    inner: Chain,
    outer: Chain,
}

/// An HMAC in progress.
pub struct HmacRunning<'a> {
    key: &'a HmacKey,
    inner: Running,
}

impl Hash {
    /// Hash of the parts, one after the other.
    pub fn digest(self, parts: &[&[u8]]) -> Digest {
        let mut running = Running::new(self);
        for part in parts {
            running.update(part);
        }
        Digest::of(self, running)
    }

    /// HMAC over the parts, one after the other: IKE's prf (RFC 2409 §4).
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        HmacKey::new(self, key).sign(parts)
    }
}

impl HmacKey {
    /// A key of any length; one longer than a block is hashed first (RFC 2104 §2).
    pub fn new(hash: Hash, key: &[u8]) -> Self {
        let mut padded = Zeroizing::new([0; 128]);
        let block = &mut padded[..hash.block_len()];
        if key.len() > block.len() {
            block[..hash.len()].copy_from_slice(hash.digest(&[key]).as_ref());
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let mut chain_after = |pad: u8| {
            block.iter_mut().for_each(|octet| *octet ^= pad);
            let mut running = Running::new(hash);
            running.update(block);
            block.iter_mut().for_each(|octet| *octet ^= pad);
            running.chain()
        };
        Self {
            hash,
            inner: chain_after(0x36),
            outer: chain_after(0x5c),
        }
    }

    /// The hash.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// HMAC over the parts, one after the other.
    pub fn sign(&self, parts: &[&[u8]]) -> Digest {
        let mut running = self.start();
        for part in parts {
            running.update(part);
        }
        running.finish()
    }

    /// Starts an HMAC over data that comes in pieces.
    pub fn start(&self) -> HmacRunning<'_> {
        HmacRunning {
            key: self,
            inner: Running::resume(self.hash, &self.inner),
        }
    }
}

impl HmacRunning<'_> {
    /// Adds octets.
    pub fn update(&mut self, octets: &[u8]) {
        self.inner.update(octets);
    }

    /// The HMAC.
    pub fn finish(self) -> Digest {
        let hash = self.key.hash;
        let inner = Digest::of(hash, self.inner);
        let mut outer = Running::resume(hash, &self.key.outer);
        outer.update(inner.as_ref());
        Digest::of(hash, outer)
    }
}

impl Digest {
    fn of(hash: Hash, running: Running) -> Self {
        let mut octets = [0; 64];
        running.finish(&mut octets);
        let digest = Self {
            octets,
            len: hash.len() as u8,
        };
        octets.zeroize();
        digest
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

impl PartialEq for Digest {
    fn eq(&self, other: &Self) -> bool {
        is_equal(self.as_ref(), other.as_ref())
    }
}

impl Eq for Digest {}

/// Compares in constant time for equal lengths.
pub fn is_equal(a: &[u8], b: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(a, b).into()
}

#[cfg(test)]
mod tests;
