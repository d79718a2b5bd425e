//! Key exchanges of children: every method, additional ones in IKE_FOLLOWUP_KE (RFC 9370 §2.2.4),
//! and renewals that cross while they go on.

use wire::ikev2::Exchange;

use super::world::{Setup, Who, World};
use crate::ikev2::children::ChildSa;
use crate::ikev2::inform::delete_children;
use crate::sa::Protocol;
use crate::suite::EspSuite;
use Who::{Gateway, Station};

const HYBRID: &str = "aes128gcm16-curve25519-ke1_mlkem768";

fn setup(esp: &'static str) -> Setup {
    Setup {
        esp,
        ..Setup::default()
    }
}

/// Ends whose children have different proposals.
fn between(station: &'static str, gateway: &'static str) -> World {
    let mut world = setup(station).world();
    world.gateway.connection = setup(gateway).world().gateway.connection;
    world.run();
    world.assert_agreed(1);
    world
}

fn clear(world: &mut World) {
    for who in Who::BOTH {
        world.end(who).arrows.clear();
        world.end(who).facts.clear();
    }
}

fn suite(world: &World, who: Who) -> EspSuite {
    let end = match who {
        Station => &world.station,
        Gateway => &world.gateway,
    };
    end.current().expect("a pair").negotiated.suite
}

fn count(facts: &[String], fact: &str) -> usize {
    facts.iter().filter(|it| *it == fact).count()
}

#[test]
fn every_method_renews_a_child_from_either_end() {
    for words in [
        "aes128gcm16-modp2048",
        "aes128gcm16-modp3072",
        "aes128gcm16-modp4096",
        "aes128gcm16-modp6144",
        "aes128gcm16-modp8192",
        "aes128gcm16-ecp256",
        "aes128gcm16-ecp384",
        "aes128gcm16-ecp521",
        "aes128gcm16-curve25519",
        "aes128gcm16-mlkem768",
        "aes256gcm16-mlkem1024",
        HYBRID,
        "aes256-sha384-ecp384-ke1_mlkem768-ke2_mlkem1024",
        "chacha20poly1305-mlkem1024-ke3_curve25519-ke7_ecp256-esn",
    ] {
        let mut world = setup(words).established();
        // The child of IKE_AUTH has no key exchange of its own: RFC 7296 §1.2.
        assert_eq!(suite(&world, Station), suite(&world, Station).without_pfs());
        for who in Who::BOTH {
            world.rekey_child(who);
            world.pass(5);
            world.assert_agreed(1);
            assert_eq!(suite(&world, who).to_string(), words);
        }
        world.new_child(Gateway);
        world.pass(5);
        world.assert_agreed(2);
        assert_eq!(suite(&world, Gateway).to_string(), words);
    }
}

#[test]
fn a_hybrid_child_takes_one_exchange_more_and_exists_after_it() {
    let mut world = setup(HYBRID).established();
    for who in Who::BOTH {
        clear(&mut world);
        world.rekey_child(who);
        assert!(world.deliver(who.other()) && world.deliver(who));
        assert_eq!(world.end(who).pairs.len(), 1, "not yet");
        assert_eq!(world.end(who.other()).pairs.len(), 1, "not yet");
        world.pass(5);
        world.assert_agreed(1);
        let asked = &world.end(who).arrows;
        assert_eq!(asked[0], "create child 1: N(REKEY_SA) SA No KE TSi TSr");
        assert_eq!(asked[1], "followup 1: KE N(ADDITIONAL_KEY_EXCHANGE) in 2");
        let answered = &world.end(who.other()).arrows;
        assert_eq!(
            answered[0],
            "create child 2: SA No KE TSi TSr N(ADDITIONAL_KEY_EXCHANGE)"
        );
        assert_eq!(answered[1], "followup 2: KE");
    }
}

