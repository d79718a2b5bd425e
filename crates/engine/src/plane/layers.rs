//! The tunnel headers inside of a packet. They show that the packet has been here before.

use std::net::Ipv4Addr;

use wire::ip::protocol::{GRE, IPV4, MINIMAL, UDP};
use wire::ip::{gre, ipv4, minimal, udp};
use wire::mip4::{PORT, TUNNEL_HEADER_LEN, TunnelHeader};

use crate::counters::DropReason;
use crate::plane::MAX_NESTED;
use crate::plane::inner::{Inner, be16};

/// Refuses a packet that one of our own tunnels, which start at `own`, has carried already: two
/// home agents whose nodes register each other's home addresses send it round and round. Its own
/// IP header does not count, as this host may send such packets. It grows by a header in each
/// round, so what is in too many tunnels to be read is refused too.
pub(crate) fn check(inner: &Inner, packet: &[u8], own: Ipv4Addr) -> Result<(), DropReason> {
    let mut rest = packet.get(inner.flow.transport..inner.flow.total_len);
    let mut form = match inner.is_v6() || inner.flow.is_later_fragment {
        true => return Ok(()),
        false => inner.flow.protocol,
    };
    for _ in 0..=MAX_NESTED {
        let Some(layer) = rest.and_then(|rest| Layer::first_of(form, rest)) else {
            return Ok(());
        };
        if layer.source == Some(own) {
            return Err(DropReason::RoutingLoop);
        }
        (form, rest) = (layer.form, Some(layer.rest));
    }
    Err(DropReason::NestedTooDeep)
}

/// A packet inside of a tunnel.
struct Layer<'a> {
    /// None: as that of the tunnel.
    source: Option<Ipv4Addr>,
    form: u8,
    /// What follows its header.
    rest: &'a [u8],
}

impl<'a> Layer<'a> {
    /// The packet in a tunnel of this form. `rest` begins with what follows the IP header.
    fn first_of(form: u8, rest: &'a [u8]) -> Option<Self> {
        match form {
            IPV4 => Self::of_packet(rest),
            GRE => Self::of_packet(rest.get(gre::check(rest).ok()?..)?),
            MINIMAL => Self::of_minimal(rest),
            UDP => Self::of_udp(rest),
            _ => None,
        }
    }

    fn of_packet(packet: &'a [u8]) -> Option<Self> {
        let first = *packet.first()?;
        let header = usize::from(first & 0xf) * 4;
        let is_later = be16(packet.get(..ipv4::HEADER_LEN)?, 6) & 0x1fff != 0;
        if first >> 4 != 4 || is_later || header < ipv4::HEADER_LEN {
            return None;
        }
        Some(Self {
            source: Some(address(packet, 12)?),
            form: packet[9],
            rest: packet.get(header..)?,
        })
    }

    /// RFC 2004 §3.
    fn of_minimal(rest: &'a [u8]) -> Option<Self> {
        let has_source = rest.get(1)? & 0x80 != 0;
        let (source, header) = match has_source {
            true => (Some(address(rest, 8)?), minimal::LEN),
            false => (None, minimal::LEN_WITHOUT_SOURCE),
        };
        Some(Self {
            source,
            form: *rest.first()?,
            rest: rest.get(header..)?,
        })
    }

    /// RFC 3519 §4.1.
    fn of_udp(rest: &'a [u8]) -> Option<Self> {
        let ports = [be16(rest.get(..udp::HEADER_LEN)?, 0), be16(rest, 2)];
        let payload = rest.get(udp::HEADER_LEN..)?;
        let form = *payload.get(1)?;
        let is_tunnel = payload.first() == TunnelHeader { next_header: form }.octets().first();
        let inside = payload.get(TUNNEL_HEADER_LEN..)?;
        match ports.contains(&PORT) && is_tunnel && form != UDP {
            true => Self::first_of(form, inside),
            false => None,
        }
    }
}

fn address(octets: &[u8], at: usize) -> Option<Ipv4Addr> {
    let four: [u8; 4] = octets.get(at..at + 4)?.try_into().ok()?;
    Some(four.into())
}
