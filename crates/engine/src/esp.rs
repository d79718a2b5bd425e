//! The encapsulating security payload (RFC 4303), transport and tunnel mode, alone or in UDP (RFC
//! 3948): the layout of a packet and its trailer. [`crate::plane`] adds policy and paths;
//! [`crypto::packet::PacketKey`] has the ciphers and the ICV check.
//!
//! Left out: sending traffic flow confidentiality padding (RFC 4303 §2.7), which is accepted, and
//! ESP and AH on one packet (RFC 4301 §4.1).

use core::ops::Range;

use ::wire::esp::{self as wire, HEADER_LEN, TRAILER_LEN};
use crypto::packet::{Encryption, PacketKey, Protection};

use crate::counters::DropReason;

/// Sizes of the parts of an ESP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    iv: u8,
    alignment: u8,
    icv: u8,
}

impl Layout {
    /// For these algorithms.
    pub fn of(protection: &Protection) -> Self {
        Self {
            iv: protection.iv_len() as u8,
            alignment: protection.alignment() as u8,
            icv: protection.icv_len() as u8,
        }
    }

    /// Where the clear text starts.
    pub fn clear_at(&self) -> usize {
        HEADER_LEN + usize::from(self.iv)
    }

    /// Octets of the ESP packet for this many octets of clear text.
    pub fn sealed(&self, clear: usize) -> usize {
        let padded = (clear + TRAILER_LEN).next_multiple_of(self.alignment.into());
        self.clear_at() + padded + usize::from(self.icv)
    }

    /// Most octets of clear text that fit in an ESP packet of this many octets.
    pub fn largest_clear(&self, sealed: usize) -> usize {
        let room = sealed.saturating_sub(self.clear_at() + usize::from(self.icv));
        (room - room % usize::from(self.alignment)).saturating_sub(TRAILER_LEN)
    }

    /// Whether an ESP packet can have this many octets.
    pub fn admits(&self, sealed: usize) -> bool {
        sealed
            .checked_sub(self.clear_at() + usize::from(self.icv))
            .is_some_and(|text| text >= TRAILER_LEN && text.is_multiple_of(self.alignment.into()))
    }
}

/// Writes header, IV, padding and trailer around `clear` octets that are already in place, then
/// encrypts and adds the ICV. `packet` has exactly [`Layout::sealed`] octets. `random_iv` fills the
/// IV of CBC. AES-GCM and ChaCha20-Poly1305 take the sequence number, which never repeats with one
/// key (RFC 4106 §3.1, RFC 7634 §2).
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
    wire::write_header(packet, spi, sequence as u32);
    let iv = &mut packet[HEADER_LEN..text.start];
    match key.protection().encryption {
        Encryption::Null => {}
        Encryption::Cbc(_) => random_iv(iv),
        _ => iv.copy_from_slice(&sequence.to_be_bytes()),
    }
    let alignment = layout.alignment.into();
    wire::write_trailer(&mut packet[text], clear, alignment, next_header);
    key.seal(packet, has_esn.then_some((sequence >> 32) as u32));
}

/// SPI and sequence number of the ESP packet that starts at `at`; `None` if it does not fit.
pub fn peek(packet: &[u8], at: usize) -> Option<(u32, u32)> {
    let esp = wire::Esp::new(packet.get(at..)?).ok()?;
    Some((esp.spi(), esp.sequence()))
}

/// Opens an ESP packet in place: sizes, ICV, decryption. Returns the range of its clear text, with
/// padding and trailer, for [`strip`]. An error says nothing about the sender; success proves it.
/// The caller has looked up the SA, and checks and moves the window.
pub fn open(
    key: &PacketKey,
    packet: &mut [u8],
    esn_high: Option<u32>,
) -> Result<Range<usize>, DropReason> {
    if !Layout::of(&key.protection()).admits(packet.len()) {
        return Err(DropReason::Truncated);
    }
    // Checks the ICV of every inbound ESP packet, before any of its content is used.
    key.open(packet, esn_high)
        .map_err(|_bad_icv| DropReason::BadIcv)
}

/// The range of the payload in the clear text of an opened packet, and its next header.
pub fn strip(packet: &[u8], text: Range<usize>) -> Result<(Range<usize>, u8), DropReason> {
    let start = text.start;
    let trailer = wire::read_trailer(&packet[text]);
    let trailer = trailer.map_err(|_malformed| DropReason::BadPadding)?;
    Ok((start..start + trailer.payload_len, trailer.next_header))
}
