//! Tests of laws that hold for every queue, and of runs that are split.

use super::tandems::{poisson, run, single, umts};
use super::*;
use proptest::prelude::*;

#[test]
fn replications_can_be_split_merged_and_stored() {
    let tandems = [umts("3des-md5", 100.0)];
    let traffic = poisson(256.0);
    let whole = simulate(&tandems, &traffic, &run(200.0, 21))
        .unwrap()
        .remove(0);
    let part = |first_replication, replications| {
        let run = Run {
            first_replication,
            ..run(200.0, replications)
        };
        simulate(&tandems, &traffic, &run).unwrap().remove(0)
    };
    let mut merged = part(16, 5);
    merged.merge(&part(0, 3)).unwrap();
    let stored = read(&text(&part(3, 13))).unwrap();
    merged.merge(&stored).unwrap();
    assert!(merged == whole);
    assert_eq!(merged.outcome(), whole.outcome());
    // the same replications once more, another tandem, another duration
    assert!(matches!(
        merged.merge(&part(4, 1)),
        Err(TandemFault::Mismatch(_))
    ));
    let other = simulate(&[umts("des", 100.0)], &traffic, &run(200.0, 1)).unwrap();
    assert!(merged.merge(&other[0]).is_err());
    let longer = Run {
        first_replication: 50,
        ..run(300.0, 1)
    };
    assert!(
        merged
            .merge(&simulate(&tandems, &traffic, &longer).unwrap()[0])
            .is_err()
    );
}

#[test]
fn damaged_tallies_are_refused() {
    let tally = &simulate(&[umts("des", 100.0)], &poisson(256.0), &run(50.0, 3)).unwrap()[0];
    let text = text(tally);
    for length in 0..text.len() {
        assert!(read(&text[..length]).is_err());
    }
    for (from, to) in [
        ("\"index\":1", "\"index\":0"),
        ("\"index\":1", "\"index\":7"),
        ("\"seconds\":45.0", "\"seconds\":-45.0"),
        ("\"policy\":\"des\"", "\"policy\":\"des\",\"extra\":1"),
        ("\"stations\":[\"ms\",", "\"stations\":["),
        ("\"expected\":[", "\"expected\":[-"),
    ] {
        assert!(text.contains(from));
        assert!(read(&text.replacen(from, to, 1)).is_err(), "{to}");
    }
}

fn text(tally: &Tally) -> String {
    serde_json::to_string(tally).unwrap()
}

fn read(text: &str) -> Result<Tally, serde_json::Error> {
    serde_json::from_str(text)
}

#[test]
fn every_policy_gets_the_same_packets() {
    let tandems = ["none", "des", "3des-md5"].map(|policy| umts(policy, 100.0));
    let together = simulate(&tandems, &poisson(512.0), &run(100.0, 4)).unwrap();
    for (tandem, tally) in tandems.iter().zip(&together) {
        let alone = simulate(
            std::slice::from_ref(tandem),
            &poisson(512.0),
            &run(100.0, 4),
        )
        .unwrap();
        assert!(&alone[0] == tally);
        let same = |r: &tally::Replication| (r.packets, r.bytes);
        assert_eq!(
            same(&tally.replications[2]),
            same(&together[0].replications[2])
        );
    }
}

#[test]
fn littles_law_holds_packet_by_packet() {
    // bytes inside over time equal the sum of bytes times delay: step through an exact trace
    let packets = [(0.0, 100.0), (0.5, 300.0), (0.6, 100.0), (5.0, 200.0)];
    let tandem = single(Staircase::linear(0.01));
    let packets = packets.map(|(at_s, bytes)| Ok(Packet { at_s, bytes }));
    let tally = &replay(&[tandem], packets, None, 0.0).unwrap()[0];
    let seen = &tally.replications[0];
    // waits 0, 0.5, 3.4, 0.0: departures at 1, 4, 5, 7
    let queue = seen.queues[0];
    assert!((queue.wait_s - 3.9).abs() < 1e-12);
    assert!((queue.byte_s - (0.5 * 300.0 + 3.4 * 100.0)).abs() < 1e-12);
    assert!((queue.work_s - 7.0).abs() < 1e-12);
    assert!((queue.busy_s - 7.0).abs() < 1e-12);
    assert!((seen.delay_s - (1.0 + 3.5 + 4.4 + 2.0)).abs() < 1e-12);
    assert_eq!((seen.packets, seen.delivered), (4, 4));
    assert!((seen.departing_s - 7.0).abs() < 1e-12);
}

