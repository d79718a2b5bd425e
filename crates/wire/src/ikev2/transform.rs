//! Transform IDs and the attribute of transforms (RFC 7296 §3.3.2 and §3.3.5, and what IANA added).
//!
//! Left out: values that Caravan neither offers nor accepts; they are plain numbers.

/// The attribute with the key length of a cipher, in bits.
pub const KEY_LENGTH: u16 = 14;

/// IDs of [`super::TransformType::Encryption`].
pub mod encryption {
    /// DES in CBC mode (RFC 2405), legacy.
    pub const DES: u16 = 2;
    /// Triple DES in CBC mode (RFC 2451), legacy.
    pub const TRIPLE_DES: u16 = 3;
    /// No encryption (RFC 2410), for ESP only.
    pub const NULL: u16 = 11;
    /// AES in CBC mode (RFC 3602).
    pub const AES_CBC: u16 = 12;
    /// AES in counter mode (RFC 5930).
    pub const AES_CTR: u16 = 13;
    /// AES-GCM with an 8-octet ICV (RFC 4106, RFC 5282).
    pub const AES_GCM_8: u16 = 18;
    /// AES-GCM with a 12-octet ICV (RFC 4106, RFC 5282).
    pub const AES_GCM_12: u16 = 19;
    /// AES-GCM with a 16-octet ICV (RFC 4106, RFC 5282).
    pub const AES_GCM_16: u16 = 20;
    /// ChaCha20-Poly1305 (RFC 7634). It has no key length attribute.
    pub const CHACHA20_POLY1305: u16 = 28;
}

/// IDs of [`super::TransformType::Prf`].
pub mod prf {
    /// HMAC-MD5 (RFC 2104), legacy.
    pub const HMAC_MD5: u16 = 1;
    /// HMAC-SHA-1 (RFC 2104).
    pub const HMAC_SHA1: u16 = 2;
    /// AES-XCBC (RFC 4434).
    pub const AES128_XCBC: u16 = 4;
    /// HMAC-SHA2-256 (RFC 4868).
    pub const HMAC_SHA2_256: u16 = 5;
    /// HMAC-SHA2-384 (RFC 4868).
    pub const HMAC_SHA2_384: u16 = 6;
    /// HMAC-SHA2-512 (RFC 4868).
    pub const HMAC_SHA2_512: u16 = 7;
    /// AES-CMAC (RFC 4615).
    pub const AES128_CMAC: u16 = 8;
}

/// IDs of [`super::TransformType::Integrity`].
pub mod integrity {
    /// None: the cipher has its own (RFC 7296 §3.3.2).
    pub const NONE: u16 = 0;
    /// HMAC-MD5-96 (RFC 2403), legacy.
    pub const HMAC_MD5_96: u16 = 1;
    /// HMAC-SHA1-96 (RFC 2404).
    pub const HMAC_SHA1_96: u16 = 2;
    /// AES-XCBC-96 (RFC 3566).
    pub const AES_XCBC_96: u16 = 5;
    /// HMAC-SHA2-256-128 (RFC 4868).
    pub const HMAC_SHA2_256_128: u16 = 12;
    /// HMAC-SHA2-384-192 (RFC 4868).
    pub const HMAC_SHA2_384_192: u16 = 13;
    /// HMAC-SHA2-512-256 (RFC 4868).
    pub const HMAC_SHA2_512_256: u16 = 14;
}

/// IDs of [`super::TransformType::KeyExchange`] and of the additional ones; the numbers of KE
/// payloads.
pub mod key_exchange {
    /// None: an additional exchange, or the one of a child, that may be left out.
    pub const NONE: u16 = 0;
    /// MODP, 1024 bits, legacy.
    pub const MODP_1024: u16 = 2;
    /// MODP, 1536 bits, legacy (RFC 3526).
    pub const MODP_1536: u16 = 5;
    /// MODP, 2048 bits (RFC 3526).
    pub const MODP_2048: u16 = 14;
    /// MODP, 3072 bits (RFC 3526).
    pub const MODP_3072: u16 = 15;
    /// MODP, 4096 bits (RFC 3526).
    pub const MODP_4096: u16 = 16;
    /// MODP, 6144 bits (RFC 3526).
    pub const MODP_6144: u16 = 17;
    /// MODP, 8192 bits (RFC 3526).
    pub const MODP_8192: u16 = 18;
    /// P-256 (RFC 5903).
    pub const ECP_256: u16 = 19;
    /// P-384 (RFC 5903).
    pub const ECP_384: u16 = 20;
    /// P-521 (RFC 5903).
    pub const ECP_521: u16 = 21;
    /// X25519 (RFC 8031).
    pub const CURVE25519: u16 = 31;
    /// ML-KEM-512 (draft-ietf-ipsecme-ikev2-mlkem-09).
    pub const ML_KEM_512: u16 = 35;
    /// ML-KEM-768 (draft-ietf-ipsecme-ikev2-mlkem-09).
    pub const ML_KEM_768: u16 = 36;
    /// ML-KEM-1024 (draft-ietf-ipsecme-ikev2-mlkem-09).
    pub const ML_KEM_1024: u16 = 37;
}

/// IDs of [`super::TransformType::SequenceNumbers`]; the names are those of RFC 9827 §3.
pub mod sequence_numbers {
    /// 32-bit Sequential Numbers.
    pub const SEQUENTIAL_32: u16 = 0;
    /// Partially Transmitted 64-bit Sequential Numbers.
    pub const PARTIALLY_TRANSMITTED_64: u16 = 1;
    /// 32-bit Unspecified Numbers.
    pub const UNSPECIFIED_32: u16 = 2;
}
