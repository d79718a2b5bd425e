//! The foreign agent: it advertises, relays registrations, and keeps the list of its visitors (RFC
//! 5944 §2.3, §3.7).
//!
//! Everybody on its link can send requests, so requests that wait for a home agent are bounded, in
//! all and for each link-layer address. The oldest gives way.

mod advertise;
mod check;
mod relay;
mod revoke;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use wire::mip4::{Code, Message};

use super::aaa::AaaKey;
use super::association::Associations;
use super::identification::Clock;
use super::revocation::{Fault, Outbox, Policy};
use super::tunnel::{ReverseTunnel, UdpWish};
use crate::sa::Encapsulation;
use crate::selector::TrafficSelector;
use crate::time::{Deadline, Duration, Instant};

use advertise::Advertiser;
use relay::{Key, Pending, Visit};
pub use revoke::REVOKED_MAX;
use revoke::Revoked;

/// Requests that wait for a reply, in all.
pub const PENDING_MAX: usize = 1_024;
/// Requests that wait for a reply, of one link-layer address.
pub const PENDING_EACH_MAX: usize = 4;

/// An IEEE 802 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// What a foreign agent is and allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Our address on the link of the visitors.
    pub address: Ipv4Addr,
    /// The care-of address that we offer.
    pub care_of: Ipv4Addr,
    /// The longest lifetime that we relay, in seconds.
    pub max_lifetime: u16,
    /// Visitors at a time. If they are all there, one that proves itself takes the place of one
    /// that does not.
    pub max_visitors: usize,
    /// Encapsulations beside IP in IP.
    pub encapsulations: BTreeSet<Encapsulation>,
    /// Whether visitors may, or must, send through a reverse tunnel.
    pub reverse_tunnel: ReverseTunnel,
    /// Whether a node with an address of its own must register here, too.
    pub is_required: bool,
    /// Whether requests must answer an advertised challenge (RFC 4721). Then only mobile nodes
    /// with an association or an AAA key are served.
    pub challenges: bool,
    /// Seconds that an advertisement holds; a third of it is their distance.
    pub advertised_lifetime: u16,
    /// Shared with mobile nodes, by home address.
    pub mobile_nodes: BTreeMap<Ipv4Addr, Associations>,
    /// AAA keys of mobile nodes, by home address: they prove themselves by these (RFC 4721).
    pub aaa: BTreeMap<Ipv4Addr, AaaKey>,
    /// Shared with home agents, by address.
    pub home_agents: BTreeMap<Ipv4Addr, Associations>,
    /// Home agents that visitors may have. None: every one.
    pub relays_to: Option<Vec<TrafficSelector>>,
    /// Whether home agents with an association and we tell each other of ended registrations (RFC
    /// 3543).
    pub revocation: Option<Policy>,
    /// Tunnels in UDP between home agents and us (RFC 3519 §4.5). Behind a NAT that changes all
    /// addresses, require reverse tunnels, too.
    pub udp: UdpWish,
    /// Calendar time, for revocations.
    pub clock: Clock,
}

/// A UDP payload for port 434.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Where it came from.
    pub from: SocketAddrV4,
    /// Where it was sent to.
    pub to: SocketAddrV4,
    /// The TTL of its IP header.
    pub ttl: u8,
    /// The link-layer address of a sender on the visitors' link. None: it came another way.
    pub mac: Option<Mac>,
    /// The payload.
    pub payload: &'a [u8],
}

/// A visitor, as the packet plane needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Its home address.
    pub home_address: Ipv4Addr,
    /// Its home agent, the other end of the tunnel.
    pub home_agent: Ipv4Addr,
    /// Where its packets go on the link. It is never asked for by ARP.
    pub mac: Mac,
    /// The tunnel's encapsulation.
    pub encapsulation: Encapsulation,
    /// Whether its packets go back through the tunnel.
    pub is_reverse: bool,
    /// Whether it encapsulates them to us (RFC 3024 §5.2).
    pub encapsulates_delivery: bool,
    /// The tunnel is in UDP, from our port 434 to this address.
    pub udp: Option<SocketAddrV4>,
    /// Seconds between keepalives in UDP.
    pub keepalive: u16,
}

