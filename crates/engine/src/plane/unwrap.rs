//! Turns the plaintext of an opened packet into a packet for the TUN device: selectors, ECN, the IP
//! header of transport mode, checksum repair after NAT.

use std::net::IpAddr;

use wire::ip::checksum::{checksum_offset, update};
use wire::ip::protocol::{ESP, ICMPV6, IPV4, IPV6, TCP, UDP};
use wire::ip::{AddressChange, ChecksumState, Flow, flow, tcp};

use crate::counters::DropReason;
use crate::plane::checksum;
use crate::plane::coalesce::Delivery;
use crate::plane::ends::OwnEnds;
use crate::plane::inner::{Inner, be16, put16};
use crate::plane::opener::Opener;
use crate::plane::packets::{Packets, Slice};
use crate::plane::sealer::{finish_ip_header, write_ip_header};
use crate::plane::{Offloads, policy};
use crate::sa::{Mode, Path, Via};

const ECN: u8 = 3;
const CONGESTION_EXPERIENCED: u8 = 3;
/// An IPv6 header, or an IPv4 header with options, or IPv6 with short extensions.
const MAX_HEADER_BYTES: usize = 128;

/// An opened packet.
pub(crate) struct Unwrap<'a> {
    /// TCP's maximum segment size passes as it is.
    pub(crate) keeps_mss: bool,
    pub(crate) opener: &'a Opener,
    pub(crate) path: Path,
    pub(crate) traffic_class: u8,
    /// Raw kinds: the outer IP header.
    pub(crate) outer: &'a mut [u8],
    pub(crate) next_header: u8,
    /// Differs from those of the SA's packets before it.
    pub(crate) id: u16,
    pub(crate) clear: &'a mut [u8],
    pub(crate) buffer: usize,
    /// Where `clear` lies in the buffer.
    pub(crate) start: usize,
}

