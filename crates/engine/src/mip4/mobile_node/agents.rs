//! Foreign agents that the node hears on its link, and how it looks for them (RFC 5944 §2.4).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crypto::rand::Stream;
use wire::mip4::{AgentAdvertisement, AgentFlags};

use crate::time::{Duration, Instant};

/// Agents that are remembered. Anybody on the link can advertise.
pub(super) const AGENTS_MAX: usize = 16;
/// Sequence numbers below this are sent only after a start (RFC 5944 §2.3.2).
const FIRST_AFTER_WRAP: u16 = 256;
/// The longest lifetime of an advertisement (RFC 1256 §4.1).
const LIFETIME_MAX: Duration = Duration::from_secs(9_000);
/// Solicitations at the highest rate (RFC 5944 §2.4).
const FAST: u32 = 3;
const FAST_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_MAX: Duration = Duration::from_secs(64);
/// The first one waits so long, and at random up to twice as long: less than RFC 1256 §5.3 says. A
/// switch may forward only a moment after the link is up, and the next solicitation is a second
/// away.
const FIRST_DELAY: Duration = Duration::from_millis(2);

/// One foreign agent.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) care_of: Ipv4Addr,
    pub(super) registration_lifetime: u16,
    pub(super) flags: AgentFlags,
    pub(super) challenge: Option<Vec<u8>>,
    sequence: u16,
    heard: Instant,
    silent_at: Instant,
    /// When it was given up last because nothing came back through it.
    doubted: Option<Instant>,
}

/// Those of the link.
#[derive(Debug, Default)]
pub(super) struct Agents(BTreeMap<Ipv4Addr, Agent>);

impl Agents {
    /// An advertisement. Whether a known agent has restarted. Of too many, that in use is kept, and
    /// those that nobody doubts and that were heard last.
    pub(super) fn hear(
        &mut self,
        (from, in_use): (Ipv4Addr, Option<Ipv4Addr>),
        it: &AgentAdvertisement,
        now: Instant,
    ) -> bool {
        let Some(care_of) = it.agent.care_of_addresses.first().copied() else {
            return false;
        };
        let agent = Agent {
            care_of,
            registration_lifetime: it.agent.registration_lifetime,
            flags: it.agent.flags,
            challenge: it.challenge.clone(),
            sequence: it.agent.sequence,
            heard: now,
            silent_at: now + Duration::from_secs(it.lifetime.into()).min(LIFETIME_MAX),
            doubted: self.get(from).and_then(|one| one.doubted),
        };
        if !self.0.contains_key(&from) && self.0.len() == AGENTS_MAX {
            let others = self.0.iter().filter(|(other, _)| Some(**other) != in_use);
            let worst = others
                .min_by_key(|(_, one)| (one.silent_at > now, one.doubted.is_none(), one.heard));
            if let Some(worst) = worst.map(|(address, _)| *address) {
                self.0.remove(&worst);
            }
        }
        let sequence = agent.sequence;
        let before = self.0.insert(from, agent);
        // RFC 3543 §4.1: 0 a second time says that the registration has ended.
        before.is_some_and(|one| {
            sequence == 0 || sequence < one.sequence && sequence < FIRST_AFTER_WRAP
        })
    }

    pub(super) fn get(&self, address: Ipv4Addr) -> Option<&Agent> {
        self.0.get(&address)
    }

    /// An agent gives the challenge for the next request.
    pub(super) fn challenge(&mut self, address: Ipv4Addr, challenge: Vec<u8>) {
        if let Some(agent) = self.0.get_mut(&address) {
            agent.challenge = Some(challenge);
        }
    }

    /// One that takes visitors and whose last advertisement still holds: one that nobody doubts, or
    /// that was given up longest ago. A zero lifetime ends an agent's service (RFC 1256 §4.3).
    pub(super) fn best(&self, now: Instant) -> Option<Ipv4Addr> {
        let serves = |one: &Agent| {
            let flags = one.flags;
            let has_time = one.registration_lifetime > 0;
            flags.has(AgentFlags::FOREIGN_AGENT) && !flags.has(AgentFlags::BUSY) && has_time
        };
        let all = self.0.iter();
        let list = all.filter(|(_, one)| one.silent_at > now && serves(one));
        list.min_by_key(|(_, one)| one.doubted)
            .map(|(address, _)| *address)
    }

    /// Nothing comes back through an agent.
    pub(super) fn doubt(&mut self, address: Ipv4Addr, now: Instant) {
        if let Some(agent) = self.0.get_mut(&address) {
            agent.doubted = Some(now);
        }
    }

    /// Something has come back through it.
    pub(super) fn trust(&mut self, address: Ipv4Addr) {
        if let Some(agent) = self.0.get_mut(&address) {
            agent.doubted = None;
        }
    }

    /// Whether it was given up.
    pub(super) fn is_doubted(&self, address: Ipv4Addr) -> bool {
        self.get(address).is_some_and(|one| one.doubted.is_some())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn forget(&mut self, address: Ipv4Addr) {
        self.0.remove(&address);
    }

    pub(super) fn silent_at(&self, address: Ipv4Addr) -> Option<Instant> {
        self.get(address).map(|one| one.silent_at)
    }

    pub(super) fn is_silent(&self, address: Ipv4Addr, now: Instant) -> bool {
        self.silent_at(address).is_none_or(|at| at <= now)
    }
}

/// When to solicit next: three times a second apart, then later and later.
#[derive(Debug)]
pub(super) struct Solicitations {
    pub(super) due: Instant,
    sent: u32,
}

impl Solicitations {
    pub(super) fn new(now: Instant, random: &mut Stream) -> Self {
        let jitter = FIRST_DELAY * (random.u32() % 256) / 256;
        Self {
            due: now + FIRST_DELAY + jitter,
            sent: 0,
        }
    }

    /// One was sent. Intervals are random within a quarter (RFC 5944 §2.4).
    pub(super) fn sent(&mut self, now: Instant, random: &mut Stream) {
        self.sent = self.sent.saturating_add(1);
        let doublings = self.sent.saturating_sub(FAST).min(6);
        let interval = (FAST_INTERVAL * (1 << doublings)).min(INTERVAL_MAX);
        let jitter = interval / 4 * (random.u32() % 256) / 256;
        self.due = now + interval + jitter;
    }
}
