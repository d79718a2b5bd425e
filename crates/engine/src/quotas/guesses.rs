//! Wrong passwords by where they come from. Somebody who guesses runs into this limit before the
//! user's own does, so that a user elsewhere still gets in.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Told;
use crate::rate::{Bucket, Rate};
use crate::site::Site;
use crate::time::{Duration, Instant};

/// Wrong passwords of one site. A mistyped one is tried again a few times; half as many as the
/// tries of a user, and a third as often.
pub(super) const WRONG: Rate = Rate::new(10, Duration::from_secs(30));
/// Sites that are kept. Beyond that, the one whose bucket is fullest is dropped.
const SITES_MAX: usize = 4_096;

/// Sites with wrong passwords.
#[derive(Default)]
pub(super) struct Guesses(BTreeMap<Site, Wrong>);

/// The wrong passwords of a site.
#[derive(Default)]
struct Wrong {
    bucket: Bucket,
    /// When its refusal was last logged.
    told: Told,
}

impl Guesses {
    /// Whether a password may be tried from here. If not, whether the log says so.
    pub(super) fn room(&mut self, from: IpAddr, now: Instant) -> Result<(), bool> {
        match self.0.get_mut(&Site::of(from)) {
            Some(wrong) if !wrong.bucket.has(WRONG, now) => Err(wrong.told.is_due(now)),
            _ => Ok(()),
        }
    }

    /// It was wrong.
    pub(super) fn count(&mut self, from: IpAddr, now: Instant) {
        let site = Site::of(from);
        if self.0.len() >= SITES_MAX && !self.0.contains_key(&site) {
            self.0.retain(|_, wrong| wrong.bucket.full_at() > now);
            let fullest = self
                .0
                .iter()
                .min_by_key(|(_, wrong)| wrong.bucket.full_at());
            let fullest = fullest.map(|(site, _)| *site);
            if let Some(fullest) = fullest.filter(|_| self.0.len() >= SITES_MAX) {
                self.0.remove(&fullest);
            }
        }
        // However many there were, the bucket is full again after the same time.
        let _ = self.0.entry(site).or_default().bucket.take_one(WRONG, now);
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
                Err(is_due) => told += u32::from(is_due),
            }
        }
        assert!((9..=10).contains(&told), "{told}");
    }

    #[test]
    fn many_sites_take_bounded_room_and_do_not_free_the_one_that_guesses() {
        let mut guesses = Guesses::default();
        let now = Instant(0) + Duration::from_secs(1_000);
        assert_eq!(tries(&mut guesses, "192.0.2.1", now), 10);
        for number in 0..2 * SITES_MAX as u32 {
            guesses.count(IpAddr::from((0x0a00_0000 + number).to_be_bytes()), now);
            assert!(guesses.0.len() <= SITES_MAX);
        }
        assert_eq!(tries(&mut guesses, "192.0.2.1", now), 0);
    }
}
