//! Tickets of an established session: a gateway gives them, in IKE_AUTH or when a station asks for
//! one after a renewal, and a station keeps the newest.

use crypto::rand::Stream;
use wire::ikev2::{self as wire2, Exchange, Notify, NotifyType, Payload};

use super::{Established, Question, Subject};
use crate::ike::{Fact, Role, Spi};
use crate::ikev2::auth::ResumedForm;
use crate::ikev2::lost::{Given, Resumption, Spent, Ticket};
use crate::ikev2::parts::{Parts, notify};
use crate::ikev2::tasks::{Awaited, Task};
use crate::ikev2::ticket::{Carried, MAX_TICKET, Sealed, TICKET_LIFETIME, Tickets};
use crate::ikev2::window::{At, Opened};
use crate::rate::{Bucket, Rate};
use crate::time::{Calendar, Duration, Instant};

/// Requests for a ticket, of one session, that are not refused at once.
const REQUESTS: Rate = Rate::new(4, Duration::from_secs(10));

impl Established {
    /// Both ends have authenticated under these ID payloads.
    pub(in crate::ikev2) fn begin_resumption(&mut self, ids: (Vec<u8>, Vec<u8>)) {
        let has = self.connection.resumption;
        self.resumption = has.then(|| {
            Box::new(Resumption {
                ids,
                given: None,
                ticket: None,
                asked: Bucket::default(),
            })
        });
    }

    /// What a station says to get a ticket.
    pub(in crate::ikev2) fn ticket_request() -> Payload {
        notify(NotifyType::TicketRequest)
    }

    /// Gives a ticket, or a refusal, with the answer to the peer's request.
    pub(in crate::ikev2) fn grant_ticket(
        &mut self,
        tickets: &mut Tickets,
        (calendar, now): (Calendar, Instant),
        random: &mut Stream,
    ) -> Given {
        let left = self.lifetime().saturating_sub(now.since(self.renewed));
        let lifetime = left.min(TICKET_LIFETIME);
        let seconds = u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX);
        let expires = Calendar(calendar.0.saturating_add(i64::from(seconds)));
        let ends = self.ends_at.map(|at| {
            let rest = i64::try_from(at.since(now).as_secs()).unwrap_or(i64::MAX);
            Calendar(calendar.0.saturating_add(rest))
        });
        let mut given = Given::default();
        let mut answer = notify(NotifyType::TicketNack);
        if let Some(resumption) = &mut self.resumption {
            let carried = Carried {
                d: &self.sas[0].d,
                suite: self.sas[0].suite,
                own_spi: self.sas[0].own_spi(),
                initiator: &resumption.ids.0,
                connection: &self.connection,
                peer: &self.identity,
                certificate: self.certificate.as_deref(),
                ends,
                has_ppk: self.ppk.is_some(),
            };
            let (sealed, has_new_key) = tickets.seal(&carried, expires, calendar, random);
            given.has_new_key = has_new_key;
            match sealed {
                Sealed::Ticket(id, opaque) if seconds > 0 => {
                    given.former = resumption.given.replace(Spent { expires, id });
                    answer = Payload::Notify(Notify::ticket(&wire2::Ticket {
                        lifetime_seconds: seconds,
                        opaque,
                    }));
                }
                Sealed::TooLarge(octets) => given.too_large = Some((octets, MAX_TICKET)),
                Sealed::Ticket(..) | Sealed::None => {}
            }
        }
        if let Some(question) = &mut self.question {
            match &mut question.subject {
                Subject::Auth { notices, .. } => notices.push(answer),
                _ => question.answer.push(answer),
            }
        }
        given
    }

    /// The ticket that we gave and that must not be used any more.
    pub(in crate::ikev2) fn take_given(&mut self) -> Option<Spent> {
        self.resumption.as_mut()?.given.take()
    }

    /// A station's ticket, for the next session.
    pub(in crate::ikev2) fn take_ticket(&mut self) -> Option<Box<Ticket>> {
        self.resumption.as_mut()?.ticket.take()
    }

    /// Keeps the ticket that a gateway's answer has, if it has one and our first message with it
    /// would be one datagram.
    pub(in crate::ikev2) fn keep_ticket(
        &mut self,
        parts: &Parts<'_>,
        now: Instant,
    ) -> Option<Fact> {
        let found = parts.notice(NotifyType::TicketLtOpaque)?;
        let found = found.to_ticket().ok()?;
        let lifetime = Duration::from_secs(found.lifetime_seconds.into()).min(TICKET_LIFETIME);
        let (d, suite) = (self.sas[0].d.clone(), self.sas[0].suite);
        let resumption = self.resumption.as_mut()?;
        let octets = found.opaque.len();
        if self.role == Role::Initiator && octets > MAX_TICKET {
            return Some(Fact::TicketTooLarge(octets, MAX_TICKET));
        }
        if self.role == Role::Initiator {
            resumption.ticket = Some(Box::new(Ticket {
                opaque: found.opaque,
                expires: now + lifetime,
                d,
                suite,
                ids: resumption.ids.clone(),
                connection: self.connection.clone(),
                identity: self.identity.clone(),
                certificate: self.certificate.clone(),
                ends_at: self.ends_at,
                ppk: self.connection.ppk.clone().filter(|_| self.ppk.is_some()),
                form: ResumedForm::Whole,
            }));
        }
        None
    }

    /// The IKE SA was renewed: a ticket of the former one is worth nothing (RFC 5723 §6.2). A
    /// station asks for another one.
    pub(in crate::ikev2) fn renew_ticket(&mut self, at: &mut At<'_>) -> Option<Spent> {
        let resumption = self.resumption.as_mut()?;
        resumption.ticket = None;
        let given = resumption.given.take();
        if self.role == Role::Initiator && !self.queue.has_ticket() {
            self.add_task(Task::Ticket, at);
        }
        given
    }

    /// Asks for a ticket.
    pub(in crate::ikev2) fn ask_ticket(&mut self, at: &mut At<'_>) {
        let chain = [Self::ticket_request()];
        let awaited = Awaited::Ticket;
        self.current()
            .ask(Exchange::Informational, &chain, awaited, None, at);
    }

    /// The answer. It counts under the current IKE SA.
    pub(in crate::ikev2) fn on_ticket_answer(
        &mut self,
        under: Spi,
        opened: &Opened,
        now: Instant,
    ) -> Vec<Fact> {
        let mut facts = vec![Fact::Heard];
        if let Ok(parts) = opened.parts()
            && self.sas[0].own_spi() == under
        {
            facts.extend(self.keep_ticket(&parts, now));
        }
        facts
    }

    /// A station asks for a ticket, and for nothing else: the node decides.
    pub(in crate::ikev2) fn on_ticket_request(
        &mut self,
        index: usize,
        opened: Opened,
        at: &mut At<'_>,
    ) -> Vec<Fact> {
        let resumption = self.resumption.as_mut();
        if !resumption.is_some_and(|it| it.asked.take_one(REQUESTS, at.now)) {
            self.sas[index].answer(&opened, &[notify(NotifyType::TicketNack)], at);
            return vec![Fact::Heard];
        }
        self.question = Some(Box::new(Question {
            own_spi: self.sas[index].own_spi(),
            opened,
            first: None,
            subject: Subject::Ticket,
            answer: Vec::new(),
            method: None,
            is_refused: false,
        }));
        vec![Fact::Heard, Fact::AsksTicket]
    }
}
