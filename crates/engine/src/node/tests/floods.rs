//! Strangers and odd configurations must neither keep honest stations out nor stop the clock.

use super::*;
use crate::config::Version;
use crate::node::half_open::ANSWER_TIME;

/// A world whose main mode station is down, and its first message.
fn at_rest(seed: u8) -> (World, Vec<u8>) {
    let mut world = World::new(seed, |connection, _| connection.is_aggressive = false);
    world.network.delay = Duration::from_millis(50);
    let mut roomy = config(false, &world.change);
    roomy.limits = Limits::default();
    world.input(1, Input::Configure(Arc::new(roomy)));
    world.run(Duration::from_secs(2));
    world.assert_up();
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(1));
    let first = world.first_message().expect("a first message");
    (world, first)
}

/// This many forged first messages, one each `every`, the `n`th from `from(n)`.
pub(super) fn flood(
    world: &mut World,
    first: &[u8],
    numbers: core::ops::Range<u32>,
    every: Duration,
    from: impl Fn(u32) -> SocketAddr,
) {
    for n in numbers {
        let mut forged = first.to_vec();
        forged[..4].copy_from_slice(&(n + 1).to_be_bytes());
        let local = (GATEWAY, IKE_PORT);
        let remote = from(n);
        world.deliver(1, arrives(local, remote), &forged);
        world.run(every);
    }
    let limits = Limits::default();
    let node = &world.ends[1].node;
    assert!(node.half_open.total() <= limits.half_open_total + 625);
    assert!(node.sessions.len() <= limits.half_open_total + 625 + 8);
    assert!(node.sessions.first_messages().len() <= node.sessions.len());
}

#[test]
fn forged_first_messages_from_a_station_s_own_address_do_not_keep_it_out() {
    let (mut world, first) = at_rest(90);
    let from = |n: u32| SocketAddr::from((NAT, 1_024 + (n % 30_000) as u16));
    let every = Duration::from_millis(5);
    flood(&mut world, &first, 0..1_000, every, from);
    assert_eq!(world.ends[1].node.half_open.total(), 100);
    assert!(world.drops(1, DropReason::TooManyHalfOpen) >= 850);
    world.command(0, Command::Up("road".into()));
    flood(&mut world, &first, 1_000..1_600, every, from);
    world.assert_up();
    world.run(Duration::from_secs(40));
    assert_eq!(world.ends[1].node.half_open.total(), 0);
    world.assert_up();
}

#[test]
fn forged_first_messages_from_everywhere_keep_nobody_out() {
    let (mut world, first) = at_rest(91);
    let from = |n: u32| {
        let mixed = n.wrapping_mul(0x9e37_79b1) | 1;
        SocketAddr::from((mixed.to_be_bytes(), IKE_PORT))
    };
    let every = Duration::from_micros(333);
    flood(&mut world, &first, 0..9_000, every, from);
    assert_eq!(world.ends[1].node.half_open.total(), 5_000);
    world.command(0, Command::Up("road".into()));
    flood(&mut world, &first, 9_000..18_000, every, from);
    world.assert_up();
}

#[test]
fn a_station_whose_exchange_made_room_begins_anew() {
    let (mut world, first) = at_rest(94);
    // Longer than an exchange is kept while there is no room.
    world.network.delay = ANSWER_TIME;
    let from = |n: u32| SocketAddr::from((NAT, 1_024 + n as u16));
    world.command(0, Command::Up("road".into()));
    flood(&mut world, &first, 0..5_000, Duration::from_millis(2), from);
    assert!(
        world.drops(1, DropReason::UnknownCookies) > 0,
        "message 3 came too late"
    );
    world.run(Duration::from_secs(20));
    world.assert_up();
    let retried = |event: &Event| matches!(event, Event::RetryScheduled { .. });
    assert!(!world.ends[0].told(retried), "within one attempt");
}

#[test]
fn a_third_message_without_an_answer_ends_the_attempt_after_a_minute() {
    let (mut world, _) = at_rest(95);
    world.command(0, Command::Up("road".into()));
    let (began, mut lost) = (world.now, BTreeSet::new());
    let is_over = |world: &World| {
        let mut events = world.ends[0].seen.events.iter();
        events.any(|event| matches!(event, Event::RetryScheduled { .. }))
    };
    while !is_over(&world) {
        world.run(Duration::from_millis(10));
        // First messages are answered, third ones, which name the peer's cookie, are lost.
        world.network.wire.retain(|Datagram { to, octets, .. }| {
            let is_third = *to == 1 && octets[8..16] != [0; 8];
            if is_third {
                lost.insert(octets[..8].to_vec());
            }
            !is_third
        });
        assert!(world.now.since(began) < Duration::from_secs(80));
    }
    assert_eq!(lost.len(), 6);
    assert!(world.now.since(began) > Duration::from_secs(60));
}

