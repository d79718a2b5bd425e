//! IKE_AUTH: methods, identities, addresses, selectors, fragments.

use super::world::{Proof, Setup, Who, selector};
use crate::ike::Fault;

const CERTIFICATES: Setup = Setup {
    station: Proof::Certificate,
    gateway: Proof::Certificate,
    station_suites: "aes128gcm16-prfsha256-curve25519",
    gateway_suites: "aes128gcm16-prfsha256-curve25519",
    esp: "aes128gcm16",
    is_natted: false,
    has_child: true,
    is_legacy: false,
    wants_inner: false,
    fragments: true,
    full_transcript: [true; 2],
    names_gateway: true,
    ppk: [None; 2],
    early_ppk: [false; 2],
    mobike: [false; 2],
    childless: [crate::config::Childless::Allow; 2],
    station_addresses: Vec::new(),
    gateway_addresses: Vec::new(),
    crash_detection: false,
    resumption: false,
    travel: crate::ikev2::Travel {
        is_willing: false,
        from: None,
    },
    seed: 7,
};

#[test]
fn certificates_prove_both_ends_in_fragments() {
    let mut world = CERTIFICATES.world();
    world.run();
    world.assert_agreed(1);
    let auth = "auth 1: IDi CERT CERTREQ IDr AUTH N(INITIAL_CONTACT) SA TSi TSr in 2";
    assert_eq!(world.station.arrows[1], auth);
    assert_eq!(
        world.gateway.arrows[1],
        "auth 2: IDr CERT CERT AUTH SA TSi TSr in 2"
    );
    for who in Who::BOTH {
        let session = world.end(who).session.as_ref().unwrap();
        assert!(session.identity().unwrap().has_certificate());
        assert!(session.certificate().is_some());
    }
    // RFC 7383 §2.5.1: no datagram is longer than what every path carries.
    assert!(world.history.iter().all(|(_, it)| it.octets.len() <= 1228));
}

#[test]
fn without_fragmentation_at_one_end_messages_are_whole() {
    let setup = Setup {
        fragments: false,
        ..CERTIFICATES
    };
    let mut world = setup.world();
    world.run();
    world.assert_agreed(1);
    assert!(!world.station.arrows[1].contains(" in "));
}

#[test]
fn the_two_ends_may_prove_themselves_differently() {
    for (station, gateway) in [
        (Proof::Key("secret"), Proof::Certificate),
        (Proof::Certificate, Proof::Key("secret")),
    ] {
        let setup = Setup {
            station,
            gateway,
            ..CERTIFICATES
        };
        let mut world = setup.world();
        world.run();
        world.assert_agreed(1);
        let has_certificate = |world: &mut super::world::World, who| {
            let session = world.end(who).session.as_ref().unwrap();
            session.identity().unwrap().has_certificate()
        };
        assert_eq!(
            has_certificate(&mut world, Who::Gateway),
            station == Proof::Certificate
        );
        assert_eq!(
            has_certificate(&mut world, Who::Station),
            gateway == Proof::Certificate
        );
    }
}

#[test]
fn another_key_is_refused_by_both_ends() {
    let mut world = Setup::default().world();
    let other = Setup {
        station: Proof::Key("another"),
        gateway: Proof::Key("another"),
        ..Setup::default()
    };
    world.gateway.connection = other.world().gateway.connection;
    world.run();
    world.assert_over();
    let fault = world.gateway.fault.take().unwrap();
    assert_eq!(
        fault,
        Fault::Unauthenticated("the pre-shared key differs".into())
    );
    let fault = world.station.fault.take().unwrap().to_string();
    assert_eq!(
        fault,
        "the peer refused with AUTHENTICATION_FAILED; the gateway's log says why"
    );
}

#[test]
fn a_responder_with_another_key_is_not_believed_and_is_told() {
    let mut world = Setup::default().world();
    assert!(world.deliver(Who::Gateway) && world.deliver(Who::Station));
    // The station's own key is right; it expects another one of the gateway.
    let other = Setup {
        gateway: Proof::Key("another"),
        ..Setup::default()
    };
    world.gateway.connection = other.world().gateway.connection;
    let session = world.gateway.session.take();
    world.gateway.session = session;
    world.run();
    // The candidates were chosen before: the first connection still counts.
    world.assert_agreed(1);

    let mut world = other.world();
    world.station.connection = Setup::default().world().station.connection;
    let expected = Setup::default();
    let mut fresh = expected.world();
    fresh.gateway.connection = other.world().gateway.connection;
    fresh.run();
    assert!(fresh.station.session.is_none());
    let fault = fresh.station.fault.take().unwrap();
    assert_eq!(
        fault,
        Fault::Unauthenticated("the pre-shared key differs".into())
    );
    // RFC 7296 §2.21.2.
    assert_eq!(
        fresh.station.arrows[2],
        "informational 1: N(AUTHENTICATION_FAILED)"
    );
}

#[test]
fn an_inner_address_is_lent_and_narrows_the_child() {
    let setup = Setup {
        wants_inner: true,
        ..Setup::default()
    };
    let mut world = setup.world();
    world.run();
    world.assert_agreed(1);
    assert!(world.station.arrows[1].contains(" CP "));
    let lease = world.station.lease.as_ref().unwrap();
    assert_eq!(
        lease.addresses,
        ["10.9.0.7".parse::<std::net::IpAddr>().unwrap()]
    );
    assert_eq!(
        lease.dns,
        ["10.1.0.53".parse::<std::net::IpAddr>().unwrap()]
    );
    let pair = &world.station.pairs[0].negotiated;
    assert_eq!(pair.local, [selector("10.9.0.7")]);
    assert_eq!(pair.remote, [selector("10.1.0.0/16")]);
}

#[test]
fn a_refused_child_leaves_the_ike_sa() {
    let setup = Setup {
        esp: "aes256gcm16",
        ..Setup::default()
    };
    let mut world = Setup::default().world();
    world.gateway.connection = setup.world().gateway.connection;
    world.run();
    world.assert_agreed(0);
    assert_eq!(
        world.gateway.arrows[1],
        "auth 2: IDr AUTH N(NO_PROPOSAL_CHOSEN)"
    );
    let told = &world.station.facts[1];
    assert!(
        told.contains("NO_PROPOSAL_CHOSEN; we asked for tunnel mode, aes128gcm16"),
        "{told}"
    );
}
