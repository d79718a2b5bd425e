//! Quick mode (RFC 2409 §5.5), with and without PFS, NAT-OA (RFC 3947 §5.2) and ESN (RFC 4304).
//!
//! ```text
//! initiator                                               responder
//! HASH(1), SA, Ni [, KE] [, IDci, IDcr] [, NAT-OAi, NAT-OAr] -->
//!     <-- HASH(2), SA, Nr [, KE] [, IDci, IDcr] [, NAT-OAi, NAT-OAr] [, N]
//! HASH(3) -->
//! ```
//! HASH(1) and HASH(2) cover everything after them, including generic headers and NAT-OA, as the
//! text of RFC 2409 §5.5 says and its formulas abbreviate.
//!
//! The initiator repeats message 1 and answers a repeated message 2. The responder, whose peer is
//! authenticated, repeats message 2 and answers a repeated message 1. IKEv1 cannot narrow: a
//! responder accepts the selectors as offered or refuses. Left out: several SA payloads in one
//! exchange, and the commit bit.

use std::net::IpAddr;

use crypto::rand::Stream;
use wire::isakmp::{Exchange, Payload};

use super::IsakmpSa;
use super::informational::ProposedSpi;
use super::message::Message;
use super::names_read;
use super::phase2::Label;
use super::protect::{Iv, Opened};
use crate::config::Child;
use crate::counters::DropReason;
use crate::ike::{ChildOffer, ChildRequest, Fault, NegotiatedChild, Outbox, Step};
use crate::sa::Path;
use crate::suite::Pfs;
use crate::time::{Deadline, Instant};

mod initiator;
mod parts;
mod responder;

use initiator::Proposed;
use responder::{Offered, WaitsForThird};

use crate::ike::retransmit::{Answered, Duplicate, LINGER};

/// The progress of an exchange after a message.
pub enum QuickProgress {
    /// None.
    Pending,
    /// Initiator: the peer repeated message 2, so it has not read message 3, which is sent again.
    Unread,
    /// Initiator: both SAs may be installed. Responder: message 3 came, so outbound may be
    /// installed.
    Complete(Box<NegotiatedChild>),
}

/// A quick mode exchange.
pub struct Quick {
    message_id: u32,
    is_initiator: bool,
    iv: Iv,
    /// The SPI that the peer proposed or chose.
    proposed: Option<ProposedSpi>,
    state: State,
}

/// Octets of our nonces.
const NONCE_LEN: usize = 32;

enum State {
    /// Initiator, message 1 sent.
    Proposed(Box<Proposed>),
    /// Responder, message 1 read.
    Offered(Box<Offered>),
    /// Responder, message 2 sent.
    WaitsForThird(Box<WaitsForThird>),
    /// The SAs were returned.
    Done { answered: Answered, until: Instant },
}

impl Quick {
    /// Starts an exchange.
    pub fn initiate(
        sa: &IsakmpSa,
        request: ChildRequest<'_>,
        message_id: u32,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let mut iv = sa.first_iv(message_id);
        let label = label(message_id, Step::Quick(1));
        let asked = Proposed::send(sa, &request, label, &mut iv, random, now, out)?;
        Ok(Self {
            message_id,
            is_initiator: true,
            iv,
            proposed: None,
            state: State::Proposed(Box::new(asked)),
        })
    }

    /// Reads message 1 of the peer and checks its hash. Decides and sends nothing.
    pub fn offered(
        sa: &IsakmpSa,
        message: &Message<'_>,
        out: &mut Outbox,
    ) -> Result<(Self, ChildOffer), Fault> {
        let header = message.header();
        let message_id = header.message_id;
        // RFC 2408 §3.1: zero belongs to phase 1.
        if header.exchange != Exchange::QuickMode || message_id == 0 {
            return Err(DropReason::UnexpectedMessage.into());
        }
        let mut iv = sa.first_iv(message_id);
        let prefix = [&message_id.to_be_bytes()[..]];
        let opened = sa.open_hashed(message, &mut iv, &prefix, &mut out.work)?;
        let (offered, offer) = Offered::read(sa, message.octets(), &opened)?;
        out.heard(Step::Quick(1), message.size(), names_read(&opened.payloads));
        let quick = Self {
            message_id,
            is_initiator: false,
            iv,
            proposed: proposed(&opened),
            state: State::Offered(Box::new(offered)),
        };
        Ok((quick, offer))
    }

    /// Decides on the offer and answers with message 2. Then inbound may be installed; outbound
    /// waits for message 3. `spi` is our inbound SPI. `own` is our address as we see it. Call it
    /// once, after [`Self::offered`]; a refused exchange is of no further use.
    pub fn accept(
        &mut self,
        sa: &IsakmpSa,
        child: &Child,
        spi: u32,
        own: IpAddr,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Box<NegotiatedChild>, Fault> {
        let State::Offered(offered) = &self.state else {
            return Err(Fault::Misbehaved("message 1 was answered already".into()));
        };
        let agreed = offered.decide(sa, child, spi, random, out)?;
        let label = label(self.message_id, Step::Quick(2));
        let waits = offered.answer(sa, agreed, own, label, &mut self.iv, now, out);
        let child = waits.child();
        self.state = State::WaitsForThird(Box::new(waits));
        Ok(child)
    }

    /// The exchange's message ID.
    pub fn message_id(&self) -> u32 {
        self.message_id
    }

    /// Whether we initiated it.
    pub fn is_initiator(&self) -> bool {
        self.is_initiator
    }

    /// The SPI that identifies the exchange to the peer in a refusal (RFC 2408 §3.14).
    pub fn proposed(&self) -> Option<ProposedSpi> {
        self.proposed.clone()
    }

    /// The request in an unanswered message 1 of ours, and our SPI in it.
    pub fn asked(&self) -> Option<(String, u32)> {
        match &self.state {
            State::Proposed(asked) => Some(asked.words()),
            _ => None,
        }
    }

    /// The PFS group of an unanswered message 1, if other groups could be offered.
    pub fn group_before_others(&self) -> Option<Option<Pfs>> {
        match &self.state {
            State::Proposed(asked) => asked.group_before_others(),
            _ => None,
        }
    }

    /// Whether every suite of an unanswered message 1 has PFS.
    pub fn needs_pfs(&self) -> bool {
        matches!(&self.state, State::Proposed(asked) if asked.needs_pfs())
    }

    /// How often our message 1 was sent, while it is unanswered.
    pub fn was_sent(&self) -> Option<u32> {
        match &self.state {
            State::Proposed(asked) => Some(asked.retransmit.sent()),
            _ => None,
        }
    }

    /// It has returned its SAs, and is kept only to answer duplicates.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done { .. })
    }

