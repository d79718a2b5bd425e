//! What attackers send: everything is dropped and counted, nothing is remembered.

use std::net::Ipv4Addr;

use crypto::rand::Seed;
use wire::ip::{ipv4, protocol};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use super::packets::by_key;
use super::world::*;
use crate::counters::DropReason;
use crate::firewall::endpoint::Effect;
use crate::mip4::mobile_node::Attachment;
use crate::plane::MAX_NESTED;
use crate::sa::Path;
use crate::selector::TrafficSelector;
use crate::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3_600);

fn registered() -> World {
    let mut world = World::new(Options::default());
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_joined(0));
    world
}

/// What the firewall has made of all packets so far: drops, bindings and events.
fn state(world: &World) -> (u64, Vec<usize>, usize) {
    let drops = world.wall.drops();
    let all = DropReason::ALL.iter().map(|reason| drops.of(*reason));
    let bindings = world.wall.firewall().bindings();
    let bindings = bindings.map(|(id, _)| id.0).collect();
    (all.sum(), bindings, world.events.len())
}

/// The firewall drops a packet for this reason, sends nothing, and forgets it.
fn refuses(world: &mut World, is_outside: bool, packet: Vec<u8>, reason: DropReason) {
    let (before, wire, counted) = (state(world), world.wire.len(), world.wall_drops(reason));
    world.inject(is_outside, packet);
    let after = state(world);
    assert_eq!(world.wall_drops(reason), counted + 1, "{reason:?}");
    assert_eq!(
        (after.0, &after.1, after.2),
        (before.0 + 1, &before.1, before.2)
    );
    assert_eq!(world.wire.len(), wire + 1, "{reason:?}");
}

#[test]
fn wrong_names_numbers_and_algorithms_are_refused() {
    let mut world = registered();
    let now = world.now;
    let right = skip_association(&world.options, 0, true);
    let inner = data(CARE_OF, AGENT);
    let with = |algorithms, name| {
        let other = association(algorithms, 0, [name, Name::NONE]);
        sealed(&other, CARE_OF, &inner, now)
    };
    let made = |kij, crypt, mac| Algorithms::new(kij, crypt, mac).expect("they go together");
    let des = made(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5);
    let rc4 = made(KijAlg::TripleDes, CryptAlg::Rc4, MacAlg::Md5);
    let open = made(KijAlg::TripleDes, CryptAlg::Des, MacAlg::None);
    let (ours, strange) = (Name::ipv4(home(0)), Name::ipv4(home(99)));
    refuses(
        &mut world,
        true,
        with(des, strange),
        DropReason::SkipUnknownName,
    );
    refuses(
        &mut world,
        true,
        with(rc4, ours),
        DropReason::SkipWrongAlgorithm,
    );
    refuses(
        &mut world,
        true,
        with(open, ours),
        DropReason::SkipWrongAlgorithm,
    );
    let late = sealed(&right, CARE_OF, &inner, now + 3 * HOUR);
    refuses(&mut world, true, late, DropReason::SkipFutureN);
    world.pass(3 * HOUR);
    let old = sealed(&right, CARE_OF, &inner, Instant(0));
    refuses(&mut world, true, old, DropReason::SkipOldN);
    // A right one, of which one octet was changed.
    let whole = sealed(&right, CARE_OF, &inner, world.now);
    for at in [21, 33, 44, 60, whole.len() - 1] {
        let before = state(&world);
        let mut changed = whole.clone();
        changed[at] ^= 1;
        world.inject(true, changed);
        let after = state(&world);
        assert_eq!(
            (after.0, &after.1, after.2),
            (before.0 + 1, &before.1, before.2),
            "{at}"
        );
    }
    for length in 20..whole.len() {
        let mut short = whole[..length].to_vec();
        short[2..4].copy_from_slice(&(length as u16).to_be_bytes());
        world.inject(true, short);
    }
    assert_eq!(world.events.len(), 1);
    assert!(world.is_joined(0));
}

/// A packet in a packet in a packet.
#[test]
fn chains_without_end_are_cut() {
    let mut world = registered();
    let mut packet = data(AGENT, CARE_OF);
    for _ in 0..MAX_NESTED + 1 {
        packet = in_tunnel(&packet, (AGENT, WALL_INSIDE));
    }
    refuses(&mut world, false, packet, DropReason::NestedTooDeep);
    // SKIP in SKIP to the firewall itself: nobody has allowed that.
    let right = skip_association(&world.options, 0, true);
    let inner = sealed(&right, CARE_OF, &data(CARE_OF, AGENT), world.now);
    let outer = sealed(&right, CARE_OF, &inner, world.now);
    refuses(&mut world, true, outer, DropReason::SelectorMismatch);
    // The home agent's own packet comes out of its tunnel, and would go back into it.
    let circle = in_tunnel(&data(AGENT, AGENT), (AGENT, WALL_INSIDE));
    refuses(&mut world, false, circle, DropReason::RoutingLoop);
}

