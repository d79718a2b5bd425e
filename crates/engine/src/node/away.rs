//! A gateway that sends its peers to another one (RFC 5685), for example because it is to be taken
//! down: first messages are answered with the other gateway, who authenticates is sent there with
//! the answer, and who is connected is told, one after the other. Peers that have not said that
//! they can go elsewhere are served as ever.

use wire::ikev2::Gateway;

use super::session_id::SessionId;
use super::{Event, Node, Timer};
use crate::ikev2::words_of;
use crate::time::{Deadline, Duration, Instant};

/// Time between two connected peers that are told: each sets up a tunnel elsewhere at once.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a peer that was sent elsewhere with its authentication may take to end the IKE SA.
const GRACE: Duration = Duration::from_secs(10);

/// Where peers are sent.
#[derive(Default)]
pub(super) struct Away {
    pub(super) to: Option<Gateway>,
    /// Connected peers that are still to be told, the last one first.
    left: Vec<SessionId>,
    armed: Option<Instant>,
}

impl Node {
    /// Sends peers to this gateway from now on; `None`: to none any more.
    pub(super) fn drain(&mut self, to: Option<Gateway>, now: Instant) {
        let mut left = Vec::new();
        if let Some(to) = &to {
            left = self.sessions.ids(|it| it.ike.may_be_sent_to(to));
            left.reverse();
        }
        self.outputs.tell(Event::Draining {
            to: to.as_ref().map(words_of),
            peers: left.len(),
        });
        self.away.to = to;
        self.away.left = left;
        self.arm_away(now);
    }

    /// Where peers are sent, if they are.
    pub fn draining(&self) -> Option<String> {
        self.away.to.as_ref().map(words_of)
    }

    /// The next connected peer is told.
    pub(super) fn on_away_timer(&mut self, now: Instant) {
        self.away.armed = None;
        let to = self.away.to.clone();
        while let (Some(to), Some(id)) = (&to, self.away.left.pop()) {
            if self.send_to(id, to, now) {
                break;
            }
        }
        self.arm_away(now + PAUSE);
    }

    /// A peer has authenticated: it is sent elsewhere with the answer, if it can be. Its session
    /// ends soon.
    pub(super) fn send_away_at_once(&mut self, id: SessionId, now: Instant) {
        let Some(to) = self.away.to.clone() else {
            return;
        };
        if self.send_to(id, &to, now)
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.stage.sent_away(now + GRACE);
            self.arm_session(id);
        }
    }

    /// Whether our answer to the peer's authentication sends it elsewhere: it gets nothing else.
    pub(super) fn is_sent_away(&self, id: SessionId) -> bool {
        let ike = self.sessions.get(&id).and_then(|it| it.ike.v2());
        ike.is_some_and(|ike| ike.is_sent_away())
    }

    /// Sends a peer elsewhere. Returns whether it can go there.
    fn send_to(&mut self, id: SessionId, to: &Gateway, now: Instant) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            return false;
        };
        if !session.ike.may_be_sent_to(to) {
            return false;
        }
        let mut out = session.ike.outbox();
        if let Some(ike) = session.ike.v2_mut() {
            ike.send_away(to, &mut self.random, now, &mut out);
        }
        self.flush(Some(id), out);
        self.arm_session(id);
        true
    }

    fn arm_away(&mut self, at: Instant) {
        let deadline = (!self.away.left.is_empty()).then_some(Deadline {
            at,
            why: "a peer is sent to another gateway",
        });
        let armed = &mut self.away.armed;
        self.timers.arm(Timer::Away, armed, deadline);
    }
}
