//! More renewals and ends of the IKE SA that cross: with other methods at each end, and with
//! messages that are late. `ike_collisions.rs` says which case of strongSwan's suite is where.

use std::sync::Arc;

use super::late::{one_late, pass_without};
use super::world::{Setup, Who, World};
use crate::ike::{Fault, Role};
use Who::{Gateway, Station};

const CURVE: &str = "aes128gcm16-prfsha256-curve25519";
const HYBRID: &str = "aes128gcm16-prfsha256-curve25519-ke1_ecp256";
const EACH_ITS_OWN: [&str; 2] = [
    "aes128gcm16-prfsha256-ecp256 aes128gcm16-prfsha256-curve25519",
    "aes128gcm16-prfsha256-curve25519 aes128gcm16-prfsha256-ecp256",
];
const EACH_ITS_OWN_HYBRID: [&str; 2] = [
    "aes128gcm16-prfsha256-ecp256-ke1_mlkem768 aes128gcm16-prfsha256-curve25519-ke1_mlkem768",
    "aes128gcm16-prfsha256-curve25519-ke1_mlkem768 aes128gcm16-prfsha256-ecp256-ke1_mlkem768",
];
/// The exchange of one end has an additional key exchange, that of the other one has none.
const MIXED: [&str; 2] = [
    "aes128gcm16-prfsha256-curve25519-ke1_ecp256 aes128gcm16-prfsha256-curve25519",
    "aes128gcm16-prfsha256-curve25519 aes128gcm16-prfsha256-curve25519-ke1_ecp256",
];
const REFUSED: &str = "create child 2: N(INVALID_KE_PAYLOAD)";

