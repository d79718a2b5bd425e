//! What a reading Host, a lying Host and a lying issuer can do, and what they cannot. Each sentence
//! of `docs/design/agents.md` on it is a test.

use crypto::ed25519::{Signature, SigningKey};
use crypto::hpke::{PublicKey, SecretKey};
use wire::agent::{
    Authorization, Fresh, Kind, Message, Ppk, Referral, Request, Response, Sealed, Tunneling,
    Verdict,
};

use super::world::*;
use crate::agent::audit::{Step, Why};
use crate::agent::bond::Bond;
use crate::agent::client::Outcome;
use crate::agent::envelope::{self, Use};
use crate::agent::host::{Discard, Half, State, WRONG_USERS_MAX};
use crate::agent::identity::Keys;
use crate::agent::legacy::Pair;
use crate::agent::objectives::{Options, SecurityOption};
use crate::time::Duration;

/// All clear texts that somebody with this key can get from the wire, and the parts in them.
fn readable(world: &World, with: &SecretKey) -> Vec<Vec<u8>> {
    let mut clear = Vec::new();
    let labels = world
        .sent
        .iter()
        .filter_map(|(.., payload)| match Message::parse(payload) {
            Ok(Message::Sealed(sealed)) => Some(sealed.label),
            _ => None,
        });
    let labels: Vec<[u8; 16]> = labels.collect();
    for (.., payload) in &world.sent {
        let Ok(Message::Sealed(sealed)) = Message::parse(payload) else {
            continue;
        };
        let Ok(opened) = envelope::open(&sealed, with) else {
            continue;
        };
        let part = match sealed.kind {
            Kind::Authorization => Authorization::parse(&opened.body).unwrap().part,
            Kind::Response => Response::parse(&opened.body).unwrap().part,
            _ => Vec::new(),
        };
        if let Some((encapsulated, ciphertext)) = part.split_first_chunk::<32>() {
            for label in &labels {
                let sealed = (*encapsulated, ciphertext);
                let part = envelope::open_part(Use::Part, label, sealed, with);
                clear.extend(part.ok().map(|it| it.body.to_vec()));
            }
        }
        clear.push(opened.body.to_vec());
    }
    clear
}

fn contains(texts: &[Vec<u8>], what: &[u8]) -> bool {
    let has = |text: &Vec<u8>| text.windows(what.len()).any(|it| it == what);
    texts.iter().any(has)
}

#[test]
fn a_reading_host_learns_who_and_when_but_neither_where_nor_the_tunnels_key() {
    let mut world = World::new(20);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[seat].was_up);
    let read = readable(&world, &host_keys().sealing);
    assert!(contains(&read, USER.as_bytes()));
    for secret in ["target.example", "aes128gcm16", "certificate of"] {
        assert!(!contains(&read, secret.as_bytes()), "{secret}");
    }
    // Host holds the public half of the one-time key alone, and what Client made for the tunnel
    // is public too.
    assert!(contains(&read, b"key of seat 0"));
}

/// The weakness of the paper's own form that matters most.
#[test]
fn a_reading_host_learns_the_session_key_of_the_papers_form() {
    let mut world = World::new(21);
    world.accepts_legacy = true;
    world.boot();
    let key = world.shared(9);
    let seat = world.sit(9, |config| config.pair = Some(World::pair(&key)));
    world.run(Duration::from_secs(5));
    let session_key = world.seats[seat].session_key.expect("a session key");
    let read = readable(&world, &host_keys().sealing);
    assert!(contains(&read, &session_key));
    // And whoever finds the sheet later.
    let found = readable(&world, &World::pair(&key).sealing);
    assert!(contains(&found, &session_key));
}

/// A request of the user, as Host reads it.
struct Heard {
    request: Request,
    body: Vec<u8>,
    signature: Signature,
}

