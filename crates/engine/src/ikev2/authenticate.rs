//! IKE_AUTH, in both roles: identities and their proof, an inner address, and the first child, in
//! one exchange (RFC 7296 §1.2, §2.15, §2.19).
//!
//! ```text
//! initiator                                                     responder
//! IDi, [CERT], [CERTREQ], [IDr], AUTH, [CP], [SA, TSi, TSr] -->
//!                                     <-- IDr, [CERT], AUTH, [CP], [SA, TSi, TSr]
//! ```

use std::sync::Arc;

use wire::ikev2::{Exchange, NotifyType, Payload};

use super::addresses::{self, Mobility};
use super::auth::{Signed, certificate_request, check, identification, identity_of, prove};
use super::child::{fresh_nonce, request_payloads};
use super::children::{ChildSa, ChildSas, ChildState};
use super::configuration;
use super::established::{Established, Question, Subject};
use super::init::{Answering, Asking, Init};
use super::keys::Nonces;

use super::offers::{offer_of, refused};
use super::parts::{Parts, notify, notify_name};
use super::tasks::{AskedChild, Awaited, Queue};
use super::window::{At, IkeSa, Opened};
use crate::config::{Connection, IdentityPattern};
use crate::ike::auth::Proven;
use crate::ike::nat::float;
use crate::ike::retransmit::PATIENCE_WITHIN;
use crate::ike::{AgreedChild, Fact, Fault, FirstChild, Role};
use crate::quotas::Quotas;
use crate::sa::Path;
use crate::time::{Calendar, Duration, Instant};

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
    addresses: Vec<std::net::IpAddr>,
}

impl Authenticating {
    /// Sends our identity, its proof, and what we ask for.
    pub(super) fn begin(
        asking: &Asking,
        (sa, init): (IkeSa, Init),
        wishes: Wishes,
        at: &mut At<'_>,
    ) -> Result<Self, Fault> {
        let connection = Arc::clone(&asking.connection);
        let before = asking.path;
        // With MOBIKE it may be behind a NAT later (RFC 4555 §3.3).
        let wants_udp = connection.prefers_udp() || connection.mobike;
        let floats = init.nat.is_supported && (init.nat.is_between() || wants_udp);
        let path = if floats { float(before) } else { before };
        at.path = path;
        let moved = path.remote.port() != before.remote.port();
        let own = identification(&connection.local.identity);
        let own = Payload::IdentificationInitiator(own);
        let signed = Signed {
            message: &init.request,
            nonce: &init.nonces.1,
            prf: init.suite.prf,
            p: &init.p.0,
            id: &own.body(),
        };
        let (random, work) = (&mut *at.random, &mut at.out.work);
        let mut proof = prove(&connection, signed, &init.peer, random, work)?;
        let auth = proof.pop();
        let mut chain = vec![own];
        chain.extend(proof);
        chain.extend(certificate_request(core::slice::from_ref(&connection)));
        chain.extend(wanted_responder(&connection));
        chain.extend(auth);
        chain.extend(configuration::request(connection.wants_inner, &wishes.had));
        if wishes.is_first_contact {
            chain.push(notify(NotifyType::InitialContact));
        }
        chain.extend(addresses::announcement(&connection, &wishes.addresses));
        let task = wishes.child.and_then(|first| first.into_task(&connection));
        let child = task.map(|task| {
            let (sa, rest) = request_payloads(&task);
            chain.push(sa);
            chain.extend(rest);
            AskedChild {
                task,
                nonce: fresh_nonce(at.random),
                half: None,
                begun: at.now,
                collision: None,
                gone: Vec::new(),
                is_abandoned: false,
            }
        });
        let mut authenticating = Self {
            connection,
            path,
            moved_from: moved.then_some(before.remote.port()),
            sa,
            init,
            child,
            addresses: wishes.addresses,
        };
        let patience = Some(PATIENCE_WITHIN);
        let sa = &mut authenticating.sa;
        sa.ask(Exchange::IkeAuth, &chain, Awaited::Auth, patience, at);
        Ok(authenticating)
    }