fn world_of(seed: u8, [station, gateway]: [&'static str; 2]) -> World {
    let setup = Setup {
        seed,
        station_suites: station,
        gateway_suites: gateway,
        ..Setup::default()
    };
    let mut world = setup.established();
    clear(&mut world);
    world
}

/// An end wants these suites from now on.
fn wants(world: &mut World, who: Who, suites: &'static str) {
    let setup = Setup {
        station_suites: suites,
        gateway_suites: suites,
        ..Setup::default()
    };
    let session = world.end(who).session.as_mut().expect("a session");
    session.inside().connection = Arc::new(setup.connection(who == Station));
}

const P256_FIRST: &str =
    "aes128gcm16-prfsha256-ecp256 aes128gcm16-prfsha256-ecp384 aes128gcm16-prfsha256-curve25519";
const P384_FIRST: &str =
    "aes128gcm16-prfsha256-ecp384 aes128gcm16-prfsha256-ecp256 aes128gcm16-prfsha256-curve25519";

/// Both ends agreed on Curve25519. From now on each wants another method, which the other one takes
/// as well.
fn changed(seed: u8) -> World {
    let mut world = world_of(seed, [CURVE, CURVE]);
    wants(&mut world, Station, P256_FIRST);
    wants(&mut world, Gateway, P384_FIRST);
    world
}

fn clear(world: &mut World) {
    for who in Who::BOTH {
        world.end(who).arrows.clear();
        world.end(who).facts.clear();
    }
}

fn count(words: &[String], word: &str) -> usize {
    words.iter().filter(|it| *it == word).count()
}

fn last(world: &mut World, who: Who) -> String {
    world.end(who).arrows.last().expect("a message").clone()
}

/// The suite that is in use.
fn suite(world: &mut World) -> String {
    let session = world.station.session.as_mut().expect("a session");
    session.inside().current().suite.to_string()
}

/// Both ends have asked for a new IKE SA, and have been told to use another method. Both ask again.
fn refused(world: &mut World) {
    world.rekey_ike(Station);
    world.rekey_ike(Gateway);
    // SA, Ni, KEi -->, and <-- SA, Ni, KEi
    assert!(world.deliver(Gateway) && world.deliver(Station));
    assert_eq!(last(world, Station), REFUSED);
    assert_eq!(last(world, Gateway), REFUSED);
    // N(INVALID_KE_PAYLOAD) -->, and <-- N(INVALID_KE_PAYLOAD)
    assert!(world.deliver(Gateway) && world.deliver(Station));
    assert_eq!(last(world, Station), "create child 1: SA No KE");
    assert_eq!(last(world, Gateway), "create child 1: SA No KE");
}

#[test]
fn a_renewal_takes_the_method_that_the_responder_names() {
    for (suites, messages) in [(EACH_ITS_OWN, 2), (EACH_ITS_OWN_HYBRID, 3)] {
        let mut world = world_of(7, suites);
        // IKE_SA_INIT took what the gateway prefers.
        let of_gateway = suites[1].split(' ').next().expect("a suite");
        let of_station = suites[0].split(' ').next().expect("a suite");
        assert_eq!(suite(&mut world), of_gateway);
        for (who, agreed) in [(Gateway, of_station), (Station, of_gateway)] {
            clear(&mut world);
            world.rekey_ike(who);
            world.pass(5);
            world.assert_agreed(1);
            assert_eq!(suite(&mut world), agreed);
            assert_eq!(world.end(who.other()).arrows[0], REFUSED);
            let asked = &world.end(who).arrows[..messages];
            assert_eq!(asked[..2], ["create child 1: SA No KE"; 2]);
            assert!(asked[2..].iter().all(|it| it.starts_with("followup 1: KE")));
            assert_eq!(world.end(who).facts, ["renewed"]);
            // The method stays, so the next renewal begins with it.
            clear(&mut world);
            world.rekey_ike(who);
            world.pass(5);
            world.assert_agreed(1);
            assert_eq!(count(&world.end(who.other()).arrows, REFUSED), 0);
        }
    }
}

#[test]
fn a_peer_that_names_one_method_after_the_other_gets_nothing_more() {
    let mut world = changed(7);
    world.rekey_ike(Station);
    assert!(world.deliver(Gateway) && world.deliver(Station));
    // The gateway changes its mind.
    wants(&mut world, Gateway, P256_FIRST);
    world.run();
    assert_eq!(count(&world.gateway.arrows, REFUSED), 2);
    assert_eq!(world.station.arrows.len(), 2);
    let told = &world.station.facts[0];
    assert!(told.contains("INVALID_KE_PAYLOAD"), "{told}");
    world.assert_agreed(1);
}

#[test]
fn a_hybrid_renewal_may_cross_one_that_is_not() {
    // The shorter one is done first, if no message is late.
    for seed in 1..=4 {
        for bits in 0..256 {
            let mut world = world_of(seed, MIXED);
            world.rekey_ike(Station);
            world.rekey_ike(Gateway);
            world.in_order(bits);
            world.pass(60);
            world.assert_agreed(1);
            assert_eq!(suite(&mut world), CURVE);
        }
    }
    for seed in 1..=6 {
        let mut world = world_of(seed, MIXED);
        world.rekey_ike(Station);
        world.rekey_ike(Gateway);
        let late = world.hold(Gateway);
        pass_without(&mut world, Gateway, &late, 1);
        world.release(Gateway, late);
        world.pass(60);
        world.assert_agreed(1);
        assert_eq!(suite(&mut world), HYBRID);
        assert_eq!(world.station.facts, ["renewed"]);
    }
}

#[test]
fn two_renewals_with_the_wrong_methods_cross_twice() {
    let mut made = [0, 0];
    for seed in 1..=12 {
        let mut world = changed(seed);
        refused(&mut world);
        world.run();
        world.pass(5);
        world.assert_agreed(1);
        assert_eq!(world.station.facts, ["renewed"]);
        assert_eq!(world.gateway.facts, ["renewed"]);
        let session = world.station.session.as_mut().expect("a session");
        let is_stations = session.inside().current().role == Role::Initiator;
        made[usize::from(is_stations)] += 1;
    }
    assert!(made.iter().all(|it| *it > 0), "both cases occur");
    for seed in 1..=2 {
        for bits in 0..256 {
            let mut world = changed(seed);
            world.rekey_ike(Station);
            world.rekey_ike(Gateway);
            world.in_order(bits);
            world.pass(60);
            world.assert_agreed(1);
        }
    }
}

#[test]
fn a_second_try_with_the_right_method_may_be_late() {
    for seed in 1..=6 {
        let mut world = changed(seed);
        refused(&mut world);
        let late = world.hold(Gateway);
        // <-- SA, Ni, KEi
        assert!(world.deliver(Station));
        // SA, Nr, KEr -->
        assert!(world.deliver(Gateway));
        // <-- D, while the request is on the way
        world.release(Gateway, late);
        assert!(world.deliver(Gateway));
        let temporary = "create child 2: N(TEMPORARY_FAILURE)";
        assert_eq!(last(&mut world, Gateway), temporary);
        world.pass(40);
        world.assert_agreed(1);
        assert_eq!(world.station.facts, ["renewed"]);
        assert_eq!(world.gateway.facts, ["renewed"]);
    }
}

/// An end deletes the IKE SA, and forgets it.
fn delete(world: &mut World, who: Who) {
    world.leave(who);
    world.end(who).session = None;
}

#[test]
fn the_end_of_an_ike_sa_ends_a_hybrid_renewal_of_it() {
    for (renews, deletes) in [(Station, Gateway), (Gateway, Station)] {
        for is_late in [false, true] {
            let mut world = world_of(7, [HYBRID; 2]);
            world.rekey_ike(renews);
            assert!(world.deliver(deletes) && world.deliver(renews));
            assert!(last(&mut world, renews).starts_with("followup 1: KE"));
            let followup = world.hold(deletes);
            delete(&mut world, deletes);
            if is_late {
                world.run();
            }
            world.release(deletes, followup);
            world.pass(2);
            world.assert_over();
            assert_eq!(world.end(renews).facts, ["IKE SA deleted"]);
            assert!(world.end(renews).pairs.is_empty());
        }
    }
}

#[test]
fn the_end_of_an_ike_sa_may_come_late_or_not_at_all() {
    for (renews, deletes) in [(Station, Gateway), (Gateway, Station)] {
        for comes in [true, false] {
            let mut world = world_of(7, [CURVE; 2]);
            world.rekey_ike(renews);
            delete(&mut world, deletes);
            let late = world.hold(renews);
            for _ in 0..3 {
                world.hold(deletes);
                assert!(world.wait(), "the request is repeated");
            }
            assert!(world.end(renews).session.is_some());
            world.release(renews, if comes { late } else { Vec::new() });
            world.pass(300);
            world.assert_over();
            match comes {
                true => assert_eq!(world.end(renews).facts, ["IKE SA deleted"]),
                false => {
                    let fault = world.end(renews).fault.take();
                    assert!(matches!(fault, Some(Fault::TimedOut(_))), "{fault:?}");
                }
            }
        }
    }
}

#[test]
fn every_message_of_a_crossing_may_be_late() {
    let worlds: [fn(u8) -> World; 4] = [
        |seed| world_of(seed, [CURVE; 2]),
        |seed| world_of(seed, [HYBRID; 2]),
        |seed| world_of(seed, MIXED),
        changed,
    ];
    for begun in worlds {
        for seed in 1..=3 {
            for seconds in [1, 3, 8] {
                let mut cases = 0;
                for number in 0..12 {
                    let mut world = begun(seed);
                    world.rekey_ike(Station);
                    world.rekey_ike(Gateway);
                    cases += usize::from(one_late(&mut world, number, seconds));
                    world.pass(100);
                    world.assert_agreed(1);
                }
                assert!(cases >= 6, "{cases}");
            }
        }
    }
}
