//! Renewals and ends of the IKE SA that cross each other or exchanges for children (RFC 7296
//! §2.8.2, §2.25.1, §2.25.2). The cases are those that strongSwan's own tests list, written anew:
//!
//! - `regular`:
//!   `one_renewal_moves_everything_to_a_new_ike_sa`
//! - `regular_multi_ke`:
//!   `post_quantum::a_renewal_follows_up_with_the_additional_exchanges`
//! - `regular_ke_invalid`:
//!   `ike_crossings::a_renewal_takes_the_method_that_the_responder_names`
//! - `regular_ke_invalid_multi_ke`:
//!   `ike_crossings::a_renewal_takes_the_method_that_the_responder_names`
//! - `collision`:
//!   `both_renew_at_once_and_the_lowest_nonce_loses`
//! - `collision_multi_ke`:
//!   `post_quantum::every_order_of_two_renewals_that_cross_ends_with_one_ike_sa`
//! - `collision_mixed`:
//!   `ike_crossings::a_hybrid_renewal_may_cross_one_that_is_not`
//! - `collision_ke_invalid`:
//!   `ike_crossings::two_renewals_with_the_wrong_methods_cross_twice`
//! - `collision_ke_invalid_delayed_retry`:
//!   `ike_crossings::a_second_try_with_the_right_method_may_be_late`
//! - `collision_delayed_response`:
//!   `ike_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_delayed_response_multi_ke`:
//!   `ike_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_dropped_request`:
//!   `every_message_of_a_crossing_may_be_lost_once`
//! - `collision_delayed_request`:
//!   `a_renewal_that_the_peer_did_not_notice_is_forgotten`
//! - `collision_delayed_request_and_delete`:
//!   `ike_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_delayed_request_multi_ke`:
//!   `ike_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_delete`:
//!   `the_end_of_an_ike_sa_that_is_being_renewed_is_its_end`
//! - `collision_delete_multi_ke`:
//!   `ike_crossings::the_end_of_an_ike_sa_ends_a_hybrid_renewal_of_it`
//! - `collision_delete_drop_delete`:
//!   `ike_crossings::the_end_of_an_ike_sa_may_come_late_or_not_at_all`

use super::world::{Setup, Who, World};
use crate::time::Duration;
use Who::{Gateway, Station};

fn world_of(seed: u8) -> World {
    let setup = Setup {
        seed,
        ..Setup::default()
    };
    setup.established()
}

fn spis(world: &mut World) -> crate::ike::Spis {
    world.station.session.as_ref().expect("a session").spis()
}

#[test]
fn one_renewal_moves_everything_to_a_new_ike_sa() {
    for who in Who::BOTH {
        let mut world = world_of(7);
        let old = spis(&mut world);
        world.rekey_ike(who);
        world.pass(5);
        world.assert_agreed(1);
        assert_ne!(spis(&mut world), old);
        assert!(
            world
                .end(who)
                .arrows
                .contains(&"create child 1: SA No KE".to_owned())
        );
        assert!(
            world
                .end(who)
                .arrows
                .contains(&"informational 1: D".to_owned())
        );
        assert_eq!(world.station.facts, ["renewed"]);
        assert_eq!(world.gateway.facts, ["renewed"]);
        // Both ends go on under it, whoever made it.
        world.probe(Station, 5);
        world.probe(Gateway, 6);
        world.rekey_child(who);
        world.pass(5);
        world.assert_agreed(1);
        world.rekey_ike(who.other());
        world.pass(5);
        world.assert_agreed(1);
    }
}

