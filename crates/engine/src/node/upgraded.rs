//! Peers that have used IKEv2 with a connection that takes either version. From then on IKEv1 is
//! refused to them: who can drop a peer's messages of IKEv2 must not bring it back to IKEv1.
//!
//! What is remembered outlives the process ([`Event::Upgraded`], [`super::Command::Upgraded`])
//! until the user says otherwise ([`super::Command::Forget`]). A peer of a key that many share is
//! not remembered: any holder could name it.

use std::collections::BTreeSet;

use super::session_id::SessionId;
use super::{EndCause, Event, Node};
use crate::config::{Connection, Version};
use crate::counters::DropReason;
use crate::identity::{Mark, Peer};
use crate::ike::Role;
use crate::time::Instant;

/// How many peers are remembered.
pub const UPGRADED_MAX: usize = 1 << 17;

/// The marks of such peers.
#[derive(Default)]
pub(super) struct Upgraded(BTreeSet<Mark>);

impl Upgraded {
    /// Returns whether there was room for all of them.
    pub(super) fn add(&mut self, marks: &[Mark]) -> bool {
        let room = UPGRADED_MAX.saturating_sub(self.0.len());
        self.0.extend(marks.iter().take(room));
        marks.len() <= room
    }

    pub(super) fn forget(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.0.remove(mark);
        }
    }
}

impl Node {
    /// Remembers a client that comes with IKEv2. Returns whether one that has done so before comes
    /// with IKEv1 now: then its session has ended.
    pub(super) fn refuses_downgrade(
        &mut self,
        id: SessionId,
        connection: &Connection,
        now: Instant,
    ) -> bool {
        let session = &self.sessions[&id];
        if connection.version != Version::Either || session.ike.role() != Role::Responder {
            return false;
        }
        let Some(peer) = session
            .ike
            .identity()
            .filter(|it| it.group().is_none())
            .cloned()
        else {
            return false;
        };
        let (mark, path) = (peer.mark(), session.path());
        let is_known = self.upgraded.0.contains(&mark);
        if session.ike.is_v2() {
            if !is_known {
                self.remember_upgraded(connection, &peer, mark);
            }
            return false;
        }
        if is_known {
            self.drops.count(DropReason::Downgraded);
            self.outputs.tell(Event::NegotiationFailed {
                connection: Some(connection.name.clone()),
                path,
                reason: format!(
                    "{peer} has used IKEv2 before, so IKEv1 is refused: if it has changed, \
                     `caravan forget {} --peer {peer}` lets it in again",
                    connection.name
                ),
            });
            self.close_session(id, EndCause::Downgraded, true, now);
        }
        is_known
    }

    fn remember_upgraded(&mut self, connection: &Connection, peer: &Peer, mark: Mark) {
        // Whoever keeps them has the same limit.
        if !self.upgraded.add(&[mark]) {
            return;
        }
        self.outputs.tell(Event::Upgraded {
            connection: connection.name.clone(),
            peer: peer.to_string(),
            mark,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_not_kept() {
        let mark = |number: usize| {
            let mut octets = [0; 32];
            octets[..8].copy_from_slice(&number.to_be_bytes());
            Mark(octets)
        };
        let mut upgraded = Upgraded::default();
        let most: Vec<Mark> = (1..UPGRADED_MAX).map(mark).collect();
        assert!(upgraded.add(&most));
        assert!(upgraded.add(&[mark(UPGRADED_MAX)]));
        assert!(!upgraded.add(&[mark(0)]));
        upgraded.forget(&[mark(1)]);
        assert!(upgraded.add(&[mark(0)]));
    }
}
