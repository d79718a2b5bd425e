//! A host's own programs: their packets, and what TLS computes for them, are jobs of its processor.

use engine::time::Instant;

use super::{Host, Job, Part};

impl Host {
    /// Lets its programs go on: what they send, and the work of TLS, become jobs.
    pub(super) fn poll_stack(&mut self, now: Instant) {
        let Some(stack) = &mut self.stack else { return };
        if let Part::Control(control) = &mut self.part
            && self.entrance.within.is_none()
            && let Some(address) = control.take_inner_address()
        {
            stack.set_address(address);
        }
        for packet in stack.poll(now) {
            if self.jobs.len() < self.config.queue {
                self.jobs.push_back(Job::Stack(packet));
            } else {
                self.dropped.queue_full += 1;
            }
        }
        let works = stack.take_work().into_iter();
        self.jobs
            .extend(works.map(|(transfer, seconds)| Job::Secure(transfer, seconds)));
    }

    /// The work for a protected connection of its stack is done.
    pub(super) fn secured(&mut self, transfer: usize, now: Instant) {
        if let Some(stack) = &mut self.stack {
            stack.worked(transfer, now);
        }
    }
}
