//! IPv4 packets that simulated hosts make and read by themselves: UDP and ICMP echo.

use std::net::{IpAddr, Ipv4Addr};

use wire::ip::checksum::{Sum, checksum};
use wire::ip::ipv4::{HEADER_LEN, Header};
use wire::ip::{Flow, protocol, udp};

const TTL: u8 = 64;
const ECHO_BYTES: usize = 8;

/// A UDP packet with its checksum. Panics on a payload above 65,507 octets.
pub fn udp(
    (source, source_port): (Ipv4Addr, u16),
    (destination, destination_port): (Ipv4Addr, u16),
    payload: &[u8],
    id: u16,
) -> Vec<u8> {
    let mut packet = vec![0; HEADER_LEN + udp::HEADER_LEN + payload.len()];
    header(source, destination, protocol::UDP, id).write(&mut packet);
    let datagram = &mut packet[HEADER_LEN..];
    datagram[udp::HEADER_LEN..].copy_from_slice(payload);
    udp::write_header(datagram, source_port, destination_port);
    let (source, destination) = (IpAddr::V4(source), IpAddr::V4(destination));
    let sum = Sum::pseudo_header(source, destination, protocol::UDP, datagram.len());
    let sum = match sum.bytes(datagram).finish() {
        0 => 0xffff,
        other => other,
    };
    datagram[6..8].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// An ICMP echo request or reply with its identifier and sequence number.
pub fn echo(
    (source, destination): (Ipv4Addr, Ipv4Addr),
    is_request: bool,
    (identifier, sequence): (u16, u16),
    payload_bytes: usize,
) -> Vec<u8> {
    let mut packet = vec![0; HEADER_LEN + ECHO_BYTES + payload_bytes];
    header(source, destination, protocol::ICMP, sequence).write(&mut packet);
    let icmp = &mut packet[HEADER_LEN..];
    icmp[0] = if is_request { 8 } else { 0 };
    icmp[4..6].copy_from_slice(&identifier.to_be_bytes());
    icmp[6..8].copy_from_slice(&sequence.to_be_bytes());
    let sum = checksum(icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Identifier and sequence number of an echo reply.
pub fn echo_reply(packet: &[u8], flow: &Flow) -> Option<(u16, u16)> {
    let icmp = packet.get(flow.transport..flow.total_len)?;
    let is_reply = flow.protocol == protocol::ICMP && icmp.len() >= ECHO_BYTES && icmp[0] == 0;
    let word = |at: usize| u16::from_be_bytes([icmp[at], icmp[at + 1]]);
    is_reply.then(|| (word(4), word(6)))
}

fn header(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, id: u16) -> Header {
    Header {
        tos: 0,
        id,
        dont_fragment: false,
        ttl: TTL,
        protocol,
        source,
        destination,
    }
}

#[cfg(test)]
pub(super) fn has_valid_checksums(packet: &[u8]) -> bool {
    let flow = Flow::of(packet).expect("a packet");
    let transport = &packet[flow.transport..flow.total_len];
    let upper = match flow.protocol {
        protocol::ICMP => Sum::new(),
        other => Sum::pseudo_header(flow.source, flow.destination, other, transport.len()),
    };
    checksum(&packet[..flow.transport]) == 0 && upper.bytes(transport).finish() == 0
}
