//! What secures the packets between a mobile node outside and the firewall of its home network. All
//! that the node sends to its home agent goes through it: requests, and data in their tunnel.
//! Inside the firewall, and at home, nothing does.

use std::net::{IpAddr, Ipv4Addr};

use super::carriers::{Carrier, Change};
use crate::plane::{InboundChange, OutboundChange};
use crate::sa::{Aim, ChildId, Direction, InLine, Lead, Path, Sa, Via};
use crate::selector::TrafficSelector;
use crate::skip::counter::LEAP;
use crate::skip::{Association, Profile};

/// The child of the security layer, apart from those of [`super::carriers`], of a node and of a
/// firewall.
pub const CHILD: ChildId = ChildId(0x2000_0000);

/// The security layer of a mobile node.
#[derive(Clone, Default)]
pub enum Security {
    /// None: the firewall is open, or there is none.
    #[default]
    None,
    /// SKIP, as the firewall's access list has it for this node.
    Skip(Box<Skip>),
}

/// A mobile node's SKIP.
#[derive(Clone)]
pub struct Skip {
    /// Names, algorithms and the secret of node and firewall. The node's name is not its address,
    /// which changes.
    pub association: Association,
    /// The firewall's address outside.
    pub firewall: Ipv4Addr,
    /// Of `skip-paper`: every n that was ever sent is below this.
    pub stored_n: u32,
}

/// A security layer at work: it follows the node's care-of address.
#[derive(Default)]
pub struct SecurityLayer {
    security: Security,
    home_agent: Option<Ipv4Addr>,
    care_of: Option<Ipv4Addr>,
    is_installed: bool,
}

impl SecurityLayer {
    /// For packets to this home agent. Nothing goes through it before [`SecurityLayer::follow`].
    pub fn new(security: Security, home_agent: Ipv4Addr) -> Self {
        Self {
            security,
            home_agent: Some(home_agent),
            care_of: None,
            is_installed: false,
        }
    }

    /// The node has this care-of address, outside of the firewall
    /// ([`super::mobile_node::MobileNode::outside`]). `None`: it is not outside. Apply the changes
    /// before the node's next packet.
    pub fn follow(&mut self, care_of: Option<Ipv4Addr>) -> Vec<Change> {
        let Security::Skip(skip) = &self.security else {
            return Vec::new();
        };
        let (Some(home_agent), true) = (self.home_agent, care_of != self.care_of) else {
            return Vec::new();
        };
        self.care_of = care_of;
        let lead = skip.lead(home_agent, care_of);
        if self.is_installed {
            let inbound = InboundChange::Lead(CHILD, Box::new(lead.clone()));
            let outbound = OutboundChange::Lead(CHILD, Box::new(lead));
            return vec![Change::Inbound(inbound), Change::Outbound(outbound)];
        }
        self.is_installed = true;
        skip.installs(&lead)
    }

    /// Whether packets to the home agent go through it now.
    pub fn is_active(&self) -> bool {
        self.care_of.is_some() && matches!(self.security, Security::Skip(_))
    }

    /// Whether a packet between these addresses goes through it.
    pub fn carries(&self, source: IpAddr, destination: IpAddr) -> bool {
        let ends = (self.care_of, self.home_agent);
        let (Some(care_of), Some(home_agent)) = ends else {
            return false;
        };
        self.is_active() && (source, destination) == (care_of.into(), home_agent.into())
    }

    /// Lets the tunnels of the node go through it.
    pub fn nest(&self, carriers: &mut [Carrier]) {
        let is_active = self.is_active();
        for carrier in carriers {
            let is_raw = carrier.path.via == Via::Raw;
            carrier.is_nested |= is_active && is_raw && self.reaches(&carrier.path);
        }
    }

    /// The first bound of n to write to disk, before anything is sent: the answer is
    /// [`OutboundChange::StoredN`].
    pub fn first_n(&self) -> Option<u32> {
        let Security::Skip(skip) = &self.security else {
            return None;
        };
        let is_counted = skip.association.profile() == Profile::Paper;
        is_counted.then(|| skip.stored_n.saturating_add(LEAP))
    }

    fn reaches(&self, path: &Path) -> bool {
        self.carries(path.local.ip(), path.remote.ip())
    }
}

impl Skip {
    fn lead(&self, home_agent: Ipv4Addr, care_of: Option<Ipv4Addr>) -> Lead {
        let host = |address: Ipv4Addr| TrafficSelector::host(address.into());
        let own = care_of.unwrap_or(Ipv4Addr::UNSPECIFIED);
        Lead {
            path: Path::raw(own.into(), self.firewall.into()),
            local: care_of.map(host).into_iter().collect(),
            remote: vec![host(home_agent)],
            aim: Aim::Path,
        }
    }

    fn installs(&self, lead: &Lead) -> Vec<Change> {
        let sa = |direction, in_line| {
            let (local, remote) = (lead.local.clone(), lead.remote.clone());
            Box::new(Sa::skip(
                (direction, CHILD),
                in_line,
                lead.path,
                local,
                remote,
            ))
        };
        let in_line = || InLine::new(self.association.clone(), CHILD.0);
        let from = TrafficSelector::host(self.firewall.into());
        let inbound = InLine {
            from: Some(from),
            ..in_line()
        };
        let outbound = InLine {
            stored_n: self.stored_n,
            ..in_line()
        };
        let inbound = InboundChange::Install(sa(Direction::Inbound, inbound));
        let outbound = OutboundChange::Install(sa(Direction::Outbound, outbound));
        vec![Change::Inbound(inbound), Change::Outbound(outbound)]
    }
}
