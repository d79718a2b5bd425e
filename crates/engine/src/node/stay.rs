//! A connected peer: who it is, and at the end its traffic.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::ike::Spi;

use super::end_cause::EndCause;
use crate::time::Duration;

/// The traffic of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes of clear text.
    pub bytes: u64,
}

/// A connected peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The same at both ends, and for the whole stay.
    pub id: StayId,
    /// Connection.
    pub connection: String,
    /// The proven identity.
    pub identity: String,
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// Inner addresses that the peer or we were assigned.
    pub inner: Vec<IpAddr>,
}

/// Names a stay: the responder's cookie of its first ISAKMP SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StayId(pub(super) Spi);

impl fmt::Display for StayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .0
            .iter()
            .try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// The summary of a stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Why it ended.
    pub cause: EndCause,
    /// From its first child to its end.
    pub duration: Duration,
    /// Traffic from the peer.
    pub received: Traffic,
    /// Traffic to the peer.
    pub sent: Traffic,
    /// Both planes have reported their counts; otherwise there may have been more.
    pub is_complete: bool,
}

/// Names an account within one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccountId(pub(super) u64);