/// The time average of what waits before `queue`, computed event by event.
fn stepped(tandem: &Tandem, packets: &[Packet], queue: usize) -> f64 {
    let mut free = vec![0.0f64; tandem.queues.len()];
    let mut events = Vec::new();
    for packet in packets {
        let mut at = packet.at_s;
        for (index, own) in tandem.queues.iter().enumerate() {
            let start = free[index].max(at);
            if index == queue {
                events.push((at, packet.bytes));
                events.push((start, -packet.bytes));
            }
            at = start + own.service.at(packet.bytes);
            free[index] = at;
        }
    }
    events.sort_by(|one, two| one.0.total_cmp(&two.0));
    let (mut inside, mut before, mut area) = (0.0, 0.0, 0.0);
    for (at, change) in events {
        area += inside * (at - before);
        inside += change;
        before = at;
    }
    area
}

proptest! {
    /// The integral of waiting bytes over time equals the sum of bytes times waits over packets.
    #[test]
    fn littles_law_holds_at_every_queue(
        gaps in proptest::collection::vec((0.0..0.02f64, 40.0..3000.0f64), 2..300),
    ) {
        let mut at_s = 0.0;
        let packets: Vec<Packet> = gaps
            .iter()
            .map(|&(gap, bytes)| {
                at_s += gap;
                Packet { at_s, bytes }
            })
            .collect();
        let tandem = umts("des-md5", 100.0);
        let list = packets.iter().map(|packet| Ok(*packet));
        let tally = &replay(std::slice::from_ref(&tandem), list, None, 0.0).unwrap()[0];
        for (index, seen) in tally.replications[0].queues.iter().enumerate() {
            let area = stepped(&tandem, &packets, index);
            prop_assert!((seen.byte_s - area).abs() <= 1e-9 * area + 1e-9);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The total work does not depend on the order of the queues, and all packets that arrive
    /// leave.
    #[test]
    fn work_is_conserved(seed in 0u64..1000, kbps in 50.0..600.0f64) {
        let forward = umts("3des-md5", 100.0);
        let mut backward = forward.clone();
        backward.queues.reverse();
        let run = Run { seed, warm_up: 0.0, ..run(300.0, 3) };
        let tallies = simulate(&[forward, backward], &poisson(kbps), &run).unwrap();
        for (one, two) in tallies[0].replications.iter().zip(&tallies[1].replications) {
            for (a, b) in one.queues.iter().zip(two.queues.iter().rev()) {
                prop_assert!((a.work_s - b.work_s).abs() <= 1e-6 * a.work_s);
            }
            // a tandem of proportional services: the delay of all queues is the same sum
            let sum = |r: &tally::Replication| {
                r.queues.iter().map(|s| s.work_s + s.wait_s).sum::<f64>()
            };
            prop_assert!((sum(one) - one.delay_s).abs() <= 1e-4 * one.delay_s);
            prop_assert!((sum(two) - two.delay_s).abs() <= 1e-4 * two.delay_s);
            prop_assert!(one.delivered <= one.packets);
            prop_assert!(one.packets - one.delivered < 5000);
        }
    }

    /// With the same random numbers a higher rate shortens every gap, so no delay may become
    /// smaller.
    #[test]
    fn delays_grow_with_the_rate(seed in 0u64..1000, kbps in 100.0..500.0f64) {
        let traffic = |kbps| Traffic { sizes: Sizes::Fixed(480.0), ..poisson(kbps) };
        let run = Run { seed, ..run(400.0, 8) };
        let delay = |kbps| {
            let tally = &simulate(&[umts("3des", 100.0)], &traffic(kbps), &run).unwrap()[0];
            tally.outcome().unwrap().mean_delay_s
        };
        prop_assert!(delay(kbps) < delay(1.3 * kbps));
    }
}

/// One change of a valid run, after which the simulation must refuse it and name the value.
fn refused(tandem: Tandem, traffic: Traffic, run: Run, place: &str) {
    let fault = simulate(&[tandem], &traffic, &run).unwrap_err().to_string();
    assert!(fault.contains(place), "{fault}");
}

#[test]
fn nonsense_in_traffic_is_refused_with_its_place() {
    let with = |traffic: Traffic, place: &str| {
        refused(umts("des", 100.0), traffic, run(10.0, 1), place);
    };
    let rated = |rate| Traffic {
        rate,
        ..poisson(64.0)
    };
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300] {
        with(rated(rate), "the traffic's rate");
    }
    let sized = |sizes| Traffic {
        sizes,
        ..poisson(64.0)
    };
    for bytes in [0.0, 1e9, f64::NAN] {
        with(sized(Sizes::Fixed(bytes)), "the packet size");
    }
    let pareto = |shape, smallest, largest| Sizes::Pareto {
        shape,
        smallest,
        largest,
    };
    with(sized(pareto(1.1, 100.0, 50.0)), "the largest packet");
    with(sized(pareto(0.0, 100.0, 500.0)), "the Pareto shape");
    with(sized(Sizes::Empirical(Vec::new())), "the list of sizes");
    let share = Share {
        bytes: 100.0,
        weight: -1.0,
    };
    with(sized(Sizes::Empirical(vec![share])), "a weight");
    let arriving = |arrivals| Traffic {
        arrivals,
        ..poisson(64.0)
    };
    let call = PacketCall {
        packets: 0.5,
        ..PacketCall::WEB
    };
    with(arriving(Arrivals::PacketCall(call)), "packets in a call");
    let away = ClosedLoop {
        after: Some(99),
        ..ClosedLoop::SERIAL
    };
    with(arriving(Arrivals::ClosedLoop(away)), "waits for queue 99");
}

#[test]
fn nonsense_in_runs_and_tandems_is_refused_with_its_place() {
    let tandem = || umts("des", 100.0);
    let good = run(10.0, 1);
    let with = |run: Run, place: &str| refused(tandem(), poisson(64.0), run, place);
    with(
        Run {
            seconds: -5.0,
            ..good
        },
        "simulated seconds",
    );
    with(
        Run {
            warm_up: 10.0,
            ..good
        },
        "warm-up",
    );
    with(
        Run {
            replications: 0,
            ..good
        },
        "replications",
    );
    with(
        Run {
            first_replication: u64::MAX,
            ..good
        },
        "the first replication",
    );
    let endless = Traffic {
        rate: 1e13,
        ..poisson(64.0)
    };
    let long = Run {
        seconds: SECONDS_MAX,
        ..good
    };
    refused(tandem(), endless, long, "packets of one");
    let empty = Tandem {
        queues: Vec::new(),
        ..tandem()
    };
    refused(empty, poisson(64.0), good, "the list of queues of des");
    let endless = Staircase::constant(1e300);
    for service in [
        Staircase::constant(-1.0),
        Staircase::linear(f64::NAN),
        endless,
    ] {
        refused(single(service), poisson(64.0), good, "the service of only");
    }
    assert!(simulate(&[], &poisson(64.0), &good).is_err());
}

#[test]
fn an_empty_or_broken_list_is_refused() {
    let tandem = [single(Staircase::constant(0.1))];
    let none: [Result<Packet, TandemFault>; 0] = [];
    assert!(matches!(
        replay(&tandem, none, None, 0.0),
        Err(TandemFault::NoPackets(_))
    ));
    // one packet, or several at one moment, have no rate
    let packet = |at_s| Ok(Packet { at_s, bytes: 10.0 });
    for list in [
        vec![packet(3.0)],
        vec![packet(3.0), packet(3.0), packet(2.0)],
    ] {
        let fault = replay(&tandem, list, None, 0.0).unwrap_err().to_string();
        assert!(fault.contains("the rate is unknown"), "{fault}");
    }
    // unless the length of the observation is given
    let tally = &replay(&tandem, [packet(3.0), packet(60.0)], Some(50.0), 0.0).unwrap()[0];
    assert_eq!(tally.outcome().unwrap().mean_delay_s, 0.1);
    let odd = |at_s, bytes| replay(&tandem, [Ok(Packet { at_s, bytes })], None, 0.0);
    assert!(odd(f64::NAN, 100.0).is_err());
    assert!(odd(0.0, 0.0).is_err());
    assert!(odd(0.0, 1e12).is_err());
}

#[test]
fn an_overloaded_list_is_not_stationary() {
    let tandem = [single(Staircase::constant(0.1))];
    let packet = |n| {
        Ok(Packet {
            at_s: 0.05 * f64::from(n),
            bytes: 100.0,
        })
    };
    let tally = &replay(&tandem, (0..5000).map(packet), None, 0.0).unwrap()[0];
    let outcome = tally.outcome().unwrap();
    assert_eq!(outcome.state, State::NotStationary);
    assert!((outcome.queues[0].load - 2.0).abs() < 1e-6);
    assert!((outcome.queues[0].utilisation - 1.0).abs() < 1e-6);
    let packet = |n| {
        Ok(Packet {
            at_s: 0.2 * f64::from(n),
            bytes: 100.0,
        })
    };
    let tally = &replay(&tandem, (0..5000).map(packet), Some(500.0), 10.0).unwrap()[0];
    let outcome = tally.outcome().unwrap();
    assert_eq!(outcome.state, State::Stationary);
    assert!((outcome.throughput_bps - 4000.0).abs() < 10.0);
    assert!((outcome.mean_delay_s - 0.1).abs() < 1e-9);
}
