//! The hash functions.

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

impl Hash {
    /// Octets of output.
    #[expect(clippy::len_without_is_empty, reason = "no hash is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    /// Octets of a block of the compression function.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Md5 | Self::Sha1 | Self::Sha256 => 64,
            Self::Sha384 | Self::Sha512 => 128,
        }
    }
}
