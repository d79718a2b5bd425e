//! Attributes of a phase 1 transform and their values (RFC 2409 appendix A, and what IANA added).
//!
//! Left out: values that Caravan neither offers, accepts nor names; they are plain numbers.

/// Encryption algorithm: [`encryption`].
pub const ENCRYPTION: u16 = 1;
/// Hash algorithm: [`hash`].
pub const HASH: u16 = 2;
/// Authentication method: [`authentication`].
pub const AUTHENTICATION: u16 = 3;
/// Diffie-Hellman group number.
pub const GROUP: u16 = 4;
/// Type of a group that the sender describes in full.
pub const GROUP_TYPE: u16 = 5;
/// The unit of the next life duration: [`super::phase2::life`].
pub const LIFE_TYPE: u16 = 11;
/// A life duration.
pub const LIFE_DURATION: u16 = 12;
/// Pseudo-random function; none is assigned.
pub const PRF: u16 = 13;
/// Key length of a variable-length cipher, in bits.
pub const KEY_LENGTH: u16 = 14;

/// Values of [`ENCRYPTION`].
pub mod encryption {
    /// DES-CBC.
    pub const DES_CBC: u16 = 1;
    /// 3DES-CBC.
    pub const TRIPLE_DES_CBC: u16 = 5;
    /// AES-CBC (RFC 3602 §5.1); needs [`super::KEY_LENGTH`].
    pub const AES_CBC: u16 = 7;
}

/// Values of [`HASH`].
pub mod hash {
    /// MD5.
    pub const MD5: u16 = 1;
    /// SHA-1.
    pub const SHA1: u16 = 2;
    /// SHA-256.
    pub const SHA2_256: u16 = 4;
    /// SHA-384.
    pub const SHA2_384: u16 = 5;
    /// SHA-512.
    pub const SHA2_512: u16 = 6;
}

/// Values of [`AUTHENTICATION`].
pub mod authentication {
    /// Pre-shared key.
    pub const PRE_SHARED_KEY: u16 = 1;
    /// RSA signatures.
    pub const RSA_SIGNATURES: u16 = 3;
    /// XAUTH after any of the methods above, for either end (draft-beaulieu-ike-xauth-02 §6.1).
    pub const XAUTH: core::ops::RangeInclusive<u16> = 65_001..=65_010;
    /// Hybrid: XAUTH for the initiator alone (draft-zegman-ike-hybrid-auth-01 §3.2.1).
    pub const HYBRID: core::ops::RangeInclusive<u16> = 64_221..=64_224;
}

/// Transform identifiers of protocol ISAKMP.
pub mod transform {
    /// The only one (RFC 2407 §4.4.2).
    pub const KEY_IKE: u8 = 1;
}
