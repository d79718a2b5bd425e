//! Compares results with queueing theory and paper U's figures.

use super::tandems::{poisson, run, single, umts};
use super::*;

/// The outcome of the only tandem.
fn outcome(tandem: Tandem, traffic: &Traffic, run: &Run) -> Outcome {
    simulate(&[tandem], traffic, run).unwrap()[0]
        .outcome()
        .unwrap()
}

fn near(found: f64, truth: f64, share: f64) {
    assert!(
        (found / truth - 1.0).abs() < share,
        "{found} is not within {share} of {truth}"
    );
}

#[test]
fn moments_of_paper_us_sizes() {
    let sizes = Sizes::PAPER_U.moments_of(&Staircase::linear(1.0));
    near(sizes.first, 479.74, 1e-5);
    near(sizes.cv2(), 25.8, 1e-3);
}

#[test]
fn moments_of_ceilings_agree_with_a_sum_over_blocks() {
    let (shape, smallest, largest) = (1.1, 81.5, 66_666.0);
    let above = |bytes: f64| libm::pow(smallest / bytes, shape);
    // E[ceil(S / 8)] = sum of P(ceil(S / 8) > n) = 11 + sum over n >= 11 of P(S > 8 n)
    let blocks = (11..8334).map(|n| above(8.0 * f64::from(n)));
    let mean = 11.0 + blocks.sum::<f64>();
    let step = Staircase {
        steps: vec![Step {
            height: 1.0,
            offset: 0.0,
            width: 8.0,
        }],
        ..Staircase::default()
    };
    let sizes = Sizes::Pareto {
        shape,
        smallest,
        largest,
    };
    near(sizes.mean_of(&step), mean, 1e-9);
}

#[test]
fn capacities_and_the_buffer_of_paper_u() {
    let cpu = |policy| {
        let model = model(&umts(policy, 100.0), &poisson(512.0)).unwrap();
        model.queues[0].capacity_bps / 1e3
    };
    assert!((cpu("3des") - 784.0).abs() < 0.5, "{}", cpu("3des"));
    assert!((cpu("3des-md5") - 771.0).abs() < 0.5, "{}", cpu("3des-md5"));
    let model = model(&umts("des-md5", 100.0), &poisson(2000.0)).unwrap();
    near(model.queues[0].queue_bytes.unwrap(), 45.8e3, 2e-3);
    assert_eq!(model.queues[0].wait.unwrap().standing, Standing::Exact);
    // the radio is full above 1867 kbit/s with MD5
    assert_eq!(model.queues[1].wait, None);
    assert_eq!(model.state, Some(State::NotStationary));
    assert!((model.queues[1].capacity_bps / 1e3 - 1867.0).abs() < 0.5);
}

#[test]
fn m_m_1_waits_as_theory_says() {
    // there are no exponential sizes here: many sizes with exponential weights are close to them
    let step = |n: i32| f64::from(n) * 10.0 + 5.0;
    let share = |n: i32| Share {
        bytes: step(n),
        weight: libm::exp(-step(n) / 500.0),
    };
    let traffic = Traffic {
        arrivals: Arrivals::Poisson,
        sizes: Sizes::Empirical((0..1000).map(share).collect()),
        rate: 70_000.0,
    };
    let tandem = single(Staircase::linear(8.0 / 100_000.0));
    let found = outcome(tandem, &traffic, &run(40_000.0, 16));
    // W = rho / (1 - rho) x E[s]
    let service = traffic.sizes.mean() * 8e-5;
    near(found.queues[0].utilisation, 0.7, 0.01);
    near(found.queues[0].mean_wait_s, 0.7 / 0.3 * service, 0.03);
    near(found.mean_delay_s, service / 0.3, 0.03);
    // the delay of M/M/1 is exponential: its median is ln 2 of its mean
    near(found.percentiles[0].delay_s, 0.693 * service / 0.3, 0.05);
    assert_eq!(found.state, State::Stationary);
}

#[test]
fn m_d_1_waits_half_as_long() {
    let traffic = Traffic {
        arrivals: Arrivals::Poisson,
        sizes: Sizes::Fixed(500.0),
        rate: 80_000.0,
    };
    let tandem = single(Staircase::constant(0.04));
    let found = outcome(tandem, &traffic, &run(40_000.0, 16));
    near(found.queues[0].mean_wait_s, 0.8 / (2.0 * 0.2) * 0.04, 0.03);
}

#[test]
fn m_g_1_waits_as_pollaczek_and_khinchine_say() {
    let traffic = poisson(400.0);
    let tandem = umts("3des-md5", 100.0);
    let theory = model(&tandem, &traffic).unwrap();
    let found = outcome(tandem, &traffic, &run(3600.0, 32));
    let exact = &theory.queues[0];
    near(
        found.queues[0].mean_wait_s,
        exact.wait.unwrap().seconds,
        0.05,
    );
    near(
        found.queues[0].mean_queue_bytes,
        exact.queue_bytes.unwrap(),
        0.05,
    );
    for (found, theory) in found.queues.iter().zip(&theory.queues) {
        near(found.utilisation, theory.utilisation.unwrap(), 0.01);
    }
    near(found.throughput_bps, 400e3, 0.01);
    near(found.protected_bps, theory.protected_bps.unwrap(), 0.01);
}

