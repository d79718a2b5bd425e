//! One exchange for a child of ours at a time per session. A peer keeps the state of few exchanges
//! (strongSwan of three, `max_ikev1_exchanges`). It cannot read the last message of an exchange
//! that it has forgotten, and then we would send on an SA that it does not have.

use super::super::Node;
use super::super::session::Session;
use super::super::session_id::SessionId;
use crate::sa::ChildId;
use crate::time::Instant;

impl Session {
    /// Whether a child is waiting.
    pub(in super::super) fn has_waiting(&self) -> bool {
        !self.held.waiting.is_empty()
    }

    fn next_waiting(&mut self) -> Option<ChildId> {
        if self.ike.is_asking() || self.held.waiting.is_empty() {
            return None;
        }
        let next = self.held.waiting.remove(0);
        if self.held.waiting.is_empty() {
            // A session has none most of the time.
            self.held.waiting = Vec::new();
        }
        Some(next)
    }
}

impl Node {
    /// Whether it is a child's turn. If not, it is queued.
    pub(super) fn has_turn(&mut self, id: SessionId, child: ChildId) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        let is_asking = session.ike.is_asking();
        if is_asking && !session.held.waiting.contains(&child) {
            session.held.waiting.push(child);
        }
        !is_asking
    }

    /// Starts the exchange that has waited longest, if none is in progress.
    pub(in super::super) fn begin_waiting(&mut self, id: SessionId, now: Instant) {
        while let Some(child) = self.sessions.get_mut(&id).and_then(|s| s.next_waiting()) {
            self.begin_child(id, child, now);
        }
    }
}
