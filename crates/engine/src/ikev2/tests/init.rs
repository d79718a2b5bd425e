//! IKE_SA_INIT: suites, methods, cookies, NATs, and what an initiator makes of refusals.

use std::sync::Arc;

use super::world::{Setup, Who, World};
use crate::counters::DropReason;
use crate::ike::{Fault, Outbox};
use crate::ikev2::Gate;
use crate::ikev2::cookie::Cookies;
use crate::ikev2::message::Message;
use crate::ikev2::session::Session;
use crate::sa::Via;

#[test]
fn two_exchanges_make_an_ike_sa_and_a_child() {
    let mut world = Setup::default().world();
    world.run();
    world.assert_agreed(1);
    // RFC 7296 §1.2.
    assert_eq!(
        world.station.arrows,
        [
            "init 1: SA KE No N(NAT_DETECTION_SOURCE_IP) N(NAT_DETECTION_DESTINATION_IP) \
             N(IKEV2_FRAGMENTATION_SUPPORTED) N(SIGNATURE_HASH_ALGORITHMS) \
             N(IKE_SA_INIT_FULL_TRANSCRIPT_AUTH)", // -->
            "auth 1: IDi IDr AUTH N(INITIAL_CONTACT) SA TSi TSr", // -->
        ]
    );
    assert_eq!(
        world.gateway.arrows,
        [
            "init 2: SA KE No N(NAT_DETECTION_SOURCE_IP) N(NAT_DETECTION_DESTINATION_IP) \
             N(IKEV2_FRAGMENTATION_SUPPORTED) N(SIGNATURE_HASH_ALGORITHMS) \
             N(IKE_SA_INIT_FULL_TRANSCRIPT_AUTH) N(CHILDLESS_IKEV2_SUPPORTED)", // <--
            "auth 2: IDr AUTH SA TSi TSr", // <--
        ]
    );
    let session = world.gateway.session.as_ref().unwrap();
    assert!(session.is_initial_contact());
    assert_eq!(session.identity().unwrap().to_string(), "station@example");
    let session = world.station.session.as_ref().unwrap();
    assert_eq!(session.identity().unwrap().to_string(), "gateway.example");
}

#[test]
fn every_suite_and_method_is_agreed_with_and_without_a_nat() {
    for suites in [
        "aes128-sha1-modp2048",
        "aes256-sha384-modp3072",
        "aes128-sha256-prfsha512-ecp256",
        "aes192-sha512-ecp384",
        "3des-sha1-curve25519",
        "aes256gcm16-prfsha384-ecp521",
        "chacha20poly1305-prfsha256-curve25519",
        "aes192gcm16-prfsha1-mlkem768",
    ] {
        for is_natted in [false, true] {
            let setup = Setup {
                station_suites: suites,
                gateway_suites: suites,
                is_natted,
                ..Setup::default()
            };
            let mut world = setup.world();
            world.run();
            world.assert_agreed(1);
            let [station, gateway] = [&world.station, &world.gateway];
            let [a, b] = [station, gateway].map(|it| it.session.as_ref().unwrap());
            assert_eq!(a.suite().unwrap().to_string(), suites);
            assert_eq!((a.nat().is_local, a.nat().is_remote), (is_natted, false));
            assert_eq!((b.nat().is_local, b.nat().is_remote), (false, is_natted));
            let via = if is_natted {
                Via::UdpWithMarker
            } else {
                Via::Udp
            };
            assert_eq!((a.path().via, b.path().via), (via, via));
            assert_eq!(station.pairs[0].negotiated.is_udp_encapsulated, is_natted);
            assert_eq!(gateway.pairs[0].negotiated.is_udp_encapsulated, is_natted);
        }
    }
}