/// What the owner must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send to a home agent: a relayed request, a revocation or its acknowledgment.
    Relay {
        /// From our care-of address and port 434.
        from: SocketAddrV4,
        /// The home agent.
        to: SocketAddrV4,
        /// The payload.
        payload: Vec<u8>,
    },
    /// Send a reply to a mobile node on our link.
    Reply {
        /// Its link-layer address.
        mac: Mac,
        /// Its home address, or broadcast if it has none.
        to: SocketAddrV4,
        /// The payload.
        payload: Vec<u8>,
    },
    /// Send an advertisement, an ICMP message, to all on the link with TTL 1.
    Advertise(Vec<u8>),
    /// Send an advertisement, an ICMP message, to one node on the link with TTL 1.
    Inform {
        /// Its link-layer address.
        mac: Mac,
        /// Its home address, or all systems if it has only solicited.
        to: Ipv4Addr,
        /// The message.
        icmp: Vec<u8>,
    },
    /// A visitor has come, or its entry has changed.
    Came(Visitor),
    /// A visitor's registration has ended.
    Left(Ipv4Addr),
    /// A registration is revoked: [`Self::Left`] follows.
    Revoked {
        /// Whose.
        home_address: Ipv4Addr,
        /// By its home agent, not by us.
        is_by_home_agent: bool,
    },
    /// Nobody has acknowledged our revocation.
    Unacknowledged {
        /// Whose registration it was.
        home_address: Ipv4Addr,
        /// Its home agent.
        home_agent: Ipv4Addr,
    },
    /// A message was not served.
    Refused {
        /// Its source.
        from: SocketAddrV4,
        /// Why.
        why: Refusal,
    },
}

/// Why a message was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It cannot be read.
    Malformed,
    /// It is neither a request of our link nor a reply.
    NotForUs,
    /// A reply to no request that waits, or with another identification.
    Unexpected,
    /// A challenge without an authenticator for us (RFC 4721 §3.2).
    UnprovenChallenge,
    /// A mobile node supports revocation, which only agents and co-located nodes do (RFC 3543
    /// §4.2.1).
    UnexpectedRevocationSupport,
    /// A revocation, or an acknowledgment of one, that changed nothing.
    Revocation(Fault),
    /// Denied with this code.
    Denied(Code),
}

/// A foreign agent.
pub struct ForeignAgent {
    config: Config,
    /// Addresses of this host and of the visitors' link.
    local: Vec<TrafficSelector>,
    advertiser: Advertiser,
    pending: BTreeMap<Key, Pending>,
    visits: BTreeMap<Ipv4Addr, Visit>,
    /// When "too distant" was last said (RFC 3024 §4.1 bounds it to once a second).
    told_distant: Option<Instant>,
    revocations: Outbox,
    revoked: BTreeMap<Ipv4Addr, Revoked>,
    outputs: VecDeque<Output>,
}

