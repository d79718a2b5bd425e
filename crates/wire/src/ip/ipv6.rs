//! The IPv6 header and its extension headers (RFC 8200 §3, §4).
//!
//! AH, ESP and mobility headers end the walk: for us they are the payload.

use std::net::Ipv6Addr;

use super::{be16, be32, protocol, put16, put32};
use crate::codec::Malformed;

/// Octets of the base header.
pub const HEADER_LEN: usize = 40;
/// Extension headers that a packet may have before its payload.
pub const MAX_EXTENSIONS: usize = 8;
/// Octets of a fragment header.
pub const FRAGMENT_LEN: usize = 8;

/// An IPv6 packet in place. Octets after the payload length may follow and are never exposed.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<T> {
    bytes: T,
}

/// One extension header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Its protocol number.
    pub kind: u8,
    /// Where it starts in the packet.
    pub offset: usize,
    /// Its octets.
    pub len: usize,
}

/// The content of a fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    /// Where this part of the payload starts in the original packet, in octets.
    pub offset: usize,
    /// The M bit.
    pub has_more: bool,
    /// Identification.
    pub id: u32,
}

/// Where the extension headers end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upper {
    /// The protocol of the payload.
    pub protocol: u8,
    /// Where it starts in the packet.
    pub offset: usize,
    /// The fragment header, if there is one.
    pub fragment: Option<FragmentHeader>,
}

impl Upper {
    /// Whether this is a later fragment, whose `offset` is not zero.
    #[inline]
    pub fn is_later_fragment(&self) -> bool {
        self.fragment.is_some_and(|fragment| fragment.offset != 0)
    }
}

impl<T: AsRef<[u8]>> Ipv6<T> {
    /// Checks version and payload length against `bytes`.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let octets = bytes.as_ref();
        if octets.len() < HEADER_LEN {
            return Err(Malformed::Truncated("IPv6 header"));
        }
        if octets[0] >> 4 != 6 {
            return Err(Malformed::Value("IP version"));
        }
        if HEADER_LEN + usize::from(be16(octets, 4)) > octets.len() {
            return Err(Malformed::Truncated("IPv6 packet"));
        }
        Ok(Self { bytes })
    }

    /// DSCP and ECN.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (be16(self.octets(), 0) >> 4) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        be32(self.octets(), 0) & 0xf_ffff
    }

    /// Octets after the base header.
    #[inline]
    pub fn payload_len(&self) -> usize {
        be16(self.octets(), 4).into()
    }

    /// Octets of base header and payload.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + self.payload_len()
    }

    /// Kind of the first header after the base header.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.octets()[6]
    }

    /// Hop limit.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.octets()[7]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv6Addr {
        self.address(8)
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv6Addr {
        self.address(24)
    }

    /// What follows the base header, up to the payload length.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.octets()[HEADER_LEN..self.total_len()]
    }

    /// The packet up to its payload length.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        &self.octets()[..self.total_len()]
    }

    /// The extension headers in order. Ends after the first error, and after the fragment header of
    /// a later fragment.
    #[inline]
    pub fn extensions(&self) -> Extensions<'_> {
        Extensions {
            packet: self.packet(),
            next: self.next_header(),
            offset: HEADER_LEN,
            seen: 0,
            fragment: None,
        }
    }

    /// Walks to the payload behind all extension headers.
    #[inline]
    pub fn upper(&self) -> Result<Upper, Malformed> {
        let mut extensions = self.extensions();
        for extension in &mut extensions {
            extension?;
        }
        Ok(Upper {
            protocol: extensions.next,
            offset: extensions.offset,
            fragment: extensions.fragment,
        })
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    #[inline]
    fn address(&self, at: usize) -> Ipv6Addr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.octets()[at..at + 16]);
        octets.into()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv6<T> {
    /// Sets DSCP and ECN.
    #[inline]
    pub fn set_traffic_class(&mut self, class: u8) {
        let first = be16(self.octets(), 0) & 0xf00f | u16::from(class) << 4;
        put16(self.bytes.as_mut(), 0, first);
    }

    /// Sets the hop limit.
    #[inline]
    pub fn set_hop_limit(&mut self, limit: u8) {
        self.bytes.as_mut()[7] = limit;
    }

    /// Decrements the hop limit. Returns false, and changes nothing, if it is zero.
    #[inline]
    pub fn decrement_hop_limit(&mut self) -> bool {
        let limit = self.hop_limit();
        if limit <= 1 {
            return false;
        }
        self.set_hop_limit(limit - 1);
        true
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, address: Ipv6Addr) {
        self.bytes.as_mut()[8..24].copy_from_slice(&address.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv6Addr) {
        self.bytes.as_mut()[24..40].copy_from_slice(&address.octets());
    }

    /// What follows the base header, up to the payload length.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = HEADER_LEN..self.total_len();
        &mut self.bytes.as_mut()[range]
    }
}

