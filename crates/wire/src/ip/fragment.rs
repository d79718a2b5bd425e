//! IPv4 fragmentation (RFC 791 §3.2).

use super::ipv4::{HEADER_LEN, Ipv4, MAX_HEADER_LEN};
use super::put16;
use crate::codec::Malformed;

/// Why a packet is not fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not an IPv4 packet.
    Malformed(Malformed),
    /// Its DF bit is set: answer with [`super::icmp::fragmentation_needed`].
    DontFragment,
    /// The MTU has no room for the header and eight octets.
    MtuTooSmall,
}

/// The fragments of one packet, written one by one into the caller's buffer.
#[derive(Clone, Debug)]
pub struct Fragments<'a> {
    packet: Ipv4<&'a [u8]>,
    mtu: usize,
    /// Octets of the payload already written.
    done: usize,
    is_finished: bool,
}

impl<'a> Fragments<'a> {
    /// Prepares to cut `packet` to `mtu`. A packet that fits becomes one fragment, whatever its DF
    /// bit.
    pub fn new(packet: &'a [u8], mtu: usize) -> Result<Self, Refused> {
        let packet = Ipv4::new(packet).map_err(Refused::Malformed)?;
        if packet.fragment_offset() + packet.payload().len() > MAX_PAYLOAD {
            return Err(Refused::Malformed(Malformed::Length("IPv4 fragment")));
        }
        if packet.total_len() > mtu {
            if packet.has_dont_fragment() {
                return Err(Refused::DontFragment);
            }
            if mtu < packet.header_len() + 8 {
                return Err(Refused::MtuTooSmall);
            }
        }
        Ok(Self {
            packet,
            mtu,
            done: 0,
            is_finished: false,
        })
    }

    /// Writes the next fragment to the start of `out` and returns its length; None after the last.
    /// Panics if `out` is shorter than both the MTU and the packet.
    pub fn write_next(&mut self, out: &mut [u8]) -> Option<usize> {
        if self.is_finished {
            return None;
        }
        let payload = self.packet.payload();
        let header_len = self.write_header(out);
        let left = payload.len() - self.done;
        let room = self.mtu.saturating_sub(header_len);
        let len = if left <= room { left } else { room & !7 };
        self.is_finished = len == left;
        let total_len = header_len + len;
        out[header_len..total_len].copy_from_slice(&payload[self.done..self.done + len]);

        put16(out, 2, total_len as u16);
        let mut fragment = Ipv4::new(&mut out[..total_len]).expect("a header written just above");
        let offset = self.packet.fragment_offset() + self.done;
        let has_more = !self.is_finished || self.packet.has_more_fragments();
        fragment.set_fragment(offset, has_more);
        fragment.fill_checksum();
        self.done += len;
        Some(total_len)
    }

    /// Later fragments carry only the options whose copied bit is set.
    fn write_header(&self, out: &mut [u8]) -> usize {
        let header = self.packet.header();
        if self.done == 0 {
            out[..header.len()].copy_from_slice(header);
            return header.len();
        }
        let mut options = [0; MAX_HEADER_LEN - HEADER_LEN];
        let len = copied_options(self.packet.options(), &mut options);
        out[..HEADER_LEN].copy_from_slice(&header[..HEADER_LEN]);
        out[HEADER_LEN..HEADER_LEN + len].copy_from_slice(&options[..len]);
        let header_len = HEADER_LEN + len;
        out[0] = 0x40 | (header_len / 4) as u8;
        header_len
    }
}

/// Copies the options with the copied bit, padded to whole words, and returns their length.
fn copied_options(options: &[u8], out: &mut [u8]) -> usize {
    let mut at = 0;
    let mut len = 0;
    while at < options.len() {
        let kind = options[at];
        if kind == 0 {
            break;
        }
        let option_len = match (kind, options.get(at + 1)) {
            (1, _) => 1,
            (_, Some(&n)) if n >= 2 && at + usize::from(n) <= options.len() => n.into(),
            _ => break,
        };
        if kind & 0x80 != 0 {
            out[len..len + option_len].copy_from_slice(&options[at..at + option_len]);
            len += option_len;
        }
        at += option_len;
    }
    len.next_multiple_of(4)
}

/// Octets that a reassembled payload may have.
const MAX_PAYLOAD: usize = u16::MAX as usize;
