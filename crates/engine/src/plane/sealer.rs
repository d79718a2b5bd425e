//! One outbound SA at work: its numbers, and what it puts around packets, in place.

mod encapsulate;
mod in_line;
mod protect;
mod recent;

use std::net::{IpAddr, Ipv4Addr};

use crypto::rand::Stream;
use wire::ip::protocol::{IPV4, IPV6, SKIP};

use self::encapsulate::Capsule;
pub(crate) use self::in_line::InLineSealer;
use self::in_line::headers_before;
use self::protect::{Protector, last_sequence};
use self::recent::Recent;
use crate::counters::DropReason;
use crate::plane::SaReport;
use crate::plane::checksum;
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::{Inner, put16};
use crate::plane::path_mtu::{LEAST_CLAIM, least};
use crate::plane::shape::{TunnelShape, wire_bytes};
use crate::plane::soft_limit::SoftLimit;
use crate::sa::{Aim, ChildId, Encapsulation, Layer, Lead, Mode, Path, Sa, Via};
use crate::selector::TrafficSelector;
use crate::time::Instant;
use crate::work::Task;

/// TTL and hop limit of outer headers.
pub(crate) const OUTER_TTL: u8 = 64;
/// No protocol's number: a selector for one takes no packet of it.
const ANY_PROTOCOL: u8 = 0;
/// IPv4's DF in the flags and fragment offset field.
const DONT_FRAGMENT: u16 = 0x4000;

/// An outbound SA.
pub(crate) struct Sealer {
    pub(crate) child: ChildId,
    pub(crate) spi: u32,
    pub(crate) mode: Mode,
    pub(crate) path: Path,
    /// Its packets go through the outbound plane again.
    pub(crate) is_nested: bool,
    /// See [`Sa::carried_by`].
    pub(crate) carried_by: Option<ChildId>,
    /// See [`Sa::removes_header`].
    pub(crate) removes_header: bool,
    /// Our address and the peer's when the SA was made: what transport-mode checksums cover, as
    /// the peer repairs them from these (RFC 3948 §3.1.2).
    pub(crate) view: (IpAddr, IpAddr),
    pub(crate) pool_address: Option<IpAddr>,
    /// The address under which our own stack knows the peer of a transport-mode SA.
    pub(crate) peer: IpAddr,
    pub(crate) local: Box<[TrafficSelector]>,
    pub(crate) remote: Box<[TrafficSelector]>,
    pub(crate) copies_df: bool,
    /// The largest packet that needs no fragment.
    pub(crate) largest: usize,
    /// The largest packet that a small path carries.
    pub(crate) small: usize,
    pub(crate) path_mtu: u16,
    wrap: Wrap,
    /// Packets so far; of ESP and AH, the last number.
    sequence: u64,
    soft_limit: SoftLimit,
    bytes: u64,
    last: Option<Instant>,
}

/// What an SA puts around a packet, decided once for all its packets.
enum Wrap {
    Ipsec(Protector),
    Tunnel(Capsule),
    Skip(Box<InLineSealer>),
    Nothing,
}

/// Where sealed packets go, and what fits there.
#[derive(Clone, Copy)]
struct Way<'a> {
    path: &'a Path,
    path_mtu: u16,
}

/// What the outer header takes from the inner packet.
pub(crate) struct Outer<'a> {
    pub(crate) traffic_class: u8,
    pub(crate) dont_fragment: bool,
    /// Transport mode: the packet's own IP header, and where in it the protocol is said.
    pub(crate) header: &'a [u8],
    pub(crate) protocol_at: usize,
    pub(crate) next_header: u8,
    /// Octets of minimal encapsulation, where the packet gets it.
    minimal: Option<usize>,
}

