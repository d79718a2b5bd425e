//! EAP in IKE_AUTH: a user's password proves the station, after a certificate has proven the
//! gateway.

use super::world::{PASSWORD, Proof, Setup, Who, World, examiner, selector};
use crate::config::RemoteMethod;
use crate::eap::Examiner;
use crate::identity::Identity;
use crate::ike::Fault;
use crate::ike::auth::proven_by_key;
use crate::ikev1::tests::pair::JANUARY_2027;
use crate::ikev2::eap::{LoggingIn, login_of};

const RIGHT: Proof = Proof::Password(PASSWORD);

fn setup(station: Proof) -> Setup {
    Setup {
        station,
        gateway: Proof::Certificate,
        ..Setup::default()
    }
}

#[test]
fn a_password_proves_the_station_and_names_it() {
    let mut world = setup(RIGHT).world();
    world.run();
    world.assert_agreed(1);
    assert_eq!(
        world.names(Who::Station)[1..],
        [
            "auth 1: IDi CERTREQ IDr N(INITIAL_CONTACT) SA TSi TSr",
            "auth 1: EAP",
            "auth 1: EAP",
            "auth 1: EAP",
            "auth 1: EAP",
            "auth 1: AUTH",
        ]
    );
    assert_eq!(
        world.names(Who::Gateway)[1..],
        [
            "auth 2: IDr CERT CERT AUTH EAP in 2",
            "auth 2: EAP",
            "auth 2: EAP",
            "auth 2: EAP",
            "auth 2: EAP",
            "auth 2: AUTH SA TSi TSr",
        ]
    );
    let session = world.gateway.session.as_ref().unwrap();
    // Not station@example, which it claims in IKE.
    assert_eq!(session.identity().unwrap().to_string(), "alice");
    assert!(session.certificate().is_none());
    assert!(session.is_initial_contact());
    let session = world.station.session.as_ref().unwrap();
    assert!(session.certificate().is_some());
}

/// The station proves its certificate within TLS. The gateway takes its name from there.
#[test]
fn a_certificate_in_tls_proves_the_station_too() {
    let mut world = Setup {
        wants_inner: true,
        ..setup(Proof::Tls)
    }
    .world();
    world.run();
    world.assert_agreed(1);
    let session = world.gateway.session.as_ref().unwrap();
    assert_eq!(session.identity().unwrap().to_string(), "station@example");
    // It ends with its certificate, and by a list that names it.
    assert!(session.identity().unwrap().has_certificate());
    assert!(session.certificate().is_some());
    let last = world.names(Who::Station).pop().unwrap().to_owned();
    assert_eq!(last, "auth 1: AUTH");
}

#[test]
fn a_certificate_of_another_authority_is_refused_in_tls() {
    let mut world = setup(Proof::Tls).world();
    let mut connection = setup(Proof::Tls).world().gateway.connection;
    let gateway = std::sync::Arc::get_mut(&mut connection).unwrap();
    let strict = Examiner {
        trusted: Some(Default::default()),
        ..Examiner::default()
    };
    gateway.remote.method = RemoteMethod::Eap(strict.into());
    world.gateway.connection = connection;
    world.run();
    world.assert_over();
    let why = world.fault(Who::Gateway);
    assert!(why.starts_with("TLS: "), "{why}");
    let why = world.fault(Who::Station);
    assert!(why.starts_with("TLS: ") || why.contains("EAP-TLS"), "{why}");
}

#[test]
fn who_may_come_is_said_by_the_name_that_is_proven() {
    for (proof, name) in [(RIGHT, "alice"), (Proof::Tls, "station@example")] {
        let mut world = setup(proof).world();
        let mut connection = setup(proof).world().gateway.connection;
        let gateway = std::sync::Arc::get_mut(&mut connection).unwrap();
        gateway.remote.identities = vec![crate::config::IdentityPattern::parse("bob").unwrap()];
        world.gateway.connection = connection;
        world.run();
        world.assert_over();
        let why = world.fault(Who::Gateway);
        let told = format!("the peer identifies itself as {name}; we accept bob");
        assert_eq!(why, told);
    }
}

#[test]
fn a_station_that_does_not_say_whom_it_wants_is_served() {
    let mut world = Setup {
        names_gateway: false,
        ..setup(RIGHT)
    }
    .world();
    world.run();
    world.assert_agreed(1);
    assert!(!world.names(Who::Station)[1].contains("IDr"));
}

#[test]
fn what_the_first_request_wishes_is_granted_by_the_last_answer() {
    let mut world = Setup {
        wants_inner: true,
        is_natted: true,
        ..setup(RIGHT)
    }
    .world();
    world.run();
    world.assert_agreed(1);
    let last = world.names(Who::Gateway).pop().unwrap().to_owned();
    assert_eq!(last, "auth 2: AUTH CP SA TSi TSr");
    let pair = &world.station.pairs[0].negotiated;
    assert_eq!(pair.local, [selector("10.9.0.7")]);
}

