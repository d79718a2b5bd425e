//! From the network to the TUN device: SA lookup, replay, ICV, decryption, checks, coalescing.

mod in_line;
mod tunnels;

use std::collections::BTreeSet;

use wire::esp::{KEEPALIVE, NON_ESP_MARKER};
use wire::ip::protocol;
use wire::mip4::TunnelHeader;

use self::in_line::Names;
use crate::ah;
use crate::counters::DropReason;
use crate::esp;
use crate::plane::ends::{OwnEnds, Tunnels};
use crate::plane::inner::Inner;
use crate::plane::opener::Opener;
use crate::plane::packets::{Control, Packets, Slice};
use crate::plane::table::Table;
use crate::plane::unwrap::Unwrap;
use crate::plane::{InboundChange, MAX_NESTED, Notice, Offloads, PlaneReport, SaReport};
use crate::sa::{ChildId, Direction, Encapsulation, Path, Protocol, Via};
use crate::skip::udp;
use crate::time::{Duration, Instant};

/// [`Notice::UnknownSpi`] is given at most this often. After a gateway's restart, this is enough to
/// answer hundreds of clients within seconds.
const UNKNOWN_SPI_INTERVAL: Duration = Duration::from_millis(10);
/// Smaller packets cause none, so that the answer is never longer than the packet. An empty TCP
/// segment in ESP is longer.
const UNKNOWN_SPI_BYTES: usize = 48;

/// What a socket received: one datagram, or several of one sender (UDP_GRO).
pub struct Received<'a> {
    /// How it came, where from and to which of our addresses. Raw: where the socket does not
    /// deliver the IPv6 header, the caller puts one before the payload. Never [`Via::Udp`], which
    /// carries no packets.
    pub path: Path,
    /// TOS or traffic class of the outer header, 0 if unknown.
    pub traffic_class: u8,
    /// Index of the interface that it came in by, 0 if unknown.
    pub interface: u32,
    /// Octets of each datagram but the last, which may have fewer (UDP_GRO's control message);
    /// `bytes.len()` for one datagram.
    pub segment_bytes: usize,
    /// The octets; opened in place.
    pub bytes: &'a mut [u8],
}

/// Inbound SAs, and the packets that they open.
pub struct InboundPlane {
    offloads: Offloads,
    keeps_mss: bool,
    table: Table,
    by_child: BTreeSet<(ChildId, u32)>,
    tunnels: Tunnels,
    names: Names,
    own: OwnEnds,
    unknown_told: Option<Instant>,
    report: PlaneReport,
}

/// What is around the packet of a datagram.
#[derive(Clone, Copy)]
enum Carried {
    Ipsec(Protocol),
    Tunnel(Encapsulation),
    Skip,
}

/// One datagram.
struct Datagram<'a> {
    buffer: usize,
    /// Where it starts in the buffer.
    start: usize,
    path: Path,
    traffic_class: u8,
    interface: u32,
    /// It was inside another packet.
    is_inside: bool,
    bytes: &'a mut [u8],
}

impl InboundPlane {
    /// No SA: everything but IKE and keepalives is dropped as `unknown-spi`.
    pub fn new(offloads: Offloads) -> Self {
        Self {
            offloads,
            keeps_mss: false,
            table: Table::default(),
            by_child: BTreeSet::new(),
            tunnels: Tunnels::default(),
            names: Names::default(),
            own: OwnEnds::default(),
            unknown_told: None,
            report: PlaneReport::default(),
        }
    }

    /// As [`super::OutboundPlane::keep_mss`].
    pub fn keep_mss(&mut self) {
        self.keeps_mss = true;
    }

    /// Takes one change; what is unknown is ignored.
    /// Returns what control must know of it.
    pub fn apply(&mut self, change: InboundChange) -> Option<Notice> {
        match change {
            InboundChange::Install(sa) => {
                self.remove(sa.child, sa.spi());
                let opener = Opener::new(*sa)?;
                self.own.add(&opener.own_end());
                if opener.encapsulation().is_some() {
                    self.tunnels.insert(opener);
                    return None;
                }
                if opener.in_line().is_some() {
                    self.names.insert(opener);
                    return None;
                }
                self.by_child.insert((opener.child, opener.spi));
                self.table.insert(Box::new(opener));
            }
            InboundChange::Remove(child, spi) => {
                return Some(self.remove(child, spi));
            }
            InboundChange::Move(child, path) => self.each_of(child, |opener, own| {
                own.remove(&opener.own_end());
                opener.path = opener.path.led_to(path);
                own.add(&opener.own_end());
            }),
            InboundChange::Lead(child, lead) => self.lead(child, &lead),
            InboundChange::Proven(child, address) => {
                self.each_of(child, |opener, _| opener.know(address))
            }
            InboundChange::Calendar(calendar, moment) => self.names.tell(calendar, moment),
        }
        None
    }

