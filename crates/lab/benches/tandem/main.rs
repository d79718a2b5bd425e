//! Packets per second of the tandem simulator: paper U's road under 3des-md5, eight stations.
//!
//! `cargo bench -p lab --bench tandem [-- [--json] [--seconds S] [--only PART] | --grid]`
//!
//! Rows: a plain scalar recursion in `f64`, a plain recursion over `[f32; 16]` that keeps nothing
//! but the mean delay, ours with each instruction set, and ours with several roads off one stream.
//! Rounds alternate between rows; the medians are printed, and ours over the plain rows. `--grid`
//! runs the whole study.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock"
)]

use lab::staircase::{Staircase, Step};
use lab::tandem::{Arrivals, Instructions, Road, Run, Sizes, Station, Traffic, simulate_with};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

mod plain;

/// Simulated seconds of one measurement, per replication.
const SECONDS: f64 = 3600.0;
const ROUNDS: usize = 7;
const KBPS: f64 = 512.0;
const MIPS: [f64; 4] = [100.0, 200.0, 300.0, 500.0];

fn steps(fixed: f64, steps: &[(f64, f64, f64)]) -> Staircase {
    let step = |&(height, offset, width): &(f64, f64, f64)| Step {
        height,
        offset,
        width,
    };
    Staircase {
        fixed,
        per_byte: 0.0,
        steps: steps.iter().map(step).collect(),
    }
}

/// Paper U's equations (1), (2), (7) and (9) to (11).
fn road(policy: &str, mips: f64) -> Road {
    let (des, triple, md5) = ((2697.0, 0.0, 8.0), (8091.0, 0.0, 8.0), (744.0, 8.0, 64.0));
    let (operations, protected) = match policy {
        "none" => (Staircase::default(), Staircase::linear(1.0)),
        "null-md5" => (steps(2264.0, &[md5]), steps(48.0, &[(4.0, -18.0, 4.0)])),
        "des" => (steps(0.0, &[des]), steps(36.0, &[(8.0, -18.0, 8.0)])),
        "3des" => (steps(0.0, &[triple]), steps(36.0, &[(8.0, -18.0, 8.0)])),
        "des-md5" => (
            steps(2264.0, &[des, md5]),
            steps(48.0, &[(8.0, -18.0, 8.0)]),
        ),
        _ => (
            steps(2264.0, &[triple, md5]),
            steps(48.0, &[(8.0, -18.0, 8.0)]),
        ),
    };
    let cpu = |mips: f64| operations.clone().times(1e-6 / mips);
    let link = |mbps: f64| protected.clone().times(8e-6 / mbps);
    let services = [
        ("ms", cpu(mips)),
        ("radio", link(2.0)),
        ("rnc", link(100.0)),
        ("sgsn", link(100.0)),
        ("ggsn", link(100.0)),
        ("internet", link(155.0)),
        ("sg", cpu(11_000.0)),
        ("lan", Staircase::linear(8e-6 / 100.0)),
    ];
    let station = |(name, service): (&str, Staircase)| Station {
        name: name.into(),
        service,
    };
    Road {
        policy: policy.into(),
        stations: services.into_iter().map(station).collect(),
        protected,
    }
}

/// Six suites on each processor.
fn grid(mips: &[f64]) -> Vec<Road> {
    let policies = ["none", "null-md5", "des", "3des", "des-md5", "3des-md5"];
    let each = |&mips: &f64| policies.map(|policy| road(policy, mips));
    mips.iter().flat_map(each).collect()
}

/// One row of the table.
struct Row {
    name: String,
    job: Box<dyn Fn() -> f64>,
    rates: Vec<f64>,
}

impl Row {
    fn new(name: impl Into<String>, job: impl Fn() -> f64 + 'static) -> Self {
        Self {
            name: name.into(),
            job: Box::new(job),
            rates: Vec::new(),
        }
    }

    /// The job says how many packets it sent.
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
}

