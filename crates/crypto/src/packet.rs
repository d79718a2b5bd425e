//! The keys of one ESP or AH security association in one direction. They protect packets and open
//! them in place, without allocation.
//!
//! Follows RFC 4303 §3.3 and §3.4, and for each algorithm the document named there. The engine does
//! padding, sequence numbers and replay windows.

mod resting;

use crate::aead::{Aead, AeadKey, ICV_LEN};
use crate::cipher::{CbcKey, Cipher};
use crate::hash::{Hash, HmacKey, is_equal};

pub use crate::aead::BadIcv;
pub(crate) use resting::RawKey;
pub use resting::RestingKey;

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
            (Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305, _) => ICV_LEN,
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

/// The keys of one direction. Under 1 KiB in size; no allocation after `new`.
pub struct PacketKey {
    protection: Protection,
    crypt: Crypt,
    /// On the heap, because an AEAD has none.
    mac: Option<Box<HmacKey>>,
}

/// Key schedules are on the heap: 584 octets for an AEAD, 488 for AES-CBC, 388 for triple DES.
enum Crypt {
    Null,
    Cbc(CbcKey),
    Aead(AeadKey),
}

/// SPI and sequence number.
const HEADER_LEN: usize = 8;

impl PacketKey {
    /// Takes keys of exactly the lengths that `protection` requires. Panics on others, and on an
    /// AEAD with separate integrity.
    pub fn new(protection: Protection, encryption: &[u8], integrity: &[u8]) -> Self {
        assert_eq!(encryption.len(), protection.encryption_key_len());
        assert_eq!(integrity.len(), protection.integrity_key_len());
        let crypt = match protection.encryption {
            Encryption::Null => Crypt::Null,
            Encryption::Cbc(cipher) => Crypt::Cbc(CbcKey::new(cipher, encryption)),
            Encryption::AesGcm { .. } => Crypt::Aead(AeadKey::new(Aead::AesGcm, encryption)),
            Encryption::ChaCha20Poly1305 => {
                Crypt::Aead(AeadKey::new(Aead::ChaCha20Poly1305, encryption))
            }
        };
        let mac = match protection.integrity {
            Integrity::None => None,
            Integrity::Hmac(hash) => Some(Box::new(HmacKey::new(hash, integrity))),
        };
        assert!(
            mac.is_none() || !matches!(crypt, Crypt::Aead(_)),
            "an AEAD has its own integrity"
        );
        Self {
            protection,
            crypt,
            mac,
        }
    }

    /// How it protects.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// Seals an ESP packet in place. `packet` is SPI, sequence number, IV, then the clear text with
    /// its padding and trailer, then room for the ICV. `esn_high` is the implicit upper half of the
    /// sequence number with ESN (RFC 4303 §2.2.1). The caller has written the IV: random for CBC,
    /// the 64-bit sequence number for GCM and ChaCha20-Poly1305. Panics if a packet is too short
    /// or, with CBC, not whole blocks.
    pub fn seal(&self, packet: &mut [u8], esn_high: Option<u32>) {
        let body = HEADER_LEN + self.protection.iv_len();
        let (head, rest) = packet.split_at_mut(body);
        let aad = Aad::of(head, esn_high);
        self.encrypt(aad.octets(), &head[HEADER_LEN..], rest);
        self.write_mac(packet, Esn::of(esn_high).octets());
    }

    /// Opens an ESP packet in place: checks the ICV first, then decrypts. Returns the range of the
    /// clear text, with its padding and trailer. The caller has checked that `packet` has at least
    /// 8 + IV + ICV octets and that the ciphertext is whole blocks; other packets are refused like
    /// a wrong ICV.
    pub fn open(
        &self,
        packet: &mut [u8],
        esn_high: Option<u32>,
    ) -> Result<core::ops::Range<usize>, BadIcv> {
        let body = HEADER_LEN + self.protection.iv_len();
        if packet.len() < body + self.protection.icv_len() {
            return Err(BadIcv);
        }
        let end = packet.len() - self.protection.icv_len();
        self.check_mac(packet, Esn::of(esn_high).octets())?;
        let (head, rest) = packet.split_at_mut(body);
        let aad = Aad::of(head, esn_high);
        self.decrypt(aad.octets(), &head[HEADER_LEN..], rest)?;
        Ok(body..end)
    }

