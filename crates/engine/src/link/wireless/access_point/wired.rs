//! Addresses that are behind the access point. Where anybody may join, a station with the address
//! of a wired host must not draw that host's frames to itself.

use std::collections::BTreeMap;

use wire::ieee80211::Address;

use crate::time::{Duration, Instant};

/// Most addresses.
const MOST_WIRED: usize = 1_024;
/// After which an address may have moved into the air.
const LATELY: Duration = Duration::from_secs(10);

/// Who has sent from behind the access point, and when last.
#[derive(Default)]
pub(super) struct Wired(BTreeMap<Address, Instant>);

impl Wired {
    pub(super) fn note(&mut self, source: Address, now: Instant) {
        if self.0.len() >= MOST_WIRED && !self.0.contains_key(&source) {
            let oldest = self.0.iter().min_by_key(|(_, at)| **at);
            let oldest = oldest.map(|(address, _)| *address);
            oldest.map(|it| self.0.remove(&it));
        }
        self.0.insert(source, now);
    }

    pub(super) fn has(&self, address: Address, now: Instant) -> bool {
        let at = self.0.get(&address);
        at.is_some_and(|at| *at + LATELY > now)
    }
}
