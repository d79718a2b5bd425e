//! What carries the packets of home addresses: the tunnels that the machines agree on, as SAs of
//! the packet planes.
//!
//! Each carrier is a child of its own with up to one SA each way. Several carriers of one home
//! address take the same packets: these are simultaneous bindings, and each gets a copy (RFC 5944
//! §4.3.4).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use wire::mip4::PORT;

use super::firewall::Outside;
use super::foreign_agent::Visitor;
use super::mobile_node::State;
use super::tunnel::Tunnel;
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{ChildId, Direction, Encapsulation, Path, Sa, Via};
use crate::selector::TrafficSelector;

/// The children of carriers have numbers from here on. Those of a node are below.
pub const FIRST_CHILD: u32 = 0x8000_0000;

/// A change of a packet plane.
pub enum Change {
    /// Of the plane for packets from the network.
    Inbound(InboundChange),
    /// Of the plane for packets to the network.
    Outbound(OutboundChange),
}

/// Which packets a carrier takes in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// Addresses at our side.
    pub local: Vec<TrafficSelector>,
    /// Addresses at the other side.
    pub remote: Vec<TrafficSelector>,
}

/// A tunnel and its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// Its form. `None`: its packets leave by a link as they are, outbound alone.
    pub encapsulation: Option<Encapsulation>,
    /// Its ends, seen from us.
    pub path: Path,
    /// What may come out of it.
    pub inbound: Option<Traffic>,
    /// What goes into it.
    pub outbound: Option<Traffic>,
    /// Its packets are not sent, but go into another carrier or SA.
    pub is_nested: bool,
    /// If it is nested: its packets go into the carrier of this child, and no other.
    pub carried_by: Option<ChildId>,
    /// What comes out of it goes into another tunnel of ours, or nowhere; only what comes in by the
    /// interface of this index does (0: by any).
    pub sent_on_from: Option<u32>,
}

/// A care-of address and the firewall through which it is reached. Two private networks may have
/// the same addresses, each behind a firewall of its own.
pub type Traversal = (Ipv4Addr, Ipv4Addr);

/// Whose a carrier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A home address.
    Home(Ipv4Addr),
    /// A care-of address that is reached through a firewall, for all home addresses there.
    Traversal(Traversal),
    /// The firewalls of the configuration.
    Firewalls,
    /// A care-of address behind a firewall, for a reply that grants nothing.
    Reply,
}

/// All carriers of a mobile node or a foreign agent, or a part of those of a home agent.
#[derive(Debug, Default)]
pub struct Carriers {
    of: BTreeMap<Owner, Vec<(ChildId, Carrier)>>,
    made: u32,
}

/// All carriers of a home agent.
#[derive(Debug)]
pub struct HomeCarriers {
    own: HomeNetwork,
    outside: Vec<Outside>,
    /// Firewalls may leave out the header between care-of address and home agent.
    takes_short_form: bool,
    /// All tunnels of bindings go into another SA.
    nests_all: bool,
    carriers: Carriers,
    /// By home address: its ways through firewalls.
    traversing: BTreeMap<Ipv4Addr, BTreeSet<Traversal>>,
    /// How many home addresses have this way.
    uses: BTreeMap<Traversal, usize>,
}

/// The home network, for its broadcasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeNetwork {
    /// An address of it.
    pub address: Ipv4Addr,
    /// Bits of its prefix.
    pub prefix_len: u8,
}

impl Carriers {
    /// Makes these the carriers of an owner. Returns the changes of the planes: new carriers first,
    /// so that no packet is lost.
    pub fn follow(&mut self, owner: Owner, wanted: Vec<Carrier>) -> Vec<Change> {
        let mut former = self.of.remove(&owner).unwrap_or_default();
        let mut kept = Vec::new();
        let mut changes = Vec::new();
        for carrier in wanted {
            let same = former.iter().position(|(_, other)| *other == carrier);
            if let Some(at) = same {
                kept.push(former.swap_remove(at));
                continue;
            }
            let child = ChildId(FIRST_CHILD | (self.made & (FIRST_CHILD - 1)));
            self.made = self.made.wrapping_add(1);
            changes.extend(carrier.installs(child));
            kept.push((child, carrier));
        }
        for (child, carrier) in former {
            changes.extend(carrier.removes(child));
        }
        if !kept.is_empty() {
            self.of.insert(owner, kept);
        }
        changes
    }

