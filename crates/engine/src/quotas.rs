//! Quotas of authenticated peers: exchanges with public key operations, and lines of the log; and
//! of users: proofs of their passwords, whoever tries them. Where wrong passwords come from has a
//! quota too. Names of nobody have the same quota as users, so that a stranger cannot tell them
//! apart by it.
//!
//! Each identity has a bucket for each, which refills with time. A shared pre-shared key (`id =
//! "*"`) proves no identity, and a server of RADIUS may repeat any: such peers of one connection
//! are a group that also shares common buckets, and their number is limited.
//!
//! A refused request gets no answer. An honest peer repeats it, and is served when its bucket has
//! refilled.

mod guesses;

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::counters::DropReason;
use crate::identity::Peer;
use crate::rate::{Bucket, Rate};
use crate::time::{Duration, Instant};

use guesses::{Full, Guesses};

/// Key exchanges of phase 1. Lifetimes are at least 60 s, sixteen devices may share an identity,
/// and each change of network may take a new exchange.
const EXCHANGES: Rate = Rate::new(60, Duration::from_secs(3));
/// Children, new or renewed: four times all 64 of a peer.
const CHILDREN: Rate = Rate::new(256, Duration::from_millis(250));
/// Lines of the log: 64 children that come up, end and come up again.
const LINES: Rate = Rate::new(200, Duration::from_secs(1));
/// Proofs of a user's password, right or wrong: sixteen devices may come back at once, and who
/// guesses gets 8,640 a day.
const PASSWORDS: Rate = Rate::new(20, Duration::from_secs(10));
/// For a whole group: they may all connect at once, after our restart.
const GROUP_EXCHANGES: Duration = Duration::from_millis(100);
const GROUP_CHILDREN: Duration = Duration::from_millis(10);
const GROUP_LINES: Rate = Rate::new(1_000, Duration::from_millis(100));
/// Children that each holder of a key may have if all connect at once.
const GROUP_CHILDREN_EACH: u32 = 4;
/// Peers with incomplete buckets that are kept. Beyond that, the one with the fullest bucket is
/// dropped.
const WATCHED_MAX: usize = 4_096;
/// Time between two log lines about a refused peer.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// When something was last logged.
#[derive(Clone, Copy, Default)]
struct Told(Option<Instant>);

impl Told {
    /// Whether it is to be logged again, and then it is.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.0.is_none_or(|told| now.since(told) >= TELL_INTERVAL);
        if is_due {
            self.0 = Some(now);
        }
        is_due
    }
}

/// A request above a quota. It gets no answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Excess {
    /// The reason to count.
    pub reason: DropReason,
    /// What the log says about it. `None`: it has had a line about this peer lately.
    pub line: Option<String>,
}

/// The limited resource.
#[derive(Clone, Copy)]
enum What {
    Exchange,
    Child,
    Line,
    Password,
}

/// Which bucket is empty, and its rate.
enum Empty {
    /// The peer's own.
    Own(Rate),
    /// That of its group.
    Group(Rate),
}

/// The buckets of a peer, or of a group.
#[derive(Default)]
struct Spent {
    buckets: [Bucket; 4],
    /// When its refusal was last logged.
    told: Told,
    /// Lines left out since the last call.
    left_out: u64,
}

impl Spent {
    fn of(&mut self, what: What) -> &mut Bucket {
        &mut self.buckets[what as usize]
    }

    /// When all buckets are full, and no line is left to report.
    fn until(&self) -> Instant {
        let buckets = self.buckets.iter().map(|bucket| bucket.full_at());
        let refilled = buckets.max().unwrap_or_default();
        let told = self.told.0.map_or(Instant(0), |told| told + TELL_INTERVAL);
        let unsaid = (self.left_out > 0).then_some(Instant(u64::MAX));
        refilled.max(told).max(unsaid.unwrap_or_default())
    }
}

/// Peers of one connection who could be one.
#[derive(Default)]
struct Group {
    spent: Spent,
    /// The connected peers, with their numbers of sessions.
    members: BTreeMap<Peer, usize>,
}

