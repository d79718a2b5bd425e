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
use crypto::key_exchange::Method;
use wire::ikev2::NotifyType;

use super::exchange;
use super::init::{Answering, Init};
use super::keys::{Keys, Nonces, Seed};
use super::parts::notify;
use super::window::{At, IkeSa, Opened};
use crate::counters::DropReason;
use crate::ike::{Fault, Role};
use crate::work::Work;

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

    /// The keys that one more key exchange gives.
    pub(super) fn next_keys(
        &self,
        sa: &IkeSa,
        secret: &SharedSecret,
        work: &mut Work,
    ) -> Result<Keys, Fault> {
        let nonces = Nonces {
            initiator: &self.nonces.0,
            responder: &self.nonces.1,
        };
        let (suite, secrets) = (self.suite, [secret.as_ref()]);
        let seed = Seed::rekeyed((suite.prf, &sa.d), nonces, &secrets, work);
        Keys::derive(suite, &seed, nonces, sa.spis, work)
    }

    /// A key exchange is done: the next message has the keys that it gives.
    pub(super) fn exchanged(&mut self, sa: &mut IkeSa, keys: Keys) {
        sa.take_keys(&keys);
        self.p = keys.p;
        self.between.done += 1;
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
    let keys = init.next_keys(sa, &secret, work)?;
    init.cover(Role::Initiator, &covered, work);
    sa.answer(opened, &[payload], at);
    init.cover(Role::Responder, &sa.take_covered(), &mut at.out.work);
    init.exchanged(sa, keys);
    Ok(())
}

fn not_due(method: Method) -> Fault {
    Fault::Misbehaved(format!(
        "a message of IKE_INTERMEDIATE without the public value of method {} that is due",
        method.number()
    ))
}
