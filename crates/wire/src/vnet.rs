//! The virtio-net header that a TUN device with IFF_VNET_HDR puts before each packet (virtio 1.2
//! §5.1.6), in little-endian order.
//!
//! Left out: cutting a large packet into segments. The data plane does that while it seals.

use crate::codec::Malformed;
use crate::ip::{ChecksumState, Sum, put16};

/// Octets of the default header of TUN.
pub const LEN: usize = 10;
/// Octets of the header with a buffer count (TUNSETVNETHDRSZ 12).
pub const LEN_WITH_BUFFERS: usize = 12;

/// How large packets are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Gso {
    /// 0: not at all.
    #[default]
    None,
    /// 1: TCP over IPv4.
    TcpV4,
    /// 3: UDP by IP fragmentation.
    UdpFragments,
    /// 4: TCP over IPv6.
    TcpV6,
    /// 5: UDP into datagrams.
    UdpL4,
    /// Any other value.
    Other(u8),
}

impl Gso {
    /// The number on the wire, without the ECN bit.
    #[inline]
    pub const fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::TcpV4 => 1,
            Self::UdpFragments => 3,
            Self::TcpV6 => 4,
            Self::UdpL4 => 5,
            Self::Other(number) => number,
        }
    }
}

impl From<u8> for Gso {
    #[inline]
    fn from(number: u8) -> Self {
        match number {
            0 => Self::None,
            1 => Self::TcpV4,
            3 => Self::UdpFragments,
            4 => Self::TcpV6,
            5 => Self::UdpL4,
            other => Self::Other(other),
        }
    }
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct VnetHeader {
    /// Bits of [`flags`].
    pub flags: u8,
    /// How to cut the packet.
    pub gso: Gso,
    /// The ECN bit: CWR belongs to the first segment only.
    pub has_ecn: bool,
    /// Octets of all headers: a hint.
    pub hdr_len: u16,
    /// Octets of payload in each segment.
    pub gso_size: u16,
    /// Where summing starts, with NEEDS_CSUM.
    pub csum_start: u16,
    /// Where the checksum goes, counted from `csum_start`.
    pub csum_offset: u16,
    /// Buffers of the packet; only in the 12-octet form, otherwise 0.
    pub num_buffers: u16,
}

/// Flag bits.
pub mod flags {
    /// The checksum field holds only the pseudo-header sum.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum was checked.
    pub const DATA_VALID: u8 = 2;
}

impl VnetHeader {
    /// Reads the header of `len` octets ([`LEN`] or [`LEN_WITH_BUFFERS`]) and returns it with the
    /// packet behind it.
    #[inline]
    pub fn split(buffer: &[u8], len: usize) -> Result<(Self, &[u8]), Malformed> {
        debug_assert!(len == LEN || len == LEN_WITH_BUFFERS);
        let Some((octets, packet)) = buffer.split_at_checked(len) else {
            return Err(Malformed::Truncated("virtio-net header"));
        };
        let le16 = |at: usize| u16::from_le_bytes([octets[at], octets[at + 1]]);
        let header = Self {
            flags: octets[0],
            gso: Gso::from(octets[1] & !ECN),
            has_ecn: octets[1] & ECN != 0,
            hdr_len: le16(2),
            gso_size: le16(4),
            csum_start: le16(6),
            csum_offset: le16(8),
            num_buffers: if len == LEN_WITH_BUFFERS { le16(10) } else { 0 },
        };
        Ok((header, packet))
    }

    /// Writes the header over all of `out`, which has 10 or 12 octets; panics on any other length.
    #[inline]
    pub fn write(&self, out: &mut [u8]) {
        assert!(out.len() == LEN || out.len() == LEN_WITH_BUFFERS);
        out[0] = self.flags;
        out[1] = self.gso.number() | if self.has_ecn { ECN } else { 0 };
        let fields = [
            self.hdr_len,
            self.gso_size,
            self.csum_start,
            self.csum_offset,
        ];
        for (place, field) in out[2..LEN].as_chunks_mut::<2>().0.iter_mut().zip(fields) {
            *place = field.to_le_bytes();
        }
        if out.len() == LEN_WITH_BUFFERS {
            out[LEN..].copy_from_slice(&self.num_buffers.to_le_bytes());
        }
    }

    /// Whether the packet's checksum field holds only the pseudo-header sum.
    #[inline]
    pub const fn needs_checksum(&self) -> bool {
        self.flags & flags::NEEDS_CSUM != 0
    }

    /// What the packet's checksum field holds.
    #[inline]
    pub const fn checksum_state(&self) -> ChecksumState {
        if self.needs_checksum() {
            ChecksumState::Partial
        } else {
            ChecksumState::Full
        }
    }

    /// Checks that the offsets are within a packet of `packet_len` octets, and that segments have a
    /// size.
    #[inline]
    pub fn check(&self, packet_len: usize) -> Result<(), Malformed> {
        if self.needs_checksum() && self.checksum_at() + 2 > packet_len {
            return Err(Malformed::Length("virtio-net checksum"));
        }
        if self.gso != Gso::None {
            if self.gso_size == 0 {
                return Err(Malformed::Length("virtio-net segment"));
            }
            if usize::from(self.hdr_len) > packet_len {
                return Err(Malformed::Length("virtio-net headers"));
            }
        }
        Ok(())
    }

    /// Does what NEEDS_CSUM asks: sums `packet` from `csum_start` on, including the pseudo-header
    /// sum in the checksum field, and stores the checksum. Does nothing without the flag. A
    /// checksum of zero becomes 0xffff, which TCP accepts as well and UDP needs.
    #[inline]
    pub fn complete_checksum(&self, packet: &mut [u8]) -> Result<(), Malformed> {
        if !self.needs_checksum() {
            return Ok(());
        }
        let at = self.checksum_at();
        if at + 2 > packet.len() {
            return Err(Malformed::Length("virtio-net checksum"));
        }
        let sum = Sum::new().bytes(&packet[self.csum_start.into()..]).finish();
        put16(packet, at, if sum == 0 { 0xffff } else { sum });
        Ok(())
    }

    #[inline]
    fn checksum_at(&self) -> usize {
        usize::from(self.csum_start) + usize::from(self.csum_offset)
    }
}

/// Can be set with any GSO type.
const ECN: u8 = 0x80;

#[cfg(test)]
mod tests;
