//! The thread from the TUN device to the network.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use engine::plane::{Change, Datagrams, Kind, OutboundPlane, Run};
use engine::sa::{ChildId, Direction, Path};
use engine::time::{Duration, Instant};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::sync::mpsc::Sender;

use super::news::Line;
use super::{Clock, Inbox, IoReport, News, Order, Parts, Report};
use crate::capture::Tap;
use crate::raw::RawSockets;
use crate::sys::gather::Gather;
use crate::tun::{FRAME_BYTES, Tun};
use crate::udp::UdpSockets;

/// Frames read before orders are looked at.
const BURST: usize = 64;
/// Sealed octets that are sent before more is read.
const FLUSH_BYTES: usize = 32 << 10;
/// A path that shrank is asked again after this long (RFC 1191 §6.3).
const MTU_RETRY: Duration = Duration::from_secs(600);
/// How long a fact waits for a busy control before it is told again, in ms.
const RETELL_MS: u16 = 10;

pub(super) struct Outbound {
    tun: Arc<Tun>,
    udp: Arc<UdpSockets>,
    raw: Option<Arc<RawSockets>>,
    tap: Option<Tap>,
    clock: Clock,
    inbox: Inbox,
    line: Line,
    io: IoReport,
    paths: Paths,
}

/// Where each child's peer is, to tell whom a path's MTU concerns.
#[derive(Default)]
struct Paths {
    children: BTreeMap<ChildId, (Path, u16)>,
    by_peer: BTreeMap<(IpAddr, ChildId), ()>,
    shrunk: BTreeMap<ChildId, Instant>,
}

enum Ended {
    Stopped,
    Failed(String),
}

impl Outbound {
    pub(super) fn new(parts: &Parts, inbox: Inbox, news: Sender<News>) -> Self {
        Self {
            tun: parts.tun.clone(),
            udp: parts.udp.clone(),
            raw: parts.raw.clone(),
            tap: parts.tap.clone(),
            clock: parts.clock,
            inbox,
            line: Line::new(news),
            io: IoReport::default(),
            paths: Paths::default(),
        }
    }

    pub(super) fn run(mut self, mut plane: OutboundPlane) {
        if let Ended::Failed(reason) = self.work(&mut plane) {
            let direction = Direction::Outbound;
            let failed = News::Failed { direction, reason };
            self.line.tell(failed, &mut self.io.unheard);
        }
    }

    fn work(&mut self, plane: &mut OutboundPlane) -> Ended {
        let mut frame = vec![0; FRAME_BYTES];
        let mut out = Datagrams::new();
        let mut gather = Gather::new();
        let (tun, bell) = (self.tun.clone(), self.inbox.bell.clone());
        let mut polled = [
            PollFd::new(tun.as_fd(), PollFlags::POLLIN),
            PollFd::new(bell.as_fd(), PollFlags::POLLIN),
        ];
        loop {
            while let Some(order) = self.inbox.take() {
                if self.obey(order, plane) {
                    return Ended::Stopped;
                }
            }
            let mut is_drained = false;
            for _ in 0..BURST {
                match self.tun.read(&mut frame) {
                    Ok(Some(len)) => {
                        self.io.frames += 1;
                        self.io.calls += 1;
                        plane.seal(&mut frame[..len], self.clock.now(), &mut out);
                    }
                    Ok(None) => {
                        is_drained = true;
                        break;
                    }
                    Err(fault) if fault.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(fault) => return Ended::Failed(format!("reading the device: {fault}")),
                }
                if out.len() >= FLUSH_BYTES {
                    self.flush(&mut out, plane, &mut gather);
                }
            }
            self.flush(&mut out, plane, &mut gather);
            if is_drained {
                self.wait(&mut polled);
            }
            self.ask_shrunk_paths(plane);
        }
    }

