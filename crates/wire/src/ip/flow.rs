//! The fields of a packet that selectors compare (RFC 4301 §4.4.1.1).

use std::net::IpAddr;

use super::{Ipv4, Ipv6, be16, protocol};
use crate::codec::Malformed;

/// Addresses, protocol and ports of a packet, and where its transport header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The protocol behind any IPv6 extension header.
    pub protocol: u8,
    /// Source and destination port. None in a later fragment, and in a protocol without ports.
    pub ports: Option<(u16, u16)>,
    /// Where the transport header, or this fragment's part of the payload, starts in the packet.
    pub transport: usize,
    /// Octets of the packet as its header says; the buffer may be longer.
    pub total_len: usize,
    /// Whether the packet is a fragment, the first one included.
    pub is_fragment: bool,
    /// Whether the packet is a later fragment, which has no transport header.
    pub is_later_fragment: bool,
}

impl Flow {
    /// Reads either version. A packet too short for the ports of its protocol is malformed, because
    /// a selector could not judge it.
    #[inline]
    pub fn of(packet: &[u8]) -> Result<Self, Malformed> {
        match packet.first() {
            Some(first) if first >> 4 == 4 => Self::of_v4(packet),
            Some(first) if first >> 4 == 6 => Self::of_v6(packet),
            Some(_) => Err(Malformed::Value("IP version")),
            None => Err(Malformed::Truncated("IP header")),
        }
    }

    #[inline]
    fn of_v4(packet: &[u8]) -> Result<Self, Malformed> {
        let ip = Ipv4::new(packet)?;
        let flow = Self {
            source: ip.source().into(),
            destination: ip.destination().into(),
            protocol: ip.protocol(),
            ports: None,
            transport: ip.header_len(),
            total_len: ip.total_len(),
            is_fragment: ip.is_fragment(),
            is_later_fragment: ip.fragment_offset() != 0,
        };
        flow.with_ports(packet)
    }

    #[inline]
    fn of_v6(packet: &[u8]) -> Result<Self, Malformed> {
        let ip = Ipv6::new(packet)?;
        let upper = ip.upper()?;
        // RFC 6946: a fragment with offset 0 and no more to come is a whole packet.
        let is_fragment = |f: super::ipv6::FragmentHeader| f.has_more || f.offset != 0;
        let flow = Self {
            source: ip.source().into(),
            destination: ip.destination().into(),
            protocol: upper.protocol,
            ports: None,
            transport: upper.offset,
            total_len: ip.total_len(),
            is_fragment: upper.fragment.is_some_and(is_fragment),
            is_later_fragment: upper.is_later_fragment(),
        };
        flow.with_ports(packet)
    }

    #[inline]
    fn with_ports(mut self, packet: &[u8]) -> Result<Self, Malformed> {
        if self.is_later_fragment || !has_ports(self.protocol) {
            return Ok(self);
        }
        let transport = &packet[self.transport..self.total_len];
        if transport.len() < 4 {
            return Err(Malformed::Truncated("ports"));
        }
        self.ports = Some((be16(transport, 0), be16(transport, 2)));
        Ok(self)
    }
}

/// Whether the transport header starts with two ports.
#[inline]
pub const fn has_ports(transport_protocol: u8) -> bool {
    matches!(
        transport_protocol,
        protocol::TCP | protocol::UDP | protocol::DCCP | protocol::SCTP | protocol::UDP_LITE
    )
}
