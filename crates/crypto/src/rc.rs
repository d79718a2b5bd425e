//! RC2 in CBC mode (RFC 2268) and RC4, by RustCrypto. Both are legacy.

use rc2::Rc2;
use rc2::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt};
use rc4::{KeyInit, Rc4, StreamCipher};
use zeroize::Zeroizing;

/// Octets of a block of RC2, and of its IV.
pub const RC2_BLOCK_LEN: usize = 8;

/// Octets of the keys that we use: 128 bits, all of them effective.
pub const RC_KEY_LEN: usize = 16;

/// An RC2 key with its schedule, wiped on drop.
pub struct Rc2Key(Rc2);

impl Rc2Key {
    /// A key with an effective length of 128 bits. Panics unless it has [`RC_KEY_LEN`] octets.
    pub fn new(key: &[u8]) -> Self {
        assert_eq!(key.len(), RC_KEY_LEN);
        Self(Rc2::new_with_eff_key_len(key, 8 * RC_KEY_LEN))
    }

    /// Encrypts whole blocks in place, in CBC mode; panics unless `data` is whole blocks.
    pub fn encrypt(&self, iv: [u8; RC2_BLOCK_LEN], data: &mut [u8]) {
        let mut last = iv;
        for block in blocks(data) {
            block
                .iter_mut()
                .zip(last)
                .for_each(|(to, from)| *to ^= from);
            let mut octets = Array::from(*block);
            self.0.encrypt_block(&mut octets);
            *block = octets.into();
            last = *block;
        }
    }

    /// Decrypts whole blocks in place, in CBC mode; panics unless `data` is whole blocks.
    pub fn decrypt(&self, iv: [u8; RC2_BLOCK_LEN], data: &mut [u8]) {
        let mut last = iv;
        for block in blocks(data) {
            let sealed = *block;
            let mut octets = Array::from(sealed);
            self.0.decrypt_block(&mut octets);
            *block = octets.into();
            block
                .iter_mut()
                .zip(last)
                .for_each(|(to, from)| *to ^= from);
            last = sealed;
        }
    }
}

fn blocks(data: &mut [u8]) -> &mut [[u8; RC2_BLOCK_LEN]] {
    let (blocks, rest) = data.as_chunks_mut();
    assert!(rest.is_empty(), "whole blocks");
    blocks
}

/// An RC4 key, wiped on drop. It encrypts one packet: twice the same key is twice the same
/// keystream.
pub struct Rc4Key(Zeroizing<[u8; RC_KEY_LEN]>);

impl Rc4Key {
    /// Panics unless the key has [`RC_KEY_LEN`] octets.
    pub fn new(key: &[u8]) -> Self {
        Self(Zeroizing::new(key.try_into().expect("an RC4 key")))
    }

    /// Encrypts or decrypts in place, from the start of the keystream.
    pub fn apply(&self, data: &mut [u8]) {
        let mut cipher = Rc4::new_from_slice(&self.0[..]).expect("a key's length");
        cipher.apply_keystream(data);
    }
}

/// Encrypts or decrypts in place under a key of 1 to 256 octets, from this octet of the keystream:
/// key data of EAPOL-Key frames leave out the first 256 (IEEE 802.11-2020 §12.7.2). Panics if the
/// key has another length.
pub fn rc4_from(key: &[u8], skip: usize, data: &mut [u8]) {
    let mut cipher = Rc4::new_from_slice(key).expect("a key of RC4");
    let mut skipped = Zeroizing::new(vec![0; skip]);
    cipher.apply_keystream(&mut skipped);
    cipher.apply_keystream(data);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// RFC 2268 §5, the vector with a key and an effective length of 128 bits.
    #[test]
    fn rc2_is_as_published() {
        let key = Rc2Key::new(&hex("88bca90e90875a7f0f79c384627bafb2"));
        let mut data = [0; 8];
        key.encrypt([0; 8], &mut data);
        assert_eq!(data[..], hex("2269552ab0f85ca6"));
        key.decrypt([0; 8], &mut data);
        assert_eq!(data, [0; 8]);
    }

    /// CBC from single blocks: each is XORed with the one before.
    #[test]
    fn rc2_chains_its_blocks() {
        let key = Rc2Key::new(&[3; 16]);
        let clear: Vec<u8> = (0..32).collect();
        let mut sealed = clear.clone();
        key.encrypt([9; 8], &mut sealed);
        let mut last = [9; 8];
        for (block, expected) in clear.as_chunks::<8>().0.iter().zip(sealed.chunks(8)) {
            let mut one: [u8; 8] = core::array::from_fn(|at| block[at] ^ last[at]);
            key.encrypt([0; 8], &mut one);
            assert_eq!(one, expected);
            last = one;
        }
        key.decrypt([9; 8], &mut sealed);
        assert_eq!(sealed, clear);
    }

    /// RFC 6229 §2, the 128-bit keys.
    #[test]
    fn rc4_is_as_published() {
        let ascending: Vec<u8> = (1..=16).collect();
        let other = hex("ebb46227c6cc8b37641910833222772a");
        for (key, expected) in [
            (
                &ascending,
                "9ac7cc9a609d1ef7b2932899cde41b975248c4959014126a6e8a84f11d1a9e1c",
            ),
            (
                &other,
                "720c94b63edf44e131d950ca211a5a30c366fdeacf9ca80436be7c358424d20b",
            ),
        ] {
            let mut data = [0; 32];
            Rc4Key::new(key).apply(&mut data);
            assert_eq!(data[..], hex(expected));
            Rc4Key::new(key).apply(&mut data);
            assert_eq!(data, [0; 32]);
            rc4_from(key, 8, &mut data[..24]);
            assert_eq!(data[..24], hex(expected)[8..]);
        }
    }
}
