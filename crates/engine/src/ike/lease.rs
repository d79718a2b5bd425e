//! Inner addresses: what a peer requests, and what it gets.

use std::net::IpAddr;

use crate::config::InnerFamilies;

/// The assigned addresses and resolvers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
}

/// A peer's request for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Requested families.
    pub families: InnerFamilies,
    /// The preferred addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
}
