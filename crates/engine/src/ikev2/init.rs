//! IKE_SA_INIT, in both roles (RFC 7296 §1.2, §2.6, §2.7, §2.23; RFC 7383 §2.3; RFC 7427 §4).
//!
//! ```text
//! initiator                                              responder
//! [N(COOKIE)], SA, KEi, Ni, N(NAT_DETECTION_*), N... -->
//!                                    <-- N(COOKIE), or N(INVALID_KE_PAYLOAD), or
//!                                    <-- SA, KEr, Nr, N(NAT_DETECTION_*), [CERTREQ], N...
//! ```
//!
//! Nothing here is authenticated. An initiator keeps a refusal as a doubt for a while and prefers
//! any better answer. What it makes anybody do is bounded.

use core::slice;
use std::sync::Arc;

use crypto::hash::{Hash, is_equal};
use crypto::key_exchange::{Initiator, Method};
use crypto::rand::Stream;
use wire::ikev2::{KeyExchange, Notify, NotifyType, Payload, first_unknown_critical};

use super::Abilities;
use super::auth::{HASHES, Signed, certificate_request};
use super::between::Between;
use super::child::fresh_nonce;
use super::cookie::{Asker, Cookies};
use super::eap::Examining;
use super::exchange;
use super::keys::{Keys, Nonces, Seed};
use super::message::Message;
use super::parts::{Parts, names_read, notify, notify_name, notify_with};
use super::ppk::{self, Agreed};
use super::proposal::{self, Chosen};
use super::rekey::fresh_spi;
use super::window::{IkeSa, clear_message};
use crate::config::{Childless, Connection};
use crate::counters::DropReason;
use crate::ike::nat::{NatFinding, hash_of};
use crate::ike::retransmit::{Answered, Retransmit};
use crate::ike::{Fault, Outbox, Refusal, Rejection, Role, Spi, Spis, Step};
use crate::sa::{Path, Secret};
use crate::suite::Ikev2Suite;
use crate::time::{Deadline, Duration, Instant};

/// How long to wait for a better answer after an unauthenticated refusal.
const GRACE: Duration = Duration::from_secs(3);
/// How often an initiator starts again with a cookie or another method, whoever asks for it.
const MAX_RESTARTS: u32 = 4;
/// Log lines about unauthenticated refusals in one exchange.
const MAX_COMPLAINTS: u32 = 4;
/// Octets of a first message that a responder reads.
pub(super) const MAX_FIRST_BYTES: usize = 8 << 10;

/// What IKE_SA_INIT leaves for IKE_AUTH.
pub(super) struct Init {
    pub(super) suite: Ikev2Suite,
    /// Both messages as they were on the wire.
    pub(super) request: Vec<u8>,
    pub(super) answer: Vec<u8>,
    pub(super) nonces: (Vec<u8>, Vec<u8>),
    /// SK_pi and SK_pr.
    pub(super) p: (Secret, Secret),
    /// What follows before IKE_AUTH.
    pub(super) between: Between,
    pub(super) ppk: Agreed,
    pub(super) nat: NatFinding,
    pub(super) peer: Abilities,
}

impl Init {
    /// SK_pi and SK_pr for AUTH, with the key that both ends use.
    fn proving_keys(&self) -> &(Secret, Secret) {
        let mixed = self.ppk.mixed.as_ref();
        mixed.and_then(|it| it.p.as_ref()).unwrap_or(&self.p)
    }

    /// What the initiator's AUTH covers. `id`: the body of its ID payload.
    pub(super) fn initiator<'a>(&'a self, id: &'a [u8]) -> Signed<'a> {
        Signed {
            message: &self.request,
            nonce: &self.nonces.1,
            prf: self.suite.prf,
            p: &self.proving_keys().0,
            id,
            between: &self.between.authenticated,
        }
    }

    /// What the responder's AUTH covers.
    pub(super) fn responder<'a>(&'a self, id: &'a [u8]) -> Signed<'a> {
        Signed {
            message: &self.answer,
            nonce: &self.nonces.0,
            prf: self.suite.prf,
            p: &self.proving_keys().1,
            id,
            between: &self.between.authenticated,
        }
    }
}

