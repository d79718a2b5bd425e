//! The home agent: it checks registrations, keeps the bindings of its mobile nodes and ends them
//! (RFC 5944 §3.8).
//!
//! A request is authenticated before anything else is read from it. Only requests of configured
//! mobile nodes use memory, so strangers cannot fill a table.

mod beacon;
mod bindings;
mod check;
mod keepalive;
mod place;
mod quota;
mod register;
mod revoke;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};

use crypto::rand::Stream;
use wire::mip4::{Code, Message};

use super::aaa::AaaKey;
use super::association::{Association, Associations};
use super::firewall::Outside;
use super::identification::{Clock, Guard};
use super::revocation::{Outbox, Past, Policy};
use super::tunnel::{ReverseTunnel, Tunnel};
use crate::sa::Encapsulation;
use crate::selector::TrafficSelector;
use crate::time::{Deadline, Instant};

pub use beacon::Beacon;
pub use bindings::Binding;
use bindings::Bindings;
pub use check::Refusal;
use quota::Quota;
use register::UdpAnswer;

/// Replies and refusals that wait for the owner, who takes them after each input. Tunnels are never
/// dropped: there is one output for each of our nodes at most.
const OUTPUTS_MAX: usize = 1_024;

/// A mobile node that we serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its home address.
    pub home_address: Ipv4Addr,
    /// Its network access identifier, if it may name itself by it (RFC 2794).
    pub nai: Option<Vec<u8>>,
    /// Its AAA key: then each request must prove it too (RFC 4721).
    pub aaa: Option<AaaKey>,
    /// How its messages are authenticated.
    pub associations: Associations,
}

/// What a home agent is and allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Our address, that of tunnels and replies.
    pub address: Ipv4Addr,
    /// Bits of the home network's prefix.
    pub prefix_len: u8,
    /// The longest lifetime that is granted, in seconds.
    pub max_lifetime: u16,
    /// Bindings that one node may have at a time; 1 refuses simultaneous ones.
    pub max_bindings: usize,
    /// Encapsulations that we offer; IP in IP is always one.
    pub encapsulations: BTreeSet<Encapsulation>,
    /// Whether nodes may, or must, send through a reverse tunnel (RFC 3024).
    pub reverse_tunnel: ReverseTunnel,
    /// Seconds between keepalives in UDP tunnels; None refuses such tunnels (RFC 3519).
    pub udp_keepalive: Option<u16>,
    /// Whether such tunnels may be forced where there is no NAT (RFC 3519 §4.6.1).
    pub allows_forced_udp: bool,
    /// The mobile nodes.
    pub clients: Vec<Client>,
    /// Foreign agents that share an association with us, by address.
    pub foreign_agents: BTreeMap<Ipv4Addr, Associations>,
    /// Care-of addresses behind a firewall of ours.
    pub outside: Vec<Outside>,
    /// Firewalls that a request may name for its care-of address. A request that names another one
    /// is denied: without the firewall, packets would leave the home network unprotected.
    pub trusts_traversal: BTreeSet<Ipv4Addr>,
    /// Networks inside. If there are any, only requests from there and from `tunnelled` are heard,
    /// and replies to there say so: they prove to a node that it is inside (RFC 5265 §4.3).
    pub trusted: Vec<TrafficSelector>,
    /// Networks whose addresses VPN gateways give to hosts outside, whether `trusted` has them or
    /// not. Replies to there prove nothing.
    pub tunnelled: Vec<TrafficSelector>,
    /// Whether we tell foreign agents and co-located nodes of ended bindings, and listen to agents
    /// (RFC 3543).
    pub revocation: Option<Policy>,
}

/// A received UDP payload.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Where it came from.
    pub from: SocketAddrV4,
    /// Where it was sent to.
    pub to: SocketAddrV4,
    /// The payload.
    pub payload: &'a [u8],
}