fn heard(world: &World) -> Heard {
    let Ok(Message::Sealed(sealed)) = Message::parse(&world.sent[0].2) else {
        panic!("no request");
    };
    let opened = envelope::open(&sealed, &host_keys().sealing).unwrap();
    Heard {
        request: Request::parse(&opened.body).unwrap(),
        body: opened.body.to_vec(),
        signature: opened.signature,
    }
}

/// Seals and signs with Host's keys.
fn by_host(kind: Kind, label: [u8; 16], to: PublicKey, body: &[u8]) -> Vec<u8> {
    let mut random = random(77, "lying host", u64::from(label[0]));
    let keys = host_keys();
    let sealed: Option<Sealed> = envelope::seal(kind, label, to, body, &keys.signing, &mut random);
    sealed.unwrap().to_vec()
}

/// The same to Target, proven.
pub(super) fn by_host_to_target(world: &World, kind: Kind, body: &[u8]) -> Vec<u8> {
    let host = host_keys().identity().name().0;
    let to = target_keys().identity();
    let payload = by_host(kind, host, to.sealing, body);
    let Ok(Message::Sealed(sealed)) = Message::parse(&payload) else {
        panic!("no message");
    };
    let bond = Bond::new(&host_keys(), &to).unwrap();
    bond.prove(&sealed, world.milliseconds(1))
}

/// Host has its own part for Client: a tunnel to a machine of its choice.
fn false_part(heard: &Heard, keys: &Keys) -> Vec<u8> {
    let identity = keys.identity();
    let tunneling = Tunneling {
        sealing_key: identity.sealing.0,
        signing_key: identity.signing.0,
        option: 4,
        ike_version: 2,
        has_ppk: false,
        until: TODAY.0 as u64 + 600,
        addresses: vec![[198, 51, 100, 66].into()],
        networks: Vec::new(),
        proposals: Vec::new(),
        target_identity: "target.example".into(),
        client_identity: "alice@host.example".into(),
        target_chain: Vec::new(),
        client_chain: vec![b"certificate of key of seat 0".to_vec()],
    };
    let digest = envelope::request_digest(&heard.body, &heard.signature);
    let body = [&digest.0[..], &tunneling.to_vec().unwrap()].concat();
    let to = PublicKey(heard.request.fresh.as_ref().unwrap().sealing_key);
    let label = heard.request.request_id;
    let octets = envelope::signed_octets(Use::Part, &label, to, &body);
    let signature = keys.signing.sign(&[&octets]);
    let mut random = random(78, "lying host", 0);
    let signed = (&body[..], &signature);
    let (encapsulated, ciphertext) =
        envelope::seal_signed(Use::Part, label, to, signed, &mut random).unwrap();
    [&encapsulated[..], &ciphertext].concat()
}

fn respond(world: &mut World, heard: &Heard, part: Vec<u8>) {
    let digest = envelope::request_digest(&heard.body, &heard.signature);
    let body = Response {
        request: digest.0,
        verdict: Verdict::Granted,
        time: TODAY.0 as u64,
        part,
    }
    .to_vec();
    let to = PublicKey(heard.request.fresh.as_ref().unwrap().sealing_key);
    let payload = by_host(Kind::Response, heard.request.request_id, to, &body);
    world.deliver(Node::Client(0), address(Node::Host(0)), &payload);
}

/// A world in which Host hears the request and does something else with it.
fn waiting() -> (World, Heard) {
    let mut world = World::new(22);
    world.boot();
    world.hosts = vec![None, None];
    world.sit(1, |_| {});
    world.run(Duration::from_millis(100));
    let heard = heard(&world);
    (world, heard)
}

