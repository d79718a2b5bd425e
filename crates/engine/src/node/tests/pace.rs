//! The time until messages are repeated: it depends on the measured path, from their departure on.

use super::*;
use crate::endpoint::Effect;

/// How often each message of a station was sent, in the order of the first sending.
fn sendings(end: &End) -> Vec<(String, usize)> {
    let mut found: Vec<(String, usize)> = Vec::new();
    for event in &end.seen.events {
        if let Event::Message {
            step,
            is_sent: true,
            ..
        } = event
        {
            match found.iter_mut().find(|(name, _)| *name == step.to_string()) {
                Some((_, times)) => *times += 1,
                None => found.push((step.to_string(), 1)),
            }
        }
    }
    found
}

fn main_mode(seed: u8, delay: Duration) -> World {
    let mut world = World::new(seed, |connection, _| connection.is_aggressive = false);
    world.network.delay = delay;
    world
}

#[test]
fn a_path_within_the_first_timeout_sees_every_message_once() {
    let mut world = main_mode(120, Duration::from_millis(450));
    world.run(Duration::from_secs(30));
    world.assert_up();
    for end in &world.ends {
        assert!(sendings(end).iter().all(|(_, times)| *times == 1));
    }
}

#[test]
fn a_station_learns_a_slow_path_from_the_answers_that_come() {
    // A round trip of 2.5 s, as of NB-IoT: the first messages are sent again, the later ones wait.
    let mut world = main_mode(121, Duration::from_millis(1250));
    world.run(Duration::from_secs(60));
    world.assert_up();
    let sent = sendings(&world.ends[0]);
    let times = |name: &str| sent.iter().find(|(what, _)| what == name).map(|it| it.1);
    assert_eq!(times("main 1"), Some(2), "{sent:?}");
    assert_eq!(times("main 3"), Some(2), "{sent:?}");
    for name in ["main 5", "config 1", "quick 1", "quick 3"] {
        assert_eq!(times(name), Some(1), "{name} of {sent:?}");
    }
    // What was learned serves the renewal too.
    world.ends[0].seen.events.clear();
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_secs(30));
    world.assert_up();
    let sent = sendings(&world.ends[0]);
    assert!(sent.iter().any(|(what, _)| what == "main 5"), "{sent:?}");
    assert!(sent.iter().all(|(_, times)| *times == 1), "{sent:?}");
}

#[test]
fn a_gateway_learns_it_from_the_messages_that_follow_its_answers() {
    for is_aggressive in [true, false] {
        let mut world = World::new(124, move |connection, _| {
            connection.is_aggressive = is_aggressive;
        });
        world.network.delay = Duration::from_millis(700);
        world.run(Duration::from_secs(60));
        world.assert_up();
        let sent = sendings(&world.ends[1]);
        assert!(sent.contains(&("quick 2".to_owned(), 1)), "{sent:?}");
    }
}

#[test]
fn what_was_learned_of_one_path_is_forgotten_on_another() {
    let mut world = main_mode(122, Duration::from_millis(10));
    world.run(Duration::from_secs(5));
    world.assert_up();
    let timeout = |world: &World| {
        let sessions = world.ends[0].node.sessions.values();
        sessions
            .last()
            .expect("a session")
            .ike
            .round_trip()
            .timeout(0)
    };
    assert_eq!(timeout(&world), Duration::from_millis(500));
    world.has_address([10, 0, 0, 3].into());
    assert_eq!(timeout(&world), Duration::from_secs(1));
}

#[test]
fn the_timer_starts_when_the_host_says_that_messages_have_left() {
    let config = config(
        true,
        &(Arc::new(|_: &mut Connection, _: bool| {}) as Change),
    );
    let mut station = endpoint(config, &Seed::new([123; 32]));
    let mut now = Instant(1);
    let drain = |station: &mut Endpoint, now: Instant| {
        let mut sent = 0;
        while let Some(effect) = station.poll(now) {
            sent += usize::from(matches!(effect, Effect::Message(..)));
        }
        (sent, station.deadline().map(|it| it.at))
    };
    let (sent, due) = drain(&mut station, now);
    assert_eq!((sent, due), (1, Some(now + Duration::from_secs(1))));
    // Its public value took this host four seconds to compute.
    now = now + Duration::from_secs(4);
    station.handle(Input::Departed, now);
    let left = Some(now + Duration::from_secs(1));
    assert_eq!(drain(&mut station, now), (0, left));
    // Repeated, or later, it changes nothing.
    station.handle(Input::Departed, now + Duration::from_millis(300));
    assert_eq!(drain(&mut station, now), (0, left));
}
