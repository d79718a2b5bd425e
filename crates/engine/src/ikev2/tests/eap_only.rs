//! EAP alone (RFC 5998): within TLS both ends prove their certificates, and nothing else does.

use std::sync::Arc;

use super::world::{PASSWORD, Proof, Setup, Who, World, examiner};
use crate::config::{Connection, IdentityPattern, RemoteMethod};
use crate::eap::Examiner;
use crate::identity::Identity;
use crate::ikev1::tests::pair::signatures;

fn setup(station: Proof) -> Setup {
    Setup {
        station,
        gateway: Proof::Certificate,
        ..Setup::default()
    }
}

/// Certificates and nothing else.
fn only_tls(connection: &mut Connection) {
    let trusted = examiner().trusted;
    let examiner = Examiner {
        trusted,
        ..Examiner::default()
    };
    connection.remote.method = RemoteMethod::Eap(Arc::new(examiner));
    connection.is_eap_only = true;
}

/// A world whose station has this connection.
fn world(station: Proof, at_station: impl FnOnce(&mut Connection)) -> World {
    let mut connection = setup(station).world().station.connection;
    // Its session has gone with the world.
    let own = Arc::get_mut(&mut connection).expect("nobody else has it");
    at_station(own);
    let mut world = setup(station).world();
    world.change(Who::Gateway, only_tls);
    world.begun_by(connection)
}

fn alone(connection: &mut Connection) {
    connection.is_eap_only = true;
}

// IDi, CERTREQ, IDr, N(EAP_ONLY_AUTHENTICATION), SA, TSi, TSr -->
//                                                             <-- IDr, EAP
// EAP -->                                                     <-- EAP (several times)
// AUTH -->                                                    <-- AUTH, SA, TSi, TSr
#[test]
fn certificates_within_tls_prove_both_ends() {
    let mut world = world(Proof::Tls, alone);
    world.run();
    world.assert_agreed(1);
    let first = world.names(Who::Station)[1].to_owned();
    assert!(first.contains("N(EAP_ONLY_AUTHENTICATION)"), "{first}");
    assert_eq!(world.names(Who::Gateway)[1], "auth 2: IDr EAP");
    let last = world.names(Who::Gateway).pop().unwrap().to_owned();
    assert_eq!(last, "auth 2: AUTH SA TSi TSr");
    for (who, name) in [
        (Who::Station, "gateway.example"),
        (Who::Gateway, "station@example"),
    ] {
        let session = world.end(who).session.as_ref().unwrap();
        assert_eq!(session.identity().unwrap().to_string(), name);
        // It ends with its certificate, and by a list that names it.
        assert!(session.certificate().is_some());
    }
}

#[test]
fn a_gateway_that_does_not_offer_it_proves_itself_first() {
    let mut world = world(Proof::Tls, alone);
    world.change(Who::Gateway, |it| it.is_eap_only = false);
    world.run();
    world.assert_agreed(1);
    let first = world.names(Who::Gateway)[1];
    assert!(first.contains("IDr CERT CERT AUTH EAP"), "{first}");
}

#[test]
fn a_station_that_does_not_ask_for_it_gets_the_usual_proof() {
    let mut world = world(Proof::Tls, |_| {});
    world.run();
    world.assert_agreed(1);
    let first = world.names(Who::Station)[1].to_owned();
    assert!(!first.contains("EAP_ONLY"), "{first}");
    let first = world.names(Who::Gateway)[1];
    assert!(first.contains("IDr CERT CERT AUTH EAP"), "{first}");
}

/// Such a gateway may be anybody, who would then know what the password proves.
#[test]
fn a_password_is_never_proven_to_a_gateway_that_has_not_proven_itself() {
    // The configuration refuses that: here is what the protocol does.
    let mut world = world(Proof::Password(PASSWORD), alone);
    world.run();
    world.assert_over();
    assert!(!world.names(Who::Station).contains(&"auth 1: EAP"));
    let why = world.fault(Who::Station);
    assert!(
        why.contains("does not prove itself before it asks"),
        "{why}"
    );
}

#[test]
fn a_station_that_has_not_asked_for_it_takes_no_gateway_without_a_proof() {
    for proof in [Proof::Tls, Proof::Password(PASSWORD)] {
        let mut world = world(proof, alone);
        // It has asked for nothing, and a hostile gateway omits its proof all the same.
        while world.names(Who::Gateway).len() < 2 {
            assert!(world.deliver(Who::Gateway) || world.deliver(Who::Station));
        }
        let session = world.station.session.as_mut().unwrap();
        session.reconfigure(setup(proof).world().station.connection);
        world.run();
        world.assert_over();
        assert!(!world.names(Who::Station).contains(&"auth 1: EAP"));
        let why = world.fault(Who::Station);
        assert!(why.contains("does not prove itself"), "{why}");
    }
}

/// A gateway that also takes passwords proves itself to everybody.
#[test]
fn a_gateway_that_takes_passwords_proves_itself_first() {
    let mut world = world(Proof::Tls, alone);
    world.change(Who::Gateway, |it| {
        it.remote.method = RemoteMethod::Eap(Arc::new(examiner()));
    });
    world.run();
    world.assert_agreed(1);
    let first = world.names(Who::Gateway)[1];
    assert!(first.contains("IDr CERT CERT AUTH EAP"), "{first}");
}

#[test]
fn the_certificate_within_tls_must_name_who_the_gateway_says_that_it_is() {
    let mut world = world(Proof::Tls, |it| {
        alone(it);
        it.remote.identities = vec![IdentityPattern::Any];
    });
    world.change(Who::Gateway, |it| {
        it.local.identity = Identity::parse("another.example").unwrap();
    });
    world.run();
    world.assert_over();
    let why = world.fault(Who::Station);
    assert!(why.contains("another.example"), "{why}");
    assert!(why.contains("does not name"), "{why}");
}

/// Certificates are public, and any station has one of the same authority.
#[test]
fn the_gateways_certificate_behind_ones_own_proves_nothing() {
    let mut world = world(Proof::Tls, alone);
    world.change(Who::Gateway, |it| {
        it.local.method = signatures("station", &["station", "gateway", "mid"]).0;
    });
    world.run();
    world.assert_over();
    let why = world.fault(Who::Station);
    assert!(why.contains("does not name"), "{why}");
}

#[test]
fn a_gateway_that_is_not_the_wanted_one_learns_nothing() {
    let mut world = world(Proof::Tls, |it| {
        alone(it);
        it.remote.identities = vec![IdentityPattern::parse("other.example").unwrap()];
    });
    world.run();
    world.assert_over();
    assert!(!world.names(Who::Station).contains(&"auth 1: EAP"));
    let why = world.fault(Who::Station);
    assert!(why.contains("we accept other.example"), "{why}");
}

#[test]
fn a_gateway_of_another_authority_is_refused_within_tls() {
    let mut world = world(Proof::Tls, |it| {
        alone(it);
        it.remote.method = RemoteMethod::Signature(Default::default());
    });
    world.run();
    world.assert_over();
    let why = world.fault(Who::Station);
    assert!(why.starts_with("TLS: "), "{why}");
}
