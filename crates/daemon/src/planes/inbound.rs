//! From the network to the TUN device.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use engine::firewall;
use engine::plane::{InboundPlane, Notice, OutboundChange, Packets, Received};
use engine::sa::{ChildId, Path, Via};
use wire::mip4::TunnelHeader;

use super::news::Line;
use super::{
    Clock, Devices, IcmpReport, InboundOrder, IoReport, News, OrderQueue, Orders, OutboundOrder,
    Report, Returned,
};
use crate::capture::Tap;
use crate::raw::{HEADER_V6_BYTES, RawSockets, write_header_v6};
use crate::sys::datagram::{Batch, Incoming, receive_error};
use crate::sys::gather::Gather;
use crate::tun::Tun;
use crate::udp::{Role, UdpSockets, is_too_big, unreachable, unreached};

/// Buffers of one `recvmmsg` with and without GRO in the kernel.
const GATHERED_BATCH: usize = 16;
const SINGLE_BATCH: usize = 64;
/// Largest datagram.
const DATAGRAM_BYTES: usize = 65_535;
/// Entries of an error queue that are read at once. Strangers can fill it.
const ERRORS_AT_ONCE: usize = 64;

/// One direction: its plane, buffers and counts.
pub(super) struct Inbound {
    plane: InboundPlane,
    tun: Arc<Tun>,
    udp: Arc<UdpSockets>,
    raw: Option<Arc<RawSockets>>,
    tap: Option<Tap>,
    clock: Clock,
    orders: OrderQueue<InboundOrder>,
    outbound: Orders<OutboundOrder>,
    returned: Returned,
    line: Line,
    io: IoReport,
    packets: Packets,
    gather: Gather,
    /// A stop order was taken; the bell still rings.
    is_over: bool,
}

/// The kind of a socket, which decides where its datagrams go.
#[derive(Clone, Copy)]
pub(super) enum Source {
    Udp(Role),
    /// Of this IP protocol.
    Raw(u8),
}

/// Buffers, and the offset in each where the plane's ranges begin.
pub(super) struct Buffers {
    batch: Batch,
    starts: Vec<(usize, usize)>,
}

impl Inbound {
    /// `outbound`: reports path MTUs to the other direction.
    pub(super) fn new(
        devices: &Devices,
        plane: InboundPlane,
        orders: OrderQueue<InboundOrder>,
        outbound: Orders<OutboundOrder>,
    ) -> Self {
        Self {
            plane,
            tun: devices.tun.clone(),
            udp: devices.udp.clone(),
            raw: devices.raw.clone(),
            tap: devices.tap.clone(),
            clock: devices.clock,
            orders,
            outbound,
            returned: devices.returned.clone(),
            line: Line::new(devices.news.clone()),
            io: IoReport::default(),
            packets: Packets::new(),
            gather: Gather::new(),
            is_over: false,
        }
    }

