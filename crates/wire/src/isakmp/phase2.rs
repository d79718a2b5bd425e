//! Attributes and transform identifiers of phase 2 (RFC 2407 §4.4 and §4.5, RFC 3947 §5.1,
//! RFC 4304, and what IANA added).
//!
//! Left out: values that Caravan neither offers nor accepts; they are plain numbers.

/// The unit of the next life duration: [`life`].
pub const LIFE_TYPE: u16 = 1;
/// A life duration.
pub const LIFE_DURATION: u16 = 2;
/// Diffie-Hellman group number, for PFS.
pub const GROUP: u16 = 3;
/// Encapsulation mode: [`encapsulation`].
pub const ENCAPSULATION: u16 = 4;
/// Authentication algorithm: [`authentication`].
pub const AUTHENTICATION: u16 = 5;
/// Key length of a variable-length cipher, in bits.
pub const KEY_LENGTH: u16 = 6;
/// Rounds, for a cipher with a choice of them.
pub const KEY_ROUNDS: u16 = 7;
/// ECN in a tunnel (RFC 3168 §9.2.1).
pub const ECN_TUNNEL: u16 = 10;
/// 64-bit sequence numbers (RFC 4304): [`sequence_number`].
pub const EXTENDED_SEQUENCE_NUMBER: u16 = 11;

/// Values of a life type, in either phase.
pub mod life {
    /// Seconds.
    pub const SECONDS: u16 = 1;
    /// Kilobytes.
    pub const KILOBYTES: u16 = 2;
}

/// Values of [`ENCAPSULATION`].
pub mod encapsulation {
    /// Tunnel.
    pub const TUNNEL: u16 = 1;
    /// Transport.
    pub const TRANSPORT: u16 = 2;
    /// Tunnel in UDP (RFC 3947 §5.1).
    pub const UDP_TUNNEL: u16 = 3;
    /// Transport in UDP (RFC 3947 §5.1).
    pub const UDP_TRANSPORT: u16 = 4;
}

/// Values of [`AUTHENTICATION`].
pub mod authentication {
    /// HMAC-MD5-96.
    pub const HMAC_MD5: u16 = 1;
    /// HMAC-SHA1-96.
    pub const HMAC_SHA1: u16 = 2;
    /// HMAC-SHA2-256-128.
    pub const HMAC_SHA2_256: u16 = 5;
    /// HMAC-SHA2-384-192.
    pub const HMAC_SHA2_384: u16 = 6;
    /// HMAC-SHA2-512-256.
    pub const HMAC_SHA2_512: u16 = 7;
}

/// Values of [`EXTENDED_SEQUENCE_NUMBER`].
pub mod sequence_number {
    /// 64-bit sequence numbers.
    pub const BITS_64: u16 = 1;
}

/// Transform identifiers of protocol ESP.
pub mod esp {
    /// DES-CBC with an explicit IV.
    pub const DES: u8 = 2;
    /// 3DES-CBC.
    pub const TRIPLE_DES: u8 = 3;
    /// No encryption (RFC 2410).
    pub const NULL: u8 = 11;
    /// AES-CBC (RFC 3602).
    pub const AES_CBC: u8 = 12;
    /// AES-CTR (RFC 3686).
    pub const AES_CTR: u8 = 13;
    /// AES-GCM with an 8-octet ICV (RFC 4106).
    pub const AES_GCM_8: u8 = 18;
    /// AES-GCM with a 12-octet ICV (RFC 4106).
    pub const AES_GCM_12: u8 = 19;
    /// AES-GCM with a 16-octet ICV (RFC 4106).
    pub const AES_GCM_16: u8 = 20;
    /// ChaCha20-Poly1305 as in RFC 7634, in IKEv1's private range (249 to 255). Used only after the
    /// peer sent [`super::super::vendor::CARAVAN`].
    pub const CARAVAN_CHACHA20_POLY1305: u8 = 253;
}

/// Transform identifiers of protocol AH.
pub mod ah {
    /// HMAC-MD5-96.
    pub const MD5: u8 = 2;
    /// HMAC-SHA1-96.
    pub const SHA1: u8 = 3;
    /// HMAC-SHA2-256-128.
    pub const SHA2_256: u8 = 5;
    /// HMAC-SHA2-384-192.
    pub const SHA2_384: u8 = 6;
    /// HMAC-SHA2-512-256.
    pub const SHA2_512: u8 = 7;
}