/// An initiator that waits for the answer.
pub(super) struct Asking {
    pub(super) connection: Arc<Connection>,
    pub(super) path: Path,
    pub(super) spi: Spi,
    half: Initiator,
    nonce: Vec<u8>,
    cookie: Option<Vec<u8>>,
    request: Vec<u8>,
    retransmit: Retransmit,
    restarts: u32,
    complaints: u32,
    doubt: Option<(Fault, Instant)>,
}

impl Asking {
    /// Sends the request. Panics if the connection has no proposal for IKEv2.
    pub(super) fn begin(
        connection: Arc<Connection>,
        path: Path,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Self {
        let method = connection.ikev2_proposals[0].method;
        let half = exchange::generate(method, random, &mut out.work);
        let nonce = fresh_nonce(random).to_vec();
        let spi = fresh_spi(random);
        let spis = Spis {
            initiator: spi,
            responder: Spi([0; 8]),
        };
        let chain = request(&connection, (spis, path), &half, &nonce, None);
        let sent = clear_message(spis, true, false, &chain, path);
        let request = sent.message.clone();
        Self {
            connection,
            path,
            spi,
            half,
            nonce,
            cookie: None,
            request,
            retransmit: Retransmit::send(sent, now, out),
            restarts: 0,
            complaints: 0,
            doubt: None,
        }
    }

    /// Our offer in the configuration's words.
    pub(super) fn offered(&self) -> String {
        let suites = self.connection.ikev2_proposals.iter();
        let words: Vec<String> = suites.map(ToString::to_string).collect();
        format!("we offer {}", words.join(", "))
    }

    /// Handles a message with our SPI. Gives the IKE SA if it is the answer.
    pub(super) fn on_message(
        &mut self,
        message: &Message<'_>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Option<(IkeSa, Init)>, DropReason> {
        let is_answer = message.is_response()
            && message.our_role() == Role::Initiator
            && message.exchange() == wire::ikev2::Exchange::IkeSaInit
            && message.id() == 0
            && message.spis().initiator == self.spi;
        if !is_answer {
            return Err(DropReason::UnexpectedMessage);
        }
        let found = message.read()?;
        // A message with a critical payload that we do not know is rejected (RFC 7296 §2.5).
        if found.protected.is_some() || first_unknown_critical(&found.clear).is_some() {
            return Err(DropReason::MalformedMessage);
        }
        let parts = Parts::sort(message.octets(), &found.clear)?;
        if parts.sa.is_none() {
            let heard = |out: &mut Outbox| {
                out.heard(Step::Init(2), message.size(), names_read(&found.clear));
            };
            return self
                .on_notice(&parts, heard, random, now, out)
                .map(|()| None);
        }
        match self.agree(message, &parts, out) {
            Ok(made) => {
                out.heard(Step::Init(2), message.size(), names_read(&found.clear));
                self.retransmit.answered(now, out);
                Ok(Some(made))
            }
            Err(Fault::Dropped(reason)) => Err(reason),
            Err(fault) => {
                let reason = fault.drop_reason();
                self.doubt(fault, now, out);
                Err(reason)
            }
        }
    }

    /// The responder wants something else first, or refuses. Who only refuses is not `heard`: it
    /// may be anybody.
    fn on_notice(
        &mut self,
        parts: &Parts<'_>,
        heard: impl FnOnce(&mut Outbox),
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        if let Some(cookie) = parts.notice(NotifyType::Cookie) {
            let cookie = cookie
                .to_cookie()
                .map_err(|_| DropReason::MalformedMessage)?;
            self.cookie = Some(cookie.to_vec());
            return self.restart(heard, now, out);
        }
        if let Some(named) = parts.notice(NotifyType::InvalidKePayload) {
            let method = named.to_method().ok().and_then(Method::of_number);
            let mut suites = self.connection.ikev2_proposals.iter();
            let is_ours = |it: &Method| suites.any(|suite| suite.method == *it);
            let method = method
                .filter(is_ours)
                .filter(|it| *it != self.half.method());
            let method = method.ok_or(DropReason::NoProposalChosen)?;
            if self.restarts < MAX_RESTARTS {
                self.half = exchange::generate(method, random, &mut out.work);
            }
            return self.restart(heard, now, out);
        }
        let Some(error) = parts.error() else {
            return Err(DropReason::UnexpectedMessage);
        };
        let name = notify_name(error.kind);
        let fault = match error.kind {
            NotifyType::NoProposalChosen => {
                Fault::Refused(format!("the peer refused with {name}; {}", self.offered()))
            }
            NotifyType::InvalidMajorVersion => Fault::Refused(
                "the peer speaks only IKEv1: the connection needs version = 1".to_owned(),
            ),
            _ => Fault::Refused(format!("the peer refused with {name}")),
        };
        self.doubt(fault, now, out);
        Err(DropReason::NoProposalChosen)
    }

    /// Sends the request again with what the responder wants.
    fn restart(
        &mut self,
        heard: impl FnOnce(&mut Outbox),
        now: Instant,
        out: &mut Outbox,
    ) -> Result<(), DropReason> {
        if self.restarts == MAX_RESTARTS {
            return Err(DropReason::UnexpectedMessage);
        }
        heard(out);
        self.restarts += 1;
        self.doubt = None;
        let spis = Spis {
            initiator: self.spi,
            responder: Spi([0; 8]),
        };
        let ends = (spis, self.path);
        let cookie = self.cookie.as_deref();
        let chain = request(&self.connection, ends, &self.half, &self.nonce, cookie);
        let sent = clear_message(spis, true, false, &chain, self.path);
        self.request = sent.message.clone();
        self.retransmit = Retransmit::send(sent, now, out);
        Ok(())
    }

    fn agree(
        &self,
        message: &Message<'_>,
        parts: &Parts<'_>,
        out: &mut Outbox,
    ) -> Result<(IkeSa, Init), Fault> {
        let malformed = || Fault::Dropped(DropReason::MalformedMessage);
        let (Some(sa), Some(theirs), Some(nr)) = (parts.sa, parts.exchange, parts.nonce) else {
            return Err(malformed());
        };
        let spis = message.spis();
        if spis.responder == Spi([0; 8]) {
            return Err(malformed());
        }
        if spis.responder == spis.initiator || nr == self.nonce {
            return Err(DropReason::Reflected.into());
        }
        let suite = proposal::chosen(&self.connection.ikev2_proposals, sa)?.suite;
        if suite.method != self.half.method() {
            return Err(Fault::Misbehaved(
                "the peer chose another method than that of our public value".into(),
            ));
        }
        let shared = exchange::finish(&self.half, theirs, &mut out.work)?;
        let nonces = Nonces {
            initiator: &self.nonce,
            responder: nr,
        };
        let peer = Abilities::announced(parts);
        if !suite.additional.is_empty() && !peer.intermediate {
            return Err(Fault::Misbehaved(
                "the peer chose an additional key exchange, and has no IKE_INTERMEDIATE".into(),
            ));
        }
        if self.connection.childless == Childless::Force && !peer.childless {
            let text = "childless = \"force\", and the peer authenticates with a child alone";
            return Err(Fault::Refused(text.into()));
        }
        let own = self.connection.ppk.as_ref();
        let is_early = peer.early_ppk && own.is_some_and(|it| it.is_early);
        if let Some(ppk) = own
            && ppk.is_required
            && !(peer.ppk || is_early)
        {
            return Err(ppk::lacking(ppk));
        }
        let seed = Seed::first(suite.prf, nonces, shared.as_ref(), &mut out.work);
        let keys = Keys::derive(suite, &seed, nonces, spis, &mut out.work)?;
        let may_fragment = peer.fragmentation && self.connection.fragments;
        let sa = IkeSa::new(spis, Role::Initiator, suite, &keys, may_fragment).after_init();
        let init = Init {
            suite,
            request: self.request.clone(),
            answer: message.octets().to_vec(),
            nonces: (self.nonce.clone(), nr.to_vec()),
            p: keys.p,
            between: Between::default(),
            ppk: Agreed::announced(is_early),
            nat: find_nat(spis, self.path, parts),
            peer,
        };
        Ok((sa, init))
    }

    /// Keeps the first refusal, and logs the first few.
    fn doubt(&mut self, fault: Fault, now: Instant, out: &mut Outbox) {
        if self.complaints < MAX_COMPLAINTS {
            self.complaints += 1;
            out.rejections.push(Rejection {
                connection: Some(self.connection.name.clone()),
                path: self.path,
                why: fault.to_string(),
            });
        }
        self.doubt.get_or_insert((fault, now + GRACE));
    }

    pub(super) fn deadline(&self) -> Option<Deadline> {
        let doubt = self.doubt.as_ref().map(|(_, until)| Deadline {
            at: *until,
            why: "IKE_SA_INIT refused",
        });
        [Some(self.retransmit.deadline()), doubt]
            .into_iter()
            .flatten()
            .min()
    }

    pub(super) fn departed(&mut self, began: Instant, now: Instant) {
        self.retransmit.departed(began, now);
    }

    /// Sends again, or gives up.
    pub(super) fn on_deadline(&mut self, now: Instant, out: &mut Outbox) -> Result<(), Fault> {
        if let Some((fault, _)) = self.doubt.take_if(|(_, until)| *until <= now) {
            return Err(fault);
        }
        self.retransmit.fire(now, out)
    }
}

fn request(
    connection: &Arc<Connection>,
    (spis, path): (Spis, Path),
    half: &Initiator,
    nonce: &[u8],
    cookie: Option<&[u8]>,
) -> Vec<Payload> {
    let mut chain = Vec::new();
    chain.extend(cookie.map(|it| notify_with(NotifyType::Cookie, it.to_vec())));
    let offer = proposal::offer(&connection.ikev2_proposals, &[]);
    chain.push(Payload::SecurityAssociation(offer));
    chain.push(exchange::payload(half));
    chain.push(Payload::Nonce(nonce.to_vec()));
    chain.extend(detection(spis, path));
    chain.extend(announcements(connection.fragments));
    let is_early = ppk::is_any_early(slice::from_ref(connection));
    if is_early || connection.ikev2_proposals.iter().any(has_additional) {
        chain.push(notify(NotifyType::IntermediateExchangeSupported));
    }
    chain.extend(ppk::offered(connection));
    chain
}

/// Whether a suite needs IKE_INTERMEDIATE (RFC 9370 §2.2.1).
fn has_additional(suite: &Ikev2Suite) -> bool {
    !suite.additional.is_empty()
}

/// What both ends announce.
fn announcements(fragments: bool) -> Vec<Payload> {
    let mut all = Vec::new();
    if fragments {
        all.push(notify(NotifyType::Ikev2FragmentationSupported));
    }
    all.push(Payload::Notify(Notify::hash_algorithms(&HASHES)));
    all
}

/// Both ends of the path as we see them. They are never faked: RFC 7296 §2.23 lets either end send
/// ESP in UDP without a NAT.
pub(super) fn detection(spis: Spis, path: Path) -> [Payload; 2] {
    let hash = |kind, end| notify_with(kind, hash_of(Hash::Sha1, spis, end));
    [
        hash(NotifyType::NatDetectionSourceIp, path.local),
        hash(NotifyType::NatDetectionDestinationIp, path.remote),
    ]
}

/// Compares the peer's hashes with what we see. `spis` are those of its message.
pub(super) fn find_nat(spis: Spis, path: Path, parts: &Parts<'_>) -> NatFinding {
    let is_of = |notify: &Notify, end| {
        let own = hash_of(Hash::Sha1, spis, end);
        is_equal(&notify.value, &own)
    };
    let mut sources = parts
        .notices_of(NotifyType::NatDetectionSourceIp)
        .peekable();
    let destination = parts.notice(NotifyType::NatDetectionDestinationIp);
    let (Some(destination), Some(_)) = (destination, sources.peek()) else {
        return NatFinding::default();
    };
    NatFinding {
        is_supported: true,
        is_local: !is_of(destination, path.local),
        is_remote: !sources.any(|it| is_of(it, path.remote)),
        is_pretended: false,
    }
}

/// A responder that waits for IKE_AUTH.
pub(super) struct Answering {
    /// The connections that the peer may belong to.
    pub(super) candidates: Vec<Arc<Connection>>,
    pub(super) sa: IkeSa,
    pub(super) init: Init,
    /// The first message, answered again if it is repeated.
    pub(super) answered: Answered,
    /// It examines a peer by EAP.
    pub(super) examining: Option<Box<Examining>>,
}

impl Answering {
    /// Answers a first message with the first of `candidates` that has a suite in common with it.
    /// `cookies`: the load is high, and the sender must show that it receives. On a fault, `out`
    /// has what the peer is told, and nothing is kept.
    pub(super) fn begin(
        candidates: &[Arc<Connection>],
        path: Path,
        message: &Message<'_>,
        cookies: Option<&mut Cookies>,
        random: &mut Stream,
        now: Instant,
        out: &mut Outbox,
    ) -> Result<Self, Fault> {
        if message.octets().len() > MAX_FIRST_BYTES {
            return Err(wire::codec::Malformed::TooMany("octets of a first message").into());
        }
        let asked = message.spis();
        let found = message.read()?;
        let parts = Parts::sort(message.octets(), &found.clear)?;
        let tell = |payload: Payload, out: &mut Outbox| {
            let told = clear_message(asked, false, true, &[payload], path);
            out.messages.push(told);
        };
        if let Some(kind) = first_unknown_critical(&found.clear) {
            let kind = vec![kind];
            let notice = notify_with(NotifyType::UnsupportedCriticalPayload, kind);
            tell(notice, out);
            return Err(DropReason::MalformedMessage.into());
        }
        let (Some(offered), Some(theirs), Some(ni)) = (parts.sa, parts.exchange, parts.nonce)
        else {
            return Err(DropReason::MalformedMessage.into());
        };
        if let Some(cookies) = cookies {
            let asker = Asker {
                nonce: ni,
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
        let peer = Abilities::announced(&parts);
        let Some((chosen, candidates)) = proposal::choose_connections(candidates, offered, &peer)
        else {
            tell(notify(NotifyType::NoProposalChosen), out);
            let suites = |it: &Arc<Connection>| it.ikev2_proposals.clone();
            let all: Vec<Ikev2Suite> = candidates.iter().flat_map(suites).collect();
            return Err(proposal::nothing_in_common(&all, offered));
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
            (&chosen, candidates),
            path,
            random,
            out,
        )
    }

    /// Sends the answer, with our public value.
    fn answer(
        message: &Message<'_>,
        (parts, theirs, ni): (&Parts<'_>, &KeyExchange, &[u8]),
        (chosen, candidates): (&Chosen<'_, Ikev2Suite>, Vec<Arc<Connection>>),
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
        let is_early = peer.early_ppk && ppk::is_any_early(&candidates);
        if is_early || has_additional(&suite) {
            chain.push(notify(NotifyType::IntermediateExchangeSupported));
        }
        let has_ppk = peer.ppk && ppk::has_any(&candidates);
        chain.extend(ppk::chosen(is_early, has_ppk));
        if candidates.iter().any(|it| it.childless != Childless::Never) {
            chain.push(notify(NotifyType::ChildlessIkev2Supported));
        }
        let sent = clear_message(spis, false, true, &chain, path);
        let may_fragment = peer.fragmentation && fragments;
        Ok(Self {
            candidates,
            sa: IkeSa::new(spis, Role::Responder, suite, &keys, may_fragment).after_init(),
            init: Init {
                suite,
                request: message.octets().to_vec(),
                answer: sent.message.clone(),
                nonces: (ni.to_vec(), nr),
                p: keys.p,
                between: Between::default(),
                ppk: Agreed::announced(is_early),
                nat: find_nat(asked, path, parts),
                peer,
            },
            answered: Answered::send(message.octets(), Some(sent), out),
            examining: None,
        })
    }
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
