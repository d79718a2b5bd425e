//! Addresses that change under a session of IKEv2: by MOBIKE (RFC 4555), and without it.

use super::ikev2::speaks;
use super::*;
use crate::config::Encapsulation::{Auto, ThroughNat};
use crate::config::Version;

const WIFI: [u8; 4] = [10, 0, 0, 77];
const CELL: [u8; 4] = [10, 0, 0, 78];
const VICTIM: [u8; 4] = [203, 0, 113, 66];
/// A second address of the gateway.
const OTHER: [u8; 4] = [192, 0, 2, 2];
const STATION6: &str = "2001:db8:a::2";
const GATEWAY6: &str = "2001:db8:b::1";

fn six(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A tunnel that is up, without a NAT.
fn up(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    let mut world = begun(seed, change);
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

fn begun(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    let mut world = World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        connection.encapsulation = Auto;
        change(connection, is_station);
    });
    world.network.nat = None;
    world.network.wire.clear();
    world
}

fn established(world: &World, end: usize) -> usize {
    world.ends[end].count(|event| matches!(event, Event::IkeEstablished { .. }))
}

fn is_mobike(world: &World) -> [bool; 2] {
    world.ends.each_ref().map(|end| {
        let status = end.node.status(world.now);
        status.connections[0].sessions[0].has_mobike
    })
}

/// IKE and ESP of both ends use this address of the station.
#[track_caller]
fn assert_at(world: &World, own: impl Into<IpAddr>) {
    let own = own.into();
    for (end, it) in world.ends.iter().enumerate() {
        let children = it.seen.outbound.values();
        let packets = children.filter_map(|child| it.seen.paths.get(child).copied());
        for path in packets.chain([it.path()]) {
            let station = [path.local, path.remote][end];
            assert_eq!(station.ip(), own, "end {end}");
        }
    }
}

/// The station has lost its address, and has this one.
fn moves_for_good(world: &mut World, own: [u8; 4]) {
    let lost = world.ends[0].path().local.ip();
    world.network.dead.retain(|it| *it != IpAddr::from(own));
    world.network.dead.push(lost);
    world.has_address(own.into());
}

/// The ways to each of these peers.
fn ways<const N: usize>(world: &mut World, ways: [(IpAddr, Option<IpAddr>); N]) {
    let all = ways.map(|(peer, own)| (peer, own.into_iter().collect()));
    world.input(0, Input::Ways(Ways(all.into())));
}

/// An authentic packet of the station's comes to the gateway from there.
fn packet_from(world: &mut World, address: [u8; 4], bytes: u64) -> Path {
    let mut path = world.ends[1].path();
    path.remote.set_ip(address.into());
    let child = *world.ends[1].seen.inbound.values().next().expect("a child");
    world.notice(1, Notice::PathMoved { child, path, bytes });
    path
}

fn limit(world: &World) -> Option<u64> {
    let seen = &world.ends[1].seen;
    let live: BTreeSet<_> = seen.outbound.values().collect();
    let limits = live
        .into_iter()
        .filter_map(|it| seen.limits.get(it).copied());
    limits.reduce(|a, b| a + b)
}

/// Octets that were sent to an address that nobody has.
fn sent_to(world: &World, address: [u8; 4]) -> u64 {
    let there = world.network.unheard.iter();
    let there = there.filter(|(path, _)| path.remote.ip() == IpAddr::from(address));
    there.map(|(_, octets)| octets.len() as u64).sum()
}

#[test]
fn both_ends_must_want_it_and_status_shows_it() {
    for (index, [ours, theirs]) in [[true, true], [true, false], [false, true]]
        .into_iter()
        .enumerate()
    {
        let world = up(180 + index as u8, move |connection, is_station| {
            connection.mobike = if is_station { ours } else { theirs };
        });
        assert_eq!(is_mobike(&world), [ours && theirs; 2]);
    }
}

#[test]
fn a_tunnel_of_mobike_is_on_port_4500_although_there_is_no_nat() {
    let world = up(183, |connection, _| connection.encapsulation = ThroughNat);
    assert!(
        world
            .ends
            .iter()
            .all(|end| end.path().local.port() == NAT_T_PORT)
    );
    let world = up(184, |connection, _| {
        connection.encapsulation = ThroughNat;
        connection.mobike = false;
    });
    assert_eq!(world.ends[0].path().local.port(), IKE_PORT);
}

