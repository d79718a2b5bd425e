//! Our entries in the host's tables: rules and routes, as the footprint stores them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};

use super::full::Purpose;
use super::prefix::Prefix;
use crate::ether::Mac;

/// A rule by which the kernel chooses a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rule {
    /// Its purpose.
    #[serde(default)]
    pub purpose: Purpose,
    /// IPv6; otherwise IPv4.
    pub is_ipv6: bool,
    /// The mark of our own datagrams.
    pub fwmark: u32,
    /// The table consulted.
    pub table: u32,
}

/// A route in our table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableRoute {
    /// Which table.
    pub table: u32,
    /// The destination.
    pub to: Prefix,
    /// Our address for it.
    pub source: Option<IpAddr>,
}

/// The mobile part of a configuration, as the steward knows it.
#[derive(Clone, Debug)]
pub struct Part {
    /// The address that a mobile node keeps, and the prefix of its network.
    pub home: Option<(Ipv4Addr, u8)>,
    /// Abroad, a mobile node gets broadcasts of its home network out of the tunnel.
    pub hears_broadcasts: bool,
    /// Interfaces of a mobile node, or that of a foreign agent's visitors.
    pub interfaces: Vec<String>,
    /// Interfaces that answer ARP for their own addresses alone: those of a mobile node, so that
    /// nobody abroad learns its home address (RFC 5944 §4.6), and the one outside of a firewall.
    pub quiet: Vec<String>,
}

/// A host that is reached on one link, at this link-layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Neighbour {
    /// Index of the interface.
    pub link: u32,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its link-layer address.
    pub mac: Mac,
}

/// A route over a link, not into the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkRoute {
    /// Which table.
    pub table: u32,
    /// The destination.
    pub to: Prefix,
    /// Index of the interface.
    pub link: u32,
    /// The router; none: the destination is on the link.
    pub by: Option<Ipv4Addr>,
    /// Our address for it.
    pub source: Option<Ipv4Addr>,
}

/// What of Mobile IPv4 is on the host, as the footprint stores it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoamingFootprint {
    /// Permanent entries of the neighbour table.
    pub neighbours: BTreeSet<Neighbour>,
    /// Routes over links.
    pub routes: BTreeSet<LinkRoute>,
    /// Interfaces that answer ARP only for their own addresses, with the former setting.
    pub arp_ignore: BTreeMap<String, u8>,
}

impl RoamingFootprint {
    /// Whether nothing is left to undo.
    pub fn is_empty(&self) -> bool {
        self.neighbours.is_empty() && self.routes.is_empty() && self.arp_ignore.is_empty()
    }

    /// Whether we could have written it.
    pub fn is_plain(&self) -> bool {
        let mut names = self.arp_ignore.keys();
        names.all(|name| is_interface(name))
    }
}

/// Whether the kernel takes it for the name of an interface, and nft between quotation marks.
pub fn is_interface(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || "/\"".contains(c);
    !name.is_empty() && name.len() < 16 && !name.contains(is_odd) && !name.starts_with('.')
}
