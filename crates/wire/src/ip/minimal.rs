//! Minimal encapsulation (RFC 2004 §3): 12 octets (8 if the sender is the packet's source) between
//! the IP header and its payload, instead of a second IP header.

use std::net::Ipv4Addr;

use super::checksum::checksum;
use super::{Ipv4, be16, be32, protocol, put16, put32};
use crate::codec::Malformed;

/// Octets of the forwarding header with the original source address.
pub const LEN: usize = 12;

/// Octets without it.
pub const LEN_WITHOUT_SOURCE: usize = 8;

/// Encapsulates the IPv4 packet at `frame[at..]`. Its header moves towards the front, its payload
/// stays. Returns where the packet starts now; the TTL is as it was. Refused for fragments (RFC
/// 2004 §3), and if the packet becomes too long. Panics if `at` is below [`LEN`].
pub fn encapsulate(
    frame: &mut [u8],
    at: usize,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Result<usize, Malformed> {
    let packet = Ipv4::new(&frame[at..])?;
    if packet.is_fragment() {
        return Err(Malformed::Value("fragment in minimal encapsulation"));
    }
    let header_len = packet.header_len();
    let (was_from, was_to) = (packet.source(), packet.destination());
    let has_source = was_from != source;
    let len = if has_source { LEN } else { LEN_WITHOUT_SOURCE };
    let total = u16::try_from(packet.total_len() + len)
        .map_err(|_too_long| Malformed::Length("minimal encapsulation"))?;
    let inner = packet.protocol();
    let start = at - len;
    frame.copy_within(at..at + header_len, start);
    let forwarding = &mut frame[start + header_len..start + header_len + len];
    forwarding[0] = inner;
    forwarding[1] = if has_source { SOURCE_PRESENT } else { 0 };
    put16(forwarding, 2, 0);
    put32(forwarding, 4, was_to.into());
    if has_source {
        put32(forwarding, 8, was_from.into());
    }
    let sum = checksum(forwarding);
    put16(forwarding, 2, sum);
    // The length field is still the old one: the accessor must not read past the new end.
    put16(&mut frame[start..], 2, total);
    let mut packet = Ipv4::new(&mut frame[start..])?;
    packet.set_protocol(protocol::MINIMAL);
    packet.set_source(source);
    packet.set_destination(destination);
    packet.fill_checksum();
    Ok(start)
}

/// Restores the packet that `packet` carries; `packet` is an IPv4 packet of protocol 55. Returns
/// where the restored packet starts.
pub fn decapsulate(packet: &mut [u8]) -> Result<usize, Malformed> {
    let outer = Ipv4::new(&*packet)?;
    if outer.protocol() != protocol::MINIMAL {
        return Err(Malformed::Value("minimal encapsulation protocol"));
    }
    if outer.is_fragment() {
        return Err(Malformed::Value("fragment in minimal encapsulation"));
    }
    let (header_len, total) = (outer.header_len(), outer.total_len());
    let payload = outer.payload();
    if payload.len() < LEN_WITHOUT_SOURCE {
        return Err(Malformed::Truncated("minimal forwarding header"));
    }
    let has_source = payload[1] & SOURCE_PRESENT != 0;
    let len = if has_source { LEN } else { LEN_WITHOUT_SOURCE };
    if payload.len() < len {
        return Err(Malformed::Truncated("minimal forwarding header"));
    }
    if checksum(&payload[..len]) != 0 {
        return Err(Malformed::Value("minimal forwarding checksum"));
    }
    let inner = payload[0];
    let destination = Ipv4Addr::from(be32(payload, 4));
    let source = has_source.then(|| Ipv4Addr::from(be32(payload, 8)));
    packet.copy_within(..header_len, len);
    let restored = &mut packet[len..];
    debug_assert_eq!(usize::from(be16(restored, 2)), total);
    put16(restored, 2, (total - len) as u16);
    let mut restored = Ipv4::new(restored)?;
    restored.set_protocol(inner);
    restored.set_destination(destination);
    if let Some(source) = source {
        restored.set_source(source);
    }
    restored.fill_checksum();
    Ok(len)
}

const SOURCE_PRESENT: u8 = 0x80;
