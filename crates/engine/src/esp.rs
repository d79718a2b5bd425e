//! The encapsulating security payload (RFC 4303), transport and tunnel mode, alone or in UDP
//! (RFC 3948): the layout of a packet and its trailer. [`crate::plane`] adds policy and paths, the
//! ciphers and the ICV check are [`crypto::packet::PacketKey`]'s.
//!
//! Left out: traffic flow confidentiality padding is taken but not made (RFC 4303 §2.7), combined
//! with AH on one packet no SA bundle is made (RFC 4301 §4.1).

use core::ops::Range;

use crypto::packet::{PacketKey, Protection};

use crate::counters::DropReason;

/// SPI and sequence number.
pub const HEADER_BYTES: usize = 8;
/// Pad length and next header.
const TRAILER_BYTES: usize = 2;

/// Sizes of the parts of an ESP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    iv: u8,
    alignment: u8,
    icv: u8,
}

impl Layout {
    /// Of these algorithms.
    pub fn of(protection: &Protection) -> Self {
        Self {
            iv: protection.iv_len() as u8,
            alignment: protection.alignment() as u8,
            icv: protection.icv_len() as u8,
        }
    }

    /// Where the clear text starts.
    pub fn clear_at(&self) -> usize {
        HEADER_BYTES + usize::from(self.iv)
    }

    /// Octets of the ESP packet around so many octets of clear text.
    pub fn sealed(&self, clear: usize) -> usize {
        let padded = (clear + TRAILER_BYTES).next_multiple_of(self.alignment.into());
        self.clear_at() + padded + usize::from(self.icv)
    }

    /// Most octets of clear text that fit an ESP packet of so many octets.
    pub fn largest_clear(&self, sealed: usize) -> usize {
        let room = sealed.saturating_sub(self.clear_at() + usize::from(self.icv));
        (room - room % usize::from(self.alignment)).saturating_sub(TRAILER_BYTES)
    }

    /// Whether an ESP packet can have so many octets.
    pub fn admits(&self, sealed: usize) -> bool {
        sealed
            .checked_sub(self.clear_at() + usize::from(self.icv))
            .is_some_and(|text| text >= TRAILER_BYTES && text.is_multiple_of(self.alignment.into()))
    }
}

/// Writes header, IV, padding and trailer around `clear` octets that lie in place already, then
/// encrypts and adds the ICV. `packet` is exactly [`Layout::sealed`] octets. `random_iv` fills the
/// IV of CBC; AES-GCM and ChaCha20-Poly1305 take the sequence number, which never repeats under
/// one key (RFC 4106 §3.1, RFC 7634 §2).
pub fn seal(
    key: &PacketKey,
    packet: &mut [u8],
    clear: usize,
    spi: u32,
    sequence: u64,
    has_esn: bool,
    next_header: u8,
    random_iv: impl FnOnce(&mut [u8]),
) {
    let layout = Layout::of(&key.protection());
    let text = layout.clear_at()..packet.len() - usize::from(layout.icv);
    packet[..4].copy_from_slice(&spi.to_be_bytes());
    packet[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
    let iv = &mut packet[HEADER_BYTES..text.start];
    match key.protection().encryption {
        crypto::packet::Encryption::Null => {}
        crypto::packet::Encryption::Cbc(_) => random_iv(iv),
        _ => iv.copy_from_slice(&sequence.to_be_bytes()),
    }
    let trailer = &mut packet[text.start + clear..text.end];
    let padding = trailer.len() - TRAILER_BYTES;
    for (octet, number) in trailer[..padding].iter_mut().zip(1u8..) {
        *octet = number;
    }
    trailer[padding] = padding as u8;
    trailer[padding + 1] = next_header;
    key.seal(packet, has_esn.then_some((sequence >> 32) as u32));
}

/// SPI and sequence number of the ESP packet that starts at `at`; `None` if it does not fit.
pub fn peek(packet: &[u8], at: usize) -> Option<(u32, u32)> {
    let header: &[u8; HEADER_BYTES] = packet.get(at..)?.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| header[at + i]));
    Some((word(0), word(4)))
}

/// Opens an ESP packet in place: sizes, ICV, decryption, padding. Returns where the clear text
/// lies and its next header. The caller looked up the SA, and checks and moves the window.
pub fn open(
    key: &PacketKey,
    packet: &mut [u8],
    esn_high: Option<u32>,
) -> Result<(Range<usize>, u8), DropReason> {
    if !Layout::of(&key.protection()).admits(packet.len()) {
        return Err(DropReason::Truncated);
    }
    // The ICV of every inbound ESP packet is checked here, before anything of it is believed.
    let text = key
        .open(packet, esn_high)
        .map_err(|_bad_icv| DropReason::BadIcv)?;
    let (clear, next_header) = strip(&packet[text.clone()]).ok_or(DropReason::BadPadding)?;
    Ok((text.start..text.start + clear, next_header))
}

/// Octets of clear text before the padding, and the next header; `None` unless the padding counts
/// 1, 2, 3 (RFC 4303 §2.4).
fn strip(text: &[u8]) -> Option<(usize, u8)> {
    let [body @ .., pad_len, next_header] = text else {
        return None;
    };
    let clear = body.len().checked_sub(usize::from(*pad_len))?;
    let counts = body[clear..].iter().zip(1u8..).all(|(pad, n)| *pad == n);
    counts.then_some((clear, *next_header))
}
