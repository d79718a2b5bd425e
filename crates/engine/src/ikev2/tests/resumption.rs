//! Session resumption (RFC 5723): tickets, what a resumed session is, and tickets that are refused.

use std::sync::Arc;

use crypto::cert::{RevocationRule, TrustStore};
use crypto::ml_dsa::MlDsa;
use wire::ikev2::Notify;

use super::world::{PASSWORD, Proof, Setup, Who, World};
use crate::config::IdentityPattern;
use crate::counters::DropReason;
use crate::ike::{Fact, Fault};
use crate::ikev2::cookie::Cookies;
use crate::ikev2::parts::Parts;
use crate::ikev2::seal::MAX_UNFRAGMENTED;
use crate::ikev2::ticket::{KEY_LIFETIME, MAX_TICKET, TICKET_LIFETIME};
use crate::ikev2::{Ticket, Travel};
use crate::time::Duration;
use Who::{Gateway, Station};

pub(super) fn setup() -> Setup {
    Setup {
        resumption: true,
        ..Setup::default()
    }
}

/// Both ends are established, and the station's ticket.
pub(super) fn with_ticket(setup: &Setup) -> (World, Box<Ticket>) {
    with_ticket_of(setup.world())
}

/// The same in this world, which has just begun.
pub(super) fn with_ticket_of(mut world: World) -> (World, Box<Ticket>) {
    world.run();
    world.assert_agreed(1);
    let ticket = take(&mut world);
    (world, ticket)
}

fn take(world: &mut World) -> Box<Ticket> {
    let session = world.station.session.as_mut().expect("a session");
    session.take_ticket().expect("a ticket")
}

pub(super) fn again(world: &mut World, ticket: Box<Ticket>) {
    world.begin_again(Some(ticket), Travel::default());
}

pub(super) fn is_resumed(world: &World) -> [bool; 2] {
    [&world.station, &world.gateway].map(|end| {
        let session = end.session.as_ref().expect("a session");
        session.is_resumed()
    })
}

/// Both ends had to begin with IKE_SA_INIT.
#[track_caller]
fn assert_anew(world: &mut World) {
    world.assert_agreed(1);
    assert_eq!(is_resumed(world), [false; 2]);
    let refused = world.gateway.facts.join("\n");
    assert!(refused.contains("a ticket is refused"), "{refused}");
}

#[test]
fn a_ticket_is_given_to_who_asks_and_makes_the_next_session_without_public_keys() {
    let (mut world, ticket) = with_ticket(&setup());
    let asked = world.names(Station)[1].to_owned();
    assert!(asked.contains("N(TICKET_REQUEST)"), "{asked}");
    let given = world.names(Gateway)[1].to_owned();
    assert!(given.ends_with("N(TICKET_LT_OPAQUE)"), "{given}");
    let before = world.station.session.as_mut().unwrap().inside().sas[0]
        .d
        .0
        .clone();
    again(&mut world, ticket);
    world.run();
    world.assert_agreed(1);
    // RFC 5723 §4.3.2, §4.3.3.
    assert_eq!(
        world.station.arrows,
        [
            "resume 1: No N(TICKET_OPAQUE) N(NAT_DETECTION_SOURCE_IP) \
             N(NAT_DETECTION_DESTINATION_IP) N(IKEV2_FRAGMENTATION_SUPPORTED) \
             N(SIGNATURE_HASH_ALGORITHMS)", // -->
            "auth 1: IDi AUTH N(INITIAL_CONTACT) N(TICKET_REQUEST) SA TSi TSr", // -->
        ]
    );
    assert_eq!(
        world.gateway.arrows,
        [
            "resume 2: No N(NAT_DETECTION_SOURCE_IP) N(NAT_DETECTION_DESTINATION_IP) \
             N(IKEV2_FRAGMENTATION_SUPPORTED) N(SIGNATURE_HASH_ALGORITHMS) \
             N(CHILDLESS_IKEV2_SUPPORTED)", // <--
            "auth 2: IDr AUTH SA TSi TSr N(TICKET_LT_OPAQUE)", // <--
        ]
    );
    assert_eq!(is_resumed(&world), [true; 2]);
    let session = world.gateway.session.as_ref().unwrap();
    assert_eq!(session.identity().unwrap().to_string(), "station@example");
    let session = world.station.session.as_mut().unwrap();
    assert_eq!(session.identity().unwrap().to_string(), "gateway.example");
    assert_ne!(session.inside().sas[0].d.0, before, "new keys");
    // And so on, with the new ticket.
    let ticket = take(&mut world);
    again(&mut world, ticket);
    world.run();
    world.assert_agreed(1);
    assert_eq!(is_resumed(&world), [true; 2]);
}

