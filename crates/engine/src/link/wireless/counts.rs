//! What a [`super::Station`] or an [`super::AccessPoint`] counts, with the machines in it.

use crate::counters::DropCounters;
use crate::work::Work;

/// Drops by reason, and work.
#[derive(Clone, Default)]
pub(super) struct Counts {
    pub(super) drops: DropCounters,
    pub(super) work: Work,
}

impl Counts {
    /// Adds those of a machine.
    pub(super) fn add(&mut self, drops: &DropCounters, work: &Work) {
        self.drops.merge(drops);
        self.work.merge(work);
    }
}
