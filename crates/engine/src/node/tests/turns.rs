//! Several children under one session: their quick modes take turns.

use super::*;
use crate::ike::Outbox;

/// A station with this many children, each to a host of its own.
pub(super) fn with_children(seed: u8, number: u8, config: impl Fn(&mut Config)) -> World {
    of_version(Version::V1, seed, number, config)
}

/// The same with this version of IKE.
pub(super) fn of_version(
    version: Version,
    seed: u8,
    number: u8,
    config: impl Fn(&mut Config),
) -> World {
    let mut world = World::of(version, seed, move |connection, is_station| {
        if is_station {
            connection.children = (0..number).map(|_| child(true)).collect();
            for (host, child) in connection.children.iter_mut().enumerate() {
                child.remote = vec![format!("10.10.0.{host}/32").parse().unwrap()];
            }
        }
    });
    let mut gateway = super::config(false, &world.change);
    config(&mut gateway);
    world.input(1, Input::Configure(Arc::new(gateway)));
    world
}

fn asking(world: &World) -> usize {
    let sessions = world.ends[0].node.sessions.values();
    let quicks = sessions.flat_map(|session| session.ike.exchanges());
    quicks.filter(|it| it.is_asked).count()
}

#[test]
fn quick_modes_of_one_session_follow_each_other() {
    let mut world = with_children(60, 20, |_| {});
    let mut most = 0;
    while world.now < Instant(0) + Duration::from_secs(3) {
        world.run(Duration::from_millis(5));
        most = most.max(asking(&world));
    }
    assert_eq!(most, 1);
    assert_eq!(world.ends[1].seen.inbound.len(), 20);
    // all are renewed at once, and take turns as well
    world.command(0, Command::RekeyChildren("road".into()));
    assert_eq!(asking(&world), 1);
    world.run(Duration::from_secs(2));
    let renewed = |event: &Event| matches!(event, Event::ChildEstablished { is_rekey: true, .. });
    assert_eq!(world.ends[1].count(renewed), 20);
    world.assert_up();
}

#[test]
fn a_quick_mode_without_answer_holds_up_the_others_for_a_few_seconds_only() {
    let mut world = with_children(61, 3, |_| {});
    world.run(Duration::from_secs(2));
    world.command(0, Command::RekeyChildren("road".into()));
    world.network.wire.clear();
    world.network.loss = 1.0;
    world.run(Duration::from_millis(3_400));
    assert_eq!(asking(&world), 1);
    world.run(Duration::from_millis(200));
    assert_eq!(asking(&world), 2);
    world.network.loss = 0.0;
    world.run(Duration::from_secs(5));
    assert_eq!(asking(&world), 0);
    world.assert_up();
}

#[test]
fn exchanges_that_are_over_do_not_count_against_the_bound() {
    let mut world = with_children(62, 40, |gateway| gateway.limits.quick_modes = 4);
    world.run(Duration::from_secs(4));
    assert_eq!(world.ends[1].seen.inbound.len(), 40);
    assert_eq!(world.drops(1, DropReason::TooManyExchanges), 0);
    let session = world.ends[1].node.sessions.values().next().expect("one");
    assert!(
        session.ike.exchanges().len() <= 5,
        "{}",
        session.ike.exchanges().len()
    );
    world.assert_up();
}

#[test]
fn a_child_that_the_peer_names_by_our_spi_is_none_and_is_begun_again_later() {
    let mut world = World::new(65, |_, _| {});
    world.run(Duration::from_secs(2));
    // as strongSwan does if it cannot install its half
    let session = world.ends[1].node.sessions.values().next().expect("one");
    let sa = session.ike.sa().expect("established");
    let spi_out = *world.ends[1].seen.outbound.keys().next().expect("one");
    let delete = informational::delete_children(crate::sa::Protocol::Esp, &[spi_out]);
    let mut out = Outbox::default();
    informational::send(sa, vec![delete], 0x53, &mut out);
    let message =
        super::super::session::with_marker(session.path(), out.messages[0].message.clone());
    let path = world.ends[0].path();
    world.deliver(0, path, &message);
    assert!(world.ends[0].seen.inbound.is_empty());
    let begun = |event: &Event| matches!(event, Event::ChildEstablished { .. });
    world.run(Duration::from_secs(25));
    assert_eq!(world.ends[0].count(begun), 1);
    world.run(Duration::from_secs(10));
    assert_eq!(world.ends[0].count(begun), 2);
}

#[test]
fn children_that_wait_follow_the_session_that_takes_over() {
    let mut world = with_children(63, 8, |_| {});
    world.run(Duration::from_secs(3));
    world.command(0, Command::RekeyChildren("road".into()));
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_secs(10));
    let renewed = |event: &Event| matches!(event, Event::ChildEstablished { is_rekey: true, .. });
    assert_eq!(world.ends[1].count(renewed), 8);
    let waiting = |node: &Node| node.sessions.values().any(|it| it.has_waiting());
    assert!(!waiting(&world.ends[0].node));
    world.assert_up();
}

#[test]
fn as_many_children_as_one_likes_may_have_nothing_to_offer() {
    let mut world = with_children(64, 2, |_| {});
    world.run(Duration::from_secs(2));
    // AH goes through no NAT.
    let change: Change = Arc::new(|connection: &mut Connection, _| {
        connection.children[0].proposals = vec!["ah-sha256".parse().expect("a suite")];
    });
    let ah = config(true, &change);
    let now = world.now;
    let node = &mut world.ends[0].node;
    let connection = ah.connections[0].clone();
    let children =
        (0..20_000).map(|_| node.add_child(&connection, 0, true, (Vec::new(), Vec::new())));
    let children: Vec<ChildId> = children.collect();
    let (id, session) = node.sessions.iter_mut().next().expect("one");
    session.held.waiting = children;
    node.handle(Input::Wake, now);
    node.begin_waiting(id, now);
    world.settle(0);
    let failed = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
    assert_eq!(world.ends[0].count(failed), 20_000);
}