#[test]
fn the_responder_names_the_method_that_it_prefers() {
    let setup = Setup {
        station_suites: "aes128gcm16-prfsha256-modp4096 aes128gcm16-prfsha256-curve25519",
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    world.assert_agreed(1);
    let suite = world.station.session.as_ref().unwrap().suite().unwrap();
    assert_eq!(suite.to_string(), "aes128gcm16-prfsha256-curve25519");
    assert_eq!(world.gateway.arrows[0], "init 2: N(INVALID_KE_PAYLOAD)");
    assert!(world.gateway.facts[0].contains("it is asked to begin again"));
}

#[test]
fn nothing_in_common_is_told_and_given_up_after_a_while() {
    let setup = Setup {
        station_suites: "aes128-sha256-modp2048",
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    assert_eq!(world.gateway.arrows, ["init 2: N(NO_PROPOSAL_CHOSEN)"]);
    assert!(world.gateway.session.is_none());
    // Anybody can have sent it: the station waits for something better.
    assert!(world.station.session.is_some());
    world.pass(4);
    let fault = world.station.fault.take().expect("given up");
    assert!(matches!(fault, Fault::Refused(_)), "{fault}");
    let words = fault.to_string();
    assert!(
        words.contains("NO_PROPOSAL_CHOSEN; we offer aes128-sha256-modp2048"),
        "{words}"
    );
}

#[test]
fn under_load_nothing_is_kept_without_a_cookie() {
    let mut world = Setup::default().world();
    world.cookies = Some(Cookies::default());
    assert!(world.deliver(Who::Gateway));
    assert_eq!(world.gateway.arrows, ["init 2: N(COOKIE)"]);
    assert!(world.gateway.session.is_none());
    world.run();
    world.assert_agreed(1);
    assert!(world.station.arrows[1].starts_with("init 1: N(COOKIE) SA KE No"));
}

#[test]
fn a_wrong_cookie_is_answered_with_a_right_one() {
    let mut world = Setup::default().world();
    world.cookies = Some(Cookies::default());
    assert!(world.deliver(Who::Gateway) && world.deliver(Who::Station));
    let mut asked = world.hold(Who::Gateway).remove(0);
    // The cookie follows its generic header and the notification's own.
    asked.octets[28 + 8] ^= 1;
    world.receive(Who::Gateway, &asked);
    assert!(world.gateway.session.is_none());
    assert_eq!(world.gateway.arrows.len(), 2);
}

#[test]
fn a_responder_cannot_be_made_to_restart_an_initiator_without_end() {
    let mut world = Setup::default().world();
    for _ in 0..20 {
        world.cookies = Some(Cookies::default());
        world.run();
        if world.gateway.session.is_some() {
            break;
        }
        world.gateway.session = None;
    }
    let mut hostile = Setup::default().world();
    let mut rounds = 0;
    loop {
        // Each time another secret: the cookie is never right.
        hostile.cookies = Some(Cookies::default());
        if !hostile.deliver(Who::Gateway) {
            break;
        }
        hostile.deliver(Who::Station);
        rounds += 1;
        assert!(rounds < 20);
    }
    assert_eq!(rounds, 5);
}

/// Everything that is sent in establishing, one lost after the other.
fn lossy(setup: &Setup, lost: usize) -> World {
    let mut world = setup.world();
    let mut number = 0;
    for _ in 0..200 {
        let to = match (world.to_gateway.is_empty(), world.to_station.is_empty()) {
            (false, _) => Who::Gateway,
            (true, false) => Who::Station,
            (true, true) => {
                let ends = [&world.station, &world.gateway];
                let is_up = |end: &&super::world::End| {
                    let session = end.session.as_ref();
                    session.is_some_and(|it| it.is_established())
                };
                if ends.iter().all(is_up) || !world.wait() {
                    break;
                }
                continue;
            }
        };
        match number == lost {
            true => drop(world.flights(to).pop_front()),
            false => assert!(world.deliver(to)),
        }
        number += 1;
    }
    world.pass(1);
    world
}

#[test]
fn every_single_loss_is_repaired() {
    let setup = Setup {
        wants_inner: true,
        ..Setup::default()
    };
    for lost in 0..4 {
        lossy(&setup, lost).assert_agreed(1);
    }
}

#[test]
fn silence_is_given_up_and_says_what_was_asked() {
    let mut world = Setup::default().world();
    world.to_gateway.clear();
    while world.station.session.is_some() {
        world.to_gateway.clear();
        assert!(world.wait());
    }
    let words = world.station.fault.take().unwrap().to_string();
    assert!(
        words.starts_with("no reply from 192.0.2.1, UDP 500 (6 tries)"),
        "{words}"
    );
    // A responder forgets an initiator that does not go on.
    let mut world = Setup::default().world();
    assert!(world.deliver(Who::Gateway));
    world.to_station.clear();
    world.station.session = None;
    world.pass(31);
    assert!(world.gateway.session.is_none());
}

#[test]
fn without_room_nothing_is_computed_for_a_first_message() {
    let mut world = Setup::default().world();
    let first = world.hold(Who::Gateway).remove(0);
    let message = Message::parse(&first.octets).unwrap();
    let (now, gateway) = (world.now, &mut world.gateway);
    let candidates = [Arc::clone(&gateway.connection)];
    for is_full in [true, false] {
        let gate = Gate {
            is_full,
            ..Gate::default()
        };
        let (random, mut out) = (&mut gateway.random, Outbox::default());
        let path = first.path;
        let begun = Session::respond(&candidates, path, &message, gate, random, now, &mut out);
        let is_refused = matches!(begun, Err(Fault::Dropped(DropReason::TooManyHalfOpen)));
        assert_eq!(is_refused, is_full);
        assert_eq!(out.messages.is_empty(), is_full);
        assert_eq!(out.work.entries().is_empty(), is_full);
    }
}
