//! Tunnels of Mobile IPv4: what a mobile node asks for, and what it gets.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::sa::Encapsulation;

/// Seconds between two keepalives of a tunnel in UDP, if the home agent does not say (RFC 3519
/// §4.9).
pub const KEEPALIVE_DEFAULT: u16 = 110;
/// Seconds between two of them at least (RFC 3519 §4.9).
pub const KEEPALIVE_MIN: u16 = 10;

/// Seconds between two keepalives where a home agent has said `told`; 0 leaves it to us.
pub(super) fn keepalive(told: u16) -> u16 {
    match told {
        0 => KEEPALIVE_DEFAULT,
        told => told.max(KEEPALIVE_MIN),
    }
}

/// The tunnel of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The care-of address.
    pub care_of: Ipv4Addr,
    /// What it is made of.
    pub encapsulation: Encapsulation,
    /// In UDP to this address and port, those that a NAT shows (RFC 3519). At a home agent, port 0
    /// is not known yet ([`Self::is_half_bound`]).
    pub udp: Option<SocketAddrV4>,
    /// The care-of address is reached through an IP-in-IP tunnel to this firewall.
    pub firewall: Option<Ipv4Addr>,
    /// Whether the node's packets come through it too (RFC 3024).
    pub is_reverse: bool,
    /// Whether it gets broadcasts of the home network.
    pub has_broadcasts: bool,
    /// Whether the node itself is its end.
    pub is_colocated: bool,
}

impl Tunnel {
    /// It waits for the node's first keepalive, which tells its port. Until then it carries nothing
    /// (RFC 3519 §4.6).
    pub fn is_half_bound(&self) -> bool {
        self.udp.is_some_and(|it| it.port() == 0)
    }
}

/// Whether a mobile node, or a foreign agent, asks for a tunnel in UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpWish {
    /// No.
    Never,
    /// If there is a NAT.
    BehindNat,
    /// Always.
    Always,
}

impl UdpWish {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Never, Self::BehindNat, Self::Always];

    /// As in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::BehindNat => "behind-nat",
            Self::Always => "always",
        }
    }
}

/// Whether packets of a mobile node come through its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReverseTunnel {
    /// Never.
    Refused,
    /// As the node asks.
    Allowed,
    /// Always.
    Required,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3519 §4.9.
    #[test]
    fn keepalives_have_a_shortest_interval_and_a_default() {
        for (told, expected) in [(0, 110), (1, 10), (9, 10), (10, 10), (600, 600)] {
            assert_eq!(keepalive(told), expected);
        }
    }
}
