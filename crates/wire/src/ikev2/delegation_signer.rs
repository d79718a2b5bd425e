//! What a DS record says of a key of DNSSEC, without the domain that it is about (RFC 4034 §5.1):
//! the value of INTERNAL_DNSSEC_TA (RFC 8598 §4.2).
//!
//! Left out: digests other than SHA-1, SHA-256 and SHA-384.

use core::fmt;

use crate::codec::{Malformed, Reader, Writer};

/// A key of DNSSEC by its digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DelegationSigner {
    key_tag: u16,
    algorithm: u8,
    digest_type: u8,
    digest: Vec<u8>,
}

impl DelegationSigner {
    /// Tag and algorithm of the key, type of the digest, and the digest. It must be as long as its
    /// type says.
    pub fn new(
        key_tag: u16,
        algorithm: u8,
        digest_type: u8,
        digest: Vec<u8>,
    ) -> Result<Self, Malformed> {
        match Self::digest_len(digest_type) {
            None => Err(Malformed::Value("digest type")),
            Some(len) if digest.len() != len => Err(Malformed::Length("digest")),
            Some(_) => Ok(Self {
                key_tag,
                algorithm,
                digest_type,
                digest,
            }),
        }
    }

    /// Octets of a digest of this type: SHA-1 (RFC 4034 §5.1.3), SHA-256 (RFC 4509 §2.1) and
    /// SHA-384 (RFC 6605 §2). `None`: another one.
    pub const fn digest_len(digest_type: u8) -> Option<usize> {
        match digest_type {
            1 => Some(20),
            2 => Some(32),
            4 => Some(48),
            _ => None,
        }
    }

    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let key_tag = r.u16("key tag")?;
        let algorithm = r.u8("algorithm of a key")?;
        let digest_type = r.u8("digest type")?;
        Self::new(key_tag, algorithm, digest_type, r.rest().to_vec())
    }

    pub(super) fn write(&self, w: &mut Writer) {
        w.u16(self.key_tag);
        w.u8(self.algorithm);
        w.u8(self.digest_type);
        w.bytes(&self.digest);
    }
}

/// The presentation form (RFC 4034 §5.3).
impl fmt::Display for DelegationSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tag, algorithm, digest_type) = (self.key_tag, self.algorithm, self.digest_type);
        write!(f, "{tag} {algorithm} {digest_type} ")?;
        let mut digest = self.digest.iter();
        digest.try_for_each(|octet| write!(f, "{octet:02X}"))
    }
}
