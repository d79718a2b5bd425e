//! Messages that leave later than they were made. The wait for their answers starts when they
//! leave.

use super::Node;
use crate::time::Instant;

impl Node {
    pub(super) fn on_departed(&mut self, now: Instant) {
        for id in core::mem::take(&mut self.departing) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.ike.departed(self.last_input, now);
            }
            self.arm_session(id);
        }
    }
}