    fn wait(&mut self, polled: &mut [PollFd<'_>; 2]) {
        self.line.retry();
        let timeout = if self.line.is_waiting() {
            PollTimeout::from(RETELL_MS)
        } else {
            PollTimeout::NONE
        };
        // An interrupted wait is a wait that ended.
        let _ = poll(polled, timeout);
        if polled[1].any().unwrap_or(false) {
            self.inbox.silence();
        }
    }

    /// Returns whether to stop.
    fn obey(&mut self, order: Order, plane: &mut OutboundPlane) -> bool {
        let now = self.clock.now();
        match order {
            Order::Change(change) => {
                self.paths.note(&change);
                plane.apply(change, now);
            }
            Order::Report(answer) => {
                // Whoever asked may have gone.
                let _ = answer.send(Report {
                    plane: plane.report(),
                    io: self.io,
                });
            }
            Order::PathMtu(remote, mtu) => self.shrink(remote, mtu, plane),
            Order::Stop => return true,
        }
        false
    }

    fn flush(&mut self, out: &mut Datagrams, plane: &mut OutboundPlane, gather: &mut Gather) {
        for run in out.runs() {
            let bytes = out.bytes(run);
            if let Some(tap) = &self.tap {
                tap.run(run, bytes);
            }
            match run.kind {
                Kind::Udp => self.send_udp(run, bytes, plane),
                Kind::RawEsp | Kind::RawAh => self.send_raw(run, bytes, plane),
            }
        }
        for reply in out.replies() {
            let mut writing = gather.begin();
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
    }

    fn send_udp(&mut self, run: &Run, bytes: &[u8], plane: &mut OutboundPlane) {
        let sent = self.udp.send_run(run, bytes);
        self.io.datagrams += u64::from(sent.datagrams);
        self.io.refused += u64::from(sent.failed);
        self.io.calls += u64::from(sent.calls);
        self.io.bytes += bytes.len() as u64;
        if sent.is_split
            && let Ok(mtu) = self.udp.path_mtu(&run.path)
        {
            self.shrink(run.path.remote, mtu, plane);
        }
    }

    fn send_raw(&mut self, run: &Run, bytes: &[u8], plane: &mut OutboundPlane) {
        self.io.calls += 1;
        let sent = match &self.raw {
            Some(raw) => raw.send(run, bytes),
            None => Err(std::io::Error::from(std::io::ErrorKind::Unsupported)),
        };
        match sent {
            Ok(()) => {
                self.io.datagrams += 1;
                self.io.bytes += bytes.len() as u64;
            }
            Err(fault) => {
                self.io.refused += 1;
                if fault.raw_os_error() == Some(nix::libc::EMSGSIZE)
                    && let Ok(mtu) = self.udp.path_mtu(&probe_path(&run.path))
                {
                    self.shrink(run.path.remote, mtu, plane);
                }
            }
        }
    }

    fn shrink(&mut self, remote: SocketAddr, mtu: u16, plane: &mut OutboundPlane) {
        let now = self.clock.now();
        for (child, mtu) in self.paths.shrink(remote.ip(), mtu, now) {
            self.io.path_mtus += 1;
            plane.apply(Change::PathMtu(child, mtu), now);
        }
    }

    /// A path that shrank may have grown again.
    fn ask_shrunk_paths(&mut self, plane: &mut OutboundPlane) {
        if self.paths.shrunk.is_empty() {
            return;
        }
        let now = self.clock.now();
        for (child, path, most) in self.paths.due(now) {
            let mtu = self.udp.path_mtu(&probe_path(&path)).unwrap_or(most);
            plane.apply(Change::PathMtu(child, mtu.min(most)), now);
        }
    }
}

/// Any port serves to ask for a path's MTU; 0 does not.
fn probe_path(path: &Path) -> Path {
    let mut probe = *path;
    if probe.remote.port() == 0 {
        probe.remote.set_port(crate::udp::NAT_PORT);
    }
    probe
}

impl Paths {
    fn note(&mut self, change: &Change) {
        match change {
            Change::Install(sa) if sa.direction == Direction::Outbound => {
                self.forget(sa.child);
                self.children.insert(sa.child, (sa.path, sa.path_mtu));
                self.by_peer.insert((sa.path.remote.ip(), sa.child), ());
            }
            Change::Move(child, path) => {
                if let Some((_, mtu)) = self.children.get(child).copied() {
                    self.forget(*child);
                    self.children.insert(*child, (*path, mtu));
                    self.by_peer.insert((path.remote.ip(), *child), ());
                }
            }
            Change::Forget(child) => self.forget(*child),
            _ => {}
        }
    }

    fn forget(&mut self, child: ChildId) {
        if let Some((path, _)) = self.children.remove(&child) {
            self.by_peer.remove(&(path.remote.ip(), child));
            self.shrunk.remove(&child);
        }
    }

    fn shrink(&mut self, peer: IpAddr, mtu: u16, now: Instant) -> Vec<(ChildId, u16)> {
        let span = (peer, ChildId(0))..=(peer, ChildId(u32::MAX));
        let children = self.by_peer.range(span).map(|((_, child), ())| *child);
        let below = |child: &ChildId| self.children.get(child).is_some_and(|(_, own)| mtu < *own);
        let concerned: Vec<_> = children.filter(below).map(|child| (child, mtu)).collect();
        for (child, _) in &concerned {
            self.shrunk.insert(*child, now + MTU_RETRY);
        }
        concerned
    }

    /// Children whose path is to be asked again, with the MTU that their SA allows.
    fn due(&mut self, now: Instant) -> Vec<(ChildId, Path, u16)> {
        let is_due = |(_, at): &(&ChildId, &Instant)| **at <= now;
        let due: Vec<_> = self
            .shrunk
            .iter()
            .filter(is_due)
            .map(|(id, _)| *id)
            .collect();
        let mut asked = Vec::new();
        for child in due {
            self.shrunk.insert(child, now + MTU_RETRY);
            if let Some((path, most)) = self.children.get(&child) {
                asked.push((child, *path, *most));
            }
        }
        asked
    }
}
