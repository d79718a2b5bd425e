//! IKE_INTERMEDIATE, in both roles: the additional key exchanges of the first IKE SA, its
//! post-quantum pre-shared key, and what AUTH covers of them (RFC 9242, RFC 9370 §2.2.2, RFC 9867).
//!
//! ```text
//! initiator                                 responder
//! KEi(1) -->
//!                                       <-- KEr(1)          under the keys of IKE_SA_INIT
//! KEi(2), N(PPK_IDENTITY_KEY)(id, confirmation).. -->
//!                                       <-- KEr(2), [N(PPK_IDENTITY)(id)]
//!                                           under the keys that KE(1) gives, and so on
//! ```
//!
//! The pre-shared key is named in the last of these exchanges, which may be for nothing else. All
//! keys come from it afterwards, so those of IKE_AUTH too, which RFC 8784 leaves out.
//!
//! Nobody is authenticated yet. There are as many of these exchanges as both ends agreed on in
//! IKE_SA_INIT, each with the method that is due, so a stranger cannot ask for more work.

use std::sync::Arc;

use crypto::dh::SharedSecret;
use crypto::hash::is_equal;
use crypto::key_exchange::Method;
use wire::ikev2::{Notify, NotifyType, PPK_CONFIRMATION_LEN, Payload, PpkIdentityKey};

use super::answering::Answering;
use super::exchange;
use super::init::Init;
use super::keys::{Keys, Nonces, Seed};
use super::parts::{Parts, notify};
use super::ppk::{FIXED, Mixed, lacking};
use super::window::{At, IkeSa, Opened};
use crate::config::{Connection, Ppk};
use crate::counters::DropReason;
use crate::ike::{Fault, Role};
use crate::work::{Task, Work};

/// Keys of an initiator that a responder looks at.
const MAX_NAMED_KEYS: usize = 8;

/// The next exchange before IKE_AUTH.
#[derive(Clone, Copy)]
pub(super) struct Due {
    /// Its additional key exchange.
    pub(super) method: Option<Method>,
    /// It names the pre-shared key.
    pub(super) names_ppk: bool,
}

impl Init {
    /// The next exchange; `None`: IKE_AUTH is next.
    pub(super) fn due(&self) -> Option<Due> {
        if self.resumed.is_some() {
            return None;
        }
        let methods = self.suite.additional.methods();
        let all = methods.count().max(usize::from(self.ppk.is_early));
        let next = self.between.done;
        (next < all).then(|| Due {
            method: self.suite.additional.methods().nth(next),
            names_ppk: self.ppk.is_early && next + 1 == all,
        })
    }

    /// Notes a message of IKE_INTERMEDIATE for AUTH.
    pub(super) fn cover(&mut self, sender: Role, covered: &[u8], work: &mut Work) {
        let keys = (self.suite.prf, &self.p);
        self.between.cover(sender, keys, covered, work);
    }

    /// An exchange is done: the next message has the keys that its key exchange gives, and then
    /// those that the pre-shared key gives.
    pub(super) fn exchanged(
        &mut self,
        sa: &mut IkeSa,
        secret: Option<&SharedSecret>,
        ppk: Option<&Arc<Ppk>>,
        work: &mut Work,
    ) -> Result<(), Fault> {
        let suite = self.suite;
        if let Some(secret) = secret {
            let secrets = [secret.as_ref()];
            let seed = Seed::rekeyed((suite.prf, &sa.d), Nonces::of(&self.nonces), &secrets, work);
            self.take_keys(sa, &seed, work)?;
        }
        if let Some(ppk) = ppk {
            let seed = Seed::with_ppk((suite.prf, &sa.d), &ppk.key, work);
            self.take_keys(sa, &seed, work)?;
            self.ppk.mixed = Some(Mixed {
                ppk: Arc::clone(ppk),
                p: None,
            });
        }
        self.between.done += 1;
        Ok(())
    }

    fn take_keys(&mut self, sa: &mut IkeSa, seed: &Seed, work: &mut Work) -> Result<(), Fault> {
        let keys = Keys::derive(self.suite, seed, Nonces::of(&self.nonces), sa.spis, work)?;
        sa.take_keys(&keys);
        self.p = keys.p;
        Ok(())
    }

