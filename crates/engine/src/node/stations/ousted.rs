//! If the peer ends a station's tunnel soon after it came up, the station waits before it tries
//! again, longer each time. Another device may have its identity, and each would end the other's
//! tunnel.

use super::super::Node;
use super::super::session_id::SessionId;
use crate::time::{Duration, Instant};

/// Wait before the first new attempt; doubles with each.
const FIRST_WAIT: Duration = Duration::from_secs(30);
/// The longest wait.
const MAX_WAIT: Duration = Duration::from_secs(15 * 60);
/// After this time without such an end, waits are short again.
const CALM: Duration = Duration::from_secs(60 * 60);
/// A tunnel that lasted this long was useful, so its end does not count.
const BRIEF: Duration = Duration::from_secs(20);

/// How often that happened.
#[derive(Default)]
pub(super) struct Ousted {
    times: u32,
    last: Instant,
    until: Instant,
}

impl Ousted {
    /// The remaining wait of the station.
    pub(super) fn rest(&self, now: Instant) -> Duration {
        self.until.since(now)
    }

    /// Whether it still has to wait.
    pub(super) fn is_resting(&self, now: Instant) -> bool {
        !self.rest(now).is_zero()
    }

    /// Without a reason, the first end counts as an ordinary loss: a gateway that stops deletes
    /// too.
    fn count(&mut self, is_for_another: bool, now: Instant) {
        if now.since(self.last) >= CALM {
            self.times = 0;
        }
        self.last = now;
        let before = match is_for_another {
            true => Some(self.times),
            false => self.times.checked_sub(1),
        };
        if let Some(before) = before {
            let doubled = FIRST_WAIT.saturating_mul(1 << before.min(16));
            self.until = now + doubled.min(MAX_WAIT);
        }
        self.times = self.times.saturating_add(1);
    }
}

impl Node {
    /// The peer ends a station's session, in favour of another device or without a reason.
    pub(in super::super) fn station_ousted(
        &mut self,
        id: SessionId,
        is_for_another: bool,
        now: Instant,
    ) {
        let since = self.sessions.get(&id).and_then(|it| it.ike.since());
        let is_brief = since.is_some_and(|since| now.since(since) < BRIEF);
        if (is_for_another || is_brief)
            && let Some(index) = self.stations.of_session(id)
        {
            self.stations[index].ousted.count(is_for_another, now);
        }
    }
}
