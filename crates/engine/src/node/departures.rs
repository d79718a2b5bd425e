//! Messages that leave later than they were made. Waiting for their answers starts when they leave.

use super::Node;
use super::session_id::SessionId;
use crate::time::Instant;

/// Sessions whose messages have not left yet.
#[derive(Default)]
pub(super) struct Departures {
    /// When the last input came.
    since: Instant,
    /// Sessions that have sent something since.
    sessions: Vec<SessionId>,
}

impl Departures {
    /// An input comes.
    pub(super) fn begin(&mut self, now: Instant) {
        if self.since != now {
            self.since = now;
            self.sessions.clear();
        }
    }

    /// A session sends something.
    pub(super) fn add(&mut self, id: SessionId) {
        if self.sessions.last() != Some(&id) {
            self.sessions.push(id);
        }
    }
}

impl Node {
    pub(super) fn on_departed(&mut self, now: Instant) {
        for id in core::mem::take(&mut self.departures.sessions) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.ike.departed(self.departures.since, now);
            }
            self.arm_session(id);
        }
    }
}
