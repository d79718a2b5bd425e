//! The virtio-net header (virtio 1.2 §5.1.6) as a Linux TUN device with IFF_VNET_HDR uses it, in
//! the machine's byte order.

use crate::counters::DropReason;
use crate::plane::Offloads;

/// Octets of the header.
pub(crate) const HEADER_BYTES: usize = 10;
/// The checksum from `checksum_start` on is to be completed.
pub(crate) const NEEDS_CHECKSUM: u8 = 1;

const NONE: u8 = 0;
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_SEGMENTS: u8 = 5;
const ECN: u8 = 0x80;

/// What to cut the packet into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segmentation {
    None,
    Tcp,
    Udp,
}

/// A virtio-net header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offload {
    pub(crate) segmentation: Segmentation,
    /// Octets of payload of each segment.
    pub(crate) segment: usize,
    /// From where to sum and where the checksum goes, counted from there.
    pub(crate) checksum: Option<(usize, usize)>,
}

/// Parts header and packet.
pub(crate) fn take(
    frame: &mut [u8],
    offloads: Offloads,
) -> Result<(Offload, &mut [u8]), DropReason> {
    let mut offload = Offload {
        segmentation: Segmentation::None,
        segment: 0,
        checksum: None,
    };
    if !offloads.has_vnet_header {
        return Ok((offload, frame));
    }
    let (header, packet) = frame
        .split_first_chunk_mut::<HEADER_BYTES>()
        .ok_or(DropReason::Truncated)?;
    let word = |at: usize| usize::from(u16::from_ne_bytes([header[at], header[at + 1]]));
    offload.segmentation = match header[1] & !ECN {
        NONE => Segmentation::None,
        TCP_V4 | TCP_V6 => Segmentation::Tcp,
        UDP_SEGMENTS => Segmentation::Udp,
        _ => return Err(DropReason::BadInnerPacket),
    };
    offload.segment = word(4);
    if header[0] & NEEDS_CHECKSUM != 0 {
        offload.checksum = Some((word(6), word(8)));
    }
    Ok((offload, packet))
}

/// The header of a packet with nothing left to do.
pub(crate) fn plain() -> [u8; HEADER_BYTES] {
    [0; HEADER_BYTES]
}

/// The header of a super-packet of segments of `segment` octets behind `headers` octets, whose
/// upper layer starts at `upper` and has its checksum at `upper + checksum`.
pub(crate) fn merged(
    segmentation: Segmentation,
    is_v6: bool,
    headers: usize,
    segment: usize,
    upper: usize,
    checksum: usize,
) -> [u8; HEADER_BYTES] {
    let kind = match (segmentation, is_v6) {
        (Segmentation::None, _) => NONE,
        (Segmentation::Tcp, false) => TCP_V4,
        (Segmentation::Tcp, true) => TCP_V6,
        (Segmentation::Udp, _) => UDP_SEGMENTS,
    };
    let mut header = [0; HEADER_BYTES];
    header[0] = NEEDS_CHECKSUM;
    header[1] = kind;
    for (at, value) in [(2, headers), (4, segment), (6, upper), (8, checksum)] {
        header[at..at + 2].copy_from_slice(&(value as u16).to_ne_bytes());
    }
    header
}
