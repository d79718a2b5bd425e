//! How many packets a second the event kernel moves through eight stations, on one core: four
//! processors with a cost of steps and four links, Poisson arrivals of paper U's sizes.
//!
//! `cargo bench -p lab --bench kernel [-- SECONDS]` prints one line of JSON.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement needs a clock"
)]

use std::time::Instant as Clock;

use engine::time::{Duration, Instant};
use lab::kernel::link::Shape;
use lab::kernel::random::Random;
use lab::kernel::source::{Gaps, Sizes};
use lab::kernel::{Cpu, Element, Kernel, Link, Port, Sink, Source, Target};
use lab::staircase::{Staircase, Step};

const STATIONS: u32 = 8;
const RUNS: usize = 5;
/// Simulated; 100,000 packets each.
const SECONDS: u64 = 10;

fn main() {
    let asked = std::env::args().filter_map(|word| word.parse().ok()).next();
    let seconds = asked.unwrap_or(SECONDS);
    for keeps_fingerprint in [false, true] {
        let mut rates: Vec<f64> = (0..RUNS).map(|_| run(seconds, keeps_fingerprint)).collect();
        rates.sort_by(f64::total_cmp);
        println!(
            "{{\"bench\": \"kernel\", \"stations\": {STATIONS}, \"fingerprint\": \
             {keeps_fingerprint}, \"million_packets_per_second\": {:.3}, \"best\": {:.3}}}",
            rates[RUNS / 2],
            rates[RUNS - 1],
        );
    }
}

/// Millions of packets a second.
fn run(seconds: u64, keeps_fingerprint: bool) -> f64 {
    let mut kernel = world(seconds);
    if keeps_fingerprint {
        kernel.keep_fingerprint();
    }
    kernel.start().expect("a line ends");
    let start = Clock::now();
    kernel
        .run(Instant(seconds * 1_000_000_000))
        .expect("it is carried");
    let elapsed = start.elapsed().as_secs_f64();
    let Some(Element::Sink(sink)) = kernel.element(STATIONS + 1) else {
        return 0.0;
    };
    sink.packets as f64 / elapsed * 1e-6
}

fn world(seconds: u64) -> Kernel {
    let mut kernel = Kernel::default();
    let sizes = Sizes::Pareto {
        shape: 1.1,
        smallest: 81.5,
        most: 66_666.0,
    };
    let gaps = Gaps::Exponential(Duration::from_micros(10));
    let until = Instant(seconds * 1_000_000_000);
    let source = Source::new(gaps, sizes, 0, until, to(1), 1);
    kernel.add("source", Element::Source(source));
    for number in 1..=STATIONS {
        let next = to(number + 1);
        let station = if number % 2 == 1 {
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
        kernel.add(&format!("station {number}"), station);
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
