//! A firewall between the home network and care-of addresses outside of it.
//!
//! Routers inside do not know care-of addresses outside. So the home agent sends packets for such
//! an address through an IP-in-IP tunnel to the firewall. It learns this from its configuration, or
//! from a Traversal Extension in the request.

use std::net::Ipv4Addr;

use crate::selector::TrafficSelector;

/// Care-of addresses behind a firewall, as the home agent's configuration says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// The care-of addresses.
    pub care_of: TrafficSelector,
    /// Their firewall.
    pub firewall: Ipv4Addr,
}

impl Outside {
    /// The firewall before an address: that of the first entry of `list` that contains it.
    pub fn firewall(list: &[Self], address: Ipv4Addr) -> Option<Ipv4Addr> {
        let is_outside = |one: &&Self| one.care_of.contains_address(address.into());
        list.iter().find(is_outside).map(|one| one.firewall)
    }
}

/// The firewall of the home network, as a mobile node's configuration says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeFirewall {
    /// Where the home agent sends packets for the node.
    pub address: Ipv4Addr,
    /// Care-of addresses that need no firewall. All others are outside.
    pub inside: Vec<TrafficSelector>,
}

/// On which side of the firewall a mobile node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// As its care-of address says.
    #[default]
    ByAddress,
    /// Inside, the user says.
    Inside,
    /// Outside, the user says.
    Outside,
}

impl HomeFirewall {
    /// Whether a care-of address is outside.
    pub fn is_outside(&self, care_of: Ipv4Addr, side: Side) -> bool {
        let is_inside = |one: &TrafficSelector| one.contains_address(care_of.into());
        match side {
            Side::ByAddress => !self.inside.iter().any(is_inside),
            Side::Inside => false,
            Side::Outside => true,
        }
    }
}
