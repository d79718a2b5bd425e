//! After a renewal: when packets change to the new outbound SA.
//!
//! Message 3 of quick mode proves that the initiator has the keys, not that either end has
//! installed them (RFC 2409 §5.5). So we keep sending on the old SA until the peer has used the new
//! pair, or a short time has passed. `docs/design/takeover.md` has the details.

use super::super::Node;
use super::super::session_id::SessionId;
use super::OVERLAP;
use crate::ike::NegotiatedChild;
use crate::sa::{ChildId, Direction};
use crate::time::{Duration, Instant};

/// A peer that sends nothing has installed its new SAs after this time. It is much shorter than the
/// time after which either end removes the old SAs.
pub(super) const TAKEOVER_DELAY: Duration = Duration::from_secs(1);

/// Even a busy responder has read message 3 after this time. One that has not repeats message 2,
/// and then the wait starts again.
pub(super) const READING_TIME: Duration = Duration::from_secs(2);

/// An outbound SA that waits.
pub(super) struct Takeover {
    negotiated: Box<NegotiatedChild>,
    session: SessionId,
    pub(super) at: Instant,
    /// The hard end of the old SA.
    end: Option<Instant>,
}

impl Node {
    /// Lets the new outbound SA wait until `latest`, or until the old one's hard lifetime ends.
    pub(super) fn take_over_later(
        &mut self,
        id: SessionId,
        child: ChildId,
        negotiated: Box<NegotiatedChild>,
        latest: Instant,
    ) {
        if let Some(entry) = self.children.get_mut(&child) {
            let end = entry.expire_at;
            entry.takeover = Some(Box::new(Takeover {
                negotiated,
                session: id,
                at: end.map_or(latest, |end| end.min(latest)),
                end,
            }));
        }
    }

    /// The peer has repeated message 2, so it has not read message 3 and has only the old pair.
    /// Message 3 was sent again.
    pub(in super::super) fn wait_for_reader(&mut self, child: ChildId, spi_in: u32, now: Instant) {
        let Some(entry) = self.children.get_mut(&child) else {
            return;
        };
        let Some(takeover) = entry.takeover.as_deref_mut() else {
            return;
        };
        if takeover.negotiated.spi_in != spi_in {
            return;
        }
        let latest = now + READING_TIME;
        takeover.at = takeover.end.map_or(latest, |end| end.min(latest));
        if let Some((_, gone)) = entry.old.last_mut() {
            *gone = (*gone).max(now + OVERLAP);
        }
        self.arm_child(child);
    }

    /// The peer has sent on this SPI of ours: it has installed the pair.
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
        let is_sealing = self.install(id, child, &takeover.negotiated, Direction::Outbound);
        let entry = self.children.get_mut(&child);
        if let Some(current) = entry.and_then(|entry| entry.current.as_mut()) {
            current.is_sealing = is_sealing;
        }
    }
}
