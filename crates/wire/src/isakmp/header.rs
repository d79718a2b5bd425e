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

/// Header flags (RFC 2408 §3.1). Unassigned bits are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The payloads are encrypted.
    pub const ENCRYPTION: Self = Self(1);
    /// The commit bit. We read it and ignore it.
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
    /// Reads the fixed header of a datagram and checks its length field: the datagram must have
    /// exactly that many octets. Returns the header and the body after it.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut r = Reader::new(datagram);
        let initiator = Cookie(r.array("initiator cookie")?);
        let responder = Cookie(r.array("responder cookie")?);
        let next_payload = r.u8("next payload")?.into();
        if r.u8("version")? != VERSION {
            return Err(Malformed::Value("ISAKMP version"));
        }
        let exchange = r.u8("exchange type")?.into();
        let flags = Flags(r.u8("flags")?);
        let message_id = r.u32("message ID")?;
        let len = r.u32("message length")?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len < HEADER_LEN {
            return Err(Malformed::Length("ISAKMP message"));
        }
        let body = r.take(len - HEADER_LEN, "ISAKMP message")?;
        r.finish("ISAKMP message")?;
        let header = Self {
            cookies: Cookies {
                initiator,
                responder,
            },
            next_payload,
            exchange,
            flags,
            message_id,
        };
        Ok((header, body))
    }

    /// Writes a whole datagram: this header with its length field filled in, then `body`.
    pub fn write(&self, body: &[u8]) -> Vec<u8> {
        let mut w = Writer::new();
        w.bytes(&self.cookies.initiator.0);
        w.bytes(&self.cookies.responder.0);
        w.u8(self.next_payload.number());
        w.u8(VERSION);
        w.u8(self.exchange.number());
        w.u8(self.flags.0);
        w.u32(self.message_id);
        w.u32(u32::try_from(HEADER_LEN + body.len()).expect("message below 4 GiB"));
        w.bytes(body);
        w.into_vec()
    }
}

numbered!(Exchange: u8 {
    IdentityProtection = 2,
    Aggressive = 4,
    Informational = 5,
    Transaction = 6,
    QuickMode = 32,
});

/// Major version 1, minor version 0.
const VERSION: u8 = 0x10;
