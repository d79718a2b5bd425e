//! What a [`super::Station`] and an [`super::AccessPoint`] give their owner.

use core::ops::Range;

use wire::ieee80211::Address;

use super::handshake::Failure;
use super::sae::SaeFailure;
use crate::counters::DropReason;

/// Frames for the air in their order, and what has happened.
#[derive(Default)]
pub struct AirOutbox {
    /// Whole frames of 802.11.
    pub frames: Vec<Vec<u8>>,
    /// In order.
    pub events: Vec<LinkEvent>,
}

/// Something that has happened between a station and an access point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The peer has joined, or we have joined it.
    Joined(Address),
    /// Keys for the peer are installed.
    Secured(Address),
    /// The peer is left.
    Left(Address, LinkFailure),
}

/// Why a link ends, or is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkFailure {
    /// It was told to.
    #[error("it was told to leave")]
    Told,
    /// The other end has left.
    #[error("the peer left with reason {0}")]
    PeerLeft(u16),
    /// The other end did not answer.
    #[error("the peer does not answer the {0}")]
    NoAnswer(&'static str),
    /// The other end was silent for too long.
    #[error("the peer was silent for too long")]
    Inactive,
    /// It got no keys.
    #[error("it has got no keys for too long")]
    NoKeys,
    /// Somebody has joined in its name, and only EAP can tell who it is.
    #[error("it has joined again")]
    JoinedAgain,
    /// The access point has no room for it.
    #[error("it makes room for another station")]
    Displaced,
    /// The access point refused.
    #[error("the access point refuses the {0} with status {1}")]
    Refused(&'static str, u16),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] Failure),
    /// SAE failed.
    #[error(transparent)]
    Sae(#[from] SaeFailure),
    /// Wrong MICs of TKIP.
    #[error("two wrong MICs of TKIP within 60 s: an attack, or a fault of the peer")]
    Countermeasures,
}

/// What became of a frame from the air.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// An Ethernet frame at this place of the buffer.
    Frame {
        /// Where.
        frame: Range<usize>,
        /// Whether it was protected.
        is_protected: bool,
    },
    /// It was for the machine: management, or a packet of keys.
    Taken,
    /// It was dropped, and counted.
    Dropped(DropReason),
}
