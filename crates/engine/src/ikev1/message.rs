//! A message before any key is asked for: whose it is, and which exchange goes on with it.

use wire::isakmp::{Cookie, Cookies, Exchange, FirstOfIkev2, Header, PayloadKind, major_version};

use crate::counters::DropReason;
use crate::ike::{Size, Spi, Spis};

/// The major version that this module speaks.
const OURS: u8 = 1;

/// An ISAKMP message whose header was read. It is read once and handed down to its exchange.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    header: Header,
    body: &'a [u8],
    octets: &'a [u8],
    datagrams: usize,
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
    /// One that we do not know.
    Unknown,
}

impl<'a> Message<'a> {
    /// Reads the header; [`DropReason::MalformedMessage`] where that is none.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DropReason> {
        Self::put_together(octets, 1)
    }

    /// As [`Self::parse`], of a message that came in so many datagrams.
    pub fn put_together(octets: &'a [u8], datagrams: usize) -> Result<Self, DropReason> {
        let (header, body) = Header::parse(octets).map_err(|_| DropReason::MalformedMessage)?;
        Ok(Self {
            header,
            body,
            octets,
            datagrams,
        })
    }

    /// What it takes on the wire.
    pub fn size(&self) -> Size {
        Size {
            bytes: self.octets.len(),
            datagrams: self.datagrams,
        }
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// What follows the header: payloads, or their ciphertext.
    pub(super) fn body(&self) -> &'a [u8] {
        self.body
    }

    /// The whole message.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Whose it is.
    pub fn spis(&self) -> Spis {
        self.header.cookies.into()
    }

    /// The number of its exchange in phase 2; 0 in phase 1.
    pub fn id(&self) -> u32 {
        self.header.message_id
    }

    /// Which exchange goes on with it.
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

    /// Whether its sender knows nothing of us yet.
    pub fn is_unanswered(&self) -> bool {
        self.header.cookies.responder == Cookie::ZERO
    }

    /// Whether it is encrypted under keys of phase 1.
    pub fn is_of_phase2(&self) -> bool {
        let is_kind = matches!(
            self.kind(),
            Kind::Quick | Kind::Config | Kind::Informational
        );
        is_kind && self.header.flags.is_encrypted() && self.header.message_id != 0
    }

    /// Whether it is a part of a longer one.
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

/// What a first message of IKEv2 is answered: that we speak an earlier version (RFC 7296 §1.5,
/// §2.5). `None` for other messages.
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
