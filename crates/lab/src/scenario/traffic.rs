//! What applications send.

use std::net::IpAddr;

use serde::Serialize;

use document::{Fault, Item, Table};

use super::quantity;
use crate::tandem::capture::Wanted;

/// What applications send, and in which direction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// The direction of the packets that are counted.
    pub direction: Direction,
    /// When they are sent.
    pub model: Model,
    /// The sizes of their clear IP packets; a capture and TCP have their own.
    pub sizes: Option<Sizes>,
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the station to the server.
    Up,
    /// From the server to the station.
    Down,
}

/// When packets are sent. Rates are of clear IP packets, in bits per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Model {
    /// Packets at independent times.
    Poisson {
        /// Mean bits per second.
        rate_bps: f64,
    },
    /// Packets at equal distances.
    Constant {
        /// Mean bits per second.
        rate_bps: f64,
    },
    /// Web browsing as in TR 101 112: sessions of packet calls of datagrams.
    PacketCall {
        /// Mean bits per second inside a packet call.
        rate_bps: f64,
        /// Packet calls per session, on average.
        calls: f64,
        /// Seconds between packet calls, on average.
        reading_s: f64,
        /// Packets per call, on average.
        packets: f64,
        /// Seconds between sessions, on average.
        idle_s: f64,
    },
    /// A source that waits until its packets have passed before it makes more.
    ClosedLoop {
        /// Bits per second at which packets are made.
        rate_bps: f64,
        /// The point that packets must have passed.
        after: After,
        /// Packets between two waits, on average, geometric; 1 means always one.
        packets: f64,
        /// Seconds of thinking before the next packets, on average.
        think_s: f64,
        /// How packets follow each other.
        pace: Pace,
    },
    /// A recording, replayed packet by packet.
    Pcap {
        /// The file.
        file: String,
        /// The host whose packets count: those that it sends, or with [`Direction::Down`] receives.
        /// None: all.
        #[serde(skip_serializing_if = "Option::is_none")]
        station: Option<IpAddr>,
    },
    /// One transfer by TCP, for the levels that run TCP.
    Tcp {
        /// Bytes to transfer.
        bytes: u64,
    },
}

/// The point that the packets of a closed loop must have passed before more are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum After {
    /// The first processor.
    Processor,
    /// The first link.
    Link,
    /// The whole path.
    #[serde(rename = "road")]
    Path,
}

/// How the packets of a closed loop follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pace {
    /// The time for each is its own size divided by the rate.
    Making,
    /// The times are exponential with that mean.
    Exponential,
}

/// The sizes of clear IP packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Sizes {
    /// All packets have the same size.
    Fixed {
        /// The size of each.
        bytes: f64,
    },
    /// `min(P, largest)` with P Pareto: larger values are cut to the limit.
    Pareto {
        /// Exponent of the tail.
        shape: f64,
        /// Smallest size in bytes.
        smallest_bytes: f64,
        /// Largest size in bytes.
        largest_bytes: f64,
    },
    /// Sizes with their frequencies.
    Empirical {
        /// Pairs of bytes and weight.
        points: Vec<(f64, f64)>,
    },
}

#[derive(Clone, Copy)]
enum Word {
    Poisson,
    Constant,
    PacketCall,
    ClosedLoop,
    Pcap,
    Tcp,
}

const MODELS: [(&str, Word); 6] = [
    ("poisson", Word::Poisson),
    ("constant", Word::Constant),
    ("packet-call", Word::PacketCall),
    ("closed-loop", Word::ClosedLoop),
    ("pcap", Word::Pcap),
    ("tcp", Word::Tcp),
];

const AFTER: [(&str, After); 3] = [
    ("processor", After::Processor),
    ("link", After::Link),
    ("road", After::Path),
];

const PACES: [(&str, Pace); 2] = [("making", Pace::Making), ("exponential", Pace::Exponential)];

const DIRECTIONS: [(&str, Direction); 2] = [("up", Direction::Up), ("down", Direction::Down)];

/// The smallest packet: an IP header.
const PACKET_BYTES_MIN: f64 = 20.0;
/// The largest packet. The papers go beyond the length of real IP packets, to 66,666 bytes.
const PACKET_BYTES_MAX: f64 = 1e6;
/// The longest table of sizes; longer ones should be captures.
const POINTS_MAX: usize = 4096;
/// The largest weight of one size.
const WEIGHT_MAX: f64 = 1e12;
/// The largest transfer, 64 GB.
const TRANSFER_BYTES_MAX: f64 = 64e9;
/// The largest counts of calls and packets.
const COUNT_MAX: f64 = 1e9;

impl Traffic {
    /// The traffic of a chain, which states its own direction.
    pub(super) fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let direction = table.or("direction", Direction::Up, |item| {
            item.choice("direction", &DIRECTIONS)
        })?;
        let traffic = Self::of(&table, direction)?;
        table.finish()?;
        Ok(traffic)
    }

    /// The traffic keys of a table that also has other keys.
    pub(super) fn of(table: &Table<'_>, direction: Direction) -> Result<Self, Fault> {
        let word = table.need("model")?.choice("model", &MODELS)?;
        let model = Model::read(table, word)?;
        let sizes = match word {
            Word::Pcap | Word::Tcp => {
                table.refuse("sizes", "this model has its own sizes")?;
                table.refuse("rate", "this model has its own rate")?;
                None
            }
            _ => Some(Sizes::read(table.need("sizes")?)?),
        };
        Ok(Self {
            direction,
            model,
            sizes,
        })
    }

    /// Which packets of a capture count.
    pub const fn wanted(&self) -> Wanted {
        match (&self.model, self.direction) {
            (
                Model::Pcap {
                    station: Some(own), ..
                },
                Direction::Up,
            ) => Wanted::From(*own),
            (
                Model::Pcap {
                    station: Some(own), ..
                },
                Direction::Down,
            ) => Wanted::To(*own),
            _ => Wanted::All,
        }
    }
}

