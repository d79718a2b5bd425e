//! How large packets become on the wire, for the sealing code, path MTU and the lab.

use crypto::packet::Protection;

use crate::ah;
use crate::esp::Layout;
use crate::sa::{Layer, Mode, Protocol, Sa, Via};

const UDP_HEADER_BYTES: usize = 8;

/// What decides the size of a packet under an SA.
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

impl Shape {
    /// Of this SA; `None` if it is a tunnel of Mobile IPv4.
    pub fn of(sa: &Sa) -> Option<Self> {
        let Layer::Ipsec(ipsec) = &sa.layer else {
            return None;
        };
        Some(Self {
            protection: ipsec.protection,
            protocol: ipsec.protocol,
            mode: sa.mode,
            is_udp_encapsulated: sa.path.via != Via::Raw,
            is_outer_v6: sa.path.remote.is_ipv6(),
        })
    }

    /// Octets of the outer IP header that an SA makes itself.
    pub fn ip_header_bytes(&self) -> usize {
        if self.is_outer_v6 { 40 } else { 20 }
    }

    /// Octets of headers on the wire that the sealed datagrams do not contain.
    pub(crate) fn headers_outside(&self) -> usize {
        match self.is_udp_encapsulated {
            true => self.ip_header_bytes() + UDP_HEADER_BYTES,
            false => 0,
        }
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
        let udp = if self.is_udp_encapsulated {
            UDP_HEADER_BYTES
        } else {
            0
        };
        let room = path_mtu.saturating_sub(ip + udp);
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
}

/// Octets on the wire, from the outer IP header on, of one packet of `packet` octets (its IP
/// header included) under an SA of this shape. Transport mode: for IP headers without options.
pub fn wire_bytes(shape: &Shape, packet: usize) -> usize {
    let ip = shape.ip_header_bytes();
    let payload = match shape.mode {
        Mode::Tunnel => packet,
        Mode::Transport => packet.saturating_sub(ip),
    };
    let udp = if shape.is_udp_encapsulated {
        UDP_HEADER_BYTES
    } else {
        0
    };
    ip + udp + shape.sealed(payload)
}
