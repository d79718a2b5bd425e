//! The results of one run of a chain, under the same names as in the other two levels.

use engine::counters::DropReason;
use engine::time::{Duration, Instant};
use serde::Serialize;

use super::seconds;
use crate::kernel::host::stack::{Datagrams, Discarded, Pings, Transfer};
use crate::kernel::host::{Log, Message};
use crate::kernel::{Element, ip};

/// The results of a run. Serialized, it is the JSON of the level `simulate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// The key exchange. None if packets are sent in clear.
    pub exchange: Option<Exchange>,
    /// Pairs of the length of a clear IP packet and of the IP packet that carries it to the
    /// gateway, in octets.
    pub wire_bytes: Vec<(u32, u32)>,
    /// The result of pings.
    pub round_trips: Option<RoundTrips>,
    /// The result of a TCP transfer.
    pub transferred: Option<Transferred>,
    /// The result of a datagram flow.
    pub streamed: Option<Streamed>,
    /// Dropped packets, by element and reason.
    pub drops: Vec<Drops>,
    /// The first operation of a processor that has no price. It took no simulated time.
    pub unpriced: Option<String>,
    /// Total simulated time.
    pub simulated_s: f64,
    /// Total number of events.
    pub events: u64,
    /// SHA-256 of the event trace.
    pub fingerprint: String,
}

/// A key exchange as the station saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Exchange {
    /// Whether both ends have the tunnel.
    pub is_up: bool,
    /// From the first message to the last, as the testbed measures it.
    pub handshake_s: Option<f64>,
    /// The IP packets of all messages, in octets.
    pub wire_bytes: u64,
    /// The messages.
    pub messages: Vec<Row>,
    /// Why the exchange failed, if it did.
    pub failures: Vec<String>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The name of the message, such as "aggressive 1" or "quick 2".
    pub what: String,
    /// Whether the station sent it.
    pub is_sent: bool,
    /// Time since the first message left.
    pub at_s: f64,
    /// UDP payload octets.
    pub bytes: u64,
    /// How many datagrams.
    pub datagrams: u64,
    /// The IP packets of these datagrams, in octets.
    pub wire_bytes: u64,
    /// The operations of key exchanges that the station did before it sent this message, or when it
    /// had received it, by their names in profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub work: Vec<String>,
    /// The same of the gateway. Nothing of a message that did not arrive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub peer_work: Vec<String>,
}

/// The result of pings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RoundTrips {
    /// How many.
    pub sent: usize,
    /// How many came back.
    pub received: usize,
    /// The shortest round trip.
    pub min_s: f64,
    /// The mean round trip.
    pub mean_s: f64,
    /// The longest round trip.
    pub max_s: f64,
}

/// The result of a TCP transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Transferred {
    /// Octets to transfer.
    pub bytes: u64,
    /// Octets that arrived.
    pub received_bytes: u64,
    /// From the beginning of the connection to the last octet, without the handshake of TLS.
    pub seconds: f64,
    /// Octets that arrived divided by that time, in bits per second.
    pub throughput_bps: f64,
    /// Whether all octets arrived within the time limit.
    pub is_complete: bool,
    /// Until the client was connected: a round trip of two small packets.
    pub connected_s: Option<f64>,
    /// Until TLS was set up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secured_s: Option<f64>,
    /// How often the sender's timer ended.
    pub timeouts: u64,
}

/// The result of a datagram flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Streamed {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Mean delay of those that arrived.
    pub mean_delay_s: f64,
    /// Bits per second of clear IP packets that arrived.
    pub throughput_bps: f64,
    /// How many packets of the model are larger than a real packet can be.
    pub cut: Cut,
}

/// Packets of the model that were shortened to what a datagram can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cut {
    /// The largest clear IP packet.
    pub limit_bytes: u32,
    /// Packets that were shortened.
    pub packets: u64,
    /// Mean size in the model.
    pub asked_mean_bytes: f64,
    /// Mean size that was sent.
    pub sent_mean_bytes: f64,
}

/// Packets dropped.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drops {
    /// Name of the element.
    pub place: String,
    /// Why.
    pub reason: &'static str,
    /// How many.
    pub packets: u64,
}

impl Exchange {
    /// What a station's log has, beside the log of its gateway.
    pub(super) fn new((log, gateways): (&Log, &Log), is_up: bool, is_v6: bool) -> Self {
        let mut others: Vec<&Message> = gateways.messages.iter().collect();
        let headers_bytes = ip::overhead_bytes(is_v6) as u64;
        let begin = log.messages.first().map_or(Instant(0), |first| first.at);
        let rows = log.messages.iter().map(|message| Row {
            what: message.step.to_string(),
            is_sent: message.is_sent,
            at_s: seconds(begin, message.at),
            bytes: message.bytes as u64,
            datagrams: message.datagrams as u64,
            wire_bytes: message.bytes as u64 + headers_bytes * message.datagrams as u64,
            work: message.work.clone(),
            peer_work: work_of_other(message, &mut others),
        });
        let messages: Vec<Row> = rows.collect();
        Self {
            is_up,
            handshake_s: messages.last().filter(|_| is_up).map(|last| last.at_s),
            wire_bytes: messages.iter().map(|row| row.wire_bytes).sum(),
            messages,
            failures: log.failures.clone(),
        }
    }
}

