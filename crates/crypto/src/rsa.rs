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
        let _ = der;
        panic!("crypto")
    }

    /// Reads the first private key of a PEM text.
    pub fn from_pem(text: &str) -> Result<Self, RsaFault> {
        let _ = text;
        panic!("crypto")
    }

    /// Signs the bare hash.
    pub fn sign_bare(&self, hash: &[u8]) -> Vec<u8> {
        let _ = (hash, &self.0);
        panic!("crypto")
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        panic!("crypto")
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo.
    pub fn from_spki(der: &[u8]) -> Result<Self, RsaFault> {
        let _ = der;
        panic!("crypto")
    }

    /// Bits of the modulus.
    pub fn bits(&self) -> u32 {
        let _ = &self.0;
        panic!("crypto")
    }

    /// Checks a signature over the bare hash.
    pub fn verify_bare(&self, hash: &[u8], signature: &[u8]) -> Result<(), RsaFault> {
        let _ = (hash, signature);
        panic!("crypto")
    }
}
