//! Renewals and deletes of children that cross (RFC 7296 §2.8.1, §2.25.1). The cases are those that
//! strongSwan's own tests list, written anew:
//!
//! - `regular`:
//!   `one_renewal_deletes_the_old_pair`
//! - `regular_multi_ke`:
//!   `child_exchanges::a_hybrid_child_takes_one_exchange_more_and_exists_after_it`
//! - `regular_ke_invalid`:
//!   `a_renewal_with_pfs_takes_the_method_that_the_responder_names`
//! - `regular_ke_invalid_multi_ke`:
//!   `child_exchanges::what_only_one_end_has_is_left_out_or_another_method_is_named`
//! - `regular_responder_ignore_soft_expire`:
//!   `child_crossings::a_pair_that_the_peer_has_renewed_is_not_renewed_again`
//! - `regular_responder_handle_hard_expire`:
//!   `child_crossings::the_old_pair_may_reach_its_end_before_its_delete_comes`
//! - `regular_responder_delete`:
//!   `child_crossings::the_new_pair_may_be_deleted_while_the_old_one_is`
//! - `regular_responder_lost_sa`:
//!   `child_crossings::a_pair_that_the_responder_has_lost_is_gone_and_may_be_made_again`
//! - `regular_responder_incorrect_delete`:
//!   `child_crossings::a_responder_that_deletes_the_old_pair_itself_loses_nothing`
//! - `regular_delete_timeout`:
//!   `child_crossings::a_delete_that_nobody_answers_ends_the_session_once`
//! - `collision`:
//!   `both_renew_at_once_and_the_lowest_nonce_loses`
//! - `collision_multi_ke`:
//!   `child_exchanges::every_order_of_two_renewals_that_cross_ends_with_one_pair`
//! - `collision_mixed`:
//!   `child_crossings::a_hybrid_renewal_may_cross_one_that_is_not`
//! - `collision_delayed_response`:
//!   `child_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_delayed_response_delete`:
//!   `child_crossings::so_it_may_after_a_crossing`
//! - `collision_delayed_response_multi_ke`:
//!   `child_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_delayed_request`:
//!   `a_renewal_of_a_pair_that_is_about_to_be_deleted_is_refused_for_now`
//! - `collision_delayed_request_more`:
//!   `a_renewal_that_comes_late_finds_the_pair_gone`
//! - `collision_delayed_request_more_delete`:
//!   `child_crossings::a_renewal_may_come_when_the_pair_and_its_heir_are_gone`
//! - `collision_delayed_request_multi_ke`:
//!   `child_crossings::every_message_of_a_crossing_may_be_late`
//! - `collision_ke_invalid`:
//!   `child_crossings::two_renewals_with_the_wrong_methods_cross_twice`
//! - `collision_ke_invalid_delayed_retry`:
//!   `child_crossings::a_second_try_with_the_right_method_may_be_late`
//! - `collision_responder_incorrect_delete`:
//!   `child_crossings::one_that_lost_a_crossing_may_do_so_too`
//! - `collision_delete`:
//!   `a_renewal_of_what_the_peer_deletes_is_refused_for_now`
//! - `collision_delete_multi_ke`:
//!   `child_exchanges::a_delete_or_a_renewal_of_the_ike_sa_crosses_a_hybrid_renewal`
//! - `collision_delete_drop_delete`:
//!   `child_crossings::a_renewal_may_be_refused_before_the_delete_comes_or_come_after_it`
//! - `collision_delete_drop_rekey`:
//!   `child_crossings::a_renewal_may_be_refused_before_the_delete_comes_or_come_after_it`
//! - `collision_delete_delayed_response`:
//!   `child_crossings::a_pair_may_be_deleted_before_the_answer_that_made_it_comes`
//! - `collision_ike_rekey`:
//!   `ike_collisions::a_child_has_to_wait_while_the_ike_sa_is_renewed_and_the_other_way_round`
//! - `collision_ike_delete`:
//!   `child_crossings::the_end_of_the_ike_sa_ends_a_renewal_too`

use super::world::{Setup, Who, World};
use Who::{Gateway, Station};

/// Worlds whose nonces differ, so that each end's exchange is the redundant one in some.
fn worlds() -> impl Iterator<Item = World> {
    (1..=12).map(|seed| {
        let setup = Setup {
            seed,
            ..Setup::default()
        };
        setup.established()
    })
}