impl<'a> Outer<'a> {
    /// For `packet`, whose headers are `inner`.
    pub(crate) fn of(sealer: &Sealer, inner: &Inner, packet: &'a [u8]) -> Self {
        let is_tunnel = sealer.mode == Mode::Tunnel;
        let of_tunnel = if inner.is_v6() { IPV6 } else { IPV4 };
        Self {
            traffic_class: inner.traffic_class,
            dont_fragment: sealer.copies_df && inner.dont_fragment,
            header: if is_tunnel {
                &[]
            } else {
                &packet[..inner.flow.transport]
            },
            protocol_at: inner.protocol_at,
            next_header: if is_tunnel {
                of_tunnel
            } else {
                inner.flow.protocol
            },
            minimal: match &sealer.wrap {
                Wrap::Ipsec(_) | Wrap::Skip(_) | Wrap::Nothing => None,
                Wrap::Tunnel(capsule) => capsule.minimal_bytes(&sealer.path, packet),
            },
        }
    }
}

impl Sealer {
    pub(crate) fn new(sa: Sa) -> Self {
        let last = last_sequence(sa.has_esn);
        // Control must renew the SA before its numbers are used up.
        let near_end = last - (last >> 4);
        let mut sealer = Self {
            child: sa.child,
            spi: sa.spi(),
            mode: sa.mode,
            path: sa.path,
            is_nested: sa.is_nested,
            carried_by: sa.carried_by,
            removes_header: sa.removes_header,
            view: (sa.path.local.ip(), sa.path.remote.ip()),
            pool_address: sa.pool_address,
            peer: sa.known_as(),
            wrap: match &sa.layer {
                Layer::Ipsec(ipsec) => Wrap::Ipsec(Protector::new(ipsec, &sa)),
                Layer::Tunnel { encapsulation, .. } => {
                    Wrap::Tunnel(Capsule::new(TunnelShape::of(*encapsulation, &sa.path)))
                }
                Layer::Skip(in_line) => Wrap::Skip(Box::new(InLineSealer::new(in_line))),
                Layer::Nothing { .. } => Wrap::Nothing,
            },
            local: sa.local.into_boxed_slice(),
            remote: sa.remote.into_boxed_slice(),
            copies_df: sa.copies_df,
            largest: 0,
            small: 0,
            path_mtu: 0,
            sequence: 0,
            soft_limit: SoftLimit::new(sa.soft_packets.min(near_end), sa.soft_bytes),
            bytes: 0,
            last: None,
        };
        sealer.set_path_mtu(sa.path_mtu);
        sealer
    }

    /// No path goes below the minimum of its family.
    pub(crate) fn set_path_mtu(&mut self, path_mtu: u16) {
        let path_mtu = path_mtu.max(least(self.path.remote.is_ipv6()));
        self.path_mtu = path_mtu;
        self.small = self.largest_packet(LEAST_CLAIM.into());
        self.largest = self.largest_packet(path_mtu.into());
    }

    /// Octets on the wire before and after each packet, at least.
    pub(crate) fn overhead(&self) -> usize {
        match &self.wrap {
            Wrap::Ipsec(protector) => wire_bytes(&protector.shape, 0),
            Wrap::Tunnel(capsule) => capsule.shape.header_bytes(),
            Wrap::Skip(in_line) => in_line.layout.wire_bytes(0) + self.headers_outside(),
            Wrap::Nothing => 0,
        }
    }

    /// Octets of headers on the wire that the sealed datagrams do not contain.
    pub(crate) fn headers_outside(&self) -> usize {
        match &self.wrap {
            Wrap::Ipsec(protector) => protector.shape.headers_outside(),
            Wrap::Tunnel(capsule) => capsule.shape.headers_outside(),
            Wrap::Skip(_) => headers_before(&self.path),
            Wrap::Nothing => 0,
        }
    }

    /// Whether no destination tells its packets: its node's address may be another's, too.
    pub(crate) fn is_found_by_home_alone(&self) -> bool {
        let is_raw = self.path.via == Via::Raw && !self.path.remote.ip().is_unspecified();
        self.home_address().is_some() && !is_raw
    }

