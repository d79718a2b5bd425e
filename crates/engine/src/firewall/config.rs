//! What a firewall is and allows.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use wire::ip::protocol;
use wire::skip::Nsid;

use super::access::{AccessList, Entry, EntryId, ListFault, Origin};
use crate::sa::Reserved;
use crate::selector::{Ports, TrafficSelector};
use crate::skip::Association;
use crate::skip::udp::PORT;
use crate::time::Duration;

/// A node that is silent for so long is forgotten: twice the 1800 s of RFC 5944 §3.6.1.2, so that
/// one lost renewal ends no binding.
pub const LIFETIME: Duration = Duration::from_secs(3_600);

/// Home agents and firewalls further inside.
pub const HOME_AGENTS_MAX: usize = 1_000;

/// A firewall's configuration.
#[derive(Clone, PartialEq, Eq)]
pub struct Config {
    /// Our address outside: our end of SKIP.
    pub outside: Ipv4Addr,
    /// Our address inside: our end of the tunnels to home agents. It may be the one outside.
    pub inside: Ipv4Addr,
    /// The home agents inside. Mobile nodes reach them through an IP-in-IP tunnel from us.
    pub home_agents: Vec<Ipv4Addr>,
    /// The access list.
    pub entries: Vec<(Origin, Template)>,
    /// A node that is silent for so long is forgotten ([`LIFETIME`]).
    pub lifetime: Duration,
    /// How it finds the node of a packet from inside.
    pub mode: Mode,
    /// Whether the header between care-of address and home agent is left out of tunnelled data, on
    /// both sides. Home agents and nodes must accept that.
    pub removes_header: bool,
    /// Whether mobile nodes may come in UDP ([`crate::skip::udp`]).
    pub takes_udp: bool,
    /// Addresses inside that speak SKIP themselves, and have an address that is known outside:
    /// their packets pass as they are, both ways.
    pub end_to_end: Vec<Ipv4Addr>,
}

/// How a firewall finds the mobile node of a packet from inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// By its care-of address, to which the node's entry is bound.
    #[default]
    Binding,
    /// By the home address that it carries: no binding is needed, so that a node may have several
    /// care-of addresses, and firewalls need not tell each other of them.
    PacketParsing,
}

/// How the packets of an entry are protected, and where they may go.
#[derive(Clone, PartialEq, Eq)]
pub struct Template {
    /// Names, algorithms and secret.
    pub association: Association,
    /// Addresses inside that its packets go to and come from. A mobile node's are these and the
    /// home agents.
    pub inside: Vec<TrafficSelector>,
    /// A mobile node's home address: its packets of Mobile IPv4 must carry it. `None`: its name, if
    /// that is an IPv4 address.
    pub home_address: Option<Ipv4Addr>,
    /// Of `skip-paper`: the bound of n that was stored last ([`super::Output::StoreN`]).
    pub stored_n: u32,
    /// Of `skip-paper`: the highest n that was heard ([`super::Output::KeepN`]), 0 if none is
    /// known.
    pub heard_n: u32,
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The access list.
    #[error("the access list: {0}")]
    List(ListFault),
    /// Anybody could send its packets.
    #[error("an entry without a MAC: its packets do not prove who sent them")]
    Unauthenticated(EntryId),
    /// Its packets could go nowhere.
    #[error("an entry without addresses inside")]
    NothingInside(EntryId),
    /// Its packets could not be found by it.
    #[error("a mobile node whose home address is not known")]
    NoHomeAddress(EntryId),
    /// Packets could not be told apart.
    #[error("two mobile nodes with one home address")]
    RepeatedHome(EntryId, EntryId),
    /// More than [`HOME_AGENTS_MAX`].
    #[error("{0} home agents, limit {HOME_AGENTS_MAX}")]
    TooManyHomeAgents(usize),
}

/// How packets pass the firewall's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// They are for the host itself.
    In,
    /// They are from the host itself.
    Out,
    /// From inside, to the device of the outbound plane.
    Sealed,
    /// From the device of the inbound plane, to inside.
    Opened,
    /// From one plane to the other: out of the device and into it again.
    Returned,
    /// From one side to the other, past the device.
    Forwarded,
}

/// Packets that the host's own filter must let pass. All others are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Passage {
    /// How.
    pub way: Way,
    /// Where they come from, and their protocol.
    pub from: TrafficSelector,
    /// Where they go, and their protocol.
    pub to: TrafficSelector,
}