    /// Opens what was received into the buffer that the caller calls `buffer`. Appends to `out`,
    /// whose slices are ranges of `received.bytes`; never fails, drops are counted. Returns why the
    /// last of the datagrams that were dropped was dropped.
    pub fn open(
        &mut self,
        buffer: usize,
        received: Received<'_>,
        now: Instant,
        out: &mut Packets,
    ) -> Option<DropReason> {
        let mut dropped = None;
        let segment = received.segment_bytes.max(1);
        for (number, bytes) in received.bytes.chunks_mut(segment).enumerate() {
            let datagram = Datagram {
                buffer,
                start: number * segment,
                path: received.path,
                traffic_class: received.traffic_class,
                interface: received.interface,
                is_inside: false,
                bytes,
            };
            if let Err(reason) = self.open_one(datagram, now, out) {
                self.report.drops.count(reason);
                dropped = Some(reason);
            }
        }
        dropped
    }

    /// Counts of the plane and of each SA.
    pub fn report(&self) -> PlaneReport {
        let mut report = self.report.clone();
        report.associations = self.openers().map(Opener::report).collect();
        for in_line in self.names.iter().filter_map(Opener::in_line) {
            report.work.merge(in_line.work());
        }
        report
    }

    /// Lets the keys of SAs rest that have opened nothing since the last call. The next packet
    /// prepares them again, which takes about as long as the packet itself: so call it about once a
    /// minute.
    pub fn rest(&mut self) {
        self.table.iter_mut().for_each(Opener::rest);
    }

    fn open_one(
        &mut self,
        datagram: Datagram<'_>,
        now: Instant,
        out: &mut Packets,
    ) -> Result<(), DropReason> {
        let mut datagram = datagram;
        for _ in 0..MAX_NESTED {
            match self.open_layer(datagram, now, out)? {
                Some(inside) => datagram = inside,
                None => return Ok(()),
            }
        }
        Err(DropReason::NestedTooDeep)
    }

