//! Quick crash detection (RFC 6290): how soon a station is back at a gateway that was killed, and
//! what somebody without its secret can do.

use super::ikev2::speaks;
use super::*;
use crate::config::Version;
use crate::node::hints::HINT_INTERVAL;

fn world(seed: u8) -> World {
    World::new(seed, |connection, is_station| {
        speaks(connection, Version::V2);
        connection.crash_detection = true;
        connection.dpd_delay = Some(Duration::from_secs(if is_station { 20 } else { 60 }));
    })
}

fn up(seed: u8) -> World {
    let mut world = world(seed);
    world.run(Duration::from_secs(8));
    world.assert_up();
    world
}

fn established(world: &World) -> usize {
    world.ends[0].count(|event| matches!(event, Event::IkeEstablished { .. }))
}

/// An end is killed and starts again, with what it has kept.
pub(super) fn kill(world: &mut World, end: usize) {
    let kept = world.ends[end].seen.kept.take();
    let seed = Seed::new([world.seed ^ 0x80; 32]);
    let fresh = endpoint(config(end == 0, &world.change), &seed);
    world.replace(end, fresh);
    if let Some(kept) = kept {
        world.input(end, Input::Kept(&kept.0));
        world.ends[end].seen.kept = Some(kept);
    }
}

fn crashed(event: &Event) -> bool {
    matches!(event, Event::IkeClosed { cause, .. } if *cause == EndCause::PeerCrashed)
}

#[test]
fn a_station_with_traffic_is_back_within_a_few_round_trips_of_its_first_packet() {
    for seed in 160..164 {
        let mut world = up(seed);
        kill(&mut world, 1);
        world.run(Duration::from_secs(1));
        assert_eq!(established(&world), 1, "it has not noticed yet");
        world.packet();
        // The packet, a hint, a probe, the token, and two exchanges.
        world.run(Duration::from_millis(400));
        world.assert_up();
        assert_eq!(established(&world), 2);
        assert_eq!(world.ends[0].count(crashed), 1);
        world.run(Duration::from_secs(100));
        world.assert_up();
        assert_eq!(established(&world), 2);
    }
}

#[test]
fn an_idle_station_is_back_right_after_its_next_question() {
    let mut world = up(165);
    kill(&mut world, 1);
    world.run(Duration::from_secs(21));
    world.assert_up();
    assert_eq!(established(&world), 2);
}

#[test]
fn a_station_that_was_killed_is_forgotten_at_the_gateways_next_question() {
    let mut world = World::new(166, |connection, is_station| {
        speaks(connection, Version::V2);
        connection.crash_detection = true;
        connection.dpd_delay = Some(Duration::from_secs(10));
        if is_station {
            connection.start = Start::OnCommand;
        }
    });
    world.network.nat = None;
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(2));
    world.assert_up();
    kill(&mut world, 0);
    world.run(Duration::from_secs(12));
    assert_eq!(world.ends[1].node.established(), 0);
    assert_eq!(world.ends[1].count(crashed), 1);
}

#[test]
fn without_its_secret_a_gateway_is_found_dead_as_ever() {
    let mut world = up(167);
    world.restart_gateway();
    world.packet();
    world.run(Duration::from_secs(3));
    assert_eq!(established(&world), 1);
    assert!(world.drops(0, DropReason::WrongToken) > 0);
    world.run(Duration::from_secs(100));
    world.assert_up();
    assert_eq!(world.ends[0].count(crashed), 0);
}

#[test]
fn the_secret_is_told_once_and_taken_back() {
    let mut world = up(168);
    let first = world.ends[1]
        .seen
        .kept
        .as_ref()
        .expect("a secret")
        .0
        .clone();
    world.command(0, Command::Down("road".into()));
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(2));
    let now = world.ends[1].seen.kept.as_ref().expect("a secret");
    assert_eq!(now.0, first);
    kill(&mut world, 1);
    world.run(Duration::from_secs(30));
    world.assert_up();
    // What cannot be read is replaced.
    for wrong in [&[][..], &[9; 34], &first[..first.len() - 1]] {
        let mut world = self::world(169);
        world.input(1, Input::Kept(wrong));
        world.run(Duration::from_secs(2));
        world.assert_up();
        let kept = world.ends[1].seen.kept.as_ref().expect("a secret");
        assert_eq!(kept.0.len(), first.len());
    }
}

/// A request of the station under keys, as the gateway gets it.
fn asked(world: &mut World) -> (Path, Vec<u8>) {
    let id = *world.ends[0]
        .node
        .sessions
        .keys()
        .next()
        .expect("a session");
    let now = world.now;
    world.ends[0].endpoint.node.outputs.begin();
    world.ends[0].endpoint.node.ask(id, now);
    world.settle(0);
    let octets = world.network.log.last().expect("a request").clone();
    world.network.wire.clear();
    (world.ends[1].path(), octets)
}

/// Answers of an end in clear, with tokens.
fn shown(world: &World, before: usize) -> usize {
    let log = world.network.log[before..].iter();
    let in_clear = |octets: &&Vec<u8>| octets.get(4 + 16) == Some(&41);
    log.filter(in_clear).count()
}

#[test]
fn nobody_gets_the_token_of_an_ike_sa_that_stands() {
    let mut world = up(170);
    let (path, octets) = asked(&mut world);
    let before = world.network.log.len();
    // As from the station, from elsewhere, as if we had begun it, as if there were another message.
    for (flag, id) in [(0, 0), (0x08, 0), (0, 9), (0x08, 9)] {
        let mut forged = octets.clone();
        forged[4 + 19] ^= flag;
        forged[4 + 23] ^= id;
        forged[4 + 30] ^= 1;
        let mut from = path;
        from.remote = ([203, 0, 113, 9], 4_500).into();
        for path in [path, from] {
            world.deliver(1, path, &forged);
        }
    }
    assert_eq!(shown(&world, before), 0);
    // Of another one everybody may have it.
    let mut strange = octets;
    strange[4 + 3] ^= 1;
    strange[4 + 12] ^= 1;
    world.deliver(1, path, &strange);
    assert_eq!(shown(&world, before), 1);
}

#[test]
fn a_flood_of_requests_gets_few_tokens() {
    let mut world = up(171);
    let (path, octets) = asked(&mut world);
    let before = world.network.log.len();
    for n in 0..10_000_u32 {
        let mut strange = octets.clone();
        strange[4..8].copy_from_slice(&n.to_be_bytes());
        strange[4 + 12..4 + 16].copy_from_slice(&n.to_be_bytes());
        world.deliver(1, path, &strange);
    }
    let burst = Duration::from_secs(1).as_nanos() / HINT_INTERVAL.as_nanos();
    assert!(shown(&world, before) <= burst as usize + 1);
    world.network.wire.clear();
    world.run(Duration::from_secs(60));
    world.assert_up();
}

#[test]
fn a_gateway_that_crashes_again_and_again_is_tried_after_a_while() {
    let mut world = up(172);
    for _ in 0..6 {
        kill(&mut world, 1);
        world.packet();
        world.run(Duration::from_secs(2));
    }
    let retries = world.ends[0].count(|event| matches!(event, Event::RetryScheduled { .. }));
    assert!(retries > 0);
    world.run(Duration::from_secs(60));
    world.assert_up();
}
