//! AES-GCM (RFC 4106), ChaCha20-Poly1305 (RFC 7634) and AES-GCM-SIV (RFC 8452), all with a 16-octet
//! ICV, by aws-lc-rs.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, AES_256_GCM_SIV, Aad, CHACHA20_POLY1305, LessSafeKey,
    Nonce, UnboundKey,
};
use zeroize::Zeroize;

/// Octets of the ICV.
pub const ICV_LEN: usize = 16;
/// Octets of salt: the end of the key material, with which every nonce starts.
pub const SALT_LEN: usize = 4;
/// Octets of the IV in the packet: the rest of the nonce.
pub const IV_LEN: usize = 8;

/// The ICV is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the integrity check value is wrong")]
pub struct BadIcv;

/// The families.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aead {
    /// AES-GCM; the key's length says which AES.
    AesGcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
    /// AES-256-GCM-SIV: a repeated nonce shows only whether two packets are equal (RFC 8452 §9).
    AesGcmSiv,
}

/// A key with its salt and key schedule. Both are wiped on drop: the schedule by aws-lc, the salt
/// here.
pub struct AeadKey {
    key: LessSafeKey,
    salt: [u8; SALT_LEN],
}

impl AeadKey {
    /// Takes key material: a key of 16, 24 or 32 octets (32 of ChaCha20-Poly1305 and of
    /// AES-GCM-SIV), then the salt.
    /// Panics on any other length.
    pub fn new(aead: Aead, material: &[u8]) -> Self {
        let (key, salt) = material
            .split_last_chunk()
            .expect("key material ends in a salt");
        let algorithm = match (aead, key.len()) {
            (Aead::AesGcm, 16) => &AES_128_GCM,
            (Aead::AesGcm, 24) => &AES_192_GCM,
            (Aead::AesGcm, 32) => &AES_256_GCM,
            (Aead::ChaCha20Poly1305, 32) => &CHACHA20_POLY1305,
            (Aead::AesGcmSiv, 32) => &AES_256_GCM_SIV,
            (_, len) => panic!("an AEAD key of {len} octets"),
        };
        let key = UnboundKey::new(algorithm, key).expect("the length was checked");
        Self {
            key: LessSafeKey::new(key),
            salt: *salt,
        }
    }

    /// Encrypts `data` in place and writes the ICV. Use each IV only once with a key.
    pub fn seal(&self, iv: [u8; IV_LEN], aad: &[u8], data: &mut [u8], icv: &mut [u8; ICV_LEN]) {
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(iv), Aad::from(aad), data)
            .expect("a packet is shorter than the limit of the AEAD");
        icv.copy_from_slice(tag.as_ref());
    }

    /// Checks the ICV at the end of `sealed` and decrypts the octets before it in place. If the ICV
    /// is wrong, the content of `sealed` is undefined.
    pub fn open(&self, iv: [u8; IV_LEN], aad: &[u8], sealed: &mut [u8]) -> Result<(), BadIcv> {
        self.key
            .open_in_place(self.nonce(iv), Aad::from(aad), sealed)
            .map_err(|_| BadIcv)?;
        Ok(())
    }

    fn nonce(&self, iv: [u8; IV_LEN]) -> Nonce {
        let mut nonce = [0; SALT_LEN + IV_LEN];
        nonce[..SALT_LEN].copy_from_slice(&self.salt);
        nonce[SALT_LEN..].copy_from_slice(&iv);
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Drop for AeadKey {
    fn drop(&mut self) {
        self.salt.zeroize();
    }
}

#[cfg(test)]
mod tests;
