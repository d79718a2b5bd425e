//! AUTH over both messages of IKE_SA_INIT (draft-ietf-ipsecme-ikev2-downgrade-prevention): who can
//! pass for one end cannot choose a weaker suite for both.

use wire::ikev2::{NotifyType, Payload};

use super::post_quantum::{rewrite, without};
use super::world::{PASSWORD, Proof, Setup, Who, World};
use crate::ikev2::cookie::Cookies;
use Who::{Gateway, Station};

const CLASSICAL: &str = "aes128gcm16-prfsha256-curve25519";
const HYBRID: &str = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768";
const BOTH: &str = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768 aes128gcm16-prfsha256-curve25519";
/// The same without ML-KEM. The gateway does not take the first one.
const WEAKER: &str = "aes256gcm16-prfsha384-curve25519 aes128gcm16-prfsha256-curve25519";
const KIND: NotifyType = NotifyType::IkeSaInitFullTranscriptAuth;

/// Both ends prefer a suite with ML-KEM, and take one without.
fn setup(full_transcript: [bool; 2]) -> Setup {
    Setup {
        station: Proof::Certificate,
        gateway: Proof::Certificate,
        station_suites: BOTH,
        gateway_suites: BOTH,
        full_transcript,
        ..Setup::default()
    }
}

fn is_covered(world: &World) -> [bool; 2] {
    [&world.station, &world.gateway].map(|end| {
        let session = end.session.as_ref().expect("a session");
        session.has_full_transcript()
    })
}

/// Somebody between the ends who has the station's key, and breaks X25519. He has a double of the
/// station, which offers no ML-KEM, with the same nonce, SPI and public value.
struct Middle {
    between: World,
    double: World,
}

impl Middle {
    fn of(setup: &Setup) -> Self {
        let weaker = Setup {
            station_suites: WEAKER,
            ..setup.clone()
        };
        Self {
            between: setup.world(),
            double: weaker.world(),
        }
    }

    /// The gateway hears the double, and its answers go to both of them.
    fn downgrade(mut self) -> World {
        let offer = self.between.hold(Gateway);
        let weaker = self.double.hold(Gateway);
        assert_ne!(offer[0].octets, weaker[0].octets);
        self.between.receive(Gateway, &weaker[0]);
        let answer = self.between.hold(Station);
        self.between.receive(Station, &answer[0]);
        self.double.receive(Station, &answer[0]);
        let proof = self.between.hold(Gateway);
        let forged = self.double.hold(Gateway);
        assert_eq!(proof.len(), forged.len());
        for message in &forged {
            self.between.receive(Gateway, message);
        }
        self.between.run();
        self.between
    }
}

#[test]
fn who_passes_for_the_station_can_weaken_the_suite_of_both_ends_without_it() {
    // One end alone does not help.
    for announced in [[false, false], [true, false], [false, true]] {
        let mut world = Middle::of(&setup(announced)).downgrade();
        world.assert_agreed(1);
        assert_eq!(is_covered(&world), [false; 2]);
        let session = world.station.session.as_ref().expect("a session");
        assert_eq!(session.suite().expect("a suite").to_string(), CLASSICAL);
    }
    // Without anybody in between they have the better one.
    let world = setup([false, false]).established();
    let session = world.station.session.as_ref().expect("a session");
    assert_eq!(session.suite().expect("a suite").to_string(), HYBRID);
}

#[test]
fn with_it_the_station_sees_that_the_gateway_has_heard_another_offer() {
    let mut world = Middle::of(&setup([true, true])).downgrade();
    // The double has proven itself with the station's key.
    assert!(
        world
            .gateway
            .facts
            .iter()
            .any(|it| it.contains("established"))
    );
    assert!(world.station.session.is_none());
    let fault = world.fault(Station);
    assert!(fault.contains("the signature of"), "{fault}");
}

#[test]
fn whoever_takes_the_announcement_out_is_found_out() {
    let setup = setup([true, true]);
    for stripped in [[true, false], [false, true], [true, true]] {
        let mut world = setup.world();
        for (to, is_stripped) in [(Gateway, stripped[0]), (Station, stripped[1])] {
            let mut message = world.hold(to).remove(0);
            let before = message.octets.len();
            if is_stripped {
                rewrite(&mut message, |chain| without(chain, KIND));
                assert!(message.octets.len() < before);
            }
            world.receive(to, &message);
        }
        world.run();
        assert!(world.station.session.is_none(), "{stripped:?}");
        assert!(world.is_refused(), "{stripped:?}");
    }
}

#[test]
fn whoever_adds_the_announcement_is_found_out() {
    for (wanted, to) in [([false, true], Gateway), ([true, false], Station)] {
        let mut world = setup(wanted).world();
        if to == Station {
            assert!(world.deliver(Gateway));
        }
        let mut message = world.hold(to).remove(0);
        rewrite(&mut message, |chain| {
            chain.push(Payload::Notify(wire::ikev2::Notify::new(KIND, Vec::new())));
        });
        world.receive(to, &message);
        world.run();
        assert!(world.station.session.is_none());
        assert!(world.is_refused());
    }
}

