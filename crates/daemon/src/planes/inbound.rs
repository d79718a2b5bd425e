//! The thread from the network to the TUN device.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use engine::plane::{InboundPlane, Kind, Packets, Received};
use engine::sa::Path;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc::Sender;

use super::news::Line;
use super::{Clock, Inbox, IoReport, News, Order, Orders, Parts, Report};
use crate::capture::Tap;
use crate::raw::{HEADER_V6_BYTES, RawSockets, write_header_v6};
use crate::sys::datagram::{Batch, Incoming, receive_error};
use crate::sys::gather::Gather;
use crate::tun::Tun;
use crate::udp::{Role, UdpSockets, is_too_big};

/// Buffers of one `recvmmsg` where the kernel gathers datagrams, and where it does not.
const GATHERED_BATCH: usize = 16;
const SINGLE_BATCH: usize = 64;
/// Largest datagram.
const DATAGRAM_BYTES: usize = 65_535;
/// Entries of an error queue that are read at once: strangers can fill it.
const ERRORS_AT_ONCE: usize = 64;
/// How long a fact waits for a busy control before it is told again, in ms.
const RETELL_MS: u16 = 10;

pub(super) struct Inbound {
    tun: Arc<Tun>,
    udp: Arc<UdpSockets>,
    raw: Option<Arc<RawSockets>>,
    tap: Option<Tap>,
    clock: Clock,
    inbox: Inbox,
    outbound: Orders,
    line: Line,
    io: IoReport,
}

/// Where a socket's datagrams go.
#[derive(Clone, Copy)]
enum Source {
    Udp(Role),
    Raw(Kind),
}

/// Buffers, and where in each the plane's ranges begin.
struct Buffers {
    batch: Batch,
    starts: Vec<(usize, usize)>,
}

impl Inbound {
    pub(super) fn new(parts: &Parts, inbox: Inbox, outbound: Orders, news: Sender<News>) -> Self {
        Self {
            tun: parts.tun.clone(),
            udp: parts.udp.clone(),
            raw: parts.raw.clone(),
            tap: parts.tap.clone(),
            clock: parts.clock,
            inbox,
            outbound,
            line: Line::new(news),
            io: IoReport::default(),
        }
    }

