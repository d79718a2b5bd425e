//! Starts an exchange again that the peer has forgotten, within the same attempt.

use crate::ike::{Fault, Step};
use crate::node::Node;
use crate::node::session::Purpose;
use crate::node::session_id::SessionId;
use crate::time::Instant;

/// The message after which silence says that: the peer has answered the first one, and has bound
/// itself to nothing yet. What it cannot read comes later.
const FORGOTTEN: Step = Step::Main(3);
/// So often within one attempt, which so lasts as long as one whose first message has no answer.
const RESTARTS: u32 = 5;

impl Node {
    /// Takes this session's place at its station with a new exchange, where its fault is that
    /// silence. The old one is the caller's to close.
    pub(in crate::node) fn begin_again(&mut self, id: SessionId, fault: &Fault, now: Instant) {
        if !matches!(fault, Fault::TimedOut(asked) if asked.step == FORGOTTEN) {
            return;
        }
        let Some(index) = self.stations.of_racer(id) else {
            return;
        };
        let station = &mut self.stations[index];
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        if station.restarts == RESTARTS {
            return;
        }
        station.restarts += 1;
        let (connection, path) = (station.connection.clone(), session.path());
        let anew = self.initiate(connection, path, Purpose::Connect, now);
        self.stations[index].race.replace(id, anew);
    }
}
