//! Packets through the tunnels that two nodes have made: both planes with the keys of control.

use super::*;

#[test]
fn a_packet_that_needs_a_tunnel_brings_it_up_and_is_answered_through_it() {
    let mut world = World::new(200, |connection, is_station| {
        if is_station {
            connection.start = Start::OnTraffic;
            connection.wants_inner = InnerFamilies::default();
            connection.children[0].local = vec!["10.20.0.0/24".parse().expect("a selector")];
        } else {
            connection.pools.clear();
            connection.children[0].remote = vec!["10.20.0.0/24".parse().expect("a selector")];
        }
    });
    let packet = datagram([10, 20, 0, 7].into(), INSIDE.into(), 200);
    assert!(!world.send(0, packet.clone()));
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(
        world.ends[1].seen.opened[..],
        *core::slice::from_ref(&packet)
    );
    // The answer has the two addresses exchanged, and so it comes from where the packet went.
    let answer = datagram(INSIDE.into(), [10, 20, 0, 7].into(), 200);
    assert_eq!(world.ends[0].seen.opened, [answer]);
    assert!(world.send(0, packet));
    let carried = |plane: crate::plane::PlaneReport| {
        let packets = plane.associations.iter().map(|sa| sa.packets);
        packets.sum::<u64>()
    };
    world.run(Duration::from_secs(1));
    for end in &world.ends {
        assert_eq!(carried(end.outbound.report()), 2);
        assert_eq!(carried(end.inbound.report()), 2);
    }
}

#[test]
fn packets_of_a_peer_that_moves_move_its_path() {
    let mut world = World::new(201, |_, _| {});
    world.run(Duration::from_secs(2));
    world.rebind();
    world.packet();
    world.run(Duration::from_millis(100));
    let port = world.nat_port(NAT_T_PORT);
    assert_eq!(world.ends[1].path().remote.port(), port);
    assert!(world.ends[1].told(|event| matches!(event, Event::PathMoved { .. })));
    assert_eq!(world.ends[0].seen.opened.len(), 1);
}

#[test]
fn a_removed_sa_leaves_its_planes_and_its_packets_are_counted() {
    let mut world = World::new(202, |_, _| {});
    world.run(Duration::from_secs(2));
    world.packet();
    world.run(Duration::from_secs(1));
    for end in &world.ends {
        assert_eq!(end.seen.opened.len(), 1, "{:?}", end.drops());
    }
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(1));
    for end in &world.ends {
        assert!(end.inbound.report().associations.is_empty());
        assert!(end.outbound.report().associations.is_empty());
        let ended = |event: &Event| match event {
            Event::SessionEnded { summary, .. } => {
                (summary.received.packets, summary.sent.packets) == (1, 1)
            }
            _ => false,
        };
        assert!(end.told(ended), "{:#?}", end.seen.events);
    }
}
