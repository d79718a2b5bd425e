//! Both ends of EAP against each other, and each against a hostile one.

use std::sync::Arc;

use crypto::mschapv2::NtHash;
use crypto::rand::{Seed, Stream};
use wire::eap::mschapv2::{Request, Response};
use wire::eap::{Eap, EapCode, EapKind};

use super::mschapv2::{authenticator, complaint, success, without_domain};
use super::{
    Asked, Examiner, Login, LoginMethod, MAX_PACKETS, NotAUser, Own, Server, Station, Subject,
    Told, Users,
};
use crate::config::LocalMethod;
use crate::identity::Identity;
use crate::ikev1::tests::pair::{JANUARY_2027, signatures};

const PASSWORD: &str = "clientPass";

fn random() -> Stream {
    Seed::new([3; 32]).stream("eap", 0)
}

fn begin(random: &mut Stream) -> (Server, Eap) {
    let LocalMethod::Signature { key, chain } = signatures("gateway", &["gateway", "mid"]).0 else {
        unreachable!("a certificate");
    };
    let own = Own {
        key: &key,
        chain: &chain,
        now: JANUARY_2027.0,
    };
    let examiner = Examiner {
        users: Some(users()),
        ..Examiner::default()
    };
    Server::begin(&examiner, &own, random).unwrap()
}

fn users() -> Arc<Users> {
    let mut users = Users::default();
    users.add("alice", NtHash::of_password(PASSWORD)).unwrap();
    users
        .add("bob@example.com", NtHash::of_password("bobs"))
        .unwrap();
    Arc::new(users)
}

fn station(user: &str, password: &str) -> Station {
    let login = Login {
        user: user.into(),
        method: LoginMethod::Password(NtHash::of_password(password)),
        server: None,
    };
    Station::new(Arc::new(login), Arc::default(), JANUARY_2027.0)
}

/// What comes of an exchange: the user or why not, and the station's key or why not.
fn outcome(user: &str, password: &str) -> (Result<String, String>, Result<bool, String>) {
    let mut random = random();
    let (mut server, mut packet) = begin(&mut random);
    let mut station = station(user, password);
    let mut verdict = None;
    let mut server_key = None;
    for _ in 0..10 {
        match station.on_packet(&packet, &mut random) {
            Told::Answer(answer) => match server.on_packet(&answer, &mut random) {
                Asked::More(next) => packet = next,
                Asked::Proven(subject, next, key) => {
                    let Subject::User(user) = subject else {
                        panic!("no user");
                    };
                    verdict = Some(Ok(user.to_string()));
                    server_key = Some(key);
                    packet = next;
                }
                Asked::Refused(next, why) => {
                    verdict = Some(Err(why));
                    packet = next;
                }
            },
            Told::Content(key, _) => {
                let is_same = server_key.is_some_and(|own| own.0 == key.0 && own.0.len() == 64);
                return (verdict.expect("a verdict"), Ok(is_same));
            }
            Told::Refused(why) | Told::Over(why) => {
                return (verdict.unwrap_or(Err(String::new())), Err(why));
            }
        }
    }
    panic!("an exchange without end");
}

#[test]
fn a_right_password_gives_both_ends_one_key() {
    for (user, is) in [
        ("alice", "alice"),
        ("Alice", "alice"),
        ("OFFICE\\alice", "alice"),
        ("BOB@Example.com", "bob@example.com"),
    ] {
        let password = if is == "alice" { PASSWORD } else { "bobs" };
        assert_eq!(outcome(user, password), (Ok(is.into()), Ok(true)), "{user}");
    }
}

#[test]
fn a_wrong_password_or_name_is_refused_and_not_asked_again() {
    let told = Err("the gateway refuses the user's name or password".to_owned());
    for (user, password, why) in [
        (
            "alice",
            "ClientPass",
            "the password of user \"alice\" is wrong",
        ),
        ("alice", "", "the password of user \"alice\" is wrong"),
        ("carol", PASSWORD, "there is no user \"carol\""),
        ("", PASSWORD, "there is no user \"\""),
    ] {
        assert_eq!(outcome(user, password), (Err(why.into()), told.clone()));
    }
}