impl Unwrap<'_> {
    /// Checks the packet and hands it on. Returns its headers if it is for one of our own ends of
    /// SAs: such a packet is not handed on, but opened again.
    pub(crate) fn deliver(
        &mut self,
        own: &OwnEnds,
        offloads: Offloads,
        out: &mut Packets,
    ) -> Result<Option<Inner>, DropReason> {
        match self.opener.mode {
            Mode::Tunnel => self.deliver_tunnel(own, offloads, out),
            Mode::Transport => self.deliver_transport(offloads, out).map(|()| None),
        }
    }

    fn deliver_tunnel(
        &mut self,
        own: &OwnEnds,
        offloads: Offloads,
        out: &mut Packets,
    ) -> Result<Option<Inner>, DropReason> {
        let inner = Inner::parse(self.clear).ok_or(DropReason::BadInnerPacket)?;
        let is_of_family = match self.next_header {
            IPV4 => !inner.is_v6(),
            IPV6 => inner.is_v6(),
            _ => false,
        };
        if !is_of_family {
            return Err(DropReason::BadInnerPacket);
        }
        if !policy::admits(&inner, &self.opener.remote, &self.opener.local, false) {
            return Err(DropReason::SelectorMismatch);
        }
        // what follows the packet is traffic flow confidentiality padding (RFC 4303 §2.7)
        let outer_class = self.outer_class();
        let packet = &mut self.clear[..inner.flow.total_len];
        let room = self.opener.largest_segment(inner.flow.transport);
        if !self.keeps_mss {
            tcp::clamp_mss(packet, &inner.flow, room, ChecksumState::Full);
        }
        let (ip, upper) = packet.split_at_mut(inner.flow.transport);
        decapsulate_ecn(ip, &inner, outer_class)?;
        if own.take(&inner) {
            return Ok(Some(inner));
        }
        if self.opener.sent_on_from.is_some() {
            count_hop(ip, &inner)?;
            out.returned.push(Slice {
                buffer: self.buffer,
                range: self.start..self.start + inner.flow.total_len,
            });
            return Ok(None);
        }
        let delivery = Delivery {
            inner: &inner,
            ip,
            upper,
            buffer: self.buffer,
            start: self.start + inner.flow.transport,
        };
        delivery.deliver(offloads, out);
        Ok(None)
    }

    fn deliver_transport(
        &mut self,
        offloads: Offloads,
        out: &mut Packets,
    ) -> Result<(), DropReason> {
        let mut header = [0; MAX_HEADER_BYTES];
        let (header, inner) = self.rebuild_header(&mut header)?;
        let opener = self.opener;
        // Behind a NAT, the selectors have addresses from before the NAT: the SA identifies the
        // peer.
        let is_host_only = self.path.via != Via::Raw || opener.pool_address.is_some();
        if !policy::admits(&inner, &opener.remote, &opener.local, is_host_only) {
            return Err(DropReason::SelectorMismatch);
        }
        self.repair_checksum(&inner)?;
        let room = opener.largest_segment(header.len());
        let segment = Flow {
            transport: 0,
            ..inner.flow
        };
        if !self.keeps_mss {
            tcp::clamp_mss(self.clear, &segment, room, ChecksumState::Full);
        }
        let delivery = Delivery {
            inner: &inner,
            ip: header,
            upper: self.clear,
            buffer: self.buffer,
            start: self.start,
        };
        delivery.deliver(offloads, out);
        Ok(())
    }

    /// TOS or traffic class of the outer header.
    fn outer_class(&self) -> u8 {
        match self.outer.first().map(|octet| octet >> 4) {
            _ if self.path.via != Via::Raw => self.traffic_class,
            None => self.traffic_class,
            Some(6) => self.outer[0] << 4 | self.outer[1] >> 4,
            Some(_) => self.outer[1],
        }
    }

    /// The peer's address and ours: those of the SA, which authenticated packets move.
    fn outer_ends(&self) -> (IpAddr, IpAddr) {
        let (own, given) = (self.opener.path.local.ip(), self.path.local.ip());
        let local = if own.is_unspecified() { given } else { own };
        (self.opener.path.remote.ip(), local)
    }

    /// The IP header that the packet had before ESP or AH: the outer one if there is one, otherwise
    /// one with the datagram's addresses. Its source is the address under which we know the peer.
    fn rebuild_header<'b>(
        &self,
        header: &'b mut [u8; MAX_HEADER_BYTES],
    ) -> Result<(&'b [u8], Inner), DropReason> {
        let outer = self.outer_ends();
        // ESP does not prove the outer addresses: the source is always that of the SA's own peer.
        if self.path.via == Via::Raw && self.path.remote.ip() != outer.0 {
            return Err(DropReason::SelectorMismatch);
        }
        let source = self.opener.peer;
        let ends = (source, outer.1);
        if ends.0.is_ipv4() != ends.1.is_ipv4() {
            return Err(DropReason::BadInnerPacket);
        }
        let is_raw = self.path.via == Via::Raw;
        let length = match ends.0.is_ipv6() {
            _ if is_raw => self.outer.len(),
            false => 20,
            true => 40,
        };
        let header = header.get_mut(..length).ok_or(DropReason::BadInnerPacket)?;
        if is_raw {
            header.copy_from_slice(self.outer);
            put_source(header, source);
        } else {
            let class = self.traffic_class;
            // DF of the header that was given is not known: a packet that was fragmented on its way
            // here may be again, and then needs an identification (RFC 6864 §4.2)
            write_ip_header(header, ends, ESP, class, (self.id.max(1), 0));
        }
        finish_ip_header(header, length);
        let mut inner = Inner::parse(header).ok_or(DropReason::BadInnerPacket)?;
        header[inner.protocol_at] = self.next_header;
        inner.flow.protocol = self.next_header;
        inner.flow.total_len = length + self.clear.len();
        if inner.flow.total_len > usize::from(u16::MAX) || inner.flow.is_fragment {
            return Err(DropReason::BadInnerPacket);
        }
        if flow::has_ports(self.next_header) && self.clear.len() >= 4 {
            inner.flow.ports = Some((be16(self.clear, 0), be16(self.clear, 2)));
        }
        finish_ip_header(header, inner.flow.total_len);
        Ok((header, inner))
    }

    /// RFC 3948 §3.1.2: the checksum covers the addresses that the peer saw. If they are known,
    /// the checksum is translated, so a wrong one stays wrong. Otherwise it is computed again,
    /// because the packet is authentic.
    fn repair_checksum(&mut self, inner: &Inner) -> Result<(), DropReason> {
        let protocol = inner.flow.protocol;
        let ends = (inner.flow.source, inner.flow.destination);
        let seen = match self.opener.original {
            Some(original) => (original.peer, original.own),
            None if self.opener.path.via != Via::Raw => return self.renew_checksum(inner),
            None => self.outer_ends(),
        };
        if seen != ends {
            let change = AddressChange::new(seen, ends);
            change.repair(protocol, self.clear, ChecksumState::Full);
        }
        Ok(())
    }

    fn renew_checksum(&mut self, inner: &Inner) -> Result<(), DropReason> {
        let protocol = inner.flow.protocol;
        let at = match checksum_offset(protocol) {
            Some(at) if matches!(protocol, TCP | UDP | ICMPV6) => at,
            _ => return Ok(()),
        };
        let field = self.clear.get(at..at + 2);
        let field = field.ok_or(DropReason::BadInnerPacket)?;
        if protocol == UDP && field == [0, 0] {
            return Ok(());
        }
        put16(self.clear, at, 0);
        let ends = (inner.flow.source, inner.flow.destination);
        let sum = checksum::pseudo_header(ends, protocol)
            .word(self.clear.len() as u16)
            .bytes(self.clear);
        checksum::put(self.clear, at, protocol, sum);
        Ok(())
    }
}

/// RFC 6040 §4.2: congestion marks are passed on to the receiver of the inner packet. A packet
/// whose ends do not support ECN is dropped.
fn decapsulate_ecn(ip: &mut [u8], inner: &Inner, outer_class: u8) -> Result<(), DropReason> {
    let (outer, own) = (outer_class & ECN, inner.traffic_class & ECN);
    let ecn = match (own, outer) {
        (0, CONGESTION_EXPERIENCED) => return Err(DropReason::BadInnerPacket),
        (1 | 2, CONGESTION_EXPERIENCED) => CONGESTION_EXPERIENCED,
        (2, 1) => 1,
        _ => return Ok(()),
    };
    if inner.is_v6() {
        ip[1] = ip[1] & !0x30 | ecn << 4;
    } else {
        let old = be16(ip, 0);
        ip[1] = ip[1] & !ECN | ecn;
        let new = be16(ip, 0);
        let sum = update(be16(ip, 10), old, new);
        put16(ip, 10, sum);
    }
    Ok(())
}

/// One hop less for a packet of IPv4, as a router that sends it on.
fn count_hop(ip: &mut [u8], inner: &Inner) -> Result<(), DropReason> {
    if inner.ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    let old = be16(ip, 8);
    ip[8] -= 1;
    let sum = update(be16(ip, 10), old, be16(ip, 8));
    put16(ip, 10, sum);
    Ok(())
}

fn put_source(header: &mut [u8], source: IpAddr) {
    match source {
        IpAddr::V4(v4) => header[12..16].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => header[8..24].copy_from_slice(&v6.octets()),
    }
}