    /// All carriers with their children, by owner.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, ChildId, &Carrier)> {
        let owners = self.of.iter();
        owners.flat_map(|(owner, carriers)| {
            let carriers = carriers.iter();
            carriers.map(|(child, carrier)| (*owner, *child, carrier))
        })
    }

    /// The carrier of a child.
    pub fn find(&self, child: ChildId) -> Option<(Owner, &Carrier)> {
        let mut all = self.iter();
        all.find(|(_, other, _)| *other == child)
            .map(|(owner, _, carrier)| (owner, carrier))
    }
}

impl HomeCarriers {
    /// Without bindings. `outside`: the firewalls of the configuration; [`Self::begin`] opens the
    /// way to them.
    pub fn new(own: HomeNetwork, outside: Vec<Outside>) -> Self {
        Self {
            own,
            outside,
            takes_short_form: false,
            nests_all: false,
            carriers: Carriers::default(),
            traversing: BTreeMap::new(),
            uses: BTreeMap::new(),
        }
    }

    /// The way to the firewalls: what comes from outside before it is registered, and the replies,
    /// take it. What a trusted firewall relays may come from anywhere.
    pub fn begin(&mut self, trusted: &BTreeSet<Ipv4Addr>) -> Vec<Change> {
        let own = self.own.address;
        let list = self.outside.iter();
        let listed = list.map(|one| Carrier::through(own, one.firewall, one.care_of));
        let relayed = trusted.iter().map(|firewall| Carrier {
            outbound: None,
            ..Carrier::through(own, *firewall, any())
        });
        self.carriers
            .follow(Owner::Firewalls, listed.chain(relayed).collect())
    }

    /// From the next bindings on, firewalls may leave out the header between care-of address and
    /// home agent.
    pub fn take_short_form(&mut self) {
        self.takes_short_form = true;
    }

    /// From the next bindings on, all tunnels of bindings go into another SA: SKIP from end to end.
    pub fn nest_all(&mut self) {
        self.nests_all = true;
    }

    /// A reply goes to this care-of address through this firewall
    /// ([`super::home_agent::Output::Send`]), unless the configuration names a firewall before it,
    /// or all go into another SA. The way of a binding does not count: it is for the packets of
    /// that binding alone. The last such way is kept.
    pub fn reply(&mut self, care_of: Ipv4Addr, firewall: Ipv4Addr) -> Vec<Change> {
        let is_known = self.knows_way(care_of);
        let way = Carrier {
            inbound: None,
            ..Carrier::through(self.own.address, firewall, host(care_of))
        };
        let wanted = if is_known { Vec::new() } else { vec![way] };
        self.carriers.follow(Owner::Reply, wanted)
    }

    /// These are the tunnels of a home address now.
    pub fn follow(&mut self, home: Ipv4Addr, tunnels: &[Tunnel]) -> Vec<Change> {
        let mut changes = self.carriers.follow(Owner::Reply, Vec::new());
        let (ways, former) = self.traverse(home, tunnels, &mut changes);
        let mut wanted = of_bindings(self.own, home, tunnels, &ways);
        for carrier in &mut wanted {
            carrier.is_nested |= self.nests_all && carrier.path.via == Via::Raw;
        }
        if self.takes_short_form {
            wanted.extend(short_forms(self.own, home, tunnels));
        }
        changes.extend(self.carriers.follow(Owner::Home(home), wanted));
        for way in former {
            changes.extend(self.give_up(way));
        }
        changes
    }

    /// All carriers.
    pub fn carriers(&self) -> &Carriers {
        &self.carriers
    }

