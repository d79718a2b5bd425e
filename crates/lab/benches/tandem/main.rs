//! Packets per second of the tandem simulator: paper U's path with 3des-md5, eight queues.
//!
//! `cargo bench -p lab --bench tandem [-- [--json] [--seconds S] [--only PART] | --grid]`
//!
//! The path is `scenarios/umts.toml`, the grid `studies/umts`. Rows: a plain scalar recursion in
//! `f64`, a plain recursion over `[f32; 16]` that keeps only the mean delay, ours with each
//! instruction set, and ours with several paths per stream. Rounds alternate between rows. It
//! prints the medians, and ours relative to the plain rows. `--grid` runs the study's whole grid on
//! two threads. `--json` prints either as one object.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock"
)]

use lab::tandem::{Instructions, Run, Sizes, Tally, Tandem, Traffic, simulate_with};
use serde_json::json;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use study::Sweep;

mod plain;
mod study;

/// Simulated seconds of one measurement, per replication.
const SECONDS: f64 = 3600.0;
const REPLICATIONS: u32 = 16;
const ROUNDS: usize = 7;
/// Threads for the whole grid.
const THREADS: usize = 2;

/// One row of the table.
struct Row {
    name: String,
    /// The instruction set that it was compiled for or selects at run time.
    instructions: Instructions,
    /// Paths per stream; 0 for the plain recursions.
    tandems: usize,
    job: Box<dyn Fn() -> f64>,
    rates: Vec<f64>,
}

impl Row {
    fn new(
        name: &str,
        instructions: Instructions,
        tandems: usize,
        job: impl Fn() -> f64 + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            instructions,
            tandems,
            job: Box::new(job),
            rates: Vec::new(),
        }
    }

    fn plain(instructions: Instructions, packets: u64) -> Self {
        let name = format!("plain [f32; 16] {instructions:?}");
        let job = move || plain::lanes(instructions, packets);
        Self::new(&name, instructions, 0, job)
    }

    fn tandem(
        instructions: Instructions,
        tandems: Vec<Tandem>,
        traffic: &Traffic,
        seconds: f64,
    ) -> Self {
        let name = match tandems.len() {
            1 => format!("tandem {instructions:?}"),
            several => format!("tandem {instructions:?} {several} roads"),
        };
        let run = Run {
            seconds,
            warm_up: 0.0,
            replications: REPLICATIONS,
            seed: 1,
            first_replication: 0,
        };
        let (count, traffic) = (tandems.len(), traffic.clone());
        let job = move || simulated(instructions, &tandems, &traffic, &run);
        Self::new(&name, instructions, count, job)
    }

    /// The job returns how many packets it sent.
    fn measure(&mut self) {
        let start = Instant::now();
        let packets = black_box((self.job)());
        self.rates.push(packets / start.elapsed().as_secs_f64());
    }

    fn median(&self) -> f64 {
        let mut rates = self.rates.clone();
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    }

    fn json(&self) -> serde_json::Value {
        json!({
            "name": self.name,
            "instructions": format!("{:?}", self.instructions),
            "roads": self.tandems,
            "packets_per_s": self.median(),
        })
    }
}

/// Packets times paths that `simulate` sends.
fn simulated(instructions: Instructions, tandems: &[Tandem], traffic: &Traffic, run: &Run) -> f64 {
    let tallies = simulate_with(instructions, tandems, traffic, run);
    let tallies = tallies.expect("the tandem and the traffic are sound");
    let outcomes = tallies.iter().filter_map(Tally::outcome);
    outcomes.map(|outcome| outcome.packets as f64).sum()
}

/// The study's grid: its policies, processors and rates, with its duration and replications.
fn whole_grid(is_json: bool) {
    let grid = Sweep::grid();
    let tandems = grid.all_tandems();
    let run = Run {
        seconds: grid.seconds,
        warm_up: grid.warm_up,
        replications: grid.replications,
        seed: 1,
        first_replication: 0,
    };
    let instructions = Instructions::available();
    let widest = *instructions.last().expect("there is always a scalar set");
    let (next, packets) = (AtomicUsize::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let work = || {
        // the highest rates first, so that all threads end together
        while let Some(rate) = (grid.rates() - 1).checked_sub(next.fetch_add(1, Ordering::Relaxed))
        {
            let sent = simulated(widest, &tandems, &grid.traffic(rate), &run);
            packets.fetch_add(sent as u64, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(work);
        }
        work();
    });
    let (seconds, packets) = (start.elapsed().as_secs_f64(), packets.into_inner());
    let points = tandems.len() * grid.rates();
    if is_json {
        let object = json!({
            "points": points,
            "packets": packets,
            "threads": THREADS,
            "wall_s": seconds,
        });
        println!("{object}");
    } else {
        let billions = packets as f64 / 1e9;
        println!("the whole grid: {points} points, {billions:.2} billion packets, {seconds:.1} s");
    }
}

fn rows(seconds: f64) -> Vec<Row> {
    let (tandem, traffic) = study::own();
    let grid = Sweep::grid();
    let (six, all) = (grid.tandems(1), grid.all_tandems());
    let packets = seconds * traffic.rate / (8.0 * Sizes::PAPER_U.mean());
    let scalar = move || plain::scalar(packets as u64);
    let mut rows = vec![Row::new("plain f64", Instructions::Scalar, 0, scalar)];
    for set in Instructions::available() {
        let of_lanes = f64::from(REPLICATIONS) * packets;
        rows.push(Row::plain(set, of_lanes as u64));
        rows.push(Row::tandem(set, vec![tandem.clone()], &traffic, seconds));
        rows.push(Row::tandem(set, six.clone(), &traffic, seconds));
        rows.push(Row::tandem(set, all.clone(), &traffic, seconds / 4.0));
    }
    rows
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let has = |option: &str| words.iter().any(|word| word == option);
    if has("--grid") {
        return whole_grid(has("--json"));
    }
    let after = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1)
    };
    let seconds = after("--seconds").and_then(|word| word.parse().ok());
    let mut rows = rows(seconds.unwrap_or(SECONDS));
    if let Some(part) = after("--only") {
        let exact = rows.iter().any(|row| row.name == *part);
        rows.retain(|row| row.name == *part || (!exact && row.name.contains(part)));
    }
    for _ in 0..ROUNDS {
        rows.iter_mut().for_each(Row::measure);
    }
    if has("--json") {
        let rows: Vec<_> = rows.iter().map(Row::json).collect();
        println!("{}", json!({ "rows": rows }));
    } else {
        print(&rows);
    }
}

/// For people: the rates, and ours relative to the plain recursion.
fn print(rows: &[Row]) {
    for row in rows {
        println!("{:<28}{:>10.1} M packets/s", row.name, row.median() / 1e6);
    }
    for ours in rows.iter().filter(|row| row.tandems == 1) {
        // compiled for any machine of this kind, and for these instructions
        for set in [Instructions::Scalar, ours.instructions] {
            let name = format!("plain [f32; 16] {set:?}");
            if let Some(plain) = rows.iter().find(|row| row.name == name) {
                println!(
                    "{} / {name}: {:.2}",
                    ours.name,
                    ours.median() / plain.median()
                );
            }
        }
    }
}
