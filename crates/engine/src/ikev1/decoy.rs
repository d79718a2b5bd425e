//! What a stranger hears who begins aggressive mode with a pre-shared key under an identity that
//! nobody has: the same as under one that somebody has, so that no identity is betrayed.
//!
//! The key is made of a secret of this process and of the identity, so that whoever asks again
//! hears of the same connection. The answer costs the same, is as long, and holds the same place
//! among half-open exchanges. Nobody can prove the identity afterwards: the third message ends as
//! it does for a wrong key.
//!
//! Left out: the identity that we give, and the proposals that we take, are those of one of our
//! connections. Where connections differ in these, who asks many times may learn of which kinds
//! there are, not who uses them.

use std::sync::Arc;

use crypto::hash::Hash;
use crypto::rand::Seed;

use super::auth;
use super::proposal::Method;

use crate::config::Connection;
use crate::counters::DropReason;
use crate::identity::Identity;
use crate::ike::{Doubt, Fault, Outbox};
use crate::sa::{Path, Secret};

/// The secret of this process.
pub struct Decoys(Secret);

impl Decoys {
    /// Drawn from a stream of its own.
    pub fn new(seed: &Seed) -> Self {
        let mut octets = vec![0; Hash::Sha256.len()];
        seed.stream("decoys", 0).fill(&mut octets);
        Self(Secret(octets))
    }

    /// The place among `len` that an identity has.
    pub(super) fn place(&self, identity: &Identity, len: usize) -> usize {
        let drawn = self.draw(b"place", identity);
        let number = drawn.0[..4].iter();
        number.fold(0, |sum, octet| (sum << 8) | usize::from(*octet)) % len.max(1)
    }

    /// The key that nobody has.
    pub(super) fn key(&self, identity: &Identity) -> Secret {
        self.draw(b"key", identity)
    }

    fn draw(&self, what: &[u8], identity: &Identity) -> Secret {
        let id = identity.canonical().to_identification();
        let kind = [id.kind.number()];
        let digest = Hash::Sha256.hmac(&self.0.0, &[what, &kind, &id.value]);
        Secret(digest.as_ref().to_vec())
    }
}

/// The one of `fitting`, which accept the proposals and not the identity, that answers in place of
/// one that would, and under which key; the log hears the truth. Without a pre-shared key there is
/// none: certificates travel in clear in aggressive mode, and each costs a signature.
pub(super) fn pose(
    mut fitting: Vec<Arc<Connection>>,
    decoys: &Decoys,
    identity: &Identity,
    path: Path,
    out: &mut Outbox,
) -> Result<(Arc<Connection>, Secret), Fault> {
    let fault = auth::unaccepted(identity, &fitting);
    fitting.retain(|it| it.method() == Some(Method::PresharedKey));
    if fitting.is_empty() {
        return Err(fault);
    }
    out.drops.count(DropReason::AuthenticationFailed);
    out.doubts.push(Doubt {
        connection: None,
        path,
        why: fault.to_string(),
    });
    let chosen = fitting.swap_remove(decoys.place(identity, fitting.len()));
    Ok((chosen, decoys.key(identity)))
}
