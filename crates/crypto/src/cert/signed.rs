//! Signed objects: certificates and revocation lists. A digest is computed once, when the bytes are
//! read; each check costs one public operation.

use aws_lc_rs::digest::{self, Digest};
use aws_lc_rs::signature::{self as lc, UnparsedPublicKey, VerificationAlgorithm};
use x509_parser::x509::{AlgorithmIdentifier, SubjectPublicKeyInfo};

use super::long_term::{SEQUENCE, der};
use crate::ed25519;
use crate::hash::Hash;
use crate::ml_dsa::{self, MlDsa};
use crate::sign::Scheme;

/// What is signed, and the signature over it.
#[derive(Clone)]
pub(super) struct Signed {
    /// `None` for a scheme that we do not check.
    covered: Option<Covered>,
    signature: Vec<u8>,
}

/// What a signature covers.
#[derive(Clone)]
enum Covered {
    /// A digest.
    Digest(Family, Hash, Digest),
    /// The octets themselves, by a kind of keys that hashes by itself.
    Octets(KeyKind, Vec<u8>),
}

/// A public key that may have signed something.
#[derive(Clone)]
pub(super) struct VerifyKey {
    kind: KeyKind,
    /// RSAPublicKey, a point, or the octets of Ed25519 or ML-DSA.
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
    /// Ed25519.
    Ed25519,
    /// ML-DSA.
    MlDsa(MlDsa),
    /// A kind that we do not use.
    Other,
}

/// Kinds by their numbers, which are kept in tickets: a new one comes last.
const KINDS: [KeyKind; 9] = [
    KeyKind::Rsa,
    KeyKind::P256,
    KeyKind::P384,
    KeyKind::P521,
    KeyKind::Ed25519,
    KeyKind::Other,
    KeyKind::MlDsa(MlDsa::Set44),
    KeyKind::MlDsa(MlDsa::Set65),
    KeyKind::MlDsa(MlDsa::Set87),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    Rsa,
    RsaPss,
    Ecdsa,
}

impl Signed {
    /// Computes the digest of `tbs`, if the algorithm has one.
    pub(super) fn new(tbs: &[u8], algorithm: &AlgorithmIdentifier<'_>, signature: &[u8]) -> Self {
        let oid = algorithm.algorithm.to_id_string();
        let covered = match SCHEMES.iter().find(|(known, ..)| *known == oid) {
            Some((_, family, hash)) => {
                digest_of(*hash, tbs).map(|digest| Covered::Digest(*family, *hash, digest))
            }
            None if algorithm.parameters.is_none() => {
                whole_kind(&oid).map(|kind| Covered::Octets(kind, tbs.to_vec()))
            }
            None if oid == RSA_PSS => pss_hash(algorithm).and_then(|hash| {
                let digest = digest_of(hash, tbs)?;
                Some(Covered::Digest(Family::RsaPss, hash, digest))
            }),
            None => None,
        };
        Self {
            covered,
            signature: signature.to_vec(),
        }
    }

    /// Whether `key` made the signature, with an accepted algorithm.
    pub(super) fn is_by(&self, key: &VerifyKey, accepts_legacy: bool) -> bool {
        match &self.covered {
            None => false,
            Some(Covered::Octets(kind, octets)) => {
                key.kind == *kind && key.has_signed_whole(octets, &self.signature)
            }
            Some(Covered::Digest(family, hash, digest)) => {
                algorithm(*family, key.kind, *hash, accepts_legacy).is_some_and(|algorithm| {
                    UnparsedPublicKey::new(algorithm, &key.octets)
                        .verify_digest(digest, &self.signature)
                        .is_ok()
                })
            }
        }
    }
}

impl VerifyKey {
    /// Its kind as a number, and its octets.
    pub(super) fn parts(&self) -> (u8, &[u8]) {
        let kind = KINDS.iter().position(|it| *it == self.kind);
        (kind.unwrap_or(KINDS.len()) as u8, &self.octets)
    }

    /// The key of these parts.
    pub(super) fn of_parts(kind: u8, octets: &[u8]) -> Option<Self> {
        Some(Self {
            kind: *KINDS.get(usize::from(kind))?,
            octets: octets.to_vec(),
        })
    }

    /// Keeps what a signature check needs.
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
            oid if spki.algorithm.parameters.is_none() => whole_kind(oid).unwrap_or(KeyKind::Other),
            _ => KeyKind::Other,
        };
        Self {
            kind,
            octets: spki.subject_public_key.data.to_vec(),
        }
    }

    /// Whether it has signed these octets, if it is of a kind that hashes by itself.
    fn has_signed_whole(&self, octets: &[u8], signature: &[u8]) -> bool {
        match self.kind {
            KeyKind::Ed25519 => is_by_ed25519(octets, &self.octets, signature),
            KeyKind::MlDsa(set) => ml_dsa::VerifyKey::new(set, &self.octets)
                .is_some_and(|key| key.is_signed(&[octets], signature)),
            _ => false,
        }
    }
}

fn is_by_ed25519(octets: &[u8], key: &[u8], signature: &[u8]) -> bool {
    match (key.try_into(), signature.try_into()) {
        (Ok(key), Ok(signature)) => ed25519::VerifyKey(key)
            .verify(&[octets], &ed25519::Signature(signature))
            .is_ok(),
        _ => false,
    }
}