/// The quotas of every peer whose buckets are not full.
#[derive(Default)]
pub struct Quotas {
    by_peer: BTreeMap<Peer, Spent>,
    guesses: Guesses,
    /// By connection.
    groups: BTreeMap<String, Group>,
}

impl Quotas {
    /// Whether a peer may have one more IKE SA; if so, charges it. `members_max`: how many peers of
    /// one group may be connected at the same time.
    pub fn take_exchange(
        &mut self,
        peer: &Peer,
        members_max: usize,
        now: Instant,
    ) -> Result<(), Excess> {
        if let Some(group) = self.group(peer)
            && !group.members.contains_key(peer)
            && group.members.len() >= members_max
        {
            let text = format!(
                "{peer} gets no answer: {members_max} peers with the same pre-shared key or RADIUS \
                 server are connected (max_peers), and it must wait until one leaves"
            );
            return Err(self.refuse(peer, DropReason::TooManySessions, text, now));
        }
        let burst = u32::try_from(members_max).unwrap_or(u32::MAX);
        let group = Rate::new(burst.max(EXCHANGES.burst), GROUP_EXCHANGES);
        self.take(peer, What::Exchange, (EXCHANGES, group), now)
    }

    /// Whether a peer may negotiate one more child; if so, charges it.
    pub fn take_child(
        &mut self,
        peer: &Peer,
        members_max: usize,
        now: Instant,
    ) -> Result<(), Excess> {
        let members = u32::try_from(members_max).unwrap_or(u32::MAX);
        let burst = members.saturating_mul(GROUP_CHILDREN_EACH);
        let group = Rate::new(burst.max(CHILDREN.burst), GROUP_CHILDREN);
        self.take(peer, What::Child, (CHILDREN, group), now)
    }

    /// Whether a password of this user may be tried once more from this address; if so, charges the
    /// user. Nobody has proven to be the user yet, and there may be no such user.
    pub fn take_password(&mut self, user: &Peer, from: IpAddr, now: Instant) -> Result<(), Excess> {
        let room = self.guesses.room_for(user, from, now);
        room.map_err(|full| slowed(full, from, Some(user)))?;
        self.take(user, What::Password, (PASSWORDS, PASSWORDS), now)
    }

    /// Whether a user may be tried from this address, after the wrong passwords that came from
    /// there.
    pub fn may_try(&mut self, from: IpAddr, now: Instant) -> Result<(), Excess> {
        let room = self.guesses.room(from, now);
        room.map_err(|full| slowed(full, from, None))
    }

    /// A user whom a server refuses came from this address.
    pub fn was_wrong(&mut self, from: IpAddr, now: Instant) {
        self.guesses.count(from, now);
    }

    /// A wrong password of this user came from this address.
    pub fn password_was_wrong(&mut self, user: &Peer, from: IpAddr, now: Instant) {
        self.guesses.count_for(user, from, now);
    }

    /// Whether one more line of the log may be about a peer; otherwise counts it.
    pub fn take_line(&mut self, peer: &Peer, now: Instant) -> bool {
        let charged = self.charge(peer, What::Line, (LINES, GROUP_LINES), now);
        if charged.is_err() {
            let spent = match self.group(peer) {
                Some(group) => &mut group.spent,
                None => self.spent(peer, now),
            };
            spent.left_out += 1;
        }
        charged.is_ok()
    }