    /// The ways of these tunnels that nothing else names, with their children, and those that
    /// the home address had. Two nodes with one care-of address and one firewall share the way:
    /// the firewall tells them apart.
    fn traverse(
        &mut self,
        home: Ipv4Addr,
        tunnels: &[Tunnel],
        changes: &mut Vec<Change>,
    ) -> (BTreeMap<Traversal, ChildId>, BTreeSet<Traversal>) {
        let each = tunnels.iter();
        let ways: BTreeSet<Traversal> = each
            .filter_map(|tunnel| Some((tunnel.care_of, tunnel.firewall?)))
            .filter(|(care_of, _)| !self.knows_way(*care_of))
            .collect();
        let mut children = BTreeMap::new();
        for way in &ways {
            *self.uses.entry(*way).or_default() += 1;
            // Without selectors: two such carriers would each get a copy of every packet.
            let nothing = Traffic {
                local: Vec::new(),
                remote: Vec::new(),
            };
            let carrier = Carrier {
                outbound: Some(nothing),
                ..Carrier::through(self.own.address, way.1, host(way.0))
            };
            changes.extend(self.carriers.follow(Owner::Traversal(*way), vec![carrier]));
            let made = self.carriers.of.get(&Owner::Traversal(*way));
            let child = made.and_then(|made| made.first());
            children.extend(child.map(|(child, _)| (*way, *child)));
        }
        let former = match ways.is_empty() {
            true => self.traversing.remove(&home),
            false => self.traversing.insert(home, ways),
        };
        (children, former.unwrap_or_default())
    }

    /// Whether packets for a care-of address have a way without a request: the configuration names
    /// it, or all go into another SA.
    fn knows_way(&self, care_of: Ipv4Addr) -> bool {
        self.nests_all || Outside::firewall(&self.outside, care_of).is_some()
    }

    /// A home address does not use this way any more.
    fn give_up(&mut self, way: Traversal) -> Vec<Change> {
        let Some(count) = self.uses.get_mut(&way) else {
            return Vec::new();
        };
        *count -= 1;
        if *count > 0 {
            return Vec::new();
        }
        self.uses.remove(&way);
        self.carriers.follow(Owner::Traversal(way), Vec::new())
    }
}

impl Carrier {
    /// What this host sends to another from one of its addresses leaves by a link, not in a tunnel.
    /// `local` and `remote`: which packets.
    pub fn by_link((own, remote): (Ipv4Addr, Ipv4Addr), traffic: Traffic) -> Self {
        Self {
            encapsulation: None,
            path: Path::raw(own.into(), remote.into()),
            inbound: None,
            outbound: Some(traffic),
            is_nested: false,
            carried_by: None,
            sent_on_from: None,
        }
    }

    fn installs(&self, child: ChildId) -> impl Iterator<Item = Change> {
        let sa = |direction, traffic: &Traffic| {
            let named = (direction, child, child.0);
            let (local, remote) = (traffic.local.clone(), traffic.remote.clone());
            let mut sa = match self.encapsulation {
                Some(form) => Sa::tunnel(named, form, self.path, local, remote),
                None => Sa::nothing((child, child.0), self.path, local, remote),
            };
            sa.is_nested = self.is_nested;
            sa.carried_by = self.carried_by;
            sa.sent_on_from = self.sent_on_from;
            Box::new(sa)
        };
        let inbound = self.inbound.as_ref().map(|traffic| {
            let sa = sa(Direction::Inbound, traffic);
            Change::Inbound(InboundChange::Install(sa))
        });
        let outbound = self.outbound.as_ref().map(|traffic| {
            let sa = sa(Direction::Outbound, traffic);
            Change::Outbound(OutboundChange::Install(sa))
        });
        inbound.into_iter().chain(outbound)
    }