    /// The answer, authentic under the keys of IKE_SA_INIT. A fault ends the session.
    pub(super) fn on_answer(
        mut self,
        opened: &Opened,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<(Established, Vec<Fact>), Fault> {
        self.sa.answered(at.now, at.out);
        let parts = opened.parts()?;
        let proven = match self.check(&parts, calendar, at) {
            Ok(proven) => proven,
            Err(fault) => {
                // RFC 7296 §2.21.2: the peer believes that it is established.
                if parts.auth.is_some() {
                    let refusal = [notify(NotifyType::AuthenticationFailed)];
                    self.sa.tell(Exchange::Informational, &refusal, at);
                }
                return Err(fault);
            }
        };
        let families = self.connection.wants_inner;
        let nonces = self.init.nonces.clone();
        let child = self.child.take();
        let own = core::mem::take(&mut self.addresses);
        let mut facts = vec![Fact::Established(Arc::clone(&proven.connection))];
        let ends = (self.sa, Role::Initiator);
        let mut session = establish(ends, self.init, proven, calendar, at.now);
        session.begin_mobility(&parts, &own, at);
        if families.is_any() {
            let reply = parts.configuration;
            let lease = reply.map(|it| configuration::lease(it, families));
            facts.push(Fact::Lease(Some(lease.unwrap_or_default())));
        }
        if let Some(asked) = child {
            facts.push(session.first_child(asked, &parts, &nonces, at));
        }
        Ok((session, facts))
    }

    fn check(
        &self,
        parts: &Parts<'_>,
        calendar: Calendar,
        at: &mut At<'_>,
    ) -> Result<Proven, Fault> {
        if let (Some(error), None) = (parts.error(), parts.auth) {
            let name = notify_name(error.kind);
            return Err(Fault::Unauthenticated(format!(
                "the peer refused with {name}"
            )));
        }
        let (id, body) = parts.responder.ok_or_else(|| {
            Fault::Misbehaved("an answer without the responder's identity".into())
        })?;
        let signed = Signed {
            message: &self.init.answer,
            nonce: &self.init.nonces.0,
            prf: self.init.suite.prf,
            p: &self.init.p.1,
            id: body,
        };
        check(
            core::slice::from_ref(&self.connection),
            (&identity_of(id)?, None),
            parts,
            (signed, &self.init.peer),
            calendar,
            &mut at.out.work,
        )
    }
}

impl Established {
    /// What became of the child that we asked for with our authentication.
    fn first_child(
        &mut self,
        asked: AskedChild,
        parts: &Parts<'_>,
        (ni, nr): &(Vec<u8>, Vec<u8>),
        at: &mut At<'_>,
    ) -> Fact {
        let (child, spi) = (asked.task.child, asked.task.spi);
        if let (Some(error), None) = (parts.error(), parts.sa) {
            return Fact::ChildFailed(child, spi, refused(&asked.task, error));
        }
        let nonces = Nonces {
            initiator: ni,
            responder: nr,
        };
        if asked.is_abandoned {
            self.delete_unknown(&asked, at);
            return Fact::Heard;
        }
        match self.agree_child(&asked, parts, Some(nonces), at) {
            Ok(negotiated) => {
                self.children.add(ChildSa {
                    child,
                    protocol: negotiated.suite.protocol,
                    spi_in: negotiated.spi_in,
                    spi_out: negotiated.spi_out,
                    state: ChildState::Installed,
                });
                Fact::Child(Box::new(AgreedChild {
                    child,
                    exchange: 0,
                    is_ours: true,
                    begun: asked.begun,
                    renews: None,
                    negotiated,
                    is_redundant: Some(false),
                }))
            }
            Err(fault) => {
                self.delete_unknown(&asked, at);
                Fact::ChildFailed(child, spi, fault)
            }
        }
    }
}

/// What a responder needs for checking.
pub(super) struct Checks<'a> {
    pub(super) quotas: Option<&'a mut Quotas>,
    pub(super) calendar: Calendar,
    /// All our addresses.
    pub(super) addresses: &'a [std::net::IpAddr],
}

/// Why a request does not establish the session, and what waits for a better one.
type Unproven = Box<(Option<Answering>, Fault)>;

