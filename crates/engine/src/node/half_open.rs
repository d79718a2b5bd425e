//! Half-open exchanges of a responder, by age: how many a stranger can make us keep, and which one
//! is dropped at a limit.
//!
//! An exchange is *unproven* while its initiator has sent only one message, from an address that
//! may be forged (RFC 2408 §2.5.3), and *proven* from main mode's third message on. Unproven and
//! proven exchanges of main mode, and aggressive mode, have separate tables ([`Share`]). At a
//! limit, the oldest exchange is dropped for a new one, after a minimum time and with a growing
//! chance.
//!
//! `docs/design/half-open.md` says why.

mod familiar;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crypto::rand::Stream;

use super::session_id::SessionId;
use crate::config::Limits;
use crate::site::{Network, Site};
use crate::time::{Duration, Instant};
pub(super) use familiar::Familiar;

/// An unproven exchange of main mode is kept at least this long: a round trip on a slow link. So
/// many honest clients that come at once from one address wait for each other.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(400);

/// An exchange of aggressive mode, or a proven one of main mode, is kept at least this long. In
/// this time, a flood causes at most one public key operation per entry, and an honest client sends
/// its message three times.
pub(super) const COSTLY_TIME: Duration = Duration::from_secs(4);

/// A network may have as many proven entries, or unproven ones of IKEv2, as this many sites.
const SITES_PER_NETWORK: usize = 4;

/// One entry is reserved for familiar sites for every this many shared ones.
const RESERVE_PART: usize = 4;
/// Reserved entries of one familiar site.
const RESERVE_PER_SITE: usize = 16;

/// The entry of one exchange, kept by its session.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    site: Site,
    since: Instant,
    share: Share,
    /// It counts in its network's bound. Where no cookie is asked, forged addresses could use that
    /// up.
    is_of_network: bool,
}

/// The limits that apply to an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Main mode, unproven.
    Main,
    /// Aggressive mode, from anywhere.
    Aggressive,
    /// Aggressive mode, from a familiar site.
    Reserve,
    /// Main mode, from its third message on.
    Proven,
}

/// How an exchange begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// The first message of main mode costs nothing but memory.
    MainMode,
    /// Each first message costs public key operations.
    AggressiveMode,
    /// It counts as main mode, but costs a key exchange.
    Ikev2,
}

/// All half-open exchanges of a node.
#[derive(Default)]
pub(super) struct HalfOpen {
    main: Slots,
    aggressive: Slots,
    reserve: Slots,
    proven: Slots,
    /// Costly exchanges that failed, and until when each keeps its entry. Otherwise an attacker who
    /// makes each exchange fail at once could start more of them.
    failed: BTreeMap<(Instant, SessionId), Slot>,
}

/// The exchanges of one share, by age.
#[derive(Default)]
struct Slots {
    by_age: BTreeSet<(Instant, SessionId)>,
    by_site: BTreeSet<(Site, Instant, SessionId)>,
    by_network: BTreeSet<(Network, Instant, SessionId)>,
    of_site: BTreeMap<Site, usize>,
    of_network: BTreeMap<Network, usize>,
}

/// How many entries there are, and how long one is kept at least.
struct Bounds {
    all: usize,
    per_network: usize,
    per_site: usize,
    hold: Duration,
}

/// Whether a new exchange finds room.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is room.
    Free,
    /// There is room if this one is dropped, with a chance of this value over 2^32.
    Of(SessionId, u64),
    /// There is none.
    None,
}

impl HalfOpen {
    /// The number of exchanges.
    pub(super) fn total(&self) -> usize {
        let shares = [&self.main, &self.aggressive, &self.reserve, &self.proven];
        shares.map(Slots::len).iter().sum::<usize>() - self.failed.len()
    }

    /// The number of exchanges that failed and keep their entries.
    #[cfg(test)]
    pub(super) fn failed(&self) -> usize {
        self.failed.len()
    }

