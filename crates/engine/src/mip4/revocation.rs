//! Revocation: an agent ends a registration before its lifetime does, and tells the other end of
//! the tunnel (RFC 3543). What both agents and a co-located mobile node share.
//!
//! Both ends agree on it in a registration. Their clocks need not agree: a revocation is compared
//! only with what the same sender has said in the registration.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use wire::codec::Writer;
use wire::mip4::{Authentication, Extension, Located, Revocation, RevocationAcknowledgment};

use super::association::{Association, Associations};
use super::identification::Clock;
use crate::time::{Duration, Instant};

/// Revocations that wait for their acknowledgment, in all. The oldest gives way.
pub const WAITING_MAX: usize = 1_024;
/// How often a revocation is sent, about two minutes apart from the first to the last.
const TRIES_MAX: usize = 8;
/// The shortest time between two messages about one binding (RFC 3543 §3.3).
const INTERVAL_MIN: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(64);
/// How long a repeated revocation is acknowledged again: longer than anybody repeats it.
const PAST_SPAN: Duration = Duration::from_secs(300);

/// How an agent takes part in revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// I: the home agent decides whether the mobile node is told. A foreign agent offers this, a
    /// home agent accepts it (RFC 3543 §3.2).
    pub has_inform: bool,
    /// Whether the mobile node is told, where we decide it.
    pub informs: bool,
}

/// Why a revocation or an acknowledgment changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its A bit is that of our own messages.
    Reflected,
    /// Its addresses are not those of the binding's ends, or it came to another address.
    WrongAddress,
    /// We share no association with its sender.
    NoAssociation,
    /// Its authenticator is missing or wrong.
    NotAuthenticated,
    /// There is no such binding, or revocation was not agreed on for it.
    NoBinding,
    /// It is not newer than the binding, or than an earlier revocation.
    Stale,
    /// An acknowledgment of nothing that we sent.
    Unexpected,
}

/// What both ends of a binding have agreed on in its last registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Whether the home agent decides about informing the mobile node.
    pub(super) has_inform: bool,
    /// The peer's clock in that registration.
    pub(super) timestamp: u32,
    /// When we sent our part of it.
    pub(super) said: Instant,
}

impl Agreement {
    /// Whether a revocation of the peer is of this registration, not of an older one (RFC 3543
    /// §4.2.2.2).
    pub(super) fn precedes(&self, identifier: u32) -> Result<(), Fault> {
        match is_after(identifier, self.timestamp) {
            true => Ok(()),
            false => Err(Fault::Stale),
        }
    }
}

/// Seconds of our clock, for revocations and registrations.
pub(super) fn timestamp(clock: Clock, now: Instant) -> u32 {
    (clock.ntp(now) >> 32) as u32
}

/// Timestamps wrap around, in 2036 for the first time.
fn is_after(one: u32, other: u32) -> bool {
    let ahead = one.wrapping_sub(other);
    ahead != 0 && ahead < 1 << 31
}

/// The Revocation Support extension of a list of extensions: whether it supports the I bit, and its
/// timestamp.
pub(super) fn support<'a>(list: impl IntoIterator<Item = &'a Located>) -> Option<(bool, u32)> {
    list.into_iter().find_map(|one| match one.extension {
        Extension::RevocationSupport { informs, timestamp } => Some((informs, timestamp)),
        _ => None,
    })
}

/// Whether the one authenticator of `datagram` between these two is right (RFC 3543 §3.3).
pub(super) fn authenticate(
    datagram: &[u8],
    list: &[Located],
    between: Authentication,
    associations: &Associations,
) -> Result<(), Fault> {
    let mut own = list.iter().filter(|it| it.between() == Some(between));
    match (own.next(), own.next()) {
        (Some(one), None) if associations.proven(datagram, one).is_some() => Ok(()),
        _ => Err(Fault::NotAuthenticated),
    }
}

