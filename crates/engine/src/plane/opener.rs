//! One inbound SA at work: encapsulation, replay, ICV, window, path. A tunnel of Mobile IPv4 has
//! only the first, SKIP has no window.

mod in_line;

use core::ops::Range;

use std::net::IpAddr;

use crypto::packet::RestingKey;
use wire::ip::ipv4;

pub(crate) use self::in_line::InLineOpener;
use crate::counters::DropReason;
use crate::plane::SaReport;
use crate::plane::path_mtu::least;
use crate::plane::shape::{Shape, TunnelShape};
use crate::plane::soft_limit::SoftLimit;
use crate::replay::Window;
use crate::sa::{
    ChildId, Encapsulation, Ipsec, Layer, Mode, OriginalAddresses, Path, Protocol, Sa, Via,
};
use crate::selector::TrafficSelector;
use crate::skip;
use crate::time::{Duration, Instant};
use crate::work::Task;
use crate::{ah, esp};

/// A peer is followed to another address or port at most this often. Each move costs control a
/// probe and a line of the log. Without this, a peer that alternates between two addresses would
/// cause one move per packet.
const MOVE_INTERVAL: Duration = Duration::from_millis(200);

/// An inbound SA.
pub(crate) struct Opener {
    pub(crate) child: ChildId,
    pub(crate) spi: u32,
    pub(crate) mode: Mode,
    /// What is around its packets, and how to take it off.
    wrap: Wrap,
    pub(crate) path: Path,
    /// Its packets come in those of another SA alone.
    pub(crate) is_nested: bool,
    /// See [`Sa::sent_on_from`].
    pub(crate) sent_on_from: Option<u32>,
    /// The address under which our own stack knows the peer of a transport-mode SA. It does not
    /// come from the packets' source, which the peer can choose freely.
    pub(crate) peer: IpAddr,
    pub(crate) original: Option<OriginalAddresses>,
    pub(crate) pool_address: Option<IpAddr>,
    pub(crate) local: Box<[TrafficSelector]>,
    pub(crate) remote: Box<[TrafficSelector]>,
    /// The largest packet that our side can answer with: what SYNs are clamped to.
    pub(crate) largest: usize,
    soft_limit: SoftLimit,
    packets: u64,
    bytes: u64,
    last: Option<Instant>,
    moved: Option<Instant>,
}

/// What is around the packets of an SA.
enum Wrap {
    Ipsec(Check),
    Tunnel(Encapsulation),
    /// On the heap, because it is much larger than the others.
    Skip(Box<InLineOpener>),
}

/// What ESP or AH needs to check packets.
struct Check {
    shape: Shape,
    key: RestingKey,
    window: Window,
    has_esn: bool,
}

/// A packet that proved itself.
pub(crate) struct Opened {
    /// Where in the ESP or outer IP packet the clear text lies.
    pub(crate) clear: Range<usize>,
    pub(crate) next_header: u8,
    /// It is authenticated, and newer than all before: its path is the peer's.
    pub(crate) is_newest: bool,
    /// It is the first that is authenticated.
    pub(crate) is_first: bool,
    /// With it the SA reaches its soft limit.
    pub(crate) reaches_soft_limit: bool,
}

impl Opener {
    /// `None`: nothing that comes in is of this SA.
    pub(crate) fn new(sa: Sa) -> Option<Self> {
        let path_mtu = usize::from(sa.path_mtu.max(least(sa.path.remote.is_ipv6())));
        let (wrap, largest) = match &sa.layer {
            Layer::Ipsec(ipsec) => {
                let check = Check::new(ipsec, &sa);
                let largest = check.shape.largest_packet(path_mtu);
                (Wrap::Ipsec(check), largest)
            }
            Layer::Tunnel { encapsulation, .. } => {
                let shape = TunnelShape::of(*encapsulation, &sa.path);
                let largest = path_mtu.saturating_sub(shape.header_bytes());
                (Wrap::Tunnel(*encapsulation), largest)
            }
            Layer::Skip(in_line) => {
                let room = path_mtu.saturating_sub(ipv4::HEADER_LEN);
                let largest = in_line.association.layout().largest_clear(room);
                let opener = InLineOpener::new(in_line);
                (Wrap::Skip(Box::new(opener)), largest.unwrap_or(0))
            }
            Layer::Nothing { .. } => return None,
        };
        Some(Self {
            child: sa.child,
            spi: sa.spi(),
            mode: sa.mode,
            wrap,
            largest,
            path: sa.path,
            is_nested: sa.is_nested,
            sent_on_from: sa.sent_on_from,
            peer: sa.known_as(),
            original: sa.original,
            pool_address: sa.pool_address,
            local: sa.local.into_boxed_slice(),
            remote: sa.remote.into_boxed_slice(),
            soft_limit: SoftLimit::new(sa.soft_packets, sa.soft_bytes),
            packets: 0,
            bytes: 0,
            last: None,
            moved: None,
        })
    }

