//! One outbound SA at work: sequence numbers, the outer header, sealing in place.

use std::net::IpAddr;

use crypto::packet::PacketKey;
use crypto::rand::Stream;
use wire::ip::protocol::{AH, ESP, IPV4, IPV6};

use crate::counters::DropReason;
use crate::plane::SaReport;
use crate::plane::checksum;
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::{Inner, put16};
use crate::plane::path_mtu::{LEAST_CLAIM, least};
use crate::plane::shape::Shape;
use crate::plane::soft_limit::SoftLimit;
use crate::sa::{ChildId, Layer, Mode, Path, Protocol, Sa, Via};
use crate::selector::TrafficSelector;
use crate::time::Instant;
use crate::{ah, esp};

/// TTL and hop limit of outer headers.
pub(crate) const OUTER_TTL: u8 = 64;
/// IPv4's DF in the flags and fragment offset field.
const DONT_FRAGMENT: u16 = 0x4000;

/// An outbound SA.
pub(crate) struct Sealer {
    pub(crate) child: ChildId,
    pub(crate) spi: u32,
    pub(crate) shape: Shape,
    pub(crate) path: Path,
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
    key: PacketKey,
    has_esn: bool,
    sequence: u64,
    soft_limit: SoftLimit,
    bytes: u64,
    last: Option<Instant>,
}

/// What the outer header takes from the inner packet.
pub(crate) struct Outer<'a> {
    pub(crate) traffic_class: u8,
    pub(crate) dont_fragment: bool,
    /// Transport mode: the packet's own IP header, and where in it the protocol is said.
    pub(crate) header: &'a [u8],
    pub(crate) protocol_at: usize,
    pub(crate) next_header: u8,
}

impl<'a> Outer<'a> {
    /// For `packet`, whose headers are `inner`.
    pub(crate) fn of(sealer: &Sealer, inner: &Inner, packet: &'a [u8]) -> Self {
        let is_tunnel = sealer.shape.mode == Mode::Tunnel;
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
        }
    }
}

impl Sealer {
    pub(crate) fn new(sa: Sa) -> Option<Self> {
        let Layer::Ipsec(ipsec) = &sa.layer else {
            return None;
        };
        let last = last_sequence(sa.has_esn);
        // Control must renew the SA before its numbers are used up.
        let near_end = last - (last >> 4);
        let mut sealer = Self {
            child: sa.child,
            spi: ipsec.spi,
            shape: Shape::of(&sa)?,
            path: sa.path,
            view: (sa.path.local.ip(), sa.path.remote.ip()),
            pool_address: sa.pool_address,
            peer: sa.known_as(),
            key: ipsec.packet_key(),
            local: sa.local.into_boxed_slice(),
            remote: sa.remote.into_boxed_slice(),
            copies_df: sa.copies_df,
            largest: 0,
            small: 0,
            path_mtu: 0,
            has_esn: sa.has_esn,
            sequence: 0,
            soft_limit: SoftLimit::new(sa.soft_packets.min(near_end), sa.soft_bytes),
            bytes: 0,
            last: None,
        };
        sealer.set_path_mtu(sa.path_mtu);
        Some(sealer)
    }

    /// No path goes below the minimum of its family.
    pub(crate) fn set_path_mtu(&mut self, path_mtu: u16) {
        let path_mtu = path_mtu.max(least(self.shape.is_outer_v6));
        self.path_mtu = path_mtu;
        self.small = self.shape.largest_packet(LEAST_CLAIM.into());
        self.largest = self.shape.largest_packet(path_mtu.into());
    }