    /// Becomes readable when orders wait.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.orders.bell.as_fd()
    }

    /// The sockets to receive from.
    pub(super) fn sockets(&self) -> (Arc<UdpSockets>, Option<Arc<RawSockets>>) {
        (self.udp.clone(), self.raw.clone())
    }

    /// Octets received so far.
    pub(super) fn bytes(&self) -> u64 {
        self.io.bytes
    }

    /// Takes orders after the bell rang. Returns false to stop.
    pub(super) fn listen(&mut self) -> bool {
        self.orders.silence();
        self.hear();
        !self.is_over
    }

    /// Takes waiting orders. Packets received since may depend on them: the peer of a new SA sends
    /// as soon as it can, and the kernel may report its packet before the bell.
    fn hear(&mut self) {
        while !self.is_over
            && let Some(order) = self.orders.take()
        {
            self.is_over = self.obey(order);
        }
    }

    /// Retries what control was too busy to receive. Returns whether something still waits.
    pub(super) fn retell(&mut self) -> bool {
        self.line.retry()
    }

    /// Buffers for [`Inbound::turn`]: for UDP sockets, and for raw ones if there are any.
    pub(super) fn buffers(&self) -> (Buffers, Option<Buffers>) {
        let count = if self.udp.has_gro() {
            GATHERED_BATCH
        } else {
            SINGLE_BATCH
        };
        let for_raw = |_| Buffers::new(SINGLE_BATCH, HEADER_V6_BYTES);
        (Buffers::new(count, 0), self.raw.as_ref().map(for_raw))
    }

    /// Receives one batch, opens it, and writes the inner packets to the device.
    pub(super) fn turn(&mut self, source: Source, fd: BorrowedFd<'_>, buffers: &mut Buffers) {
        self.receive(source, fd, buffers);
        self.deliver(buffers);
    }

    /// Returns whether to stop.
    fn obey(&mut self, order: InboundOrder) -> bool {
        match order {
            InboundOrder::Change(change) => {
                if let Some(notice) = self.plane.apply(change) {
                    self.line.tell(News::Notice(notice), &mut self.io.unheard);
                }
            }
            InboundOrder::Rest => self.plane.rest(),
            InboundOrder::Report(answer) => {
                // The caller may be gone.
                let _ = answer.send(Report {
                    plane: self.plane.report(),
                    io: self.io,
                });
            }
            InboundOrder::Stop => return true,
        }
        false
    }

    /// Passes one batch of one socket to the plane, or to control.
    fn receive(&mut self, source: Source, fd: BorrowedFd<'_>, buffers: &mut Buffers) {
        self.io.calls += 1;
        // An ICMP error for an earlier datagram is no reason to stop.
        let received = buffers.batch.receive(fd).unwrap_or(0);
        self.hear();
        let now = self.clock.now();
        for index in 0..received {
            let incoming = buffers.batch.incoming(index);
            if incoming.is_truncated || incoming.len == 0 {
                self.io.truncated += 1;
                continue;
            }
            self.count(&incoming);
            match source {
                Source::Udp(role) => {
                    let path = path_of(&incoming, role);
                    buffers.starts[index] = (0, incoming.len);
                    let bytes = buffers.batch.bytes_mut(index, incoming.len);
                    if let Some(tap) = &self.tap {
                        tap.received(&path, &incoming, bytes);
                    }
                    let is_tunnelled = TunnelHeader::starts(bytes);
                    let is_packet = match role.via {
                        Via::UdpWithMarker | Via::UdpWithSkip => true,
                        Via::UdpWithType => is_tunnelled,
                        Via::Udp | Via::Raw => false,
                    };
                    if is_packet {
                        let taken = received_udp(path, &incoming, bytes);
                        self.plane.open(index, taken, now, &mut self.packets);
                    } else {
                        let bytes = bytes.to_vec();
                        let message = News::Message { path, bytes };
                        self.line.tell(message, &mut self.io.unheard);
                    }
                }
                Source::Raw(protocol) => {
                    let taken = take_raw(buffers, index, protocol, &incoming);
                    if let Some(tap) = &self.tap {
                        tap.packet(taken.bytes);
                    }
                    self.plane.open(index, taken, now, &mut self.packets);
                }
            }
        }
    }

    fn count(&mut self, incoming: &Incoming) {
        self.io.datagrams += incoming.len.div_ceil(incoming.segment()) as u64;
        self.io.bytes += incoming.len as u64;
    }

    /// Writes everything that the plane opened from one batch.
    fn deliver(&mut self, buffers: &Buffers) {
        self.tell_notices();
        for write in self.packets.writes() {
            let mut writing = self.gather.begin();
            writing.push(write.header);
            for slice in write.slices {
                writing.push(&buffers.of(slice.buffer)[slice.range.clone()]);
            }
            self.io.calls += 1;
            match self.tun.write(writing) {
                Ok(_) => self.io.frames += 1,
                Err(_) => self.io.refused += 1,
            }
        }
        for slice in self.packets.returned() {
            let bytes = &buffers.of(slice.buffer)[slice.range.clone()];
            let has_room = self.returned.take(bytes.len());
            if has_room && self.outbound.offer(OutboundOrder::Returned(bytes.to_vec())) {
                continue;
            }
            self.io.overflowed += 1;
            if has_room {
                self.returned.give_back(bytes.len());
            }
        }
        for control in self.packets.control() {
            let bytes = &buffers.of(control.slice.buffer)[control.slice.range.clone()];
            let message = News::Message {
                path: control.path,
                bytes: bytes.to_vec(),
            };
            self.line.tell(message, &mut self.io.unheard);
        }
        self.packets.clear();
    }

    /// Before the packets themselves: what answers them must find its way back.
    fn tell_notices(&mut self) {
        for notice in self.packets.notices() {
            if let Notice::PathMoved { child, .. } = notice
                && *child >= ChildId(firewall::FIRST_CHILD)
            {
                let change = OutboundChange::AwaitLead;
                self.outbound.offer(OutboundOrder::Change(change));
            }
            let news = News::Notice(notice.clone());
            self.line.tell(news, &mut self.io.unheard);
        }
    }

    /// Reads ICMP reports about our datagrams. A smaller path MTU concerns the outbound thread,
    /// which knows what it sent, and so does a tunnel of Mobile IPv4 that leads nowhere.
    pub(super) fn read_errors(&mut self, source: Source, fd: BorrowedFd<'_>) {
        let via = match source {
            Source::Udp(role) => role.via,
            Source::Raw(_) => Via::Raw,
        };
        for _ in 0..ERRORS_AT_ONCE {
            let Ok(Some(error)) = receive_error(fd) else {
                return;
            };
            if let Some(what) = unreachable(&error) {
                let remote = error.destination;
                let news = News::Unreachable { remote, what };
                self.line.tell(news, &mut self.io.unheard);
            }
            let may_be_tunnel = matches!(via, Via::Raw | Via::UdpWithType);
            if is_too_big(&error) || may_be_tunnel && unreached(&error).is_some() {
                // If the queue is full, the next such datagram causes another report.
                let report = IcmpReport { via, error };
                self.outbound.offer(OutboundOrder::Icmp(report));
            }
        }
    }
}

