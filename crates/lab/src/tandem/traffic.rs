//! When packets come and how large they are.
//!
//! The packet-call model and the truncated Pareto sizes are those of UMTS 30.03 (TR 101 112),
//! web browsing, as paper U uses them. Left out: captures, which [`super::capture`] reads, and
//! the moments of sizes, which are in [`super::closed`].

use super::random::Stream;
use super::{BYTES_MAX, PACKETS_MAX, Run, Tandem, TandemFault};

/// Entries of an empirical size distribution.
pub const SHARES_MAX: usize = 65_536;

/// The traffic of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// When packets come.
    pub arrivals: Arrivals,
    /// How large they are.
    pub sizes: Sizes,
    /// Clear bits per second: the mean rate of Poisson and constant arrivals, the rate inside a
    /// packet call, or the rate at which a closed-loop source makes packets.
    pub rate: f64,
}

/// When packets come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// At independent times, at the traffic's rate.
    Poisson,
    /// Equally spaced, at the traffic's rate.
    Constant,
    /// Sessions of bursts: [`PacketCall::WEB`].
    PacketCall(PacketCall),
    /// The next packets wait for earlier ones: [`ClosedLoop::SERIAL`], [`ClosedLoop::WEB`].
    ClosedLoop(ClosedLoop),
}

/// UMTS 30.03 packet calls: geometric numbers, exponential times.
///
/// Inside a call packets follow each other after a mean of `8 E[S] / rate` seconds. At the rates of
/// UMTS 30.03 and mean packets of 480 bytes, this gives its table of spacings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketCall {
    /// Mean packet calls in a session.
    pub calls: f64,
    /// Mean seconds of reading between the calls of a session.
    pub reading_s: f64,
    /// Mean packets in a call.
    pub packets: f64,
    /// Mean seconds between sessions. In UMTS 30.03 sessions of many users arrive; for one station
    /// this value is our own.
    pub idle_s: f64,
}

impl PacketCall {
    /// The web browsing of UMTS 30.03; between sessions as long as between calls.
    pub const WEB: Self = Self {
        calls: 5.0,
        reading_s: 412.0,
        packets: 25.0,
        idle_s: 412.0,
    };
}

/// A source that asks, gets an answer of some packets, and asks again once the last has passed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedLoop {
    /// The queue, from 0, whose departure allows the next question; `None` for the last queue.
    pub after: Option<usize>,
    /// Mean packets of an answer, geometric; 1 means always one.
    pub packets: f64,
    /// Mean seconds of thinking before the next question, exponential.
    pub think_s: f64,
    /// Seconds that the question takes to reach the server.
    pub ask_s: f64,
    /// What determines the times between the packets of an answer, including before the first.
    pub pace: Pace,
}

/// What determines the times between packets in a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Exponential times with mean `8 E[S] / rate`.
    Exponential,
    /// The time for each packet is its own `8 S / rate`.
    Making,
}

impl ClosedLoop {
    /// Paper W's serial source: a packet is made, then protected by the first queue, and only
    /// then is the next one made.
    pub const SERIAL: Self = Self {
        after: Some(0),
        packets: 1.0,
        think_s: 0.0,
        ask_s: 0.0,
        pace: Pace::Making,
    };
    /// Paper U's station that asks a server: packet calls of UMTS 30.03, each requested separately.
    pub const WEB: Self = Self {
        after: None,
        packets: 25.0,
        think_s: 412.0,
        ask_s: 0.0,
        pace: Pace::Exponential,
    };
}

/// Clear bytes of packets, IP header included.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All alike.
    Fixed(f64),
    /// `min(P, largest)` with P Pareto; sizes are real numbers, and only ceilings round them.
    Pareto {
        /// Exponent of the tail.
        shape: f64,
        /// Bytes of the smallest packet.
        smallest: f64,
        /// Bytes of the largest packet.
        largest: f64,
    },
    /// Sizes with frequencies by weight.
    Empirical(Vec<Share>),
}

/// One size of an empirical distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Clear bytes.
    pub bytes: f64,
    /// Its frequency relative to the other weights.
    pub weight: f64,
}

/// A packet of a list or a capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    /// Seconds since the beginning; a packet earlier than the one before counts as simultaneous
    /// with it.
    pub at_s: f64,
    /// Clear bytes.
    pub bytes: f64,
}

impl Sizes {
    /// The sizes of paper U: Pareto of exponent 1.1 from 81.5 to 66,666 bytes.
    pub const PAPER_U: Self = Self::Pareto {
        shape: 1.1,
        smallest: 81.5,
        largest: 66_666.0,
    };

    /// Bytes of the smallest packet.
    pub fn smallest(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Pareto { smallest, .. } => *smallest,
            Self::Empirical(shares) => shares.iter().map(|s| s.bytes).fold(BYTES_MAX, f64::min),
        }
    }

    /// Refuses sizes outside 1 byte to [`BYTES_MAX`] and weights without meaning.
    pub fn check(&self) -> Result<(), TandemFault> {
        let size = |place: &str, bytes: f64| {
            if (1.0..=BYTES_MAX).contains(&bytes) {
                return Ok(());
            }
            Err(TandemFault::number(place, bytes, "1 to 1,048,576 bytes"))
        };
        match self {
            Self::Fixed(bytes) => size("the packet size", *bytes),
            Self::Pareto {
                shape,
                smallest,
                largest,
            } => {
                if !(*shape >= 0.1 && *shape <= 100.0) {
                    return Err(TandemFault::number(
                        "the Pareto shape",
                        *shape,
                        "0.1 to 100",
                    ));
                }
                size("the smallest packet", *smallest)?;
                size("the largest packet", *largest)?;
                if largest < smallest {
                    let range = "at least the smallest packet";
                    return Err(TandemFault::number("the largest packet", *largest, range));
                }
                Ok(())
            }
            Self::Empirical(shares) => {
                if shares.is_empty() || shares.len() > SHARES_MAX {
                    return Err(TandemFault::Count {
                        place: "the list of sizes".into(),
                        count: shares.len(),
                        limit: SHARES_MAX,
                    });
                }
                for share in shares {
                    size("a packet size", share.bytes)?;
                    if !(share.weight > 0.0 && share.weight <= 1e12) {
                        return Err(TandemFault::number(
                            "a weight",
                            share.weight,
                            "above 0, to 1e12",
                        ));
                    }
                }
                Ok(())
            }
        }
    }
}

