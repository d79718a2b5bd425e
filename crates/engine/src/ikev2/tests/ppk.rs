//! Post-quantum pre-shared keys (RFC 8784): both ends, one end, a wrong one, and who takes it out.

use wire::ikev2::{Header, Message as WireMessage, Notify, NotifyType, Payload, write_payloads};

use super::world::{Proof, Setup, Who, World};

const KEY: &str = "0123456789abcdef0123456789abcdef";
const OTHER: &str = "fedcba9876543210fedcba9876543210";

type Key = Option<(&'static str, &'static str, bool)>;

fn setup(station: Key, gateway: Key) -> Setup {
    Setup {
        ppk: [station, gateway],
        ..Setup::default()
    }
}

fn names(world: &World) -> [Option<&str>; 2] {
    [&world.station, &world.gateway].map(|end| end.session.as_ref()?.ppk())
}

const PROOFS: [(Proof, Proof); 5] = [
    (Proof::Key("secret"), Proof::Key("secret")),
    (Proof::Certificate, Proof::Certificate),
    (Proof::Key("secret"), Proof::Certificate),
    (Proof::Password("clientPass"), Proof::Certificate),
    (Proof::Tls, Proof::Certificate),
];

#[test]
fn both_ends_have_it_whatever_proves_them() {
    for (station, gateway) in PROOFS {
        for is_required in [false, true] {
            let key = Some(("fleet", KEY, is_required));
            let setup = Setup {
                station,
                gateway,
                wants_inner: true,
                ..setup(key, key)
            };
            let mut world = setup.established();
            assert_eq!(names(&world), [Some("fleet"); 2]);
            let says = |what: &str| world.station.arrows.iter().any(|it| it.contains(what));
            assert!(says("N(USE_PPK)") && says("N(PPK_IDENTITY)"));
            assert_eq!(says("N(NO_PPK_AUTH)"), !is_required);
            for who in Who::BOTH {
                world.rekey_ike(who);
                world.rekey_child(who.other());
                world.pass(10);
                world.assert_agreed(1);
            }
            assert_eq!(names(&world), [Some("fleet"); 2]);
        }
    }
}

#[test]
fn it_changes_the_keys() {
    let keys = [
        None,
        Some(("fleet", KEY, true)),
        Some(("fleet", OTHER, true)),
    ];
    let mut all = Vec::new();
    for key in keys {
        let mut world = setup(key, key).established();
        let sa = &world.station.session.as_mut().unwrap().inside().sas[0];
        all.push(sa.d.0.clone());
        let negotiated = &world.station.pairs[0].negotiated;
        all.push(negotiated.keys_in.0.0.clone());
    }
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), all.len());
}

#[test]
fn without_it_at_one_end_there_is_a_tunnel_unless_it_is_required() {
    for (station, gateway) in PROOFS {
        for is_required in [false, true] {
            let key = Some(("fleet", KEY, is_required));
            for (of_station, of_gateway) in [(key, None), (None, key)] {
                let setup = Setup {
                    station,
                    gateway,
                    ..setup(of_station, of_gateway)
                };
                let mut world = setup.world();
                world.run();
                world.pass(5);
                if !is_required {
                    world.assert_agreed(1);
                    assert_eq!(names(&world), [None; 2]);
                    continue;
                }
                assert!(world.station.session.is_none(), "{:?}", world.station.facts);
                let who = match of_station.is_some() {
                    true => &world.station,
                    false => &world.gateway,
                };
                let words = who.fault.as_ref().expect("refused").to_string();
                assert!(words.contains("does not use the post-quantum"), "{words}");
            }
        }
    }
}

#[test]
fn with_an_unknown_name_the_other_auth_counts_if_there_is_one() {
    for (station, gateway) in PROOFS {
        for (first, second) in [(false, false), (true, false), (false, true)] {
            let setup = Setup {
                station,
                gateway,
                ..setup(Some(("mine", KEY, first)), Some(("yours", OTHER, second)))
            };
            let mut world = setup.world();
            world.run();
            if !first && !second {
                world.assert_agreed(1);
                assert_eq!(names(&world), [None; 2]);
                world.rekey_ike(Who::Station);
                world.pass(5);
                world.assert_agreed(1);
                continue;
            }
            assert!(world.station.session.is_none(), "{:?}", world.station.facts);
            let words = world.gateway.fault.as_ref().expect("refused").to_string();
            let expected = if first {
                "\"mine\", which no"
            } else {
                "\"yours\""
            };
            assert!(words.contains(expected), "{words}");
        }
    }
}

#[test]
fn another_key_of_the_same_name_proves_nothing() {
    for (station, gateway) in PROOFS {
        for is_required in [false, true] {
            let [first, second] = [KEY, OTHER].map(|key| Some(("fleet", key, is_required)));
            let setup = Setup {
                station,
                gateway,
                ..setup(first, second)
            };
            let mut world = setup.world();
            world.run();
            world.pass(5);
            let is_up = |end: &super::world::End| {
                let session = end.session.as_ref();
                session.is_some_and(|it| it.is_established())
            };
            assert!(!is_up(&world.station) && !is_up(&world.gateway));
            assert!(world.gateway.fault.is_some());
        }
    }
}

#[test]
fn whoever_takes_the_announcement_away_is_found_out() {
    let key = Some(("fleet", KEY, false));
    for who in [Who::Gateway, Who::Station] {
        let mut world = setup(key, key).world();
        if who == Who::Station {
            assert!(world.deliver(Who::Gateway));
        }
        let mut message = world.hold(who).remove(0);
        let read = WireMessage::parse(&message.octets).unwrap();
        let is_it = |notify: &Notify| notify.kind == NotifyType::UsePpk;
        let mut chain: Vec<Payload> = read.clear.iter().map(|it| it.payload.clone()).collect();
        chain.retain(|it| !matches!(it, Payload::Notify(notify) if is_it(notify)));
        assert!(chain.len() < read.clear.len());
        let (next_payload, body) = write_payloads(&chain);
        let header = Header {
            next_payload,
            ..read.header
        };
        message.octets = header.write(&body);
        world.receive(who, &message);
        world.run();
        world.pass(5);
        assert!(world.station.session.is_none() && world.is_refused());
    }
}
