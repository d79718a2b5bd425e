//! The registrations that a home agent has refused lately, by node: for the log and for `status`.
//!
//! Anybody can send a request in the name of a node, so the log has a bound, and `status` has one
//! line a node.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use engine::time::{Duration, Instant};

use crate::status::RefusalStatus;

/// Time between two lines of the log about one node.
const PAUSE: Duration = Duration::from_secs(60);
/// Lines of the log within a pause, about all nodes.
const LINES_MAX: u32 = 20;
/// The identification does not match. Once is normal: the node takes our time and asks again.
const WRONG_TIME: &str = "denied-133";

/// The last refusal of each node, and what the log has said.
#[derive(Default)]
pub(super) struct Refusals {
    last: BTreeMap<Ipv4Addr, Last>,
    /// When the log spoke of a node that we do not serve.
    strangers: Option<Instant>,
    /// Lines of the log, and since when they are counted.
    lines: Option<(Instant, u32)>,
}

struct Last {
    from: Ipv4Addr,
    reason: String,
    at: Instant,
    logged: Option<Instant>,
}

impl Refusals {
    /// A request was refused. `home`: the node of ours that it names. Whether the log says so.
    pub(super) fn add(
        &mut self,
        home: Option<Ipv4Addr>,
        (from, reason): (Ipv4Addr, &str),
        now: Instant,
    ) -> bool {
        let is_old = |at: &Option<Instant>| at.is_none_or(|at| now.since(at) >= PAUSE);
        let logged = match home {
            Some(home) => {
                let before = self.last.remove(&home);
                let is_first = before.as_ref().is_none_or(|it| now.since(it.at) >= PAUSE);
                let last = self.last.entry(home).or_insert(Last {
                    from,
                    reason: reason.to_owned(),
                    at: now,
                    logged: before.and_then(|it| it.logged),
                });
                if is_first && reason == WRONG_TIME {
                    return false;
                }
                &mut last.logged
            }
            None => &mut self.strangers,
        };
        let current = self.lines.filter(|(since, _)| now.since(*since) < PAUSE);
        let (since, count) = current.unwrap_or((now, 0));
        if !is_old(logged) || count >= LINES_MAX {
            return false;
        }
        *logged = Some(now);
        self.lines = Some((since, count + 1));
        true
    }

    /// A node was registered.
    pub(super) fn forget(&mut self, home: Ipv4Addr) {
        self.last.remove(&home);
    }

    /// These are our nodes.
    pub(super) fn keep(&mut self, homes: &BTreeSet<Ipv4Addr>) {
        self.last.retain(|home, _| homes.contains(home));
    }

    /// The last refusal of each node since it was registered.
    pub(super) fn status(&self, now: Instant) -> Vec<RefusalStatus> {
        let all = self.last.iter();
        all.map(|(home, last)| RefusalStatus {
            home_address: *home,
            from: last.from,
            reason: last.reason.clone(),
            ago_s: now.since(last.at).as_secs_f64(),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
    const FROM: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
    const WRONG_KEY: &str = "denied-131";

    fn at(seconds: u64) -> Instant {
        Instant(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_is_told_once_a_minute_and_shown_until_it_is_registered() {
        let mut all = Refusals::default();
        let told: Vec<u64> = (0..150)
            .filter(|second| all.add(Some(HOME), (FROM, WRONG_KEY), at(*second)))
            .collect();
        assert_eq!(told, [0, 60, 120]);
        let shown = all.status(at(152));
        assert_eq!(shown.len(), 1);
        assert_eq!((shown[0].home_address, shown[0].from), (HOME, FROM));
        assert_eq!((shown[0].reason.as_str(), shown[0].ago_s), (WRONG_KEY, 3.0));
        all.forget(HOME);
        assert!(all.status(at(152)).is_empty());
    }

    #[test]
    fn a_clock_that_was_put_right_is_not_told() {
        let mut all = Refusals::default();
        assert!(!all.add(Some(HOME), (FROM, WRONG_TIME), at(0)));
        assert!(all.add(Some(HOME), (FROM, WRONG_TIME), at(1)));
        all.forget(HOME);
        assert!(!all.add(Some(HOME), (FROM, WRONG_TIME), at(300)));
    }

    #[test]
    fn whoever_names_many_nodes_fills_no_log() {
        let mut all = Refusals::default();
        let homes = (0..200).map(|last| Ipv4Addr::new(10, 18, 3, last));
        let told = homes.filter(|home| all.add(Some(*home), (FROM, WRONG_KEY), at(0)));
        assert_eq!(told.count(), LINES_MAX as usize);
        assert!(!all.add(None, (FROM, "unknown-node"), at(59)));
        assert!(all.add(None, (FROM, "unknown-node"), at(60)));
        assert!(!all.add(None, (FROM, "unknown-node"), at(61)));
    }
}
