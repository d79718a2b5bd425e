//! Compares the kernel with queueing theory and with itself.

use engine::link::recording::Replay;
use engine::link::{Delay, Limit, Shape};
use engine::time::{Duration, Instant};

use super::source::{Gaps, Sizes};
use super::*;
use crate::staircase::Staircase;
use crate::tandem;

const SECOND: u64 = 1_000_000_000;

fn to(element: u32) -> Target {
    Target {
        element,
        port: Port(0),
    }
}

fn link(shape: Shape<Box<Replay<Box<dyn Rewind>>>>, next: u32) -> Element {
    Element::Link(
        Link::new(shape, random::Random::new(1, "link", next.into())),
        to(next),
    )
}

/// A source and elements in series, numbered from 1, then a sink that counts after `warm_up_s`.
fn line(source: (Gaps, Sizes, u64), elements: Vec<Element>, warm_up_s: u64) -> Kernel {
    let (gaps, sizes, seconds) = source;
    let mut kernel = Kernel::default();
    let until = Instant(seconds * SECOND);
    kernel.add(
        "source",
        Element::Source(Source::new(gaps, sizes, 0, until, to(1), 1)),
    );
    for (number, element) in elements.into_iter().enumerate() {
        kernel.add(&format!("element {}", number + 1), element);
    }
    let sink = Sink::from(Instant(warm_up_s * SECOND));
    kernel.add("sink", Element::Sink(sink));
    kernel.keep_fingerprint();
    kernel
}

fn sink(kernel: &Kernel) -> Sink {
    let sinks = kernel
        .elements()
        .filter_map(|(_, _, element)| match element {
            Element::Sink(sink) => Some(*sink),
            _ => None,
        });
    sinks.last().expect("a sink")
}

fn run(kernel: &mut Kernel, seconds: u64) -> Sink {
    kernel.start().expect("a world that can be");
    kernel.run(Instant(seconds * SECOND)).expect("runs");
    sink(kernel)
}

#[test]
fn a_link_under_poisson_traffic_waits_as_the_theory_of_m_d_1_says() {
    // 1000 octets take 1 ms: utilisation 0.8
    let gaps = Gaps::Exponential(Duration::from_nanos(1_250_000));
    let shape = Shape::plain(8_000_000, Duration::from_millis(5));
    let elements = vec![link(shape, 2)];
    let mut kernel = line((gaps, Sizes::Fixed(1000), 3000), elements, 10);
    let sink = run(&mut kernel, 3001);
    let wait_s = 0.8 * 0.001 / (2.0 * (1.0 - 0.8));
    let expected = wait_s + 0.001 + 0.005;
    let relative = sink.mean_delay_s() / expected - 1.0;
    assert!(relative.abs() < 0.01, "{relative}");
    assert_eq!(sink.reordered, 0);
}

#[test]
fn a_processor_under_pareto_sizes_waits_as_the_theory_of_m_g_1_says() {
    // service: 1 us an octet of min(Pareto(2.5, 200), 2000)
    let sizes = Sizes::Pareto {
        shape: 2.5,
        smallest: 200.0,
        most: 2000.0,
    };
    let mut random = random::Random::new(9, "moments", 0);
    let count = 2_000_000;
    let (mut first, mut second) = (0.0, 0.0);
    for _ in 0..count {
        let size = f64::from(sizes.draw(&mut random)) * 1e-6;
        first += size / f64::from(count);
        second += size * size / f64::from(count);
    }
    let rate = 0.7 / first;
    let gaps = Gaps::Exponential(Duration::from_nanos((1e9 / rate) as u64));
    let cpu = Cpu::new(Staircase::linear(1e-6), None, to(2));
    let mut kernel = line((gaps, sizes, 2000), vec![Element::Cpu(cpu)], 10);
    let sink = run(&mut kernel, 2001);
    let expected = first + rate * second / (2.0 * (1.0 - 0.7));
    let relative = sink.mean_delay_s() / expected - 1.0;
    assert!(relative.abs() < 0.02, "{relative}");
}

