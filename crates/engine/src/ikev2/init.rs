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
//!
//! Left out: the choice to go on with several answers until one of them proves itself under keys
//! (RFC 7296 §2.4). The first answer with keys is final for its attempt, also a forged one, and a
//! request for a cookie or another group starts the message again, a few times. So one forged
//! packet ends an attempt if it comes before the peer's; the next attempt has another SPI.

use core::slice;
use std::net::IpAddr;
use std::sync::Arc;

use crypto::hash::{Hash, is_equal};
use crypto::key_exchange::{Initiator, Method};
use crypto::rand::Stream;
use wire::ikev2::{
    Authentication, Exchange, Gateway, Notify, NotifyType, Payload, first_unknown_critical,
};

use super::Abilities;
use super::auth::{HASHES, Signed, is_by_sha1};
use super::between::Between;
use super::clear::{Clear, clear};
use super::exchange;
use super::fresh::{fresh_nonce, fresh_spi};
use super::keys::{Keys, Nonces, Seed};
use super::lost::Resumed;
use super::message::Message;
use super::parts::{Parts, names_read, notify, notify_name, notify_with};
use super::ppk::{self, Agreed};
use super::proposal;
use super::window::IkeSa;
use crate::config::{Childless, Connection};
use crate::counters::DropReason;
use crate::ike::nat::{NatFinding, hash_of};
use crate::ike::retransmit::Retransmit;
use crate::ike::{Fault, Outbox, Rejection, Role, Spi, Spis, Step};
use crate::sa::{Path, Secret};
use crate::suite::Ikev2Suite;
use crate::time::{Deadline, Duration, Instant};

/// The head of our request.
const HEAD: Clear = Clear::request(Exchange::IkeSaInit);
/// How long to wait for a better answer after an unauthenticated refusal.
const GRACE: Duration = Duration::from_secs(3);
/// How often an initiator starts again with a cookie or another method, whoever asks for it.
const MAX_RESTARTS: u32 = 4;
/// Log lines about unauthenticated refusals in one exchange.
const MAX_COMPLAINTS: u32 = 4;

/// What IKE_SA_INIT leaves for IKE_AUTH.
pub(super) struct Init {
    pub(super) suite: Ikev2Suite,
    /// Both messages as they were on the wire.
    pub(super) request: Vec<u8>,
    pub(super) answer: Vec<u8>,
    /// AUTH of each end covers both of them: both ends have announced it.
    pub(super) covers_both: bool,
    pub(super) nonces: (Vec<u8>, Vec<u8>),
    /// SK_pi and SK_pr.
    pub(super) p: (Secret, Secret),
    /// What follows before IKE_AUTH.
    pub(super) between: Between,
    pub(super) ppk: Agreed,
    pub(super) nat: NatFinding,
    pub(super) peer: Abilities,
    /// An end has proven itself by RSA with SHA-1.
    pub(super) has_sha1: bool,
    /// Both ends go on from an earlier session, by a ticket.
    pub(super) resumed: Option<Box<Resumed>>,
}

/// What an initiator says of gateways that send it elsewhere (RFC 5685).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Travel {
    /// It goes where its connection allows.
    pub is_willing: bool,
    /// This gateway has sent it here.
    pub from: Option<IpAddr>,
}

impl Travel {
    /// In the first message.
    pub(super) fn announcement(self) -> Option<Payload> {
        match self.from {
            Some(from) => {
                let from = Notify::redirected_from(&Gateway::Address(from));
                Some(Payload::Notify(from))
            }
            None => self
                .is_willing
                .then(|| notify(NotifyType::RedirectSupported)),
        }
    }

    /// The gateway to which an answer sends an initiator of this nonce (RFC 5685 §3); empty: within
    /// keys. Only where the connection allows it.
    pub(super) fn sent_to(
        self,
        connection: &Connection,
        nonce: &[u8],
        parts: &Parts<'_>,
    ) -> Option<Result<Gateway, Fault>> {
        let redirect = parts.notice(NotifyType::Redirect)?.to_redirect().ok()?;
        let is_ours = self.is_willing && is_equal(&redirect.nonce, nonce);
        let gateway = Some(redirect.gateway).filter(|_| is_ours)?;
        Some(match connection.redirects.allows(&gateway, connection) {
            true => Ok(gateway),
            false => Err(Fault::Misdirected(format!(
                "the gateway sends us to {}, which neither remote_addrs nor redirect names",
                words_of(&gateway)
            ))),
        })
    }
}

/// A gateway in words.
pub(crate) fn words_of(gateway: &Gateway) -> String {
    match gateway {
        Gateway::Address(address) => address.to_string(),
        Gateway::Fqdn(name) => name.clone(),
    }
}

