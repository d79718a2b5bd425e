//! What the outbound plane gives: sealed datagrams in one reusable buffer, cut into runs that a
//! single `sendmsg` with UDP_SEGMENT can carry, and packets that go back to the TUN device.

use core::ops::Range;

use wire::ip::fragment::{Fragments, Refused};
use wire::ip::ipv6::{self, FRAGMENT_LEN};
use wire::ip::protocol::FRAGMENT;

use crate::plane::Notice;
use crate::plane::inner::{put16, put32};
use crate::plane::vnet;
use crate::sa::{Path, Via};

/// Most datagrams of a run: the kernel's UDP_MAX_SEGMENTS.
pub const MAX_SEGMENTS: usize = 64;
/// Most octets of a run: the largest UDP payload over IPv4.
pub const MAX_RUN_BYTES: usize = 65_507;

/// The buffer grows by this much.
const GROWTH_BYTES: usize = 64 << 10;

/// Datagrams of equal size (the last may be shorter) to one peer, contiguous in the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How, from where and to where. A raw run has one datagram.
    pub path: Path,
    /// TOS or traffic class of the outer header: DSCP, and ECN as RFC 6040 §4.1 says.
    pub traffic_class: u8,
    /// Octets of each datagram but the last, which may have fewer.
    pub segment_bytes: usize,
    /// One datagram that is larger than its path carries: the caller sends it without DF.
    pub is_oversize: bool,
    /// Where in the buffer.
    pub range: Range<usize>,
}

/// Sealed datagrams. Made once, filled by [`crate::plane::OutboundPlane::seal`] any number of
/// times, emptied by [`Datagrams::clear`] once everything was sent.
#[derive(Default)]
pub struct Datagrams {
    pub(crate) buffer: Vec<u8>,
    pub(crate) used: usize,
    pub(crate) runs: Vec<Run>,
    pub(crate) reply_bytes: Vec<u8>,
    pub(crate) replies: Vec<Range<usize>>,
    pub(crate) notices: Vec<Notice>,
}

