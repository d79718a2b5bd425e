//! Wrong passwords by where they come from. Somebody who guesses runs into these limits before the
//! user's own quota is used up, so that a user elsewhere still gets in. A site has few for all
//! users together. The owner of a network has many sites, so it also has few for each user.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Told;
use crate::identity::Peer;
use crate::rate::{Bucket, Rate};
use crate::site::{Network, Site};
use crate::time::{Duration, Instant};

/// Wrong passwords of one site. A mistyped one is tried again a few times; half as many as the
/// tries of a user, and a third as often.
pub(super) const WRONG: Rate = Rate::new(10, Duration::from_secs(30));
/// Wrong passwords of one network for one user: fewer at once and less often than the tries of the
/// user, so that some are left for other networks.
pub(super) const WRONG_FOR_USER: Rate = Rate::new(15, Duration::from_secs(30));
/// Sites that are kept, and users with networks. Beyond that, the one whose bucket is fullest is
/// dropped.
const COUNTED_MAX: usize = 4_096;

/// Who has sent wrong passwords.
#[derive(Default)]
pub(super) struct Guesses {
    sites: Counted<Site>,
    of_users: Counted<(Peer, Network)>,
}

/// Which limit is reached, and whether the log says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// That of the site.
    Site(bool),
    /// That of its network for this user.
    Network(bool),
}

impl Guesses {
    /// Whether a password may be tried from here.
    pub(super) fn room(&mut self, from: IpAddr, now: Instant) -> Result<(), Full> {
        let site = Site::of(from);
        self.sites.room(&site, WRONG, now).map_err(Full::Site)
    }

    /// Whether a password of this user may be tried from here.
    pub(super) fn room_for(&mut self, user: &Peer, from: IpAddr, now: Instant) -> Result<(), Full> {
        self.room(from, now)?;
        let key = (user.clone(), Site::of(from).network());
        let room = self.of_users.room(&key, WRONG_FOR_USER, now);
        room.map_err(Full::Network)
    }

    /// It was wrong.
    pub(super) fn count(&mut self, from: IpAddr, now: Instant) {
        self.sites.count(Site::of(from), WRONG, now);
    }

    /// It was wrong, and tried for this user.
    pub(super) fn count_for(&mut self, user: &Peer, from: IpAddr, now: Instant) {
        self.count(from, now);
        let key = (user.clone(), Site::of(from).network());
        self.of_users.count(key, WRONG_FOR_USER, now);
    }
}

/// The wrong passwords of each of these.
struct Counted<K>(BTreeMap<K, Wrong>);

impl<K> Default for Counted<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// The wrong passwords of one.
#[derive(Default)]
struct Wrong {
    bucket: Bucket,
    /// When its refusal was last logged.
    told: Told,
}

impl<K: Clone + Ord> Counted<K> {
    /// Whether there is room for one more. If not, whether the log says so.
    fn room(&mut self, of: &K, rate: Rate, now: Instant) -> Result<(), bool> {
        match self.0.get_mut(of) {
            Some(wrong) if !wrong.bucket.has(rate, now) => Err(wrong.told.is_due(now)),
            _ => Ok(()),
        }
    }

    fn count(&mut self, of: K, rate: Rate, now: Instant) {
        if self.0.len() >= COUNTED_MAX && !self.0.contains_key(&of) {
            self.0.retain(|_, wrong| wrong.bucket.full_at() > now);
            let fullest = self
                .0
                .iter()
                .min_by_key(|(_, wrong)| wrong.bucket.full_at());
            let fullest = fullest.map(|(one, _)| one.clone());
            if let Some(fullest) = fullest.filter(|_| self.0.len() >= COUNTED_MAX) {
                self.0.remove(&fullest);
            }
        }
        // However many there were, the bucket is full again after the same time.
        let _ = self.0.entry(of).or_default().bucket.take_one(rate, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(guesses: &mut Guesses, from: &str, now: Instant) -> usize {
        let from = from.parse().unwrap();
        let all = (0..100).take_while(|_| {
            let has_room = guesses.room(from, now).is_ok();
            if has_room {
                guesses.count(from, now);
            }
            has_room
        });
        all.count()
    }

    #[test]
    fn a_site_is_slowed_and_others_are_not() {
        let mut guesses = Guesses::default();
        let now = Instant(0) + Duration::from_secs(1_000);
        assert_eq!(tries(&mut guesses, "192.0.2.1", now), 10);
        assert_eq!(tries(&mut guesses, "192.0.2.2", now), 10);
        assert_eq!(tries(&mut guesses, "2001:db8:1:2::1", now), 10);
        assert_eq!(tries(&mut guesses, "2001:db8:1:2::9", now), 0);
        let later = now + Duration::from_secs(60);
        assert_eq!(tries(&mut guesses, "192.0.2.1", later), 2);
    }

    #[test]
    fn many_wrong_ones_at_once_lock_a_site_no_longer_than_few() {
        let mut guesses = Guesses::default();
        let (from, now) = ("192.0.2.1".parse().unwrap(), Instant(0));
        for _ in 0..1_000 {
            guesses.count(from, now);
        }
        assert!(guesses.room(from, now).is_err());
        let later = now + WRONG.every;
        assert_eq!(tries(&mut guesses, "192.0.2.1", later), 1);
    }

    #[test]
    fn the_log_says_so_once_a_minute() {
        let mut guesses = Guesses::default();
        let (from, mut now) = ("192.0.2.1".parse().unwrap(), Instant(0));
        let mut told = 0;
        for _ in 0..600 {
            now = now + Duration::from_secs(1);
            match guesses.room(from, now) {
                Ok(()) => guesses.count(from, now),
                Err(Full::Site(is_due) | Full::Network(is_due)) => told += u32::from(is_due),
            }
        }
        assert!((9..=10).contains(&told), "{told}");
    }

    #[test]
    fn many_sites_take_bounded_room_and_do_not_free_the_one_that_guesses() {
        let mut guesses = Guesses::default();
        let now = Instant(0) + Duration::from_secs(1_000);
        assert_eq!(tries(&mut guesses, "192.0.2.1", now), 10);
        for number in 0..2 * COUNTED_MAX as u32 {
            guesses.count(IpAddr::from((0x0a00_0000 + number).to_be_bytes()), now);
            assert!(guesses.sites.0.len() <= COUNTED_MAX);
        }
        assert_eq!(tries(&mut guesses, "192.0.2.1", now), 0);
    }

    #[test]
    fn a_network_is_slowed_for_one_user_and_not_for_others() {
        let user = |name| Peer::of_user("phones", &crate::identity::Identity::parse(name).unwrap());
        let (alice, bob) = (user("alice"), user("bob"));
        let (mut guesses, now) = (Guesses::default(), Instant(0));
        let tries = |guesses: &mut Guesses, user: &Peer, now| {
            let all = (0..100u16).map(|n| IpAddr::from([0x2001, 0xdb8, 1, n, 0, 0, 0, 1]));
            let all = all.take_while(|from| {
                let has_room = guesses.room_for(user, *from, now).is_ok();
                if has_room {
                    guesses.count_for(user, *from, now);
                }
                has_room
            });
            all.count()
        };
        assert_eq!(tries(&mut guesses, &alice, now), 15);
        assert_eq!(tries(&mut guesses, &bob, now), 15);
        let later = now + WRONG_FOR_USER.every;
        assert_eq!(tries(&mut guesses, &alice, later), 1);
        let elsewhere = "2001:db8:2::1".parse().unwrap();
        assert_eq!(guesses.room_for(&alice, elsewhere, later), Ok(()));
    }
}