impl ForeignAgent {
    /// A foreign agent without visitors. Its first advertisement is due at once.
    pub fn new(config: Config, now: Instant, random: Stream) -> Self {
        Self {
            advertiser: Advertiser::new(now, random),
            config,
            local: Vec::new(),
            pending: BTreeMap::new(),
            visits: BTreeMap::new(),
            told_distant: None,
            revocations: Outbox::default(),
            revoked: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// The configuration has changed, but not our addresses. Visits remain as they are.
    pub fn configure(&mut self, config: Config) {
        self.config = Config {
            clock: self.config.clock,
            ..config
        };
    }

    /// The addresses of this host and of the visitors' link: no visitor has one of them. The visits
    /// of those that have one are revoked.
    pub fn set_local(&mut self, local: Vec<TrafficSelector>, now: Instant) {
        self.local = local;
        let homes = self.visits.keys().copied();
        let ended: Vec<Ipv4Addr> = homes.filter(|home| self.is_local(*home)).collect();
        for home_address in ended {
            self.revoke(home_address, now);
        }
    }

    /// Whether a revocation waits for its acknowledgment.
    pub fn is_revoking(&self) -> bool {
        self.revocations.next().is_some()
    }

    /// The calendar time was set.
    pub fn set_clock(&mut self, clock: Clock) {
        self.config.clock = clock;
    }

    /// A UDP payload for port 434 that is not tunnelled data.
    pub fn handle(&mut self, datagram: Datagram<'_>, now: Instant) {
        self.expire(now);
        let result = match datagram.mac {
            Some(mac) => self.relay_request(datagram, mac, now),
            None => match Message::parse(datagram.payload) {
                Ok((Message::Revocation(it), at)) => self.hear_revocation(&it, at, datagram, now),
                Ok((Message::RevocationAcknowledgment(it), at)) => {
                    self.hear_acknowledgment(&it, at, datagram)
                }
                _ => self.relay_reply(datagram, now),
            },
        };
        if let Err(why) = result {
            let from = datagram.from;
            self.outputs.push_back(Output::Refused { from, why });
        }
    }

    /// A home agent could not be reached: the ICMP code of its network's, host's or port's
    /// unreachability, or another one.
    pub fn unreachable(&mut self, home_agent: Ipv4Addr, code: Code, now: Instant) {
        self.expire(now);
        self.deny_all(home_agent, code);
    }

    /// A host with this link-layer address solicits agents.
    pub fn solicited(&mut self, mac: Mac, now: Instant) {
        // The first advertisement for all comes before.
        self.advertise(now);
        let is_busy = self.is_busy();
        if let Some(icmp) = self.advertiser.solicited(&self.config, is_busy, now) {
            let to = ALL_SYSTEMS;
            self.outputs.push_back(Output::Inform { mac, to, icmp });
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire(now);
        self.send_revocations(now);
        self.advertise(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn deadline(&self) -> Deadline {
        let visit = self.visits.values().filter_map(|one| one.end).min();
        let pending = self.pending.values().map(|it| it.end).min();
        [
            (visit, "end a visit"),
            (pending, "give up a relayed request"),
            (self.revocations.next(), "repeat a revocation"),
        ]
        .into_iter()
        .filter_map(|(at, why)| at.map(|at| Deadline { at, why }))
        .chain([Deadline {
            at: self.advertiser.due(),
            why: "advertise",
        }])
        .min()
        .expect("an advertisement is always due")
    }

    /// The visitors.
    pub fn visitors(&self) -> impl Iterator<Item = &Visitor> {
        self.visits.values().map(|one| &one.visitor)
    }

    /// When a visitor's registration ends; never, if None.
    pub fn end(&self, home_address: Ipv4Addr) -> Option<Instant> {
        self.visits.get(&home_address).and_then(|one| one.end)
    }

    fn advertise(&mut self, now: Instant) {
        let is_busy = self.is_busy();
        if let Some(icmp) = self.advertiser.next(&self.config, is_busy, now) {
            self.outputs.push_back(Output::Advertise(icmp));
        }
    }

    fn is_local(&self, address: Ipv4Addr) -> bool {
        let own = [self.config.address, self.config.care_of];
        let mut local = self.local.iter();
        own.contains(&address) || local.any(|it| it.contains_address(address.into()))
    }

    /// Whether nobody would get a place. Nodes that have a key do not look at who has none.
    fn is_busy(&self) -> bool {
        let config = &self.config;
        let has_keys = !config.mobile_nodes.is_empty()
            || !config.aaa.is_empty()
            || !config.home_agents.is_empty();
        !self.has_place(has_keys)
    }

    fn expire(&mut self, now: Instant) {
        self.pending.retain(|_, one| one.end > now);
        self.revoked.retain(|_, one| one.is_remembered(now));
        let ended: Vec<Ipv4Addr> = self
            .visits
            .iter()
            .filter(|(_, one)| one.end.is_some_and(|end| end <= now))
            .map(|(home_address, _)| *home_address)
            .collect();
        for home_address in ended {
            self.leave(home_address);
        }
    }

    fn leave(&mut self, home_address: Ipv4Addr) {
        if self.visits.remove(&home_address).is_some() {
            self.outputs.push_back(Output::Left(home_address));
        }
    }
}

/// All hosts on the link (RFC 1112 §4).
const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The shortest time between two messages of a kind (RFC 3024 §4.1).
const INTERVAL_MIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
