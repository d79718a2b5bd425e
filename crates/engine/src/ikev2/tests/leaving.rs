//! The end of a session: a request in its turn, repeated until it is answered (RFC 7296 §1.4.1,
//! §2.1, §2.3).

use super::world::{Setup, Who, World};
use Who::{Gateway, Station};

/// Whether an end has left, or its peer was quicker.
fn has_left(world: &mut World, who: Who) -> bool {
    let session = world.end(who).session.as_ref();
    session.is_none_or(|it| it.has_left())
}

/// The peer knows, and so does the end that has left.
#[track_caller]
fn assert_ended(world: &mut World, leaves: Who) {
    let facts = &world.end(leaves.other()).facts;
    assert!(facts.contains(&"IKE SA deleted".to_owned()), "{facts:?}");
    assert!(has_left(world, leaves));
}

const END: &str = "informational 1: D";

#[test]
fn a_delete_is_repeated_until_it_is_answered() {
    for leaves in Who::BOTH {
        let mut world = Setup::default().established();
        world.leave(leaves);
        // D --> is lost twice.
        for _ in 0..2 {
            world.hold(leaves.other());
            assert!(world.wait());
        }
        assert!(!has_left(&mut world, leaves));
        world.run();
        assert_ended(&mut world, leaves);
        let sent = world.names(leaves);
        assert_eq!(sent.iter().filter(|it| **it == END).count(), 3, "{sent:?}");
    }
}

#[test]
fn a_delete_waits_for_the_request_under_way_which_is_not_left_to_its_long_timeout() {
    for leaves in Who::BOTH {
        let mut world = Setup::default().established();
        world.rekey_child(leaves);
        // SA, Ni, TSi, TSr --> is lost, again and again.
        for _ in 0..3 {
            world.hold(leaves.other());
            assert!(world.wait());
        }
        world.hold(leaves.other());
        let (sent, now) = (world.names(leaves).len(), world.now);
        world.leave(leaves);
        // It is sent at once, and nothing beside it.
        let names = world.names(leaves)[sent..].to_vec();
        assert_eq!(names.len(), 1, "{names:?}");
        assert!(names[0].starts_with("create child 1"), "{names:?}");
        world.run();
        assert_eq!(world.names(leaves).last(), Some(&END));
        assert_eq!(world.now, now);
        assert_ended(&mut world, leaves);
    }
}

#[test]
fn a_renewal_under_way_is_finished_and_both_ike_sas_end() {
    for leaves in Who::BOTH {
        let mut world = Setup::default().established();
        world.rekey_ike(leaves);
        world.leave(leaves);
        world.run();
        assert_ended(&mut world, leaves);
        let sent = world.names(leaves);
        assert_eq!(sent.iter().filter(|it| **it == END).count(), 2, "{sent:?}");
        let peer = world.end(leaves.other()).session.as_mut();
        assert!(peer.is_none_or(|it| it.inside().sas.len() == 1));
    }
}

#[test]
fn nothing_begins_at_an_end_that_leaves() {
    for leaves in Who::BOTH {
        let mut world = Setup::default().established();
        world.probe(leaves, 1);
        world.hold(leaves.other());
        world.leave(leaves);
        world.new_child(leaves.other());
        world.hold(leaves.other());
        assert!(world.deliver(leaves));
        // RFC 7296 §2.25.2.
        let refused = "create child 2: N(TEMPORARY_FAILURE)";
        assert_eq!(world.names(leaves).last(), Some(&refused));
        // And what it wanted itself is forgotten.
        world.new_child(leaves);
        world.pass(40);
        assert_ended(&mut world, leaves);
        let sent = world.names(leaves);
        assert!(
            !sent.iter().any(|it| it.starts_with("create child 1")),
            "{sent:?}"
        );
    }
}

#[test]
fn deletes_may_cross() {
    let mut world = Setup::default().established();
    for who in Who::BOTH {
        world.leave(who);
    }
    assert!(world.deliver(Gateway));
    assert!(world.deliver(Station));
    // RFC 7296 §2.25.2: each answers as usual, and forgets its own request.
    for who in Who::BOTH {
        assert_ended(&mut world, who);
        assert_eq!(world.names(who).last(), Some(&"informational 2: "));
    }
}

#[test]
fn an_authentication_that_may_have_succeeded_is_answered_first() {
    let mut world = Setup::default().world();
    // HDR, SAi1, KEi, Ni --> and <-- HDR, SAr1, KEr, Nr
    assert!(world.deliver(Gateway) && world.deliver(Station));
    world.leave(Station);
    assert!(!has_left(&mut world, Station));
    // HDR, SK {IDi, AUTH, ..} --> is lost.
    world.hold(Gateway);
    world.pass(3);
    assert_ended(&mut world, Station);
}

#[test]
fn who_has_not_authenticated_has_nothing_to_end() {
    let mut world = Setup::default().world();
    world.leave(Station);
    assert!(has_left(&mut world, Station));
    assert_eq!(world.names(Station).len(), 1);
}
