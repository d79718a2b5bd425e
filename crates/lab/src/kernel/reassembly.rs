//! IPv4 fragments put together again (RFC 791 §3.2, RFC 815's list of holes done as a list of
//! parts), at hosts and at NATs, which read ports.
//!
//! Fragments that overlap end their packet (as RFC 5722 says for IPv6). Bounded in packets and in
//! time. Left out: IPv6.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use engine::time::{Duration, Instant};
use wire::ip::Ipv4;

/// Most packets in the making; the oldest goes.
pub const MAX_PACKETS: usize = 64;
/// How long one may be in the making: Linux's `ipfrag_time`.
pub const LIFETIME: Duration = Duration::from_secs(30);
/// Most fragments of a packet: 64 KiB in parts of the smallest MTU's.
const MAX_PARTS: usize = 1400;

type Key = (Ipv4Addr, Ipv4Addr, u8, u16);

/// Packets in the making.
#[derive(Default)]
pub struct Reassembly {
    packets: BTreeMap<Key, Parts>,
    /// Given up: too old, too many, contradictory.
    pub dropped: u64,
}

struct Parts {
    since: Instant,
    header: Vec<u8>,
    /// By offset.
    parts: BTreeMap<usize, Vec<u8>>,
    whole_bytes: Option<usize>,
}

impl Reassembly {
    /// Takes a packet: gives it back when it is whole, or what it completes.
    pub fn take(&mut self, packet: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        let Ok(ip) = Ipv4::new(&packet[..]) else {
            return Some(packet);
        };
        if !ip.is_fragment() {
            return Some(packet);
        }
        let key = (ip.source(), ip.destination(), ip.protocol(), ip.id());
        self.make_room(now);
        let entry = self.packets.entry(key).or_insert_with(|| Parts {
            since: now,
            header: Vec::new(),
            parts: BTreeMap::new(),
            whole_bytes: None,
        });
        if !entry.add(&ip) {
            self.packets.remove(&key);
            self.dropped += 1;
            return None;
        }
        let whole = entry.whole()?;
        self.packets.remove(&key);
        Some(whole)
    }

    fn make_room(&mut self, now: Instant) {
        let before = self.packets.len();
        self.packets
            .retain(|_, parts| now.since(parts.since) < LIFETIME);
        if self.packets.len() >= MAX_PACKETS {
            let oldest = self.packets.iter().min_by_key(|entry| entry.1.since);
            if let Some(key) = oldest.map(|entry| *entry.0) {
                self.packets.remove(&key);
            }
        }
        self.dropped += (before - self.packets.len()) as u64;
    }
}

impl Parts {
    /// Whether the fragment goes with the others.
    fn add(&mut self, ip: &Ipv4<&[u8]>) -> bool {
        let (start, payload) = (ip.fragment_offset(), ip.payload());
        let end = start + payload.len();
        let before = self.parts.range(..end).next_back();
        let overlaps = before.is_some_and(|(at, part)| at + part.len() > start);
        if overlaps || self.parts.len() >= MAX_PARTS || payload.is_empty() {
            return false;
        }
        if !ip.has_more_fragments() && self.whole_bytes.replace(end).is_some() {
            return false;
        }
        if start == 0 {
            self.header = ip.header().to_vec();
        }
        self.parts.insert(start, payload.to_vec());
        true
    }

    fn whole(&self) -> Option<Vec<u8>> {
        let whole_bytes = self.whole_bytes?;
        let mut packet = self.header.clone();
        for (start, part) in &self.parts {
            if packet.len() != self.header.len() + start || self.header.is_empty() {
                return None;
            }
            packet.extend_from_slice(part);
        }
        let length = packet.len();
        if length != self.header.len() + whole_bytes || length > usize::from(u16::MAX) {
            return None;
        }
        let mut ip = Ipv4::new(&mut packet[..]).ok()?;
        ip.set_fragment(0, false);
        packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        Ipv4::new(&mut packet[..]).ok()?.fill_checksum();
        Some(packet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::Random;
    use wire::ip::fragment::Fragments;
    use wire::ip::ipv4::Header;

    fn packet(length: usize, id: u16) -> Vec<u8> {
        let mut packet: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let header = Header {
            tos: 0,
            id,
            dont_fragment: false,
            ttl: 64,
            protocol: 17,
            source: Ipv4Addr::new(10, 0, 0, 1),
            destination: Ipv4Addr::new(10, 0, 0, 2),
        };
        header.write(&mut packet);
        packet
    }

    fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
        let mut fragments = Fragments::new(packet, mtu).expect("may be cut");
        let mut scratch = vec![0; packet.len()];
        let mut all = Vec::new();
        while let Some(length) = fragments.write_next(&mut scratch) {
            all.push(scratch[..length].to_vec());
        }
        all
    }

    #[test]
    fn fragments_in_any_order_make_the_packet() {
        let mut random = Random::new(1, "order", 0);
        for (length, mtu) in [(2000, 1500), (65_535, 1500), (500, 68), (1500, 1500)] {
            let whole = packet(length, 7);
            let mut parts = cut(&whole, mtu);
            for at in (1..parts.len()).rev() {
                parts.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut reassembly = Reassembly::default();
            let (last, others) = parts.split_last().expect("a fragment");
            for part in others {
                assert_eq!(reassembly.take(part.clone(), Instant(0)), None);
            }
            assert_eq!(reassembly.take(last.clone(), Instant(0)), Some(whole));
            assert!(reassembly.packets.is_empty());
        }
    }

    #[test]
    fn overlaps_age_and_numbers_end_what_is_in_the_making() {
        let mut reassembly = Reassembly::default();
        let parts = cut(&packet(3000, 1), 1500);
        reassembly.take(parts[0].clone(), Instant(0));
        assert_eq!(reassembly.take(parts[0].clone(), Instant(0)), None);
        assert_eq!(reassembly.dropped, 1);
        for id in 0..200 {
            let first = cut(&packet(3000, id), 1500)[0].clone();
            reassembly.take(first, Instant(0));
        }
        assert!(reassembly.packets.len() <= MAX_PACKETS);
        let first = cut(&packet(3000, 999), 1500)[0].clone();
        reassembly.take(first, Instant(0) + LIFETIME);
        assert_eq!(reassembly.packets.len(), 1);
    }
}
