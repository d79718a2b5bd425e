//! A new IKE SA, or a child, whose key exchanges are not all done (RFC 9370 §2.2.4).

use crypto::dh::SharedSecret;
use crypto::hash::Hash;
use crypto::key_exchange::{Initiator, Method};
use zeroize::Zeroizing;

use super::exchange;
use super::keys::{self, Keys, Nonces, Seed};
use super::parts::Parts;
use crate::ike::{Fault, NegotiatedChild, Role, Spis};
use crate::sa::{ChildId, Secret};
use crate::suite::Ikev2Suite;
use crate::time::Instant;
use crate::work::Work;

/// Octets of what links an exchange to the one before it.
pub(super) const LINK_LEN: usize = 8;

/// A new IKE SA whose key exchanges are not all done.
pub(super) struct Unfinished {
    pub(super) suite: Ikev2Suite,
    pub(super) spis: Spis,
    /// Ni and Nr.
    pub(super) nonces: (Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>),
    /// Of the key exchanges that are done, in order.
    pub(super) secrets: Vec<SharedSecret>,
}

/// A child whose key exchanges are not all done.
pub(super) struct UnfinishedChild {
    pub(super) child: ChildId,
    /// Our SPI of the pair that it renews.
    pub(super) renews: Option<u32>,
    /// What is agreed, without keys.
    pub(super) agreed: Box<NegotiatedChild>,
    /// Ni and Nr of its first exchange.
    pub(super) nonces: (Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>),
    /// Of the key exchanges that are done, in order; none without PFS.
    pub(super) secrets: Vec<SharedSecret>,
}

/// What the peer has begun.
pub(super) enum Made {
    Ike(Unfinished),
    Child(UnfinishedChild),
}

/// The same, while its next key exchange is awaited.
pub(super) struct Linked {
    pub(super) made: Made,
    pub(super) link: [u8; LINK_LEN],
    /// It is forgotten then.
    pub(super) until: Instant,
}

impl UnfinishedChild {
    /// The lower of its nonces, which decides between two that cross.
    pub(super) fn lowest(&self) -> Vec<u8> {
        Nonces::of(&self.nonces).lowest()
    }

    /// The method of its next key exchange; `None`: all are done.
    pub(super) fn next_method(&self) -> Option<Method> {
        let done = self.secrets.len().saturating_sub(1);
        self.agreed.suite.additional.methods().nth(done)
    }

    /// The peer's answer to our exchange.
    pub(super) fn take_answer(
        mut self,
        half: Option<&Initiator>,
        parts: &Parts<'_>,
        work: &mut Work,
    ) -> Result<Self, Fault> {
        let (Some(half), Some(theirs)) = (half, parts.exchange) else {
            return Err(no_value());
        };
        self.secrets.push(exchange::finish(half, theirs, work)?);
        Ok(self)
    }

    /// The pair with its keys. `role`: ours in its exchanges. `sa`: prf and SK_d of the IKE SA.
    pub(super) fn finish(
        mut self,
        role: Role,
        sa: (Hash, &Secret),
        work: &mut Work,
    ) -> Result<Box<NegotiatedChild>, Fault> {
        debug_assert!(self.next_method().is_none(), "all key exchanges are done");
        let secrets: Vec<&[u8]> = self.secrets.iter().map(AsRef::as_ref).collect();
        let protection = self.agreed.suite.protection;
        let [first, second] =
            keys::of_child(sa, protection, &secrets, Nonces::of(&self.nonces), work)?;
        (self.agreed.keys_out, self.agreed.keys_in) = match role {
            Role::Initiator => (first, second),
            Role::Responder => (second, first),
        };
        Ok(self.agreed)
    }
}

impl Linked {
    /// The child, and our SPI in it.
    pub(super) fn child(&self) -> Option<(ChildId, u32)> {
        match &self.made {
            Made::Ike(_) => None,
            Made::Child(made) => Some((made.child, made.agreed.spi_in)),
        }
    }
}

impl Unfinished {
    /// The lower of its nonces, which decides between two that cross.
    pub(super) fn lowest(&self) -> Vec<u8> {
        Nonces::of(&self.nonces).lowest()
    }

    /// The method of its next key exchange; `None`: all are done.
    pub(super) fn next_method(&self) -> Option<Method> {
        let done = self.secrets.len().saturating_sub(1);
        self.suite.additional.methods().nth(done)
    }

    /// The keys of all secrets. `old`: prf and SK_d of the IKE SA that is replaced.
    pub(super) fn keys(&self, old: (Hash, &Secret), work: &mut Work) -> Result<Keys, Fault> {
        let secrets: Vec<&[u8]> = self.secrets.iter().map(AsRef::as_ref).collect();
        let nonces = Nonces::of(&self.nonces);
        let seed = Seed::rekeyed(old, nonces, &secrets, work);
        Keys::derive(self.suite, &seed, nonces, self.spis, work)
    }

    /// The peer's answer to our exchange.
    pub(super) fn take_answer(
        mut self,
        half: &Initiator,
        parts: &Parts<'_>,
        work: &mut Work,
    ) -> Result<Self, Fault> {
        let theirs = parts.exchange.ok_or_else(no_value)?;
        self.secrets.push(exchange::finish(half, theirs, work)?);
        Ok(self)
    }
}

fn no_value() -> Fault {
    Fault::Misbehaved("an answer of IKE_FOLLOWUP_KE without a public value".into())
}

/// In place of keys that do not exist yet.
pub(super) fn no_keys() -> (Secret, Secret) {
    (Secret(Vec::new()), Secret(Vec::new()))
}
