//! The size of a message is what both ends and the network say: each datagram with its marker, each
//! fragment with its headers.

use super::ikev2::{has_certificate, speaks};
use super::*;
use crate::config::Version;
use crate::ikev1::tests::pair::JANUARY_2027;

/// Of a message, as events tell it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Told {
    step: Step,
    bytes: usize,
    datagrams: usize,
}

/// Runs until the tunnel is up. Without `has_nat` all messages are without a marker.
fn up(seed: u8, version: Version, has_certificates: bool, change: fn(&mut World)) -> World {
    let mut world = World::new(seed, move |connection, is_station| {
        match version {
            Version::V2 => speaks(connection, version),
            _ => connection.is_aggressive = false,
        }
        connection.mobike = false;
        if has_certificates {
            has_certificate(connection, is_station);
        }
    });
    for end in [0, 1] {
        world.input(end, Input::Calendar(JANUARY_2027));
    }
    change(&mut world);
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

fn without_nat(world: &mut World) {
    world.network.nat = None;
    world.network.wire.clear();
    world.network.log.clear();
    world
        .ends
        .iter_mut()
        .for_each(|end| end.seen.events.clear());
}

fn told(world: &World, end: usize, is_of_sent: bool) -> Vec<Told> {
    let events = world.ends[end].seen.events.iter();
    let messages = events.filter_map(|event| match *event {
        Event::Message {
            step,
            is_sent,
            bytes,
            datagrams,
            ..
        } if is_sent == is_of_sent => Some(Told {
            step,
            bytes,
            datagrams,
        }),
        _ => None,
    });
    messages.collect()
}

#[test]
fn both_ends_and_the_network_tell_the_same_size_of_a_message() {
    let mut seed = 0;
    for version in [Version::V1, Version::V2] {
        for has_certificates in [false, true] {
            for change in [without_nat, |_: &mut World| {}] {
                seed += 1;
                let world = up(seed, version, has_certificates, change);
                let sent = [0, 1].map(|end| told(&world, end, true));
                let heard = [1, 0].map(|end| told(&world, end, false));
                assert_eq!(sent, heard, "{version:?}");
                let all = || sent.iter().flatten();
                let log = &world.network.log;
                let bytes: usize = log.iter().map(Vec::len).sum();
                assert_eq!(all().map(|it| it.bytes).sum::<usize>(), bytes);
                let datagrams: usize = all().map(|it| it.datagrams).sum();
                assert_eq!(datagrams, log.len());
                // The cases are those that they claim to be.
                assert_eq!(all().any(|it| it.datagrams > 1), has_certificates);
                let has_marker = log.iter().any(|it| it.starts_with(&[0; 4]));
                assert_eq!(has_marker, world.network.nat.is_some());
            }
        }
    }
}

#[test]
fn a_marker_is_four_octets_of_each_datagram() {
    for (seed, version) in [(20, Version::V1), (21, Version::V2)] {
        let plain = up(seed, version, true, without_nat);
        let marked = up(seed, version, true, |_| {});
        let (plain, marked) = (told(&plain, 1, false), told(&marked, 1, false));
        let last = |all: &[Told], step| all.iter().rfind(|it| it.step == step).copied();
        let auth = match version {
            Version::V2 => Step::Auth(1),
            _ => Step::Main(5),
        };
        let (plain, marked) = (last(&plain, auth).unwrap(), last(&marked, auth).unwrap());
        assert!(plain.datagrams > 1);
        assert_eq!(marked.datagrams, plain.datagrams);
        assert_eq!(marked.bytes, plain.bytes + 4 * plain.datagrams);
    }
}

#[test]
fn a_repetition_is_told_by_its_sender_and_only_counted_by_its_receiver() {
    for (seed, version) in [(30, Version::V1), (31, Version::V2)] {
        // Every datagram arrives twice, and fragments overtake each other.
        let world = up(seed, version, true, |world| {
            world.network.jitter = Duration::from_millis(1);
        });
        assert!(told(&world, 1, false).iter().any(|it| it.datagrams > 1));
        for end in [0, 1] {
            // What answers a repetition is sent again, and told again.
            let mut sent = told(&world, end, true);
            let all = sent.len();
            sent.dedup();
            assert_eq!(all > sent.len(), end == 1 || version == Version::V1);
            assert_eq!(told(&world, 1 - end, false), sent, "{version:?}");
            assert!(world.drops(end, DropReason::RetransmittedMessage) > 0);
        }
    }
}

#[test]
fn a_message_that_was_lost_once_is_told_twice_by_its_sender() {
    for (seed, version) in [(40, Version::V1), (41, Version::V2)] {
        let world = up(seed, version, true, |world| {
            without_nat(world);
            world.command(0, Command::Down("road".into()));
            world.network.loses = Some(world.network.sent + 1);
            world.command(0, Command::Up("road".into()));
        });
        let (sent, heard) = (told(&world, 0, true), told(&world, 1, false));
        assert_eq!(sent[0], sent[1], "{version:?}");
        assert_eq!(sent[1..], heard, "{version:?}");
    }
}