    pub(super) fn run(mut self, mut plane: InboundPlane) {
        let (udp, raw) = (self.udp.clone(), self.raw.clone());
        let bell = self.inbox.bell.clone();
        let mut sources: Vec<(Source, BorrowedFd<'_>)> = Vec::new();
        sources.extend(udp.iter().map(|(role, fd)| (Source::Udp(role), fd)));
        if let Some(raw) = &raw {
            sources.extend(raw.iter().map(|(kind, fd)| (Source::Raw(kind), fd)));
        }
        let mut polled = vec![PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
        polled.extend(
            sources
                .iter()
                .map(|(_, fd)| PollFd::new(*fd, PollFlags::POLLIN)),
        );
        let count = if udp.has_gro() {
            GATHERED_BATCH
        } else {
            SINGLE_BATCH
        };
        let mut for_udp = Buffers::new(count, 0);
        let mut for_raw = raw
            .as_ref()
            .map(|_| Buffers::new(SINGLE_BATCH, HEADER_V6_BYTES));
        let mut packets = Packets::new();
        let mut gather = Gather::new();
        loop {
            while let Some(order) = self.inbox.take() {
                if self.obey(order, &mut plane) {
                    return;
                }
            }
            self.wait(&mut polled);
            for (index, (source, fd)) in sources.iter().enumerate() {
                let ready = polled[index + 1].revents().unwrap_or(PollFlags::empty());
                if ready.contains(PollFlags::POLLERR) {
                    self.read_errors(*fd);
                }
                if !ready.contains(PollFlags::POLLIN) {
                    continue;
                }
                let buffers = match (source, &mut for_raw) {
                    (Source::Raw(_), Some(buffers)) => buffers,
                    _ => &mut for_udp,
                };
                self.receive(*source, *fd, buffers, &mut plane, &mut packets);
                self.deliver(buffers, &mut packets, &mut gather);
            }
        }
    }

    fn wait(&mut self, polled: &mut [PollFd<'_>]) {
        self.line.retry();
        let timeout = if self.line.is_waiting() {
            PollTimeout::from(RETELL_MS)
        } else {
            PollTimeout::NONE
        };
        // An interrupted wait is a wait that ended.
        let _ = poll(polled, timeout);
        if polled[0].any().unwrap_or(false) {
            self.inbox.silence();
        }
    }

    /// Returns whether to stop.
    fn obey(&mut self, order: Order, plane: &mut InboundPlane) -> bool {
        match order {
            Order::Change(change) => plane.apply(change, self.clock.now()),
            Order::Report(answer) => {
                // Whoever asked may have gone.
                let _ = answer.send(Report {
                    plane: plane.report(),
                    io: self.io,
                });
            }
            Order::PathMtu(..) => {}
            Order::Stop => return true,
        }
        false
    }

    /// One batch of one socket into the plane, or to control.
    fn receive(
        &mut self,
        source: Source,
        fd: BorrowedFd<'_>,
        buffers: &mut Buffers,
        plane: &mut InboundPlane,
        packets: &mut Packets,
    ) {
        self.io.calls += 1;
        // An error that came by ICMP for an earlier datagram is no reason to stop.
        let received = buffers.batch.receive(fd).unwrap_or(0);
        let now = self.clock.now();
        for index in 0..received {
            let incoming = buffers.batch.incoming(index);
            if incoming.is_truncated || incoming.len == 0 {
                self.io.refused += 1;
                continue;
            }
            self.count(&incoming);
            match source {
                Source::Udp(role) => {
                    let path = path_of(&incoming, role.port);
                    buffers.starts[index] = (0, incoming.len);
                    let bytes = buffers.batch.bytes_mut(index, incoming.len);
                    if let Some(tap) = &self.tap {
                        tap.received(&path, &incoming, bytes);
                    }
                    if role.carries_esp {
                        plane.open(index, received_udp(path, &incoming, bytes), now, packets);
                    } else {
                        let bytes = bytes.to_vec();
                        let message = News::Message { path, bytes };
                        self.line.tell(message, &mut self.io.unheard);
                    }
                }
                Source::Raw(kind) => {
                    let taken = take_raw(buffers, index, kind, &incoming);
                    if let Some(tap) = &self.tap {
                        tap.packet(taken.bytes);
                    }
                    plane.open(index, taken, now, packets);
                }
            }
        }
    }

    fn count(&mut self, incoming: &Incoming) {
        let segment = match incoming.segment_bytes {
            0 => incoming.len,
            segment => segment,
        };
        self.io.datagrams += incoming.len.div_ceil(segment) as u64;
        self.io.bytes += incoming.len as u64;
    }

    /// Everything that the plane opened from one batch.
    fn deliver(&mut self, buffers: &Buffers, packets: &mut Packets, gather: &mut Gather) {
        for write in packets.writes() {
            let mut writing = gather.begin();
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
        for control in packets.control() {
            let bytes = &buffers.of(control.slice.buffer)[control.slice.range.clone()];
            let message = News::Message {
                path: control.path,
                bytes: bytes.to_vec(),
            };
            self.line.tell(message, &mut self.io.unheard);
        }
        for notice in packets.notices() {
            let news = News::Notice(notice.clone());
            self.line.tell(news, &mut self.io.unheard);
        }
        packets.clear();
    }

    /// What ICMP said of datagrams that we sent: a smaller path concerns the outbound thread.
    fn read_errors(&mut self, fd: BorrowedFd<'_>) {
        for _ in 0..ERRORS_AT_ONCE {
            let Ok(Some(error)) = receive_error(fd) else {
                return;
            };
            if is_too_big(&error) {
                self.io.path_mtus += 1;
                let mtu = u16::try_from(error.mtu).unwrap_or(u16::MAX);
                // If the queue is full, the next datagram that is too big tells again.
                self.outbound.offer(Order::PathMtu(error.destination, mtu));
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

    /// What the plane was given of this buffer.
    fn of(&self, index: usize) -> &[u8] {
        let (start, len) = self.starts[index];
        &self.batch.bytes(index, len)[start..]
    }
}

fn received_udp<'a>(path: Path, incoming: &Incoming, bytes: &'a mut [u8]) -> Received<'a> {
    Received {
        path,
        kind: Kind::Udp,
        traffic_class: incoming.traffic_class,
        segment_bytes: match incoming.segment_bytes {
            0 => incoming.len,
            segment => segment,
        },
        bytes,
    }
}

/// A raw packet with its header: IPv4's is there, IPv6's is rebuilt in the headroom.
fn take_raw<'a>(
    buffers: &'a mut Buffers,
    index: usize,
    kind: Kind,
    incoming: &Incoming,
) -> Received<'a> {
    let whole = buffers.batch.bytes_mut(index, incoming.len);
    let start = if incoming.remote.is_ipv6() {
        write_header_v6(whole, kind, incoming);
        0
    } else {
        HEADER_V6_BYTES
    };
    buffers.starts[index] = (start, incoming.len);
    let bytes = &mut whole[start..];
    let mut path = path_of(incoming, 0);
    path.remote.set_port(0);
    Received {
        path,
        kind,
        traffic_class: incoming.traffic_class,
        segment_bytes: bytes.len(),
        bytes,
    }
}

fn path_of(incoming: &Incoming, port: u16) -> Path {
    Path {
        local: SocketAddr::new(incoming.local, port),
        remote: incoming.remote,
    }
}
