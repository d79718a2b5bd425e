//! RSA signatures and certificates: both modes, errors, and costs.

use crypto::dh::Group;

use super::failures::doubt_words;
use super::pair::{Pair, Setup, certificate, pattern, preshared, signatures, trust};
use crate::config::{Connection, LocalMethod, RemoteMethod};
use crate::identity::Identity;
use crate::ikev1::fragments::MAX_UNFRAGMENTED;
use crate::time::Calendar;
use crate::work::Task;

const BOTH: [bool; 2] = [false, true];
/// After the test certificates have expired.
const JANUARY_2053: Calendar = Calendar(2_619_000_000);

fn setup(is_aggressive: bool) -> Setup {
    Setup {
        is_aggressive,
        has_certificates: true,
        suites: "aes128-sha256-modp2048",
        ..Setup::default()
    }
}

fn pair(setup: Setup, change: impl FnOnce(&mut Connection, &mut Connection)) -> Pair {
    let (mut station, mut gateway) = (setup.station(), setup.gateway());
    change(&mut station, &mut gateway);
    Pair::new(station, vec![gateway], setup.is_natted)
}

fn fail(setup: Setup, change: impl FnOnce(&mut Connection, &mut Connection)) -> Pair {
    let mut pair = pair(setup, change);
    pair.settle();
    assert!(!pair.is_established());
    pair
}

#[test]
fn both_modes_with_certificates_with_and_without_nat() {
    for suites in [
        "3des-md5-modp1024",
        "aes128-sha1-modp2048",
        "aes256-sha512-modp2048",
    ] {
        for (is_aggressive, is_natted) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let mut pair = Setup {
                suites,
                is_natted,
                ..setup(is_aggressive)
            }
            .pair();
            pair.run();
            pair.assert_established();
            let (i, r) = (
                &pair.i.sa.as_ref().unwrap().0,
                &pair.r.sa.as_ref().unwrap().0,
            );
            assert_eq!(i.identity.to_string(), "gateway.example");
            assert_eq!(r.identity.to_string(), "station@example");
            assert_eq!(r.nat.is_remote, is_natted);
        }
    }
}

#[test]
fn main_mode_carries_the_chain_under_encryption() {
    let mut pair = setup(false).pair();
    pair.run();
    pair.assert_established();
    let i = [
        "main 1: SA VID VID VID VID",           // -->
        "main 3: KE NONCE CERTREQ NAT-D NAT-D", // -->
        "main 5: ID CERT SIG N",                // -->
    ];
    let r = [
        "main 2: SA VID VID VID VID",           // <--
        "main 4: KE NONCE CERTREQ NAT-D NAT-D", // <--
        "main 6: ID CERT CERT SIG",             // <--
    ];
    assert_eq!(pair.i.arrows(), i);
    assert_eq!(pair.r.arrows(), r);
}

#[test]
fn aggressive_mode_carries_the_chain_in_clear() {
    let mut pair = setup(true).pair();
    pair.run();
    pair.assert_established();
    let i = [
        "aggressive 1: SA KE NONCE ID CERTREQ VID VID VID VID", // -->
        "aggressive 3: CERT SIG NAT-D NAT-D N",                 // -->
    ];
    // <--
    let r = ["aggressive 2: SA KE NONCE ID CERT CERT SIG CERTREQ NAT-D NAT-D VID VID VID VID"];
    assert_eq!(pair.i.arrows(), i);
    assert_eq!(pair.r.arrows(), r);
    assert!(pair.r.log[0].message.len() > MAX_UNFRAGMENTED && pair.r.log[0].may_fragment);
}

#[test]
fn one_signature_one_check_and_two_exponentiations() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        pair.run();
        for end in [&pair.i, &pair.r] {
            let costly: Vec<(Task, u64)> = end
                .out
                .work
                .entries()
                .iter()
                .filter(|entry| !matches!(entry.0, Task::Prf(_) | Task::MessageCipher(_)))
                .map(|entry| (entry.0, entry.1))
                .collect();
            let expected = [
                (Task::KeyPair(Group::Modp2048), 1),
                (Task::Agree(Group::Modp2048), 1),
                (Task::Sign(2048), 1),
                (Task::Verify(2048), 1),
            ];
            assert_eq!(costly, expected);
        }
    }
}

#[test]
fn an_authority_that_the_peer_asks_for_does_not_travel() {
    let mut pair = pair(setup(false), |station, _| {
        station.remote.method = RemoteMethod::Signature(trust("mid").into());
    });
    pair.run();
    pair.assert_established();
    assert_eq!(pair.r.arrows()[2], "main 6: ID CERT SIG");
}

