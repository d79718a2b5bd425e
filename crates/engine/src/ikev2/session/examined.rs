//! A peer of the session is examined by a server of RADIUS.

use crypto::rand::Stream;

use super::super::authenticate;
use super::super::window::At;
use super::{Session, State};
use crate::ike::{Fact, Outbox};
use crate::radius::Verdict;
use crate::time::Instant;

impl Session {
    /// Whether a server of RADIUS has seen what may be a password of the peer's, and has said
    /// neither yes nor no.
    pub fn has_open_proof(&self) -> bool {
        let State::Answering(answering) = &self.state else {
            return false;
        };
        let examining = answering.examining.as_ref();
        examining.is_some_and(|it| it.is_unsettled())
    }

    /// Whether a server of RADIUS has seen what may be a password of the peer's.
    pub fn has_sent_password(&self) -> bool {
        let State::Answering(answering) = &self.state else {
            return false;
        };
        let examining = answering.examining.as_ref();
        examining.is_some_and(|it| it.has_guess())
    }

    /// What a server has answered to [`Fact::AsksServer`]. [`Fact::Failed`] ends the session.
    pub fn examined(
        &mut self,
        verdict: Verdict,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Vec<Fact> {
        let state = core::mem::replace(&mut self.state, State::Over);
        let State::Answering(answering) = state else {
            self.state = state;
            return Vec::new();
        };
        let path = self.path;
        let mut at = At {
            path,
            random,
            now,
            out,
        };
        let (answering, fact) = *authenticate::on_verdict(*answering, verdict, &mut at);
        self.state = answering.map_or(State::Over, |it| State::Answering(Box::new(it)));
        vec![fact]
    }
}