#[test]
fn a_move_takes_one_round_trip_in_both_directions() {
    let mut world = up(185, |_, _| {});
    let round_trip = 2 * world.network.delay;
    moves_for_good(&mut world, WIFI);
    // In both directions at once, without waiting for an answer.
    world.packet();
    let delay = world.network.delay;
    world.run(delay);
    assert_at(&world, WIFI);
    let inner = world.ends[0].inner()[0];
    assert!(world.send(1, datagram(INSIDE.into(), inner, 64)));
    assert!(world.ends[0].seen.opened.is_empty());
    let delay = world.network.delay;
    world.run(delay);
    assert!(!world.ends[0].seen.opened.is_empty(), "after a round trip");
    assert!(limit(&world).is_some(), "not proven yet");
    world.run(round_trip);
    assert_eq!(limit(&world), None);
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_at(&world, WIFI);
    assert_eq!(established(&world, 0), 1);
    let status = world.ends[1].node.status(world.now);
    assert_eq!(status.connections[0].sessions[0].moves, 1);
    assert!(!world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. })));
}

#[test]
fn a_station_that_sends_nothing_is_reached_at_its_new_address() {
    let mut world = up(186, |_, _| {});
    moves_for_good(&mut world, WIFI);
    let delay = world.network.delay;
    world.run(delay);
    let inner = world.ends[0].inner()[0];
    assert!(world.send(1, datagram(INSIDE.into(), inner, 64)));
    let delay = world.network.delay;
    world.run(delay);
    assert_eq!(world.ends[0].seen.opened.len(), 1);
}

#[test]
fn an_update_that_is_lost_comes_again_soon() {
    let mut world = up(187, |_, _| {});
    world.network.loses = Some(world.network.sent + 1);
    moves_for_good(&mut world, WIFI);
    world.run(Duration::from_millis(1_100));
    assert_at(&world, WIFI);
    world.run(Duration::from_secs(30));
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

/// What is renewed, and by which end, when the station moves so much later.
fn moves_during_a_renewal(by: usize, is_ike: bool, after_ms: u64) {
    let mut world = up(188, |_, _| {});
    let name = "road".to_owned();
    let command = match is_ike {
        true => Command::RekeyIke(name),
        false => Command::RekeyChildren(name),
    };
    world.command(by, command);
    world.run(Duration::from_millis(after_ms));
    moves_for_good(&mut world, WIFI);
    world.run(Duration::from_secs(20));
    let case = format!("by {by}, IKE {is_ike}, after {after_ms} ms");
    assert_eq!(world.ends[0].node.sessions.len(), 1, "{case}");
    world.assert_up();
    assert_at(&world, WIFI);
    let renewed = match is_ike {
        true => established(&world, by) == 2,
        false => world.ends[by]
            .told(|event| matches!(event, Event::ChildEstablished { is_rekey: true, .. })),
    };
    assert!(renewed, "{case}");
    assert!(
        !world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. })),
        "{case}"
    );
    let opened = world.ends[0].seen.opened.len();
    world.packet();
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[0].seen.opened.len(), opened + 1, "{case}");
}

#[test]
fn a_move_in_the_middle_of_a_renewal_by_either_end_loses_neither() {
    for by in [0, 1] {
        for is_ike in [false, true] {
            for after_ms in (1..100).step_by(9) {
                moves_during_a_renewal(by, is_ike, after_ms);
            }
        }
    }
}

/// RFC 4555 §3.5: the answer to an earlier update says nothing of the last path.
#[test]
fn of_several_moves_the_last_one_counts() {
    for pause_ms in [0, 1, 15, 25, 45, 90] {
        let mut world = up(189, |_, _| {});
        for own in [WIFI, CELL, STATION, WIFI, CELL] {
            moves_for_good(&mut world, own);
            world.run(Duration::from_millis(pause_ms));
        }
        world.run(Duration::from_secs(10));
        assert_at(&world, CELL);
        world.assert_up();
        assert_eq!(established(&world, 0), 1, "{pause_ms} ms");
        assert_eq!(limit(&world), None);
        assert_eq!(
            world.ends[0].node.status(world.now).connections[0].sessions[0].nat,
            (false, false)
        );
    }
}

fn both_families(connection: &mut Connection, is_station: bool) {
    if is_station {
        let addresses = [GATEWAY.into(), six(GATEWAY6)];
        connection.remote_addrs = addresses.map(|it| (it, IKE_PORT).into()).to_vec();
    }
}

