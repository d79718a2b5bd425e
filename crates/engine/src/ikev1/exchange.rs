//! The parts that both modes of phase 1 share: the state of an exchange, its keys and hashes,
//! sending, and its end in success or refusal (RFC 2409 §5).

use std::sync::Arc;

use crypto::dh::{BadPublicValue, Group, KeyPair};
use crypto::hash::Digest;
use crypto::rand::Stream;
use wire::isakmp::{
    Cookie, Cookies, Exchange, Flags, Header, Identification, Notify, NotifyType, Payload,
    PayloadKind, ProtocolId, write_payloads,
};

use super::auth::Proven;
use super::keys::{self, Keys};
use super::message::Message;
use super::parts::Parts;
use super::proposal::{self, Method};
use super::protect::{self, Iv};
use super::{IsakmpSa, NatFinding, PeerSupport, names_of, nat, vendor};
use crate::config::Connection;
use crate::counters::DropReason;
use crate::ike::retransmit::{Answered, LINGER, PATIENCE, Retransmit};
use crate::ike::{Fault, Outbox, Role, Sent, Step};
use crate::quotas::Quotas;
use crate::sa::{Path, Secret};
use crate::suite::IkeSuite;
use crate::time::{Calendar, Duration, Instant};
use crate::work::{Task, Work};

/// Octets of our nonces.
const NONCE_LEN: usize = 32;

/// Keys, and the IV of the next message.
pub(super) struct Keyed {
    pub(super) suite: IkeSuite,
    pub(super) keys: Keys,
    pub(super) iv: Iv,
}

/// The message being processed in a step.
pub(super) struct At<'a> {
    pub(super) path: Path,
    pub(super) message: &'a Message<'a>,
    pub(super) now: Instant,
    pub(super) calendar: Calendar,
    pub(super) random: &'a mut Stream,
    pub(super) quotas: Option<&'a mut Quotas>,
    pub(super) out: &'a mut Outbox,
}

/// The public values and nonces of both ends.
#[derive(Clone, Default)]
pub(super) struct Publics {
    pub(super) public_i: Vec<u8>,
    pub(super) public_r: Vec<u8>,
    pub(super) nonce_i: Vec<u8>,
    pub(super) nonce_r: Vec<u8>,
}

/// The common state of all steps in both modes. Fields are filled as the exchange progresses. A
/// step changes them only after its message has passed all checks.
pub(super) struct Core {
    pub(super) role: Role,
    pub(super) is_aggressive: bool,
    /// Connections that still match, the current one first; never empty.
    pub(super) candidates: Vec<Arc<Connection>>,
    pub(super) method: Method,
    /// Replaces the pre-shared key for an unknown identity.
    pub(super) decoy: Option<Secret>,
    pub(super) cookies: Cookies,
    pub(super) path: Path,
    /// The peer's port before the exchange moved to the one for NATs.
    pub(super) moved_from: Option<u16>,
    pub(super) is_first_contact: bool,
    pub(super) suite: IkeSuite,
    pub(super) lifetime_s: u64,
    /// The initiator wants a longer lifetime than we do; main mode's last message tells it.
    pub(super) tells_lifetime: bool,
    /// SAi_b.
    pub(super) sa_i: Vec<u8>,
    pub(super) publics: Publics,
    /// The ID payload of an aggressive initiator, parsed and as octets.
    pub(super) peer_id: Option<(Identification, Vec<u8>)>,
    pub(super) requests: Vec<Vec<u8>>,
    pub(super) peer: PeerSupport,
    pub(super) nat: NatFinding,
    is_initial_contact: bool,
    /// Sent until answered.
    pub(super) retransmit: Option<Retransmit>,
    /// The last answered message.
    pub(super) answered: Option<Answered>,
    /// When it was answered, if the peer's next message is an answer to ours.
    pub(super) answered_at: Option<Instant>,
    last_sent: Vec<u8>,
    pub(super) expires: Option<Instant>,
}

impl Core {
    /// Panics if the first candidate has no proposals or two different methods.
    pub(super) fn new(
        role: Role,
        candidates: Vec<Arc<Connection>>,
        cookies: Cookies,
        path: Path,
    ) -> Self {
        let first = &candidates[0];
        Self {
            role,
            is_aggressive: first.is_aggressive,
            method: first.method().expect("both ends use one method"),
            decoy: None,
            cookies,
            path,
            moved_from: None,
            is_first_contact: false,
            suite: first.proposals[0],
            lifetime_s: first.lifetime.as_secs(),
            tells_lifetime: false,
            sa_i: Vec::new(),
            publics: Publics::default(),
            peer_id: None,
            requests: Vec::new(),
            peer: PeerSupport::default(),
            nat: NatFinding::default(),
            is_initial_contact: false,
            retransmit: None,
            answered: None,
            answered_at: None,
            last_sent: Vec::new(),
            expires: None,
            candidates,
        }
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.candidates[0]
    }

