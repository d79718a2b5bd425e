//! ICMP errors that tell a sender about a smaller path MTU (RFC 792, RFC 1191 §4, RFC 4443 §3.2),
//! or that a tunnel leads nowhere (RFC 2003 §4).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Ipv4, Ipv6, Sum, ipv4, ipv6, protocol, put16, put32};

/// Octets of the largest ICMPv4 error (RFC 1812 §4.3.2.3).
pub const MAX_V4_LEN: usize = 576;
/// Octets of the largest ICMPv6 error: the minimum MTU (RFC 4443 §2.4 c).
pub const MAX_V6_LEN: usize = 1280;

/// Echo request.
pub const V4_ECHO_REQUEST: u8 = 8;
/// Destination unreachable.
pub const V4_UNREACHABLE: u8 = 3;
/// Code of [`V4_UNREACHABLE`]: no way to the network.
pub const V4_NETWORK: u8 = 0;
/// Code of [`V4_UNREACHABLE`]: no way to the host.
pub const V4_HOST: u8 = 1;
/// Code of [`V4_UNREACHABLE`]: fragmentation needed and DF set.
pub const V4_FRAGMENTATION_NEEDED: u8 = 4;
/// Packet too big.
pub const V6_PACKET_TOO_BIG: u8 = 2;

/// The answer, sent from `from`, to an IPv4 packet that is larger than `mtu` and may not be
/// fragmented. None if RFC 1812 §4.3.2.7 forbids one: the packet is an ICMP error, a later
/// fragment, multicast or broadcast, or malformed.
pub fn fragmentation_needed(packet: &[u8], from: Ipv4Addr, mtu: u16) -> Option<Vec<u8>> {
    unreachable_v4(packet, from, V4_FRAGMENTATION_NEEDED, mtu)
}

/// The same for a packet that is cut off, as reports quote it. None also if less is left than the
/// header and 8 octets, or if the packet may be fragmented.
pub fn fragmentation_needed_by_cut(cut: &[u8], from: Ipv4Addr, mtu: u16) -> Option<Vec<u8>> {
    let header_len = usize::from(cut.first()? & 15) * 4;
    let is_v4 = cut[0] >> 4 == 4 && header_len >= ipv4::HEADER_LEN;
    let length = cut.len().min(usize::from(u16::MAX));
    if !is_v4 || length < header_len + ICMP_LEN || cut[6] & DONT_FRAGMENT == 0 {
        return None;
    }
    // What is there, as a packet of its own: its header is checked as others are.
    let mut whole = cut[..length].to_vec();
    put16(&mut whole, 2, length as u16);
    let mut reply = unreachable_v4(&whole, from, V4_FRAGMENTATION_NEEDED, mtu)?;
    let start = ipv4::HEADER_LEN + ICMP_LEN;
    reply[start + 2..start + 4].copy_from_slice(&cut[2..4]);
    seal_v4(&mut reply[ipv4::HEADER_LEN..]);
    Some(reply)
}

/// What [`fragmentation_needed`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooBig<'a> {
    /// How much fits; 0: an old router that does not say (RFC 1191 §5).
    pub mtu: u16,
    /// The packet that did not fit, from its IP header on. It may be cut off.
    pub quoted: &'a [u8],
    /// Octets of that header.
    pub header_len: usize,
    /// Where that packet came from.
    pub source: Ipv4Addr,
    /// Where it was going.
    pub destination: Ipv4Addr,
    /// What it carried.
    pub protocol: u8,
}

impl<'a> TooBig<'a> {
    /// None: it is another packet, or damaged.
    pub fn read(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv4::new(packet).ok()?;
        if ip.protocol() != protocol::ICMP || ip.fragment_offset() != 0 {
            return None;
        }
        let message = &packet[ip.header_len()..ip.total_len()];
        let is_told = message.len() >= ICMP_LEN + ipv4::HEADER_LEN
            && message[..2] == [V4_UNREACHABLE, V4_FRAGMENTATION_NEEDED]
            && Sum::default().bytes(message).finish() == 0;
        let quoted = message.get(ICMP_LEN..).filter(|_| is_told)?;
        let header_len = usize::from(quoted[0] & 15) * 4;
        let is_whole =
            quoted[0] >> 4 == 4 && (ipv4::HEADER_LEN..=quoted.len()).contains(&header_len);
        let address = |at: usize| {
            let octets: [u8; 4] = quoted[at..at + 4].try_into().expect("four octets");
            Ipv4Addr::from(octets)
        };
        is_whole.then(|| Self {
            mtu: u16::from_be_bytes([message[6], message[7]]),
            quoted,
            header_len,
            source: address(12),
            destination: address(16),
            protocol: quoted[9],
        })
    }
}

