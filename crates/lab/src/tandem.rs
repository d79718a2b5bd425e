//! First in, first out stations in series, streamed without an event heap.
//!
//! The departure of a packet from station i is `D_i = max(D_i, D_(i-1)) + s_i`, which is exact for
//! queues in tandem with infinite buffers. Kept here relative to the packet's own arrival, so that
//! nothing grows with simulated time: `R_i = max(R_i - gap, R_(i-1)) + s_i`.
//!
//! - [`traffic`]: when packets come and how large they are.
//! - [`capture`]: the same from a packet capture.
//! - [`closed`]: what queueing theory says without simulating.
//! - [`tally`], [`outcome`], [`histogram`]: what replications saw, and what it means.
//!
//! [`simulate`] gives every policy the same packets (common random numbers) and every replication
//! its own stream named by seed, purpose and index, so that replications may be computed anywhere,
//! in any order and number, and merged. Open models run as SIMD lanes, one replication a lane, in
//! `f32` with sums in `f64`; only operations that IEEE 754 defines exactly are used, so that every
//! instruction set gives the same bits. Traffic that waits for its own packets, and captures, run
//! one packet at a time in `f64`.
//!
//! Left out: loss, finite buffers and priorities (the event kernel has them), threads (the caller
//! spreads replications), handshakes.

pub mod capture;
pub mod closed;
pub mod histogram;
mod instructions;
mod lanes;
pub mod outcome;
mod plan;
mod random;
mod rows;
mod sample;
mod state;
pub mod tally;
pub mod traffic;
mod walk;

use crate::staircase::Staircase;
pub use instructions::Instructions;
pub use outcome::Outcome;
pub use state::State;
pub use tally::Tally;
pub use traffic::{Arrivals, Packet, Sizes, Traffic};

/// Stations of one road.
pub const STATIONS_MAX: usize = 64;
/// Roads that share one stream of packets.
pub const ROADS_MAX: usize = 256;
/// Replications of one call.
pub const REPLICATIONS_MAX: u32 = 1 << 20;
/// Index of a call's first replication.
pub const FIRST_REPLICATION_MAX: u64 = 1 << 62;
/// Packets expected of one question, all replications together, and so of one of them: minutes on
/// a core with AVX-512.
pub const PACKETS_MAX: f64 = 1e11;
/// The longest simulated time: ten years.
pub const SECONDS_MAX: f64 = 315_360_000.0;
/// The longest service of a packet of [`BYTES_MAX`], in seconds.
pub const SERVICE_S_MAX: f64 = 1e12;
/// Clear bytes of the largest packet, and of offsets and widths of blocks.
pub const BYTES_MAX: f64 = 1_048_576.0;

/// A first in, first out server that keeps each packet for its service time.
#[derive(Clone, Debug, PartialEq)]
pub struct Station {
    /// What results call it.
    pub name: String,
    /// Seconds that a packet of so many clear bytes occupies it.
    pub service: Staircase,
}

/// What one policy makes of the road: its stations in order, and the size of protected packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Road {
    /// What results call it.
    pub policy: String,
    /// In the order in which packets meet them.
    pub stations: Vec<Station>,
    /// Bytes that a packet of so many clear bytes has once protected.
    pub protected: Staircase,
}

/// How long, how often and with which randomness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Simulated seconds, warm-up included.
    pub seconds: f64,
    /// Seconds at the beginning that count for nothing.
    pub warm_up: f64,
    /// Independent replications.
    pub replications: u32,
    /// The same seed gives the same packets.
    pub seed: u64,
    /// Index of the first replication; the others follow it.
    pub first_replication: u64,
}

/// Why a simulation or a closed form cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    /// A number is outside what its place allows.
    #[error("{place} is {value}, it must be {range}")]
    Number {
        /// Which number.
        place: String,
        /// What was given.
        value: f64,
        /// What would do.
        range: &'static str,
    },
    /// A list is empty or longer than its limit.
    #[error("{place} has {count} entries, it must have 1 to {limit}")]
    Count {
        /// Which list.
        place: String,
        /// How many were given.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// Closed-loop traffic waits for a station that is not there.
    #[error("the traffic waits for station {station}, {policy} has {count}")]
    NoStation {
        /// The road.
        policy: String,
        /// Which station, from 0.
        station: usize,
        /// How many it has.
        count: usize,
    },
    /// The capture holds nothing that could be simulated.
    #[error("no packet came: {0}")]
    NoPackets(&'static str),
    /// The packets of a list come together, so that they have no rate.
    #[error(
        "no rate can be told: {0} packet(s), all at one moment; a capture of more than one moment \
         is wanted"
    )]
    OneMoment(u64),
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] capture::Fault),
    /// Tallies of different runs cannot be merged.
    #[error("these results do not belong together: {0}")]
    Mismatch(String),
    /// A tally's text is damaged.
    #[error("not a tally: {0}")]
    NotATally(String),
}

impl Fault {
    fn number(place: impl Into<String>, value: f64, range: &'static str) -> Self {
        Self::Number {
            place: place.into(),
            value,
            range,
        }
    }
}

