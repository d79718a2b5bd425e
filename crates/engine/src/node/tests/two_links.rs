//! A station with two links, both with a carrier. The routing table prefers the first one, and that
//! may lead nowhere.

use super::*;
use crate::config::Encapsulation::Auto;
use crate::config::Version;
use crate::node::stations::{HEAD_START, UNANSWERED};

/// Its address on the second link.
const CELL: [u8; 4] = [10, 0, 0, 78];
/// A second address of the gateway.
const OTHER: [u8; 4] = [192, 0, 2, 2];

/// Its connection is wanted, and from these addresses of ours nothing comes back.
fn begun(
    seed: u8,
    silent: &[[u8; 4]],
    change: impl Fn(&mut Connection, bool) + Send + Sync + 'static,
) -> World {
    let mut world = World::of(Version::V2, seed, move |connection, is_station| {
        connection.encapsulation = Auto;
        if is_station {
            connection.start = Start::OnCommand;
            connection.dpd_delay = Some(Duration::from_secs(20));
        }
        change(connection, is_station);
    });
    world.network.nat = None;
    world.network.dead = silent.iter().map(|it| IpAddr::from(*it)).collect();
    has_both(&mut world);
    world.command(0, Command::Up("road".into()));
    world
}

/// Both links lead to each of the gateway's addresses, the first one better.
fn has_both(world: &mut World) {
    let both = || vec![STATION.into(), CELL.into()];
    let peers = world.ends[0].node.peers().into_iter();
    let all = peers.map(|peer| (peer, both())).collect();
    world.input(0, Input::Ways(Ways(all)));
}

fn is_up(world: &World) -> bool {
    !world.ends[0].seen.outbound.is_empty()
}

/// One tunnel, which begins at this address of the station's.
#[track_caller]
fn assert_at(world: &World, own: [u8; 4]) {
    world.assert_up();
    assert_eq!(world.ends[0].path().local.ip(), IpAddr::from(own));
    for end in &world.ends {
        assert_eq!(end.node.established(), 1);
    }
    assert_eq!(world.ends[0].node.sessions.len(), 1);
}

/// The addresses from which the station has begun.
fn begun_from(world: &World) -> BTreeSet<IpAddr> {
    let racers = world.ends[0].node.sessions.values();
    racers.map(|it| it.path().local.ip()).collect()
}

#[test]
fn a_tunnel_begins_by_the_second_link_where_the_first_is_silent() {
    let mut world = begun(150, &[STATION], |_, _| {});
    world.run(UNANSWERED - HEAD_START);
    assert_eq!(begun_from(&world), [STATION.into()].into());
    world.run(Duration::from_secs(2));
    assert_at(&world, CELL);
    // It stays there, though the routing table says what it said.
    let ends = |world: &World| {
        let is_end = |event: &Event| matches!(event, Event::IkeClosed { .. });
        world.ends[0].count(is_end)
    };
    let before = ends(&world);
    world.run(Duration::from_secs(300));
    has_both(&mut world);
    world.run(Duration::from_secs(30));
    assert_at(&world, CELL);
    assert_eq!(ends(&world), before);
}

/// Its other address has ways too, once it is known.
#[test]
fn it_stays_there_when_the_gateway_tells_its_other_address() {
    let mut world = begun(157, &[STATION], |_, _| {});
    world.input(
        1,
        Input::Addresses([GATEWAY, OTHER].map(IpAddr::from).into()),
    );
    world.run(UNANSWERED + Duration::from_secs(2));
    assert!(world.ends[0].node.peers().contains(&OTHER.into()));
    has_both(&mut world);
    world.run(Duration::from_secs(30));
    assert_at(&world, CELL);
}

#[test]
fn it_leaves_the_second_link_when_that_is_gone() {
    let mut world = begun(151, &[STATION], |_, _| {});
    world.run(UNANSWERED + Duration::from_secs(2));
    assert_at(&world, CELL);
    world.network.dead = vec![CELL.into()];
    world.has_address(STATION.into());
    world.run(Duration::from_secs(5));
    assert_at(&world, STATION);
}

