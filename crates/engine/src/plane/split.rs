//! Cuts a frame into packets that fit: TCP and UDP super-packets, plain packets, IPv4 fragments
//! (RFC 791 §3.2). Each packet is written once, to the place where it is sealed.

use std::net::IpAddr;

use crypto::rand::Stream;
use wire::ip::fragment::Fragments;
use wire::ip::protocol::{TCP, UDP};
use wire::ip::tcp::{self, flags};
use wire::ip::{AddressChange, Sum};
use wire::vnet::{Gso, VnetHeader};

use crate::counters::DropReason;
use crate::plane::checksum;
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::{Inner, be16, be32, put16, put32};
use crate::plane::path_mtu::LEAST_V6;
use crate::plane::sealer::{Outer, Sealer, finish_ip_header};
use crate::plane::{Offloads, toobig};
use crate::sa::Mode;
use crate::time::Instant;

/// IP and TCP headers of a super-packet longer than this are refused.
const MAX_HEADERS_BYTES: usize = 256;
/// A super-packet of more segments is refused: the kernel's smallest TCP segment is 48 octets.
const MAX_SEGMENTS: usize = 1400;

/// One frame on its way through one SA.
pub(crate) struct Burst<'a> {
    pub(crate) sealer: &'a mut Sealer,
    pub(crate) random: &'a mut Stream,
    pub(crate) offloads: Offloads,
    /// TCP's maximum segment size passes as it is.
    pub(crate) keeps_mss: bool,
    pub(crate) now: Instant,
    pub(crate) out: &'a mut Datagrams,
    /// What was sealed of it so far.
    pub(crate) sealed: Sealed,
}

/// How much was sealed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sealed {
    pub(crate) packets: u64,
    /// Octets before sealing.
    pub(crate) bytes: u64,
    /// Octets after it.
    pub(crate) sealed_bytes: u64,
    /// With them the SA reaches its soft limit.
    pub(crate) reaches_soft_limit: bool,
}

/// What each segment of a super-packet shares.
struct Segments {
    headers: usize,
    segment: usize,
    /// Of the pseudo header, without the length.
    pseudo: Sum,
}

impl Sealed {
    fn count(&mut self, clear: usize, sealed: usize) {
        self.packets += 1;
        self.bytes += clear as u64;
        self.sealed_bytes += sealed as u64;
    }
}