    /// Whether the SA reaches its soft limit: true only once.
    pub(crate) fn reach_soft_limit(&mut self) -> bool {
        self.soft_limit.reach(self.sequence, self.bytes)
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
        // The counter never wraps (RFC 4303 §3.3.3): the SA ends with the last number.
        if self.sequence >= last_sequence(self.has_esn) {
            return Err(DropReason::SequenceExhausted);
        }
        let sequence = self.sequence + 1;
        let headers = self.headers_before(outer);
        let length = headers + self.shape.sealed(clear);
        if length > usize::from(u16::MAX) {
            return Err(DropReason::TooBig);
        }
        let is_too_long = length + self.shape.headers_outside() > self.path_mtu.into();
        let packet = out.push(&self.path, outer.traffic_class, length, is_too_long);
        if headers > 0 {
            // What may be sealed although it is too long may be cut: an IPv6 packet of 1280 octets
            // has DF, and no sender makes it smaller.
            let dont_fragment = outer.dont_fragment && !is_too_long;
            let sizes = (length, dont_fragment);
            self.write_header(&mut packet[..headers], outer, sizes, random);
        }
        let sealed = match self.shape.protocol {
            Protocol::Esp => {
                let packet = &mut packet[headers..];
                let start = esp::Layout::of(&self.shape.protection).clear_at();
                fill(&mut packet[start..start + clear]);
                let (spi, has_esn) = (self.spi, self.has_esn);
                let iv = |iv: &mut [u8]| random.fill(iv);
                let next = outer.next_header;
                esp::seal(&self.key, packet, clear, spi, sequence, has_esn, next, iv);
                Ok(())
            }
            Protocol::Ah => {
                fill(&mut packet[length - clear..]);
                let (spi, next) = (self.spi, outer.next_header);
                ah::seal(
                    &self.key,
                    packet,
                    headers,
                    next,
                    spi,
                    sequence,
                    self.has_esn,
                )
            }
        };
        sealed.inspect_err(|_| out.unpush(length))?;
        self.sequence = sequence;
        self.bytes += clear as u64;
        self.last = Some(now);
        if is_too_long && self.path.via == Via::Raw {
            // UDP is fragmented by the kernel, which takes raw packets only as they are.
            let cut = self.fragment_last((headers, outer), random, out);
            return cut.inspect_err(|_| out.unpush(length));
        }
        Ok(length)
    }

    fn fragment_last(
        &self,
        (headers, outer): (usize, &Outer<'_>),
        random: &mut Stream,
        out: &mut Datagrams,
    ) -> Result<usize, DropReason> {
        let mtu = self.path_mtu.into();
        let cut = if self.shape.is_outer_v6 {
            let named_at = match self.shape.mode {
                Mode::Tunnel => 6,
                Mode::Transport => outer.protocol_at,
            };
            out.fragment_last_v6(mtu, (headers, named_at), random.u32())
        } else {
            out.fragment_last(mtu)
        };
        cut.map_err(|_refused| DropReason::TooBig)
    }

    fn headers_before(&self, outer: &Outer<'_>) -> usize {
        match self.shape.mode {
            _ if self.shape.is_udp_encapsulated => 0,
            Mode::Tunnel => self.shape.ip_header_bytes(),
            Mode::Transport => outer.header.len(),
        }
    }

    /// The outer IP header of a raw path.
    fn write_header(
        &self,
        header: &mut [u8],
        outer: &Outer<'_>,
        (length, dont_fragment): (usize, bool),
        random: &mut Stream,
    ) {
        let protocol = match self.shape.protocol {
            Protocol::Esp => ESP,
            Protocol::Ah => AH,
        };
        let (local, remote) = (self.path.local.ip(), self.path.remote.ip());
        if self.shape.mode == Mode::Tunnel {
            // AH covers the identification, and a sender of whole packets must not leave it 0.
            let id = (random.u32() as u16).max(1);
            let flags = if dont_fragment { DONT_FRAGMENT } else { 0 };
            write_ip_header(
                header,
                (local, remote),
                protocol,
                outer.traffic_class,
                (id, flags),
            );
        } else {
            header.copy_from_slice(outer.header);
            header[outer.protocol_at] = protocol;
            put_destination(header, remote);
            if remote.is_ipv4() && !dont_fragment {
                header[6] &= !((DONT_FRAGMENT >> 8) as u8);
            }
            if remote.is_ipv4() && header[4..6] == [0, 0] {
                put16(header, 4, (random.u32() as u16).max(1));
            }
        }
        finish_ip_header(header, length);
    }
}

fn last_sequence(has_esn: bool) -> u64 {
    match has_esn {
        true => u64::MAX,
        false => u32::MAX.into(),
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

/// Rewrites the destination of an IP header.
fn put_destination(header: &mut [u8], destination: IpAddr) {
    match destination {
        IpAddr::V4(v4) => header[16..20].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => header[24..40].copy_from_slice(&v6.octets()),
    }
}
