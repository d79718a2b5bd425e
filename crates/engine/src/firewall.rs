//! The firewall of a mobile private network: who may send through it, and where nodes on the move
//! are (Gupta and Montenegro, Secure and Mobile Networking, 1998).
//!
//! A default-deny firewall between a private network and the internet lets mobile nodes in by keys
//! that are in each packet. Its [access list](access) says which names may come from which
//! addresses, and how their packets are protected. A *nomadic* entry holds for any address: the
//! first authentic packet that fits it [binds](bindings) the entry to the packet's source, which is
//! the node's care-of address from then on. Packets from inside to that address are protected as
//! the entry says.
//!
//! [`Firewall`] is the machine over both: it turns entries and bindings into SAs of the packet
//! planes. Outside, packets are in SKIP. Inside, those of mobile nodes are in an IP-in-IP tunnel
//! between the firewall and the home agent. [`endpoint`] runs the machine and both planes on one
//! thread.
//!
//! Left out: the packets themselves, which are the packet plane's.

pub mod access;
pub mod bindings;
mod config;
pub mod endpoint;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use wire::ip::{Flow, protocol};

use self::access::{AccessList, Entry, EntryId, Origin};
use self::bindings::{Binding, Bindings, Heard};
pub use self::config::{Config, Fault, HOME_AGENTS_MAX, LIFETIME, Mode, Passage, Template, Way};
use self::config::{any, host};
use crate::plane::{InboundChange, Notice, OutboundChange, SaReport};
use crate::sa::{
    Aim, ChildId, Direction, Encapsulation, InLine, Lead, Mobile, Path, Reserved, Sa, Sender,
};
use crate::skip::Profile;
use crate::skip::counter::LEAP;
use crate::skip::udp::PORT;
use crate::time::{Deadline, Instant};

/// The children of entries have numbers from here on, those of home agents after them. Those of a
/// node and of [`crate::mip4::carriers`] are elsewhere.
pub const FIRST_CHILD: u32 = 0x4000_0000;

/// The firewall's machine: entries and bindings in, SAs out. It never sees a packet.
///
/// The owner has both packet planes, a TUN device, and raw sockets for SKIP (outside) and IP in IP
/// (inside). It drives the machine like this:
///
/// - After [`Firewall::new`] and after each input, it polls until `None`. It gives changes to the
///   planes, in order; it writes [`Output::StoreN`] to disk, then says [`Firewall::n_is_stored`];
///   at [`Output::WantsReport`] it gives [`InboundPlane::report`]'s list to [`Firewall::report`].
/// - It gives each [`Notice`] of either plane to [`Firewall::handle`], and calls
///   [`Firewall::handle_timeout`] at [`Firewall::deadline`].
/// - It tells both planes the calendar time each minute ([`InboundChange::Calendar`]): without it
///   nothing is sealed or opened.
/// - Its filter lets pass what [`Config::passages`] says, and drops and counts the rest. Its routes
///   do the same: [`Way::Sealed`] leads into the device, [`Way::Opened`] out of it and on, and what
///   [`Firewall::returns`] says leads from the device into the device: a mobile node's packet comes
///   out of SKIP and goes into the tunnel to its home agent, and back. The tunnel's own packets are
///   the host's, so they are not routed there: a rule on the incoming device tells them apart.
/// - At a restart it makes a new machine with the bounds that were stored, and what
///   [`Output::KeepN`] has said. The bindings are lost: each node's next packet makes its own
///   again.
///
/// [`InboundPlane::report`]: crate::plane::InboundPlane::report
pub struct Firewall {
    outside: Ipv4Addr,
    inside: Ipv4Addr,
    home_agents: Vec<Ipv4Addr>,
    mode: Mode,
    removes_header: bool,
    takes_udp: bool,
    end_to_end: Vec<Ipv4Addr>,
    access: AccessList<Template>,
    reserved: Arc<Reserved>,
    bindings: Bindings,
    /// Nodes that were heard at an address that is another entry's.
    claims: BTreeMap<EntryId, Claim>,
    /// The owner owes us a report.
    is_asked: bool,
    outputs: VecDeque<Output>,
}

