//! What a peer's client lacks, and what follows.

use super::{Established, Session};

impl Session {
    /// Whether an end has proven itself by RSA with SHA-1, because the other announces no hashes.
    pub fn has_signed_sha1(&self) -> bool {
        self.established().is_some_and(|it| it.has_sha1)
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
