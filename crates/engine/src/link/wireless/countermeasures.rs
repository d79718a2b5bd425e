//! Countermeasures of TKIP (IEEE 802.11-2020 §12.5.2.4): two wrong MICs within 60 s stop TKIP for
//! 60 s. Michael is weak, so an attacker must not try often.

use crate::time::{Duration, Instant};

/// Within this time a second wrong MIC starts countermeasures, and so long they last.
pub const COUNTERMEASURES: Duration = Duration::from_secs(60);

/// The wrong MICs that one end has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MicFailures {
    last: Option<Instant>,
    until: Option<Instant>,
}

impl MicFailures {
    /// A frame with a right ICV and a wrong MIC came. True if countermeasures start: the owner
    /// removes all keys of TKIP and deauthenticates its stations.
    pub fn note(&mut self, now: Instant) -> bool {
        let is_second = self
            .last
            .is_some_and(|last| now.since(last) <= COUNTERMEASURES);
        self.last = match is_second {
            true => None,
            false => Some(now),
        };
        if is_second {
            self.until = Some(now + COUNTERMEASURES);
        }
        is_second
    }

    /// Whether TKIP is stopped.
    pub fn are_active(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// When the last countermeasures end.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}
