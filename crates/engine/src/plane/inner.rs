//! The fields of an IP packet that policy, segmentation and coalescing need.

use wire::ip::{Flow, Ipv4, Ipv6};

/// A packet with more extension headers is not read further.
const MAX_EXTENSIONS: usize = 16;

/// The fields of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) flow: Flow,
    /// Where the octet lies that names the upper layer's protocol.
    pub(crate) protocol_at: usize,
    pub(crate) traffic_class: u8,
    pub(crate) ttl: u8,
    /// DF of IPv4; always of IPv6, whose routers do not fragment.
    pub(crate) dont_fragment: bool,
}

impl Inner {
    /// Reads the headers; `None` if they contradict the space or each other.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let flow = Flow::of(packet).ok()?;
        if flow.source.is_ipv4() {
            let ip = Ipv4::new(packet).ok()?;
            return Some(Self {
                flow,
                protocol_at: 9,
                traffic_class: ip.tos(),
                ttl: ip.ttl(),
                dont_fragment: ip.has_dont_fragment(),
            });
        }
        let ip = Ipv6::new(packet).ok()?;
        let last = ip.extensions().take(MAX_EXTENSIONS).last();
        Some(Self {
            flow,
            protocol_at: last.transpose().ok()?.map_or(6, |last| last.offset),
            traffic_class: ip.traffic_class(),
            ttl: ip.hop_limit(),
            dont_fragment: true,
        })
    }

    /// Whether the packet is IPv6.
    pub(crate) fn is_v6(&self) -> bool {
        self.flow.source.is_ipv6()
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
