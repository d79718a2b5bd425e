//! A frame cut into packets that fit, each written once, straight into the place where it is
//! sealed: TCP and UDP super-packets, plain packets, IPv4 fragments (RFC 791 §3.2).

use core::ops::Range;
use std::net::IpAddr;

use crypto::rand::Stream;

use crate::counters::DropReason;
use crate::plane::checksum::{self, Sum};
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::{self, Fragment, ICMPV6, Inner, TCP, UDP, be16, be32, put16, put32};
use crate::plane::sealer::{Outer, Sealer, finish_ip_header};
use crate::plane::vnet::{Offload, Segmentation};
use crate::plane::{Offloads, toobig};
use crate::sa::Mode;
use crate::time::Instant;

/// IP and TCP headers of a super-packet longer than this are refused.
const MAX_HEADERS_BYTES: usize = 256;
/// A super-packet of more segments is refused: the kernel's smallest TCP segment is 48 octets.
const MAX_SEGMENTS: usize = 1400;
/// An IPv6 packet of this size is never too big (RFC 8200 §5).
const MIN_V6_MTU: usize = 1280;
const MORE_FRAGMENTS: u16 = 0x2000;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// One frame on its way through one SA.
pub(crate) struct Burst<'a> {
    pub(crate) sealer: &'a mut Sealer,
    pub(crate) random: &'a mut Stream,
    pub(crate) offloads: Offloads,
    pub(crate) now: Instant,
    pub(crate) out: &'a mut Datagrams,
}

/// What each segment of a super-packet shares.
struct Segments {
    headers: usize,
    segment: usize,
    /// Of the pseudo header, without the length.
    pseudo: Sum,
}

