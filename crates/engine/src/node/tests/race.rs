//! A gateway with several addresses: the order of attempts, the winner, and the end of the others.

use super::*;
use crate::endpoint::Effect;
use crate::node::stations::{ANSWERED, HEAD_START};

/// An address without a host, or with one only sometimes.
const OTHER: [u8; 4] = [192, 0, 2, 9];

/// The gateway's addresses: [`OTHER`], then the real one. Those in `dead` never answer.
fn world(seed: u8, (version, is_aggressive): (Version, bool), dead: &[[u8; 4]]) -> World {
    let mut world = World::of(version, seed, move |connection, is_station| {
        connection.is_aggressive = is_aggressive;
        if is_station {
            connection.remote_addrs = [OTHER, GATEWAY].map(|it| (it, IKE_PORT).into()).to_vec();
            connection.dpd_delay = Some(Duration::from_secs(20));
        }
    });
    world.network.dead = dead.iter().map(|it| IpAddr::from(*it)).collect();
    if !dead.is_empty() {
        world.network.wire.clear();
    }
    world
}

fn chosen(world: &World) -> Option<(IpAddr, String)> {
    let mut events = world.ends[0].seen.events.iter().rev();
    events.find_map(|event| match event {
        Event::AddressChosen {
            address, others, ..
        } => Some((address.ip(), others.join("; "))),
        _ => None,
    })
}

/// One session, one lease and one pair of SAs at either end, which carry packets.
fn assert_alone(world: &World) {
    world.assert_up();
    for end in &world.ends {
        assert_eq!(end.node.established(), 1);
        assert_eq!(end.node.sessions.len(), 1);
        assert_eq!((end.seen.inbound.len(), end.seen.outbound.len()), (1, 1));
    }
    assert_eq!(world.ends[1].node.status(world.now).pools[0].1, 1);
}

#[test]
fn a_dead_address_costs_a_quarter_of_a_second() {
    for mode in MODES {
        let mut world = world(180, mode, &[OTHER]);
        world.run(HEAD_START + Duration::from_millis(400));
        assert_alone(&world);
        let others = format!("{}:500: no answer", IpAddr::from(OTHER));
        assert_eq!(chosen(&world), Some((GATEWAY.into(), others.clone())));
        let status = world.ends[0].node.status(world.now);
        assert_eq!(status.connections[0].passed_over, [others]);
        world.run(Duration::from_secs(100));
        assert_alone(&world);
    }
}

#[test]
fn the_first_address_is_used_where_it_answers_and_no_other_is_tried() {
    for mode in MODES {
        let mut world = world(181, mode, &[]);
        world.run(Duration::from_secs(2));
        assert_alone(&world);
        let others = format!("{}:500: not tried", IpAddr::from(GATEWAY));
        assert_eq!(chosen(&world), Some((OTHER.into(), others)));
    }
}

#[test]
fn two_addresses_of_one_gateway_leave_one_tunnel_however_close_they_run() {
    for mode in MODES {
        for late in (0..=24).map(|step| Duration::from_millis(20 * step)) {
            let mut world = world(182, mode, &[]);
            world.network.slow = Some((OTHER.into(), late));
            world.run(Duration::from_secs(45));
            assert_alone(&world);
            let packets = world.ends[0].seen.sealing;
            assert!(
                world.ends[1].seen.inbound.contains_key(&packets),
                "{late:?}"
            );
        }
    }
}

#[test]
fn whoever_answers_and_cannot_prove_itself_wins_nothing_and_stalls_little() {
    for mode in MODES {
        let mut world = world(183, mode, &[OTHER]);
        let mut wrong = config(false, &world.change);
        let connection = Arc::get_mut(&mut wrong.connections[0]).expect("alone");
        let secret = Arc::new(Secret(b"another secret".to_vec()));
        connection.local.method = LocalMethod::PresharedKey(secret.clone());
        connection.remote.method = RemoteMethod::PresharedKey(secret);
        let mut impostor = endpoint(wrong, &Seed::new([9; 32]));
        let mut seen = 0;
        let since = world.now;
        while world.ends[0].seen.outbound.is_empty() {
            assert!(world.now.since(since) < ANSWERED + Duration::from_secs(2));
            world.run(Duration::from_millis(10));
            let unheard = &mut world.network.unheard;
            let asked = unheard.split_off(seen.min(unheard.len()));
            seen = world.network.unheard.len();
            for (path, payload) in asked {
                impostor.handle(Input::Datagram(path, &payload), world.now);
                while let Some(effect) = impostor.poll(world.now) {
                    if let Effect::Message(back, reply) = effect {
                        let path = arrives(back.remote, back.local);
                        world.deliver(0, path, &reply);
                    }
                }
            }
        }
        world.run(Duration::from_secs(20));
        world.assert_up();
        assert_eq!(chosen(&world).map(|it| it.0), Some(GATEWAY.into()));
        assert_eq!(world.ends[0].node.established(), 1);
    }
}

#[test]
fn where_all_addresses_are_dead_they_are_tried_again_and_again() {
    for mode in MODES {
        let mut world = world(184, mode, &[OTHER, GATEWAY]);
        world.run(Duration::from_secs(200));
        assert!(world.ends[0].count(|event| matches!(event, Event::RetryScheduled { .. })) >= 2);
        world.network.dead.clear();
        world.run(Duration::from_secs(40));
        assert_alone(&world);
    }
}

#[test]
fn a_station_that_is_taken_down_in_the_middle_stays_down() {
    for mode in MODES {
        let mut world = world(185, mode, &[OTHER, GATEWAY]);
        world.run(Duration::from_secs(1));
        world.command(0, Command::Down("road".into()));
        let sent = world.network.sent;
        world.network.dead.clear();
        world.run(Duration::from_secs(100));
        assert_eq!(
            (world.network.sent, world.ends[0].node.sessions.len()),
            (sent, 0)
        );
        world.command(0, Command::Up("road".into()));
        world.run(Duration::from_secs(2));
        assert_alone(&world);
    }
}
