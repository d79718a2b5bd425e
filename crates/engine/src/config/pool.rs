//! Inner addresses that a gateway lends, and what comes with them.

use std::net::IpAddr;

use crate::dns::TrustAnchor;

/// A pool of inner addresses, and its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its key in the file.
    pub name: String,
    /// First and last address, one family.
    pub first: IpAddr,
    /// Last address.
    pub last: IpAddr,
    /// Resolvers.
    pub dns: Vec<IpAddr>,
    /// Domains whose names alone the resolvers are asked for; empty: all names.
    pub domains: Vec<String>,
    /// Keys of DNSSEC for some of them. More than [`crate::dns::MAX_TRUST_ANCHORS`] are not lent.
    pub trust_anchors: Vec<TrustAnchor>,
}
