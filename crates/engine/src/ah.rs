//! The authentication header (RFC 4302), transport and tunnel mode, IPv4 and IPv6.
//!
//! A whole outer IP packet is given with its AH in place; the fields that change on the way are
//! zero in what the ICV covers. Left out: source-routed packets, whose final destination would
//! have to be predicted (RFC 4302 §3.3.3.1.2.3), are refused.

use core::ops::Range;

use crypto::packet::{PacketKey, Protection};

use crate::counters::DropReason;

/// Next header, length, reserved, SPI, sequence number.
const FIXED_BYTES: usize = 12;
/// Headers before AH longer than this are refused.
const MAX_HEADERS_BYTES: usize = 256;
/// The longest ICV, SHA2-512's.
const MAX_ICV_BYTES: usize = 32;

/// Octets of the header with its ICV, padded to 32 bits for IPv4, 64 for IPv6 (RFC 4302 §2.6).
pub fn header_bytes(protection: &Protection, is_v6: bool) -> usize {
    let alignment = if is_v6 { 8 } else { 4 };
    (FIXED_BYTES + protection.icv_len()).next_multiple_of(alignment)
}

/// Writes AH at `at`, where [`header_bytes`] octets are kept for it, into a whole IP packet whose
/// headers and payload are in place and whose protocol field says 51.
pub fn seal(
    key: &PacketKey,
    packet: &mut [u8],
    at: usize,
    next_header: u8,
    spi: u32,
    sequence: u64,
    has_esn: bool,
) -> Result<(), DropReason> {
    let length = header_bytes(&key.protection(), packet[0] >> 4 == 6);
    let header = &mut packet[at..at + length];
    header.fill(0);
    header[0] = next_header;
    header[1] = (length / 4 - 2) as u8;
    header[4..8].copy_from_slice(&spi.to_be_bytes());
    header[8..12].copy_from_slice(&(sequence as u32).to_be_bytes());
    let esn_high = has_esn.then_some((sequence >> 32) as u32);
    let mut icv = [0; MAX_ICV_BYTES];
    let icv = &mut icv[..key.protection().icv_len()];
    compute(key, packet, at, esn_high, icv)?;
    packet[at + FIXED_BYTES..][..icv.len()].copy_from_slice(icv);
    Ok(())
}

/// SPI and sequence number of the AH at `at`; `None` if it does not fit.
pub fn peek(packet: &[u8], at: usize) -> Option<(u32, u32)> {
    let header: &[u8; FIXED_BYTES] = packet.get(at..)?.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    Some((word(4), word(8)))
}

/// Checks the ICV of a whole IP packet with AH at `at`. Returns where AH's payload lies and its
/// next header.
pub fn open(
    key: &PacketKey,
    packet: &mut [u8],
    at: usize,
    esn_high: Option<u32>,
) -> Result<(Range<usize>, u8), DropReason> {
    let icv_len = key.protection().icv_len();
    let header = packet.get(at..).ok_or(DropReason::Truncated)?;
    let &[next_header, length, ..] = header else {
        return Err(DropReason::Truncated);
    };
    let length = (usize::from(length) + 2) * 4;
    // Peers pad to 64 bits on IPv4 too; more padding than that has no reason.
    let allowed = FIXED_BYTES + icv_len..=(FIXED_BYTES + icv_len).next_multiple_of(8);
    if header.len() < length || !allowed.contains(&length) {
        return Err(DropReason::Truncated);
    }
    let field = at + FIXED_BYTES..at + FIXED_BYTES + icv_len;
    let mut theirs = [0; MAX_ICV_BYTES];
    theirs[..icv_len].copy_from_slice(&packet[field.clone()]);
    packet[field].fill(0);
    let mut ours = [0; MAX_ICV_BYTES];
    compute(key, packet, at, esn_high, &mut ours[..icv_len])?;
    if !crypto::hash::is_equal(&ours, &theirs) {
        return Err(DropReason::BadIcv);
    }
    Ok((at + length..packet.len(), next_header))
}

/// The ICV over the packet with its mutable fields and the ICV itself zero (RFC 4302 §3.3.3).
fn compute(
    key: &PacketKey,
    packet: &[u8],
    at: usize,
    esn_high: Option<u32>,
    icv: &mut [u8],
) -> Result<(), DropReason> {
    let mut masked = [0; MAX_HEADERS_BYTES];
    let masked = masked.get_mut(..at).ok_or(DropReason::BadInnerPacket)?;
    masked.copy_from_slice(&packet[..at]);
    let is_known = if masked[0] >> 4 == 6 {
        mask_v6(masked)
    } else {
        mask_v4(masked)
    };
    is_known.ok_or(DropReason::BadInnerPacket)?;
    match esn_high {
        Some(high) => key.icv(&[masked, &packet[at..], &high.to_be_bytes()], icv),
        None => key.icv(&[masked, &packet[at..]], icv),
    }
    Ok(())
}

/// RFC 4302 §3.3.3.1.1: type of service, flags, fragment offset, TTL and checksum change; options
/// stay or are zero as appendix A1 lists them.
fn mask_v4(header: &mut [u8]) -> Option<()> {
    header[1] = 0;
    header[6..9].fill(0);
    header[10..12].fill(0);
    let mut at = 20;
    while at < header.len() {
        let length = match header[at] {
            0 => break,
            1 => 1,
            // loose and strict source route rewrite the destination
            131 | 137 => return None,
            _ => usize::from(*header.get(at + 1)?).max(2),
        };
        let option = header.get_mut(at..at + length)?;
        // basic and extended security, commercial security, router alert, multi-destination
        if !matches!(option[0], 1 | 130 | 133 | 134 | 148 | 149) {
            option.fill(0);
        }
        at += length;
    }
    Some(())
}

/// RFC 4302 §3.3.3.1.2: traffic class, flow label and hop limit change; options of hop-by-hop and
/// destination headers whose type says so (bit 3) are zero.
fn mask_v6(headers: &mut [u8]) -> Option<()> {
    headers[0] = 0x60;
    headers[1..4].fill(0);
    headers[7] = 0;
    let (mut kind, mut at) = (headers[6], 40);
    while at < headers.len() {
        let length = usize::from(*headers.get(at + 1)?) * 8 + 8;
        let header = headers.get_mut(at..at + length)?;
        match kind {
            0 | 60 => mask_options(&mut header[2..])?,
            _ => return None,
        }
        kind = header[0];
        at += length;
    }
    Some(())
}

/// Zeroes the contents of options that may change on the way (RFC 8200 §4.2).
fn mask_options(options: &mut [u8]) -> Option<()> {
    let mut at = 0;
    while at < options.len() {
        if options[at] == 0 {
            at += 1;
            continue;
        }
        let changes = options[at] & 0x20 != 0;
        let end = at + 2 + usize::from(*options.get(at + 1)?);
        let contents = options.get_mut(at + 2..end)?;
        if changes {
            contents.fill(0);
        }
        at = end;
    }
    Some(())
}
