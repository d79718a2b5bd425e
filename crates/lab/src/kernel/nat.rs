//! An operator's NAT, which works like the testbed's Linux: masquerades sources by address and port
//! (RFC 4787's address and port dependent filtering), with mappings from a port range that are
//! forgotten when idle, or all at once.
//!
//! It maps TCP, UDP and ICMP echo. Other protocols get the outer address and no return path. Plain
//! packets pass unchanged. Left out: hairpinning, and ICMP errors.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use engine::time::{Duration, Instant};
use wire::ip::checksum::{AddressChange, ChecksumState, checksum_offset, update};
use wire::ip::{Flow, Ipv4, protocol};

/// Most mappings at the same time.
pub const MAX_MAPPINGS: usize = 65_536;
/// Linux's `nf_conntrack_udp_timeout`.
pub const UDP_TIMEOUT: Duration = Duration::from_secs(30);
/// Linux's `nf_conntrack_udp_timeout_stream`, once both sides have sent.
pub const UDP_STREAM_TIMEOUT: Duration = Duration::from_secs(120);
/// Linux's `nf_conntrack_tcp_timeout_established`.
const TCP_TIMEOUT: Duration = Duration::from_secs(432_000);
/// Linux's `nf_conntrack_icmp_timeout`.
const ICMP_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum time between searches of a full table for idle mappings.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// The configuration of a NAT.
#[derive(Clone, Debug)]
pub struct NatConfig {
    /// The outer address.
    pub address: Ipv4Addr,
    /// Mappings use the first range; each rebinding uses the next.
    pub port_ranges: Vec<(u16, u16)>,
    /// A UDP mapping is forgotten after this time.
    pub udp_timeout: Duration,
    /// The same once both sides have sent.
    pub udp_stream_timeout: Duration,
}

/// Counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent out with another source.
    pub outward: u64,
    /// Packets let in.
    pub inward: u64,
    /// Packets without a mapping, or for a forgotten one.
    pub unknown: u64,
    /// Found no free port.
    pub exhausted: u64,
    /// Unreadable packets, and those whose fragments did not all come.
    pub malformed: u64,
}

/// A NAT and its mappings.
pub struct Nat {
    config: NatConfig,
    binding: usize,
    mappings: BTreeMap<Inside, Mapping>,
    by_outside: BTreeMap<Outside, Inside>,
    next_port: u16,
    /// When the full table was last searched for idle mappings.
    swept: Option<Instant>,
    counters: Counters,
}

/// Protocol, inner address and port, the other end.
type Inside = (u8, (Ipv4Addr, u16), (Ipv4Addr, u16));
/// Protocol, our port, the other end.
type Outside = (u8, u16, (Ipv4Addr, u16));

struct Mapping {
    port: u16,
    last: Instant,
    is_answered: bool,
}

impl Default for NatConfig {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::new(192, 0, 2, 2),
            port_ranges: vec![(20_000, 29_999), (30_000, 39_999)],
            udp_timeout: UDP_TIMEOUT,
            udp_stream_timeout: UDP_STREAM_TIMEOUT,
        }
    }
}

impl NatConfig {
    /// Why this NAT is impossible; `None` if it is not.
    pub fn fault(&self) -> Option<String> {
        let bad = self.port_ranges.iter().find(|(low, high)| low > high);
        match bad {
            Some((low, high)) => Some(format!("the port range {low} to {high} is empty")),
            None if self.port_ranges.is_empty() => Some("a NAT needs at least one port".into()),
            None => None,
        }
    }
}

impl Nat {
    /// Without mappings.
    pub fn new(config: NatConfig) -> Self {
        let mut nat = Self {
            config,
            binding: 0,
            mappings: BTreeMap::new(),
            by_outside: BTreeMap::new(),
            next_port: 0,
            swept: None,
            counters: Counters::default(),
        };
        nat.next_port = nat.range().0;
        nat
    }

    /// The configuration.
    pub fn config(&self) -> &NatConfig {
        &self.config
    }

    /// Counts so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The number of mappings, perhaps including forgotten ones.
    pub fn mappings(&self) -> usize {
        self.mappings.len()
    }

    /// Forgets every mapping and uses other ports.
    pub fn rebind(&mut self) {
        self.binding += 1;
        self.mappings.clear();
        self.by_outside.clear();
        self.next_port = self.range().0;
    }

    /// So many packets were given up before all of their fragments had come.
    pub(super) fn count_incomplete(&mut self, packets: u64) {
        self.counters.malformed += packets;
    }

    /// Translates a whole packet from inside. Returns whether it goes out.
    pub fn outward(&mut self, packet: &mut [u8], now: Instant) -> bool {
        let Some((flow, source, destination)) = read(packet) else {
            self.counters.malformed += 1;
            return false;
        };
        let outer = self.config.address;
        let Some((inner_port, there_port)) = ports(packet, &flow, ECHO_REQUEST) else {
            rewrite(packet, &flow, (outer, destination), None);
            self.counters.outward += 1;
            return true;
        };
        let inside = (
            flow.protocol,
            (source, inner_port),
            (destination, there_port),
        );
        let Some(port) = self.map(inside, now) else {
            self.counters.exhausted += 1;
            return false;
        };
        rewrite(packet, &flow, (outer, destination), Some((true, port)));
        self.counters.outward += 1;
        true
    }

