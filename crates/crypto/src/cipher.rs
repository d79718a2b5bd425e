//! CBC ciphers: IKEv1 message bodies, and ESP's CBC suites through [`crate::packet`].

use crate::sys::{AesSchedule, DesSchedule};

/// Block ciphers in CBC mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cipher {
    /// Single DES, legacy (RFC 2405).
    Des,
    /// Triple DES, legacy (RFC 2451).
    TripleDes,
    /// AES-128 (RFC 3602).
    Aes128,
    /// AES-192.
    Aes192,
    /// AES-256.
    Aes256,
}

/// A key with its schedule, for both directions, wiped on drop.
pub struct CbcKey {
    cipher: Cipher,
    schedule: Schedule,
}

/// On the heap, so that enums with other kinds of keys stay small.
enum Schedule {
    Aes(Box<AesSchedule>),
    Des(DesSchedule),
}

impl Cipher {
    /// Octets of the key.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Des => 8,
            Self::TripleDes | Self::Aes192 => 24,
            Self::Aes128 => 16,
            Self::Aes256 => 32,
        }
    }

    /// Octets of a block and of the IV.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Des | Self::TripleDes => 8,
            _ => 16,
        }
    }

    /// Whether IKE must not use this key: DES's weak and semi-weak keys (RFC 2409 appendix A, RFC
    /// 2405 §3), and triple DES that equals single DES (RFC 2451 §2.3). Parity bits do not count.
    /// Panics unless the key has `key_len` octets.
    pub fn is_weak_key(self, key: &[u8]) -> bool {
        assert_eq!(key.len(), self.key_len());
        let is_same = |a: &[u8], b: &[u8]| {
            let difference = a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b));
            difference & !PARITY == 0
        };
        match self {
            Self::Des => WEAK_DES_KEYS
                .iter()
                .fold(false, |found, weak| found | is_same(key, weak)),
            Self::TripleDes => is_same(&key[..8], &key[8..16]) | is_same(&key[8..16], &key[16..]),
            Self::Aes128 | Self::Aes192 | Self::Aes256 => false,
        }
    }
}

impl CbcKey {
    /// A key of exactly `cipher.key_len()` octets; panics on any other length.
    pub fn new(cipher: Cipher, key: &[u8]) -> Self {
        assert_eq!(key.len(), cipher.key_len());
        let schedule = match cipher {
            Cipher::Des | Cipher::TripleDes => Schedule::Des(DesSchedule::new(key)),
            Cipher::Aes128 | Cipher::Aes192 | Cipher::Aes256 => {
                Schedule::Aes(Box::new(AesSchedule::new(key)))
            }
        };
        Self { cipher, schedule }
    }

    /// Which cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts whole blocks in place; panics unless `data` is whole blocks and `iv` is one.
    pub fn encrypt(&self, iv: &[u8], data: &mut [u8]) {
        match &self.schedule {
            Schedule::Aes(schedule) => schedule.encrypt(block(iv), data),
            Schedule::Des(schedule) => schedule.encrypt(block(iv), data),
        }
    }

    /// Decrypts whole blocks in place; panics unless `data` is whole blocks and `iv` is one.
    pub fn decrypt(&self, iv: &[u8], data: &mut [u8]) {
        match &self.schedule {
            Schedule::Aes(schedule) => schedule.decrypt(block(iv), data),
            Schedule::Des(schedule) => schedule.decrypt(block(iv), data),
        }
    }
}

fn block<const N: usize>(iv: &[u8]) -> [u8; N] {
    iv.try_into().expect("an IV of one block")
}

const PARITY: u8 = 0x01;

/// The four weak and twelve semi-weak keys of DES, with odd parity.
const WEAK_DES_KEYS: [[u8; 8]; 16] = [
    [0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01, 0x01],
    [0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe, 0xfe],
    [0x1f, 0x1f, 0x1f, 0x1f, 0x0e, 0x0e, 0x0e, 0x0e],
    [0xe0, 0xe0, 0xe0, 0xe0, 0xf1, 0xf1, 0xf1, 0xf1],
    [0x01, 0xfe, 0x01, 0xfe, 0x01, 0xfe, 0x01, 0xfe],
    [0xfe, 0x01, 0xfe, 0x01, 0xfe, 0x01, 0xfe, 0x01],
    [0x1f, 0xe0, 0x1f, 0xe0, 0x0e, 0xf1, 0x0e, 0xf1],
    [0xe0, 0x1f, 0xe0, 0x1f, 0xf1, 0x0e, 0xf1, 0x0e],
    [0x01, 0xe0, 0x01, 0xe0, 0x01, 0xf1, 0x01, 0xf1],
    [0xe0, 0x01, 0xe0, 0x01, 0xf1, 0x01, 0xf1, 0x01],
    [0x1f, 0xfe, 0x1f, 0xfe, 0x0e, 0xfe, 0x0e, 0xfe],
    [0xfe, 0x1f, 0xfe, 0x1f, 0xfe, 0x0e, 0xfe, 0x0e],
    [0x01, 0x1f, 0x01, 0x1f, 0x01, 0x0e, 0x01, 0x0e],
    [0x1f, 0x01, 0x1f, 0x01, 0x0e, 0x01, 0x0e, 0x01],
    [0xe0, 0xfe, 0xe0, 0xfe, 0xf1, 0xfe, 0xf1, 0xfe],
    [0xfe, 0xe0, 0xfe, 0xe0, 0xfe, 0xf1, 0xfe, 0xf1],
];

#[cfg(test)]
mod tests;