impl Datagrams {
    /// Empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.used = 0;
        self.runs.clear();
        self.reply_bytes.clear();
        self.replies.clear();
        self.notices.clear();
    }

    /// What to send, in order.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The octets of a run of this object.
    pub fn bytes(&self, run: &Run) -> &[u8] {
        &self.buffer[run.range.clone()]
    }

    /// Octets sealed so far. The caller sends and clears when there are enough.
    pub fn len(&self) -> usize {
        self.used
    }

    /// Whether nothing is to be sent.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Packets to write to the TUN device, each with its virtio-net header if the device has them:
    /// ICMP "fragmentation needed" and "packet too big".
    pub fn replies(&self) -> impl Iterator<Item = &[u8]> {
        self.replies
            .iter()
            .map(|range| &self.reply_bytes[range.clone()])
    }

    /// One of [`Self::replies`].
    pub(crate) fn reply(&self, number: usize) -> &[u8] {
        &self.reply_bytes[self.replies[number].clone()]
    }

    /// Octets of a run, or a part of them.
    pub(crate) fn octets(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// What control must know.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Adds a packet for the TUN device.
    pub(crate) fn answer(&mut self, packet: &[u8], has_vnet_header: bool) {
        let start = self.reply_bytes.len();
        if has_vnet_header {
            self.reply_bytes.extend_from_slice(&vnet::PLAIN);
        }
        self.reply_bytes.extend_from_slice(packet);
        self.replies.push(start..self.reply_bytes.len());
    }

    /// Forgets all but the first `keep` of [`Self::replies`].
    pub(crate) fn take_back_answers(&mut self, keep: usize) {
        if let Some(first) = self.replies.get(keep) {
            self.reply_bytes.truncate(first.start);
            self.replies.truncate(keep);
        }
    }

    /// Adds what `other` has for the TUN device and for control.
    pub(crate) fn take_answers(&mut self, other: &Self) {
        for range in &other.replies {
            let start = self.reply_bytes.len();
            self.reply_bytes
                .extend_from_slice(&other.reply_bytes[range.clone()]);
            self.replies.push(start..self.reply_bytes.len());
        }
        self.notices.extend(other.notices.iter().cloned());
    }

    /// Room for one more datagram, in the last run if it fits, otherwise in its own run.
    /// `is_alone`: it is larger than the path carries, and the kernel does not fragment runs.
    pub(crate) fn push(
        &mut self,
        path: &Path,
        traffic_class: u8,
        length: usize,
        is_alone: bool,
    ) -> &mut [u8] {
        let range = self.used..self.used + length;
        if self.buffer.len() < range.end {
            self.buffer
                .resize(range.end.next_multiple_of(GROWTH_BYTES), 0);
        }
        self.used = range.end;
        match self.runs.last_mut() {
            Some(run) if !is_alone && run.takes(path, traffic_class, length) => {
                run.range.end = range.end;
            }
            _ => self.runs.push(Run {
                path: *path,
                traffic_class,
                segment_bytes: length,
                is_oversize: is_alone,
                range: range.clone(),
            }),
        }
        &mut self.buffer[range]
    }

    /// Takes back the datagram of `length` octets that was pushed last.
    pub(crate) fn unpush(&mut self, length: usize) {
        self.used -= length;
        if let Some(run) = self.runs.last_mut() {
            run.range.end = self.used;
            if run.range.is_empty() {
                self.runs.pop();
            }
        }
    }

    /// Cuts the datagram pushed last, a whole IPv4 packet of a raw path, into fragments. Returns
    /// their octets.
    pub(crate) fn fragment_last(&mut self, mtu: usize) -> Result<usize, Refused> {
        let Some(run) = self.runs.last().cloned() else {
            return Ok(0);
        };
        let packet = self.buffer[run.range.clone()].to_vec();
        let mut fragments = Fragments::new(&packet, mtu)?;
        self.unpush(packet.len());
        let mut scratch = vec![0; packet.len().max(mtu)];
        let mut octets = 0;
        while let Some(length) = fragments.write_next(&mut scratch) {
            self.push(&run.path, run.traffic_class, length, true)
                .copy_from_slice(&scratch[..length]);
            octets += length;
        }
        Ok(octets)
    }

    /// Cuts the datagram pushed last, a whole IPv6 packet of a raw path, as its source may
    /// (RFC 8200 §4.5): `header` octets stand in each fragment, and the octet at `named_at` names
    /// what follows them. Returns the octets of all fragments.
    pub(crate) fn fragment_last_v6(
        &mut self,
        mtu: usize,
        (header, named_at): (usize, usize),
        id: u32,
    ) -> Result<usize, Refused> {
        let Some(run) = self.runs.last().cloned() else {
            return Ok(0);
        };
        let packet = self.buffer[run.range.clone()].to_vec();
        let (head, payload) = packet.split_at(header);
        let room = mtu.saturating_sub(header + FRAGMENT_LEN) & !7;
        if room == 0 {
            return Err(Refused::MtuTooSmall);
        }
        self.unpush(packet.len());
        let mut octets = 0;
        for (number, part) in payload.chunks(room).enumerate() {
            let length = header + FRAGMENT_LEN + part.len();
            let to = self.push(&run.path, run.traffic_class, length, true);
            to[..header].copy_from_slice(head);
            put16(to, 4, (length - ipv6::HEADER_LEN) as u16);
            to[header..header + 2].copy_from_slice(&[head[named_at], 0]);
            to[named_at] = FRAGMENT;
            let offset = number * room;
            let has_more = u16::from(offset + part.len() < payload.len());
            put16(to, header + 2, offset as u16 | has_more);
            put32(to, header + 4, id);
            to[header + FRAGMENT_LEN..].copy_from_slice(part);
            octets += length;
        }
        Ok(octets)
    }
}

impl Run {
    fn takes(&self, path: &Path, traffic_class: u8, length: usize) -> bool {
        let bytes = self.range.len();
        path.via != Via::Raw
            && !self.is_oversize
            && self.path == *path
            && self.traffic_class == traffic_class
            && length <= self.segment_bytes
            && bytes.is_multiple_of(self.segment_bytes)
            && bytes / self.segment_bytes < MAX_SEGMENTS
            && bytes + length <= MAX_RUN_BYTES
    }
}