/// What the other end did for a message: its log has it, too. Those of other stations with equal
/// messages cost it the same.
fn work_of_other(message: &Message, others: &mut Vec<&Message>) -> Vec<String> {
    let is_it = |other: &&Message| {
        (other.step, other.bytes) == (message.step, message.bytes)
            && other.is_sent != message.is_sent
    };
    let place = others.iter().position(is_it);
    place.map_or_else(Vec::new, |place| others.remove(place).work.clone())
}

impl RoundTrips {
    pub(super) fn of(pings: Option<&Pings>) -> Self {
        let Some(pings) = pings else {
            return Self::default();
        };
        let spans: Vec<f64> = pings
            .round_trips
            .iter()
            .map(Duration::as_secs_f64)
            .collect();
        if spans.is_empty() {
            return Self {
                sent: pings.sent(),
                ..Self::default()
            };
        }
        Self {
            sent: pings.sent(),
            received: spans.len(),
            min_s: spans.iter().copied().fold(f64::INFINITY, f64::min),
            mean_s: spans.iter().sum::<f64>() / spans.len() as f64,
            max_s: spans.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl Transferred {
    pub(super) fn of(
        transfer: Option<Transfer>,
        bytes: u64,
        start: Instant,
        limit: Instant,
    ) -> Self {
        let received_bytes = transfer.map_or(0, |one| one.octets);
        let is_complete = received_bytes >= bytes;
        let end = match transfer {
            Some(one) if is_complete => one.last,
            _ => limit,
        };
        let seconds = seconds(start, end);
        Self {
            bytes,
            received_bytes,
            seconds,
            throughput_bps: received_bytes as f64 * 8.0 / seconds,
            is_complete,
            connected_s: None,
            secured_s: None,
            timeouts: 0,
        }
    }
}

impl Streamed {
    pub(super) fn of(
        sent: Option<&Datagrams>,
        came: Option<&Discarded>,
        span: Duration,
        limit_bytes: u32,
    ) -> Self {
        let sent = sent.map(|one| one.cut).unwrap_or_default();
        let came = came.cloned().unwrap_or_default();
        let mean = |sum: f64, count: u64| if count > 0 { sum / count as f64 } else { 0.0 };
        Self {
            sent: sent.packets,
            received: came.packets,
            mean_delay_s: mean(came.delay_ns as f64 * 1e-9, came.packets),
            throughput_bps: came.bytes as f64 * 8.0 / span.as_secs_f64(),
            cut: Cut {
                limit_bytes,
                packets: sent.cut_packets,
                asked_mean_bytes: mean(sent.asked_bytes as f64, sent.packets),
                sent_mean_bytes: mean(sent.sent_bytes as f64, sent.packets),
            },
        }
    }
}

/// The packets that an element dropped, without reasons whose count is 0.
pub(super) fn drops(place: &str, element: &Element) -> Vec<Drops> {
    let counts: Vec<(&'static str, u64)> = match element {
        Element::Link(link, _) => {
            let counts = link.counters();
            vec![
                ("lost", counts.lost),
                ("queue-full", counts.overflowed),
                ("too-big", counts.too_big),
                ("link-down", counts.down),
            ]
        }
        Element::Nat(router) => {
            let counts = router.nat.counters();
            vec![
                ("no-mapping", counts.unknown),
                ("no-port", counts.exhausted),
                ("malformed", counts.malformed),
            ]
        }
        Element::Fork(fork) => {
            vec![
                ("no-route", fork.unrouted),
                ("foreign-source", fork.foreign),
            ]
        }
        Element::AccessPoint(point) => vec![
            ("no-station", point.unrouted),
            ("not-let-in", point.refused),
        ],
        Element::Host(host) => {
            let own = host.dropped();
            let mut counts = vec![
                ("processor-queue-full", own.queue_full),
                ("malformed", own.malformed),
                ("in-clear", own.clear),
                ("nobody", own.nobody),
                ("not-let-in", own.shut),
            ];
            if let Some(drops) = host.part.drops() {
                let reasons = DropReason::ALL.into_iter();
                counts.extend(reasons.map(|reason| (reason.name(), drops.of(reason))));
            }
            counts
        }
        Element::Cpu(_) | Element::Source(_) | Element::Sink(_) => Vec::new(),
    };
    let counted = counts.into_iter().filter(|(_, packets)| *packets > 0);
    counted
        .map(|(reason, packets)| Drops {
            place: place.to_owned(),
            reason,
            packets,
        })
        .collect()
}
