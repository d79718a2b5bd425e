//! A gateway that was killed and does not know its stations: how soon they are back, and what an
//! attacker who pretends such a restart can do. With IKEv2 both ends have tokens (`crash.rs`).

use super::crash::kill;
use super::*;
use crate::node::PEER_PATHS_MAX;
use crate::node::hints::HINT_INTERVAL;

fn up(version: Version, seed: u8) -> World {
    let mut world = World::of(version, seed, |connection, is_station| {
        connection.dpd_delay = Some(Duration::from_secs(if is_station { 20 } else { 60 }));
        connection.crash_detection = true;
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    world
}

fn established(world: &World) -> usize {
    world.ends[0].count(|event| matches!(event, Event::IkeEstablished { .. }))
}

/// The station as the gateway sees it.
fn station_seen(world: &World) -> Path {
    let port = world.nat_port(NAT_T_PORT);
    arrives((GATEWAY, NAT_T_PORT), (NAT, port))
}

/// The gateway as the station sees it.
fn gateway_seen() -> Path {
    arrives((STATION, NAT_T_PORT), (GATEWAY, NAT_T_PORT))
}

/// Time until the station is up with new keys, with a packet every `pause`; zero: none.
fn time_until_up(world: &mut World, pause: Duration, limit: Duration) -> Duration {
    let (before, since) = (established(world), world.now);
    let old = world.ends[0].seen.sealing;
    while established(world) == before || world.ends[0].seen.sealing == old {
        assert!(world.now.since(since) < limit, "not up after {limit:?}");
        if !pause.is_zero() {
            world.packet();
        }
        world.run(Duration::from_millis(100));
    }
    world.assert_up();
    world.now.since(since)
}

#[test]
fn a_station_with_traffic_is_back_within_three_seconds() {
    for version in VERSIONS {
        for seed in 160..168 {
            let mut world = up(version, seed);
            world.run(Duration::from_secs(7));
            kill(&mut world, 1);
            let pause = Duration::from_millis(100);
            time_until_up(&mut world, pause, Duration::from_secs(3));
            assert_eq!(world.ends[0].node.established(), 1);
            world.run(Duration::from_secs(60));
            world.assert_up();
            assert_eq!(established(&world), 2);
        }
    }
}

#[test]
fn an_idle_station_is_back_soon_after_its_next_question() {
    for version in VERSIONS {
        let mut world = up(version, 168);
        world.run(Duration::from_secs(7));
        kill(&mut world, 1);
        let took = time_until_up(&mut world, Duration::ZERO, Duration::from_secs(30));
        assert!(took < Duration::from_secs(22), "{took:?}");
    }
}

#[test]
fn a_gateway_that_stays_dead_keeps_its_old_tunnel_until_the_timeout() {
    for version in VERSIONS {
        let mut world = up(version, 169);
        world.network.loss = 1.0;
        world.run(Duration::from_secs(26));
        assert_eq!(world.ends[0].node.established(), 1);
        world.run(Duration::from_secs(8));
        assert_eq!(world.ends[0].node.established(), 0);
        world.network.loss = 0.0;
        world.run(Duration::from_secs(80));
        world.assert_up();
    }
}

#[test]
fn a_station_on_demand_is_back_for_its_traffic_and_not_without() {
    for version in VERSIONS {
        for (has_traffic, is_back) in [(false, false), (true, true)] {
            let mut world = World::of(version, 174, |connection, is_station| {
                connection.crash_detection = true;
                if is_station {
                    connection.start = Start::OnTraffic;
                    connection.dpd_delay = Some(Duration::from_secs(10));
                }
            });
            world.notice(0, Notice::Acquire { child: ChildId(0) });
            world.run(Duration::from_secs(5));
            world.assert_up();
            kill(&mut world, 1);
            if has_traffic {
                world.packet();
                world.run(Duration::from_secs(1));
            }
            // With IKEv2 the tunnel is over at once, and the next packet asks for it.
            if has_traffic && version == Version::V2 {
                world.notice(0, Notice::Acquire { child: ChildId(0) });
            }
            world.run(Duration::from_secs(30));
            assert_eq!(world.ends[0].node.established() == 1, is_back);
            assert_eq!(established(&world), 1 + usize::from(is_back));
        }
    }
}

/// An unauthenticated message with the station's newest cookies.
fn forged(world: &World, kind: NotifyType) -> Vec<u8> {
    let cookies = world.ends[0].node.sessions.values();
    let mut cookies = cookies.filter_map(|it| it.ike.sa()).map(|sa| sa.cookies);
    let notify = Payload::Notify(wire::isakmp::Notify {
        protocol: ProtocolId::Isakmp,
        spi: Vec::new(),
        kind,
        value: Vec::new(),
    });
    let cookies = cookies.next_back().expect("a session");
    [
        &[0; 4],
        &crate::ikev1::in_clear::write(cookies, notify, 77)[..],
    ]
    .concat()
}

#[test]
fn whoever_forges_hints_gets_a_question_now_and_then_and_ends_nothing() {
    // The second path is so slow that a forged answer always arrives before the real one.
    for (seed, delay) in [(170, 20), (171, 1_600)] {
        let mut world = up(Version::V1, seed);
        world.network.delay = Duration::from_millis(delay);
        world.run(Duration::from_secs(5));
        world.ends[0].seen.trail.clear();
        let since = world.now;
        while world.now.since(since) < Duration::from_secs(120) {
            for kind in [NotifyType::InvalidSpi, NotifyType::InvalidCookie] {
                let hint = forged(&world, kind);
                world.deliver(0, gateway_seen(), &hint);
            }
            world.run(Duration::from_millis(100));
        }
        world.run(Duration::from_secs(60));
        world.assert_up();
        assert_eq!(established(&world), 1);
        assert!(!world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. })));
        // Each probe starts at most one exchange.
        let sent = world.ends[0].seen.trail.iter();
        let exchanges = [Step::Informational, Step::Aggressive(1)].map(Act::Message);
        let sent = sent.filter(|act| exchanges.contains(act));
        assert!(sent.count() < 120, "{:?}", world.ends[0].seen.trail);
    }
}

