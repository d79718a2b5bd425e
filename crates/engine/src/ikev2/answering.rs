//! A responder's part of IKE_SA_INIT (RFC 7296 §1.2, §2.6, §2.7), and what it decides before it
//! keeps anything: cookies, and other gateways to which it sends initiators (RFC 5685 §3).

use std::sync::Arc;

use crypto::rand::Stream;
use wire::ikev2::{
    self as wire2, Exchange, Gateway, KeyExchange, Notify, NotifyType, Payload, Redirect,
    first_unknown_critical,
};

use super::Abilities;
use super::auth::certificate_request;
use super::between::Between;
use super::clear::{Clear, clear};
use super::cookie::{Asker, Cookies};
use super::eap::Examining;
use super::exchange;
use super::fresh::{fresh_nonce, fresh_spi};
use super::init::{Init, announcements, detection, find_nat, full_transcript, has_additional};
use super::keys::{Keys, Nonces, Seed};
use super::message::Message;
use super::parts::{Parts, childless_supported, names_read, notify, notify_with};
use super::ppk::{self, Agreed};
use super::proposal::{self, Chosen};
use super::ticket::Tickets;
use super::window::IkeSa;
use crate::config::{Childless, Connection};
use crate::counters::DropReason;
use crate::ike::retransmit::Answered;
use crate::ike::{Fault, Outbox, Refusal, Role, Spis, Step};
use crate::sa::Path;
use crate::suite::Ikev2Suite;
use crate::time::{Calendar, Instant};

/// Octets of a first message that a responder reads.
const MAX_FIRST_BYTES: usize = 8 << 10;
/// The head of our answer.
const HEAD: Clear = Clear::answer(Exchange::IkeSaInit);

/// What a responder has for first messages.
#[derive(Default)]
pub struct Gate<'a> {
    /// The load is high: only a sender that has shown that it receives is served.
    pub cookies: Option<&'a mut Cookies>,
    /// Initiators that can go elsewhere are sent there.
    pub away: Option<&'a Gateway>,
    /// There is no room for one more half-open exchange: nothing is computed for one.
    pub is_full: bool,
    /// Opens tickets, for IKE_SESSION_RESUME.
    pub(crate) tickets: Option<&'a mut Tickets>,
    /// The date.
    pub calendar: Calendar,
}

impl Gate<'_> {
    /// Lets a first message in, or answers it: with another gateway, or with a cookie.
    pub(super) fn admit(
        &mut self,
        message: &Message<'_>,
        (parts, nonce): (&Parts<'_>, &[u8]),
        path: Path,
        (random, now): (&mut Stream, Instant),
        out: &mut Outbox,
    ) -> Result<(), Fault> {
        let asked = message.spis();
        let tell = |payload: Payload, out: &mut Outbox| {
            let head = Clear::answer(message.exchange());
            out.messages.push(clear(head, asked, &[payload], path));
        };
        if let Some(away) = self.away.filter(|it| may_be_sent(it, parts, path)) {
            let redirect = Redirect {
                gateway: away.clone(),
                nonce: nonce.to_vec(),
            };
            tell(Payload::Notify(Notify::redirect(&redirect)), out);
            return Err(DropReason::SentAway.into());
        }
        if let Some(cookies) = &mut self.cookies {
            let asker = Asker {
                nonce,
                address: path.remote,
                spi: asked.initiator,
            };
            let returned = parts.notice(NotifyType::Cookie);
            if !returned.is_some_and(|it| cookies.check(&it.value, &asker, random, now)) {
                let cookie = cookies.make(&asker, random, now);
                tell(notify_with(NotifyType::Cookie, cookie), out);
                return Err(DropReason::CookieAsked.into());
            }
        }
        match self.is_full {
            true => Err(DropReason::TooManyHalfOpen.into()),
            false => Ok(()),
        }
    }
}

/// Whether an initiator can be sent to a gateway: it has said so, and does not come from there,
/// which would make a loop; and the gateway is not we.
fn may_be_sent(away: &Gateway, parts: &Parts<'_>, path: Path) -> bool {
    let from = parts.notice(NotifyType::RedirectedFrom);
    let from = from.and_then(|it| it.to_redirected_from().ok());
    let own = Gateway::Address(path.local.ip());
    let can = parts.has(NotifyType::RedirectSupported) || from.is_some();
    can && from.as_ref() != Some(away) && *away != own
}

/// A responder that waits for IKE_AUTH.
pub(super) struct Answering {
    /// The connections that the peer may belong to.
    pub(super) candidates: Vec<Arc<Connection>>,
    pub(super) sa: IkeSa,
    pub(super) init: Init,
    /// The first message, answered again if it is repeated.
    pub(super) answered: Answered,
    /// The peer's request was dropped for this reason, and is looked at again then.
    pub(super) looks_again: Option<(Instant, DropReason)>,
    /// It examines a peer by EAP.
    pub(super) examining: Option<Box<Examining>>,
}

