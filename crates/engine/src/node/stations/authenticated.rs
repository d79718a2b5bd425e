//! A gateway says how long our authentication is good for (RFC 4478), and ends the session then.
//! Before that, its station authenticates again at the same address, in a session of its own. It
//! gets the same inner address where its gateway has one tunnel of an identity. The old tunnel
//! stays until the gateway has believed us: it removes it then (INITIAL_CONTACT).
//!
//! Left out: a lifetime that we choose ourselves. Our own IKE SAs are renewed.

use std::sync::Arc;

use super::State;
use crate::config::Connection;
use crate::ike::Role;
use crate::node::Node;
use crate::node::session_id::SessionId;
use crate::node::timers::renewal;
use crate::time::{Duration, Instant};

/// A session lives so long at least before we authenticate again, whatever the gateway says.
pub(in crate::node) const LEAST_STAY: Duration = Duration::from_secs(30);
/// After an attempt that came to nothing, another one follows, while the gateway keeps the tunnel.
const TRIED_AGAIN_AFTER: Duration = Duration::from_secs(30);

impl Node {
    /// The gateway of this session ends it after this time (RFC 4478 §2). We authenticate again as
    /// long before that as an IKE SA is renewed before its end.
    pub(in crate::node) fn authentication_lasts(
        &mut self,
        id: SessionId,
        lifetime: Duration,
        now: Instant,
    ) {
        let (Some(index), Some(session)) = (self.stations.of_session(id), self.sessions.get(&id))
        else {
            return;
        };
        let since = session.ike.since().unwrap_or(now);
        let station = &mut self.stations[index];
        if !station.connection.reauth {
            return;
        }
        let (own, margin) = (station.connection.lifetime, station.connection.rekey_margin);
        let due = now + renewal(lifetime, own, margin, Role::Initiator);
        station.authenticates_at = Some(due.max(since + LEAST_STAY));
        self.arm_station(index);
    }

    /// Begins a session beside the tunnel, if it is time.
    pub(super) fn authenticate_when_due(&mut self, index: usize, now: Instant) {
        let station = &mut self.stations[index];
        let is_due = station.authenticates_at.take_if(|at| *at <= now).is_some();
        if !is_due || station.state.session().is_none() {
            return;
        }
        station.authenticates_at = Some(now + TRIED_AGAIN_AFTER);
        if matches!(station.state, State::Up(_)) {
            self.race_to_authenticate(index, now);
        }
    }

    /// Whether a connection's attempt stands beside a tunnel that both ends have. A ticket of it
    /// would prove nothing.
    pub(super) fn authenticates_again(&self, connection: &Arc<Connection>) -> bool {
        let mut stations = self.stations.iter();
        stations.any(|it| Arc::ptr_eq(&it.connection, connection) && it.race.is_again())
    }
}
