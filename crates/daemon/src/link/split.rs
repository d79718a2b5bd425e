//! Turns a frame from a packet socket into the frames that a wire would have carried: completes
//! checksums and splits TCP and UDP super-frames (RFC 9293 §3.1, RFC 768).

use wire::codec::Malformed;
use wire::ip::Flow;
use wire::ip::checksum::{Sum, checksum};
use wire::ip::protocol::{TCP, UDP};
use wire::ip::tcp::flags::{CWR, FIN, PSH};
use wire::vnet::{Gso, LEN, VnetHeader};

/// Octets of an Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// Most frames of one super-frame: the kernel's smallest TCP segment is 48 octets.
const MAX_FRAMES: usize = 1400;

/// Whether a frame carries IP. Others (ARP) are not charged.
pub fn is_ip(frame: &[u8]) -> bool {
    matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]))
}

/// Calls `each` with every frame for the wire. `received` is a virtio-net header and a frame.
pub fn split(received: &mut [u8], each: impl FnMut(&[u8])) -> Result<(), Malformed> {
    let (offload, frame) = VnetHeader::split(received, LEN)?;
    offload.check(frame.len())?;
    let frame = &mut received[LEN..];
    match offload.gso {
        Gso::None => whole(&offload, frame, each),
        Gso::TcpV4 | Gso::TcpV6 | Gso::UdpL4 => segments(&offload, frame, each),
        Gso::UdpFragments | Gso::Other(_) => Err(Malformed::Value("virtio-net segmentation")),
    }
}

fn whole(
    offload: &VnetHeader,
    frame: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), Malformed> {
    offload.complete_checksum(frame)?;
    each(frame);
    Ok(())
}

fn segments(
    offload: &VnetHeader,
    frame: &mut [u8],
    mut each: impl FnMut(&[u8]),
) -> Result<(), Malformed> {
    if !is_ip(frame) {
        return Err(Malformed::Value("ethernet type"));
    }
    let flow = Flow::of(&frame[ETHERNET_BYTES..])?;
    let transport = ETHERNET_BYTES + flow.transport;
    let headers = match flow.protocol {
        TCP if transport + 20 <= frame.len() => {
            transport + usize::from(frame[transport + 12] >> 4) * 4
        }
        UDP if transport + 8 <= frame.len() => transport + 8,
        _ => return Err(Malformed::Value("protocol of a super-frame")),
    };
    let end = (ETHERNET_BYTES + flow.total_len).min(frame.len());
    let size = usize::from(offload.gso_size);
    if headers > end || flow.is_fragment {
        return Err(Malformed::Length("headers of a super-frame"));
    }
    let count = (end - headers).div_ceil(size).max(1);
    if count > MAX_FRAMES {
        return Err(Malformed::TooMany("segments"));
    }
    let mut segment = Vec::with_capacity(headers + size);
    for index in 0..count {
        let from = headers + index * size;
        segment.clear();
        segment.extend_from_slice(&frame[..headers]);
        segment.extend_from_slice(&frame[from..end.min(from + size)]);
        let position = Position {
            index,
            is_last: index + 1 == count,
            size,
        };
        position.adapt(&mut segment, &flow);
        each(&segment);
    }
    Ok(())
}

/// A segment's position in its super-frame.
struct Position {
    index: usize,
    is_last: bool,
    size: usize,
}

impl Position {
    fn adapt(&self, segment: &mut [u8], flow: &Flow) {
        let packet = &mut segment[ETHERNET_BYTES..];
        let total = packet.len();
        if flow.source.is_ipv4() {
            put16(packet, 2, total as u16);
            let id = u16::from_be_bytes([packet[4], packet[5]]);
            put16(packet, 4, id.wrapping_add(self.index as u16));
            put16(packet, 10, 0);
            let header = usize::from(packet[0] & 15) * 4;
            let sum = checksum(&packet[..header]);
            put16(packet, 10, sum);
        } else {
            put16(packet, 4, (total - 40) as u16);
        }
        let at = flow.transport;
        let len = total - at;
        let field = if flow.protocol == TCP {
            let sequence = packet[at + 4..at + 8]
                .try_into()
                .map_or(0, u32::from_be_bytes);
            let offset = (self.index * self.size) as u32;
            let sequence = sequence.wrapping_add(offset).to_be_bytes();
            packet[at + 4..at + 8].copy_from_slice(&sequence);
            if !self.is_last {
                packet[at + 13] &= !(FIN | PSH);
            }
            if self.index > 0 {
                packet[at + 13] &= !CWR;
            }
            at + 16
        } else {
            put16(packet, at + 4, len as u16);
            at + 6
        };
        put16(packet, field, 0);
        let pseudo = Sum::pseudo_header(flow.source, flow.destination, flow.protocol, len);
        let sum = match pseudo.bytes(&packet[at..]).finish() {
            0 => 0xffff,
            sum => sum,
        };
        put16(packet, field, sum);
    }
}

