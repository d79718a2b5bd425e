//! A foreign agent on the link of its visitors: it advertises there, relays what it hears there,
//! and leads packets of visitors to their link and into the tunnel device.

use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use engine::ike::NotReached;
use engine::mip4::carriers::{self, Carriers, Owner};
use engine::mip4::foreign_agent::{Config, Datagram, ForeignAgent, Mac, Output, Refusal};
use engine::mip4::identification::Clock;
use engine::time::{Deadline, Instant};
use tracing::{debug, info};
use wire::mip4::{Code, Message, PORT, is_solicitation};

use super::{Common, Effect, Input};
use crate::config::VisitedLink;
use crate::ether::{ALL_HOSTS, Heard, Registration};
use crate::routes::Desired;
use crate::routes::roaming::Visitor;
use crate::status::{MobilityStatus, VisitorStatus, form};

/// Where a node sends a request that does not know our address (RFC 5944 §3.6.1.1).
const ALL_AGENTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 11);
/// TTL of our messages to visitors.
const TTL: u8 = 255;

/// A foreign agent and its surroundings.
pub(super) struct ForeignAgentPart {
    pub(super) agent: ForeignAgent,
    pub(super) carriers: Carriers,
    config: Config,
}

impl ForeignAgentPart {
    pub(super) fn new(setup: &VisitedLink, clock: Clock, now: Instant, random: Stream) -> Self {
        let config = Config {
            clock,
            ..setup.config.clone()
        };
        Self {
            carriers: Carriers::default(),
            agent: ForeignAgent::new(config.clone(), now, random),
            config,
        }
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
            Input::Look | Input::Applied => {}
        }
        while let Some(output) = self.agent.poll() {
            self.execute(output, common);
        }
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.agent.deadline()
    }

    pub(super) fn want(&self, desired: &mut Desired) {
        let visitors = self.agent.visitors().map(|one| {
            let visitor = Visitor {
                mac: one.mac.0,
                is_reverse: one.is_reverse,
                encapsulates: one.encapsulates_delivery,
            };
            (one.home_address, visitor)
        });
        desired.roaming.visitors = visitors.collect();
    }

    pub(super) fn status(&self, now: Instant) -> MobilityStatus {
        let visitors = self.agent.visitors().map(|one| VisitorStatus {
            home_address: one.home_address,
            home_agent: one.home_agent,
            mac: one.mac.0.map(|octet| format!("{octet:02x}")).join(":"),
            encapsulation: form(one.encapsulation).to_owned(),
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
            Heard::Agent { icmp, .. } if is_solicitation(icmp) => self.agent.solicited(now),
            Heard::Agent { .. } | Heard::ArpRequest { .. } => {}
        }
    }

    fn execute(&mut self, output: Output, common: &mut Common) {
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
            Output::Came(visitor) => {
                info!(home = %visitor.home_address, agent = %visitor.home_agent, "visitor");
                let (address, care_of) = (self.config.address, self.config.care_of);
                let wanted = carriers::of_visitor(address, care_of, &visitor);
                let owner = Owner::Home(visitor.home_address);
                let changes = self.carriers.follow(owner, wanted);
                common.plane(changes);
                common.effects.push_back(Effect::Host);
            }
            Output::Left(home) => {
                info!(%home, "the visitor has left");
                let changes = self.carriers.follow(Owner::Home(home), Vec::new());
                common.plane(changes);
                common.effects.push_back(Effect::Host);
            }
            Output::Refused { from, why } => {
                debug!(%from, "not served: {why:?}");
                common.refuse(match why {
                    Refusal::Malformed => "malformed".to_owned(),
                    Refusal::NotForUs => "not-for-us".to_owned(),
                    Refusal::Unexpected => "unexpected".to_owned(),
                    Refusal::UnprovenChallenge => "unproven-challenge".to_owned(),
                    Refusal::UnexpectedRevocationSupport => "revocation-support".to_owned(),
                    Refusal::Revocation(fault) => format!("revocation: {fault:?}"),
                    Refusal::Denied(code) => format!("denied-{}", code.number()),
                });
            }
        }
    }
}

fn is_request(payload: &[u8]) -> bool {
    matches!(Message::parse(payload), Ok((Message::Request(_), _)))
}