#[test]
fn ipv4_to_ipv6_and_back() {
    let mut world = up(190, both_families);
    let four = IpAddr::from(STATION);
    let session = world.ends[0].node.sessions.keys().next().copied();
    for _ in 0..3 {
        ways(
            &mut world,
            [(GATEWAY.into(), None), (six(GATEWAY6), Some(six(STATION6)))],
        );
        let delay = world.network.delay;
        world.run(2 * delay);
        assert_at(&world, six(STATION6));
        assert_eq!(world.ends[1].path().local.ip(), six(GATEWAY6));
        assert_eq!(world.ends[0].path().remote.ip(), six(GATEWAY6));
        // What the gateway sent over IPv4 comes late.
        let child = *world.ends[0].node.children.keys().next().unwrap();
        let late = Path::udp_with_marker((STATION, 4500), (GATEWAY, 4500));
        let now = world.now;
        world.ends[0].node.move_child(child, late, 100, now);
        assert_eq!(world.ends[0].path().remote.ip(), six(GATEWAY6));
        world.packet();
        world.run(Duration::from_secs(5));
        // IPv4 is there too: nothing moves without a need.
        ways(
            &mut world,
            [
                (GATEWAY.into(), Some(four)),
                (six(GATEWAY6), Some(six(STATION6))),
            ],
        );
        world.run(Duration::from_secs(5));
        assert_at(&world, six(STATION6));
        ways(
            &mut world,
            [(GATEWAY.into(), Some(four)), (six(GATEWAY6), None)],
        );
        world.run(Duration::from_secs(5));
        assert_at(&world, STATION);
        assert_eq!(world.ends[0].path().remote.ip(), IpAddr::from(GATEWAY));
    }
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
    assert_eq!(world.ends[0].node.sessions.keys().next().copied(), session);
    assert_eq!(world.ends[0].seen.opened.len(), 3);
}

/// The gateway's next message to the station, taken off the wire.
fn taken(world: &mut World) -> Vec<u8> {
    let wire = &mut world.network.wire;
    let place = wire.iter().rposition(|it| it.to == 0);
    wire.remove(place.expect("a message")).octets
}

/// AH's update after a move names both ends of the path, which are of one family.
#[test]
fn what_the_gateway_says_over_the_other_family_moves_nobody() {
    for is_ah in [false, true] {
        let mut world = up(220 + u8::from(is_ah), move |connection, is_station| {
            both_families(connection, is_station);
            if is_ah {
                connection.encapsulation = ThroughNat;
                connection.children[0].proposals = vec!["ah-sha256".parse().expect("a suite")];
            }
        });
        let (four, six_, other) = (IpAddr::from(GATEWAY), six(GATEWAY6), IpAddr::from(OTHER));
        let [own, own6] = [IpAddr::from(STATION), six(STATION6)];
        world.input(1, Input::Addresses([four, six_, other].into()));
        world.run(Duration::from_secs(1));
        let nowhere = [(four, None), (other, None), (six_, Some(own6))];
        ways(&mut world, nowhere);
        world.run(Duration::from_secs(5));
        assert_at(&world, own6);
        // The list has no IPv6: the gateway sends from there.
        world.input(1, Input::Addresses([four, six_].into()));
        let said = taken(&mut world);
        let late = Path::udp_with_marker((STATION, 4500), (GATEWAY, 4500));
        world.deliver(0, late, &said);
        assert_eq!(peer_addresses(&world, 0), [four]);
        assert_eq!(world.ends[0].path().remote.ip(), six_, "AH {is_ah}");
        world.run(Duration::from_secs(5));
        assert_at(&world, own6);
        world.assert_up();
        // It has lost IPv6, and the station has a way to where it is.
        let both = [(four, Some(own)), (other, None), (six_, Some(own6))];
        ways(&mut world, both);
        world.run(Duration::from_secs(1));
        assert_at(&world, own6);
        world.input(1, Input::Addresses([four, six_, other].into()));
        let said = taken(&mut world);
        world.deliver(0, late, &said);
        world.run(Duration::from_secs(5));
        assert_at(&world, own);
        assert_eq!(world.ends[0].path().remote.ip(), four);
        world.assert_up();
    }
}

/// An authentic packet of the gateway's comes to the station from there.
fn packet_to_station_from(world: &mut World, remote: SocketAddr) {
    let mut path = world.ends[0].path();
    path.remote = remote;
    let child = *world.ends[0].seen.inbound.values().next().expect("a child");
    let bytes = 100;
    world.notice(0, Notice::PathMoved { child, path, bytes });
}

/// Where the station sends, its IKE messages and its packets alike.
#[track_caller]
fn assert_sends_to(world: &World, remote: SocketAddr) {
    let station = &world.ends[0];
    assert_eq!(station.path().remote, remote);
    let mut children = station.seen.outbound.values();
    assert!(children.all(|child| station.seen.paths[child].remote == remote));
}