/// A node at an address that is another entry's.
#[derive(Clone, Copy)]
struct Claim {
    care_of: SocketAddrV4,
    /// When the other entry may have lost the address.
    due: Instant,
    /// The log knows it.
    is_told: bool,
}

/// What the owner must do, in order.
pub enum Output {
    /// Change the inbound plane.
    Inbound(InboundChange),
    /// Change the outbound plane.
    Outbound(OutboundChange),
    /// Give the inbound plane's report ([`Firewall::report`]).
    WantsReport,
    /// Write this bound of an entry's n to disk, then say [`Firewall::n_is_stored`].
    StoreN {
        /// Which entry.
        entry: EntryId,
        /// The bound.
        bound: u32,
    },
    /// Keep this on disk, soon: a packet from an entry's node, or from its network, had this n.
    KeepN {
        /// Which entry.
        entry: EntryId,
        /// The highest n so far.
        n: u32,
    },
    /// For the log.
    Event(Event),
}

/// A past fact about a nomadic entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its node was heard, and had no binding.
    Bound {
        /// Which entry.
        entry: EntryId,
        /// Where the node is.
        care_of: SocketAddrV4,
    },
    /// Its node was heard somewhere else.
    Moved {
        /// Which entry.
        entry: EntryId,
        /// Where it was.
        former: SocketAddrV4,
        /// Where it is.
        care_of: SocketAddrV4,
    },
    /// Another entry's node is at its address. Its own node was silent, and has no binding.
    Displaced {
        /// Which entry.
        entry: EntryId,
        /// The address.
        care_of: SocketAddrV4,
        /// The other entry.
        by: EntryId,
    },
    /// Its node was heard at the address of another entry, whose node is alive. It has no binding
    /// there.
    Taken {
        /// Which entry.
        entry: EntryId,
        /// The address.
        care_of: SocketAddrV4,
        /// The other entry.
        by: EntryId,
    },
    /// Its node was silent for the lifetime of a binding.
    Expired {
        /// Which entry.
        entry: EntryId,
        /// Where it was.
        care_of: SocketAddrV4,
    },
}

impl Firewall {
    /// A firewall without bindings.
    pub fn new(mut config: Config) -> Result<Self, Fault> {
        let access = config.take_list()?;
        let reserved = Arc::new(config.reserved(&access));
        let mut firewall = Self {
            outside: config.outside,
            inside: config.inside,
            home_agents: config.home_agents,
            mode: config.mode,
            removes_header: config.removes_header,
            takes_udp: config.takes_udp,
            end_to_end: config.end_to_end,
            access,
            reserved,
            bindings: Bindings::new(config.lifetime),
            claims: BTreeMap::new(),
            is_asked: false,
            outputs: VecDeque::new(),
        };
        firewall.open_tunnels();
        let ids = firewall.access.iter().map(|(id, _)| id);
        for id in ids.collect::<Vec<_>>() {
            firewall.open_entry(id);
        }
        Ok(firewall)
    }

    /// A plane says something. What is about others' children is ignored.
    pub fn handle(&mut self, notice: &Notice, now: Instant) {
        match notice {
            Notice::PathMoved { child, path, .. } => {
                let (Some(entry), SocketAddr::V4(from)) = (self.entry_of(*child), path.remote)
                else {
                    return;
                };
                if self.access.entry(entry).origin == Origin::Nomadic {
                    self.hear(entry, from, now);
                }
            }
            Notice::StoreN { child, bound } => {
                let entry = self.entry_of(*child);
                let bound = *bound;
                let stores = entry.map(|entry| Output::StoreN { entry, bound });
                self.outputs.extend(stores);
            }
            Notice::HeardN { child, n } => {
                let (entry, n) = (self.entry_of(*child), *n);
                let keeps = entry.map(|entry| Output::KeepN { entry, n });
                self.outputs.extend(keeps);
            }
            _ => {}
        }
    }

    /// The bound of [`Output::StoreN`] is on the disk.
    pub fn n_is_stored(&mut self, entry: EntryId, bound: u32) {
        let change = OutboundChange::StoredN(child_of(entry), bound);
        self.outputs.push_back(Output::Outbound(change));
    }