#[test]
fn a_lying_host_cannot_lead_client_elsewhere() {
    let (mut world, heard) = waiting();
    let part = false_part(&heard, &host_keys());
    respond(&mut world, &heard, part);
    world.run(Duration::from_secs(3));
    let refused = Some(Outcome::Refused(Why::FalseTarget, None));
    assert_eq!(world.seats[0].outcome, refused);
    assert_eq!(world.seats[0].tunnel, None);
    // The same from the Target on the sheet is taken: the fingerprint decides.
    let (mut world, heard) = waiting();
    let part = false_part(&heard, &target_keys());
    respond(&mut world, &heard, part);
    world.run(Duration::from_millis(100));
    assert!(world.seats[0].tunnel.is_some());
}

#[test]
fn a_lying_host_cannot_change_or_reuse_targets_part() {
    let (mut world, first) = waiting();
    let mut part = false_part(&first, &target_keys());
    *part.last_mut().unwrap() ^= 1;
    respond(&mut world, &first, part);
    let refused = Some(Outcome::Refused(Why::FalseTarget, None));
    assert_eq!(world.seats[0].outcome, refused);
    // A part that Target has made for another request of the same user.
    let other = false_part(&first, &target_keys());
    let mut world = World::new(23);
    world.boot();
    world.hosts = vec![None, None];
    world.sit(1, |_| {});
    world.run(Duration::from_millis(100));
    let second = heard(&world);
    respond(&mut world, &second, other);
    assert_eq!(world.seats[0].outcome, refused);
}

/// Refers a request to Target by Host's own hand.
fn refer(world: &mut World, key: &SigningKey, request: &Request, by: &SigningKey) {
    refer_with(world, key, request, by, Some(Ppk(&[66; 32])));
}

/// The same, with this PPK.
fn refer_with(
    world: &mut World,
    key: &SigningKey,
    request: &Request,
    by: &SigningKey,
    ppk: Option<Ppk<'_>>,
) {
    let body = request.to_vec();
    let label = [66; 16];
    let what = Use::Message(Kind::Request);
    let to = host_keys().identity().sealing;
    let octets = envelope::signed_octets(what, &label, to, &body);
    let referral = Referral {
        handle: label,
        key: key.public().0,
        time: TODAY.0 as u64,
        request: body,
        signature: by.sign(&[&octets]).0,
        ppk,
    };
    let payload = by_host_to_target(world, Kind::Referral, &referral.to_vec());
    world.deliver(Node::Target, address(Node::Host(0)), &payload);
    world.run(Duration::from_secs(3));
}

/// It answers for its users: so it can come in as one. Target's log has the key, and a membership
/// that enrols keys keeps it out.
#[test]
fn a_lying_host_can_come_in_itself_unless_keys_are_enrolled() {
    for is_enrolled in [false, true] {
        let (mut world, heard) = waiting();
        if is_enrolled {
            world.enrolled = Some([key_digest(&one_time(1))].into());
        }
        let own = one_time(200);
        let request = Request {
            fresh: Some(Fresh {
                sealing_key: SecretKey::of(&[5; 32]).public().0,
                tunnel_key: b"key of the host".to_vec(),
            }),
            ..heard.request
        };
        refer(&mut world, &own, &request, &own);
        assert_eq!(world.ends.len(), usize::from(!is_enrolled));
        let refused = world.told(Step::Refused, Why::KeyNotEnrolled);
        assert_eq!(refused, usize::from(is_enrolled));
        let mut told = world.log.iter().filter(|it| it.step == Step::Admitted);
        let key = told.next().map(|it| it.key.unwrap().0);
        assert_eq!(key, (!is_enrolled).then_some([66; 16]));
    }
}

#[test]
fn a_lying_host_cannot_put_its_own_keys_into_a_users_request() {
    let (mut world, heard) = waiting();
    let request = Request {
        fresh: Some(Fresh {
            sealing_key: SecretKey::of(&[5; 32]).public().0,
            tunnel_key: b"key of the host".to_vec(),
        }),
        ..heard.request
    };
    refer(&mut world, &one_time(1), &request, &one_time(200));
    assert!(world.ends.is_empty());
    assert_eq!(world.told(Step::Refused, Why::WrongSignature), 1);
}