/// Iterates over extension headers, each checked against the packet's end.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    packet: &'a [u8],
    next: u8,
    offset: usize,
    seen: usize,
    fragment: Option<FragmentHeader>,
}

impl Iterator for Extensions<'_> {
    type Item = Result<Extension, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let kind = self.next;
        if !is_extension(kind) || self.fragment.is_some_and(|fragment| fragment.offset != 0) {
            return None;
        }
        let read = self.read(kind);
        if read.is_err() {
            self.next = protocol::NO_NEXT_HEADER;
        }
        Some(read)
    }
}

impl Extensions<'_> {
    #[inline]
    fn read(&mut self, kind: u8) -> Result<Extension, Malformed> {
        if self.seen == MAX_EXTENSIONS {
            return Err(Malformed::TooMany("IPv6 extension headers"));
        }
        // RFC 8200 §4.1: hop-by-hop options come first or not at all.
        if kind == protocol::HOP_BY_HOP && self.seen > 0 {
            return Err(Malformed::Value("place of the hop-by-hop options"));
        }
        let rest = &self.packet[self.offset..];
        if rest.len() < 8 {
            return Err(Malformed::Truncated("IPv6 extension header"));
        }
        let len = match kind {
            protocol::FRAGMENT => FRAGMENT_LEN,
            _ => (usize::from(rest[1]) + 1) * 8,
        };
        if len > rest.len() {
            return Err(Malformed::Truncated("IPv6 extension header"));
        }
        if kind == protocol::FRAGMENT {
            if self.fragment.is_some() {
                return Err(Malformed::TooMany("IPv6 fragment headers"));
            }
            self.fragment = Some(FragmentHeader {
                offset: usize::from(be16(rest, 2) & 0xfff8),
                has_more: rest[3] & 1 != 0,
                id: be32(rest, 4),
            });
        }
        let extension = Extension {
            kind,
            offset: self.offset,
            len,
        };
        self.next = rest[0];
        self.offset += len;
        self.seen += 1;
        Ok(extension)
    }
}

#[inline]
const fn is_extension(kind: u8) -> bool {
    matches!(
        kind,
        protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
    )
}

/// The fields of a new base header. The packet gives the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Kind of the next header.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Header {
    /// Writes the header over the first 40 octets of `packet`; the octets after them become the
    /// payload. Panics if `packet` is shorter than 40 octets or the payload longer than 65,535.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let payload_len = packet.len() - HEADER_LEN;
        let payload_len = u16::try_from(payload_len).expect("IPv6 payload below 64 KiB");
        let class = u32::from(self.traffic_class) << 20;
        put32(packet, 0, 6 << 28 | class | self.flow_label & 0xf_ffff);
        put16(packet, 4, payload_len);
        packet[6] = self.next_header;
        packet[7] = self.hop_limit;
        packet[8..24].copy_from_slice(&self.source.octets());
        packet[24..40].copy_from_slice(&self.destination.octets());
    }
}
