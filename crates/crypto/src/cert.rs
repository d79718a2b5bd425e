//! X.509 certificates for IKE (RFC 4945): reading, the path check, revocation, and making them.
//!
//! It reads keys of RSA, ECDSA, Ed25519 and ML-DSA; an end entity has RSA unless the caller takes
//! others. It accepts signatures of PKCS #1 v1.5, PSS and ECDSA with SHA-2, of Ed25519 (RFC 8410),
//! of ML-DSA (RFC 9881), and with SHA-1 if legacy is accepted. Names are compared octet by octet
//! (RFC 5280 §7.1 allows more). Left out: MD5, name constraints (an authority that has them is
//! refused), policies (any is accepted), delta and indirect revocation lists, fetching, OCSP.

mod as_pem;
mod describe;
pub mod long_term;
mod make;
mod name;
mod passed;
mod purpose;
mod read;
mod signed;
mod verify;

pub use as_pem::{certificate_pem, private_key_der, private_key_pem};
pub use describe::{describe, no_rsa_key};
pub use make::{
    Authority, GuestRequest, KeyMaterial, MakeFault, Request, RevokedEntry, SigningKey, read_serial,
};
pub use name::{DistinguishedName, NameFault};
pub use passed::CertificatePath;
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

/// One line for people. Unprintable characters are escaped, because strangers choose names.
impl core::fmt::Display for Name {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Subject(der) => write!(f, "{}", name::text_of(der)),
            Self::Dns(text) | Self::Email(text) => write!(f, "{}", text.escape_debug()),
            Self::Address(address) => write!(f, "{address}"),
        }
    }
}

/// The authorities and certificates that we trust, and the revocation lists.
#[derive(Clone, Default)]
pub struct TrustStore {
    /// Trust anchors.
    pub authorities: Vec<Certificate>,
    /// Certificates of peers, compared octet by octet. If there is one, no other certificate is
    /// trusted, whoever issued it.
    pub pinned: Vec<Certificate>,
    /// At most one in force per authority; the newest counts.
    pub revocations: Vec<RevocationList>,
    /// What happens to a certificate if no list of its issuer is in force.
    pub revocation: RevocationRule,
    /// Whether SHA-1 signatures and RSA keys from 1024 to 2047 bits are accepted.
    pub accepts_legacy: bool,
}

/// What happens to a certificate if no current revocation list covers it. A certificate on a list
/// is refused under every rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RevocationRule {
    /// It is refused.
    Strict,
    /// It is refused if the configuration has a list of its issuer's name.
    #[default]
    IfListed,
    /// It is accepted.
    Relaxed,
}

/// The kinds of keys that an end entity may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafKeys {
    /// RSA: all that IKEv1 signs with here.
    RsaOnly,
    /// Also ECDSA on P-256, P-384 and P-521, Ed25519, and ML-DSA.
    Any,
}

/// Proof of a passed check: the public key of the end entity and its names.
#[derive(Clone)]
pub struct CertificateVerified {
    /// Subject and SANs.
    pub names: Vec<Name>,
    /// DER SubjectPublicKeyInfo of the leaf.
    pub spki: Vec<u8>,
    /// Not after, seconds since 1970.
    pub not_after: i64,
    /// The path, for checks against later revocation lists.
    pub path: CertificatePath,
}

/// Tells apart two cases: the authority's own certificate was sent but is not trusted, or its
/// certificate is missing.
fn not_trusted(subject: &str, issuer: &str) -> &'static str {
    match subject == issuer {
        true => "which is not trusted",
        false => "which is not trusted: its certificate is not configured, and the peer sent none",
    }
}

/// Why a certificate is refused. The text says which certificate and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum CertFault {
    #[error("not an X.509 certificate: {0}")]
    Unreadable(String),
    #[error(
        "certificate {subject} is not valid before {not_before}, and the clock here says {now}"
    )]
    NotYetValid {
        subject: String,
        not_before: String,
        now: String,
    },
    #[error("certificate {subject} expired at {not_after}")]
    Expired { subject: String, not_after: String },
    #[error(
        "certificate {subject} was issued by {issuer}, {}",
        not_trusted(subject, issuer)
    )]
    UnknownAuthority { subject: String, issuer: String },
    #[error("certificate {subject} has a signature that its issuer {issuer} did not make")]
    BadSignature { subject: String, issuer: String },
    #[error(
        "certificate {subject} was issued by another authority that is also called {issuer}: \
         compare ca.pem at both ends"
    )]
    Namesake { subject: String, issuer: String },
    #[error("certificate {subject} may not be used for this: {why}")]
    WrongUsage { subject: String, why: String },
    #[error("certificate {subject} was revoked at {at}")]
    Revoked { subject: String, at: String },
    #[error("certificate {subject} may have been revoked: {why}")]
    NotChecked { subject: String, why: ListFault },
    #[error("certificate {subject} is not one of the pinned certificates (remote.certs)")]
    NotPinned { subject: String },
    #[error("the chain is longer than 8 certificates")]
    TooLong,
    #[error("too many certificates have the same name: more than 32 signatures to check")]
    TooMany,
    #[error("certificate {subject} has a key we do not use: {why}")]
    KeyUnsupported { subject: String, why: String },
}

/// Why a revocation list does not count, or that none exists. The text names its issuer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum ListFault {
    #[error("there is no revocation list of {issuer}")]
    Missing { issuer: String },
    #[error("the revocation list of {issuer} was in force until {at}")]
    Over { issuer: String, at: String },
    #[error("the revocation list of {issuer} is not in force before {at}")]
    NotYet { issuer: String, at: String },
    #[error("the revocation list of {issuer} has a signature that this authority did not make")]
    BadSignature { issuer: String },
    #[error("the key usage of {issuer} lacks cRLSign: it may not sign its revocation list")]
    NoSigner { issuer: String },
    #[error("the revocation list of {issuer} matches no configured authority")]
    Unmatched { issuer: String },
}
