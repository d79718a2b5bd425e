//! Our own addresses change: how soon a station follows, and how often at most.

use super::super::ways::{FOLLOW_WINDOW, FOLLOWED_AT_ONCE};
use super::*;
use crate::config::Encapsulation::{Auto, ThroughNat};

const WIFI: [u8; 4] = [10, 0, 0, 77];
const CELL: [u8; 4] = [10, 0, 0, 78];

/// A tunnel that is up, without a NAT between.
fn settled(seed: u8, is_udp: bool) -> World {
    let mut world = World::new(seed, move |connection, _| {
        connection.encapsulation = if is_udp { Auto } else { ThroughNat };
    });
    world.network.nat = None;
    world.network.wire.clear();
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

/// The two addresses take turns.
fn flap(world: &mut World, times: u32, every: Duration) {
    for turn in 0..times {
        let own = if turn % 2 == 0 { WIFI } else { CELL };
        world.has_address(own.into());
        world.run(every);
    }
}

#[test]
fn a_node_waits_until_it_is_told_its_addresses_and_begins_then() {
    let change: Change = Arc::new(|_, _| {});
    let mut node = Node::new(config(true, &change), &Seed::new([0x51; 32]));
    let drain = |node: &mut Node| {
        let (mut sent, mut asks) = (0, 0);
        loop {
            match node.poll() {
                Output::Datagram(..) => sent += 1,
                Output::WantsAddresses => asks += 1,
                Output::Wait(_) => return (sent, asks),
                _ => {}
            }
        }
    };
    assert_eq!(drain(&mut node), (0, 1));
    node.handle(Input::Wake, Instant(1));
    assert_eq!(drain(&mut node), (0, 0));
    let peers = node.peers();
    assert_eq!(peers.len(), 1);
    let ours = Ways::of_one(STATION.into(), peers);
    node.handle(Input::Ways(ours), Instant(2));
    assert_eq!(drain(&mut node), (1, 0));
}

#[test]
fn a_change_is_followed_in_the_same_moment() {
    let mut world = settled(161, true);
    let before = world.network.sent;
    world.has_address(WIFI.into());
    assert_eq!(world.ends[0].path().local.ip(), IpAddr::from(WIFI));
    assert_eq!(world.network.sent, before + 1, "a question shows the way");
    // Told again, it is no change.
    world.has_address(WIFI.into());
    assert_eq!(world.network.sent, before + 1);
}

#[test]
fn a_link_that_flaps_costs_little_and_the_newest_address_stays() {
    let mut world = settled(162, true);
    let before = world.network.sent;
    let every = Duration::from_millis(20);
    let seconds = 10;
    flap(&mut world, 50 * seconds, every);
    let followed = (seconds as usize + 1) * FOLLOWED_AT_ONCE;
    let sent = world.network.sent - before;
    // Each time, each end asks and answers once.
    assert!((20..=4 * followed).contains(&sent), "{sent} messages");
    world.run(FOLLOW_WINDOW + FOLLOW_WINDOW);
    for end in [0, 1] {
        let path = world.ends[end].path();
        let ip = if end == 0 { path.local } else { path.remote };
        assert_eq!(ip.ip(), IpAddr::from(CELL));
    }
    world.assert_up();
}

/// Without UDP each change is a new attempt.
#[test]
fn a_link_that_flaps_ends_few_tunnels_that_cannot_move() {
    let mut world = settled(163, false);
    let seconds = 10;
    flap(&mut world, 50 * seconds, Duration::from_millis(20));
    let is_end = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => *cause == EndCause::OwnAddressChanged,
        _ => false,
    };
    let ended = world.ends[0].count(is_end);
    assert!(
        (1..=(seconds as usize + 1) * FOLLOWED_AT_ONCE).contains(&ended),
        "{ended}"
    );
    world.run(Duration::from_secs(10));
    world.assert_up();
    assert_eq!(world.ends[0].path().local.ip(), IpAddr::from(CELL));
}

/// IKE and ESP of both ends use this address of the station.
fn assert_at(world: &World, own: [u8; 4]) {
    for (end, it) in world.ends.iter().enumerate() {
        let children = it.seen.outbound.values();
        let packets = children.filter_map(|child| it.seen.paths.get(child).copied());
        for path in packets.chain([it.path()]) {
            let station = [path.local, path.remote][end];
            assert_eq!(station.ip(), IpAddr::from(own), "end {end}");
        }
    }
}

/// The old link stays up, so what the gateway has sent to it still arrives.
#[test]
fn what_was_in_flight_during_a_move_does_not_pull_the_station_back() {
    for is_ike in [false, true] {
        let mut world = settled(164, true);
        world.has_address(WIFI.into());
        world.run(Duration::from_secs(5));
        assert_at(&world, WIFI);
        match is_ike {
            true => world.command(1, Command::RekeyChildren("road".into())),
            false => {
                world.packet();
                world.run(Duration::from_millis(25));
            }
        }
        let in_flight = world.network.wire.iter();
        assert!(
            in_flight
                .into_iter()
                .any(|it| it.path.local.ip() == IpAddr::from(WIFI))
        );
        let moves = |world: &World| {
            let is_move = |event: &Event| matches!(event, Event::PathMoved { .. });
            world.ends.each_ref().map(|end| end.count(is_move))
        };
        let before = moves(&world);
        world.has_address(CELL.into());
        world.run(Duration::from_secs(5));
        assert_at(&world, CELL);
        assert_eq!(moves(&world), before.map(|times| times + 1));
        world.packet();
        world.run(Duration::from_secs(1));
        assert_at(&world, CELL);
    }
}

