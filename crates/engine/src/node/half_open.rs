//! Half-open exchanges of a responder, by age: what strangers can make us hold, and who makes room
//! for whom.
//!
//! An exchange is *unproven* while its initiator has sent one message only, from an address that
//! may be forged (RFC 2408 §2.5.3 is about that), and *proven* from main mode's third message on.
//! At a bound the oldest unproven one makes room for a new one, once it has had time for an answer
//! to come back; so a flood from forged addresses shortens the life of what nobody answers and
//! keeps nobody out. Proven ones never make room, and have bounds of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::session::SessionId;
use crate::config::Limits;
use crate::time::{Duration, Instant};

/// An unproven exchange is held at least so long: a round trip of a slow link. Many honest stations
/// that come at once behind one address so wait for each other.
pub(super) const ANSWER_TIME: Duration = Duration::from_millis(400);

/// The place of one exchange, kept by its session.
#[derive(Clone, Copy)]
pub(super) struct Place {
    address: IpAddr,
    since: Instant,
    is_proven: bool,
}

/// Of one address.
#[derive(Clone, Copy, Default)]
struct Counts {
    unproven: usize,
    proven: usize,
}

/// All half-open exchanges of a node.
#[derive(Default)]
pub(super) struct HalfOpen {
    by_age: BTreeSet<(Instant, SessionId)>,
    by_address: BTreeSet<(IpAddr, Instant, SessionId)>,
    counts: BTreeMap<IpAddr, Counts>,
    proven: usize,
}

/// What a new exchange needs.
pub(super) enum Room {
    /// There is room.
    Free,
    /// If this one makes room.
    Of(SessionId),
    /// There is none.
    None,
}

impl HalfOpen {
    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.by_age.len() + self.proven
    }

    /// Whether a first message from this address may begin an exchange of main mode.
    pub(super) fn room(&self, address: IpAddr, limits: &Limits, now: Instant) -> Room {
        let oldest = if self.of(address).unproven >= limits.half_open_per_address {
            let first = (address, Instant(0), SessionId(0));
            let mut rest = self.by_address.range(first..);
            rest.next()
                .filter(|(of, ..)| *of == address)
                .map(|(_, since, id)| (*since, *id))
        } else if self.total() >= limits.half_open_total {
            self.by_age.first().copied()
        } else {
            return Room::Free;
        };
        match oldest {
            Some((since, id)) if now.since(since) >= ANSWER_TIME => Room::Of(id),
            _ => Room::None,
        }
    }

    /// Whether a first message of aggressive mode may begin one: it costs a public key operation,
    /// so nothing makes room for it.
    pub(super) fn has_room_for_aggressive(&self, address: IpAddr, limits: &Limits) -> bool {
        self.total() < limits.half_open.min(limits.half_open_total)
            && self.of(address).unproven < limits.half_open_per_address
    }

    /// Whether one more exchange of this place may be proven. Half of all stays for new ones.
    pub(super) fn may_prove(&self, place: Place, limits: &Limits) -> bool {
        self.of(place.address).proven < limits.half_open_per_address
            && self.proven < limits.half_open_total.div_ceil(2)
    }

    /// A first message has begun an exchange.
    pub(super) fn begin(&mut self, id: SessionId, address: IpAddr, since: Instant) -> Place {
        self.by_age.insert((since, id));
        self.by_address.insert((address, since, id));
        self.counts.entry(address).or_default().unproven += 1;
        Place {
            address,
            since,
            is_proven: false,
        }
    }

    /// Its initiator reads what is sent to its address.
    pub(super) fn prove(&mut self, id: SessionId, place: &mut Place) {
        if place.is_proven {
            return;
        }
        self.end(id, *place);
        place.is_proven = true;
        self.proven += 1;
        self.counts.entry(place.address).or_default().proven += 1;
    }

    /// It is established, or over.
    pub(super) fn end(&mut self, id: SessionId, place: Place) {
        let counts = self.counts.entry(place.address).or_default();
        if place.is_proven {
            self.proven -= 1;
            counts.proven -= 1;
        } else {
            self.by_age.remove(&(place.since, id));
            self.by_address.remove(&(place.address, place.since, id));
            counts.unproven -= 1;
        }
        if counts.unproven + counts.proven == 0 {
            self.counts.remove(&place.address);
        }
    }

    fn of(&self, address: IpAddr) -> Counts {
        self.counts.get(&address).copied().unwrap_or_default()
    }
}

impl Place {
    /// Whether its initiator's address is proven.
    pub(super) fn is_proven(self) -> bool {
        self.is_proven
    }
}
