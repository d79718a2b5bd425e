//! A foreign agent on the link of its visitors: it advertises there, relays what it hears there,
//! and leads packets of visitors to their link and into the tunnel device.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use engine::ike::NotReached;
use engine::mip4::carriers::{self, Carriers, Owner};
use engine::mip4::foreign_agent as agent;
use engine::mip4::foreign_agent::{Config, Datagram, ForeignAgent, Mac, Output, Refusal};
use engine::mip4::identification::Clock;
use engine::time::{Deadline, Duration, Instant};
use nix::net::if_::if_nametoindex;
use tracing::{debug, info};
use wire::mip4::{Code, Message, PORT, is_solicitation};

use super::keepalive::Echoes;
use super::{Common, Effect, Input, surroundings};
use crate::config::VisitedLink;
use crate::ether::{ALL_HOSTS, Heard, Registration};
use crate::routes::Desired;
use crate::routes::roaming::Visitor;
use crate::status::{MobilityStatus, VisitorStatus};

/// Where a node sends a request that does not know our address (RFC 5944 §3.6.1.1).
const ALL_AGENTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 11);
/// TTL of our messages to visitors.
const TTL: u8 = 255;

/// A foreign agent and its surroundings.
pub(super) struct ForeignAgentPart {
    pub(super) agent: ForeignAgent,
    pub(super) carriers: Carriers,
    config: Config,
    interface: String,
    /// None: this host refused it.
    echoes: Option<Echoes>,
    /// Visitors with tunnels in UDP: when the next keepalive is due, and its number.
    kept: BTreeMap<Ipv4Addr, (Instant, u16)>,
}

impl ForeignAgentPart {
    pub(super) fn new(
        setup: &VisitedLink,
        (clock, now): (Clock, Instant),
        echoes: Option<Echoes>,
        random: Stream,
    ) -> Self {
        let config = Config {
            clock,
            ..setup.config.clone()
        };
        let mut agent = ForeignAgent::new(config.clone(), now, random);
        agent.set_local(surroundings::local(&setup.interface), now);
        Self {
            carriers: Carriers::default(),
            agent,
            config,
            interface: setup.interface.clone(),
            echoes,
            kept: BTreeMap::new(),
        }
    }

    /// The configuration has changed.
    pub(super) fn configure(&mut self, setup: &VisitedLink) {
        self.config = setup.config.clone();
        self.agent.configure(self.config.clone());
    }

    pub(super) fn handle(&mut self, input: &Input<'_>, common: &mut Common, now: Instant) {
        match *input {
            Input::Datagram { from, to, payload } => {
                // Requests are served as frames alone: their link-layer address counts.
                if !is_request(payload) {
                    let datagram = Datagram {
                        from,
                        to,
                        ttl: TTL,
                        mac: None,
                        payload,
                    };
                    self.agent.handle(datagram, now);
                }
            }
            Input::Frame(_, heard) => self.hear(heard, now),
            Input::Unreachable(agent, what) => {
                let code = match what.why {
                    NotReached::Network => Code::HomeNetworkUnreachable,
                    NotReached::Host => Code::HomeAgentHostUnreachable,
                    NotReached::Port => Code::HomeAgentPortUnreachable,
                    _ => Code::HomeAgentUnreachable,
                };
                self.agent.unreachable(agent, code, now);
            }
            Input::Wake => self.agent.handle_timeout(now),
            Input::Leave => {
                let visitors = self.agent.visitors().map(|one| one.home_address);
                for home in visitors.collect::<Vec<_>>() {
                    self.agent.revoke(home, now);
                }
            }
            Input::Look => {
                let local = surroundings::local(&self.interface);
                self.agent.set_local(local, now);
            }
            Input::Applied
            | Input::LeaveOutside
            | Input::Unsent(_)
            | Input::Notice(_)
            | Input::Report(_)
            | Input::Stored(..)
            | Input::Tunnel(..)
            | Input::Configured => {}
        }
        while let Some(output) = self.agent.poll() {
            self.execute(output, common, now);
        }
        self.keep_alive(now);
    }

    pub(super) fn deadline(&self) -> Deadline {
        let keepalives = self.kept.values().map(|(at, _)| Deadline {
            at: *at,
            why: "keep the NAT's entry",
        });
        let own = self.agent.deadline();
        keepalives.fold(own, Deadline::min)
    }

    fn keep_alive(&mut self, now: Instant) {
        for one in self.agent.visitors() {
            let Some((due, number)) = self.kept.get_mut(&one.home_address) else {
                continue;
            };
            if *due <= now {
                *due = now + every(one);
                *number = number.wrapping_add(1);
                if let Some(echoes) = &self.echoes {
                    echoes.ask(one.home_address, one.home_agent, *number);
                }
            }
        }
    }

    pub(super) fn want(&self, desired: &mut Desired) {
        let visitors = self.agent.visitors().map(|one| {
            let visitor = Visitor {
                mac: one.mac.0,
                is_led_into_tunnel: one.is_reverse && !one.encapsulates_delivery,
            };
            (one.home_address, visitor)
        });
        desired.roaming.visitors = visitors.collect();
        // The reverse path filter drops what comes from a device without an address.
        desired.addresses.insert(self.config.address.into());
    }

