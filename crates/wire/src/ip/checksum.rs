//! The internet checksum (RFC 1071), its incremental update (RFC 1624), and the repair of a
//! transport checksum whose addresses were translated (RFC 3948 §3.1.2).

use std::net::IpAddr;

use super::{be16, protocol, put16};

/// A ones' complement sum in progress. Parts are added in order; each but the last must have an
/// even number of octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Sum of 32-bit words in native order: byte order does not matter until the end
    /// (RFC 1071 §2 B), and less than 2^31 words cannot overflow it.
    words: u64,
}

impl Sum {
    /// Zero.
    #[inline]
    pub const fn new() -> Self {
        Self { words: 0 }
    }

    /// Adds octets.
    #[inline]
    #[must_use]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        // Independent lanes let the compiler add several words at once.
        let mut lanes = [0u64; 8];
        let (chunks, tail) = bytes.as_chunks::<32>();
        for chunk in chunks {
            for (lane, four) in lanes.iter_mut().zip(chunk.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*four));
            }
        }
        let mut words = self.words + lanes.iter().sum::<u64>();
        // Word by word: copying an unknown length costs more than summing a header.
        let (fours, tail) = tail.as_chunks::<4>();
        for four in fours {
            words += u64::from(u32::from_ne_bytes(*four));
        }
        let (twos, tail) = tail.as_chunks::<2>();
        for two in twos {
            words += u64::from(u16::from_ne_bytes(*two));
        }
        if let [last] = tail {
            words += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        Self { words }
    }

    /// Adds a 16-bit word.
    #[inline]
    #[must_use]
    pub const fn word(self, word: u16) -> Self {
        Self {
            words: self.words + word.to_be() as u64,
        }
    }

    /// Adds another sum.
    #[inline]
    #[must_use]
    pub const fn sum(self, other: Self) -> Self {
        Self {
            words: self.words + other.folded_native() as u64,
        }
    }

    /// Adds both addresses.
    #[inline]
    #[must_use]
    pub fn addresses(self, source: IpAddr, destination: IpAddr) -> Self {
        self.address(source).address(destination)
    }

    #[inline]
    fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.bytes(&v4.octets()),
            IpAddr::V6(v6) => self.bytes(&v6.octets()),
        }
    }

    /// A pseudo-header (RFC 9293 §3.1, RFC 8200 §8.1): `len` octets of transport header and data.
    #[inline]
    pub fn pseudo_header(
        source: IpAddr,
        destination: IpAddr,
        transport_protocol: u8,
        len: usize,
    ) -> Self {
        Self::new()
            .addresses(source, destination)
            .word(transport_protocol.into())
            .word((len >> 16) as u16)
            .word(len as u16)
    }

    /// The sum folded to 16 bits, not complemented: what a partial checksum field holds.
    #[inline]
    pub const fn folded(self) -> u16 {
        u16::from_be(self.folded_native())
    }

    /// The checksum: the complement of the folded sum.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.folded()
    }

    #[inline]
    const fn folded_native(self) -> u16 {
        let mut sum = (self.words & 0xffff_ffff) + (self.words >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum as u16
    }
}

/// The internet checksum of `bytes`.
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).finish()
}

/// The checksum after one 16-bit word it covers changed from `old` to `new` (RFC 1624 §3,
/// equation 3).
#[inline]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::new().word(!checksum).word(!old).word(new).finish()
}

/// The content of a transport checksum field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumState {
    /// The checksum.
    Full,
    /// Only the folded pseudo-header sum: an offload must add the rest (NEEDS_CSUM).
    Partial,
}

/// The effect of a change of both addresses on transport checksums. Computed once for an SA and
/// applied to each of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressChange {
    /// Folded sum of the new addresses and the complement of the old.
    delta: u16,
}

impl AddressChange {
    /// The change from the addresses under the checksum (the sender's view, NAT-OA) to those in the
    /// packet. Old and new may be of different families.
    pub fn new(old: (IpAddr, IpAddr), new: (IpAddr, IpAddr)) -> Self {
        let old = Sum::new().addresses(old.0, old.1).folded();
        let delta = Sum::new().addresses(new.0, new.1).word(!old).folded();
        Self { delta }
    }

    /// The checksum field after the change.
    #[inline]
    pub const fn apply(self, field: u16, state: ChecksumState) -> u16 {
        match state {
            ChecksumState::Full => Sum::new().word(!field).word(self.delta).finish(),
            ChecksumState::Partial => Sum::new().word(field).word(self.delta).folded(),
        }
    }

    /// Repairs the checksum in a TCP, UDP, UDP-Lite, DCCP or ICMPv6 header at the start of
    /// `transport`. Returns false if there is nothing to repair: another protocol, a truncated
    /// header, or a UDP datagram without checksum.
    #[inline]
    pub fn repair(
        self,
        transport_protocol: u8,
        transport: &mut [u8],
        state: ChecksumState,
    ) -> bool {
        let Some(at) = checksum_offset(transport_protocol) else {
            return false;
        };
        if transport.len() < at + 2 {
            return false;
        }
        let old = be16(transport, at);
        let is_udp = transport_protocol == protocol::UDP;
        if is_udp && old == 0 && state == ChecksumState::Full {
            return false;
        }
        let mut new = self.apply(old, state);
        if is_udp && new == 0 && state == ChecksumState::Full {
            new = 0xffff;
        }
        put16(transport, at, new);
        true
    }
}

/// The offset of a checksum that covers the addresses.
#[inline]
pub const fn checksum_offset(transport_protocol: u8) -> Option<usize> {
    match transport_protocol {
        protocol::TCP => Some(16),
        protocol::UDP | protocol::UDP_LITE | protocol::DCCP => Some(6),
        protocol::ICMPV6 => Some(2),
        _ => None,
    }
}