/// The request, authentic under the keys of IKE_SA_INIT. The answer waits for what the node grants.
/// A fault ends the session, except one that is dropped: then the request may come again.
pub(super) fn on_request(
    answering: Answering,
    opened: Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Result<(Established, Vec<Fact>), Unproven> {
    let Answering {
        candidates,
        path,
        mut sa,
        init,
        answered,
    } = answering;
    let (calendar, addresses) = (checks.calendar, checks.addresses);
    let judged = judge(&candidates, &init, &opened, checks, at);
    let (proven, proof) = match judged {
        Ok(judged) => judged,
        Err(Fault::Dropped(reason)) => {
            let again = Answering {
                candidates,
                path,
                sa,
                init,
                answered,
            };
            return Err(Box::new((Some(again), reason.into())));
        }
        Err(fault) => {
            let refusal = [notify(NotifyType::AuthenticationFailed)];
            sa.answer(&opened, &refusal, at);
            return Err(Box::new((None, fault)));
        }
    };
    let own_spi = sa.own_spi();
    let nonces = init.nonces.clone();
    let mut facts = vec![Fact::Established(Arc::clone(&proven.connection))];
    let is_initial = opened
        .parts()
        .is_ok_and(|it| it.has(NotifyType::InitialContact));
    let ends = (sa, Role::Responder);
    let mut session = establish(ends, init, proven, calendar, at.now);
    session.is_initial_contact = is_initial;
    let mut notices = Vec::new();
    if let Ok(parts) = opened.parts() {
        let own = addresses::told(&session.connection, addresses, opened.from.local.ip());
        session.begin_mobility(&parts, &own, at);
        if session.peer.mobike {
            notices = addresses::announcement(&session.connection, &own);
        }
        let wanted = parts.configuration.and_then(configuration::wanted);
        facts.extend(wanted.map(Fact::AsksAddress));
        let offer = offer_of(&parts, None).filter(|_| parts.sa.is_some());
        facts.extend(offer.map(Fact::AsksChild));
    }
    session.question = Some(Box::new(Question {
        own_spi,
        opened,
        subject: Subject::Auth {
            nonces,
            proof,
            notices,
        },
        answer: Vec::new(),
        method: None,
        is_refused: false,
    }));
    Ok((session, facts))
}

/// Checks the initiator's proof, and makes ours.
fn judge(
    candidates: &[Arc<Connection>],
    init: &Init,
    opened: &Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Result<(Proven, Vec<Payload>), Fault> {
    let parts = opened.parts()?;
    let (id, body) = parts.initiator.ok_or_else(|| {
        Fault::Misbehaved("a request of IKE_AUTH without the initiator's identity".into())
    })?;
    let claimed = identity_of(id)?;
    let asked = match parts.responder {
        Some((id, _)) => Some(identity_of(id)?),
        None => None,
    };
    let signed = Signed {
        message: &init.request,
        nonce: &init.nonces.1,
        prf: init.suite.prf,
        p: &init.p.0,
        id: body,
    };
    let work = &mut at.out.work;
    let names = (&claimed, asked.as_ref());
    let proven = check(
        candidates,
        names,
        &parts,
        (signed, &init.peer),
        checks.calendar,
        work,
    )?;
    let connection = &proven.connection;
    if let Some(quotas) = checks.quotas
        && connection.remote_addrs.is_empty()
    {
        let charged = quotas.take_exchange(&proven.identity, connection.peers_max, at.now);
        charged.map_err(|excess| excess.reason)?;
    }
    let own = identification(&connection.local.identity);
    let own = Payload::IdentificationResponder(own);
    let signed = Signed {
        message: &init.answer,
        nonce: &init.nonces.0,
        prf: init.suite.prf,
        p: &init.p.1,
        id: &own.body(),
    };
    let mut chain = vec![own];
    chain.extend(prove(connection, signed, &init.peer, at.random, work)?);
    Ok((proven, chain))
}

fn establish(
    (sa, role): (IkeSa, Role),
    init: Init,
    proven: Proven,
    calendar: Calendar,
    now: Instant,
) -> Established {
    let ends_at = proven.certified.as_ref().map(|certified| {
        let rest = certified.not_after.saturating_sub(calendar.0);
        now + Duration::from_secs(u64::try_from(rest).unwrap_or(0))
    });
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
        peer: init.peer,
        mobility: Mobility::default(),
        sas: vec![sa],
        children: ChildSas::default(),
        queue: Queue::default(),
        held_until: None,
        renew_at: None,
        is_renewed_now: false,
        question: None,
        overtaken: Vec::new(),
    }
}

/// IDr, if we accept exactly one identity: a gateway of several chooses the right one.
fn wanted_responder(connection: &Connection) -> Option<Payload> {
    let [pattern @ IdentityPattern::Is(identity)] = connection.remote.identities.as_slice() else {
        return None;
    };
    let id = identification(identity);
    pattern
        .is_exact()
        .then_some(Payload::IdentificationResponder(id))
}
