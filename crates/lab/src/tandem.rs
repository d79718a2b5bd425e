//! FIFO queues in series, simulated packet by packet without an event queue.
//!
//! The departure of a packet from queue i is `D_i = max(D_i, D_(i-1)) + s_i`, which is exact for
//! queues in series with infinite buffers. It is stored here relative to the packet's own arrival,
//! so that values do not grow with simulated time: `R_i = max(R_i - gap, R_(i-1)) + s_i`.
//!
//! - [`traffic`]: when packets arrive and how large they are.
//! - [`capture`]: the same from a packet capture.
//! - [`closed`]: the results of queueing theory, without simulation.
//! - [`tally`], [`outcome`], [`histogram`]: what replications counted, and its evaluation.
//!
//! [`simulate`] gives every policy the same packets (common random numbers). Every replication has
//! its own random stream, named by seed, purpose and index, so that replications may be computed on
//! any machine, in any order and number, and then merged. Open models run in SIMD lanes, one
//! replication per lane, in `f32` with sums in `f64`. Only operations that IEEE 754 defines exactly
//! are used, so that every instruction set gives the same bits. Traffic that waits for its own
//! packets, and captures, run one packet at a time in `f64`.
//!
//! Left out: loss, finite buffers and priorities (the event kernel has them), threads (the caller
//! distributes replications), key exchanges.

pub mod capture;
pub mod closed;
mod factored;
pub mod histogram;
mod instructions;
mod lanes;
pub mod outcome;
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

/// The largest number of queues of one tandem.
pub const QUEUES_MAX: usize = 64;
/// The largest number of tandems that share one stream of packets.
pub const TANDEMS_MAX: usize = 256;
/// The largest number of replications of one call.
pub const REPLICATIONS_MAX: u32 = 1 << 20;
/// The largest index of a call's first replication.
pub const FIRST_REPLICATION_MAX: u64 = 1 << 62;
/// The largest number of packets expected of one request, all replications together, and so of one
/// replication: minutes on a core with AVX-512.
pub const PACKETS_MAX: f64 = 1e11;
/// The longest simulated time: ten years.
pub const SECONDS_MAX: f64 = 315_360_000.0;
/// The longest service time of a packet of [`BYTES_MAX`], in seconds.
pub const SERVICE_S_MAX: f64 = 1e12;
/// The largest packet in clear bytes, also the limit of offsets and widths of blocks.
pub const BYTES_MAX: f64 = 1_048_576.0;

/// A queue with one FIFO server that keeps each packet for its service time.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Its name in results.
    pub name: String,
    /// Service time in seconds for a packet of so many clear bytes.
    pub service: Staircase,
}

/// Queues in series under one policy, and the size of protected packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Tandem {
    /// Its name in results.
    pub policy: String,
    /// In the order in which packets pass them.
    pub queues: Vec<Queue>,
    /// Protected size of a packet of so many clear bytes.
    pub protected: Staircase,
}

/// How long and how often is simulated, and the random seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// Simulated seconds, warm-up included.
    pub seconds: f64,
    /// Seconds at the beginning that are not counted.
    pub warm_up: f64,
    /// Independent replications.
    pub replications: u32,
    /// The same seed gives the same packets.
    pub seed: u64,
    /// Index of the first replication; the others follow it.
    pub first_replication: u64,
}

