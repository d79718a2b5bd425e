//! A station whose password is refused tries ever more rarely, unless there is reason to hope.

use super::super::stations::MAX_REFUSED_BACKOFF;
use super::ikev2::speaks;
use super::*;
use crate::config::Version;

const WIFI: [u8; 4] = [10, 0, 0, 77];

/// The gateway has another password of the station's user.
fn refused(seed: u8) -> World {
    users::examined_by(seed, || users::users(&["bob"]))
}

/// The waits of a station so far, and whether each follows a refusal.
fn waits(world: &World) -> Vec<(Duration, bool)> {
    let events = world.ends[0].seen.events.iter();
    let waits = events.filter_map(|event| match event {
        Event::RetryScheduled {
            in_ms, is_refused, ..
        } => Some((Duration::from_millis(*in_ms), *is_refused)),
        _ => None,
    });
    waits.collect()
}

#[test]
fn who_is_refused_again_and_again_waits_up_to_a_quarter_of_an_hour() {
    let mut world = refused(160);
    world.run(Duration::from_secs(6 * 3_600));
    let waits = waits(&world);
    assert!(waits.iter().all(|(_, is_refused)| *is_refused));
    assert!(waits.iter().all(|(wait, _)| *wait <= MAX_REFUSED_BACKOFF));
    // The first ones are short: somebody may be about to mend it.
    assert!(
        waits[..5]
            .iter()
            .all(|(wait, _)| *wait <= Duration::from_secs(16))
    );
    let long = waits
        .iter()
        .filter(|(wait, _)| *wait > Duration::from_secs(30));
    assert!(long.count() > 20);
    // With 30 s at most it was 1,150 times.
    assert!((30..70).contains(&waits.len()), "{}", waits.len());
}

#[test]
fn the_status_counts_down_to_the_next_attempt() {
    let mut world = refused(168);
    let left = |world: &World| world.ends[0].node.status(world.now).connections[0].retry_in;
    assert_eq!(left(&world), None, "it connects");
    let is_long = |world: &World| left(world).is_some_and(|it| it >= Duration::from_secs(3));
    run_until(&mut world, Duration::from_millis(100), is_long);
    let before = left(&world).expect("it waits");
    world.run(Duration::from_secs(1));
    assert_eq!(left(&world), Some(before - Duration::from_secs(1)));
}

/// The gateway may have a trouble of its own, and has no quota for keys.
#[test]
fn whose_key_is_refused_goes_on_trying_twice_a_minute() {
    let mut world = World::new(166, |connection, is_station| {
        speaks(connection, Version::V2);
        if is_station {
            wrong_key(connection);
        }
    });
    world.run(Duration::from_secs(3_600));
    let waits = waits(&world);
    assert!(waits.len() > 100, "{}", waits.len());
    let longest = Duration::from_secs(30);
    assert!(
        waits
            .iter()
            .all(|(wait, is_refused)| *wait <= longest && !is_refused)
    );
}

/// The gateway has ended the exchange itself, and would not answer another request of it.
#[test]
fn who_is_refused_stops_at_once() {
    let mut world = refused(167);
    let is_refusal = |event: &Event| matches!(event, Event::RetryScheduled { .. });
    let is_refused = |world: &World| world.ends[0].told(is_refusal);
    run_until(&mut world, Duration::from_millis(10), is_refused);
    let sent = world.network.sent;
    world.command(0, Command::Stop);
    assert!(world.ends[0].told(|event| *event == Event::Stopped));
    assert_eq!(world.network.sent, sent, "nothing is left to say");
}

#[test]
fn who_gets_no_answer_goes_on_trying_twice_a_minute() {
    let mut world = refused(161);
    world.network.dead = vec![GATEWAY.into()];
    world.network.wire.clear();
    world.run(Duration::from_secs(3 * 3_600));
    let waits = waits(&world);
    assert!(waits.len() > 100, "{}", waits.len());
    let longest = Duration::from_secs(30);
    assert!(
        waits
            .iter()
            .all(|(wait, refused)| *wait <= longest && !refused)
    );
    // And the first refusal after that is no reason for a long wait.
    world.network.dead.clear();
    world.run(Duration::from_secs(95));
    let all = self::waits(&world);
    let first = all.iter().find(|(_, is_refused)| *is_refused);
    let (wait, _) = first.expect("a refusal");
    assert!(*wait <= Duration::from_secs(1), "{wait:?}");
}

#[test]
fn a_reload_a_move_and_the_user_end_the_wait() {
    let again: [fn(&mut World); 3] = [
        |world| {
            let same = Arc::new(config(true, &world.change));
            world.input(0, Input::Configure(same));
        },
        |world| world.has_address(WIFI.into()),
        |world| world.command(0, Command::Up("road".into())),
    ];
    for (seed, again) in (162..).zip(again) {
        let mut world = refused(seed);
        world.run(Duration::from_secs(2 * 3_600));
        let (before, sent) = (waits(&world).len(), world.network.sent);
        world.run(Duration::from_secs(5));
        assert_eq!(world.network.sent, sent, "it waits");
        again(&mut world);
        world.run(Duration::from_secs(1));
        assert!(world.network.sent > sent);
        assert!(waits(&world).len() > before);
    }
}

#[test]
fn who_is_let_in_at_last_comes_up() {
    let mut world = refused(165);
    world.run(Duration::from_secs(3_600));
    users::reload(&mut world, &["alice"]);
    world.run(MAX_REFUSED_BACKOFF);
    world.assert_up();
}

/// Looks this often, for ten minutes at most.
fn run_until(world: &mut World, step: Duration, is_so: impl Fn(&World) -> bool) {
    let end = world.now + Duration::from_secs(600);
    while !is_so(world) {
        let status = world.ends[0].node.status(world.now);
        assert!(world.now < end, "{status:?}");
        world.run(step);
    }
}