    pub(super) fn exchange(&self) -> Exchange {
        if self.is_aggressive {
            Exchange::Aggressive
        } else {
            Exchange::IdentityProtection
        }
    }

    /// The name of message `number`.
    pub(super) fn step(&self, number: u8) -> Step {
        match self.is_aggressive {
            true => Step::Aggressive(number),
            false => Step::Main(number),
        }
    }

    /// Why a message cannot belong to this exchange.
    pub(super) fn unfit(&self, message: &Message<'_>) -> Option<DropReason> {
        let header = message.header();
        let theirs = header.cookies;
        let is_informational = header.exchange == Exchange::Informational;
        let is_responder_known = if self.cookies.responder == Cookie::ZERO {
            theirs.responder != Cookie::ZERO || is_informational
        } else {
            theirs.responder == self.cookies.responder
        };
        if theirs.initiator != self.cookies.initiator || !is_responder_known {
            return Some(DropReason::UnknownCookies);
        }
        // Our own message came back, or our cookie as the peer's.
        if message.octets() == self.last_sent || theirs.responder == theirs.initiator {
            return Some(DropReason::Reflected);
        }
        let has_id = header.message_id != 0 && header.exchange == self.exchange();
        has_id.then_some(DropReason::UnexpectedMessage)
    }

    /// Makes a fresh pair and nonce.
    pub(super) fn generate(
        group: Group,
        random: &mut Stream,
        work: &mut Work,
    ) -> (KeyPair, Vec<u8>) {
        let pair = KeyPair::generate(group, random);
        work.count(Task::KeyPair(group), 0);
        let mut nonce = vec![0; NONCE_LEN];
        random.fill(&mut nonce);
        (pair, nonce)
    }

    /// Derives keys from the shared value, and the IV of the first encrypted message: hash of g^xi
    /// | g^xr (RFC 2409 appendix B).
    pub(super) fn agree(
        &self,
        pair: &KeyPair,
        publics: &Publics,
        cookies: Cookies,
        suite: IkeSuite,
        work: &mut Work,
    ) -> Result<Keyed, Fault> {
        let (own, peer) = match self.role {
            Role::Initiator => (&publics.nonce_i, &publics.public_r),
            Role::Responder => (&publics.nonce_r, &publics.public_i),
        };
        debug_assert_eq!(own.len(), NONCE_LEN);
        if publics.nonce_i == publics.nonce_r {
            return Err(DropReason::Reflected.into());
        }
        let shared = pair.agree(peer).map_err(|fault| match fault {
            BadPublicValue::Own => DropReason::Reflected.into(),
            _ => Fault::BadPublicValue(fault.to_string()),
        })?;
        work.count(Task::Agree(suite.group), 0);
        let (ni, nr) = (&publics.nonce_i, &publics.nonce_r);
        let psk = self.decoy.as_ref().or(self.connection().preshared_key());
        let skeyid = match psk {
            Some(psk) => keys::skeyid_preshared(suite.hash, psk, ni, nr),
            None => keys::skeyid_signatures(suite.hash, ni, nr, shared.as_ref()),
        };
        work.count(Task::Prf(suite.hash), (ni.len() + nr.len()) as u64);
        let keys = Keys::derive(suite, &skeyid, shared.as_ref(), cookies, work);
        keys::check_strength(suite.cipher, &keys.cipher_key)?;
        let first = suite.hash.digest(&[&publics.public_i, &publics.public_r]);
        Ok(Keyed {
            suite,
            keys,
            iv: Iv::truncated(suite.cipher, first.as_ref()),
        })
    }

    /// HASH_I or HASH_R, over the ID payload of the end that authenticates (RFC 2409 §5).
    pub(super) fn hash_of(
        &self,
        who: Role,
        keyed: &Keyed,
        publics: &Publics,
        cookies: Cookies,
        id_body: &[u8],
        work: &mut Work,
    ) -> Digest {
        let (public_i, public_r) = (&publics.public_i[..], &publics.public_r[..]);
        let (cky_i, cky_r) = (&cookies.initiator.0[..], &cookies.responder.0[..]);
        let (sa, id) = (&self.sa_i[..], id_body);
        let parts = match who {
            Role::Initiator => [public_i, public_r, cky_i, cky_r, sa, id],
            Role::Responder => [public_r, public_i, cky_r, cky_i, sa, id],
        };
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        work.count(Task::Prf(keyed.suite.hash), bytes as u64);
        keyed.suite.hash.hmac(&keyed.keys.skeyid.0, &parts)
    }