/// The user's signed request says that there is a PPK: Host can spend the key, and no more.
#[test]
fn a_lying_host_cannot_take_the_ppk_away_or_put_its_own() {
    let (mut world, heard) = waiting();
    let key = one_time(1);
    refer_with(&mut world, &key, &heard.request, &key, None);
    assert!(world.ends.is_empty());
    assert_eq!(world.told(Step::Refused, Why::NoPpk), 1);
    let (mut world, heard) = waiting();
    refer_with(&mut world, &key, &heard.request, &key, Some(Ppk(&[66; 32])));
    let ends: Vec<_> = world.ends.values().collect();
    let of_host = ends[0].ppk.as_ref().map(|ppk| *ppk.octets());
    assert_eq!(of_host, Some([66; 32]));
    // Client never uses it: it derives its own.
    let own = key_ppk(1).of_tunnel(ends[0].tunnel);
    assert_ne!(of_host, Some(*own.octets()));
}

#[test]
fn a_lying_host_cannot_make_a_second_tunnel_with_a_key() {
    let mut world = World::new(24);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert_eq!(world.ends.len(), 1);
    // The database forgets that the key was used; the user comes again.
    let record = world.keys.get_mut(&handle(1)).unwrap();
    (record.state, record.ppk) = (State::Valid, Some(key_ppk(1)));
    let again = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(!world.seats[again].was_up);
    assert_eq!(world.told(Step::Refused, Why::Replayed), 1);
    let tunnels: usize = world.ever.values().map(|it| it.len()).sum();
    assert_eq!(tunnels, 1);
}

/// It says that an enrolled key is a shared pair, so that nobody asks for the user's signature.
#[test]
fn a_lying_host_cannot_void_enrolment_by_the_papers_form() {
    for is_enrolled in [true, false] {
        let (mut world, heard) = waiting();
        world.accepts_legacy = true;
        world.boot();
        world.hosts = vec![None, None];
        if is_enrolled {
            world.enrolled = Some([key_digest(&one_time(1))].into());
        }
        let request = Request {
            fresh: None,
            ..heard.request
        };
        refer(&mut world, &one_time(1), &request, &one_time(200));
        // Without enrolment Host comes in, as the weaknesses of the form say.
        assert_eq!(world.ends.len(), usize::from(!is_enrolled));
        let refused = world.told(Step::Refused, Why::KeyNotEnrolled);
        assert_eq!(refused, usize::from(is_enrolled));
    }
}

/// The issuer has kept a copy of the secret. It can use the key, and the user finds it used; it can
/// read nothing of what the user has done with it.
#[test]
fn a_lying_issuer_with_a_copy_can_use_the_key_but_not_read_the_users_tunnel() {
    let mut world = World::new(25);
    world.boot();
    let user = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[user].was_up);
    let secret = [101; 32];
    assert_eq!(one_time(1).secret(), &secret);
    for key in [SecretKey::of(&secret), Pair::of(&secret).sealing] {
        assert!(readable(&world, &key).is_empty());
    }
    let mut world = World::new(26);
    world.boot();
    let issuer = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let user = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[issuer].was_up && !world.seats[user].was_up);
    let outcome = world.seats[user].outcome;
    assert!(matches!(outcome, Some(Outcome::Refused(Why::KeyUsed, _))));
}