impl Buffers {
    fn new(count: usize, headroom: usize) -> Self {
        Self {
            batch: Batch::new(count, DATAGRAM_BYTES, headroom),
            starts: vec![(0, 0); count],
        }
    }

    /// The part of this buffer that the plane received.
    fn of(&self, index: usize) -> &[u8] {
        let (start, len) = self.starts[index];
        &self.batch.bytes(index, len)[start..]
    }
}

fn received_udp<'a>(path: Path, incoming: &Incoming, bytes: &'a mut [u8]) -> Received<'a> {
    Received {
        path,
        traffic_class: incoming.traffic_class,
        interface: incoming.interface,
        segment_bytes: incoming.segment(),
        bytes,
    }
}

/// A raw packet with its header: IPv4 includes it, IPv6's is rebuilt in the headroom.
fn take_raw<'a>(
    buffers: &'a mut Buffers,
    index: usize,
    protocol: u8,
    incoming: &Incoming,
) -> Received<'a> {
    let whole = buffers.batch.bytes_mut(index, incoming.len);
    let start = if incoming.remote.is_ipv6() {
        write_header_v6(whole, protocol, incoming);
        0
    } else {
        HEADER_V6_BYTES
    };
    buffers.starts[index] = (start, incoming.len);
    let bytes = &mut whole[start..];
    Received {
        path: Path::raw(incoming.local, incoming.remote.ip()),
        traffic_class: incoming.traffic_class,
        interface: incoming.interface,
        segment_bytes: bytes.len(),
        bytes,
    }
}

fn path_of(incoming: &Incoming, role: Role) -> Path {
    Path {
        via: role.via,
        local: SocketAddr::new(incoming.local, role.port),
        remote: incoming.remote,
    }
}
