//! X.509 certificates for IKE (RFC 4945): reading, the path check, revocation, and making them.
//!
//! Read are RSA and, for authorities, ECDSA keys; signatures PKCS #1 v1.5 and ECDSA with SHA-2,
//! with SHA-1 where legacy is accepted. Names are compared octet by octet (RFC 5280 §7.1 allows
//! more). Left out: RSA-PSS and EdDSA, MD5, name constraints (an authority that has them is
//! refused), policies (any is accepted), delta and indirect revocation lists, fetching, OCSP.

mod describe;
mod make;
mod name;
mod read;
mod signed;
mod verify;

pub use describe::{describe, no_rsa_key};
pub use make::{Authority, KeyMaterial, MakeFault, Request, RevokedEntry, SigningKey, read_serial};
pub use name::{DistinguishedName, NameFault};
pub use read::{Certificate, RevocationList};

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
    /// Trust anchors. An end entity's certificate among them is trusted as it is.
    pub authorities: Vec<Certificate>,
    /// At most one in force per authority; the newest counts.
    pub revocations: Vec<RevocationList>,
    /// Whether a certificate whose issuer has no valid CRL is refused ("strict") or accepted.
    pub requires_revocation: bool,
    /// Whether SHA-1 signatures and RSA keys from 1024 to 2047 bits are accepted.
    pub accepts_legacy: bool,
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

/// An authority's own certificate was there, and nobody told us to trust it; that of another one
/// was not there at all.
fn not_trusted(subject: &str, issuer: &str) -> &'static str {
    match subject == issuer {
        true => "which is not trusted",
        false => "which is not trusted: no certificate of it is configured, and none came along",
    }
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
    #[error(
        "certificate {subject} was issued by {issuer}, {}",
        not_trusted(subject, issuer)
    )]
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
    #[error("too many certificates have the same name: more than 32 signatures to check")]
    TooMany,
    #[error("certificate {subject} has a key we do not use: {why}")]
    KeyUnsupported { subject: String, why: String },
}