    /// Packets that carry this home address are its own.
    pub(crate) fn home_address(&self) -> Option<Ipv4Addr> {
        match self.in_line()?.aim {
            Aim::Home(address) => Some(address),
            Aim::Path | Aim::Destination => None,
        }
    }

    /// Other ends and traffic, of SKIP alone.
    pub(crate) fn lead(&mut self, lead: &Lead) {
        if let Some(in_line) = self.in_line_mut() {
            in_line.aim = lead.aim;
            self.is_nested = lead.is_nested;
            self.path = lead.path;
            self.local = lead.local.as_slice().into();
            self.remote = lead.remote.as_slice().into();
            self.set_path_mtu(self.path_mtu);
        }
    }

    /// What it does to a packet. SKIP counts its work itself.
    pub(crate) fn task(&self) -> Option<Task> {
        match &self.wrap {
            Wrap::Ipsec(Protector { shape, .. }) => {
                Some(Task::Seal(shape.protocol, shape.protection))
            }
            Wrap::Tunnel(capsule) => Some(Task::Encapsulate(capsule.shape.encapsulation)),
            Wrap::Skip(_) | Wrap::Nothing => None,
        }
    }

    /// What SKIP needs, if it is an SA of SKIP.
    pub(crate) fn in_line(&self) -> Option<&InLineSealer> {
        match &self.wrap {
            Wrap::Skip(in_line) => Some(in_line),
            Wrap::Ipsec(_) | Wrap::Tunnel(_) | Wrap::Nothing => None,
        }
    }

    /// The same, to change it.
    pub(crate) fn in_line_mut(&mut self) -> Option<&mut InLineSealer> {
        match &mut self.wrap {
            Wrap::Skip(in_line) => Some(in_line),
            Wrap::Ipsec(_) | Wrap::Tunnel(_) | Wrap::Nothing => None,
        }
    }

    /// The IP protocol of its packets, if it is not their own.
    pub(crate) fn protocol(&self) -> u8 {
        match &self.wrap {
            Wrap::Ipsec(protector) => protector.protocol(),
            Wrap::Tunnel(capsule) => capsule.shape.encapsulation.protocol(),
            Wrap::Skip(_) => SKIP,
            Wrap::Nothing => ANY_PROTOCOL,
        }
    }

    /// Its form, if it is a tunnel of Mobile IPv4.
    pub(crate) fn encapsulation(&self) -> Option<Encapsulation> {
        match &self.wrap {
            Wrap::Ipsec(_) | Wrap::Skip(_) | Wrap::Nothing => None,
            Wrap::Tunnel(capsule) => Some(capsule.shape.encapsulation),
        }
    }

    /// Our address, if it is a tunnel of Mobile IPv4.
    pub(crate) fn tunnel_start(&self) -> Option<Ipv4Addr> {
        match (self.encapsulation(), self.path.local.ip()) {
            (Some(_), IpAddr::V4(own)) => Some(own),
            _ => None,
        }
    }

    /// Whether the SA reaches its soft limit: true only once.
    pub(crate) fn reach_soft_limit(&mut self) -> bool {
        self.soft_limit.reach(self.sequence, self.bytes)
    }

    /// Lets its key rest, if no packet came since the last call.
    pub(crate) fn rest(&mut self) {
        if let Wrap::Ipsec(protector) = &mut self.wrap {
            protector.rest();
        }
    }

    #[cfg(test)]
    pub(crate) fn is_prepared(&self) -> bool {
        matches!(&self.wrap, Wrap::Ipsec(protector) if protector.is_prepared())
    }

    pub(crate) fn report(&self) -> SaReport {
        SaReport {
            spi: self.spi,
            child: self.child,
            packets: self.sequence,
            bytes: self.bytes,
            last: self.last,
            path_mtu: self.path_mtu,
        }
    }

    /// Whether one of the last packets of a tunnel or of SKIP bore this identification.
    pub(crate) fn has_sent(&self, id: u16) -> bool {
        self.sent().is_some_and(|sent| sent.has(id))
    }

