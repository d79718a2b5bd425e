//! When to advertise, and what (RFC 5944 §2.3, RFC 1256 §4.3; challenges as in RFC 4721 §2).

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use crypto::rand::Stream;
use wire::mip4::{AgentAdvertisement, AgentFlags, Code, MobilityAgent, Router};

use super::Config;
use crate::mip4::pace::Pace;
use crate::mip4::tunnel::{ReverseTunnel, UdpWish};
use crate::sa::Encapsulation;
use crate::time::Instant;

/// Challenges that may be answered (RFC 4721 §9: CHALLENGE_WINDOW).
const CHALLENGE_WINDOW: usize = 2;
/// Octets of a challenge.
const CHALLENGE_LEN: usize = 16;

/// The clock of advertisements, and the challenges in them.
pub(super) struct Advertiser {
    random: Stream,
    pace: Pace,
    challenges: Challenges,
}

/// Challenges that may be answered (RFC 4721 §3.2.1). Only nodes with an association or an AAA key
/// have entries.
#[derive(Default)]
struct Challenges {
    /// Those of the last advertisements to all with their numbers, the newest last.
    window: Window,
    /// Those made for who solicited. Asking pushes nothing out of `window`.
    asked: Window,
    count: u64,
    /// The number of the last one that a node has used: older ones are stale.
    used: BTreeMap<Ipv4Addr, u64>,
    /// For a node's next request, from its last reply.
    given: BTreeMap<Ipv4Addr, Vec<u8>>,
}

/// The last challenges of a kind, with their numbers, the newest last.
type Window = VecDeque<(u64, Vec<u8>)>;

impl Advertiser {
    pub(super) fn new(now: Instant, random: Stream) -> Self {
        Self {
            random,
            pace: Pace::new(now),
            challenges: Challenges::default(),
        }
    }

    pub(super) fn due(&self) -> Instant {
        self.pace.due()
    }

    /// Somebody solicits agents: the advertisement for it alone, unless there are too many. Asking
    /// makes no challenge old: there is a new one only if a node has used the newest (RFC 4721
    /// §2.1).
    pub(super) fn solicited(
        &mut self,
        config: &Config,
        is_busy: bool,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let sequence = self.pace.answer(now)?;
        let is_used = self.challenges.used.values().max() == Some(&self.challenges.count);
        let challenge = match config.challenges && is_used {
            true => Some(self.challenge(false)),
            false => self.newest(),
        };
        Some(advertisement(config, sequence, is_busy, challenge))
    }

    /// The advertisement, if one is due.
    pub(super) fn next(&mut self, config: &Config, is_busy: bool, now: Instant) -> Option<Vec<u8>> {
        let lifetime = config.advertised_lifetime;
        let sequence = self.pace.next(lifetime, now, &mut self.random)?;
        let challenge = config.challenges.then(|| self.challenge(true));
        Some(advertisement(config, sequence, is_busy, challenge))
    }

    /// An advertisement for one node, as after a restart (RFC 3543 §4.1). Others count on.
    pub(super) fn reset(&self, config: &Config, is_busy: bool) -> Vec<u8> {
        advertisement(config, 0, is_busy, self.newest())
    }

    fn newest(&self) -> Option<Vec<u8>> {
        let known = &self.challenges;
        let newest = known.window.back().max(known.asked.back());
        newest.map(|(_, challenge)| challenge.clone())
    }

    fn challenge(&mut self, is_for_all: bool) -> Vec<u8> {
        let challenge = self.new_challenge();
        let known = &mut self.challenges;
        let window = match is_for_all {
            true => &mut known.window,
            false => &mut known.asked,
        };
        if window.len() == CHALLENGE_WINDOW {
            window.pop_front();
        }
        known.count += 1;
        window.push_back((known.count, challenge.clone()));
        challenge
    }

    fn new_challenge(&mut self) -> Vec<u8> {
        let mut challenge = vec![0; CHALLENGE_LEN];
        self.random.fill(&mut challenge);
        challenge
    }

    /// Whether a node may answer this challenge. It may until its request is granted.
    pub(super) fn check(&self, node: Ipv4Addr, challenge: &[u8]) -> Result<(), Code> {
        let known = &self.challenges;
        if known
            .given
            .get(&node)
            .is_some_and(|given| given == challenge)
        {
            return Ok(());
        }
        let number = self.number(challenge).ok_or(Code::UnknownChallenge)?;
        match known.used.get(&node) {
            Some(used) if number <= *used => Err(Code::StaleChallenge),
            _ => Ok(()),
        }
    }

    /// A node's request with this challenge was granted. Returns the challenge for its next one.
    pub(super) fn used(&mut self, node: Ipv4Addr, challenge: &[u8]) -> Vec<u8> {
        let number = self.number(challenge).unwrap_or(self.challenges.count);
        let next = self.new_challenge();
        self.challenges.used.insert(node, number);
        self.challenges.given.insert(node, next.clone());
        next
    }

    fn number(&self, challenge: &[u8]) -> Option<u64> {
        let known = &self.challenges;
        let mut all = known.window.iter().chain(&known.asked);
        all.find(|(_, one)| one == challenge)
            .map(|(number, _)| *number)
    }
}

fn advertisement(
    config: &Config,
    sequence: u16,
    is_busy: bool,
    challenge: Option<Vec<u8>>,
) -> Vec<u8> {
    let advertisement = AgentAdvertisement {
        routes_common_traffic: true,
        lifetime: config.advertised_lifetime,
        routers: vec![Router {
            address: config.address,
            preference: 0,
            prefix_len: None,
        }],
        agent: MobilityAgent {
            sequence,
            registration_lifetime: config.max_lifetime,
            flags: flags(config, is_busy),
            care_of_addresses: vec![config.care_of],
        },
        challenge,
    };
    advertisement.to_icmp()
}

fn flags(config: &Config, is_busy: bool) -> AgentFlags {
    let offers = |one| config.encapsulations.contains(&one);
    AgentFlags::of(&[
        (true, AgentFlags::FOREIGN_AGENT),
        (config.is_required, AgentFlags::REGISTRATION_REQUIRED),
        (is_busy, AgentFlags::BUSY),
        (config.revocation.is_some(), AgentFlags::REVOCATION),
        (config.udp != UdpWish::Never, AgentFlags::UDP_TUNNEL),
        (offers(Encapsulation::Minimal), AgentFlags::MINIMAL),
        (offers(Encapsulation::Gre), AgentFlags::GRE),
        (
            config.reverse_tunnel != ReverseTunnel::Refused,
            AgentFlags::REVERSE_TUNNEL,
        ),
    ])
}
