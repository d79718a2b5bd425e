//! The end of a write that more segments of its flow may join.

use std::net::IpAddr;

use wire::ip::protocol::{TCP, UDP};
use wire::vnet::{self as header, Gso};

use crate::plane::checksum::{self, put_v4};
use crate::plane::inner::put16;
use crate::plane::vnet;

/// Most segments of a write: the kernel's UDP_MAX_SEGMENTS, and far below IOV_MAX.
const MAX_SEGMENTS: u16 = 64;
const MAX_PACKET_BYTES: usize = 65_535;

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) ports: (u16, u16),
    pub(super) protocol: u8,
}

/// The end of a write that the next segment of its flow may join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(super) flow: Flow,
    /// Octets of headers, from the IP header on.
    pub(super) headers: usize,
    /// Where the upper layer starts.
    pub(super) upper: usize,
    /// Octets of each segment's payload.
    pub(super) segment: usize,
    pub(super) segments: u16,
    /// Octets of payload so far.
    pub(super) bytes: usize,
    /// TCP's sequence number after the last octet.
    pub(super) next: u32,
    pub(super) is_open: bool,
}

impl Tail {
    /// Whether `new`, alone in its write, may join.
    pub(super) fn is_continued_by(&self, new: &Self) -> bool {
        let follows =
            self.flow.protocol == UDP || new.next.wrapping_sub(new.bytes as u32) == self.next;
        self.is_open
            && follows
            && self.headers == new.headers
            && new.bytes <= self.segment
            && self.segments < MAX_SEGMENTS
            && self.headers + self.bytes + new.bytes <= MAX_PACKET_BYTES
    }

    /// Makes the headers those of the super-packet; the upper checksum is left for the device to
    /// complete, as it was verified for each segment.
    pub(super) fn finish(&self, header: &mut [u8], is_v6: bool) {
        let at = if self.flow.protocol == TCP { 16 } else { 6 };
        let gso = match (self.flow.protocol, is_v6) {
            (UDP, _) => Gso::UdpL4,
            (_, false) => Gso::TcpV4,
            (_, true) => Gso::TcpV6,
        };
        let (device, packet) = header.split_at_mut(header::LEN);
        vnet::put_merged(device, gso, self.headers, self.segment, self.upper, at);
        let length = self.headers + self.bytes;
        let (ip, upper) = packet.split_at_mut(self.upper);
        if is_v6 {
            put16(ip, 4, (length - 40) as u16);
        } else {
            put16(ip, 2, length as u16);
            put_v4(ip);
        }
        let covered = (length - self.upper) as u16;
        if self.flow.protocol == UDP {
            put16(upper, 4, covered);
        }
        let flow = &self.flow;
        let ends = (flow.source, flow.destination);
        let partial = checksum::pseudo_header(ends, flow.protocol).word(covered);
        upper[at..at + 2].copy_from_slice(&partial.folded().to_be_bytes());
    }
}
