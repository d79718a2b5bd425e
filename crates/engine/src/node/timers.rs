//! All timers of a node in one ordered set: the next deadline costs nothing to find however many
//! sessions there are.

use std::collections::{BTreeMap, BTreeSet};

use super::session::SessionId;
use crate::sa::ChildId;
use crate::time::{Deadline, Instant};

/// Whose timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Session(SessionId),
    Child(ChildId),
    /// By its index, which is kept small: there are two timers for each tunnel.
    Station(u32),
}

impl Timer {
    /// The timer of the station with this index.
    pub(super) fn of_station(index: usize) -> Self {
        Self::Station(u32::try_from(index).expect("fewer stations than 2^32"))
    }
}

/// At most one deadline for each [`Timer`].
#[derive(Default)]
pub(super) struct Timers {
    order: BTreeSet<(Instant, Timer)>,
    armed: BTreeMap<Timer, Deadline>,
}

impl Timers {
    /// Replaces the timer's deadline.
    pub(super) fn arm(&mut self, timer: Timer, deadline: Option<Deadline>) {
        if self.armed.get(&timer).copied() == deadline {
            return;
        }
        if let Some(old) = self.armed.remove(&timer) {
            self.order.remove(&(old.at, timer));
        }
        if let Some(deadline) = deadline {
            self.order.insert((deadline.at, timer));
            self.armed.insert(timer, deadline);
        }
    }

    /// Takes out a timer that is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let &(at, timer) = self.order.first()?;
        if at > now {
            return None;
        }
        self.arm(timer, None);
        Some(timer)
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Deadline> {
        self.order
            .first()
            .and_then(|(_, timer)| self.armed.get(timer).copied())
    }
}
