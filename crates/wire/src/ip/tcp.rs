//! The TCP header (RFC 9293 §3.1) and the clamping of its MSS option.

use super::{ChecksumState, Flow, be16, be32, checksum, protocol, put16};
use crate::codec::Malformed;

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;

/// A TCP segment in place.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<T> {
    bytes: T,
}

/// Flag bits.
pub mod flags {
    /// No more data.
    pub const FIN: u8 = 1;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 2;
    /// Reset.
    pub const RST: u8 = 4;
    /// Push.
    pub const PSH: u8 = 8;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 16;
    /// The urgent pointer counts.
    pub const URG: u8 = 32;
    /// ECN echo.
    pub const ECE: u8 = 64;
    /// Congestion window reduced.
    pub const CWR: u8 = 128;
}

impl<T: AsRef<[u8]>> Tcp<T> {
    /// Checks the data offset against `bytes`.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let octets = bytes.as_ref();
        if octets.len() < HEADER_LEN {
            return Err(Malformed::Truncated("TCP header"));
        }
        let header_len = usize::from(octets[12] >> 4) * 4;
        if header_len < HEADER_LEN {
            return Err(Malformed::Length("TCP header"));
        }
        if header_len > octets.len() {
            return Err(Malformed::Truncated("TCP header"));
        }
        Ok(Self { bytes })
    }

    /// Source port.
    #[inline]
    pub fn source_port(&self) -> u16 {
        be16(self.octets(), 0)
    }

    /// Destination port.
    #[inline]
    pub fn destination_port(&self) -> u16 {
        be16(self.octets(), 2)
    }

    /// Sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be32(self.octets(), 4)
    }

    /// Acknowledgement number.
    #[inline]
    pub fn acknowledgement(&self) -> u32 {
        be32(self.octets(), 8)
    }

    /// Octets of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.octets()[12] >> 4) * 4
    }

    /// Bits of [`flags`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.octets()[13]
    }

    /// Window, unscaled.
    #[inline]
    pub fn window(&self) -> u16 {
        be16(self.octets(), 14)
    }

    /// Checksum.
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.octets(), 16)
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.octets()[HEADER_LEN..self.header_len()]
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.octets()[self.header_len()..]
    }

    /// The MSS option.
    #[inline]
    pub fn mss(&self) -> Option<u16> {
        Some(be16(self.octets(), self.mss_at()?))
    }

    /// Where the MSS value is in the segment.
    fn mss_at(&self) -> Option<usize> {
        let options = self.options();
        let mut at = 0;
        while let Some(&kind) = options.get(at) {
            match kind {
                OPTION_END => return None,
                OPTION_NOP => at += 1,
                _ => {
                    let len = usize::from(*options.get(at + 1)?);
                    if len < 2 || at + len > options.len() {
                        return None;
                    }
                    if kind == OPTION_MSS && len == 4 {
                        return Some(HEADER_LEN + at + 2);
                    }
                    at += len;
                }
            }
        }
        None
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Setters leave the checksum as it is unless they say so.
impl<T: AsRef<[u8]> + AsMut<[u8]>> Tcp<T> {
    /// Sets the checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.bytes.as_mut(), 16, checksum);
    }

    /// Lowers the MSS option to `max` and updates the checksum, unless it is partial: a partial one
    /// does not cover options. Returns whether anything changed. For SYN segments only.
    #[inline]
    pub fn clamp_mss(&mut self, max: u16, state: ChecksumState) -> bool {
        let Some(at) = self.mss_at() else {
            return false;
        };
        let old = be16(self.octets(), at);
        if old <= max {
            return false;
        }
        put16(self.bytes.as_mut(), at, max);
        if state == ChecksumState::Full {
            // At an odd offset the octets of the value are summed swapped (RFC 1071 §2 B).
            let place = |value: u16| {
                if at % 2 == 0 {
                    value
                } else {
                    value.swap_bytes()
                }
            };
            let sum = checksum::update(self.checksum(), place(old), place(max));
            self.set_checksum(sum);
        }
        true
    }
}

/// Lowers the MSS of a SYN segment in an IP packet to `max`; `flow` is the packet's flow. Returns
/// whether anything changed. Other packets stay as they are.
#[inline]
pub fn clamp_mss(packet: &mut [u8], flow: &Flow, max: u16, state: ChecksumState) -> bool {
    if flow.protocol != protocol::TCP || flow.is_later_fragment {
        return false;
    }
    let Some(segment) = packet.get_mut(flow.transport..) else {
        return false;
    };
    match Tcp::new(segment) {
        Ok(mut tcp) if tcp.flags() & flags::SYN != 0 => tcp.clamp_mss(max, state),
        _ => false,
    }
}

const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;
