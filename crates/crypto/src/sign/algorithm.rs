//! AlgorithmIdentifiers of method 14 (RFC 7427 appendix A, RFC 8420 appendix A, RFC 9881 §2). Only
//! the few encodings that a document allows are read, octet by octet.

use super::Scheme;
use crate::hash::Hash;
use crate::ml_dsa::MlDsa;

/// The schemes that have an identifier.
const SCHEMES: [Scheme; 13] = [
    Scheme::RsaPkcs1(Hash::Sha256),
    Scheme::RsaPkcs1(Hash::Sha384),
    Scheme::RsaPkcs1(Hash::Sha512),
    Scheme::RsaPss(Hash::Sha256),
    Scheme::RsaPss(Hash::Sha384),
    Scheme::RsaPss(Hash::Sha512),
    Scheme::Ecdsa(Hash::Sha256),
    Scheme::Ecdsa(Hash::Sha384),
    Scheme::Ecdsa(Hash::Sha512),
    Scheme::Ed25519,
    Scheme::MlDsa(MlDsa::Set44),
    Scheme::MlDsa(MlDsa::Set65),
    Scheme::MlDsa(MlDsa::Set87),
];

/// Whether a hash's parameters are NULL or absent: readers accept both (RFC 4055 §2.1).
#[derive(Clone, Copy)]
enum Parameters {
    Null,
    Absent,
}

impl Scheme {
    /// The AlgorithmIdentifier, DER. `None` for a scheme of another method, and for MD5 and SHA-1.
    pub fn to_algorithm_identifier(self) -> Option<Vec<u8>> {
        SCHEMES
            .contains(&self)
            .then(|| self.encoded(Parameters::Null, Parameters::Null))
    }

    /// The scheme of an AlgorithmIdentifier. `None` if it is unknown, or of a form that no document
    /// allows, or if PSS has two hashes or another length of salt than theirs.
    pub fn of_algorithm_identifier(der: &[u8]) -> Option<Self> {
        use Parameters::{Absent, Null};
        let forms = [
            (Null, Null),
            (Null, Absent),
            (Absent, Null),
            (Absent, Absent),
        ];
        SCHEMES.into_iter().find(|scheme| {
            let mut forms = forms.iter();
            forms.any(|(hash, mask)| scheme.encoded(*hash, *mask) == der)
        })
    }

    fn encoded(self, parameters: Parameters, mask: Parameters) -> Vec<u8> {
        match self {
            Self::RsaPkcs1(hash) => {
                let last = match hash {
                    Hash::Sha384 => 12,
                    Hash::Sha512 => 13,
                    _ => 11,
                };
                let oid = [&RSA_OID[..], &[last]].concat();
                sequence(&[&object(&oid), parameters.octets()])
            }
            Self::RsaPss(hash) => {
                let digest = digest_algorithm(hash, parameters);
                let function = sequence(&[
                    &object(&[&RSA_OID[..], &[8]].concat()),
                    &digest_algorithm(hash, mask),
                ]);
                let salt_len = tagged(0x02, &[&[hash.len() as u8]]);
                let all = sequence(&[
                    &tagged(0xa0, &[&digest]),
                    &tagged(0xa1, &[&function]),
                    &tagged(0xa2, &[&salt_len]),
                ]);
                sequence(&[&object(&[&RSA_OID[..], &[10]].concat()), &all])
            }
            Self::Ecdsa(hash) => {
                let last = match hash {
                    Hash::Sha384 => 3,
                    Hash::Sha512 => 4,
                    _ => 2,
                };
                sequence(&[&object(&[&ECDSA_OID[..], &[last]].concat())])
            }
            Self::Ed25519 => sequence(&[&object(&ED25519_OID)]),
            Self::MlDsa(set) => set.algorithm_identifier(),
            Self::EcdsaRaw(_) => Vec::new(),
        }
    }
}

impl Parameters {
    const fn octets(self) -> &'static [u8] {
        match self {
            Self::Null => &[0x05, 0],
            Self::Absent => &[],
        }
    }
}

fn digest_algorithm(hash: Hash, parameters: Parameters) -> Vec<u8> {
    let last = match hash {
        Hash::Sha384 => 2,
        Hash::Sha512 => 3,
        _ => 1,
    };
    let oid = [&SHA2_OID[..], &[last]].concat();
    sequence(&[&object(&oid), parameters.octets()])
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(0x30, parts)
}

fn object(oid: &[u8]) -> Vec<u8> {
    tagged(0x06, &[oid])
}

/// An object of less than 128 octets.
fn tagged(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    assert!(content.len() < 0x80, "a short form");
    [&[tag, content.len() as u8], &content[..]].concat()
}

/// 1.2.840.113549.1.1 (RFC 8017 appendix C).
const RSA_OID: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// 1.2.840.10045.4.3 (RFC 5758 §3.2).
const ECDSA_OID: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// 2.16.840.1.101.3.4.2 (RFC 5754 §2).
const SHA2_OID: [u8; 8] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02];
/// 1.3.101.112 (RFC 8410 §3).
const ED25519_OID: [u8; 3] = [0x2b, 0x65, 0x70];
