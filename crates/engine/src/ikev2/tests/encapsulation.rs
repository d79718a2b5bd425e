//! ESP in UDP without a NAT: neither end fakes one for that (RFC 7296 §2.23), and who must have it
//! gets no child from a peer without NAT traversal.

use std::sync::Arc;

use crypto::hash::Hash;
use wire::ikev2::{Message as WireMessage, Notify, NotifyType, Payload};

use super::post_quantum::{rewrite, without};
use super::world::{Flight, Setup, Who, World};
use crate::config::Encapsulation::{self, Always, Auto, ThroughNat};
use crate::ike::nat::hash_of;
use crate::ikev2::message::Message;
use Who::{Gateway, Station};

const DETECTION: [NotifyType; 2] = [
    NotifyType::NatDetectionSourceIp,
    NotifyType::NatDetectionDestinationIp,
];

/// The station has begun. The settings are of the station and of the gateway.
fn begun(settings: [Encapsulation; 2]) -> World {
    let setup = Setup::default();
    let connection = |is_station, encapsulation| {
        let mut connection = setup.connection(is_station);
        connection.encapsulation = encapsulation;
        Arc::new(connection)
    };
    let mut world = setup.world();
    world.gateway.connection = connection(false, settings[1]);
    world.begun_by(connection(true, settings[0]))
}

/// Asserts that a first message has the hashes of its sender's and its receiver's true ends. It has
/// passed no NAT.
fn assert_true(flight: &Flight) {
    let spis = Message::parse(&flight.octets).expect("a message").spis();
    let read = WireMessage::parse(&flight.octets).expect("a message");
    let path = flight.path.reversed();
    for (kind, end) in DETECTION.into_iter().zip([path.local, path.remote]) {
        let said: Vec<&Notify> = read
            .clear
            .iter()
            .filter_map(|it| match &it.payload {
                Payload::Notify(notify) if notify.kind == kind => Some(notify),
                _ => None,
            })
            .collect();
        let [said] = said[..] else {
            panic!("one hash of a kind: {said:?}");
        };
        assert_eq!(said.value, hash_of(Hash::Sha1, spis, end), "{kind:?}");
    }
}

#[test]
fn the_hashes_of_nat_detection_are_true_whatever_is_set() {
    for setting in [Auto, Always, ThroughNat] {
        let mut world = begun([setting; 2]);
        for to in [Gateway, Station] {
            let first = world.hold(to);
            assert_true(&first[0]);
            world.release(to, first);
            assert!(world.deliver(to));
        }
        world.run();
        world.assert_agreed(1);
        let in_udp = setting != ThroughNat;
        for end in [&world.station, &world.gateway] {
            let session = end.session.as_ref().expect("a session");
            assert!(!session.nat().is_between(), "{setting:?}");
            let is_so = end.pairs[0].negotiated.is_udp_encapsulated;
            assert_eq!(is_so, in_udp, "{setting:?}");
        }
    }
}

/// The gateway has no NAT traversal. AUTH covers what it says in place of it.
fn without_traversal(settings: [Encapsulation; 2]) -> World {
    let mut world = begun(settings);
    assert!(world.deliver(Gateway));
    let mut first = world.hold(Station);
    rewrite(&mut first[0], |chain| {
        DETECTION.into_iter().for_each(|kind| without(chain, kind));
    });
    let session = world.gateway.session.as_mut().expect("a session");
    session.own_first().clone_from(&first[0].octets);
    world.release(Station, first);
    world.run();
    world
}

#[test]
fn without_nat_traversal_there_is_no_child_where_it_must_be_in_udp() {
    let mut world = without_traversal([Auto, Auto]);
    world.assert_agreed(1);
    assert!(!world.station.pairs[0].negotiated.is_udp_encapsulated);
    for settings in [[Always, Auto], [Auto, Always]] {
        let mut world = without_traversal(settings);
        world.assert_agreed(0);
        let facts = world.station.facts.join("; ");
        let why = match settings[0] {
            Always => "ESP must be in UDP, and the path to the peer is not",
            _ => "NO_PROPOSAL_CHOSEN",
        };
        assert!(facts.contains(why), "{settings:?}: {facts}");
    }
}
