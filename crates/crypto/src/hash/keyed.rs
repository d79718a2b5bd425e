//! A hash with the key before and after the data: keyed MD5 (RFC 1828) and keyed SHA (RFC 1852).
//! Both are from before HMAC, and legacy.

use zeroize::Zeroizing;

use super::{Digest, Hash};
use crate::sys::{Chain, Running};

/// Longest key, so that key, 0x80 and the length fill one block.
const MAX_KEY_LEN: usize = BLOCK_LEN - 9;
const BLOCK_LEN: usize = 64;

/// A prepared key: the first block is hashed once. Wiped on drop.
pub struct KeyedHash {
    hash: Hash,
    front: Chain,
    key: Zeroizing<[u8; MAX_KEY_LEN]>,
    len: usize,
}

impl KeyedHash {
    /// Keyed MD5 or keyed SHA-1. Panics on other hashes and on a key over 55 octets.
    pub fn new(hash: Hash, key: &[u8]) -> Self {
        let bits = 8 * key.len() as u64;
        // The key is filled as the hash fills its data: 0x80, zeros, length.
        let mut block = Zeroizing::new([0; BLOCK_LEN]);
        block[..key.len()].copy_from_slice(key);
        block[key.len()] = 0x80;
        let length = match hash {
            Hash::Md5 => bits.to_le_bytes(),
            Hash::Sha1 => bits.to_be_bytes(),
            _ => panic!("{hash:?} has no keyed form"),
        };
        block[BLOCK_LEN - length.len()..].copy_from_slice(&length);
        let mut running = Running::new(hash);
        running.update(&block[..]);
        let mut kept = Zeroizing::new([0; MAX_KEY_LEN]);
        kept[..key.len()].copy_from_slice(key);
        Self {
            hash,
            front: running.chain(),
            key: kept,
            len: key.len(),
        }
    }

    /// The hash of filled key, parts and key.
    pub fn sign(&self, parts: &[&[u8]]) -> Digest {
        let mut running = Running::resume(self.hash, &self.front);
        for part in parts {
            running.update(part);
        }
        running.update(&self.key[..self.len]);
        Digest::of(self.hash, running)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// Python's `hashlib` over the filled key, the data and the key.
    #[test]
    fn keyed_hashes_equal_those_of_another_implementation() {
        let key: Vec<u8> = (0..20).collect();
        let data: Vec<u8> = (0..100).collect();
        for (hash, key, expected) in [
            (Hash::Md5, &key[..16], "61865bde7f2e92aa94845b9575bdf2d6"),
            (
                Hash::Sha1,
                &key[..],
                "fa9441345372d989e0931251d3ffcdb96d5c3f95",
            ),
        ] {
            let keyed = KeyedHash::new(hash, key);
            assert_eq!(keyed.sign(&[&data]).as_ref(), hex(expected));
            let (front, back) = data.split_at(33);
            assert!(keyed.sign(&[front, back]) == keyed.sign(&[&data]));
            let other = KeyedHash::new(hash, &key[1..]);
            assert!(other.sign(&[&data]) != keyed.sign(&[&data]));
        }
    }

    /// The definition, with a hash that takes everything at once.
    #[test]
    fn every_key_length_is_filled_to_one_block() {
        for len in 0..=MAX_KEY_LEN {
            let key = vec![0x5a; len];
            let mut filled = key.clone();
            filled.push(0x80);
            filled.resize(56, 0);
            let mut sha = filled.clone();
            filled.extend((8 * len as u64).to_le_bytes());
            sha.extend((8 * len as u64).to_be_bytes());
            for (hash, filled) in [(Hash::Md5, filled), (Hash::Sha1, sha)] {
                let expected = hash.digest(&[&filled, b"datagram", &key]);
                assert!(KeyedHash::new(hash, &key).sign(&[b"datagram"]) == expected);
            }
        }
    }
}
