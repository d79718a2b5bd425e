//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

use std::net::IpAddr;

/// A ones' complement sum in the making, in the machine's byte order, which does not matter to it
/// (RFC 1071 §2 B).
#[derive(Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds octets; all pieces but the last must be of even length.
    #[inline]
    pub(crate) fn add(self, bytes: &[u8]) -> Self {
        let mut lanes = [0u64; 8];
        let (blocks, rest) = bytes.as_chunks::<32>();
        for block in blocks {
            for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<4>().0) {
                *lane += u64::from(u32::from_ne_bytes(*word));
            }
        }
        let (words, rest) = rest.as_chunks::<2>();
        let mut sum = self.0 + lanes.iter().sum::<u64>();
        for word in words {
            sum += u64::from(u16::from_ne_bytes(*word));
        }
        if let [last] = rest {
            sum += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        Self(sum)
    }

    /// Adds a number as it lies on the wire.
    #[inline]
    pub(crate) fn add16(self, value: u16) -> Self {
        Self(self.0 + u64::from(value.to_be()))
    }

    /// Adds the octets of an address.
    pub(crate) fn add_address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => self.add(&v4.octets()),
            IpAddr::V6(v6) => self.add(&v6.octets()),
        }
    }

    /// Takes away the octets of an address that were added once (RFC 1624 §3).
    pub(crate) fn subtract_address(self, address: IpAddr) -> Self {
        Self(self.0 + u64::from(!Self::default().add_address(address).folded()))
    }

    /// Of the pseudo header (RFC 9293 §3.1, RFC 8200 §8.1), without the length.
    pub(crate) fn pseudo(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        Self::default()
            .add_address(source)
            .add_address(destination)
            .add16(protocol.into())
    }

    /// The checksum: complement of the sum, as octets.
    #[inline]
    pub(crate) fn checksum(self) -> [u8; 2] {
        (!self.folded()).to_ne_bytes()
    }

    /// The sum itself, as octets: what a device asked to complete a checksum wants to find.
    pub(crate) fn partial(self) -> [u8; 2] {
        self.folded().to_ne_bytes()
    }

    /// Whether the sum, the checksum among what was added, says that all is well.
    pub(crate) fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }

    fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }
}

/// Rewrites the checksum at `bytes[at..at + 2]` after a change of what it covers.
pub(crate) fn update(bytes: &mut [u8], at: usize, change: impl FnOnce(Sum) -> Sum) {
    let old = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
    let new = change(Sum(u64::from(!old))).checksum();
    bytes[at..at + 2].copy_from_slice(&new);
}

/// Adds to a sum the change of one 16-bit word (RFC 1624 §3).
pub(crate) fn replaced(sum: Sum, old: u16, new: u16) -> Sum {
    sum.add16(!old).add16(new)
}

/// Writes the header checksum of an IPv4 header.
pub(crate) fn put_v4(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum::default().add(header).checksum();
    header[10..12].copy_from_slice(&checksum);
}
