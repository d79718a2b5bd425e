//! The packet plane: tables of security associations and policies, owned by the thread that moves
//! the packets. Outbound and inbound are separate and share nothing.
//!
//! Control sends [`Change`]s; packets answer with [`Notice`]s that become control's input.

use crate::counters::DropCounters;
use crate::sa::{ChildId, Path, Sa};
use crate::selector::TrafficSelector;
use crate::time::Instant;

/// What control tells a plane.
pub enum Change {
    /// A new SA. Outbound: it takes over its child's traffic at once.
    Install(Box<Sa>),
    /// An SA ends, by our SPI (inbound) or the peer's (outbound).
    Remove(u32, crate::sa::Direction),
    /// The peer of these outbound SAs moved (found by the inbound plane, or by control).
    Move(ChildId, Path),
    /// Traffic that must not leave in the clear: it waits for (and asks for) its child.
    Expect(ChildId, Vec<TrafficSelector>, Vec<TrafficSelector>),
    /// No longer.
    Forget(ChildId),
}

/// What a plane tells control.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Authenticated traffic came from somewhere else.
    PathMoved {
        /// Which child.
        child: ChildId,
        /// Where the peer is.
        path: Path,
    },
    /// An SA reached a soft limit of packets or bytes.
    SoftLimit {
        /// Which child.
        child: ChildId,
    },
    /// An outbound packet needs a child that is not up.
    Acquire {
        /// Which child.
        child: ChildId,
    },
    /// ESP came for an SPI that we do not have.
    UnknownSpi {
        /// From where.
        path: Path,
        /// The SPI.
        spi: u32,
    },
}

/// One SA's traffic so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaReport {
    /// Which SA.
    pub spi: u32,
    /// Its child.
    pub child: ChildId,
    /// Packets so far.
    pub packets: u64,
    /// Bytes of clear text so far.
    pub bytes: u64,
    /// The last packet's moment; `None`: no packet yet.
    pub last: Option<Instant>,
}

/// A plane's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaneReport {
    /// Every SA.
    pub associations: Vec<SaReport>,
    /// Drops by reason.
    pub drops: DropCounters,
}
