//! From the TUN device to the network.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use engine::plane::{Datagrams, Notice, OutboundChange, OutboundPlane, Run, TooBig, Undelivered};
use engine::sa::{Direction, Via};

use super::news::Line;
use super::{
    Clock, Devices, IcmpReport, IoReport, News, OrderQueue, OutboundOrder, Report, Returned,
};
use crate::capture::Tap;
use crate::raw::RawSockets;
use crate::sys::gather::Gather;
use crate::tun::{FRAME_BYTES, Tun};
use crate::udp::{Sent, UdpSockets, unreached};

/// Frames of one turn.
const BURST: usize = 64;
/// Sealed octets that end a turn: two super-packets, whose datagrams share full runs.
const TURN_BYTES: usize = 96 << 10;

/// One direction: its plane, buffers and counts. The thread that owns it serves it.
pub(super) struct Outbound {
    plane: OutboundPlane,
    tun: Arc<Tun>,
    udp: Arc<UdpSockets>,
    raw: Option<Arc<RawSockets>>,
    tap: Option<Tap>,
    clock: Clock,
    orders: OrderQueue<OutboundOrder>,
    line: Line,
    returned: Returned,
    io: IoReport,
    frame: Vec<u8>,
    out: Datagrams,
    gather: Gather,
    /// A stop order was taken; the bell still rings.
    is_over: bool,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing waits.
    Drained,
    /// There may be more.
    More,
    /// Reading its device failed: no further turn, but control must hear of it
    /// ([`Outbound::into_line`]).
    Failed,
}

impl Outbound {
    pub(super) fn new(
        devices: &Devices,
        plane: OutboundPlane,
        orders: OrderQueue<OutboundOrder>,
    ) -> Self {
        Self {
            plane,
            tun: devices.tun.clone(),
            udp: devices.udp.clone(),
            raw: devices.raw.clone(),
            tap: devices.tap.clone(),
            clock: devices.clock,
            orders,
            line: Line::new(devices.news.clone()),
            returned: devices.returned.clone(),
            io: IoReport::default(),
            frame: vec![0; FRAME_BYTES],
            out: Datagrams::new(),
            gather: Gather::new(),
            is_over: false,
        }
    }

    /// The descriptors that become readable when a turn is due: the device, and the bell of orders.
    pub(super) fn wakers(&self) -> [BorrowedFd<'_>; 2] {
        [self.tun.as_fd(), self.orders.bell.as_fd()]
    }

    /// Octets sent so far.
    pub(super) fn bytes(&self) -> u64 {
        self.io.bytes
    }

    /// Takes orders after the bell rang, and retries what control was too busy to receive. Returns
    /// false to stop.
    pub(super) fn listen(&mut self) -> bool {
        self.orders.silence();
        self.hear();
        let has_replies = self.out.replies().next().is_some();
        if !self.out.is_empty() || has_replies || !self.out.notices().is_empty() {
            self.flush();
        }
        !self.is_over
    }

    /// Takes waiting orders. Packets read since, such as the answer to a new SA's first packet, may
    /// depend on them.
    fn hear(&mut self) {
        while !self.is_over
            && let Some(order) = self.orders.take()
        {
            self.is_over = self.obey(order);
            // Returned packets may be many and long.
            if self.out.len() >= TURN_BYTES {
                self.flush();
            }
        }
    }

    /// Retries what control was too busy to receive. Returns whether something still waits.
    pub(super) fn retell(&mut self) -> bool {
        self.line.retry()
    }

    /// Ends this direction. What control was too busy to receive is still on the line.
    pub(super) fn into_line(self) -> Line {
        self.line
    }

    /// Reads, seals and sends for a while.
    pub(super) fn turn(&mut self) -> Turn {
        let mut turn = Turn::More;
        for _ in 0..BURST {
            match self.tun.read(&mut self.frame) {
                Ok(Some(len)) => {
                    self.io.frames += 1;
                    self.io.calls += 1;
                    self.hear();
                    let frame = &mut self.frame[..len];
                    self.plane.seal(frame, self.clock.now(), &mut self.out);
                }
                Ok(None) => {
                    turn = Turn::Drained;
                    break;
                }
                Err(fault) if fault.kind() == std::io::ErrorKind::Interrupted => {}
                Err(fault) => return self.fail(&fault),
            }
            if self.out.len() >= TURN_BYTES {
                break;
            }
        }
        self.flush();
        self.ask_links();
        turn
    }