    fn removes(&self, child: ChildId) -> impl Iterator<Item = Change> + use<> {
        let inbound = self.inbound.is_some();
        let inbound = inbound.then(|| Change::Inbound(InboundChange::Remove(child, child.0)));
        let outbound = self.outbound.is_some();
        let outbound = outbound.then(|| Change::Outbound(OutboundChange::Remove(child, child.0)));
        inbound.into_iter().chain(outbound)
    }
}

/// A home agent's carriers of one home address, without those to firewalls: `ways`.
fn of_bindings(
    own: HomeNetwork,
    home: Ipv4Addr,
    tunnels: &[Tunnel],
    ways: &BTreeMap<Traversal, ChildId>,
) -> Vec<Carrier> {
    let mut carriers = Vec::new();
    for tunnel in tunnels.iter().filter(|it| !it.is_half_bound()) {
        let path = match tunnel.udp {
            Some(udp) => Path::udp_with_type((own.address, PORT), udp),
            None => Path::raw(own.address.into(), tunnel.care_of.into()),
        };
        let mut remote = vec![host(home)];
        if tunnel.has_broadcasts && tunnel.is_colocated {
            remote.extend(own.broadcasts());
        }
        carriers.push(Carrier {
            encapsulation: Some(tunnel.encapsulation),
            path,
            inbound: tunnel.is_reverse.then(|| Traffic {
                local: vec![any()],
                remote: vec![host(home)],
            }),
            outbound: Some(Traffic {
                local: vec![any()],
                remote,
            }),
            is_nested: tunnel.firewall.is_some(),
            carried_by: tunnel
                .firewall
                .and_then(|it| ways.get(&(tunnel.care_of, it)).copied()),
            sent_on_from: None,
        });
        if tunnel.has_broadcasts && !tunnel.is_colocated {
            carriers.push(Carrier::of_broadcasts(own, home));
        }
    }
    carriers.dedup();
    carriers
}

/// What comes from the firewalls of a home address without the header between care-of address and
/// home agent. The firewall has checked whose it is.
fn short_forms(own: HomeNetwork, home: Ipv4Addr, tunnels: &[Tunnel]) -> Vec<Carrier> {
    let reverse = tunnels.iter().filter(|tunnel| tunnel.is_reverse);
    let mut firewalls: Vec<Ipv4Addr> = reverse.filter_map(|tunnel| tunnel.firewall).collect();
    firewalls.sort_unstable();
    firewalls.dedup();
    let each = firewalls.into_iter().map(|firewall| Carrier {
        encapsulation: Some(Encapsulation::IpInIp),
        path: Path::raw(own.address.into(), firewall.into()),
        inbound: Some(Traffic {
            local: vec![any()],
            remote: vec![host(home)],
        }),
        outbound: None,
        is_nested: false,
        carried_by: None,
        sent_on_from: None,
    });
    each.collect()
}

/// A mobile node's carriers. `own` is its home address with the prefix of its home network.
pub fn of_node(own: HomeNetwork, home_agent: Ipv4Addr, state: &State) -> Vec<Carrier> {
    let State::Registered {
        tunnel,
        through,
        encapsulates_delivery,
        ..
    } = state
    else {
        return Vec::new();
    };
    let Some(agent) = through.filter(|_| !tunnel.is_colocated) else {
        let path = match tunnel.udp {
            Some(udp) => Path::udp_with_type((tunnel.care_of, PORT), udp),
            None => Path::raw(tunnel.care_of.into(), home_agent.into()),
        };
        let mut local = vec![host(own.address)];
        if tunnel.has_broadcasts {
            local.extend(own.broadcasts());
        }
        return vec![Carrier {
            encapsulation: Some(tunnel.encapsulation),
            path,
            inbound: Some(Traffic {
                local,
                remote: vec![any()],
            }),
            outbound: tunnel.is_reverse.then(|| Traffic {
                local: vec![host(own.address)],
                remote: vec![any()],
            }),
            is_nested: false,
            carried_by: None,
            sent_on_from: None,
        }];
    };
    let mut carriers = Vec::new();
    if *encapsulates_delivery {
        carriers.push(Carrier {
            encapsulation: Some(Encapsulation::IpInIp),
            path: Path::raw(own.address.into(), agent.into()),
            inbound: None,
            outbound: Some(Traffic {
                local: vec![host(own.address)],
                remote: vec![any()],
            }),
            is_nested: false,
            carried_by: None,
            sent_on_from: None,
        });
    }
    if tunnel.has_broadcasts {
        carriers.push(Carrier {
            encapsulation: Some(Encapsulation::IpInIp),
            path: Path::raw(own.address.into(), home_agent.into()),
            inbound: Some(Traffic {
                local: own.broadcasts().to_vec(),
                remote: vec![any()],
            }),
            outbound: None,
            is_nested: false,
            carried_by: None,
            sent_on_from: None,
        });
    }
    carriers
}

