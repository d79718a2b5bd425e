//! The virtio-net header of frames from and to the TUN device.

use wire::vnet::{self, Gso, VnetHeader, flags};

use crate::counters::DropReason;
use crate::plane::Offloads;

/// The header of a complete packet.
pub(crate) const PLAIN: [u8; vnet::LEN] = [0; vnet::LEN];

/// Separates header and packet. If the device has no headers, the packet is complete.
pub(crate) fn take(
    frame: &mut [u8],
    offloads: Offloads,
) -> Result<(VnetHeader, &mut [u8]), DropReason> {
    if !offloads.has_vnet_header {
        return Ok((VnetHeader::default(), frame));
    }
    let (header, packet) = frame
        .split_at_mut_checked(vnet::LEN)
        .ok_or(DropReason::Truncated)?;
    let (header, _) = VnetHeader::split(header, vnet::LEN).map_err(|_| DropReason::Truncated)?;
    header
        .check(packet.len())
        .map_err(|_| DropReason::BadInnerPacket)?;
    Ok((header, packet))
}

/// Writes the header of a super-packet of segments of `segment` octets behind `headers` octets,
/// whose upper layer starts at `upper` and has its checksum at `upper + checksum`.
pub(crate) fn put_merged(
    header: &mut [u8],
    gso: Gso,
    headers: usize,
    segment: usize,
    upper: usize,
    checksum: usize,
) {
    VnetHeader {
        flags: flags::NEEDS_CSUM,
        gso,
        hdr_len: headers as u16,
        gso_size: segment as u16,
        csum_start: upper as u16,
        csum_offset: checksum as u16,
        ..VnetHeader::default()
    }
    .write(header);
}
