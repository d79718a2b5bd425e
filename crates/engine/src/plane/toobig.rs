//! Packets that do not fit: ICMP to the sender, which then sends smaller ones.

use std::net::IpAddr;

use wire::ip::icmp;

use crate::plane::datagrams::Datagrams;
use crate::plane::inner::Inner;
use crate::plane::path_mtu::LEAST_V6;

/// What an IPv4 link must carry (RFC 791 §3.2).
const MIN_V4_MTU: usize = 68;

/// Adds to `out` the ICMP packet that tells the sender of `packet` that only `largest` octets fit.
/// Its source is the destination of `packet`. Packets that must not be answered get no answer.
pub(crate) fn reply(
    inner: &Inner,
    packet: &[u8],
    largest: usize,
    has_vnet_header: bool,
    out: &mut Datagrams,
) {
    let icmp = match inner.flow.destination {
        IpAddr::V4(from) => {
            let mtu = largest.clamp(MIN_V4_MTU, u16::MAX.into()) as u16;
            icmp::fragmentation_needed(packet, from, mtu)
        }
        // a group is answered too (RFC 4443 §2.4 e.3), but its address cannot be a source
        IpAddr::V6(from) if from.is_multicast() => None,
        IpAddr::V6(from) => icmp::packet_too_big(packet, from, largest.max(LEAST_V6.into()) as u32),
    };
    if let Some(icmp) = icmp {
        out.answer(&icmp, has_vnet_header);
    }
}