#[test]
fn both_ends_announce_it_whatever_the_other_says() {
    for wanted in [[true, true], [true, false], [false, true], [false, false]] {
        let mut world = setup(wanted).established();
        let announced = [&world.station, &world.gateway]
            .map(|end| end.arrows[0].contains("N(IKE_SA_INIT_FULL_TRANSCRIPT_AUTH)"));
        assert_eq!(announced, wanted);
        let covered = wanted == [true, true];
        assert_eq!(is_covered(&world), [covered; 2]);
        // It is a property of the session, and a renewal has no AUTH.
        world.rekey_ike(Station);
        world.pass(5);
        world.assert_agreed(1);
        assert_eq!(is_covered(&world), [covered; 2]);
    }
}

/// Otherwise whoever changes the offer could choose the connection that does not announce it.
#[test]
fn what_an_offer_asks_for_does_not_change_whether_the_gateway_announces_it() {
    for has_it in [true, false] {
        for offered in [BOTH, HYBRID, CLASSICAL] {
            let mut world = Setup {
                station_suites: offered,
                gateway_suites: HYBRID,
                ..setup([true; 2])
            }
            .world();
            let mut other = setup([true, has_it]).connection(false);
            other.ikev2_proposals = vec![CLASSICAL.parse().expect("a suite")];
            world.others = vec![other.into()];
            assert!(world.deliver(Gateway));
            let answer = &world.gateway.arrows[0];
            let announces = answer.contains("N(IKE_SA_INIT_FULL_TRANSCRIPT_AUTH)");
            assert_eq!(announces, has_it, "{offered}: {answer}");
            world.run();
            world.assert_agreed(1);
            assert_eq!(is_covered(&world), [has_it; 2]);
        }
    }
}

#[test]
fn every_proof_covers_both_messages() {
    let key = ("fleet", "thirty-two octets of a shared key", true);
    let may = ("fleet", "thirty-two octets of a shared key", false);
    for (station, gateway) in [
        (Proof::Certificate, Proof::Certificate),
        (Proof::Key("secret"), Proof::Key("secret")),
        (Proof::Key("secret"), Proof::Certificate),
        (Proof::Password(PASSWORD), Proof::Certificate),
        (Proof::Tls, Proof::Certificate),
    ] {
        for (ppk, early_ppk) in [
            ([None, None], false),
            ([Some(key), Some(key)], false),
            ([Some(key), Some(key)], true),
            ([Some(may), None], false),
        ] {
            for suites in [CLASSICAL, HYBRID] {
                let with = Setup {
                    station,
                    gateway,
                    station_suites: suites,
                    gateway_suites: suites,
                    ppk,
                    early_ppk: [early_ppk; 2],
                    wants_inner: true,
                    ..Setup::default()
                };
                let world = with.established();
                assert_eq!(is_covered(&world), [true; 2]);
                // The station has heard an answer with one vendor ID more.
                let mut world = with.world();
                assert!(world.deliver(Gateway));
                let mut answer = world.hold(Station).remove(0);
                rewrite(&mut answer, |chain| {
                    chain.push(Payload::VendorId(b"somebody".to_vec()));
                });
                world.receive(Station, &answer);
                world.run();
                assert!(world.station.session.is_none(), "{station:?} {ppk:?}");
                assert!(world.is_refused(), "{station:?} {ppk:?}");
            }
        }
    }
}

#[test]
fn the_request_with_the_cookie_is_the_one_that_counts() {
    let mut world = setup([true, true]).world();
    world.cookies = Some(Cookies::default());
    world.run();
    world.assert_agreed(1);
    assert_eq!(is_covered(&world), [true; 2]);
    // And that with another public value.
    let mut world = Setup {
        station_suites: "aes128gcm16-prfsha256-curve25519 aes128gcm16-prfsha256-ecp256",
        gateway_suites: "aes128gcm16-prfsha256-ecp256",
        ..setup([true, true])
    }
    .world();
    world.run();
    world.assert_agreed(1);
    assert_eq!(world.gateway.arrows[0], "init 2: N(INVALID_KE_PAYLOAD)");
    assert_eq!(is_covered(&world), [true; 2]);
}

/// IKE_SESSION_RESUME announces nothing, and has no key exchange to weaken: SK_d of the session
/// that it goes on from is in its keys.
#[test]
fn a_session_that_goes_on_from_another_does_not_announce_it() {
    let mut world = Setup {
        resumption: true,
        ..setup([true, true])
    }
    .established();
    assert_eq!(is_covered(&world), [true; 2]);
    let ticket = world.station.session.as_mut().expect("a session");
    let ticket = ticket.take_ticket();
    assert!(ticket.is_some());
    world.begin_again(ticket, crate::ikev2::Travel::default());
    world.run();
    world.assert_agreed(1);
    assert!(!world.station.arrows[0].contains("FULL_TRANSCRIPT"));
    assert_eq!(is_covered(&world), [false; 2]);
}
