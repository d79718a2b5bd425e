//! The keys of one ESP or AH security association in one direction: what turns the clear payload
//! of a packet into what travels and back, in place, without allocation.

use core::ops::Range;

use crate::aead::AeadKey;
use crate::cipher::{CbcKey, Cipher};
use crate::hash::{Hash, is_equal};
use crate::sys::Hmac;

/// SPI and sequence number.
const ESP_HEADER_LEN: usize = 8;

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

/// The keys of one direction. Small enough for a gateway of 100,000 tunnels; no allocation after
/// `new`.
pub struct PacketKey {
    protection: Protection,
    cipher: PacketCipher,
    hmac: Option<Box<Hmac>>,
}

enum PacketCipher {
    Null,
    Cbc(CbcKey),
    Aead(AeadKey),
}

impl PacketKey {
    /// Keys of exactly the lengths that `protection` says; panics on others.
    pub fn new(protection: Protection, encryption: &[u8], integrity: &[u8]) -> Self {
        assert_eq!(encryption.len(), protection.encryption_key_len());
        assert_eq!(integrity.len(), protection.integrity_key_len());
        let cipher = match protection.encryption {
            Encryption::Null => PacketCipher::Null,
            Encryption::Cbc(cipher) => PacketCipher::Cbc(CbcKey::new(cipher, encryption)),
            Encryption::AesGcm { key_len } => {
                PacketCipher::Aead(AeadKey::aes_gcm(usize::from(key_len), encryption))
            }
            Encryption::ChaCha20Poly1305 => {
                PacketCipher::Aead(AeadKey::chacha20_poly1305(encryption))
            }
        };
        let hmac = match protection.integrity {
            Integrity::None => None,
            Integrity::Hmac(hash) => Some(Box::new(Hmac::new(hash, integrity))),
        };
        Self {
            protection,
            cipher,
            hmac,
        }
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
        let icv_at = packet.len() - self.protection.icv_len();
        let (covered, icv) = packet.split_at_mut(icv_at);
        let (header, rest) = covered.split_at_mut(ESP_HEADER_LEN);
        let (iv, text) = rest.split_at_mut(self.protection.iv_len());
        match &self.cipher {
            PacketCipher::Null => {}
            PacketCipher::Cbc(key) => key.encrypt(iv, text),
            PacketCipher::Aead(key) => return key.seal(header, esn_high, iv, text, icv),
        }
        if self.hmac.is_some() {
            self.write_icv(&[covered], esn_high, icv);
        }
    }

    /// Opens an ESP packet in place: checks the ICV first, then decrypts. Returns where the clear
    /// text (padding and trailer still on it) lies. The caller has checked that `packet` is at
    /// least 8 + IV + ICV octets and that the ciphertext is whole blocks.
    pub fn open(&self, packet: &mut [u8], esn_high: Option<u32>) -> Result<Range<usize>, BadIcv> {
        let icv_at = packet.len() - self.protection.icv_len();
        let text_at = ESP_HEADER_LEN + self.protection.iv_len();
        let (covered, icv) = packet.split_at_mut(icv_at);
        if let PacketCipher::Aead(key) = &self.cipher {
            let (header, rest) = covered.split_at_mut(ESP_HEADER_LEN);
            let (iv, text) = rest.split_at_mut(self.protection.iv_len());
            key.open(header, esn_high, iv, text, icv)?;
            return Ok(text_at..icv_at);
        }
        if self.hmac.is_some() {
            let mut expected = [0; 64];
            let expected = &mut expected[..icv.len()];
            self.write_icv(&[covered], esn_high, expected);
            if !is_equal(expected, icv) {
                return Err(BadIcv);
            }
        }
        if let PacketCipher::Cbc(key) = &self.cipher {
            let (head, text) = covered.split_at_mut(text_at);
            key.decrypt(&head[ESP_HEADER_LEN..], text);
        }
        Ok(text_at..icv_at)
    }

    /// AH's ICV over the parts (RFC 4302 §3.3.3), the upper half of an ESN among them. Panics
    /// without a separate integrity algorithm.
    pub fn icv(&self, parts: &[&[u8]], icv: &mut [u8]) {
        self.write_icv(parts, None, icv);
    }

    fn write_icv(&self, parts: &[&[u8]], esn_high: Option<u32>, icv: &mut [u8]) {
        let mut state = self
            .hmac
            .as_deref()
            .expect("an integrity algorithm")
            .clone();
        parts.iter().for_each(|part| state.update(part));
        if let Some(high) = esn_high {
            state.update(&high.to_be_bytes());
        }
        let mut out = [0; 64];
        state.finish(&mut out);
        icv.copy_from_slice(&out[..icv.len()]);
    }
}
