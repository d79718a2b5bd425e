//! The IPv4 header (RFC 791 §3.1).

use std::net::Ipv4Addr;

use super::{be16, checksum, put16};
use crate::codec::Malformed;

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;
/// Octets of the longest header.
pub const MAX_HEADER_LEN: usize = 60;

/// An IPv4 packet in place. Octets after the total length may follow and are never exposed.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ipv4<T> {
    /// Checks version, header length and total length against `bytes`. Does not check the checksum:
    /// see [`Self::has_valid_checksum`].
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let octets = bytes.as_ref();
        if octets.len() < HEADER_LEN {
            return Err(Malformed::Truncated("IPv4 header"));
        }
        if octets[0] >> 4 != 4 {
            return Err(Malformed::Value("IP version"));
        }
        let header_len = usize::from(octets[0] & 15) * 4;
        let total_len = usize::from(be16(octets, 2));
        if header_len < HEADER_LEN || header_len > total_len {
            return Err(Malformed::Length("IPv4 header"));
        }
        if total_len > octets.len() {
            return Err(Malformed::Truncated("IPv4 packet"));
        }
        Ok(Self { bytes })
    }

    /// Octets of the header, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.octets()[0] & 15) * 4
    }

    /// Octets of header and payload.
    #[inline]
    pub fn total_len(&self) -> usize {
        be16(self.octets(), 2).into()
    }

    /// DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.octets()[1]
    }

    /// Identification.
    #[inline]
    pub fn id(&self) -> u16 {
        be16(self.octets(), 4)
    }

    /// The DF bit.
    #[inline]
    pub fn has_dont_fragment(&self) -> bool {
        self.octets()[6] & 0x40 != 0
    }

    /// The MF bit.
    #[inline]
    pub fn has_more_fragments(&self) -> bool {
        self.octets()[6] & 0x20 != 0
    }

    /// Where this part of the payload starts in the original packet, in octets.
    #[inline]
    pub fn fragment_offset(&self) -> usize {
        usize::from(be16(self.octets(), 6) & 0x1fff) * 8
    }

    /// Whether this is a fragment, the first one included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        be16(self.octets(), 6) & 0x3fff != 0
    }

    /// Time to live.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.octets()[8]
    }

    /// Protocol of the payload.
    #[inline]
    pub fn protocol(&self) -> u8 {
        self.octets()[9]
    }

    /// Source address.
    #[inline]
    pub fn source(&self) -> Ipv4Addr {
        self.address(12)
    }

    /// Destination address.
    #[inline]
    pub fn destination(&self) -> Ipv4Addr {
        self.address(16)
    }

    /// The header, options included.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.octets()[..self.header_len()]
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> &[u8] {
        &self.octets()[HEADER_LEN..self.header_len()]
    }

    /// What follows the header, up to the total length.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.octets()[self.header_len()..self.total_len()]
    }

    /// The packet up to its total length.
    #[inline]
    pub fn packet(&self) -> &[u8] {
        &self.octets()[..self.total_len()]
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn has_valid_checksum(&self) -> bool {
        checksum::checksum(self.header()) == 0
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    #[inline]
    fn address(&self, at: usize) -> Ipv4Addr {
        let octets = self.octets();
        Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3])
    }
}

/// Setters leave the checksum as it is unless they say so: call [`Self::fill_checksum`] last.
impl<T: AsRef<[u8]> + AsMut<[u8]>> Ipv4<T> {
    /// Sets the MF bit and the offset in octets, which must be a multiple of 8 below 65,536.
    #[inline]
    pub fn set_fragment(&mut self, offset: usize, has_more: bool) {
        debug_assert!(offset.is_multiple_of(8) && offset < 1 << 16);
        let flags = self.octets()[6] & 0xc0;
        let more = if has_more { 0x20 } else { 0 };
        put16(self.bytes.as_mut(), 6, (offset / 8) as u16);
        self.bytes.as_mut()[6] |= flags | more;
    }

    /// Decrements the TTL and updates the checksum. Returns false, and changes nothing, if the TTL
    /// is zero.
    #[inline]
    pub fn decrement_ttl(&mut self) -> bool {
        let old = be16(self.octets(), 8);
        if old >> 8 <= 1 {
            return false;
        }
        let sum = checksum::update(be16(self.octets(), 10), old, old - 0x100);
        put16(self.bytes.as_mut(), 8, old - 0x100);
        put16(self.bytes.as_mut(), 10, sum);
        true
    }

    /// Sets the protocol.
    #[inline]
    pub fn set_protocol(&mut self, protocol: u8) {
        self.bytes.as_mut()[9] = protocol;
    }

    /// Sets the source address.
    #[inline]
    pub fn set_source(&mut self, address: Ipv4Addr) {
        self.bytes.as_mut()[12..16].copy_from_slice(&address.octets());
    }

    /// Sets the destination address.
    #[inline]
    pub fn set_destination(&mut self, address: Ipv4Addr) {
        self.bytes.as_mut()[16..20].copy_from_slice(&address.octets());
    }

    /// Computes the header checksum.
    #[inline]
    pub fn fill_checksum(&mut self) {
        put16(self.bytes.as_mut(), 10, 0);
        let sum = checksum::checksum(self.header());
        put16(self.bytes.as_mut(), 10, sum);
    }

    /// What follows the header, up to the total length.
    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let range = self.header_len()..self.total_len();
        &mut self.bytes.as_mut()[range]
    }
}

/// The fields of a new header without options. The packet gives the length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification.
    pub id: u16,
    /// The DF bit.
    pub dont_fragment: bool,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of the payload.
    pub protocol: u8,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
}

impl Header {
    /// Writes the header over the first 20 octets of `packet`, whose length becomes the total
    /// length. Panics where it is below 20 or above 65,535.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let len = u16::try_from(packet.len()).expect("IPv4 packet below 64 KiB");
        let header = &mut packet[..HEADER_LEN];
        header[0] = 0x45;
        header[1] = self.tos;
        put16(header, 2, len);
        put16(header, 4, self.id);
        put16(header, 6, if self.dont_fragment { 0x4000 } else { 0 });
        header[8] = self.ttl;
        header[9] = self.protocol;
        put16(header, 10, 0);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let sum = checksum::checksum(header);
        put16(header, 10, sum);
    }
}
