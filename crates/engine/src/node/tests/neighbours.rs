//! Two connections of one station to one gateway, under one identity.

use super::*;

fn two_connections(seed: u8) -> World {
    two_with_loss(seed, true, None)
}

/// The datagram of this number, counted from 1, is lost.
fn two_with_loss(seed: u8, is_aggressive: bool, loses: Option<usize>) -> World {
    let mut world = World::new(seed, move |connection, is_station| {
        connection.is_aggressive = is_aggressive;
        if is_station {
            connection.start = Start::Responder;
        }
    });
    world.network.loses = loses;
    let named = |name: &'static str, host: &'static str| {
        let change: Change = Arc::new(move |connection: &mut Connection, _| {
            connection.is_aggressive = is_aggressive;
            connection.name = name.into();
            connection.children[0].remote = vec![host.parse().unwrap()];
        });
        config(true, &change).connections.remove(0)
    };
    let mut both = config(true, &world.change);
    both.connections = vec![
        named("first", "10.10.0.1/32"),
        named("second", "10.10.0.2/32"),
    ];
    world.input(0, Input::Configure(Arc::new(both)));
    world
}

#[test]
fn the_second_connection_to_a_gateway_leaves_the_first_alone() {
    let mut world = two_connections(70);
    world.run(Duration::from_secs(300));
    assert_eq!(world.ends[0].node.established(), 2);
    assert_eq!(world.ends[0].seen.inbound.len(), 2);
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    let is_closed = |event: &Event| matches!(event, Event::ChildClosed { .. });
    assert_eq!(world.ends[0].count(is_closed), 0);
    for name in ["first", "second"] {
        world.command(0, Command::RekeyIke(name.into()));
        world.run(Duration::from_secs(30));
    }
    assert_eq!(world.ends[0].seen.inbound.len(), 2);
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    assert_eq!(world.ends[0].count(is_closed), 0);
}

#[test]
fn numbers_of_children_wrap_around_and_pass_over_those_in_use() {
    let mut world = two_connections(79);
    world.ends[1].node.children.continue_at(u32::MAX);
    world.run(Duration::from_secs(3));
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    world.command(0, Command::Down("first".into()));
    world.run(Duration::from_secs(3));
    let gateway = &mut world.ends[1];
    let in_use: Vec<ChildId> = gateway.node.children.keys().copied().collect();
    assert_eq!(in_use.len(), 1);
    gateway.node.children.continue_at(in_use[0].0);
    world.command(0, Command::Up("first".into()));
    world.run(Duration::from_secs(3));
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    assert!(world.ends[1].node.children.contains_key(&in_use[0]));
    assert_eq!(world.ends[1].node.children.len(), 2);
}

#[test]
fn the_first_of_two_connections_is_taken_down_alone() {
    let mut world = two_connections(71);
    world.run(Duration::from_secs(3));
    world.command(0, Command::Down("first".into()));
    world.run(Duration::from_secs(3));
    assert_eq!(world.ends[0].seen.inbound.len(), 1);
    assert_eq!(world.ends[1].seen.inbound.len(), 1);
    let keys = |end: &End| end.seen.inbound.keys().copied().collect::<Vec<_>>();
    assert_eq!(
        keys(&world.ends[0]),
        world.ends[1]
            .seen
            .outbound
            .keys()
            .copied()
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_first_connection_that_is_late_leaves_the_second_alone() {
    for is_aggressive in [true, false] {
        for lost in 1..=12 {
            let mut world = two_with_loss(72, is_aggressive, Some(lost));
            world.run(Duration::from_secs(20));
            let case = format!("{lost}, aggressive {is_aggressive}");
            let is_closed = |event: &Event| matches!(event, Event::IkeClosed { .. });
            let closed = world.ends.each_ref().map(|end| end.count(is_closed));
            assert_eq!(closed, [0, 0], "{case}");
            assert_eq!(world.ends[0].seen.inbound.len(), 2, "{case}");
            assert_eq!(world.ends[1].seen.inbound.len(), 2, "{case}");
        }
    }
}
