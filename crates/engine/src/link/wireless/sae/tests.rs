use crypto::p256::{Point, Scalar};
use crypto::rand::Seed;
use wire::ieee80211::{Address, CommitParts, sae_status};

use super::element::{Password, PasswordToken};
use super::exchange::{Commit, Half};
use super::*;
use crate::counters::DropReason;
use crate::time::{Duration, Instant};
use crate::work::Work;

const A: Address = Address([2, 0, 0, 0, 0, 1]);
const B: Address = Address([2, 0, 0, 0, 0, 2]);

fn hex<const N: usize>(text: &str) -> [u8; N] {
    assert_eq!(text.len(), 2 * N);
    core::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

/// IEEE 802.11-2020 annex J.10: hunting and pecking.
#[test]
fn an_exchange_is_as_published() {
    let ends = [Address(hex("4d3f2fffe387")), Address(hex("a5d8aa958e3c"))];
    let mut work = Work::default();
    let element = Password::new(b"mekmitasdigoat").hunt(ends, &mut work);
    let secret = hex("992465fd3daa3c60aa6565b7f62a2a7f2e12dd12f198faf4fbed89d7ff1ace94");
    let mask = hex("9507a90f777a044d6a0830b91ea3d5dd70bece44e1acffb86983b5e1bf9fb322");
    let (secret, mask) = (Scalar::new(&secret).unwrap(), Scalar::new(&mask).unwrap());
    let half = Half::of(element, secret, &mask, &mut work).unwrap();
    let commit: [u8; 98] = hex(
        "13002e2c0f0db52440ad146d967114ce005ce1eab0aa2c2e5c2871b774f6c257\
         5c65d5ad9e00829707aa36ba8b859738fc961d08243505f47c035376d7ac4bc8\
         d7b95083bf43827d0fc31ed778dd3671fd21a46d1091d64b6f9a1e1272621325\
         dbe1",
    );
    let parts = half.commit.parts(&[]);
    assert_eq!(CommitParts::parse(&commit, false), Ok(parts));
    let peer: [u8; 98] = hex(
        "1300591b96f3397fb945100848e7b550543b6720d88337ee93fc49fd6df7e08b\
         5223e71b9bb048d3873f20556953a96c91536fd8ee6ca9b4a68a148b056a909b\
         e03e83ae208f60f8ef5537858074db06687032399862999b511e0a1552a5fea3\
         17c2",
    );
    let peer = Commit::of(&CommitParts::parse(&peer, false).unwrap())
        .ok()
        .unwrap();
    let shared = half.share(&peer, &mut work).ok().unwrap();
    let master = "4e4dfab1a2dd8ac1a91790f953faaa452ae5c6873ab75b63605ba663f8a7fe59";
    assert_eq!(*shared.master.octets(), hex(master));
    assert_eq!(shared.pmkid, hex("8747a600eea3f9f22475df58ca1e5498"));
    let key: [u8; 32] = hex("1e733f6d9bd53256287304338831b09a39406d121017073a5c30db36f36cb81a");
    let confirm = shared.confirm(1, &half.commit, &peer, &mut work);
    let parts: [&[u8]; 5] = [
        &[1, 0],
        half.commit.scalar.octets(),
        half.commit.element.octets(),
        peer.scalar.octets(),
        peer.element.octets(),
    ];
    let expected = crypto::hash::Hash::Sha256.hmac(&key, &parts);
    assert_eq!(confirm, expected.as_ref());
}

/// IEEE 802.11-2020 annex J.10: hash-to-element.
#[test]
fn a_password_element_is_as_published() {
    let ends = [Address(hex("00095b66ec1e")), Address(hex("000b6bd90246"))];
    let mut work = Work::default();
    let password = Password::new(b"mekmitasdigoat");
    let token: PasswordToken = password.token(b"byteme", b"psk4internet", &mut work);
    let element: Point = token.element(ends, &mut work);
    let expected: [u8; 64] = hex(
        "c93049b9e64000f848201649e999f2b5c22dea69b5632c9df4d633b8aa1f6c1e\
         73634e94b53d82e7383a8d258199d9dc1a5ee8269d060382ccbf33e614ff59a0",
    );
    assert_eq!(*element.octets(), expected);
}

fn methods(password: &str) -> [Method; 2] {
    let password = Password::new(password.as_bytes());
    let token = password.token(b"a network", b"", &mut Work::default());
    [
        Method::HuntingAndPecking(password),
        Method::HashToElement(token),
    ]
}

fn config(method: &Method, [own, peer]: [Address; 2]) -> SaeConfig {
    SaeConfig {
        method: method.clone(),
        own,
        peer,
    }
}

/// A station that has committed, and an access point that has answered.
struct Pair {
    station: Sae,
    access_point: Sae,
    /// Commit and confirm of the access point.
    answers: Vec<Vec<u8>>,
    commit: Vec<u8>,
}

const NOW: Instant = Instant(1_000);

impl Pair {
    fn new(station: &Method, access_point: &Method) -> Self {
        let seed = Seed::new([3; 32]);
        let mut out = SaeOutbox::default();
        let random = &mut seed.stream("station", 0);
        let station = Sae::begin(config(station, [A, B]), random, NOW, &mut out);
        let [commit] = out.bodies.try_into().unwrap();
        let mut out = SaeOutbox::default();
        let random = &mut seed.stream("access point", 0);
        let config = config(access_point, [B, A]);
        let mut gate = TokenGate::new(1, seed.stream("gate", 0));
        let commits = admitted(&mut gate, &commit, access_point);
        let first = commits.expect("a good commit of this method");
        let access_point = Sae::answer(config, first, random, NOW, &mut out);
        assert!(out.result.is_none());
        Self {
            station,
            access_point,
            answers: out.bodies,
            commit,
        }
    }
}

/// What a gate without other exchanges admits.
fn admitted(gate: &mut TokenGate, commit: &[u8], method: &Method) -> Option<FirstCommit> {
    match gate.admit(commit, method.is_hash_to_element(), A, 0, NOW) {
        Ok(Admission::Admitted(first)) => Some(first),
        _ => None,
    }
}

fn given(sae: &mut Sae, body: &[u8]) -> (SaeOutbox, Result<(), DropReason>) {
    let mut out = SaeOutbox::default();
    let handled = sae.handle(body, NOW, &mut out);
    (out, handled)
}

#[test]
fn both_ends_agree_by_both_methods() {
    for method in methods("secret") {
        let mut pair = Pair::new(&method, &method);
        // commit -->, <-- commit, confirm
        let (out, handled) = given(&mut pair.station, &pair.answers[0]);
        assert_eq!(handled, Ok(()));
        let [confirm] = out.bodies.try_into().unwrap();
        // confirm -->
        let (out, handled) = given(&mut pair.access_point, &confirm);
        assert_eq!(handled, Ok(()));
        let theirs = out.result.unwrap().expect("accepted");
        let (out, handled) = given(&mut pair.station, &pair.answers[1]);
        assert_eq!(handled, Ok(()));
        let ours = out.result.unwrap().expect("accepted");
        assert_eq!(ours.master.octets(), theirs.master.octets());
        assert_eq!(ours.pmkid, theirs.pmkid);
        assert!(pair.station.deadline().is_none() && pair.access_point.deadline().is_none());
        // A repeated confirm is answered by a confirm, for a while.
        for answers in [1, 1, 1, 1, 1, 0, 0] {
            let (out, handled) = given(&mut pair.access_point, &confirm);
            assert_eq!(handled, Err(DropReason::RetransmittedMessage));
            assert_eq!((out.bodies.len(), out.result.is_none()), (answers, true));
        }
    }
}

#[test]
fn another_password_is_noticed_by_both() {
    for (ours, theirs) in methods("secret").iter().zip(&methods("Secret")) {
        let mut pair = Pair::new(ours, theirs);
        let (out, _) = given(&mut pair.station, &pair.answers[0]);
        let (end, handled) = given(&mut pair.access_point, &out.bodies[0]);
        assert_eq!(handled, Err(DropReason::AuthenticationFailed));
        assert!(end.result.is_none() && end.bodies.is_empty());
        let (_, handled) = given(&mut pair.station, &pair.answers[1]);
        assert_eq!(handled, Err(DropReason::AuthenticationFailed));
        for sae in [&mut pair.station, &mut pair.access_point] {
            assert_eq!(ended(sae), Some(SaeFailure::WrongPassword));
        }
    }
}

/// How it fails when nothing more comes.
fn ended(sae: &mut Sae) -> Option<SaeFailure> {
    let mut sent = 0;
    while let Some(deadline) = sae.deadline() {
        let mut out = SaeOutbox::default();
        sae.fire(deadline.at, &mut out);
        sent += out.bodies.len();
        if let Some(result) = out.result {
            assert_eq!(sent, 4);
            assert!(sae.deadline().is_none());
            return result.err();
        }
    }
    None
}

#[test]
fn silence_ends_an_exchange() {
    let [method, _] = methods("secret");
    let mut out = SaeOutbox::default();
    let random = &mut Seed::new([1; 32]).stream("x", 0);
    let mut sae = Sae::begin(config(&method, [A, B]), random, NOW, &mut out);
    assert_eq!(sae.deadline().unwrap().at, NOW + Duration::from_millis(40));
    let mut early = SaeOutbox::default();
    sae.fire(NOW, &mut early);
    assert!(early.bodies.is_empty());
    assert_eq!(ended(&mut sae), Some(SaeFailure::NoAnswer));
}

#[test]
fn bad_commits_leave_no_trace() {
    for method in methods("secret") {
        let mut pair = Pair::new(&method, &method);
        let good = pair.answers[0].clone();
        for end in 0..good.len() {
            let (out, handled) = given(&mut pair.station, &good[..end]);
            assert!(handled.is_err() && out.bodies.is_empty(), "{end}");
        }
        // Group, scalar of 1, point not on the curve, our own values.
        let mut group = good.clone();
        group[6] = 20;
        let mut scalar = good.clone();
        scalar[8..40].fill(0);
        scalar[39] = 1;
        let mut element = good.clone();
        element[103] ^= 1;
        for (body, reason) in [
            (&group, DropReason::NoProposalChosen),
            (&scalar, DropReason::BadPublicValue),
            (&element, DropReason::BadPublicValue),
            (&pair.commit.clone(), DropReason::Reflected),
        ] {
            assert_eq!(given(&mut pair.station, body).1, Err(reason));
            assert!(pair.station.drops().of(reason) > 0);
        }
        assert_eq!(given(&mut pair.station, &good).1, Ok(()));
        let mut refusal = [3, 0, 1, 0, 77, 0, 19, 0];
        let refused = given(&mut pair.station, &refusal).1;
        assert_eq!(refused, Err(DropReason::UnexpectedMessage));
        refusal[0] = 0;
        let other = given(&mut pair.station, &refusal).1;
        assert_eq!(other, Err(DropReason::UnexpectedMessage));
    }
}

#[test]
fn a_refusal_ends_what_has_only_begun() {
    let [method, other] = methods("secret");
    let mut out = SaeOutbox::default();
    let random = &mut Seed::new([1; 32]).stream("x", 0);
    let mut sae = Sae::begin(config(&method, [A, B]), random, NOW, &mut out);
    let (out, _) = given(&mut sae, &[3, 0, 1, 0, 77, 0, 19, 0]);
    let failure = out.result.unwrap().err().unwrap();
    assert_eq!(failure, SaeFailure::Refused(sae_status::UNSUPPORTED_GROUP));
    assert_eq!(failure.to_string(), "the peer refuses SAE with status 77");
    // A commit of the other method is no answer.
    let pair = Pair::new(&other, &other);
    let mut out = SaeOutbox::default();
    let mut sae = Sae::begin(config(&method, [A, B]), random, NOW, &mut out);
    let refused = given(&mut sae, &pair.answers[0]).1;
    assert_eq!(refused, Err(DropReason::UnexpectedMessage));
}

#[test]
fn under_a_flood_a_token_comes_first() {
    let mut random = Seed::new([9; 32]).stream("stations", 0);
    let mut gate = TokenGate::new(2, Seed::new([9; 32]).stream("gate", 0));
    for method in methods("secret") {
        let mut out = SaeOutbox::default();
        let mut station = Sae::begin(config(&method, [A, B]), &mut random, NOW, &mut out);
        let commit = out.bodies.pop().unwrap();
        let is_hash_to_element = method.is_hash_to_element();
        let mut admit = |commit: &[u8], station, open| {
            let admitted = gate.admit(commit, is_hash_to_element, station, open, NOW);
            admitted.map(|it| match it {
                Admission::Admitted(_) => None,
                Admission::Refused(body) => Some(body),
            })
        };
        assert_eq!(admit(&commit, A, 1), Ok(None));
        let answer = admit(&commit, A, 2).unwrap();
        let answer = answer.expect("a token is asked for");
        assert_eq!(answer[4], 76);
        let (out, handled) = given(&mut station, &answer);
        assert_eq!(handled, Ok(()));
        let [with_token] = out.bodies.try_into().unwrap();
        assert!(with_token.len() >= commit.len() + TOKEN_LEN);
        assert_eq!(admit(&with_token, A, 2), Ok(None));
        // It is for this address.
        assert!(admit(&with_token, B, 2).unwrap().is_some());
        let again = given(&mut station, &answer).1;
        assert_eq!(again, Err(DropReason::UnexpectedMessage));
        // The exchange goes on with it.
        let config = config(&method, [B, A]);
        let mut out = SaeOutbox::default();
        let first = admitted(&mut gate, &with_token, &method).unwrap();
        Sae::answer(config, first, &mut random, NOW, &mut out);
        assert_eq!(given(&mut station, &out.bodies[0]).1, Ok(()));
        for end in 0..104 {
            let cut = gate.admit(&commit[..end], is_hash_to_element, A, 9, NOW);
            assert!(cut.is_err(), "{end}");
        }
    }
    let other_group = [3, 0, 1, 0, 0, 0, 20, 0];
    let refusal = gate.admit(&other_group, false, A, 0, NOW);
    let Ok(Admission::Refused(body)) = refusal else {
        panic!("it is refused");
    };
    assert_eq!(body, [3, 0, 1, 0, 77, 0, 20, 0]);
}

/// Whoever sends them learns nothing and costs nothing: no machine is made.
#[test]
fn the_gate_refuses_bad_commits() {
    let mut random = Seed::new([9; 32]).stream("stations", 0);
    let mut gate = TokenGate::new(2, Seed::new([9; 32]).stream("gate", 0));
    let [hunt, hash] = methods("secret");
    for (method, other) in [(&hunt, &hash), (&hash, &hunt)] {
        let mut out = SaeOutbox::default();
        Sae::begin(config(method, [A, B]), &mut random, NOW, &mut out);
        let commit = out.bodies.pop().unwrap();
        assert!(admitted(&mut gate, &commit, method).is_some());
        let mut refused = |commit: &[u8], method: &Method| {
            let admitted = gate.admit(commit, method.is_hash_to_element(), A, 0, NOW);
            admitted.err()
        };
        assert_eq!(refused(&commit, other), Some(DropReason::UnexpectedMessage));
        let mut scalar = commit.clone();
        scalar[8..40].fill(0);
        let mut element = commit;
        element[103] ^= 1;
        for bad in [scalar, element] {
            assert_eq!(refused(&bad, method), Some(DropReason::BadPublicValue));
        }
    }
}

#[test]
fn a_token_grows_old() {
    let seed = Seed::new([9; 32]);
    let mut gate = TokenGate::new(0, seed.stream("gate", 0));
    let [method, _] = methods("secret");
    let mut out = SaeOutbox::default();
    let config = config(&method, [A, B]);
    let mut station = Sae::begin(config, &mut seed.stream("station", 0), NOW, &mut out);
    let commit = out.bodies.pop().unwrap();
    let is_hash = method.is_hash_to_element();
    let Ok(Admission::Refused(answer)) = gate.admit(&commit, is_hash, A, 1, NOW) else {
        panic!("a token is asked for");
    };
    let [commit] = given(&mut station, &answer).0.bodies.try_into().unwrap();
    for (after, is_good) in [(0, true), (29, true), (59, true), (61, false), (500, false)] {
        let now = NOW + Duration::from_secs(after);
        let admitted = gate.admit(&commit, is_hash, A, 1, now);
        let is_admitted = matches!(admitted, Ok(Admission::Admitted(_)));
        assert_eq!(is_admitted, is_good, "{after} s");
    }
}
