//! Messages that come late, with everything else on time.

use super::world::{End, Flight, Who, World};
use crate::time::{Duration, Instant};
use Who::{Gateway, Station};

/// The next timer of either end.
fn next(world: &World) -> Option<Instant> {
    let deadline = |end: &End| end.session.as_ref()?.deadline();
    let both = [deadline(&world.station), deadline(&world.gateway)];
    both.into_iter().flatten().min().map(|it| it.at)
}

/// Waits until something is in flight to an end.
pub(super) fn until_sent(world: &mut World, to: Who) {
    for _ in 0..50 {
        if !world.flights(to).is_empty() {
            return;
        }
        assert!(world.wait());
    }
    panic!("nothing is sent to {to:?}");
}

/// Delivers for so long, but not these datagrams to this end, nor repetitions of them.
pub(super) fn pass_without(world: &mut World, to: Who, held: &[Flight], seconds: u64) {
    let end = world.now + Duration::from_secs(seconds);
    let is_held = |it: &Flight| held.iter().any(|late| late.octets == it.octets);
    loop {
        world.flights(to).retain(|it| !is_held(it));
        if world.deliver(to) || world.deliver(to.other()) {
            continue;
        }
        match next(world) {
            Some(next) if next <= end => world.wait(),
            _ => break,
        };
    }
    world.now = end;
}

/// The datagram of this number comes so late, and no repetition of it before. Returns whether there
/// was one.
pub(super) fn one_late(world: &mut World, number: usize, seconds: u64) -> bool {
    let mut delivered = 0;
    for _ in 0..200 {
        let to = match (world.to_gateway.is_empty(), world.to_station.is_empty()) {
            (false, _) => Gateway,
            (true, false) => Station,
            (true, true) if world.wait() => continue,
            (true, true) => return false,
        };
        if delivered == number {
            let late: Vec<Flight> = world.flights(to).pop_front().into_iter().collect();
            pass_without(world, to, &late, seconds);
            world.release(to, late);
            return true;
        }
        assert!(world.deliver(to));
        delivered += 1;
    }
    false
}
