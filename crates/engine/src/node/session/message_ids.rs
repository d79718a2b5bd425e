//! All message IDs of phase 2 that an ISAKMP SA has used, the peer's and ours.
//!
//! RFC 2409 §5.5 and §5.7 have no other protection against replay: an attacker could replay a
//! recorded message, or send us our own. So no ID is forgotten while the ISAKMP SA lives. The SA is
//! renewed at three quarters of [`MAX_IDS`], and closed when all are used.
//!
//! Only authenticated exchanges count, so only the peer can use up IDs. Dead peer detection has its
//! own numbers (RFC 3706 §6.2) and needs none.

/// Exchanges of phase 2 under one ISAKMP SA: 16 KiB. A child takes about three an hour.
pub(in super::super) const MAX_IDS: usize = 4_096;
/// With this many, the ISAKMP SA is renewed.
pub(in super::super) const RENEWAL_IDS: usize = MAX_IDS / 4 * 3;

/// The IDs, in order.
#[derive(Default)]
pub(in super::super) struct MessageIds(Vec<u32>);

impl MessageIds {
    /// Whether an exchange of this ID was begun or accepted.
    pub(in super::super) fn has(&self, id: u32) -> bool {
        self.0.binary_search(&id).is_ok()
    }

    /// An exchange of this ID must not happen again. Past [`MAX_IDS`] nothing is remembered.
    pub(super) fn add(&mut self, id: u32) {
        if let Err(at) = self.0.binary_search(&id)
            && !self.are_used_up()
        {
            self.0.insert(at, id);
        }
    }

    /// How many were used.
    pub(in super::super) fn used(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no room for another one: the ISAKMP SA must end.
    pub(in super::super) fn are_used_up(&self) -> bool {
        self.0.len() >= MAX_IDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_remembered_until_they_are_used_up() {
        let mut ids = MessageIds::default();
        let id = |n: usize| (n as u32).wrapping_mul(0x9e37_79b1);
        for n in 0..MAX_IDS {
            assert!(!ids.are_used_up() && !ids.has(id(n)));
            ids.add(id(n));
            ids.add(id(n));
            assert_eq!(ids.used(), n + 1);
        }
        assert!(ids.are_used_up());
        assert!((0..MAX_IDS).all(|n| ids.has(id(n))));
        ids.add(id(MAX_IDS));
        assert_eq!(ids.used(), MAX_IDS);
    }
}