/// What the owner must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a UDP payload.
    Send {
        /// From this address of ours.
        from: SocketAddrV4,
        /// To this address.
        to: SocketAddrV4,
        /// To a node at home, even while it has a binding (RFC 5944 §3.8.3.1).
        is_at_home: bool,
        /// In an IP-in-IP tunnel to this firewall.
        firewall: Option<Ipv4Addr>,
        /// The payload.
        payload: Vec<u8>,
    },
    /// These are the tunnels of a home address now. With the first one, intercept its packets and
    /// tell the home network by gratuitous ARP; with none left, stop (RFC 5944 §4.6).
    Tunnels {
        /// Whose.
        home_address: Ipv4Addr,
        /// All of them.
        tunnels: Vec<Tunnel>,
        /// Why they changed.
        why: Change,
    },
    /// Nobody has acknowledged a revocation. The binding has ended here all the same.
    Unacknowledged {
        /// Whose binding.
        home_address: Ipv4Addr,
        /// The care-of address.
        care_of: Ipv4Addr,
    },
    /// A message was not served.
    Refused {
        /// Its source.
        from: SocketAddrV4,
        /// Whose it says it is, if that was read.
        home_address: Option<Ipv4Addr>,
        /// Why.
        why: Refusal,
    },
}

/// Why tunnels changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A registration was accepted.
    Registered,
    /// The node has deregistered one or all care-of addresses.
    Deregistered,
    /// A lifetime has ended.
    Expired,
    /// Our administrator or a foreign agent has ended it.
    Revoked,
    /// The node's first keepalive has come.
    Completed,
    /// Its request has come from two places, one of which is not the node's.
    Copied,
}

/// A home agent.
pub struct HomeAgent {
    config: Config,
    clock: Clock,
    random: Stream,
    by_nai: BTreeMap<Vec<u8>, Ipv4Addr>,
    nodes: BTreeMap<Ipv4Addr, Node>,
    /// No care-of address.
    reserved: BTreeSet<Ipv4Addr>,
    /// No binding ends before. So a message costs no look at all nodes.
    first_end: Option<Instant>,
    revocations: Outbox,
    outputs: VecDeque<Output>,
}

/// A mobile node of ours.
struct Node {
    associations: Associations,
    aaa: Option<AaaKey>,
    /// By SPI: each association has its own record (RFC 5944 §5.1).
    guards: BTreeMap<u32, Guard>,
    /// What the last request of each association got.
    answers: BTreeMap<u32, (Code, Option<UdpAnswer>)>,
    bindings: Bindings,
    /// The last revocation by a foreign agent.
    revoked: Option<Past>,
    quota: Quota,
}

impl HomeAgent {
    /// A home agent without bindings. `clock` must be right to some seconds if nodes use
    /// timestamps.
    pub fn new(config: Config, clock: Clock, now: Instant, random: Stream) -> Self {
        let mut agent = Self {
            config,
            clock,
            random,
            by_nai: BTreeMap::new(),
            nodes: BTreeMap::new(),
            reserved: BTreeSet::new(),
            first_end: None,
            revocations: Outbox::default(),
            outputs: VecDeque::new(),
        };
        agent.admit(BTreeMap::new(), now);
        agent
    }

    /// The configuration has changed, but not our address and network. Bindings of nodes that keep
    /// their associations remain as they are. Those of others end: who knows a key that was
    /// replaced may have made them.
    pub fn configure(&mut self, config: Config, now: Instant) {
        let clients = config.clients.iter();
        let stays: BTreeMap<_, _> = clients
            .map(|it| (it.home_address, &it.associations))
            .collect();
        let is_trusted = |home_address: &Ipv4Addr, node: &Node| {
            let kept = stays.get(home_address);
            let has = |one: &Association| kept.is_some_and(|it| it.get(one.spi()) == Some(one));
            node.associations.iter().all(has)
        };
        let nodes = self
            .nodes
            .iter()
            .filter(|(home, node)| !is_trusted(home, node));
        let ended: Vec<Ipv4Addr> = nodes.map(|(home, _)| *home).collect();
        for home_address in ended {
            self.revoke(home_address, now);
        }
        let mut former = std::mem::take(&mut self.nodes);
        former.retain(|home_address, _| stays.contains_key(home_address));
        self.config = config;
        self.admit(former, now);
    }

