//! AH of 1995 (RFC 1826 §3): no sequence number, the whole authenticator.

use super::SPI;
use crate::codec::{Malformed, Reader};

/// Octets before the authentication data.
pub const AH_FIXED_LEN: usize = 8;

/// An AH of 1995 and what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OldAh<'a> {
    /// Protocol of what follows.
    pub next_header: u8,
    /// The authentication data.
    pub data: &'a [u8],
    /// What follows.
    pub payload: &'a [u8],
}

impl<'a> OldAh<'a> {
    /// Reads a header whose authentication data has `len` octets, a multiple of 4.
    pub fn parse(packet: &'a [u8], len: usize) -> Result<Self, Malformed> {
        let mut r = Reader::new(packet);
        let next_header = r.u8("next header")?;
        if usize::from(r.u8("AH length")?) * 4 != len {
            return Err(Malformed::Length("AH"));
        }
        r.u16("reserved octets")?;
        if r.u32("SPI")? != SPI {
            return Err(Malformed::Value("SPI below SKIP"));
        }
        Ok(Self {
            next_header,
            data: r.take(len, "authentication data")?,
            payload: r.rest(),
        })
    }

    /// Writes a header with zero data of `len` octets to the start of `packet`. Returns its length.
    /// Panics if `packet` is shorter; `len` is a multiple of 4 below 1,024.
    pub fn write(packet: &mut [u8], next_header: u8, len: usize) -> usize {
        packet[0] = next_header;
        packet[1] = (len / 4) as u8;
        packet[2..4].fill(0);
        packet[4..8].copy_from_slice(&SPI.to_be_bytes());
        packet[AH_FIXED_LEN..AH_FIXED_LEN + len].fill(0);
        AH_FIXED_LEN + len
    }
}
