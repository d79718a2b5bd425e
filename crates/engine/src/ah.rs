//! The authentication header (RFC 4302), transport and tunnel mode, IPv4 and IPv6.
//!
//! Works on a whole outer IP packet with its AH in place. The ICV covers mutable fields as zero.

use core::ops::Range;

use ::wire::ah::{self as wire, FIXED_LEN, Family};
use crypto::packet::{PacketKey, Protection};

use crate::counters::DropReason;

/// Headers before AH longer than this are refused.
const MAX_HEADERS_BYTES: usize = 256;
/// The longest ICV, SHA2-512's.
const MAX_ICV_BYTES: usize = 32;

/// Octets of the header with its ICV, padded to 32 bits for IPv4, 64 for IPv6 (RFC 4302 §2.6).
pub fn header_bytes(protection: &Protection, is_v6: bool) -> usize {
    wire::header_len(protection.icv_len(), family(is_v6))
}

fn family(is_v6: bool) -> Family {
    if is_v6 { Family::V6 } else { Family::V4 }
}

/// Writes AH at `at` into a whole IP packet, where [`header_bytes`] octets are reserved for it.
/// Headers and payload are in place, and the protocol field is 51.
pub fn seal(
    key: &PacketKey,
    packet: &mut [u8],
    at: usize,
    next_header: u8,
    spi: u32,
    sequence: u64,
    has_esn: bool,
) -> Result<(), DropReason> {
    let family = family(packet[0] >> 4 == 6);
    let icv_len = key.protection().icv_len();
    let low = sequence as u32;
    wire::write_header(&mut packet[at..], next_header, spi, low, icv_len, family);
    let mut room = [0; MAX_HEADERS_BYTES];
    let headers = covered_headers(packet, at, &mut room)?;
    let esn = has_esn.then_some(((sequence >> 32) as u32).to_be_bytes());
    let mut icv = [0; MAX_ICV_BYTES];
    let icv = &mut icv[..icv_len];
    let parts = [headers, &packet[at..], esn.as_slice().as_flattened()];
    key.icv(&parts, icv);
    packet[at + FIXED_LEN..][..icv.len()].copy_from_slice(icv);
    Ok(())
}

/// SPI and sequence number of the AH at `at`; `None` if it does not fit.
pub fn peek(packet: &[u8], at: usize) -> Option<(u32, u32)> {
    let ah = wire::Ah::new(packet.get(at..)?).ok()?;
    Some((ah.spi(), ah.sequence()))
}

/// Checks the ICV of a whole IP packet with AH at `at`. Returns the position of AH's payload, and
/// its next header.
pub fn open(
    key: &PacketKey,
    packet: &mut [u8],
    at: usize,
    esn_high: Option<u32>,
) -> Result<(Range<usize>, u8), DropReason> {
    let icv_len = key.protection().icv_len();
    let header = packet.get(at..).ok_or(DropReason::Truncated)?;
    let header = wire::Ah::new(header).map_err(|_malformed| DropReason::Truncated)?;
    let (next_header, length) = (header.next_header(), header.header_len());
    // Peers pad to 64 bits on IPv4 too. More padding has no reason.
    let allowed = FIXED_LEN + icv_len..=(FIXED_LEN + icv_len).next_multiple_of(8);
    if !allowed.contains(&length) {
        return Err(DropReason::Truncated);
    }
    let field = at + FIXED_LEN..at + FIXED_LEN + icv_len;
    let mut theirs = [0; MAX_ICV_BYTES];
    theirs[..icv_len].copy_from_slice(&packet[field.clone()]);
    packet[field].fill(0);
    let mut room = [0; MAX_HEADERS_BYTES];
    let headers = covered_headers(packet, at, &mut room)?;
    let esn = esn_high.map(u32::to_be_bytes);
    let parts = [headers, &packet[at..], esn.as_slice().as_flattened()];
    key.verify_icv(&parts, &theirs[..icv_len])
        .map_err(|_bad_icv| DropReason::BadIcv)?;
    Ok((at + length..packet.len(), next_header))
}

/// The headers before AH with their mutable fields zero, as the ICV covers them (RFC 4302 §3.3.3).
/// They are not authenticated.
fn covered_headers<'a>(
    packet: &[u8],
    at: usize,
    room: &'a mut [u8; MAX_HEADERS_BYTES],
) -> Result<&'a [u8], DropReason> {
    let masked = room.get_mut(..at).ok_or(DropReason::BadInnerPacket)?;
    masked.copy_from_slice(&packet[..at]);
    // The ICV covers the original length, but only the headers are parsed here.
    let (length_at, length) = match masked[0] >> 4 {
        6 => (4, at.checked_sub(40)),
        _ => (2, Some(at)),
    };
    let length = length.ok_or(DropReason::BadInnerPacket)? as u16;
    masked[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
    let zeroed = match length_at {
        4 => wire::zero_mutable_v6(masked),
        _ => wire::zero_mutable_v4(masked),
    };
    if zeroed != Ok(at) {
        return Err(DropReason::BadInnerPacket);
    }
    masked[length_at..length_at + 2].copy_from_slice(&packet[length_at..length_at + 2]);
    Ok(masked)
}
