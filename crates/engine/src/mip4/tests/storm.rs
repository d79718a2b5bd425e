//! Storms from a seed: moves, losses, restarts, clocks that jump, and revocations. After calm, all
//! agree within one lifetime.

use super::world::*;
use crate::mip4::mobile_node::State;
use crate::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const CHAOS: u32 = 80;

/// Runs until node, home agent and foreign agents agree. Returns the seconds that it took.
fn heal(world: &mut World) -> Option<u64> {
    let start = world.now;
    loop {
        let waited = world.now.since(start).as_secs();
        let is_home = world.link == Link::Home;
        let is_settled = match world.node.state() {
            State::Home => is_home,
            State::Registered { .. } => !is_home,
            State::Unreachable => false,
        };
        if is_settled && world.agrees() {
            return Some(waited);
        }
        if waited > u64::from(2 * LIFETIME) {
            return None;
        }
        world.run(SECOND);
    }
}

/// What holds even in a storm.
fn check(world: &World, had: &[Link]) {
    let bindings: Vec<_> = world.home.bindings(HOME).collect();
    assert!(bindings.len() <= 1);
    let longest = world.now + SECOND * LIFETIME.into();
    for binding in bindings {
        let care_of = binding.tunnel.care_of;
        let is_of = |link: &Link| match link {
            Link::Colocated(address) => *address == care_of,
            Link::Agent(number) => AGENTS[*number].1 == care_of,
            Link::Home | Link::Detached => false,
        };
        assert!(had.iter().any(is_of), "{care_of}");
        let is_bounded = |end| end > world.now && end <= longest;
        assert!(binding.end.is_some_and(is_bounded));
    }
    if let Some(tunnel) = world.tunnel() {
        let is_right = match world.link {
            Link::Colocated(address) => tunnel.care_of == address,
            // It notices another agent's link when the first agent is silent.
            Link::Agent(_) => AGENTS.iter().any(|it| it.1 == tunnel.care_of),
            Link::Home | Link::Detached => false,
        };
        assert!(is_right, "{:?} on {:?}", tunnel.care_of, world.link);
    }
    let due = world.home.deadline().map(|it| it.at);
    assert!(due.is_none_or(|at| at >= world.now));
}

fn step(world: &mut World, had: &mut Vec<Link>) {
    let random = world.random.u32();
    let far = u64::from(random >> 8) % 100_000;
    let number = (random >> 8) as usize % AGENTS.len();
    match random % 16 {
        0 => world.restart_home(),
        1 => world.restart_foreign(number),
        2 => world.set_clock(1, far),
        3 => world.set_clock(2, far),
        4 => world.set_clock(0, far),
        5 => drop(world.home.revoke(HOME, world.now)),
        6 => drop(world.foreign[number].revoke(HOME, world.now)),
        7 => {}
        kind => {
            let link = match kind {
                8 => Link::Detached,
                9 => Link::Home,
                10 | 11 => Link::Colocated(CARE_OF),
                _ => Link::Agent(number),
            };
            had.push(link);
            world.go(link);
        }
    }
    let span = Duration::from_millis(u64::from(world.random.u32() % 60_000));
    world.run(span);
}

#[test]
fn after_a_storm_all_agree_within_a_lifetime() {
    let mut worst = 0;
    for seed in 0..60 {
        let mut world = World::new(ALL, seed);
        world.loss = CHAOS;
        let mut had = vec![];
        for _ in 0..60 {
            step(&mut world, &mut had);
            check(&world, &had);
        }
        world.loss = 0;
        if world.link == Link::Detached {
            world.go(Link::Agent(0));
        }
        let healed = heal(&mut world);
        let healed = healed.unwrap_or_else(|| panic!("seed {seed} on {:?}", world.link));
        assert!(healed <= u64::from(LIFETIME), "seed {seed}: {healed} s");
        worst = worst.max(healed);
        // It lasts, and at home nothing is left.
        world.run(SECOND * 300);
        assert!(world.agrees(), "seed {seed}");
        world.go(Link::Home);
        assert!(heal(&mut world).is_some_and(|it| it <= 2), "seed {seed}");
    }
    assert!(worst > 0, "a storm that breaks nothing proves nothing");
}

/// The host has started with a wrong time, and then hears of the right one. A node is told the home
/// agent's time once: when it comes.
#[test]
fn a_home_agent_whose_clock_is_set_back_keeps_its_nodes() {
    for link in [Link::Colocated(CARE_OF), Link::Agent(0)] {
        let mut world = World::new(ALL, 1);
        world.set_clock(0, 7_200);
        world.go(link);
        assert!(heal(&mut world).is_some_and(|it| it <= 2), "{link:?}");
        world.set_clock(0, 0);
        for minute in 0..3 * LIFETIME / 60 {
            world.run(SECOND * 60);
            let is_registered = matches!(world.node.state(), State::Registered { .. });
            assert!(is_registered && world.agrees(), "{link:?}: minute {minute}");
        }
    }
}

/// How long a node is cut off when an agent restarts, at any moment between two renewals.
fn worst_after(restart: impl Fn(&mut World), link: Link) -> u64 {
    let heals = (0..100).map(|second| {
        let mut world = World::registered(ALL, link);
        world.run(SECOND * second);
        restart(&mut world);
        assert!(!world.agrees());
        heal(&mut world).expect("healed")
    });
    heals.max().expect("one")
}

#[test]
fn a_restart_heals_within_a_lifetime() {
    // A restarted home agent is noticed at the next renewal, after three quarters of the lifetime.
    let renewal = u64::from(LIFETIME) * 3 / 4;
    for link in [Link::Colocated(CARE_OF), Link::Agent(0)] {
        let home = worst_after(World::restart_home, link);
        assert_eq!(home, renewal, "{link:?}");
    }
    // A restarted foreign agent says so in its first advertisement.
    let foreign = worst_after(|world| world.restart_foreign(0), Link::Agent(0));
    assert_eq!(foreign, 1);
}
