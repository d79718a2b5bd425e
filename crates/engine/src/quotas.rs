//! What one peer may cost, although it has proven who it is: exchanges with public key operations,
//! and lines of the log.
//!
//! Each is a bucket of its own for each identity, which fills up again with time. A pre-shared key
//! that is for many (`id = "*"`) proves no identity: its holders have buckets in common as well,
//! and there are so many of them at once and no more.
//!
//! What is refused is not answered. An honest peer sends it again, and is served when its bucket
//! has filled up.

use std::collections::BTreeMap;

use crate::counters::DropReason;
use crate::identity::Peer;
use crate::time::{Duration, Instant};

/// Key exchanges of phase 1. Lifetimes are 60 s at least, sixteen devices may share an identity,
/// and each change of network may take a new one.
const EXCHANGES: Rate = Rate::new(60, Duration::from_secs(3));
/// Children, new or renewed: all 64 of a peer four times over.
const CHILDREN: Rate = Rate::new(256, Duration::from_millis(250));
/// Lines of the log: 64 children that come up, end and come up again.
const LINES: Rate = Rate::new(200, Duration::from_secs(1));
/// Of all holders of one key: they may all come at once, after a restart of ours.
const GROUP_EXCHANGES: Duration = Duration::from_millis(100);
const GROUP_CHILDREN: Duration = Duration::from_millis(10);
const GROUP_LINES: Rate = Rate::new(1_000, Duration::from_millis(100));
/// Children that each holder of a key may have at once when all come.
const GROUP_CHILDREN_EACH: u32 = 4;
/// Peers whose buckets are not full that are kept; the one that owes least makes room.
const WATCHED_MAX: usize = 4_096;
/// Between two times that the log says that a peer is refused.
const TELL_INTERVAL: Duration = Duration::from_secs(60);

/// So many at once, and one more each `every` after that.
#[derive(Clone, Copy)]
struct Rate {
    burst: u32,
    every: Duration,
}

impl Rate {
    const fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every }
    }
}

/// What has been taken, as the moment when it is made up for.
#[derive(Clone, Copy, Default)]
struct Bucket(Instant);

impl Bucket {
    fn has(self, rate: Rate, now: Instant) -> bool {
        self.0.since(now) + rate.every <= rate.every * rate.burst
    }

    fn take(&mut self, rate: Rate, now: Instant) {
        self.0 = self.0.max(now) + rate.every;
    }
}

/// What is limited.
#[derive(Clone, Copy)]
enum What {
    Exchange,
    Child,
    Line,
}

/// Whose bucket is empty, and what fills it.
enum Empty {
    /// The peer's own.
    Own(Rate),
    /// That of all holders of its key.
    Group(Rate),
}

/// The buckets of a peer, or of all holders of one key.
#[derive(Default)]
struct Spent {
    buckets: [Bucket; 3],
    /// When the log said that it is refused.
    told: Option<Instant>,
    /// Lines that were left out since this was asked last.
    left_out: u64,
}

impl Spent {
    fn of(&mut self, what: What) -> &mut Bucket {
        &mut self.buckets[what as usize]
    }

    /// When all is made up for, and nothing is left to say.
    fn until(&self) -> Instant {
        let [a, b, c] = self.buckets.map(|bucket| bucket.0);
        let told = self.told.map_or(Instant(0), |told| told + TELL_INTERVAL);
        let unsaid = (self.left_out > 0).then_some(Instant(u64::MAX));
        a.max(b).max(c).max(told).max(unsaid.unwrap_or_default())
    }
}

/// Those who have one key.
#[derive(Default)]
struct Group {
    spent: Spent,
    /// Who is here, with how many sessions.
    members: BTreeMap<Peer, usize>,
}

/// The account of every peer, as far as it is not full.
#[derive(Default)]
pub struct Quotas {
    by_peer: BTreeMap<Peer, Spent>,
    /// By connection: those of its key for many.
    groups: BTreeMap<String, Group>,
    /// The last refusal that nobody has asked for.
    refused: Option<(Peer, String)>,
}