    /// Its form, if it is a tunnel of Mobile IPv4.
    pub(crate) fn encapsulation(&self) -> Option<Encapsulation> {
        match &self.wrap {
            Wrap::Ipsec(_) | Wrap::Skip(_) => None,
            Wrap::Tunnel(encapsulation) => Some(*encapsulation),
        }
    }

    /// What SKIP needs, if it is an SA of SKIP.
    pub(crate) fn in_line(&self) -> Option<&InLineOpener> {
        match &self.wrap {
            Wrap::Skip(in_line) => Some(in_line),
            Wrap::Ipsec(_) | Wrap::Tunnel(_) => None,
        }
    }

    /// The same, to open a packet or to tell it the calendar time.
    pub(crate) fn in_line_mut(&mut self) -> Option<&mut InLineOpener> {
        match &mut self.wrap {
            Wrap::Skip(in_line) => Some(in_line),
            Wrap::Ipsec(_) | Wrap::Tunnel(_) => None,
        }
    }

    /// The raw path that our end is of: a packet of SKIP has an IP header of its own in UDP too.
    pub(crate) fn own_end(&self) -> Path {
        match self.wrap {
            Wrap::Skip(_) => Path::raw(self.path.local.ip(), self.path.remote.ip()),
            Wrap::Ipsec(_) | Wrap::Tunnel(_) => self.path,
        }
    }

    /// What it does to a packet. SKIP counts its work itself.
    pub(crate) fn task(&self) -> Option<Task> {
        match &self.wrap {
            Wrap::Ipsec(Check { shape, .. }) => Some(Task::Open(shape.protocol, shape.protection)),
            Wrap::Tunnel(encapsulation) => Some(Task::Decapsulate(*encapsulation)),
            Wrap::Skip(_) => None,
        }
    }

    /// The largest TCP segment that answers may have, behind IP headers of `ip` octets.
    pub(crate) fn largest_segment(&self, ip: usize) -> u16 {
        let headers = match self.path.via {
            Via::UdpWithSkip => skip::udp::HEADERS_LEN + ip + wire::ip::tcp::HEADER_LEN,
            _ => ip + wire::ip::tcp::HEADER_LEN,
        };
        self.largest.saturating_sub(headers) as u16
    }

    /// Opens a packet in place whose ESP or AH header starts at `at`.
    pub(crate) fn open(
        &mut self,
        (via, protocol): (Via, Protocol),
        packet: &mut [u8],
        at: usize,
        low: u32,
        now: Instant,
    ) -> Result<Opened, DropReason> {
        let Wrap::Ipsec(check) = &mut self.wrap else {
            return Err(DropReason::WrongEncapsulation);
        };
        if via != self.path.via || protocol != check.shape.protocol {
            return Err(DropReason::WrongEncapsulation);
        }
        let (is_newest, clear, next_header) = check.open(packet, at, low)?;
        Ok(self.opened(is_newest, clear, next_header, now))
    }

    /// Opens a packet of SKIP in place whose header starts at `at`. Also returns whether it is a
    /// copy.
    pub(crate) fn open_in_line(
        &mut self,
        packet: &mut [u8],
        at: usize,
        now: Instant,
    ) -> Result<(Opened, bool), DropReason> {
        let in_line = self.in_line_mut().ok_or(DropReason::WrongEncapsulation)?;
        let it = in_line.open(packet, at, now)?;
        let heard = self.last;
        let opened = self.opened(it.is_newest, it.clear, it.next_header, now);
        if it.is_repeated {
            self.last = heard; // whoever repeats a packet need not be its author
        }
        Ok((opened, it.is_repeated))
    }

