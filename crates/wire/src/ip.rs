//! IP, TCP, UDP and ICMP headers (RFC 791, 8200, 9293, 768, 792, 4443), minimal encapsulation and
//! GRE (RFC 2004, 2784): in-place accessors checked once by length, checksums, flows, fragments.
//!
//! Nothing here allocates except the ICMP errors. Left out: reassembly, IPv6 fragmentation
//! (a gateway may not do it), jumbograms.

pub mod checksum;
pub mod flow;
pub mod fragment;
pub mod gre;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod minimal;
pub mod tcp;
pub mod udp;

pub use checksum::{AddressChange, ChecksumState, Sum};
pub use flow::Flow;
pub use ipv4::Ipv4;
pub use ipv6::Ipv6;
pub use tcp::Tcp;
pub use udp::Udp;

/// IP protocol numbers (IANA) that the packet code uses.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IPv4 in a tunnel.
    pub const IPV4: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// IPv6 in a tunnel.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// GRE.
    pub const GRE: u8 = 47;
    /// ESP.
    pub const ESP: u8 = 50;
    /// AH.
    pub const AH: u8 = 51;
    /// Minimal encapsulation (RFC 2004).
    pub const MINIMAL: u8 = 55;
    /// SKIP (draft-ietf-ipsec-skip-06).
    pub const SKIP: u8 = 57;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// Nothing follows; inside ESP, a dummy packet (RFC 4303 §2.6).
    pub const NO_NEXT_HEADER: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
}

#[inline]
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline]
pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
