//! Reassembly of fragments (RFC 791 §3.2, RFC 8200 §4.5; a list of parts instead of RFC 815's list
//! of holes). Transport mode needs it, because it protects whole packets (RFC 4303 §3.3.4). So do
//! hosts and NATs in the lab, because they read ports.
//!
//! Overlapping fragments end their packet (RFC 5722 §4; here for IPv4 too). Packets, parts and time
//! have limits. Left out: timers and ICMP "reassembly time exceeded". Old packets are removed when
//! the next fragment comes.

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::ip::ipv6::FRAGMENT_LEN;
use wire::ip::protocol::FRAGMENT;
use wire::ip::{Ipv4, Ipv6};

use crate::plane::inner::put16;
use crate::plane::sealer::finish_ip_header;
use crate::time::{Duration, Instant};

/// Most incomplete packets; the oldest is dropped.
pub const MAX_PACKETS: usize = 64;
/// How long a packet may stay incomplete: Linux's `ipfrag_time`.
pub const LIFETIME: Duration = Duration::from_secs(30);
/// Most fragments of a packet: 64 KiB in parts of the smallest MTU.
const MAX_PARTS: usize = 1400;
/// The longest packet of either version that is made.
const MAX_PACKET_BYTES: usize = u16::MAX as usize;

/// Addresses, protocol (IPv4 only) and identification.
type Key = (IpAddr, IpAddr, u8, u32);

/// Incomplete packets.
#[derive(Default)]
pub struct Reassembly {
    packets: BTreeMap<Key, Parts>,
}

/// What became of a packet.
#[derive(Debug, PartialEq, Eq)]
pub struct Taken {
    /// The packet itself if it is not a fragment, or the packet that it completes.
    pub whole: Option<Vec<u8>>,
    /// Packets that were given up: too old, too many, contradictory.
    pub given_up: u64,
}

/// One fragment, taken apart.
struct Fragment<'a> {
    key: Key,
    /// The IP header and IPv6's extensions before the fragment header, as in the whole packet,
    /// except length and checksum.
    header: Vec<u8>,
    offset: usize,
    has_more: bool,
    payload: &'a [u8],
}

struct Parts {
    since: Instant,
    header: Vec<u8>,
    /// By offset.
    parts: BTreeMap<usize, Vec<u8>>,
    whole_bytes: Option<usize>,
}

impl Reassembly {
    /// Takes a packet.
    pub fn take(&mut self, packet: Vec<u8>, now: Instant) -> Taken {
        let Some(fragment) = Fragment::of(&packet) else {
            return Taken {
                whole: Some(packet),
                given_up: 0,
            };
        };
        let given_up = self.make_room(now, &fragment.key);
        let key = fragment.key;
        let entry = self.packets.entry(key).or_insert_with(|| Parts {
            since: now,
            header: Vec::new(),
            parts: BTreeMap::new(),
            whole_bytes: None,
        });
        if !entry.add(fragment) {
            self.packets.remove(&key);
            return Taken {
                whole: None,
                given_up: given_up + 1,
            };
        }
        let whole = entry.whole();
        if whole.is_some() {
            self.packets.remove(&key);
        }
        Taken { whole, given_up }
    }

    /// Makes room for this packet. Returns how many were given up for it.
    fn make_room(&mut self, now: Instant, coming: &Key) -> u64 {
        let before = self.packets.len();
        self.packets
            .retain(|_, parts| now.since(parts.since) < LIFETIME);
        if self.packets.len() >= MAX_PACKETS && !self.packets.contains_key(coming) {
            let oldest = self.packets.iter().min_by_key(|entry| entry.1.since);
            if let Some(key) = oldest.map(|entry| *entry.0) {
                self.packets.remove(&key);
            }
        }
        (before - self.packets.len()) as u64
    }
}

impl<'a> Fragment<'a> {
    /// `None`: not a fragment, or not a packet.
    fn of(packet: &'a [u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_v4(packet),
            _ => Self::of_v6(packet),
        }
    }

    fn of_v4(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv4::new(packet).ok().filter(Ipv4::is_fragment)?;
        let (offset, has_more) = (ip.fragment_offset(), ip.has_more_fragments());
        let length = ip.header_len();
        let mut header = ip.header().to_vec();
        put16(&mut header, 6, 0);
        Some(Self {
            key: (
                ip.source().into(),
                ip.destination().into(),
                ip.protocol(),
                ip.id().into(),
            ),
            header,
            offset,
            has_more,
            payload: &packet[length..ip.total_len()],
        })
    }

    fn of_v6(packet: &'a [u8]) -> Option<Self> {
        let ip = Ipv6::new(packet).ok()?;
        let mut named_at = 6;
        for extension in ip.extensions() {
            let extension = extension.ok()?;
            if extension.kind != FRAGMENT {
                named_at = extension.offset;
                continue;
            }
            let what = ip.upper().ok()?.fragment?;
            let mut header = packet[..extension.offset].to_vec();
            header[named_at] = packet[extension.offset];
            // RFC 6946 §4: offset 0 and no more to come is a whole packet
            return (what.has_more || what.offset != 0).then(|| Self {
                key: (ip.source().into(), ip.destination().into(), 0, what.id),
                header,
                offset: what.offset,
                has_more: what.has_more,
                payload: &packet[extension.offset + FRAGMENT_LEN..ip.total_len()],
            });
        }
        None
    }
}

impl Parts {
    /// Whether the fragment fits the others.
    fn add(&mut self, fragment: Fragment<'_>) -> bool {
        let (start, payload) = (fragment.offset, fragment.payload);
        let end = start + payload.len();
        let before = self.parts.range(..end).next_back();
        let overlaps = before.is_some_and(|(at, part)| at + part.len() > start);
        if overlaps || self.parts.len() >= MAX_PARTS || payload.is_empty() {
            return false;
        }
        if !fragment.has_more && self.whole_bytes.replace(end).is_some() {
            return false;
        }
        if start == 0 {
            self.header = fragment.header;
        }
        self.parts.insert(start, payload.to_vec());
        true
    }

    fn whole(&self) -> Option<Vec<u8>> {
        let whole_bytes = self.whole_bytes?;
        let header_bytes = self.header.len();
        let mut packet = self.header.clone();
        for (start, part) in &self.parts {
            if packet.len() != header_bytes + start || header_bytes == 0 {
                return None;
            }
            packet.extend_from_slice(part);
        }
        let length = packet.len();
        if length != header_bytes + whole_bytes || length > MAX_PACKET_BYTES {
            return None;
        }
        finish_ip_header(&mut packet[..header_bytes], length);
        Some(packet)
    }
}

#[cfg(test)]
mod tests;
