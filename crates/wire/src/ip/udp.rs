//! The UDP header (RFC 768).

use super::{be16, put16};
use crate::codec::Malformed;

/// Octets of the header.
pub const HEADER_LEN: usize = 8;

/// A UDP datagram in place. Octets after its length may follow and are never exposed.
#[derive(Clone, Copy, Debug)]
pub struct Udp<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Udp<T> {
    /// Checks the length field against `bytes`.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let octets = bytes.as_ref();
        if octets.len() < HEADER_LEN {
            return Err(Malformed::Truncated("UDP header"));
        }
        let len = usize::from(be16(octets, 4));
        if len < HEADER_LEN {
            return Err(Malformed::Length("UDP datagram"));
        }
        if len > octets.len() {
            return Err(Malformed::Truncated("UDP datagram"));
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

    /// Octets of header and payload.
    #[inline]
    pub fn total_len(&self) -> usize {
        be16(self.octets(), 4).into()
    }

    /// Checksum; 0 if absent (IPv4 only).
    #[inline]
    pub fn checksum(&self) -> u16 {
        be16(self.octets(), 6)
    }

    /// What follows the header, up to the length.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.octets()[HEADER_LEN..self.total_len()]
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Udp<T> {
    /// Sets the checksum; pass a computed 0 as 0xffff.
    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        put16(self.bytes.as_mut(), 6, checksum);
    }
}

/// Writes a header over the first 8 octets of `datagram`, with the length of `datagram`. It has no
/// checksum, as RFC 3948 §2.1 asks over IPv4. Panics if `datagram` is shorter than 8 octets or
/// longer than 65,535.
#[inline]
pub fn write_header(datagram: &mut [u8], source_port: u16, destination_port: u16) {
    let len = u16::try_from(datagram.len()).expect("UDP datagram below 64 KiB");
    put16(datagram, 0, source_port);
    put16(datagram, 2, destination_port);
    put16(datagram, 4, len);
    put16(datagram, 6, 0);
}