impl Burst<'_> {
    /// Seals all of a frame.
    pub(crate) fn seal(
        &mut self,
        offload: &Offload,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let packet = &mut packet[..inner.total];
        if self.sealer.shape.mode == Mode::Transport {
            // ESP and AH protect whole packets only (RFC 4303 §3.3.4, RFC 4302 §3.3.4).
            if inner.fragment != Fragment::Whole {
                return Err(DropReason::BadInnerPacket);
            }
            if inner.is_v6() != self.sealer.path.remote.is_ipv6() {
                return Err(DropReason::NoPolicy);
            }
        }
        if inner.protocol == TCP && inner.fragment == Fragment::Whole {
            self.clamp_mss(inner, packet, offload.checksum.is_some());
        }
        match (offload.segmentation, inner.protocol) {
            (Segmentation::None, _) => {
                self.complete_checksum(offload, inner, packet)?;
                self.seal_plain(inner, packet)
            }
            (Segmentation::Tcp, TCP) => self.split_tcp(offload, inner, packet),
            (Segmentation::Udp, UDP) => self.split_udp(offload, inner, packet),
            _ => Err(DropReason::BadInnerPacket),
        }
    }

    fn clamp_mss(&self, inner: &Inner, packet: &mut [u8], is_partial: bool) {
        let is_syn = packet.get(inner.upper + 13).is_some_and(|f| f & SYN != 0);
        if is_syn {
            let room = self.sealer.largest.saturating_sub(inner.upper + 20);
            toobig::clamp_mss(&mut packet[inner.upper..], room as u16, is_partial);
        }
    }

    /// Makes the upper layer's checksum right for whoever opens the packet: completes what the
    /// device left to us, and in transport mode covers the addresses that the peer repairs from.
    fn complete_checksum(
        &self,
        offload: &Offload,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let is_upper = inner.fragment == Fragment::Whole;
        let at = inner::checksum_offset(inner.protocol).filter(|_| is_upper);
        if let Some((start, offset)) = offload.checksum {
            if start + offset + 2 > packet.len() {
                return Err(DropReason::BadInnerPacket);
            }
            if at == Some(offset) && start == inner.upper {
                let upper = &mut packet[inner.upper..];
                put16(upper, offset, 0);
                let length = upper.len() as u16;
                let sum = self.pseudo(inner).add16(length).add(upper);
                put_checksum(upper, offset, inner.protocol, sum);
                return Ok(());
            }
            // the field holds the partial sum of the pseudo header
            let sum = Sum::default().add(&packet[start..]).checksum();
            packet[start + offset..start + offset + 2].copy_from_slice(&sum);
        }
        let actual = (inner.source, inner.destination);
        if self.sealer.shape.mode == Mode::Tunnel || actual == self.view() {
            return Ok(());
        }
        if let Some(at) = at {
            let upper = &mut packet[inner.upper..];
            translate_checksum(upper, at, inner.protocol, actual, self.view())?;
        }
        Ok(())
    }

    fn view(&self) -> (IpAddr, IpAddr) {
        self.sealer.view
    }

    fn pseudo(&self, inner: &Inner) -> Sum {
        let (source, destination) = match self.sealer.shape.mode {
            Mode::Tunnel => (inner.source, inner.destination),
            Mode::Transport => self.view(),
        };
        Sum::pseudo(source, destination, inner.protocol)
    }

    fn seal_plain(&mut self, inner: &Inner, packet: &mut [u8]) -> Result<(), DropReason> {
        if packet.len() <= self.sealer.largest {
            return self.seal_whole(inner, packet);
        }
        let is_free_to_cut = !inner.is_v6() && !inner.dont_fragment;
        match self.sealer.shape.mode {
            Mode::Tunnel if is_free_to_cut => self.seal_fragments(inner, packet),
            _ if self.must_refuse(inner, packet.len()) => self.refuse(inner, packet),
            // The outer packet is fragmented (RFC 4303 §3.3.4); by the kernel where it is UDP.
            _ => self.seal_whole(inner, packet),
        }
    }

    fn must_refuse(&self, inner: &Inner, length: usize) -> bool {
        let is_small_v6 = inner.is_v6() && length <= MIN_V6_MTU;
        inner.dont_fragment && self.sealer.copies_df && !is_small_v6
    }

    /// Tells the sender what fits.
    fn refuse(&mut self, inner: &Inner, packet: &[u8]) -> Result<(), DropReason> {
        let largest = self.sealer.largest;
        let has_header = self.offloads.has_vnet_header;
        toobig::reply(inner, packet, largest, has_header, self.out);
        Err(DropReason::TooBig)
    }

    fn seal_whole(&mut self, inner: &Inner, packet: &[u8]) -> Result<(), DropReason> {
        let outer = Outer::of(self.sealer, inner, packet);
        let payload = &packet[outer.header.len()..];
        self.sealer.seal(
            payload.len(),
            &outer,
            self.now,
            self.random,
            self.out,
            |place| place.copy_from_slice(payload),
        )
    }

    /// Cuts an IPv4 packet (maybe a fragment itself) into fragments that fit, and seals each.
    fn seal_fragments(&mut self, inner: &Inner, packet: &mut [u8]) -> Result<(), DropReason> {
        let (header, payload) = packet.split_at_mut(inner.upper);
        let room = self.sealer.largest.saturating_sub(header.len()) & !7;
        if room == 0 {
            return Err(DropReason::TooBig);
        }
        let field = be16(header, 6);
        let last = payload.len().div_ceil(room) - 1;
        for (number, part) in payload.chunks(room).enumerate() {
            let more = if number < last { MORE_FRAGMENTS } else { 0 };
            put16(header, 6, (field + (number * room / 8) as u16) | more);
            finish_ip_header(header, header.len() + part.len());
            let outer = Outer::of(self.sealer, inner, &[]);
            let clear = header.len() + part.len();
            let fill = |place: &mut [u8]| {
                place[..header.len()].copy_from_slice(header);
                place[header.len()..].copy_from_slice(part);
            };
            self.sealer
                .seal(clear, &outer, self.now, self.random, self.out, fill)?;
            if number == 0 {
                drop_uncopied_options(header);
            }
        }
        Ok(())
    }

    fn split_tcp(
        &mut self,
        offload: &Offload,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let offset = packet
            .get(inner.upper + 12)
            .map_or(0, |octet| usize::from(octet >> 4) * 4);
        let mut plan = self.plan(offload, inner, packet, offset, 20)?;
        if self.must_cut(inner, &plan) {
            if self.must_refuse(inner, plan.headers + plan.segment) {
                return self.refuse(inner, packet);
            }
            plan.segment = self.sealer.largest.saturating_sub(plan.headers).max(1);
        }
        let (headers, data) = packet.split_at_mut(plan.headers);
        let (first_id, first_sequence) = (be16(headers, 4), be32(headers, inner.upper + 4));
        let flags = headers[inner.upper + 13];
        let chunks = data.len().div_ceil(plan.segment);
        for number in 0..chunks {
            let part = number * plan.segment..data.len().min((number + 1) * plan.segment);
            let upper = &mut headers[inner.upper..];
            put32(upper, 4, first_sequence.wrapping_add(part.start as u32));
            upper[13] = flags
                & !if number > 0 { CWR } else { 0 }
                & !if number + 1 < chunks { FIN | PSH } else { 0 };
            self.seal_segment(inner, &plan, headers, &data[part], (first_id, number))?;
        }
        Ok(())
    }

    fn split_udp(
        &mut self,
        offload: &Offload,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let plan = self.plan(offload, inner, packet, 8, 8)?;
        let must_cut = self.must_cut(inner, &plan);
        if must_cut && self.must_refuse(inner, plan.headers + plan.segment) {
            return self.refuse(inner, packet);
        }
        let is_cut_inside = must_cut && self.sealer.shape.mode == Mode::Tunnel;
        let (headers, data) = packet.split_at_mut(plan.headers);
        let first_id = be16(headers, 4);
        for (number, part) in data.chunks(plan.segment).enumerate() {
            put16(headers, inner.upper + 4, (8 + part.len()) as u16);
            if is_cut_inside && !inner.is_v6() {
                self.seal_loose(inner, &plan, headers, part, (first_id, number))?;
            } else {
                self.seal_segment(inner, &plan, headers, part, (first_id, number))?;
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        offload: &Offload,
        inner: &Inner,
        packet: &[u8],
        upper_header: usize,
        least: usize,
    ) -> Result<Segments, DropReason> {
        let headers = inner.upper + upper_header;
        let is_sound = inner.fragment == Fragment::Whole
            && upper_header >= least
            && headers < packet.len()
            && headers <= MAX_HEADERS_BYTES
            && offload.segment > 0
            && (packet.len() - headers).div_ceil(offload.segment) <= MAX_SEGMENTS;
        is_sound
            .then(|| Segments {
                headers,
                segment: offload.segment,
                pseudo: self.pseudo(inner),
            })
            .ok_or(DropReason::BadInnerPacket)
    }

    fn must_cut(&self, inner: &Inner, plan: &Segments) -> bool {
        let largest = plan.headers + plan.segment;
        largest > self.sealer.largest && !(inner.is_v6() && largest <= MIN_V6_MTU)
    }

    /// Completes the headers of one segment and seals it, its data copied once.
    fn seal_segment(
        &mut self,
        inner: &Inner,
        plan: &Segments,
        headers: &mut [u8],
        data: &[u8],
        numbering: (u16, usize),
    ) -> Result<(), DropReason> {
        finish_headers(inner, plan, headers, data, numbering);
        let outer = Outer::of(self.sealer, inner, headers);
        let protected = &headers[outer.header.len()..];
        let clear = protected.len() + data.len();
        let fill = |place: &mut [u8]| {
            let (head, tail) = place.split_at_mut(protected.len());
            head.copy_from_slice(protected);
            tail.copy_from_slice(data);
        };
        self.sealer
            .seal(clear, &outer, self.now, self.random, self.out, fill)
    }

    /// One datagram of a UDP super-packet that must be fragmented: rare, so it may be copied.
    fn seal_loose(
        &mut self,
        inner: &Inner,
        plan: &Segments,
        headers: &mut [u8],
        data: &[u8],
        numbering: (u16, usize),
    ) -> Result<(), DropReason> {
        finish_headers(inner, plan, headers, data, numbering);
        let mut packet = [headers, data].concat();
        self.seal_fragments(inner, &mut packet)
    }
}

/// Length, identification and checksums of a segment.
fn finish_headers(
    inner: &Inner,
    plan: &Segments,
    headers: &mut [u8],
    data: &[u8],
    (first_id, number): (u16, usize),
) {
    let length = headers.len() + data.len();
    let (ip, upper) = headers.split_at_mut(inner.upper);
    if !inner.is_v6() {
        put16(ip, 4, first_id.wrapping_add(number as u16));
        finish_ip_header(ip, length);
    } else {
        put16(ip, 4, (length - 40) as u16);
    }
    let at = if inner.protocol == TCP { 16 } else { 6 };
    put16(upper, at, 0);
    let covered = (length - inner.upper) as u16;
    let sum = plan.pseudo.add16(covered).add(upper).add(data);
    put_checksum(upper, at, inner.protocol, sum);
}

/// Writes a checksum; UDP has no zero (RFC 768).
fn put_checksum(upper: &mut [u8], at: usize, protocol: u8, sum: Sum) {
    let checksum = match sum.checksum() {
        [0, 0] if protocol == UDP => [0xff, 0xff],
        checksum => checksum,
    };
    upper[at..at + 2].copy_from_slice(&checksum);
}

/// Moves the checksum of an upper layer from one pair of addresses to another (RFC 3948 §3.1.2).
pub(crate) fn translate_checksum(
    upper: &mut [u8],
    at: usize,
    protocol: u8,
    from: (IpAddr, IpAddr),
    to: (IpAddr, IpAddr),
) -> Result<(), DropReason> {
    let field: Range<usize> = at..at + 2;
    let old = upper.get(field).ok_or(DropReason::BadInnerPacket)?;
    if protocol == UDP && old == [0, 0] {
        return Ok(());
    }
    checksum::update(upper, at, |sum| {
        sum.subtract_address(from.0)
            .subtract_address(from.1)
            .add_address(to.0)
            .add_address(to.1)
    });
    if protocol == UDP && upper[at..at + 2] == [0, 0] {
        upper[at..at + 2].fill(0xff);
    }
    debug_assert!(matches!(protocol, TCP | UDP | ICMPV6));
    Ok(())
}

/// Options whose copied flag is not set belong into the first fragment only (RFC 791 §3.1).
fn drop_uncopied_options(header: &mut [u8]) {
    let mut at = 20;
    while at < header.len() {
        let length = match header[at] {
            0 => return,
            1 => 1,
            _ => header.get(at + 1).map_or(1, |n| usize::from(*n)).max(2),
        };
        let end = header.len().min(at + length);
        if header[at] & 0x80 == 0 {
            header[at..end].fill(1);
        }
        at = end;
    }
}