impl Model {
    fn read(table: &Table<'_>, word: Word) -> Result<Self, Fault> {
        let rate = || table.need("rate")?.quantity(quantity::rate);
        let time = |item: &Item| item.quantity(quantity::time);
        let count = |item: &Item| item.number(1.0, COUNT_MAX);
        Ok(match word {
            Word::Poisson => Self::Poisson { rate_bps: rate()? },
            Word::Constant => Self::Constant { rate_bps: rate()? },
            // The defaults are TR 101 112's web browsing; sessions are as far apart as calls.
            Word::PacketCall => Self::PacketCall {
                rate_bps: rate()?,
                calls: table.or("calls", 5.0, count)?,
                reading_s: table.or("reading", 412.0, time)?,
                packets: table.or("packets", 25.0, count)?,
                idle_s: table.or("idle", 412.0, time)?,
            },
            // The default is one packet after the other.
            Word::ClosedLoop => Self::ClosedLoop {
                rate_bps: rate()?,
                after: table.or("after", After::Processor, |item| {
                    item.choice("place", &AFTER)
                })?,
                packets: table.or("packets", 1.0, count)?,
                think_s: table.or("think", 0.0, time)?,
                pace: table.or("pace", Pace::Making, |item| item.choice("pace", &PACES))?,
            },
            Word::Pcap => Self::Pcap {
                file: table.need("file")?.text()?.to_owned(),
                station: table.or("station", None, |item| {
                    let text = item.text()?;
                    let address = text.parse();
                    let what = format!("'{text}' is not an IP address, such as 192.0.2.1");
                    address.map(Some).map_err(|_| item.fault(what))
                })?,
            },
            Word::Tcp => {
                let item = table.need("bytes")?;
                let bytes = item.quantity(quantity::size)?;
                if !(1.0..=TRANSFER_BYTES_MAX).contains(&bytes) {
                    return Err(item.fault("must be 1 B to 64 GB"));
                }
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "in range"
                )]
                let bytes = bytes as u64;
                Self::Tcp { bytes }
            }
        })
    }

    /// The mean rate in the file, for models that have one.
    pub const fn rate_bps(&self) -> Option<f64> {
        match self {
            Self::Poisson { rate_bps }
            | Self::Constant { rate_bps }
            | Self::PacketCall { rate_bps, .. }
            | Self::ClosedLoop { rate_bps, .. } => Some(*rate_bps),
            Self::Pcap { .. } | Self::Tcp { .. } => None,
        }
    }
}

impl Sizes {
    fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let words = [("fixed", 0), ("pareto", 1), ("empirical", 2)];
        let sizes = match table.need("model")?.choice("model", &words)? {
            0 => Self::Fixed {
                bytes: bytes(table.need("bytes")?)?,
            },
            1 => {
                let largest = table.need("largest")?;
                let (smallest_bytes, largest_bytes) =
                    (bytes(table.need("smallest")?)?, bytes(largest)?);
                if smallest_bytes >= largest_bytes {
                    let what = "the largest size must be above the smallest";
                    return Err(table.fault_of(&["largest", "smallest"], what));
                }
                Self::Pareto {
                    shape: table.need("shape")?.number(0.1, 100.0)?,
                    smallest_bytes,
                    largest_bytes,
                }
            }
            _ => Self::Empirical {
                points: points(table.need("points")?)?,
            },
        };
        table.finish()?;
        Ok(sizes)
    }
}

fn bytes(item: &Item) -> Result<f64, Fault> {
    let bytes = item.quantity(quantity::size)?;
    check_packet(item, bytes)
}

fn check_packet(item: &Item, bytes: f64) -> Result<f64, Fault> {
    match (PACKET_BYTES_MIN..=PACKET_BYTES_MAX).contains(&bytes) {
        true => Ok(bytes),
        false => Err(item.fault(format!(
            "{bytes} bytes is not the size of an IP packet: {PACKET_BYTES_MIN} to \
             {PACKET_BYTES_MAX}"
        ))),
    }
}

/// `[[bytes, weight], ...]`
fn points(item: &Item) -> Result<Vec<(f64, f64)>, Fault> {
    let list = item.list()?;
    if list.is_empty() || list.len() > POINTS_MAX {
        return Err(item.fault(format!("must have 1 to {POINTS_MAX} sizes")));
    }
    let mut points = Vec::new();
    for pair in list {
        let [bytes, weight] = pair.list()? else {
            return Err(pair.fault("must be a pair of bytes and weight"));
        };
        let bytes = check_packet(bytes, bytes.number(0.0, f64::MAX)?)?;
        let share = weight.number(0.0, WEIGHT_MAX)?;
        if share <= 0.0 {
            return Err(weight.fault("a weight must be above zero"));
        }
        points.push((bytes, share));
    }
    Ok(points)
}