    /// Lines left out since the last call, and about which peers.
    pub fn left_out(&mut self) -> Vec<(String, u64)> {
        let peers = self.by_peer.iter_mut();
        let peers = peers.map(|(peer, spent)| (format!("{peer:?}"), spent));
        let groups = self.groups.iter_mut();
        let groups = groups.map(|(name, group)| {
            let holders = format!("the peers of {name} that share quotas");
            (holders, &mut group.spent)
        });
        let all = peers.chain(groups);
        let counted = all.map(|(name, spent)| (name, core::mem::take(&mut spent.left_out)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// A session of this peer is established.
    pub fn enter(&mut self, peer: &Peer) {
        if let Some(group) = self.group(peer) {
            *group.members.entry(peer.clone()).or_default() += 1;
        }
    }

    /// A session of this peer's has ended.
    pub fn leave(&mut self, peer: &Peer) {
        let Some(group) = self.group(peer) else {
            return;
        };
        if let Some(count) = group.members.get_mut(peer) {
            *count -= 1;
            if *count == 0 {
                group.members.remove(peer);
            }
        }
    }

    fn take(
        &mut self,
        peer: &Peer,
        what: What,
        rates: (Rate, Rate),
        now: Instant,
    ) -> Result<(), Excess> {
        let Err(empty) = self.charge(peer, what, rates, now) else {
            return Ok(());
        };
        let named = match what {
            What::Exchange => "key exchanges",
            What::Child => "children",
            What::Line => "log lines",
            What::Password => "proofs of a password",
        };
        let (who, Rate { burst, every }) = match empty {
            Empty::Own(rate) => (format!("{peer} is over its"), rate),
            Empty::Group(rate) => {
                let who = format!("{peer} and the others with its key or server are over their");
                (who, rate)
            }
        };
        let every = every.as_secs_f64();
        let text = format!(
            "{who} quota of {burst} {named} at once, then one every {every} s: requests above it \
             get no answer"
        );
        Err(self.refuse(peer, DropReason::OverQuota, text, now))
    }

    fn charge(
        &mut self,
        peer: &Peer,
        what: What,
        (own, of_group): (Rate, Rate),
        now: Instant,
    ) -> Result<(), Empty> {
        let group = self.group(peer);
        if group.is_some_and(|it| !it.spent.of(what).has(of_group, now)) {
            return Err(Empty::Group(of_group));
        }
        let bucket = self.spent(peer, now).of(what);
        if !bucket.has(own, now) {
            return Err(Empty::Own(own));
        }
        bucket.take(own, now);
        if let Some(group) = self.group(peer) {
            group.spent.of(what).take(of_group, now);
        }
        Ok(())
    }

    fn refuse(&mut self, peer: &Peer, reason: DropReason, text: String, now: Instant) -> Excess {
        let spent = match self.group(peer) {
            Some(group) => &mut group.spent,
            None => self.spent(peer, now),
        };
        Excess {
            reason,
            line: spent.told.is_due(now).then_some(text),
        }
    }

    fn group(&mut self, peer: &Peer) -> Option<&mut Group> {
        let name = peer.group()?;
        if !self.groups.contains_key(name) {
            self.groups.insert(name.to_owned(), Group::default());
        }
        self.groups.get_mut(name)
    }

    fn spent(&mut self, peer: &Peer, now: Instant) -> &mut Spent {
        if self.by_peer.len() >= WATCHED_MAX && !self.by_peer.contains_key(peer) {
            self.by_peer.retain(|_, spent| spent.until() > now);
            if self.by_peer.len() >= WATCHED_MAX {
                let least = self.by_peer.iter().min_by_key(|(_, spent)| spent.until());
                if let Some(least) = least.map(|(peer, _)| peer.clone()) {
                    self.by_peer.remove(&least);
                }
            }
        }
        self.by_peer.entry(peer.clone()).or_default()
    }

    /// The number of peers that it keeps.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.by_peer.len()
    }
}

/// A try after too many wrong passwords from this address, of this user if one is named.
fn slowed(full: Full, from: IpAddr, user: Option<&Peer>) -> Excess {
    let (is_due, rate) = match full {
        Full::Site(is_due) => (is_due, guesses::WRONG),
        Full::Network(is_due) => (is_due, guesses::WRONG_FOR_USER),
    };
    let every = rate.every.as_secs();
    let text = || match (full, user) {
        (Full::Network(_), Some(user)) => format!(
            "too many wrong passwords came from the network of {from}: for {user}, one is tried \
             there in {every} s"
        ),
        _ => format!(
            "too many wrong passwords came from {from}: for everybody there, one is tried in \
             {every} s"
        ),
    };
    Excess {
        reason: DropReason::OverQuota,
        line: is_due.then(text),
    }
}

#[cfg(test)]
mod tests;
