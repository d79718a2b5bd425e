//! The responder's part of IKE_AUTH: it checks the initiator, examines it if it wants EAP, and
//! proves itself.

use std::net::IpAddr;
use std::sync::Arc;

use wire::ikev2::{Delete, Notify, NotifyType, Payload};

use super::super::addresses;
use super::super::answering::Answering;
use super::super::auth::{
    check, check_key, identification, identity_of, proof_in, prove, prove_key,
};
use super::super::configuration;
use super::super::crash::Maker;
use super::super::eap::{Backend, Examined, Examining, Tried, begin, examiner};
use super::super::established::{Established, Question, Subject};
use super::super::init::Init;
use super::super::offers::offer_of;
use super::super::parts::{Parts, notify};
use super::super::window::{At, IkeSa, Opened};
use super::establish;
use crate::config::{Childless, Connection};
use crate::counters::DropReason;
use crate::identity::Identity;
use crate::ike::auth::Proven;
use crate::ike::{Fact, Fault, Rejection, Role};
use crate::quotas::Quotas;
use crate::radius::Verdict;
use crate::sa::Path;
use crate::time::{Calendar, Duration};

/// What a responder needs for checking.
pub(in crate::ikev2) struct Checks<'a> {
    pub(in crate::ikev2) quotas: Option<&'a mut Quotas>,
    /// Whether one more question may be open at servers of RADIUS.
    pub(in crate::ikev2) may_ask: bool,
    pub(in crate::ikev2) calendar: Calendar,
    /// All our addresses.
    pub(in crate::ikev2) addresses: &'a [IpAddr],
    /// Makes tokens of quick crash detection, for connections that have it.
    pub(in crate::ikev2) maker: Option<Arc<Maker>>,
}

/// A peer above its quota repeats its request, and each look costs the check of a signature.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A peer is told for how long it is believed if that is at least this: half an hour, less the time
/// from a server's answer until now. strongSwan comes again its `over_time` before the end, 24
/// minutes by default, and at once if less is left: each time.
const LEAST_TOLD: Duration = Duration::from_secs(29 * 60);

/// Octets of a request without AUTH at most, on the wire and of its payloads: it is kept for EAP,
/// or while a server of RADIUS thinks. It has no certificate.
pub(in crate::ikev2) const MAX_WITHOUT_AUTH: usize = 8 << 10;

/// Why a request does not establish the session, and what waits for the next or a better one.
type Unproven = Box<(Option<Answering>, Fact)>;

