//! Stations whose packets get no answer, and those that need not probe.

use super::*;

/// As `caravan pki issue --bundle` writes it.
const DELAY: Duration = Duration::from_secs(30);

fn up(version: Version, seed: u8) -> World {
    let mut world = World::of(version, seed, |connection, is_station| {
        if is_station {
            connection.dpd_delay = Some(DELAY);
        }
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    world
}

/// The station sends a packet every `pause`, for `span`; a gateway that has the SA answers it.
fn send(world: &mut World, span: Duration, pause: Duration) {
    let end = world.now + span;
    while world.now < end {
        world.packet();
        world.run(pause);
    }
}

fn established(world: &World) -> usize {
    world.ends[0].count(|event| matches!(event, Event::IkeEstablished { .. }))
}

#[test]
fn a_station_that_sends_into_silence_asks_at_once_and_reaches_a_restarted_gateway_again() {
    for version in VERSIONS {
        for seed in [60, 61, 62] {
            let mut world = up(version, seed);
            send(
                &mut world,
                Duration::from_secs(9),
                Duration::from_millis(700),
            );
            assert_eq!(established(&world), 1);
            world.restart_gateway();
            send(&mut world, Duration::from_secs(19), Duration::from_secs(1));
            world.assert_up();
            assert_eq!(established(&world), 2);
        }
    }
}

#[test]
fn an_idle_tunnel_asks_by_its_clock_alone_and_sends_nothing_more() {
    for version in VERSIONS {
        let mut world = up(version, 63);
        world.packet();
        world.run(Duration::from_secs(3));
        let (sent, reports) = (world.network.sent, world.reports());
        world.run(DELAY - Duration::from_secs(10));
        assert_eq!(
            world.network.sent,
            sent + 1,
            "a keepalive of the NAT's mapping"
        );
        assert_eq!(world.reports(), reports);
    }
}

#[test]
fn packets_that_are_answered_bring_no_question() {
    for version in VERSIONS {
        let mut world = up(version, 64);
        let sent = world.network.sent;
        send(
            &mut world,
            Duration::from_secs(50),
            Duration::from_millis(300),
        );
        // Only keepalives for the NAT's mapping.
        assert!(
            world.network.sent - sent <= 3,
            "{}",
            world.network.sent - sent
        );
    }
}

#[test]
fn the_last_word_of_a_conversation_brings_no_question() {
    for version in VERSIONS {
        let mut world = up(version, 65);
        world.is_mute = true;
        world.packet();
        let sent = world.network.sent;
        world.run(Duration::from_secs(15));
        assert_eq!(world.network.sent, sent);
        world.is_mute = false;
        send(&mut world, Duration::from_secs(3), Duration::from_secs(1));
        assert_eq!(world.network.sent, sent);
    }
}

#[test]
fn one_way_traffic_is_asked_about_and_goes_on() {
    for version in VERSIONS {
        let mut world = up(version, 66);
        world.is_mute = true;
        let sent = world.network.sent;
        let a_minute = Duration::from_secs(60);
        send(&mut world, a_minute, Duration::from_millis(200));
        world.assert_up();
        assert_eq!(established(&world), 1);
        // A probe and its answer every seven seconds, and keepalives.
        assert!(
            (14..=28).contains(&(world.network.sent - sent)),
            "{}",
            world.network.sent - sent
        );
    }
}

#[test]
fn a_station_whose_peer_is_not_to_be_asked_never_is() {
    for version in VERSIONS {
        let mut world = World::of(version, 67, |connection, is_station| {
            if is_station {
                connection.dpd_delay = None;
            }
        });
        world.run(Duration::from_secs(2));
        world.network.dead = vec![GATEWAY.into()];
        let sent = world.network.sent;
        send(&mut world, Duration::from_secs(30), Duration::from_secs(1));
        assert!(
            world.network.sent - sent <= 2,
            "{}",
            world.network.sent - sent
        );
    }
}

/// An unencrypted notification from a gateway that does not know us.
fn complaint(kind: NotifyType, cookies: Cookies) -> Vec<u8> {
    let notify = Payload::Notify(wire::isakmp::Notify {
        protocol: ProtocolId::Isakmp,
        spi: Vec::new(),
        kind,
        value: Vec::new(),
    });
    let (next_payload, body) = wire::isakmp::write_payloads(&[notify]);
    let header = Header {
        cookies,
        next_payload,
        exchange: Exchange::Informational,
        flags: Flags::default(),
        message_id: 9,
    };
    [vec![0; 4], header.write(&body)].concat()
}

#[test]
fn an_unproven_complaint_brings_one_question_in_ten_seconds_and_ends_nothing() {
    let mut world = up(Version::V1, 68);
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let (path, own) = (session.path(), session.ike.sa().expect("an SA").cookies);
    let foreign = Cookies {
        initiator: Cookie([7; 8]),
        responder: Cookie([8; 8]),
    };
    for (kind, cookies) in [
        (NotifyType::InvalidSpi, foreign),
        (NotifyType::InvalidCookie, own),
    ] {
        world.run(Duration::from_secs(11));
        let sent = world.network.sent;
        for _ in 0..50 {
            let message = complaint(kind, cookies);
            world.deliver(0, path, &message);
            world.run(Duration::from_millis(50));
        }
        // The probe and its answer.
        assert_eq!(world.network.sent - sent, 2, "{kind:?}");
    }
    world.assert_up();
    assert_eq!(established(&world), 1);

    // From elsewhere, or of another kind, it has no effect.
    world.run(Duration::from_secs(11));
    let mut elsewhere = path;
    elsewhere.remote.set_port(4_501);
    let sent = world.network.sent;
    let message = complaint(NotifyType::InvalidSpi, foreign);
    world.deliver(0, elsewhere, &message);
    let message = complaint(NotifyType::AuthenticationFailed, own);
    world.deliver(0, path, &message);
    assert_eq!(world.network.sent, sent);
    world.run(Duration::from_secs(1));
    world.assert_up();
}
