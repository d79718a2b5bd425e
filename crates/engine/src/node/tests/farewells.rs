//! Sessions of IKEv2 that are over: their peers learn it, whatever is lost, and nobody waits for
//! long.

use super::super::farewells::FAREWELL;
use super::ikev2::speaks;
use super::*;
use crate::config::Version;

fn world(seed: u8) -> World {
    let mut world = World::new(seed, |connection, _| speaks(connection, Version::V2));
    world.run(Duration::from_secs(2));
    world.assert_up();
    world
}

fn down(world: &mut World) {
    world.command(0, Command::Down("road".into()));
}

fn stopped(world: &World, end: usize) -> usize {
    world.ends[end].count(|event| *event == Event::Stopped)
}

#[test]
fn a_lost_delete_is_sent_again() {
    let mut world = world(140);
    world.network.loses = Some(world.network.sent + 1);
    down(&mut world);
    world.run(FAREWELL);
    assert_eq!(world.ends[1].node.established(), 0);
    assert!(world.ends[0].node.farewells.is_empty());
    // One delete that was lost, one that was not, and its answer.
    assert_eq!(world.network.log.len(), 4 + 3);
}

#[test]
fn a_delete_waits_for_a_request_that_was_lost() {
    let orders: [fn(String) -> Command; 2] = [Command::RekeyChildren, Command::RekeyIke];
    for (seed, order) in (141..).zip(orders) {
        let mut world = world(seed);
        world.network.loses = Some(world.network.sent + 1);
        world.command(0, order("road".into()));
        world.run(Duration::from_millis(100));
        down(&mut world);
        world.run(FAREWELL);
        assert_eq!(world.ends[1].node.established(), 0);
        assert!(world.ends[1].seen.inbound.is_empty());
        assert!(world.ends[0].node.farewells.is_empty());
    }
}

#[test]
fn a_gateway_that_has_answered_an_authentication_learns_that_nobody_wants_it() {
    let mut world = World::new(143, |connection, _| speaks(connection, Version::V2));
    world.network.loses = Some(4);
    world.run(Duration::from_millis(100));
    assert_eq!(world.ends[1].node.established(), 1);
    world.command(0, Command::Stop);
    world.run(FAREWELL);
    assert_eq!(world.ends[1].node.established(), 0);
}

#[test]
fn a_program_ends_when_its_peers_know() {
    let mut world = world(144);
    world.network.loses = Some(world.network.sent + 1);
    world.command(1, Command::Stop);
    assert_eq!(stopped(&world, 1), 0);
    let begun = world.now;
    while stopped(&world, 1) == 0 && world.now < begun + FAREWELL {
        world.run(Duration::from_millis(10));
    }
    assert_eq!(stopped(&world, 1), 1);
    assert!(world.now < begun + Duration::from_secs(2));
    assert_eq!(world.ends[0].node.established(), 0);
}

#[test]
fn a_peer_that_is_gone_holds_the_end_up_for_a_short_time_only() {
    let mut world = world(145);
    world.network.loss = 1.0;
    let sent = world.network.sent;
    world.command(1, Command::Stop);
    world.run(FAREWELL - Duration::from_millis(1));
    assert_eq!(stopped(&world, 1), 0);
    world.run(Duration::from_millis(1));
    assert_eq!(stopped(&world, 1), 1);
    let told = world.network.sent - sent;
    assert!((3..=4).contains(&told), "{told}");
    // Nothing of it is left.
    let due = world.ends[1].endpoint.deadline();
    assert!(due.is_none(), "{due:?}");
}

#[test]
fn an_end_that_leaves_takes_its_peer_s_delete_and_its_requests() {
    let mut world = world(146);
    world.command(1, Command::RekeyChildren("road".into()));
    world.command(1, Command::Stop);
    down(&mut world);
    world.run(Duration::from_millis(200));
    assert_eq!(stopped(&world, 1), 1);
    for end in &world.ends {
        assert!(end.node.farewells.is_empty());
        assert_eq!(end.node.established(), 0);
    }
}
