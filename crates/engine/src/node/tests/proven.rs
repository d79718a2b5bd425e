//! Strangers take exchanges of main mode as far as the shared value: they must neither keep honest
//! stations out nor make us compute without end.

use std::net::Ipv6Addr;

use super::*;
use crate::config::Version;
use crate::ikev1::phase1::{MAX_CLEAR_BYTES, MAX_FIRST_BYTES};
use crate::ikev1::tests::pair::JANUARY_2027;
use crate::node::half_open::COSTLY_TIME;

/// Places of proven exchanges, of a site's, and of a network's.
const PLACES: usize = 100;
const PER_SITE: usize = 10;
const PER_NETWORK: usize = 40;

/// A gateway with few places, its station down, and that one's first and third message.
struct Attacked {
    world: World,
    first: Vec<u8>,
    third: Vec<u8>,
    begun: u32,
}

impl Attacked {
    fn new(seed: u8) -> Self {
        let mut world = World::new(seed, |connection, _| {
            connection.is_aggressive = false;
            connection.proposals = vec!["aes128-sha256-modp768".parse().unwrap()];
        });
        let mut small = config(false, &world.change);
        small.limits = Limits {
            half_open_total: 2 * PLACES,
            half_open_per_address: PER_SITE,
            ..Limits::default()
        };
        world.input(1, Input::Configure(Arc::new(small)));
        world.run(Duration::from_secs(2));
        world.assert_up();
        world.command(0, Command::Down("road".into()));
        world.run(Duration::from_secs(1));
        let first = world.first_message().expect("a first message");
        let is_third = |message: &&Vec<u8>| {
            Header::parse(message).is_ok_and(|(it, _)| it.next_payload == PayloadKind::KeyExchange)
        };
        let third = world
            .network
            .log
            .iter()
            .find(is_third)
            .expect("a third message");
        Self {
            first,
            third: third.clone(),
            world,
            begun: 0,
        }
    }

    /// A stranger at this address proves it. Returns its path and the cookies.
    fn prove(&mut self, from: IpAddr) -> (Path, [u8; 16]) {
        self.begun += 1;
        let local = match from {
            IpAddr::V4(_) => GATEWAY.into(),
            IpAddr::V6(_) => "2001:db8:ffff::1".parse().unwrap(),
        };
        let path = arrives(
            SocketAddr::new(local, IKE_PORT),
            SocketAddr::new(from, IKE_PORT),
        );
        let mut first = self.first.clone();
        first[..4].copy_from_slice(&(self.begun | 0x4000_0000).to_be_bytes());
        self.world.deliver(1, path, &first);
        let mut cookies = [0; 16];
        cookies.copy_from_slice(&self.world.network.log.last().expect("sent")[..16]);
        let mut third = self.third.clone();
        third[..16].copy_from_slice(&cookies);
        self.world.deliver(1, path, &third);
        (path, cookies)
    }

    fn proven(&self) -> usize {
        let sessions = self.world.ends[1].node.sessions.values();
        let places = sessions.filter_map(Session::slot);
        places.filter(|place| place.is_proven()).count()
    }

    fn refused(&self) -> u64 {
        self.world.drops(1, DropReason::TooManyHalfOpen)
    }
}

/// Addresses of as many networks.
fn scattered(n: u32) -> IpAddr {
    (n.wrapping_mul(0x9e37_79b1) | 1).to_be_bytes().into()
}

#[test]
fn exchanges_that_strangers_prove_and_leave_make_room() {
    let mut attacked = Attacked::new(150);
    for n in 0..150 {
        attacked.prove(scattered(n));
    }
    assert_eq!(attacked.proven(), PLACES);
    attacked.world.command(0, Command::Up("road".into()));
    // More than the entries that become free.
    for n in 150..1_150 {
        attacked.prove(scattered(n));
        attacked.world.run(Duration::from_millis(20));
        assert!(attacked.proven() <= PLACES);
    }
    attacked.world.assert_up();
}

#[test]
fn one_network_of_a_stranger_takes_a_part_of_the_places() {
    let six = |n: u32| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 7, n as u16, 0, 0, 0, 1));
    let four = |n: u32| IpAddr::from([203, 0, 113, n as u8]);
    for (number, address) in [six as fn(u32) -> IpAddr, four].into_iter().enumerate() {
        let mut attacked = Attacked::new(151 + number as u8);
        for n in 0..200 {
            attacked.prove(address(n));
        }
        assert_eq!(attacked.proven(), PER_NETWORK);
        attacked.world.command(0, Command::Up("road".into()));
        attacked.world.run(Duration::from_secs(5));
        attacked.world.assert_up();
    }
}

