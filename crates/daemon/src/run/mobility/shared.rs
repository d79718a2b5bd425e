//! Notices that two nodes have one home address: each takes it from the other when it registers,
//! and that one then hears nothing until its own renewal.
//!
//! One node that goes back and forth between two links looks the same, so this is only a warning.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use engine::time::{Duration, Instant};

/// Changes between two places, within a lifetime, that are told.
const CHANGES: usize = 3;

/// Where nodes have registered lately.
#[derive(Default)]
pub(super) struct Places(BTreeMap<Ipv4Addr, VecDeque<Place>>);

/// A registration from another place than the one before.
#[derive(Clone, Copy)]
struct Place {
    care_of: Ipv4Addr,
    since: Instant,
    lifetime: Duration,
}

impl Places {
    /// A node has registered. Whether it, or two of them, went back and forth.
    pub(super) fn register(
        &mut self,
        (home, care_of): (Ipv4Addr, Ipv4Addr),
        lifetime: Duration,
        now: Instant,
    ) -> bool {
        let places = self.0.entry(home).or_default();
        if places.back().is_some_and(|last| last.care_of == care_of) {
            return false;
        }
        if places.len() > CHANGES {
            places.pop_front();
        }
        places.push_back(Place {
            care_of,
            since: now,
            lifetime,
        });
        Self::ends(places, now).is_some()
    }

    /// A node is back home, or its registration has ended.
    pub(super) fn forget(&mut self, home: Ipv4Addr) {
        self.0.remove(&home);
    }

    /// Sentences about those that still go back and forth.
    pub(super) fn warnings(&self, now: Instant) -> Vec<String> {
        let all = self.0.iter();
        let shared = all.filter_map(|(home, places)| Some((home, Self::ends(places, now)?)));
        shared
            .map(|(home, [one, other])| {
                format!(
                    "{home} goes back and forth between {one} and {other}: two nodes have this \
                     home address and its key, or one node changes between two links"
                )
            })
            .collect()
    }

    fn ends(places: &VecDeque<Place>, now: Instant) -> Option<[Ipv4Addr; 2]> {
        let last = places.back()?;
        let first = places.get(1).filter(|_| places.len() > CHANGES)?;
        let ends = [places[0].care_of, first.care_of];
        let mut turns = places.iter().zip(ends.iter().cycle());
        let is_quick = last.since.since(first.since) <= last.lifetime;
        let is_now = now.since(last.since) <= last.lifetime;
        let goes = turns.all(|(place, end)| place.care_of == *end);
        (is_quick && is_now && goes).then_some(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const ONE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const OTHER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
    const THIRD: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
    const LIFETIME: Duration = Duration::from_secs(300);

    fn at(seconds: u64) -> Instant {
        Instant(0) + Duration::from_secs(seconds)
    }

    fn told(registrations: &[(u64, Ipv4Addr)]) -> Vec<u64> {
        let mut places = Places::default();
        let each = registrations.iter();
        let told = each
            .filter(|(seconds, care_of)| places.register((HOME, *care_of), LIFETIME, at(*seconds)));
        told.map(|(seconds, _)| *seconds).collect()
    }

    #[test]
    fn two_nodes_that_renew_their_registrations_are_told() {
        let both = [(0, ONE), (10, OTHER), (225, ONE), (235, OTHER), (450, ONE)];
        assert_eq!(told(&both), [235, 450]);
    }

    #[test]
    fn a_node_that_renews_or_moves_on_is_not() {
        assert!(told(&[(0, ONE), (225, ONE), (450, ONE), (675, ONE), (900, ONE)]).is_empty());
        assert!(told(&[(0, ONE), (9, OTHER), (18, THIRD), (27, ONE), (36, OTHER)]).is_empty());
        // To work and back.
        assert!(told(&[(0, ONE), (3_600, OTHER), (7_200, ONE), (10_800, OTHER)]).is_empty());
    }

    #[test]
    fn the_warning_names_both_places_until_it_is_over() {
        let mut places = Places::default();
        for (seconds, care_of) in [(0, ONE), (10, OTHER), (225, ONE), (235, OTHER)] {
            places.register((HOME, care_of), LIFETIME, at(seconds));
        }
        let said = places.warnings(at(300));
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with(&format!(
            "{HOME} goes back and forth between {ONE} and {OTHER}"
        )));
        assert!(places.warnings(at(536)).is_empty());
        places.forget(HOME);
        assert!(places.warnings(at(300)).is_empty());
    }
}
