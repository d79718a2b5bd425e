//! Compares the lanes with the reference of one packet at a time, and with each other.

use super::super::factored::Factored;
use super::super::lanes::{Streams, ceil, each, exp2, ln};
use super::super::random::{Purpose, Stream};
use super::super::walk;
use super::tandems::{poisson, run, single, umts};
use super::*;
use pulp::{Scalar, Simd};

fn close(one: f64, two: f64, share: f64) {
    assert!(
        (one - two).abs() <= share * two.abs(),
        "{one} and {two} differ by more than {share}"
    );
}

fn traffics() -> Vec<Traffic> {
    let share = |bytes, weight| Share { bytes, weight };
    let imix = vec![share(40.0, 7.0), share(576.0, 4.0), share(1500.0, 1.0)];
    let with = |arrivals, sizes: Sizes| Traffic {
        arrivals,
        sizes,
        rate: 512e3,
    };
    let call = PacketCall {
        reading_s: 3.0,
        idle_s: 20.0,
        ..PacketCall::WEB
    };
    vec![
        with(Arrivals::Poisson, Sizes::PAPER_U),
        with(Arrivals::Constant, Sizes::Empirical(imix.clone())),
        with(Arrivals::PacketCall(call), Sizes::Fixed(480.0)),
        with(Arrivals::Poisson, Sizes::Empirical(imix)),
    ]
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    let tandems = [umts("3des-md5", 100.0), umts("none", 100.0)];
    for traffic in traffics() {
        let run = run(100.0, 19);
        let with = |set| simulate_with(set, &tandems, &traffic, &run).unwrap();
        let reference = with(Instructions::Scalar);
        for set in Instructions::available() {
            assert!(with(set) == reference, "{set:?}");
        }
    }
}

#[test]
fn lanes_agree_with_the_reference_in_f64() {
    let tandems = ["none", "null-md5", "3des", "des-md5"].map(|policy| umts(policy, 100.0));
    for traffic in traffics() {
        let run = run(2000.0, 4);
        let fast = simulate(&tandems, &traffic, &run).unwrap();
        let slow = walk::simulate(&tandems, &traffic, &run);
        for (fast, slow) in fast.iter().zip(&slow) {
            let (fast, slow) = (fast.outcome().unwrap(), slow.outcome().unwrap());
            close(fast.packets as f64, slow.packets as f64, 1e-5);
            close(fast.mean_delay_s, slow.mean_delay_s, 2e-5);
            close(fast.throughput_bps, slow.throughput_bps, 1e-5);
            close(fast.protected_bps, slow.protected_bps, 1e-5);
            assert_eq!(fast.state, slow.state);
            for (one, two) in fast.queues.iter().zip(&slow.queues) {
                close(one.utilisation, two.utilisation, 1e-5);
                let wait = (one.mean_wait_s - two.mean_wait_s).abs();
                assert!(
                    wait < 1e-4 * two.mean_wait_s + 1e-7 * slow.mean_delay_s,
                    "{wait}"
                );
                let bytes = (one.mean_queue_bytes - two.mean_queue_bytes).abs();
                assert!(
                    bytes < 1e-4 * two.mean_queue_bytes + 1e-8 * traffic.rate,
                    "{bytes}"
                );
            }
            for (one, two) in fast.percentiles.iter().zip(&slow.percentiles) {
                close(one.delay_s, two.delay_s, 1e-3);
            }
        }
    }
}

