//! IKE_AUTH, in both roles: identities and their proof, an inner address, and the first child, in
//! one exchange (RFC 7296 §1.2, §2.15, §2.19), or in several with EAP ([`super::eap`]).
//!
//! ```text
//! initiator                                                     responder
//! IDi, [CERT], [CERTREQ], [IDr], AUTH, [CP], [SA, TSi, TSr] -->
//!                                     <-- IDr, [CERT], AUTH, [CP], [SA, TSi, TSr]
//! ```

mod elsewhere;
mod first_child;
mod ppk;
mod responder;
mod wanted;

use std::sync::Arc;

use crypto::key_exchange::Initiator;
use wire::ikev2::{Exchange, Gateway, NotifyType, Payload};

use super::addresses::{self, Mobility};
use super::auth::{
    certificate_request, check, check_key, identification, identity_of, proof_in, prove, prove_key,
};
use super::child::request_payloads;
use super::children::ChildSas;
use super::configuration;
use super::crash::{Crash, Maker};
use super::eap::{EXAMINATION, LoggingIn, Step, login_of};
use super::established::{BeganWith, Established};
use super::exchange;
use super::fresh::fresh_nonce;
use super::inform;
use super::init::{Init, Travel};
use super::intermediate::Due;
use super::parts::{Parts, notify};
use super::ppk::{Mixed, naming};
use super::tasks::{AskedChild, Awaited, Queue};
use super::window::{At, IkeSa, Opened};
use crate::config::{Childless, Connection};
use crate::counters::DropReason;
use crate::ike::auth::Proven;
use crate::ike::nat::float;
use crate::ike::retransmit::PATIENCE_WITHIN;
use crate::ike::{Fact, Fault, FirstChild, Role};
use crate::rate::Bucket;
use crate::sa::{Path, Secret};
use crate::time::{Calendar, Deadline, Duration, Instant};
use crate::work::Work;

use wanted::{refusal_of, unidentified, wanted_responder};

#[cfg(test)]
pub(super) use responder::MAX_WITHOUT_AUTH;
pub(super) use responder::{Checks, given_up, is_given_up, on_request, on_verdict};

/// What an initiator asks for in the same exchange.
#[derive(Default)]
pub(super) struct Wishes {
    /// We have no other SA with the peer, and say so (RFC 7296 §2.4).
    pub(super) is_first_contact: bool,
    /// Our former inner addresses.
    pub(super) had: Vec<std::net::IpAddr>,
    pub(super) child: Option<FirstChild>,
    /// Our addresses besides the path's.
    pub(super) addresses: Vec<std::net::IpAddr>,
    /// Makes tokens of quick crash detection, if the connection has it.
    pub(super) maker: Option<Arc<Maker>>,
    /// What we say of gateways that send us elsewhere.
    pub(super) travel: Travel,
}

/// An initiator that waits for the answer.
pub(super) struct Authenticating {
    pub(super) connection: Arc<Connection>,
    /// It has moved to port 4500 if there is a NAT, or if we want UDP.
    pub(super) path: Path,
    /// The peer's port before that.
    pub(super) moved_from: Option<u16>,
    pub(super) sa: IkeSa,
    init: Init,
    pub(super) child: Option<AskedChild>,
    wishes: Wishes,
    /// An exchange before IKE_AUTH is under way, and its additional key exchange.
    due: Option<(Due, Option<Initiator>)>,
    /// The gateway has proven itself and examines us.
    login: Option<Box<LoggingIn>>,
    /// Its examination must be over then.
    until: Option<Instant>,
    /// The body of the gateway's ID payload.
    responder: Vec<u8>,
}

/// What an answer leads to.
pub(super) enum Answered {
    Established(Box<Established>, Vec<Fact>),
    /// Additional key exchanges or EAP go on.
    Again(Box<Authenticating>),
    /// The gateway is not the right one, or sends us to another one (RFC 5685 §6).
    Over(Box<IkeSa>, Fact),
}

/// What an answer says of the gateway.
enum Judged {
    Proven(Proven),
    /// It examines us.
    Examined,
    /// It has proven itself, and sends us to another one.
    SentTo(Gateway),
}

