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

impl TrafficSelector {
    /// One address, any protocol and port.
    pub fn host(address: IpAddr) -> Self {
        Self {
            first: address,
            last: address,
            protocol: 0,
            port: 0,
        }
    }

    /// Whether it speaks of one address only.
    pub fn is_host(&self) -> bool {
        self.first == self.last
    }

    /// The same protocol and port at another address.
    pub fn at(&self, address: IpAddr) -> Self {
        Self {
            first: address,
            last: address,
            ..*self
        }
    }

    /// Whether every packet that `other` speaks of is spoken of here too.
    pub fn contains(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && self.first <= other.first
            && other.last <= self.last
            && self.holds_ports_of(other)
    }

    /// Whether protocol and port of `other` are among ours.
    pub fn holds_ports_of(&self, other: &Self) -> bool {
        (self.protocol == 0 || self.protocol == other.protocol)
            && (self.port == 0 || self.port == other.port)
    }
}