#[test]
fn an_overloaded_queue_keeps_its_pace_for_hours() {
    // delays of hours, services of milliseconds, at the first queue and behind it
    let fixed = Traffic {
        arrivals: Arrivals::Constant,
        sizes: Sizes::Fixed(500.0),
        rate: 1024e3,
    };
    let mut behind = umts("3des-md5", 100.0);
    behind.queues.swap(0, 2);
    let tandems = [umts("3des-md5", 100.0), behind];
    for traffic in [fixed, poisson(1024.0)] {
        let run = run(18_000.0, 2);
        let fast = simulate(&tandems, &traffic, &run).unwrap();
        let slow = walk::simulate(&tandems, &traffic, &run);
        for (fast, slow) in fast.iter().zip(&slow) {
            let (fast, slow) = (fast.outcome().unwrap(), slow.outcome().unwrap());
            assert_eq!(fast.state, State::NotStationary);
            close(fast.throughput_bps, slow.throughput_bps, 2e-5);
            close(fast.mean_delay_s, slow.mean_delay_s, 2e-4);
            for (one, two) in fast.queues.iter().zip(&slow.queues) {
                close(one.utilisation, two.utilisation, 2e-5);
                close(one.load, two.load, 1e-5);
                assert!(one.utilisation <= 1.0, "{one:?}");
                assert_eq!(one.state, two.state);
                assert!((one.mean_wait_s - two.mean_wait_s).abs() < 2e-4 * two.mean_wait_s + 1e-7);
            }
        }
    }
}

#[test]
fn lanes_draw_the_numbers_of_the_named_streams() {
    let simd = Scalar::new();
    let mut lanes = Streams::new(simd, 7, Purpose::Size, 3);
    let mut stream = Stream::new(7, Purpose::Size, 3);
    for _ in 0..10_000 {
        assert_eq!(each::<Scalar>(&lanes.uniform(simd))[0], stream.uniform());
    }
    let mut other = Stream::new(7, Purpose::Gap, 3);
    assert_ne!(stream.uniform(), other.uniform());
}

#[test]
fn polynomials_are_as_near_as_they_say() {
    let simd = Scalar::new();
    let mut x = 1.3e-10f32;
    while x <= 1.0 {
        let (found, truth) = (f64::from(ln::<Scalar, 0>(simd, x)), libm::log(f64::from(x)));
        assert!((found - truth).abs() < 3e-7 * truth.abs() + 2e-7, "ln {x}");
        x *= 1.000_1;
    }
    let mut x = -20.0f32;
    while x <= 20.0 {
        let (found, truth) = (f64::from(exp2(simd, x)), libm::exp2(f64::from(x)));
        close(found, truth, 3e-7);
        x += 0.001;
    }
}

#[test]
fn ceilings_of_whole_sizes_are_exact() {
    let simd = Scalar::new();
    for width in [1.0, 4.0, 7.0, 8.0, 16.0, 48.0, 53.0, 64.0, 1000.0] {
        for offset in [0.0, 8.0, -18.0, 22.0] {
            let step = Step {
                height: 1.0,
                offset,
                width,
            };
            let tandem = single(Staircase {
                steps: vec![step],
                ..Staircase::default()
            });
            let factored = Factored::new(&[tandem]);
            let own = &factored.ceilings[0];
            for size in 18..65_000u16 {
                let size = f32::from(size);
                let blocks = ceil(simd, simd.mul_f32s(size + own.offset, own.inverse));
                assert_eq!(
                    f64::from(blocks),
                    step.at(f64::from(size)),
                    "{size} in {width}"
                );
            }
        }
    }
}

#[test]
fn sampled_sizes_have_their_moments() {
    let traffic = poisson(512.0);
    let sizes = single(Staircase::linear(1e-9));
    let tally = &simulate(&[sizes], &traffic, &run(10_000.0, 16)).unwrap()[0];
    let bytes: f64 = tally.replications.iter().map(|r| r.bytes).sum();
    let packets: u64 = tally.replications.iter().map(|r| r.packets).sum();
    // 19 million packets of squared variation 25.8: a standard error of 0.12 %
    close(bytes / packets as f64, 479.74, 4e-3);
    let mut stream = Streams::new(Scalar::new(), 1, Purpose::Size, 0);
    let uniforms = (0..4_000_000).map(|_| f64::from(stream.uniform(Scalar::new())));
    close(uniforms.sum::<f64>() / 4e6, 0.5, 1e-3);
}
