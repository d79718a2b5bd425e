//! After a renewal: from when on the new outbound SA seals.
//!
//! Message 3 of quick mode says that the initiator has keys, not that it has installed them
//! (RFC 2409 §5.5), and a responder may install its own only when it has read that message: a
//! packet under the new SPI may come before. So we send on under the old SA until the peer has used
//! the new pair itself, or a short time has passed.

use super::super::Node;
use super::super::session_id::SessionId;
use crate::ikev1::quick::NegotiatedChild;
use crate::sa::{ChildId, Direction};
use crate::time::{Duration, Instant};

/// A peer that sends nothing has installed its new SAs by then; far below the time after which
/// either end removes the old ones.
pub(super) const TAKEOVER_DELAY: Duration = Duration::from_secs(1);

/// A responder has read message 3 by then; a packet sent right behind it may overtake it there.
pub(super) const READING_TIME: Duration = Duration::from_millis(200);

/// An outbound SA that waits.
pub(super) struct Takeover {
    negotiated: Box<NegotiatedChild>,
    session: SessionId,
    pub(super) at: Instant,
}

impl Node {
    /// Lets the new outbound SA wait, until `latest`. The old one's hard life, if it ends before,
    /// ends the wait.
    pub(super) fn take_over_later(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: Box<NegotiatedChild>,
        latest: Instant,
    ) {
        if let Some(entry) = self.children.get_mut(&child) {
            let at = entry.expire_at.map_or(latest, |end| end.min(latest));
            entry.takeover = Some(Box::new(Takeover {
                negotiated,
                session: id,
                at,
            }));
        }
    }

    /// The peer has sent under this SPI of ours: its pair stands.
    pub(in super::super) fn inbound_used(&mut self, child: ChildId, spi: u32) {
        let waits = |takeover: &Takeover| takeover.negotiated.spi_in == spi;
        let entry = self.children.get(&child);
        if entry.is_some_and(|entry| entry.takeover.as_deref().is_some_and(waits)) {
            self.take_over(child);
            self.arm_child(child);
        }
    }

    /// Installs the outbound SA that waits, if there is one.
    pub(super) fn take_over(&mut self, child: ChildId) {
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let Some(takeover) = entry.takeover.take() else {
            return;
        };
        // the session may have been renewed in between
        let id = entry.session.unwrap_or(takeover.session);
        self.install(id, child, &takeover.negotiated, Direction::Outbound);
    }
}
