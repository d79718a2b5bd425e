//! What a peer's client lacks, and what follows.

use crypto::sign::KeyKind;

use super::{Established, Session};
use crate::config::LocalMethod;

impl Session {
    /// Whether we have proven ourselves by RSA with SHA-1, because the peer announces no hashes.
    pub fn has_signed_sha1(&self) -> bool {
        let is_rsa = |method: &LocalMethod| match method {
            LocalMethod::Signature { key, .. } => matches!(key.kind(), KeyKind::Rsa { .. }),
            LocalMethod::PresharedKey(_) | LocalMethod::Eap(_) => false,
        };
        let has =
            |it: &Established| it.peer.hashes.is_none() && is_rsa(&it.connection.local.method);
        self.established().is_some_and(has)
    }

    /// Whether the peer alone renews children.
    pub fn leaves_children_to_peer(&self) -> bool {
        let is_so = |it: &Established| it.peer.is_windows && it.nat.is_between();
        self.established().is_some_and(is_so)
    }

    /// The peer counts as Windows from now on.
    #[cfg(test)]
    pub(crate) fn is_with_windows_for_testing(&mut self) {
        let it = self.established_mut().expect("established");
        it.peer.is_windows = true;
    }
}