    /// Handles a further message of the exchange. A duplicate of an answered one is answered again;
    /// one that does not verify is counted, and the exchange continues.
    pub fn on_message(
        &mut self,
        sa: &IsakmpSa,
        message: &Message<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<QuickProgress, Fault> {
        // The hash does not cover these: they come from the header.
        let header = message.header();
        if header.message_id != self.message_id || header.exchange != Exchange::QuickMode {
            out.drops.count(DropReason::UnexpectedMessage);
            return Ok(QuickProgress::Pending);
        }
        match &mut self.state {
            State::Proposed(asked) => {
                let Some(opened) = asked.open(sa, message, self.message_id, &mut self.iv, out)
                else {
                    return Ok(QuickProgress::Pending);
                };
                self.proposed = proposed(&opened);
                let child = asked.read(sa, &opened, out)?;
                asked.retransmit.answered(now, out);
                out.heard(Step::Quick(2), message.size(), names_read(&opened.payloads));
                let label = label(self.message_id, Step::Quick(3));
                let third = asked.third(sa, &opened, label, &mut self.iv, out);
                self.state = State::Done {
                    answered: Answered::send(message.octets(), Some(third), out),
                    until: now + LINGER,
                };
                Ok(QuickProgress::Complete(Box::new(child)))
            }
            State::WaitsForThird(waits) => {
                if waits.take_duplicate(message.octets(), out) {
                    return Ok(QuickProgress::Pending);
                }
                if !waits.is_third(sa, message, self.message_id, &mut self.iv, out) {
                    return Ok(QuickProgress::Pending);
                }
                waits.retransmit.answered(now, out);
                let child = waits.child();
                self.state = State::Done {
                    answered: Answered::sent(message.octets(), None),
                    until: now + LINGER,
                };
                Ok(QuickProgress::Complete(child))
            }
            State::Done { answered, .. } => {
                match answered.take_duplicate(message.octets(), out) {
                    Some(Duplicate::Answered) => return Ok(QuickProgress::Unread),
                    Some(Duplicate::Ignored) => {}
                    None => out.drops.count(DropReason::UnexpectedMessage),
                }
                Ok(QuickProgress::Pending)
            }
            State::Offered(_) => {
                out.drops.count(DropReason::UnexpectedMessage);
                Ok(QuickProgress::Pending)
            }
        }
    }

    /// The next retransmission, or the time after which duplicates are not answered.
    pub fn deadline(&self) -> Option<Deadline> {
        match &self.state {
            State::Proposed(asked) => Some(asked.retransmit.deadline()),
            State::WaitsForThird(waits) => Some(waits.retransmit.deadline()),
            State::Done { until, .. } => Some(Deadline {
                at: *until,
                why: "forget a quick mode that is done",
            }),
            State::Offered(_) => None,
        }
    }

    /// Repetitions take this path.
    pub fn move_to(&mut self, path: Path) {
        match &mut self.state {
            State::Proposed(asked) => asked.retransmit.move_to(path),
            State::WaitsForThird(waits) => waits.move_to(path),
            State::Done { answered, .. } => answered.move_to(path),
            State::Offered(_) => {}
        }
    }

    /// A message sent at `began` left only `now`.
    pub fn departed(&mut self, began: Instant, now: Instant) {
        match &mut self.state {
            State::Proposed(asked) => asked.retransmit.departed(began, now),
            State::WaitsForThird(waits) => waits.retransmit.departed(began, now),
            State::Done { .. } | State::Offered(_) => {}
        }
    }

    /// Sends again, or gives up. `Ok(true)`: the exchange is over and can be forgotten.
    pub fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<bool, Fault> {
        match &mut self.state {
            State::Proposed(asked) => asked.retransmit.fire(now, out).map(|()| false),
            State::WaitsForThird(waits) => waits.retransmit.fire(now, out).map(|()| false),
            State::Done { until, .. } => Ok(now >= *until),
            State::Offered(_) => Ok(false),
        }
    }
}

/// Protocol and SPI of the first proposal. None if the SPI does not have the length for ESP or AH.
fn proposed(opened: &Opened) -> Option<ProposedSpi> {
    let offer = opened
        .payloads
        .iter()
        .find_map(|found| match &found.payload {
            Payload::Sa(offer) => offer.proposals.first(),
            _ => None,
        })?;
    (offer.spi.len() == SPI_LEN).then(|| (offer.protocol, offer.spi.clone()))
}

/// Octets of an SPI of ESP or AH.
const SPI_LEN: usize = 4;

fn label(message_id: u32, step: Step) -> Label {
    Label {
        exchange: Exchange::QuickMode,
        message_id,
        step,
    }
}

#[cfg(test)]
mod tests;
