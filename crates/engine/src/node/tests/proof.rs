//! Peers that move or only seem to move: no other host is flooded.

use super::ikev2::{has_certificate, speaks};
use super::*;
use crate::config::Version;
use crate::ike::Notification as Said;
use crate::ike::Outbox;
use crate::ikev1::message::Message;
use crate::ikev1::tests::pair::JANUARY_2027;
use crate::node::proof::FOR_QUESTIONS;
use crate::sa::Via;

const VICTIM: [u8; 4] = [203, 0, 113, 66];
const ELSEWHERE: [u8; 4] = [192, 0, 2, 177];
/// Octets of the authenticated packet from elsewhere.
const BYTES: u64 = 100;
/// What it permits for packets, besides probes.
const FOR_PACKETS: u64 = 3 * BYTES - FOR_QUESTIONS;

fn up(seed: u8) -> World {
    let mut world = World::new(seed, |connection, is_station| {
        connection.dpd_delay = Some(Duration::from_secs(if is_station { 300 } else { 200 }));
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    world
}

/// An authentic packet of the station's comes to the gateway from there.
fn packet_from(world: &mut World, address: [u8; 4]) -> Path {
    let mut path = world.ends[1].path();
    path.remote.set_ip(address.into());
    let child = *world.ends[1].seen.inbound.values().next().expect("a child");
    let moved = Notice::PathMoved {
        child,
        path,
        bytes: BYTES,
    };
    world.notice(1, moved);
    path
}

fn limit(world: &World) -> Option<u64> {
    world.ends[1]
        .seen
        .limits
        .values()
        .copied()
        .reduce(|a, b| a + b)
}

fn sends_to(world: &World, address: [u8; 4]) -> bool {
    let paths = world.ends[1].seen.paths.values();
    paths.clone().count() > 0
        && paths
            .clone()
            .all(|path| path.remote.ip() == IpAddr::from(address))
}

/// The numbers of the gateway's probes after this many datagrams.
fn questions(world: &World, since: usize) -> Vec<u32> {
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let sa = session.ike.sa().expect("established");
    let read = |octets: &Vec<u8>| {
        let message = Message::parse(octets.strip_prefix(&[0; 4])?).ok()?;
        let said = informational::read(sa, &message, &mut Outbox::default());
        match said.ok()?[..] {
            [Said::AreYouThere(number)] => Some(number),
            _ => None,
        }
    };
    world.network.log[since..].iter().filter_map(read).collect()
}

/// The station's own answer, as it could be sent from any address.
fn answer(world: &World, number: u32, id: u32) -> Vec<u8> {
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let sa = session.ike.sa().expect("established");
    let life = informational::i_am_here(sa, number);
    let mut out = Outbox::default();
    informational::send(sa, vec![life], id, &mut out);
    super::super::session::with_marker(session.path(), out.messages[0].message.clone())
}

#[test]
fn a_station_at_a_new_address_is_limited_for_one_round_trip() {
    let mut world = up(80);
    world.nat().outside = ELSEWHERE.into();
    packet_from(&mut world, ELSEWHERE);
    assert_eq!(limit(&world), Some(FOR_PACKETS));
    assert!(sends_to(&world, ELSEWHERE));
    // More octets from there permit more, after the sent probe is accounted for.
    let asked = world.network.log.last().expect("a question").len() as u64 - 4;
    packet_from(&mut world, ELSEWHERE);
    assert_eq!(limit(&world), Some(FOR_PACKETS + 3 * BYTES - asked));
    let round_trip = 2 * world.network.delay;
    world.run(round_trip);
    assert_eq!(limit(&world), None);
    assert!(sends_to(&world, ELSEWHERE));
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_eq!(
        world.ends[1].count(|it| matches!(it, Event::PathMoved { .. })),
        1
    );
    let proven = |it: &Event| {
        matches!(it, Event::PathProven { path, .. }
        if path.remote.ip() == IpAddr::from(ELSEWHERE))
    };
    assert_eq!(world.ends[1].count(proven), 1);
}

#[test]
fn the_limit_stands_before_the_move_and_what_it_allows_comes_after_it() {
    let mut world = up(79);
    world.ends[1].seen.trail.clear();
    packet_from(&mut world, VICTIM);
    packet_from(&mut world, NAT);
    let steps = [
        Act::Allow,
        Act::Move(Direction::Outbound),
        Act::Move(Direction::Inbound),
        Act::Allow,
        Act::Message(Step::Informational),
        Act::Move(Direction::Outbound),
        Act::Move(Direction::Inbound),
        Act::Proven,
    ];
    assert_eq!(world.ends[1].seen.trail, steps);
}

#[test]
fn a_question_that_is_lost_is_asked_again_soon() {
    let mut world = up(81);
    world.nat().outside = ELSEWHERE.into();
    world.network.loses = Some(world.network.sent + 1);
    packet_from(&mut world, ELSEWHERE);
    world.run(Duration::from_millis(600));
    assert_eq!(limit(&world), None);
    world.assert_up();
}

#[test]
fn a_station_that_moves_by_ike_is_limited_until_it_answers() {
    // The gateway asks by no clock of its own.
    let mut world = World::new(82, |connection, is_station| {
        connection.dpd_delay = is_station.then_some(Duration::from_secs(10));
    });
    world.run(Duration::from_secs(2));
    world.nat().outside = ELSEWHERE.into();
    for _ in 0..20_000 {
        world.run(Duration::from_millis(1));
        if sends_to(&world, ELSEWHERE) {
            break;
        }
    }
    assert_eq!(limit(&world), Some(0));
    let round_trip = 2 * world.network.delay;
    world.run(round_trip);
    assert_eq!(limit(&world), None);
    let wakes = world.wakes;
    world.run(Duration::from_secs(60));
    assert!(world.wakes - wakes < 30, "{}", world.wakes - wakes);
    world.assert_up();
}

#[test]
fn a_victim_gets_three_times_what_came_from_it_and_the_station_is_where_it_was() {
    let mut world = up(83);
    let before = world.network.sent;
    packet_from(&mut world, VICTIM);
    world.run(Duration::from_millis(2_900));
    assert!(sends_to(&world, VICTIM));
    let home = |world: &World| world.ends[1].node.status(world.now).connections[0].sessions[0].home;
    assert_eq!(home(&world).remote.ip(), IpAddr::from(NAT));
    let asked: usize = world.network.log[before..].iter().map(Vec::len).sum();
    let packets = limit(&world).expect("a limit");
    assert_eq!(world.network.sent - before, 2);
    assert!(asked as u64 + packets <= 3 * BYTES, "{asked} + {packets}");
    world.run(Duration::from_millis(200));
    assert!(sends_to(&world, NAT));
    assert_eq!(limit(&world), None);
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert!(!world.ends[1].told(|it| matches!(it, Event::IkeClosed { .. })));
}

#[test]
fn a_packet_from_where_it_was_proven_ends_the_doubt_at_once() {
    let mut world = up(84);
    packet_from(&mut world, VICTIM);
    packet_from(&mut world, NAT);
    assert_eq!(limit(&world), None);
    assert!(sends_to(&world, NAT));
    // Moving from one victim to the next does not end the doubt.
    packet_from(&mut world, VICTIM);
    packet_from(&mut world, [203, 0, 113, 67]);
    assert_eq!(limit(&world), Some(2 * FOR_PACKETS));
    packet_from(&mut world, NAT);
    assert_eq!(limit(&world), None);
}

#[test]
fn a_station_that_cannot_read_the_question_cannot_answer_it() {
    let mut world = up(85);
    world.run(Duration::from_secs(210));
    let known = *questions(&world, 0).last().expect("asked by its clock");
    let before = world.network.sent;
    let path = packet_from(&mut world, VICTIM);
    for guess in 1..200 {
        let forged = answer(&world, known.wrapping_add(guess), 0x7000 + guess);
        world.deliver(1, path, &forged);
        assert!(limit(&world).is_some(), "{guess}");
    }
    // After so many wrong answers the right one does not help either: another probe is due.
    let asked = questions(&world, before);
    let late = answer(&world, asked[0], 0x6001);
    world.deliver(1, path, &late);
    assert!(limit(&world).is_some());
    world.run(Duration::from_millis(550));
    let again = *questions(&world, before).last().expect("another");
    assert_ne!(again, asked[0].wrapping_add(1));
    let right = answer(&world, again, 0x6002);
    world.deliver(1, path, &right);
    assert_eq!(limit(&world), None);
}

#[test]
fn an_answer_from_elsewhere_proves_nothing() {
    let mut world = up(86);
    let before = world.network.sent;
    let mut path = packet_from(&mut world, VICTIM);
    let asked = questions(&world, before)[0];
    path.remote.set_ip([203, 0, 113, 67].into());
    let right = answer(&world, asked, 0x6003);
    world.deliver(1, path, &right);
    assert!(limit(&world).is_some());
}

#[test]
fn another_port_of_the_same_address_is_not_limited() {
    let mut world = up(87);
    let mut path = world.ends[1].path();
    path.remote.set_port(7_777);
    let child = *world.ends[1].seen.inbound.values().next().expect("a child");
    let bytes = BYTES;
    world.notice(1, Notice::PathMoved { child, path, bytes });
    assert_eq!(world.ends[1].path(), path);
    assert_eq!(limit(&world), None);
}

#[test]
fn a_peer_without_dead_peer_detection_is_asked_by_a_quick_mode() {
    for is_there in [true, false] {
        let mut world = up(88);
        for session in world.ends[1].node.sessions.values_mut() {
            session.ike.keys().peer.dpd = false;
        }
        let address = if is_there { ELSEWHERE } else { VICTIM };
        world.nat().outside = if is_there {
            ELSEWHERE.into()
        } else {
            NAT.into()
        };
        packet_from(&mut world, address);
        assert_eq!(limit(&world), Some(FOR_PACKETS));
        world.run(Duration::from_millis(500));
        assert_eq!(limit(&world).is_none(), is_there);
        world.run(Duration::from_secs(30));
        assert_eq!(limit(&world), None);
        assert!(sends_to(&world, if is_there { ELSEWHERE } else { NAT }));
    }
}

#[test]
fn a_renewed_ike_sa_proves_the_address() {
    let mut world = up(89);
    world.nat().outside = ELSEWHERE.into();
    // The gateway's questions are lost, the station's renewal is not.
    world.network.loses = Some(world.network.sent + 1);
    packet_from(&mut world, ELSEWHERE);
    assert!(limit(&world).is_some());
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_secs(10));
    assert_eq!(limit(&world), None);
    world.assert_up();
}

/// Runs a handshake. Each datagram for the gateway but the first comes from the victim's address,
/// too. Returns them all, and how many came from there.
fn copied_handshake(world: &mut World) -> (Vec<(Path, Vec<u8>)>, u64) {
    let (mut sent, mut copies) = (Vec::new(), 0);
    while world.now < Instant(0) + Duration::from_secs(2) {
        let wire = world.network.wire.iter().filter(|it| it.to == 1);
        let all: Vec<_> = wire.map(|it| (it.path, it.octets.clone())).collect();
        for (mut path, octets) in all {
            if sent.contains(&(path, octets.clone())) {
                continue;
            }
            sent.push((path, octets.clone()));
            let marker = if path.via == Via::UdpWithMarker { 4 } else { 0 };
            let is_first = octets[marker + 8..marker + 16] == [0; 8];
            if !is_first && world.ends[1].node.established() == 0 {
                path.remote.set_ip(VICTIM.into());
                world.deliver(1, path, &octets);
                copies += 1;
            }
        }
        assert!(world.network.unheard.is_empty());
        world.run(Duration::from_millis(1));
    }
    (sent, copies)
}

/// Whoever has seen a datagram, and the peer itself, can send it with another host's address.
#[test]
fn another_host_gets_nothing_of_a_handshake_and_little_of_what_comes_later() {
    for (seed, version) in [(230, Version::V1), (231, Version::V2)] {
        let mut world = World::new(seed, move |connection, is_station| {
            speaks(connection, version);
            if version == Version::V2 {
                has_certificate(connection, is_station);
            }
        });
        for end in [0, 1] {
            world.input(end, Input::Calendar(JANUARY_2027));
        }
        world.network.dead = vec![VICTIM.into()];
        let (sent, copies) = copied_handshake(&mut world);
        world.assert_up();
        assert!(copies > 0);
        assert_eq!(world.drops(1, DropReason::UnprovenPath), copies);
        // Answers are kept for repetitions.
        for (mut path, octets) in sent {
            path.remote.set_ip(VICTIM.into());
            world.network.unheard.clear();
            world.deliver(1, path, &octets);
            let answers = world.network.unheard.iter().map(|(_, it)| it.len());
            assert!(answers.sum::<usize>() <= 3 * octets.len(), "{version:?}");
        }
        world.run(Duration::from_secs(5));
        world.assert_up();
    }
}
