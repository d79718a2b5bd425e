//! The state that a session passes to its heir.

use super::turns::with_children;
use super::*;
use crate::ike::Lease;
use crate::ike::{Fault, Outbox};
use crate::node::leases::Purpose;
use crate::selector::TrafficSelector;

fn is_closed(event: &Event) -> bool {
    matches!(event, Event::ChildClosed { .. })
}

#[test]
fn a_quick_mode_under_way_ends_for_the_session_that_takes_over() {
    for end in [0, 1] {
        for late_ms in (0..200).step_by(20) {
            let mut world = with_children(110, 4, |_| {});
            world.run(Duration::from_secs(3));
            world.command(end, Command::RekeyIke("road".into()));
            world.run(Duration::from_millis(late_ms));
            world.command(0, Command::RekeyChildren("road".into()));
            world.run(Duration::from_secs(20));
            let closed = world.ends.each_ref().map(|end| end.count(is_closed));
            assert_eq!(closed, [0, 0], "{end} {late_ms}");
            for end in &world.ends {
                let sessions = end.node.sessions.values();
                let held: Vec<ChildId> = sessions.flat_map(|it| it.held.children.clone()).collect();
                assert_eq!(held.len(), 4, "{late_ms}");
            }
            world.assert_up();
        }
    }
}

#[test]
fn a_quick_mode_whose_session_ends_is_begun_again_under_the_one_that_took_over() {
    let mut world = with_children(111, 2, |_| {});
    world.run(Duration::from_secs(3));
    let old = *world.ends[0].node.sessions.keys().next().expect("one");
    world.command(0, Command::RekeyChildren("road".into()));
    // Messages in flight are lost, and so is the old session before the answer comes.
    world.network.wire.clear();
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(300));
    let now = world.now;
    let node = &mut world.ends[0].node;
    node.handle(Input::Wake, now);
    node.close_session(old, EndCause::DeletedByPeer, false, now);
    world.settle(0);
    world.run(Duration::from_secs(10));
    let renewed = |event: &Event| matches!(event, Event::ChildEstablished { is_rekey: true, .. });
    assert_eq!(world.ends[0].count(renewed), 2);
    assert_eq!(world.ends[0].count(is_closed), 0);
    world.assert_up();
}

#[test]
fn children_send_to_where_the_session_that_took_over_is() {
    let mut world = World::new(112, |_, _| {});
    world.run(Duration::from_secs(2));
    world.rebind();
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(300));
    let path = world.ends[1].path();
    let paths: Vec<Path> = world.ends[1].seen.paths.values().copied().collect();
    assert_eq!(paths, [path]);
}

#[test]
fn a_child_that_was_refused_is_begun_again_although_another_was_slow() {
    let mut world = with_children(113, 2, |_| {});
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(1));
    world.command(0, Command::Up("road".into()));
    while world.ends[0].node.established() == 0 {
        world.run(Duration::from_millis(1));
    }
    world.run(Duration::from_millis(60));
    let now = world.now;
    let node = &mut world.ends[0].node;
    let (id, session) = node.sessions.iter().next().expect("one");
    let (id, all) = (id, session.ike.exchanges());
    let pending = all.first().expect("a quick mode");
    let (child, spi) = (pending.child, pending.spi);
    let refused = Fault::Refused("no".into());
    node.handle(Input::Wake, now);
    node.child_failed(id, child, spi, &refused, now);
    node.begin_waiting(id, now);
    world.settle(0);
    world.network.wire.clear();
    world.network.loss = 1.0;
    world.run(Duration::from_secs(31));
    world.network.loss = 0.0;
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[0].seen.outbound.len(), 2);
}

#[test]
fn a_peer_has_so_many_children_under_all_its_sessions() {
    let mut world = with_children(114, 1, |gateway| gateway.limits.children = 4);
    world.run(Duration::from_secs(2));
    for round in 0..3_u8 {
        world.command(0, Command::RekeyIke("road".into()));
        world.run(Duration::from_millis(300));
        let now = world.now;
        let node = &mut world.ends[0].node;
        node.handle(Input::Wake, now);
        let old = *node.sessions.keys().next().expect("the old one");
        let connection = node.config.connections[0].clone();
        let inner = node
            .sessions
            .values()
            .find_map(|it| it.held.lease.as_deref());
        let inner = TrafficSelector::host(inner.expect("a lease").addresses[0]);
        for host in 0..4 {
            let remote = format!("10.10.0.{}/32", 100 + round * 4 + host);
            let selectors = (vec![inner], vec![remote.parse().expect("a host")]);
            let child = node.add_child(&connection, 0, true, selectors);
            node.begin_child(old, child, now);
        }
        world.settle(0);
        world.run(Duration::from_secs(1));
        let now = world.now;
        let node = &mut world.ends[0].node;
        node.handle(Input::Wake, now);
        if let Some(session) = node.sessions.get_mut(&old) {
            session.held.children.clear();
        }
        node.close_session(old, EndCause::PeerSilent, true, now);
        world.settle(0);
        world.run(Duration::from_secs(1));
    }
    let held = world.ends[1].node.children.len();
    assert!(held <= 4, "{held}");
}

