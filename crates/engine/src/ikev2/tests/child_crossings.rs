//! More renewals and deletes of children that cross: with other methods at each end, with messages
//! that are late, and with peers that delete what they should not. `child_collisions.rs` says
//! which case of strongSwan's suite is where.

use super::late::{one_late, pass_without, until_sent};
use super::world::{Flight, Setup, Who, World};
use crate::ike::Fault;
use crate::sa::Protocol;
use Who::{Gateway, Station};

/// Each end wants another method first.
const EACH_ITS_OWN: [&str; 2] = [
    "aes128gcm16-ecp256 aes128gcm16-curve25519",
    "aes128gcm16-curve25519 aes128gcm16-ecp256",
];
/// The exchange of one end has an additional key exchange, that of the other one has none.
const MIXED: [&str; 2] = [
    "aes128gcm16-curve25519-ke1_ecp256 aes128gcm16-curve25519",
    "aes128gcm16-curve25519 aes128gcm16-curve25519-ke1_ecp256",
];
const PLAIN: [&str; 2] = ["aes128gcm16"; 2];
const HYBRID: [&str; 2] = ["aes128gcm16-curve25519-ke1_ecp256"; 2];

fn world_of(seed: u8, [station, gateway]: [&'static str; 2]) -> World {
    let setup = |esp| Setup {
        seed,
        esp,
        ..Setup::default()
    };
    let mut world = setup(station).world();
    world.gateway.connection = setup(gateway).world().gateway.connection;
    world.run();
    world.assert_agreed(1);
    for who in Who::BOTH {
        world.end(who).arrows.clear();
        world.end(who).facts.clear();
    }
    world
}

fn worlds(esp: [&'static str; 2]) -> impl Iterator<Item = World> {
    (1..=12).map(move |seed| world_of(seed, esp))
}

fn count(words: &[String], word: &str) -> usize {
    words.iter().filter(|it| *it == word).count()
}

fn last(world: &mut World, who: Who) -> String {
    world.end(who).arrows.last().expect("a message").clone()
}

/// Our SPI of an end's oldest pair.
fn old(world: &mut World, who: Who) -> u32 {
    world.end(who).pairs[0].negotiated.spi_in
}

/// An end deletes the pair with this SPI of its own.
fn delete(world: &mut World, who: Who, spi: u32) {
    let pairs = &mut world.end(who).pairs;
    pairs.retain(|pair| pair.negotiated.spi_in != spi);
    world.step(who, |session, random, now, out| {
        session.delete_child(Protocol::Esp, spi, random, now, out);
    });
}

/// Both ends have asked, and heard of the other's request. Returns the answer to the station.
fn crossed(world: &mut World) -> Vec<Flight> {
    world.rekey_child(Station);
    world.rekey_child(Gateway);
    // N(REKEY_SA), SA, Ni, [KEi], TSi, TSr -->
    assert!(world.deliver(Gateway));
    // <-- N(REKEY_SA), SA, Ni, [KEi], TSi, TSr
    assert!(world.deliver(Station));
    world.hold(Station)
}

/// Two renewals cross, and everything is delivered in the order of the bits.
fn in_order(world: &mut World, bits: u32) {
    world.rekey_child(Station);
    world.rekey_child(Gateway);
    world.in_order(bits);
    world.pass(30);
}

#[test]
fn a_hybrid_renewal_may_cross_one_that_is_not() {
    let is_hybrid = |world: &World| {
        let suite = world.station.pairs[0].negotiated.suite.to_string();
        suite.ends_with("ke1_ecp256")
    };
    // The shorter one is done first, if no message is late.
    for seed in 1..=6 {
        for bits in 0..256 {
            let mut world = world_of(seed, MIXED);
            in_order(&mut world, bits);
            world.assert_agreed(1);
            assert!(!is_hybrid(&world));
        }
    }
    for mut world in worlds(MIXED) {
        world.rekey_child(Station);
        world.rekey_child(Gateway);
        let late = world.hold(Gateway);
        pass_without(&mut world, Gateway, &late, 1);
        world.release(Gateway, late);
        world.pass(5);
        world.assert_agreed(1);
        assert!(is_hybrid(&world));
        assert_eq!(count(&world.station.facts, "child overtaken"), 1);
    }
}

#[test]
fn two_renewals_with_the_wrong_methods_cross_twice() {
    let mut lost = [0, 0];
    for mut world in worlds(EACH_ITS_OWN) {
        let refusal = crossed(&mut world);
        let refused = "create child 2: N(INVALID_KE_PAYLOAD)";
        assert_eq!(last(&mut world, Station), refused);
        assert_eq!(last(&mut world, Gateway), refused);
        world.release(Station, refusal);
        // <-- N(INVALID_KE_PAYLOAD), and N(INVALID_KE_PAYLOAD) -->
        assert!(world.deliver(Station) && world.deliver(Gateway));
        // N(REKEY_SA), SA, Ni, KEi, TSi, TSr -->, and <-- the same
        assert!(world.deliver(Gateway) && world.deliver(Station));
        world.pass(5);
        world.assert_agreed(1);
        for who in Who::BOTH {
            let asked = "create child 1: N(REKEY_SA) SA No KE TSi TSr";
            assert_eq!(count(&world.end(who).arrows, asked), 2);
            assert_eq!(count(&world.end(who).arrows, refused), 1);
        }
        let ends = [&world.station, &world.gateway];
        let redundant = ends.map(|it| count(&it.facts, "child redundant"));
        assert_eq!(redundant[0] + redundant[1], 1);
        lost = [lost[0] + redundant[0], lost[1] + redundant[1]];
    }
    assert!(lost[0] > 0 && lost[1] > 0, "both cases occur");
    for bits in 0..256 {
        let mut world = world_of(3, EACH_ITS_OWN);
        in_order(&mut world, bits);
        world.assert_agreed(1);
    }
}

#[test]
fn a_second_try_with_the_right_method_may_be_late() {
    for mut world in worlds(EACH_ITS_OWN) {
        let refusal = crossed(&mut world);
        world.release(Station, refusal);
        // <-- N(INVALID_KE_PAYLOAD)
        assert!(world.deliver(Station));
        // N(INVALID_KE_PAYLOAD) -->
        assert!(world.deliver(Gateway));
        let mut sent = world.hold(Gateway);
        assert_eq!(sent.len(), 1);
        let late = sent.remove(0);
        assert!(late.name.starts_with("create child 1"));
        // <-- N(REKEY_SA), SA, Ni, KEi, TSi, TSr
        assert!(world.deliver(Station));
        // SA, Nr, KEr, TSi, TSr -->
        assert!(world.deliver(Gateway));
        world.release(Gateway, vec![late]);
        assert!(world.deliver(Gateway));
        let temporary = "create child 2: N(TEMPORARY_FAILURE)";
        assert_eq!(last(&mut world, Gateway), temporary);
        world.pass(5);
        world.assert_agreed(1);
        assert_eq!(count(&world.station.facts, "child overtaken"), 1);
        assert_eq!(count(&world.gateway.facts, "child agreed"), 1);
    }
}

#[test]
fn a_responder_that_deletes_the_old_pair_itself_loses_nothing() {
    for is_early in [true, false] {
        let mut world = world_of(7, PLAIN);
        let pair = old(&mut world, Gateway);
        world.rekey_child(Station);
        assert!(world.deliver(Gateway));
        let answer = world.hold(Station);
        delete(&mut world, Gateway, pair);
        let deleted = world.hold(Station);
        let order = match is_early {
            true => [deleted, answer],
            false => [answer, deleted],
        };
        for flights in order {
            world.release(Station, flights);
            assert!(world.deliver(Station));
        }
        world.pass(5);
        world.assert_agreed(1);
        assert_ne!(old(&mut world, Gateway), pair);
        // Nothing is left for the station to delete.
        assert_eq!(count(&world.station.arrows, "informational 1: D"), 0);
        assert_eq!(count(&world.station.arrows, "informational 2: D"), 1);
    }
}

#[test]
fn one_that_lost_a_crossing_may_do_so_too() {
    let mut cases = 0;
    for mut world in worlds(PLAIN) {
        let pair = old(&mut world, Gateway);
        let late = crossed(&mut world);
        // SA, Nr, TSi, TSr -->
        assert!(world.deliver(Gateway));
        if count(&world.gateway.facts, "child redundant") == 0 {
            continue;
        }
        cases += 1;
        // <-- D: what the gateway made
        assert!(world.deliver(Station));
        assert_eq!(last(&mut world, Station), "informational 2: D");
        assert!(world.deliver(Gateway));
        // <-- D: the old pair, which is the station's to delete
        delete(&mut world, Gateway, pair);
        assert!(world.deliver(Station));
        assert!(world.deliver(Gateway));
        world.release(Station, late);
        world.pass(5);
        world.assert_agreed(1);
        assert_eq!(count(&world.station.facts, "child agreed"), 1);
        assert_ne!(old(&mut world, Gateway), pair);
    }
    assert!(cases > 0, "the gateway loses in some");
}

#[test]
fn a_pair_that_the_peer_has_renewed_is_not_renewed_again() {
    let mut world = world_of(7, PLAIN);
    let spi = old(&mut world, Gateway);
    world.rekey_child(Station);
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world.rekey_pair(Gateway, spi);
    assert!(world.to_station.is_empty());
    assert!(world.gateway.arrows.len() == 1);
    world.pass(5);
    world.assert_agreed(1);
    assert_eq!(count(&world.gateway.facts, "child overtaken"), 1);
    assert_eq!(count(&world.gateway.arrows, "informational 2: D"), 1);
}

#[test]
fn the_old_pair_may_reach_its_end_before_its_delete_comes() {
    for is_late in [false, true] {
        let mut world = world_of(7, PLAIN);
        let pair = old(&mut world, Gateway);
        world.rekey_child(Station);
        assert!(world.deliver(Gateway));
        if !is_late {
            assert!(world.deliver(Station));
            until_sent(&mut world, Gateway);
        }
        let answer = world.hold(Station);
        // The delete of the gateway may cross that of the station.
        delete(&mut world, Gateway, pair);
        world.run();
        world.release(Station, answer);
        world.pass(5);
        world.assert_agreed(1);
        assert_ne!(old(&mut world, Gateway), pair);
    }
}

#[test]
fn the_new_pair_may_be_deleted_while_the_old_one_is() {
    for bits in 0..16_u32 {
        let mut world = world_of(7, PLAIN);
        world.rekey_child(Station);
        assert!(world.deliver(Gateway) && world.deliver(Station));
        until_sent(&mut world, Gateway);
        world.delete_child(Gateway);
        world.in_order(bits);
        world.pass(5);
        world.assert_agreed(0);
        assert_eq!(count(&world.gateway.arrows, "informational 1: D"), 1);
        assert_eq!(count(&world.station.arrows, "informational 1: D"), 1);
    }
}

#[test]
fn a_delete_that_nobody_answers_ends_the_session_once() {
    let mut world = world_of(7, PLAIN);
    world.rekey_child(Station);
    world.run();
    world.station.facts.clear();
    while world.station.session.is_some() {
        assert!(world.wait());
        assert!(world.hold(Gateway).iter().all(|it| it.name.ends_with(" D")));
        world.hold(Station);
    }
    let fault = world.station.fault.take().expect("a fault");
    assert!(matches!(fault, Fault::TimedOut(_)), "{fault}");
    assert_eq!(world.station.facts, [format!("failed: {fault}")]);
}

#[test]
fn a_pair_may_be_deleted_before_the_answer_that_made_it_comes() {
    for esp in [PLAIN, HYBRID] {
        let mut world = world_of(7, esp);
        world.rekey_child(Station);
        let mut answer = Vec::new();
        // SA, Nr, [KEr], TSi, TSr, and perhaps KEr of an additional key exchange after it.
        while count(&world.gateway.facts, "child granted") == 0 {
            world.release(Station, answer);
            world.deliver(Station);
            assert!(world.deliver(Gateway));
            answer = world.hold(Station);
        }
        // <-- D
        world.delete_child(Gateway);
        assert!(world.deliver(Station));
        // The station does not know it yet.
        assert_eq!(last(&mut world, Station), "informational 2: ");
        assert!(world.deliver(Gateway));
        world.release(Station, answer);
        assert!(world.deliver(Station));
        // D: the old pair -->
        assert_eq!(last(&mut world, Station), "informational 1: D");
        world.pass(5);
        world.assert_agreed(0);
        assert_eq!(count(&world.station.facts, "child overtaken"), 1);
    }
}

#[test]
fn so_it_may_after_a_crossing() {
    let mut lost = [0, 0];
    for mut world in worlds(PLAIN) {
        let late = crossed(&mut world);
        // SA, Nr, TSi, TSr -->
        assert!(world.deliver(Gateway));
        lost[count(&world.gateway.facts, "child redundant")] += 1;
        // <-- D: what the gateway made, or the old pair
        pass_without(&mut world, Station, &late, 4);
        // <-- D: the pair that stands
        world.delete_child(Gateway);
        pass_without(&mut world, Station, &late, 1);
        world.release(Station, late);
        world.pass(10);
        world.assert_agreed(0);
    }
    assert!(lost[0] > 0 && lost[1] > 0, "both cases occur");
}

#[test]
fn a_renewal_may_come_when_the_pair_and_its_heir_are_gone() {
    for mut world in worlds(PLAIN) {
        world.rekey_child(Station);
        let late = world.hold(Gateway);
        world.rekey_child(Gateway);
        pass_without(&mut world, Gateway, &late, 4);
        assert_eq!(world.gateway.pairs.len(), 1);
        world.delete_child(Gateway);
        pass_without(&mut world, Gateway, &late, 1);
        assert!(world.gateway.pairs.is_empty() && world.station.pairs.is_empty());
        world.release(Gateway, late);
        world.run();
        let not_found = "create child 2: N(CHILD_SA_NOT_FOUND)";
        assert_eq!(last(&mut world, Gateway), not_found);
        world.pass(10);
        world.assert_agreed(0);
        assert_eq!(count(&world.station.facts, "child overtaken"), 1);
    }
}

#[test]
fn a_pair_that_the_responder_has_lost_is_gone_and_may_be_made_again() {
    let mut world = world_of(7, PLAIN);
    let pair = old(&mut world, Gateway);
    world.gateway.pairs.clear();
    let session = world.gateway.session.as_mut().expect("a session");
    session.inside().children.remove(pair);
    world.rekey_child(Station);
    world.run();
    assert_eq!(
        last(&mut world, Gateway),
        "create child 2: N(CHILD_SA_NOT_FOUND)"
    );
    assert_eq!(world.station.facts, ["child overtaken", "1 deleted"]);
    world.pass(5);
    world.assert_agreed(0);
    world.new_child(Station);
    world.pass(5);
    world.assert_agreed(1);
}

#[test]
fn a_renewal_may_be_refused_before_the_delete_comes_or_come_after_it() {
    for (renews, deletes) in [(Station, Gateway), (Gateway, Station)] {
        let mut world = world_of(7, PLAIN);
        world.rekey_child(renews);
        world.delete_child(deletes);
        let delete = world.hold(renews);
        assert!(world.deliver(deletes));
        let temporary = "create child 2: N(TEMPORARY_FAILURE)";
        assert_eq!(last(&mut world, deletes), temporary);
        assert!(world.deliver(renews));
        assert_eq!(world.end(renews).facts, ["child busy"]);
        world.release(renews, delete);
        world.pass(1);
        world.assert_agreed(0);

        let mut world = world_of(7, PLAIN);
        world.rekey_child(renews);
        let late = world.hold(deletes);
        world.delete_child(deletes);
        world.run();
        world.release(deletes, late);
        world.run();
        let not_found = "create child 2: N(CHILD_SA_NOT_FOUND)";
        assert_eq!(last(&mut world, deletes), not_found);
        assert_eq!(
            count(&world.end(renews).facts, "child overtaken"),
            1,
            "nothing to ask for again"
        );
        world.pass(1);
        world.assert_agreed(0);
    }
}

#[test]
fn the_end_of_the_ike_sa_ends_a_renewal_too() {
    for (renews, deletes) in [(Station, Gateway), (Gateway, Station)] {
        for is_late in [false, true] {
            let mut world = world_of(7, PLAIN);
            world.rekey_child(renews);
            let asked = world.hold(deletes);
            world.leave(deletes);
            world.end(deletes).session = None;
            if is_late {
                world.run();
            }
            world.release(deletes, asked);
            world.run();
            world.pass(2);
            world.assert_over();
            assert_eq!(world.end(renews).facts, ["IKE SA deleted"]);
            assert!(world.end(renews).pairs.is_empty());
        }
    }
}

#[test]
fn every_message_of_a_crossing_may_be_late() {
    for esp in [PLAIN, HYBRID, MIXED, EACH_ITS_OWN] {
        for seed in 1..=4 {
            for seconds in [1, 3, 8] {
                let mut cases = 0;
                for number in 0..12 {
                    let mut world = world_of(seed, esp);
                    world.rekey_child(Station);
                    world.rekey_child(Gateway);
                    cases += usize::from(one_late(&mut world, number, seconds));
                    world.pass(20);
                    world.assert_agreed(1);
                }
                assert!(cases >= 8, "{cases}");
            }
        }
    }
}
