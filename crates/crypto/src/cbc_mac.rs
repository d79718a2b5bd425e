//! DES in CBC mode as a message authentication code: the last block, with an IV of zero and zeros
//! after the data (FIPS 113). Legacy; safe only if the data starts with its own length.

use crate::cipher::{CbcKey, Cipher};

/// Octets of a code: one block.
pub const CODE_LEN: usize = BLOCK_LEN;
/// Octets of a key.
pub const KEY_LEN: usize = 8;

const BLOCK_LEN: usize = 8;
/// Octets that are encrypted at once.
const CHUNK_LEN: usize = 512;

/// A prepared key, wiped on drop.
pub struct DesMac(CbcKey);

impl DesMac {
    /// A key of 8 octets; panics on others.
    pub fn new(key: &[u8]) -> Self {
        Self(CbcKey::new(Cipher::Des, key))
    }

    /// The code of the parts, one after the other. No data has the code zero.
    pub fn sign(&self, parts: &[&[u8]]) -> [u8; CODE_LEN] {
        let mut running = Running {
            key: &self.0,
            code: [0; CODE_LEN],
            chunk: [0; CHUNK_LEN],
            len: 0,
        };
        parts.iter().for_each(|part| running.update(part));
        running.encrypt();
        running.code
    }
}

struct Running<'a> {
    key: &'a CbcKey,
    code: [u8; CODE_LEN],
    chunk: [u8; CHUNK_LEN],
    len: usize,
}

impl Running<'_> {
    fn update(&mut self, mut octets: &[u8]) {
        while !octets.is_empty() {
            if self.len == CHUNK_LEN {
                self.encrypt();
            }
            let len = octets.len().min(CHUNK_LEN - self.len);
            self.chunk[self.len..self.len + len].copy_from_slice(&octets[..len]);
            self.len += len;
            octets = &octets[len..];
        }
    }

    /// Takes what is in the chunk, filled with zeros to whole blocks.
    fn encrypt(&mut self) {
        let end = self.len.next_multiple_of(BLOCK_LEN);
        self.chunk[self.len..end].fill(0);
        self.key.encrypt(&self.code, &mut self.chunk[..end]);
        if let Some(last) = self.chunk[..end].last_chunk() {
            self.code = *last;
        }
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::hex;

    /// FIPS 113 appendix 2, whose code is cut to 32 bits.
    #[test]
    fn the_code_is_as_published() {
        let key = DesMac::new(&hex("0123456789abcdef"));
        let code = key.sign(&[b"7654321 Now is the time for "]);
        assert_eq!(code[..4], hex("f1d30f68"));
    }

    /// One call of CBC over everything is the second implementation.
    #[test]
    fn every_length_and_every_split_gives_the_last_block() {
        let key = DesMac::new(&[7; 8]);
        for len in [0usize, 1, 7, 8, 9, 511, 512, 513, 1_024, 1_025, 1_500] {
            let data: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let mut whole = data.clone();
            whole.resize(len.next_multiple_of(8), 0);
            key.0.encrypt(&[0; 8], &mut whole);
            let expected = whole.last_chunk().copied().unwrap_or([0; 8]);
            for split in [0, len / 3, len / 2, len] {
                let (front, back) = data.split_at(split);
                assert_eq!(key.sign(&[front, &[], back]), expected, "{len} {split}");
            }
        }
    }
}
