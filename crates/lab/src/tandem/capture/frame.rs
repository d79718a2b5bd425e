//! The IP packet inside a captured frame: its length and addresses.

use super::CaptureFault;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERNET: u32 = 1;
const NULL: u32 = 0;
const LOOP: u32 = 108;
const COOKED: u32 = 113;
const COOKED2: u32 = 276;
/// Link types of raw IP on various systems.
const RAW: [u32; 5] = [12, 14, 101, 228, 229];
/// A PPP over Ethernet session (RFC 2516 §4), as used on DSL lines.
const PPPOE: u16 = 0x8864;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// IEEE 802.1Q tags, inner and outer.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAGS_MAX: usize = 4;
/// Version, code, session and length of PPPoE, before the protocol of PPP.
const PPPOE_HEADER: usize = 6;
/// IP in PPP (RFC 1332 §2, RFC 5072 §2).
const PPP: [u16; 2] = [0x0021, 0x0057];

/// The data that is needed of an IP packet.
pub(super) struct Head {
    /// Its own length, header included.
    pub(super) bytes: u32,
    pub(super) from: Option<IpAddr>,
    pub(super) to: Option<IpAddr>,
}

/// The IP packet of a frame of `length` bytes of which `bytes` were captured; `None` if it has
/// none.
pub(super) fn head(link: u32, bytes: &[u8], length: u32) -> Result<Option<Head>, CaptureFault> {
    let start = match link {
        ETHERNET => after_ethernet(bytes),
        COOKED => typed(bytes, 14, 16),
        COOKED2 => typed(bytes, 0, 20),
        NULL | LOOP => Some(4),
        raw if RAW.contains(&raw) => Some(0),
        other => return Err(CaptureFault::Link(other)),
    };
    Ok(start.and_then(|start| ip(bytes.get(start..)?, length.saturating_sub(start as u32))))
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    let pair = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([pair[0], pair[1]]))
}

/// The position of the IP header if the type at `at` is that of IP.
fn typed(bytes: &[u8], at: usize, start: usize) -> Option<usize> {
    matches!(word(bytes, at)?, IPV4 | IPV6).then_some(start)
}

fn after_ethernet(bytes: &[u8]) -> Option<usize> {
    let mut at = 12;
    for _ in 0..TAGS_MAX {
        if !TAGS.contains(&word(bytes, at)?) {
            break;
        }
        at += 4;
    }
    if word(bytes, at)? == PPPOE {
        let at = at + 2 + PPPOE_HEADER;
        return PPP.contains(&word(bytes, at)?).then_some(at + 2);
    }
    typed(bytes, at, at + 2)
}

/// RFC 791 §3.1, RFC 8200 §3. A length of 0 is a jumbogram or a packet that the sender's network
/// card would have split: then the length of the frame counts.
fn ip(bytes: &[u8], left: u32) -> Option<Head> {
    let four = |at: usize| {
        let part: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(IpAddr::V4(Ipv4Addr::from(part)))
    };
    let sixteen = |at: usize| {
        let part: [u8; 16] = bytes.get(at..at + 16)?.try_into().ok()?;
        Some(IpAddr::V6(Ipv6Addr::from(part)))
    };
    let (written, header, least, from, to) = match bytes.first()? >> 4 {
        4 => (word(bytes, 2)?, 0, 20, four(12), four(16)),
        6 => (word(bytes, 4)?, 40, 40, sixteen(8), sixteen(24)),
        _ => return None,
    };
    let length = match written {
        0 => left,
        written => u32::from(written) + header,
    };
    let bytes = length.max(least);
    Some(Head { bytes, from, to })
}
