//! Inner addresses: what a peer would like to have, and what it is lent.

use std::net::IpAddr;

use crate::config::InnerFamilies;

/// What was lent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
}

/// What a peer would like to be lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Families wanted.
    pub families: InnerFamilies,
    /// The addresses that it would like to have, at most one of each family.
    pub addresses: Vec<IpAddr>,
}
