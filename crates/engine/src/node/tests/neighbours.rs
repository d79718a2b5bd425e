//! Two connections of one station to one gateway, under one identity.

use super::*;

fn two_connections(seed: u8) -> World {
    let mut world = World::new(seed, |_, _| {});
    let named = |name: &'static str, host: &'static str| {
        let change: Change = Arc::new(move |connection: &mut Connection, _| {
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
    assert_eq!(world.ends[0].inbound.len(), 2);
    assert_eq!(world.ends[1].inbound.len(), 2);
    let is_closed = |event: &Event| matches!(event, Event::ChildClosed { .. });
    assert_eq!(world.ends[0].count(is_closed), 0);
    for name in ["first", "second"] {
        world.command(0, Command::RekeyIke(name.into()));
        world.run(Duration::from_secs(30));
    }
    assert_eq!(world.ends[0].inbound.len(), 2);
    assert_eq!(world.ends[1].inbound.len(), 2);
    assert_eq!(world.ends[0].count(is_closed), 0);
}

#[test]
fn the_first_of_two_connections_is_taken_down_alone() {
    let mut world = two_connections(71);
    world.run(Duration::from_secs(3));
    world.command(0, Command::Down("first".into()));
    world.run(Duration::from_secs(3));
    assert_eq!(world.ends[0].inbound.len(), 1);
    assert_eq!(world.ends[1].inbound.len(), 1);
    let keys = |end: &End| end.inbound.keys().copied().collect::<Vec<_>>();
    assert_eq!(
        keys(&world.ends[0]),
        world.ends[1].outbound.keys().copied().collect::<Vec<_>>()
    );
}