#[test]
fn packet_calls_come_at_their_mean_rate() {
    let traffic = Traffic {
        arrivals: Arrivals::PacketCall(PacketCall {
            reading_s: 2.0,
            idle_s: 10.0,
            ..PacketCall::WEB
        }),
        ..poisson(64.0)
    };
    let found = outcome(umts("des", 100.0), &traffic, &run(36_000.0, 8));
    let rate = traffic.packets_per_s().unwrap();
    near(found.packets as f64 / (8.0 * 0.9 * 36_000.0), rate, 0.02);
}

#[test]
fn a_serial_source_of_paper_w_carries_400_kbps() {
    let traffic = Traffic {
        arrivals: Arrivals::ClosedLoop(ClosedLoop::SERIAL),
        sizes: Sizes::Fixed(800.0),
        rate: 500e3,
    };
    let found = outcome(
        single(Staircase::constant(3.2e-3)),
        &traffic,
        &run(1000.0, 2),
    );
    near(found.throughput_bps, 400e3, 1e-4);
    assert_eq!(found.state, State::Stationary);
    assert_eq!(found.queues[0].mean_wait_s, 0.0);
}

#[test]
fn a_closed_loop_never_diverges() {
    let traffic = Traffic {
        arrivals: Arrivals::ClosedLoop(ClosedLoop {
            think_s: 0.1,
            ..ClosedLoop::WEB
        }),
        ..poisson(2048.0)
    };
    let found = outcome(umts("3des-md5", 100.0), &traffic, &run(2000.0, 8));
    assert!(found.throughput_bps < 771e3);
    assert_ne!(found.state, State::NotStationary);
}

#[test]
fn behind_a_full_queue_no_wait_is_computed() {
    let queue = |name: &str, per_byte: f64| Queue {
        name: name.into(),
        service: Staircase::linear(per_byte),
    };
    let tandem = Tandem {
        policy: "none".into(),
        queues: vec![
            queue("first", 4e-6),
            queue("full", 9e-6),
            queue("behind", 4e-6),
        ],
        protected: Staircase::linear(1.0),
    };
    // 125,000 bytes per second
    let found = model(&tandem, &poisson(1000.0)).expect("a model");
    let [first, full, behind] = &found.queues[..] else {
        panic!("three queues");
    };
    assert_eq!(full.utilisation, Some(1.0));
    near(full.load.unwrap(), 1.125, 1e-9);
    near(first.utilisation.unwrap(), 0.5, 1e-9);
    near(behind.utilisation.unwrap(), 0.5 / 1.125, 1e-9);
    let states = [first, full, behind].map(|one| one.state.unwrap());
    assert_eq!(
        states,
        [State::Stationary, State::NotStationary, State::Stationary]
    );
    let has_wait: Vec<bool> = found.queues.iter().map(|one| one.wait.is_some()).collect();
    assert_eq!(has_wait, [true, false, false]);
    assert!(found.queues[2].queue_bytes.is_none());
    assert_eq!(
        (found.delay, found.state),
        (None, Some(State::NotStationary))
    );
}

#[test]
fn utilisation_decides_the_state() {
    let state = |kbps| {
        let found = outcome(umts("3des-md5", 100.0), &poisson(kbps), &run(600.0, 8));
        found.state
    };
    assert_eq!(state(512.0), State::Stationary);
    // 768 of 771 kbit/s
    assert_eq!(state(768.0), State::NearSaturation);
    assert_eq!(state(1024.0), State::NotStationary);
}

#[test]
fn behind_a_full_queue_both_levels_say_what_passes() {
    // the processor lets 771 of 2048 kbit/s through
    let (tandem, traffic) = (umts("3des-md5", 100.0), poisson(2048.0));
    let theory = model(&tandem, &traffic).unwrap();
    let found = outcome(tandem, &traffic, &run(2000.0, 16));
    assert!((found.queues[0].utilisation - 1.0).abs() < 1e-3);
    near(found.queues[0].load, 2048.0 / 771.0, 0.02);
    for (found, theory) in found.queues.iter().zip(&theory.queues) {
        near(found.utilisation, theory.utilisation.unwrap(), 0.01);
        assert_eq!(Some(found.state), theory.state, "{}", found.name);
    }
    assert_eq!(found.state, State::NotStationary);
}

#[test]
fn the_tandem_is_in_the_state_of_its_worst_queue() {
    // few short runs whose packets happen to need more than a second of work per second
    let (tandem, traffic) = (umts("3des-md5", 100.0), poisson(768.0));
    let mut loads = Vec::new();
    for seed in 0..40 {
        let run = Run {
            seed,
            ..run(60.0, 2)
        };
        let found = outcome(tandem.clone(), &traffic, &run);
        let worst = found.queues.iter().map(|queue| queue.state).max();
        assert_eq!(Some(found.state), worst);
        assert_eq!(found.queues[0].state, State::NearSaturation);
        loads.push(found.queues[0].load);
    }
    assert!(loads.iter().any(|load| *load > 1.0), "{loads:?}");
    let theory = model(&tandem, &traffic).unwrap();
    let worst = theory.queues.iter().filter_map(|queue| queue.state);
    assert_eq!(theory.state, worst.max());
}
