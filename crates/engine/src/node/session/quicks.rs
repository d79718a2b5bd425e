//! The quick modes of a session: active ones, and finished ones that may have to repeat their last
//! message.

use super::Session;
use crate::ikev1::quick::Quick;
use crate::sa::ChildId;
use crate::time::Instant;

/// A quick mode under way.
pub(in crate::node) struct PendingQuick {
    pub(in crate::node) quick: Box<Quick>,
    pub(in crate::node) child: ChildId,
    pub(in crate::node) spi: u32,
    /// When it was begun, or answered.
    pub(in crate::node) begun: Instant,
    /// Our SPI of the pair that the child had then.
    pub(in crate::node) renews: Option<u32>,
}

impl Session {
    /// Keeps a quick mode that goes on, and remembers its message ID.
    pub(in crate::node) fn keep_quick(&mut self, pending: PendingQuick) {
        self.remember(pending.quick.message_id());
        self.quicks.push(pending);
    }

    /// Quick modes that are not done.
    pub(in crate::node) fn open_quicks(&self) -> usize {
        let open = self
            .quicks
            .iter()
            .filter(|pending| !pending.quick.is_done());
        open.count()
    }

    /// Forgets quick modes that are done where there are `limit`: the peer's before ours, which
    /// may have to send their last message again.
    pub(in crate::node) fn make_room(&mut self, limit: usize) {
        while self.quicks.len() >= limit {
            let is_done = |pending: &PendingQuick| pending.quick.is_done();
            let is_theirs = |it: &PendingQuick| is_done(it) && !it.quick.is_initiator();
            let theirs = self.quicks.iter().position(is_theirs);
            let Some(at) = theirs.or_else(|| self.quicks.iter().position(is_done)) else {
                return;
            };
            self.quicks.remove(at);
        }
    }

    /// The message IDs of quick modes that we have begun and are not done.
    pub(in crate::node) fn own_quicks(&self) -> impl Iterator<Item = u32> {
        let ours = self.quicks.iter().map(|pending| &pending.quick);
        let open = ours.filter(|quick| quick.is_initiator() && !quick.is_done());
        open.map(|quick| quick.message_id())
    }
}
