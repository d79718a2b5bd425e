//! All message IDs of phase 2 that an ISAKMP SA has used, the peer's and ours.
//!
//! RFC 2409 §5.5 and §5.7 have no other protection against replay: an attacker could replay a
//! recorded message, or send us our own. So no ID is forgotten while the ISAKMP SA lives. The SA is
//! renewed at three quarters of [`MAX_IDS`], and closed when all are used.
//!
//! Only authenticated exchanges count, so only the peer can use up IDs. Dead peer detection has its
//! own numbers (RFC 3706 §6.2) and needs none.

use crate::ike::Wear;

/// Exchanges of phase 2 under one ISAKMP SA: 16 KiB. A child takes about three an hour.
pub(crate) const MAX_IDS: usize = 4_096;
/// At this number, the ISAKMP SA is renewed.
pub(crate) const RENEWAL_IDS: usize = MAX_IDS / 4 * 3;

/// The IDs, in order.
#[derive(Default)]
pub(crate) struct MessageIds(Vec<u32>);

impl MessageIds {
    /// Whether an exchange with this ID was started or accepted.
    pub(crate) fn has(&self, id: u32) -> bool {
        self.0.binary_search(&id).is_ok()
    }

    /// Marks an ID as used. Beyond [`MAX_IDS`] nothing is remembered.
    pub(super) fn add(&mut self, id: u32) -> Wear {
        let before = self.0.len();
        if let Err(at) = self.0.binary_search(&id)
            && !self.are_used_up()
        {
            self.0.insert(at, id);
        }
        match self.0.len() {
            MAX_IDS.. => Wear::End,
            RENEWAL_IDS if before < RENEWAL_IDS => Wear::Renew,
            _ => Wear::None,
        }
    }

    /// Whether there is no room for another ID: the ISAKMP SA must end.
    pub(crate) fn are_used_up(&self) -> bool {
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
            let wear = match n + 1 {
                RENEWAL_IDS => Wear::Renew,
                MAX_IDS => Wear::End,
                _ => Wear::None,
            };
            assert_eq!(ids.add(id(n)), wear);
            assert_ne!(ids.add(id(n)), Wear::Renew);
            assert_eq!(ids.0.len(), n + 1);
        }
        assert!(ids.are_used_up());
        assert!((0..MAX_IDS).all(|n| ids.has(id(n))));
        assert_eq!(ids.add(id(MAX_IDS)), Wear::End);
        assert_eq!(ids.0.len(), MAX_IDS);
    }
}
