//! Time, as a session sees it.

use crypto::rand::Stream;

use super::super::established::Established;
use super::super::window::At;
use super::{Session, State};
use crate::ike::{Fact, Fault, Outbox};
use crate::time::{Deadline, Duration, Instant};

impl Session {
    /// Its next timer.
    pub fn deadline(&self) -> Option<Deadline> {
        let expiry = self.expires.map(|at| Deadline {
            at,
            why: "the half-open exchange expires",
        });
        let own = match &self.state {
            State::Resuming(it) => Some(it.0.deadline()),
            State::Asking(asking) => asking.0.deadline(),
            State::Authenticating(it) => it.deadline(),
            State::Established(it) => it.deadline(),
            State::Ending(sa) => sa.deadline(),
            State::Answering(_) | State::Over => None,
        };
        [expiry, own].into_iter().flatten().min()
    }

    /// A message sent at `began` left only `now`.
    pub fn departed(&mut self, began: Instant, now: Instant) {
        match &mut self.state {
            State::Resuming(it) => it.0.departed(began, now),
            State::Asking(asking) => asking.0.departed(began, now),
            State::Authenticating(it) => it.sa.departed(began, now),
            State::Established(it) => it.departed(began, now),
            State::Ending(sa) => sa.departed(began, now),
            State::Answering(_) | State::Over => {}
        }
    }

    /// Runs its timers. A fault ends the session.
    pub fn on_deadline(
        &mut self,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        if self.expires.take_if(|at| *at <= now).is_some() {
            return Err(Fault::Unfinished);
        }
        let path = self.path;
        let went = match &mut self.state {
            State::Resuming(it) => match it.0.on_deadline(now, out) {
                Err(Fault::TimedOut(_)) => {
                    self.begin_without_ticket(random, now, out);
                    Ok(())
                }
                went => went,
            },
            State::Asking(asking) => asking.0.on_deadline(now, out),
            State::Authenticating(it) => it.on_deadline(&mut At {
                path,
                random,
                now,
                out,
            }),
            State::Established(it) => it.on_deadline(&mut At {
                path,
                random,
                now,
                out,
            }),
            State::Ending(sa) => sa.fire(now, out),
            State::Answering(_) | State::Over => Ok(()),
        };
        if went.is_err() {
            self.keep_telling();
        }
        went
    }

    /// Exchanges for children that were not begun, because others stand in their place.
    pub fn take_overtaken(&mut self) -> Vec<Fact> {
        self.established_mut()
            .map_or(Vec::new(), Established::take_overtaken)
    }

    /// How long the session may last before it is renewed.
    pub fn lifetime(&self) -> Duration {
        self.established()
            .map_or(Duration::ZERO, Established::lifetime)
    }
}
