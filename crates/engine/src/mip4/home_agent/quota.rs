//! How many replies there are to requests that anybody can send: forged ones, and copies.

use crate::time::{Duration, Instant};

/// Replies of each kind that a node gets within [`SPAN`]. A node that has lost its time or its
/// nonces needs one of them, and repeats its request after a second or more (RFC 5944 §3.6.3).
const REPLIES_MAX: u32 = 4;
const SPAN: Duration = Duration::from_secs(1);
/// Nobody repeats a request sooner, but who copies it.
const REPEAT_MIN: Duration = Duration::from_millis(500);

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// Its authenticator is wrong: anybody can write it.
    Unproven,
    /// It is its node's, but not new: anybody who has heard it can send it again.
    Stale,
    /// It is its node's, and was never heard before.
    Fresh,
}

/// The replies of a node. Its forged requests and its copied ones are counted apart, and the new
/// ones not at all: whoever floods with either does not silence the others.
#[derive(Default)]
pub(super) struct Quota {
    unproven: Spent,
    stale: Spent,
    /// The last stale request that was replied to.
    repeated: Option<(u64, Instant)>,
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
            Freshness::Stale => {
                let is_again = self.repeated.is_some_and(|(last, sent)| {
                    last == identification && now.since(sent) < REPEAT_MIN
                });
                let is_sent = !is_again && self.stale.spend(now);
                if is_sent {
                    self.repeated = Some((identification, now));
                }
                is_sent
            }
        }
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
