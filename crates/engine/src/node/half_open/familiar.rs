//! Sites where a client came up lately: the newest [`MAX_FAMILIAR`] of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::site::Site;
use crate::time::Instant;

/// Sites that are remembered: about 400 KiB.
pub(in super::super) const MAX_FAMILIAR: usize = 4_096;

/// The sites, and when a client last came up there.
#[derive(Default)]
pub(in super::super) struct Familiar {
    by_site: BTreeMap<Site, Instant>,
    by_age: BTreeSet<(Instant, Site)>,
}

impl Familiar {
    /// Whether a client came up there lately.
    pub(super) fn has(&self, site: Site) -> bool {
        self.by_site.contains_key(&site)
    }

    /// A client came up there: its site is the newest. If there are too many, the oldest is
    /// forgotten.
    pub(in super::super) fn add(&mut self, site: Site, now: Instant) {
        if let Some(before) = self.by_site.insert(site, now) {
            self.by_age.remove(&(before, site));
        }
        self.by_age.insert((now, site));
        if self.by_site.len() > MAX_FAMILIAR
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.by_site.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_site_that_was_seen_longest_ago_is_forgotten() {
        let site = |n: u32| Site::of(n.to_be_bytes().into());
        let mut familiar = Familiar::default();
        let many = u32::try_from(MAX_FAMILIAR).unwrap();
        (0..many).for_each(|n| familiar.add(site(n), Instant(n.into())));
        familiar.add(site(0), Instant(u64::from(many)));
        familiar.add(site(many), Instant(u64::from(many) + 1));
        assert!(familiar.has(site(0)) && familiar.has(site(many)));
        assert!(!familiar.has(site(1)));
        assert_eq!(familiar.by_site.len(), MAX_FAMILIAR);
        assert_eq!(familiar.by_age.len(), MAX_FAMILIAR);
    }
}