/// The issuer has printed another Target. Host knows none of that name, and the key stays valid.
/// With Host's help the user is led there: who prints the sheet and runs Host decides where it
/// leads, so the fingerprint is to be compared with Target's own word.
#[test]
fn a_lying_issuer_can_print_another_target_which_only_a_host_of_its_own_serves() {
    let impostor = || Keys::generate(&mut random(9, "impostor", 0));
    let mut world = World::new(27);
    world.boot();
    let seat = world.sit(1, |it| it.head.target = impostor().identity().fingerprint());
    world.run(Duration::from_secs(5));
    let outcome = world.seats[seat].outcome;
    let misdirected = Some(Verdict::Misdirected);
    assert_eq!(
        outcome,
        Some(Outcome::Refused(Why::HostRefused, misdirected))
    );
    assert!(world.keys[&handle(1)].state == State::Valid);
    let mut world = World::new(28);
    world.boot();
    world.hosts = vec![None, None];
    world.sit(1, |it| it.head.target = impostor().identity().fingerprint());
    world.run(Duration::from_millis(100));
    let heard = heard(&world);
    let part = false_part(&heard, &impostor());
    respond(&mut world, &heard, part);
    assert!(world.seats[0].tunnel.is_some());
}

/// Target could not do the option, so the key is valid. Whoever has recorded the request sends it
/// again once Target can: to the Host that was restarted, and to the other one.
#[test]
fn a_refused_request_spends_no_key_later() {
    let mut world = World::new(30);
    world.options = [SecurityOption::Esp].into_iter().collect();
    world.boot();
    let seat = world.sit(1, |it| it.head.addresses.truncate(1));
    world.run(Duration::from_secs(5));
    let outcome = world.seats[seat].outcome;
    assert!(matches!(
        outcome,
        Some(Outcome::Refused(Why::OptionNotAtTarget, _))
    ));
    let request = world.sent[0].2.clone();
    world.options = Options::ALL;
    world.boot();
    for host in [0, 1] {
        world.deliver(Node::Host(host), address(Node::Client(seat)), &request);
        world.run(Duration::from_secs(20));
    }
    assert!(world.keys[&handle(1)].state == State::Valid);
    assert_eq!(world.told(Step::Refused, Why::RefusedBefore), 2);
    assert!(world.ever.is_empty());
    // The user has lost nothing.
    let again = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[again].was_up);
}

/// Whoever has found a sheet tries names. With a used key he is told the same for every name, and
/// a valid one is revoked after a few.
#[test]
fn a_thief_of_a_key_cannot_try_out_names() {
    let mut world = World::new(31);
    world.boot();
    let names: Vec<String> = (0..=WRONG_USERS_MAX)
        .map(|it| format!("user{it}"))
        .collect();
    let refused = |world: &World, seat: usize| match world.seats[seat].outcome {
        Some(Outcome::Refused(_, verdict)) => verdict,
        other => panic!("{other:?}"),
    };
    for (number, name) in names.iter().enumerate() {
        let seat = world.sit(1, |it| it.user.clone_from(name));
        world.run(Duration::from_secs(5));
        let is_last = number == names.len() - 1;
        let verdict = if is_last {
            Verdict::KeyRevoked
        } else {
            Verdict::Denied
        };
        assert_eq!(refused(&world, seat), Some(verdict), "{name}");
    }
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert_eq!(refused(&world, seat), Some(Verdict::KeyRevoked));
    world.issue(2, Half::Public(one_time(2).public()));
    world.sit(2, |_| {});
    world.run(Duration::from_secs(5));
    assert_eq!(world.ends.len(), 1);
    for name in ["mallory", USER] {
        let seat = world.sit(2, |it| it.user = name.into());
        world.run(Duration::from_secs(5));
        assert_eq!(refused(&world, seat), Some(Verdict::KeyUsed), "{name}");
    }
}

