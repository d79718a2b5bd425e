//! A station whose password its gateway refuses. That seldom mends itself, and each try counts
//! against everybody at the same address, so the waits grow long. They end when the user says so,
//! at a reload, and after a move. Other refusals may be a trouble of the gateway's own, such as a
//! list that has expired or a server that is down, and have the ordinary waits.

use super::{FIRST_BACKOFF, State};
use crate::node::Node;
use crate::node::session_id::SessionId;
use crate::time::{Duration, Instant};

/// The longest wait of a station that is refused.
pub(in crate::node) const MAX_REFUSED_BACKOFF: Duration = Duration::from_secs(15 * 60);

/// How often the gateway has refused our password since it let us in.
#[derive(Default)]
pub(super) struct Refused {
    times: u32,
    /// By the attempt that is over, or is under way.
    is_refused: bool,
    /// The station waits for that reason.
    waits: bool,
}

impl Refused {
    /// The longest wait after an attempt that was refused. Doubles with each.
    pub(super) fn take_wait(&mut self) -> Option<Duration> {
        self.waits = core::mem::take(&mut self.is_refused);
        self.waits.then(|| {
            let doubled = FIRST_BACKOFF.saturating_mul(1 << self.times.min(16));
            self.times = self.times.saturating_add(1);
            doubled.min(MAX_REFUSED_BACKOFF)
        })
    }
}

impl Node {
    /// The gateway refuses the password of the station of this session.
    pub(in crate::node) fn station_refused(&mut self, id: SessionId) {
        let racer = self.stations.of_racer(id);
        if let Some(index) = racer.or_else(|| self.stations.of_session(id)) {
            let station = &mut self.stations[index];
            station.refused.is_refused = true;
            // Beside a tunnel, it is not tried again by itself.
            station.authenticates_at = None;
        }
    }

    /// The configuration was read again, and what is in a file may be another: stations that wait
    /// because they were refused try at once, and so do those whose tunnel still stands.
    pub(in crate::node) fn try_refused(&mut self, now: Instant) {
        for index in 0..self.stations.len() {
            let station = &mut self.stations[index];
            let may_ask = station.connection.reauth && !station.is_retired;
            if may_ask && station.refused.is_refused && matches!(station.state, State::Up(_)) {
                station.refused = Refused::default();
                station.authenticates_at = Some(now);
                self.arm_station(index);
                continue;
            }
            let waits = matches!(station.state, State::Backoff(_)) && station.refused.waits;
            if waits && !station.is_retired && !station.ousted.is_resting(now) {
                station.refused = Refused::default();
                station.attempt = 0;
                self.attempt(index, now);
            }
        }
    }
}
