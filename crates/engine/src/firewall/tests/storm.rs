//! Storms from a seed: moves, losses, restarts of the firewall and of nodes, NATs that change,
//! clocks that jump, and a stranger who repeats what he has recorded. Outside nothing is ever in
//! clear, and with right clocks `skip-x25519` never leads to the stranger. After calm, packets
//! reach every node within one lifetime of a registration.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use wire::ip::protocol;

use super::world::*;
use crate::firewall::Mode;
use crate::mip4::identification::Clock;
use crate::mip4::mobile_node::Attachment;
use crate::mip4::security::Form;
use crate::skip::Profile;
use crate::skip::udp::PORT;
use crate::time::{Calendar, Duration, Instant};

const CHAOS: u32 = 80;
const SECOND: Duration = Duration::from_secs(1);
/// The stranger, who hears everything outside.
const STRANGER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 66);
/// n that a node has sent where the firewall did not hear it.
const UNHEARD: u32 = 5_000;

/// All that differs between storms.
fn settings(seed: u8) -> Options {
    let is_udp = (seed / 3).is_multiple_of(2);
    let profiles = [Profile::Draft, Profile::Paper, Profile::X25519];
    Options {
        nodes: 3,
        seed,
        profile: profiles[usize::from(seed % 3)],
        mode: [Mode::Binding, Mode::PacketParsing][usize::from(seed / 6 % 2)],
        removes_header: seed.is_multiple_of(5),
        form: if is_udp { Form::Udp } else { Form::Raw },
        nat: is_udp.then_some(first_nat as fn(usize) -> Ipv4Addr),
        ..Options::default()
    }
}

/// Whether the clocks of nodes and firewall jump.
fn has_jumps(seed: u8) -> bool {
    (seed / 12).is_multiple_of(2)
}

fn first_nat(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, 101 + number as u8)
}

fn second_nat(_: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 51, 100, 201)
}

fn node_clock(world: &mut World, number: usize, ahead: u64) {
    let since_1970 = Duration::from_secs(CALENDAR.0 as u64 + ahead);
    world.nodes[number].set_clock(Clock::new(Instant(0), since_1970));
}

fn wall_clock(world: &mut World, ahead: u64) {
    let passed = world.now.since(Instant(0)).as_secs();
    let calendar = Calendar(CALENDAR.0 + (passed + ahead) as i64);
    world.wall.set_calendar(calendar, world.now);
}

/// The stranger repeats a packet, in UDP as if it were his own.
fn repeat(world: &mut World, random: u32) {
    let Some(number) = (random as usize).checked_rem(world.recorded.len()) else {
        return;
    };
    let mut packet = world.recorded[number].clone();
    if packet[9] == protocol::UDP && packet[16..20] == WALL.octets() {
        leave_nat(&mut packet, STRANGER, 0);
    }
    world.inject(true, packet);
}

fn restart_node(world: &mut World, number: usize) {
    world.node_disks[number].sent += UNHEARD;
    world.restart_node(number);
}

fn step(world: &mut World) {
    let random = world.random.u32();
    let number = (random >> 8) as usize % world.nodes.len();
    let far = u64::from(random >> 10) % 10_000;
    let places = [CARE_OF, ELSEWHERE, INSIDE, Ipv4Addr::new(192, 0, 2, 41)];
    let has_jumps = has_jumps(world.options.seed);
    match random % 18 {
        0 => world.restart_wall(),
        1 if has_jumps => node_clock(world, number, far),
        2 if has_jumps => wall_clock(world, far),
        3 if world.options.nat.is_some() => {
            let nats: [fn(usize) -> Ipv4Addr; 2] = [first_nat, second_nat];
            world.options.nat = Some(nats[far as usize % 2]);
        }
        4 => world.attach(number, Attachment::Detached),
        5..=8 => {
            let place = places[far as usize % places.len()];
            world.attach(number, Attachment::Colocated(place));
        }
        9 => restart_node(world, number),
        10 => {
            world.restart_wall();
            repeat(world, random >> 8);
        }
        11..=13 => repeat(world, random >> 8),
        _ => {
            world.send_from_node(number, data(home(number), CORRESPONDENT));
        }
    }
    let span = Duration::from_millis(u64::from(world.random.u32() % 60_000));
    world.pass(span);
}

