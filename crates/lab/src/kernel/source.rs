//! Sources and sinks of plain packets.

use std::rc::Rc;

use engine::link::Chance;
use engine::time::{Duration, Instant};

use super::Target;
use super::random::Random;
use crate::time::nanoseconds;

/// Intervals between packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gaps {
    /// Always the same.
    Constant(Duration),
    /// Exponential with this mean: Poisson arrivals.
    Exponential(Duration),
    /// Sessions of packet calls. All spans are exponential.
    Calls {
        /// Between the packets of a call, on average.
        pace: Duration,
        /// In a call, on average; geometric.
        packets: f64,
        /// In a session, on average; geometric.
        calls: f64,
        /// Between the calls of a session, on average.
        reading: Duration,
        /// Between sessions, on average.
        idle: Duration,
    },
}

/// Sizes of packets.
#[derive(Clone, Debug, PartialEq)]
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
    /// Sizes in octets, each with the share of all packets up to here in the list.
    Table(Rc<[(f64, u32)]>),
}

impl Sizes {
    /// Their mean, in octets.
    pub fn mean_bytes(&self) -> f64 {
        match self {
            Self::Fixed(bytes) => f64::from(*bytes),
            // The smallest, and above it the integral of the share of larger ones.
            Self::Pareto {
                shape,
                smallest,
                most,
            } => {
                let ratio = most / smallest;
                let above = match (shape - 1.0).abs() < 1e-9 {
                    true => libm::log(ratio),
                    false => (libm::pow(ratio, 1.0 - shape) - 1.0) / (1.0 - shape),
                };
                smallest * (1.0 + above)
            }
            Self::Table(table) => {
                let mut below = 0.0;
                let each = table.iter().map(|(upto, bytes)| {
                    let share = upto - below;
                    below = *upto;
                    share * f64::from(*bytes)
                });
                each.sum()
            }
        }
    }
}

/// The datagrams of a flow: an iterator.
#[derive(Clone)]
pub struct Departures {
    spans: Spans,
    sizes: Sizes,
    random: Random,
    /// The least and the most.
    bounds: (u32, u32),
    next: Duration,
    limit: Duration,
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Departure time, from the start of its flow.
    pub at: Duration,
    /// Octets of its IP packet before limits.
    pub asked_bytes: u32,
    /// Octets of its IP packet.
    pub bytes: u32,
}

/// The smallest datagram: IP and UDP headers, and a time stamp of eight octets.
pub const fn least_bytes(is_v6: bool) -> u32 {
    if is_v6 { 56 } else { 36 }
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

impl Departures {
    /// Datagrams from time 0 to `limit`, whose sizes are cut to `bounds`. `seed` and `stream` name
    /// what is random about them.
    pub fn new(
        (gaps, sizes): (Gaps, Sizes),
        bounds: (u32, u32),
        limit: Duration,
        (seed, stream): (u64, u64),
    ) -> Self {
        Self {
            spans: Spans::new(gaps, seed, stream),
            sizes,
            random: Random::new(seed, "sizes", stream),
            bounds,
            next: Duration::ZERO,
            limit,
        }
    }

    /// When the next one leaves; none: the flow is over.
    pub fn next_at(&self) -> Option<Duration> {
        (self.next <= self.limit).then_some(self.next)
    }
}

impl Iterator for Departures {
    type Item = Departure;

    fn next(&mut self) -> Option<Departure> {
        let at = self.next_at()?;
        let asked_bytes = self.sizes.draw(&mut self.random);
        self.next += self.spans.draw();
        Some(Departure {
            at,
            asked_bytes,
            bytes: asked_bytes.min(self.bounds.1).max(self.bounds.0),
        })
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
            Gaps::Exponential(mean) => self.exponential(mean),
            Gaps::Calls {
                pace,
                packets,
                calls,
                reading,
                idle,
            } => {
                let (unit, ends) = (self.random.unit(), 1.0 / packets);
                let mean = match unit {
                    _ if unit < ends / calls => idle,
                    _ if unit < ends => reading,
                    _ => pace,
                };
                self.exponential(mean)
            }
        }
    }

    fn exponential(&mut self, mean: Duration) -> Duration {
        let seconds = mean.as_nanos() as f64 * 1e-9;
        Duration::from_nanos(nanoseconds(seconds * self.random.exponential()))
    }
}

impl Sizes {
    /// Whole octets.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u32 {
        match *self {
            Self::Fixed(bytes) => bytes,
            Self::Table(ref table) => {
                let unit = random.unit();
                let at = table.partition_point(|(share, _)| *share <= unit);
                table
                    .get(at)
                    .or(table.last())
                    .map_or(0, |(_, bytes)| *bytes)
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn departures(gaps: Gaps, sizes: Sizes, limit_s: u64) -> Vec<Departure> {
        let limit = Duration::from_secs(limit_s);
        Departures::new((gaps, sizes), (least_bytes(false), 1_400), limit, (7, 3)).collect()
    }

    #[test]
    fn packet_calls_come_at_their_mean_rate_and_leave_the_gaps_that_they_are_told() {
        let ms = Duration::from_millis;
        let gaps = Gaps::Calls {
            pace: ms(10),
            packets: 20.0,
            calls: 5.0,
            reading: ms(1_000),
            idle: ms(4_000),
        };
        let all = departures(gaps, Sizes::Fixed(500), 40_000);
        // of twenty gaps one ends a call, of five of these one a session
        let mean_s = 0.95 * 0.01 + 0.05 * (0.8 * 1.0 + 0.2 * 4.0);
        let rate = all.len() as f64 / 40_000.0 * mean_s;
        assert!((rate - 1.0).abs() < 0.03, "{rate}");
        let long = all
            .windows(2)
            .filter(|pair| pair[1].at - pair[0].at > ms(100));
        let share = long.count() as f64 / all.len() as f64;
        assert!((share - 0.05).abs() < 0.01, "{share}");
    }

    #[test]
    fn sizes_of_a_table_come_as_often_as_it_says() {
        let table = Sizes::Table(Rc::from([(0.25, 40), (0.75, 600), (1.0, 9_000)]));
        let gaps = Gaps::Constant(Duration::from_millis(1));
        let all = departures(gaps, table, 40);
        assert_eq!(all.len(), 40_001);
        for (bytes, asked, wanted) in [(40, 40, 0.25), (600, 600, 0.5), (1_400, 9_000, 0.25)] {
            let alike = all
                .iter()
                .filter(|one| (one.bytes, one.asked_bytes) == (bytes, asked));
            let share = alike.count() as f64 / all.len() as f64;
            assert!((share - wanted).abs() < 0.01, "{bytes}: {share}");
        }
        let tiny = departures(gaps, Sizes::Fixed(20), 0);
        assert_eq!(tiny[0].bytes, 36);
    }
}
