//! Assigns events and costs to peers. [`crate::quotas`] has the limits.

use super::session_id::SessionId;
use super::timers::Timer;
use super::{Cause, Node};
use crate::config::Connection;
use crate::identity::Peer;
use crate::plane::Notice;
use crate::quotas::Excess;
use crate::time::Instant;

impl Node {
    /// Whether the log may have a line about an event of this cause. An established peer may cause
    /// a limited number of lines; the rest is counted.
    pub fn takes_line(&mut self, cause: &Cause, now: Instant) -> bool {
        let peer = cause.0.as_ref();
        peer.is_none_or(|peer| self.quotas.take_line(peer, now))
    }

    /// Lines left out since the last call, and about which peers.
    pub fn lines_left_out(&mut self) -> Vec<(String, u64)> {
        self.quotas.left_out()
    }

    /// A message of this session has come. Returns whether the session is established: then its
    /// effects count against its peer.
    pub(super) fn hear(&mut self, id: SessionId) -> bool {
        let session = self.sessions.get(&id);
        let peer = session.and_then(|it| it.ike.identity()).cloned();
        let is_established = peer.is_some();
        self.outputs.blame(peer);
        is_established
    }

    /// The established peer that owns a timer's session or child.
    pub(super) fn owner_of(&self, timer: Timer) -> Option<Peer> {
        let id = match timer {
            Timer::Session(id) => id,
            Timer::Child(child) => self.children.get(&child)?.session?,
            Timer::Station(_)
            | Timer::Accounts
            | Timer::Reminder
            | Timer::Radius
            | Timer::Away
            | Timer::Farewell(_) => return None,
        };
        self.sessions.get(&id)?.ike.identity().cloned()
    }

    /// The established peer whose packets caused a notice; `None`: our own traffic did.
    pub(super) fn sender_of(&self, notice: &Notice) -> Option<Peer> {
        match notice {
            Notice::PathMoved { child, .. } | Notice::InboundUsed { child, .. } => {
                self.owner_of(Timer::Child(*child))
            }
            _ => None,
        }
    }

    /// Whether a peer that connects to us may negotiate one more child.
    pub(super) fn charge_child(
        &mut self,
        id: SessionId,
        connection: &Connection,
        now: Instant,
    ) -> Result<(), Excess> {
        let comes_to_us = connection.remote_addrs.is_empty();
        match self.sessions.get(&id).and_then(|it| it.ike.identity()) {
            Some(identity) if comes_to_us && self.config.limits.has_quotas => {
                let peers_max = connection.peers_max;
                self.quotas.take_child(identity, peers_max, now)
            }
            _ => Ok(()),
        }
    }
}