#[test]
fn a_flood_of_forged_sources_is_counted_and_not_remembered() {
    let mut world = registered();
    let mut random = Seed::new([8; 32]).stream("flood", 0);
    let right = skip_association(&world.options, 0, true);
    let whole = sealed(&right, CARE_OF, &data(CARE_OF, AGENT), world.now);
    let before = state(&world);
    const FLOOD: u64 = 20_000;
    for _ in 0..FLOOD {
        let mut forged = whole.clone();
        forged[12..16].copy_from_slice(&random.u32().to_be_bytes());
        // Names, keys or anything else, in half of them.
        if random.u32().is_multiple_of(2) {
            let at = 20 + random.u32() as usize % (forged.len() - 20);
            forged[at] ^= 1 << (random.u32() % 8);
        }
        let source: [u8; 4] = forged[12..16].try_into().expect("four octets");
        let path = crate::sa::Path::raw(WALL.into(), source.into());
        world.wall.receive(path, &mut forged, world.now);
    }
    world.settle();
    let after = state(&world);
    assert_eq!(
        (after.0, &after.1, after.2),
        (before.0 + FLOOD, &before.1, before.2)
    );
    assert!(world.is_joined(0));
}

/// A node's key proves that it is this node, and no more: the source of its packets is its own, and
/// so is the home address in its tunnels.
#[test]
fn an_authentic_node_writes_no_address_but_its_own() {
    let mut world = World::new(Options {
        nodes: 2,
        ..Options::default()
    });
    world.attach(0, Attachment::Colocated(CARE_OF));
    let key = skip_association(&world.options, 0, true);
    let (mine, now) = (home(0), world.now);
    let from = |care_of, inmost| {
        let inner = in_tunnel(&data(inmost, CORRESPONDENT), (care_of, AGENT));
        sealed(&key, care_of, &inner, now)
    };
    for other in [home(1), AGENT, WALL, WALL_INSIDE] {
        refuses(
            &mut world,
            true,
            from(CARE_OF, other),
            DropReason::ForgedSource,
        );
        refuses(
            &mut world,
            true,
            from(other, mine),
            DropReason::ForgedSource,
        );
    }
    // It reports what became of packets to itself alone.
    let unreachable = |to| {
        let quoted = in_tunnel(&data(CORRESPONDENT, mine), (AGENT, to));
        let message = [&[3, 1, 0, 0, 0, 0, 0, 0][..], &quoted].concat();
        let mut error = in_tunnel(&message, (CARE_OF, AGENT));
        error[9] = protocol::ICMP;
        set_checksum(&mut error);
        sealed(&key, CARE_OF, &error, now)
    };
    let about_another = unreachable(Ipv4Addr::new(198, 51, 100, 77));
    refuses(&mut world, true, about_another, DropReason::ForgedSource);
    let forged = world.wall_drops(DropReason::ForgedSource);
    world.inject(true, unreachable(CARE_OF));
    assert_eq!(world.wall_drops(DropReason::ForgedSource), forged);
    // Registrations, tunnels, SKIP and ICMP are all that it sends to its home agent.
    let plain = sealed(&key, CARE_OF, &data(CARE_OF, AGENT), now);
    refuses(&mut world, true, plain, DropReason::SelectorMismatch);
    world.inject(true, from(CARE_OF, mine));
    let arrived = world.at_correspondent.last();
    assert_eq!(arrived, Some(&data(mine, CORRESPONDENT)));
}

