//! Sessions of IKEv2 that are over: their peers learn it, whatever is lost, and nobody waits for
//! long.

use super::super::farewells::FAREWELL;
use super::ikev2::speaks;
use super::*;
use crate::config::Version;
use crate::ike::retransmit::Answered;
use crate::ike::{Sent, Spi};
use crate::node::last_answers::{ANSWER_STAYS, LastAnswers, MAX_ANSWERS};

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

/// How often a message was sent.
fn repeated(world: &World, message: &[u8]) -> usize {
    world.network.log.iter().filter(|it| *it == message).count()
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

/// A station with one connection, then with a second one under the same identity, of which the
/// gateway keeps only the newest.
fn with_two_connections(seed: u8) -> World {
    let mut world = world(seed);
    let mut both = config(true, &world.change);
    let second: Change = Arc::new(|connection: &mut Connection, _| {
        speaks(connection, Version::V2);
        connection.name = "second".into();
        connection.children[0].remote = vec!["10.10.0.2/32".parse().unwrap()];
    });
    both.connections.extend(config(true, &second).connections);
    world.input(0, Input::Configure(Arc::new(both)));
    world
}

#[test]
fn a_session_that_a_new_one_replaces_without_initial_contact_ends_at_the_peer_too() {
    let mut world = with_two_connections(147);
    // The first DELETE is lost.
    world.network.loses = Some(world.network.sent + 4);
    world.run(Duration::from_secs(1));
    let closed = |end: usize, cause: &EndCause| {
        world.ends[end].told(|it| matches!(it, Event::IkeClosed { cause: is, .. } if is == cause))
    };
    assert!(closed(1, &EndCause::PeerRestarted));
    assert!(closed(0, &EndCause::DeletedByPeer));
    let lost = &world.network.log[8];
    assert_eq!(repeated(&world, lost), 2);
}

#[test]
fn a_peer_that_says_initial_contact_is_told_nothing_of_what_it_has_forgotten() {
    let mut world = world(148);
    let station = endpoint(config(true, &world.change), &Seed::new([0x48; 32]));
    let sent = world.network.sent;
    world.replace(0, station);
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(world.network.sent, sent + 4);
    assert!(world.ends[1].node.farewells.is_empty());
}

#[test]
fn a_repeated_delete_is_answered_by_an_end_that_has_forgotten_the_session() {
    for end in [0, 1] {
        let mut world = world(149);
        // The answer to the DELETE is lost.
        world.network.loses = Some(world.network.sent + 2);
        match end {
            0 => down(&mut world),
            _ => world.command(1, Command::Stop),
        }
        world.run(Duration::from_secs(2));
        assert!(world.ends[end].node.farewells.is_empty());
        for message in &world.network.log[4..6] {
            assert_eq!(repeated(&world, message), 2);
        }
    }
}

#[test]
fn a_repeated_delete_is_answered_a_bounded_number_of_times_and_not_for_long() {
    let mut world = world(150);
    down(&mut world);
    world.run(Duration::from_secs(1));
    let delete = world.network.log[4].clone();
    let path = arrives((GATEWAY, NAT_T_PORT), (NAT, world.nat_port(NAT_T_PORT)));
    let answers = |world: &mut World, times: usize| {
        let from = world.network.log.len();
        (0..times).for_each(|_| world.deliver(1, path, &delete));
        world.network.log.len() - from
    };
    assert_eq!(answers(&mut world, 100), 10);
    let mut world = super::farewells::world(150);
    down(&mut world);
    world.run(Duration::from_secs(1));
    assert_eq!(answers(&mut world, 1), 1);
    world.run(ANSWER_STAYS);
    assert_eq!(answers(&mut world, 1), 0);
    assert_eq!(world.ends[1].node.last_answers.len(), 0);
}

#[test]
fn answers_to_the_last_requests_are_bounded_in_number_and_size() {
    let mut kept = LastAnswers::default();
    let answer = |number: u64, octets: usize| {
        let sent = Sent {
            path: arrives((GATEWAY, IKE_PORT), (STATION, IKE_PORT)),
            message: vec![0; octets],
            more: Vec::new(),
            step: Step::Inform(2),
            payloads: String::new(),
            may_fragment: false,
        };
        let spi = Spi(number.to_be_bytes());
        vec![(spi, Answered::sent(b"a request", Some(sent)))]
    };
    for number in 0..2 * MAX_ANSWERS as u64 {
        kept.keep(answer(number, 80), Instant(number));
    }
    assert_eq!(kept.len(), MAX_ANSWERS);
    let later = Instant::default() + ANSWER_STAYS + ANSWER_STAYS;
    kept.keep(answer(0, 1_000), later);
    assert_eq!(kept.len(), 0);
}

/// The gateway's proof is not what the station expects.
fn disbelieving(seed: u8) -> World {
    World::new(seed, |connection, is_station| {
        speaks(connection, Version::V2);
        if is_station {
            let other = Secret(b"another secret".to_vec());
            connection.remote.method = RemoteMethod::PresharedKey(Arc::new(other));
        }
    })
}

#[test]
fn a_gateway_that_is_refused_learns_it_although_the_message_is_lost() {
    let mut world = disbelieving(151);
    // N(AUTHENTICATION_FAILED) is lost.
    world.network.loses = Some(5);
    world.run(Duration::from_millis(900));
    assert_eq!(world.ends[0].node.established(), 0);
    assert_eq!(world.ends[1].node.established(), 0);
    assert_eq!(repeated(&world, &world.network.log[4]), 2);
    let is_refused = |event: &Event| {
        let cause = EndCause::Failed("the peer refused with AUTHENTICATION_FAILED".into());
        matches!(event, Event::IkeClosed { cause: it, .. } if *it == cause)
    };
    assert!(world.ends[1].told(is_refused));
    assert!(world.ends[0].node.farewells.is_empty());
}

#[test]
fn a_gateway_that_is_refused_and_gone_is_told_for_a_short_time_only() {
    let mut world = disbelieving(152);
    while world.network.sent < 4 {
        world.run(Duration::from_millis(1));
    }
    world.run(Duration::from_millis(21));
    world.command(0, Command::Stop);
    world.network.loss = 1.0;
    world.network.wire.clear();
    world.run(FAREWELL - Duration::from_millis(30));
    assert_eq!(stopped(&world, 0), 0);
    world.run(Duration::from_millis(30));
    assert_eq!(stopped(&world, 0), 1);
    let told = repeated(&world, &world.network.log[4]);
    assert!((3..=6).contains(&told), "{told}");
}
