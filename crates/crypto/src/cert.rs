//! X.509 certificates for IKE (RFC 4945): reading, the path check, revocation, and making them.

mod describe;
mod make;

use crate::rsa::PublicKey;

pub use describe::describe;
pub use make::{Authority, KeyMaterial, MakeFault, Request, RevokedEntry, SigningKey, read_serial};

/// A certificate that was read.
#[derive(Clone)]
pub struct Certificate {
    der: Vec<u8>,
}

/// A revocation list that was read.
#[derive(Clone)]
pub struct RevocationList {
    der: Vec<u8>,
}

/// A name in a certificate that an identity may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// The subject, DER of its distinguished name.
    Subject(Vec<u8>),
    /// A DNS name.
    Dns(String),
    /// A mail address.
    Email(String),
    /// An IP address.
    Address(std::net::IpAddr),
}

/// Whom we believe, and what has been revoked.
#[derive(Clone, Default)]
pub struct TrustStore {
    /// Trust anchors.
    pub authorities: Vec<Certificate>,
    /// At most one in force per authority; the newest counts.
    pub revocations: Vec<RevocationList>,
    /// Whether a certificate whose issuer has no valid CRL is refused ("strict") or accepted.
    pub requires_revocation: bool,
}

/// A check that passed: the public key of the end entity and its names.
#[derive(Clone)]
pub struct CertificateVerified {
    /// Subject and SANs.
    pub names: Vec<Name>,
    /// DER SubjectPublicKeyInfo of the leaf.
    pub spki: Vec<u8>,
    /// Not after, seconds since 1970.
    pub not_after: i64,
}

/// Why a certificate is refused. The text says which certificate and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum CertFault {
    #[error("not an X.509 certificate: {0}")]
    Unreadable(String),
    #[error("certificate {subject} is not valid before {not_before}")]
    NotYetValid { subject: String, not_before: String },
    #[error("certificate {subject} expired at {not_after}")]
    Expired { subject: String, not_after: String },
    #[error("certificate {subject} was issued by {issuer}, which is not trusted")]
    UnknownAuthority { subject: String, issuer: String },
    #[error("certificate {subject} has a signature that its issuer {issuer} did not make")]
    BadSignature { subject: String, issuer: String },
    #[error("certificate {subject} may not be used for this: {why}")]
    WrongUsage { subject: String, why: String },
    #[error("certificate {subject} was revoked at {at}")]
    Revoked { subject: String, at: String },
    #[error("no current revocation list of {issuer}")]
    NoRevocationList { issuer: String },
    #[error("the chain is longer than 8 certificates")]
    TooLong,
    #[error("certificate {subject} has a key we do not use: {why}")]
    KeyUnsupported { subject: String, why: String },
}

impl Certificate {
    /// Reads DER.
    pub fn from_der(der: &[u8]) -> Result<Self, CertFault> {
        let _ = der;
        panic!("crypto")
    }

    /// Reads all certificates of a PEM text, in order.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, CertFault> {
        let _ = text;
        panic!("crypto")
    }

    /// DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// DER of the subject's name, as an ID payload carries it.
    pub fn subject_der(&self) -> Vec<u8> {
        panic!("crypto")
    }

    /// The subject as text (RFC 4514 order as strongSwan prints it: "C=CH, O=x, CN=y").
    pub fn subject(&self) -> String {
        panic!("crypto")
    }

    /// Subject and SANs.
    pub fn names(&self) -> Vec<Name> {
        panic!("crypto")
    }

    /// The RSA key.
    pub fn public_key(&self) -> Result<PublicKey, CertFault> {
        panic!("crypto")
    }
}

impl RevocationList {
    /// Reads DER or PEM.
    pub fn parse(bytes: &[u8]) -> Result<Self, CertFault> {
        let _ = bytes;
        panic!("crypto")
    }

    /// DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }
}

impl TrustStore {
    /// Checks the path from `leaf` over `intermediates` to an authority at calendar time `now`
    /// (seconds since 1970): signatures, validity, basic constraints, path length, key usage
    /// (RFC 4945 §5.1.3), extended key usage, revocation.
    pub fn verify(
        &self,
        leaf: &Certificate,
        intermediates: &[Certificate],
        now: i64,
    ) -> Result<CertificateVerified, CertFault> {
        let _ = (leaf, intermediates, now);
        panic!("crypto")
    }
}
