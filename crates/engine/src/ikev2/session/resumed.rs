//! A session that goes on from one that was lost, and tickets for that (RFC 5723).

use std::sync::Arc;

use crypto::rand::Stream;

use super::super::authenticate::Wishes;
use super::super::established::BeganWith;
use super::super::init::{Asking, Heard};
use super::super::lost::{Given, Spent, Ticket};
use super::super::message::Message;
use super::super::resume::Resuming;
use super::super::ticket::Tickets;
use super::{Means, Session, State};
use crate::ike::{Fact, Outbox, Spi};
use crate::time::{Calendar, Instant};

impl Session {
    /// Whether it goes on from a session that was lost.
    pub fn is_resumed(&self) -> bool {
        let began = self.established().map(|it| &it.began_with);
        matches!(
            began,
            Some(BeganWith::OwnTicket | BeganWith::PeersTicket(_))
        )
    }

    /// At a gateway, the ticket that it goes on with, and our SPI of the session that was lost.
    pub(crate) fn resumed_by(&self) -> Option<(Spent, Spi)> {
        match &self.established()?.began_with {
            BeganWith::PeersTicket(ticket) => Some(**ticket),
            BeganWith::Proofs | BeganWith::OwnTicket => None,
        }
    }

    /// Gives the ticket that the peer asks for, or a refusal.
    pub(crate) fn grant_ticket(
        &mut self,
        tickets: &mut Tickets,
        at: (Calendar, Instant),
        random: &mut Stream,
    ) -> Given {
        self.established_mut()
            .map_or_else(Given::default, |it| it.grant_ticket(tickets, at, random))
    }

    /// The ticket that we gave and that must not be used any more.
    pub(crate) fn take_given(&mut self) -> Option<Spent> {
        self.established_mut()?.take_given()
    }

    /// The ticket for the next session, if this one was lost: its own, or one that the gateway has
    /// not answered.
    pub fn take_ticket(&mut self) -> Option<Box<Ticket>> {
        if let Some(it) = self.established_mut() {
            return it.take_ticket();
        }
        match core::mem::replace(&mut self.state, State::Over) {
            State::Resuming(it) => Some(it.0.into_ticket()),
            other => {
                self.state = other;
                self.ticket.take()
            }
        }
    }

    /// The IKE SA was renewed, so its ticket is worth nothing: a station asks for another one. At a
    /// gateway, returns the ticket.
    pub(crate) fn renew_ticket(
        &mut self,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Option<Spent> {
        self.with(random, now, out, |it, at| it.renew_ticket(at))?
    }

    /// The gateway has answered our ticket.
    pub(super) fn on_resume_answer(
        &mut self,
        (mut resuming, wishes): (Resuming, Wishes),
        message: &Message<'_>,
        means: Means<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> (State, Vec<Fact>) {
        match resuming.on_message(message, now, out) {
            Ok(Heard::Made(made)) => {
                let with = (resuming.connection, resuming.path);
                self.authenticate(with, *made, wishes, (means.random, now), out)
            }
            Ok(Heard::SentTo(gateway)) => (State::Over, vec![Fact::SentTo(gateway)]),
            Ok(Heard::TicketRefused) => {
                let state = self.without_ticket((resuming, wishes), means.random, now, out);
                self.ticket = None;
                (state, vec![Fact::Pending])
            }
            heard => {
                let fact = match heard {
                    Err(reason) => Fact::Dropped(reason),
                    Ok(_) => Fact::Pending,
                };
                (State::Resuming(Box::new((resuming, wishes))), vec![fact])
            }
        }
    }

    /// The gateway does not answer the ticket.
    pub(super) fn begin_without_ticket(
        &mut self,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.state = match core::mem::replace(&mut self.state, State::Over) {
            State::Resuming(it) => self.without_ticket(*it, random, now, out),
            other => other,
        };
    }

    /// Begins with IKE_SA_INIT, under another SPI.
    fn without_ticket(
        &mut self,
        (resuming, wishes): (Resuming, Wishes),
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> State {
        let to = (resuming.path, resuming.travel);
        let connection = Arc::clone(&resuming.connection);
        let asking = Asking::begin(connection, to, random, now, out);
        self.ticket = Some(resuming.into_ticket());
        self.first_spi = asking.spi;
        State::Asking(Box::new((asking, wishes)))
    }
}
