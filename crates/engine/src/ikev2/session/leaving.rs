//! A session that is over, until its peer knows.

use crypto::rand::Stream;
use wire::ikev2::Exchange;

use super::super::answering::Answering;
use super::super::authenticate;
use super::super::message::Message;
use super::super::window::{At, IkeSa, Opened, Read};
use super::{Session, State};
use crate::counters::DropReason;
use crate::ike::retransmit::Answered;
use crate::ike::{Fact, Outbox, Spi};
use crate::sa::Path;
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
            State::Ending(sa) => !sa.is_telling(),
            State::Resuming(_) | State::Asking(_) | State::Answering(_) | State::Over => true,
        }
    }

    /// Whether a fault has ended it, and the peer has not answered what it was told of that.
    pub fn is_telling(&self) -> bool {
        matches!(&self.state, State::Ending(sa) if sa.is_telling())
    }

    /// Nothing goes on but what the peer is told of the end.
    pub(super) fn keep_telling(&mut self) {
        self.state = match core::mem::replace(&mut self.state, State::Over) {
            State::Authenticating(it) if it.sa.is_telling() => State::Ending(Box::new(it.sa)),
            other => other,
        };
    }

    /// Our last answer under each IKE SA, with our SPI of it.
    pub fn take_answers(&mut self) -> Vec<(Spi, Answered)> {
        let sas = match &mut self.state {
            State::Established(it) => &mut it.sas[..],
            State::Ending(sa) => core::slice::from_mut(&mut **sa),
            _ => &mut [],
        };
        let all = sas.iter_mut();
        all.filter_map(|sa| Some((sa.own_spi(), sa.take_answer()?)))
            .collect()
    }
}

/// The peer ends an exchange with this request.
pub(super) fn given_up(
    mut answering: Answering,
    opened: &Opened,
    at: &mut At<'_>,
) -> (State, Vec<Fact>) {
    answering.sa.answer(opened, &[], at);
    let fault = authenticate::given_up(&answering);
    let sa = Box::new(answering.sa);
    (State::Ending(sa), vec![Fact::Failed(fault)])
}

/// A message for a session that is over, which came from there.
pub(super) fn on_last(
    mut sa: Box<IkeSa>,
    from: Path,
    message: &Message<'_>,
    at: &mut At<'_>,
) -> (State, Vec<Fact>) {
    let fact = match sa.read(from, message, at.now, at.out) {
        Ok(Read::New(opened)) if opened.is_response => {
            sa.answered(at.now, at.out);
            Fact::Heard
        }
        Ok(Read::New(opened)) if opened.is_request(Exchange::Informational) => {
            sa.answer(&opened, &[], at);
            Fact::Heard
        }
        Ok(Read::New(_)) => Fact::Dropped(DropReason::UnexpectedMessage),
        Ok(Read::Unreadable(_)) => Fact::Dropped(DropReason::MalformedMessage),
        Ok(Read::Nothing) => Fact::Pending,
        Err(reason) => Fact::Dropped(reason),
    };
    (State::Ending(sa), vec![fact])
}
