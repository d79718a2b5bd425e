//! One-way messages of a session: deletes, refusals, probes.

use crypto::rand::Stream;

use super::super::informational;
use super::super::message::Message;
use super::{Established, Question, Session};
use crate::ike::{Fact, Outbox, Refusal};

/// The subject of a refusal.
#[derive(Clone, Copy)]
pub enum About {
    /// The session.
    Session,
    /// The peer's last request.
    Question,
    /// The exchange with this SPI of ours.
    Exchange(u32),
}

impl Session {
    /// Tells the peer about a refusal; `None`: nothing to tell. Its last request is then answered.
    pub fn refuse(
        &mut self,
        refusal: Option<Refusal>,
        about: About,
        random: &mut Stream,
        out: &mut Outbox,
    ) {
        let message_id = self.next_exchange(random);
        let of_exchange = match about {
            About::Exchange(spi) => self.proposed(spi),
            About::Session | About::Question => None,
        };
        let Some(it) = self.established_mut() else {
            return;
        };
        let question = it.question.take_if(|_| matches!(about, About::Question));
        let refused = match question.as_deref() {
            Some(Question::Child(quick)) => {
                it.remember(quick.message_id(), out);
                quick.proposed()
            }
            _ => of_exchange,
        };
        if let Some(refusal) = refusal {
            let payload = informational::refusal(&it.sa, refusal, refused);
            informational::send(&it.sa, vec![payload], message_id, out);
            it.remember(message_id, out);
        }
    }

    /// Tells a peer that supports it that its tunnel ends, because another device connected with
    /// the same identity.
    pub fn supersede(&mut self, random: &mut Stream, out: &mut Outbox) {
        let message_id = self.next_exchange(random);
        if let Some(it) = self.established_mut().filter(|it| it.sa.peer.caravan) {
            let notice = informational::refusal(&it.sa, Refusal::Superseded, None);
            informational::send(&it.sa, vec![notice], message_id, out);
            it.remember(message_id, out);
        }
    }

    /// Sends R-U-THERE with this number, in an exchange of ours. Returns the octets of the message.
    pub fn probe(&self, exchange: u32, number: u32, out: &mut Outbox) -> usize {
        self.sa().map_or(0, |sa| {
            let payload = informational::are_you_there(sa, number);
            informational::send(sa, vec![payload], exchange, out)
        })
    }

    /// Answers R-U-THERE.
    pub fn answer_probe(&self, number: u32, random: &mut Stream, out: &mut Outbox) {
        let exchange = self.next_exchange(random);
        if let Some(sa) = self.sa() {
            let payload = informational::i_am_here(sa, number);
            informational::send(sa, vec![payload], exchange, out);
        }
    }

    /// Tells the peer that the session is over.
    pub fn delete(&self, exchange: u32, out: &mut Outbox) {
        if let Some(sa) = self.sa() {
            let payload = informational::delete_ike(sa);
            informational::send(sa, vec![payload], exchange, out);
        }
    }
}

impl Established {
    pub(super) fn on_informational(&mut self, message: &Message<'_>, out: &mut Outbox) -> Fact {
        match informational::read(&self.sa, message, out) {
            Ok(notices) => Fact::Told(message.id(), notices),
            Err(fault) => Fact::Unreadable(fault),
        }
    }
}
