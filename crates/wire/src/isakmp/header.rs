//! The ISAKMP header (RFC 2408 §3.1).

use crate::codec::{Malformed, Reader, Writer};

use super::PayloadKind;

/// Octets of the fixed header.
pub const HEADER_LEN: usize = 28;

/// One side's cookie (RFC 2408 §2.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cookie(pub [u8; 8]);

impl Cookie {
    /// The responder's cookie in a first message.
    pub const ZERO: Self = Self([0; 8]);
}

/// The pair of cookies that names an ISAKMP SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cookies {
    /// The initiator's, CKY-I.
    pub initiator: Cookie,
    /// The responder's, CKY-R.
    pub responder: Cookie,
}

/// Exchange types (RFC 2408 §3.1, RFC 2409 appendix A, mode config).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchange {
    /// Main mode: identity protection, 2.
    IdentityProtection,
    /// Aggressive mode, 4.
    Aggressive,
    /// Informational, 5.
    Informational,
    /// Transaction: mode config, 6.
    Transaction,
    /// Quick mode, 32.
    QuickMode,
    /// Any other value.
    Other(u8),
}

/// Header flags (RFC 2408 §3.1). Bits that no document names are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The payloads are encrypted.
    pub const ENCRYPTION: Self = Self(1);
    /// The commit bit; we read it and do nothing with it.
    pub const COMMIT: Self = Self(2);
    /// Authenticated but not encrypted.
    pub const AUTHENTICATION: Self = Self(4);

    /// Whether the body is encrypted.
    pub fn is_encrypted(self) -> bool {
        self.0 & 1 != 0
    }
}

/// The fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// CKY-I and CKY-R.
    pub cookies: Cookies,
    /// Kind of the first payload.
    pub next_payload: PayloadKind,
    /// Which exchange the message belongs to.
    pub exchange: Exchange,
    /// Encryption, commit, authentication only.
    pub flags: Flags,
    /// Zero in phase 1.
    pub message_id: u32,
}

impl Header {
    /// Reads the fixed header of a datagram and checks its length field: the datagram must hold
    /// exactly that many octets. Returns the header and the body after it.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let _ = Reader::new(datagram);
        panic!("codec")
    }

    /// A whole datagram: this header with its length field filled in, then `body`.
    pub fn write(&self, body: &[u8]) -> Vec<u8> {
        let _ = (Writer::new(), body);
        panic!("codec")
    }
}
