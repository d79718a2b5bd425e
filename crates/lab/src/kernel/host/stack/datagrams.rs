//! Flows of datagrams: what their sender makes, and what their receiver counts.

use std::net::IpAddr;

use engine::time::Instant;
use wire::ip::Flow;

use crate::kernel::ip;
use crate::kernel::source::Departures;

/// Octets of the time in the payload.
const STAMP_BYTES: usize = 8;
/// Octets of the datagram's number after its time, if there is room.
const NUMBER_BYTES: usize = 8;
/// Recorded gaps in the numbers of a flow; later ones are not reported.
const GAPS_MAX: usize = 1000;

/// The configuration of a datagram flow.
pub struct Sending {
    /// The other end.
    pub to: IpAddr,
    /// Source and destination port, different for each flow.
    pub port: u16,
    /// Times after `begins`, and sizes.
    pub departures: Departures,
    /// When the flow begins.
    pub begins: Instant,
}

/// A running datagram flow to one address.
pub struct Datagrams {
    pub(super) sending: Sending,
    /// Requested and sent sizes.
    pub cut: Cut,
}

/// The effect of cutting sizes to the limit of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// IP packets sent.
    pub packets: u64,
    /// Cut packets.
    pub cut_packets: u64,
    /// Requested octets.
    pub asked_bytes: u64,
    /// Octets sent.
    pub sent_bytes: u64,
}

/// Datagrams received at one port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// How many.
    pub packets: u64,
    /// IP packets' octets.
    pub bytes: u64,
    /// Sum of their delays.
    pub delay_ns: u128,
    /// When the first arrived.
    pub first: Option<Instant>,
    /// When the last arrived.
    pub last: Option<Instant>,
    /// Ranges of received numbers, first and last, up to `GAPS_MAX` ranges. Excludes datagrams that
    /// are too small for a number.
    pub numbers: Vec<(u64, u64)>,
}

impl Sending {
    /// When the next datagram is to leave; none: the flow is over.
    pub(super) fn due(&self) -> Option<Instant> {
        let after = self.departures.next_at()?;
        Some(self.begins + after)
    }
}

impl Datagrams {
    /// The payload of the next one: its creation time, its number from 0, and zeros.
    pub(super) fn payload(&mut self) -> Vec<u8> {
        let Some(departure) = self.sending.departures.next() else {
            return Vec::new();
        };
        let number = self.cut.packets;
        self.cut.count(departure.asked_bytes, departure.bytes);
        let overhead = ip::overhead_bytes(self.sending.to.is_ipv6());
        let mut payload = vec![
            0;
            (departure.bytes as usize)
                .saturating_sub(overhead)
                .max(STAMP_BYTES)
        ];
        let born = self.sending.begins + departure.at;
        payload[..STAMP_BYTES].copy_from_slice(&born.0.to_be_bytes());
        if let Some(place) = payload.get_mut(STAMP_BYTES..STAMP_BYTES + NUMBER_BYTES) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        payload
    }
}

impl Cut {
    fn count(&mut self, asked: u32, sent: u32) {
        self.packets += 1;
        self.cut_packets += u64::from(sent < asked);
        self.asked_bytes += u64::from(asked);
        self.sent_bytes += u64::from(sent);
    }
}

impl Discarded {
    pub(super) fn take(&mut self, octets: &[u8], flow: &Flow, now: Instant) {
        self.packets += 1;
        self.bytes += flow.total_len as u64;
        self.first = self.first.or(Some(now));
        self.last = Some(now);
        let start = flow.transport + wire::ip::udp::HEADER_LEN;
        if let Some(stamp) = octets[start..].first_chunk::<STAMP_BYTES>() {
            let sent = Instant(u64::from_be_bytes(*stamp));
            self.delay_ns += now.since(sent).as_nanos();
        }
        let number = octets[start..].get(STAMP_BYTES..STAMP_BYTES + NUMBER_BYTES);
        if let Some(number) = number.and_then(<[u8]>::first_chunk) {
            self.number(u64::from_be_bytes(*number));
        }
    }

    /// Extends a range; a late number gets a range of its own.
    fn number(&mut self, number: u64) {
        let runs = self.numbers.len();
        match self.numbers.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ if runs < GAPS_MAX => self.numbers.push((number, number)),
            _ => {}
        }
    }
}