#[test]
fn a_neighbour_of_the_same_identity_deletes_nothing_of_ours() {
    let mut world = many_of_one_identity(115, 2, None);
    // The gateway renews: the first session of each is replaced.
    world.command(1, Command::RekeyIke("road".into()));
    world.run(Duration::from_secs(1));
    let station = &world.ends[0].node;
    let of = |name: &str| {
        let mut sessions = station.sessions.values();
        let is_it = |it: &Session| it.is_of(name);
        sessions.find(|it| is_it(it)).expect("one")
    };
    let stranger = station
        .children
        .values()
        .find(|it| it.connection.name == "road1");
    let pair = stranger.and_then(|it| it.current.as_ref()).expect("a pair");
    let old = of("road0");
    let sa = old.ike.sa().expect("established");
    let delete = informational::delete_children(crate::sa::Protocol::Esp, &[pair.spi_in]);
    let mut out = Outbox::default();
    informational::send(sa, vec![delete], 0x54, &mut out);
    let message = super::session::with_marker(old.path(), out.messages[0].message.clone());
    let path = world.ends[1].path();
    world.deliver(1, path, &message);
    assert_eq!(world.ends[1].count(is_closed), 0);
}

#[test]
fn a_mode_config_answer_is_repeated_a_bounded_number_of_times() {
    let mut world = World::new(116, |_, _| {});
    let is_request = |datagram: &Vec<u8>| {
        let header = Header::parse(datagram.strip_prefix(&[0; 4])?).ok()?;
        (header.0.exchange == Exchange::Transaction).then_some(())
    };
    while !world.network.log.iter().any(|it| is_request(it).is_some()) {
        world.run(Duration::from_millis(1));
    }
    let mut requests = world
        .network
        .log
        .iter()
        .filter(|it| is_request(it).is_some());
    let request = requests.next().expect("a request").clone();
    world.run(Duration::from_millis(20));
    world.network.loss = 1.0;
    let mut path = world.ends[1].path();
    path.remote.set_port(9);
    let before = world.network.sent;
    for _ in 0..50 {
        world.deliver(1, path, &request);
    }
    let answers = world.network.sent - before;
    assert!((1..=10).contains(&answers), "{answers}");
}

#[test]
fn a_renewal_that_was_refused_is_tried_again_before_the_sas_expire() {
    let mut world = World::new(117, |_, _| {});
    world.run(Duration::from_secs(2));
    world.command(0, Command::RekeyChildren("road".into()));
    world.network.wire.clear();
    let now = world.now;
    let node = &mut world.ends[0].node;
    let (id, session) = node.sessions.iter().next().expect("one");
    let mut open = session.ike.exchanges().into_iter().filter(|it| !it.is_done);
    let (id, pending) = (id, open.next().expect("a quick mode"));
    let (child, spi) = (pending.child, pending.spi);
    node.handle(Input::Wake, now);
    node.child_failed(id, child, spi, &Fault::Refused("no".into()), now);
    world.settle(0);
    world.run(Duration::from_secs(60));
    let renewed = |event: &Event| matches!(event, Event::ChildEstablished { is_rekey: true, .. });
    assert_eq!(world.ends[0].count(renewed), 1);
    world.assert_up();
}

#[test]
fn a_session_whose_heir_has_ended_leaves_its_lease_to_the_next() {
    let mut world = World::new(118, |_, _| {});
    world.run(Duration::from_secs(2));
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(300));
    let now = world.now;
    let node = &mut world.ends[1].node;
    let ids: Vec<SessionId> = node.sessions.keys().copied().collect();
    let [old, heir] = ids[..] else {
        panic!("two sessions, not {ids:?}");
    };
    node.handle(Input::Wake, now);
    node.close_session(heir, EndCause::Expired, false, now);
    // The peer asks under the old one.
    let pool = &node.config.pools[0];
    let session = node.sessions.get_mut(&old).expect("the old session");
    let peer = peer_of(session);
    let address = node.leases.lend(pool, &peer, Purpose::Inner, None);
    session.held.lease = Some(Box::new(Lease {
        addresses: address.into_iter().collect(),
        ..Lease::default()
    }));
    world.settle(1);
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(300));
    let now = world.now;
    let node = &mut world.ends[1].node;
    let last = node.sessions.values().next_back().expect("the last one");
    assert!(last.held.lease.is_some());
    node.handle(Input::Wake, now);
    node.close_session(old, EndCause::Expired, false, now);
    assert_eq!(node.leases.live("inner"), 1);
    world.settle(1);
}

#[test]
fn either_end_tries_a_renewal_of_phase_1_again() {
    for end in [0, 1] {
        for is_aggressive in [true, false] {
            let mut world = World::new(119, move |connection, _| {
                connection.is_aggressive = is_aggressive;
            });
            world.run(Duration::from_secs(2));
            world.command(end, Command::RekeyIke("road".into()));
            let established = |event: &Event| matches!(event, Event::IkeEstablished { .. });
            let failed = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
            while !world.ends[end].told(failed) {
                world.network.wire.clear();
                world.run(Duration::from_millis(5));
            }
            world.run(Duration::from_secs(15));
            assert_eq!(world.ends[end].count(established), 2, "end {end}");
            world.assert_up();
        }
    }
}
