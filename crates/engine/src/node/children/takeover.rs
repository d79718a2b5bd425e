//! After a renewal that the peer began: from when on the new outbound SA seals.
//!
//! Message 3 of quick mode says that the initiator has keys, not that it has installed them
//! (RFC 2409 §5.5): a packet under the new SPI may come before. So we send on under the old SA
//! until the peer has used the new pair itself, or a short time has passed.

use super::super::Node;
use super::super::session::SessionId;
use crate::ikev1::quick::NegotiatedChild;
use crate::sa::{ChildId, Direction};
use crate::time::{Duration, Instant};

/// A peer that sends nothing has installed its new SAs by then; far below the time after which
/// either end removes the old ones.
pub(super) const TAKEOVER_DELAY: Duration = Duration::from_secs(1);

/// An outbound SA that waits.
pub(super) struct Takeover {
    negotiated: Box<NegotiatedChild>,
    session: SessionId,
    pub(super) at: Instant,
}

impl Node {
    /// Lets the new outbound SA wait. The old one's hard life, if it ends before, ends the wait.
    pub(super) fn take_over_later(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: Box<NegotiatedChild>,
        now: Instant,
    ) {
        if let Some(entry) = self.children.get_mut(&child) {
            let latest = now + TAKEOVER_DELAY;
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
