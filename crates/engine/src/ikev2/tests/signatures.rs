//! Proofs by certificates of every kind of key: by method 14, and by the methods that need no
//! announcement of hashes, for and by ends that announce none (RFC 7296 §3.8, RFC 4754, RFC 7427,
//! RFC 8420).

use std::sync::Arc;

use crypto::hash::Hash;
use wire::ikev2::{AuthenticationMethod as Method, HashAlgorithm, NotifyType, Payload};

use super::post_quantum::{rewrite, without};
use super::world::{PASSWORD, Proof, Setup, Who, World};
use crate::ikev2::Abilities;
use crate::ikev2::auth::{Signed, prove};
use crate::sa::Secret;
use crate::work::Work;
use Who::{Gateway, Station};

const CURVES: [&str; 4] = ["p256", "p384", "p521", "ed25519"];

fn setup(station: Proof, gateway: Proof) -> Setup {
    Setup {
        station,
        gateway,
        ..Setup::default()
    }
}

/// These ends, the station first, announce no hashes. AUTH covers what they say in place of it.
fn silent(mut world: World, ends: [bool; 2]) -> World {
    for (who, is_silent) in Who::BOTH.into_iter().zip(ends) {
        let mut first = world.hold(who.other());
        if is_silent {
            rewrite(&mut first[0], |chain| {
                without(chain, NotifyType::SignatureHashAlgorithms);
            });
            let session = world.end(who).session.as_mut().expect("a session");
            session.own_first().clone_from(&first[0].octets);
        }
        world.release(who.other(), first);
        assert!(world.deliver(who.other()));
    }
    world.run();
    world
}

fn has_certificates(world: &World) -> bool {
    let mut ends = [&world.station, &world.gateway].into_iter();
    ends.all(|end| {
        let session = end.session.as_ref().expect("a session");
        session.certificate().is_some()
    })
}

#[test]
fn both_ends_prove_themselves_with_every_kind_of_key() {
    for curve in CURVES {
        let proof = Proof::Curve(curve);
        for (station, gateway) in [
            (proof, proof),
            (proof, Proof::Certificate),
            (Proof::Certificate, proof),
        ] {
            let mut world = setup(station, gateway).established();
            assert!(has_certificates(&world), "{curve}");
            world.rekey_ike(Gateway);
            world.pass(5);
            world.assert_agreed(1);
        }
        let world = setup(proof, Proof::Key("secret")).established();
        let session = world.gateway.session.as_ref().expect("a session");
        assert!(session.certificate().is_some());
    }
}

#[test]
fn ecdsa_needs_no_announcement_of_hashes() {
    for curve in ["p256", "p384", "p521"] {
        let setup = setup(Proof::Curve(curve), Proof::Curve(curve));
        for ends in [[true, false], [false, true], [true, true]] {
            let mut world = silent(setup.world(), ends);
            world.assert_agreed(1);
            assert!(has_certificates(&world));
        }
    }
}

#[test]
fn ed25519_does() {
    let setup = setup(Proof::Curve("ed25519"), Proof::Curve("ed25519"));
    // The end that would have to sign for one that is silent.
    for (ends, signs) in [([true, false], Gateway), ([false, true], Station)] {
        let mut world = silent(setup.world(), ends);
        let fault = world.fault(signs);
        let needs = "reads no signature that our key makes";
        assert!(fault.contains(needs), "{fault}");
        world.pass(60);
        world.assert_over();
    }
}

/// The method of AUTH that an end with this setup makes for a peer with these hashes, and its
/// value.
fn made(proof: Proof, hashes: Option<Vec<HashAlgorithm>>) -> (Method, Vec<u8>) {
    let mut world = setup(proof, proof).world();
    let signed = Signed {
        other: None,
        message: b"message",
        nonce: b"nonce",
        prf: Hash::Sha256,
        p: &Secret(vec![1; 32]),
        id: b"identity",
        between: &[],
    };
    let peer = Abilities {
        hashes,
        ..Abilities::default()
    };
    let end = &mut world.station;
    let (random, work) = (&mut end.random, &mut Work::default());
    let chain = prove(&end.connection, signed, &peer, random, work).expect("a proof");
    let Some(Payload::Authentication(auth)) = chain.into_iter().last() else {
        panic!("AUTH is the last");
    };
    (auth.method, auth.value)
}

