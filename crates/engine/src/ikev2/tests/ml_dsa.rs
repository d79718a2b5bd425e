//! Certificates and AUTH of ML-DSA (RFC 9881, draft-ietf-ipsecme-ikev2-pqc-auth).

use crypto::ml_dsa::MlDsa;
use wire::ikev2::{
    Authentication, AuthenticationMethod, DigitalSignature, HashAlgorithm, Notify, NotifyType,
    Payload,
};

use super::post_quantum::{rewrite, without};
use super::world::{Proof, Setup, Who};
use Who::{Gateway, Station};

const HYBRID: &str = "aes256gcm16-prfsha384-curve25519-ke1_mlkem768";

fn setup(station: Proof, gateway: Proof) -> Setup {
    Setup {
        station,
        gateway,
        station_suites: HYBRID,
        gateway_suites: HYBRID,
        ..Setup::default()
    }
}

#[test]
fn both_ends_prove_themselves_with_every_parameter_set() {
    for (set, fragments) in [
        (MlDsa::Set44, [6, 6]),
        (MlDsa::Set65, [8, 8]),
        (MlDsa::Set87, [11, 11]),
    ] {
        let mut world = setup(Proof::MlDsa(set), Proof::MlDsa(set)).established();
        for (who, parts) in Who::BOTH.into_iter().zip(fragments) {
            let auth = world.names(who).last().expect("a message").to_string();
            assert!(auth.ends_with(&format!(" in {parts}")), "{set:?}: {auth}");
            let session = world.end(who).session.as_ref().expect("a session");
            assert!(session.certificate().is_some());
        }
        // RFC 7383 §2.5.1: no datagram is longer than what every path carries.
        assert!(world.history.iter().all(|(_, it)| it.octets.len() <= 1228));
        for who in Who::BOTH {
            world.rekey_ike(who);
            world.pass(5);
            world.assert_agreed(1);
        }
    }
}

#[test]
fn each_end_chooses_its_own_proof() {
    let ml_dsa = Proof::MlDsa(MlDsa::Set65);
    for (station, gateway) in [
        (ml_dsa, Proof::Certificate),
        (Proof::Certificate, ml_dsa),
        (ml_dsa, Proof::Key("secret")),
        (Proof::Key("secret"), ml_dsa),
        (ml_dsa, Proof::MlDsa(MlDsa::Set44)),
        (Proof::Tls, ml_dsa),
        (Proof::Password(super::world::PASSWORD), ml_dsa),
    ] {
        let with = Setup {
            wants_inner: true,
            ..setup(station, gateway)
        };
        with.established();
    }
}

/// draft-ietf-ipsecme-ikev2-pqc-auth: a peer that does not announce "Identity" gets no such
/// signature.
#[test]
fn a_peer_that_does_not_announce_the_hash_identity_gets_no_such_signature() {
    for hashes in [
        None,
        Some(&[HashAlgorithm::Sha2_256, HashAlgorithm::Sha2_512][..]),
    ] {
        let mut world = setup(Proof::MlDsa(MlDsa::Set44), Proof::Key("secret")).world();
        assert!(world.deliver(Gateway));
        let mut answer = world.hold(Station).remove(0);
        rewrite(&mut answer, |chain| {
            without(chain, NotifyType::SignatureHashAlgorithms);
            chain.extend(hashes.map(|it| Payload::Notify(Notify::hash_algorithms(it))));
        });
        world.receive(Station, &answer);
        // The additional key exchange comes first.
        while world.station.session.is_some() {
            assert!(world.deliver(Gateway) || world.deliver(Station));
        }
        let fault = world.fault(Station);
        assert!(
            fault.contains("reads no signature that our key makes"),
            "{fault}"
        );
    }
}

#[test]
fn a_key_of_another_parameter_set_or_authority_is_refused() {
    let [own, other] = [MlDsa::Set65, MlDsa::Set87].map(Proof::MlDsa);
    // The gateway trusts authorities of the one, and the station has the other.
    let mut world = setup(own, Proof::Key("secret")).world();
    let stranger = setup(other, Proof::Key("secret")).connection(true);
    world = world.begun_by(std::sync::Arc::new(stranger));
    world.run();
    assert!(world.is_refused());
    assert!(world.station.session.is_none());
    let fault = world.fault(Gateway);
    assert!(
        fault.contains("another authority that is also called CN=ca"),
        "{fault}"
    );
}

/// Method 14 has the AlgorithmIdentifier of RFC 9881 §2 before the signature.
#[test]
fn auth_names_the_algorithm() {
    for (set, last) in [
        (MlDsa::Set44, 0x11),
        (MlDsa::Set65, 0x12),
        (MlDsa::Set87, 0x13),
    ] {
        let value = DigitalSignature {
            algorithm: crypto::sign::Scheme::MlDsa(set)
                .to_algorithm_identifier()
                .expect("of method 14"),
            signature: vec![7; set.signature_len()],
        };
        let payload = Payload::Authentication(Authentication {
            method: AuthenticationMethod::DigitalSignature,
            value: value.to_value(),
        });
        let body = payload.body();
        assert_eq!(
            body[..18],
            [
                14, 0, 0, 0, 13, 0x30, 11, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, last
            ]
        );
        assert_eq!(body.len(), 18 + set.signature_len());
    }
}
