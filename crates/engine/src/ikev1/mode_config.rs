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
    /// Asks, for the address that we `had` before if there is one.
    pub fn initiate(
        sa: &IsakmpSa,
        families: InnerFamilies,
        had: Option<IpAddr>,
        message_id: u32,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let _ = (sa, families, had, now, out, message_id);
        panic!("mode config")
    }

    /// The exchange's message ID.
    pub fn message_id(&self) -> u32 {
        self.message_id
    }

    /// The reply.
    pub fn on_message(
        &mut self,
        sa: &IsakmpSa,
        message: &[u8],
        out: &mut Outbox,
    ) -> Result<Lease, Fault> {
        let _ = (sa, message, out);
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

/// A peer's request, its hash checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The exchange.
    pub message_id: u32,
    /// Ties the reply to the request.
    pub identifier: u16,
    /// Families wanted.
    pub families: InnerFamilies,
    /// The address that it would like to have.
    pub address: Option<IpAddr>,
}

/// Reads a peer's request.
pub fn requested(sa: &IsakmpSa, message: &[u8], out: &mut Outbox) -> Result<Asked, Fault> {
    let _ = (sa, message, out);
    panic!("mode config")
}

/// Answers a request through the outbox, and returns the same message for the caller to keep: it
/// answers a duplicate of `request`.
pub fn reply(
    sa: &IsakmpSa,
    asked: &Asked,
    lease: &Lease,
    request: &[u8],
    out: &mut Outbox,
) -> Result<Vec<u8>, Fault> {
    let _ = (sa, asked, lease, request, out);
    panic!("mode config")
}
