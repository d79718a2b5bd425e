//! The kinds of security associations, for those who name them without having one: counts of work,
//! sizes, keys.

use wire::ip::protocol;

/// IPsec protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Encapsulating security payload, IP protocol 50.
    Esp,
    /// Authentication header, IP protocol 51.
    Ah,
}

/// How a tunnel of Mobile IPv4 carries a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Encapsulation {
    /// IP in IP (RFC 2003).
    IpInIp,
    /// Minimal encapsulation (RFC 2004).
    Minimal,
    /// GRE (RFC 2784).
    Gre,
}

impl Encapsulation {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::IpInIp, Self::Minimal, Self::Gre];

    /// Of this number.
    pub fn of(protocol: u8) -> Option<Self> {
        match protocol {
            protocol::IPV4 => Some(Self::IpInIp),
            protocol::MINIMAL => Some(Self::Minimal),
            protocol::GRE => Some(Self::Gre),
            _ => None,
        }
    }

    /// As in files and in status.
    pub fn name(self) -> &'static str {
        match self {
            Self::IpInIp => "ip-in-ip",
            Self::Minimal => "minimal",
            Self::Gre => "gre",
        }
    }

    /// Its IP protocol number.
    pub fn protocol(self) -> u8 {
        match self {
            Self::IpInIp => protocol::IPV4,
            Self::Minimal => protocol::MINIMAL,
            Self::Gre => protocol::GRE,
        }
    }
}

/// The direction of an SA's packets, seen from us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// We seal.
    Outbound,
    /// We open.
    Inbound,
}
