//! What an authority signs, certificates and revocation lists alike: the digest is taken once,
//! when the bytes are read; each check costs one public operation.

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature::{self as lc, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

/// A digest of the signed part and the signature over it.
#[derive(Clone)]
pub(super) struct Signed {
    /// `None` for a scheme that we do not check.
    scheme: Option<(Family, Digest)>,
    signature: Vec<u8>,
}

/// A public key that may have signed something.
#[derive(Clone)]
pub(super) struct VerifyKey {
    kind: KeyKind,
    /// RSAPublicKey, or a point.
    octets: Vec<u8>,
}

/// The kinds of keys that an authority may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// RSA of any length.
    Rsa,
    /// NIST's curves.
    P256,
    /// NIST's curves.
    P384,
    /// NIST's curves.
    P521,
    /// Something that we do not use.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Rsa,
    Ecdsa,
}

impl Signed {
    /// Takes the digest of `tbs` as the algorithm says.
    pub(super) fn new(tbs: &[u8], algorithm: &AlgorithmIdentifier<'_>, signature: &[u8]) -> Self {
        let known = SCHEMES
            .iter()
            .find(|(oid, ..)| *oid == algorithm.algorithm.to_id_string());
        Self {
            scheme: known.map(|(_, family, hash)| (*family, digest::digest(hash, tbs))),
            signature: signature.to_vec(),
        }
    }

    /// Whether `key` made the signature, by an algorithm that is accepted.
    pub(super) fn is_by(&self, key: &VerifyKey, accepts_legacy: bool) -> bool {
        let Some((family, digest)) = &self.scheme else {
            return false;
        };
        let Some(algorithm) = algorithm(*family, key.kind, digest, accepts_legacy) else {
            return false;
        };
        UnparsedPublicKey::new(algorithm, &key.octets)
            .verify_digest(digest, &self.signature)
            .is_ok()
    }
}

impl VerifyKey {
    /// Keeps what a check of a signature needs.
    pub(super) fn new(spki: &SubjectPublicKeyInfo<'_>) -> Self {
        let curve = || {
            let parameters = spki.algorithm.parameters.as_ref()?;
            parameters.as_oid().ok().map(|oid| oid.to_id_string())
        };
        let kind = match spki.algorithm.algorithm.to_id_string().as_str() {
            "1.2.840.113549.1.1.1" => KeyKind::Rsa,
            "1.2.840.10045.2.1" => match curve().as_deref() {
                Some("1.2.840.10045.3.1.7") => KeyKind::P256,
                Some("1.3.132.0.34") => KeyKind::P384,
                Some("1.3.132.0.35") => KeyKind::P521,
                _ => KeyKind::Other,
            },
            _ => KeyKind::Other,
        };
        Self {
            kind,
            octets: spki.subject_public_key.data.to_vec(),
        }
    }
}

fn algorithm(
    family: Family,
    key: KeyKind,
    digest: &Digest,
    accepts_legacy: bool,
) -> Option<&'static dyn VerificationAlgorithm> {
    let hash = digest.algorithm();
    let legacy_rsa: [(_, &'static dyn VerificationAlgorithm); 3] = [
        (
            &digest::SHA1_FOR_LEGACY_USE_ONLY,
            &lc::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY,
        ),
        (
            &digest::SHA256,
            &lc::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
        ),
        (
            &digest::SHA512,
            &lc::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
        ),
    ];
    let strong: [(Family, KeyKind, _, &'static dyn VerificationAlgorithm); 9] = [
        (
            Family::Rsa,
            KeyKind::Rsa,
            &digest::SHA256,
            &lc::RSA_PKCS1_2048_8192_SHA256,
        ),
        (
            Family::Rsa,
            KeyKind::Rsa,
            &digest::SHA384,
            &lc::RSA_PKCS1_2048_8192_SHA384,
        ),
        (
            Family::Rsa,
            KeyKind::Rsa,
            &digest::SHA512,
            &lc::RSA_PKCS1_2048_8192_SHA512,
        ),
        (
            Family::Ecdsa,
            KeyKind::P256,
            &digest::SHA256,
            &lc::ECDSA_P256_SHA256_ASN1,
        ),
        (
            Family::Ecdsa,
            KeyKind::P256,
            &digest::SHA384,
            &lc::ECDSA_P256_SHA384_ASN1,
        ),
        (
            Family::Ecdsa,
            KeyKind::P384,
            &digest::SHA256,
            &lc::ECDSA_P384_SHA256_ASN1,
        ),
        (
            Family::Ecdsa,
            KeyKind::P384,
            &digest::SHA384,
            &lc::ECDSA_P384_SHA384_ASN1,
        ),
        (
            Family::Ecdsa,
            KeyKind::P521,
            &digest::SHA256,
            &lc::ECDSA_P521_SHA256_ASN1,
        ),
        (
            Family::Ecdsa,
            KeyKind::P521,
            &digest::SHA512,
            &lc::ECDSA_P521_SHA512_ASN1,
        ),
    ];
    let legacy = legacy_rsa
        .into_iter()
        .filter(|_| accepts_legacy)
        .map(|(by, algorithm)| (Family::Rsa, KeyKind::Rsa, by, algorithm));
    legacy
        .chain(strong)
        .find(|(of, kind, by, _)| *of == family && *kind == key && *by == hash)
        .map(|(.., algorithm)| algorithm)
}

/// RFC 8017 appendix A.2.4, RFC 5758 §3.2. SHA-1 is known here and refused at the check.
static SCHEMES: [(&str, Family, &digest::Algorithm); 7] = [
    (
        "1.2.840.113549.1.1.5",
        Family::Rsa,
        &digest::SHA1_FOR_LEGACY_USE_ONLY,
    ),
    ("1.2.840.113549.1.1.11", Family::Rsa, &digest::SHA256),
    ("1.2.840.113549.1.1.12", Family::Rsa, &digest::SHA384),
    ("1.2.840.113549.1.1.13", Family::Rsa, &digest::SHA512),
    ("1.2.840.10045.4.3.2", Family::Ecdsa, &digest::SHA256),
    ("1.2.840.10045.4.3.3", Family::Ecdsa, &digest::SHA384),
    ("1.2.840.10045.4.3.4", Family::Ecdsa, &digest::SHA512),
];
