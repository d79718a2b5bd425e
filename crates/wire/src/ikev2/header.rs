//! The IKE header (RFC 7296 §3.1).

use super::PayloadKind;
use crate::codec::{Malformed, Reader, Writer};

/// Octets of the fixed header.
pub const HEADER_LEN: usize = 28;

/// Major version 2, minor version 0.
pub const VERSION_2: u8 = 0x20;

/// One side's SPI of an IKE SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Spi(pub [u8; 8]);

impl Spi {
    /// The responder's SPI before it has chosen one.
    pub const ZERO: Self = Self([0; 8]);
}

/// The pair of SPIs that names an IKE SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Spis {
    /// The SPI of the original initiator.
    pub initiator: Spi,
    /// The SPI of the original responder.
    pub responder: Spi,
}

/// Exchange types (RFC 7296 §3.1, RFC 5723 §4.3.2, RFC 9242 §3.2, RFC 9370 §2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exchange {
    /// IKE_SA_INIT, 34.
    IkeSaInit,
    /// IKE_AUTH, 35.
    IkeAuth,
    /// CREATE_CHILD_SA, 36.
    CreateChildSa,
    /// INFORMATIONAL, 37.
    Informational,
    /// IKE_SESSION_RESUME, 38.
    IkeSessionResume,
    /// IKE_INTERMEDIATE, 43.
    IkeIntermediate,
    /// IKE_FOLLOWUP_KE, 44.
    IkeFollowupKe,
    /// Any other value.
    Other(u8),
}

/// Header flags. Reserved bits are kept and mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender is the original initiator of the IKE SA.
    pub const INITIATOR: Self = Self(0x08);
    /// The sender speaks a higher major version too.
    pub const VERSION: Self = Self(0x10);
    /// The message is a response.
    pub const RESPONSE: Self = Self(0x20);

    /// The flags of a message.
    pub const fn of(is_initiator: bool, is_response: bool) -> Self {
        let initiator = if is_initiator { Self::INITIATOR.0 } else { 0 };
        let response = if is_response { Self::RESPONSE.0 } else { 0 };
        Self(initiator | response)
    }

    /// Whether the sender is the original initiator of the IKE SA.
    pub const fn is_initiator(self) -> bool {
        self.0 & Self::INITIATOR.0 != 0
    }

    /// Whether the sender speaks a higher major version too.
    pub const fn has_higher_version(self) -> bool {
        self.0 & Self::VERSION.0 != 0
    }

    /// Whether the message is a response.
    pub const fn is_response(self) -> bool {
        self.0 & Self::RESPONSE.0 != 0
    }
}

/// The fixed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Both SPIs.
    pub spis: Spis,
    /// Kind of the first payload.
    pub next_payload: PayloadKind,
    /// Minor version. We send 0 and ignore the peer's (RFC 7296 §2.5).
    pub minor_version: u8,
    /// Which exchange the message belongs to.
    pub exchange: Exchange,
    /// Initiator, version, response.
    pub flags: Flags,
    /// Pairs a request with its response.
    pub message_id: u32,
}

impl Header {
    /// Reads the fixed header of a datagram and checks its length field: the datagram must have
    /// exactly that many octets. Returns the header and the body after it. Refuses another major
    /// version: [`crate::isakmp::major_version`] tells which.
    pub fn parse(datagram: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let mut r = Reader::new(datagram);
        let initiator = Spi(r.array("initiator's SPI")?);
        let responder = Spi(r.array("responder's SPI")?);
        let next_payload = r.u8("next payload")?.into();
        let version = r.u8("version")?;
        if version & MAJOR != VERSION_2 {
            return Err(Malformed::Value("IKE version"));
        }
        let exchange = r.u8("exchange type")?.into();
        let flags = Flags(r.u8("flags")?);
        let message_id = r.u32("message ID")?;
        let len = r.u32("message length")?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let body_len = len.checked_sub(HEADER_LEN);
        let body = r.take(body_len.ok_or(Malformed::Length("message"))?, "message")?;
        r.finish("message")?;
        let header = Self {
            spis: Spis {
                initiator,
                responder,
            },
            next_payload,
            minor_version: version & !MAJOR,
            exchange,
            flags,
            message_id,
        };
        Ok((header, body))
    }

    /// Writes a whole datagram: this header with its length field filled in, then `body`.
    pub fn write(&self, body: &[u8]) -> Vec<u8> {
        let mut w = Writer::new();
        self.write_fields(body.len(), &mut w);
        w.bytes(body);
        w.into_vec()
    }

    /// The 28 octets, for a body of this many. Panics on a minor version above 15.
    pub(super) fn write_fields(&self, body_len: usize, w: &mut Writer) {
        assert!(self.minor_version & MAJOR == 0, "a minor version of 4 bits");
        w.bytes(&self.spis.initiator.0);
        w.bytes(&self.spis.responder.0);
        w.u8(self.next_payload.number());
        w.u8(VERSION_2 | self.minor_version);
        w.u8(self.exchange.number());
        w.u8(self.flags.0);
        w.u32(self.message_id);
        w.u32(u32::try_from(HEADER_LEN + body_len).expect("message below 4 GiB"));
    }
}

/// The bits of the major version.
const MAJOR: u8 = 0xf0;

numbered!(Exchange: u8 {
    IkeSaInit = 34,
    IkeAuth = 35,
    CreateChildSa = 36,
    Informational = 37,
    IkeSessionResume = 38,
    IkeIntermediate = 43,
    IkeFollowupKe = 44,
});
