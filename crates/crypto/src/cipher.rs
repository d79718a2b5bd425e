//! CBC ciphers: IKEv1 message bodies, and ESP's CBC suites through [`crate::packet`].

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

enum Schedule {
    Aes(Box<crate::sys::Aes>),
    Des(crate::sys::Des),
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
}

impl CbcKey {
    /// A key of exactly `cipher.key_len()` octets; panics on any other length.
    pub fn new(cipher: Cipher, key: &[u8]) -> Self {
        assert_eq!(key.len(), cipher.key_len());
        let schedule = match cipher {
            Cipher::Des | Cipher::TripleDes => Schedule::Des(crate::sys::Des::new(key)),
            _ => Schedule::Aes(Box::new(crate::sys::Aes::new(key))),
        };
        Self { cipher, schedule }
    }

    /// Which cipher.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts whole blocks in place; panics unless `data` is whole blocks and `iv` is one.
    pub fn encrypt(&self, iv: &[u8], data: &mut [u8]) {
        self.run(iv, data, true);
    }

    /// Decrypts whole blocks in place; panics unless `data` is whole blocks and `iv` is one.
    pub fn decrypt(&self, iv: &[u8], data: &mut [u8]) {
        self.run(iv, data, false);
    }

    fn run(&self, iv: &[u8], data: &mut [u8], encrypts: bool) {
        match &self.schedule {
            Schedule::Aes(aes) => aes.cbc(iv, data, encrypts),
            Schedule::Des(des) => des.cbc(iv, data, encrypts),
        }
    }
}
