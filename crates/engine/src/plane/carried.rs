//! Which home address a packet between a mobile node and its home agent is about. A firewall that
//! reads it needs no binding (Gupta and Montenegro, Secure and Mobile Networking, 1998).

use std::net::Ipv4Addr;

use wire::ip::{gre, protocol, udp};
use wire::mip4::{Message, PORT, TunnelHeader};
use wire::skip::Nsid;

use crate::plane::inner::{Inner, be16};
use crate::sa::Encapsulation;
use crate::skip;

/// What a packet says of a home address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    /// It is about this one: a message, data in a tunnel, or an ICMP error about such a packet.
    Home(Ipv4Addr),
    /// It is of a kind that carries one, but none can be read.
    Unreadable,
    /// It is a fragment of a packet that may say it in an earlier one.
    Later,
    /// It is of another kind.
    Nothing,
}

/// Whether a packet goes to a mobile node or comes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    ToNode,
    FromNode,
}

/// Octets of an ICMP error before the packet that it quotes.
const QUOTED_AT: usize = 8;
/// A home address is within the first octets of the payload: of tunnels in UDP, behind 8 of UDP, 4
/// of the tunnel and up to 16 of GRE, with checksum, key and sequence number, in the 20 of the
/// packet. A fragment that begins here or later cannot change it.
const SAID_BEFORE: usize = 48;
/// Where the forwarding header of minimal encapsulation has the destination, and then the source
/// (RFC 2004 §3).
const MINIMAL_DESTINATION_AT: usize = 4;
const MINIMAL_SOURCE_AT: usize = 8;

/// The home address in a packet, whose headers are `inner`.
pub(crate) fn carried(inner: &Inner, packet: &[u8], heading: Heading) -> Carried {
    let flow = &inner.flow;
    let rest = packet.get(flow.transport..flow.total_len).unwrap_or(&[]);
    let is_message = match flow.ports {
        // A node's messages go to agents. Behind a NAT, its own port may be any.
        Some((from, to)) => to == PORT || from == PORT && heading == Heading::ToNode,
        None => flow.is_later_fragment,
    };
    let found = match flow.protocol {
        _ if inner.is_v6() => return Carried::Nothing,
        other if !may_carry(other) => return Carried::Nothing,
        protocol::UDP if !is_message => return Carried::Nothing,
        protocol::ICMP if !flow.is_later_fragment && !is_error(rest) => return Carried::Nothing,
        _ if flow.is_later_fragment && offset(packet) >= SAID_BEFORE => return Carried::Later,
        _ if flow.is_later_fragment => None,
        protocol::UDP => of_message(rest.get(udp::HEADER_LEN..).unwrap_or(&[]), heading),
        protocol::ICMP => quoted(rest, heading.back()),
        protocol::SKIP => match of_name(rest, heading) {
            Some(home) => Some(home),
            None => return Carried::Nothing,
        },
        form => of_tunnel(form, rest, heading),
    };
    found.map_or(Carried::Unreadable, Carried::Home)
}

/// Where a fragment belongs in its packet's payload, in octets.
fn offset(packet: &[u8]) -> usize {
    usize::from(be16(packet, 6) & 0x1fff) * 8
}

impl Heading {
    fn back(self) -> Self {
        match self {
            Self::ToNode => Self::FromNode,
            Self::FromNode => Self::ToNode,
        }
    }
}

/// Whether packets of this protocol carry a home address.
fn may_carry(other: u8) -> bool {
    let is_message = matches!(other, protocol::UDP | protocol::ICMP | protocol::SKIP);
    is_message || Encapsulation::of(other).is_some()
}

/// Whether this ICMP quotes a packet (RFC 1122 §3.2.2), or is too short to tell.
fn is_error(message: &[u8]) -> bool {
    matches!(message.first(), None | Some(3..=5 | 11 | 12))
}