/// The acknowledgment of a revocation.
pub(super) fn acknowledgment(
    revocation: &Revocation,
    informs: bool,
    between: Authentication,
    association: &Association,
) -> Vec<u8> {
    let mut w = Writer::new();
    RevocationAcknowledgment {
        informs: informs && revocation.informs,
        home_address: revocation.home_address,
        identifier: revocation.identifier,
    }
    .write(&mut w);
    association.sign(between, &mut w);
    w.into_vec()
}

/// A revocation that was accepted. Its sender repeats it, with a new identifier, until it hears our
/// acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    /// The other end of the tunnel.
    pub(super) peer: Ipv4Addr,
    /// What the acknowledgment says about informing the mobile node.
    pub(super) informs: bool,
    identifier: u32,
    pub(super) end: Instant,
}

impl Past {
    pub(super) fn new(peer: Ipv4Addr, informs: bool, identifier: u32, now: Instant) -> Self {
        let end = now + PAST_SPAN;
        Self {
            peer,
            informs,
            identifier,
            end,
        }
    }

    /// Whether a revocation from `peer` repeats this one. A replay has an identifier that is not
    /// newer.
    pub(super) fn repeats(
        &mut self,
        peer: Ipv4Addr,
        identifier: u32,
        now: Instant,
    ) -> Result<bool, Fault> {
        if self.peer != peer || self.end <= now {
            return Err(Fault::NoBinding);
        }
        if !is_after(identifier, self.identifier) {
            return Err(Fault::Stale);
        }
        self.identifier = identifier;
        Ok(self.informs)
    }
}

/// A binding that we revoke: the home address, and the peer's end of its tunnel.
pub(super) type Key = (Ipv4Addr, Ipv4Addr);

/// A revocation that waits for its acknowledgment.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Its identifier is written anew each time.
    pub(super) revocation: Revocation,
    /// Where it goes.
    pub(super) to: SocketAddrV4,
    /// Behind which firewall that is.
    pub(super) firewall: Option<Ipv4Addr>,
    /// Between whom it is authenticated.
    pub(super) between: Authentication,
    identifiers: Vec<u32>,
    interval: Duration,
    due: Instant,
    /// Of the binding.
    end: Option<Instant>,
}

impl Waiting {
    /// A revocation of a binding that lasts to `end`. Its first message is due a second after the
    /// last message about it.
    pub(super) fn new(
        revocation: Revocation,
        to: SocketAddrV4,
        last: Instant,
        end: Option<Instant>,
    ) -> Self {
        Self {
            revocation,
            to,
            firewall: None,
            between: Authentication::ForeignHome,
            identifiers: Vec::new(),
            interval: INTERVAL_MIN,
            due: last + INTERVAL_MIN,
            end,
        }
    }

    /// The message, not yet authenticated, at this time of our clock.
    pub(super) fn message(&mut self, timestamp: u32, now: Instant) -> Writer {
        self.identifiers.push(timestamp);
        self.revocation.identifier = timestamp;
        self.due = now + self.interval;
        self.interval = (self.interval * 2).min(INTERVAL_MAX);
        let mut w = Writer::new();
        self.revocation.write(&mut w);
        w
    }

    /// Whether it is sent no more: never after the binding's own end (RFC 3543 §4.2.2.1).
    fn is_over(&self, now: Instant) -> bool {
        let is_tired = self.identifiers.len() == TRIES_MAX && self.due <= now;
        is_tired || self.end.is_some_and(|end| end <= now)
    }
}

/// All revocations that wait.
#[derive(Debug, Default)]
pub(super) struct Outbox(BTreeMap<Key, Waiting>);

impl Outbox {
    /// Adds one. Returns the one that gave way.
    #[must_use]
    pub(super) fn add(&mut self, key: Key, waiting: Waiting) -> Option<Key> {
        let is_full = self.0.len() >= WAITING_MAX && !self.0.contains_key(&key);
        let oldest = || {
            let tries = |it: &Waiting| it.identifiers.len();
            let most = self.0.iter().max_by_key(|(_, it)| tries(it));
            most.map(|(key, _)| *key)
        };
        let lost = is_full.then(oldest).flatten();
        if let Some(lost) = &lost {
            self.0.remove(lost);
        }
        self.0.insert(key, waiting);
        lost
    }

