//! Floods of forged messages that cost more than main mode's first: aggressive mode's, and
//! fragments. They measure an honest station's chance.

use super::floods::flood;
use super::*;
use crate::ikev1::fragments::{MAX_PARTIAL, MAX_PER_SITE, PATIENCE};

/// A rate of datagrams that hurts.
const EVERY: Duration = Duration::from_millis(1);

/// A gateway of both modes with small groups, because a flood of aggressive mode costs time.
fn both_modes(seed: u8, is_aggressive: bool) -> World {
    let mut world = World::new(seed, move |connection, _| {
        connection.is_aggressive = is_aggressive;
        connection.proposals = vec!["aes128-sha256-modp768".parse().unwrap()];
        connection.children[0].proposals = vec!["aes128gcm16".parse().unwrap()];
    });
    let [mut aggressive, mut main] = [(), ()].map(|()| config(false, &world.change));
    let other = Arc::get_mut(&mut main.connections[0]).expect("not shared");
    other.is_aggressive = !is_aggressive;
    other.name = "other".into();
    aggressive.connections.append(&mut main.connections);
    aggressive.limits = Limits::default();
    world.input(1, Input::Configure(Arc::new(aggressive)));
    world
}

/// Its first message, which has not reached the gateway.
fn first_of(is_aggressive: bool) -> Vec<u8> {
    let world = both_modes(120, is_aggressive);
    world.first_message().expect("a first message")
}

fn everywhere(n: u32) -> SocketAddr {
    let mixed = n.wrapping_mul(0x9e37_79b1) | 1;
    SocketAddr::from((mixed.to_be_bytes(), IKE_PORT))
}

fn own_address(n: u32) -> SocketAddr {
    SocketAddr::from((NAT, 1_024 + (n % 30_000) as u16))
}

/// The share of honest first messages, one each 97 ms, that are answered in a flood of a minute.
fn chance(is_aggressive: bool, from: impl Fn(u32) -> SocketAddr, honest: SocketAddr) -> f64 {
    let first = first_of(is_aggressive);
    let mut world = both_modes(121, is_aggressive);
    world.run(Duration::from_secs(2));
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(1));
    let (mut tried, mut answered) = (0, 0);
    for n in 0..60_000_u32 {
        let mut forged = first.clone();
        forged[..4].copy_from_slice(&(n + 1).to_be_bytes());
        let local = (GATEWAY, IKE_PORT);
        let remote = from(n);
        world.deliver(1, arrives(local, remote), &forged);
        if n % 97 == 50 {
            let before = world.network.sent;
            forged[..4].copy_from_slice(&(n + 0x8000_0000).to_be_bytes());
            let remote = honest;
            world.deliver(1, arrives(local, remote), &forged);
            tried += 1;
            answered += world.network.sent - before;
        }
        world.network.wire.clear();
        world.run(EVERY);
    }
    answered as f64 / f64::from(tried)
}

#[test]
fn in_a_flood_of_main_mode_from_everywhere_every_first_message_is_answered() {
    let stranger = ([198, 51, 100, 7], IKE_PORT).into();
    let share = chance(false, everywhere, stranger);
    assert!(share > 0.99, "{share}");
}

#[test]
fn in_a_flood_of_main_mode_from_a_station_s_own_address_one_in_five_is_answered() {
    let share = chance(false, own_address, (NAT, IKE_PORT).into());
    assert!((0.15..0.25).contains(&share), "{share}");
}

#[test]
fn in_a_flood_of_aggressive_mode_from_everywhere_one_in_nine_is_answered() {
    let stranger = ([198, 51, 100, 7], IKE_PORT).into();
    let share = chance(true, everywhere, stranger);
    assert!((0.08..0.15).contains(&share), "{share}");
}

#[test]
fn in_a_flood_of_aggressive_mode_from_everywhere_familiar_sites_are_answered() {
    // The honest messages alone exceed the entries of one site: 10 per second.
    let share = chance(true, everywhere, (NAT, IKE_PORT).into());
    assert!(share > 0.3, "{share}");
}

#[test]
fn in_a_flood_of_aggressive_mode_from_a_station_s_own_address_some_are_answered() {
    let share = chance(true, own_address, (NAT, IKE_PORT).into());
    assert!(share > 0.01, "{share}");
}

