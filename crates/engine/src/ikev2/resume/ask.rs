//! The station's part of IKE_SESSION_RESUME.

use std::sync::Arc;

use crypto::rand::Stream;
use wire::ikev2::{Exchange, NotifyType, Payload, first_unknown_critical};

use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::auth::{Certified, Proven};
use crate::ike::retransmit::Retransmit;
use crate::ike::{Fault, Outbox, Role, Sent, Spi, Spis, Step};
use crate::ikev2::Abilities;
use crate::ikev2::between::Between;
use crate::ikev2::clear::{Clear, clear};
use crate::ikev2::fresh::{fresh_nonce, fresh_spi};
use crate::ikev2::init::{Heard, Init, Travel, announcements, detection, find_nat};
use crate::ikev2::keys::{Keys, Nonces, Seed};
use crate::ikev2::lost::{Resumed, Ticket};
use crate::ikev2::message::Message;
use crate::ikev2::parts::{Parts, names_read, notify_with};
use crate::ikev2::ppk::{Agreed, Mixed};
use crate::ikev2::window::IkeSa;
use crate::sa::Path;
use crate::time::{Deadline, Duration, Instant};

/// How long a gateway may be silent before it is asked without the ticket. It gave the ticket, so
/// mostly the network is away; but another program may run there meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the request is sent with another cookie.
const MAX_RESTARTS: u32 = 2;

/// A station that waits for the answer.
pub(in crate::ikev2) struct Resuming {
    pub(in crate::ikev2) connection: Arc<Connection>,
    pub(in crate::ikev2) path: Path,
    pub(in crate::ikev2) spi: Spi,
    pub(in crate::ikev2) travel: Travel,
    ticket: Box<Ticket>,
    nonce: Vec<u8>,
    request: Vec<u8>,
    retransmit: Retransmit,
    restarts: u32,
}

impl Resuming {
    /// Sends the request.
    pub(in crate::ikev2) fn begin(
        ticket: Box<Ticket>,
        connection: Arc<Connection>,
        (path, travel): (Path, Travel),
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let nonce = fresh_nonce(random).to_vec();
        let spi = fresh_spi(random);
        let sent = request(&ticket, &connection, (spi, path, travel), &nonce, None);
        let request = sent.message.clone();
        Self {
            connection,
            path,
            spi,
            travel,
            ticket,
            nonce,
            request,
            retransmit: Retransmit::send_within(PATIENCE, sent, now, out),
            restarts: 0,
        }
    }

    /// Handles a message with our SPI.
    pub(in crate::ikev2) fn on_message(
        &mut self,
        message: &Message<'_>,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Heard, DropReason> {
        let is_answer = message.is_response()
            && message.our_role() == Role::Initiator
            && message.exchange() == Exchange::IkeSessionResume
            && message.id() == 0
            && message.spis().initiator == self.spi;
        if !is_answer {
            return Err(DropReason::UnexpectedMessage);
        }
        let found = message.read()?;
        if found.protected.is_some() || first_unknown_critical(&found.clear).is_some() {
            return Err(DropReason::MalformedMessage);
        }
        let parts = Parts::sort(message.octets(), &found.clear)?;
        let heard = |out: &mut Outbox| {
            out.heard(Step::Resume(2), message.size(), names_read(&found.clear));
        };
        if let Some(nr) = parts.nonce {
            let made = self.agree(message, &parts, nr, out)?;
            heard(out);
            self.retransmit.answered(now, out);
            return Ok(Heard::Made(Box::new(made)));
        }
        if let Some(cookie) = parts.notice(NotifyType::Cookie) {
            let cookie = cookie
                .to_cookie()
                .map_err(|_| DropReason::MalformedMessage)?;
            if self.restarts == MAX_RESTARTS {
                return Err(DropReason::UnexpectedMessage);
            }
            heard(out);
            self.restart(cookie, now, out);
            return Ok(Heard::Nothing);
        }
        let sent = self.travel.sent_to(&self.connection, &self.nonce, &parts);
        // A gateway to which we may not be sent is told in IKE_SA_INIT, which follows.
        let is_forbidden = matches!(sent, Some(Err(_)));
        if let Some(Ok(gateway)) = sent {
            heard(out);
            return Ok(Heard::SentTo(gateway));
        }
        if parts.has(NotifyType::Redirect) && !is_forbidden {
            return Err(DropReason::WrongRedirect);
        }
        // Anybody may have refused it; then more is computed, and nothing else.
        let is_refused =
            parts.has(NotifyType::TicketNack) || parts.error().is_some() || is_forbidden;
        match is_refused {
            true => {
                heard(out);
                Ok(Heard::TicketRefused)
            }
            false => Err(DropReason::UnexpectedMessage),
        }
    }