impl Authenticating {
    /// Sends the first message under keys.
    pub(super) fn begin(
        (connection, before): (Arc<Connection>, Path),
        (sa, init): (IkeSa, Init),
        mut wishes: Wishes,
        at: &mut At<'_>,
    ) -> Result<Self, Fault> {
        // With MOBIKE it may be behind a NAT later (RFC 4555 §3.3).
        let wants_udp = connection.prefers_udp() || connection.mobike;
        let floats = init.nat.is_supported && (init.nat.is_between() || wants_udp);
        let path = if floats { float(before) } else { before };
        at.path = path;
        let moved = path.remote.port() != before.remote.port();
        // The node refuses a child that no packet matches, when it is this child's turn.
        let is_useless = wishes.child.as_ref().is_some_and(|it| !it.has_traffic());
        let prefers_none = matches!(connection.childless, Childless::Prefer | Childless::Force);
        let prefers_none = prefers_none || is_useless;
        let first = match prefers_none && init.peer.childless {
            true => None,
            false => wishes.child.take(),
        };
        let task = first.and_then(|first| first.into_task(&connection));
        let child = task.map(|task| AskedChild {
            task,
            nonce: fresh_nonce(at.random),
            half: None,
            unfinished: None,
            begun: at.now,
            collision: None,
            gone: Vec::new(),
            is_abandoned: false,
        });
        let mut authenticating = Self {
            connection,
            path,
            moved_from: moved.then_some(before.remote.port()),
            sa,
            init,
            child,
            wishes,
            due: None,
            login: None,
            until: None,
            responder: Vec::new(),
        };
        authenticating.go_on(at)?;
        Ok(authenticating)
    }

    /// Sends the next exchange before IKE_AUTH, or our identity with its proof.
    fn go_on(&mut self, at: &mut At<'_>) -> Result<(), Fault> {
        let Some(due) = self.init.due() else {
            return self.prove(at);
        };
        let work = &mut at.out.work;
        let generate = |method| exchange::generate(method, at.random, work);
        let half = due.method.map(generate);
        let mut chain: Vec<Payload> = half.iter().map(exchange::payload).collect();
        let ppk = self.connection.ppk.as_ref().filter(|_| due.names_ppk);
        let named = ppk.map(|ppk| self.init.naming(&self.sa, ppk, &mut at.out.work));
        chain.extend(named);
        self.due = Some((due, half));
        self.ask(Exchange::IkeIntermediate, &chain, at);
        let covered = self.sa.take_covered();
        self.init.cover(Role::Initiator, &covered, &mut at.out.work);
        Ok(())
    }

    /// Sends our identity, its proof, and what we ask for.
    fn prove(&mut self, at: &mut At<'_>) -> Result<(), Fault> {
        let (connection, wishes) = (&self.connection, &self.wishes);
        let own = identification(&connection.local.identity);
        let own = Payload::IdentificationInitiator(own);
        let body = own.body();
        let (random, work) = (&mut *at.random, &mut at.out.work);
        let init = &mut self.init;
        // With EAP, AUTH comes later, and the key with it.
        let ppk = init.wanted_ppk(connection);
        let ppk = ppk.filter(|_| login_of(connection).is_none());
        let mut without = None;
        if let Some(ppk) = &ppk {
            if !ppk.is_required {
                let signed = init.initiator(&body);
                without = prove(connection, signed, &init.peer, random, work)?.pop();
            }
            init.mix(ppk, work);
        }
        let is_resumed = init.resumed.is_some();
        let mut proof = match is_resumed {
            true => vec![init.prove_resumed(Role::Initiator, &body, work)],
            false => {
                let signed = init.initiator(&body);
                prove(connection, signed, &init.peer, random, work)?
            }
        };
        init.note_proof(proof_in(&proof));
        let auth = proof.pop();
        let mut chain = vec![own];
        chain.extend(proof);
        let request = certificate_request(core::slice::from_ref(connection));
        chain.extend(request.filter(|_| !is_resumed));
        // The ticket says which gateway it is (RFC 5723 §4.3.3).
        chain.extend(wanted_responder(connection).filter(|_| !is_resumed));
        chain.extend(auth);
        chain.extend(ppk.iter().flat_map(|ppk| naming(ppk, without.take())));
        let maker = wishes.maker.as_ref();
        chain.extend(maker.map(|it| it.notify(self.sa.spis)));
        let (families, had) = (connection.wants_inner, &wishes.had);
        let wants_anchors = !connection.dnssec_domains.is_empty();
        chain.extend(configuration::request(families, had, wants_anchors));
        if wishes.is_first_contact {
            chain.push(notify(NotifyType::InitialContact));
        }
        if connection.is_eap_only && !is_resumed {
            chain.push(notify(NotifyType::EapOnlyAuthentication));
        }
        if connection.resumption {
            chain.push(Established::ticket_request());
        }
        chain.extend(addresses::announcement(connection, &wishes.addresses));
        self.child.take_if(|it| it.is_abandoned);
        if let Some(asked) = &self.child {
            let (sa, rest) = request_payloads(&asked.task);
            chain.push(sa);
            chain.extend(rest);
        }
        self.ask(Exchange::IkeAuth, &chain, at);
        Ok(())
    }

