//! Hashes, and HMAC as IKE's prf and as ESP's and AH's integrity (RFC 2104).

/// Hash functions of IKEv1 (RFC 2409 appendix A; SHA-2 as in IANA's ipsec-registry).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hash {
    /// Legacy.
    Md5,
    /// SHA-1.
    Sha1,
    /// SHA2-256.
    Sha256,
    /// SHA2-384.
    Sha384,
    /// SHA2-512.
    Sha512,
}

/// A hash or prf output: up to 64 octets, wiped on drop, compared in constant time.
#[derive(Clone, zeroize::ZeroizeOnDrop)]
pub struct Digest {
    octets: [u8; 64],
    len: u8,
}

impl Hash {
    /// Octets of output.
    pub const fn len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Hash of the parts, one after the other.
    pub fn digest(self, parts: &[&[u8]]) -> Digest {
        let mut out = Digest {
            octets: [0; 64],
            len: 0,
        };
        out.len = crate::sys::digest(self, parts, &mut out.octets) as u8;
        out
    }

    /// HMAC over the parts, one after the other: IKE's prf (RFC 2409 §4).
    pub fn hmac(self, key: &[u8], parts: &[&[u8]]) -> Digest {
        let mut state = crate::sys::Hmac::new(self, key);
        parts.iter().for_each(|part| state.update(part));
        let mut out = Digest {
            octets: [0; 64],
            len: 0,
        };
        out.len = state.finish(&mut out.octets) as u8;
        out
    }
}

impl AsRef<[u8]> for Digest {
    fn as_ref(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }
}

/// Compares in constant time for equal lengths.
pub fn is_equal(a: &[u8], b: &[u8]) -> bool {
    subtle::ConstantTimeEq::ct_eq(a, b).into()
}