/// The kind of keys that hash by themselves, by its object identifier.
fn whole_kind(oid: &str) -> Option<KeyKind> {
    if oid == ED25519 {
        return Some(KeyKind::Ed25519);
    }
    let set = MlDsa::ALL.into_iter().find(|set| {
        let numbers = set.oid().map(|number| number.to_string());
        numbers.join(".") == oid
    });
    set.map(KeyKind::MlDsa)
}

/// How a signature is checked, if it is accepted at all.
fn algorithm(
    family: Family,
    key: KeyKind,
    hash: Hash,
    accepts_legacy: bool,
) -> Option<&'static dyn VerificationAlgorithm> {
    use Hash::{Sha1, Sha256, Sha384, Sha512};
    let legacy: Option<&'static dyn VerificationAlgorithm> = match (family, key, hash) {
        _ if !accepts_legacy => None,
        (Family::Rsa, KeyKind::Rsa, Sha1) => {
            Some(&lc::RSA_PKCS1_1024_8192_SHA1_FOR_LEGACY_USE_ONLY)
        }
        (Family::Rsa, KeyKind::Rsa, Sha256) => {
            Some(&lc::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY)
        }
        (Family::Rsa, KeyKind::Rsa, Sha512) => {
            Some(&lc::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY)
        }
        _ => None,
    };
    legacy.or(match (family, key, hash) {
        (Family::Rsa, KeyKind::Rsa, Sha256) => Some(&lc::RSA_PKCS1_2048_8192_SHA256),
        (Family::Rsa, KeyKind::Rsa, Sha384) => Some(&lc::RSA_PKCS1_2048_8192_SHA384),
        (Family::Rsa, KeyKind::Rsa, Sha512) => Some(&lc::RSA_PKCS1_2048_8192_SHA512),
        (Family::RsaPss, KeyKind::Rsa, Sha256) => Some(&lc::RSA_PSS_2048_8192_SHA256),
        (Family::RsaPss, KeyKind::Rsa, Sha384) => Some(&lc::RSA_PSS_2048_8192_SHA384),
        (Family::RsaPss, KeyKind::Rsa, Sha512) => Some(&lc::RSA_PSS_2048_8192_SHA512),
        (Family::Ecdsa, KeyKind::P256, Sha256) => Some(&lc::ECDSA_P256_SHA256_ASN1),
        (Family::Ecdsa, KeyKind::P256, Sha384) => Some(&lc::ECDSA_P256_SHA384_ASN1),
        (Family::Ecdsa, KeyKind::P384, Sha256) => Some(&lc::ECDSA_P384_SHA256_ASN1),
        (Family::Ecdsa, KeyKind::P384, Sha384) => Some(&lc::ECDSA_P384_SHA384_ASN1),
        (Family::Ecdsa, KeyKind::P521, Sha256) => Some(&lc::ECDSA_P521_SHA256_ASN1),
        (Family::Ecdsa, KeyKind::P521, Sha512) => Some(&lc::ECDSA_P521_SHA512_ASN1),
        _ => None,
    })
}

/// The hash of PSS, if its parameters are those of RFC 4055 §3.1 with one hash and a salt as long
/// as it.
fn pss_hash(algorithm: &AlgorithmIdentifier<'_>) -> Option<Hash> {
    let parameters = algorithm.parameters.as_ref()?;
    let is_sequence = parameters.tag() == x509_parser::der_parser::asn1_rs::Tag::Sequence;
    let oid = der(OBJECT, &[algorithm.algorithm.as_bytes()]);
    let parameters = der(SEQUENCE, &[parameters.data]);
    let whole = der(SEQUENCE, &[&oid, &parameters]);
    match Scheme::of_algorithm_identifier(&whole)? {
        Scheme::RsaPss(hash) if is_sequence => Some(hash),
        _ => None,
    }
}

/// `None` for MD5, which signs nothing.
fn digest_of(hash: Hash, octets: &[u8]) -> Option<Digest> {
    let algorithm = match hash {
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha384 => &digest::SHA384,
        Hash::Sha512 => &digest::SHA512,
        Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Md5 => return None,
    };
    Some(digest::digest(algorithm, octets))
}

/// RFC 8410 §3.
const ED25519: &str = "1.3.101.112";
/// RFC 4055 §3.
const RSA_PSS: &str = "1.2.840.113549.1.1.10";
/// The tag of an object identifier.
const OBJECT: u8 = 0x06;

/// RFC 8017 appendix A.2.4, RFC 5758 §3.2. SHA-1 is read here and may be refused at the check; MD5
/// is unknown.
const SCHEMES: [(&str, Family, Hash); 7] = [
    ("1.2.840.113549.1.1.5", Family::Rsa, Hash::Sha1),
    ("1.2.840.113549.1.1.11", Family::Rsa, Hash::Sha256),
    ("1.2.840.113549.1.1.12", Family::Rsa, Hash::Sha384),
    ("1.2.840.113549.1.1.13", Family::Rsa, Hash::Sha512),
    ("1.2.840.10045.4.3.2", Family::Ecdsa, Hash::Sha256),
    ("1.2.840.10045.4.3.3", Family::Ecdsa, Hash::Sha384),
    ("1.2.840.10045.4.3.4", Family::Ecdsa, Hash::Sha512),
];