    /// The answer to an exchange before IKE_AUTH.
    fn exchanged(
        &mut self,
        (due, half): (Due, Option<Initiator>),
        opened: &Opened,
        at: &mut At<'_>,
    ) -> Result<(), Fault> {
        let parts = opened.parts()?;
        refusal_of(&parts)?;
        let covered = opened.covered().ok_or(DropReason::MalformedMessage)?;
        let work = &mut at.out.work;
        let mut secret = None;
        if let Some(half) = &half {
            let theirs = parts.exchange.ok_or_else(|| {
                Fault::Misbehaved("an answer of IKE_INTERMEDIATE without a public value".into())
            })?;
            secret = Some(exchange::finish(half, theirs, work)?);
        }
        let own = self.connection.ppk.as_ref().filter(|_| due.names_ppk);
        let ppk = self.init.accepted(own, &parts)?;
        self.init.cover(Role::Responder, &covered, work);
        let sa = &mut self.sa;
        self.init
            .exchanged(sa, secret.as_ref(), ppk.as_ref(), work)?;
        self.go_on(at)
    }

    /// Whether our identity is on the way, with its proof.
    pub(super) fn has_proven(&self) -> bool {
        self.due.is_none()
    }

    /// Whether the gateway may consider the IKE SA established: all that it needs is on the way.
    pub(super) fn may_be_established(&self) -> bool {
        let is_examined = self.init.resumed.is_none() && login_of(&self.connection).is_some();
        let has_key = self.login.as_ref().is_some_and(|it| it.key.is_some());
        self.has_proven() && (!is_examined || has_key)
    }

    #[cfg(test)]
    pub(super) fn between(&mut self) -> &mut Vec<u8> {
        &mut self.init.between.authenticated
    }

    /// Another SA with the peer was established.
    pub(super) fn forget_first_contact(&mut self) {
        self.wishes.is_first_contact = false;
    }

    fn ask(&mut self, exchange: Exchange, chain: &[Payload], at: &mut At<'_>) {
        // A gateway that examines us may have to ask a server that is slow.
        let patience = match self.until {
            Some(_) => EXAMINATION,
            None => PATIENCE_WITHIN,
        };
        let patience = Some(patience);
        self.sa.ask(exchange, chain, Awaited::Auth, patience, at);
    }