#[test]
fn a_life_ends_with_the_certificate() {
    let mut pair = setup(false).pair();
    // Ten minutes before the certificates expire.
    pair.calendar = Calendar(2_572_837_044 - 600);
    pair.run();
    pair.assert_established();
    let lifetime_s = pair.i.sa.unwrap().0.lifetime_s;
    assert!((590..=610).contains(&lifetime_s), "{lifetime_s}");
}

#[test]
fn a_certificate_that_has_expired() {
    for is_aggressive in BOTH {
        let mut pair = setup(is_aggressive).pair();
        pair.calendar = JANUARY_2053;
        pair.settle();
        let (end, subject) = if is_aggressive {
            (&pair.i, "gateway.example")
        } else {
            (&pair.r, "station")
        };
        let expected = format!(
            "{}certificate C=CH, O=Caravan Test, CN={subject} expired at 2051-07-13",
            doubt_words(is_aggressive)
        );
        assert!(end.sentence().starts_with(&expected), "{}", end.sentence());
    }
}

#[test]
fn a_certificate_of_an_unknown_authority() {
    for is_aggressive in BOTH {
        let pair = fail(setup(is_aggressive), |station, _| {
            station.local.method = signatures("intruder", &["intruder"]).0;
        });
        assert_eq!(
            pair.r.sentence(),
            "certificate C=CH, O=Stranger, CN=station was issued by C=CH, O=Stranger, \
             CN=Authority, which is not trusted: its certificate is not configured, and the peer \
             sent none"
        );
        // The intermediate is missing: its subject names an unknown authority.
        let pair = fail(setup(is_aggressive), |_, gateway| {
            gateway.local.method = signatures("gateway", &["gateway"]).0;
        });
        assert_eq!(
            pair.i.sentence(),
            format!(
                "{}certificate C=CH, O=Caravan Test, CN=gateway.example was issued by C=CH, \
                 O=Caravan Test, CN=Intermediate, which is not trusted: its certificate is not \
                 configured, and the peer sent none",
                doubt_words(is_aggressive)
            )
        );
    }
}

#[test]
fn a_certificate_without_its_key() {
    for is_aggressive in BOTH {
        let pair = fail(setup(is_aggressive), |station, _| {
            station.local.method = signatures("intruder", &["station"]).0;
        });
        assert_eq!(
            pair.r.sentence(),
            "the signature of station@example is wrong: the signature does not belong to this \
             key and hash"
        );
    }
}

#[test]
fn an_identity_that_the_certificate_does_not_name() {
    for is_aggressive in BOTH {
        let pair = fail(setup(is_aggressive), |station, _| {
            station.local.identity = Identity::parse("director@example").unwrap();
        });
        assert_eq!(
            pair.r.sentence(),
            "the peer identifies itself as director@example, which its certificate C=CH, \
             O=Caravan Test, CN=station does not name; it names C=CH, O=Caravan Test, CN=station, \
             station@example"
        );
        let pair = fail(setup(is_aggressive), |_, gateway| {
            gateway.remote.identities = vec![pattern("director@example")];
        });
        assert_eq!(
            pair.r.sentence(),
            "the peer identifies itself as station@example; we accept director@example"
        );
    }
}

#[test]
fn no_certificate_at_all() {
    for is_aggressive in BOTH {
        let pair = fail(setup(is_aggressive), |station, _| {
            if let LocalMethod::Signature { chain, .. } = &mut station.local.method {
                chain.clear();
            }
        });
        assert_eq!(pair.r.sentence(), "the peer sent no certificate");
    }
}

#[test]
fn the_subject_is_an_identity() {
    let mut pair = pair(setup(true), |station, gateway| {
        let subject = certificate("station").subject_der();
        station.local.identity = Identity::DistinguishedName(subject);
        gateway.remote.identities = vec![pattern("C=CH, O=Caravan Test, CN=*")];
    });
    pair.run();
    pair.assert_established();
    let identity = pair.r.sa.unwrap().0.identity.to_string();
    assert_eq!(identity, "C=CH, O=Caravan Test, CN=station");
}

#[test]
fn another_method() {
    for is_aggressive in BOTH {
        let pair = fail(setup(is_aggressive), |station, _| {
            (station.local.method, station.remote.method) = preshared("secret");
        });
        assert_eq!(
            pair.r.sentence(),
            "no authentication method in common: the peer offers a pre-shared key; we accept \
             RSA signatures"
        );
    }
}

#[test]
fn messages_with_certificates_cut_at_every_length_are_dropped() {
    let mut pair = Setup {
        suites: "aes128-sha1-modp768",
        ..setup(true)
    }
    .pair();
    while let Some((to_responder, sent)) = pair.next() {
        for len in 28..sent.message.len() {
            let mut cut = sent.clone();
            cut.message.truncate(len);
            cut.message[24..28].copy_from_slice(&(len as u32).to_be_bytes());
            pair.deliver(to_responder, &cut);
        }
        pair.deliver(to_responder, &sent);
    }
    pair.assert_established();
}
