//! The authentication header (RFC 4302 §2) and which fields of the IP header its ICV covers
//! (RFC 4302 §3.3.3.1).
//!
//! Left out: the ICV itself (`crypto`), and the Home Address option of Mobile IPv6, which Caravan
//! does not support.

use std::net::Ipv4Addr;

use crate::codec::Malformed;
use crate::ip::{Ipv4, Ipv6, be32, ipv4, ipv6, protocol, put16, put32};

/// Octets before the ICV.
pub const FIXED_LEN: usize = 12;

/// The IP version of the packet. It decides the alignment (RFC 4302 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A multiple of 4 octets.
    V4,
    /// A multiple of 8 octets.
    V6,
}

/// An authentication header in place, and what follows it.
#[derive(Clone, Copy, Debug)]
pub struct Ah<T> {
    bytes: T,
}

impl<T: AsRef<[u8]>> Ah<T> {
    /// Checks the length field against `bytes`. The caller checks with [`Self::icv`] that the ICV
    /// has the length of its security association.
    #[inline]
    pub fn new(bytes: T) -> Result<Self, Malformed> {
        let octets = bytes.as_ref();
        if octets.len() < FIXED_LEN {
            return Err(Malformed::Truncated("AH"));
        }
        let len = (usize::from(octets[1]) + 2) * 4;
        if len < FIXED_LEN {
            return Err(Malformed::Length("AH"));
        }
        if len > octets.len() {
            return Err(Malformed::Truncated("AH"));
        }
        Ok(Self { bytes })
    }

    /// Protocol of what follows.
    #[inline]
    pub fn next_header(&self) -> u8 {
        self.octets()[0]
    }

    /// Octets of the header, ICV and its padding included.
    #[inline]
    pub fn header_len(&self) -> usize {
        (usize::from(self.octets()[1]) + 2) * 4
    }

    /// Security parameters index.
    #[inline]
    pub fn spi(&self) -> u32 {
        be32(self.octets(), 4)
    }

    /// Sequence number, the lower half of an extended one.
    #[inline]
    pub fn sequence(&self) -> u32 {
        be32(self.octets(), 8)
    }

    /// The first `len` octets after the fixed part; padding may follow them (RFC 4302 §2.6).
    /// Refused if the header is shorter, or longer than alignment to 8 explains.
    #[inline]
    pub fn icv(&self, len: usize) -> Result<&[u8], Malformed> {
        let end = FIXED_LEN + len;
        if self.header_len() < end || self.header_len() > header_len(len, Family::V6) {
            return Err(Malformed::Length("AH ICV"));
        }
        Ok(&self.octets()[FIXED_LEN..end])
    }