impl Config {
    /// What the host's own filter must let pass, each once. ICMP about these packets comes on top:
    /// the host's filter knows it by the packets that it quotes.
    pub fn passages(&self) -> Vec<Passage> {
        let mut all = Vec::new();
        for (origin, template) in &self.entries {
            let peer = origin.selector();
            both_ways(&mut all, protocol::SKIP, peer, host(self.outside));
            let mut pass = |way, from, to| all.push(Passage { way, from, to });
            for inside in &template.inside {
                pass(Way::Opened, peer, *inside);
                pass(Way::Sealed, *inside, peer);
            }
            if *origin == Origin::Nomadic && self.takes_udp {
                both_ways(&mut all, protocol::UDP, peer, host(self.outside));
            }
            let mut pass = |way, from, to| all.push(Passage { way, from, to });
            if *origin == Origin::Nomadic {
                for agent in &self.home_agents {
                    pass(Way::Returned, peer, host(*agent));
                    pass(Way::Returned, host(*agent), peer);
                }
            }
        }
        for agent in &self.home_agents {
            both_ways(&mut all, protocol::IPV4, host(*agent), host(self.inside));
        }
        for address in &self.end_to_end {
            let (skip, anyone) = (
                of(protocol::SKIP, host(*address)),
                of(protocol::SKIP, any()),
            );
            for (from, to) in [(anyone, skip), (skip, anyone)] {
                let way = Way::Forwarded;
                all.push(Passage { way, from, to });
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Addresses inside, and those of home agents, nodes and ourselves: nobody outside has them. An
    /// entry that reaches everything says nothing about it.
    pub(super) fn reserved(&self, list: &AccessList<Template>) -> Reserved {
        let own = [self.outside, self.inside];
        let entries = || list.iter().map(|(_, entry)| entry);
        let networks = entries().flat_map(|it| &it.template.inside).copied();
        Reserved::new(
            own.into_iter().chain(self.home_agents.iter().copied()),
            entries().filter_map(Entry::home_address),
            networks.filter(|it| *it != any()),
        )
    }

    /// Takes the access list out, checked.
    pub(super) fn take_list(&mut self) -> Result<AccessList<Template>, Fault> {
        if self.home_agents.len() > HOME_AGENTS_MAX {
            return Err(Fault::TooManyHomeAgents(self.home_agents.len()));
        }
        let mut homes = BTreeMap::new();
        let needs_home = self.mode == Mode::PacketParsing || self.removes_header || self.takes_udp;
        for (number, (origin, template)) in self.entries.iter().enumerate() {
            let id = EntryId(number);
            let home = template.home().filter(|_| *origin == Origin::Nomadic);
            match home.and_then(|home| homes.insert(home, id)) {
                Some(other) => return Err(Fault::RepeatedHome(other, id)),
                None if home.is_none() && needs_home && *origin == Origin::Nomadic => {
                    return Err(Fault::NoHomeAddress(id));
                }
                None => {}
            }
            if !template.association.is_authenticated() {
                return Err(Fault::Unauthenticated(id));
            }
            if template.reach(*origin, &self.home_agents).is_empty() {
                return Err(Fault::NothingInside(id));
            }
        }
        let entries = core::mem::take(&mut self.entries).into_iter();
        let entries = entries.map(|(origin, template)| {
            let (local, remote) = template.association.names();
            Entry {
                origin,
                local,
                remote,
                template,
            }
        });
        AccessList::new(entries.collect()).map_err(Fault::List)
    }
}

impl Entry<Template> {
    /// The home address of its mobile node, where it is known.
    pub(super) fn home_address(&self) -> Option<Ipv4Addr> {
        let home = self.template.home();
        home.filter(|_| self.origin == Origin::Nomadic)
    }
}

impl Template {
    /// A mobile node's home address, if it is known.
    pub fn home(&self) -> Option<Ipv4Addr> {
        let (_, name) = self.association.names();
        let octets = <[u8; 4]>::try_from(name.mkid()).ok();
        let named = octets.filter(|_| name.nsid() == Nsid::Ipv4);
        self.home_address.or(named.map(Ipv4Addr::from))
    }

    /// Addresses inside that an entry of this origin reaches.
    pub(super) fn reach(&self, origin: Origin, home_agents: &[Ipv4Addr]) -> Vec<TrafficSelector> {
        let mut inside = self.inside.clone();
        if origin == Origin::Nomadic {
            inside.extend(home_agents.iter().map(|agent| host(*agent)));
        }
        inside
    }
}

impl Origin {
    /// Its addresses.
    pub(crate) fn selector(self) -> TrafficSelector {
        match self {
            Self::Host(address) => host(address),
            Self::Network(first, bits) => TrafficSelector::subnet(first.into(), bits),
            Self::Nomadic => any(),
        }
    }
}

/// Packets of a protocol between a peer and ourselves. Of UDP, our port is SKIP's.
fn both_ways(all: &mut Vec<Passage>, protocol: u8, peer: TrafficSelector, own: TrafficSelector) {
    let (peer, mut own) = (of(protocol, peer), of(protocol, own));
    if protocol == protocol::UDP {
        own.ports = Ports::of_ikev1(PORT);
    }
    for (way, from, to) in [(Way::In, peer, own), (Way::Out, own, peer)] {
        all.push(Passage { way, from, to });
    }
}

fn of(protocol: u8, selector: TrafficSelector) -> TrafficSelector {
    TrafficSelector {
        protocol,
        ..selector
    }
}

pub(super) fn host(address: Ipv4Addr) -> TrafficSelector {
    TrafficSelector::host(IpAddr::V4(address))
}

/// Any address.
pub(super) fn any() -> TrafficSelector {
    TrafficSelector::subnet(Ipv4Addr::UNSPECIFIED.into(), 0)
}
