//! Mode config (draft-dukes-ike-mode-cfg-02): a station asks for an inner address and resolvers.

use std::net::IpAddr;

use super::{Fault, IsakmpSa, Outbox};
use crate::config::InnerFamilies;
use crate::time::{Deadline, Instant};

/// What was lent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
}

/// A station's request under way.
pub struct ConfigRequest {
    message_id: u32,
}

impl ConfigRequest {
    /// Asks.
    pub fn initiate(
        sa: &IsakmpSa,
        families: InnerFamilies,
        message_id: u32,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let _ = (sa, families, now, out, message_id);
        panic!("mode config")
    }

    /// The exchange's message ID.
    pub fn message_id(&self) -> u32 {
        self.message_id
    }

    /// The reply.
    pub fn on_message(&mut self, sa: &IsakmpSa, message: &[u8]) -> Result<Lease, Fault> {
        let _ = (sa, message);
        panic!("mode config")
    }

    /// Retransmission.
    pub fn deadline(&self) -> Option<Deadline> {
        panic!("mode config")
    }

    /// Sends again, or gives up.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        let _ = (now, out);
        panic!("mode config")
    }
}

/// Reads a peer's request: which families it wants.
pub fn requested(sa: &IsakmpSa, message: &[u8]) -> Result<(u32, u16, InnerFamilies), Fault> {
    let _ = (sa, message);
    panic!("mode config")
}

/// Answers a request with message ID and identifier as `requested` gave them. The same datagram
/// answers a duplicate: the caller keeps it.
pub fn reply(
    sa: &IsakmpSa,
    message_id: u32,
    identifier: u16,
    lease: &Lease,
    request: &[u8],
    out: &mut Outbox,
) -> Result<Vec<u8>, Fault> {
    let _ = (sa, message_id, identifier, lease, request, out);
    panic!("mode config")
}
