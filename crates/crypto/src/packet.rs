//! The keys of one ESP or AH security association in one direction: what turns the clear payload
//! of a packet into what travels and back, in place, without allocation.

use crate::cipher::Cipher;
use crate::hash::Hash;

/// ESP encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encryption {
    /// RFC 2410: no confidentiality; exists only with integrity.
    Null,
    /// CBC with a random 8- or 16-octet IV in each packet.
    Cbc(Cipher),
    /// AES-GCM, 16-octet ICV; key material ends in a 4-octet salt (RFC 4106 §8.1).
    AesGcm {
        /// 16, 24 or 32.
        key_len: u8,
    },
    /// RFC 7634; key material ends in a 4-octet salt.
    ChaCha20Poly1305,
}

/// ESP and AH integrity: HMAC, truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Integrity {
    /// None, or the encryption's own (GCM, ChaCha20-Poly1305).
    None,
    /// HMAC, its output cut to 96 bits (MD5, SHA-1) or half (SHA-2; RFC 4868).
    Hmac(Hash),
}

/// How a security association protects a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protection {
    /// ESP's encryption; `Null` for AH.
    pub encryption: Encryption,
    /// Separate integrity.
    pub integrity: Integrity,
}

impl Protection {
    /// Octets of KEYMAT for the encryption key, salt included.
    pub const fn encryption_key_len(&self) -> usize {
        match self.encryption {
            Encryption::Null => 0,
            Encryption::Cbc(cipher) => cipher.key_len(),
            Encryption::AesGcm { key_len } => key_len as usize + 4,
            Encryption::ChaCha20Poly1305 => 36,
        }
    }

    /// Octets of KEYMAT for the integrity key: the hash's output length.
    pub const fn integrity_key_len(&self) -> usize {
        match self.integrity {
            Integrity::None => 0,
            Integrity::Hmac(hash) => hash.len(),
        }
    }

    /// Octets of the IV that each packet carries.
    pub const fn iv_len(&self) -> usize {
        match self.encryption {
            Encryption::Null => 0,
            Encryption::Cbc(cipher) => cipher.block_len(),
            Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305 => 8,
        }
    }

    /// Octets that payload, padding and trailer must be a multiple of: the block, at least 4
    /// (RFC 4303 §2.4).
    pub const fn alignment(&self) -> usize {
        match self.encryption {
            Encryption::Cbc(cipher) => cipher.block_len(),
            _ => 4,
        }
    }

    /// Octets of the ICV.
    pub const fn icv_len(&self) -> usize {
        match (self.encryption, self.integrity) {
            (Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305, _) => 16,
            (_, Integrity::None) => 0,
            (_, Integrity::Hmac(Hash::Md5 | Hash::Sha1)) => 12,
            (_, Integrity::Hmac(hash)) => hash.len() / 2,
        }
    }

    /// Whether a packet's origin and content are proven by an ICV.
    pub const fn is_authenticated(&self) -> bool {
        self.icv_len() > 0
    }
}

/// The ICV is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the integrity check value is wrong")]
pub struct BadIcv;

/// The keys of one direction. Under 1 KiB in size; no allocation after `new`.
pub struct PacketKey {
    protection: Protection,
}

impl PacketKey {
    /// Keys of exactly the lengths that `protection` says; panics on others.
    pub fn new(protection: Protection, encryption: &[u8], integrity: &[u8]) -> Self {
        assert_eq!(encryption.len(), protection.encryption_key_len());
        assert_eq!(integrity.len(), protection.integrity_key_len());
        Self { protection }
    }

    /// How it protects.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Seals an ESP packet in place. `packet` is SPI, sequence number, IV, then the clear text
    /// with its padding and trailer, then room for the ICV. `esn_high` is the implicit upper half
    /// of the sequence number with ESN (RFC 4303 §2.2.1). The IV is in place already: random for
    /// CBC, the 64-bit sequence number for GCM and ChaCha20-Poly1305.
    pub fn seal(&self, packet: &mut [u8], esn_high: Option<u32>) {
        let _ = (packet, esn_high);
        panic!("crypto")
    }

    /// Opens an ESP packet in place: checks the ICV first, then decrypts. Returns where the clear
    /// text (padding and trailer still on it) lies. The caller has checked that `packet` is at
    /// least 8 + IV + ICV octets and that the ciphertext is whole blocks.
    pub fn open(
        &self,
        packet: &mut [u8],
        esn_high: Option<u32>,
    ) -> Result<core::ops::Range<usize>, BadIcv> {
        let _ = (packet, esn_high);
        panic!("crypto")
    }

    /// AH's ICV over the parts (RFC 4302 §3.3.3), the upper half of an ESN among them.
    pub fn icv(&self, parts: &[&[u8]], icv: &mut [u8]) {
        let _ = (parts, icv);
        panic!("crypto")
    }
}
