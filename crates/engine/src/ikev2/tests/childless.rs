//! IKE SAs that begin without a child (RFC 6023).

use super::world::{Setup, Who, World};
use crate::config::Childless;
use Childless::{Allow, Force, Never, Prefer};
use Who::{Gateway, Station};

fn world(station: Childless, gateway: Childless) -> World {
    let setup = Setup {
        esp: "aes128gcm16-curve25519",
        childless: [station, gateway],
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    world
}

#[test]
fn it_begins_without_a_child_where_both_ends_want_that() {
    for (station, gateway) in [
        (Prefer, Allow),
        (Force, Force),
        (Force, Prefer),
        (Prefer, Force),
    ] {
        let mut world = world(station, gateway);
        world.assert_agreed(0);
        let asked = world.station.arrows.last().expect("IKE_AUTH");
        assert!(!asked.contains("SA") && !asked.contains("TS"), "{asked}");
        let answered = world.gateway.arrows.last().expect("IKE_AUTH");
        assert!(
            !answered.contains("SA") && !answered.contains("TS"),
            "{answered}"
        );
        // The node learns that its first child is still to come, before it begins children.
        let facts = &world.station.facts;
        assert_eq!(facts[0], "child 100 later", "{facts:?}");
        assert!(facts[1].starts_with("established"), "{facts:?}");
        for who in Who::BOTH {
            world.new_child(who);
            world.pass(2);
        }
        world.assert_agreed(2);
        let suite = world.station.pairs[0].negotiated.suite;
        assert_eq!(
            suite.to_string(),
            "aes128gcm16-curve25519",
            "its own key exchange"
        );
    }
}

#[test]
fn it_begins_with_a_child_where_one_end_does_not_take_that() {
    for (station, gateway) in [
        (Allow, Allow),
        (Never, Allow),
        (Prefer, Never),
        (Allow, Never),
    ] {
        let mut world = world(station, gateway);
        world.assert_agreed(1);
        let announces = world.gateway.arrows[0].contains("N(CHILDLESS_IKEV2_SUPPORTED)");
        assert_eq!(announces, gateway != Never, "{:?}", world.gateway.arrows);
    }
}

#[test]
fn a_station_that_must_begin_without_one_gives_up_at_a_gateway_that_does_not_take_it() {
    let mut world = world(Force, Never);
    // Nobody has proven that it is the gateway that said so.
    assert!(world.station.session.is_some());
    world.pass(120);
    assert!(world.station.session.is_none());
    let fault = world.fault(Station);
    assert!(fault.contains("childless = \"force\""), "{fault}");
    let arrows = &world.station.arrows;
    assert!(
        !arrows.iter().any(|it| it.contains("IKE_AUTH")),
        "nothing about us is told: {arrows:?}"
    );
}

#[test]
fn a_gateway_that_requires_it_makes_the_child_in_an_exchange_of_its_own() {
    let mut world = world(Allow, Force);
    world.assert_agreed(0);
    let answered = world.gateway.arrows.last().expect("IKE_AUTH");
    assert!(answered.ends_with("N(NO_ADDITIONAL_SAS)"), "{answered}");
    let facts = &world.station.facts;
    assert!(facts[0].ends_with(" later"), "{facts:?}");
    assert!(facts[1].starts_with("established"), "{facts:?}");
    world.new_child(Station);
    world.pass(2);
    world.assert_agreed(1);
    assert_eq!(world.end(Gateway).pairs.len(), 1);
}

#[test]
fn addresses_are_assigned_without_a_child() {
    let setup = Setup {
        wants_inner: true,
        childless: [Force, Force],
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    world.assert_agreed(0);
    let lease = world.station.lease.as_ref().expect("a lease");
    assert_eq!(lease.addresses.len(), 1);
}

#[test]
fn a_child_that_nobody_wants_any_more_needs_no_exchange() {
    let setup = Setup {
        childless: [Prefer, Allow],
        ..Setup::default()
    };
    let mut world = setup.world();
    let child = crate::sa::ChildId(100);
    let session = world.station.session.as_mut().expect("a session");
    assert_eq!(session.forget_exchanges_of(child).len(), 1);
    world.run();
    world.assert_agreed(0);
    assert!(world.station.facts[0].starts_with("established"));
}

#[test]
fn a_gateway_that_never_begins_so_refuses_a_peer_that_does_all_the_same() {
    let setup = Setup {
        has_child: false,
        childless: [Allow, Never],
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    world.assert_over();
    let answered = world.names(Gateway).pop().unwrap().to_owned();
    assert_eq!(answered, "auth 2: N(INVALID_SYNTAX)");
    let why = world.fault(Gateway);
    assert!(why.contains("without a child"), "{why}");
}