#[test]
fn every_way_to_prove_oneself_can_be_resumed_and_is_proven_then_by_the_ticket_alone() {
    for (station, gateway) in [
        (Proof::Key("secret"), Proof::Key("secret")),
        (Proof::Certificate, Proof::Certificate),
        (Proof::Key("secret"), Proof::Certificate),
        (Proof::Password(PASSWORD), Proof::Certificate),
        (Proof::Tls, Proof::Certificate),
    ] {
        let setup = Setup {
            station,
            gateway,
            wants_inner: true,
            is_natted: true,
            ..setup()
        };
        let (mut world, ticket) = with_ticket(&setup);
        let who = |world: &World| {
            [&world.station, &world.gateway].map(|end| {
                let session = end.session.as_ref().expect("a session");
                let identity = session.identity().expect("a peer").clone();
                (identity, session.certificate().is_some())
            })
        };
        let before = who(&world);
        again(&mut world, ticket);
        world.run();
        world.assert_agreed(1);
        assert_eq!(is_resumed(&world), [true; 2], "{station:?}");
        assert_eq!(who(&world), before, "{station:?}");
        for end in Who::BOTH {
            let names = world.names(end).join("\n");
            let heavy = ["CERT", "EAP", "KE "];
            assert!(!heavy.iter().any(|it| names.contains(it)), "{names}");
        }
        assert!(world.station.lease.is_some());
    }
}

#[test]
fn who_does_not_want_tickets_gets_none_and_gives_none() {
    for has in Who::BOTH {
        let mut world = setup().world();
        world.to_gateway.clear();
        let mut connection = setup().connection(true);
        connection.resumption = has == Station;
        world.change(Gateway, |it| it.resumption = has == Gateway);
        let mut world = world.begun_by(Arc::new(connection));
        world.run();
        world.assert_agreed(1);
        let session = world.station.session.as_mut().unwrap();
        assert!(session.take_ticket().is_none());
        let answer = world.names(Gateway)[1].to_owned();
        assert_eq!(
            answer.contains("N(TICKET_NACK)"),
            has == Station,
            "{answer}"
        );
    }
}

#[test]
fn an_expired_ticket_is_refused_and_a_full_exchange_follows_at_once() {
    let (mut world, ticket) = with_ticket(&setup());
    world.now = world.now + TICKET_LIFETIME + Duration::from_secs(1);
    assert!(!ticket.is_good(&world.station.connection, world.now));
    again(&mut world, ticket);
    world.run();
    assert_anew(&mut world);
    assert_eq!(world.names(Gateway)[0], "resume 2: N(TICKET_NACK)");
    assert!(world.names(Station)[1].starts_with("init 1"));
}

#[test]
fn a_ticket_lives_no_longer_than_the_session_might_have() {
    let mut world = setup().world();
    world.change(Gateway, |it| it.lifetime = Duration::from_secs(100));
    world.run();
    world.assert_agreed(1);
    let ticket = take(&mut world);
    let connection = Arc::clone(&world.station.connection);
    assert!(ticket.is_good(&connection, world.now + Duration::from_secs(99)));
    assert!(!ticket.is_good(&connection, world.now + Duration::from_secs(100)));
    world.now = world.now + Duration::from_secs(100);
    again(&mut world, ticket);
    world.run();
    assert_anew(&mut world);
}