/// An on-path attacker gives packets of the gateway the source of somebody else.
#[test]
fn a_station_goes_only_where_its_file_or_the_gateway_says() {
    let mut world = two_homed(222, |_, _| {});
    let home = world.ends[0].path().remote;
    packet_to_station_from(&mut world, (VICTIM, 4_500).into());
    assert_sends_to(&world, home);
    // A NAT before the gateway has forgotten it.
    packet_to_station_from(&mut world, (GATEWAY, 41_000).into());
    assert_sends_to(&world, (GATEWAY, 41_000).into());
    packet_to_station_from(&mut world, home);
    assert_sends_to(&world, home);
    // The gateway has lost its address, and says so: the answer goes where that came from.
    world.network.dead.push(VICTIM.into());
    world.input(1, Input::Addresses([OTHER.into()].into()));
    let said = taken(&mut world);
    let mut from_victim = world.ends[0].path();
    from_victim.remote.set_ip(VICTIM.into());
    world.deliver(0, from_victim, &said);
    assert_sends_to(&world, home);
    let answered = sent_to(&world, VICTIM);
    assert!((1..=said.len() as u64).contains(&answered), "{answered}");
    assert_eq!(peer_addresses(&world, 0), [IpAddr::from(OTHER)]);
    packet_to_station_from(&mut world, (OTHER, 4_500).into());
    assert_sends_to(&world, (OTHER, 4_500).into());
    world.run(Duration::from_secs(5));
    assert_eq!(sent_to(&world, VICTIM), answered);
    assert!(world.ends[0].seen.limits.is_empty(), "proven");
    world.assert_up();
}