    /// The answer, authentic under the keys of IKE_SA_INIT. A fault ends the session.
    pub(super) fn on_answer(
        mut self,
        opened: &Opened,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<Answered, Fault> {
        self.sa.answered(at.now, at.out);
        if let Some(due) = self.due.take() {
            self.exchanged(due, opened, at)?;
            return Ok(Answered::Again(Box::new(self)));
        }
        let parts = opened.parts()?;
        match self.judge(&parts, calendar, at) {
            Ok(Judged::Proven(proven)) => match self.elsewhere(&parts, true, at) {
                Some(sent) => Ok(self.over(sent.map_or_else(Fact::Failed, Fact::SentTo))),
                None => Ok(self.finish(proven, &parts, calendar, at)),
            },
            Ok(Judged::SentTo(gateway)) => Ok(self.over(Fact::SentTo(gateway))),
            Ok(Judged::Examined) => Ok(Answered::Again(Box::new(self))),
            Err(fault) => {
                // RFC 7296 §2.21.2: the peer believes that it is established, or waits for us.
                if parts.is_awaited() {
                    let refusal = notify(NotifyType::AuthenticationFailed);
                    self.sa.tell_end(refusal, at);
                }
                Ok(self.over(Fact::Failed(fault)))
            }
        }
    }

    /// The answer is authentic, and we cannot read it. The gateway may have established the IKE SA.
    pub(super) fn on_unreadable(mut self, at: &mut At<'_>) -> Answered {
        let is_awaited = self.may_be_established();
        self.sa.answered(at.now, at.out);
        if is_awaited {
            self.sa
                .tell_end(notify(NotifyType::AuthenticationFailed), at);
        }
        self.over(Fact::Failed(DropReason::MalformedMessage.into()))
    }

    /// What the answer says of the gateway.
    fn judge(
        &mut self,
        parts: &Parts<'_>,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<Judged, Fault> {
        refusal_of(parts)?;
        self.init.settle(parts)?;
        let judged = |proven: Option<Proven>| proven.map_or(Judged::Examined, Judged::Proven);
        if let Some(login) = self.login.take() {
            return self.log_in(login, parts, calendar, at).map(judged);
        }
        self.responder = parts.responder.map_or(Vec::new(), |(_, id)| id.to_vec());
        if self.init.resumed.is_some() {
            let work = &mut at.out.work;
            let proven = self.init.check_resumed(Role::Responder, parts, work)?;
            return Ok(Judged::Proven(proven));
        }
        if self.connection.is_eap_only && parts.auth.is_none() && parts.eap.is_some() {
            // It takes our word that EAP is enough (RFC 5998 §3).
            return self.log_in_alone(parts, calendar, at).map(judged);
        }
        let proven = self.check(parts, calendar, at)?;
        self.init.note_proof(parts.auth);
        let connection = Arc::clone(&self.connection);
        let Some(login) = login_of(&connection) else {
            return Ok(Judged::Proven(proven));
        };
        // It has proven itself, and need not know who we are (RFC 5685 §6).
        if let Some(gateway) = self.elsewhere(parts, false, at).transpose()? {
            return Ok(Judged::SentTo(gateway));
        }
        let login = LoggingIn::begin(login, proven, &self.responder, calendar)?;
        self.until = Some(at.now + EXAMINATION);
        self.log_in(Box::new(login), parts, calendar, at)
            .map(judged)
    }

    /// Both ends have proven themselves.
    fn finish(
        mut self,
        proven: Proven,
        parts: &Parts<'_>,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Answered {
        let families = self.connection.wants_inner;
        let nonces = self.init.nonces.clone();
        let mut child = self.child.take();
        let own = core::mem::take(&mut self.wishes.addresses);
        let unasked = self.wishes.child.take();
        let unasked = unasked.map(|first| (first.child, first.spi));
        let later = child.take_if(|it| !it.is_abandoned && first_child::comes_later(parts));
        let later = later.map(|it| (it.task.child, it.task.spi));
        let childless = unasked.into_iter().chain(later);
        let mut facts: Vec<Fact> = childless
            .map(|(child, spi)| Fact::Childless(child, spi))
            .collect();
        facts.push(Fact::Established(Arc::clone(&proven.connection)));
        self.init.mix_into(&mut self.sa, &mut at.out.work);
        let ends = (self.sa, Role::Initiator);
        let mut session = establish(ends, self.init, proven, calendar, at.now);
        facts.extend(inform::lasts(parts).map(|it| Fact::Told(0, vec![it])));
        session.begin_tokens(self.wishes.maker.take(), parts);
        let id = identification(&session.connection.local.identity);
        let id = Payload::IdentificationInitiator(id).body();
        session.begin_resumption((id, self.responder));
        facts.extend(session.keep_ticket(parts, at.now));
        session.begin_mobility(parts, &own, at);
        if families.is_any() {
            let reply = parts.configuration;
            let listed = &self.connection.dnssec_domains;
            let lease = reply.map(|it| configuration::lease(it, families, listed));
            facts.push(Fact::Lease(Some(lease.unwrap_or_default())));
        }
        if let Some(asked) = child {
            facts.push(session.first_child(asked, parts, &nonces, at));
        }
        Answered::Established(Box::new(session), facts)
    }

    /// The first message of an examination by a gateway that has not proven itself yet.
    fn log_in_alone(
        &mut self,
        parts: &Parts<'_>,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<Option<Proven>, Fault> {
        let (id, body) = parts.responder.ok_or_else(unidentified)?;
        let claimed = (identity_of(id)?, body);
        let login = LoggingIn::begin_alone(&self.connection, claimed, calendar)?;
        self.until = Some(at.now + EXAMINATION);
        self.log_in(Box::new(login), parts, calendar, at)
    }

    /// A message of an examination. Gives the gateway at its end.
    fn log_in(
        &mut self,
        mut login: Box<LoggingIn>,
        parts: &Parts<'_>,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<Option<Proven>, Fault> {
        let work = &mut at.out.work;
        if let Some(key) = &login.key {
            check_key(self.init.responder(&login.id), key, parts, work)?;
            return login.proven().map(Some);
        }
        let next = match login.on_packet(parts, calendar, (&mut *at.random, &mut *work))? {
            Step::Answer(packet) => vec![packet],
            Step::Prove(key) => {
                let proof = self.prove_login(&key, work);
                login.key = Some(key);
                proof
            }
        };
        self.ask(Exchange::IkeAuth, &next, at);
        self.login = Some(login);
        Ok(None)
    }

    /// AUTH by the key of EAP, and the post-quantum one that is in it.
    fn prove_login(&mut self, key: &Secret, work: &mut Work) -> Vec<Payload> {
        let own = identification(&self.connection.local.identity);
        let body = Payload::IdentificationInitiator(own).body();
        let init = &mut self.init;
        let Some(ppk) = init.wanted_ppk(&self.connection) else {
            return vec![prove_key(init.initiator(&body), key, work)];
        };
        let without = (!ppk.is_required).then(|| prove_key(init.initiator(&body), key, work));
        init.mix(&ppk, work);
        let mut chain = vec![prove_key(init.initiator(&body), key, work)];
        chain.extend(naming(&ppk, without));
        chain
    }

    fn check(
        &self,
        parts: &Parts<'_>,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<Proven, Fault> {
        let (id, body) = parts.responder.ok_or_else(unidentified)?;
        check(
            core::slice::from_ref(&self.connection),
            (&identity_of(id)?, None),
            parts,
            (self.init.responder(body), &self.init.peer),
            calendar,
            &mut at.out.work,
        )
    }

    /// When to call [`Self::on_deadline`].
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let until = self.until.map(|at| Deadline {
            at,
            why: "the gateway's examination takes too long",
        });
        [until, self.sa.deadline()].into_iter().flatten().min()
    }

