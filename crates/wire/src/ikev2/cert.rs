//! Certificates and requests for them (RFC 7296 §3.6 and §3.7).

use crate::codec::{Malformed, Reader, Writer};

/// Octets of the name of an authority in a request: SHA-1 of its SubjectPublicKeyInfo.
pub const KEY_HASH_LEN: usize = 20;

/// Certificate encodings (RFC 7296 §3.6, RFC 7670 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateEncoding {
    /// 1: PKCS #7 wrapped X.509 certificate.
    Pkcs7,
    /// 4: X.509 certificate with a key for signatures, DER.
    X509Signature,
    /// 7: certificate revocation list, DER.
    RevocationList,
    /// 12: hash and URL of an X.509 certificate.
    HashAndUrl,
    /// 13: hash and URL of an X.509 bundle.
    HashAndUrlOfBundle,
    /// 14: OCSP content (RFC 4806).
    Ocsp,
    /// 15: a raw public key, DER SubjectPublicKeyInfo.
    RawPublicKey,
    /// Any other value.
    Other(u8),
}

/// A certificate, or what stands for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// How to read `body`.
    pub encoding: CertificateEncoding,
    /// DER for X.509.
    pub body: Vec<u8>,
}

/// The authorities of which the sender would accept a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The encoding that is wanted.
    pub encoding: CertificateEncoding,
    /// For X.509 and its URLs, [`KEY_HASH_LEN`] octets for each authority; may be empty.
    pub authorities: Vec<u8>,
}

impl Certificate {
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            encoding: r.u8("certificate encoding")?.into(),
            body: r.rest().to_vec(),
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.encoding.number());
        w.bytes(&self.body);
    }
}

impl CertificateRequest {
    /// A request for X.509 certificates of authorities with these hashes.
    pub fn x509(key_hashes: &[[u8; KEY_HASH_LEN]]) -> Self {
        Self {
            encoding: CertificateEncoding::X509Signature,
            authorities: key_hashes.concat(),
        }
    }

    /// The hash of each authority; nothing for an encoding that names them otherwise.
    pub fn key_hashes(&self) -> &[[u8; KEY_HASH_LEN]] {
        match self.encoding.names_authorities_by_hash() {
            true => self.authorities.as_chunks().0,
            false => &[],
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let encoding = CertificateEncoding::from(r.u8("certificate encoding")?);
        let is_whole = r.len().is_multiple_of(KEY_HASH_LEN);
        if encoding.names_authorities_by_hash() && !is_whole {
            return Err(Malformed::Length("certification authority"));
        }
        Ok(Self {
            encoding,
            authorities: r.rest().to_vec(),
        })
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u8(self.encoding.number());
        w.bytes(&self.authorities);
    }
}

impl CertificateEncoding {
    const fn names_authorities_by_hash(self) -> bool {
        matches!(
            self,
            Self::X509Signature | Self::HashAndUrl | Self::HashAndUrlOfBundle
        )
    }
}

numbered!(CertificateEncoding: u8 {
    Pkcs7 = 1,
    X509Signature = 4,
    RevocationList = 7,
    HashAndUrl = 12,
    HashAndUrlOfBundle = 13,
    Ocsp = 14,
    RawPublicKey = 15,
});
