//! What is told of a peer that is connected: who it is, and at the end how much passed.

use core::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::ike::Spi;

use super::end_cause::EndCause;
use crate::time::Duration;

/// What one direction has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes of clear text.
    pub bytes: u64,
}

/// Who is connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stay {
    /// The same at both ends, and for the whole stay.
    pub id: StayId,
    /// Connection.
    pub connection: String,
    /// Who the peer proved to be.
    pub identity: String,
    /// Where the peer is.
    pub remote: SocketAddr,
    /// Inner addresses that are lent, to the peer or to us.
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

/// How a stay went, at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Why it ended.
    pub cause: EndCause,
    /// From its first child to its end.
    pub duration: Duration,
    /// What the peer sent.
    pub received: Traffic,
    /// What was sent to the peer.
    pub sent: Traffic,
    /// Both planes have told what they counted; else more may have passed.
    pub is_complete: bool,
}

/// Names an account within one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AccountId(pub(super) u64);