/// A used key is as good as none: no more look-ups than a stranger has, and few lines of the log.
#[test]
fn the_holder_of_a_used_key_cannot_flood_host_or_its_log() {
    const COUNT: u32 = 1_000;
    let mut world = World::new(32);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let first = heard(&world).request;
    let lines = world.log.len();
    let (label, to) = (handle(1).0, host_keys().identity().sealing);
    let mut random = random(79, "holder", 0);
    for number in 0..COUNT {
        let request = Request {
            user_id: format!("user{number}"),
            ..first.clone()
        };
        let (kind, body) = (Kind::Request, request.to_vec());
        let sealed = envelope::seal(kind, label, to, &body, &one_time(1), &mut random);
        let from = ([198, 51, 100, 7], 7).into();
        world.deliver(Node::Host(0), from, &sealed.unwrap().to_vec());
        // Time goes by, so that the database answers each one.
        world.run(Duration::from_micros(500));
    }
    world.run(Duration::from_secs(130));
    let drops = world.hosts[0].as_ref().unwrap().drops();
    assert!(
        drops[&Discard::NeedsCookie] > u64::from(COUNT * 3 / 4),
        "{drops:?}"
    );
    let refused: Vec<_> = world.log[lines..]
        .iter()
        .filter(|it| it.step == Step::Refused)
        .collect();
    assert!((16..40).contains(&refused.len()), "{}", refused.len());
    // Nothing is left out without being counted.
    let unlogged: u64 = refused.iter().map(|it| it.unlogged).sum();
    let logged = refused.iter().filter(|it| it.key.is_some()).count() as u64;
    assert_eq!(
        unlogged + logged + drops[&Discard::NeedsCookie],
        u64::from(COUNT)
    );
}

/// Somebody near Client copies its request and sends it from another address, before Client's comes
/// or after it. He gets a cookie, and with that no more than octets for Client; Client has its
/// tunnel.
#[test]
fn a_copied_request_takes_nobody_s_answer_away() {
    let thief = ([198, 51, 100, 7], 7).into();
    for (is_first, shows_cookie) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut world = World::new(33);
        world.boot();
        let seat = world.sit(1, |it| it.head.addresses.truncate(1));
        let host = Node::Host(0);
        let client = address(Node::Client(seat));
        world.run(Duration::from_millis(55));
        let mut request = world.sent[0].2.clone();
        if !is_first {
            world.run(Duration::from_millis(12));
        }
        world.deliver(host, thief, &request);
        let to_thief = |world: &World| -> Vec<Vec<u8>> {
            let sent = world.sent.iter().filter(|(_, to, _)| *to == thief);
            sent.map(|(.., payload)| payload.clone()).collect()
        };
        world.run(Duration::from_millis(15));
        if !is_first {
            let told = to_thief(&world);
            let Ok(Message::Retry(retry)) = Message::parse(&told[0]) else {
                panic!("the thief is told more than a cookie");
            };
            if shows_cookie {
                request[5] = 16;
                request.splice(6..6, retry.cookie);
                world.deliver(host, thief, &request);
            }
        }
        world.run(Duration::from_secs(5));
        assert!(world.seats[seat].was_up, "{is_first} {shows_cookie}");
        assert_eq!(world.ends.len(), 1);
        let answers = world.sent.iter().filter(|(from, to, payload)| {
            let is_response = matches!(
                Message::parse(payload),
                Ok(Message::Sealed(sealed)) if sealed.kind == Kind::Response
            );
            *from == host && *to == client && is_response
        });
        assert!(answers.count() >= 1, "{is_first} {shows_cookie}");
        if !is_first && !shows_cookie {
            assert_eq!(to_thief(&world).len(), 1);
        }
    }
}

/// Everything that was ever sent, again, to everybody and in reverse.
#[test]
fn a_stranger_who_repeats_everything_gets_and_changes_nothing() {
    let mut world = World::new(29);
    world.boot();
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    let sent = world.sent.clone();
    let events = world.log.len();
    let nodes = [Node::Client(0), Node::Host(0), Node::Host(1), Node::Target];
    for (from, _, payload) in sent.iter().rev() {
        for node in nodes {
            world.deliver(node, address(*from), payload);
            world.deliver(node, ([198, 51, 100, 9], 9).into(), payload);
        }
    }
    world.run(Duration::from_secs(5));
    assert_eq!((world.ends.len(), world.log.len()), (1, events));
    assert!(world.seats[0].tunnel.is_some());
    world.check();
}