    /// Initiator: names its key, and shows that it has it.
    pub(super) fn naming(&self, sa: &IkeSa, ppk: &Ppk, work: &mut Work) -> Payload {
        Payload::Notify(Notify::ppk_identity_key(&PpkIdentityKey {
            kind: FIXED,
            identity: ppk.id.as_bytes(),
            confirmation: &self.confirmation(sa, ppk, work),
        }))
    }

    /// Initiator: the key that the responder has too, if it says so.
    pub(super) fn accepted(
        &self,
        own: Option<&Arc<Ppk>>,
        parts: &Parts<'_>,
    ) -> Result<Option<Arc<Ppk>>, Fault> {
        let Some(own) = own else {
            return Ok(None);
        };
        let Some(named) = parts.notice(NotifyType::PpkIdentity) else {
            return if own.is_required {
                Err(lacking(own))
            } else {
                Ok(None)
            };
        };
        if named.to_ppk_identity()? != (FIXED, own.id.as_bytes()) {
            return Err(Fault::Misbehaved(
                "the peer uses another post-quantum pre-shared key than the one named".into(),
            ));
        }
        Ok(Some(Arc::clone(own)))
    }

    /// Responder: the first key named that we have.
    fn known_ppk(
        &self,
        sa: &IkeSa,
        candidates: &[Arc<Connection>],
        parts: &Parts<'_>,
        work: &mut Work,
    ) -> Result<Option<Arc<Ppk>>, Fault> {
        for named in parts
            .notices_of(NotifyType::PpkIdentityKey)
            .take(MAX_NAMED_KEYS)
        {
            let named = named.to_ppk_identity_key()?;
            let is_named =
                |it: &&Arc<Ppk>| named.kind == FIXED && it.id.as_bytes() == named.identity;
            let mut own = candidates.iter().filter_map(|it| it.ppk.as_ref());
            let Some(ppk) = own.find(is_named) else {
                continue;
            };
            if is_equal(&self.confirmation(sa, ppk, work), named.confirmation) {
                return Ok(Some(Arc::clone(ppk)));
            }
        }
        Ok(None)
    }

    /// The first octets of prf(PPK, Ni | Nr | SPIi | SPIr) (RFC 9867 §3.1).
    fn confirmation(&self, sa: &IkeSa, ppk: &Ppk, work: &mut Work) -> [u8; PPK_CONFIRMATION_LEN] {
        let (nonces, spis) = (Nonces::of(&self.nonces), sa.spis);
        let over = [
            nonces.initiator,
            nonces.responder,
            &spis.initiator.0,
            &spis.responder.0,
        ];
        let bytes = over.iter().map(|it| it.len()).sum::<usize>();
        work.count(Task::Prf(self.suite.prf), bytes as u64);
        let whole = self.suite.prf.hmac(&ppk.key.0, &over);
        let first = whole.as_ref().first_chunk();
        *first.expect("a prf gives more octets")
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
    let Answering {
        candidates,
        sa,
        init,
        ..
    } = answering;
    let parts = opened.parts()?;
    let due = init.due().ok_or_else(|| {
        Fault::Misbehaved("a message of IKE_INTERMEDIATE, and no such exchange is due".into())
    })?;
    let covered = opened.covered().ok_or(DropReason::MalformedMessage)?;
    let (random, work) = (&mut *at.random, &mut at.out.work);
    let (mut chain, mut secret) = (Vec::new(), None);
    if let Some(method) = due.method {
        let theirs = parts
            .exchange
            .filter(|they| they.method == method.number())
            .ok_or_else(|| not_due(method))?;
        let (payload, shared) = exchange::respond(method, theirs, random, work)?;
        chain.push(payload);
        secret = Some(shared);
    }
    let mut ppk = None;
    if due.names_ppk {
        ppk = init.known_ppk(sa, candidates, &parts, work)?;
        let named = |it: &Arc<Ppk>| Notify::ppk_identity(FIXED, it.id.as_bytes());
        chain.extend(ppk.as_ref().map(named).map(Payload::Notify));
    }
    init.cover(Role::Initiator, &covered, work);
    sa.answer(opened, &chain, at);
    init.cover(Role::Responder, &sa.take_covered(), &mut at.out.work);
    init.exchanged(sa, secret.as_ref(), ppk.as_ref(), &mut at.out.work)
}

fn not_due(method: Method) -> Fault {
    Fault::Misbehaved(format!(
        "a message of IKE_INTERMEDIATE without the public value of method {} that is due",
        method.number()
    ))
}
