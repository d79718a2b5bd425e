//! Packets per second of the event kernel on one core, through eight elements: four processors with
//! a cost in steps and four links, with Poisson arrivals of paper U's sizes.
//!
//! `cargo bench -p lab --bench kernel [-- [--json] [--seconds S] | --memory HOURS]` prints rates as
//! lines or as one JSON object. `--memory` simulates this many hours of paper U's 512 kbit/s once,
//! and prints the peak memory as one JSON object (Linux).

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement needs a clock"
)]

use std::fs;
use std::time::Instant as Clock;

use engine::link::Shape;
use engine::time::{Duration, Instant};
use lab::kernel::random::Random;
use lab::kernel::source::{Gaps, Sizes};
use lab::kernel::{Cpu, Element, Kernel, Link, Port, Sink, Source, Target};
use lab::staircase::{Staircase, Step};
use serde_json::json;

const ELEMENTS: u32 = 8;
const RUNS: usize = 5;
/// Simulated seconds, of 100,000 packets each.
const SECONDS: u64 = 10;
/// Time between packets when measuring rates.
const GAP: Duration = Duration::from_micros(10);
/// Time between paper U's packets of 480 bytes at 512 kbit/s.
const PAPER_GAP: Duration = Duration::from_micros(7_500);

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let after = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1)?.parse().ok()
    };
    if let Some(hours) = after("--memory") {
        return memory(hours);
    }
    let seconds = after("--seconds").unwrap_or(SECONDS);
    let rows = [false, true].map(|keeps_fingerprint| {
        let mut rates: Vec<f64> = (0..RUNS)
            .map(|_| run(seconds, GAP, keeps_fingerprint))
            .map(|(packets, elapsed)| packets as f64 / elapsed)
            .collect();
        rates.sort_by(f64::total_cmp);
        (keeps_fingerprint, rates[RUNS / 2], rates[RUNS - 1])
    });
    if words.iter().any(|word| word == "--json") {
        let rows = rows.map(|(keeps_fingerprint, median, best)| {
            json!({
                "fingerprint": keeps_fingerprint,
                "packets_per_s": median,
                "packets_per_s_max": best,
            })
        });
        println!("{}", json!({ "stations": ELEMENTS, "rows": rows }));
        return;
    }
    for (keeps_fingerprint, median, best) in rows {
        let fingerprint = if keeps_fingerprint {
            "kept"
        } else {
            "not kept"
        };
        println!(
            "{ELEMENTS} elements, fingerprint {fingerprint:<10}{:>8.2} M packets/s (best {:.2})",
            median * 1e-6,
            best * 1e-6,
        );
    }
}

/// Runs this many hours, and prints the peak resident size of this process.
fn memory(hours: u64) {
    let (packets, _) = run(3600 * hours, PAPER_GAP, false);
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|words| words.split_whitespace().next()?.parse::<u64>().ok());
    let bytes = 1024 * kib.expect("the kernel counts in kB");
    println!(
        "{}",
        json!({ "hours": hours, "packets": packets, "peak_bytes": bytes })
    );
}

/// Returns the packets that came through, and the seconds that it took.
fn run(seconds: u64, gap: Duration, keeps_fingerprint: bool) -> (u64, f64) {
    let mut kernel = world(seconds, gap);
    if keeps_fingerprint {
        kernel.keep_fingerprint();
    }
    kernel.start().expect("a line ends");
    let start = Clock::now();
    kernel
        .run(Instant(seconds * 1_000_000_000))
        .expect("it is carried");
    let elapsed = start.elapsed().as_secs_f64();
    match kernel.element(ELEMENTS + 1) {
        Some(Element::Sink(sink)) => (sink.packets, elapsed),
        _ => (0, elapsed),
    }
}

fn world(seconds: u64, gap: Duration) -> Kernel {
    let mut kernel = Kernel::default();
    let sizes = Sizes::Pareto {
        shape: 1.1,
        smallest: 81.5,
        most: 66_666.0,
    };
    let gaps = Gaps::Exponential(gap);
    let until = Instant(seconds * 1_000_000_000);
    let source = Source::new(gaps, sizes, 0, until, to(1), 1);
    kernel.add("source", Element::Source(source));
    for number in 1..=ELEMENTS {
        let next = to(number + 1);
        let element = if number % 2 == 1 {
            let service = Staircase {
                fixed: 1e-6,
                per_byte: 0.0,
                steps: vec![
                    Step {
                        height: 4e-8,
                        offset: 0.0,
                        width: 8.0,
                    },
                    Step {
                        height: 4e-8,
                        offset: 8.0,
                        width: 64.0,
                    },
                ],
            };
            Element::Cpu(Cpu::new(service, None, next))
        } else {
            let shape = Shape::plain(1_000_000_000, Duration::from_micros(100));
            let random = Random::new(1, "link", number.into());
            Element::Link(Link::new(shape, random), next)
        };
        kernel.add(&format!("element {number}"), element);
    }
    kernel.add("sink", Element::Sink(Sink::default()));
    kernel
}

fn to(element: u32) -> Target {
    Target {
        element,
        port: Port(0),
    }
}
