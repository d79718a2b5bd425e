//! Storms from a seed: loss, repetitions, reordering, crashes of every role between any two
//! effects, databases that do not answer, clocks that jump. Two seats use one key at once.

use super::world::*;
use crate::agent::host::State;
use crate::time::Duration;

const SEEDS: u8 = 60;

/// How far the state of a key is.
fn rank(state: &State) -> u8 {
    match state {
        State::Valid => 0,
        State::Taken { .. } => 1,
        _ => 2,
    }
}

/// Runs until nothing can be left, and checks at each second.
fn watch(world: &mut World, seed: u8) {
    let mut last = 0;
    let storm = 150;
    for second in 0..1_500 {
        if second == storm {
            (world.crashes, world.broken, world.loss) = (0, 0, 0);
        }
        world.run(Duration::from_secs(1));
        let now = rank(&world.keys[&handle(1)].state);
        assert!(now >= last, "seed {seed}: the state of a key went back");
        last = now;
        world.check();
    }
    assert!(world.ends.is_empty(), "seed {seed}");
    assert!(
        world.seats.iter().all(|it| it.tunnel.is_none()),
        "seed {seed}"
    );
    let is_over = |seat: &Seat| seat.client.is_none() || seat.outcome.is_some();
    assert!(world.seats.iter().all(is_over), "seed {seed}");
    assert_ne!(last, 1, "seed {seed}: a key stays taken");
    let target = world.target.as_ref().expect("it is back");
    assert!(target.is_empty(), "seed {seed}");
}

#[test]
fn without_a_crash_two_uses_of_one_key_make_exactly_one_tunnel() {
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (world.loss, world.duplicates, world.jitter_ms) = (40, 60, 900);
        world.boot();
        world.sit(1, |_| {});
        world.sit(1, |config| config.head.addresses.reverse());
        watch(&mut world, seed);
        let up = world.seats.iter().filter(|seat| seat.was_up).count();
        assert_eq!(up, 1, "seed {seed}: {:?}", world.steps());
        let built: usize = world.ever.values().map(|it| it.len()).sum();
        assert_eq!(built, 1, "seed {seed}");
    }
}

#[test]
fn with_crashes_there_is_one_tunnel_or_none_and_the_key_stays_used() {
    let (mut up, mut none, mut spent_for_nothing) = (0, 0, 0);
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (world.loss, world.duplicates, world.jitter_ms) = (40, 40, 900);
        (world.crashes, world.broken) = (12, 6);
        world.boot();
        world.sit(1, |_| {});
        world.sit(1, |_| {});
        let calm = Duration::from_millis(u64::from(world.below(3_000)));
        world.run(calm);
        let jump = i64::from(world.below(900)) - 450;
        let which = world.below(3) as usize;
        world.ahead[which] += jump;
        for host in 0..2 {
            let clock = world.clock(1);
            if let Some(host) = &mut world.hosts[host] {
                host.set_clock(clock);
            }
        }
        let clock = world.clock(2);
        if let Some(target) = &mut world.target {
            target.set_clock(clock);
        }
        watch(&mut world, seed);
        let here = world.seats.iter().filter(|seat| seat.was_up).count();
        assert!(here <= 1, "seed {seed}");
        let state = &world.keys[&handle(1)].state;
        if here == 1 {
            assert_ne!(rank(state), 0, "seed {seed}: a tunnel and a valid key");
        }
        up += here;
        none += 1 - here;
        spent_for_nothing += usize::from(here == 0 && rank(state) > 0);
    }
    // The storm is neither a calm nor a desert.
    assert!(
        up > 5 && none > 5 && spent_for_nothing > 0,
        "{up} {none} {spent_for_nothing}"
    );
}