    fn fail(&mut self, fault: &std::io::Error) -> Turn {
        let failed = News::Failed {
            direction: Direction::Outbound,
            reason: format!("reading the device: {fault}"),
        };
        self.line.tell(failed, &mut self.io.unheard);
        Turn::Failed
    }

    /// Returns whether to stop.
    fn obey(&mut self, order: OutboundOrder) -> bool {
        match order {
            OutboundOrder::Change(change) => {
                let now = self.clock.now();
                let told = self.plane.apply(change, now);
                self.tell(told);
                self.ask_links();
                self.plane.release(now, &mut self.out);
            }
            OutboundOrder::Returned(packet) => {
                self.returned.give_back(packet.len());
                return self.obey(OutboundOrder::Packet(packet));
            }
            OutboundOrder::Packet(packet) => {
                // A header of zeros says that nothing is left to do. The buffer of frames may hold
                // one that was just read.
                let mut frame = vec![0; self.tun.header_bytes()];
                frame.extend_from_slice(&packet);
                self.plane.seal(&mut frame, self.clock.now(), &mut self.out);
            }
            OutboundOrder::Report(answer) => {
                // The caller may be gone.
                let _ = answer.send(Report {
                    plane: self.plane.report(),
                    io: self.io,
                });
            }
            OutboundOrder::Rest => self.plane.rest(),
            OutboundOrder::Icmp(report) => self.learn(&report),
            OutboundOrder::Stop => return true,
        }
        false
    }

    fn tell(&mut self, notice: Option<Notice>) {
        if let Some(notice) = notice {
            self.line.tell(News::Notice(notice), &mut self.io.unheard);
        }
    }

    fn flush(&mut self) {
        let mut out = std::mem::take(&mut self.out);
        for run in out.runs() {
            let bytes = out.bytes(run);
            if let Some(tap) = &self.tap {
                tap.run(run, bytes);
            }
            self.send(run, bytes);
        }
        for reply in out.replies() {
            let mut writing = self.gather.begin();
            writing.push(reply);
            self.io.calls += 1;
            if self.tun.write(writing).is_err() {
                self.io.refused += 1;
            }
        }
        for notice in out.notices() {
            let news = News::Notice(notice.clone());
            self.line.tell(news, &mut self.io.unheard);
        }
        out.clear();
        self.out = out;
    }

    fn send(&mut self, run: &Run, bytes: &[u8]) {
        let sent = match (run.path.via, &self.raw) {
            (Via::Udp | Via::UdpWithMarker | Via::UdpWithType | Via::UdpWithSkip, _) => {
                self.udp.send_run(run, bytes)
            }
            (Via::Raw, Some(raw)) => raw.send(run, bytes),
            (Via::Raw, None) => Sent::none(1),
        };
        self.io.datagrams += u64::from(sent.datagrams);
        self.io.refused += u64::from(sent.failed);
        self.io.calls += u64::from(sent.calls);
        self.io.bytes += sent.bytes as u64;
        if sent.is_too_large {
            self.plane.doubt_link(run.path.remote);
        }
    }

    /// Takes an ICMP report.
    fn learn(&mut self, report: &IcmpReport) {
        let (via, error) = (report.via, &report.error);
        let mut remote = error.destination;
        if via == Via::Raw {
            remote.set_port(0);
        }
        if let Some(unreachable) = unreached(error) {
            let report = Undelivered {
                remote,
                via,
                unreachable,
                quoted: error.quoted(),
            };
            return self.plane.undelivered(&report, self.clock.now());
        }
        let report = TooBig {
            remote,
            via,
            mtu: error.mtu,
            quoted: error.quoted(),
        };
        let now = self.clock.now();
        let is_smaller = self.plane.too_big(&report, now);
        self.io.path_mtus += u64::from(is_smaller);
        self.plane.release(now, &mut self.out);
    }

    /// Our own link may carry less than an SA assumes. Asks for its MTU for each new SA or path,
    /// and repeatedly while it is smaller.
    fn ask_links(&mut self) {
        let now = self.clock.now();
        while let Some((child, path)) = self.plane.link_to_ask(now) {
            if let Ok(mtu) = self.udp.link_mtu(&path) {
                let told = self.plane.apply(OutboundChange::LinkMtu(child, mtu), now);
                self.tell(told);
            }
        }
    }
}