    /// Repeats the last message, or gives up.
    pub(super) fn on_deadline(&mut self, at: &mut At<'_>) -> Result<(), Fault> {
        if self.until.is_some_and(|until| until <= at.now) {
            let refusal = notify(NotifyType::AuthenticationFailed);
            self.sa.tell_end(refusal, at);
            let seconds = EXAMINATION.as_secs();
            return Err(Fault::Unauthenticated(format!(
                "the gateway has not come to the end of EAP within {seconds} s: its RADIUS server \
                 may be slow, or too many wrong passwords have come from our network"
            )));
        }
        let moved_from = self.moved_from;
        self.sa.fire(at.now, at.out).map_err(|fault| match fault {
            Fault::TimedOut(asked) => Fault::TimedOut(crate::ike::Unanswered {
                moved_from,
                ..asked
            }),
            other => other,
        })
    }
}

fn establish(
    (sa, role): (IkeSa, Role),
    init: Init,
    proven: Proven,
    calendar: Calendar,
    now: Instant,
) -> Established {
    let certificate_ends = proven.certified.as_ref().map(|certified| {
        let rest = certified.not_after.saturating_sub(calendar.0);
        now + Duration::from_secs(u64::try_from(rest).unwrap_or(0))
    });
    let ends_at = [certificate_ends, proven.until].into_iter().flatten().min();
    Established {
        role,
        connection: proven.connection,
        identity: proven.identity,
        certificate: proven.certified.map(|it| Box::new(it.path)),
        ends_at,
        is_initial_contact: false,
        since: now,
        renewed: now,
        nat: init.nat,
        ppk: init.ppk.mixed.as_ref().map(Mixed::in_use),
        covers_both: init.covers_both,
        has_sha1: init.has_sha1,
        peer: init.peer,
        mobility: Mobility::default(),
        sas: vec![sa],
        children: ChildSas::default(),
        queue: Queue::default(),
        held_until: None,
        renew_at: None,
        renewals: Bucket::default(),
        is_renewed_now: false,
        question: None,
        crash: Crash::default(),
        resumption: None,
        is_sent_away: false,
        began_with: match init.resumed.map(|it| it.used) {
            None => BeganWith::Proofs,
            Some(None) => BeganWith::OwnTicket,
            Some(Some(ticket)) => BeganWith::PeersTicket(Box::new(ticket)),
        },
        overtaken: Vec::new(),
        is_over: false,
    }
}
