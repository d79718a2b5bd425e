//! IP packets that simulated hosts make and read: UDP and ICMP echo, in either family. Callers
//! ensure that both addresses have the same family.

use std::net::{IpAddr, Ipv4Addr};

use wire::ip::checksum::Sum;
use wire::ip::{Flow, Ipv4, ipv4, ipv6, protocol, tcp, udp};

const HOPS: u8 = 64;
const ECHO_BYTES: usize = 8;
/// RFC 4443 §4.1, §4.2.
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// Octets of an IP header without options.
pub const fn header_bytes(is_v6: bool) -> usize {
    if is_v6 {
        ipv6::HEADER_LEN
    } else {
        ipv4::HEADER_LEN
    }
}

/// Octets of a UDP packet or an echo besides its payload.
pub const fn overhead_bytes(is_v6: bool) -> usize {
    header_bytes(is_v6) + udp::HEADER_LEN
}

/// A UDP packet with its checksum. Panics on a payload above 65,507 octets.
pub fn udp<A: Into<IpAddr>>(
    (source, source_port): (A, u16),
    (destination, destination_port): (A, u16),
    payload: &[u8],
    id: u16,
) -> Vec<u8> {
    let (source, destination) = (source.into(), destination.into());
    let ends = (source, destination);
    let length = udp::HEADER_LEN + payload.len();
    let (mut packet, start) = packet(ends, protocol::UDP, id, length);
    let datagram = &mut packet[start..];
    datagram[udp::HEADER_LEN..].copy_from_slice(payload);
    udp::write_header(datagram, source_port, destination_port);
    let sum = Sum::pseudo_header(source, destination, protocol::UDP, datagram.len());
    let sum = match sum.bytes(datagram).finish() {
        0 => 0xffff,
        other => other,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// An ICMP echo request or reply with its identifier and sequence number.
pub fn echo<A: Into<IpAddr>>(
    (source, destination): (A, A),
    is_request: bool,
    (identifier, sequence): (u16, u16),
    payload_bytes: usize,
) -> Vec<u8> {
    let ends = (source.into(), destination.into());
    let (protocol, kind) = match (ends.0, is_request) {
        (IpAddr::V4(_), true) => (protocol::ICMP, 8),
        (IpAddr::V4(_), false) => (protocol::ICMP, 0),
        (IpAddr::V6(_), true) => (protocol::ICMPV6, V6_REQUEST),
        (IpAddr::V6(_), false) => (protocol::ICMPV6, V6_REPLY),
    };
    let length = ECHO_BYTES + payload_bytes;
    let (mut packet, start) = packet(ends, protocol, sequence, length);
    let icmp = &mut packet[start..];
    icmp[0] = kind;
    icmp[4..6].copy_from_slice(&identifier.to_be_bytes());
    icmp[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = match ends.0 {
        IpAddr::V4(_) => Sum::new(),
        IpAddr::V6(_) => Sum::pseudo_header(ends.0, ends.1, protocol, length),
    };
    let sum = sum.bytes(icmp).finish();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// An ICMP message of IPv4 that stays on its link.
pub fn icmp((source, destination): (Ipv4Addr, Ipv4Addr), message: &[u8]) -> Vec<u8> {
    let ends = (source.into(), destination.into());
    let (mut packet, start) = packet(ends, protocol::ICMP, 0, message.len());
    packet[start..].copy_from_slice(message);
    set_ttl(&mut packet, 1);
    packet
}

/// Gives a packet of IPv4 another TTL.
pub fn set_ttl(packet: &mut [u8], ttl: u8) {
    packet[TTL_AT] = ttl;
    if let Ok(mut ip) = Ipv4::new(packet) {
        ip.fill_checksum();
    }
}

/// Where the TTL is in an IPv4 header.
const TTL_AT: usize = 8;

/// Identifier and sequence number of an echo reply.
pub fn echo_reply(packet: &[u8], flow: &Flow) -> Option<(u16, u16)> {
    let icmp = packet.get(flow.transport..flow.total_len)?;
    let kind = match flow.protocol {
        protocol::ICMP => 0,
        protocol::ICMPV6 => V6_REPLY,
        _ => return None,
    };
    let is_reply = icmp.len() >= ECHO_BYTES && icmp[0] == kind;
    let word = |at: usize| u16::from_be_bytes([icmp[at], icmp[at + 1]]);
    is_reply.then(|| (word(4), word(6)))
}

/// Of a packet of TCP: its ports, our own first, and the sequence numbers of its first octet and
/// after its last one. A SYN counts as an octet.
pub fn segment(packet: &[u8]) -> Option<((u16, u16), u32, u32)> {
    let flow = Flow::of(packet).ok()?;
    let header = packet.get(flow.transport..flow.total_len)?;
    if flow.protocol != protocol::TCP || header.len() < tcp::HEADER_LEN {
        return None;
    }
    let start = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let offset = usize::from(header[12] >> 4) * 4;
    let payload = header.len().checked_sub(offset)?;
    let syn = u32::from(header[13] & tcp::flags::SYN != 0);
    Some((flow.ports?, start, start.wrapping_add(payload as u32 + syn)))
}

/// A packet with its header and zero payload, and the offset of the payload.
fn packet(
    (source, destination): (IpAddr, IpAddr),
    protocol: u8,
    id: u16,
    payload_bytes: usize,
) -> (Vec<u8>, usize) {
    let start = header_bytes(source.is_ipv6());
    let mut packet = vec![0; start + payload_bytes];
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Header {
            tos: 0,
            id,
            dont_fragment: false,
            ttl: HOPS,
            protocol,
            source,
            destination,
        }
        .write(&mut packet),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Header {
            traffic_class: 0,
            flow_label: 0,
            next_header: protocol,
            hop_limit: HOPS,
            source,
            destination,
        }
        .write(&mut packet),
        _ => unreachable!("a packet from {source} to {destination}"),
    }
    (packet, start)
}

#[cfg(test)]
pub(super) fn has_valid_checksums(packet: &[u8]) -> bool {
    use wire::ip::checksum::checksum;

    let flow = Flow::of(packet).expect("a packet");
    let transport = &packet[flow.transport..flow.total_len];
    let is_whole = matches!(flow.source, IpAddr::V6(_)) || checksum(&packet[..flow.transport]) == 0;
    let upper = match flow.protocol {
        protocol::ICMP => Sum::new(),
        other => Sum::pseudo_header(flow.source, flow.destination, other, transport.len()),
    };
    is_whole && upper.bytes(transport).finish() == 0
}
