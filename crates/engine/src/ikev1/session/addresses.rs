//! Mode config of a session: our requests and our answers.

use std::net::IpAddr;

use crypto::rand::Stream;

use super::super::message::Message;
use super::super::mode_config::{self, ConfigRequest};
use super::{Established, Question, Session};
use crate::config::InnerFamilies;
use crate::counters::DropReason;
use crate::ike::retransmit::Answered;
use crate::ike::{Fact, Fault, Lease, Outbox, Terms};
use crate::time::Instant;

impl Session {
    /// Requests addresses of these families, those that we `had` before if there are any.
    pub fn ask_addresses(
        &mut self,
        families: InnerFamilies,
        had: &[IpAddr],
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) {
        let message_id = self.next_exchange(random);
        if let Some(it) = self.established_mut() {
            let request = ConfigRequest::initiate(&it.sa, families, had, message_id, now, out);
            it.request = Some(Box::new(request));
            it.remember(message_id, out);
        }
    }

    /// Assigns addresses to the peer, as the answer to its last request.
    pub fn grant_address(&mut self, lease: &Lease, out: &mut Outbox) {
        let Some(it) = self.established_mut() else {
            return;
        };
        let Some(Question::Address(asked, request)) = it.question.take().map(|it| *it) else {
            return;
        };
        let reply = mode_config::reply(&it.sa, &asked, lease, out);
        it.answered = Some(Box::new(Answered::send(&request, Some(reply), out)));
        it.remember(asked.message_id, out);
    }

    /// Ends our request: it was answered.
    pub fn end_request(&mut self) {
        if let Some(it) = self.established_mut() {
            it.request = None;
        }
    }
}

impl Established {
    pub(super) fn on_config(
        &mut self,
        message: &Message<'_>,
        terms: Terms,
        now: Instant,
        out: &mut Outbox,
    ) -> Fact {
        let octets = message.octets();
        let answered = self.answered.as_mut();
        let duplicate = answered.and_then(|answered| answered.take_duplicate(octets, out));
        if duplicate.is_some() {
            return Fact::Pending;
        }
        let request = self.request.as_mut();
        let request = request.filter(|it| it.message_id() == message.id());
        if request.is_none() && self.ids.has(message.id()) {
            return Fact::Dropped(DropReason::RetransmittedMessage);
        }
        let handled = match request {
            Some(request) => {
                let lease = request.on_message(&self.sa, message, now, out);
                lease.map(|lease| Fact::Lease(Some(lease)))
            }
            None if terms.wants_inner.is_any() => self.on_push(message, terms, out),
            None => mode_config::requested(&self.sa, message, out).map(|asked| {
                let wanted = asked.wanted.clone();
                self.question = Some(Box::new(Question::Address(asked, octets.to_vec())));
                Fact::AsksAddress(wanted)
            }),
        };
        handled.unwrap_or_else(|fault| match fault {
            // Authenticated, and nothing better can follow.
            Fault::Incompatible { .. } => Fact::Unfit(fault),
            _ => Fact::Unproven(fault),
        })
    }

    fn on_push(
        &mut self,
        message: &Message<'_>,
        terms: Terms,
        out: &mut Outbox,
    ) -> Result<Fact, Fault> {
        let (lease, ack) = mode_config::pushed(&self.sa, terms.wants_inner, message, out)?;
        self.answered = Some(Box::new(Answered::send(message.octets(), Some(ack), out)));
        self.remember(message.id(), out);
        // A lease without addresses is useless.
        let lease = Some(lease).filter(|lease| !lease.addresses.is_empty());
        Ok(Fact::Lease(lease))
    }
}