#[test]
fn a_hint_is_short_rare_and_never_an_answer_to_one() {
    let mut world = up(Version::V1, 172);
    kill(&mut world, 1);
    let (path, cookies) = (
        station_seen(&world),
        Cookies {
            initiator: Cookie([7; 8]),
            responder: Cookie([8; 8]),
        },
    );
    let sealed = |len: usize| {
        let header = Header {
            cookies,
            next_payload: PayloadKind::Hash,
            exchange: Exchange::Informational,
            flags: Flags::ENCRYPTION,
            message_id: 5,
        };
        [&[0; 4], &header.write(&vec![1; len])[..]].concat()
    };
    let answers = |world: &mut World, message: &[u8], times: usize| {
        let from = world.network.log.len();
        (0..times).for_each(|_| world.deliver(1, path, message));
        world.network.log[from..].to_vec()
    };
    let clear = forged(&world, NotifyType::InvalidCookie);
    assert_eq!(answers(&mut world, &clear, 3), Vec::<Vec<u8>>::new());
    assert_eq!(answers(&mut world, &sealed(8), 3), Vec::<Vec<u8>>::new());
    let one = answers(&mut world, &sealed(64), 1);
    assert!(one.len() == 1 && one[0].len() < sealed(64).len());
    assert_eq!(one[0][4..20], [[7; 8], [8; 8]].concat());
    let many = answers(&mut world, &sealed(64), 10_000).len();
    assert!((90..=100).contains(&many), "{many}");
    world.run(Duration::from_secs(5));
    let unknown = Notice::UnknownSpi {
        path,
        spi: 0x1234_5678,
    };
    let from = world.network.log.len();
    for _ in 0..10_000 {
        world.notice(1, unknown.clone());
    }
    let many = &world.network.log[from..];
    assert!((90..=101).contains(&many.len()), "{}", many.len());
    assert!(many.iter().all(|hint| hint.len() == 48));
}

