//! What a firewall is and allows.

use std::net::{IpAddr, Ipv4Addr};

use wire::ip::protocol;

use super::access::{AccessList, Entry, EntryId, ListFault, Origin};
use crate::selector::TrafficSelector;
use crate::skip::Association;
use crate::time::Duration;

/// A node that is silent for so long is forgotten: twice the lifetime of a registration that
/// Mobile IPv4 grants by default, so that one lost renewal ends no binding.
pub const LIFETIME: Duration = Duration::from_secs(3_600);

/// Home agents and firewalls further inside.
pub const HOME_AGENTS_MAX: usize = 1_000;

/// A firewall's configuration.
#[derive(Clone)]
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
}

/// How the packets of an entry are protected, and where they may go.
#[derive(Clone)]
pub struct Template {
    /// Names, algorithms and secret.
    pub association: Association,
    /// Addresses inside that its packets go to and come from. A mobile node's are these and the
    /// home agents.
    pub inside: Vec<TrafficSelector>,
    /// Of `skip-paper`: the bound of n that was stored last ([`super::Output::StoreN`]).
    pub stored_n: u32,
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
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Takes the access list out, checked.
    pub(super) fn take_list(&mut self) -> Result<AccessList<Template>, Fault> {
        if self.home_agents.len() > HOME_AGENTS_MAX {
            return Err(Fault::TooManyHomeAgents(self.home_agents.len()));
        }
        for (number, (origin, template)) in self.entries.iter().enumerate() {
            let id = EntryId(number);
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

impl Template {
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
    pub(super) fn selector(self) -> TrafficSelector {
        match self {
            Self::Host(address) => host(address),
            Self::Network(first, bits) => TrafficSelector::subnet(first.into(), bits),
            Self::Nomadic => any(),
        }
    }
}

/// Packets of a protocol between a peer and ourselves.
fn both_ways(all: &mut Vec<Passage>, protocol: u8, peer: TrafficSelector, own: TrafficSelector) {
    let of = |selector| TrafficSelector {
        protocol,
        ..selector
    };
    let (peer, own) = (of(peer), of(own));
    all.extend([
        Passage {
            way: Way::In,
            from: peer,
            to: own,
        },
        Passage {
            way: Way::Out,
            from: own,
            to: peer,
        },
    ]);
}

pub(super) fn host(address: Ipv4Addr) -> TrafficSelector {
    TrafficSelector::host(IpAddr::V4(address))
}

/// Any address.
pub(super) fn any() -> TrafficSelector {
    TrafficSelector::subnet(Ipv4Addr::UNSPECIFIED.into(), 0)
}