    /// Whether a first message of this exchange may start one, and in which share.
    pub(super) fn room(
        &mut self,
        begun: Begun,
        address: IpAddr,
        familiar: &Familiar,
        limits: &Limits,
        random: &mut Stream,
        now: Instant,
    ) -> (Share, Room) {
        self.forgive(now);
        let site = Site::of(address);
        let per_site = limits.half_open_per_address;
        let per_network = match begun {
            Begun::Ikev2 => per_site.saturating_mul(SITES_PER_NETWORK),
            Begun::MainMode | Begun::AggressiveMode => usize::MAX,
        };
        let bounds = |all, per_site, hold| Bounds {
            all,
            per_network,
            per_site,
            hold,
        };
        if begun != Begun::AggressiveMode {
            let slots = limits.half_open_total.saturating_sub(self.proven.len());
            let bounds = bounds(slots, per_site, ANSWER_TIME);
            return (
                Share::Main,
                self.main.room(site, &bounds, now).drawn(random),
            );
        }
        let slots = limits.half_open.min(limits.half_open_total);
        let common = bounds(slots, per_site, COSTLY_TIME);
        let reserve = bounds(slots.div_ceil(RESERVE_PART), RESERVE_PER_SITE, COSTLY_TIME);
        let reserved = match familiar.has(site) {
            true => self.reserve.room(site, &reserve, now),
            false => Room::None,
        };
        match (self.aggressive.room(site, &common, now), reserved) {
            (Room::Free, _) => (Share::Aggressive, Room::Free),
            (_, Room::Free) => (Share::Reserve, Room::Free),
            (room, reserved) => match room.drawn(random) {
                Room::None => (Share::Reserve, reserved.drawn(random)),
                room => (Share::Aggressive, room),
            },
        }
    }

    /// Whether one more exchange of main mode may become proven. Half of all entries are for new
    /// ones.
    pub(super) fn room_to_prove(
        &mut self,
        slot: Slot,
        limits: &Limits,
        random: &mut Stream,
        now: Instant,
    ) -> Room {
        self.forgive(now);
        let per_site = limits.half_open_per_address;
        let bounds = Bounds {
            all: limits.half_open_total.div_ceil(2),
            per_network: per_site.saturating_mul(SITES_PER_NETWORK),
            per_site,
            hold: COSTLY_TIME,
        };
        self.proven.room(slot.site, &bounds, now).drawn(random)
    }

    /// A first message has started an exchange.
    pub(super) fn begin(&mut self, id: SessionId, slot: Slot) {
        self.share(slot.share).begin(id, slot);
    }

    /// Its initiator has proven that it receives at its address.
    pub(super) fn prove(&mut self, id: SessionId, slot: &mut Slot, now: Instant) {
        if slot.is_proven() {
            return;
        }
        self.end(id, *slot);
        (slot.share, slot.since) = (Share::Proven, now);
        slot.is_of_network = true;
        self.proven.begin(id, *slot);
    }

    /// It is established.
    pub(super) fn end(&mut self, id: SessionId, slot: Slot) {
        self.share(slot.share).end(id, slot);
    }

    /// It failed.
    pub(super) fn fail(&mut self, id: SessionId, slot: Slot, now: Instant) {
        let until = slot.since + COSTLY_TIME;
        match slot.share {
            Share::Main => self.end(id, slot),
            _ if until <= now => self.end(id, slot),
            _ => drop(self.failed.insert((until, id), slot)),
        }
    }

    /// Frees the entries of exchanges that failed long enough ago.
    fn forgive(&mut self, now: Instant) {
        while let Some(first) = self.failed.first_entry().filter(|it| it.key().0 <= now) {
            let ((_, id), slot) = first.remove_entry();
            self.end(id, slot);
        }
    }

    fn share(&mut self, share: Share) -> &mut Slots {
        match share {
            Share::Main => &mut self.main,
            Share::Aggressive => &mut self.aggressive,
            Share::Reserve => &mut self.reserve,
            Share::Proven => &mut self.proven,
        }
    }
}

impl Slots {
    fn len(&self) -> usize {
        self.by_age.len()
    }