    pub(super) fn status(&self, now: Instant) -> MobilityStatus {
        let visitors = self.agent.visitors().map(|one| VisitorStatus {
            home_address: one.home_address,
            home_agent: one.home_agent,
            mac: one.mac.0.map(|octet| format!("{octet:02x}")).join(":"),
            encapsulation: one.encapsulation.name().to_owned(),
            reverse: one.is_reverse,
            encapsulating_delivery: one.encapsulates_delivery,
            left_s: self
                .agent
                .end(one.home_address)
                .map(|end| end.since(now).as_secs_f64()),
        });
        MobilityStatus {
            role: "foreign agent".to_owned(),
            address: Some(self.config.address),
            care_of: Some(self.config.care_of),
            visitors: visitors.collect(),
            ..MobilityStatus::default()
        }
    }

    fn hear(&mut self, heard: &Heard, now: Instant) {
        match heard {
            Heard::Registration {
                mac,
                from,
                to,
                ttl,
                payload,
            } => {
                let ours = [self.config.address, ALL_AGENTS, Ipv4Addr::BROADCAST];
                if ours.contains(to.ip()) && is_request(payload) {
                    let datagram = Datagram {
                        from: *from,
                        to: *to,
                        ttl: *ttl,
                        mac: Some(Mac(*mac)),
                        payload,
                    };
                    self.agent.handle(datagram, now);
                }
            }
            Heard::Agent { icmp, from } if is_solicitation(icmp) => {
                self.agent.solicited(Mac(from.0), now);
            }
            Heard::Agent { .. } | Heard::ArpRequest { .. } | Heard::Broadcast { .. } => {}
        }
    }

    fn come(&mut self, visitor: agent::Visitor, common: &mut Common, now: Instant) {
        info!(home = %visitor.home_address, agent = %visitor.home_agent, "visitor");
        match visitor.udp {
            // The first one tells the home agent nothing new (RFC 3519 §4.9).
            Some(_) => self
                .kept
                .insert(visitor.home_address, (now + every(&visitor), 0)),
            None => self.kept.remove(&visitor.home_address),
        };
        let (address, care_of) = (self.config.address, self.config.care_of);
        // Without its link the agent has no visitors.
        let link = if_nametoindex(self.interface.as_str()).unwrap_or(u32::MAX);
        let wanted = carriers::of_visitor((address, link), care_of, &visitor);
        let owner = Owner::Home(visitor.home_address);
        let changes = self.carriers.follow(owner, wanted);
        common.plane(changes);
        common.effects.push_back(Effect::Host);
    }

    fn execute(&mut self, output: Output, common: &mut Common, now: Instant) {
        match output {
            Output::Relay { from, to, payload } => {
                common
                    .effects
                    .push_back(Effect::Datagram { from, to, payload });
            }
            Output::Reply { mac, to, payload } => {
                let sent = common.links[0].send_registration(&Registration {
                    mac: mac.0,
                    from: SocketAddrV4::new(self.config.address, PORT),
                    to,
                    ttl: TTL,
                    payload: &payload,
                });
                common.sent(sent);
            }
            Output::Advertise(icmp) => {
                let sent = common.links[0].send_icmp(self.config.address, ALL_HOSTS, &icmp);
                common.sent(sent);
            }
            Output::Inform { mac, icmp, to } => {
                let node = (mac.0, to);
                let sent = common.links[0].send_icmp(self.config.address, node, &icmp);
                common.sent(sent);
            }
            Output::Revoked {
                home_address,
                is_by_home_agent,
            } => info!(home = %home_address, is_by_home_agent, "revoked"),
            Output::Unacknowledged {
                home_address,
                home_agent,
            } => {
                info!(home = %home_address, agent = %home_agent, "nobody has acknowledged");
            }
            Output::Came(visitor) => self.come(visitor, common, now),
            Output::Left(home) => {
                info!(%home, "the visitor has left");
                self.kept.remove(&home);
                let changes = self.carriers.follow(Owner::Home(home), Vec::new());
                common.plane(changes);
                common.effects.push_back(Effect::Host);
            }
            Output::Refused { from, why } => {
                let said = format!("{why:?}");
                let word = reason(why);
                debug!(%from, "not served, {word}: {said}");
                common.refuse(word);
            }
        }
    }
}

/// A key for the count.
fn reason(why: Refusal) -> String {
    match why {
        Refusal::Malformed => "malformed".to_owned(),
        Refusal::NotForUs => "not-for-us".to_owned(),
        Refusal::Unexpected => "unexpected".to_owned(),
        Refusal::UnprovenChallenge => "unproven-challenge".to_owned(),
        Refusal::UnexpectedRevocationSupport => "revocation-support".to_owned(),
        Refusal::Revocation(fault) => format!("revocation: {fault:?}"),
        Refusal::Denied(code) => format!("denied-{}", code.number()),
    }
}

/// The time between two keepalives.
fn every(visitor: &agent::Visitor) -> Duration {
    Duration::from_secs(visitor.keepalive.into())
}

pub(super) fn is_request(payload: &[u8]) -> bool {
    matches!(Message::parse(payload), Ok((Message::Request(_), _)))
}