#[test]
fn kernel_and_tandem_are_two_ways_to_the_same_delay() {
    let (shape, smallest, most) = (2.5, 200.0, 2000.0);
    let protected = Staircase {
        fixed: 48.0,
        per_byte: 0.0,
        steps: vec![crate::staircase::Step {
            height: 8.0,
            offset: -18.0,
            width: 8.0,
        }],
    };
    let service = protected.clone().times(4e-6);
    let radio = protected.clone().times(8.0 / 2e6);
    let mean = smallest * (shape - libm::pow(smallest / most, shape - 1.0)) / (shape - 1.0);
    let rate = 1.2e6;
    let elements = [("cpu", &service), ("radio", &radio)];
    let tandem = tandem::Tandem {
        policy: "3des-md5".into(),
        queues: elements
            .iter()
            .map(|(name, service)| tandem::Queue {
                name: (*name).into(),
                service: (*service).clone(),
            })
            .collect(),
        protected: protected.clone(),
    };
    let traffic = tandem::Traffic {
        arrivals: tandem::Arrivals::Poisson,
        sizes: tandem::Sizes::Pareto {
            shape,
            smallest,
            largest: most,
        },
        rate,
    };
    let run_of_tandem = tandem::Run {
        seconds: 1000.0,
        warm_up: 10.0,
        replications: 8,
        seed: 1,
        first_replication: 0,
    };
    let tallies = tandem::simulate(&[tandem], &traffic, &run_of_tandem).expect("runs");
    let theirs = tallies[0].outcome().expect("packets").mean_delay_s;

    let gaps = Gaps::Exponential(Duration::from_nanos((mean * 8.0 / rate * 1e9) as u64));
    let cpu = Cpu::new(service, Some(protected), to(2));
    let radio = link(Shape::plain(2_000_000, Duration::ZERO), 3);
    let sizes = Sizes::Pareto {
        shape,
        smallest,
        most,
    };
    let elements = vec![Element::Cpu(cpu), radio];
    let mut kernel = line((gaps, sizes, 4000), elements, 10);
    let ours = run(&mut kernel, 4001).mean_delay_s();
    let relative = ours / theirs - 1.0;
    // sizes of the kernel are whole octets, rounded up
    assert!(relative.abs() < 0.02, "{ours} {theirs}: {relative}");
}

#[test]
fn constant_traffic_never_waits_and_its_delay_is_the_sum_of_its_parts() {
    let gaps = Gaps::Constant(Duration::from_millis(10));
    let shape = || Shape::plain(1_000_000, Duration::from_millis(3));
    // paper U equation (11): 3DES and MD5 make 64 octets 96
    let size = Staircase {
        fixed: 48.0,
        per_byte: 0.0,
        steps: vec![crate::staircase::Step {
            height: 8.0,
            offset: -18.0,
            width: 8.0,
        }],
    };
    let cpu = Cpu::new(Staircase::constant(0.001), Some(size), to(2));
    let elements = vec![Element::Cpu(cpu), link(shape(), 3), link(shape(), 4)];
    let mut kernel = line((gaps, Sizes::Fixed(64), 10), elements, 0);
    let sink = run(&mut kernel, 11);
    assert_eq!(sink.packets, 1000);
    assert_eq!((sink.bytes, sink.clear_bytes), (96_000, 64_000));
    let each = 1_000_000 + 2 * (768_000 + 3_000_000);
    assert_eq!(sink.longest, Duration::from_nanos(each));
    assert!((sink.mean_delay_s() - each as f64 * 1e-9).abs() < 1e-12);
}

#[test]
fn packets_held_back_are_overtaken_and_all_are_accounted_for() {
    let gaps = Gaps::Constant(Duration::from_millis(1));
    let mut shape = Shape::plain(9_600_000, Duration::from_millis(1));
    shape.reorder = 0.05;
    shape.loss = 0.1;
    let mut narrow = Shape::plain(4_000_000, Duration::ZERO);
    narrow.queue = Limit::Packets(20);
    let elements = vec![link(shape, 2), link(narrow, 3)];
    let mut kernel = line((gaps, Sizes::Fixed(1000), 100), elements, 0);
    let sink = run(&mut kernel, 200);
    assert!(sink.reordered > 500, "{}", sink.reordered);
    let counters = |number| match kernel.element(number) {
        Some(Element::Link(link, _)) => link.counters(),
        _ => panic!("a link"),
    };
    let (first, second) = (counters(1), counters(2));
    assert_eq!(first.offered, first.delivered + first.lost);
    assert_eq!(second.offered, first.delivered);
    assert_eq!(second.offered, second.delivered + second.overflowed);
    assert_eq!(second.delivered, sink.packets);
    assert!(second.overflowed > 30_000 && second.longest_queue == 20);
    assert_eq!(kernel.under_way(), (0, 0));
}