/// Of what follows the IP header of a tunnelled packet.
fn of_tunnel(form: u8, rest: &[u8], heading: Heading) -> Option<Ipv4Addr> {
    match form {
        protocol::IPV4 => of_packet(rest, heading),
        protocol::GRE => of_packet(rest.get(gre::check(rest).ok()?..)?, heading),
        protocol::MINIMAL => {
            let has_source = rest.get(1)? & 0x80 != 0;
            match heading {
                Heading::ToNode => address(rest, MINIMAL_DESTINATION_AT),
                Heading::FromNode if has_source => address(rest, MINIMAL_SOURCE_AT),
                Heading::FromNode => None,
            }
        }
        _ => None,
    }
}

/// Of the packet in a tunnel. It may be cut, where it is quoted or a first fragment.
fn of_packet(packet: &[u8], heading: Heading) -> Option<Ipv4Addr> {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let at = match heading {
        Heading::FromNode => 12,
        Heading::ToNode => 16,
    };
    address(packet, at).filter(|_| is_v4)
}

fn of_message(payload: &[u8], heading: Heading) -> Option<Ipv4Addr> {
    let (message, len) = Message::parse(payload).ok()?;
    match message {
        Message::Request(it) => Some(it.home_address),
        Message::Reply(it) => Some(it.home_address),
        Message::Revocation(it) => Some(it.home_address),
        Message::RevocationAcknowledgment(it) => Some(it.home_address),
        Message::Tunnel(TunnelHeader { next_header }) => {
            of_tunnel(next_header, payload.get(len..)?, heading)
        }
    }
}

/// SKIP in SKIP: the node's name, where it is an address.
fn of_name(rest: &[u8], heading: Heading) -> Option<Ipv4Addr> {
    let (header, _) = skip::peek(rest, 0).ok()?;
    let name = match heading {
        Heading::FromNode => header.source,
        Heading::ToNode => header.destination,
    };
    match name.nsid() {
        Nsid::Ipv4 => address(name.mkid(), 0),
        _ => None,
    }
}

/// Of the packet that an ICMP error quotes.
fn quoted(rest: &[u8], heading: Heading) -> Option<Ipv4Addr> {
    let packet = rest.get(QUOTED_AT..)?;
    let header = usize::from(packet.first()? & 0xf) * 4;
    let form = *packet.get(9)?;
    match form {
        protocol::UDP => of_message(packet.get(header + udp::HEADER_LEN..)?, heading),
        _ => of_tunnel(form, packet.get(header..)?, heading),
    }
}

/// Whether an ICMP error quotes a packet to somebody other than its own sender: it is a router's,
/// not that of the packet's destination.
pub(crate) fn is_about_another(inner: &Inner, packet: &[u8]) -> bool {
    let flow = &inner.flow;
    let rest = packet.get(flow.transport..flow.total_len).unwrap_or(&[]);
    if inner.is_v6() || flow.protocol != protocol::ICMP || flow.is_later_fragment {
        return false;
    }
    let quoted = rest.get(QUOTED_AT..).and_then(|quoted| address(quoted, 16));
    let is_other = |to: Ipv4Addr| flow.source != to;
    is_error(rest) && quoted.is_some_and(is_other)
}

fn address(octets: &[u8], at: usize) -> Option<Ipv4Addr> {
    let four: [u8; 4] = octets.get(at..at + 4)?.try_into().ok()?;
    Some(four.into())
}

/// The packet in an IP-in-IP packet, which is whole: its headers, and where it starts.
pub(crate) fn inside(inner: &Inner, packet: &[u8]) -> Option<(Inner, usize)> {
    let flow = &inner.flow;
    if inner.is_v6() || flow.protocol != protocol::IPV4 || flow.is_fragment {
        return None;
    }
    let rest = packet.get(flow.transport..flow.total_len)?;
    let is_whole = |found: &Inner| !found.is_v6() && found.flow.total_len == rest.len();
    let found = Inner::parse(rest).filter(is_whole)?;
    (found.ttl > 0).then_some((found, flow.transport))
}

#[cfg(test)]
mod tests;