    fn restart(&mut self, cookie: &[u8], now: Instant, out: &mut Outbox) {
        self.restarts += 1;
        let ends = (self.spi, self.path, self.travel);
        let cookie = Some(cookie);
        let sent = request(&self.ticket, &self.connection, ends, &self.nonce, cookie);
        self.request = sent.message.clone();
        self.retransmit = Retransmit::send_within(PATIENCE, sent, now, out);
    }

    fn agree(
        &mut self,
        message: &Message<'_>,
        parts: &Parts<'_>,
        nr: &[u8],
        out: &mut Outbox,
    ) -> Result<(IkeSa, Init), DropReason> {
        let spis = message.spis();
        if spis.responder == Spi([0; 8]) {
            return Err(DropReason::MalformedMessage);
        }
        if spis.responder == spis.initiator || nr == self.nonce {
            return Err(DropReason::Reflected);
        }
        let ticket = &self.ticket;
        let nonces = Nonces {
            initiator: &self.nonce,
            responder: nr,
        };
        let work = &mut out.work;
        let seed = Seed::resumed((ticket.suite.prf, &ticket.d), nonces, work);
        let keys = Keys::derive(ticket.suite, &seed, nonces, spis, work);
        let keys = keys.map_err(|fault| fault.drop_reason())?;
        let peer = Abilities::announced(parts);
        let may_fragment = peer.fragmentation && self.connection.fragments;
        let suite = ticket.suite;
        let sa = IkeSa::new(spis, Role::Initiator, suite, &keys, may_fragment).after_init();
        let mut ppk = Agreed::announced(true);
        ppk.mixed = ticket.ppk.clone().map(|ppk| Mixed { ppk, p: None });
        let init = Init {
            suite,
            request: self.request.clone(),
            answer: message.octets().to_vec(),
            covers_both: false,
            nonces: (self.nonce.clone(), nr.to_vec()),
            p: keys.p,
            between: Between::default(),
            ppk,
            nat: find_nat(spis, self.path, parts),
            peer,
            has_sha1: false,
            resumed: Some(Box::new(Resumed {
                ids: ticket.ids.clone(),
                proven: Some(ticket.proven(&self.connection)),
                used: None,
                form: ticket.form,
            })),
        };
        Ok((sa, init))
    }

    /// Its ticket, which the gateway has not answered.
    pub(in crate::ikev2) fn into_ticket(self) -> Box<Ticket> {
        self.ticket
    }

    pub(in crate::ikev2) fn deadline(&self) -> Deadline {
        self.retransmit.deadline()
    }

    pub(in crate::ikev2) fn departed(&mut self, began: Instant, now: Instant) {
        self.retransmit.departed(began, now);
    }

    /// Sends again, or gives up.
    pub(in crate::ikev2) fn on_deadline(
        &mut self,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        self.retransmit.fire(now, out)
    }
}

impl Ticket {
    /// The gateway, as it proved itself when it gave the ticket.
    fn proven(&self, connection: &Arc<Connection>) -> Proven {
        Proven {
            identity: self.identity.clone(),
            connection: Arc::clone(connection),
            certified: self.certificate.as_ref().map(|path| Certified {
                not_after: i64::MAX,
                path: (**path).clone(),
            }),
            until: self.ends_at,
        }
    }
}

fn request(
    ticket: &Ticket,
    connection: &Connection,
    (spi, path, travel): (Spi, Path, Travel),
    nonce: &[u8],
    cookie: Option<&[u8]>,
) -> Sent {
    let spis = Spis {
        initiator: spi,
        responder: Spi([0; 8]),
    };
    let mut chain = Vec::new();
    chain.extend(cookie.map(|it| notify_with(NotifyType::Cookie, it.to_vec())));
    chain.push(Payload::Nonce(nonce.to_vec()));
    let opaque = ticket.opaque.clone();
    chain.push(notify_with(NotifyType::TicketOpaque, opaque));
    chain.extend(detection(spis, path));
    chain.extend(announcements(connection.fragments));
    chain.extend(travel.announcement());
    clear(
        Clear::request(Exchange::IkeSessionResume),
        spis,
        &chain,
        path,
    )
}
