//! Half-open exchanges of a responder, by age: what strangers can make us hold, and who makes room
//! for whom.
//!
//! An exchange is *unproven* while its initiator has sent one message only, from an address that
//! may be forged (RFC 2408 §2.5.3 is about that), and *proven* from main mode's third message on.
//! At a bound the oldest unproven one makes room for a new one, once it has had its time; so a
//! flood from forged addresses shortens the life of what nobody answers. Chance decides which new
//! one gets its place: a flood that is timed so that it always comes first gains nothing. Proven
//! ones never make room, and have bounds of their own.
//!
//! The two modes are counted apart, so that a flood of one leaves the other as it is. A first
//! message of main mode costs memory only. One of aggressive mode costs public key operations:
//! its exchanges keep their places longer, which bounds how many a second a flood can begin. A
//! part of the places is for sites where a station came up lately ([`Familiar`]): a flood that
//! does not know their addresses does not touch it.

mod familiar;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crypto::rand::Stream;
use wire::isakmp::Exchange;

use super::session::SessionId;
use crate::config::Limits;
use crate::site::Site;
use crate::time::{Duration, Instant};
pub(super) use familiar::Familiar;

/// An unproven exchange of main mode is held at least so long: a round trip of a slow link. Many
/// honest stations that come at once behind one address so wait for each other.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(400);

/// One of aggressive mode is held at least so long: a flood makes us do as many public key
/// operations as there are places, once in this time. The third repetition of an honest station's
/// first message falls in it.
pub(super) const COSTLY_TIME: Duration = Duration::from_secs(4);

/// Familiar sites have places of their own, one for so many that all share...
const RESERVE_PART: usize = 4;
/// ...and one site has so many of them.
const RESERVE_PER_SITE: usize = 16;

/// The place of one exchange, kept by its session.
#[derive(Clone, Copy)]
pub(super) struct Place {
    site: Site,
    since: Instant,
    share: Share,
    is_proven: bool,
}

/// Which bounds an unproven exchange falls under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Main mode.
    Main,
    /// Aggressive mode, from anywhere.
    Aggressive,
    /// Aggressive mode, from a familiar site.
    Reserve,
}

/// All half-open exchanges of a node.
#[derive(Default)]
pub(super) struct HalfOpen {
    main: Unproven,
    aggressive: Unproven,
    reserve: Unproven,
    proven: BTreeMap<Site, usize>,
    proven_total: usize,
}

/// The unproven exchanges of one share, by age.
#[derive(Default)]
struct Unproven {
    by_age: BTreeSet<(Instant, SessionId)>,
    by_site: BTreeSet<(Site, Instant, SessionId)>,
    counts: BTreeMap<Site, usize>,
}

/// What a new exchange needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// If this one makes room, with this chance of 2^32.
    Of(SessionId, u64),
    /// There is none.
    None,
}

impl HalfOpen {
    /// How many there are.
    pub(super) fn total(&self) -> usize {
        let unproven = [&self.main, &self.aggressive, &self.reserve];
        unproven.map(Unproven::len).iter().sum::<usize>() + self.proven_total
    }

    /// Whether a first message of this exchange may begin one, and in which share.
    pub(super) fn room(
        &self,
        exchange: Exchange,
        address: IpAddr,
        familiar: &Familiar,
        limits: &Limits,
        random: &mut Stream,
        now: Instant,
    ) -> (Share, Room) {
        let (site, per_site) = (Site::of(address), limits.half_open_per_address);
        if exchange != Exchange::Aggressive {
            let places = limits.half_open_total.saturating_sub(self.proven_total);
            let room = self.main.room(site, (places, per_site), ANSWER_TIME, now);
            return (Share::Main, room.drawn(random));
        }
        let places = limits.half_open.min(limits.half_open_total);
        let common = || {
            let bounds = (places, per_site);
            self.aggressive.room(site, bounds, COSTLY_TIME, now)
        };
        let reserved = || {
            let bounds = (places.div_ceil(RESERVE_PART), RESERVE_PER_SITE);
            match familiar.has(site) {
                true => self.reserve.room(site, bounds, COSTLY_TIME, now),
                false => Room::None,
            }
        };
        match (common(), reserved()) {
            (Room::Free, _) => (Share::Aggressive, Room::Free),
            (_, Room::Free) => (Share::Reserve, Room::Free),
            (room, reserved) => match room.drawn(random) {
                Room::None => (Share::Reserve, reserved.drawn(random)),
                room => (Share::Aggressive, room),
            },
        }
    }

