//! RSA as IKEv1 signs: PKCS #1 v1.5 padding over the bare hash, no DigestInfo (RFC 2409 §5.1).

/// A private key, at least 1024 bits (under 2048 is legacy), at most 8192.
pub struct PrivateKey(crate::sys::Rsa);

/// A public key.
pub struct PublicKey(crate::sys::Rsa);

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

impl PrivateKey {
    /// Reads DER, PKCS #8 or PKCS #1.
    pub fn from_der(der: &[u8]) -> Result<Self, RsaFault> {
        checked(crate::sys::Rsa::private(der)).map(Self)
    }

    /// Reads the first private key of a PEM text.
    pub fn from_pem(text: &str) -> Result<Self, RsaFault> {
        let bytes = text.as_bytes();
        let pem = x509_parser::pem::Pem::iter_from_buffer(bytes)
            .filter_map(Result::ok)
            .find(|pem| pem.label == "PRIVATE KEY" || pem.label == "RSA PRIVATE KEY")
            .ok_or(RsaFault::NotAKey)?;
        let der = zeroize::Zeroizing::new(pem.contents);
        Self::from_der(&der)
    }

    /// Signs the bare hash.
    pub fn sign_bare(&self, hash: &[u8]) -> Vec<u8> {
        self.0
            .sign_raw(hash)
            .expect("a hash is shorter than any modulus we take")
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_half())
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo.
    pub fn from_spki(der: &[u8]) -> Result<Self, RsaFault> {
        checked(crate::sys::Rsa::public(der)).map(Self)
    }

    /// Bits of the modulus.
    pub fn bits(&self) -> u32 {
        self.0.bits()
    }

    /// Checks a signature over the bare hash.
    pub fn verify_bare(&self, hash: &[u8], signature: &[u8]) -> Result<(), RsaFault> {
        let recovered = self.0.verify_raw(signature).ok_or(RsaFault::BadSignature)?;
        if crate::hash::is_equal(&recovered, hash) {
            Ok(())
        } else {
            Err(RsaFault::BadSignature)
        }
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.public_der() == other.0.public_der()
    }
}

fn checked(key: Option<crate::sys::Rsa>) -> Result<crate::sys::Rsa, RsaFault> {
    let key = key.ok_or(RsaFault::NotAKey)?;
    match key.bits() {
        1024..=8192 => Ok(key),
        bits => Err(RsaFault::Size { bits }),
    }
}