    /// It was acknowledged, or the binding exists again.
    pub(super) fn cancel(&mut self, key: Key) {
        self.0.remove(&key);
    }

    /// Removes those that are sent no more.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Key> {
        let over = self.0.iter().filter(|(_, it)| it.is_over(now));
        let over: Vec<Key> = over.map(|(key, _)| *key).collect();
        over.iter().for_each(|key| drop(self.0.remove(key)));
        over
    }

    /// Those that must be sent.
    pub(super) fn due(&mut self, now: Instant) -> impl Iterator<Item = (Key, &mut Waiting)> {
        let due = move |(_, it): &(&Key, &mut Waiting)| it.due <= now;
        self.0.iter_mut().filter(due).map(|(key, it)| (*key, it))
    }

    /// When the next one must be sent, or ends.
    pub(super) fn next(&self) -> Option<Instant> {
        let at = |it: &Waiting| it.end.map_or(it.due, |end| end.min(it.due));
        self.0.values().map(at).min()
    }

    /// The revocation that an acknowledgment from this address answers.
    pub(super) fn answered(
        &self,
        it: &RevocationAcknowledgment,
        from: Ipv4Addr,
    ) -> Result<(Key, &Waiting), Fault> {
        let home = it.home_address;
        let of_home = self
            .0
            .range((home, Ipv4Addr::UNSPECIFIED)..=(home, Ipv4Addr::BROADCAST));
        let mut answered = of_home.filter(|(_, waiting)| {
            *waiting.to.ip() == from && waiting.identifiers.contains(&it.identifier)
        });
        let found = answered.next().map(|(key, waiting)| (*key, waiting));
        found.ok_or(Fault::Unexpected)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_wrap_around() {
        assert!(is_after(6, 5) && !is_after(5, 5) && !is_after(5, 6));
        assert!(is_after(3, u32::MAX - 3) && !is_after(u32::MAX - 3, 3));
    }

    #[test]
    fn a_past_revocation_is_acknowledged_again_but_not_its_replay() {
        let peer = Ipv4Addr::new(203, 0, 113, 2);
        let mut past = Past::new(peer, true, 100, Instant(0));
        let now = Instant(0) + Duration::from_secs(5);
        assert_eq!(past.repeats(peer, 101, now), Ok(true));
        assert_eq!(past.repeats(peer, 101, now), Err(Fault::Stale));
        assert_eq!(past.repeats(peer, 100, now), Err(Fault::Stale));
        let other = Ipv4Addr::new(203, 0, 113, 3);
        assert_eq!(past.repeats(other, 102, now), Err(Fault::NoBinding));
        let late = now + PAST_SPAN;
        assert_eq!(past.repeats(peer, 102, late), Err(Fault::NoBinding));
    }

    #[test]
    fn revocations_that_wait_are_bounded() {
        let mut outbox = Outbox::default();
        let revocation = Revocation {
            is_from_home_agent: true,
            informs: false,
            home_address: Ipv4Addr::UNSPECIFIED,
            home_domain: Ipv4Addr::UNSPECIFIED,
            foreign_domain: Ipv4Addr::UNSPECIFIED,
            identifier: 0,
        };
        let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 434);
        let mut lost = 0;
        for number in 0..2 * WAITING_MAX as u32 {
            let key = (Ipv4Addr::from_bits(number), Ipv4Addr::LOCALHOST);
            let waiting = Waiting::new(revocation, to, Instant(0), None);
            lost += usize::from(outbox.add(key, waiting).is_some());
        }
        assert_eq!((outbox.len(), lost), (WAITING_MAX, WAITING_MAX));
    }
}