#[test]
fn what_only_one_end_has_is_left_out_or_another_method_is_named() {
    let optional = "aes128gcm16-curve25519 aes128gcm16";
    for (station, gateway, agreed) in [
        (optional, "aes128gcm16", "aes128gcm16"),
        ("aes128gcm16", optional, "aes128gcm16"),
        (optional, optional, "aes128gcm16-curve25519"),
        (
            "aes128gcm16-curve25519-ke1_mlkem768 aes128gcm16-ecp256",
            "aes128gcm16-ecp256",
            "aes128gcm16-ecp256",
        ),
        (
            "aes128gcm16-ecp384 aes128gcm16-curve25519-ke1_mlkem768",
            HYBRID,
            HYBRID,
        ),
        (
            "aes128gcm16-mlkem768 aes128gcm16-curve25519",
            "aes128gcm16-curve25519",
            "aes128gcm16-curve25519",
        ),
    ] {
        let mut world = between(station, gateway);
        for who in Who::BOTH {
            world.rekey_child(who);
            world.pass(5);
            world.assert_agreed(1);
            assert_eq!(
                suite(&world, who).to_string(),
                agreed,
                "{station} {gateway}"
            );
        }
    }
    // Nothing in common: the pair of IKE_AUTH stays.
    let mut world = between("aes128gcm16-ecp256", HYBRID);
    world.rekey_child(Station);
    world.pass(5);
    world.assert_agreed(1);
    let facts = world.station.facts.join("; ");
    assert!(facts.contains("NO_PROPOSAL_CHOSEN"), "{facts}");
}

/// Two renewals cross. Everything is delivered in an order that the bits say: to whom, and whether
/// the last one overtakes the others.
fn crossed(seed: u8, esp: &'static str, mut bits: u32) -> World {
    let mut world = Setup { seed, ..setup(esp) }.established();
    world.rekey_child(Station);
    world.rekey_child(Gateway);
    for _ in 0..100 {
        let first = if bits & 1 == 0 { Gateway } else { Station };
        if bits & 2 != 0
            && let Some(last) = world.flights(first).pop_back()
        {
            world.flights(first).push_front(last);
        }
        bits >>= 2;
        if !world.deliver(first) && !world.deliver(first.other()) {
            break;
        }
    }
    world.pass(30);
    world
}

#[test]
fn every_order_of_two_renewals_that_cross_ends_with_one_pair() {
    let (mut by_nonce, mut by_time) = (0, 0);
    for seed in 1..=2 {
        for bits in 0..2048 {
            let mut world = crossed(seed, "aes128gcm16-curve25519-ke1_ecp256", bits);
            world.assert_agreed(1);
            assert!(suite(&world, Station).pfs.is_some(), "it was renewed");
            let ends = [&world.station, &world.gateway];
            by_nonce += usize::from(
                ends.iter()
                    .any(|it| count(&it.facts, "child redundant") > 0),
            );
            by_time += usize::from(
                ends.iter()
                    .any(|it| count(&it.facts, "child overtaken") > 0),
            );
        }
    }
    assert!(by_nonce > 0 && by_time > 0, "{by_nonce} {by_time}");
}

#[test]
fn every_message_of_a_crossing_may_be_lost_once() {
    for seed in 1..=4 {
        for lost in 0..12 {
            let mut world = Setup {
                seed,
                ..setup(HYBRID)
            }
            .established();
            world.rekey_child(Station);
            world.rekey_child(Gateway);
            world.run_but(lost);
            world.pass(30);
            world.assert_agreed(1);
        }
    }
}

#[test]
fn a_delete_or_a_renewal_of_the_ike_sa_crosses_a_hybrid_renewal() {
    let acts: [fn(&mut World, Who); 2] = [World::delete_child, World::rekey_ike];
    for (number, act) in acts.into_iter().enumerate() {
        for who in Who::BOTH {
            for steps in 0..4 {
                for bits in 0..32 {
                    let mut world = setup("aes128gcm16-ecp256-ke1_curve25519").established();
                    world.rekey_child(who);
                    for step in 0..steps {
                        let to = if step % 2 == 0 { who.other() } else { who };
                        world.deliver(to);
                    }
                    act(&mut world, who.other());
                    world.in_order(bits);
                    world.pass(90);
                    let pairs = world.station.pairs.len();
                    assert!(pairs == 1 || number == 0 && pairs == 0, "{pairs}");
                    world.assert_agreed(pairs);
                }
            }
        }
    }
}

