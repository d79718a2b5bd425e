//! Unanswered large packets: what the peer's answer to a small probe decides.

use super::*;

fn up(seed: u8, delay: Duration) -> World {
    let mut world = World::new(seed, |_, _| {});
    world.network.delay = delay;
    world.run(Duration::from_secs(5));
    world.assert_up();
    world
}

fn stalls(world: &mut World) -> ChildId {
    let child = *world.ends[0]
        .seen
        .outbound
        .values()
        .next()
        .expect("a child");
    world.notice(0, Notice::LargeUnanswered { child });
    child
}

#[test]
fn a_prompt_answer_to_a_small_question_throws_doubt_on_the_path() {
    let mut world = up(90, Duration::from_millis(300));
    let child = stalls(&mut world);
    assert!(world.ends[0].seen.doubted.is_empty());
    world.run(Duration::from_secs(1));
    assert_eq!(world.ends[0].seen.doubted, [child]);
    world.notice(0, Notice::PathShrank { child, mtu: 1_280 });
    let is_told = |event: &Event| matches!(event, Event::PathShrank { mtu: 1_280, .. });
    assert!(world.ends[0].told(is_told));
}

#[test]
fn an_answer_that_is_late_or_does_not_come_throws_none() {
    // As on a link that comes back while the probe is repeated.
    let mut world = up(91, Duration::from_millis(20));
    world.network.loses = Some(world.network.sent + 1);
    stalls(&mut world);
    world.run(Duration::from_secs(10));
    assert!(world.ends[0].seen.doubted.is_empty());
    let mut world = up(92, Duration::from_millis(800));
    stalls(&mut world);
    world.run(Duration::from_secs(10));
    assert!(world.ends[0].seen.doubted.is_empty());
    world.assert_up();
}

#[test]
fn repetitions_bring_few_questions() {
    let mut world = up(93, Duration::from_millis(20));
    let sent = world.network.sent;
    for _ in 0..100 {
        stalls(&mut world);
        world.run(Duration::from_millis(10));
    }
    // Each with its answer.
    assert!(
        world.network.sent - sent <= 2 * 25,
        "{}",
        world.network.sent - sent
    );
}