    /// Room within these limits. The oldest is dropped only after its minimum time; the chance
    /// grows from 0 to 1 at twice this time.
    fn room(&self, site: Site, bounds: &Bounds, now: Instant) -> Room {
        let network = site.network();
        let oldest = if count(&self.of_site, site) >= bounds.per_site {
            oldest_of(&self.by_site, site)
        } else if count(&self.of_network, network) >= bounds.per_network {
            oldest_of(&self.by_network, network)
        } else if self.len() >= bounds.all {
            self.by_age.first().copied()
        } else {
            return Room::Free;
        };
        let hold = bounds.hold;
        match oldest {
            Some((since, id)) if now.since(since) > hold => {
                let over = now.since(since).saturating_sub(hold).min(hold);
                let chance = (over.as_nanos() << 32) / hold.as_nanos();
                Room::Of(id, chance as u64)
            }
            _ => Room::None,
        }
    }

    fn begin(&mut self, id: SessionId, slot: Slot) {
        let (site, since) = (slot.site, slot.since);
        self.by_age.insert((since, id));
        self.by_site.insert((site, since, id));
        *self.of_site.entry(site).or_default() += 1;
        if slot.is_of_network {
            let network = site.network();
            self.by_network.insert((network, since, id));
            *self.of_network.entry(network).or_default() += 1;
        }
    }

    fn end(&mut self, id: SessionId, slot: Slot) {
        let (site, since) = (slot.site, slot.since);
        self.by_age.remove(&(since, id));
        self.by_site.remove(&(site, since, id));
        take_one(&mut self.of_site, site);
        if slot.is_of_network {
            let network = site.network();
            self.by_network.remove(&(network, since, id));
            take_one(&mut self.of_network, network);
        }
    }
}

fn count<K: Ord>(counts: &BTreeMap<K, usize>, of: K) -> usize {
    counts.get(&of).copied().unwrap_or_default()
}

/// The oldest of a site or network.
fn oldest_of<K: Ord + Copy>(
    slots: &BTreeSet<(K, Instant, SessionId)>,
    of: K,
) -> Option<(Instant, SessionId)> {
    let mut rest = slots.range((of, Instant(0), SessionId(0))..);
    let (found, since, id) = *rest.next()?;
    (found == of).then_some((since, id))
}

/// Decrements a count, and removes it at zero.
fn take_one<K: Ord>(counts: &mut BTreeMap<K, usize>, of: K) {
    let Some(count) = counts.get_mut(&of) else {
        return;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(&of);
    }
}

impl Room {
    /// Decides the chance.
    fn drawn(self, random: &mut Stream) -> Self {
        match self {
            Self::Of(_, chance) if u64::from(random.u32()) >= chance => Self::None,
            room => room,
        }
    }
}

impl Slot {
    /// For a first message from this address.
    pub(super) fn new(begun: Begun, share: Share, address: IpAddr, since: Instant) -> Self {
        Self {
            site: Site::of(address),
            since,
            share,
            is_of_network: begun == Begun::Ikev2,
        }
    }

    /// Whether its initiator's address is proven.
    pub(super) fn is_proven(self) -> bool {
        self.share == Share::Proven
    }
}

#[cfg(test)]
mod tests {
    use crypto::rand::Seed;

    use super::*;

    /// One cookie serves for any number of first messages, and each costs a key exchange.
    #[test]
    fn a_network_of_many_sites_has_a_bound_where_first_messages_cost_something() {
        let (mut half_open, familiar) = (HalfOpen::default(), Familiar::default());
        let (limits, mut random) = (Limits::default(), Seed::new([3; 32]).stream("room", 0));
        let now = Instant(0) + Duration::from_secs(9);
        let mut begins = |n: u32, begun| {
            let from = IpAddr::from([192, 0, 2, n as u8]);
            let (share, room) = half_open.room(begun, from, &familiar, &limits, &mut random, now);
            if room == Room::Free {
                half_open.begin(SessionId(n), Slot::new(begun, share, from, now));
            }
            room
        };
        // Nobody is asked for a cookie in main mode, so these may be forged.
        for n in 0..400 {
            assert_eq!(begins(n, Begun::MainMode), Room::Free, "{n}");
        }
        for n in 400..800 {
            assert_eq!(begins(n, Begun::Ikev2), Room::Free, "{n}");
        }
        assert_eq!(begins(800, Begun::Ikev2), Room::None);
        assert_eq!(begins(800, Begun::MainMode), Room::Free);
    }
}
