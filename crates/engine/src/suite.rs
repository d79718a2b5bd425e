//! Suites in strongSwan's proposal words, and their standing (RFC 8221, RFC 8247, RFC 9395).

use crypto::cipher::Cipher;
use crypto::dh::Group;
use crypto::hash::Hash;
use crypto::packet::Protection;

/// What phase 1 agrees on, such as `aes128-sha256-modp2048`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IkeSuite {
    /// Body encryption.
    pub cipher: Cipher,
    /// Hash and prf.
    pub hash: Hash,
    /// Diffie-Hellman group.
    pub group: Group,
}

/// What phase 2 agrees on, such as `aes128gcm16-modp2048` or `3des-md5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EspSuite {
    /// ESP or AH algorithms.
    pub protection: Protection,
    /// ESP or AH.
    pub protocol: crate::sa::Protocol,
    /// With a group, quick mode makes new keys by Diffie-Hellman: PFS.
    pub pfs: Option<Group>,
    /// 64-bit sequence numbers (word `esn`).
    pub has_esn: bool,
}

/// How today's standards see a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Fit for use.
    Current,
    /// Works only where a configuration says `legacy = true`.
    Legacy,
}