/// The answer, sent from `from`, to an IPv4 packet that cannot be delivered for the reason that
/// `code` names. None as for [`fragmentation_needed`].
pub fn undeliverable(packet: &[u8], from: Ipv4Addr, code: u8) -> Option<Vec<u8>> {
    unreachable_v4(packet, from, code, 0)
}

fn unreachable_v4(packet: &[u8], from: Ipv4Addr, code: u8, mtu: u16) -> Option<Vec<u8>> {
    let cause = Ipv4::new(packet).ok()?;
    if cause.fragment_offset() != 0 || !is_host_v4(cause.source()) {
        return None;
    }
    if cause.destination().is_multicast() || cause.destination().is_broadcast() {
        return None;
    }
    if cause.protocol() == protocol::ICMP
        && !matches!(cause.payload().first(), Some(0 | 8 | 13..=18))
    {
        return None;
    }
    let start = ipv4::HEADER_LEN + ICMP_LEN;
    let quoted = &cause.packet()[..cause.total_len().min(MAX_V4_LEN - start)];
    let mut reply = vec![0; start + quoted.len()];
    ipv4::Header {
        // RFC 1812 §4.3.2.5: internetwork control.
        tos: 0xc0,
        id: 0,
        dont_fragment: true,
        ttl: REPLY_HOPS,
        protocol: protocol::ICMP,
        source: from,
        destination: cause.source(),
    }
    .write(&mut reply);
    let message = &mut reply[ipv4::HEADER_LEN..];
    message[0] = V4_UNREACHABLE;
    message[1] = code;
    put16(message, 6, mtu);
    message[ICMP_LEN..].copy_from_slice(quoted);
    seal_v4(message);
    Some(reply)
}

/// Writes the checksum of an ICMP message.
fn seal_v4(message: &mut [u8]) {
    put16(message, 2, 0);
    let sum = Sum::new().bytes(message).finish();
    put16(message, 2, sum);
}

/// The answer, sent from `from`, to an IPv6 packet that is larger than `mtu`. None if
/// RFC 4443 §2.4 (e) forbids one: the packet is an ICMPv6 error or redirect, not from a single
/// host, or malformed.
pub fn packet_too_big(packet: &[u8], from: Ipv6Addr, mtu: u32) -> Option<Vec<u8>> {
    let cause = Ipv6::new(packet).ok()?;
    let upper = cause.upper().ok()?;
    let source = cause.source();
    if source.is_multicast() || source.is_unspecified() || source.is_loopback() {
        return None;
    }
    if upper.protocol == protocol::ICMPV6 && !upper.is_later_fragment() {
        let kind = *cause.packet().get(upper.offset)?;
        if kind < 128 || kind == REDIRECT {
            return None;
        }
    }
    let start = ipv6::HEADER_LEN + ICMP_LEN;
    let quoted = &cause.packet()[..cause.total_len().min(MAX_V6_LEN - start)];
    let mut reply = vec![0; start + quoted.len()];
    ipv6::Header {
        traffic_class: 0,
        flow_label: 0,
        next_header: protocol::ICMPV6,
        hop_limit: REPLY_HOPS,
        source: from,
        destination: source,
    }
    .write(&mut reply);
    let message = &mut reply[ipv6::HEADER_LEN..];
    message[0] = V6_PACKET_TOO_BIG;
    put32(message, 4, mtu);
    message[ICMP_LEN..].copy_from_slice(quoted);
    let pseudo = Sum::pseudo_header(from.into(), source.into(), protocol::ICMPV6, message.len());
    let sum = pseudo.bytes(message).finish();
    put16(message, 2, sum);
    Some(reply)
}

/// Whether an address names one host, which may receive an error.
fn is_host_v4(address: Ipv4Addr) -> bool {
    let is_reserved = address.octets()[0] >= 240;
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_reserved)
}

/// In the octet of an IPv4 header that has the flags.
const DONT_FRAGMENT: u8 = 0x40;
/// Octets of an ICMP error's own header.
const ICMP_LEN: usize = 8;
const REPLY_HOPS: u8 = 64;
/// ICMPv6 redirect.
const REDIRECT: u8 = 137;
