//! Post-quantum pre-shared keys (RFC 8784, RFC 9867): both ends, one end, a wrong one, and who
//! takes it out.

use wire::ikev2::{Header, Message as WireMessage, Notify, NotifyType, Payload, write_payloads};

use super::world::{Proof, Setup, Who, World};
use crate::ikev2::ppk::PpkExchange;

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
    [&world.station, &world.gateway].map(|end| {
        let ppk = end.session.as_ref()?.ppk()?;
        Some(&ppk.id[..])
    })
}

/// In which exchange both ends have it.
fn exchanges(world: &World) -> [Option<PpkExchange>; 2] {
    [&world.station, &world.gateway].map(|end| Some(end.session.as_ref()?.ppk()?.exchange))
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
            assert_eq!(exchanges(&world), [Some(PpkExchange::IkeAuth); 2]);
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

/// The same in IKE_INTERMEDIATE (RFC 9867).
fn early(station: Key, gateway: Key) -> Setup {
    Setup {
        early_ppk: [true; 2],
        ..setup(station, gateway)
    }
}

/// In how many messages of both ends.
fn said(world: &World, what: &str) -> usize {
    let ends = [&world.station, &world.gateway];
    let arrows = ends.into_iter().flat_map(|end| &end.arrows);
    arrows.filter(|it| it.contains(what)).count()
}

const WITH_MLKEM: [&str; 3] = [
    "aes128gcm16-prfsha256-curve25519",
    "aes256gcm16-prfsha384-curve25519-ke1_mlkem768",
    "aes128-sha256-ecp256-ke1_mlkem768-ke2_mlkem1024",
];

#[test]
fn in_an_exchange_before_auth_it_protects_the_first_ike_sa_too() {
    for (station, gateway) in PROOFS {
        for suites in WITH_MLKEM {
            for is_required in [false, true] {
                let key = Some(("fleet", KEY, is_required));
                let setup = Setup {
                    station,
                    gateway,
                    station_suites: suites,
                    gateway_suites: suites,
                    wants_inner: true,
                    ..early(key, key)
                };
                let mut world = setup.established();
                assert_eq!(names(&world), [Some("fleet"); 2]);
                assert_eq!(said(&world, "N(USE_PPK_INT)"), 2);
                assert_eq!(said(&world, "N(PPK_IDENTITY_KEY)"), 1);
                assert_eq!(said(&world, "N(PPK_IDENTITY)"), 1);
                // The answer announces one way, and no AUTH is without the key.
                assert_eq!(said(&world, "N(USE_PPK)"), 1);
                assert_eq!(said(&world, "N(NO_PPK_AUTH)"), 0);
                for who in Who::BOTH {
                    world.rekey_ike(who);
                    world.rekey_child(who.other());
                    world.pass(10);
                    world.assert_agreed(1);
                }
                assert_eq!(names(&world), [Some("fleet"); 2]);
                assert_eq!(exchanges(&world), [Some(PpkExchange::IkeIntermediate); 2]);
            }
        }
    }
}

#[test]
fn in_an_exchange_before_auth_it_gives_other_keys_than_in_auth() {
    let key = Some(("fleet", KEY, true));
    let other = Some(("fleet", OTHER, true));
    let mut all = Vec::new();
    for setup in [setup(key, key), early(key, key), early(other, other)] {
        let mut world = setup.established();
        let sa = &world.station.session.as_mut().unwrap().inside().sas[0];
        all.push(sa.d.0.clone());
    }
    let mut different = all.clone();
    different.sort();
    different.dedup();
    assert_eq!(different.len(), all.len());
}

#[test]
fn with_an_end_that_knows_only_the_older_way_it_is_in_auth() {
    for early_ppk in [[true, false], [false, true]] {
        for suites in WITH_MLKEM {
            let key = Some(("fleet", KEY, true));
            let setup = Setup {
                early_ppk,
                station_suites: suites,
                gateway_suites: suites,
                ..setup(key, key)
            };
            let world = setup.established();
            assert_eq!(names(&world), [Some("fleet"); 2]);
            assert_eq!(said(&world, "N(PPK_IDENTITY_KEY)"), 0);
            assert_eq!(said(&world, "N(PPK_IDENTITY)"), 2);
        }
    }
}

#[test]
fn before_auth_another_name_or_key_is_no_key() {
    let mine = |is_required| Some(("fleet", KEY, is_required));
    let others = |is_required| {
        [
            Some(("fleet", OTHER, is_required)),
            Some(("another", KEY, is_required)),
            None,
        ]
    };
    for (station, gateway) in PROOFS {
        for (first, second) in [(false, false), (true, false), (false, true)] {
            for other in others(second) {
                if other.is_none() && second {
                    continue;
                }
                let setup = Setup {
                    station,
                    gateway,
                    ..early(mine(first), other)
                };
                let mut world = setup.world();
                world.run();
                world.pass(5);
                if !first && !second {
                    world.assert_agreed(1);
                    assert_eq!(names(&world), [None; 2]);
                    continue;
                }
                assert!(world.station.session.is_none(), "{:?}", world.station.facts);
                let who = if first {
                    &world.station
                } else {
                    &world.gateway
                };
                let words = who.fault.as_ref().expect("refused").to_string();
                assert!(words.contains("does not use the post-quantum"), "{words}");
            }
        }
    }
}

#[test]
fn whoever_takes_the_announcement_of_the_exchange_away_is_found_out() {
    let key = Some(("fleet", KEY, false));
    for who in [Who::Gateway, Who::Station] {
        let mut world = early(key, key).world();
        if who == Who::Station {
            assert!(world.deliver(Who::Gateway));
        }
        let mut message = world.hold(who).remove(0);
        let read = WireMessage::parse(&message.octets).unwrap();
        let is_it = |notify: &Notify| notify.kind == NotifyType::UsePpkInt;
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
