//! Reminders after a restart. A restarted gateway does not know the peers of the earlier process.
//! Peers that send get a hint at once (`hints.rs`); an idle peer would only notice at its next
//! probe. So the caller stores the peers' paths ([`Node::peer_paths`]) and gives them to the next
//! node ([`Command::Remind`](crate::node::Command::Remind)), which sends the same unauthenticated
//! hint over each path once.
//!
//! Stored addresses prove nothing. At worst a few thousand strangers get one small packet each, at
//! a low rate. `liveness/unheard.rs` decides what a peer does with it.

use std::collections::BTreeSet;

use crate::ikev1::in_clear::unknown_child;
use crate::node::session::with_marker;
use crate::node::timers::Timer;
use crate::node::{Node, Output};
use crate::sa::Path;
use crate::time::{Deadline, Duration, Instant};

/// Addresses that are kept and reminded at most.
pub const PEER_PATHS_MAX: usize = 4_096;
/// Minimum time between two reminders: each peer may set up a tunnel at once.
const PAUSE: Duration = Duration::from_millis(10);
/// Random addition to each pause, so that gateways that restart together do not send in step.
const JITTER: Duration = Duration::from_millis(10);

/// Peers that were not yet reminded.
#[derive(Default)]
pub(super) struct Reminders {
    left: Vec<Path>,
    armed: Option<Instant>,
}

impl Node {
    /// The paths of the peers that we respond to: the newest first, at most [`PEER_PATHS_MAX`].
    pub fn peer_paths(&self) -> Vec<Path> {
        let ours = self.sessions.values().rev().filter(|session| {
            let connection = session.connection();
            session.ike.is_established() && connection.is_some_and(|it| it.remote_addrs.is_empty())
        });
        let mut seen = BTreeSet::new();
        let paths = ours.map(|session| session.path());
        let new = paths.filter(|path| seen.insert((path.local, path.remote)));
        new.take(PEER_PATHS_MAX).collect()
    }

    /// Peers had these paths when an earlier process ended.
    pub(super) fn remind(&mut self, mut paths: Vec<Path>, now: Instant) {
        paths.truncate(PEER_PATHS_MAX);
        // The first one is reminded first.
        paths.reverse();
        self.reminders.left = paths;
        self.arm_reminder(now);
    }

    /// Reminds the next one, unless it is already connected or no connection would answer it.
    pub(super) fn on_reminder_timer(&mut self, now: Instant) {
        self.reminders.armed = None;
        while let Some(path) = self.reminders.left.pop() {
            let is_known = self.sessions.values().any(|session| session.path() == path);
            if is_known || self.is_stopping || !self.answers_at(path) {
                continue;
            }
            // No association has this SPI (RFC 4303 §2.1).
            let hint = with_marker(path, unknown_child(0, &mut self.random));
            self.outputs.push(Output::Datagram(path, hint));
            break;
        }
        self.arm_reminder(now);
    }

    fn arm_reminder(&mut self, now: Instant) {
        let wait = PAUSE + JITTER.mul_f64(f64::from(self.random.u32() >> 16) / 65_536.0);
        let deadline = (!self.reminders.left.is_empty()).then(|| Deadline {
            at: now + wait,
            why: "a former peer is reminded",
        });
        let armed = &mut self.reminders.armed;
        self.timers.arm(Timer::Reminder, armed, deadline);
    }
}