/// A foreign agent's carriers of one visitor. `address` is its own on the visitors' link, whose
/// index is `link` (0: not known).
pub fn of_visitor(
    (address, link): (Ipv4Addr, u32),
    care_of: Ipv4Addr,
    visitor: &Visitor,
) -> Vec<Carrier> {
    let home = host(visitor.home_address);
    let mut carriers = vec![Carrier {
        encapsulation: Some(visitor.encapsulation),
        path: match visitor.udp {
            Some(udp) => Path::udp_with_type((care_of, PORT), udp),
            None => Path::raw(care_of.into(), visitor.home_agent.into()),
        },
        inbound: Some(Traffic {
            local: vec![home],
            remote: vec![any()],
        }),
        outbound: visitor.is_reverse.then(|| Traffic {
            local: vec![home],
            remote: vec![any()],
        }),
        is_nested: false,
        carried_by: None,
        sent_on_from: None,
    }];
    if visitor.encapsulates_delivery {
        carriers.push(Carrier {
            encapsulation: Some(Encapsulation::IpInIp),
            path: Path::raw(address.into(), visitor.home_address.into()),
            inbound: Some(Traffic {
                local: vec![any()],
                remote: vec![home],
            }),
            outbound: None,
            is_nested: false,
            carried_by: None,
            sent_on_from: Some(link),
        });
    }
    carriers
}

impl Carrier {
    /// Broadcasts through a foreign agent: in a tunnel to the node itself, which goes through the
    /// tunnel to the agent (RFC 5944 §4.3).
    fn of_broadcasts(own: HomeNetwork, home: Ipv4Addr) -> Self {
        Self {
            encapsulation: Some(Encapsulation::IpInIp),
            path: Path::raw(own.address.into(), home.into()),
            inbound: None,
            outbound: Some(Traffic {
                local: vec![any()],
                remote: own.broadcasts().to_vec(),
            }),
            is_nested: true,
            carried_by: None,
            sent_on_from: None,
        }
    }

    /// Packets between us and care-of addresses outside, in a plain tunnel to the firewall.
    fn through(own: Ipv4Addr, firewall: Ipv4Addr, care_of: TrafficSelector) -> Self {
        let traffic = Traffic {
            local: vec![host(own)],
            remote: vec![care_of],
        };
        Self {
            encapsulation: Some(Encapsulation::IpInIp),
            path: Path::raw(own.into(), firewall.into()),
            inbound: Some(traffic.clone()),
            outbound: Some(traffic),
            is_nested: false,
            carried_by: None,
            sent_on_from: None,
        }
    }
}

impl HomeNetwork {
    /// The broadcast address of the network, and that of any network.
    fn broadcasts(self) -> [TrafficSelector; 2] {
        let network = TrafficSelector::subnet(self.address.into(), self.prefix_len);
        let last = TrafficSelector::host(network.last);
        [last, host(Ipv4Addr::BROADCAST)]
    }
}

fn host(address: Ipv4Addr) -> TrafficSelector {
    TrafficSelector::host(IpAddr::V4(address))
}

/// Any address.
fn any() -> TrafficSelector {
    TrafficSelector::subnet(Ipv4Addr::UNSPECIFIED.into(), 0)
}

#[cfg(test)]
mod tests;
