//! Inner addresses: what a peer requests, and what it gets.

use std::net::IpAddr;

use crate::config::InnerFamilies;
use crate::dns::TrustAnchor;

/// The assigned addresses and resolvers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lease {
    /// Addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
    /// Domains whose names alone they resolve (RFC 8598); empty: all names. IKEv1 has none.
    pub domains: Vec<String>,
    /// Keys of DNSSEC for some of them (RFC 8598).
    pub trust_anchors: Vec<TrustAnchor>,
    /// Domains whose keys a station does not use: malformed ones, or none that it has listed.
    pub refused_anchors: Vec<String>,
}

/// A peer's request for addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Requested families.
    pub families: InnerFamilies,
    /// The preferred addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Whether it can ask the resolvers for some domains alone (RFC 8598).
    pub wants_domains: bool,
    /// Whether it can use keys of DNSSEC for them.
    pub wants_anchors: bool,
}