fn put16(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ethernet, IPv4 or IPv6, TCP or UDP, `data` octets, behind a virtio-net header.
    fn super_frame(is_v6: bool, protocol: u8, gso: Gso, size: u16, data: usize) -> Vec<u8> {
        let transport = if protocol == TCP { 20 } else { 8 };
        let mut frame = vec![2; 12];
        frame.extend_from_slice(if is_v6 { &[0x86, 0xdd] } else { &[8, 0] });
        let len = (transport + data) as u16;
        if is_v6 {
            frame.extend_from_slice(&[0x60, 0, 0, 0]);
            frame.extend_from_slice(&len.to_be_bytes());
            frame.extend_from_slice(&[protocol, 64]);
            frame.extend_from_slice(&[0xfd; 32]);
        } else {
            frame.extend_from_slice(&[0x45, 0]);
            frame.extend_from_slice(&(len + 20).to_be_bytes());
            frame.extend_from_slice(&[0xff, 0xff, 0x40, 0, 64, protocol, 0, 0]);
            frame.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        }
        let start = frame.len();
        frame.resize(start + transport, 0);
        if protocol == TCP {
            frame[start + 4..start + 8].fill(0xff);
            frame[start + 12] = 0x50;
            frame[start + 13] = FIN | PSH | CWR | 16;
        }
        frame.extend((0..data).map(|n| n as u8));
        let offload = VnetHeader {
            gso,
            gso_size: size,
            ..VnetHeader::default()
        };
        let mut all = vec![0; LEN];
        offload.write(&mut all);
        all.extend_from_slice(&frame);
        all
    }

    fn frames_of(mut received: Vec<u8>) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        split(&mut received, |frame| frames.push(frame.to_vec())).expect("a good frame");
        frames
    }

    #[test]
    fn super_frames_become_frames_with_right_lengths_and_checksums() {
        for (is_v6, protocol, gso) in [
            (false, TCP, Gso::TcpV4),
            (true, TCP, Gso::TcpV6),
            (false, UDP, Gso::UdpL4),
            (true, UDP, Gso::UdpL4),
        ] {
            let frames = frames_of(super_frame(is_v6, protocol, gso, 1000, 2500));
            assert_eq!(frames.len(), 3);
            let mut data = Vec::new();
            for frame in &frames {
                let packet = &frame[ETHERNET_BYTES..];
                let flow = Flow::of(packet).expect("a packet");
                assert_eq!(flow.total_len, packet.len());
                let rest = &packet[flow.transport..];
                let (from, to) = (flow.source, flow.destination);
                let pseudo = Sum::pseudo_header(from, to, protocol, rest.len());
                assert_eq!(pseudo.bytes(rest).finish(), 0);
                if !is_v6 {
                    assert_eq!(checksum(&packet[..20]), 0);
                }
                data.extend_from_slice(&rest[if protocol == TCP { 20 } else { 8 }..]);
            }
            let want: Vec<u8> = (0..2500).map(|n| n as u8).collect();
            assert_eq!(data, want);
        }
    }

    #[test]
    fn tcp_sequence_identification_and_flags_follow_the_place() {
        let frames = frames_of(super_frame(false, TCP, Gso::TcpV4, 1000, 2500));
        let flags: Vec<u8> = frames.iter().map(|frame| frame[14 + 20 + 13]).collect();
        assert_eq!(flags, [CWR | 16, 16, FIN | PSH | 16]);
        assert_eq!(frames[1][14 + 20 + 4..14 + 20 + 8], 999u32.to_be_bytes());
        assert_eq!(frames[1][14 + 4..14 + 6], [0, 0]);
    }

    #[test]
    fn a_partial_checksum_is_completed() {
        let mut received = super_frame(false, UDP, Gso::None, 0, 5);
        let at = LEN + 14 + 20;
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let partial = Sum::pseudo_header(from, to, UDP, 13).folded();
        received[at + 6..at + 8].copy_from_slice(&partial.to_be_bytes());
        let offload = VnetHeader {
            flags: wire::vnet::flags::NEEDS_CSUM,
            csum_start: 34,
            csum_offset: 6,
            ..VnetHeader::default()
        };
        offload.write(&mut received[..LEN]);
        let frame = frames_of(received).remove(0);
        let pseudo = Sum::pseudo_header(from, to, UDP, 13);
        assert_eq!(pseudo.bytes(&frame[34..]).finish(), 0);
    }

    #[test]
    fn every_truncation_is_an_error_or_a_frame_and_never_a_panic() {
        let whole = super_frame(false, TCP, Gso::TcpV4, 100, 300);
        for len in 0..whole.len() {
            // Both results are fine.
            let _ = split(&mut whole[..len].to_vec(), |_| {});
        }
    }
}
