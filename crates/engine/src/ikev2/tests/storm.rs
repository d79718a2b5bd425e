//! Chaos, then calm: both ends do everything at random over a wire that loses, repeats and
//! reorders. Then the wire is good, and both ends must have the same IKE SA and the same children.

use super::world::{Setup, Who, World};
use Who::{Gateway, Station};
use crypto::rand::{Seed, Stream};

fn act(world: &mut World, random: &mut Stream) {
    let who = if random.u32() & 1 == 0 {
        Station
    } else {
        Gateway
    };
    let is_up = |world: &mut World| world.end(who).current().is_some();
    match random.u32() % 8 {
        0 | 1 if is_up(world) => world.rekey_child(who),
        2 => world.rekey_ike(who),
        3 if world.end(who).pairs.len() < 4 => world.new_child(who),
        4 if world.end(who).pairs.len() > 1 => world.delete_child(who),
        5 => world.probe(who, random.u32() >> 1),
        _ => {}
    }
}

fn disturb(world: &mut World, random: &mut Stream) {
    let to = if random.u32() & 1 == 0 {
        Station
    } else {
        Gateway
    };
    let flights = world.flights(to);
    let Some(flight) = flights.pop_front() else {
        return;
    };
    match random.u32() % 10 {
        0 => {}
        1 => {
            world.receive(to, &flight);
            world.receive(to, &flight);
        }
        2 => world.flights(to).push_back(flight),
        _ => world.receive(to, &flight),
    }
}

/// Whether an end has given up, or asks for the last time and was not heard.
fn gives_up(world: &mut World, who: Who) -> bool {
    let Some(session) = &mut world.end(who).session else {
        return true;
    };
    let asked = session.inside().sas[0].asked.as_ref();
    asked.is_some_and(|asked| asked.is_last())
}

fn is_calm(world: &mut World) -> bool {
    Who::BOTH.iter().all(|who| {
        let end = world.end(*who);
        let fault = end.fault.clone();
        let session = end.session.as_mut();
        let inside = session
            .unwrap_or_else(|| panic!("{who:?}: {fault:?} {:#?}", end.facts))
            .inside();
        let is_idle = inside.sas.len() == 1 && inside.sas[0].asked.is_none();
        is_idle && inside.queue.is_empty()
    })
}

const CLASSICAL: &str = "aes128gcm16-prfsha256-curve25519";
const PLAIN: &str = "aes128gcm16";

#[test]
fn after_any_chaos_both_ends_agree() {
    assert!(storms(0..120, CLASSICAL, PLAIN) >= 60);
}

#[test]
fn so_they_do_with_additional_key_exchanges() {
    let suites = "aes128gcm16-prfsha256-curve25519-ke1_ecp256-ke2_mlkem768";
    assert!(storms(60..120, suites, PLAIN) >= 30);
}

#[test]
fn so_they_do_with_children_that_take_two_exchanges() {
    let esp = "aes128gcm16-curve25519-ke1_ecp256";
    assert!(storms(0..60, CLASSICAL, esp) >= 30);
}

/// How many storms did not part the ends.
fn storms(seeds: core::ops::Range<u8>, suites: &'static str, esp: &'static str) -> usize {
    let mut calm = 0;
    for seed in seeds {
        let setup = Setup {
            seed,
            station_suites: suites,
            gateway_suites: suites,
            esp,
            ..Setup::default()
        };
        let mut world = setup.established();
        let mut random = Seed::new([seed; 32]).stream("storm", 0);
        for _ in 0..120 {
            if world.station.session.is_none() || world.gateway.session.is_none() {
                break;
            }
            act(&mut world, &mut random);
            for _ in 0..random.u32() % 4 {
                disturb(&mut world, &mut random);
            }
            if random.u32().is_multiple_of(5) {
                world.wait();
            }
        }
        world.run();
        if Who::BOTH.iter().any(|who| gives_up(&mut world, *who)) {
            // The wire was dead for a minute for one of them.
            continue;
        }
        calm += 1;
        for _ in 0..40 {
            world.pass(10);
            if is_calm(&mut world) {
                break;
            }
        }
        assert!(is_calm(&mut world), "seed {seed}");
        let [a, b] = [&world.station, &world.gateway];
        // A node ends what only its peer has; here nobody does. So both have the same.
        assert_eq!(
            a.pairs.len(),
            b.pairs.len(),
            "seed {seed}: {:?} {:?}",
            a.facts,
            b.facts
        );
        let pairs = world.station.pairs.len();
        world.assert_agreed(pairs);
    }
    calm
}