    /// Takes off what is around a packet, and hands the packet on. Returns it if it is to be opened
    /// again.
    fn open_layer<'a>(
        &mut self,
        datagram: Datagram<'a>,
        now: Instant,
        out: &mut Packets,
    ) -> Result<Option<Datagram<'a>>, DropReason> {
        let (carried, at) = match datagram.path.via {
            Via::UdpWithMarker if *datagram.bytes == KEEPALIVE => {
                self.report.keepalives += 1;
                return Ok(None);
            }
            Via::UdpWithMarker if datagram.bytes.starts_with(&NON_ESP_MARKER) => {
                out.control.push(datagram.as_control());
                return Ok(None);
            }
            Via::UdpWithMarker => (Carried::Ipsec(Protocol::Esp), 0),
            Via::UdpWithType if TunnelHeader::starts(datagram.bytes) => datagram.tunnelled()?,
            Via::UdpWithType => {
                out.control.push(datagram.as_control());
                return Ok(None);
            }
            Via::UdpWithSkip if *datagram.bytes == udp::KEEPALIVE => {
                self.report.keepalives += 1;
                return Ok(None);
            }
            Via::UdpWithSkip => match datagram.header_at()? {
                (Carried::Skip, at) => (Carried::Skip, at),
                _ => return Err(DropReason::WrongEncapsulation),
            },
            Via::Raw => datagram.header_at()?,
            Via::Udp => return Err(DropReason::WrongEncapsulation),
        };
        match carried {
            Carried::Ipsec(protocol) => self.open_ipsec(datagram, (protocol, at), now, out),
            Carried::Tunnel(form) => self.open_tunnel(datagram, (form, at), now, out),
            Carried::Skip => self.open_skip(datagram, at, now, out),
        }
    }

    fn open_ipsec<'a>(
        &mut self,
        datagram: Datagram<'a>,
        (protocol, at): (Protocol, usize),
        now: Instant,
        out: &mut Packets,
    ) -> Result<Option<Datagram<'a>>, DropReason> {
        let via = datagram.path.via;
        let peeked = match protocol {
            Protocol::Ah => ah::peek(datagram.bytes, at),
            Protocol::Esp => esp::peek(datagram.bytes, at),
        };
        let (spi, low) = peeked.ok_or(DropReason::Truncated)?;
        let Some(opener) = self.table.find(spi) else {
            let path = datagram.path;
            let is_due = self
                .unknown_told
                .is_none_or(|told| now.since(told) >= UNKNOWN_SPI_INTERVAL);
            if is_due && datagram.bytes.len() - at >= UNKNOWN_SPI_BYTES {
                self.unknown_told = Some(now);
                out.notices.push(Notice::UnknownSpi { path, spi });
            }
            return Err(DropReason::UnknownSpi);
        };
        if opener.is_nested && !datagram.is_inside {
            return Err(DropReason::WrongEncapsulation);
        }
        let opened = opener.open((via, protocol), datagram.bytes, at, low, now)?;
        let bytes = opened.clear.len() as u64;
        if let Some(task) = opener.task() {
            self.report.work.count(task, bytes);
        }
        let may_move = opened.is_newest && via != Via::Raw;
        if may_move && opener.follows(datagram.path, now) {
            let (child, path) = (opener.child, datagram.path);
            let bytes = datagram.bytes.len() as u64;
            out.notices.push(Notice::PathMoved { child, path, bytes });
        }
        if opened.is_first {
            let (child, spi) = (opener.child, opener.spi);
            out.notices.push(Notice::InboundUsed { child, spi });
        }
        if opened.reaches_soft_limit {
            let child = opener.child;
            out.notices.push(Notice::SoftLimit { child });
        }
        if opened.next_header == protocol::NO_NEXT_HEADER {
            return Ok(None); // a dummy packet (RFC 4303 §2.6)
        }
        let (head, rest) = datagram.bytes.split_at_mut(opened.clear.start);
        let mut unwrap = Unwrap {
            keeps_mss: self.keeps_mss,
            opener,
            path: datagram.path,
            traffic_class: datagram.traffic_class,
            outer: &mut head[..at],
            next_header: opened.next_header,
            id: low as u16,
            clear: &mut rest[..opened.clear.len()],
            buffer: datagram.buffer,
            start: datagram.start + opened.clear.start,
        };
        let inside = unwrap.deliver(&self.own, self.offloads, out)?;
        Ok(inside.map(|inner| datagram.inside(opened.clear.start, &inner)))
    }

    fn openers(&self) -> impl Iterator<Item = &Opener> {
        let others = self.tunnels.iter().chain(self.names.iter());
        self.table.iter().chain(others)
    }

    fn each_of(&mut self, child: ChildId, mut change: impl FnMut(&mut Opener, &mut OwnEnds)) {
        let range = (child, 0)..=(child, u32::MAX);
        for (_, spi) in self.by_child.range(range) {
            if let Some(opener) = self.table.find(*spi) {
                change(opener, &mut self.own);
            }
        }
        for opener in self.names.of_child(child) {
            change(opener, &mut self.own);
        }
    }

    fn remove(&mut self, child: ChildId, spi: u32) -> Notice {
        let removed = self.tunnels.remove(child, spi);
        let removed = removed.or_else(|| self.names.remove(child, spi));
        let removed = removed.or_else(|| self.table.remove(spi));
        let counted = match &removed {
            Some(opener) => {
                self.own.remove(&opener.own_end());
                if let Some(in_line) = opener.in_line() {
                    self.report.work.merge(in_line.work());
                }
                opener.report()
            }
            None => SaReport::nothing(child, spi),
        };
        self.by_child.remove(&(counted.child, spi));
        Notice::Removed(Direction::Inbound, counted)
    }

    /// SAs whose keys are prepared.
    #[cfg(test)]
    pub(crate) fn prepared(&self) -> usize {
        self.table.iter().filter(|it| it.is_prepared()).count()
    }

    /// Pretends that the SA of this SPI has accepted `sequence`: for tests against other
    /// implementations. Panics without such an SA.
    pub fn fixed_sequence_for_testing(&mut self, spi: u32, sequence: u64) {
        let opener = self.table.find(spi).expect("an SA");
        opener.fixed_sequence_for_testing(sequence);
    }
}

impl<'a> Datagram<'a> {
    /// The packet that starts at `start` in this one, whose headers are `inner`.
    fn inside(self, start: usize, inner: &Inner) -> Self {
        Self {
            buffer: self.buffer,
            start: self.start + start,
            path: Path::raw(inner.flow.destination, inner.flow.source),
            traffic_class: inner.traffic_class,
            interface: self.interface,
            is_inside: true,
            bytes: &mut self.bytes[start..start + inner.flow.total_len],
        }
    }

    fn as_control(&self) -> Control {
        Control {
            path: self.path,
            slice: Slice {
                buffer: self.buffer,
                range: self.start..self.start + self.bytes.len(),
            },
        }
    }

    /// What a whole IP packet carries, and where that starts.
    fn header_at(&self) -> Result<(Carried, usize), DropReason> {
        let outer = Inner::parse(self.bytes).ok_or(DropReason::Truncated)?;
        if outer.flow.total_len != self.bytes.len() {
            return Err(DropReason::WrongEncapsulation);
        }
        let tunnel = || Encapsulation::of(outer.flow.protocol).filter(|_| !outer.is_v6());
        let carried = match outer.flow.protocol {
            protocol::ESP => Carried::Ipsec(Protocol::Esp),
            protocol::AH => Carried::Ipsec(Protocol::Ah),
            protocol::SKIP if !outer.is_v6() => Carried::Skip,
            _ => Carried::Tunnel(tunnel().ok_or(DropReason::WrongEncapsulation)?),
        };
        Ok((carried, outer.flow.transport))
    }
}
