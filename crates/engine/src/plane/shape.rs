//! How large packets become on the wire, for the sealing code, path MTU and the lab.

use crypto::packet::Protection;
use wire::ip::{gre, ipv4, udp};
use wire::mip4::TUNNEL_HEADER_LEN;

use crate::ah;
use crate::esp::Layout;
use crate::sa::{Encapsulation, Ipsec, Mode, Path, Protocol, Via};

/// What decides the size of a packet under an SA of ESP or AH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Algorithms.
    pub protection: Protection,
    /// ESP or AH.
    pub protocol: Protocol,
    /// Tunnel or transport.
    pub mode: Mode,
    /// ESP in UDP.
    pub is_udp_encapsulated: bool,
    /// The outer header is IPv6.
    pub is_outer_v6: bool,
}

/// What decides the size of a packet in a tunnel of Mobile IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunnelShape {
    /// The form.
    pub encapsulation: Encapsulation,
    /// In UDP (RFC 3519).
    pub is_in_udp: bool,
}

impl Shape {
    /// Of an SA with this layer, mode and path.
    pub fn of(ipsec: &Ipsec, mode: Mode, path: &Path) -> Self {
        Self {
            protection: ipsec.protection,
            protocol: ipsec.protocol,
            mode,
            is_udp_encapsulated: path.via != Via::Raw,
            is_outer_v6: path.remote.is_ipv6(),
        }
    }

    /// Octets of the outer IP header that an SA makes itself.
    pub fn ip_header_bytes(&self) -> usize {
        if self.is_outer_v6 { 40 } else { 20 }
    }

    /// Octets of the ESP packet, or of AH with its payload, for this many octets of payload.
    pub fn sealed(&self, payload: usize) -> usize {
        match self.protocol {
            Protocol::Esp => Layout::of(&self.protection).sealed(payload),
            Protocol::Ah => ah::header_bytes(&self.protection, self.is_outer_v6) + payload,
        }
    }

    /// The largest packet, IP header included, that a path carries under this SA. Transport mode:
    /// for IP headers without options.
    pub fn largest_packet(&self, path_mtu: usize) -> usize {
        let ip = self.ip_header_bytes();
        let room = path_mtu.saturating_sub(ip + self.udp_header_bytes());
        let payload = match self.protocol {
            Protocol::Esp => Layout::of(&self.protection).largest_clear(room),
            Protocol::Ah => {
                room.saturating_sub(ah::header_bytes(&self.protection, self.is_outer_v6))
            }
        };
        match self.mode {
            Mode::Tunnel => payload,
            Mode::Transport => payload + ip,
        }
    }

    /// Octets of headers on the wire that the sealed datagrams do not contain.
    pub(crate) fn headers_outside(&self) -> usize {
        match self.is_udp_encapsulated {
            true => self.ip_header_bytes() + udp::HEADER_LEN,
            false => 0,
        }
    }

    fn udp_header_bytes(&self) -> usize {
        match self.is_udp_encapsulated {
            true => udp::HEADER_LEN,
            false => 0,
        }
    }
}

impl TunnelShape {
    /// Of a tunnel of this form on this path.
    pub fn of(encapsulation: Encapsulation, path: &Path) -> Self {
        Self {
            encapsulation,
            is_in_udp: path.via != Via::Raw,
        }
    }

    /// Octets on the wire before a packet, from the outer IP header on. Minimal encapsulation adds
    /// fewer to most packets, but as many to fragments.
    pub fn header_bytes(&self) -> usize {
        let gre = match self.encapsulation {
            Encapsulation::Gre => gre::LEN,
            Encapsulation::IpInIp | Encapsulation::Minimal => 0,
        };
        let udp = match self.is_in_udp {
            true => udp::HEADER_LEN + TUNNEL_HEADER_LEN,
            false => 0,
        };
        ipv4::HEADER_LEN + udp + gre
    }

    /// Octets of headers on the wire that the datagrams do not contain.
    pub(crate) fn headers_outside(&self) -> usize {
        match self.is_in_udp {
            true => ipv4::HEADER_LEN + udp::HEADER_LEN,
            false => 0,
        }
    }
}

/// Octets on the wire, from the outer IP header on, of one packet of `packet` octets (its IP
/// header included) under an SA of this shape. Transport mode: for IP headers without options.
pub fn wire_bytes(shape: &Shape, packet: usize) -> usize {
    let ip = shape.ip_header_bytes();
    let payload = match shape.mode {
        Mode::Tunnel => packet,
        Mode::Transport => packet.saturating_sub(ip),
    };
    ip + shape.udp_header_bytes() + shape.sealed(payload)
}
