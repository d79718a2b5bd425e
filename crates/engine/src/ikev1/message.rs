//! A message before decryption: its SPIs and its exchange.

use wire::isakmp::{Cookie, Cookies, Exchange, FirstOfIkev2, Header, PayloadKind, major_version};

use crate::counters::DropReason;
use crate::ike::{Size, Spi, Spis};

/// The major version that this module implements.
const OURS: u8 = 1;

/// An ISAKMP message with its header parsed. It is parsed once and passed on to its exchange.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    header: Header,
    body: &'a [u8],
    octets: &'a [u8],
    size: Size,
}

/// The exchange that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Main mode.
    Main,
    /// Aggressive mode.
    Aggressive,
    /// Quick mode.
    Quick,
    /// Mode config.
    Config,
    /// An informational exchange.
    Informational,
    /// An unknown exchange.
    Unknown,
}

impl<'a> Message<'a> {
    /// Parses the header; [`DropReason::MalformedMessage`] if it is invalid.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DropReason> {
        Self::of_size(octets, Size::of(octets))
    }

    /// As [`Self::parse`], for a message that had another size on the wire: it came behind a marker
    /// or in fragments.
    pub fn of_size(octets: &'a [u8], size: Size) -> Result<Self, DropReason> {
        let (header, body) = Header::parse(octets).map_err(|_| DropReason::MalformedMessage)?;
        Ok(Self {
            header,
            body,
            octets,
            size,
        })
    }

    /// Its size on the wire.
    pub fn size(&self) -> Size {
        self.size
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// The octets after the header: payloads, or their ciphertext.
    pub(super) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The whole message.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// The SPIs in its header.
    pub fn spis(&self) -> Spis {
        self.header.cookies.into()
    }

    /// The number of its exchange in phase 2; 0 in phase 1.
    pub fn id(&self) -> u32 {
        self.header.message_id
    }

    /// The kind of its exchange.
    pub fn kind(&self) -> Kind {
        match self.header.exchange {
            Exchange::IdentityProtection => Kind::Main,
            Exchange::Aggressive => Kind::Aggressive,
            Exchange::QuickMode => Kind::Quick,
            Exchange::Transaction => Kind::Config,
            Exchange::Informational => Kind::Informational,
            Exchange::Other(_) => Kind::Unknown,
        }
    }

    /// Whether it belongs to phase 1.
    pub fn is_phase1(&self) -> bool {
        matches!(self.kind(), Kind::Main | Kind::Aggressive)
    }

    /// Whether its sender has no answer of ours yet.
    pub fn is_unanswered(&self) -> bool {
        self.header.cookies.responder == Cookie::ZERO
    }

    /// Whether it is encrypted with keys from phase 1.
    pub fn is_of_phase2(&self) -> bool {
        let is_kind = matches!(
            self.kind(),
            Kind::Quick | Kind::Config | Kind::Informational
        );
        is_kind && self.header.flags.is_encrypted() && self.header.message_id != 0
    }

    /// Whether it is a fragment.
    pub fn is_fragment(&self) -> bool {
        self.header.next_payload == PayloadKind::Fragment
    }

    pub(super) fn cookies(&self) -> Cookies {
        self.header.cookies
    }
}

/// Whether a datagram's header names a later version of IKE.
pub fn is_later(octets: &[u8]) -> bool {
    major_version(octets).is_some_and(|version| version > OURS)
}

/// The answer to a first message of IKEv2: we speak an earlier version (RFC 7296 §1.5, §2.5).
/// `None` for other messages.
pub fn refuse_later(octets: &[u8]) -> Option<Vec<u8>> {
    FirstOfIkev2::parse(octets).map(|first| first.refusal())
}

impl From<Cookie> for Spi {
    fn from(cookie: Cookie) -> Self {
        Self(cookie.0)
    }
}

impl From<Cookies> for Spis {
    fn from(cookies: Cookies) -> Self {
        Self {
            initiator: cookies.initiator.into(),
            responder: cookies.responder.into(),
        }
    }
}