    /// Our ID payload.
    pub(super) fn own_id(&self) -> Payload {
        Payload::Identification(self.connection().local.identity.to_identification())
    }

    /// Our NAT-D payloads, if the peer supports RFC 3947.
    pub(super) fn discovery(&self) -> Vec<Payload> {
        if !self.nat.is_supported {
            return Vec::new();
        }
        nat::discovery(
            self.suite.hash,
            self.cookies,
            self.path,
            self.pretends_nat(),
        )
        .into()
    }

    /// Whether to make the peer assume a NAT. A main mode responder may not know the connection
    /// yet: then all remaining ones must want it.
    fn pretends_nat(&self) -> bool {
        self.candidates.iter().all(|it| it.prefers_udp())
    }

    /// Evaluates the peer's NAT-D payloads for `path`.
    pub(super) fn find_nat(&self, path: Path, cookies: Cookies, found: &[&[u8]]) -> NatFinding {
        if !self.nat.is_supported {
            return NatFinding::default();
        }
        let mut finding = nat::find(self.suite.hash, cookies, path, found);
        finding.is_pretended |= finding.is_supported && self.pretends_nat();
        finding
    }

    /// An initiator leaves port 500 if there is a NAT (RFC 3947 §4).
    pub(super) fn float(&mut self) {
        if self.nat.is_between() {
            let before = self.path.remote.port();
            self.path = nat::float(self.path);
            self.moved_from = (self.path.remote.port() != before).then_some(before);
        }
    }

    /// Remembers the abilities that the peer announces in its first message with vendor IDs.
    pub(super) fn take_vendors(&mut self, parts: &Parts<'_>) {
        let (peer, speaks_rfc_3947) = vendor::understood(&parts.vendors);
        self.peer = peer;
        self.nat.is_supported = speaks_rfc_3947;
    }

    pub(super) fn take_requests(&mut self, parts: &Parts<'_>) {
        self.requests = parts.requests.iter().map(|name| name.to_vec()).collect();
    }

    pub(super) fn announcements(&self) -> Vec<Payload> {
        vendor::announcements(self.connection().fragments)
    }

    /// INITIAL-CONTACT, if this is the first contact (RFC 2407 §4.6.3.3).
    pub(super) fn first_contact(&self) -> Option<Payload> {
        let notify = || self.notify(NotifyType::InitialContact, Vec::new());
        self.is_first_contact.then(notify)
    }

    pub(super) fn notify(&self, kind: NotifyType, value: Vec<u8>) -> Payload {
        notification(self.cookies, kind, value)
    }

    /// An unencrypted message, ready to send.
    pub(super) fn clear(&self, number: u8, chain: &[Payload]) -> Sent {
        let (next_payload, body) = write_payloads(chain);
        let header = Header {
            next_payload,
            ..self.header(self.exchange(), 0)
        };
        self.sent(self.step(number), header.write(&body), names_of(chain))
    }

    /// An encrypted message, ready to send. Advances `iv`.
    pub(super) fn sealed(
        &self,
        number: u8,
        chain: &[Payload],
        keys: &Keys,
        iv: &mut Iv,
        work: &mut Work,
    ) -> Sent {
        let header = self.header(self.exchange(), 0);
        let key = &keys.cipher_key.0;
        let message = protect::encrypt(self.suite.cipher, key, header, chain, iv, work);
        self.sent(self.step(number), message, names_of(chain))
    }

    /// Sends a message that needs an answer, with a timer. `request` is the message that it answers
    /// itself.
    pub(super) fn ask(
        &mut self,
        request: Option<&[u8]>,
        sent: Sent,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.ask_within(PATIENCE, request, sent, now, out);
    }

    /// As [`Self::ask`], given up after `patience`.
    pub(super) fn ask_within(
        &mut self,
        patience: Duration,
        request: Option<&[u8]>,
        sent: Sent,
        now: Instant,
        out: &mut Outbox,
    ) {
        self.heed_answer(now, out);
        self.last_sent.clone_from(&sent.message);
        self.answered = request.map(|request| Answered::sent(request, None));
        self.retransmit = Some(Retransmit::send_within(patience, sent, now, out));
    }

    /// Sends an answer, which is repeated only after a duplicate of `request`.
    pub(super) fn answer(&mut self, request: &[u8], sent: Sent, now: Instant, out: &mut Outbox) {
        self.heed_answer(now, out);
        self.last_sent.clone_from(&sent.message);
        self.answered = Some(Answered::send(request, Some(sent), out));
        self.answered_at = Some(now);
    }

