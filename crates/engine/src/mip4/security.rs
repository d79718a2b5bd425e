//! What secures the packets between a mobile node outside and the firewall of its home network. All
//! that the node sends to its home agent goes through it: requests, and data in their tunnel.
//! Inside the firewall, and at home, nothing does.

use std::net::{IpAddr, Ipv4Addr};

use wire::ip::protocol;

use super::carriers::{Carrier, Change};
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{Aim, ChildId, Direction, InLine, Lead, Path, Sa, Via};
use crate::selector::TrafficSelector;
use crate::skip::counter::LEAP;
use crate::skip::udp::{KEEPALIVE_INTERVAL, PORT};
use crate::skip::{Association, Profile};
use crate::time::{Deadline, Instant};

/// The children of the security layer have numbers from here on, apart from those of
/// [`super::carriers`], of a node and of a firewall.
pub const FIRST_CHILD: u32 = 0x2000_0000;

/// The security layer of a mobile node.
#[derive(Clone, Default)]
pub enum Security {
    /// None: the firewall is open, or there is none.
    #[default]
    None,
    /// SKIP, as the firewall's access list has it for this node.
    Skip(Box<Skip>),
    /// IPsec to a VPN gateway, whose node of IKE has the SAs and follows the node's addresses by
    /// itself: the care-of address is the tunnel's inner one (RFC 5266).
    Ipsec,
}

/// A mobile node's SKIP.
#[derive(Clone)]
pub struct Skip {
    /// Names, algorithms and the secret of node and firewall. The node's name is not its address,
    /// which changes.
    pub association: Association,
    /// The firewall's address outside. The home agent's own: SKIP goes from end to end.
    pub firewall: Ipv4Addr,
    /// How its packets travel.
    pub form: Form,
    /// A firewall further inside, to which packets go through this one. The home agent's own
    /// address: from end to end, through the firewall.
    pub behind: Option<Box<Skip>>,
    /// Other firewalls of the home network that may send to the node.
    pub others: Vec<Other>,
    /// The home address, if the firewall may leave out the header between home agent and care-of
    /// address. Packets of this form are accepted besides those of the other.
    pub short_form: Option<Ipv4Addr>,
    /// Of `skip-paper`: every n that was ever sent is below this.
    pub stored_n: u32,
    /// Of `skip-paper`: the highest n that was heard ([`crate::plane::Notice::HeardN`]), 0 if none
    /// is known.
    pub heard_n: u32,
}

/// A firewall that a mobile node hears, and sends nothing to.
#[derive(Clone)]
pub struct Other {
    /// The association with it.
    pub association: Association,
    /// Its address outside.
    pub firewall: Ipv4Addr,
    /// As [`Skip::heard_n`].
    pub heard_n: u32,
}

/// How packets of SKIP travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As IP protocol 57.
    #[default]
    Raw,
    /// In UDP: there is a NAT on the way, or only UDP passes ([`crate::skip::udp`]). Only the
    /// outermost SKIP can have it.
    Udp,
}

/// How packets get from where a node is to the last firewall of its chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Approach {
    /// How they travel to the first firewall on the way; `None`: as that one's [`Skip::form`] says.
    pub form: Option<Form>,
    /// So many firewalls of the chain, from the outermost on, are not on the way.
    pub passed: usize,
}

/// A security layer at work: it follows the node's care-of address.
#[derive(Default)]
pub struct SecurityLayer {
    security: Security,
    /// Where packets go that it secures.
    targets: Vec<TrafficSelector>,
    care_of: Option<Ipv4Addr>,
    approach: Approach,
    /// The SAs are installed, and lead this way.
    installed: Option<Approach>,
    /// When the last packet left.
    sent: Option<Instant>,
}

impl SecurityLayer {
    /// For packets to this home agent. Nothing goes through it before [`SecurityLayer::follow`].
    pub fn new(security: Security, home_agent: Ipv4Addr) -> Self {
        Self::toward(security, vec![TrafficSelector::host(home_agent.into())])
    }

    /// The same for packets to any of these addresses.
    pub fn toward(security: Security, targets: Vec<TrafficSelector>) -> Self {
        Self {
            security,
            targets,
            ..Self::default()
        }
    }