#[test]
fn the_methods_have_the_numbers_and_forms_of_their_rfcs() {
    // RFC 4754 §2 and §3: each curve has its method and hash, and a value of two numbers.
    for (curve, number, len) in [("p256", 9, 64), ("p384", 10, 96), ("p521", 11, 132)] {
        let (method, value) = made(Proof::Curve(curve), None);
        assert_eq!((method.number(), value.len()), (number, len), "{curve}");
    }
    // RFC 7427 §3 and RFC 8420 §2: an AlgorithmIdentifier comes first.
    let all = |it: &[HashAlgorithm]| Some(it.to_vec());
    for (curve, hashes, hash) in [
        ("p256", all(&[HashAlgorithm::Sha2_256]), 2),
        ("p384", all(&[HashAlgorithm::Sha2_384]), 3),
        ("p521", all(&[HashAlgorithm::Sha2_512]), 4),
        ("p521", all(&[HashAlgorithm::Sha2_256]), 2),
    ] {
        let (method, value) = made(Proof::Curve(curve), hashes);
        assert_eq!(method.number(), 14, "{curve}");
        // ecdsa-with-SHA256, SHA384 and SHA512: 1.2.840.10045.4.3.{2, 3, 4}.
        let identifier = [12, 0x30, 10, 6, 8, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 3, hash];
        assert_eq!(value[..13], identifier, "{curve}");
    }
    let hashes = all(&[HashAlgorithm::Sha2_256, HashAlgorithm::Identity]);
    let (method, value) = made(Proof::Curve("ed25519"), hashes);
    assert_eq!(method.number(), 14);
    assert_eq!(value[..8], [7, 0x30, 5, 6, 3, 0x2B, 0x65, 0x70]);
    assert_eq!(value.len(), 8 + 64);
}

#[test]
fn a_hash_that_the_peer_does_not_announce_is_not_used() {
    let (method, value) = made(
        Proof::Certificate,
        Some(vec![HashAlgorithm::Sha2_512, HashAlgorithm::Sha1]),
    );
    assert_eq!(method.number(), 14);
    // id-sha512 within RSASSA-PSS-params: 2.16.840.1.101.3.4.2.3.
    let sha_512 = [6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3];
    assert!(value.windows(11).any(|it| it == sha_512));
}

/// Both ends have keys of RSA. `takes`: whether each takes SHA-1, the station first.
fn by_rsa(takes: [bool; 2], is_silent: [bool; 2]) -> World {
    let setup = setup(Proof::Certificate, Proof::Certificate);
    silent(signing(&setup, takes), is_silent)
}

/// The station has begun. `takes`: whether each end takes SHA-1, the station first.
fn signing(setup: &Setup, takes: [bool; 2]) -> World {
    let connection = |is_station, takes_rsa_sha1| {
        let mut connection = setup.connection(is_station);
        connection.takes_rsa_sha1 = takes_rsa_sha1;
        Arc::new(connection)
    };
    let mut world = setup.world();
    world.gateway.connection = connection(false, takes[1]);
    world.begun_by(connection(true, takes[0]))
}

#[test]
fn sha_1_is_for_ends_that_announce_no_hashes_alone() {
    let needs = "reads no signature that our key makes";
    // Both announce none, and both take it.
    let mut world = by_rsa([true; 2], [true; 2]);
    world.assert_agreed(1);
    for who in Who::BOTH {
        let session = world.end(who).session.as_ref().expect("a session");
        assert!(session.has_signed_sha1(), "{who:?}");
        assert!(session.certificate().is_some());
    }
    // Both announce some, and both would take it: neither uses it.
    let mut world = by_rsa([true; 2], [false; 2]);
    world.assert_agreed(1);
    for who in Who::BOTH {
        let session = world.end(who).session.as_ref().expect("a session");
        assert!(!session.has_signed_sha1(), "{who:?}");
    }
    // Who announces hashes and signs with SHA-1 nevertheless is not believed.
    let better = "the peer signs with SHA-1, although it announces better hashes";
    for (is_silent, checks) in [([false, true], Gateway), ([true, false], Station)] {
        let mut world = by_rsa([true; 2], is_silent);
        assert_eq!(world.fault(checks), better);
        assert!(world.end(checks).session.is_none());
    }
    // One end has a pre-shared key: it believes the other's, which alone signs.
    let key = Proof::Key("secret");
    for (station, gateway) in [(key, Proof::Certificate), (Proof::Certificate, key)] {
        for is_silent in [true, false] {
            let ends = setup(station, gateway);
            let mut world = silent(signing(&ends, [true; 2]), [is_silent; 2]);
            world.assert_agreed(1);
            for who in Who::BOTH {
                let session = world.end(who).session.as_ref().expect("a session");
                assert_eq!(session.has_signed_sha1(), is_silent, "{who:?}");
            }
        }
    }
    // The gateway signs before it asks a user for a password, whose own proof is a key.
    let ends = setup(Proof::Password(PASSWORD), Proof::Certificate);
    let mut world = silent(signing(&ends, [true; 2]), [true; 2]);
    world.assert_agreed(1);
    for who in Who::BOTH {
        let session = world.end(who).session.as_ref().expect("a session");
        assert!(session.has_signed_sha1(), "{who:?}");
    }
    // Who does not take it neither signs so nor believes it.
    let mut world = by_rsa([false, true], [true; 2]);
    let fault = world.fault(Station);
    assert!(fault.contains(needs), "{fault}");
    let mut world = by_rsa([true, false], [true; 2]);
    let fault = world.fault(Gateway);
    assert!(fault.contains("only rsa_sha1 = true accepts"), "{fault}");
}