#[test]
fn two_hundred_stations_come_back_one_by_one() {
    for (version, begins) in [
        (Version::V1, Step::Aggressive(1)),
        (Version::V2, Step::Init(1)),
    ] {
        // Each learns of the restart at the rate at which one gateway sends hints.
        let mut begun: Vec<Duration> = (0..200_u32)
            .map(|number| {
                let mut world = up(version, 0);
                // Another station of the same kind, with its own random numbers.
                world.ends[0].node.random = Seed::new([number as u8; 32]).stream("one of many", 1);
                kill(&mut world, 1);
                let since = world.now;
                world.run(HINT_INTERVAL * number);
                world.packet();
                world.ends[1].seen.trail.clear();
                let first = Act::Message(begins);
                while !world.ends[1].seen.trail.contains(&first) {
                    assert!(world.now.since(since) < Duration::from_secs(4));
                    world.run(Duration::from_millis(5));
                }
                world.now.since(since)
            })
            .collect();
        begun.sort();
        // 2 ms of CPU each: it is never busy for more than half of the time.
        let most = begun.iter().map(|from| {
            let window = *from..*from + Duration::from_millis(200);
            begun.iter().filter(|it| window.contains(*it)).count()
        });
        assert!(most.max() <= Some(50));
        assert!(
            begun[199] < Duration::from_millis(3_500),
            "{:?}",
            begun[199]
        );
    }
}

#[test]
fn an_idle_station_that_is_reminded_is_back_within_two_seconds() {
    for version in VERSIONS {
        for seed in 176..184 {
            let mut world = up(version, seed);
            world.run(Duration::from_secs(7));
            let places = world.ends[1].node.peer_paths();
            assert_eq!(places, [station_seen(&world)]);
            kill(&mut world, 1);
            assert!(world.ends[1].node.peer_paths().is_empty());
            world.command(1, Command::Remind(places));
            time_until_up(&mut world, Duration::ZERO, Duration::from_secs(2));
            assert_eq!(world.ends[0].node.established(), 1);
            world.run(Duration::from_secs(60));
            world.assert_up();
            assert_eq!(established(&world), 2);
        }
    }
}

#[test]
fn whoever_is_there_again_is_not_reminded() {
    for version in VERSIONS {
        let mut world = up(version, 184);
        let places = world.ends[1].node.peer_paths();
        let from = world.network.log.len();
        world.command(1, Command::Remind(places));
        world.run(Duration::from_secs(5));
        assert_eq!(world.network.log.len(), from);
        world.assert_up();
    }
}

#[test]
fn a_forged_list_of_places_causes_few_small_packets_at_a_slow_pace() {
    let mut world = up(Version::V1, 185);
    kill(&mut world, 1);
    let forged: Vec<Path> = (0..20_000_u32)
        .map(|number| {
            arrives(
                (GATEWAY, NAT_T_PORT),
                (std::net::Ipv4Addr::from(0xc633_6400 + number % 256), 9),
            )
        })
        .collect();
    let sent = |world: &World, from: usize| world.network.log[from..].to_vec();
    let from = world.network.log.len();
    world.command(1, Command::Remind(forged.clone()));
    for _ in 0..10 {
        let from = world.network.log.len();
        world.run(Duration::from_secs(1));
        let count = world.network.log.len() - from;
        assert!((50..=105).contains(&count), "{count}");
    }
    world.run(Duration::from_secs(60));
    let all = sent(&world, from);
    assert!(all.iter().filter(|hint| hint.len() == 48).count() <= PEER_PATHS_MAX);
    // A station reminds nobody, whatever it is given.
    let from = world.network.log.len();
    world.command(0, Command::Remind(forged));
    world.run(Duration::from_secs(1));
    assert!(sent(&world, from).iter().all(|hint| hint.len() != 48));
}