fn count(facts: &[String], fact: &str) -> usize {
    facts.iter().filter(|it| *it == fact).count()
}

#[test]
fn one_renewal_deletes_the_old_pair() {
    for who in Who::BOTH {
        let mut world = Setup::default().established();
        let old = world.end(who).pairs[0].negotiated.spi_in;
        world.rekey_child(who);
        world.run();
        assert_eq!(
            world.end(who).pairs.len(),
            2,
            "packets in flight find the old pair"
        );
        world.pass(5);
        world.assert_agreed(1);
        assert_ne!(world.end(who).pairs[0].negotiated.spi_in, old);
        assert_eq!(count(&world.end(who).facts, "child agreed"), 1);
    }
}

#[test]
fn a_renewal_with_pfs_takes_the_method_that_the_responder_names() {
    for (ours, theirs, group) in [
        (
            "aes128gcm16-curve25519",
            "aes128gcm16-curve25519",
            "curve25519",
        ),
        (
            "aes128gcm16-modp3072 aes128gcm16-curve25519",
            "aes128gcm16-curve25519",
            "curve25519",
        ),
        ("aes128gcm16-modp2048 aes128gcm16", "aes128gcm16", ""),
    ] {
        let setup = Setup {
            esp: ours,
            ..Setup::default()
        };
        let other = Setup {
            esp: theirs,
            ..Setup::default()
        };
        let mut world = setup.world();
        world.gateway.connection = other.world().gateway.connection;
        world.run();
        world.assert_agreed(1);
        assert_eq!(world.station.pairs[0].negotiated.suite.pfs, None);
        world.rekey_child(Station);
        world.pass(5);
        world.assert_agreed(1);
        let suite = world.station.pairs[0].negotiated.suite.to_string();
        assert!(suite.ends_with(group), "{suite}");
    }
}

#[test]
fn more_children_come_up_under_one_ike_sa() {
    let mut world = Setup::default().established();
    world.new_child(Station);
    world.new_child(Station);
    world.new_child(Gateway);
    world.pass(1);
    world.assert_agreed(4);
}

#[test]
fn both_renew_at_once_and_the_lowest_nonce_loses() {
    let (mut station_lost, mut gateway_lost) = (0, 0);
    for mut world in worlds() {
        world.rekey_child(Station);
        world.rekey_child(Gateway);
        world.run();
        world.pass(5);
        world.assert_agreed(1);
        let lost = [&world.station, &world.gateway];
        let [station, gateway] = lost.map(|end| count(&end.facts, "child redundant"));
        assert_eq!(station + gateway, 1, "exactly one is redundant");
        station_lost += station;
        gateway_lost += gateway;
    }
    assert!(station_lost > 0 && gateway_lost > 0, "both cases occur");
}

/// Two requests are on the way. Everything that follows is delivered in an order that the bits say.
fn in_order(world: &mut World, bits: u32) {
    world.in_order(bits);
    world.pass(5);
}

#[test]
fn every_order_of_two_renewals_that_cross_ends_with_one_pair() {
    for seed in 1..=4 {
        for bits in 0..256 {
            let setup = Setup {
                seed,
                ..Setup::default()
            };
            let mut world = setup.established();
            world.rekey_child(Station);
            world.rekey_child(Gateway);
            in_order(&mut world, bits);
            // A renewal that was not noticed is asked for again by the node.
            world.assert_agreed(1);
        }
    }
}

#[test]
fn a_renewal_that_comes_late_finds_the_pair_gone() {
    for mut world in worlds() {
        // The station's request is delayed until the gateway's renewal and delete are done.
        world.rekey_child(Station);
        let late = world.hold(Gateway);
        world.rekey_child(Gateway);
        while world.deliver(Station) || {
            let own = world.hold(Gateway);
            let (answers, again): (Vec<_>, Vec<_>) = own
                .into_iter()
                .partition(|it| it.name.starts_with("create child 2") || it.name.contains(" 2:"));
            drop(again);
            let is_any = !answers.is_empty();
            world.release(Gateway, answers);
            is_any && world.deliver(Gateway)
        } {}
        // The gateway deletes the old pair, and the station answers.
        let due = world.now + crate::time::Duration::from_secs(3);
        while world.now < due && world.wait() {
            while world.deliver(Station) {}
            let own = world.hold(Gateway);
            let answers = own.into_iter().filter(|it| it.name.contains(" 2:"));
            let answers: Vec<_> = answers.collect();
            world.release(Gateway, answers);
            while world.deliver(Gateway) {}
        }
        world.release(Gateway, late);
        world.pass(5);
        world.assert_agreed(1);
        assert_eq!(count(&world.station.facts, "child overtaken"), 1);
        let told = world
            .gateway
            .arrows
            .iter()
            .any(|it| it.contains("N(CHILD_SA_NOT_FOUND)"));
        assert!(told, "{:?}", world.gateway.arrows);
    }
}