/// What an answer to a first message leads to.
pub(super) enum Heard {
    /// The exchange goes on.
    Nothing,
    /// An IKE SA without authentication.
    Made(Box<(IkeSa, Init)>),
    /// The exchange is over: another gateway is to be asked.
    SentTo(Gateway),
    /// The ticket is refused.
    TicketRefused,
}

impl Init {
    /// SK_pi and SK_pr for AUTH, with the key that both ends use.
    fn proving_keys(&self) -> &(Secret, Secret) {
        let mixed = self.ppk.mixed.as_ref();
        mixed.and_then(|it| it.p.as_ref()).unwrap_or(&self.p)
    }

    /// Notes a proof of ours that leaves, or one of the peer's that we believe.
    pub(super) fn note_proof(&mut self, proof: Option<&Authentication>) {
        self.has_sha1 |= proof.is_some_and(is_by_sha1);
    }

    /// What the initiator's AUTH covers. `id`: the body of its ID payload.
    pub(super) fn initiator<'a>(&'a self, id: &'a [u8]) -> Signed<'a> {
        Signed {
            other: self.covers_both.then_some(&self.answer),
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
            other: self.covers_both.then_some(&self.request),
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
    travel: Travel,
    half: Initiator,
    nonce: Vec<u8>,
    cookie: Option<Vec<u8>>,
    pub(super) request: Vec<u8>,
    retransmit: Retransmit,
    restarts: u32,
    complaints: u32,
    doubt: Option<(Fault, Instant)>,
}

impl Asking {
    /// Sends the request. Panics if the connection has no proposal for IKEv2.
    pub(super) fn begin(
        connection: Arc<Connection>,
        (path, travel): (Path, Travel),
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
        let mut chain = request(&connection, (spis, path), &half, &nonce, None);
        chain.extend(travel.announcement());
        let sent = clear(HEAD, spis, &chain, path);
        let request = sent.message.clone();
        Self {
            connection,
            path,
            spi,
            travel,
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
    ) -> Result<Heard, DropReason> {
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
            let sent = self.travel.sent_to(&self.connection, &self.nonce, &parts);
            return match sent {
                Some(Ok(gateway)) => {
                    heard(out);
                    Ok(Heard::SentTo(gateway))
                }
                Some(Err(fault)) => {
                    self.doubt(fault, now, out);
                    Err(DropReason::WrongRedirect)
                }
                None if parts.has(NotifyType::Redirect) => Err(DropReason::WrongRedirect),
                None => self
                    .on_notice(&parts, heard, random, now, out)
                    .map(|()| Heard::Nothing),
            };
        }
        match self.agree(message, &parts, out) {
            Ok(made) => {
                out.heard(Step::Init(2), message.size(), names_read(&found.clear));
                self.retransmit.answered(now, out);
                Ok(Heard::Made(Box::new(made)))
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
        let mut chain = request(&self.connection, ends, &self.half, &self.nonce, cookie);
        chain.extend(self.travel.announcement());
        let sent = clear(HEAD, spis, &chain, self.path);
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
            covers_both: self.connection.full_transcript && peer.full_transcript,
            nonces: (self.nonce.clone(), nr.to_vec()),
            p: keys.p,
            between: Between::default(),
            ppk: Agreed::announced(is_early),
            nat: find_nat(spis, self.path, parts),
            peer,
            has_sha1: false,
            resumed: None,
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
    chain.extend(full_transcript(connection.full_transcript));
    let is_early = ppk::is_any_early(slice::from_ref(connection));
    if is_early || connection.ikev2_proposals.iter().any(has_additional) {
        chain.push(notify(NotifyType::IntermediateExchangeSupported));
    }
    chain.extend(ppk::offered(connection));
    chain
}

/// Whether a suite needs IKE_INTERMEDIATE (RFC 9370 §2.2.1).
pub(super) fn has_additional(suite: &Ikev2Suite) -> bool {
    !suite.additional.is_empty()
}

/// What both ends announce.
pub(super) fn announcements(fragments: bool) -> Vec<Payload> {
    let mut all = Vec::new();
    if fragments {
        all.push(notify(NotifyType::Ikev2FragmentationSupported));
    }
    all.push(Payload::Notify(Notify::hash_algorithms(&HASHES)));
    all
}

/// AUTH is to cover both messages of IKE_SA_INIT. Either end says so, whatever the other says: who
/// takes it out of a message makes AUTH of the two ends differ.
pub(super) fn full_transcript(is_wanted: bool) -> Option<Payload> {
    is_wanted.then(|| notify(NotifyType::IkeSaInitFullTranscriptAuth))
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
