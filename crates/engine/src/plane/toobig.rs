//! Packets that do not fit: ICMP to the sender (RFC 792, RFC 1191, RFC 4443 §3.2), and the
//! maximum segment size of TCP's SYN lowered so that few ever are (RFC 4459 §3.2).

use std::net::IpAddr;

use crate::plane::checksum::{self, Sum};
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::{Fragment, ICMP, ICMPV6, Inner, be16, put16};
use crate::plane::sealer::{finish_ip_header, write_ip_header};
use crate::plane::vnet;

/// What an IPv6 link must carry, so the least that can be told.
const MIN_V6_MTU: usize = 1280;
/// What an IPv4 link must carry (RFC 791 §3.2).
const MIN_V4_MTU: usize = 68;
/// An ICMPv6 error is at most as long as the least MTU, an ICMP one 576 octets (RFC 1812 §4.3.2.3).
const MAX_V4_REPLY: usize = 576;
const MAX_V6_REPLY: usize = 1280;
const ICMP_HEADER_BYTES: usize = 8;

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MAXIMUM_SEGMENT_SIZE: u8 = 2;
const TCP_HEADER_BYTES: usize = 20;
const TCP_CHECKSUM: usize = 16;

/// Adds to `out` the packet that tells the sender of `packet` that only `largest` octets fit. It
/// comes from where the packet was going. None answers ICMP errors, later fragments or packets to
/// or from groups (RFC 1812 §4.3.2.7).
pub(crate) fn reply(
    inner: &Inner,
    packet: &[u8],
    largest: usize,
    has_vnet_header: bool,
    out: &mut Datagrams,
) {
    if inner.fragment == Fragment::Later || is_group(inner) || is_icmp_error(inner, packet) {
        return;
    }
    let start = out.reply_bytes.len();
    if has_vnet_header {
        out.reply_bytes.extend_from_slice(&vnet::plain());
    }
    let at = out.reply_bytes.len();
    let (ip, limit, protocol) = match inner.is_v6() {
        false => (20, MAX_V4_REPLY, ICMP),
        true => (40, MAX_V6_REPLY, ICMPV6),
    };
    let quoted = packet.len().min(limit - ip - ICMP_HEADER_BYTES);
    out.reply_bytes.resize(at + ip + ICMP_HEADER_BYTES, 0);
    out.reply_bytes.extend_from_slice(&packet[..quoted]);
    let length = ip + ICMP_HEADER_BYTES + quoted;
    let (header, icmp) = out.reply_bytes[at..].split_at_mut(ip);
    let ends = (inner.destination, inner.source);
    write_ip_header(header, ends, protocol, 0, (0, 0x4000));
    finish_ip_header(header, length);
    let sum = if inner.is_v6() {
        icmp[0] = 2;
        icmp[4..8].copy_from_slice(&(largest.max(MIN_V6_MTU) as u32).to_be_bytes());
        Sum::pseudo(ends.0, ends.1, ICMPV6).add16(icmp.len() as u16)
    } else {
        (icmp[0], icmp[1]) = (3, 4);
        put16(icmp, 6, largest.max(MIN_V4_MTU) as u16);
        Sum::default()
    };
    let checksum = sum.add(icmp).checksum();
    icmp[2..4].copy_from_slice(&checksum);
    out.replies.push(start..at + length);
}

/// Lowers the maximum segment size in the options of a SYN to `room`. `is_partial`: the checksum
/// is not complete yet and does not cover the options.
pub(crate) fn clamp_mss(tcp: &mut [u8], room: u16, is_partial: bool) {
    let end = tcp
        .get(12)
        .map_or(0, |octet| usize::from(octet >> 4) * 4)
        .min(tcp.len());
    let mut at = TCP_HEADER_BYTES;
    while at + 1 < end {
        let length = match tcp[at] {
            END => return,
            NO_OPERATION => 1,
            _ => usize::from(tcp[at + 1]).max(2),
        };
        if tcp[at] == MAXIMUM_SEGMENT_SIZE && length == 4 && at + 4 <= end {
            lower(tcp, at + 2, room, is_partial);
            return;
        }
        at += length;
    }
}

fn lower(tcp: &mut [u8], at: usize, room: u16, is_partial: bool) {
    let old = be16(tcp, at);
    if old <= room {
        return;
    }
    put16(tcp, at, room);
    if is_partial {
        return;
    }
    // an option at an odd place straddles two words of the sum
    let swap = |value: u16| {
        if at % 2 == 1 {
            value.swap_bytes()
        } else {
            value
        }
    };
    checksum::update(tcp, TCP_CHECKSUM, |sum| {
        checksum::replaced(sum, swap(old), swap(room))
    });
}

fn is_group(inner: &Inner) -> bool {
    let is_broadcast = inner.destination == IpAddr::from([255, 255, 255, 255]);
    is_broadcast
        || inner.destination.is_multicast()
        || inner.source.is_multicast()
        || inner.source.is_unspecified()
}

fn is_icmp_error(inner: &Inner, packet: &[u8]) -> bool {
    let kind = packet.get(inner.upper).copied().unwrap_or(0);
    match inner.protocol {
        // only echo and the information requests may be answered (RFC 1122 §3.2.2)
        ICMP => !matches!(kind, 0 | 8 | 13..=18),
        ICMPV6 => kind < 128,
        _ => false,
    }
}