    /// Serves the nodes of the configuration. What is known of former ones stays.
    fn admit(&mut self, mut former: BTreeMap<Ipv4Addr, Node>, now: Instant) {
        let start = self.clock.ntp(now);
        self.by_nai.clear();
        for client in std::mem::take(&mut self.config.clients) {
            if let Some(nai) = client.nai {
                self.by_nai.insert(nai, client.home_address);
            }
            let former = former.remove(&client.home_address);
            let (mut known, answers, bindings, revoked) = match former {
                Some(node) => (node.guards, node.answers, node.bindings, node.revoked),
                None => Default::default(),
            };
            let guard = |one: &Association| {
                let former = known.remove(&one.spi());
                let former = former.filter(|guard| guard.replay() == one.replay());
                let new = || Guard::new(one.replay(), start, &mut self.random);
                (one.spi(), former.unwrap_or_else(new))
            };
            let node = Node {
                guards: client.associations.iter().map(guard).collect(),
                associations: client.associations,
                aaa: client.aaa,
                answers,
                bindings,
                revoked,
                quota: Quota::default(),
            };
            self.nodes.insert(client.home_address, node);
        }
    }

    /// All addresses of this host, and those of its links that are no host's. None is a care-of
    /// address: what is sent there comes back, or goes to everybody. Bindings remain.
    pub fn set_reserved(&mut self, reserved: BTreeSet<Ipv4Addr>) {
        self.reserved = reserved;
    }

    /// The calendar time was set. Our time does not go back: a request of the right time would be
    /// older than one that we have accepted, and so refused until that time has come again. Nodes
    /// follow our time, whatever it is ([`Code::IdentificationMismatch`]).
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = self.clock.later(clock);
    }

    /// A datagram for UDP port 434 that is not tunnelled data, or a keepalive from an end that no
    /// tunnel has.
    pub fn handle(&mut self, datagram: Datagram<'_>, now: Instant) {
        self.expire(now);
        let result = match Message::parse(datagram.payload) {
            Ok((Message::Revocation(it), at)) => self.hear_revocation(&it, at, datagram, now),
            Ok((Message::RevocationAcknowledgment(it), at)) => {
                self.hear_acknowledgment(&it, at, datagram)
            }
            Ok((Message::Tunnel(header), at)) => self.hear_keepalive(header, at, datagram),
            _ => self.register(datagram, now),
        };
        self.send_revocations(now);
        let Err(denied) = result else {
            return;
        };
        self.put(Output::Refused {
            from: datagram.from,
            home_address: denied.home_address,
            why: denied.why,
        });
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.expire(now);
        self.send_revocations(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Self::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        let at = self
            .nodes
            .values()
            .filter_map(|node| node.bindings.next_end());
        let ends = at.min().map(|at| Deadline {
            at,
            why: "end a binding",
        });
        let revocation = self.revocations.next().map(|at| Deadline {
            at,
            why: "repeat a revocation",
        });
        ends.into_iter().chain(revocation).min()
    }

    /// Whether a revocation waits for its acknowledgment.
    pub fn is_revoking(&self) -> bool {
        self.revocations.next().is_some()
    }

    /// The bindings of a home address.
    pub fn bindings(&self, home_address: Ipv4Addr) -> impl Iterator<Item = &Binding> {
        let node = self.nodes.get(&home_address);
        node.into_iter().flat_map(|node| node.bindings.iter())
    }

    fn expire(&mut self, now: Instant) {
        if self.first_end.is_none_or(|end| end > now) {
            return;
        }
        let mut ended = Vec::new();
        for (home_address, node) in &mut self.nodes {
            if node.bindings.expire(now) {
                ended.push((*home_address, node.bindings.tunnels()));
            }
        }
        let ends = self
            .nodes
            .values()
            .filter_map(|node| node.bindings.next_end());
        self.first_end = ends.min();
        for (home_address, tunnels) in ended {
            self.put(Output::Tunnels {
                home_address,
                tunnels,
                why: Change::Expired,
            });
        }
    }

    fn put(&mut self, output: Output) {
        let is_needed = matches!(output, Output::Tunnels { .. });
        if is_needed || self.outputs.len() < OUTPUTS_MAX {
            self.outputs.push_back(output);
        }
    }
}

#[cfg(test)]
mod tests;
