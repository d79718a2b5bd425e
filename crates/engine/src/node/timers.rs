//! All timers of a node in one ordered map, so the next deadline is found at once, even with many
//! sessions. Each owner stores the time of its own timer.

use std::collections::BTreeMap;

use super::session_id::SessionId;
use crate::ike::Role;
use crate::sa::ChildId;
use crate::time::{Deadline, Duration, Instant};

/// The owner of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Session(SessionId),
    Child(ChildId),
    /// A station by index, small because there are two timers for each tunnel.
    Station(u32),
    /// Ends of sessions that wait for the planes.
    Accounts,
    /// Former peers are reminded one by one.
    Reminder,
    /// A server of RADIUS has not answered.
    Radius,
    /// Connected peers are sent to another gateway one by one.
    Away,
    /// A session that is over, whose peer does not know yet.
    Farewell(SessionId),
}

impl Timer {
    /// The timer of the station with this index.
    pub(super) fn of_station(index: usize) -> Self {
        Self::Station(u32::try_from(index).expect("fewer stations than 2^32"))
    }
}

/// At most one deadline for each [`Timer`], with its reason.
#[derive(Default)]
pub(super) struct Timers {
    set: BTreeMap<(Instant, Timer), &'static str>,
    /// When timers fired last: none is set to that moment again, or to one before.
    fired: Option<Instant>,
}

/// Minimum time between two firings of one timer, whatever the configuration.
const PAUSE: Duration = Duration::from_millis(1);

impl Timers {
    /// Replaces the timer's deadline. `armed` is the owner's record of it.
    pub(super) fn arm(
        &mut self,
        timer: Timer,
        armed: &mut Option<Instant>,
        deadline: Option<Deadline>,
    ) {
        if let Some(at) = armed.take() {
            self.set.remove(&(at, timer));
        }
        if let Some(Deadline { at, why }) = deadline {
            let at = match self.fired {
                Some(fired) if at <= fired => fired + PAUSE,
                _ => at,
            };
            self.set.insert((at, timer), why);
            *armed = Some(at);
        }
    }

    /// Timers fire. Timers that are set again are due after `now`, so firing ends.
    pub(super) fn fire_from(&mut self, now: Instant) {
        self.fired = Some(now);
    }

    /// Removes a due timer. Its owner rearms it, or is gone.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Timer> {
        let first = self.set.first_entry()?;
        let (at, timer) = *first.key();
        (at <= now).then(|| {
            first.remove();
            timer
        })
    }

    /// The earliest deadline.
    pub(super) fn next(&self) -> Option<Deadline> {
        let (&(at, _), &why) = self.set.first_key_value()?;
        Some(Deadline { at, why })
    }
}

/// When to renew. RFC 2409 lets either end do it. The responder waits a tenth longer, so that two
/// ends with the same configuration do not start together.
///
/// A peer may want a lifetime shorter than `own`, even shorter than the margin, which was chosen
/// for `own`. Then the SA is renewed after half of its lifetime at the earliest.
pub(super) fn renewal(lifetime: Duration, own: Duration, margin: Duration, role: Role) -> Duration {
    let mut after = lifetime.saturating_sub(margin);
    if lifetime < own || after.is_zero() {
        after = after.max(lifetime / 2);
    }
    match role {
        Role::Initiator => after,
        Role::Responder => (after + after / 10).min(lifetime),
    }
}
