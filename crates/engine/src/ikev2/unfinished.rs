//! A new IKE SA whose key exchanges are not all done (RFC 9370 §2.2.4).

use crypto::dh::SharedSecret;
use crypto::hash::Hash;
use crypto::key_exchange::{Initiator, Method};
use zeroize::Zeroizing;

use super::exchange;
use super::keys::{Keys, Nonces, Seed};
use super::parts::Parts;
use crate::ike::{Fault, Spis};
use crate::sa::Secret;
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

/// One that the peer has begun.
pub(super) struct Linked {
    pub(super) made: Unfinished,
    pub(super) link: [u8; LINK_LEN],
    /// It is forgotten then.
    pub(super) until: Instant,
}

impl Unfinished {
    fn nonces(&self) -> Nonces<'_> {
        Nonces {
            initiator: &self.nonces.0,
            responder: &self.nonces.1,
        }
    }

    /// The lower of its nonces, which decides between two that cross.
    pub(super) fn lowest(&self) -> Vec<u8> {
        self.nonces().lowest()
    }

    /// The method of its next key exchange; `None`: all are done.
    pub(super) fn next_method(&self) -> Option<Method> {
        let done = self.secrets.len().saturating_sub(1);
        self.suite.additional.methods().nth(done)
    }

    /// The keys of all secrets. `old`: prf and SK_d of the IKE SA that is replaced.
    pub(super) fn keys(&self, old: (Hash, &Secret), work: &mut Work) -> Result<Keys, Fault> {
        let secrets: Vec<&[u8]> = self.secrets.iter().map(AsRef::as_ref).collect();
        let nonces = self.nonces();
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
        let theirs = parts.exchange.ok_or_else(|| {
            Fault::Misbehaved("an answer of IKE_FOLLOWUP_KE without a public value".into())
        })?;
        self.secrets.push(exchange::finish(half, theirs, work)?);
        Ok(self)
    }
}
