//! Children of IKEv2 at the node: their own key exchanges, ranges of ports, and tunnels that begin
//! without a child.

use super::ikev2::speaks;
use super::*;
use crate::config::{Child, Childless, Version};

const HYBRID: &str = "aes128gcm16-curve25519-ke1_mlkem768";

fn world(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        change(connection, is_station);
    })
}

fn with(words: &'static str) -> impl Fn(&mut Connection, bool) + Send + Sync + 'static {
    move |connection, _| connection.children[0].proposals = vec![words.parse().expect("a suite")]
}

fn suites(world: &World, end: usize) -> Vec<String> {
    let events = world.ends[end].seen.events.iter();
    let suites = events.filter_map(|event| match event {
        Event::ChildEstablished { suite, .. } => Some(suite.clone()),
        _ => None,
    });
    suites.collect()
}

fn is_closed(event: &Event) -> bool {
    matches!(event, Event::ChildClosed { .. })
}

/// Every SPI of ours names an SA in the plane, and there is one child at each end.
fn assert_clean(world: &World) {
    for end in &world.ends {
        assert_eq!(end.node.children.len(), 1);
        let sessions = end.node.sessions.values();
        let open: usize = sessions.map(|it| it.ike.exchanges().len()).sum();
        assert_eq!(open, 0);
    }
}

/// The gateway begins nothing before the station uses the new IKE SA, and that renews the child.
#[test]
fn a_renewal_that_waited_for_the_new_ike_sa_and_came_too_late_is_forgotten_at_once() {
    let mut world = world(30, |_, _| {});
    world.run(Duration::from_secs(2));
    world.assert_up();
    let (name, delay) = ("road".to_owned(), world.network.delay);
    world.command(0, Command::RekeyIke(name.clone()));
    world.run(delay);
    world.command(1, Command::RekeyChildren(name.clone()));
    assert_eq!(world.ends[1].node.children.reserved(), 1);
    world.run(delay);
    // The delete of the old one is lost.
    world.network.wire.retain(|it| it.to == 0);
    world.command(0, Command::RekeyChildren(name));
    world.run(delay);
    assert_eq!(suites(&world, 1).len(), 2, "the station renews it");
    assert_eq!(world.ends[1].node.children.reserved(), 0);
    world.run(Duration::from_secs(30));
    world.assert_up();
    assert_clean(&world);
}

#[test]
fn hybrid_children_are_renewed_from_both_ends_and_nothing_closes() {
    let mut world = world(1, with(HYBRID));
    world.run(Duration::from_secs(2));
    world.assert_up();
    for end in [0, 1, 0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(30));
        world.assert_up();
    }
    assert_eq!(suites(&world, 0)[0], "aes128gcm16");
    assert_eq!(suites(&world, 0)[1..], [HYBRID; 4]);
    assert_eq!(suites(&world, 1)[1..], [HYBRID; 4]);
    assert!(!world.ends.iter().any(|end| end.told(is_closed)));
    world.run(Duration::from_secs(30));
    assert_clean(&world);
}

#[test]
fn hybrid_renewals_cross_and_many_datagrams_may_be_lost() {
    for seed in 1..20 {
        let mut world = world(seed, with(HYBRID));
        world.run(Duration::from_secs(2));
        world.network.loss = 0.15;
        for _ in 0..4 {
            world.command(0, Command::RekeyChildren("road".into()));
            world.command(1, Command::RekeyChildren("road".into()));
            world.run(Duration::from_secs(10));
        }
        world.network.loss = 0.0;
        world.run(Duration::from_secs(120));
        world.assert_up();
        for end in &world.ends {
            let mut closed = end.seen.events.iter().filter(|it| is_closed(it));
            let closed = closed.next();
            assert!(closed.is_none(), "{seed}: {closed:?}");
        }
        assert_clean(&world);
    }
}