/// The station's new child, whose first exchange is done.
fn begun() -> World {
    let mut world = setup("aes128gcm16-ecp256-ke1_curve25519").established();
    clear(&mut world);
    world.new_child(Station);
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world
}

fn unfinished(world: &mut World) -> usize {
    let session = world.gateway.session.as_mut().expect("a session");
    session.exchanges().len()
}

#[test]
fn what_a_peer_does_not_finish_is_forgotten_and_its_spi_is_free() {
    let mut world = begun();
    assert_eq!(unfinished(&mut world), 1);
    let late = world.hold(Gateway);
    // The IKE SA stays while it is not known whether the child comes to be.
    world.rekey_ike(Gateway);
    assert!(world.to_station.is_empty());
    world.now = world.now + crate::time::Duration::from_secs(21);
    world.step(Gateway, |session, random, now, out| {
        session.on_deadline(random, now, out).expect("no fault");
        assert_eq!(session.take_overtaken().len(), 1);
    });
    assert_eq!(unfinished(&mut world), 0);
    world.release(Gateway, late);
    assert!(world.deliver(Gateway));
    let last = world.gateway.arrows.last().unwrap();
    assert_eq!(last, "followup 2: N(STATE_NOT_FOUND)");
    world.pass(60);
    world.assert_agreed(1);
    assert_eq!(count(&world.station.facts, "child busy"), 1);
}

#[test]
fn a_newer_one_replaces_what_is_not_finished() {
    let mut world = begun();
    for _ in 0..5 {
        // The station forgets its exchange, and begins another one.
        world.to_gateway.clear();
        let sa = world.station.session.as_mut().expect("a session").inside();
        sa.current().forget_request();
        world.new_child(Station);
        assert!(world.deliver(Gateway) && world.deliver(Station));
        assert_eq!(unfinished(&mut world), 1);
    }
    world.pass(10);
    world.assert_agreed(2);
}

#[test]
fn a_child_that_nobody_wants_any_more_is_not_made() {
    let mut world = begun();
    let child = crate::sa::ChildId(101);
    world.step(Station, |session, _, _, _| {
        assert_eq!(session.forget_exchanges_of(child).len(), 1);
    });
    world.pass(30);
    // The station had sent its last exchange already, so it deletes what came of it.
    world.assert_agreed(1);
    let mut world = begun();
    let child = world.gateway.session.as_ref().expect("a session");
    let child = child.exchanges()[0].child;
    world.step(Gateway, |session, _, _, _| {
        assert_eq!(session.forget_exchanges_of(child).len(), 1);
        assert!(session.exchanges().is_empty());
    });
    world.pass(30);
    world.assert_agreed(1);
    let last = world.gateway.arrows.last().unwrap();
    assert_eq!(last, "followup 2: N(STATE_NOT_FOUND)");
}

/// A bad peer could otherwise leave children behind that no limit counts.
#[test]
fn children_with_one_spi_of_the_peer_end_together() {
    let mut world = setup("aes128gcm16-curve25519").established();
    let mut spi = 0;
    world.within(Gateway, |gateway, _| {
        let first = gateway.children.all()[0].clone();
        spi = first.spi_out;
        let spi_in = first.spi_in ^ 1;
        gateway.children.add(ChildSa { spi_in, ..first });
    });
    let delete = delete_children(Protocol::Esp, vec![spi]);
    world.asks(Station, Exchange::Informational, &[delete]);
    assert!(world.deliver(Gateway));
    world.within(Gateway, |gateway, _| {
        assert_eq!(gateway.children.all(), []);
    });
}