#[test]
fn a_renewal_of_a_pair_that_is_about_to_be_deleted_is_refused_for_now() {
    let mut world = Setup::default().established();
    world.rekey_child(Station);
    let late = world.hold(Gateway);
    // The gateway has renewed the pair, and not yet deleted the old one.
    world.rekey_child(Gateway);
    assert!(world.deliver(Station));
    let answer = world.hold(Gateway);
    world.release(Gateway, answer);
    assert!(world.deliver(Gateway));
    world.release(Gateway, late);
    assert!(world.deliver(Gateway));
    let last = world.gateway.arrows.last().unwrap();
    assert_eq!(last, "create child 2: N(TEMPORARY_FAILURE)");
    world.pass(5);
    world.assert_agreed(1);
    assert_eq!(count(&world.station.facts, "child overtaken"), 1);
}

#[test]
fn a_delete_that_crosses_a_renewal_ends_the_child() {
    for (renews, deletes) in [(Station, Gateway), (Gateway, Station)] {
        for bits in 0..64 {
            let mut world = Setup::default().established();
            world.rekey_child(renews);
            world.delete_child(deletes);
            in_order(&mut world, bits);
            world.pass(5);
            // Depending on the order, the renewal came first and its pair stands, or none does.
            let pairs = world.station.pairs.len();
            assert!(pairs <= 1, "{pairs}");
            world.assert_agreed(pairs);
        }
    }
}

#[test]
fn a_renewal_of_what_the_peer_deletes_is_refused_for_now() {
    let mut world = Setup::default().established();
    world.delete_child(Gateway);
    let delete = world.hold(Station);
    world.rekey_child(Station);
    assert!(world.deliver(Gateway));
    let last = world.gateway.arrows.last().unwrap();
    // RFC 7296 §2.25.1.
    assert_eq!(last, "create child 2: N(TEMPORARY_FAILURE)");
    let refusal = world.hold(Station);
    world.release(Station, delete);
    assert!(world.deliver(Station));
    // It answers with its half, although it is renewing.
    assert_eq!(world.station.arrows.last().unwrap(), "informational 2: D");
    world.release(Station, refusal);
    world.pass(1);
    world.assert_agreed(0);
}

#[test]
fn two_deletes_that_cross_name_nothing_twice() {
    let mut world = Setup::default().established();
    world.delete_child(Station);
    world.delete_child(Gateway);
    world.run();
    // RFC 7296 §1.4.1: the responses have no delete payload.
    assert_eq!(world.station.arrows.last().unwrap(), "informational 2: ");
    assert_eq!(world.gateway.arrows.last().unwrap(), "informational 2: ");
    world.assert_agreed(0);
}

#[test]
fn every_message_of_a_crossing_may_be_lost_once() {
    for seed in 1..=6 {
        for lost in 0..8 {
            let setup = Setup {
                seed,
                ..Setup::default()
            };
            let mut world = setup.established();
            world.rekey_child(Station);
            world.rekey_child(Gateway);
            world.run_but(lost);
            world.pass(20);
            world.assert_agreed(1);
        }
    }
}

#[test]
fn an_abandoned_renewal_is_deleted_when_it_is_agreed() {
    let mut world = Setup::default().established();
    world.new_child(Station);
    let child = crate::sa::ChildId(101);
    world.step(Station, |session, _, _, _| {
        assert_eq!(session.forget_exchanges_of(child).len(), 1);
        assert!(session.exchanges().is_empty());
    });
    world.pass(2);
    world.assert_agreed(1);
}