/// Sends the same packets down every road and counts, one tally a road.
///
/// Replication `n` draws from streams named by `run.seed` and `n` alone: any split of
/// replications over calls gives the same results once merged.
pub fn simulate(roads: &[Road], traffic: &Traffic, run: &Run) -> Result<Vec<Tally>, Fault> {
    let available = Instructions::available();
    let widest = available.last().copied().unwrap_or(Instructions::Scalar);
    simulate_with(widest, roads, traffic, run)
}

/// [`simulate`] with chosen instructions: for measuring, the results are the same.
pub fn simulate_with(
    instructions: Instructions,
    roads: &[Road],
    traffic: &Traffic,
    run: &Run,
) -> Result<Vec<Tally>, Fault> {
    run.check()?;
    traffic.check()?;
    check_roads(roads, traffic.sizes.smallest())?;
    traffic.check_against(roads, run)?;
    Ok(match traffic.arrivals {
        Arrivals::ClosedLoop(_) => walk::simulate(roads, traffic, run),
        _ => instructions.perform(rows::Job {
            roads,
            traffic,
            run,
        }),
    })
}

/// Sends the packets of a capture, or of any other list, down every road, one tally a road.
///
/// There is one replication, without an interval of confidence. It ends at `seconds` or with the
/// last packet, whichever comes first; `warm_up` as in [`Run`].
pub fn replay<P>(
    roads: &[Road],
    packets: P,
    seconds: Option<f64>,
    warm_up: f64,
) -> Result<Vec<Tally>, Fault>
where
    P: IntoIterator<Item = Result<Packet, Fault>>,
{
    check_roads(roads, 1.0)?;
    let run = Run {
        seconds: seconds.unwrap_or(SECONDS_MAX),
        warm_up,
        replications: 1,
        seed: 0,
        first_replication: 0,
    };
    run.check()?;
    walk::replay(roads, packets, &run)
}

impl Run {
    /// Seconds of a service that lie between the warm-up and the end.
    fn overlap(&self, from: f64, to: f64) -> f64 {
        (to.min(self.seconds) - from.max(self.warm_up)).max(0.0)
    }

    fn check(&self) -> Result<(), Fault> {
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            let range = "above 0 and at most ten years";
            return Err(Fault::number("simulated seconds", self.seconds, range));
        }
        if !(self.warm_up >= 0.0 && self.warm_up < self.seconds) {
            let range = "at least 0 and below the simulated seconds";
            return Err(Fault::number("warm-up seconds", self.warm_up, range));
        }
        if self.replications == 0 || self.replications > REPLICATIONS_MAX {
            let value = f64::from(self.replications);
            return Err(Fault::number("replications", value, "1 to 1,048,576"));
        }
        if self.first_replication > FIRST_REPLICATION_MAX {
            let value = self.first_replication as f64;
            return Err(Fault::number(
                "the first replication",
                value,
                "at most 2^62",
            ));
        }
        Ok(())
    }
}

fn check_roads(roads: &[Road], smallest: f64) -> Result<(), Fault> {
    if roads.is_empty() || roads.len() > ROADS_MAX {
        return Err(Fault::Count {
            place: "the list of roads".into(),
            count: roads.len(),
            limit: ROADS_MAX,
        });
    }
    roads.iter().try_for_each(|road| road.check(smallest))
}

impl Road {
    fn check(&self, smallest: f64) -> Result<(), Fault> {
        let count = self.stations.len();
        if count == 0 || count > STATIONS_MAX {
            return Err(Fault::Count {
                place: format!("the road of {}", self.policy),
                count,
                limit: STATIONS_MAX,
            });
        }
        check_staircase(&self.protected, "the protected size", smallest)?;
        self.stations.iter().try_for_each(|station| {
            let place = format!("the service of {}", station.name);
            check_staircase(&station.service, &place, smallest)?;
            let longest = station.service.at(BYTES_MAX);
            if longest <= SERVICE_S_MAX {
                return Ok(());
            }
            let place = format!("{place} for a packet of 1 MiB");
            let range = "at most 1e12 seconds: give a faster processor or link";
            Err(Fault::number(place, longest, range))
        })
    }
}

/// Refuses what is not finite, what falls with size, and what is negative at the smallest packet.
fn check_staircase(staircase: &Staircase, place: &str, smallest: f64) -> Result<(), Fault> {
    let range = "finite, and not below 0";
    let sloped = |value: f64, what: &str| {
        if value.is_finite() && value >= 0.0 {
            return Ok(());
        }
        Err(Fault::number(format!("{what} of {place}"), value, range))
    };
    if !staircase.fixed.is_finite() {
        let place = format!("the constant of {place}");
        return Err(Fault::number(place, staircase.fixed, "finite"));
    }
    sloped(staircase.per_byte, "the slope")?;
    for step in &staircase.steps {
        sloped(step.height, "a step")?;
        if !(step.width >= 1.0 && step.width <= BYTES_MAX) {
            let place = format!("a block of {place}");
            return Err(Fault::number(place, step.width, "1 to 1,048,576 bytes"));
        }
        if !(step.offset >= -BYTES_MAX && step.offset <= BYTES_MAX) {
            let place = format!("an offset of {place}");
            return Err(Fault::number(place, step.offset, "within 1,048,576 bytes"));
        }
    }
    sloped(staircase.at(smallest), "the value at the smallest packet")
}

#[cfg(test)]
mod tests;
