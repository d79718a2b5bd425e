//! Checksums in place: short forms of [`wire::ip::Sum`].

use std::net::IpAddr;

use wire::ip::Sum;
use wire::ip::protocol::UDP;

/// The sum of the pseudo header without the length, which each segment adds.
pub(crate) fn pseudo_header((source, destination): (IpAddr, IpAddr), protocol: u8) -> Sum {
    Sum::new()
        .addresses(source, destination)
        .word(protocol.into())
}

/// Whether a sum that includes the checksum is right.
pub(crate) fn is_valid(sum: Sum) -> bool {
    sum.folded() == 0xffff
}

/// Writes an upper layer's checksum at `upper[at..at + 2]`, which held 0 when it was summed. UDP
/// has no zero (RFC 768).
pub(crate) fn put(upper: &mut [u8], at: usize, protocol: u8, sum: Sum) {
    let checksum = match sum.finish() {
        0 if protocol == UDP => 0xffff,
        checksum => checksum,
    };
    upper[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Writes the header checksum of an IPv4 header.
pub(crate) fn put_v4(header: &mut [u8]) {
    header[10..12].fill(0);
    let checksum = Sum::new().bytes(header).finish();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
}
