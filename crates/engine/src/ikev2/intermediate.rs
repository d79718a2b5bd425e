//! IKE_INTERMEDIATE, in both roles: the additional key exchanges of the first IKE SA, and what AUTH
//! covers of them (RFC 9242, RFC 9370 §2.2.2).
//!
//! ```text
//! initiator        responder
//! KEi(1) -->
//!              <-- KEr(1)          under the keys of IKE_SA_INIT
//! KEi(2) -->
//!              <-- KEr(2)          under the keys that KE(1) gives, and so on
//! ```
//!
//! Nobody is authenticated yet. There are as many of these exchanges as both ends agreed on in
//! IKE_SA_INIT, each with the method that is due, so a stranger cannot ask for more work.

use crypto::dh::SharedSecret;
use crypto::hash::{Digest, Hash};
use crypto::key_exchange::Method;
use wire::ikev2::{self as wire2, GENERIC_LEN, HEADER_LEN, NotifyType, PayloadKind};

use super::exchange;
use super::init::{Answering, Init};
use super::keys::{Keys, Nonces, Seed};
use super::parts::notify;
use super::window::{At, IkeSa, Opened};
use crate::counters::DropReason;
use crate::ike::{Fault, Role};
use crate::sa::Secret;
use crate::work::{Task, Work};

/// Octets of the numbers of a fragment.
const NUMBERS_LEN: usize = 4;

/// The additional key exchanges that are done, and what AUTH covers of them: nothing before the
/// first.
#[derive(Default)]
pub(super) struct Between {
    done: usize,
    /// IntAuth_i and IntAuth_r.
    initiator: Option<Digest>,
    responder: Option<Digest>,
    /// IntAuth.
    pub(super) authenticated: Vec<u8>,
}

impl Between {
    /// Takes a message of this sender, under the keys SK_pi and SK_pr that it was sent with:
    /// IntAuth_N = prf(SK_p, IntAuth_(N-1) | A | P) (RFC 9242 §3.3.2).
    fn cover(
        &mut self,
        sender: Role,
        (prf, p): (Hash, &(Secret, Secret)),
        covered: &[u8],
        work: &mut Work,
    ) {
        let (key, chain) = match sender {
            Role::Initiator => (&p.0, &mut self.initiator),
            Role::Responder => (&p.1, &mut self.responder),
        };
        work.count(Task::Prf(prf), covered.len() as u64);
        let before = chain.as_ref().map_or(&[][..], AsRef::as_ref);
        let next = prf.hmac(&key.0, &[before, covered]);
        *chain = Some(next);
        self.authenticated = self.to_octets();
    }

    /// IntAuth_iN | IntAuth_rN | message ID of the first IKE_AUTH: one more than exchanges before.
    fn to_octets(&self) -> Vec<u8> {
        let (Some(initiator), Some(responder)) = (&self.initiator, &self.responder) else {
            return Vec::new();
        };
        let message_id = self.done as u32 + 2;
        let parts = [
            initiator.as_ref(),
            responder.as_ref(),
            &message_id.to_be_bytes(),
        ];
        parts.concat()
    }
}

impl Init {
    /// The method of the next additional key exchange; `None`: IKE_AUTH is next.
    pub(super) fn next_method(&self) -> Option<Method> {
        self.suite.additional.methods().nth(self.between.done)
    }

    /// Notes a message of IKE_INTERMEDIATE for AUTH.
    pub(super) fn cover(&mut self, sender: Role, covered: &[u8], work: &mut Work) {
        let keys = (self.suite.prf, &self.p);
        self.between.cover(sender, keys, covered, work);
    }

    /// A key exchange is done: the next message has the keys that it gives.
    pub(super) fn exchanged(
        &mut self,
        sa: &mut IkeSa,
        secret: &SharedSecret,
        work: &mut Work,
    ) -> Result<(), Fault> {
        let nonces = Nonces {
            initiator: &self.nonces.0,
            responder: &self.nonces.1,
        };
        let (suite, secrets) = (self.suite, [secret.as_ref()]);
        let seed = Seed::rekeyed((suite.prf, &sa.d), nonces, &secrets, work);
        let keys = Keys::derive(suite, &seed, nonces, sa.spis, work)?;
        sa.take_keys(&keys);
        self.p = keys.p;
        self.between.done += 1;
        Ok(())
    }
}

/// Answers a request. A fault ends the half-open session; the peer is told before.
pub(super) fn on_request(
    answering: &mut Answering,
    opened: &Opened,
    at: &mut At<'_>,
) -> Result<(), Fault> {
    let answered = answer(answering, opened, at);
    if answered.is_err() {
        let refusal = [notify(NotifyType::InvalidSyntax)];
        answering.sa.answer(opened, &refusal, at);
    }
    answered
}

fn answer(answering: &mut Answering, opened: &Opened, at: &mut At<'_>) -> Result<(), Fault> {
    let Answering { sa, init, .. } = answering;
    let parts = opened.parts()?;
    let method = init.next_method().ok_or_else(|| {
        Fault::Misbehaved("a message of IKE_INTERMEDIATE, and no key exchange is due".into())
    })?;
    let theirs = parts
        .exchange
        .filter(|they| they.method == method.number())
        .ok_or_else(|| not_due(method))?;
    let covered = opened.covered().ok_or(DropReason::MalformedMessage)?;
    let (random, work) = (&mut *at.random, &mut at.out.work);
    let (payload, secret) = exchange::respond(method, theirs, random, work)?;
    init.cover(Role::Initiator, &covered, work);
    sa.answer(opened, &[payload], at);
    init.cover(Role::Responder, &sa.take_covered(), &mut at.out.work);
    init.exchanged(sa, &secret, &mut at.out.work)
}

fn not_due(method: Method) -> Fault {
    Fault::Misbehaved(format!(
        "a message of IKE_INTERMEDIATE without the public value of method {} that is due",
        method.number()
    ))
}

/// What AUTH covers of a message: its header with that of its encrypted payload, as if it were
/// whole and had no IV, padding and ICV, and the payloads within in clear (RFC 9242 §3.3.2).
/// `datagram`: the message, or its first fragment. `None` if it has no encrypted payload.
pub(super) fn covered(datagram: &[u8], clear: &[u8]) -> Option<Vec<u8>> {
    let message = wire2::Message::parse(datagram).ok()?;
    let protected = message.protected?;
    let numbers = protected.fragment.map_or(0, |_| NUMBERS_LEN);
    let head = protected.sealed.start.checked_sub(numbers)?;
    let mut all = datagram.get(..head)?.to_vec();
    // Where the kind of the encrypted payload is: in the generic header before it, or in ours.
    let kind = message.clear.last().map_or(NEXT_PAYLOAD, |before| {
        before.body_range().start.saturating_sub(GENERIC_LEN)
    });
    *all.get_mut(kind)? = PayloadKind::Encrypted.number();
    let payload = u16::try_from(GENERIC_LEN + clear.len()).ok()?;
    let whole = u32::try_from(head + clear.len()).ok()?;
    all[head - 2..].copy_from_slice(&payload.to_be_bytes());
    all[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&whole.to_be_bytes());
    all.extend_from_slice(clear);
    Some(all)
}

/// Where the header names its first payload.
const NEXT_PAYLOAD: usize = 16;