/// It may have several addresses, and the peer's NAT or firewall expects the one that it knows.
#[test]
fn a_gateway_answers_from_the_address_that_its_peer_uses() {
    let mut world = settled(165, true);
    let other = IpAddr::from([192, 0, 2, 2]);
    let mut path = world.ends[1].path();
    path.local.set_ip(other);
    let child = *world.ends[1].seen.inbound.values().next().expect("a child");
    let bytes = 100;
    world.notice(1, Notice::PathMoved { child, path, bytes });
    assert_eq!(world.ends[1].path(), path);
    world.packet();
    world.run(Duration::from_secs(1));
    let mut path = world.ends[0].path();
    assert_eq!(
        path.remote.ip(),
        IpAddr::from(GATEWAY),
        "what was addressed last"
    );
    // The station follows the gateway, and keeps its own end.
    let child = *world.ends[0].seen.inbound.values().next().expect("a child");
    path.remote.set_ip(other);
    let mut seen = path;
    seen.local.set_ip(WIFI.into());
    world.notice(
        0,
        Notice::PathMoved {
            child,
            path: seen,
            bytes,
        },
    );
    assert_eq!(world.ends[0].path(), path);
}

/// The peer renews the ISAKMP SA with a message to the address that it knows.
#[test]
fn a_session_that_the_gateway_renews_during_a_move_follows_too() {
    let mut world = settled(166, true);
    world.has_address(WIFI.into());
    world.run(Duration::from_secs(5));
    world.command(1, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(70));
    world.has_address(CELL.into());
    world.run(Duration::from_secs(5));
    assert_at(&world, CELL);
    world.assert_up();
}

fn attempts(world: &World) -> usize {
    world.ends[0].count(|event| matches!(event, Event::RetryScheduled { .. }))
}

/// Goes on until the next attempt has failed.
fn fails_again(world: &mut World) {
    let before = attempts(world);
    while attempts(world) == before {
        world.run(Duration::from_millis(10));
    }
}

/// As on a host with containers or a routing daemon.
#[test]
fn events_that_change_no_way_do_not_shorten_the_waits_of_a_failing_station() {
    let mut world = World::new(167, |connection, is_station| {
        if is_station {
            wrong_key(connection);
        }
    });
    for _ in 0..3_000 {
        world.has_address(STATION.into());
        world.run(Duration::from_millis(100));
    }
    // In five minutes: some at first, then one in 8 to 30 s.
    let attempts = attempts(&world);
    assert!((10..=45).contains(&attempts), "{attempts} attempts");
    // The way itself changes, is lost, and comes back: the change and the return bring one attempt.
    fails_again(&mut world);
    let lost = Ways([(GATEWAY.into(), Vec::new())].into());
    let sent = world.network.sent;
    world.has_address(WIFI.into());
    world.has_address(WIFI.into());
    assert_eq!(world.network.sent, sent + 1);
    fails_again(&mut world);
    let sent = world.network.sent;
    world.has_address(WIFI.into());
    world.input(0, Input::Ways(lost));
    assert_eq!(world.network.sent, sent);
    world.has_address(WIFI.into());
    assert_eq!(world.network.sent, sent + 1);
}

/// The station's first address is gone, and it has another one.
fn moves_for_good(world: &mut World) {
    world.network.dead.push(STATION.into());
    world.has_address(WIFI.into());
}

#[test]
fn an_attempt_goes_on_from_another_address_when_its_own_is_gone() {
    for (is_aggressive, messages) in [(true, 8), (false, 11)] {
        for sent in 2..=messages {
            let mut world = World::new(168, move |connection, _| {
                connection.is_aggressive = is_aggressive;
                connection.encapsulation = Auto;
            });
            world.network.nat = None;
            world.network.wire.clear();
            while world.network.sent < sent {
                world.run(Duration::from_millis(1));
            }
            moves_for_good(&mut world);
            let from = world.now;
            world.run(Duration::from_secs(6));
            let case = format!("aggressive {is_aggressive}, {sent} messages");
            assert!(!world.ends[0].seen.outbound.is_empty(), "{case}");
            world.assert_up();
            assert_at(&world, WIFI);
            assert_eq!(attempts(&world), 0, "{case}: no wait");
            assert!(world.now.since(from) < Duration::from_secs(7));
        }
    }
}

/// Without UDP a session that is not up yet cannot move.
#[test]
fn an_attempt_that_cannot_move_begins_again_at_once() {
    for sent in 2..=8 {
        let mut world = World::new(169, |connection, _| connection.encapsulation = ThroughNat);
        world.network.nat = None;
        world.network.wire.clear();
        while world.network.sent < sent {
            world.run(Duration::from_millis(1));
        }
        moves_for_good(&mut world);
        world.run(Duration::from_secs(6));
        world.assert_up();
        assert_at(&world, WIFI);
    }
}

#[test]
fn a_renewal_begins_again_from_the_new_address() {
    let mut world = settled(170, true);
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(10));
    moves_for_good(&mut world);
    world.run(Duration::from_secs(5));
    let is_established = |event: &Event| matches!(event, Event::IkeEstablished { .. });
    assert_eq!(world.ends[0].count(is_established), 2);
    world.assert_up();
    assert_at(&world, WIFI);
}