#[test]
fn a_proof_that_does_not_answer_takes_a_try_and_is_no_right_password() {
    for (change, password, is_right) in [(0, PASSWORD, true), (0, "a", false), (1, PASSWORD, false)]
    {
        let mut random = random();
        let (mut server, mut packet) = begin(&mut random);
        let mut station = station("alice", password);
        let Told::Answer(identity) = station.on_packet(&packet, &mut random) else {
            panic!("no identity");
        };
        match server.on_packet(&identity, &mut random) {
            Asked::More(challenge) => packet = challenge,
            _ => panic!("no challenge"),
        }
        let (kind, mut proof) = data(station.on_packet(&packet, &mut random));
        proof[1] ^= change;
        let proof = Eap::of_kind(EapCode::Response, packet.id(), kind, &proof);
        assert!(server.user_of(&proof).is_some());
        let _ = server.on_packet(&proof, &mut random);
        assert_eq!(server.has_right_password(), is_right, "{change} {password}");
    }
}

/// A request of MSCHAPv2.
fn request(request: &Request) -> Eap {
    Eap::of_kind(EapCode::Request, 9, EapKind::MsChapV2, &request.to_data())
}

fn challenge() -> Eap {
    request(&Request::Challenge {
        id: 4,
        challenge: [7; 16],
        name: b"gateway".to_vec(),
    })
}

fn over(told: Told) -> String {
    match told {
        Told::Refused(why) | Told::Over(why) => why,
        Told::Answer(_) => panic!("an answer"),
        Told::Content(..) => panic!("a key"),
    }
}

fn data(told: Told) -> (EapKind, Vec<u8>) {
    match told {
        Told::Answer(packet) => (packet.kind().expect("a response"), packet.data().to_vec()),
        _ => panic!("no answer"),
    }
}

#[test]
fn a_gateway_that_does_not_know_the_password_is_an_impostor() {
    for text in [
        success(&[0; 20]),
        b"S=00".to_vec(),
        b"M=welcome".to_vec(),
        [b"S=", &[b'g'; 40][..]].concat(),
    ] {
        let mut random = random();
        let mut station = station("alice", PASSWORD);
        data(station.on_packet(&challenge(), &mut random));
        let welcome = request(&Request::Success { id: 4, text });
        let why = over(station.on_packet(&welcome, &mut random));
        assert!(why.contains("impostor"), "{why}");
    }
}

#[test]
fn a_success_that_comes_too_early_is_none() {
    let success = Eap::verdict(true, 9);
    let mut random = random();
    let mut fresh = station("alice", PASSWORD);
    let why = over(fresh.on_packet(&success, &mut random));
    assert_eq!(why, "the gateway breaks the order of EAP");
    let mut proving = station("alice", PASSWORD);
    data(proving.on_packet(&challenge(), &mut random));
    let why = over(proving.on_packet(&success, &mut random));
    assert_eq!(why, "the gateway breaks the order of EAP");
}

#[test]
fn a_password_is_proven_once() {
    let mut random = random();
    let mut station = station("alice", PASSWORD);
    data(station.on_packet(&challenge(), &mut random));
    let why = over(station.on_packet(&challenge(), &mut random));
    assert_eq!(why, "the gateway breaks the order of EAP-MSCHAPv2");
}

#[test]
fn other_methods_are_declined_and_notifications_are_read() {
    let mut random = random();
    let mut station = station("alice", PASSWORD);
    let of = |kind, data: &[u8]| Eap::of_kind(EapCode::Request, 1, kind, data);
    let identity = of(EapKind::Identity, b"who?");
    assert_eq!(
        data(station.on_packet(&identity, &mut random)),
        (EapKind::Identity, b"alice".to_vec())
    );
    let notification = of(EapKind::Notification, b"hello");
    assert_eq!(
        data(station.on_packet(&notification, &mut random)),
        (EapKind::Notification, Vec::new())
    );
    for kind in [EapKind::Md5Challenge, EapKind::Tls, EapKind::Expanded] {
        let nak = data(station.on_packet(&of(kind, &[0; 16]), &mut random));
        assert_eq!(nak, (EapKind::Nak, vec![26]));
    }
    // A method has begun: there is no other one after it.
    data(station.on_packet(&challenge(), &mut random));
    let why = over(station.on_packet(&of(EapKind::Md5Challenge, &[0; 16]), &mut random));
    assert_eq!(why, "the gateway changes the method of EAP");
}