    /// The peer's message answers our last one and measures the path. A responder measures it with
    /// the initiator's next message.
    fn heed_answer(&mut self, now: Instant, out: &mut Outbox) {
        if let Some(asked) = self.retransmit.take() {
            asked.answered(now, out);
        }
        let is_single = self.answered.as_ref().is_some_and(Answered::is_single);
        if let Some(at) = self.answered_at.take() {
            let passed = now.since(at);
            let octets = self.last_sent.len();
            out.learn(|path| match is_single {
                true => path.learn(passed, octets),
                // The round trip took at most this long, and perhaps less.
                false => path.back_off(passed * 2),
            });
        }
    }

    /// A message sent at `began` left only `now`.
    pub(super) fn departed(&mut self, began: Instant, now: Instant) {
        if let Some(asked) = &mut self.retransmit {
            asked.departed(began, now);
        }
        self.answered_at = self
            .answered_at
            .map(|at| if at == began { now } else { at });
    }

    /// Success. `lingers`: our last message may have to be repeated.
    pub(super) fn establish(
        &mut self,
        keyed: &Keyed,
        last_iv: Iv,
        proven: Proven,
        lingers: bool,
        at: &mut At<'_>,
    ) -> Box<IsakmpSa> {
        if !lingers {
            self.heed_answer(at.now, at.out);
        }
        self.expires = lingers.then_some(at.now + LINGER);
        let mut lifetime_s = self.lifetime_s.min(proven.connection.lifetime.as_secs());
        if let Some(certified) = &proven.certified {
            let rest = certified.not_after.saturating_sub(at.calendar.0);
            lifetime_s = lifetime_s.min(u64::try_from(rest).unwrap_or(0));
        }
        self.candidates = vec![proven.connection];
        Box::new(IsakmpSa {
            cookies: self.cookies,
            role: self.role,
            suite: self.suite,
            skeyid_d: keyed.keys.skeyid_d.clone(),
            skeyid_a: keyed.keys.skeyid_a.clone(),
            cipher_key: keyed.keys.cipher_key.clone(),
            last_iv: last_iv.as_ref().to_vec(),
            nat: self.nat,
            peer: self.peer,
            identity: proven.identity,
            certificate: proven.certified.map(|it| Box::new(it.path)),
            is_initial_contact: self.is_initial_contact,
            path: self.path,
            since: at.now,
            lifetime_s,
        })
    }

    /// Reads the peer's notifications beside its proof.
    pub(super) fn take_notices(&mut self, parts: &Parts<'_>) {
        for notify in &parts.notices {
            match notify.kind {
                NotifyType::InitialContact => self.is_initial_contact = true,
                NotifyType::ResponderLifetime => {
                    if let Some(seconds) = proposal::lifetime_of(notify) {
                        self.lifetime_s = self.lifetime_s.min(seconds);
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn header(&self, exchange: Exchange, message_id: u32) -> Header {
        Header {
            cookies: self.cookies,
            next_payload: PayloadKind::None,
            exchange,
            flags: Flags::default(),
            message_id,
        }
    }

    pub(super) fn sent(&self, step: Step, message: Vec<u8>, payloads: String) -> Sent {
        Sent {
            path: self.path,
            message,
            more: Vec::new(),
            step,
            payloads,
            may_fragment: self.peer.fragmentation && self.connection().fragments,
        }
    }
}

impl Publics {
    /// The peer's half of the key exchange: its public value, checked for the group, and its nonce.
    pub(super) fn peer_half<'a>(
        parts: &Parts<'a>,
        group: Group,
    ) -> Result<(&'a [u8], &'a [u8]), Fault> {
        let (Some(public), Some(nonce)) = (parts.public, parts.nonce) else {
            return Err(DropReason::MalformedMessage.into());
        };
        if public.len() != group.len() {
            return Err(Fault::BadPublicValue(format!(
                "a public value of {} octets is not of group {}",
                public.len(),
                group.number()
            )));
        }
        match group.check(public) {
            Ok(()) => Ok((public, nonce)),
            Err(fault) => Err(Fault::BadPublicValue(format!("{fault} {}", group.number()))),
        }
    }
}

/// A notification about the ISAKMP SA of these cookies.
pub(super) fn notification(cookies: Cookies, kind: NotifyType, value: Vec<u8>) -> Payload {
    Payload::Notify(Notify {
        protocol: ProtocolId::Isakmp,
        spi: [cookies.initiator.0, cookies.responder.0].concat(),
        kind,
        value,
    })
}

/// A cookie that is not zero.
pub(crate) fn cookie(random: &mut Stream) -> Cookie {
    let mut octets = [0; 8];
    random.fill(&mut octets);
    octets[0] |= 1;
    Cookie(octets)
}
