//! How many replies there are to requests that others than their node can send: forged ones, and
//! copies.

use std::collections::VecDeque;

use crate::time::{Duration, Instant};

/// Replies of each kind that a node gets within [`SPAN`]. A node that has lost its time or its
/// nonces needs one, and asks again after a second or more (RFC 5944 §3.6.3).
const REPLIES_MAX: u32 = 4;
const SPAN: Duration = Duration::from_secs(1);
/// Stale requests that are remembered of each node, to tell a new one from copies.
const REMEMBERED: usize = 64;

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Its authenticator is wrong: anybody can write it.
    Unproven,
    /// Its node has written it, but it leaves no trace in our record, so whoever has heard it can
    /// send it again.
    Stale,
    /// Its node has written it, and it is served once.
    Fresh,
}

/// The replies of a node. Each kind is counted apart, so a flood of one silences no other.
#[derive(Default)]
pub(super) struct Quota {
    unproven: Spent,
    /// Stale requests that were not heard before. Nobody but the node can write one.
    first: Spent,
    /// Those heard before.
    again: Spent,
    /// Their identifications, the last one at the end.
    heard: VecDeque<u64>,
    /// The highest of them.
    highest: Option<u64>,
}

/// Replies since a moment.
#[derive(Default)]
struct Spent {
    since: Option<Instant>,
    replies: u32,
}

impl Quota {
    /// Whether a request with this identification gets a reply, which is then counted.
    pub(super) fn spend(
        &mut self,
        freshness: Freshness,
        identification: u64,
        now: Instant,
    ) -> bool {
        match freshness {
            Freshness::Fresh => true,
            Freshness::Unproven => self.unproven.spend(now),
            Freshness::Stale => self.spend_stale(identification, now),
        }
    }

    fn spend_stale(&mut self, identification: u64, now: Instant) -> bool {
        if self.heard.contains(&identification) {
            return self.again.spend(now);
        }
        if self.heard.len() == REMEMBERED {
            self.heard.pop_front();
        }
        self.heard.push_back(identification);
        // Timestamps grow: this one was not copied from anywhere, however many copies there are.
        let is_highest = self.highest.is_none_or(|it| identification > it);
        if is_highest {
            self.highest = Some(identification);
        }
        is_highest || self.first.spend(now)
    }
}

impl Spent {
    fn spend(&mut self, now: Instant) -> bool {
        if self.since.is_none_or(|since| now.since(since) >= SPAN) {
            (self.since, self.replies) = (Some(now), 0);
        }
        let is_left = self.replies < REPLIES_MAX;
        self.replies += u32::from(is_left);
        is_left
    }
}
