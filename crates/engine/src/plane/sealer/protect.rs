//! ESP and AH on outbound packets: sequence numbers, the outer header, keys.

use std::net::IpAddr;

use crypto::packet::RestingKey;
use crypto::rand::Stream;
use wire::ip::protocol::{AH, ESP};

use super::{DONT_FRAGMENT, Outer, Way, finish_ip_header, write_ip_header};
use crate::counters::DropReason;
use crate::plane::datagrams::Datagrams;
use crate::plane::inner::put16;
use crate::plane::shape::Shape;
use crate::sa::{Ipsec, Mode, Protocol, Sa, Via};
use crate::{ah, esp};

/// What ESP or AH needs for all packets of an SA.
pub(super) struct Protector {
    pub(super) shape: Shape,
    spi: u32,
    key: RestingKey,
    has_esn: bool,
}

impl Protector {
    pub(super) fn new(ipsec: &Ipsec, sa: &Sa) -> Self {
        Self {
            shape: Shape::of(ipsec, sa.mode, &sa.path),
            spi: ipsec.spi,
            key: ipsec.packet_key(),
            has_esn: sa.has_esn,
        }
    }

    /// As [`super::Sealer::seal`]; `last` is the last number that was used.
    pub(super) fn seal(
        &self,
        way: Way<'_>,
        last: &mut u64,
        outer: &Outer<'_>,
        random: &mut Stream,
        out: &mut Datagrams,
        (clear, fill): (usize, impl FnOnce(&mut [u8])),
    ) -> Result<usize, DropReason> {
        // The counter never wraps (RFC 4303 §3.3.3): the SA ends with the last number.
        if *last >= last_sequence(self.has_esn) {
            return Err(DropReason::SequenceExhausted);
        }
        let sequence = *last + 1;
        let headers = self.headers_before(outer);
        let length = headers + self.shape.sealed(clear);
        if length > usize::from(u16::MAX) {
            return Err(DropReason::TooBig);
        }
        let is_too_long = length + self.shape.headers_outside() > way.path_mtu.into();
        let packet = out.push(way.path, outer.traffic_class, length, is_too_long);
        if headers > 0 {
            // What may be sealed although it is too long may be cut: an IPv6 packet of 1280 octets
            // has DF, and no sender makes it smaller.
            let dont_fragment = outer.dont_fragment && !is_too_long;
            let sizes = (length, dont_fragment);
            self.write_header(&mut packet[..headers], way, outer, sizes, random);
        }
        let (spi, has_esn, next) = (self.spi, self.has_esn, outer.next_header);
        let sealed = match self.shape.protocol {
            Protocol::Esp => {
                let packet = &mut packet[headers..];
                let start = esp::Layout::of(&self.shape.protection).clear_at();
                fill(&mut packet[start..start + clear]);
                let iv = |iv: &mut [u8]| random.fill(iv);
                let key = self.key.prepared();
                esp::seal(key, packet, clear, spi, sequence, has_esn, next, iv);
                Ok(())
            }
            Protocol::Ah => {
                fill(&mut packet[length - clear..]);
                let key = self.key.prepared();
                ah::seal(key, packet, headers, next, spi, sequence, has_esn)
            }
        };
        sealed.inspect_err(|_| out.unpush(length))?;
        *last = sequence;
        if is_too_long && way.path.via == Via::Raw {
            // UDP is fragmented by the kernel, which takes raw packets only as they are.
            let cut = self.fragment_last(way, (headers, outer), random, out);
            return cut.inspect_err(|_| out.unpush(length));
        }
        Ok(length)
    }

    /// See [`RestingKey::rest`].
    pub(super) fn rest(&mut self) {
        self.key.rest();
    }

    #[cfg(test)]
    pub(super) fn is_prepared(&self) -> bool {
        self.key.is_prepared()
    }

    /// The IP protocol.
    pub(super) fn protocol(&self) -> u8 {
        match self.shape.protocol {
            Protocol::Esp => ESP,
            Protocol::Ah => AH,
        }
    }

    fn fragment_last(
        &self,
        way: Way<'_>,
        (headers, outer): (usize, &Outer<'_>),
        random: &mut Stream,
        out: &mut Datagrams,
    ) -> Result<usize, DropReason> {
        let mtu = way.path_mtu.into();
        let cut = if self.shape.is_outer_v6 {
            let named_at = match self.shape.mode {
                Mode::Tunnel => 6,
                Mode::Transport => outer.protocol_at,
            };
            out.fragment_last_v6(mtu, (headers, named_at), random.u32())
        } else {
            out.fragment_last(mtu)
        };
        cut.map_err(|_refused| DropReason::TooBig)
    }

    fn headers_before(&self, outer: &Outer<'_>) -> usize {
        match self.shape.mode {
            _ if self.shape.is_udp_encapsulated => 0,
            Mode::Tunnel => self.shape.ip_header_bytes(),
            Mode::Transport => outer.header.len(),
        }
    }

    /// The outer IP header of a raw path.
    fn write_header(
        &self,
        header: &mut [u8],
        way: Way<'_>,
        outer: &Outer<'_>,
        (length, dont_fragment): (usize, bool),
        random: &mut Stream,
    ) {
        let protocol = self.protocol();
        let (local, remote) = (way.path.local.ip(), way.path.remote.ip());
        if self.shape.mode == Mode::Tunnel {
            // AH covers the identification, and a sender of whole packets must not leave it 0.
            let id = (random.u32() as u16).max(1);
            let flags = if dont_fragment { DONT_FRAGMENT } else { 0 };
            write_ip_header(
                header,
                (local, remote),
                protocol,
                outer.traffic_class,
                (id, flags),
            );
        } else {
            header.copy_from_slice(outer.header);
            header[outer.protocol_at] = protocol;
            put_destination(header, remote);
            if remote.is_ipv4() && !dont_fragment {
                header[6] &= !((DONT_FRAGMENT >> 8) as u8);
            }
            if remote.is_ipv4() && header[4..6] == [0, 0] {
                put16(header, 4, (random.u32() as u16).max(1));
            }
        }
        finish_ip_header(header, length);
    }
}

pub(super) fn last_sequence(has_esn: bool) -> u64 {
    match has_esn {
        true => u64::MAX,
        false => u32::MAX.into(),
    }
}

/// Rewrites the destination of an IP header.
fn put_destination(header: &mut [u8], destination: IpAddr) {
    match destination {
        IpAddr::V4(v4) => header[16..20].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => header[24..40].copy_from_slice(&v6.octets()),
    }
}
