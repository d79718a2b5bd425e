//! Our own addresses change: how soon a station follows, and how often at most.

use super::super::addresses::{FOLLOW_WINDOW, FOLLOWED_AT_ONCE};
use super::*;
use crate::config::Encapsulation::{Auto, ThroughNat};

const WIFI: [u8; 4] = [10, 0, 0, 77];
const CELL: [u8; 4] = [10, 0, 0, 78];

/// A tunnel that is up, without a NAT between.
fn settled(seed: u8, is_udp: bool) -> World {
    let mut world = World::new(seed, move |connection, _| {
        connection.encapsulation = if is_udp { Auto } else { ThroughNat };
    });
    world.network.nat = None;
    world.network.wire.clear();
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

/// The two addresses take turns.
fn flap(world: &mut World, times: u32, every: Duration) {
    for turn in 0..times {
        let own = if turn % 2 == 0 { WIFI } else { CELL };
        world.has_address(own.into());
        world.run(every);
    }
}

#[test]
fn a_node_waits_until_it_is_told_its_addresses_and_begins_then() {
    let change: Change = Arc::new(|_, _| {});
    let mut node = Node::new(config(true, &change), &Seed::new([0x51; 32]));
    let drain = |node: &mut Node| {
        let (mut sent, mut asks) = (0, 0);
        loop {
            match node.poll() {
                Output::Datagram(..) => sent += 1,
                Output::WantsAddresses => asks += 1,
                Output::Wait(_) => return (sent, asks),
                _ => {}
            }
        }
    };
    assert_eq!(drain(&mut node), (0, 1));
    node.handle(Input::Wake, Instant(1));
    assert_eq!(drain(&mut node), (0, 0));
    let peers = node.peers();
    assert_eq!(peers.len(), 1);
    let ours = Addresses::of_one(STATION.into(), peers);
    node.handle(Input::Addresses(ours), Instant(2));
    assert_eq!(drain(&mut node), (1, 0));
}

#[test]
fn a_change_is_followed_in_the_same_moment() {
    let mut world = settled(161, true);
    let before = world.network.sent;
    world.has_address(WIFI.into());
    assert_eq!(world.ends[0].path().local.ip(), IpAddr::from(WIFI));
    assert_eq!(world.network.sent, before + 1, "a question shows the way");
    // Told again, it is no change.
    world.has_address(WIFI.into());
    assert_eq!(world.network.sent, before + 1);
}

#[test]
fn a_link_that_flaps_costs_little_and_the_newest_address_stays() {
    let mut world = settled(162, true);
    let before = world.network.sent;
    let every = Duration::from_millis(20);
    let seconds = 10;
    flap(&mut world, 50 * seconds, every);
    let followed = (seconds as usize + 1) * FOLLOWED_AT_ONCE;
    let sent = world.network.sent - before;
    // Each time, each end asks and answers once.
    assert!((20..=4 * followed).contains(&sent), "{sent} messages");
    world.run(FOLLOW_WINDOW + FOLLOW_WINDOW);
    for end in [0, 1] {
        let path = world.ends[end].path();
        let ip = if end == 0 { path.local } else { path.remote };
        assert_eq!(ip.ip(), IpAddr::from(CELL));
    }
    world.assert_up();
}

/// Without UDP each change is a new attempt.
#[test]
fn a_link_that_flaps_ends_few_tunnels_that_cannot_move() {
    let mut world = settled(163, false);
    let seconds = 10;
    flap(&mut world, 50 * seconds, Duration::from_millis(20));
    let is_end = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => *cause == EndCause::OwnAddressChanged,
        _ => false,
    };
    let ended = world.ends[0].count(is_end);
    assert!(
        (1..=(seconds as usize + 1) * FOLLOWED_AT_ONCE).contains(&ended),
        "{ended}"
    );
    world.run(Duration::from_secs(10));
    world.assert_up();
    assert_eq!(world.ends[0].path().local.ip(), IpAddr::from(CELL));
}