#[test]
fn a_ticket_with_a_wrong_bit_is_refused_wherever_the_bit_is() {
    let (mut world, ticket) = with_ticket(&setup());
    again(&mut world, ticket);
    let first = world.hold(Gateway).remove(0);
    // After the header, the nonce, and the head of the notification.
    let begin = 28 + 4 + 32 + 8;
    let len = usize::from(u16::from_be_bytes([
        first.octets[begin - 6],
        first.octets[begin - 5],
    ]));
    for at in (begin..begin + len - 8).step_by(7) {
        let mut forged = first.clone();
        forged.octets[at] ^= 0x10;
        world.receive(Gateway, &forged);
        assert!(world.gateway.session.is_none(), "octet {at}");
    }
    let said = world.gateway.facts.join("\n");
    assert!(said.contains("it is none of ours"), "{said}");
    world.receive(Gateway, &first);
    assert!(world.gateway.session.is_some());
}

#[test]
fn a_ticket_of_another_gateway_or_of_a_key_that_is_gone_is_refused() {
    let (mut world, ticket) = with_ticket(&setup());
    world.tickets.keys.clear();
    again(&mut world, ticket);
    world.run();
    assert_anew(&mut world);
    // Its key seals no more, and still opens what it has sealed.
    let (mut world, ticket) = with_ticket(&setup());
    let first = world.tickets.keys[0].number;
    world.tickets.keys[0].since.0 -= KEY_LIFETIME.as_secs() as i64;
    again(&mut world, ticket);
    world.run();
    assert_eq!(is_resumed(&world), [true; 2]);
    let numbers: Vec<u32> = world.tickets.keys.iter().map(|it| it.number).collect();
    assert_eq!((numbers.len(), numbers[0]), (2, first));
    // Later it is gone.
    let ticket = take(&mut world);
    let gone = (KEY_LIFETIME + TICKET_LIFETIME).as_secs() as i64;
    world.tickets.keys[1].since.0 -= gone;
    world.tickets.keys[0].since.0 -= gone;
    again(&mut world, ticket);
    world.run();
    world.assert_agreed(1);
    let session = world.station.session.as_mut().unwrap();
    assert!(session.take_ticket().is_some());
    assert_eq!(world.tickets.keys.len(), 1);
}

#[test]
fn a_used_ticket_is_refused() {
    let (mut world, ticket) = with_ticket(&setup());
    again(&mut world, ticket);
    let first = world.to_gateway[0].clone();
    world.run();
    let session = world.gateway.session.as_ref().unwrap();
    let (spent, _) = session.resumed_by().expect("by a ticket");
    assert!(world.tickets.spend(spent.expires, spent.id));
    assert!(!world.tickets.spend(spent.expires, spent.id));
    world.gateway.session = None;
    world.receive(Gateway, &first);
    assert!(world.gateway.session.is_none());
    let said = world.gateway.facts.join("\n");
    assert!(said.contains("it was used before"), "{said}");
}

