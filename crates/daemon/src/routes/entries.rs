//! Our entries in the host's tables: rules and routes, as the footprint stores them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::full::Purpose;
use super::prefix::Prefix;

/// A rule by which the kernel chooses a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
