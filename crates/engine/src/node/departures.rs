//! Messages that leave later than they were made. The wait for their answers starts when they
//! leave.

use super::Node;
use super::session::Session;
use crate::time::Instant;

impl Node {
    pub(super) fn on_departed(&mut self, now: Instant) {
        for id in core::mem::take(&mut self.departing) {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.departed(self.last_input, now);
            }
            self.arm_session(id);
        }
    }
}

impl Session {
    /// What was sent at `began` left only `now`.
    fn departed(&mut self, began: Instant, now: Instant) {
        if let Some(phase1) = &mut self.phase1 {
            phase1.departed(began, now);
        }
        if let Some(request) = &mut self.config_request {
            request.departed(began, now);
        }
        for pending in &mut self.quicks {
            pending.quick.departed(began, now);
        }
    }
}
