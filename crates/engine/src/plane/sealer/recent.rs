//! Identifications of the last packets that a raw SA without numbers has sent: what an ICMP report
//! must quote to be believed (`path_mtu.rs`, `trouble.rs`).

use crate::plane::path_mtu::LEAST_CLAIM;

/// How many are remembered.
const REMEMBERED: usize = 32;

/// The last identifications.
#[derive(Default)]
pub(super) struct Recent {
    all: Ring,
    /// Of packets that a small path would not carry: small ones do not push them out.
    large: Ring,
}

#[derive(Default)]
struct Ring {
    /// 0: none yet.
    ids: [u16; REMEMBERED],
    next: usize,
}

impl Recent {
    /// A packet of `length` octets was sent.
    pub(super) fn note(&mut self, id: u16, length: usize) {
        self.all.note(id);
        if length > LEAST_CLAIM.into() {
            self.large.note(id);
        }
    }

    /// Whether one of the last packets bore this identification.
    pub(super) fn has(&self, id: u16) -> bool {
        self.all.has(id)
    }

    /// Whether one of the last large packets did.
    pub(super) fn has_large(&self, id: u16) -> bool {
        self.large.has(id)
    }
}

impl Ring {
    fn note(&mut self, id: u16) {
        self.ids[self.next] = id;
        self.next = (self.next + 1) % REMEMBERED;
    }

    fn has(&self, id: u16) -> bool {
        id != 0 && self.ids.contains(&id)
    }
}