    /// What follows the header.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.octets()[self.header_len()..]
    }

    #[inline]
    fn octets(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Ah<T> {
    /// The place of an ICV of `len` octets, refused as in [`Self::icv`]. It is zero while the ICV
    /// is computed; padding behind it stays as it was sent.
    #[inline]
    pub fn icv_mut(&mut self, len: usize) -> Result<&mut [u8], Malformed> {
        self.icv(len)?;
        Ok(&mut self.bytes.as_mut()[FIXED_LEN..FIXED_LEN + len])
    }
}

/// Octets of a header with an ICV of `icv_len`.
#[inline]
pub const fn header_len(icv_len: usize, family: Family) -> usize {
    (FIXED_LEN + icv_len).next_multiple_of(match family {
        Family::V4 => 4,
        Family::V6 => 8,
    })
}

/// Writes a header with zero ICV and padding to the start of `packet`, and returns its length.
/// Panics if `packet` is shorter; `icv_len` is at most 64.
#[inline]
pub fn write_header(
    packet: &mut [u8],
    next_header: u8,
    spi: u32,
    sequence: u32,
    icv_len: usize,
    family: Family,
) -> usize {
    let len = header_len(icv_len, family);
    packet[0] = next_header;
    packet[1] = (len / 4 - 2) as u8;
    put16(packet, 2, 0);
    put32(packet, 4, spi);
    put32(packet, 8, sequence);
    packet[FIXED_LEN..len].fill(0);
    len
}

/// Turns an IPv4 header into the form that the ICV covers (RFC 4302 §3.3.3.1.1): TOS, flags,
/// fragment offset, TTL, checksum and mutable options become zero; with a source route, the
/// destination becomes the last address. `packet` starts with the header; pass a copy. Returns the
/// header's length.
pub fn zero_mutable_v4(packet: &mut [u8]) -> Result<usize, Malformed> {
    let mut ip = Ipv4::new(&mut *packet)?;
    let header_len = ip.header_len();
    if let Some(last) = last_hop(ip.options())? {
        ip.set_destination(last);
    }
    packet[1] = 0;
    packet[6..9].fill(0);
    packet[10..12].fill(0);
    let mut options = &mut packet[ipv4::HEADER_LEN..header_len];
    while let Some(len) = v4_option_len(options)? {
        let (option, rest) = options.split_at_mut(len);
        if !IMMUTABLE_V4_OPTIONS.contains(&option[0]) {
            option.fill(0);
        }
        options = rest;
    }
    Ok(header_len)
}

/// Turns an IPv6 header and the extension headers before AH into the form that the ICV covers (RFC
/// 4302 §3.3.3.1.2): traffic class, flow label, hop limit and the data of mutable options become
/// zero; a routing header becomes as its last hop sees it. `packet` starts with the header; pass a
/// copy. Returns where the extension headers end.
pub fn zero_mutable_v6(packet: &mut [u8]) -> Result<usize, Malformed> {
    let mut end = ipv6::HEADER_LEN;
    let mut list = [None; ipv6::MAX_EXTENSIONS];
    for (slot, extension) in list.iter_mut().zip(Ipv6::new(&*packet)?.extensions()) {
        *slot = Some(extension?);
    }
    // The iterator ends without error only at a header that is not an extension.
    Ipv6::new(&*packet)?.upper()?;
    for extension in list.into_iter().flatten() {
        let range = extension.offset..extension.offset + extension.len;
        end = range.end;
        match extension.kind {
            protocol::ROUTING => {
                let (base, rest) = packet.split_at_mut(ipv6::HEADER_LEN);
                let start = range.start - ipv6::HEADER_LEN;
                let header = &mut rest[start..start + extension.len];
                arrive(header, &mut base[24..40])?;
            }
            // RFC 4302 §3.3.4: fragments are reassembled before AH.
            protocol::FRAGMENT => return Err(Malformed::Value("fragment before AH")),
            _ => zero_v6_options(&mut packet[range])?,
        }
    }
    packet[0] = 0x60;
    packet[1..4].fill(0);
    packet[7] = 0;
    Ok(end)
}

/// Octets of the option at the start of `options`. None at the end of the list.
fn v4_option_len(options: &[u8]) -> Result<Option<usize>, Malformed> {
    match options {
        [] => Ok(None),
        [0, ..] => Ok(None),
        [1, ..] => Ok(Some(1)),
        [_, len, ..] if *len >= 2 && usize::from(*len) <= options.len() => {
            Ok(Some(usize::from(*len)))
        }
        _ => Err(Malformed::Length("IPv4 option")),
    }
}

/// The last address of a source route that has hops left.
fn last_hop(mut options: &[u8]) -> Result<Option<Ipv4Addr>, Malformed> {
    while let Some(len) = v4_option_len(options)? {
        let (option, rest) = options.split_at(len);
        if matches!(option[0], LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE) {
            let Some((_, last)) = option.split_last_chunk::<4>() else {
                return Ok(None);
            };
            let is_at_end = usize::from(option[2]) > len;
            return Ok((len >= 7 && !is_at_end).then(|| Ipv4Addr::from(*last)));
        }
        options = rest;
    }
    Ok(None)
}

/// Zeroes the data of options whose third-highest type bit says that it may change (RFC 8200
/// §4.2). `header` is hop-by-hop or destination options.
fn zero_v6_options(header: &mut [u8]) -> Result<(), Malformed> {
    let mut at = 2;
    while at < header.len() {
        if header[at] == PAD1 {
            at += 1;
            continue;
        }
        let end = match header.get(at + 1) {
            Some(&len) => at + 2 + usize::from(len),
            None => return Err(Malformed::Truncated("IPv6 option")),
        };
        if end > header.len() {
            return Err(Malformed::Truncated("IPv6 option"));
        }
        if header[at] & MAY_CHANGE != 0 {
            header[at + 2..end].fill(0);
        }
        at = end;
    }
    Ok(())
}

/// Applies the remaining hops of a routing header (RFC 2460 §4.4): each swaps the destination with
/// the next address.
fn arrive(header: &mut [u8], destination: &mut [u8]) -> Result<(), Malformed> {
    let left = usize::from(header[3]);
    if left == 0 {
        return Ok(());
    }
    if !matches!(header[2], SOURCE_ROUTE | HOME_ROUTE) {
        return Err(Malformed::Value("routing type"));
    }
    let (addresses, odd) = header[8..].as_chunks_mut::<16>();
    if !odd.is_empty() || left > addresses.len() {
        return Err(Malformed::Length("routing header"));
    }
    let first = addresses.len() - left;
    for address in &mut addresses[first..] {
        address.as_mut_slice().swap_with_slice(destination);
    }
    header[3] = 0;
    Ok(())
}

/// End, no operation, security, extended and commercial security, router alert, sender directed
/// multi-destination delivery (RFC 4302 appendix A1).
const IMMUTABLE_V4_OPTIONS: [u8; 7] = [0, 1, 130, 133, 134, 148, 149];
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;
const PAD1: u8 = 0;
const MAY_CHANGE: u8 = 0x20;
/// Routing type 0 (RFC 2460 §4.4).
const SOURCE_ROUTE: u8 = 0;
/// Routing type 2 (RFC 6275 §6.4).
const HOME_ROUTE: u8 = 2;

#[cfg(test)]
mod tests;