/// The same for a node that also sends ordinary packets to networks inside, with and without a
/// known home address: they come from none of these networks.
#[test]
fn an_authentic_node_is_nobody_inside() {
    let options = Options {
        names: by_key,
        nodes: 2,
        ..Options::default()
    };
    let neighbour = Ipv4Addr::new(10, 19, 5, 9);
    for home_address in [Some(home(0)), None] {
        let mut config = wall_config(&options);
        config.entries[1].1.association = skip_association(&Options::default(), 1, false);
        let servers = TrafficSelector::subnet(Ipv4Addr::new(10, 19, 0, 0).into(), 16);
        let (_, template) = &mut config.entries[0];
        (template.inside, template.home_address) = (vec![servers], home_address);
        let now = Instant(0);
        let mut wall = wall_of(config, 92, now);
        let key = skip_association(&options, 0, true);
        let mut try_it = |source, inner: Vec<u8>, reason: Option<DropReason>| {
            let before = reason.map(|it| wall.drops().of(it));
            let mut packet = sealed(&key, source, &inner, now);
            wall.receive(Path::raw(WALL.into(), source.into()), &mut packet, now);
            let after = reason.map(|it| wall.drops().of(it));
            assert_eq!(after, before.map(|it| it + 1), "{source} {home_address:?}");
            let opened = core::iter::from_fn(|| wall.poll())
                .filter(|it| matches!(it, Effect::Opened(_) | Effect::Sealed(..)));
            assert_eq!(opened.count(), usize::from(reason.is_none()), "{source}");
        };
        try_it(CARE_OF, data(CARE_OF, CORRESPONDENT), None);
        // The home agent is not in `inside`: it gets messages and tunnels, and nothing else.
        let plain = data(CARE_OF, AGENT);
        try_it(CARE_OF, plain, Some(DropReason::SelectorMismatch));
        for source in [neighbour, AGENT, home(1), WALL_INSIDE] {
            let inner = data(source, CORRESPONDENT);
            try_it(source, inner, Some(DropReason::ForgedSource));
            let inner = data(source, CORRESPONDENT);
            try_it(CARE_OF, inner, Some(DropReason::ForgedSource));
            let inner = in_tunnel(&data(source, CORRESPONDENT), (CARE_OF, AGENT));
            try_it(CARE_OF, inner, Some(DropReason::ForgedSource));
        }
        let inner = in_tunnel(&data(home(0), CORRESPONDENT), (CARE_OF, AGENT));
        try_it(CARE_OF, inner, None);
        // A later fragment has no home address.
        let mut fragment = in_tunnel(&data(home(0), CORRESPONDENT), (neighbour, AGENT));
        fragment[7] = 8;
        set_checksum(&mut fragment);
        try_it(neighbour, fragment, Some(DropReason::ForgedSource));
    }
}

/// The home agent takes a node to be where another one is. Only first fragments tell whose they
/// are.
#[test]
fn fragments_for_a_former_node_are_not_sealed_for_its_successor() {
    let mut world = World::new(Options {
        nodes: 2,
        ..Options::default()
    });
    world.attach(1, Attachment::Colocated(CARE_OF));
    assert!(world.is_joined(1));
    let inner = large_data(CORRESPONDENT, home(0), 400);
    for other in [protocol::IPV4, protocol::UDP, protocol::GRE] {
        let mut later = in_tunnel(&inner, (AGENT, CARE_OF));
        later[9] = other;
        // Offset 200, without DF.
        later[6..8].copy_from_slice(&[0, 25]);
        set_checksum(&mut later);
        let packet = in_tunnel(&later, (AGENT, WALL_INSIDE));
        refuses(&mut world, false, packet, DropReason::NoPolicy);
    }
    // Of other protocols, no fragment carries a home address.
    let mut plain = large_data(AGENT, CARE_OF, 400);
    plain[6..8].copy_from_slice(&[0, 25]);
    set_checksum(&mut plain);
    let lost = world.wall_drops(DropReason::NoPolicy);
    let sent = world.wire.iter().filter(|sent| sent.is_outside).count();
    world.inject(false, in_tunnel(&plain, (AGENT, WALL_INSIDE)));
    assert_eq!(world.wall_drops(DropReason::NoPolicy), lost);
    let after = world.wire.iter().filter(|sent| sent.is_outside).count();
    assert_eq!(after, sent + 1);
}

fn set_checksum(packet: &mut [u8]) {
    ipv4::Ipv4::new(packet).expect("a packet").fill_checksum();
}

#[test]
fn a_node_takes_its_tunnel_out_of_skip_alone() {
    let mut world = registered();
    let mut clear = in_tunnel(&data(CORRESPONDENT, home(0)), (AGENT, CARE_OF));
    let before = world.at_nodes[0].len();
    let path = Path::raw(CARE_OF.into(), AGENT.into());
    world.nodes[0].receive(path, &mut clear, world.now);
    world.settle();
    assert_eq!(world.at_nodes[0].len(), before);
    assert_eq!(world.nodes[0].drops().of(DropReason::ClearPacket), 1);
    assert!(world.is_joined(0));
}