#[test]
fn messages_that_are_lost_or_repeated_change_nothing() {
    for lost in 0..12 {
        let mut world = setup(RIGHT).world();
        let mut number = 0;
        for _ in 0..200 {
            for who in Who::BOTH {
                for flight in world.hold(who) {
                    number += 1;
                    if number == lost {
                        continue;
                    }
                    world.receive(who, &flight);
                    world.receive(who, &flight);
                }
            }
            let is_done = Who::BOTH.into_iter().all(|who| {
                let session = world.end(who).session.as_ref();
                session.is_some_and(|it| it.is_established())
            });
            if is_done && world.to_gateway.is_empty() && world.to_station.is_empty() {
                break;
            }
            if world.to_gateway.is_empty() && world.to_station.is_empty() {
                world.wait();
            }
        }
        world.assert_agreed(1);
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_the_same_to_a_stranger() {
    let mut wrong = setup(Proof::Password("another")).world();
    wrong.run();
    wrong.assert_over();
    assert_eq!(
        wrong.fault(Who::Gateway),
        "the password of user \"alice\" is wrong"
    );
    let told = "the gateway refuses the user's name or password";
    assert_eq!(wrong.fault(Who::Station), told);

    let mut unknown = setup(RIGHT).world();
    let mut connection = setup(RIGHT).world().gateway.connection;
    let gateway = std::sync::Arc::get_mut(&mut connection).unwrap();
    let nobody = Examiner {
        users: Some(Default::default()),
        ..examiner()
    };
    gateway.remote.method = RemoteMethod::Eap(nobody.into());
    unknown.gateway.connection = connection;
    unknown.run();
    unknown.assert_over();
    assert_eq!(unknown.fault(Who::Gateway), "there is no user \"alice\"");
    assert_eq!(unknown.fault(Who::Station), told);
    let sizes = |world: &World| {
        let to_station = world.history.iter().filter(|(to, _)| *to == Who::Station);
        to_station
            .map(|(_, flight)| (flight.name.clone(), flight.octets.len()))
            .collect::<Vec<_>>()
    };
    assert_eq!(sizes(&wrong), sizes(&unknown));
}

#[test]
fn a_gateway_without_the_right_certificate_learns_nothing_of_the_user() {
    // The gateway has proven a shared key, which every other client may know.
    let by_key = Setup {
        gateway: Proof::Key("secret"),
        ..setup(RIGHT)
    };
    let mut world = by_key.world();
    world.run();
    world.assert_over();
    let why = world.fault(Who::Gateway);
    assert!(
        why.contains("without a certificate examines nobody"),
        "{why}"
    );
    // Another gateway may try it all the same.
    let connection = by_key.world().station.connection;
    let name = Identity::parse("gateway.example").unwrap();
    let gateway = proven_by_key(&connection, &name);
    let login = login_of(&connection).expect("a login");
    let why = LoggingIn::begin(login, gateway, &[], JANUARY_2027).err();
    let why = why.expect("a fault").to_string();
    assert!(why.contains("not proven itself by a certificate"), "{why}");
    assert!(!world.names(Who::Station).contains(&"auth 1: EAP"));

    // The gateway has a certificate of an authority that the station does not trust.
    let mut world = setup(RIGHT).world();
    let mut connection = setup(RIGHT).world().station.connection;
    let station = std::sync::Arc::get_mut(&mut connection).unwrap();
    station.remote.method = RemoteMethod::Signature(Default::default());
    world = world.begun_by(connection);
    world.run();
    world.assert_over();
    assert!(!world.names(Who::Station).contains(&"auth 1: EAP"));
    // It is told, and keeps nothing.
    assert_eq!(
        world.names(Who::Station).last(),
        Some(&"informational 1: N(AUTHENTICATION_FAILED)")
    );
    let why = world.fault(Who::Gateway);
    assert!(why.contains("does not accept us"), "{why}");
}

#[test]
fn who_does_not_have_the_key_of_eap_is_refused_after_its_success() {
    let mut world = setup(RIGHT).world();
    for _ in 0..40 {
        let session = world.gateway.session.as_mut();
        if let Some(key) = session.and_then(|it| it.key_of_eap()) {
            key.0[0] ^= 1;
            break;
        }
        assert!(world.deliver(Who::Gateway) || world.deliver(Who::Station));
    }
    world.run();
    world.assert_over();
    let why = world.fault(Who::Gateway);
    assert!(why.contains("does not have the key of EAP"), "{why}");
    assert_eq!(
        world.fault(Who::Station),
        "the peer refused with AUTHENTICATION_FAILED; the gateway's log says why"
    );
}

#[test]
fn a_gateway_that_examines_nobody_refuses_a_station_that_wants_it() {
    let mut world = setup(RIGHT).world();
    let plain = setup(Proof::Certificate);
    world.gateway.connection = plain.world().gateway.connection;
    world.run();
    world.assert_over();
    let why = world.gateway.fault.take().expect("a fault");
    assert!(matches!(why, Fault::Unauthenticated(_)), "{why}");
    assert!(why.to_string().contains("wants to authenticate by EAP"));
}

#[test]
fn a_station_with_a_certificate_is_not_a_user() {
    let mut world = setup(Proof::Certificate).world();
    world.gateway.connection = setup(RIGHT).world().gateway.connection;
    world.run();
    world.assert_over();
    let why = world.fault(Who::Gateway);
    assert!(
        why.contains("which its connection does not accept"),
        "{why}"
    );
}

#[test]
fn an_examination_ends_with_the_half_open_session() {
    let mut world = setup(RIGHT).world();
    while !world.names(Who::Station).contains(&"auth 1: EAP") {
        assert!(world.deliver(Who::Gateway) || world.deliver(Who::Station));
    }
    let _ = world.hold(Who::Gateway);
    assert!(world.gateway.session.is_some());
    world.station.session = None;
    world.pass(31);
    assert!(world.gateway.session.is_none());
    let why = world.fault(Who::Gateway);
    assert!(
        why.starts_with("the peer began and did not finish"),
        "{why}"
    );
}
