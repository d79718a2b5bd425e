//! Sources and sinks of plain packets.

use engine::link::Chance;
use engine::time::{Duration, Instant};

use super::Target;
use super::cpu::nanoseconds;
use super::random::Random;

/// Intervals between packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// Always the same.
    Constant(Duration),
    /// Exponential with this mean: Poisson arrivals.
    Exponential(Duration),
}

/// Sizes of packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// Always the same.
    Fixed(u32),
    /// The smaller of a Pareto number and `most`, rounded up to whole octets.
    Pareto {
        /// Of the distribution.
        shape: f64,
        /// In octets.
        smallest: f64,
        /// In octets.
        most: f64,
    },
}

/// A source of plain packets.
pub struct Source {
    spans: Spans,
    sizes: Sizes,
    flow: u32,
    until: Instant,
    pub(super) to: Target,
    random: Random,
}

/// A stream of intervals.
#[derive(Clone)]
pub struct Spans {
    gaps: Gaps,
    random: Random,
}

/// Counts the packets that end here.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sink {
    /// Packets.
    pub packets: u64,
    /// Their octets on arrival.
    pub bytes: u64,
    /// Their clear octets.
    pub clear_bytes: u64,
    /// Packets that arrived after a younger one.
    pub reordered: u64,
    delay_ns: u128,
    newest: Instant,
    /// The longest time from creation to arrival.
    pub longest: Duration,
    starts: Instant,
}

impl Source {
    /// Packets of one flow from time 0 until `until`.
    pub fn new(gaps: Gaps, sizes: Sizes, flow: u32, until: Instant, to: Target, seed: u64) -> Self {
        let random = Random::new(seed, "sizes", flow.into());
        Self {
            spans: Spans {
                gaps,
                random: Random::new(seed, "gaps", flow.into()),
            },
            sizes,
            flow,
            until,
            to,
            random,
        }
    }

    /// The interval until the next packet.
    #[inline]
    pub(super) fn gap(&mut self) -> Duration {
        self.spans.draw()
    }

    /// The size of the next packet.
    #[inline]
    pub(super) fn size(&mut self) -> u32 {
        self.sizes.draw(&mut self.random)
    }

    pub(super) fn flow(&self) -> u32 {
        self.flow
    }

    /// Whether the source still sends at this time.
    pub(super) fn is_on(&self, at: Instant) -> bool {
        at <= self.until
    }
}

impl Spans {
    /// A stream of intervals, by its number.
    pub fn new(gaps: Gaps, seed: u64, stream: u64) -> Self {
        Self {
            gaps,
            random: Random::new(seed, "gaps", stream),
        }
    }

    /// The next interval.
    #[inline]
    pub fn draw(&mut self) -> Duration {
        match self.gaps {
            Gaps::Constant(gap) => gap,
            Gaps::Exponential(mean) => {
                let seconds = mean.as_nanos() as f64 * 1e-9;
                Duration::from_nanos(nanoseconds(seconds * self.random.exponential()))
            }
        }
    }
}

impl Sizes {
    /// Whole octets.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        match *self {
            Self::Fixed(bytes) => bytes,
            Self::Pareto {
                shape,
                smallest,
                most,
            } => libm::ceil(random.pareto(shape, smallest).min(most)) as u32,
        }
    }
}

impl Sink {
    /// Counts from `starts` on.
    pub fn from(starts: Instant) -> Self {
        Self {
            starts,
            ..Self::default()
        }
    }

    /// The mean time from creation to arrival, in seconds; NaN without packets.
    pub fn mean_delay_s(&self) -> f64 {
        self.delay_ns as f64 / self.packets as f64 * 1e-9
    }

    #[inline]
    pub(super) fn take(&mut self, packet: &super::packets::Packet, now: Instant) {
        if now < self.starts {
            return;
        }
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.clear_bytes += u64::from(packet.clear);
        let delay = now.since(packet.born);
        self.delay_ns += delay.as_nanos();
        self.longest = self.longest.max(delay);
        if packet.born < self.newest {
            self.reordered += 1;
        }
        self.newest = self.newest.max(packet.born);
    }
}