    /// Encrypts in place what is before the ICV of `body`, and writes the ICV of an AEAD. Panics
    /// without room for it and, with CBC, unless the clear text is whole blocks.
    pub(crate) fn encrypt(&self, aad: &[u8], iv: &[u8], body: &mut [u8]) {
        let end = body.len() - self.protection.icv_len();
        match &self.crypt {
            Crypt::Null => {}
            Crypt::Cbc(key) => key.encrypt(iv, &mut body[..end]),
            Crypt::Aead(key) => {
                let (clear, icv) = body.split_last_chunk_mut().expect("room for the ICV");
                key.seal(eight(iv), aad, clear, icv);
            }
        }
    }

    /// Decrypts in place what is before the ICV of `body`, and checks the ICV of an AEAD.
    pub(crate) fn decrypt(&self, aad: &[u8], iv: &[u8], body: &mut [u8]) -> Result<(), BadIcv> {
        let end = body.len() - self.protection.icv_len();
        match &self.crypt {
            Crypt::Null => Ok(()),
            Crypt::Cbc(key) if !end.is_multiple_of(key.cipher().block_len()) => Err(BadIcv),
            Crypt::Cbc(key) => {
                key.decrypt(iv, &mut body[..end]);
                Ok(())
            }
            Crypt::Aead(key) => key.open(eight(iv), aad, body),
        }
    }

    /// Writes the ICV of separate integrity: over all octets before it, then `after`.
    pub(crate) fn write_mac(&self, packet: &mut [u8], after: &[u8]) {
        if let Some(mac) = &self.mac {
            let end = packet.len() - self.protection.icv_len();
            let (sealed, icv) = packet.split_at_mut(end);
            let digest = mac.sign(&[sealed, after]);
            icv.copy_from_slice(&digest.as_ref()[..icv.len()]);
        }
    }

    /// Checks the ICV of separate integrity, in constant time.
    pub(crate) fn check_mac(&self, packet: &[u8], after: &[u8]) -> Result<(), BadIcv> {
        let Some(mac) = &self.mac else {
            return Ok(());
        };
        let end = packet.len() - self.protection.icv_len();
        let (sealed, icv) = packet.split_at(end);
        let digest = mac.sign(&[sealed, after]);
        match is_equal(icv, &digest.as_ref()[..icv.len()]) {
            true => Ok(()),
            false => Err(BadIcv),
        }
    }

    /// Computes AH's ICV over the parts (RFC 4302 §3.3.3), including the upper half of an ESN.
    /// Panics without separate integrity, and unless `icv` has `icv_len` octets.
    pub fn icv(&self, parts: &[&[u8]], icv: &mut [u8]) {
        let mac = self.mac.as_ref().expect("AH has separate integrity");
        assert_eq!(icv.len(), self.protection.icv_len());
        icv.copy_from_slice(&mac.sign(parts).as_ref()[..icv.len()]);
    }

    /// Checks AH's ICV over the parts, in constant time. Panics without separate integrity.
    pub fn verify_icv(&self, parts: &[&[u8]], icv: &[u8]) -> Result<(), BadIcv> {
        let mac = self.mac.as_ref().expect("AH has separate integrity");
        let digest = mac.sign(parts);
        match is_equal(icv, &digest.as_ref()[..self.protection.icv_len()]) {
            true => Ok(()),
            false => Err(BadIcv),
        }
    }
}

/// The upper half of an extended sequence number, which the HMAC takes after the packet (RFC 4303
/// §2.2.1), or nothing.
struct Esn([u8; 4], usize);

impl Esn {
    fn of(high: Option<u32>) -> Self {
        match high {
            Some(high) => Self(high.to_be_bytes(), 4),
            None => Self([0; 4], 0),
        }
    }

    fn octets(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

/// What an AEAD authenticates besides the ciphertext: SPI and sequence number, 32 or 64 bits (RFC
/// 4106 §5, RFC 7634 §2.1).
struct Aad([u8; 12], usize);

impl Aad {
    fn of(head: &[u8], esn_high: Option<u32>) -> Self {
        let mut octets = [0; 12];
        octets[..4].copy_from_slice(&head[..4]);
        match esn_high {
            Some(high) => {
                octets[4..8].copy_from_slice(&high.to_be_bytes());
                octets[8..].copy_from_slice(&head[4..8]);
                Self(octets, 12)
            }
            None => {
                octets[4..8].copy_from_slice(&head[4..8]);
                Self(octets, 8)
            }
        }
    }

    fn octets(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

fn eight(iv: &[u8]) -> [u8; 8] {
    iv.try_into().expect("an IV of 8 octets")
}

#[cfg(test)]
mod tests;
