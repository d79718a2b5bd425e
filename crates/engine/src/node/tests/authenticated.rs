//! A gateway that says how long an authentication is good for (RFC 4478).

use wire::ikev2::{Notify, Payload};

use super::*;
use crate::node::stations::LEAST_STAY;

fn world(seed: u8) -> World {
    world_with(seed, true)
}

fn world_with(seed: u8, reauth: bool) -> World {
    let mut world = World::of(Version::V2, seed, move |connection, _| {
        connection.resumption = true;
        connection.reauth = reauth;
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    world
}

/// The gateway says it in an exchange of its own.
fn says(world: &mut World, seconds: u32) {
    let now = world.now;
    let node = &mut world.ends[1].node;
    let id = node.sessions.ids(|it| it.is_current())[0];
    let session = node.sessions.get_mut(&id).expect("a session");
    let mut out = session.ike.outbox();
    let ike = session.ike.v2_mut().expect("IKEv2");
    let notice = Payload::Notify(Notify::auth_lifetime(seconds));
    ike.tell_for_testing(notice, &mut node.random, now, &mut out);
    node.flush(Some(id), out);
    node.arm_session(id);
    world.input(1, Input::Calendar(crate::time::Calendar(0)));
}

fn begun(world: &World) -> usize {
    world.ends[0].count(|event| matches!(event, Event::IkeEstablished { .. }))
}

#[test]
fn a_new_session_takes_over_in_time_with_the_same_inner_address() {
    let mut world = world(220);
    let inner = world.ends[0].inner();
    says(&mut world, 100);
    world.run(Duration::from_secs(49));
    assert_eq!(begun(&world), 1);
    world.run(Duration::from_secs(3));
    assert_eq!(begun(&world), 2);
    world.assert_up();
    assert_eq!(world.ends[0].inner(), inner);
    // It has proven itself by its key, not by a ticket, and both ends have closed the old session.
    let is_resumed = |event: &Event| {
        matches!(
            event,
            Event::IkeEstablished {
                is_resumed: true,
                ..
            }
        )
    };
    assert!(!world.ends[0].told(is_resumed));
    let is_cause = |cause: &EndCause| *cause == EndCause::AuthenticatedAgain;
    let is_again =
        |event: &Event| matches!(event, Event::IkeClosed { cause, .. } if is_cause(cause));
    assert_eq!(world.ends[0].count(is_again), 1);
    // Nobody has said how long the new one lasts.
    world.run(Duration::from_secs(600));
    assert_eq!(begun(&world), 2);
    assert!(world.ends.iter().all(|end| end.node.sessions.len() == 1));
}

#[test]
fn a_connection_may_end_with_its_authentication() {
    let mut world = world_with(226, false);
    says(&mut world, 100);
    world.run(Duration::from_secs(200));
    assert_eq!(begun(&world), 1);
    world.assert_up();
}

#[test]
fn what_a_gateway_says_is_bounded() {
    let mut world = world(221);
    let before = world.now;
    while world.now.since(before) < Duration::from_secs(290) {
        says(&mut world, 0);
        world.run(Duration::from_secs(1));
    }
    let most = 290 / LEAST_STAY.as_secs();
    let again = begun(&world) as u64 - 1;
    assert!((most - 1..=most).contains(&again), "{again}");
    world.run(Duration::from_secs(5));
    world.assert_up();
    // Longer than anything lasts.
    says(&mut world, u32::MAX);
    world.run(Duration::from_secs(100));
    assert_eq!(begun(&world) as u64 - 1, again.max(most));
}

#[test]
fn an_attempt_that_gets_no_answer_leaves_the_tunnel_and_is_repeated() {
    let mut world = world(222);
    says(&mut world, 100);
    world.run(Duration::from_secs(45));
    world.network.loss = 1.0;
    world.run(Duration::from_secs(20));
    world.network.loss = 0.0;
    assert_eq!(begun(&world), 1);
    world.run(Duration::from_secs(60));
    assert_eq!(begun(&world), 2);
    world.assert_up();
}

#[test]
fn only_the_address_of_the_tunnel_is_asked() {
    const OTHER: [u8; 4] = [192, 0, 2, 9];
    let mut world = World::of(Version::V2, 227, |connection, is_station| {
        if is_station {
            connection.remote_addrs = [GATEWAY, OTHER].map(|it| (it, IKE_PORT).into()).to_vec();
        }
    });
    world.run(Duration::from_secs(2));
    says(&mut world, 100);
    world.run(Duration::from_secs(49));
    assert_eq!(begun(&world), 1);
    // Its first packets are lost, and the other one would answer.
    world.network.dead = [IpAddr::from(GATEWAY)].into();
    world.run(Duration::from_secs(3));
    world.network.dead.clear();
    world.run(Duration::from_secs(20));
    assert_eq!(begun(&world), 2);
    world.assert_up();
    let chosen = world.ends[0]
        .seen
        .events
        .iter()
        .filter_map(|event| match event {
            Event::AddressChosen { address, .. } => Some(address.ip()),
            _ => None,
        });
    assert!(chosen.into_iter().all(|it| it == IpAddr::from(GATEWAY)));
    let status = world.ends[0].node.status(world.now);
    let session = status.connections[0].sessions.first();
    assert_eq!(session.map(|it| it.path.remote.ip()), Some(GATEWAY.into()));
}
