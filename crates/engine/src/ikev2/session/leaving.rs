//! A session that is over, until its peer knows.

use crypto::rand::Stream;

use super::{Session, State};
use crate::ike::Outbox;
use crate::time::Instant;

impl Session {
    /// Tells the peer that the session is over, as soon as it may be told: after its answer to the
    /// request that is open. That can be IKE_AUTH, by which the peer may have established it.
    /// Returns whether the session must stay for that: until [`Self::has_left`].
    pub fn leave(&mut self, random: &mut Stream, now: Instant, out: &mut Outbox) -> bool {
        self.is_leaving = true;
        match &mut self.state {
            State::Authenticating(it) if it.may_be_established() => it.sa.hurry(now, out),
            _ => self
                .with(random, now, out, |it, at| it.leave(at))
                .unwrap_or_default(),
        }
        !self.has_left()
    }

    /// Whether the peer knows that the session is over, or has nothing to end.
    pub fn has_left(&self) -> bool {
        match &self.state {
            State::Authenticating(it) => !it.may_be_established(),
            State::Established(it) => it.has_left(),
            State::Resuming(_) | State::Asking(_) | State::Answering(_) | State::Over => true,
        }
    }
}