impl Answering {
    /// Answers a first message with the first of `candidates` that has a suite in common with it.
    /// On a fault, `out` has what the peer is told, and nothing is kept.
    pub(super) fn begin(
        candidates: &[Arc<Connection>],
        path: Path,
        message: &Message<'_>,
        mut gate: Gate<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let found = read_first(message, path, out)?;
        let parts = Parts::sort(message.octets(), &found.clear)?;
        let tell = |payload: Payload, out: &mut Outbox| {
            let told = clear(HEAD, message.spis(), &[payload], path);
            out.messages.push(told);
        };
        let (Some(offered), Some(theirs), Some(ni)) = (parts.sa, parts.exchange, parts.nonce)
        else {
            return Err(DropReason::MalformedMessage.into());
        };
        gate.admit(message, (&parts, ni), path, (&mut *random, now), out)?;
        let peer = Abilities::announced(&parts);
        // Of all connections: who changes the offer must not choose whether we announce it.
        let covers_both = candidates.iter().all(|it| it.full_transcript);
        let Some((chosen, candidates)) = proposal::choose_connections(candidates, offered, &peer)
        else {
            tell(notify(NotifyType::NoProposalChosen), out);
            let suites = proposal::all_suites(candidates);
            return Err(proposal::nothing_in_common(&suites, offered));
        };
        let method = chosen.suite.method.number();
        if theirs.method != method {
            tell(Payload::Notify(Notify::invalid_ke(method)), out);
            return Err(other_method(theirs.method, chosen.suite));
        }
        out.heard(Step::Init(1), message.size(), names_read(&found.clear));
        Self::answer(
            message,
            (&parts, theirs, ni),
            (&chosen, candidates, covers_both),
            path,
            random,
            out,
        )
    }

    /// Sends the answer, with our public value.
    fn answer(
        message: &Message<'_>,
        (parts, theirs, ni): (&Parts<'_>, &KeyExchange, &[u8]),
        (chosen, candidates, covers_both): (&Chosen<'_, Ikev2Suite>, Vec<Arc<Connection>>, bool),
        path: Path,
        random: &mut Stream,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        let (asked, suite) = (message.spis(), chosen.suite);
        let (payload, shared) = exchange::respond(suite.method, theirs, random, &mut out.work)?;
        let spis = Spis {
            initiator: asked.initiator,
            responder: fresh_spi(random),
        };
        let nr = fresh_nonce(random).to_vec();
        let nonces = Nonces {
            initiator: ni,
            responder: &nr,
        };
        let seed = Seed::first(suite.prf, nonces, shared.as_ref(), &mut out.work);
        let keys = Keys::derive(suite, &seed, nonces, spis, &mut out.work)?;
        let peer = Abilities::announced(parts);
        let fragments = candidates.iter().all(|it| it.fragments);
        let mut chain = vec![
            Payload::SecurityAssociation(vec![proposal::answer(chosen, &[])]),
            payload,
            Payload::Nonce(nr.clone()),
        ];
        chain.extend(detection(spis, path));
        chain.extend(certificate_request(&candidates));
        chain.extend(announcements(fragments));
        chain.extend(full_transcript(covers_both));
        let is_early = peer.early_ppk && ppk::is_any_early(&candidates);
        if is_early || has_additional(&suite) {
            chain.push(notify(NotifyType::IntermediateExchangeSupported));
        }
        let has_ppk = peer.ppk && ppk::has_any(&candidates);
        chain.extend(ppk::chosen(is_early, has_ppk));
        if candidates.iter().any(|it| it.childless != Childless::Never) {
            chain.push(childless_supported());
        }
        let sent = clear(HEAD, spis, &chain, path);
        let may_fragment = peer.fragmentation && fragments;
        Ok(Self {
            candidates,
            sa: IkeSa::new(spis, Role::Responder, suite, &keys, may_fragment).after_init(),
            init: Init {
                suite,
                request: message.octets().to_vec(),
                answer: sent.message.clone(),
                covers_both: covers_both && peer.full_transcript,
                nonces: (ni.to_vec(), nr),
                p: keys.p,
                between: Between::default(),
                ppk: Agreed::announced(is_early),
                nat: find_nat(asked, path, parts),
                peer,
                has_sha1: false,
                resumed: None,
            },
            answered: Answered::send(message.octets(), Some(sent), out),
            looks_again: None,
            examining: None,
        })
    }
}

/// The payloads of a first message. One with a critical payload that we do not know is answered.
pub(super) fn read_first(
    message: &Message<'_>,
    path: Path,
    out: &mut Outbox,
) -> Result<wire2::Message, Fault> {
    if message.octets().len() > MAX_FIRST_BYTES {
        return Err(wire::codec::Malformed::TooMany("octets of a first message").into());
    }
    let found = message.read()?;
    if let Some(kind) = first_unknown_critical(&found.clear) {
        let notice = [notify_with(
            NotifyType::UnsupportedCriticalPayload,
            vec![kind],
        )];
        let head = Clear::answer(message.exchange());
        out.messages
            .push(clear(head, message.spis(), &notice, path));
        return Err(DropReason::MalformedMessage.into());
    }
    Ok(found)
}

fn other_method(theirs: u16, suite: Ikev2Suite) -> Fault {
    Fault::Incompatible {
        what: format!(
            "the peer's public value is of method {theirs}, and {suite} is the best suite in \
             common: it is asked to begin again"
        ),
        refusal: Refusal::KeyExchange,
    }
}