#[test]
fn an_exchange_that_is_made_fail_keeps_its_place_as_long_as_one_that_waits() {
    let mut attacked = Attacked::new(153);
    let own = IpAddr::from([198, 51, 100, 9]);
    for _ in 0..PER_SITE {
        let (path, cookies) = attacked.prove(own);
        let header = Header {
            cookies: Cookies::default(),
            next_payload: PayloadKind::Identification,
            exchange: Exchange::IdentityProtection,
            flags: Flags::ENCRYPTION,
            message_id: 0,
        };
        let mut fifth = header.write(&[0x5a; 64]);
        fifth[..16].copy_from_slice(&cookies);
        attacked.world.deliver(1, path, &fifth);
    }
    assert_eq!(attacked.proven(), PER_SITE);
    attacked.world.run(Duration::from_millis(3_500));
    assert_eq!(attacked.world.ends[1].node.half_open.total(), 0);
    let refused = attacked.refused();
    attacked.prove(own);
    assert_eq!((attacked.proven(), attacked.refused()), (0, refused + 1));
    attacked.world.run(COSTLY_TIME);
    attacked.prove(own);
    assert_eq!(attacked.proven(), 1);
}

/// A message with an extra vendor ID that fills it to this many octets.
fn padded(message: &[u8], octets: usize) -> Vec<u8> {
    let (header, body) = Header::parse(message).unwrap();
    let located = wire::isakmp::payloads(header.next_payload, body).unwrap();
    let mut chain: Vec<Payload> = located.into_iter().map(|found| found.payload).collect();
    chain.push(Payload::VendorId(vec![7; octets - message.len() - 4]));
    header.write(&wire::isakmp::write_payloads(&chain).1)
}

#[test]
fn messages_of_strangers_that_are_very_long_are_not_held() {
    let mut attacked = Attacked::new(154);
    let (first, third) = (attacked.first.clone(), attacked.third.clone());
    let mut numbers = 0..;
    let mut prove = |first: Vec<u8>, third: Vec<u8>| {
        (attacked.first, attacked.third) = (first, third);
        attacked.prove(scattered(numbers.next().unwrap()));
        let half_open = attacked.world.ends[1].node.half_open.total();
        (half_open, attacked.proven())
    };
    assert_eq!(
        prove(padded(&first, MAX_FIRST_BYTES + 1), third.clone()),
        (0, 0)
    );
    assert_eq!(prove(padded(&first, 60_000), third.clone()), (0, 0));
    let longest = padded(&first, MAX_FIRST_BYTES);
    assert_eq!(prove(longest, padded(&third, MAX_CLEAR_BYTES + 1)), (1, 0));
    assert_eq!(
        prove(first.clone(), padded(&third, MAX_CLEAR_BYTES)),
        (2, 1)
    );
    assert_eq!(attacked.world.drops(1, DropReason::MalformedMessage), 3);
}

/// A stranger proves an exchange of IKEv2: it sends the first of two fragments of IKE_AUTH.
fn prove_ikev2(world: &mut World, number: u8) {
    let mut stranger = World::new(160 + number, certified);
    let first = stranger.first_message().expect("a first message");
    let from = IpAddr::from([198, 51, 100, number]);
    let path = |port: u16| arrives((GATEWAY, port), (from, port));
    world.deliver(1, path(IKE_PORT), &first);
    let answer = world.network.log.last().expect("an answer").clone();
    stranger.network.wire.clear();
    let heard = arrives((STATION, IKE_PORT), (GATEWAY, IKE_PORT));
    stranger.deliver(0, heard, &answer);
    assert_eq!(stranger.network.wire.len(), 2, "fragments");
    let fragment = stranger.network.wire.remove(0);
    world.deliver(1, path(fragment.path.local.port()), &fragment.octets);
}

fn certified(connection: &mut Connection, is_station: bool) {
    super::ikev2::speaks(connection, Version::V2);
    super::ikev2::has_certificate(connection, is_station);
}

#[test]
fn exchanges_of_ikev2_that_strangers_prove_have_a_bound_and_make_room() {
    let mut world = World::new(155, certified);
    let mut small = config(false, &world.change);
    small.limits = Limits {
        half_open_total: 8,
        half_open_per_address: 2,
        ..Limits::default()
    };
    world.input(1, Input::Configure(Arc::new(small)));
    for end in [0, 1] {
        world.input(end, Input::Calendar(JANUARY_2027));
    }
    world.run(Duration::from_secs(2));
    world.assert_up();
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(1));
    let proven = |world: &World| {
        let sessions = world.ends[1].node.sessions.iter();
        let places = sessions.filter(|(_, it)| it.slot().is_some_and(|slot| slot.is_proven()));
        places.map(|(id, _)| id).collect::<Vec<_>>()
    };
    let refused = |world: &World| world.drops(1, DropReason::TooManyHalfOpen);
    for number in 0..4 {
        prove_ikev2(&mut world, number);
    }
    let first = proven(&world);
    assert_eq!((first.len(), refused(&world)), (4, 0));
    // Half of all places, and nobody leaves one while it may still be honest.
    prove_ikev2(&mut world, 4);
    assert_eq!((proven(&world), refused(&world)), (first.clone(), 1));
    world.run(2 * COSTLY_TIME);
    prove_ikev2(&mut world, 5);
    let later = proven(&world);
    assert_eq!((later.len(), refused(&world)), (4, 2));
    let stays = |id: &&SessionId| later.contains(*id);
    assert_eq!(first.iter().filter(stays).count(), 3, "the oldest has left");
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(5));
    world.assert_up();
}
