//! Numbered packets in both directions during every kind of renewal: none is lost, and none is sent
//! under an SA that its receiver lacks.

use super::*;
use crate::config::Version;

/// Packets in flight: when they arrive, at which end, under which SPI.
struct Traffic {
    flying: Vec<(Instant, usize, u32)>,
    ways: [bool; 2],
    delay: Duration,
    used: Vec<u32>,
    lost: Vec<(usize, Instant)>,
    arrived: usize,
}

impl Traffic {
    fn new(ways: [bool; 2], delay: Duration) -> Self {
        Self {
            flying: Vec::new(),
            ways,
            delay,
            used: Vec::new(),
            lost: Vec::new(),
            arrived: 0,
        }
    }

    /// A packet of each end every millisecond.
    fn flow(&mut self, world: &mut World, span: Duration) {
        for _ in 0..span.as_millis() {
            for end in [0, 1] {
                if self.ways[end] {
                    let at = world.now + self.delay;
                    self.flying.push((at, 1 - end, world.sealing(end)));
                }
            }
            self.arrive(world);
            world.run(Duration::from_millis(1));
        }
    }

    fn arrive(&mut self, world: &mut World) {
        let now = world.now;
        let (due, later) = self.flying.iter().partition(|packet| packet.0 <= now);
        self.flying = later;
        let due: Vec<(Instant, usize, u32)> = due;
        for (_, to, spi) in due {
            let Some(&child) = world.ends[to].seen.inbound.get(&spi) else {
                self.lost.push((to, now));
                continue;
            };
            self.arrived += 1;
            if !self.used.contains(&spi) {
                self.used.push(spi);
                world.notice(to, Notice::InboundUsed { child, spi });
            }
        }
    }
}

/// Which ends renew what at the same time.
const RENEWALS: [&[(usize, bool)]; 6] = [
    &[(0, false)],
    &[(1, false)],
    &[(0, false), (1, false)],
    &[(0, true)],
    &[(1, true)],
    &[(0, true), (1, true)],
];

fn renew(world: &mut World, who: &[(usize, bool)]) {
    for (end, is_ike) in who {
        let name = "road".to_owned();
        world.command(
            *end,
            match is_ike {
                true => Command::RekeyIke(name),
                false => Command::RekeyChildren(name),
            },
        );
    }
}

#[test]
fn no_packet_is_lost_whoever_renews_what() {
    renews_without_loss(|_, _| {});
}

#[test]
fn no_packet_is_lost_whoever_renews_what_in_ikev2() {
    renews_without_loss(|connection, _| super::ikev2::speaks(connection, Version::V2));
}

fn renews_without_loss(change: fn(&mut Connection, bool)) {
    for ways in [[true, true], [true, false], [false, true]] {
        for delay in [0, 5, 20, 60] {
            let mut world = World::new(61, change);
            world.run(Duration::from_secs(2));
            let mut traffic = Traffic::new(ways, Duration::from_millis(delay));
            for who in RENEWALS {
                renew(&mut world, who);
                traffic.flow(&mut world, Duration::from_millis(3_700));
                let first = traffic.lost.first();
                let told = world.ends.each_ref().map(|end| &end.seen.events);
                let what = format!("{who:?} {ways:?} {delay} ms");
                assert_eq!(first, None, "{} of {what}: {told:#?}", traffic.lost.len());
            }
            let way = usize::from(ways[0]) + usize::from(ways[1]);
            assert!(traffic.arrived >= way * 22_000, "{}", traffic.arrived);
            // What was renewed has been deleted by both.
            traffic.flow(&mut world, Duration::from_secs(20));
            assert_eq!(traffic.lost.first(), None);
            assert!(world.ends.iter().all(|end| end.seen.inbound.len() == 1));
        }
    }
}

#[test]
fn a_lost_message_of_a_renewal_costs_no_packet() {
    for (end, ways) in [
        (0, [true, false]),
        (0, [true, true]),
        (1, [false, true]),
        (1, [true, true]),
    ] {
        for message in 1..=3 {
            let mut world = World::new(62, |_, _| {});
            world.run(Duration::from_secs(2));
            let mut traffic = Traffic::new(ways, Duration::from_millis(20));
            world.network.loses = Some(world.network.sent + message);
            renew(&mut world, &[(end, false)]);
            traffic.flow(&mut world, Duration::from_secs(8));
            assert_eq!(world.network.loses, None);
            let lost = traffic.lost.len();
            assert_eq!(lost, 0, "message {message} of {end}: {:?}", traffic.lost[0]);
            world.run(Duration::from_secs(20));
            world.assert_up();
        }
    }
}

#[test]
fn a_station_can_receive_before_it_says_its_last_word() {
    let mut world = World::new(63, |_, _| {});
    world.run(Duration::from_secs(2));
    renew(&mut world, &[(0, false)]);
    world.run(Duration::from_secs(1));
    let trail = &world.ends[0].seen.trail;
    let places = |what: Act| -> Vec<usize> {
        let all = trail.iter().enumerate();
        all.filter(|(_, it)| **it == what).map(|it| it.0).collect()
    };
    let ready = places(Act::Install(Direction::Inbound));
    let said = places(Act::Message(Step::Quick(3)));
    assert_eq!((ready.len(), said.len()), (2, 2), "{trail:?}");
    for (ready, said) in ready.into_iter().zip(said) {
        assert!(ready < said, "{trail:?}");
    }
}