#[test]
fn a_ticket_dies_with_what_it_was_given_for() {
    type Change = fn(&mut crate::config::Connection);
    let changes: [Change; 5] = [
        |it| it.revision += 1,
        |it| it.name = "others".into(),
        |it| it.resumption = false,
        |it| it.ikev2_proposals = vec!["aes256gcm16-prfsha256-curve25519".parse().unwrap()],
        |it| {
            let key = Arc::new(crate::sa::Secret(b"other".to_vec()));
            it.remote.method = crate::config::RemoteMethod::PresharedKey(key);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let (mut world, ticket) = with_ticket(&setup());
        let mut connection = setup().connection(false);
        change(&mut connection);
        world.gateway.connection = Arc::new(connection);
        again(&mut world, ticket);
        assert!(world.deliver(Gateway));
        assert_eq!(
            world.gateway.arrows,
            ["resume 2: N(TICKET_NACK)"],
            "change {number}"
        );
        let said = world.gateway.facts.join("\n");
        assert!(
            said.contains("the connection that it was given for"),
            "{said}"
        );
    }
}

#[test]
fn a_ticket_dies_with_the_user_and_with_the_password() {
    for is_removed in [true, false] {
        let setup = Setup {
            station: Proof::Password(PASSWORD),
            gateway: Proof::Certificate,
            ..setup()
        };
        let (mut world, ticket) = with_ticket(&setup);
        let mut connection = setup.connection(false);
        let mut users = crate::eap::Users::default();
        let name = if is_removed { "bob" } else { "alice" };
        let hash = crypto::mschapv2::NtHash::of_password("another password");
        users.add(name, hash).unwrap();
        let examiner = crate::eap::Examiner {
            users: Some(Arc::new(users)),
            ..super::world::examiner()
        };
        connection.remote.method = crate::config::RemoteMethod::Eap(Arc::new(examiner));
        world.gateway.connection = Arc::new(connection);
        again(&mut world, ticket);
        assert!(world.deliver(Gateway));
        assert_eq!(world.gateway.arrows, ["resume 2: N(TICKET_NACK)"]);
        let said = world.gateway.facts.join("\n");
        assert!(said.contains("the user that it was given for"), "{said}");
    }
}

#[test]
fn lost_messages_are_repeated() {
    for lost in 0..4 {
        let (mut world, ticket) = with_ticket(&setup());
        again(&mut world, ticket);
        world.run_but(lost);
        world.pass(1);
        world.assert_agreed(1);
        assert_eq!(is_resumed(&world), [true; 2], "{lost}");
    }
}

#[test]
fn a_gateway_that_does_not_answer_the_ticket_is_asked_without_it() {
    let (mut world, ticket) = with_ticket(&setup());
    again(&mut world, ticket);
    let mut waited = 0;
    while !world.names(Station).last().unwrap().starts_with("init 1") {
        world.to_gateway.clear();
        assert!(world.wait());
        waited += 1;
        assert!(waited < 10);
    }
    assert!(world.now.0 <= 21_000_000_000, "{:?}", world.now);
    // It may be of use later.
    let session = world.station.session.as_mut().unwrap();
    assert!(session.take_ticket().is_some());
    world.run();
    world.assert_agreed(1);
    assert_eq!(is_resumed(&world), [false; 2]);
}

#[test]
fn under_load_a_ticket_needs_a_cookie_too() {
    let (mut world, ticket) = with_ticket(&setup());
    world.cookies = Some(Cookies::default());
    again(&mut world, ticket);
    assert!(world.deliver(Gateway));
    assert_eq!(world.gateway.arrows, ["resume 2: N(COOKIE)"]);
    assert!(world.gateway.session.is_none());
    world.run();
    world.assert_agreed(1);
    assert!(world.station.arrows[1].starts_with("resume 1: N(COOKIE) No N(TICKET_OPAQUE)"));
    assert_eq!(is_resumed(&world), [true; 2]);
}

#[test]
fn the_keys_of_a_ticket_must_be_proven() {
    // Who has seen a ticket on the wire does not have the keys.
    let (mut world, ticket) = with_ticket(&setup());
    again(&mut world, ticket);
    let first = world.to_gateway[0].clone();
    world.run();
    world.gateway.session = None;
    world.gateway.facts.clear();
    world.receive(Gateway, &first);
    let answering = world.gateway.session.is_some();
    assert!(answering, "until its AUTH, a ticket is not used");
    // The AUTH of the first session does not open under new keys.
    let auths: Vec<_> = world.history.iter().map(|(_, it)| it.clone()).collect();
    for flight in auths {
        world.receive(Gateway, &flight);
    }
    let session = world.gateway.session.as_ref();
    assert!(session.is_none_or(|it| !it.is_established()));
}

#[test]
fn a_refusal_that_anybody_can_send_costs_no_more_than_a_full_exchange() {
    let (mut world, ticket) = with_ticket(&setup());
    let other = Setup { seed: 9, ..setup() };
    // A gateway that knows no ticket answers in its place.
    let mut hostile = other.world();
    hostile.to_gateway.clear();
    again(&mut world, ticket);
    hostile.receive(Gateway, &world.to_gateway[0]);
    let forged = hostile.to_station.pop_front().expect("a refusal");
    world.to_gateway.clear();
    world.receive(Station, &forged);
    world.run();
    world.assert_agreed(1);
    assert_eq!(is_resumed(&world), [false; 2]);
}

#[test]
fn after_a_renewal_the_station_asks_for_another_ticket_and_the_former_is_worth_nothing() {
    for who in Who::BOTH {
        let mut world = setup().world();
        world.run();
        world.assert_agreed(1);
        let former = world.gateway.session.as_mut().unwrap().inside().sas[0]
            .d
            .0
            .clone();
        world.rekey_ike(who);
        world.pass(3);
        let now = world.now;
        for end in Who::BOTH {
            world.step(end, |session, random, _, out| {
                let given = session.renew_ticket(random, now, out);
                assert_eq!(given.is_some(), end == Gateway);
            });
        }
        assert!(
            world
                .station
                .session
                .as_mut()
                .unwrap()
                .take_ticket()
                .is_none()
        );
        world.pass(3);
        let names = world.names(Station).join("\n");
        assert!(
            names.contains("informational 1: N(TICKET_REQUEST)"),
            "{names}"
        );
        let names = world.names(Gateway).join("\n");
        assert!(
            names.contains("informational 2: N(TICKET_LT_OPAQUE)"),
            "{names}"
        );
        let ticket = take(&mut world);
        let own = world.gateway.session.as_mut().unwrap().inside().sas[0]
            .d
            .0
            .clone();
        assert_ne!(own, former);
        again(&mut world, ticket);
        world.run();
        world.assert_agreed(1);
        assert_eq!(is_resumed(&world), [true; 2]);
    }
}

#[test]
fn a_peer_whose_auth_covers_only_its_first_message_is_let_in() {
    let (mut world, ticket) = with_ticket(&setup());
    let ticket = ticket.into_libreswans_for_testing();
    again(&mut world, Box::new(ticket));
    world.run();
    world.assert_agreed(1);
    assert_eq!(is_resumed(&world), [true; 2]);
}

#[test]
fn a_session_with_a_post_quantum_key_is_resumed_with_it() {
    for early in [false, true] {
        let key = Some(("7", "a key of both ends", true));
        let setup = Setup {
            ppk: [key; 2],
            early_ppk: [early; 2],
            ..setup()
        };
        let (mut world, ticket) = with_ticket(&setup);
        again(&mut world, ticket);
        world.run();
        world.assert_agreed(1);
        assert_eq!(is_resumed(&world), [true; 2]);
        for end in [&world.station, &world.gateway] {
            let session = end.session.as_ref().unwrap();
            assert_eq!(session.ppk().map(|it| &it.id[..]), Some("7"));
        }
    }
}

#[test]
fn a_suite_of_several_key_exchanges_is_resumed_without_any() {
    let setup = Setup {
        station_suites: "aes256gcm16-prfsha384-ecp384-ke1_mlkem768",
        gateway_suites: "aes256gcm16-prfsha384-ecp384-ke1_mlkem768",
        ..setup()
    };
    let (mut world, ticket) = with_ticket(&setup);
    again(&mut world, ticket);
    world.run();
    world.assert_agreed(1);
    assert_eq!(world.station.arrows.len(), 2);
    assert_eq!(is_resumed(&world), [true; 2]);
}

#[test]
fn a_resumed_session_can_be_renewed_and_has_tokens() {
    let setup = Setup {
        crash_detection: true,
        ..setup()
    };
    let (mut world, ticket) = with_ticket(&setup);
    again(&mut world, ticket);
    world.run();
    world.assert_agreed(1);
    let station = world.names(Station)[1].to_owned();
    assert!(station.contains("N(QUICK_CRASH_DETECTION)"), "{station}");
    for who in Who::BOTH {
        world.rekey_ike(who);
        world.pass(3);
        world.rekey_child(who);
        world.pass(3);
    }
    let session = world.station.session.as_ref().unwrap();
    assert!(session.is_established());
}

#[test]
fn rubbish_is_no_ticket() {
    let (mut world, ticket) = with_ticket(&setup());
    again(&mut world, ticket);
    let first = world.hold(Gateway).remove(0);
    for len in 0..first.octets.len() {
        let mut cut = first.clone();
        cut.octets.truncate(len);
        if len >= 28 {
            cut.octets[24..28].copy_from_slice(&(len as u32).to_be_bytes());
        }
        world.receive(Gateway, &cut);
        assert!(world.gateway.session.is_none(), "{len}");
    }
    assert!(world.gateway.drops.of(DropReason::MalformedMessage) > 0);
    assert!(!matches!(world.gateway.fault, Some(Fault::Misbehaved(_))));
}

/// It is not encrypted, so IKE cannot split it, and many paths lose fragments of IP.
#[test]
fn the_first_message_with_a_ticket_is_one_datagram_on_every_path() {
    /// A cookie is as long as this at most, with its head (RFC 7296 §2.6).
    const COOKIE: usize = 8 + 64;
    let ml_dsa = [MlDsa::Set44, MlDsa::Set65, MlDsa::Set87].map(Proof::MlDsa);
    let others = [Proof::Key("secret"), Proof::Certificate, Proof::Tls];
    for station in ml_dsa.into_iter().chain(others) {
        let gateway = match station {
            Proof::Key(_) => station,
            _ => Proof::Certificate,
        };
        let setup = Setup {
            station,
            gateway,
            ..setup()
        };
        let (mut world, ticket) = with_ticket(&setup);
        again(&mut world, ticket);
        let first = world.to_gateway[0].octets.len();
        assert!(first + COOKIE <= MAX_UNFRAGMENTED, "{station:?}: {first}");
        world.run();
        world.assert_agreed(1);
        assert_eq!(is_resumed(&world), [true; 2], "{station:?}");
    }
}

#[test]
fn what_does_not_fit_into_a_ticket_gets_none() {
    let mut world = setup().world();
    world.change(Gateway, |it| it.name = "x".repeat(MAX_TICKET));
    world.run();
    world.assert_agreed(1);
    let answered = world.names(Gateway).pop().unwrap().to_owned();
    assert!(answered.contains("N(TICKET_NACK)"), "{answered}");
    assert!(world.station.session.unwrap().take_ticket().is_none());
}

/// Of another implementation: ours gives none that is longer.
#[test]
fn a_station_keeps_no_ticket_with_which_its_first_message_would_not_be_one_datagram() {
    for (octets, is_kept) in [(MAX_TICKET, true), (MAX_TICKET + 1, false), (4_096, false)] {
        let (mut world, _) = with_ticket(&setup());
        let ticket = Notify::ticket(&wire::ikev2::Ticket {
            lifetime_seconds: 3_600,
            opaque: vec![7; octets],
        });
        let parts = Parts {
            notices: vec![&ticket],
            ..Parts::default()
        };
        let now = world.now;
        let session = world.station.session.as_mut().expect("a session");
        let fact = session.inside().keep_ticket(&parts, now);
        let is_told = matches!(fact, Some(Fact::TicketTooLarge(it, MAX_TICKET)) if it == octets);
        let has = session.take_ticket().is_some();
        assert_eq!((has, is_told), (is_kept, !is_kept), "{octets}");
    }
}

/// As with a full exchange: who may connect, and which lists there must be.
#[test]
fn a_ticket_lets_in_whom_the_connection_would_let_in_and_nobody_else() {
    type Change = fn(&mut crate::config::Connection);
    let others: Change = |it| it.remote.identities = vec![IdentityPattern::parse("bob").unwrap()];
    let strict: Change = |it| {
        let store = it.remote.method.trust_store().expect("authorities");
        let store = TrustStore {
            revocation: RevocationRule::Strict,
            ..TrustStore::clone(store)
        };
        it.remote.method = crate::config::RemoteMethod::Signature(Arc::new(store));
    };
    let cases = [
        (Proof::Key("secret"), Proof::Key("secret"), others),
        (Proof::Certificate, Proof::Certificate, others),
        (Proof::Password(PASSWORD), Proof::Certificate, others),
        (Proof::Certificate, Proof::Certificate, strict),
    ];
    for (number, (station, gateway, change)) in cases.into_iter().enumerate() {
        let setup = Setup {
            station,
            gateway,
            ..setup()
        };
        let (mut world, ticket) = with_ticket(&setup);
        let mut connection = setup.connection(false);
        change(&mut connection);
        world.gateway.connection = Arc::new(connection);
        again(&mut world, ticket);
        assert!(world.deliver(Gateway));
        let answers = &world.gateway.arrows;
        assert_eq!(answers[..], ["resume 2: N(TICKET_NACK)"], "case {number}");
        let said = world.gateway.facts.join("\n");
        assert!(said.contains("is not accepted now"), "{said}");
    }
}
