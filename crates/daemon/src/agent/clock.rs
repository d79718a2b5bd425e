//! Both times of an agent: the monotonic one by which it waits, the calendar that messages have.

use std::time::{SystemTime, UNIX_EPOCH};

use engine::agent::Clock;
use engine::time::{Calendar, Deadline, Instant};

use crate::planes;

/// The calendar was set if it differs by more than this from where it should be.
const SET_SECONDS: u64 = 1;

/// The times of a process.
pub(super) struct Times {
    monotonic: planes::Clock,
    told: Clock,
}

impl Times {
    /// Begins at zero, and with the time of the system.
    pub(super) fn start() -> Self {
        let monotonic = planes::Clock::start();
        let told = Clock {
            calendar: calendar(),
            told: monotonic.now(),
        };
        Self { monotonic, told }
    }

    /// Time since the start.
    pub(super) fn now(&self) -> Instant {
        self.monotonic.now()
    }

    /// The calendar for a machine.
    pub(super) fn clock(&self) -> Clock {
        self.told
    }

    /// The calendar, if somebody has set it since the last call.
    pub(super) fn was_set(&mut self) -> Option<Clock> {
        let (is, now) = (calendar(), self.now());
        if self.told.at(now).0.abs_diff(is.0) <= SET_SECONDS {
            return None;
        }
        self.told = Clock {
            calendar: is,
            told: now,
        };
        Some(self.told)
    }

    /// Sleeps until a deadline. Without one, forever.
    pub(super) async fn sleep(&self, until: Option<Deadline>) {
        match until {
            Some(deadline) => tokio::time::sleep(deadline.at.since(self.now())).await,
            None => std::future::pending().await,
        }
    }
}

/// The system's time.
pub(super) fn calendar() -> Calendar {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    Calendar(i64::try_from(seconds).unwrap_or(i64::MAX))
}