#[test]
fn an_exchange_has_an_end_at_both_ends() {
    let mut random = random();
    let mut station = station("alice", PASSWORD);
    let notification = Eap::of_kind(EapCode::Request, 1, EapKind::Notification, b"and on");
    for _ in 0..MAX_PACKETS {
        data(station.on_packet(&notification, &mut random));
    }
    let why = over(station.on_packet(&notification, &mut random));
    assert!(why.contains("more than an exchange"), "{why}");
    let long = Eap::of_kind(EapCode::Request, 1, EapKind::Notification, &[0; 60_000]);
    let mut other = self::station("alice", PASSWORD);
    data(other.on_packet(&long, &mut random));
    over(other.on_packet(&long, &mut random));
}

#[test]
fn a_response_that_does_not_fit_ends_the_exchange() {
    let mut random = random();
    let refused = |asked: Asked| match asked {
        Asked::Refused(packet, why) => {
            assert_eq!(packet.code(), EapCode::Failure);
            why
        }
        _ => panic!("not refused"),
    };
    let of = |id, kind, data: &[u8]| Eap::of_kind(EapCode::Response, id, kind, data);
    // Another identifier, another code, another type.
    let (mut server, asked) = begin(&mut random);
    let other = of(asked.id().wrapping_add(1), EapKind::Identity, b"alice");
    refused(server.on_packet(&other, &mut random));
    let (mut server, asked) = begin(&mut random);
    refused(server.on_packet(&asked, &mut random));
    let (mut server, asked) = begin(&mut random);
    let early = of(asked.id(), EapKind::MsChapV2, &Response::Success.to_data());
    refused(server.on_packet(&early, &mut random));
    // Instead of a proof: a Nak, a success, another challenge's number, octets.
    for response in 0..4 {
        let (mut server, asked) = begin(&mut random);
        let Asked::More(asked) =
            server.on_packet(&of(asked.id(), EapKind::Identity, b""), &mut random)
        else {
            panic!("no challenge");
        };
        let proof = Response::Proof {
            id: asked.id().wrapping_add(1),
            challenge: [0; 16],
            response: [0; 24],
            name: b"alice".to_vec(),
        };
        let (kind, data, why) = match response {
            0 => (EapKind::Nak, vec![13, 21], "numbers 13, 21"),
            1 => (
                EapKind::MsChapV2,
                Response::Success.to_data(),
                "not of our challenge",
            ),
            2 => (EapKind::MsChapV2, proof.to_data(), "not of our challenge"),
            _ => (EapKind::MsChapV2, vec![2; 9], "EAP-MSCHAPv2: "),
        };
        let told = refused(server.on_packet(&of(asked.id(), kind, &data), &mut random));
        assert!(told.contains(why), "{told}");
        // Nothing follows a refusal.
        refused(server.on_packet(&of(asked.id(), kind, &data), &mut random));
    }
}

#[test]
fn failures_are_told_in_our_words() {
    for (text, words) in [
        (&b"E=691 R=0 C=00 V=3 M=x"[..], "name or password"),
        (b"E=648 R=0", "expired"),
        (b"E=647", "disabled"),
        (b"E=99999999999999999999", "a reason of its own"),
        (b"", "a reason of its own"),
    ] {
        assert!(complaint(text).contains(words), "{}", complaint(text));
    }
    assert_eq!(authenticator(&success(&[0xa5; 20])), Some([0xa5; 20]));
    assert_eq!(without_domain(b"A\\B\\carol"), b"carol");
}

#[test]
fn names_of_users_are_plain() {
    for (name, why) in [
        ("", NotAUser::Length),
        (&"a".repeat(65)[..], NotAUser::Length),
        ("a b", NotAUser::Characters),
        ("-alice", NotAUser::Characters),
        ("CN=alice", NotAUser::Characters),
        ("fqdn:alice", NotAUser::Characters),
        ("192.0.2.1", NotAUser::Address),
        ("al\u{ef}ce", NotAUser::Characters),
    ] {
        assert_eq!(Users::identity_of(name), Err(why), "{name}");
    }
    let mut users = Users::default();
    users.add("alice", NtHash::of_password("x")).unwrap();
    let again = users.add("ALICE", NtHash::of_password("y"));
    assert_eq!(again, Err(NotAUser::Taken));
    assert!(users.has(&Identity::parse("Alice").unwrap()));
    assert_eq!(users.len(), 1);
}