/// The request, authentic under the keys of IKE_SA_INIT. The answer waits for what the node grants.
/// A fault ends the session, except one that is dropped: then the request may come again.
pub(in crate::ikev2) fn on_request(
    mut answering: Answering,
    opened: Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Result<(Established, Vec<Fact>), Unproven> {
    let (calendar, addresses) = (checks.calendar, checks.addresses);
    let maker = checks.maker.clone();
    if let Some((_, reason)) = answering.looks_again.filter(|(then, _)| at.now < *then) {
        return Err(Box::new((Some(answering), Fact::Dropped(reason))));
    }
    if answering.init.due().is_some() {
        let text = "IKE_AUTH before the agreed exchanges";
        return Err(refuse(
            answering,
            &opened,
            Fault::Misbehaved(text.into()),
            at,
        ));
    }
    if let Err(fault) = take_ppk(&mut answering, &opened, at) {
        return Err(refuse(answering, &opened, fault, at));
    }
    let judged = match answering.examining.take() {
        Some(examining) if examining.waiting.is_some() => {
            // It is repeated, and the server has not answered yet.
            answering.examining = Some(examining);
            return Err(Box::new((Some(answering), Fact::Pending)));
        }
        Some(examining) if examining.proven.is_none() => {
            return Err(examine(answering, examining, opened, checks, at));
        }
        Some(mut examining) => {
            let judged = judge_user(&mut examining, &answering.init, &opened, checks, at);
            match judged {
                Ok(judged) => Ok((judged, Some(examining.first))),
                Err(fault) => {
                    answering.examining = Some(examining);
                    Err(fault)
                }
            }
        }
        None if answering.init.resumed.is_some() => {
            let judged = judge_resumed(&mut answering.init, &opened, checks, at);
            judged.map(|judged| (judged, None))
        }
        None if wants_examination(&opened) => {
            return Err(begin_examination(answering, opened, calendar, at));
        }
        None => {
            let judged = judge(&mut answering, &opened, checks, at);
            judged.map(|judged| (judged, None))
        }
    };
    match judged {
        Ok((judged, first)) if is_childless_against(&judged.0, first.as_ref(), &opened) => {
            // RFC 6023 §3: as a responder that does not know it.
            let text = "the peer begins without a child, and childless is \"never\"";
            let fault = Fault::Misbehaved(text.into());
            Err(refuse_as(
                NotifyType::InvalidSyntax,
                answering,
                &opened,
                fault,
                at,
            ))
        }
        Ok((judged, first)) => {
            let (mut sa, init) = (answering.sa, answering.init);
            init.mix_into(&mut sa, &mut at.out.work);
            let told = (opened, first);
            Ok(ask_node(
                (sa, init),
                judged,
                told,
                (calendar, addresses, maker),
                at,
            ))
        }
        Err(Fault::Dropped(reason)) => {
            answering.looks_again = Some((at.now + LOOKS_AGAIN_AFTER, reason));
            Err(Box::new((Some(answering), Fact::Dropped(reason))))
        }
        Err(fault) => Err(refuse(answering, &opened, fault, at)),
    }
}

/// The post-quantum pre-shared key that the initiator names with its AUTH.
fn take_ppk(answering: &mut Answering, opened: &Opened, at: &mut At<'_>) -> Result<(), Fault> {
    let parts = opened.parts()?;
    let Answering {
        candidates, init, ..
    } = answering;
    match parts.auth {
        Some(_) => init.take_ppk(candidates, &parts, &mut at.out.work),
        None => Ok(()),
    }
}

/// The session is established once the node has said what the peer gets.
fn ask_node(
    (sa, init): (IkeSa, Init),
    (proven, mut proof): (Proven, Vec<Payload>),
    (opened, first): (Opened, Option<Opened>),
    (calendar, addresses, maker): (Calendar, &[IpAddr], Option<Arc<Maker>>),
    at: &mut At<'_>,
) -> (Established, Vec<Fact>) {
    let own_spi = sa.own_spi();
    let nonces = init.nonces.clone();
    let mut facts = vec![Fact::Established(Arc::clone(&proven.connection))];
    // A certificate's end, which a ticket keeps as well, is not told: to come again with the same
    // one would change nothing.
    let until = proven.until.filter(|_| proven.certified.is_none());
    let rest = until.map(|until| until.since(at.now));
    let lasts = rest.filter(|it| *it >= LEAST_TOLD).map(lifetime_of);
    let mut session = establish((sa, Role::Responder), init, proven, calendar, at.now);
    session.begin_resumption(ids_of(
        first.as_ref().unwrap_or(&opened),
        &session.connection,
    ));
    let (mut notices, mut answer): (Vec<Payload>, _) = (lasts.into_iter().collect(), Vec::new());
    if let Ok(parts) = first.as_ref().unwrap_or(&opened).parts() {
        session.is_initial_contact = parts.has(NotifyType::InitialContact);
        session.begin_tokens(maker, &parts);
        // RFC 6290 §4.2: after AUTH, and before the configuration.
        proof.extend(session.crash.token(session.sas[0].spis));
        let own = addresses::told(&session.connection, addresses, opened.from.local.ip());
        session.begin_mobility(&parts, &own, at);
        if session.peer.mobike {
            notices.extend(addresses::announcement(&session.connection, &own));
        }
        if parts.has(NotifyType::TicketRequest) {
            facts.push(Fact::AsksTicket);
        }
        let wanted = parts.configuration.and_then(configuration::wanted);
        facts.extend(wanted.map(Fact::AsksAddress));
        let offer = offer_of(&parts, None).filter(|_| parts.sa.is_some());
        match session.connection.childless {
            // It comes later, in an exchange of its own.
            Childless::Force if offer.is_some() => {
                answer.push(notify(NotifyType::NoAdditionalSas));
            }
            _ => facts.extend(offer.map(Fact::AsksChild)),
        }
    }
    session.question = Some(Box::new(Question {
        own_spi,
        opened,
        first,
        subject: Subject::Auth {
            nonces,
            proof,
            notices,
        },
        answer,
        method: None,
        is_refused: false,
    }));
    (session, facts)
}

/// How long the peer's authentication is good for: it may come again before that (RFC 4478 §2).
fn lifetime_of(rest: Duration) -> Payload {
    let seconds = u32::try_from(rest.as_secs()).unwrap_or(u32::MAX);
    Payload::Notify(Notify::auth_lifetime(seconds))
}

/// The bodies of both ID payloads, the initiator's first.
fn ids_of(first: &Opened, connection: &Connection) -> (Vec<u8>, Vec<u8>) {
    let parts = first.parts();
    let peer = parts.ok().and_then(|it| Some(it.initiator?.1.to_vec()));
    let own = identification(&connection.local.identity);
    let own = Payload::IdentificationResponder(own).body();
    (peer.unwrap_or_default(), own)
}

/// The peer is told no more than that it is refused.
fn refuse(answering: Answering, opened: &Opened, fault: Fault, at: &mut At<'_>) -> Unproven {
    refuse_as(
        NotifyType::AuthenticationFailed,
        answering,
        opened,
        fault,
        at,
    )
}

fn refuse_as(
    kind: NotifyType,
    mut answering: Answering,
    opened: &Opened,
    fault: Fault,
    at: &mut At<'_>,
) -> Unproven {
    let refusal = [notify(kind)];
    answering.sa.answer(opened, &refusal, at);
    Box::new((None, Fact::Failed(fault)))
}

/// Whether a peer begins without a child where the connection does not.
fn is_childless_against(proven: &Proven, first: Option<&Opened>, opened: &Opened) -> bool {
    let parts = first.unwrap_or(opened).parts();
    let asks_none = parts.is_ok_and(|it| it.sa.is_none());
    proven.connection.childless == Childless::Never && asks_none
}

/// An initiator without AUTH wants EAP (RFC 7296 §2.16).
fn wants_examination(opened: &Opened) -> bool {
    let parts = opened.parts();
    parts.is_ok_and(|parts| parts.auth.is_none() && parts.initiator.is_some())
}

/// Whether a request without AUTH is not kept. What is in clear before its encrypted payload would
/// be kept too.
fn is_too_long(opened: &Opened) -> bool {
    opened.payload_octets().max(opened.octets()) > MAX_WITHOUT_AUTH
}

fn too_long() -> Fault {
    let text = "a request of IKE_AUTH without AUTH that is too long to be kept";
    Fault::Misbehaved(text.into())
}

/// Proves ourselves to a peer that wants EAP, and asks who it is.
fn begin_examination(
    mut answering: Answering,
    opened: Opened,
    calendar: Calendar,
    at: &mut At<'_>,
) -> Unproven {
    if is_too_long(&opened) {
        return refuse(answering, &opened, too_long(), at);
    }
    let (connection, backend, chain) = match introduce(&answering, &opened, calendar, at) {
        Ok(introduced) => introduced,
        Err(fault) => return refuse(answering, &opened, fault, at),
    };
    answering.init.note_proof(proof_in(&chain));
    answering.sa.answer(&opened, &chain, at);
    answering.examining = Some(Box::new(Examining::new(connection, opened, backend)));
    Box::new((Some(answering), Fact::Pending))
}

/// The connection that examines a peer and how it begins, with our identity and its proof.
fn introduce(
    answering: &Answering,
    opened: &Opened,
    calendar: Calendar,
    at: &mut At<'_>,
) -> Result<(Arc<Connection>, Backend, Vec<Payload>), Fault> {
    let parts = opened.parts()?;
    let (claimed, asked) = names_of(&parts)?;
    let (connection, examiner) = examiner(&answering.candidates, &claimed, asked.as_ref())?;
    // RFC 5998 §3: a peer that is content with EAP alone gets no other proof.
    let is_alone = connection.is_eap_only
        && examiner.is_safe_alone()
        && parts.has(NotifyType::EapOnlyAuthentication);
    let mut chain = match is_alone {
        true => {
            let own = identification(&connection.local.identity);
            vec![Payload::IdentificationResponder(own)]
        }
        false => introduction(&connection, &answering.init, at)?,
    };
    let (backend, packet) = begin(&connection, &examiner, calendar, at.random)?;
    chain.push(Payload::Eap(packet));
    Ok((connection, backend, chain))
}

/// A packet of the peer: ours follows, and the verdict at the end.
fn examine(
    mut answering: Answering,
    mut examining: Box<Examining>,
    opened: Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Unproven {
    if is_too_long(&opened) {
        return refuse(answering, &opened, too_long(), at);
    }
    let parts = opened.parts();
    let Some(packet) = parts.ok().and_then(|parts| parts.eap) else {
        let text = "a message of IKE_AUTH without the packet of EAP that is due";
        return refuse(answering, &opened, Fault::Misbehaved(text.into()), at);
    };
    if examining.asks_servers() && !checks.may_ask {
        if !examining.is_told {
            examining.is_told = true;
            let why = "the RADIUS servers have many open questions, too many of them for peers of \
                       this network: the peer waits";
            let told = rejection(examining.connection(), at.path, why.into());
            at.out.rejections.push(told);
        }
        answering.examining = Some(examining);
        return Box::new((Some(answering), Fact::Dropped(DropReason::OverQuota)));
    }
    let peer = at.path.remote.ip();
    let mut quotas = checks.quotas;
    let tried = examining.tries(packet);
    if let Some(quotas) = &mut quotas
        && let Some(tried) = &tried
    {
        let taken = match tried {
            Tried::User(user) => quotas.take_password(user, peer, at.now),
            Tried::Server => quotas.may_try(peer, at.now),
        };
        if let Err(excess) = taken {
            let line = excess.line.filter(|_| !examining.is_told);
            if let Some(why) = line {
                examining.is_told = true;
                let told = rejection(examining.connection(), at.path, why);
                at.out.rejections.push(told);
            }
            answering.examining = Some(examining);
            return Box::new((Some(answering), Fact::Dropped(excess.reason)));
        }
    }
    let means = (&mut *at.random, &mut at.out.work);
    let examined = examining.on_packet(packet, peer, checks.calendar, means);
    // Whatever took one of the user's tries and proves nothing is a wrong password.
    if let Some(quotas) = quotas
        && let Some(Tried::User(user)) = &tried
        && !examining.has_right_password()
    {
        quotas.password_was_wrong(user, peer, at.now);
    }
    if let Examined::Asked(question) = examined {
        examining.waiting = Some((opened, at.path));
        answering.examining = Some(examining);
        return Box::new((Some(answering), Fact::AsksServer(question)));
    }
    tell(answering, examining, &opened, examined, at)
}

/// A server of RADIUS has answered: the peer is told.
pub(in crate::ikev2) fn on_verdict(
    mut answering: Answering,
    verdict: Verdict,
    at: &mut At<'_>,
) -> Unproven {
    let waiting = answering.examining.take();
    let Some(mut examining) = waiting else {
        return Box::new((Some(answering), Fact::Pending));
    };
    let Some((opened, path)) = examining.waiting.take() else {
        answering.examining = Some(examining);
        return Box::new((Some(answering), Fact::Pending));
    };
    at.path = path;
    let examined = examining.on_verdict(verdict, at.now);
    tell(answering, examining, &opened, examined, at)
}

/// Answers the peer's packet.
fn tell(
    mut answering: Answering,
    examining: Box<Examining>,
    opened: &Opened,
    examined: Examined,
    at: &mut At<'_>,
) -> Unproven {
    match examined {
        Examined::Asked(_) => Box::new((Some(answering), Fact::Pending)),
        Examined::Next(packet) => {
            answering.sa.answer(opened, &[packet], at);
            answering.examining = Some(examining);
            Box::new((Some(answering), Fact::Pending))
        }
        Examined::Failed(packet, fault) => {
            answering.sa.answer(opened, &[packet], at);
            Box::new((None, Fact::Failed(fault)))
        }
    }
}

/// Checks that a peer that has passed the examination has its key, and proves that we have it.
fn judge_user(
    examining: &mut Examining,
    init: &Init,
    opened: &Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Result<(Proven, Vec<Payload>), Fault> {
    let Some((proven, key)) = examining.proven.take() else {
        return Err(Fault::Misbehaved(
            "nobody has passed the examination".into(),
        ));
    };
    let (first, parts) = (examining.first.parts()?, opened.parts()?);
    let (_, id) = first.initiator.ok_or_else(unidentified)?;
    let fallback = init.fallback(&parts);
    let parts = Parts {
        auth: fallback.as_ref().or(parts.auth),
        ..parts
    };
    check_key(init.initiator(id), &key, &parts, &mut at.out.work)?;
    init.confirm(&proven.connection)?;
    if let Err(fault) = charge(&proven, checks, at) {
        // The message may come again.
        examining.proven = Some((proven, key));
        return Err(fault);
    }
    let own = identification(&proven.connection.local.identity);
    let body = Payload::IdentificationResponder(own).body();
    let mut chain = vec![prove_key(init.responder(&body), &key, &mut at.out.work)];
    chain.extend(init.ppk_answer());
    Ok((proven, chain))
}

/// The peer ends an exchange that it does not like.
pub(in crate::ikev2) fn is_given_up(opened: &Opened) -> bool {
    opened.parts().is_ok_and(|parts| {
        let deletes = parts.deletes.iter();
        parts.has(NotifyType::AuthenticationFailed)
            || deletes.into_iter().any(|it| matches!(it, Delete::IkeSa))
    })
}

/// Why an exchange is over that the peer has ended: we may have refused it just before.
pub(in crate::ikev2) fn given_up(answering: &Answering) -> Fault {
    let examining = answering.examining.as_ref();
    let why = examining.and_then(|it| it.refusal());
    let why = why.unwrap_or("the peer does not accept us, and has ended the exchange");
    Fault::Unauthenticated(why.to_owned())
}

/// Checks the initiator's proof, and makes ours.
fn judge(
    answering: &mut Answering,
    opened: &Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Result<(Proven, Vec<Payload>), Fault> {
    let Answering {
        candidates, init, ..
    } = answering;
    let parts = opened.parts()?;
    let (claimed, asked) = names_of(&parts)?;
    let (_, body) = parts.initiator.ok_or_else(unidentified)?;
    let fallback = init.fallback(&parts);
    let parts = Parts {
        auth: fallback.as_ref().or(parts.auth),
        ..parts
    };
    let proven = check(
        candidates,
        (&claimed, asked.as_ref()),
        &parts,
        (init.initiator(body), &init.peer),
        checks.calendar,
        &mut at.out.work,
    )?;
    init.confirm(&proven.connection)?;
    charge(&proven, checks, at)?;
    let mut chain = introduction(&proven.connection, init, at)?;
    init.note_proof(parts.auth);
    init.note_proof(proof_in(&chain));
    chain.extend(init.ppk_answer());
    Ok((proven, chain))
}

/// Checks an initiator that goes on from a session that was lost, and makes our proof.
fn judge_resumed(
    init: &mut Init,
    opened: &Opened,
    checks: Checks<'_>,
    at: &mut At<'_>,
) -> Result<(Proven, Vec<Payload>), Fault> {
    let parts = opened.parts()?;
    let proven = init.check_resumed(Role::Initiator, &parts, &mut at.out.work)?;
    init.confirm(&proven.connection)?;
    if let Err(fault) = charge(&proven, checks, at) {
        // The message may come again.
        if let Some(resumed) = &mut init.resumed {
            resumed.proven = Some(proven);
        }
        return Err(fault);
    }
    let own = identification(&proven.connection.local.identity);
    let own = Payload::IdentificationResponder(own);
    let body = own.body();
    let auth = init.prove_resumed(Role::Responder, &body, &mut at.out.work);
    Ok((proven, vec![own, auth]))
}

/// Our identity, and its proof.
fn introduction(
    connection: &Connection,
    init: &Init,
    at: &mut At<'_>,
) -> Result<Vec<Payload>, Fault> {
    let own = identification(&connection.local.identity);
    let own = Payload::IdentificationResponder(own);
    let body = own.body();
    let mut chain = vec![own];
    let (random, work) = (&mut *at.random, &mut at.out.work);
    let proof = prove(connection, init.responder(&body), &init.peer, random, work)?;
    chain.extend(proof);
    Ok(chain)
}

/// Who the initiator says that it is, and whom it wants.
fn names_of(parts: &Parts<'_>) -> Result<(Identity, Option<Identity>), Fault> {
    let (id, _) = parts.initiator.ok_or_else(unidentified)?;
    let asked = parts.responder.map(|(id, _)| identity_of(id)).transpose()?;
    Ok((identity_of(id)?, asked))
}

fn unidentified() -> Fault {
    Fault::Misbehaved("a request of IKE_AUTH without the initiator's identity".into())
}

/// A gateway's peers have quotas.
fn charge(proven: &Proven, checks: Checks<'_>, at: &mut At<'_>) -> Result<(), Fault> {
    let connection = &proven.connection;
    if let Some(quotas) = checks.quotas
        && connection.remote_addrs.is_empty()
        && let Err(excess) = quotas.take_exchange(&proven.identity, connection.peers_max, at.now)
    {
        let line = excess.line.map(|why| rejection(connection, at.path, why));
        at.out.rejections.extend(line);
        return Err(excess.reason.into());
    }
    Ok(())
}

/// A line about a peer above a quota.
fn rejection(connection: &Connection, path: Path, why: String) -> Rejection {
    Rejection {
        connection: Some(connection.name.clone()),
        path,
        why,
    }
}