#[test]
fn a_flood_of_main_mode_leaves_aggressive_mode_as_it_is() {
    let forged = first_of(false);
    let mut world = both_modes(122, true);
    world.network.wire.clear();
    flood(&mut world, &forged, 0..6_000, Duration::ZERO, everywhere);
    let from = |n: u32| own_address(n + 10_000);
    flood(&mut world, &forged, 10_000..10_200, Duration::ZERO, from);
    world.run(Duration::from_secs(2));
    world.assert_up();
}

#[test]
fn a_station_that_came_up_lately_does_so_again_in_a_flood_of_aggressive_mode() {
    let forged = first_of(true);
    let mut world = both_modes(123, true);
    world.run(Duration::from_secs(2));
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(1));
    flood(&mut world, &forged, 0..3_000, EVERY, everywhere);
    world.command(0, Command::Up("road".into()));
    flood(&mut world, &forged, 3_000..3_400, EVERY, everywhere);
    world.assert_up();
}

#[test]
fn a_new_station_comes_up_in_a_flood_of_aggressive_mode_within_some_attempts() {
    let forged = first_of(true);
    let mut world = both_modes(124, true);
    world.network.wire.clear();
    flood(&mut world, &forged, 0..3_000, EVERY, everywhere);
    let mut numbers = (3_000..).step_by(1_000);
    while world.ends[0].node.established() == 0 {
        let n = numbers.next().expect("endless");
        assert!(n < 200_000, "not within 200 s");
        flood(&mut world, &forged, n..n + 1_000, EVERY, everywhere);
    }
    world.run(Duration::from_secs(1));
    world.assert_up();
}

/// A fragment of a first message under another cookie each time; it never becomes whole.
fn forged_fragment(n: u32) -> Vec<u8> {
    let header = Header {
        cookies: Cookies {
            initiator: Cookie([9; 8]),
            responder: Cookie::ZERO,
        },
        next_payload: PayloadKind::Sa,
        exchange: Exchange::Aggressive,
        flags: Flags::default(),
        message_id: 0,
    };
    let parts = crate::ikev1::fragments::split(header.write(&[0; 3_000]), 1);
    let mut part = parts[0].clone();
    part[..4].copy_from_slice(&(n + 1).to_be_bytes());
    part
}

#[test]
fn fragmented_first_messages_get_through_a_flood_of_fragments() {
    let whole = first_of(true);
    for (from, bound) in [
        (everywhere as fn(u32) -> SocketAddr, MAX_PARTIAL),
        (own_address, MAX_PER_SITE),
    ] {
        let mut world = both_modes(125, true);
        world.run(Duration::from_secs(2));
        let local = (GATEWAY, IKE_PORT);
        // The honest first message in two fragments, as far apart as a flood allows.
        let cut = whole.len() / 2;
        let fragment = |number: u8, data: &[u8]| {
            let (header, _) = Header::parse(&whole).unwrap();
            let fragment = wire::isakmp::Fragment {
                id: 1,
                number,
                is_last: number == 2,
                data: data.to_vec(),
            };
            let header = Header {
                next_payload: PayloadKind::Fragment,
                ..header
            };
            header.write(&wire::isakmp::write_payloads(&[Payload::Fragment(fragment)]).1)
        };
        let halves = [fragment(1, &whole[..cut]), fragment(2, &whole[cut..])];
        for n in 0..2_000 {
            let remote = from(n);
            world.deliver(1, arrives(local, remote), &forged_fragment(n));
            world.run(EVERY);
        }
        assert_eq!(world.ends[1].node.assembly.messages(), bound);
        let before = world.network.sent;
        let honest = arrives(local, (NAT, 40_123));
        world.deliver(1, honest, &halves[0]);
        for n in 2_000..2_000 + u32::try_from(bound).unwrap() - 1 {
            let remote = from(n);
            world.deliver(1, arrives(local, remote), &forged_fragment(n));
        }
        world.deliver(1, honest, &halves[1]);
        assert_eq!(world.network.sent, before + 1, "answered");
        world.run(PATIENCE);
        let path = world.ends[1].path();
        world.deliver(1, path, &first_fragment(Cookies::default()));
        assert!(world.ends[1].node.assembly.messages() <= 1);
    }
}
