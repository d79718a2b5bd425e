//! ESP of 1995 (RFC 1827 §3) with a block cipher (RFC 1829 §2): SPI, IV, encrypted payload,
//! padding, its length and the payload's type. No sequence number and no integrity.

use super::SPI;
use crate::codec::{Malformed, Reader};

/// Octets of the SPI.
pub const ESP_SPI_LEN: usize = 4;

/// Octets of padding length and payload type.
pub const TRAILER_LEN: usize = 2;

/// An ESP of 1995.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldEsp<'a> {
    /// The initialization vector.
    pub iv: &'a [u8],
    /// Whole blocks.
    pub ciphertext: &'a [u8],
}

impl<'a> OldEsp<'a> {
    /// Reads a packet with an IV of `iv_len` octets and blocks of `block`.
    pub fn parse(packet: &'a [u8], iv_len: usize, block: usize) -> Result<Self, Malformed> {
        let mut r = Reader::new(packet);
        if r.u32("SPI")? != SPI {
            return Err(Malformed::Value("SPI below SKIP"));
        }
        let iv = r.take(iv_len, "IV")?;
        let ciphertext = r.rest();
        if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(block) {
            return Err(Malformed::Length("ESP ciphertext"));
        }
        Ok(Self { iv, ciphertext })
    }

    /// The length of the payload and its type in a decrypted packet.
    pub fn trailer(clear: &[u8]) -> Result<(usize, u8), Malformed> {
        let (body, &[pad, next_header]) = clear
            .split_last_chunk::<TRAILER_LEN>()
            .ok_or(Malformed::Truncated("ESP trailer"))?;
        let len = body
            .len()
            .checked_sub(pad.into())
            .ok_or(Malformed::Length("ESP padding"))?;
        Ok((len, next_header))
    }
}

/// Octets of padding before the trailer, so that blocks of `block` octets become whole.
pub const fn padding(payload: usize, block: usize) -> usize {
    (payload + TRAILER_LEN).next_multiple_of(block) - payload - TRAILER_LEN
}