#[test]
fn many_that_come_at_once_wait_for_each_other() {
    let (mut world, first) = at_rest(92);
    let from = |n: u32| SocketAddr::from((NAT, 1_024 + n as u16));
    flood(&mut world, &first, 0..1_000, Duration::ZERO, from);
    let gateway = &world.ends[1].node;
    assert_eq!(gateway.half_open.total(), 100);
    assert!(
        gateway
            .sessions
            .first_messages()
            .all(|first| first.from.port() < 1_124)
    );
    world.run(2 * ANSWER_TIME);
    flood(&mut world, &first, 1_000..1_050, Duration::ZERO, from);
    let kept = world.ends[1].node.sessions.first_messages();
    let old = kept.filter(|first| first.from.port() < 2_024).count();
    assert_eq!(old, 50);
}

#[test]
fn exchanges_whose_address_is_proven_do_not_make_room_and_have_a_bound() {
    let (mut world, first) = at_rest(93);
    // The station's fifth message is lost for good: the exchange stays proven.
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_millis(160));
    world.network.wire.clear();
    world.network.loss = 1.1;
    let proven = |world: &World| {
        let sessions = world.ends[1].node.sessions.values();
        let places = sessions.filter_map(Session::slot);
        places.filter(|place| place.is_proven()).count()
    };
    assert_eq!(proven(&world), 1);
    let from = |n: u32| SocketAddr::from((NAT, 1_024 + (n % 30_000) as u16));
    flood(&mut world, &first, 0..1_000, Duration::from_millis(5), from);
    assert_eq!(proven(&world), 1);
    assert_eq!(world.ends[1].node.half_open.total(), 101);
}

/// Otherwise who fails at once could make us sign as fast as it sends.
#[test]
fn an_exchange_of_ikev2_that_fails_keeps_its_entry() {
    let mut world = World::new(97, |connection, is_station| {
        super::ikev2::speaks(connection, Version::V2);
        if is_station {
            wrong_key(connection);
        }
    });
    world.run(Duration::from_secs(1));
    let failed = world.drops(1, DropReason::AuthenticationFailed);
    let half_open = &world.ends[1].node.half_open;
    assert!(failed > 0);
    assert_eq!((half_open.total(), half_open.failed() as u64), (0, failed));
}

#[test]
fn a_keepalive_of_zero_is_none() {
    for (keepalive, sent) in [(0, 0..1), (20, 5..8)] {
        let mut world = World::new(94, move |connection, _| {
            connection.keepalive = Duration::from_secs(keepalive);
        });
        world.run(Duration::from_secs(120));
        world.assert_up();
        let keepalives = world.network.log.iter().filter(|it| **it == [0xff]).count();
        assert!(sent.contains(&keepalives), "{keepalives}");
    }
}

#[test]
fn no_duration_of_a_configuration_stops_the_clock() {
    let spans = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_millis(1),
    ];
    for (span, seed) in spans.into_iter().zip(95..) {
        let mut world = World::new(seed, move |connection, _| {
            connection.keepalive = span;
            connection.dpd_delay = Some(span);
            connection.dpd_timeout = span;
            connection.lifetime = span;
            connection.rekey_margin = span;
            for child in &mut connection.children {
                child.lifetime = span;
                child.rekey_margin = span;
            }
        });
        for end in [true, false] {
            let mut odd = config(end, &world.change);
            odd.limits.half_open_lifetime = span;
            world.input(usize::from(!end), Input::Configure(Arc::new(odd)));
        }
        for _ in 0..100 {
            world.run(Duration::from_millis(100));
            world.packet();
        }
        assert!(world.wakes < 2_000, "{span:?}: {} wakes", world.wakes);
        assert!(
            world.network.sent < 2_000,
            "{span:?}: {} datagrams",
            world.network.sent
        );
    }
}

#[test]
fn a_half_open_exchange_lasts_as_long_as_the_limit_says() {
    for (seconds, seed) in [(5, 113), (30, 114), (90, 115)] {
        let (mut world, first) = at_rest(seed);
        let mut patient = config(false, &world.change);
        patient.limits.half_open_lifetime = Duration::from_secs(seconds);
        world.input(1, Input::Configure(Arc::new(patient)));
        let path = arrives((GATEWAY, IKE_PORT), (NAT, 1_024));
        world.deliver(1, path, &first);
        world.run(Duration::from_secs(seconds - 1));
        assert_eq!(world.ends[1].node.half_open.total(), 1, "{seconds}");
        world.run(Duration::from_secs(2));
        assert_eq!(world.ends[1].node.half_open.total(), 0, "{seconds}");
        let reason = world.ends[1].failure().expect("a failure");
        assert!(reason.contains("no reply from 192.0.2.100"), "{reason}");
    }
}
