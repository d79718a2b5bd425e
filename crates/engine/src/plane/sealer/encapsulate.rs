//! Tunnels of Mobile IPv4 on outbound packets: IP in IP (RFC 2003), minimal encapsulation (RFC
//! 2004) and GRE (RFC 2784), each alone or in UDP (RFC 3519).
//!
//! The inner TTL stays as it is. The kernel has decremented it where it forwarded the packet to the
//! TUN device, and a packet that this host sends itself is not forwarded (RFC 2003 §3.1).
//!
//! Left out: minimal encapsulation in UDP. It has no place but the datagram's own IP header for
//! TTL, identification and DF of the packet, and a UDP socket does not show that header.

use std::net::IpAddr;

use crypto::rand::Stream;
use wire::ip::{gre, ipv4, minimal};
use wire::mip4::{TUNNEL_HEADER_LEN, TunnelHeader};

use super::recent::Recent;
use super::{DONT_FRAGMENT, Outer, Way, finish_ip_header, write_ip_header};
use crate::counters::DropReason;
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::be16;
use crate::plane::shape::TunnelShape;
use crate::sa::{Encapsulation, Path};

/// What a tunnel puts before packets.
pub(super) struct Capsule {
    pub(super) shape: TunnelShape,
    pub(super) sent: Recent,
}

impl Capsule {
    pub(super) fn new(shape: TunnelShape) -> Self {
        Self {
            shape,
            sent: Recent::default(),
        }
    }

    /// Octets of minimal encapsulation for this packet, of which at least the header is given.
    /// `None`: it gets another form. Fragments get IP in IP (RFC 2004 §3).
    pub(super) fn minimal_bytes(&self, path: &Path, packet: &[u8]) -> Option<usize> {
        if self.shape.encapsulation != Encapsulation::Minimal || self.shape.is_in_udp {
            return None;
        }
        let is_fragment = be16(packet, 6) & !DONT_FRAGMENT != 0;
        let source: [u8; 4] = core::array::from_fn(|at| packet[12 + at]);
        let is_own = path.local.ip() == IpAddr::from(source);
        (!is_fragment).then_some(match is_own {
            true => minimal::LEN_WITHOUT_SOURCE,
            false => minimal::LEN,
        })
    }

    /// As [`super::Sealer::seal`].
    pub(super) fn seal(
        &mut self,
        way: Way<'_>,
        outer: &Outer<'_>,
        random: &mut Stream,
        out: &mut Datagrams,
        (clear, fill): (usize, impl FnOnce(&mut [u8])),
    ) -> Result<usize, DropReason> {
        let form = match (self.shape.encapsulation, outer.minimal) {
            (Encapsulation::Minimal, None) => Encapsulation::IpInIp,
            (form, _) => form,
        };
        let headers = match (form, outer.minimal) {
            (_, Some(minimal)) => minimal,
            (Encapsulation::Gre, None) => self.headers() + gre::LEN,
            (Encapsulation::IpInIp | Encapsulation::Minimal, None) => self.headers(),
        };
        let length = headers + clear;
        let is_too_long = length + self.shape.headers_outside() > way.path_mtu.into();
        // The plane cuts or refuses what does not fit, so this is a packet that may not be cut and
        // whose sender is not to be told.
        if is_too_long {
            return Err(DropReason::TooBig);
        }
        let packet = out.push(way.path, outer.traffic_class, length, false);
        fill(&mut packet[headers..]);
        if form == Encapsulation::Gre {
            packet[headers - gre::LEN..headers].copy_from_slice(&gre::HEADER);
        }
        if self.shape.is_in_udp {
            let next_header = form.protocol();
            let header = TunnelHeader { next_header }.octets();
            packet[..TUNNEL_HEADER_LEN].copy_from_slice(&header);
            return Ok(length);
        }
        let (local, remote) = (way.path.local.ip(), way.path.remote.ip());
        let id = if outer.minimal.is_some() {
            let (IpAddr::V4(local), IpAddr::V4(remote)) = (local, remote) else {
                out.unpush(length);
                return Err(DropReason::WrongEncapsulation);
            };
            let start = minimal::encapsulate(packet, headers, local, remote);
            if start != Ok(0) {
                out.unpush(length);
                return Err(DropReason::BadInnerPacket);
            }
            be16(packet, 4)
        } else {
            let id = (random.u32() as u16).max(1);
            let flags = match outer.dont_fragment {
                true => DONT_FRAGMENT,
                false => 0,
            };
            let header = &mut packet[..ipv4::HEADER_LEN];
            let class = outer.traffic_class;
            write_ip_header(header, (local, remote), form.protocol(), class, (id, flags));
            finish_ip_header(header, length);
            id
        };
        self.sent.note(id, length);
        Ok(length)
    }

    /// Octets that the datagram has before GRE's header or the packet.
    fn headers(&self) -> usize {
        match self.shape.is_in_udp {
            true => TUNNEL_HEADER_LEN,
            false => ipv4::HEADER_LEN,
        }
    }
}