#[test]
fn an_answer_on_the_first_link_is_enough_however_late() {
    for late in [0, 1_000, 2_400] {
        let mut world = begun(152, &[], |_, _| {});
        world.network.slow = Some((STATION.into(), Duration::from_millis(late)));
        for _ in 0..100 {
            world.run(Duration::from_millis(200));
            assert!(!begun_from(&world).contains(&CELL.into()), "{late} ms");
        }
        assert_at(&world, STATION);
    }
}

#[test]
fn both_addresses_of_a_gateway_are_asked_from_both_links() {
    let mut world = begun(153, &[STATION, OTHER], |connection, is_station| {
        if is_station {
            connection.remote_addrs = [OTHER, GATEWAY].map(|it| (it, IKE_PORT).into()).to_vec();
        }
    });
    world.run(UNANSWERED + Duration::from_secs(3));
    assert_at(&world, CELL);
    assert_eq!(world.ends[0].path().remote.ip(), IpAddr::from(GATEWAY));
}

#[test]
fn where_nothing_answers_at_all_few_are_tried_and_then_all_begins_again() {
    let mut world = begun(154, &[STATION, CELL], |_, _| {});
    world.run(UNANSWERED + Duration::from_secs(1));
    assert_eq!(begun_from(&world), [STATION, CELL].map(IpAddr::from).into());
    assert_eq!(world.ends[0].node.sessions.len(), 2);
    world.run(Duration::from_secs(600));
    assert!(!is_up(&world));
    assert!(world.ends[0].node.sessions.len() <= 2);
    world.network.dead = vec![STATION.into()];
    world.run(Duration::from_secs(120));
    assert_at(&world, CELL);
}

/// What a gateway without MOBIKE, and one that restarts, make of such a tunnel.
#[test]
fn a_gateway_without_mobike_keeps_it_there_too() {
    let mut world = begun(158, &[STATION], |connection, is_station| {
        connection.mobike = is_station;
    });
    world.run(UNANSWERED + Duration::from_secs(2));
    assert_at(&world, CELL);
    let sent = world.network.unheard.len();
    has_both(&mut world);
    world.run(Duration::from_secs(15));
    assert_at(&world, CELL);
    let tried = &world.network.unheard[sent..];
    assert!(tried.is_empty(), "nothing goes by the silent link");
}

#[test]
fn after_a_restart_of_the_gateway_it_begins_again_by_the_second_link() {
    let mut world = begun(159, &[STATION], |_, _| {});
    world.run(UNANSWERED + Duration::from_secs(2));
    world.restart_gateway();
    world.packet();
    world.run(Duration::from_secs(45));
    assert_at(&world, CELL);
}

/// NO_PROPOSAL_CHOSEN in answer to a first message (RFC 7296 §3.10.1).
fn refusal(message: &[u8]) -> Option<Vec<u8>> {
    let is_first = message[18] == 34 && message[19] & 0x20 == 0;
    let header = [&[1; 8][..], &[41, 0x20, 34, 0x20, 0, 0, 0, 0, 0, 0, 0, 36]].concat();
    let notify = [0, 0, 0, 8, 0, 0, 0, 14];
    is_first.then(|| [&message[..8], &header, &notify].concat())
}

/// Whoever is on the first link refuses everything, and proves nothing.
#[test]
fn a_refusal_that_proves_nothing_does_not_keep_it_from_the_second_link() {
    let mut world = begun(160, &[STATION], |_, _| {});
    let since = world.now;
    while !is_up(&world) {
        assert!(world.now.since(since) < Duration::from_secs(20));
        world.run(Duration::from_millis(50));
        let sessions = world.ends[0].node.sessions.values();
        let paths: Vec<Path> = sessions.map(|it| it.path()).collect();
        let is_first = |it: &Path| it.local.ip() == IpAddr::from(STATION);
        let first = paths.into_iter().find(is_first);
        for message in world.network.log.split_off(0) {
            if let (Some(path), Some(refusal)) = (first, refusal(&message)) {
                world.deliver(0, path, &refusal);
            }
        }
    }
    world.run(Duration::from_secs(5));
    assert_at(&world, CELL);
}