#[test]
fn a_gateway_names_the_address_that_it_has_got_in_place_of_the_lost_one() {
    let mut world = up(223, |_, _| {});
    world.input(1, Input::Addresses([GATEWAY.into()].into()));
    world.run(Duration::from_secs(1));
    assert!(peer_addresses(&world, 0).is_empty());
    world.network.dead.push(GATEWAY.into());
    world.input(1, Input::Addresses([OTHER.into()].into()));
    world.run(Duration::from_secs(1));
    assert_sends_to(&world, (OTHER, 4_500).into());
    world.packet();
    world.run(Duration::from_secs(30));
    assert_eq!(world.ends[0].seen.opened.len(), 1);
    assert!(world.ends[0].seen.limits.is_empty(), "proven");
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

/// Only the gateway has named its IPv6, and nothing answers there.
#[test]
fn from_a_silent_address_of_the_other_family_a_station_goes_back_as_soon_as_it_can() {
    let mut world = up(224, |_, _| {});
    let (four, six_) = (IpAddr::from(GATEWAY), six(GATEWAY6));
    let own6 = Some(six(STATION6));
    world.input(1, Input::Addresses([four, six_].into()));
    world.run(Duration::from_secs(1));
    world.network.dead.push(six_);
    ways(&mut world, [(four, None), (six_, own6)]);
    world.run(Duration::from_secs(10));
    assert_sends_to(&world, (six_, 4_500).into());
    let moved = |event: &Event| matches!(event, Event::PathMoved { .. });
    assert_eq!(world.ends[0].count(moved), 1);
    ways(&mut world, [(four, Some(STATION.into())), (six_, own6)]);
    world.run(Duration::from_secs(4));
    assert_sends_to(&world, (four, 4_500).into());
    world.run(Duration::from_secs(60));
    assert_at(&world, STATION);
    assert_eq!(world.ends[0].count(moved), 2);
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn a_path_that_is_lost_for_a_while_is_waited_for() {
    let mut world = up(191, |_, _| {});
    ways(&mut world, [(GATEWAY.into(), None)]);
    world.network.dead.push(STATION.into());
    world.run(Duration::from_secs(5));
    moves_for_good(&mut world, WIFI);
    let delay = world.network.delay;
    world.run(2 * delay);
    assert_at(&world, WIFI);
    world.run(Duration::from_secs(30));
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

/// A gateway with two addresses.
fn two_homed(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    let mut world = begun(seed, change);
    let both = [GATEWAY, OTHER].map(IpAddr::from);
    world.input(1, Input::Addresses(both.into()));
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

fn peer_addresses(world: &World, end: usize) -> Vec<IpAddr> {
    let status = world.ends[end].node.status(world.now);
    status.connections[0].sessions[0].peer_addresses.clone()
}

#[test]
fn each_end_knows_all_addresses_of_the_other() {
    let mut world = two_homed(192, |_, _| {});
    assert_eq!(peer_addresses(&world, 0), [IpAddr::from(OTHER)]);
    assert!(peer_addresses(&world, 1).is_empty());
    assert!(world.ends[0].node.peers().contains(&OTHER.into()));
    // A gateway that gets or loses one says so, and so does a station.
    let six = six(GATEWAY6);
    world.input(
        1,
        Input::Addresses([GATEWAY.into(), OTHER.into(), six].into()),
    );
    world.run(Duration::from_secs(1));
    assert_eq!(peer_addresses(&world, 0), [IpAddr::from(OTHER), six]);
    world.input(1, Input::Addresses([GATEWAY.into()].into()));
    world.run(Duration::from_secs(1));
    assert!(peer_addresses(&world, 0).is_empty());
    let both = vec![STATION.into(), CELL.into()];
    world.input(0, Input::Ways(Ways([(GATEWAY.into(), both)].into())));
    world.run(Duration::from_secs(1));
    assert!(
        peer_addresses(&world, 1).is_empty(),
        "it may move there now"
    );
    world.run(Duration::from_secs(2));
    assert_eq!(peer_addresses(&world, 1), [IpAddr::from(CELL)]);
    let sent = world.network.sent;
    world.run(Duration::from_secs(3));
    assert_eq!(world.network.sent, sent, "told once");
    assert_at(&world, STATION);
}

#[test]
fn a_gateway_that_loses_its_address_is_followed() {
    let mut world = two_homed(193, |_, _| {});
    world.network.dead.push(GATEWAY.into());
    world.input(1, Input::Addresses([OTHER.into()].into()));
    world.run(Duration::from_secs(1));
    for (end, path) in [0, 1].map(|end| (end, world.ends[end].path())) {
        let gateway = [path.remote, path.local][end];
        assert_eq!(gateway.ip(), IpAddr::from(OTHER));
    }
    world.packet();
    world.run(Duration::from_secs(30));
    assert_eq!(world.ends[0].seen.opened.len(), 1);
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
    assert!(world.ends[0].seen.limits.is_empty(), "proven");
}

#[test]
fn a_silent_path_is_left_for_one_that_answers() {
    let mut world = two_homed(194, |connection, is_station| {
        if is_station {
            connection.dpd_delay = Some(Duration::from_secs(5));
        }
    });
    world.network.dead.push(GATEWAY.into());
    world.run(Duration::from_secs(9));
    assert_eq!(world.ends[0].path().remote.ip(), IpAddr::from(OTHER));
    assert_eq!(world.ends[1].path().local.ip(), IpAddr::from(OTHER));
    // The same routes do not lead it back.
    world.has_address(STATION.into());
    world.packet();
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[0].path().remote.ip(), IpAddr::from(OTHER));
    assert_eq!(world.ends[0].seen.opened.len(), 1);
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn the_address_in_use_is_not_listed_among_those_that_are_not() {
    let mut world = two_homed(179, |connection, is_station| {
        if is_station {
            connection.remote_addrs = [GATEWAY, OTHER].map(|it| (it, IKE_PORT).into()).to_vec();
            connection.dpd_delay = Some(Duration::from_secs(5));
        }
    });
    let listed = |world: &World, address: [u8; 4], why: &str| {
        let status = world.ends[0].node.status(world.now);
        let line = format!("{}:{IKE_PORT}: {why}", IpAddr::from(address));
        assert_eq!(status.connections[0].passed_over, [line]);
    };
    // The first message was lost.
    assert_eq!(world.ends[0].path().remote.ip(), IpAddr::from(OTHER));
    listed(&world, GATEWAY, "no answer");
    for (silent, other) in [(OTHER, GATEWAY), (GATEWAY, OTHER)] {
        world.network.dead = vec![silent.into()];
        world.run(Duration::from_secs(9));
        assert_eq!(world.ends[0].path().remote.ip(), IpAddr::from(other));
        listed(&world, silent, "left");
    }
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn a_path_that_the_gateway_refuses_is_left_again() {
    let mut world = up(195, |connection, is_station| match is_station {
        true => {
            connection.remote_addrs = [GATEWAY, OTHER].map(|it| (it, IKE_PORT).into()).to_vec();
        }
        false => connection.local_addrs = vec![GATEWAY.into()],
    });
    let there =
        |to: [u8; 4], other: [u8; 4]| [(to.into(), Some(WIFI.into())), (other.into(), None)];
    ways(&mut world, there(OTHER, GATEWAY));
    world.run(Duration::from_secs(1));
    let said = |event: &Event| match event {
        Event::PeerComplains { complaint, .. } => complaint.starts_with("UNACCEPTABLE_ADDRESSES"),
        _ => false,
    };
    assert_eq!(world.ends[0].count(said), 1);
    assert_eq!(world.drops(1, DropReason::UnusableAddress), 1);
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(STATION));
    ways(&mut world, there(GATEWAY, OTHER));
    world.run(Duration::from_secs(10));
    world.assert_up();
    assert_at(&world, WIFI);
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn without_mobike_a_move_is_a_new_session_with_the_same_inner_address() {
    for (index, [ours, theirs]) in [[true, false], [false, true]].into_iter().enumerate() {
        let mut world = up(196 + index as u8, move |connection, is_station| {
            connection.mobike = if is_station { ours } else { theirs };
            if is_station {
                connection.dpd_delay = Some(Duration::from_secs(5));
            }
        });
        let inner = world.ends[0].inner();
        world.packet();
        world.run(Duration::from_secs(1));
        moves_for_good(&mut world, WIFI);
        // Two exchanges, and no wait.
        let delay = world.network.delay;
        world.run(5 * delay);
        assert_eq!(established(&world, 0), 2);
        assert_eq!(world.ends[0].inner(), inner);
        assert_at(&world, WIFI);
        world.packet();
        world.run(Duration::from_secs(60));
        assert_eq!(world.ends[0].seen.opened.len(), 2);
        world.assert_up();
        assert!(world.ends.iter().all(|end| end.node.sessions.len() == 1));
        assert_eq!(established(&world, 0), 2);
    }
}

#[test]
fn a_rebinding_is_noticed_by_the_next_packet_and_by_the_next_probe() {
    let mut world = World::new(198, |connection, is_station| {
        speaks(connection, Version::V2);
        connection.dpd_delay = is_station.then_some(Duration::from_secs(10));
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(is_mobike(&world), [true; 2]);
    world.rebind();
    world.packet();
    let delay = world.network.delay;
    world.run(delay);
    assert_eq!(
        world.ends[1].path().remote.port(),
        world.nat_port(NAT_T_PORT)
    );
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[0].seen.opened.len(), 1);
    // Another address too, and nothing but a probe.
    world.rebind();
    world.nat().outside = [192, 0, 2, 177].into();
    world.run(Duration::from_secs(11));
    let path = world.ends[1].path();
    assert_eq!(path.remote.ip(), IpAddr::from([192, 0, 2, 177]));
    assert_eq!(path.remote.port(), world.nat_port(NAT_T_PORT));
    assert_eq!(limit(&world), None);
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn esp_without_udp_moves_too_and_goes_into_udp_behind_a_nat() {
    let mut world = up(199, |connection, _| connection.encapsulation = ThroughNat);
    let is_udp = |world: &World, end: usize| {
        let status = world.ends[end].node.status(world.now);
        status.connections[0].sessions[0].children[0].is_udp_encapsulated
    };
    assert!(!is_udp(&world, 0) && !is_udp(&world, 1));
    moves_for_good(&mut world, WIFI);
    world.run(Duration::from_secs(5));
    assert_at(&world, WIFI);
    assert!(!is_udp(&world, 0) && !is_udp(&world, 1));
    world.packet();
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[0].seen.opened.len(), 1);
    world.network.nat = Some(Nat::new(CELL.into(), NAT.into()));
    world.has_address(CELL.into());
    world.run(Duration::from_secs(5));
    assert!(is_udp(&world, 0) && is_udp(&world, 1));
    assert_eq!(
        world.ends[0].node.status(world.now).connections[0].sessions[0].nat,
        (true, false)
    );
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(NAT));
    world.packet();
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[0].seen.opened.len(), 2);
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn what_was_in_flight_does_not_pull_the_gateway_back() {
    let mut world = up(200, |_, _| {});
    // A packet leaves the old link just before the update leaves the new one, and is slower.
    world.packet();
    let mut late = world.network.wire.pop().expect("a packet");
    moves_for_good(&mut world, WIFI);
    late.at = world.now + 3 * world.network.delay;
    world.network.wire.push(late);
    world.run(Duration::from_secs(1));
    assert_at(&world, WIFI);
    let moved = |event: &Event| matches!(event, Event::PathMoved { .. });
    assert_eq!(world.ends[1].count(moved), 1);
    assert_eq!(world.ends[0].seen.opened.len(), 1);
}

/// Both links of the station are behind one NAT.
#[test]
fn what_was_in_flight_from_another_port_of_its_nat_does_not_pull_the_gateway_back() {
    let mut world = World::new(221, |connection, _| speaks(connection, Version::V2));
    world.run(Duration::from_secs(2));
    world.assert_up();
    world.packet();
    let mut late = world.network.wire.pop().expect("a packet");
    world.rebind();
    world.nat().inside = WIFI.into();
    world.has_address(WIFI.into());
    late.at = world.now + 3 * world.network.delay;
    world.network.wire.push(late);
    world.run(Duration::from_secs(1));
    let port = world.nat_port(NAT_T_PORT);
    assert_eq!(world.ends[1].path().remote, (NAT, port).into());
    let paths: Vec<Path> = world.ends[1].seen.paths.values().copied().collect();
    assert!(paths.iter().all(|it| it.remote.port() == port), "{paths:?}");
    let moved = |event: &Event| matches!(event, Event::PathMoved { .. });
    assert_eq!(world.ends[1].count(moved), 1);
}

/// An on-path attacker gives the update the source of somebody else.
#[test]
fn a_forged_source_gets_three_times_what_came_from_there_and_the_station_is_found_again() {
    let mut world = up(201, |connection, is_station| {
        if is_station {
            connection.dpd_delay = Some(Duration::from_secs(5));
        }
    });
    world.network.dead.push(VICTIM.into());
    moves_for_good(&mut world, WIFI);
    let update = world.network.wire.last_mut().expect("the update");
    update.path.remote.set_ip(VICTIM.into());
    let came = update.octets.len() as u64;
    world.run(Duration::from_secs(2));
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(VICTIM));
    let sent = sent_to(&world, VICTIM) + limit(&world).expect("a limit");
    assert!(sent <= 3 * came, "{sent} for {came}");
    world.run(Duration::from_secs(20));
    assert_at(&world, WIFI);
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
    assert!(sent_to(&world, VICTIM) <= 3 * came);
}

#[test]
fn the_end_of_a_session_is_not_told_to_a_forged_source_beyond_that() {
    let mut world = up(220, |_, _| {});
    world.network.dead.push(VICTIM.into());
    moves_for_good(&mut world, WIFI);
    let update = world.network.wire.last_mut().expect("the update");
    update.path.remote.set_ip(VICTIM.into());
    let came = update.octets.len() as u64;
    let delay = world.network.delay;
    world.run(delay);
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(VICTIM));
    world.command(1, Command::Stop);
    world.run(Duration::from_secs(5));
    let sent = sent_to(&world, VICTIM);
    assert!(sent <= 3 * came, "{sent} for {came}");
}

/// A packet left the old address over the new network, and the NAT gave it a port of its own. The
/// update comes from another one, and counts once.
#[test]
fn an_update_takes_what_its_octets_allow_to_its_own_port() {
    let mut world = up(219, |_, _| {});
    world.network.dead.push(VICTIM.into());
    let mut came = 100;
    packet_from(&mut world, VICTIM, came);
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(VICTIM));
    moves_for_good(&mut world, WIFI);
    let update = world.network.wire.last_mut().expect("the update");
    update.path.remote = (VICTIM, 4_600).into();
    came += update.octets.len() as u64;
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[1].path().remote, (VICTIM, 4_600).into());
    let sent = sent_to(&world, VICTIM) + limit(&world).expect("a limit");
    assert!(sent <= 3 * came, "{sent} for {came}");
}

/// Its update seems to come from behind a NAT, so packets go into UDP; before, they did not.
#[test]
fn a_station_that_fell_silent_is_looked_for_at_its_old_address_whatever_the_encapsulation() {
    let mut world = up(203, |connection, _| connection.encapsulation = ThroughNat);
    world.network.dead.push(VICTIM.into());
    moves_for_good(&mut world, WIFI);
    let update = world.network.wire.last_mut().expect("the update");
    update.path.remote.set_ip(VICTIM.into());
    world.run(Duration::from_millis(200));
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(VICTIM));
    world.network.dead.push(WIFI.into());
    let wakes = world.wakes;
    world.run(Duration::from_secs(20));
    assert!(world.wakes - wakes < 100, "{} wakes", world.wakes - wakes);
    assert_eq!(world.ends[1].path().remote.ip(), IpAddr::from(STATION));
}