#[test]
fn a_gateway_narrows_a_range_of_ports_and_packets_keep_to_it() {
    let mut world = world(3, |connection, is_station| {
        let (asked, allowed) = (
            "10.10.0.0/24[udp/1000-2000]",
            ["10.10.0.0/25[udp/1500-3000]", "10.10.0.0/24[udp/1700]"],
        );
        match is_station {
            true => connection.children[0].remote = vec![asked.parse().unwrap()],
            false => {
                let allowed = allowed.iter().map(|it| it.parse().unwrap());
                connection.children[0].local = allowed.collect();
            }
        }
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    let status = world.ends[0].node.status(world.now);
    let child = &status.connections[0].sessions[0].children[0];
    assert_eq!(
        child.remote,
        "10.10.0.0/25[udp/1500-2000],10.10.0.0/24[udp/1700]"
    );
    // Renewals keep it.
    for end in [0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(30));
        world.assert_up();
    }
    assert!(!world.ends.iter().any(|end| end.told(is_closed)));
}

/// A gateway that names other addresses as the station's side would reach what is its alone.
#[test]
fn a_station_protects_nothing_but_what_it_was_lent() {
    for (seed, side, is_up) in [(10, "172.17.0.0/16", false), (11, "0.0.0.0/0", true)] {
        let mut world = world(seed, move |connection, is_station| {
            if !is_station {
                connection.children[0].remote = vec![side.parse().unwrap()];
            }
        });
        world.run(Duration::from_secs(2));
        let station = &world.ends[0];
        let is_there = |event: &Event| matches!(event, Event::ChildEstablished { .. });
        assert_eq!(station.told(is_there), is_up, "{side}");
        if !is_up {
            let reason = station.failure().expect("a failure");
            assert!(reason.contains("and protects 172.17.0.0/16"), "{reason}");
            assert!(station.seen.inbound.is_empty() && station.seen.outbound.is_empty());
            assert!(world.ends[1].seen.inbound.is_empty(), "the gateway is told");
        }
    }
}

/// Equal selectors are no renewal in IKEv2: strongSwan makes two such children if two packets ask
/// for them (RFC 4301 §4.1).
#[test]
fn two_children_of_the_same_traffic_stand_beside_each_other() {
    let mut world = world(12, |connection, is_station| {
        if is_station {
            let again = Child {
                name: "again".into(),
                ..connection.children[0].clone()
            };
            connection.children.push(again);
        }
    });
    world.run(Duration::from_secs(60));
    world.assert_up();
    for end in &world.ends {
        assert_eq!(end.seen.inbound.len(), 2);
        assert!(!end.told(is_closed));
    }
}

#[test]
fn a_tunnel_that_begins_without_a_child_comes_up_as_others_do() {
    for (seed, loss, station) in [
        (4, 0.0, Childless::Prefer),
        (5, 0.3, Childless::Prefer),
        (6, 0.3, Childless::Prefer),
        // It asks for a child with its authentication, and gets it later.
        (8, 0.0, Childless::Allow),
        (9, 0.3, Childless::Allow),
    ] {
        let mut world = world(seed, move |connection, is_station| {
            with(HYBRID)(connection, is_station);
            connection.childless = match is_station {
                true => station,
                false => Childless::Force,
            };
        });
        world.network.loss = loss;
        world.run(Duration::from_secs(if loss > 0.0 { 120 } else { 2 }));
        world.network.loss = 0.0;
        world.run(Duration::from_secs(60));
        world.assert_up();
        // Its first pair has a key exchange of its own.
        assert!(suites(&world, 0).iter().all(|it| it == HYBRID));
        assert_clean(&world);
    }
}

#[test]
fn one_that_requires_it_meets_a_gateway_that_does_not_take_it() {
    let mut world = world(7, |connection, is_station| {
        connection.childless = match is_station {
            true => Childless::Force,
            false => Childless::Never,
        };
    });
    world.run(Duration::from_secs(2));
    let reason = world.ends[0].failure().expect("a failure");
    assert!(reason.contains("childless"), "{reason}");
    assert!(world.ends.iter().all(|end| end.seen.inbound.is_empty()));
}
