//! Restarts an exchange that the peer has forgotten, within the same attempt.

use crate::ike::{Fault, Step};
use crate::node::Node;
use crate::node::session::Purpose;
use crate::node::session_id::SessionId;
use crate::time::Instant;

/// The messages after which silence means this: the peer has answered the first message and has not
/// yet committed to anything. In main mode, later silence may mean that it cannot decrypt.
const FORGOTTEN: [Step; 3] = [Step::Main(3), Step::Intermediate(1), Step::Auth(1)];
/// Restarts per attempt, so that it lasts as long as one whose first message gets no answer.
const RESTARTS: u32 = 5;

impl Node {
    /// Replaces this session at its station by a new exchange, if its fault is that silence. The
    /// caller closes the old one.
    pub(in crate::node) fn begin_again(&mut self, id: SessionId, fault: &Fault, now: Instant) {
        if !matches!(fault, Fault::TimedOut(asked) if FORGOTTEN.contains(&asked.step)) {
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
        // Whoever began this need not be the gateway.
        self.look_beside(index, now);
        self.arm_station(index);
    }
}