    fn opened(
        &mut self,
        is_newest: bool,
        clear: Range<usize>,
        next_header: u8,
        now: Instant,
    ) -> Opened {
        let is_first = is_newest && self.packets == 0;
        self.count(clear.len(), now);
        Opened {
            clear,
            next_header,
            is_newest,
            is_first,
            reaches_soft_limit: self.soft_limit.reach(self.packets, self.bytes),
        }
    }

    /// Counts a packet that it took.
    pub(crate) fn count(&mut self, bytes: usize, now: Instant) {
        self.packets += 1;
        self.bytes += bytes as u64;
        self.last = Some(now);
    }

    /// The peer has proven this address.
    pub(crate) fn know(&mut self, address: IpAddr) {
        if self.pool_address.is_none() {
            self.peer = address;
        }
    }

    /// The newest packet came over `path`. Returns whether this is a new path, which the SA then
    /// follows.
    pub(crate) fn follows(&mut self, path: Path, now: Instant) -> bool {
        let is_settled = (self.moved).is_none_or(|moved| now.since(moved) >= MOVE_INTERVAL);
        let is_followed = self.path != path && is_settled;
        if is_followed {
            self.path = path;
            self.moved = Some(now);
        }
        is_followed
    }

    /// Lets its key rest, if no packet came since the last call.
    pub(crate) fn rest(&mut self) {
        if let Wrap::Ipsec(check) = &mut self.wrap {
            check.key.rest();
        }
    }

    #[cfg(test)]
    pub(crate) fn is_prepared(&self) -> bool {
        matches!(&self.wrap, Wrap::Ipsec(check) if check.key.is_prepared())
    }

    pub(crate) fn report(&self) -> SaReport {
        SaReport {
            spi: self.spi,
            child: self.child,
            packets: self.packets,
            bytes: self.bytes,
            last: self.last,
            path_mtu: 0,
        }
    }

    /// See the plane.
    pub(crate) fn fixed_sequence_for_testing(&mut self, sequence: u64) {
        if let Wrap::Ipsec(check) = &mut self.wrap {
            check.window.accept(sequence);
        }
    }
}

impl Check {
    fn new(ipsec: &Ipsec, sa: &Sa) -> Self {
        // Without integrity anyone could move the window (RFC 4303 §3.4.3).
        let packets = match ipsec.protection.is_authenticated() {
            false => 0,
            // ESN needs a window to tell the upper half (RFC 4303 §3.4.3)
            true if sa.has_esn => sa.replay_window.max(crate::replay::MIN_PACKETS),
            true => sa.replay_window,
        };
        Self {
            shape: Shape::of(ipsec, sa.mode, &sa.path),
            key: ipsec.packet_key(),
            window: Window::new(packets, sa.has_esn),
            has_esn: sa.has_esn,
        }
    }

    /// Whether it is the newest packet, where its clear text lies, and the next header.
    fn open(
        &mut self,
        packet: &mut [u8],
        at: usize,
        low: u32,
    ) -> Result<(bool, Range<usize>, u8), DropReason> {
        let sequence = self.window.expand(low).ok_or(DropReason::OutsideWindow)?;
        self.window.check(sequence)?;
        let esn_high = self.has_esn.then_some((sequence >> 32) as u32);
        // An error before the ICV was found right moves nothing.
        if self.shape.protocol == Protocol::Ah {
            let (clear, next_header) = ah::open(self.key.prepared(), packet, at, esn_high)?;
            return Ok((self.window.accept(sequence), clear, next_header));
        }
        let packet = &mut packet[at..];
        let text = esp::open(self.key.prepared(), packet, esn_high)?;
        // The number is used even if the padding is wrong.
        let is_newest = self.window.accept(sequence);
        let (clear, next_header) = esp::strip(packet, text)?;
        Ok((is_newest, clear.start + at..clear.end + at, next_header))
    }
}
