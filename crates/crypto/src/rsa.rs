//! RSA signatures: PKCS #1 v1.5 padding over the bare hash, without DigestInfo, as in IKEv1 (RFC
//! 2409 §5.1); with DigestInfo, and PSS, as in IKEv2 (RFC 8017 §8).
//!
//! aws-lc blinds the private operation with its own random numbers. Signatures do not depend on
//! them.

use x509_parser::pem::Pem;
use zeroize::{Zeroize, Zeroizing};

use crate::hash::{Hash, is_equal};
use crate::sys::Rsa;

mod pss;

/// A private key, at least 1024 bits (under 2048 is legacy), at most 8192.
pub struct PrivateKey(Rsa);

/// A public key.
pub struct PublicKey(Rsa);

/// Why a key or a signature is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RsaFault {
    /// Not PEM or DER of an RSA key that we read: PKCS #8, PKCS #1.
    #[error("not an RSA key in PKCS #8 or PKCS #1")]
    NotAKey,
    /// The modulus is too short or too long.
    #[error("an RSA modulus of {bits} bits is outside 1024 to 8192")]
    Size {
        /// Bits of the modulus.
        bits: u32,
    },
    /// The signature does not belong to the hash and the key.
    #[error("the signature does not belong to this key and hash")]
    BadSignature,
}

/// Seeds the random numbers that blind private operations, once per process. aws-lc gathers them
/// from the processor's jitter, which would delay the first signature by tens of milliseconds.
/// Further calls do nothing.
pub fn prepare_blinding() {
    let mut octets = Zeroizing::new([0; 32]);
    // If seeding fails, aws-lc aborts, as it would at the first signature.
    let _ = aws_lc_rs::rand::fill(&mut octets[..]);
}

const MIN_BITS: u32 = 1024;
const MAX_BITS: u32 = 8192;
/// The longest hash that is signed: SHA2-512.
const MAX_HASH_LEN: usize = 64;

impl PrivateKey {
    /// Reads DER, PKCS #8 or PKCS #1.
    pub fn from_der(der: &[u8]) -> Result<Self, RsaFault> {
        let key = Rsa::private_from_der(der).ok_or(RsaFault::NotAKey)?;
        check_size(&key)?;
        Ok(Self(key))
    }

    /// Reads the first private key of a PEM text.
    pub fn from_pem(text: &str) -> Result<Self, RsaFault> {
        Self::from_der(&private_der_of_pem(text).ok_or(RsaFault::NotAKey)?)
    }

    /// Signs the bare hash; panics on one longer than 64 octets.
    pub fn sign_bare(&self, hash: &[u8]) -> Vec<u8> {
        assert!(hash.len() <= MAX_HASH_LEN);
        self.0
            .sign_padded(hash)
            .expect("the padded hash fits into 1024 bits and the key was checked")
    }

    /// Signs the parts, one after the other, by PKCS #1 v1.5 with DigestInfo. `None` if the modulus
    /// is too short for the hash.
    pub fn sign_pkcs1(&self, hash: Hash, parts: &[&[u8]]) -> Option<Vec<u8>> {
        self.0.sign_digest(hash, hash.digest(parts).as_ref())
    }

    /// Signs the parts, one after the other, by PSS. The salt is random; panics unless it is as
    /// long as the hash. `None` if the modulus is too short for both.
    pub fn sign_pss(&self, hash: Hash, parts: &[&[u8]], salt: &[u8]) -> Option<Vec<u8>> {
        assert_eq!(salt.len(), hash.len(), "a salt as long as the hash");
        let digest = hash.digest(parts);
        let encoded = pss::encode(hash, digest.as_ref(), salt, self.0.bits())?;
        self.0.sign_raw(&encoded)
    }

    /// Bits of the modulus.
    pub fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public())
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo.
    pub fn from_spki(der: &[u8]) -> Result<Self, RsaFault> {
        let key = Rsa::public_from_spki(der).ok_or(RsaFault::NotAKey)?;
        check_size(&key)?;
        Ok(Self(key))
    }

    /// Bits of the modulus.
    pub fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// Checks a signature over the bare hash.
    pub fn verify_bare(&self, hash: &[u8], signature: &[u8]) -> Result<(), RsaFault> {
        match self.0.recover_padded(signature) {
            Some(signed) if is_equal(&signed, hash) => Ok(()),
            _ => Err(RsaFault::BadSignature),
        }
    }
}

impl PublicKey {
    /// Checks a signature over the parts, one after the other, by PKCS #1 v1.5 with DigestInfo.
    pub fn verify_pkcs1(
        &self,
        hash: Hash,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), RsaFault> {
        let digest = hash.digest(parts);
        match self.0.is_digest_signed(hash, digest.as_ref(), signature) {
            true => Ok(()),
            false => Err(RsaFault::BadSignature),
        }
    }

    /// Checks a signature over the parts, one after the other, by PSS with a salt as long as the
    /// hash.
    pub fn verify_pss(
        &self,
        hash: Hash,
        parts: &[&[u8]],
        signature: &[u8],
    ) -> Result<(), RsaFault> {
        let digest = hash.digest(parts);
        match self
            .0
            .is_digest_signed_by_pss(hash, digest.as_ref(), signature)
        {
            true => Ok(()),
            false => Err(RsaFault::BadSignature),
        }
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.has_public_half_of(&other.0)
    }
}

impl Eq for PublicKey {}

/// DER of the first private key of a PEM text, whatever its algorithm.
pub(crate) fn private_der_of_pem(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    Pem::iter_from_buffer(text.as_bytes())
        .map_while(Result::ok)
        .find_map(|mut block| match block.label.as_str() {
            "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY" => {
                Some(Zeroizing::new(block.contents))
            }
            _ => {
                block.contents.zeroize();
                None
            }
        })
}

fn check_size(key: &Rsa) -> Result<(), RsaFault> {
    match key.bits() {
        MIN_BITS..=MAX_BITS => Ok(()),
        bits => Err(RsaFault::Size { bits }),
    }
}

#[cfg(test)]
pub(crate) mod tests;