impl Burst<'_> {
    /// Seals all of a frame. Returns what was sealed, even if the rest was refused.
    pub(crate) fn seal(
        mut self,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
    ) -> (Sealed, Result<(), DropReason>) {
        let result = self.seal_all(offload, inner, packet);
        self.sealed.reaches_soft_limit = self.sealer.reach_soft_limit();
        (self.sealed, result)
    }

    fn seal_all(
        &mut self,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let packet = &mut packet[..inner.flow.total_len];
        if self.sealer.encapsulation().is_some() {
            self.check_for_tunnel(inner)?;
        }
        if self.sealer.mode == Mode::Transport {
            // ESP and AH protect whole packets only (RFC 4303 §3.3.4, RFC 4302 §3.3.4).
            if inner.flow.is_fragment {
                return Err(DropReason::BadInnerPacket);
            }
            if inner.is_v6() != self.sealer.path.remote.is_ipv6() {
                return Err(DropReason::NoPolicy);
            }
        }
        let room = self
            .sealer
            .largest
            .saturating_sub(inner.flow.transport + 20);
        if !self.keeps_mss {
            tcp::clamp_mss(packet, &inner.flow, room as u16, offload.checksum_state());
        }
        match (offload.gso, inner.flow.protocol) {
            (Gso::None, _) => {
                self.complete_checksum(offload, inner, packet)?;
                self.seal_plain(inner, packet)
            }
            (Gso::TcpV4 | Gso::TcpV6, TCP) => self.split_tcp(offload, inner, packet),
            (Gso::UdpL4, UDP) => self.split_udp(offload, inner, packet),
            _ => Err(DropReason::BadInnerPacket),
        }
    }

    /// Whether a tunnel of Mobile IPv4 may carry the packet. One from the other end of the tunnel
    /// has been through it already (RFC 2003 §3.2, RFC 5944 §4.2.3).
    fn check_for_tunnel(&self, inner: &Inner) -> Result<(), DropReason> {
        match inner.flow.source {
            IpAddr::V6(_) => Err(DropReason::NoPolicy),
            source if source == self.sealer.path.remote.ip() => Err(DropReason::RoutingLoop),
            IpAddr::V4(_) => Ok(()),
        }
    }

    /// Makes the upper layer's checksum right for the peer. Completes a checksum that the device
    /// left to us. In transport mode, uses the addresses from which the peer repairs it.
    fn complete_checksum(
        &self,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        if inner.flow.is_fragment {
            return Ok(());
        }
        let actual = (inner.flow.source, inner.flow.destination);
        let covered = match self.sealer.mode {
            Mode::Tunnel => actual,
            Mode::Transport => self.sealer.view,
        };
        if actual != covered {
            let state = offload.checksum_state();
            let upper = &mut packet[inner.flow.transport..];
            AddressChange::new(actual, covered).repair(inner.flow.protocol, upper, state);
        }
        if offload.needs_checksum() {
            // the field holds the sum of the pseudo header
            let (start, at) = (offload.csum_start.into(), offload.csum_offset.into());
            let upper = packet
                .get_mut(start..)
                .filter(|upper| start >= inner.flow.transport && upper.len() >= at + 2)
                .ok_or(DropReason::BadInnerPacket)?;
            let sum = Sum::new().bytes(upper);
            checksum::put(upper, at, inner.flow.protocol, sum);
        }
        Ok(())
    }

    fn pseudo(&self, inner: &Inner) -> Sum {
        let ends = match self.sealer.mode {
            Mode::Tunnel => (inner.flow.source, inner.flow.destination),
            Mode::Transport => self.sealer.view,
        };
        checksum::pseudo_header(ends, inner.flow.protocol)
    }

    fn seal_plain(&mut self, inner: &Inner, packet: &mut [u8]) -> Result<(), DropReason> {
        if packet.len() <= self.sealer.largest {
            return self.seal_whole(inner, packet);
        }
        let is_free_to_cut = !inner.is_v6() && !inner.dont_fragment;
        match self.sealer.mode {
            Mode::Tunnel if is_free_to_cut => self.seal_fragments(inner, packet),
            _ if self.must_refuse(inner, packet.len()) => self.refuse(inner, packet),
            // The outer packet is fragmented (RFC 4303 §3.3.4); by the kernel where it is UDP.
            _ => self.seal_whole(inner, packet),
        }
    }

    fn must_refuse(&self, inner: &Inner, length: usize) -> bool {
        inner.dont_fragment && self.sealer.copies_df && !is_small_v6(inner, length)
    }

    /// Tells the sender by ICMP which size fits.
    fn refuse(&mut self, inner: &Inner, packet: &[u8]) -> Result<(), DropReason> {
        let largest = self.sealer.largest;
        let has_header = self.offloads.has_vnet_header;
        toobig::reply(inner, packet, largest, has_header, self.out);
        Err(DropReason::TooBig)
    }

    fn seal_whole(&mut self, inner: &Inner, packet: &[u8]) -> Result<(), DropReason> {
        let outer = Outer::of(self.sealer, inner, packet);
        let payload = &packet[outer.header.len()..];
        let fill = |place: &mut [u8]| place.copy_from_slice(payload);
        let (clear, now) = (payload.len(), self.now);
        let sealed = self
            .sealer
            .seal(clear, &outer, now, self.random, self.out, fill)?;
        self.sealed.count(clear, sealed);
        Ok(())
    }

    /// Cuts an IPv4 packet (maybe a fragment itself) into fragments that fit, and seals each. Rare,
    /// so they may be copied once more.
    fn seal_fragments(&mut self, inner: &Inner, packet: &[u8]) -> Result<(), DropReason> {
        let largest = self.sealer.largest;
        let mut fragments =
            Fragments::new(packet, largest).map_err(|_refused| DropReason::TooBig)?;
        let mut scratch = vec![0; largest];
        while let Some(length) = fragments.write_next(&mut scratch) {
            self.seal_whole(inner, &scratch[..length])?;
        }
        Ok(())
    }

    fn split_tcp(
        &mut self,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let offset = packet
            .get(inner.flow.transport + 12)
            .map_or(0, |octet| usize::from(octet >> 4) * 4);
        let mut plan = self.plan(offload, inner, packet, offset, 20)?;
        if self.must_cut(inner, &plan) {
            if self.must_refuse(inner, plan.headers + plan.segment) {
                return self.refuse(inner, packet);
            }
            plan.segment = self.sealer.largest.saturating_sub(plan.headers).max(1);
        }
        let (headers, data) = packet.split_at_mut(plan.headers);
        let (first_id, first_sequence) =
            (be16(headers, 4), be32(headers, inner.flow.transport + 4));
        let all_flags = headers[inner.flow.transport + 13];
        let chunks = data.len().div_ceil(plan.segment);
        for number in 0..chunks {
            let part = number * plan.segment..data.len().min((number + 1) * plan.segment);
            let upper = &mut headers[inner.flow.transport..];
            put32(upper, 4, first_sequence.wrapping_add(part.start as u32));
            upper[13] = all_flags
                & !if number > 0 { flags::CWR } else { 0 }
                & !if number + 1 < chunks {
                    flags::FIN | flags::PSH
                } else {
                    0
                };
            self.seal_segment(inner, &plan, headers, &data[part], (first_id, number))?;
        }
        Ok(())
    }

    fn split_udp(
        &mut self,
        offload: &VnetHeader,
        inner: &Inner,
        packet: &mut [u8],
    ) -> Result<(), DropReason> {
        let plan = self.plan(offload, inner, packet, 8, 8)?;
        let must_cut = self.must_cut(inner, &plan);
        if must_cut && self.must_refuse(inner, plan.headers + plan.segment) {
            return self.refuse(inner, packet);
        }
        let is_cut_inside = must_cut && self.sealer.mode == Mode::Tunnel;
        let (headers, data) = packet.split_at_mut(plan.headers);
        let first_id = be16(headers, 4);
        for (number, part) in data.chunks(plan.segment).enumerate() {
            put16(headers, inner.flow.transport + 4, (8 + part.len()) as u16);
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
        offload: &VnetHeader,
        inner: &Inner,
        packet: &[u8],
        upper_header: usize,
        least: usize,
    ) -> Result<Segments, DropReason> {
        let headers = inner.flow.transport + upper_header;
        let is_sound = !inner.flow.is_fragment
            && upper_header >= least
            && headers < packet.len()
            && headers <= MAX_HEADERS_BYTES
            && offload.gso_size > 0
            && (packet.len() - headers).div_ceil(offload.gso_size.into()) <= MAX_SEGMENTS;
        is_sound
            .then(|| Segments {
                headers,
                segment: offload.gso_size.into(),
                pseudo: self.pseudo(inner),
            })
            .ok_or(DropReason::BadInnerPacket)
    }

    fn must_cut(&self, inner: &Inner, plan: &Segments) -> bool {
        let largest = plan.headers + plan.segment;
        largest > self.sealer.largest && !is_small_v6(inner, largest)
    }

    /// Completes the headers of one segment and seals it. Copies its data once.
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
        let sealed = self
            .sealer
            .seal(clear, &outer, self.now, self.random, self.out, fill)?;
        self.sealed.count(clear, sealed);
        Ok(())
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
        self.seal_fragments(inner, &[headers, data].concat())
    }
}

/// Nobody is told that an IPv6 packet of this size is too big (RFC 8200 §5).
fn is_small_v6(inner: &Inner, length: usize) -> bool {
    inner.is_v6() && length <= LEAST_V6.into()
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
    let (ip, upper) = headers.split_at_mut(inner.flow.transport);
    if !inner.is_v6() {
        put16(ip, 4, first_id.wrapping_add(number as u16));
        finish_ip_header(ip, length);
    } else {
        put16(ip, 4, (length - 40) as u16);
    }
    let at = if inner.flow.protocol == TCP { 16 } else { 6 };
    put16(upper, at, 0);
    let covered = (length - inner.flow.transport) as u16;
    let sum = plan.pseudo.word(covered).bytes(upper).bytes(data);
    checksum::put(upper, at, inner.flow.protocol, sum);
}