#[test]
fn a_renewal_with_a_method_that_the_peer_prefers_to_another() {
    let setup = Setup {
        gateway_suites: "aes128gcm16-prfsha256-ecp256 aes128gcm16-prfsha256-curve25519",
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    world.assert_agreed(1);
    let both = Setup {
        station_suites: "aes128gcm16-prfsha256-curve25519 aes128gcm16-prfsha256-ecp256",
        ..setup
    };
    let mut world = both.established();
    // The gateway prefers P-256, and the initiator begins with what was agreed.
    world.rekey_ike(Station);
    world.pass(5);
    world.assert_agreed(1);
}

#[test]
fn both_renew_at_once_and_the_lowest_nonce_loses() {
    let mut redundant = [0, 0];
    for seed in 1..=12 {
        let mut world = world_of(seed);
        world.rekey_ike(Station);
        world.rekey_ike(Gateway);
        world.run();
        world.pass(5);
        world.assert_agreed(1);
        let role = |who: Who, world: &mut World| {
            let session = world.end(who).session.as_mut().unwrap();
            session.inside().sas[0].role
        };
        // Whose exchange made the one that stands.
        let is_stations = role(Station, &mut world) == crate::ike::Role::Initiator;
        redundant[usize::from(is_stations)] += 1;
        assert_eq!(world.station.facts, ["renewed"]);
        assert_eq!(world.gateway.facts, ["renewed"]);
        world.rekey_child(Station);
        world.pass(5);
        world.assert_agreed(1);
    }
    assert!(redundant.iter().all(|it| *it > 0), "both cases occur");
}

#[test]
fn every_order_of_two_renewals_that_cross_ends_with_one_ike_sa() {
    for seed in 1..=4 {
        for bits in 0..256 {
            let mut world = world_of(seed);
            world.rekey_ike(Station);
            world.rekey_ike(Gateway);
            world.in_order(bits);
            world.pass(40);
            world.assert_agreed(1);
        }
    }
}

#[test]
fn every_message_of_a_crossing_may_be_lost_once() {
    for seed in 1..=6 {
        for lost in 0..8 {
            let mut world = world_of(seed);
            world.rekey_ike(Station);
            world.rekey_ike(Gateway);
            world.run_but(lost);
            world.pass(100);
            world.assert_agreed(1);
        }
    }
}

#[test]
fn a_renewal_that_the_peer_did_not_notice_is_forgotten() {
    for seed in 1..=6 {
        let mut world = world_of(seed);
        // The station's request comes when the gateway has renewed already.
        world.rekey_ike(Station);
        let late = world.hold(Gateway);
        world.rekey_ike(Gateway);
        // <-- SA, Ni, KEi
        assert!(world.deliver(Station));
        // SA, Nr, KEr -->
        assert!(world.deliver(Gateway));
        // The gateway's delete of the old IKE SA is on the way.
        world.release(Gateway, late);
        assert!(world.deliver(Gateway));
        let last = world.gateway.arrows.last().unwrap();
        // RFC 7296 §2.8.2.
        assert_eq!(last, "create child 2: N(TEMPORARY_FAILURE)");
        world.pass(40);
        world.assert_agreed(1);
        assert_eq!(world.station.facts, ["renewed"]);
    }
}

#[test]
fn the_end_of_an_ike_sa_that_is_being_renewed_is_its_end() {
    for (renews, deletes) in [(Station, Gateway), (Gateway, Station)] {
        let mut world = world_of(7);
        world.rekey_ike(renews);
        world.leave(deletes);
        world.end(deletes).session = None;
        world.run();
        world.pass(2);
        world.assert_over();
        assert!(
            world
                .end(renews)
                .facts
                .contains(&"IKE SA deleted".to_owned())
        );
        assert!(world.end(renews).pairs.is_empty());
    }
}

#[test]
fn a_child_has_to_wait_while_the_ike_sa_is_renewed_and_the_other_way_round() {
    for (ike, child) in [(Station, Gateway), (Gateway, Station)] {
        let mut world = world_of(7);
        world.rekey_ike(ike);
        world.rekey_child(child);
        world.run();
        // RFC 7296 §2.25.1 and §2.25.2: both are refused for now.
        let refused = "create child 2: N(TEMPORARY_FAILURE)".to_owned();
        assert!(world.end(ike).arrows.contains(&refused));
        assert!(world.end(child).arrows.contains(&refused));
        assert_eq!(world.end(child).facts, ["child busy"]);
        // The session tries its own renewal again; the node does that for a child.
        world.pass(25);
        world.assert_agreed(1);
        assert!(world.end(ike).facts.contains(&"renewed".to_owned()));
        world.rekey_child(child);
        world.pass(5);
        world.assert_agreed(1);
    }
}

#[test]
fn a_new_child_waits_as_well() {
    let mut world = world_of(7);
    world.rekey_ike(Station);
    world.new_child(Gateway);
    world.run();
    assert_eq!(world.gateway.facts, ["child busy"]);
    world.pass(25);
    world.assert_agreed(1);
}

#[test]
fn a_childs_delete_is_answered_while_the_ike_sa_is_renewed() {
    let mut world = world_of(7);
    world.rekey_ike(Station);
    world.delete_child(Gateway);
    world.run();
    // RFC 7296 §2.25.2: with a delete payload; the renewal has to wait.
    assert!(
        world
            .station
            .arrows
            .contains(&"informational 2: D".to_owned())
    );
    let refused = "create child 2: N(TEMPORARY_FAILURE)".to_owned();
    assert!(world.gateway.arrows.contains(&refused));
    world.pass(25);
    world.assert_agreed(0);
    assert!(world.station.facts.contains(&"renewed".to_owned()));
}

#[test]
fn probes_cross_a_renewal_unharmed() {
    for bits in 0..64 {
        let mut world = world_of(7);
        world.rekey_ike(Station);
        world.probe(Gateway, 9);
        world.in_order(bits);
        world.pass(80);
        world.assert_agreed(1);
    }
}

#[test]
fn what_waits_goes_on_under_the_new_ike_sa() {
    let mut world = world_of(7);
    world.rekey_ike(Station);
    world.new_child(Station);
    world.new_child(Station);
    world.probe(Station, 3);
    world.pass(5);
    world.assert_agreed(3);
    assert!(world.station.facts.contains(&"answers 3".to_owned()));
}

#[test]
fn late_and_repeated_messages_change_nothing() {
    for seed in 1..=3 {
        let mut world = world_of(seed);
        world.rekey_child(Station);
        world.pass(5);
        world.rekey_ike(Gateway);
        world.pass(5);
        world.rekey_child(Gateway);
        world.pass(5);
        world.assert_agreed(1);
        let before = spis(&mut world);
        let pair = world.station.pairs[0].negotiated.spi_in;
        // Everything that was ever sent comes again, and to the wrong end as well.
        for (to, flight) in world.history.clone() {
            world.receive(to, &flight);
            let mut reflected = flight.clone();
            reflected.path = flight.path.reversed();
            world.receive(to.other(), &reflected);
        }
        world.pass(10);
        world.assert_agreed(1);
        assert_eq!(spis(&mut world), before);
        assert_eq!(world.station.pairs[0].negotiated.spi_in, pair);
    }
}

#[test]
fn an_old_ike_sa_is_forgotten_even_if_nobody_deletes_it() {
    let mut world = world_of(7);
    world.rekey_ike(Station);
    world.run();
    // From here on the station is gone: its delete never comes.
    let mut gateway = world_of(7);
    gateway.rekey_ike(Station);
    assert!(gateway.deliver(Gateway));
    gateway.hold(Station);
    gateway.station.session = None;
    let sas = |world: &mut World| {
        let session = world.gateway.session.as_mut().expect("a session");
        session.inside().sas.len()
    };
    assert_eq!(sas(&mut gateway), 2);
    gateway.pass(Duration::from_secs(75).as_secs());
    assert_eq!(sas(&mut gateway), 1);
}
