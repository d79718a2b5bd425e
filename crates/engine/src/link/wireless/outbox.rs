//! What a [`super::Station`] and an [`super::AccessPoint`] give their owner.

use core::fmt;
use core::ops::Range;

use wire::ieee80211::{Address, AkmSuite, CipherSuite};

use super::cipher::LinkCipher;
use super::handshake::{Failure, MasterKey};
use super::sae::SaeFailure;
use crate::counters::DropReason;

/// Frames for the air in their order, and what has happened.
#[derive(Default)]
pub struct AirOutbox {
    /// Whole frames of 802.11.
    pub frames: Vec<Vec<u8>>,
    /// In order.
    pub events: Vec<LinkEvent>,
    /// Whether the owner wants master keys, to record them for who reads a capture.
    pub wants_masters: bool,
    /// Those that handshakes began with.
    pub masters: Vec<MasterKey>,
}

impl AirOutbox {
    pub(super) fn tell_master(&mut self, master: &MasterKey) {
        if self.wants_masters {
            self.masters.push(master.clone());
        }
    }
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
    /// No access point of the network answers a station. Told once in a search.
    NotFound,
    /// An access point of the network has another security. Told once in a search.
    NotSuitable(Address, Announced),
}

/// The security that an access point announces, the first of each list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// None.
    Open,
    /// WEP.
    Wep,
    /// Its element cannot be read.
    Unreadable,
    /// Keys of the handshake.
    Rsn {
        /// Where the master key comes from.
        akm: Option<AkmSuite>,
        /// Protects frames to one station.
        pairwise: Option<CipherSuite>,
        /// Protects frames to groups.
        group: CipherSuite,
    },
}

impl fmt::Display for Announced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (akm, pairwise, group) = match self {
            Self::Open => return f.write_str("open"),
            Self::Wep => return f.write_str("WEP"),
            Self::Unreadable => return f.write_str("not readable"),
            Self::Rsn {
                akm,
                pairwise,
                group,
            } => (akm, pairwise.unwrap_or(*group), *group),
        };
        let akm = match akm {
            Some(AkmSuite::Ieee8021x) => "802.1x",
            Some(AkmSuite::Psk) => "psk",
            Some(AkmSuite::Ieee8021xSha256) => "802.1x-sha256",
            Some(AkmSuite::PskSha256) => "psk-sha256",
            Some(AkmSuite::Sae) => "sae",
            Some(AkmSuite::Owe) => "owe",
            Some(AkmSuite::Other(_)) | None => "unknown",
        };
        write!(f, "{akm} with {}", name_of(pairwise))?;
        match pairwise == group {
            true => Ok(()),
            false => write!(f, ", and {} for frames to all", name_of(group)),
        }
    }
}

fn name_of(suite: CipherSuite) -> &'static str {
    let ours = LinkCipher::ALL.iter().find(|it| it.suite() == suite);
    ours.map_or("another cipher", |it| it.name())
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
    /// The access point got no right answer to its handshake.
    #[error("the access point ends the handshake: the passphrase may be another one there")]
    KeysRefused,
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