    /// How packets go from the next care-of address on. Call it before [`SecurityLayer::follow`].
    pub fn set_approach(&mut self, approach: Approach) {
        self.approach = approach;
    }

    /// The node has this care-of address, outside of the firewall
    /// ([`super::mobile_node::MobileNode::outside`]). `None`: it is not outside. Apply the changes
    /// before the node's next packet.
    pub fn follow(&mut self, care_of: Option<Ipv4Addr>) -> Vec<Change> {
        let Security::Skip(skip) = &self.security else {
            self.care_of = care_of;
            return Vec::new();
        };
        let approach = self.approach;
        let is_known = self.installed.is_none_or(|installed| installed == approach);
        if care_of == self.care_of && is_known {
            return Vec::new();
        }
        self.care_of = care_of;
        self.sent = None;
        let is_first = self.installed.replace(approach).is_none();
        let mut changes = Vec::new();
        let mut number = FIRST_CHILD;
        for (index, one) in skip.chain().enumerate() {
            let targets = match &one.behind {
                // Nothing but SKIP goes there.
                Some(next) => vec![TrafficSelector {
                    protocol: protocol::SKIP,
                    ..TrafficSelector::host(next.firewall.into())
                }],
                None => self.targets.clone(),
            };
            let care_of = care_of.filter(|_| index >= approach.passed);
            let form = approach
                .form
                .filter(|_| index == approach.passed)
                .unwrap_or(one.form);
            let mut lead = one.lead(targets, care_of, form);
            lead.is_nested = index > approach.passed;
            changes.extend(one.changes(number, &lead, is_first));
            number += 1 + one.others.len() as u32;
        }
        changes
    }

    /// The first bounds of n to write to disk, before anything is sent. The answer to each is
    /// [`OutboundChange::StoredN`].
    pub fn first_n(&self) -> Vec<(ChildId, u32)> {
        let Security::Skip(skip) = &self.security else {
            return Vec::new();
        };
        let mut number = FIRST_CHILD;
        let mut bounds = Vec::new();
        for one in skip.chain() {
            bounds.extend(one.first_n(ChildId(number)));
            number += 1 + one.others.len() as u32;
        }
        bounds
    }

    /// Whether packets to the home agent go through it now.
    pub fn is_active(&self) -> bool {
        self.care_of.is_some() && !matches!(self.security, Security::None)
    }

    /// Whether a packet between these addresses goes through it.
    pub fn carries(&self, source: IpAddr, destination: IpAddr) -> bool {
        let is_own = self.care_of.is_some_and(|care_of| source == care_of);
        let mut targets = self.targets.iter();
        self.is_active() && is_own && targets.any(|one| one.contains_address(destination))
    }

    /// Whether it goes from end to end: then it is for every care-of address, also inside.
    pub fn is_end_to_end(&self) -> bool {
        let Security::Skip(skip) = &self.security else {
            return false;
        };
        self.targets == [TrafficSelector::host(skip.firewall.into())]
    }

    /// Lets the tunnels of the node go through it.
    pub fn nest(&self, carriers: &mut [Carrier]) {
        for carrier in carriers {
            let path = &carrier.path;
            let is_raw = path.via == Via::Raw;
            carrier.is_nested |= is_raw && self.carries(path.local.ip(), path.remote.ip());
        }
    }

    /// A packet left through it.
    pub fn sent(&mut self, now: Instant) {
        self.sent = Some(now);
    }

    /// Where a keepalive goes that is due: the octet of [`crate::skip::udp::KEEPALIVE`]. It counts
    /// as sent.
    pub fn keepalive(&mut self, now: Instant) -> Option<Path> {
        let is_due = self.deadline().is_some_and(|deadline| deadline.at <= now);
        let (Security::Skip(skip), Some(care_of), true) = (&self.security, self.care_of, is_due)
        else {
            return None;
        };
        let (first, form) = self.first_of(skip);
        let path = first.path(care_of, form);
        self.sent = Some(now);
        Some(path)
    }

