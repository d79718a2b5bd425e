//! Joins segments of one TCP or UDP flow into one super-packet for the TUN device: the reverse of
//! segmentation. It joins only what segmentation could have made, and only verified segments.

use wire::ip::Sum;
use wire::ip::protocol::{TCP, UDP};
use wire::ip::tcp::flags::{ACK, FIN, PSH};
use wire::vnet as header;

use crate::plane::Offloads;
use crate::plane::checksum;
use crate::plane::inner::{Inner, be16, be32};
use crate::plane::packets::{Packets, Slice};
use crate::plane::tail::{Flow, Tail};
use crate::plane::vnet;

/// A segment joins one of this many last writes, or starts a new one.
const MAX_OPEN_WRITES: usize = 16;

/// Where flags and window of TCP lie.
const FLAGS: usize = 13;
const WINDOW: usize = 14;

/// One opened packet to deliver, its IP header apart from what follows.
pub(crate) struct Delivery<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) ip: &'a [u8],
    pub(crate) upper: &'a [u8],
    /// Where `upper` lies in the caller's buffers.
    pub(crate) buffer: usize,
    pub(crate) start: usize,
}

impl Delivery<'_> {
    /// Joins the packet to the last write of its flow, or makes it a write of its own.
    pub(crate) fn deliver(&self, offloads: Offloads, out: &mut Packets) {
        let mut tail = self.tail(offloads);
        if let Some(tail) = &mut tail {
            if tail.is_open && self.join(tail, out) {
                return;
            }
            tail.is_open &= !self.ends_burst();
        }
        let headers = tail.map_or(0, |tail| tail.headers - tail.upper);
        let pending = out.add();
        if offloads.has_vnet_header {
            pending.header.extend_from_slice(&vnet::PLAIN);
        }
        pending.header.extend_from_slice(self.ip);
        pending.header.extend_from_slice(&self.upper[..headers]);
        pending.tail = tail;
        let start = self.start + headers;
        let end = self.start + self.upper.len();
        if start < end {
            pending.slices.push(Slice {
                buffer: self.buffer,
                range: start..end,
            });
        }
    }

    /// The packet as the end of a write of its own. `None`: no flow, nothing to keep in order.
    fn tail(&self, offloads: Offloads) -> Option<Tail> {
        let inner = self.inner;
        let headers = match inner.flow.protocol {
            TCP => usize::from(*self.upper.get(12)? >> 4) * 4,
            UDP if offloads.has_udp_segments => 8,
            _ => return None,
        };
        let least = if inner.flow.protocol == TCP { 20 } else { 8 };
        if !offloads.has_vnet_header
            || inner.flow.is_fragment
            || headers < least
            || headers > self.upper.len()
        {
            return None;
        }
        let bytes = self.upper.len() - headers;
        let mut tail = Tail {
            flow: Flow {
                source: inner.flow.source,
                destination: inner.flow.destination,
                ports: inner.flow.ports?,
                protocol: inner.flow.protocol,
            },
            headers: self.ip.len() + headers,
            upper: self.ip.len(),
            segment: bytes,
            segments: 1,
            bytes,
            next: be32(self.upper, 4).wrapping_add(bytes as u32),
            is_open: false,
        };
        tail.is_open = bytes > 0 && self.may_merge() && self.is_verified();
        Some(tail)
    }

    /// Whether segmentation could have made it: no IP options, no flag but ACK, PSH and FIN, UDP's
    /// length that of the packet.
    fn may_merge(&self) -> bool {
        let plain_ip = self.ip.len() == if self.inner.is_v6() { 40 } else { 20 };
        let plain_upper = match self.inner.flow.protocol {
            TCP => self.upper[FLAGS] & !(PSH | FIN) == ACK,
            _ => usize::from(be16(self.upper, 4)) == self.upper.len() && self.upper[6..8] != [0, 0],
        };
        plain_ip && plain_upper
    }

    /// Segmentation sets PSH and FIN on the last segment only.
    fn ends_burst(&self) -> bool {
        self.inner.flow.protocol == TCP && self.upper[FLAGS] & (PSH | FIN) != 0
    }

    /// Whether the checksums are right. A super-packet gets new ones, and a wrong segment must not
    /// become right by that.
    fn is_verified(&self) -> bool {
        let is_ip_right = self.inner.is_v6() || checksum::is_valid(Sum::new().bytes(self.ip));
        let flow = &self.inner.flow;
        let sum = checksum::pseudo_header((flow.source, flow.destination), flow.protocol)
            .word(self.upper.len() as u16)
            .bytes(self.upper);
        is_ip_right && checksum::is_valid(sum)
    }

    fn join(&self, new: &Tail, out: &mut Packets) -> bool {
        let first = out.used.saturating_sub(MAX_OPEN_WRITES);
        let recent = out.pending[first..out.used].iter_mut().rev();
        let of_flow = |tail: &Tail| tail.flow == new.flow;
        // only the flow's last write: segments never overtake one another
        let Some(pending) = recent
            .into_iter()
            .find(|pending| pending.tail.as_ref().is_some_and(of_flow))
        else {
            return false;
        };
        let Some(tail) = &mut pending.tail else {
            return false;
        };
        let header = &mut pending.header[header::LEN..];
        if !tail.is_continued_by(new) || !self.has_same_headers(header, tail.upper) {
            return false;
        }
        tail.bytes += new.bytes;
        tail.segments += 1;
        tail.next = new.next;
        tail.is_open = new.bytes == tail.segment;
        if self.inner.flow.protocol == TCP {
            header[tail.upper + FLAGS] |= self.upper[FLAGS];
        }
        tail.is_open &= !self.ends_burst();
        tail.finish(&mut pending.header, self.inner.is_v6());
        let start = self.start + (new.headers - new.upper);
        pending.slices.push(Slice {
            buffer: self.buffer,
            range: start..start + new.bytes,
        });
        true
    }

    /// Whether the packet's headers equal `header`, except for what segmentation changes.
    fn has_same_headers(&self, header: &[u8], upper: usize) -> bool {
        let (ip, theirs) = header.split_at(upper);
        let same_ip = match self.inner.is_v6() {
            // version, class, flow label; next header, hop limit
            true => ip[..4] == self.ip[..4] && ip[6..8] == self.ip[6..8],
            // type of service; flags; TTL
            false => ip[1] == self.ip[1] && ip[6..9] == self.ip[6..9],
        };
        if self.inner.flow.protocol == UDP {
            return same_ip;
        }
        let ours = &self.upper[..theirs.len()];
        // acknowledgement and data offset; window; urgent pointer and options
        same_ip
            && ours[8..FLAGS] == theirs[8..FLAGS]
            && ours[WINDOW..WINDOW + 2] == theirs[WINDOW..WINDOW + 2]
            && ours[18..] == theirs[18..]
    }
}
