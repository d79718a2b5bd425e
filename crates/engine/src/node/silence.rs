//! Large packets without an answer: a small probe tells whether the path loses only large packets,
//! or all packets.

use super::Node;
use super::session_id::SessionId;
use crate::node::Event;
use crate::plane::OutboundChange;
use crate::sa::ChildId;
use crate::time::{Duration, Instant};

/// A later answer may come over a link that was down when the probe was sent.
const PROMPT: Duration = Duration::from_millis(1_500);
/// Time between two probes of one session.
const INTERVAL: Duration = Duration::from_millis(500);

/// A probe about large packets.
#[derive(Clone, Copy)]
pub(super) struct SmallQuestion {
    child: ChildId,
    number: u32,
    at: Instant,
}

impl Node {
    /// A large segment of this child is repeated again and again.
    pub(super) fn large_unanswered(&mut self, child: ChildId, now: Instant) {
        let id = self.children.get(&child).and_then(|child| child.session);
        let Some((id, session)) = id.and_then(|id| Some((id, self.sessions.get(&id)?))) else {
            return;
        };
        let is_fresh = |asked: &SmallQuestion| now.since(asked.at) < INTERVAL;
        if session.asked_small.as_deref().is_some_and(is_fresh) {
            return;
        }
        let Some(number) = self.ask(id, now) else {
            return;
        };
        if let Some(session) = self.sessions.get_mut(&id) {
            session.asked_small = Some(Box::new(SmallQuestion {
                child,
                number,
                at: now,
            }));
        }
    }

    /// The peer has answered one of our probes.
    pub(super) fn small_answered(&mut self, id: SessionId, number: u32, now: Instant) {
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let asked = session.asked_small.take_if(|asked| asked.number == number);
        if let Some(asked) = asked.filter(|asked| now.since(asked.at) <= PROMPT) {
            self.outputs.outbound(OutboundChange::Doubt(asked.child));
        }
    }

    /// The packets of a child are smaller from now on.
    pub(super) fn path_shrank(&mut self, child: ChildId, mtu: u16) {
        let Some(entry) = self.children.get(&child) else {
            return;
        };
        let event = Event::PathShrank {
            connection: entry.connection.name.clone(),
            child: entry.child().name.clone(),
            mtu,
        };
        self.outputs.tell(event);
    }
}
