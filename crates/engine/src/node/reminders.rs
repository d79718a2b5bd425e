//! A gateway that begins anew knows nothing of the peers that an earlier process served. Those that
//! send hear so at once (`hints.rs`); one that is idle would not know before its own next question.
//! Whoever runs the node keeps where peers were ([`Node::places`]), and gives that back to the next
//! one ([`Command::Remind`](crate::node::Command::Remind)): each place is told once, with the same
//! unsigned hint.
//!
//! What was kept proves nothing. At worst a few thousand strangers get one small packet each, at a
//! pace that is no flood; what a peer makes of it is in `liveness/unheard.rs`.

use std::collections::BTreeSet;

use crate::ikev1::in_clear::unknown_child;
use crate::node::session::with_marker;
use crate::node::timers::Timer;
use crate::node::{Node, Output};
use crate::sa::Path;
use crate::time::{Deadline, Duration, Instant};

/// Places that are kept, and told, at most.
pub const PLACES_MAX: usize = 4_096;
/// Between two reminders, at least: whoever hears one may set up a tunnel at once.
const PAUSE: Duration = Duration::from_millis(10);
/// What is added to each pause at random, so that gateways that restart together do not speak in
/// step.
const JITTER: Duration = Duration::from_millis(10);

/// Whom nobody has told yet.
#[derive(Default)]
pub(super) struct Reminders {
    left: Vec<Path>,
    armed: Option<Instant>,
}

impl Node {
    /// Where the peers are that we answer: the newest first, [`PLACES_MAX`] at most.
    pub fn places(&self) -> Vec<Path> {
        let ours = self.sessions.values().rev().filter(|session| {
            let connection = session.connection.as_ref();
            session.sa.is_some() && connection.is_some_and(|it| it.remote_addrs.is_empty())
        });
        let mut seen = BTreeSet::new();
        let places = ours.map(|session| session.path);
        let new = places.filter(|path| seen.insert((path.local, path.remote)));
        new.take(PLACES_MAX).collect()
    }

    /// Peers were at these places when an earlier process ended.
    pub(super) fn remind(&mut self, mut places: Vec<Path>, now: Instant) {
        places.truncate(PLACES_MAX);
        // The first one is told first.
        places.reverse();
        self.reminders.left = places;
        self.arm_reminder(now);
    }

    /// Tells the next one, unless it is here already or nobody whom we would answer.
    pub(super) fn on_reminder_timer(&mut self, now: Instant) {
        self.reminders.armed = None;
        while let Some(path) = self.reminders.left.pop() {
            let is_known = self.sessions.values().any(|session| session.path == path);
            if is_known || self.is_stopping || !self.answers_at(path) {
                continue;
            }
            // No association has this SPI (RFC 4303 §2.1).
            let hint = with_marker(path, unknown_child(0, &mut self.random));
            self.outputs.push_back(Output::Datagram(path, hint));
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
