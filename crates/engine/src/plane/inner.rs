//! One IP packet at a glance: what policy, segmentation and coalescing must know of it.
//!
//! Extension headers are walked (RFC 8200 §4.1), their contents are not read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IP protocol numbers.
pub(crate) const ICMP: u8 = 1;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ESP: u8 = 50;
pub(crate) const AH: u8 = 51;
pub(crate) const ICMPV6: u8 = 58;
/// IPv4 and IPv6 as payloads of a tunnel; no next header marks a dummy packet (RFC 4303 §2.6).
pub(crate) const IPV4: u8 = 4;
pub(crate) const IPV6: u8 = 41;
pub(crate) const NO_NEXT_HEADER: u8 = 59;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;
/// More extension headers than this and we do not look further.
const MAX_EXTENSIONS: usize = 8;

/// Whether a packet is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fragment {
    Whole,
    First,
    Later,
}

/// What there is to know of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Upper-layer protocol, extension headers skipped.
    pub(crate) protocol: u8,
    /// Where the octet lies that says so.
    pub(crate) protocol_at: usize,
    /// Where the upper layer starts.
    pub(crate) upper: usize,
    /// Octets of the packet as its header says.
    pub(crate) total: usize,
    pub(crate) fragment: Fragment,
    /// Source and destination port, where there are any and they are in this packet.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) traffic_class: u8,
    pub(crate) ttl: u8,
    /// DF of IPv4; always of IPv6, whose routers do not fragment.
    pub(crate) dont_fragment: bool,
}

impl Inner {
    /// Reads the headers; `None` if they contradict the space or each other.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let mut inner = match packet.first()? >> 4 {
            4 => Self::parse_v4(packet)?,
            6 => Self::parse_v6(packet)?,
            _ => return None,
        };
        if inner.fragment != Fragment::Later && has_ports(inner.protocol) {
            let upper = packet.get(inner.upper..inner.total)?;
            inner.read_ports(upper.get(..4)?);
        }
        Some(inner)
    }

    /// Takes the ports from the start of the upper layer, if it has them.
    pub(crate) fn read_ports(&mut self, upper: &[u8]) {
        if has_ports(self.protocol) && upper.len() >= 4 {
            self.ports = Some((be16(upper, 0), be16(upper, 2)));
        }
    }

    /// Whether the packet is IPv6.
    pub(crate) fn is_v6(&self) -> bool {
        self.source.is_ipv6()
    }

    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 20] = packet.first_chunk()?;
        let upper = usize::from(header[0] & 15) * 4;
        let total = usize::from(be16(header, 2));
        if upper < 20 || total < upper || total > packet.len() {
            return None;
        }
        let offset = be16(header, 6);
        let fragment = match (offset & 0x1fff, offset & 0x2000) {
            (0, 0) => Fragment::Whole,
            (0, _) => Fragment::First,
            _ => Fragment::Later,
        };
        Some(Self {
            source: v4_at(header, 12),
            destination: v4_at(header, 16),
            protocol: header[9],
            protocol_at: 9,
            upper,
            total,
            fragment,
            ports: None,
            traffic_class: header[1],
            ttl: header[8],
            dont_fragment: offset & 0x4000 != 0,
        })
    }

    fn parse_v6(packet: &[u8]) -> Option<Self> {
        let header: &[u8; 40] = packet.first_chunk()?;
        let total = 40 + usize::from(be16(header, 4));
        let packet = packet.get(..total)?;
        let mut inner = Self {
            source: v6_at(header, 8),
            destination: v6_at(header, 24),
            protocol: header[6],
            protocol_at: 6,
            upper: 40,
            total,
            fragment: Fragment::Whole,
            ports: None,
            traffic_class: header[0] << 4 | header[1] >> 4,
            ttl: header[7],
            dont_fragment: true,
        };
        for _ in 0..MAX_EXTENSIONS {
            let length = match inner.protocol {
                HOP_BY_HOP | ROUTING | DESTINATION => {
                    usize::from(*packet.get(inner.upper + 1)?) * 8 + 8
                }
                FRAGMENT => {
                    let field = be16(packet.get(inner.upper..inner.upper + 8)?, 2);
                    inner.fragment = match (field >> 3, field & 1) {
                        (0, 0) => inner.fragment,
                        (0, _) => Fragment::First,
                        _ => Fragment::Later,
                    };
                    8
                }
                _ => return Some(inner),
            };
            inner.protocol = packet[inner.upper];
            inner.protocol_at = inner.upper;
            inner.upper += length;
            if inner.upper > total {
                return None;
            }
            if inner.fragment == Fragment::Later {
                return Some(inner);
            }
        }
        None
    }
}

/// Whether the protocol's header starts with two ports.
fn has_ports(protocol: u8) -> bool {
    const DCCP: u8 = 33;
    const SCTP: u8 = 132;
    const UDP_LITE: u8 = 136;
    matches!(protocol, TCP | UDP | DCCP | SCTP | UDP_LITE)
}

/// Where the checksum that covers the addresses lies, counted from the upper layer's start.
pub(crate) fn checksum_offset(protocol: u8) -> Option<usize> {
    match protocol {
        TCP => Some(16),
        UDP => Some(6),
        ICMPV6 => Some(2),
        _ => None,
    }
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn v4_at(bytes: &[u8; 20], at: usize) -> IpAddr {
    Ipv4Addr::from_bits(be32(bytes, at)).into()
}

fn v6_at(bytes: &[u8; 40], at: usize) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    Ipv6Addr::from(octets).into()
}