impl Quotas {
    /// Whether a peer may have one more ISAKMP SA: then it is charged for it. `members_max`: how
    /// many may be here at once with one key.
    pub fn take_exchange(
        &mut self,
        peer: &Peer,
        members_max: usize,
        now: Instant,
    ) -> Result<(), DropReason> {
        if let Some(group) = self.group(peer)
            && !group.members.contains_key(peer)
            && group.members.len() >= members_max
        {
            let text = format!(
                "{peer} gets no answer: {members_max} peers with the same pre-shared key are \
                 connected (max_peers), and it must wait until one leaves"
            );
            self.refuse(peer, text, now);
            return Err(DropReason::TooManySessions);
        }
        let burst = u32::try_from(members_max).unwrap_or(u32::MAX);
        let group = Rate::new(burst.max(EXCHANGES.burst), GROUP_EXCHANGES);
        self.take(peer, What::Exchange, (EXCHANGES, group), now)
    }

    /// Whether a peer may negotiate one more child: then it is charged for it.
    pub fn take_child(
        &mut self,
        peer: &Peer,
        members_max: usize,
        now: Instant,
    ) -> Result<(), DropReason> {
        let members = u32::try_from(members_max).unwrap_or(u32::MAX);
        let burst = members.saturating_mul(GROUP_CHILDREN_EACH);
        let group = Rate::new(burst.max(CHILDREN.burst), GROUP_CHILDREN);
        self.take(peer, What::Child, (CHILDREN, group), now)
    }

    /// Whether one more line of the log may be written on a peer's account; else it is counted.
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

    /// Lines that were left out since this was asked last, and of whom.
    pub fn left_out(&mut self) -> Vec<(String, u64)> {
        let peers = self.by_peer.iter_mut();
        let peers = peers.map(|(peer, spent)| (format!("{peer:?}"), spent));
        let groups = self.groups.iter_mut();
        let groups = groups.map(|(name, group)| {
            let holders = format!("the holders of the pre-shared key of {name}");
            (holders, &mut group.spent)
        });
        let all = peers.chain(groups);
        let counted = all.map(|(name, spent)| (name, core::mem::take(&mut spent.left_out)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// A session of this peer's stands.
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

    /// What was refused, where the log has not said so lately.
    pub fn take_refused(&mut self) -> Option<(Peer, String)> {
        self.refused.take()
    }

    fn take(
        &mut self,
        peer: &Peer,
        what: What,
        rates: (Rate, Rate),
        now: Instant,
    ) -> Result<(), DropReason> {
        let Err(empty) = self.charge(peer, what, rates, now) else {
            return Ok(());
        };
        let named = match what {
            What::Exchange => "key exchanges",
            What::Child => "children",
            What::Line => "log lines",
        };
        let (who, Rate { burst, every }) = match empty {
            Empty::Own(rate) => (format!("{peer} is over its"), rate),
            Empty::Group(rate) => {
                let who = format!("{peer} and the others with its pre-shared key are over their");
                (who, rate)
            }
        };
        let every = every.as_secs_f64();
        let text = format!(
            "{who} quota of {burst} {named} at once, then one every {every} s: requests above it \
             get no answer"
        );
        self.refuse(peer, text, now);
        Err(DropReason::OverQuota)
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

    fn refuse(&mut self, peer: &Peer, text: String, now: Instant) {
        let spent = match self.group(peer) {
            Some(group) => &mut group.spent,
            None => self.spent(peer, now),
        };
        let is_told = |told: Instant| now.since(told) < TELL_INTERVAL;
        if !spent.told.is_some_and(is_told) {
            spent.told = Some(now);
            self.refused = Some((peer.clone(), text));
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

    /// How many peers it keeps an account of.
    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.by_peer.len()
    }
}

#[cfg(test)]
mod tests;
