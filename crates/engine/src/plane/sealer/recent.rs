//! Identifications of the last large packets that a raw SA without numbers has sent: what an ICMP
//! report must quote to be believed (`path_mtu.rs`).

use crate::plane::path_mtu::LEAST_CLAIM;

/// How many are remembered.
const REMEMBERED: usize = 32;

/// The last identifications, of packets that a small path would not carry.
#[derive(Default)]
pub(super) struct Recent {
    /// 0: none yet.
    ids: [u16; REMEMBERED],
    next: usize,
}

impl Recent {
    /// A packet of `length` octets was sent.
    pub(super) fn note(&mut self, id: u16, length: usize) {
        if length > LEAST_CLAIM.into() {
            self.ids[self.next] = id;
            self.next = (self.next + 1) % REMEMBERED;
        }
    }

    /// Whether one of the last large packets bore this identification.
    pub(super) fn has(&self, id: u16) -> bool {
        id != 0 && self.ids.contains(&id)
    }
}