/// Six suites and four processors at eleven rates, five hours, sixteen replications, two threads.
fn whole_grid() {
    const RATES: [f64; 11] = [
        8.0, 64.0, 128.0, 256.0, 384.0, 512.0, 716.0, 768.0, 1024.0, 1536.0, 2048.0,
    ];
    let (next, packets) = (AtomicUsize::new(0), AtomicU64::new(0));
    let start = Instant::now();
    let work = || {
        // the longest first, so that both threads end together
        while let Some(kbps) = RATES.iter().rev().nth(next.fetch_add(1, Ordering::Relaxed)) {
            let instructions = Instructions::available();
            let widest = instructions.last().expect("there is always a scalar set");
            let job = ours(*widest, grid(&MIPS), *kbps, 5.0 * 3600.0);
            packets.fetch_add(job() as u64, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let (seconds, packets) = (start.elapsed().as_secs_f64(), packets.into_inner() as f64);
    println!(
        "the whole grid: {:.2} billion packets in {seconds:.1} s",
        packets / 1e9
    );
}

/// Packets times roads that `simulate` sends.
fn ours(instructions: Instructions, roads: Vec<Road>, kbps: f64, seconds: f64) -> impl Fn() -> f64 {
    let traffic = Traffic {
        arrivals: Arrivals::Poisson,
        sizes: Sizes::PAPER_U,
        rate: 1e3 * kbps,
    };
    let run = Run {
        seconds,
        warm_up: 0.0,
        replications: 16,
        seed: 1,
        first_replication: 0,
    };
    move || {
        let tallies = simulate_with(instructions, &roads, &traffic, &run);
        let tallies = tallies.expect("the road and the traffic are sound");
        let outcomes = tallies.iter().filter_map(lab::tandem::Tally::outcome);
        outcomes.map(|outcome| outcome.packets as f64).sum()
    }
}

fn rows(seconds: f64) -> Vec<Row> {
    let policies = ["none", "null-md5", "des", "3des", "des-md5", "3des-md5"];
    let grid = |mips: &[f64]| -> Vec<Road> {
        let each = mips
            .iter()
            .flat_map(|&mips| policies.map(|policy| road(policy, mips)));
        each.collect()
    };
    let packets = seconds * KBPS * 1e3 / (8.0 * Sizes::PAPER_U.mean());
    let mut rows = vec![Row::new("plain f64", move || plain::scalar(packets as u64))];
    for set in Instructions::available() {
        let lanes = move || plain::lanes(set, (16.0 * packets) as u64);
        rows.push(Row::new(format!("plain [f32; 16] {set:?}"), lanes));
        let one = ours(set, vec![road("3des-md5", 100.0)], KBPS, seconds);
        rows.push(Row::new(format!("tandem {set:?}"), one));
        let six = ours(set, grid(&[100.0]), KBPS, seconds);
        rows.push(Row::new(format!("tandem {set:?} 6 roads"), six));
        let many = ours(set, grid(&MIPS), KBPS, seconds / 4.0);
        rows.push(Row::new(format!("tandem {set:?} 24 roads"), many));
    }
    rows
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if words.iter().any(|word| word == "--grid") {
        return whole_grid();
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
    let rate = |name: &str| rows.iter().find(|row| row.name == name).map(Row::median);
    if words.iter().any(|word| word == "--json") {
        let rates = rows
            .iter()
            .map(|row| (row.name.as_str(), row.median().into()));
        let object: serde_json::Map<_, _> = rates.map(|(n, r)| (n.to_owned(), r)).collect();
        println!("{}", serde_json::Value::Object(object));
        return;
    }
    for row in &rows {
        println!("{:<28}{:>10.1} M packets/s", row.name, row.median() / 1e6);
    }
    for set in Instructions::available() {
        let Some(ours) = rate(&format!("tandem {set:?}")) else {
            continue;
        };
        // as compiled for any machine of this kind, and for these instructions
        for plain in [Instructions::Scalar, set] {
            let name = format!("plain [f32; 16] {plain:?}");
            if let Some(plain) = rate(&name) {
                println!("tandem {set:?} / {name}: {:.2}", ours / plain);
            }
        }
    }
}