#[test]
fn a_victim_of_a_forged_packet_gets_three_times_its_size_whatever_is_renewed() {
    for is_ike in [false, true] {
        let mut world = up(202, |_, _| {});
        world.network.dead.push(VICTIM.into());
        let name = "road".to_owned();
        world.command(
            1,
            match is_ike {
                true => Command::RekeyIke(name),
                false => Command::RekeyChildren(name),
            },
        );
        // Its request is open, and would be repeated over the new path.
        world.network.wire.clear();
        let came = 100;
        packet_from(&mut world, VICTIM, came);
        world.run(Duration::from_millis(2_900));
        let sent = sent_to(&world, VICTIM) + limit(&world).expect("a limit");
        assert!(sent <= 3 * came, "{sent}");
        world.run(Duration::from_secs(30));
        assert_at(&world, STATION);
        world.assert_up();
    }
}

#[test]
fn an_answer_to_a_probe_that_was_sent_elsewhere_proves_nothing() {
    let mut world = up(203, |connection, is_station| {
        connection.dpd_delay = Some(Duration::from_secs(if is_station { 300 } else { 10 }));
    });
    world.network.dead.push(VICTIM.into());
    let before = world.network.sent;
    while world.network.sent == before {
        world.run(Duration::from_millis(1));
    }
    // The station has the gateway's probe, and answers it as from the victim.
    let delay = world.network.delay;
    world.run(delay);
    let mut answer = world.network.wire.pop().expect("the answer");
    let path = packet_from(&mut world, VICTIM, 100);
    answer.path.remote = path.remote;
    answer.at = world.now;
    world.network.wire.push(answer);
    world.run(Duration::from_millis(100));
    assert!(limit(&world).is_some(), "the limit stands");
    world.run(Duration::from_secs(60));
    assert_at(&world, STATION);
    world.assert_up();
}

