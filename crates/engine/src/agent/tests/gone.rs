//! Each role dies at each of its effects, and stays away or comes back.

use super::world::*;
use crate::agent::audit::{Step, Why};
use crate::agent::host::State;
use crate::time::Duration;

/// How many effects each role has in an undisturbed run until the tunnel is up.
fn effects() -> Vec<(Node, u64)> {
    let mut world = World::new(7);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(world.seats[seat].was_up);
    world.effects.into_iter().collect()
}

#[test]
fn whoever_dies_between_any_two_steps_leaves_nothing_half_built() {
    for (node, count) in effects() {
        for at in 1..=count {
            for comes_back in [true, false] {
                let mut world = World::new(8);
                world.crash_at = Some((node, at));
                world.comes_back = comes_back;
                world.boot();
                let seat = world.sit(1, |_| {});
                let mut was_taken = false;
                for _ in 0..200 {
                    world.run(Duration::from_secs(1));
                    let is_valid = world.keys[&handle(1)].state == State::Valid;
                    assert!(!(was_taken && is_valid), "{node:?} {at}");
                    was_taken |= !is_valid;
                    world.check();
                }
                // Two minutes after the last step: either both ends, or none that an agent is
                // there to take down.
                let is_up = world.seats[seat].tunnel.is_some();
                let is_there = world.target.is_some();
                let ends = world.ends.len();
                if is_there {
                    assert_eq!(ends, usize::from(is_up), "{node:?} {at} {comes_back}");
                }
                world.run(LIFETIME * 2);
                if world.target.is_some() {
                    assert!(world.ends.is_empty(), "{node:?} {at} {comes_back}");
                }
                assert_eq!(world.seats[seat].tunnel, None, "{node:?} {at}");
                let has_host = world.hosts.iter().all(Option::is_some);
                if was_taken && has_host {
                    let state = &world.keys[&handle(1)].state;
                    let is_done = matches!(state, State::Used { .. } | State::Failed { .. });
                    assert!(is_done, "{node:?} {at}: {state:?}");
                }
            }
        }
    }
}

#[test]
fn a_target_whose_client_never_comes_takes_its_end_down_and_says_so() {
    let mut world = World::new(9);
    world.boot();
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_millis(60));
    // The user pulls the plug once the request is away.
    world.seats[seat].client = None;
    world.run(Duration::from_secs(10));
    assert_eq!(world.ends.len(), 1);
    world.run(Duration::from_secs(120));
    assert_eq!(world.ends.len(), 0);
    assert_eq!(world.told(Step::Ended, Why::NeverCame), 1);
    assert!(matches!(world.keys[&handle(1)].state, State::Used { .. }));
}

#[test]
fn a_target_that_is_away_costs_no_key() {
    let mut world = World::new(10);
    world.boot();
    world.target = None;
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(100));
    assert!(world.seats[seat].outcome.is_some());
    assert!(world.keys[&handle(1)].state == State::Valid);
    // Client has asked both Hosts.
    assert_eq!(world.told(Step::Refused, Why::NoAnswer), 2);
}

/// It has offered, then it is gone: the key is spent, and both logs say so.
#[test]
fn a_target_that_goes_after_its_offer_costs_the_key() {
    let mut world = World::new(11);
    world.boot();
    // Its question, its offer, its next question.
    world.crash_at = Some((Node::Target, 3));
    world.comes_back = false;
    let seat = world.sit(1, |_| {});
    world.run(Duration::from_secs(100));
    assert!(world.seats[seat].outcome.is_some());
    assert!(matches!(world.keys[&handle(1)].state, State::Failed { .. }));
    assert_eq!(world.told(Step::KeyFailed, Why::NoAnswer), 1);
}

/// Host dies with a key that it has taken: the sweep of another says that it has failed.
#[test]
fn a_key_of_a_dead_host_is_swept() {
    let mut world = World::new(12);
    world.comes_back = false;
    world.boot();
    // Before the referral is sent: sweep, find, authenticated, inquiry, take, taken.
    world.crash_at = Some((Node::Host(0), 7));
    world.sit(1, |_| {});
    world.run(Duration::from_secs(5));
    assert!(matches!(world.keys[&handle(1)].state, State::Taken { .. }));
    world.run(Duration::from_secs(500));
    assert!(matches!(world.keys[&handle(1)].state, State::Failed { .. }));
    assert_eq!(world.told(Step::KeyFailed, Why::Restarted), 1);
    assert!(world.ever.is_empty());
}