/// Runs until the station has proven itself, and then loses what is for its first link.
fn proven_into_silence(seed: u8) -> World {
    let mut world = begun(seed, &[], |_, _| {});
    let has_proven = |world: &World| {
        let mut sessions = world.ends[0].node.sessions.values();
        sessions.any(|it| it.ike.has_proven())
    };
    while !has_proven(&world) {
        world.run(Duration::from_millis(1));
    }
    world.network.dead = vec![STATION.into()];
    world
}

/// A gateway may ask others who we are, and would see two of us.
#[test]
fn a_gateway_that_examines_us_is_not_asked_from_the_second_link() {
    let mut world = proven_into_silence(161);
    for _ in 0..9 {
        world.run(Duration::from_secs(1));
        assert!(!begun_from(&world).contains(&CELL.into()));
    }
    world.network.dead.clear();
    world.run(Duration::from_secs(5));
    assert_at(&world, STATION);
}

#[test]
fn whoever_begins_and_cannot_prove_itself_is_left_for_the_second_link() {
    let mut world = proven_into_silence(162);
    world.run(Duration::from_secs(20));
    assert_at(&world, CELL);
}

#[test]
fn a_wrong_password_is_said_once_an_attempt_whatever_the_links() {
    let mut world = users::examined_by(163, || users::users(&["bob"]));
    has_both(&mut world);
    for _ in 0..600 {
        world.run(Duration::from_millis(500));
        assert!(begun_from(&world).len() < 2);
    }
    assert!(
        world.ends[0].node.status(world.now).connections[0]
            .retry_in
            .is_some()
    );
}

#[test]
fn an_address_more_or_less_moves_no_tunnel() {
    let mut world = begun(164, &[STATION], |_, _| {});
    world.run(UNANSWERED + Duration::from_secs(2));
    let more = || vec![STATION.into(), CELL.into(), [10, 0, 0, 79].into()];
    let peers = world.ends[0].node.peers().into_iter();
    let all = peers.map(|peer| (peer, more())).collect();
    world.input(0, Input::Ways(Ways(all)));
    world.run(Duration::from_secs(5));
    has_both(&mut world);
    world.run(Duration::from_secs(5));
    assert_at(&world, CELL);
    assert!(!world.ends[0].told(|event| matches!(event, Event::PathMoved { .. })));
}

#[test]
fn a_refusal_by_the_second_link_ends_the_attempt_on_the_silent_one() {
    let mut world = begun(165, &[STATION], |connection, is_station| {
        if !is_station {
            let secret = Arc::new(Secret(b"another secret".to_vec()));
            connection.local.method = LocalMethod::PresharedKey(secret.clone());
            connection.remote.method = RemoteMethod::PresharedKey(secret);
        }
    });
    world.run(UNANSWERED + Duration::from_secs(3));
    let retries = |event: &Event| matches!(event, Event::RetryScheduled { .. });
    assert_eq!(world.ends[0].count(retries), 1);
}

#[test]
fn without_mobike_and_from_addresses_that_the_file_does_not_name_nothing_is_tried() {
    let mut without = begun(155, &[STATION], |connection, _| connection.mobike = false);
    let mut bound = begun(156, &[STATION], |connection, is_station| {
        if is_station {
            connection.local_addrs = vec![STATION.into()];
        }
    });
    for world in [&mut without, &mut bound] {
        world.run(Duration::from_secs(60));
        assert!(!is_up(world));
        assert!(begun_from(world).is_subset(&[STATION.into()].into()));
    }
}
