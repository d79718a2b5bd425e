//! A message before decryption: its SPIs, its exchange, its place in the window.

use wire::ikev2::{self as wire2, Exchange, Header, PayloadKind};

use crate::counters::DropReason;
use crate::ike::{Role, Size, Spi, Spis};

/// The major version that this module implements.
const OURS: u8 = 2;

/// A message with its header parsed.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    header: Header,
    octets: &'a [u8],
    size: Size,
}

impl<'a> Message<'a> {
    /// Parses the header; [`DropReason::MalformedMessage`] if it is invalid.
    pub fn parse(octets: &'a [u8]) -> Result<Self, DropReason> {
        Self::of_size(octets, Size::of(octets))
    }

    /// As [`Self::parse`], for a message that had another size on the wire.
    pub fn of_size(octets: &'a [u8], size: Size) -> Result<Self, DropReason> {
        let (header, _) = Header::parse(octets).map_err(|_| DropReason::MalformedMessage)?;
        Ok(Self {
            header,
            octets,
            size,
        })
    }

    /// Its size on the wire, or that of this fragment.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The SPIs in its header.
    pub fn spis(&self) -> Spis {
        self.header.spis.into()
    }

    /// Our role in the IKE SA that it names: its sender has the other one.
    pub fn our_role(&self) -> Role {
        match self.header.flags.is_initiator() {
            true => Role::Responder,
            false => Role::Initiator,
        }
    }

    /// Our own SPI in it.
    pub fn own_spi(&self) -> Spi {
        match self.our_role() {
            Role::Initiator => self.spis().initiator,
            Role::Responder => self.spis().responder,
        }
    }

    /// Whether it begins an IKE SA: a request of IKE_SA_INIT or of IKE_SESSION_RESUME.
    pub fn is_first(&self) -> bool {
        is_first_of(self.header.exchange)
            && !self.is_response()
            && self.header.flags.is_initiator()
            && self.header.message_id == 0
            && self.header.spis.responder == wire2::Spi::ZERO
            && self.header.spis.initiator != wire2::Spi::ZERO
    }

    /// Whether its payloads are encrypted, all or from the first on.
    pub(super) fn is_protected(&self) -> bool {
        matches!(
            self.header.next_payload,
            PayloadKind::Encrypted | PayloadKind::EncryptedFragment
        )
    }

    /// Whether it is a response.
    pub fn is_response(&self) -> bool {
        self.header.flags.is_response()
    }

    /// Pairs a request with its response.
    pub fn id(&self) -> u32 {
        self.header.message_id
    }

    /// The whole message.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    pub(super) fn exchange(&self) -> Exchange {
        self.header.exchange
    }

    /// Its payloads in clear, and where its encrypted payload is.
    pub(super) fn read(&self) -> Result<wire2::Message, DropReason> {
        wire2::Message::parse(self.octets).map_err(|_| DropReason::MalformedMessage)
    }
}

/// Whether this exchange begins an IKE SA.
pub(super) fn is_first_of(exchange: Exchange) -> bool {
    matches!(exchange, Exchange::IkeSaInit | Exchange::IkeSessionResume)
}

/// Whether a datagram's header names this version of IKE.
pub fn is_of_this_version(octets: &[u8]) -> bool {
    wire::isakmp::major_version(octets) == Some(OURS)
}

impl From<wire2::Spi> for Spi {
    fn from(spi: wire2::Spi) -> Self {
        Self(spi.0)
    }
}

impl From<wire2::Spis> for Spis {
    fn from(spis: wire2::Spis) -> Self {
        Self {
            initiator: spis.initiator.into(),
            responder: spis.responder.into(),
        }
    }
}

impl From<Spis> for wire2::Spis {
    fn from(spis: Spis) -> Self {
        Self {
            initiator: wire2::Spi(spis.initiator.0),
            responder: wire2::Spi(spis.responder.0),
        }
    }
}
