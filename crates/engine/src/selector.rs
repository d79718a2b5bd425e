//! Traffic selectors: which packets a policy speaks of (RFC 4301 §4.4.1.1). In IKEv1 they travel
//! as quick mode's identification payloads (RFC 2407 §4.6.2).

use std::net::IpAddr;

/// Addresses, protocol and port of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrafficSelector {
    /// First address.
    pub first: IpAddr,
    /// Last address, of the same family, not below `first`.
    pub last: IpAddr,
    /// IP protocol, 0 for any.
    pub protocol: u8,
    /// Port, 0 for any.
    pub port: u16,
}
