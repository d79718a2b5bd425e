//! MOBIKE: what both ends say of their addresses, and what comes of it.

use std::net::IpAddr;

use wire::ikev2::{Exchange, Notify, NotifyType, Payload};

use super::world::{PASSWORD, Proof, Setup, Who, World};
use crate::counters::DropReason;
use crate::ikev2::addresses::{MAX_ADDRESSES, told};
use crate::ikev2::parts::{notify, notify_with};
use crate::sa::Path;
use Who::{Gateway, Station};

fn both() -> Setup {
    Setup {
        mobike: [true; 2],
        ..Setup::default()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn wifi() -> Path {
    Path::udp_with_marker(([10, 0, 0, 77], 4500), ([192, 0, 2, 1], 4500))
}

/// With EAP the first request and the last answer name the addresses (RFC 4555 §3.1).
#[test]
fn who_proves_a_password_names_addresses_and_moves_too() {
    let mut world = Setup {
        station: Proof::Password(PASSWORD),
        gateway: Proof::Certificate,
        station_addresses: vec![ip("100.64.0.7")],
        gateway_addresses: vec![ip("192.0.2.1"), ip("192.0.2.9")],
        ..both()
    }
    .established();
    assert_eq!(named(&mut world, Gateway), [ip("100.64.0.7")]);
    assert_eq!(named(&mut world, Station), [ip("192.0.2.9")]);
    moves(&mut world, wifi());
    world.run();
    let mut facts = world.gateway.facts.iter();
    assert!(facts.any(|it| it.starts_with("Moved")));
    assert!(world.station.facts.contains(&"answers 7".to_owned()));
}

/// The station is at another address, and says so.
fn moves(world: &mut World, path: Path) {
    world.step(Station, |session, random, now, out| {
        session.move_to(path);
        session.repeat(now, out);
        session.probe(7, random, now, out);
    });
}

fn named(world: &mut World, who: Who) -> Vec<IpAddr> {
    let session = world.end(who).session.as_ref().unwrap();
    session.peer_addresses().to_vec()
}

fn last_arrow(world: &mut World, who: Who) -> String {
    world.end(who).arrows.last().cloned().unwrap_or_default()
}

#[test]
fn both_ends_name_their_other_addresses_with_their_authentication() {
    let mut world = Setup {
        station_addresses: vec![ip("100.64.0.7"), ip("2001:db8::7")],
        gateway_addresses: ["192.0.2.1", "192.0.2.9", "10.1.0.1", "127.0.0.1", "fe80::1"]
            .map(ip)
            .to_vec(),
        ..both()
    }
    .established();
    // Not what is inside the tunnel, and not what leads nowhere.
    assert_eq!(named(&mut world, Station), [ip("192.0.2.9")]);
    assert_eq!(
        named(&mut world, Gateway),
        [ip("100.64.0.7"), ip("2001:db8::7")]
    );
    let mut world = both().established();
    assert!(world.station.arrows[1].contains("N(MOBIKE_SUPPORTED) N(NO_ADDITIONAL_ADDRESSES)"));
    assert!(world.gateway.arrows[1].contains("N(MOBIKE_SUPPORTED) N(NO_ADDITIONAL_ADDRESSES)"));
    assert_eq!(named(&mut world, Station), [] as [IpAddr; 0]);
}

#[test]
fn an_end_without_it_is_not_answered_with_it() {
    for mobike in [[false, true], [true, false], [false, false]] {
        let world = Setup { mobike, ..both() }.established();
        assert!(!world.gateway.arrows[1].contains("MOBIKE"));
        for end in [&world.station, &world.gateway] {
            let session = end.session.as_ref().unwrap();
            assert!(!session.has_mobike() && !session.is_mover());
        }
    }
}

#[test]
fn an_update_is_answered_where_it_came_from_and_says_what_is_between() {
    let mut world = both().established();
    moves(&mut world, wifi());
    let update = last_arrow(&mut world, Station);
    assert!(
        update.starts_with(
            "informational 1: N(UPDATE_SA_ADDRESSES) N(NAT_DETECTION_SOURCE_IP) \
             N(NAT_DETECTION_DESTINATION_IP) N(COOKIE2) N(NO_ADDITIONAL_ADDRESSES)"
        ),
        "{update}"
    );
    assert!(world.deliver(Gateway));
    let answer = last_arrow(&mut world, Gateway);
    assert_eq!(
        answer,
        "informational 2: N(COOKIE2) N(NAT_DETECTION_SOURCE_IP) N(NAT_DETECTION_DESTINATION_IP)"
    );
    assert_eq!(world.to_station[0].path.local, wifi().local);
    world.run();
    let moved = world
        .gateway
        .facts
        .iter()
        .find(|it| it.starts_with("Moved"));
    assert!(moved.is_some(), "{:?}", world.gateway.facts);
    assert!(world.station.facts.contains(&"answers 7".to_owned()));
    assert!(world.station.facts.contains(&"Followed".to_owned()));
    for end in [&world.station, &world.gateway] {
        let nat = end.session.as_ref().unwrap().nat();
        assert!(nat.is_supported && !nat.is_between());
    }
}

#[test]
fn an_update_that_was_lost_with_its_ike_sa_is_sent_under_the_next_one() {
    let mut world = both().established();
    world.rekey_ike(Gateway);
    moves(&mut world, wifi());
    world.hold(Gateway);
    // The gateway deletes the old IKE SA before the update is repeated.
    world.run();
    let mut facts = world.gateway.facts.iter();
    assert!(facts.any(|it| it.starts_with("Moved")));
    assert!(world.station.facts.contains(&"Followed".to_owned()));
}

#[test]
fn addresses_that_were_lost_with_their_ike_sa_are_told_under_the_next_one() {
    for [before, after] in [
        [vec![], vec![ip("192.0.2.9")]],
        [vec![ip("192.0.2.9")], vec![]],
    ] {
        let setup = Setup {
            gateway_addresses: [vec![ip("192.0.2.1")], before.clone()].concat(),
            ..both()
        };
        let mut world = setup.established();
        assert_eq!(named(&mut world, Station), before);
        world.rekey_ike(Station);
        world.within(Gateway, |it, at| {
            it.set_addresses(after.clone(), true);
            it.pump(at);
        });
        world.hold(Station);
        world.run();
        assert_eq!(named(&mut world, Station), after);
    }
}

#[test]
fn a_source_that_was_rewritten_is_a_nat_between_the_ends() {
    let mut world = both().established();
    moves(&mut world, wifi());
    world.to_gateway[0].path.remote = ([198, 51, 100, 9], 41_000).into();
    assert!(world.deliver(Gateway));
    // The NAT brings the answer back.
    world.to_station[0].path.local = wifi().local;
    world.run();
    assert!(world.gateway.session.as_ref().unwrap().nat().is_remote);
    assert!(world.station.session.as_ref().unwrap().nat().is_local);
}

#[test]
fn where_no_nat_is_allowed_a_rewritten_source_is_refused() {
    let mut world = both().established();
    let path = world.station.session.as_ref().unwrap().path();
    let update = |ends: Notify| {
        vec![
            notify(NotifyType::UpdateSaAddresses),
            notify_with(NotifyType::Cookie2, vec![7; 16]),
            Payload::Notify(ends),
        ]
    };
    let right = Notify::no_nats(path.local, path.remote).unwrap();
    world.asks(Station, Exchange::Informational, &update(right));
    world.run();
    assert!(!last_arrow(&mut world, Gateway).contains("UNEXPECTED"));
    let wrong = Notify::no_nats(([10, 0, 0, 9], 4500).into(), path.remote).unwrap();
    let short = Notify::new(NotifyType::NoNatsAllowed, vec![1; 11]);
    for ends in [wrong, short] {
        world.gateway.facts.clear();
        world.asks(Station, Exchange::Informational, &update(ends));
        world.run();
        assert_eq!(
            last_arrow(&mut world, Gateway),
            "informational 2: N(COOKIE2) N(UNEXPECTED_NAT_DETECTED)"
        );
        assert!(!world.gateway.facts.iter().any(|it| it.starts_with("Moved")));
    }
}

/// An answer as long as the request would not fit into one payload of ours.
#[test]
fn a_cookie_of_a_wrong_length_is_not_returned() {
    let mut world = both().established();
    for len in [0, 7, 65, 20_000] {
        world.asks(
            Station,
            Exchange::Informational,
            &[notify_with(NotifyType::Cookie2, vec![7; len])],
        );
        world.run();
        assert_eq!(
            last_arrow(&mut world, Gateway),
            "informational 2: ",
            "{len}"
        );
    }
    world.asks(
        Station,
        Exchange::Informational,
        &[notify_with(NotifyType::Cookie2, vec![7; 64])],
    );
    world.run();
    assert_eq!(
        last_arrow(&mut world, Gateway),
        "informational 2: N(COOKIE2)"
    );
}

#[test]
fn a_responder_moves_nobody() {
    let mut world = both().established();
    let chain = [notify(NotifyType::UpdateSaAddresses)];
    world.asks(Gateway, Exchange::Informational, &chain);
    world.to_station[0].path.remote = ([203, 0, 113, 7], 4500).into();
    world.run();
    assert!(!world.station.facts.iter().any(|it| it.starts_with("Moved")));
    // The role in the first exchange counts, whoever renews the IKE SA.
    world.rekey_ike(Gateway);
    world.run();
    world.station.facts.clear();
    world.asks(Gateway, Exchange::Informational, &chain);
    world.run();
    assert!(!world.station.facts.iter().any(|it| it.starts_with("Moved")));
    moves(&mut world, wifi());
    world.run();
    assert!(world.gateway.facts.iter().any(|it| it.starts_with("Moved")));
}

#[test]
fn without_mobike_an_update_says_nothing() {
    let mut world = Setup {
        mobike: [true, false],
        ..both()
    }
    .established();
    world.asks(
        Station,
        Exchange::Informational,
        &[notify(NotifyType::UpdateSaAddresses)],
    );
    world.run();
    assert!(!world.gateway.facts.iter().any(|it| it.starts_with("Moved")));
    assert_eq!(last_arrow(&mut world, Gateway), "informational 2: ");
}

#[test]
fn the_addresses_of_a_peer_are_bounded_and_replace_each_other() {
    let mut world = both().established();
    let address = |number: u8| {
        Payload::Notify(Notify::additional_address(IpAddr::from([
            198, 51, 100, number,
        ])))
    };
    let mut chain: Vec<Payload> = (1..=40).map(address).collect();
    chain.push(notify_with(NotifyType::AdditionalIp4Address, vec![1, 2, 3]));
    chain.push(Payload::Notify(Notify::additional_address(ip("127.0.0.1"))));
    chain.push(Payload::Notify(Notify::additional_address(ip("fe80::1"))));
    world.asks(Station, Exchange::Informational, &chain);
    world.run();
    assert_eq!(named(&mut world, Gateway).len(), MAX_ADDRESSES);
    let dropped = world.gateway.drops.of(DropReason::UnusableAddress);
    assert_eq!(dropped, 40 - MAX_ADDRESSES as u64 + 3);
    world.asks(Station, Exchange::Informational, &[address(7)]);
    world.run();
    assert_eq!(named(&mut world, Gateway), [ip("198.51.100.7")]);
    world.asks(
        Station,
        Exchange::Informational,
        &[notify(NotifyType::NoAdditionalAddresses)],
    );
    world.run();
    assert!(named(&mut world, Gateway).is_empty());
}

#[test]
fn a_request_that_is_open_goes_first_and_over_the_new_path() {
    let mut world = both().established();
    world.rekey_child(Station);
    let lost = world.hold(Gateway);
    assert_eq!(lost.len(), 1);
    moves(&mut world, wifi());
    let again = world.to_gateway[0].clone();
    assert_eq!(again.octets, lost[0].octets);
    assert_eq!(again.path.remote, wifi().local);
    world.run();
    let sent = &world.station.arrows;
    let update = sent
        .iter()
        .position(|it| it.contains("UPDATE_SA_ADDRESSES"));
    let renewal = sent.iter().rposition(|it| it.starts_with("create child 1"));
    assert!(renewal < update, "{sent:#?}");
    world.pass(5);
    world.assert_agreed(1);
}

/// RFC 4555 §3.5: it is about the ends that it had.
#[test]
fn the_answer_to_an_update_of_an_earlier_path_is_followed_by_another_update() {
    let mut world = both().established();
    moves(&mut world, wifi());
    let cell = Path {
        local: ([10, 0, 0, 78], 4500).into(),
        ..wifi()
    };
    let first = world.hold(Gateway);
    moves(&mut world, cell);
    let again = world.to_gateway[0].clone();
    assert_eq!(again.octets, first[0].octets);
    world.run();
    let updates = world.station.arrows.iter();
    let updates = updates
        .filter(|it| it.contains("UPDATE_SA_ADDRESSES"))
        .count();
    assert_eq!(updates, 3, "one of them again");
    let followed = world
        .station
        .facts
        .iter()
        .filter(|it| *it == "Followed")
        .count();
    assert_eq!(followed, 1);
    assert!(!world.station.session.as_ref().unwrap().nat().is_between());
}

#[test]
fn a_probe_behind_a_nat_says_where_it_comes_from() {
    for is_natted in [false, true] {
        let mut world = Setup {
            is_natted,
            ..both()
        }
        .established();
        world.probe(Station, 3);
        world.probe(Gateway, 4);
        world.run();
        let is_update = |it: &String| it.contains("UPDATE_SA_ADDRESSES");
        assert_eq!(world.station.arrows.iter().any(is_update), is_natted);
        assert!(!world.gateway.arrows.iter().any(is_update));
        assert!(world.station.facts.contains(&"answers 3".to_owned()));
        assert!(world.gateway.facts.contains(&"answers 4".to_owned()));
    }
}

#[test]
fn another_cookie_ends_the_session() {
    let mut world = both().established();
    world.probe(Gateway, 4);
    let wrong = [notify_with(NotifyType::Cookie2, vec![0x5a; 16])];
    // The station answers with a cookie of its own.
    let probe = world.hold(Station).remove(0);
    world.within(Station, |it, at| {
        let message = crate::ikev2::message::Message::parse(&probe.octets).unwrap();
        let read = it.current().read(at.path, &message, at.now, at.out);
        let Ok(crate::ikev2::window::Read::New(opened)) = read else {
            panic!("the probe is authentic");
        };
        it.current().answer(&opened, &wrong, at);
    });
    world.run();
    assert!(world.gateway.session.is_none());
    let why = world.fault(Gateway);
    assert!(why.contains("another COOKIE2"), "{why}");
}

#[test]
fn private_addresses_are_told_only_where_the_path_is_private() {
    let world = both().established();
    let connection = &world.gateway.connection;
    let all = [
        "192.0.2.1",
        "198.51.100.1",
        "172.17.0.1",
        "10.1.0.1",
        "fd00::1",
        "2001:db8::1",
    ];
    let all = all.map(ip);
    assert_eq!(
        told(connection, &all, all[0]),
        [ip("198.51.100.1"), ip("2001:db8::1")]
    );
    assert_eq!(
        told(connection, &all, ip("192.168.1.1")),
        [
            "192.0.2.1",
            "198.51.100.1",
            "172.17.0.1",
            "fd00::1",
            "2001:db8::1"
        ]
        .map(ip)
    );
    let many: Vec<IpAddr> = (1..100)
        .map(|it| IpAddr::from([198, 51, 100, it]))
        .collect();
    assert_eq!(told(connection, &many, all[0]).len(), MAX_ADDRESSES);
}
