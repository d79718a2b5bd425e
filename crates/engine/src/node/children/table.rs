//! The table of children, and the SPIs by which packets find them.

use std::collections::BTreeMap;

use crypto::rand::Stream;

use super::ChildEntry;
use crate::sa::ChildId;

/// All children of a node.
#[derive(Default)]
pub(in crate::node) struct Children {
    by_id: BTreeMap<ChildId, Box<ChildEntry>>,
    next: u32,
    /// Our SPIs, including those of exchanges in progress.
    spis: BTreeMap<u32, SpiUse>,
}

/// What an SPI of ours names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SpiUse {
    /// An exchange in progress.
    Reserved,
    /// An SA in the inbound plane.
    Installed,
}

impl Children {
    /// Adds the entry that is made for a new ID.
    pub(super) fn add(&mut self, entry: impl FnOnce(ChildId) -> ChildEntry) -> ChildId {
        // Peers start many children: numbers wrap around, and some are in use.
        while self.by_id.contains_key(&ChildId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let id = ChildId(self.next);
        self.next = self.next.wrapping_add(1);
        self.by_id.insert(id, Box::new(entry(id)));
        id
    }

    pub(super) fn remove(&mut self, id: ChildId) -> Option<Box<ChildEntry>> {
        self.by_id.remove(&id)
    }

    pub(in crate::node) fn get(&self, id: &ChildId) -> Option<&ChildEntry> {
        self.by_id.get(id).map(|entry| &**entry)
    }

    pub(in crate::node) fn get_mut(&mut self, id: &ChildId) -> Option<&mut ChildEntry> {
        self.by_id.get_mut(id).map(|entry| &mut **entry)
    }

    pub(in crate::node) fn contains_key(&self, id: &ChildId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(in crate::node) fn values(&self) -> impl Iterator<Item = &ChildEntry> {
        self.by_id.values().map(|entry| &**entry)
    }

    pub(in crate::node) fn values_mut(&mut self) -> impl Iterator<Item = &mut ChildEntry> {
        self.by_id.values_mut().map(|entry| &mut **entry)
    }

    /// Whether this child has a pair of SAs.
    pub(in crate::node) fn is_up(&self, id: ChildId) -> bool {
        self.get(&id).is_some_and(|entry| entry.current.is_some())
    }

    /// Reserves an unused SPI above 255 (RFC 4303 §2.1).
    pub(super) fn take_spi(&mut self, random: &mut Stream) -> u32 {
        loop {
            let spi = random.u32();
            if spi > 255 && !self.spis.contains_key(&spi) {
                self.spis.insert(spi, SpiUse::Reserved);
                return spi;
            }
        }
    }

    /// Records the SPI of an SA that is given to the inbound plane.
    pub(super) fn keep_spi(&mut self, spi: u32) {
        self.spis.insert(spi, SpiUse::Installed);
    }

    /// Releases an SPI, and returns what it named.
    #[must_use = "an installed SA must leave its plane"]
    pub(super) fn free_spi(&mut self, spi: u32) -> Option<SpiUse> {
        self.spis.remove(&spi)
    }

    #[cfg(test)]
    pub(in crate::node) fn keys(&self) -> impl Iterator<Item = &ChildId> {
        self.by_id.keys()
    }

    /// The number of SPIs of exchanges in progress.
    #[cfg(test)]
    pub(in crate::node) fn reserved(&self) -> usize {
        let all = self.spis.values();
        all.filter(|it| **it == SpiUse::Reserved).count()
    }

    #[cfg(test)]
    pub(in crate::node) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Sets the next ID.
    #[cfg(test)]
    pub(in crate::node) fn continue_at(&mut self, next: u32) {
        self.next = next;
    }
}