impl Traffic {
    /// Refuses numbers outside their range.
    pub fn check(&self) -> Result<(), TandemFault> {
        self.sizes.check()?;
        if !(self.rate > 0.0 && self.rate <= 1e13) {
            return Err(TandemFault::number(
                "the traffic's rate",
                self.rate,
                "above 0, to 1e13 bit/s",
            ));
        }
        let mean = |place: &str, value: f64| {
            if (1.0..=1e9).contains(&value) {
                return Ok(());
            }
            Err(TandemFault::number(place, value, "1 to 1e9"))
        };
        let seconds = |place: &str, value: f64| {
            if (0.0..=super::SECONDS_MAX).contains(&value) {
                return Ok(());
            }
            Err(TandemFault::number(place, value, "0 to ten years"))
        };
        match &self.arrivals {
            Arrivals::Poisson | Arrivals::Constant => Ok(()),
            Arrivals::PacketCall(call) => {
                mean("calls in a session", call.calls)?;
                mean("packets in a call", call.packets)?;
                seconds("the reading time", call.reading_s)?;
                seconds("the time between sessions", call.idle_s)
            }
            Arrivals::ClosedLoop(own) => {
                mean("packets of an answer", own.packets)?;
                seconds("the thinking time", own.think_s)?;
                seconds("the time of asking", own.ask_s)
            }
        }
    }

    /// Refuses a queue that does not exist, and runs without end.
    pub(super) fn check_against(&self, tandems: &[Tandem], run: &Run) -> Result<(), TandemFault> {
        if let Arrivals::ClosedLoop(ClosedLoop {
            after: Some(queue), ..
        }) = self.arrivals
        {
            for tandem in tandems {
                if queue >= tandem.queues.len() {
                    return Err(TandemFault::NoQueue {
                        policy: tandem.policy.clone(),
                        queue,
                        count: tandem.queues.len(),
                    });
                }
            }
        }
        let packets = self.most_packets_per_s() * run.seconds;
        if packets > PACKETS_MAX {
            let range = "at most 1e11: shorten the run or lower the rate";
            return Err(TandemFault::number(
                "packets of one replication",
                packets,
                range,
            ));
        }
        Ok(())
    }

    /// Mean packets per second; `None` if they depend on the queues.
    pub fn packets_per_s(&self) -> Option<f64> {
        match self.arrivals {
            Arrivals::Poisson | Arrivals::Constant => Some(self.pace_per_s()),
            Arrivals::PacketCall(call) => {
                let (end, last) = (1.0 / call.packets, 1.0 / call.calls);
                let between = (1.0 - last) * call.reading_s + last * call.idle_s;
                Some(1.0 / ((1.0 - end) / self.pace_per_s() + end * between))
            }
            Arrivals::ClosedLoop(_) => None,
        }
    }

    /// Mean packets per second, or if they depend on the queues an upper bound: a closed loop
    /// makes packets no faster than its rate.
    pub fn most_packets_per_s(&self) -> f64 {
        self.packets_per_s().unwrap_or_else(|| self.pace_per_s())
    }

    /// Packets per second at the traffic's rate.
    pub(super) fn pace_per_s(&self) -> f64 {
        self.rate / (8.0 * self.sizes.mean())
    }
}

/// Converts uniform numbers into sizes, in `f64`.
pub(super) enum Draw {
    Fixed(f64),
    Pareto {
        power: f64,
        smallest: f64,
        largest: f64,
    },
    Empirical(Table),
}

impl Draw {
    pub(super) fn new(sizes: &Sizes) -> Self {
        match sizes {
            Sizes::Fixed(bytes) => Self::Fixed(*bytes),
            Sizes::Pareto {
                shape,
                smallest,
                largest,
            } => Self::Pareto {
                power: -1.0 / shape,
                smallest: *smallest,
                largest: *largest,
            },
            Sizes::Empirical(shares) => Self::Empirical(Table::new(shares)),
        }
    }

    /// The size; one number of the stream is used for every distribution.
    pub(super) fn bytes(&self, stream: &mut Stream) -> f64 {
        let uniform = stream.uniform();
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Pareto {
                power,
                smallest,
                largest,
            } => largest.min(smallest * libm::pow(f64::from(uniform), *power)),
            Self::Empirical(table) => f64::from(table.at(uniform)),
        }
    }
}

/// An empirical distribution: sizes with the share that lies at or below each.
pub(super) struct Table {
    below: Vec<f32>,
    bytes: Vec<f32>,
}

impl Table {
    pub(super) fn new(shares: &[Share]) -> Self {
        let total: f64 = shares.iter().map(|share| share.weight).sum();
        let mut sum = 0.0;
        let below = shares.iter().map(|share| {
            sum += share.weight;
            (sum / total) as f32
        });
        Self {
            below: below.collect(),
            bytes: shares.iter().map(|share| share.bytes as f32).collect(),
        }
    }

    pub(super) fn at(&self, uniform: f32) -> f32 {
        let index = self.below.partition_point(|&below| below < uniform);
        self.bytes[index.min(self.bytes.len() - 1)]
    }
}
