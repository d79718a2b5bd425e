//! Renewals that cross: both ends renew a child at once, or one end renews it again before the
//! other has read message 3 of the first renewal.
//!
//! The ends may see the two new pairs in different orders, and must choose the same one. If the
//! same end began both, the later one stands; otherwise the one with the smallest SPI. The other
//! pair stays for receiving, because the peer may follow another rule. See
//! `docs/design/takeover.md`.

use super::super::Node;
use super::{OVERLAP, Pair};
use crate::ike::AgreedChild;
use crate::sa::ChildId;
use crate::time::{Duration, Instant};

/// How long the pair before a new one is kept. The end that renewed deletes it after the overlap;
/// the other end waits longer, for that delete.
pub(super) fn overlap(new: &Pair) -> Duration {
    if new.is_ours { OVERLAP } else { OVERLAP * 4 }
}

impl Pair {
    /// The agreed pair.
    pub(super) fn agreed(agreed: &AgreedChild, now: Instant) -> Self {
        let negotiated = &agreed.negotiated;
        Self {
            since: now,
            begun: agreed.begun,
            is_ours: agreed.is_ours,
            spi_in: negotiated.spi_in,
            spi_out: negotiated.spi_out,
            is_sealing: false,
            suite: negotiated.suite,
            mode: negotiated.mode,
            is_udp_encapsulated: negotiated.is_udp_encapsulated,
            local: negotiated.local.clone().into(),
            remote: negotiated.remote.clone().into(),
        }
    }

    /// Whether this one stays, of two that cross.
    fn outdoes(&self, other: &Self) -> bool {
        let least = |pair: &Self| pair.spi_in.min(pair.spi_out);
        match self.is_ours == other.is_ours {
            true => self.begun > other.begun,
            false => least(self) < least(other),
        }
    }
}

impl Node {
    /// Whether a new pair loses against the current one, which has already renewed the same pair.
    /// In IKEv2 the session knows (RFC 7296 §2.8.1).
    pub(super) fn is_outdone(&self, new: &Pair, agreed: &AgreedChild) -> bool {
        if let Some(is_redundant) = agreed.is_redundant {
            return is_redundant;
        }
        let renews = agreed.renews;
        let current = self.children.get(&agreed.child);
        let current = current.and_then(|entry| entry.current.as_ref());
        current.is_some_and(|it| Some(it.spi_in) != renews && it.outdoes(new))
    }

    /// Keeps a pair for receiving what the peer may seal with it.
    pub(super) fn keep_beside(&mut self, child: ChildId, pair: Pair) {
        if let Some(entry) = self.children.get_mut(&child) {
            let until = pair.since + OVERLAP * 4;
            entry.old.push((pair, until));
            self.arm_child(child);
        }
    }
}