/// Why a simulation or a closed form is not possible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TandemFault {
    /// A number is outside its range.
    #[error("{place} is {value}, it must be {range}")]
    Number {
        /// Which number.
        place: String,
        /// What was given.
        value: f64,
        /// The range.
        range: &'static str,
    },
    /// A list is empty or too long.
    #[error("{place} has {count} entries, it must have 1 to {limit}")]
    Count {
        /// Which list.
        place: String,
        /// Its number of entries.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// Closed-loop traffic waits for a queue that does not exist.
    #[error("the traffic waits for queue {queue}, but {policy} has only {count}")]
    NoQueue {
        /// The policy of the tandem.
        policy: String,
        /// Which queue, from 0.
        queue: usize,
        /// How many queues the tandem has.
        count: usize,
    },
    /// The capture has no packets to simulate.
    #[error("no packet arrived: {0}")]
    NoPackets(&'static str),
    /// All packets of a list arrive at the same time, so that they have no rate.
    #[error("the rate is unknown: {0} packet(s), all at the same time; use a longer capture")]
    OneMoment(u64),
    /// The capture cannot be read.
    #[error(transparent)]
    Capture(#[from] capture::CaptureFault),
    /// Tallies of different runs cannot be merged.
    #[error("these results do not belong together: {0}")]
    Mismatch(String),
}

impl TandemFault {
    fn number(place: impl Into<String>, value: f64, range: &'static str) -> Self {
        Self::Number {
            place: place.into(),
            value,
            range,
        }
    }
}

/// Sends the same packets through every tandem and returns one tally per tandem.
///
/// Replication `n` uses random streams named only by `run.seed` and `n`: any split of replications
/// over calls gives the same results after merging.
pub fn simulate(
    tandems: &[Tandem],
    traffic: &Traffic,
    run: &Run,
) -> Result<Vec<Tally>, TandemFault> {
    let available = Instructions::available();
    let widest = available.last().copied().unwrap_or(Instructions::Scalar);
    simulate_with(widest, tandems, traffic, run)
}

/// [`simulate`] with a chosen instruction set, for benchmarks; the results are the same.
pub fn simulate_with(
    instructions: Instructions,
    tandems: &[Tandem],
    traffic: &Traffic,
    run: &Run,
) -> Result<Vec<Tally>, TandemFault> {
    run.check()?;
    traffic.check()?;
    check_tandems(tandems, traffic.sizes.smallest())?;
    traffic.check_against(tandems, run)?;
    Ok(match traffic.arrivals {
        Arrivals::ClosedLoop(_) => walk::simulate(tandems, traffic, run),
        _ => instructions.perform(rows::Job {
            tandems,
            traffic,
            run,
        }),
    })
}

/// Sends the packets of a capture, or of any other list, through every tandem and returns one tally
/// per tandem.
///
/// There is one replication, so there is no confidence interval. It ends after `seconds` or with
/// the last packet, whichever is earlier; `warm_up` as in [`Run`].
pub fn replay<P>(
    tandems: &[Tandem],
    packets: P,
    seconds: Option<f64>,
    warm_up: f64,
) -> Result<Vec<Tally>, TandemFault>
where
    P: IntoIterator<Item = Result<Packet, TandemFault>>,
{
    check_tandems(tandems, 1.0)?;
    let run = Run {
        seconds: seconds.unwrap_or(SECONDS_MAX),
        warm_up,
        replications: 1,
        seed: 0,
        first_replication: 0,
    };
    run.check()?;
    walk::replay(tandems, packets, &run)
}

impl Run {
    /// The seconds of a service time that lie between the warm-up and the end.
    fn overlap(&self, from: f64, to: f64) -> f64 {
        (to.min(self.seconds) - from.max(self.warm_up)).max(0.0)
    }

    fn check(&self) -> Result<(), TandemFault> {
        if !(self.seconds > 0.0 && self.seconds <= SECONDS_MAX) {
            let range = "above 0 and at most ten years";
            return Err(TandemFault::number(
                "simulated seconds",
                self.seconds,
                range,
            ));
        }
        if !(self.warm_up >= 0.0 && self.warm_up < self.seconds) {
            let range = "at least 0 and below the simulated seconds";
            return Err(TandemFault::number("warm-up seconds", self.warm_up, range));
        }
        if self.replications == 0 || self.replications > REPLICATIONS_MAX {
            let value = f64::from(self.replications);
            return Err(TandemFault::number("replications", value, "1 to 1,048,576"));
        }
        if self.first_replication > FIRST_REPLICATION_MAX {
            let value = self.first_replication as f64;
            return Err(TandemFault::number(
                "the first replication",
                value,
                "at most 2^62",
            ));
        }
        Ok(())
    }
}

fn check_tandems(tandems: &[Tandem], smallest: f64) -> Result<(), TandemFault> {
    if tandems.is_empty() || tandems.len() > TANDEMS_MAX {
        return Err(TandemFault::Count {
            place: "the list of policies".into(),
            count: tandems.len(),
            limit: TANDEMS_MAX,
        });
    }
    tandems.iter().try_for_each(|tandem| tandem.check(smallest))
}

impl Tandem {
    fn check(&self, smallest: f64) -> Result<(), TandemFault> {
        let count = self.queues.len();
        if count == 0 || count > QUEUES_MAX {
            return Err(TandemFault::Count {
                place: format!("the list of queues of {}", self.policy),
                count,
                limit: QUEUES_MAX,
            });
        }
        check_staircase(&self.protected, "the protected size", smallest)?;
        self.queues.iter().try_for_each(|queue| {
            let place = format!("the service of {}", queue.name);
            check_staircase(&queue.service, &place, smallest)?;
            let longest = queue.service.at(BYTES_MAX);
            if longest <= SERVICE_S_MAX {
                return Ok(());
            }
            let place = format!("{place} for a packet of 1 MiB");
            let range = "at most 1e12 seconds: give a faster processor or link";
            Err(TandemFault::number(place, longest, range))
        })
    }
}

/// Refuses values that are not finite, that fall with the size, or that are negative at the
/// smallest packet.
fn check_staircase(staircase: &Staircase, place: &str, smallest: f64) -> Result<(), TandemFault> {
    let range = "finite, and not below 0";
    let sloped = |value: f64, what: &str| {
        if value.is_finite() && value >= 0.0 {
            return Ok(());
        }
        Err(TandemFault::number(
            format!("{what} of {place}"),
            value,
            range,
        ))
    };
    if !staircase.fixed.is_finite() {
        let place = format!("the constant of {place}");
        return Err(TandemFault::number(place, staircase.fixed, "finite"));
    }
    sloped(staircase.per_byte, "the slope")?;
    for step in &staircase.steps {
        sloped(step.height, "a step")?;
        if !(step.width >= 1.0 && step.width <= BYTES_MAX) {
            let place = format!("a block of {place}");
            return Err(TandemFault::number(
                place,
                step.width,
                "1 to 1,048,576 bytes",
            ));
        }
        if !(step.offset >= -BYTES_MAX && step.offset <= BYTES_MAX) {
            let place = format!("an offset of {place}");
            return Err(TandemFault::number(
                place,
                step.offset,
                "within 1,048,576 bytes",
            ));
        }
    }
    sloped(staircase.at(smallest), "the value at the smallest packet")
}

#[cfg(test)]
mod tests;