#[test]
fn ike_messages_of_a_station_move_nothing_unless_they_say_so() {
    let mut world = up(204, |_, _| {});
    world.command(0, Command::RekeyChildren("road".into()));
    let request = world.network.wire.last_mut().expect("a request");
    request.path.remote.set_ip(CELL.into());
    world.run(Duration::from_secs(5));
    assert_at(&world, STATION);
    assert!(!world.ends[1].told(|event| matches!(event, Event::PathMoved { .. })));
    world.assert_up();
}

#[test]
fn an_update_that_comes_again_from_elsewhere_moves_nobody() {
    let mut world = up(205, |_, _| {});
    moves_for_good(&mut world, WIFI);
    let update = world
        .network
        .wire
        .last()
        .expect("the update")
        .octets
        .clone();
    world.run(Duration::from_secs(5));
    for _ in 0..20 {
        let mut path = world.ends[1].path();
        path.remote = ([203, 0, 113, 7], 4_500).into();
        world.deliver(1, path, &update);
        assert_at(&world, WIFI);
    }
    assert!(world.drops(1, DropReason::RetransmittedMessage) >= 20);
}

/// Moves, rebindings, renewals and losses, then calm.
#[test]
fn in_a_storm_of_moves_the_ends_find_each_other_again() {
    for seed in 206..214 {
        let mut world = up(seed, |connection, is_station| {
            both_families(connection, is_station);
            connection.dpd_delay = Some(Duration::from_secs(10));
        });
        let mut random = Seed::new([seed; 32]).stream("storm of moves", 0);
        world.network.loss = 0.2;
        world.network.jitter = Duration::from_millis(50);
        let six_only = [(GATEWAY.into(), None), (six(GATEWAY6), Some(six(STATION6)))];
        for _ in 0..60 {
            match random.u32() % 6 {
                0 => ways(&mut world, six_only),
                1 => world.command(0, Command::RekeyIke("road".into())),
                2 => world.command(1, Command::RekeyChildren("road".into())),
                number => {
                    let own = [STATION, WIFI, CELL][number as usize - 3];
                    ways(
                        &mut world,
                        [(GATEWAY.into(), Some(own.into())), (six(GATEWAY6), None)],
                    );
                }
            }
            world.packet();
            world.run(Duration::from_millis(u64::from(random.u32() % 1_500)));
        }
        world.network.loss = 0.0;
        world.network.jitter = Duration::ZERO;
        ways(
            &mut world,
            [(GATEWAY.into(), Some(CELL.into())), (six(GATEWAY6), None)],
        );
        world.run(Duration::from_secs(150));
        assert_at(&world, CELL);
        let opened = world.ends[0].seen.opened.len();
        world.packet();
        world.run(Duration::from_secs(1));
        assert_eq!(world.ends[0].seen.opened.len(), opened + 1, "seed {seed}");
        assert_eq!(limit(&world), None);
    }
}
