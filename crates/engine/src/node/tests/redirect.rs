//! Redirect (RFC 5685) between nodes: a gateway that drains, and stations that are sent in circles.
//! The world has one gateway, at every address.

use wire::ikev2::Gateway;

use super::ikev2::speaks;
use super::*;
use crate::config::Version;
use crate::node::stations::{MAX_REDIRECTS, PERIOD};

const OTHER: [u8; 4] = [192, 0, 2, 2];

fn other() -> Gateway {
    Gateway::Address(OTHER.into())
}

fn world(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    let mut world = World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        if is_station {
            let named = |it: [u8; 4]| (it.into(), it.into());
            connection.redirects.networks = vec![named(OTHER), named(GATEWAY)];
        }
        change(connection, is_station);
    });
    world.has_no_nat();
    world
}

fn went(world: &World) -> usize {
    world.ends[0].count(|event| matches!(event, Event::SentToAnother { .. }))
}

fn remote(world: &World) -> IpAddr {
    world.ends[0].path().remote.ip()
}

#[test]
fn a_gateway_that_drains_sends_new_stations_elsewhere() {
    let mut world = world(200, |_, _| {});
    world.command(1, Command::Drain(Some(other())));
    assert_eq!(
        world.ends[1].node.status(world.now).draining.as_deref(),
        Some("192.0.2.2")
    );
    world.run(Duration::from_secs(5));
    // The host at the other address is the same gateway: it serves who comes from there.
    world.assert_up();
    assert_eq!(went(&world), 1);
    assert_eq!(remote(&world), IpAddr::from(OTHER));
    assert!(world.drops(1, DropReason::SentAway) > 0);
}

#[test]
fn connected_stations_are_told_and_their_tunnel_stays_until_the_other_one_is_up() {
    let mut world = world(201, |_, _| {});
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(remote(&world), IpAddr::from(GATEWAY));
    world.command(1, Command::Drain(Some(other())));
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(went(&world), 1);
    assert_eq!(remote(&world), IpAddr::from(OTHER));
    assert_eq!(world.ends[1].node.established(), 1);
    let closed = |event: &Event| {
        matches!(
            event,
            Event::IkeClosed {
                cause: EndCause::SentToAnother,
                ..
            }
        )
    };
    assert_eq!(world.ends[0].count(closed), 1);
}

#[test]
fn a_dead_gateway_elsewhere_costs_no_tunnel() {
    let mut world = world(202, |_, _| {});
    world.network.dead = vec![OTHER.into()];
    world.run(Duration::from_secs(5));
    world.command(1, Command::Drain(Some(other())));
    world.run(Duration::from_secs(100));
    world.assert_up();
    assert_eq!(went(&world), 1);
    assert_eq!(remote(&world), IpAddr::from(GATEWAY));
}

#[test]
fn a_station_does_not_go_where_its_configuration_does_not_say() {
    let mut world = world(203, |connection, is_station| {
        if is_station {
            connection.redirects.networks.pop();
            connection.redirects.networks[0] = ([10, 1, 1, 1].into(), [10, 1, 1, 9].into());
        }
    });
    world.run(Duration::from_secs(5));
    world.command(1, Command::Drain(Some(other())));
    world.run(Duration::from_secs(30));
    world.assert_up();
    assert_eq!((went(&world), remote(&world)), (0, IpAddr::from(GATEWAY)));
    assert!(world.drops(0, DropReason::WrongRedirect) > 0);
}

#[test]
fn a_station_that_was_sent_where_it_may_not_go_asks_to_be_served() {
    let mut world = world(214, |connection, is_station| {
        if is_station {
            connection.redirects.networks = vec![([10, 1, 1, 1].into(), [10, 1, 1, 9].into())];
        }
    });
    world.command(1, Command::Drain(Some(other())));
    world.run(Duration::from_secs(15));
    world.assert_up();
    assert_eq!((went(&world), remote(&world)), (0, IpAddr::from(GATEWAY)));
    let says_so = |event: &Event| {
        let words = "for 300 s we connect without REDIRECT_SUPPORTED";
        matches!(event, Event::NegotiationFailed { reason, .. } if reason.ends_with(words))
    };
    assert_eq!(world.ends[0].count(says_so), 1);
    // Later it says again that it can be sent elsewhere.
    world.command(0, Command::Down("road".into()));
    world.run(PERIOD);
    let dropped = world.drops(0, DropReason::WrongRedirect);
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(15));
    world.assert_up();
    assert!(world.drops(0, DropReason::WrongRedirect) > dropped);
    assert_eq!(world.ends[0].count(says_so), 2);
}

#[test]
fn a_station_without_anywhere_to_go_says_nothing_and_is_served() {
    let mut world = world(204, |connection, _| {
        connection.redirects = crate::config::Redirects::NONE;
    });
    world.command(1, Command::Drain(Some(other())));
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(went(&world), 0);
}

#[test]
fn a_circle_ends() {
    // Whoever answers sends the station to the address where it is not.
    let mut world = world(205, |_, _| {});
    let mut to = [other(), Gateway::Address(GATEWAY.into())]
        .into_iter()
        .cycle();
    for _ in 0..60 {
        world.command(1, Command::Drain(to.next()));
        world.run(Duration::from_millis(500));
    }
    assert!(went(&world) <= MAX_REDIRECTS, "{}", went(&world));
    world.command(1, Command::Drain(None));
    world.run(Duration::from_secs(60));
    world.assert_up();
    // Later it goes again.
    world.run(PERIOD);
    let before = went(&world);
    let there = match remote(&world) == IpAddr::from(OTHER) {
        true => Gateway::Address(GATEWAY.into()),
        false => other(),
    };
    world.command(1, Command::Drain(Some(there)));
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(went(&world), before + 1);
}

#[test]
fn a_gateway_that_drains_no_more_serves_again() {
    let mut world = world(206, |_, _| {});
    world.network.dead = vec![OTHER.into()];
    world.command(1, Command::Drain(Some(other())));
    world.run(Duration::from_secs(3));
    assert_eq!(world.ends[1].node.established(), 0);
    world.command(1, Command::Drain(None));
    assert_eq!(world.ends[1].node.status(world.now).draining, None);
    world.run(Duration::from_secs(120));
    world.assert_up();
    assert_eq!(remote(&world), IpAddr::from(GATEWAY));
}

#[test]
fn a_third_of_all_datagrams_may_be_lost() {
    for seed in 207..213 {
        let mut world = world(seed, |_, _| {});
        world.network.loss = 0.3;
        world.run(Duration::from_secs(60));
        world.command(1, Command::Drain(Some(other())));
        world.run(Duration::from_secs(120));
        world.network.loss = 0.0;
        world.run(Duration::from_secs(120));
        world.assert_up();
        assert_eq!(remote(&world), IpAddr::from(OTHER));
    }
}