#[test]
fn the_same_seed_gives_the_same_fingerprint_on_every_machine() {
    let world = || {
        let sizes = Sizes::Pareto {
            shape: 1.1,
            smallest: 81.5,
            most: 66_666.0,
        };
        let gaps = Gaps::Exponential(Duration::from_millis(8));
        let mut radio = Shape::plain(2_000_000, Duration::ZERO);
        let (least, mean) = (Duration::from_millis(20), Duration::from_millis(5));
        radio.delay = Delay::Exponential(least, mean);
        radio.loss = 0.01;
        let cpu = Cpu::new(Staircase::linear(1e-6), None, to(2));
        let elements = vec![Element::Cpu(cpu), link(radio, 3)];
        let mut kernel = line((gaps, sizes, 100), elements, 0);
        run(&mut kernel, 100);
        fingerprint::hex(&kernel.fingerprint().expect("kept"))
    };
    assert_eq!(world(), world());
    assert_eq!(
        world(),
        "7258546138f14dce4902bd69af208feb139d54ddbd2341eb555dc3cf62614548"
    );
}

#[test]
fn memory_does_not_grow_with_simulated_time() {
    let gaps = Gaps::Exponential(Duration::from_millis(1));
    let elements = vec![link(Shape::plain(16_000_000, Duration::from_millis(5)), 2)];
    let mut kernel = line((gaps, Sizes::Fixed(1000), 4000), elements, 0);
    kernel.start().expect("a world that can be");
    let mut most = Vec::new();
    for part in 1..=4 {
        kernel.run(Instant(part * 500 * SECOND)).expect("runs");
        most.push(kernel.stage.packets.places());
    }
    assert!(most[3] < 60 && most[3] - most[1] < 8, "{most:?}");
}

#[test]
fn a_circle_of_links_is_refused_with_its_names() {
    let mut kernel = Kernel::default();
    let shape = || Shape::plain(1_000_000, Duration::ZERO);
    kernel.add("in", link(shape(), 1));
    kernel.add("a", link(shape(), 2));
    kernel.add("b", link(shape(), 1));
    let fault = kernel.start().expect_err("a circle").to_string();
    assert_eq!(fault, "packets go round in a loop: a - b - a");
}

#[test]
fn a_way_to_nowhere_and_a_link_that_cannot_be_are_refused() {
    let mut kernel = Kernel::default();
    kernel.add("link", link(Shape::plain(1_000_000, Duration::ZERO), 7));
    let fault = kernel.start().expect_err("nowhere").to_string();
    assert_eq!(fault, "link: leads to element 7, which does not exist");
    let mut shape = Shape::plain(1_000_000, Duration::ZERO);
    shape.loss = 1.5;
    let mut kernel = Kernel::default();
    kernel.add("link", link(shape, 0));
    let fault = kernel.start().expect_err("a loss").to_string();
    assert_eq!(fault, "link: a loss of 1.5 is outside 0 to 1");
}

#[test]
fn more_than_is_carried_ends_in_a_fault_and_not_in_all_memory() {
    let gaps = Gaps::Constant(Duration::from_nanos(10));
    let elements = vec![link(Shape::plain(1, Duration::ZERO), 2)];
    let mut kernel = line((gaps, Sizes::Fixed(1500), 1000), elements, 0);
    kernel.start().expect("a world that can be");
    let fault = kernel.run(Instant(1000 * SECOND)).expect_err("too much");
    assert!(fault.to_string().contains("packets are in the network"));
}
