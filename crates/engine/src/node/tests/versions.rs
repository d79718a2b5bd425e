//! Messages of a version that a connection does not speak, and clients that go back to an earlier
//! one.

use super::*;
use crate::config::Version;
use crate::node::hints::HINTS;

/// A first message of IKEv2 of this length.
fn first(len: u32, number: u32) -> Vec<u8> {
    let mut message = [&[0xa5; 4][..], &number.to_be_bytes(), &[0; 8]].concat();
    message.extend([33, 0x20, 34, 0x08, 0, 0, 0, 0]);
    message.extend(len.to_be_bytes());
    message.resize(len as usize, 0);
    message
}

fn stranger(port: u16) -> Path {
    arrives((GATEWAY, port), ([198, 51, 100, 9], port))
}

#[test]
fn a_first_message_of_ikev2_is_answered_on_either_port() {
    let mut world = World::new(110, |_, _| {});
    world.run(Duration::from_secs(2));
    for (port, marker) in [(IKE_PORT, 0), (NAT_T_PORT, 4)] {
        let asked = first(400, 1);
        world.deliver(1, stranger(port), &[&vec![0; marker][..], &asked].concat());
        let answer = world.network.log.pop().expect("an answer");
        assert_eq!(answer[..marker], [0; 4][..marker]);
        assert_eq!(answer[marker..marker + 16], asked[..16]);
        assert_eq!(answer[marker + 17..marker + 20], [0x20, 34, 0x20]);
        assert_eq!(answer.len(), marker + 36);
    }
    let said = world.ends[1].failure().expect("a line");
    assert_eq!(
        said,
        "the peer starts with IKEv2, but we support only IKEv1: it needs version = 1"
    );
    assert_eq!(world.drops(1, DropReason::UnsupportedVersion), 2);
    world.assert_up();
}

#[test]
fn a_gateway_of_ikev2_says_that_a_peer_starts_with_ikev1() {
    let mut world = World::new(112, |connection, is_station| {
        if !is_station {
            super::ikev2::speaks(connection, Version::V2);
        }
    });
    world.run(Duration::from_secs(2));
    assert_eq!(
        world.ends[1].failure().expect("a line"),
        "the peer starts with IKEv1, but we support only IKEv2: it needs version = 2"
    );
    assert!(world.drops(1, DropReason::NoConnection) > 0);
}

#[test]
fn a_flood_of_ikev2_has_few_answers_and_none_that_is_longer() {
    let mut world = World::new(111, |_, _| {});
    world.run(Duration::from_secs(2));
    let before = world.network.log.len();
    for number in 0..1_000 {
        world.deliver(1, stranger(IKE_PORT), &first(400, number));
    }
    let answered = world.network.log.len() - before;
    assert_eq!(answered, 100);
    let told = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
    assert_eq!(world.ends[1].count(told), answered);
    world.run(Duration::from_secs(2));
    // Shorter than its answer would be, an answer itself, and an even later version.
    let before = world.network.log.len();
    let mut response = first(36, 1);
    response[19] = 0x20;
    let mut third = first(400, 1);
    third[17] = 0x30;
    for message in [first(28, 1), first(35, 1), response, third] {
        world.deliver(1, stranger(IKE_PORT), &message);
    }
    assert_eq!(world.network.log.len(), before);
    assert_eq!(world.drops(1, DropReason::UnsupportedVersion), 1_004);
    // Hints, which stations wait for, have a separate limit.
    let now = world.now;
    assert!(world.ends[1].node.hints.take_one(HINTS, now));
}

/// A gateway of both versions and a station of one.
fn either(own: Version) -> Change {
    Arc::new(move |connection, is_station| {
        let version = if is_station { own } else { Version::Either };
        super::ikev2::speaks(connection, version);
    })
}

fn is_upgrade(event: &Event) -> bool {
    matches!(event, Event::Upgraded { .. })
}

fn restart_station(world: &mut World, own: Version, number: u8) {
    let station = endpoint(config(true, &either(own)), &Seed::new([number; 32]));
    world.replace(0, station);
    world.run(Duration::from_secs(5));
}

#[test]
fn who_has_used_ikev2_is_refused_with_ikev1_until_forgotten() {
    let mut world = World::new(114, |connection, is_station| {
        either(Version::V2)(connection, is_station);
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    let told = world.ends[1]
        .seen
        .events
        .iter()
        .find_map(|event| match event {
            Event::Upgraded {
                connection,
                peer,
                mark,
            } => Some((connection.clone(), peer.clone(), *mark)),
            _ => None,
        });
    let (connection, peer, mark) = told.expect("it is told");
    assert_eq!((&connection[..], &peer[..]), ("road", "ms.example"));

    restart_station(&mut world, Version::V1, 0x71);
    assert!(world.drops(1, DropReason::Downgraded) > 0);
    let said = |event: &Event| match event {
        Event::NegotiationFailed { reason, .. } => {
            reason.contains("`caravan forget road --peer ms.example`")
        }
        _ => false,
    };
    assert!(world.ends[1].told(said));
    assert!(!world.ends[0].told(|it| matches!(it, Event::ChildEstablished { .. })));

    // Nor after a restart of the gateway, which is told what its predecessor knew.
    let gateway = endpoint(config(false, &either(Version::V2)), &Seed::new([0x72; 32]));
    world.replace(1, gateway);
    world.command(1, Command::Upgraded(vec![mark]));
    restart_station(&mut world, Version::V1, 0x73);
    assert!(world.drops(1, DropReason::Downgraded) > 0);
    assert!(!world.ends[1].told(is_upgrade));

    world.command(1, Command::Forget(vec![mark]));
    restart_station(&mut world, Version::V1, 0x74);
    world.assert_up();
}

#[test]
fn nobody_is_remembered_where_one_version_is_spoken_or_many_share_a_key() {
    let mut world = World::new(115, |connection, _| {
        super::ikev2::speaks(connection, Version::V2);
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert!(!world.ends[1].told(is_upgrade));

    let mut world = World::new(116, |connection, is_station| {
        either(Version::V2)(connection, is_station);
        if !is_station {
            connection.remote.identities = vec![IdentityPattern::Any];
        }
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert!(!world.ends[1].told(is_upgrade));
    restart_station(&mut world, Version::V1, 0x75);
    world.assert_up();
}
