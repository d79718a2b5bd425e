//! A gateway has shown that it has lost a station's tunnel (RFC 6290): it runs, so the station is
//! back without a wait.

use super::State;
use crate::config::Start;
use crate::node::{EndCause, Node};
use crate::time::{Duration, Instant};

/// A gateway that loses the tunnel again within this time is tried after the usual wait.
const PAUSE: Duration = Duration::from_secs(10);

impl Node {
    /// Begins again at once, at the address that was used. Returns whether it does.
    pub(super) fn comes_back(&mut self, index: usize, now: Instant) -> bool {
        let station = &mut self.stations[index];
        let is_up = matches!(station.state, State::Up(_));
        let is_wanted = station.connection.start != Start::OnTraffic;
        let is_again = station.crashed.is_some_and(|at| now.since(at) < PAUSE);
        if !is_up || !is_wanted || is_again {
            return false;
        }
        station.crashed = Some(now);
        station.retry_children_at = None;
        let addresses = &station.connection.remote_addrs;
        let used = addresses.iter().position(|it| Some(*it) == station.used);
        station.first = used.unwrap_or(0);
        self.end_race(index, EndCause::OtherAddressFirst, now);
        self.attempt(index, now);
        true
    }
}