    /// What our link outside carries. The planes ask for it themselves where an SA has one other
    /// end; this tells those that have many.
    pub fn set_link_mtu(&mut self, mtu: u16) {
        for (id, _) in self.access.iter() {
            if self.lead(id, None).aim != Aim::Path {
                let change = OutboundChange::LinkMtu(child_of(id), mtu);
                self.outputs.push_back(Output::Outbound(change));
            }
        }
    }

    /// What the inbound plane has opened so far, the answer to [`Output::WantsReport`].
    pub fn report(&mut self, associations: &[SaReport], now: Instant) {
        self.is_asked = false;
        let mut heard = BTreeMap::new();
        for report in associations {
            let (Some(entry), Some(last)) = (self.entry_of(report.child), report.last) else {
                continue;
            };
            match self.claims.contains_key(&entry) {
                true => drop(heard.insert(entry, last)),
                false => self.bindings.touch(entry, last),
            }
        }
        for (entry, claim) in core::mem::take(&mut self.claims) {
            self.decide(entry, claim, heard.get(&entry).copied(), now);
        }
        for (entry, binding) in self.bindings.expire(now) {
            let care_of = binding.care_of;
            self.lose(entry);
            self.tell(Event::Expired { entry, care_of });
        }
    }

    /// Time has passed: a binding may be over.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline.at <= now) {
            self.ask();
        }
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Firewall::handle_timeout`] is due.
    pub fn deadline(&self) -> Option<Deadline> {
        if self.is_asked {
            return None; // the report comes first
        }
        let due = self.claims.values().map(|claim| claim.due).min();
        let claim = due.map(|at| Deadline {
            at,
            why: "see who is at an address",
        });
        self.bindings.deadline().into_iter().chain(claim).min()
    }

    /// One entry, for its names. Panics for a number that is not of this firewall.
    pub fn entry(&self, id: EntryId) -> &Entry<Template> {
        self.access.entry(id)
    }

    /// Where the nodes of entries are.
    pub fn bindings(&self) -> impl Iterator<Item = (EntryId, &Binding)> {
        self.bindings.iter()
    }

    /// Whether an opened packet goes into the outbound plane again: it is from a mobile node for a
    /// home agent, or back.
    pub fn returns(&self, source: IpAddr, destination: IpAddr) -> bool {
        let is_agent = |address| match address {
            IpAddr::V4(v4) => self.home_agents.contains(&v4),
            IpAddr::V6(_) => false,
        };
        is_agent(source) || is_agent(destination)
    }

    /// Whether a packet passes as it is: SKIP from end to end.
    pub fn forwards(&self, flow: &Flow) -> bool {
        let is_end = |address| match address {
            IpAddr::V4(v4) => self.end_to_end.contains(&v4),
            IpAddr::V6(_) => false,
        };
        flow.protocol == protocol::SKIP && (is_end(flow.source) || is_end(flow.destination))
    }

    /// Whether a packet from inside goes into the outbound plane.
    pub fn seals(&self, source: IpAddr, destination: IpAddr) -> bool {
        let all = self.access.iter();
        all.map(|(id, entry)| (id, entry.origin, &entry.template))
            .any(|(id, origin, template)| {
                let is_there = match origin {
                    Origin::Nomadic => self.lead(id, self.care_of(id)).takes(destination),
                    fixed => fixed.selector().contains_address(destination),
                };
                let mut inside = template.inside.iter();
                is_there && inside.any(|one| one.contains_address(source))
            })
    }

    fn care_of(&self, id: EntryId) -> Option<SocketAddrV4> {
        self.bindings.of(id).map(|binding| binding.care_of)
    }

    /// The tunnels to home agents.
    fn open_tunnels(&mut self) {
        let first = FIRST_CHILD + access::ENTRIES_MAX as u32;
        for (number, agent) in (first..).zip(self.home_agents.clone()) {
            let path = Path::raw(self.inside.into(), agent.into());
            let sa = |direction| {
                let named = (direction, ChildId(number), number);
                let (local, remote) = (vec![any()], vec![host(agent)]);
                let mut sa = Sa::tunnel(named, Encapsulation::IpInIp, path, local, remote);
                sa.removes_header = self.removes_header;
                Box::new(sa)
            };
            let inbound = InboundChange::Install(sa(Direction::Inbound));
            let outbound = OutboundChange::Install(sa(Direction::Outbound));
            self.outputs.push_back(Output::Inbound(inbound));
            self.outputs.push_back(Output::Outbound(outbound));
        }
    }

    /// The SAs of an entry.
    fn open_entry(&mut self, id: EntryId) {
        let entry = self.access.entry(id);
        let (origin, template, child) = (entry.origin, entry.template.clone(), child_of(id));
        let lead = self.lead(id, None);
        let sa = |direction, in_line| {
            let (local, remote) = (lead.local.clone(), lead.remote.clone());
            Sa::skip((direction, child), in_line, lead.path, local, remote)
        };
        let in_line = || InLine::new(template.association.clone(), child.0);
        let mut inbound = sa(
            Direction::Inbound,
            InLine {
                from: (origin != Origin::Nomadic).then(|| origin.selector()),
                sender: self.sender(id),
                stored_n: template.heard_n,
                ..in_line()
            },
        );
        inbound.remote = vec![origin.selector()];
        let mut outbound = sa(
            Direction::Outbound,
            InLine {
                aim: lead.aim,
                stored_n: template.stored_n,
                ..in_line()
            },
        );
        outbound.removes_header = self.removes_header && origin == Origin::Nomadic;
        let inbound = InboundChange::Install(Box::new(inbound));
        let outbound = OutboundChange::Install(Box::new(outbound));
        self.outputs.push_back(Output::Inbound(inbound));
        self.outputs.push_back(Output::Outbound(outbound));
        if template.association.profile() == Profile::Paper {
            // Stored before the first packet, which would otherwise be lost.
            let bound = template.stored_n.saturating_add(LEAP);
            self.outputs.push_back(Output::StoreN { entry: id, bound });
        }
    }

    /// What an entry's node, or the hosts of its network, may write.
    fn sender(&self, id: EntryId) -> Sender {
        let entry = self.access.entry(id);
        match entry.origin {
            Origin::Host(_) => Sender::Any,
            Origin::Network(..) => Sender::Host,
            Origin::Nomadic => Sender::Mobile(Mobile {
                home_address: entry.home_address(),
                inside: entry.template.inside.clone(),
                reserved: self.reserved.clone(),
            }),
        }
    }

    /// Where an entry's outbound SA leads. A mobile node's needs its binding.
    fn lead(&self, id: EntryId, care_of: Option<SocketAddrV4>) -> Lead {
        let entry = self.access.entry(id);
        let raw = |remote: Ipv4Addr| Path::raw(self.outside.into(), remote.into());
        let nowhere = raw(Ipv4Addr::UNSPECIFIED);
        let (is_parsed, home) = (self.mode == Mode::PacketParsing, entry.home_address());
        let (path, aim, remote) = match (entry.origin, care_of, home) {
            (Origin::Host(address), ..) => (raw(address), Aim::Path, vec![host(address)]),
            (Origin::Network(..), ..) => (nowhere, Aim::Destination, vec![entry.origin.selector()]),
            // Its care-of address may be another node's too.
            (Origin::Nomadic, Some(nat), Some(home)) if nat.port() != 0 => {
                let path = Path::udp_with_skip((self.outside, PORT), nat);
                (path, Aim::Home(home), vec![any()])
            }
            (Origin::Nomadic, _, Some(home)) if is_parsed => {
                (nowhere, Aim::Home(home), vec![any()])
            }
            // Another node may have had the care-of address before.
            (Origin::Nomadic, Some(care_of), home) => {
                let care_of = *care_of.ip();
                let aim = home.map_or(Aim::Path, Aim::Home);
                (raw(care_of), aim, vec![host(care_of)])
            }
            (Origin::Nomadic, None, _) => (nowhere, Aim::Path, Vec::new()),
        };
        Lead {
            path,
            local: entry.template.reach(entry.origin, &self.home_agents),
            remote,
            aim,
            is_nested: false,
        }
    }

    /// An authentic packet of an entry's node came from this address.
    fn hear(&mut self, entry: EntryId, from: SocketAddrV4, now: Instant) {
        self.claims.remove(&entry);
        // A binding to an address inside would take its packets.
        let own = self.access.entry(entry).home_address();
        let is_inside = self.reserved.holds(*from.ip(), own);
        // Nothing tells its packets from those of a host that has a line.
        let is_fixed = own.is_none() && self.access.has_fixed(*from.ip());
        if from.port() != 0 && !self.takes_udp || is_inside || is_fixed {
            return;
        }
        if from.port() == 0 && self.mode == Mode::PacketParsing {
            // Its packets tell where it is. It may have come out from behind a NAT.
            if self.bindings.forget(entry).is_some() {
                self.direct(entry, None);
            }
            return;
        }
        let holder = self.bindings.entry_at(from);
        if holder.is_none_or(|holder| holder == entry) {
            self.bind(entry, from, now);
            return;
        }
        // Only a report tells whether the holder's node is alive.
        let claim = Claim {
            care_of: from,
            due: now,
            is_told: false,
        };
        self.claims.insert(entry, claim);
        self.ask();
    }

    /// Who gets an address that two nodes have. The one without it was last heard at `heard`.
    fn decide(&mut self, entry: EntryId, claim: Claim, heard: Option<Instant>, now: Instant) {
        let care_of = claim.care_of;
        if let Some((by, until)) = self.bindings.keeper(care_of, now) {
            if !claim.is_told {
                self.tell(Event::Taken { entry, care_of, by });
            }
            let later = Claim {
                due: until,
                is_told: true,
                ..claim
            };
            self.claims.insert(entry, later);
            return;
        }
        let holder = self.bindings.entry_at(care_of);
        let last = holder.and_then(|it| Some(self.bindings.of(it)?.last));
        match last {
            // It was not heard after the holder: its next packet tells where it is.
            Some(last) if heard.is_none_or(|heard| heard <= last) => self.overlook(entry),
            _ => self.bind(entry, care_of, now),
        }
    }

    /// An entry's node is here, and nobody keeps the address from it.
    fn bind(&mut self, entry: EntryId, care_of: SocketAddrV4, now: Instant) {
        let Heard::Bound { former, displaced } = self.bindings.hear(entry, care_of, now) else {
            return;
        };
        if let Some(other) = displaced {
            self.lose(other);
            self.tell(Event::Displaced {
                entry: other,
                care_of,
                by: entry,
            });
        }
        self.direct(entry, Some(care_of));
        self.tell(match former {
            None => Event::Bound { entry, care_of },
            Some(former) => Event::Moved {
                entry,
                former,
                care_of,
            },
        });
    }

    /// Nothing goes to an entry's node any more.
    fn lose(&mut self, entry: EntryId) {
        self.claims.remove(&entry);
        self.direct(entry, None);
        self.overlook(entry);
    }

    /// Packets for an entry's node go there.
    fn direct(&mut self, entry: EntryId, care_of: Option<SocketAddrV4>) {
        let lead = Box::new(self.lead(entry, care_of));
        let change = OutboundChange::Lead(child_of(entry), lead);
        self.outputs.push_back(Output::Outbound(change));
    }

    /// The next packet of an entry's node is news, wherever it comes from.
    fn overlook(&mut self, entry: EntryId) {
        let anywhere = Lead {
            remote: vec![any()],
            ..self.lead(entry, None)
        };
        let change = InboundChange::Lead(child_of(entry), Box::new(anywhere));
        self.outputs.push_back(Output::Inbound(change));
    }

    fn ask(&mut self) {
        if !self.is_asked {
            self.is_asked = true;
            self.outputs.push_back(Output::WantsReport);
        }
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn entry_of(&self, child: ChildId) -> Option<EntryId> {
        let number = child.0.checked_sub(FIRST_CHILD)? as usize;
        (number < self.access.len()).then_some(EntryId(number))
    }
}

fn child_of(entry: EntryId) -> ChildId {
    ChildId(FIRST_CHILD + entry.0 as u32)
}

#[cfg(test)]
mod tests;