    /// Translates a whole packet from outside. Returns whether it goes in.
    pub fn inward(&mut self, packet: &mut [u8], now: Instant) -> bool {
        let Some((flow, source, destination)) = read(packet) else {
            self.counters.malformed += 1;
            return false;
        };
        let known = ports(packet, &flow, ECHO_REPLY)
            .filter(|_| destination == self.config.address)
            .and_then(|(there, ours)| {
                let there = if flow.protocol == protocol::ICMP {
                    0
                } else {
                    there
                };
                let outside = (flow.protocol, ours, (source, there));
                self.by_outside.get(&outside).copied()
            });
        let Some(inside) = known.filter(|inside| !self.is_forgotten(inside, now)) else {
            self.counters.unknown += 1;
            return false;
        };
        if let Some(mapping) = self.mappings.get_mut(&inside) {
            (mapping.last, mapping.is_answered) = (now, true);
        }
        let (address, port) = inside.1;
        rewrite(packet, &flow, (source, address), Some((false, port)));
        self.counters.inward += 1;
        true
    }

    fn map(&mut self, inside: Inside, now: Instant) -> Option<u16> {
        if self.is_forgotten(&inside, now) {
            self.forget(&inside);
        }
        if let Some(mapping) = self.mappings.get_mut(&inside) {
            mapping.last = now;
            return Some(mapping.port);
        }
        let is_sweep_due = self.swept.is_none_or(|at| now.since(at) >= SWEEP_INTERVAL);
        if self.mappings.len() >= MAX_MAPPINGS && is_sweep_due {
            self.swept = Some(now);
            self.forget_idle(now);
        }
        if self.mappings.len() >= MAX_MAPPINGS {
            return None;
        }
        let port = self.free_port(inside, now)?;
        let outside = (inside.0, port, inside.2);
        let mapping = Mapping {
            port,
            last: now,
            is_answered: false,
        };
        self.mappings.insert(inside, mapping);
        self.by_outside.insert(outside, inside);
        Some(port)
    }

    fn free_port(&mut self, inside: Inside, now: Instant) -> Option<u16> {
        let (low, high) = self.range();
        for _ in low..=high {
            let port = self.next_port;
            self.next_port = if port >= high { low } else { port + 1 };
            let holder = self.by_outside.get(&(inside.0, port, inside.2)).copied();
            match holder {
                Some(holder) if !self.is_forgotten(&holder, now) => {}
                Some(holder) => {
                    self.forget(&holder);
                    return Some(port);
                }
                None => return Some(port),
            }
        }
        None
    }

    fn range(&self) -> (u16, u16) {
        let ranges = &self.config.port_ranges;
        let index = self.binding % ranges.len().max(1);
        ranges.get(index).copied().unwrap_or((1024, u16::MAX))
    }

    fn is_forgotten(&self, inside: &Inside, now: Instant) -> bool {
        let timeout = |mapping: &Mapping| match inside.0 {
            protocol::UDP if mapping.is_answered => self.config.udp_stream_timeout,
            protocol::UDP => self.config.udp_timeout,
            protocol::ICMP => ICMP_TIMEOUT,
            _ => TCP_TIMEOUT,
        };
        let mapping = self.mappings.get(inside);
        mapping.is_some_and(|mapping| now.since(mapping.last) >= timeout(mapping))
    }

    fn forget(&mut self, inside: &Inside) {
        if let Some(mapping) = self.mappings.remove(inside) {
            let outside = (inside.0, mapping.port, inside.2);
            self.by_outside.remove(&outside);
        }
    }

    fn forget_idle(&mut self, now: Instant) {
        let all: Vec<Inside> = self.mappings.keys().copied().collect();
        for inside in all {
            if self.is_forgotten(&inside, now) {
                self.forget(&inside);
            }
        }
    }
}

fn read(packet: &[u8]) -> Option<(Flow, Ipv4Addr, Ipv4Addr)> {
    let flow = Flow::of(packet).ok()?;
    match (flow.source, flow.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Some((flow, source, destination)),
        _ => None,
    }
}

/// Source and destination port. For ICMP echo, its identifier in place of our side's port.
fn ports(packet: &[u8], flow: &Flow, echo: u8) -> Option<(u16, u16)> {
    if flow.protocol != protocol::ICMP {
        return flow.ports;
    }
    let icmp = packet.get(flow.transport..flow.total_len)?;
    if icmp.len() < 8 || icmp[0] != echo {
        return None;
    }
    let identifier = u16::from_be_bytes([icmp[4], icmp[5]]);
    Some(if echo == ECHO_REQUEST {
        (identifier, 0)
    } else {
        (0, identifier)
    })
}

/// Rewrites the addresses of an IPv4 packet, and a port: the source's (`true`) or the
/// destination's. Updates checksums.
pub(super) fn rewrite(
    packet: &mut [u8],
    flow: &Flow,
    (source, destination): (Ipv4Addr, Ipv4Addr),
    port: Option<(bool, u16)>,
) {
    let new = (IpAddr::V4(source), IpAddr::V4(destination));
    let change = AddressChange::new((flow.source, flow.destination), new);
    if let Ok(mut ip) = Ipv4::new(&mut *packet) {
        ip.set_source(source);
        ip.set_destination(destination);
        ip.fill_checksum();
    }
    let transport = &mut packet[flow.transport..flow.total_len];
    change.repair(flow.protocol, transport, ChecksumState::Full);
    let Some((is_source, port)) = port else {
        return;
    };
    let (at, sum_at) = match flow.protocol {
        protocol::ICMP => (4, Some(2)),
        other => (if is_source { 0 } else { 2 }, checksum_offset(other)),
    };
    let old = u16::from_be_bytes([transport[at], transport[at + 1]]);
    transport[at..at + 2].copy_from_slice(&port.to_be_bytes());
    let Some(sum_at) = sum_at.filter(|sum_at| sum_at + 2 <= transport.len()) else {
        return;
    };
    let sum = u16::from_be_bytes([transport[sum_at], transport[sum_at + 1]]);
    if flow.protocol == protocol::UDP && sum == 0 {
        return;
    }
    let sum = update(sum, old, port);
    transport[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
}

#[cfg(test)]
mod tests;