/// What holds even in a storm. `heard`: from where packets have come to the firewall.
fn check(world: &mut World, heard: &mut BTreeSet<SocketAddrV4>) {
    for sent in world.wire.drain(..).filter(|sent| sent.is_outside) {
        let packet = &sent.packet;
        let ports = [&packet[20..22], &packet[22..24]];
        let is_in_udp = packet[9] == protocol::UDP && ports.contains(&&PORT.to_be_bytes()[..]);
        assert!(is_in_udp || packet[9] == protocol::SKIP, "{packet:?}");
        assert!(packet[12] != 10 || packet[9] == protocol::SKIP);
        let number = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let port = if is_in_udp { number(20) } else { 0 };
        let source: [u8; 4] = packet[12..16].try_into().expect("four octets");
        heard.insert(SocketAddrV4::new(source.into(), port));
    }
    let bindings: Vec<_> = world.wall.firewall().bindings().collect();
    for (_, binding) in &bindings {
        let care_of = binding.care_of;
        assert!(heard.contains(&care_of), "{care_of} has never sent");
    }
    let mut places: Vec<_> = bindings.iter().map(|(_, it)| it.care_of).collect();
    let options = &world.options;
    if options.profile == Profile::X25519 && !has_jumps(options.seed) {
        assert!(places.iter().all(|it| *it.ip() != STRANGER), "{places:?}");
    }
    places.sort_unstable();
    places.dedup();
    assert_eq!(
        places.len(),
        bindings.len(),
        "an address belongs to one entry"
    );
    let due = world.wall.deadline().map(|it| it.at);
    assert!(due.is_none_or(|at| at >= world.now));
    world.events.clear();
}

/// Whether a packet from inside reaches a node that has not sent anything just before.
fn reaches(world: &mut World, number: usize) -> bool {
    let before = world.at_nodes[number].len();
    if world.agent.intercepts(home(number).into()) {
        world.send_to_node(&data(CORRESPONDENT, home(number)));
    }
    world.at_nodes[number].len() > before
}

/// Runs until packets reach all nodes. Returns the seconds that it took.
fn heal(world: &mut World) -> Option<u64> {
    let start = world.now;
    loop {
        let waited = world.now.since(start).as_secs();
        if (0..world.nodes.len()).all(|number| reaches(world, number)) {
            return Some(waited);
        }
        if waited > u64::from(2 * LIFETIME) {
            return None;
        }
        world.pass(SECOND);
    }
}

#[test]
fn after_a_storm_packets_reach_every_node_within_a_lifetime() {
    let mut worst = 0;
    for seed in 0..72 {
        let mut world = World::new(settings(seed));
        world.loss = CHAOS;
        let mut heard = BTreeSet::new();
        for _ in 0..60 {
            step(&mut world);
            check(&mut world, &mut heard);
        }
        world.loss = 0;
        // Clocks are right, and no two nodes have one address.
        wall_clock(&mut world, 0);
        for number in 0..world.nodes.len() {
            node_clock(&mut world, number, 0);
        }
        if has_jumps(seed) && world.options.profile == Profile::X25519 {
            // Who was ahead and has restarted waits until that time, or all forget it.
            world.restart_all();
        } else {
            world.restart_wall();
            for random in 0..world.recorded.len() as u32 {
                repeat(&mut world, random);
            }
        }
        let places = [CARE_OF, ELSEWHERE, INSIDE];
        for (number, place) in places.into_iter().enumerate() {
            if world.places[number] != Attachment::Colocated(place) {
                world.attach(number, Attachment::Colocated(place));
            }
        }
        let healed = heal(&mut world).unwrap_or_else(|| panic!("seed {seed}"));
        assert!(healed <= u64::from(LIFETIME), "seed {seed}: {healed} s");
        worst = worst.max(healed);
        check(&mut world, &mut heard);
        // It lasts.
        for _ in 0..4 {
            world.pass(SECOND * 150);
            for number in 0..world.nodes.len() {
                assert!(world.is_joined(number), "seed {seed}: {number}");
            }
        }
        check(&mut world, &mut heard);
    }
    assert!(worst > 0, "a storm that breaks nothing proves nothing");
}

/// How long packets do not reach a node when the firewall has restarted and the node is silent, at
/// any moment between two renewals.
#[test]
fn a_restart_of_the_firewall_heals_with_the_next_renewal() {
    let worst_of = |mode| {
        let heals = (0..100).map(|second| {
            let mut world = World::new(Options {
                mode,
                ..Options::default()
            });
            world.attach(0, Attachment::Colocated(CARE_OF));
            world.pass(SECOND * second);
            world.restart_wall();
            heal(&mut world).expect("healed")
        });
        heals.max().expect("one")
    };
    let renewal = u64::from(LIFETIME) * 3 / 4;
    assert_eq!(worst_of(Mode::Binding), renewal);
    assert_eq!(worst_of(Mode::PacketParsing), 0, "it had nothing to lose");
}
