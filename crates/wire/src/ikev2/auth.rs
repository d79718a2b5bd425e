//! The AUTH payload (RFC 7296 §3.8) and the signatures of method 14 (RFC 7427 §3).

use crate::codec::{Malformed, Reader, Writer};

/// Hash algorithms that one notification may name.
pub const MAX_HASH_ALGORITHMS: usize = 64;

/// Authentication methods (RFC 7296 §3.8, RFC 4754 §3, RFC 6467 §6, RFC 7619 §2.1, RFC 7427 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthenticationMethod {
    /// 1: RSA, PKCS #1 v1.5; SHA-1 unless the peers know better.
    RsaDigitalSignature,
    /// 2: a MIC with a shared key.
    SharedKey,
    /// 3: DSS.
    DssDigitalSignature,
    /// 9: ECDSA with SHA-256 on P-256.
    EcdsaSha256P256,
    /// 10: ECDSA with SHA-384 on P-384.
    EcdsaSha384P384,
    /// 11: ECDSA with SHA-512 on P-521.
    EcdsaSha512P521,
    /// 12: generic secure password authentication.
    GenericSecurePassword,
    /// 13: nobody is authenticated.
    Null,
    /// 14: a signature with its AlgorithmIdentifier.
    DigitalSignature,
    /// Any other value.
    Other(u8),
}

/// Hash algorithms of method 14 (RFC 7427 §7, RFC 8420 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HashAlgorithm {
    /// 1
    Sha1,
    /// 2
    Sha2_256,
    /// 3
    Sha2_384,
    /// 4
    Sha2_512,
    /// 5: the signature algorithm hashes by itself, as Ed25519 and ML-DSA do.
    Identity,
    /// Any other value.
    Other(u16),
}

/// The AUTH payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authentication {
    /// How to read `value`.
    pub method: AuthenticationMethod,
    /// Authentication data. [`DigitalSignature::parse`] reads that of method 14.
    pub value: Vec<u8>,
}

/// Authentication data of method 14. `crypto` reads the AlgorithmIdentifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigitalSignature {
    /// DER of the AlgorithmIdentifier, 1 to 255 octets.
    pub algorithm: Vec<u8>,
    /// The signature, at least one octet.
    pub signature: Vec<u8>,
}

impl Authentication {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let method = r.u8("authentication method")?.into();
        r.array::<3>("reserved octets")?;
        Ok(Self {
            method,
            value: r.rest().to_vec(),
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.method.number());
        w.bytes(&[0; 3]);
        w.bytes(&self.value);
    }
}

impl DigitalSignature {
    /// Reads the authentication data of method 14.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(value);
        let len = usize::from(r.u8("length of the algorithm identifier")?);
        if len == 0 {
            return Err(Malformed::Length("algorithm identifier"));
        }
        let algorithm = r.take(len, "algorithm identifier")?.to_vec();
        if r.is_empty() {
            return Err(Malformed::Truncated("signature"));
        }
        Ok(Self {
            algorithm,
            signature: r.rest().to_vec(),
        })
    }

    /// The authentication data. Panics on an AlgorithmIdentifier of no or more than 255 octets.
    pub fn to_value(&self) -> Vec<u8> {
        let len = u8::try_from(self.algorithm.len()).expect("an identifier of at most 255 octets");
        assert!(len > 0, "an identifier has octets");
        [&[len], &self.algorithm[..], &self.signature[..]].concat()
    }
}

numbered!(AuthenticationMethod: u8 {
    RsaDigitalSignature = 1,
    SharedKey = 2,
    DssDigitalSignature = 3,
    EcdsaSha256P256 = 9,
    EcdsaSha384P384 = 10,
    EcdsaSha512P521 = 11,
    GenericSecurePassword = 12,
    Null = 13,
    DigitalSignature = 14,
});

numbered!(HashAlgorithm: u16 {
    Sha1 = 1,
    Sha2_256 = 2,
    Sha2_384 = 3,
    Sha2_512 = 4,
    Identity = 5,
});
