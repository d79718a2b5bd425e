//! Hides which identities exist. A stranger who starts aggressive mode with a pre-shared key and an
//! unknown identity gets the same answer as for a known one.
//!
//! The key is derived from a secret of this process and the identity, so a repeated request meets
//! the same connection. The answer costs the same, has the same length, and occupies a half-open
//! exchange in the same way. Nobody can then prove the identity: the third message fails as with a
//! wrong key.
//!
//! Left out: our identity and the accepted proposals are those of one of our connections. If
//! connections differ in these, a stranger with many requests may learn which kinds exist, but not
//! who uses them.

use std::sync::Arc;

use crypto::hash::Hash;
use crypto::rand::Seed;

use super::auth;
use super::proposal::Method;

use crate::config::Connection;
use crate::counters::DropReason;
use crate::identity::Identity;
use crate::ike::{Fault, Outbox, Rejection};
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

    /// The index among `len` for an identity.
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

/// Chooses the connection that answers an unknown identity, among `fitting`, which accept the
/// proposals but not the identity, and its key. The log gets the real error. `None` without a
/// pre-shared key: with certificates, aggressive mode sends identities unencrypted anyway, and each
/// answer costs a signature.
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
    out.rejections.push(Rejection {
        connection: None,
        path,
        why: fault.to_string(),
    });
    let chosen = fitting.swap_remove(decoys.place(identity, fitting.len()));
    Ok((chosen, decoys.key(identity)))
}