    /// Whether one more exchange of this place may be proven. Half of all stays for new ones.
    pub(super) fn may_prove(&self, place: Place, limits: &Limits) -> bool {
        let of_site = self.proven.get(&place.site).copied().unwrap_or_default();
        of_site < limits.half_open_per_address
            && self.proven_total < limits.half_open_total.div_ceil(2)
    }

    /// A first message has begun an exchange.
    pub(super) fn begin(
        &mut self,
        id: SessionId,
        share: Share,
        address: IpAddr,
        since: Instant,
    ) -> Place {
        let place = Place {
            site: Site::of(address),
            since,
            share,
            is_proven: false,
        };
        self.unproven(share).begin(id, place);
        place
    }

    /// Its initiator reads what is sent to its address.
    pub(super) fn prove(&mut self, id: SessionId, place: &mut Place) {
        if place.is_proven {
            return;
        }
        self.end(id, *place);
        place.is_proven = true;
        self.proven_total += 1;
        *self.proven.entry(place.site).or_default() += 1;
    }

    /// It is established, or over.
    pub(super) fn end(&mut self, id: SessionId, place: Place) {
        if place.is_proven {
            self.proven_total -= 1;
            take_one(&mut self.proven, place.site);
        } else {
            self.unproven(place.share).end(id, place);
        }
    }

    fn unproven(&mut self, share: Share) -> &mut Unproven {
        match share {
            Share::Main => &mut self.main,
            Share::Aggressive => &mut self.aggressive,
            Share::Reserve => &mut self.reserve,
        }
    }
}

impl Unproven {
    fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Room in so many places, of all and of one site. The oldest makes room after `hold`; the
    /// chance grows from none to certainty at twice that.
    fn room(
        &self,
        site: Site,
        (places, per_site): (usize, usize),
        hold: Duration,
        now: Instant,
    ) -> Room {
        let of_site = self.counts.get(&site).copied().unwrap_or_default();
        let oldest = if of_site >= per_site {
            let mut rest = self.by_site.range((site, Instant(0), SessionId(0))..);
            rest.next()
                .filter(|(of, ..)| *of == site)
                .map(|(_, since, id)| (*since, *id))
        } else if self.len() >= places {
            self.by_age.first().copied()
        } else {
            return Room::Free;
        };
        match oldest {
            Some((since, id)) if now.since(since) > hold => {
                let over = now.since(since).saturating_sub(hold).min(hold);
                let chance = (over.as_nanos() << 32) / hold.as_nanos();
                Room::Of(id, chance as u64)
            }
            _ => Room::None,
        }
    }

    fn begin(&mut self, id: SessionId, place: Place) {
        self.by_age.insert((place.since, id));
        self.by_site.insert((place.site, place.since, id));
        *self.counts.entry(place.site).or_default() += 1;
    }

    fn end(&mut self, id: SessionId, place: Place) {
        self.by_age.remove(&(place.since, id));
        self.by_site.remove(&(place.site, place.since, id));
        take_one(&mut self.counts, place.site);
    }
}

/// Counts one less; a count of none is not kept.
fn take_one(counts: &mut BTreeMap<Site, usize>, site: Site) {
    let Some(count) = counts.get_mut(&site) else {
        return;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(&site);
    }
}

impl Room {
    /// With chance decided.
    fn drawn(self, random: &mut Stream) -> Self {
        match self {
            Self::Of(_, chance) if u64::from(random.u32()) >= chance => Self::None,
            room => room,
        }
    }
}

impl Place {
    /// Whether its initiator's address is proven.
    pub(super) fn is_proven(self) -> bool {
        self.is_proven
    }
}