    /// When a keepalive is due: nothing else has kept the state of a NAT.
    pub fn deadline(&self) -> Option<Deadline> {
        let Security::Skip(skip) = &self.security else {
            return None;
        };
        let (_, form) = self.first_of(skip);
        let sent = self
            .sent
            .filter(|_| form == Form::Udp && self.is_active())?;
        Some(Deadline {
            at: sent + KEEPALIVE_INTERVAL,
            why: "keep the state of a NAT",
        })
    }

    /// The first firewall on the way, and how packets travel there.
    fn first_of<'a>(&self, skip: &'a Skip) -> (&'a Skip, Form) {
        let first = skip.chain().nth(self.approach.passed).unwrap_or(skip);
        (first, self.approach.form.unwrap_or(first.form))
    }
}

impl Skip {
    /// From the outermost firewall inwards.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        core::iter::successors(Some(self), |one| one.behind.as_deref())
    }

    fn path(&self, care_of: Ipv4Addr, form: Form) -> Path {
        match form {
            Form::Raw => Path::raw(care_of.into(), self.firewall.into()),
            Form::Udp => Path::udp_with_skip((care_of, PORT), (self.firewall, PORT)),
        }
    }

    /// Its traffic with what is behind it.
    fn lead(&self, targets: Vec<TrafficSelector>, care_of: Option<Ipv4Addr>, form: Form) -> Lead {
        let host = |address: Ipv4Addr| TrafficSelector::host(address.into());
        Lead {
            path: self.path(care_of.unwrap_or(Ipv4Addr::UNSPECIFIED), form),
            local: care_of.map(host).into_iter().collect(),
            remote: targets,
            aim: Aim::Path,
            is_nested: false,
        }
    }

    /// The same for packets from the firewall, some of which may have the short form.
    fn accepts(&self, lead: &Lead) -> Lead {
        let mut inbound = lead.clone();
        let home = self.short_form.filter(|_| !lead.local.is_empty());
        if let Some(home) = home {
            inbound.local.push(TrafficSelector::host(home.into()));
            inbound.remote = vec![TrafficSelector::everything(home.into())];
        }
        inbound
    }

    /// Its SAs lead there. The children have numbers from `first` on.
    fn changes(&self, first: u32, lead: &Lead, is_first: bool) -> Vec<Change> {
        let inbound = self.accepts(lead);
        let own = core::iter::once((self.firewall, &self.association, self.heard_n));
        let others = self.others.iter();
        let others = others.map(|it| (it.firewall, &it.association, it.heard_n));
        let mut changes = Vec::new();
        for (number, (from, association, heard_n)) in (first..).zip(own.chain(others)) {
            let child = ChildId(number);
            changes.push(Change::Inbound(match is_first {
                true => {
                    let in_line = InLine {
                        from: Some(TrafficSelector::host(from.into())),
                        stored_n: heard_n,
                        ..InLine::new(association.clone(), number)
                    };
                    let it = inbound.clone();
                    let named = (Direction::Inbound, child);
                    let sa = Sa::skip(named, in_line, it.path, it.local, it.remote);
                    InboundChange::Install(Box::new(sa))
                }
                false => InboundChange::Lead(child, Box::new(inbound.clone())),
            }));
        }
        let child = ChildId(first);
        if !is_first {
            let lead = OutboundChange::Lead(child, Box::new(lead.clone()));
            changes.push(Change::Outbound(lead));
            return changes;
        }
        let in_line = InLine {
            stored_n: self.stored_n,
            ..InLine::new(self.association.clone(), first)
        };
        let (named, lead) = ((Direction::Outbound, child), lead.clone());
        let is_nested = lead.is_nested;
        let mut sa = Sa::skip(named, in_line, lead.path, lead.local, lead.remote);
        sa.is_nested = is_nested;
        let install = OutboundChange::Install(Box::new(sa));
        changes.push(Change::Outbound(install));
        changes
    }

    /// The first bound of n that is to be on disk before anything is sent, and its child.
    fn first_n(&self, child: ChildId) -> Option<(ChildId, u32)> {
        let is_counted = self.association.profile() == Profile::Paper;
        is_counted.then(|| (child, self.stored_n.saturating_add(LEAP)))
    }
}
