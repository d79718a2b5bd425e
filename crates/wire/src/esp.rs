//! The ESP packet (RFC 4303 §2) and the non-ESP marker and keepalive of RFC 3948.
//!
//! Left out: IV, ciphertext and ICV, whose lengths only a security association knows.

use crate::codec::Malformed;
use crate::ip::{be32, put32};

/// Octets of SPI and sequence number.
pub const HEADER_LEN: usize = 8;
/// Octets of pad length and next header.
pub const TRAILER_LEN: usize = 2;
/// Precedes an IKE message on port 4500 (RFC 3948 §2.2).
pub const NON_ESP_MARKER: [u8; 4] = [0; 4];
/// The whole payload of a NAT keepalive (RFC 3948 §2.3).
pub const KEEPALIVE: [u8; 1] = [0xff];

/// An ESP packet in place.
#[derive(Clone, Copy, Debug)]
pub struct Esp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Esp<T> {
    /// Checks that the header is there.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        if bytes.as_ref().len() < HEADER_LEN {
            return Err(Malformed::Truncated("ESP header"));
        }
        Ok(Self { bytes })
    }

    /// Security parameters index.
    #[inline]
    pub fn spi(&self) -> u32 {
        be32(self.bytes.as_ref(), 0)
    }

    /// Sequence number, the lower half of an extended one.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be32(self.bytes.as_ref(), 4)
    }

    /// What follows the header: IV, ciphertext, ICV.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.bytes.as_ref()[HEADER_LEN..]
    }
}

/// Writes the header over the first 8 octets of `packet`. Panics if there are fewer.
#[inline]
pub fn write_header(packet: &mut [u8], spi: u32, sequence: u32) {
    put32(packet, 0, spi);
    put32(packet, 4, sequence);
}

/// What a datagram on port 4500 carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPayload<'a> {
    /// Keeps a NAT binding open and means nothing else.
    Keepalive,
    /// An IKE message without its marker.
    Ike(&'a [u8]),
    /// An ESP packet, at least its header.
    Esp(&'a [u8]),
}

impl<'a> UdpPayload<'a> {
    /// Tells the three apart (RFC 3948 §2).
    #[inline]
    pub fn classify(payload: &'a [u8]) -> Result<Self, Malformed> {
        if payload == KEEPALIVE {
            return Ok(Self::Keepalive);
        }
        if let Some(message) = payload.strip_prefix(&NON_ESP_MARKER) {
            return Ok(Self::Ike(message));
        }
        Esp::new(payload)?;
        Ok(Self::Esp(payload))
    }
}

/// Octets of padding that make payload, padding and trailer a multiple of `alignment`, which must
/// be 1 to 256.
#[inline]
pub const fn padding_len(payload_len: usize, alignment: usize) -> usize {
    let used = (payload_len + TRAILER_LEN) % alignment;
    if used == 0 { 0 } else { alignment - used }
}

/// Writes padding 1, 2, 3, ..., pad length and next header (RFC 4303 §2.4) behind the `payload_len`
/// octets at the start of `clear`, and returns the total length. Panics if `clear` is too short.
#[inline]
pub fn write_trailer(
    clear: &mut [u8],
    payload_len: usize,
    alignment: usize,
    next_header: u8,
) -> usize {
    let padding_len = padding_len(payload_len, alignment);
    let end = payload_len + padding_len + TRAILER_LEN;
    let trailer = &mut clear[payload_len..end];
    for (octet, value) in trailer[..padding_len].iter_mut().zip(1..=u8::MAX) {
        *octet = value;
    }
    trailer[padding_len] = padding_len as u8;
    trailer[padding_len + 1] = next_header;
    end
}

/// The trailer at the end of the clear text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Octets before the padding.
    pub payload_len: usize,
    /// Protocol of the payload; [`crate::ip::protocol::NO_NEXT_HEADER`] marks a dummy packet.
    pub next_header: u8,
}

/// Reads the trailer of a packet whose ICV was checked. Refuses padding that is not 1, 2, 3, ...
/// (RFC 4303 §2.4): without an ICV it is the only check of the content.
#[inline]
pub fn read_trailer(clear: &[u8]) -> Result<Trailer, Malformed> {
    let Some((padded, &[padding_len, next_header])) = clear.split_last_chunk() else {
        return Err(Malformed::Truncated("ESP trailer"));
    };
    let Some(payload_len) = padded.len().checked_sub(padding_len.into()) else {
        return Err(Malformed::Length("ESP padding"));
    };
    let is_counting = padded[payload_len..]
        .iter()
        .zip(1..=u8::MAX)
        .all(|(octet, value)| *octet == value);
    if !is_counting {
        return Err(Malformed::Value("ESP padding"));
    }
    Ok(Trailer {
        payload_len,
        next_header,
    })
}

#[cfg(test)]
mod tests;
