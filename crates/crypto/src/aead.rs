//! AES-GCM (RFC 4106) and ChaCha20-Poly1305 (RFC 7634), both with a 16-octet ICV, by aws-lc-rs.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce,
    UnboundKey,
};
use zeroize::ZeroizeOnDrop;

use crate::packet::BadIcv;

/// Octets at the end of the key material that begin every nonce.
const SALT_LEN: usize = 4;

/// A prepared key and the salt of its nonces.
pub(crate) struct AeadKey {
    key: LessSafeKey,
    salt: Salt,
}

#[derive(ZeroizeOnDrop)]
struct Salt([u8; SALT_LEN]);

impl AeadKey {
    /// `key_len` octets of key, then the salt.
    pub(crate) fn aes_gcm(key_len: usize, material: &[u8]) -> Self {
        match key_len {
            16 => Self::new(&AES_128_GCM, material),
            24 => Self::new(&AES_192_GCM, material),
            32 => Self::new(&AES_256_GCM, material),
            _ => panic!("AES has keys of 16, 24 and 32 octets"),
        }
    }

    pub(crate) fn chacha20_poly1305(material: &[u8]) -> Self {
        Self::new(&CHACHA20_POLY1305, material)
    }

    fn new(algorithm: &'static Algorithm, material: &[u8]) -> Self {
        let (key, salt) = material.split_at(material.len() - SALT_LEN);
        let key = UnboundKey::new(algorithm, key).expect("the key is as long as its algorithm's");
        Self {
            key: LessSafeKey::new(key),
            salt: Salt(salt.try_into().expect("4 octets")),
        }
    }

    pub(crate) fn seal(
        &self,
        header: &[u8],
        esn_high: Option<u32>,
        iv: &[u8],
        text: &mut [u8],
        icv: &mut [u8],
    ) {
        let (aad, aad_len) = additional_data(header, esn_high);
        let aad = Aad::from(&aad[..aad_len]);
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(iv), aad, text)
            .expect("a packet is shorter than any limit of the algorithm");
        icv.copy_from_slice(tag.as_ref());
    }

    pub(crate) fn open(
        &self,
        header: &[u8],
        esn_high: Option<u32>,
        iv: &[u8],
        text: &mut [u8],
        icv: &[u8],
    ) -> Result<(), BadIcv> {
        let (aad, aad_len) = additional_data(header, esn_high);
        let aad = Aad::from(&aad[..aad_len]);
        self.key
            .open_in_place_separate_tag(self.nonce(iv), aad, icv, text)
            .map(|_| ())
            .map_err(|_| BadIcv)
    }

    fn nonce(&self, iv: &[u8]) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..SALT_LEN].copy_from_slice(&self.salt.0);
        nonce[SALT_LEN..].copy_from_slice(iv);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// SPI and sequence number, with its upper half between them under ESN (RFC 4106 §5).
fn additional_data(header: &[u8], esn_high: Option<u32>) -> ([u8; 12], usize) {
    let mut aad = [0; 12];
    aad[..4].copy_from_slice(&header[..4]);
    match esn_high {
        None => {
            aad[4..8].copy_from_slice(&header[4..8]);
            (aad, 8)
        }
        Some(high) => {
            aad[4..8].copy_from_slice(&high.to_be_bytes());
            aad[8..].copy_from_slice(&header[4..8]);
            (aad, 12)
        }
    }
}
