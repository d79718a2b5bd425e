//! What a home agent advertises on the home link: by it, nodes recognize their home (RFC 5944
//! §2.4.3).

use std::net::Ipv4Addr;

use crypto::rand::Stream;
use wire::mip4::{AgentAdvertisement, AgentFlags, MobilityAgent, Router};

use super::Config;
use crate::mip4::pace::Pace;
use crate::mip4::tunnel::ReverseTunnel;
use crate::sa::Encapsulation;
use crate::time::{Deadline, Instant};

/// The advertisements of a home agent.
pub struct Beacon {
    address: Ipv4Addr,
    prefix_len: u8,
    flags: AgentFlags,
    registration_lifetime: u16,
    lifetime: u16,
    pace: Pace,
    random: Stream,
}

impl Beacon {
    /// Each advertisement holds for `lifetime` seconds. The first one is due at once.
    pub fn new(config: &Config, lifetime: u16, now: Instant, random: Stream) -> Self {
        Self {
            address: config.address,
            prefix_len: config.prefix_len,
            flags: flags(config),
            registration_lifetime: config.max_lifetime,
            lifetime,
            pace: Pace::new(now),
            random,
        }
    }

    /// The configuration has changed, but not our address and network.
    pub fn configure(&mut self, config: &Config, lifetime: u16) {
        self.flags = flags(config);
        self.registration_lifetime = config.max_lifetime;
        self.lifetime = lifetime;
    }

    /// Somebody solicits agents: the advertisement for it alone, unless there are too many.
    pub fn solicited(&mut self, now: Instant) -> Option<Vec<u8>> {
        let sequence = self.pace.answer(now)?;
        Some(self.advertisement(sequence))
    }

    /// The advertisement for all, an ICMP message, if one is due.
    pub fn next(&mut self, now: Instant) -> Option<Vec<u8>> {
        let sequence = self.pace.next(self.lifetime, now, &mut self.random)?;
        Some(self.advertisement(sequence))
    }

    fn advertisement(&self, sequence: u16) -> Vec<u8> {
        let advertisement = AgentAdvertisement {
            routes_common_traffic: true,
            lifetime: self.lifetime,
            routers: vec![Router {
                address: self.address,
                preference: 0,
                prefix_len: Some(self.prefix_len),
            }],
            agent: MobilityAgent {
                sequence,
                registration_lifetime: self.registration_lifetime,
                flags: self.flags,
                care_of_addresses: Vec::new(),
            },
            challenge: None,
        };
        advertisement.to_icmp()
    }

    /// When the next one is due.
    pub fn deadline(&self) -> Deadline {
        Deadline {
            at: self.pace.due(),
            why: "advertise",
        }
    }
}

fn flags(config: &Config) -> AgentFlags {
    let offers = |one| config.encapsulations.contains(&one);
    AgentFlags::of(&[
        (true, AgentFlags::HOME_AGENT),
        (offers(Encapsulation::Minimal), AgentFlags::MINIMAL),
        (offers(Encapsulation::Gre), AgentFlags::GRE),
        (
            config.reverse_tunnel != ReverseTunnel::Refused,
            AgentFlags::REVERSE_TUNNEL,
        ),
        (config.udp_keepalive.is_some(), AgentFlags::UDP_TUNNEL),
    ])
}