    /// Whether one of the last large packets did.
    pub(crate) fn has_sent_large(&self, id: u16) -> bool {
        self.sent().is_some_and(|sent| sent.has_large(id))
    }

    fn sent(&self) -> Option<&Recent> {
        match &self.wrap {
            Wrap::Ipsec(_) | Wrap::Nothing => None,
            Wrap::Tunnel(capsule) => Some(&capsule.sent),
            Wrap::Skip(in_line) => Some(&in_line.sent),
        }
    }

    /// Whether this is the lower half of a number that the last `most` packets bore.
    pub(crate) fn has_sealed(&self, sequence: u32, most: u32) -> bool {
        let behind = (self.sequence as u32).wrapping_sub(sequence);
        behind < most && u64::from(behind) < self.sequence
    }

    /// See the plane.
    pub(crate) fn fixed_sequence_for_testing(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Seals one payload of `clear` octets, which `fill` writes into place: in tunnel mode a whole
    /// packet, in transport mode what follows the IP header. Returns the octets that were pushed.
    pub(crate) fn seal(
        &mut self,
        clear: usize,
        outer: &Outer<'_>,
        now: Instant,
        random: &mut Stream,
        out: &mut Datagrams,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, DropReason> {
        let way = Way {
            path: &self.path,
            path_mtu: self.path_mtu,
        };
        let sealed = match &mut self.wrap {
            Wrap::Ipsec(protector) => {
                protector.seal(way, &mut self.sequence, outer, random, out, (clear, fill))?
            }
            Wrap::Tunnel(capsule) => {
                let sealed = capsule.seal(way, outer, random, out, (clear, fill))?;
                self.sequence += 1;
                sealed
            }
            Wrap::Nothing => {
                let packet = out.push(way.path, outer.traffic_class, clear, false);
                fill(packet);
                self.sequence += 1;
                clear
            }
            Wrap::Skip(in_line) => {
                let sealed = in_line.seal(way, outer, now, random, out, (clear, fill))?;
                self.sequence += 1;
                sealed
            }
        };
        self.bytes += clear as u64;
        self.last = Some(now);
        Ok(sealed)
    }

    /// The largest packet that a path carries.
    fn largest_packet(&self, path_mtu: usize) -> usize {
        match &self.wrap {
            Wrap::Ipsec(protector) => protector.shape.largest_packet(path_mtu),
            Wrap::Tunnel(capsule) => path_mtu.saturating_sub(capsule.shape.header_bytes()),
            Wrap::Skip(in_line) => {
                in_line.largest_packet(path_mtu.saturating_sub(headers_before(&self.path)))
            }
            Wrap::Nothing => path_mtu,
        }
    }
}

/// An IP header without options for these addresses; length and checksum are not yet right.
/// `id_and_flags` are IPv4's.
pub(crate) fn write_ip_header(
    header: &mut [u8],
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    traffic_class: u8,
    id_and_flags: (u16, u16),
) {
    header.fill(0);
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            header[0] = 0x45;
            header[1] = traffic_class;
            put16(header, 4, id_and_flags.0);
            put16(header, 6, id_and_flags.1);
            header[8] = OUTER_TTL;
            header[9] = protocol;
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&destination.octets());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            header[0] = 0x60 | traffic_class >> 4;
            header[1] = traffic_class << 4;
            header[6] = protocol;
            header[7] = OUTER_TTL;
            header[8..24].copy_from_slice(&source.octets());
            header[24..40].copy_from_slice(&destination.octets());
        }
        // Paths of two families do not exist; such a header is refused by whoever gets it.
        _ => {}
    }
}

/// Sets the length of a packet of `length` octets, and IPv4's checksum over `header`, which may
/// hold options.
pub(crate) fn finish_ip_header(header: &mut [u8], length: usize) {
    if header[0] >> 4 == 6 {
        put16(header, 4, (length - 40) as u16);
    } else {
        put16(header, 2, length as u16);
        checksum::put_v4(header);
    }
}
