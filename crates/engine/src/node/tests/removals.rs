//! Each SA leaves its plane exactly once, however it ends. Every endpoint checks this in all tests
//! (`endpoint/ledger.rs`); here many causes of an end meet.

use super::*;
use crate::ike::{AgreedChild, NegotiatedChild};
use crate::sa::Secret;

/// Renewals, outages, restarts and users at both ends.
#[test]
fn each_sa_is_removed_once_whatever_happens_at_the_same_time() {
    for version in VERSIONS {
        let mut installed = 0;
        for seed in 0..24 {
            let mut world = World::of(version, seed, |connection, is_station| {
                let (ike, child, dpd) = if is_station {
                    (70, 23, 9)
                } else {
                    (90, 29, 11)
                };
                connection.lifetime = Duration::from_secs(ike);
                connection.children[0].lifetime = Duration::from_secs(child);
                connection.children[0].rekey_margin = Duration::from_secs(5);
                connection.dpd_delay = Some(Duration::from_secs(dpd));
            });
            let mut random = Seed::new([seed; 32]).stream("removals", 0);
            world.network.loss = f64::from(seed % 4) * 0.08;
            for _ in 0..60 {
                let name = "road".to_owned();
                let end = (random.u32() % 2) as usize;
                match random.u32() % 12 {
                    0..3 => world.command(end, Command::RekeyChildren(name)),
                    3..6 => world.command(end, Command::RekeyIke(name)),
                    // Both ends at once.
                    6 => (0..2)
                        .for_each(|end| world.command(end, Command::RekeyChildren("road".into()))),
                    7 => {
                        (0..2).for_each(|end| world.command(end, Command::RekeyIke("road".into())))
                    }
                    8 => world.command(end, Command::Down(name)),
                    9 => world.network.dead = vec![GATEWAY.into()],
                    10 if random.u32().is_multiple_of(4) => {
                        installed += world.ends[1].seen.keys.len();
                        world.restart_gateway();
                    }
                    _ => world.rebind(),
                }
                let wait = [3, 40, 400, 3_000, 12_000][(random.u32() % 5) as usize];
                world.run(Duration::from_millis(wait));
                world.network.dead.clear();
                world.command(0, Command::Up("road".into()));
            }
            for end in 0..2 {
                world.command(end, Command::Stop);
                let seen = &world.ends[end].seen;
                assert!(
                    seen.inbound.is_empty() && seen.outbound.is_empty(),
                    "{seed}"
                );
                installed += seen.keys.len();
            }
        }
        assert!(installed > 800, "{installed}");
    }
}

#[test]
fn an_sa_in_its_overlap_outlives_the_session_under_which_it_was_renewed() {
    let mut world = World::new(210, |_, _| {});
    world.run(Duration::from_secs(2));
    world.command(0, Command::RekeyChildren("road".into()));
    world.run(Duration::from_millis(200));
    world.command(0, Command::RekeyIke("road".into()));
    world.run(Duration::from_millis(400));
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    // A peer may delete the old ISAKMP SA at once.
    let mut out = Outbox::default();
    let (_, session) = world.ends[0].node.sessions.iter_mut().next().expect("one");
    let path = session.path();
    session.ike.v1_mut().expect("IKEv1").delete(0x53, &mut out);
    let message = super::super::session::with_marker(path, out.messages[0].message.clone());
    let path = world.ends[1].path();
    world.deliver(1, path, &message);
    assert_eq!(world.ends[1].node.sessions.len(), 1);
    assert_eq!(world.ends[1].seen.inbound.len(), 2, "packets in flight");
    world.run(Duration::from_secs(20));
    assert_eq!(world.ends[1].seen.inbound.len(), 1);
    world.assert_up();
}

#[test]
fn a_peer_cannot_use_one_spi_for_two_sas_of_a_child() {
    for version in VERSIONS {
        let mut world = World::of(version, 211, |_, _| {});
        world.run(Duration::from_secs(2));
        let now = world.now;
        let node = &mut world.ends[1].node;
        let (id, session) = node.sessions.iter().next().expect("one");
        let path = session.path();
        let entry = node.children.values().next().expect("one");
        let (child, pair) = (entry.id, entry.current.clone().expect("a pair"));
        let keys = || (Secret(vec![1; 20]), Secret(Vec::new()));
        let negotiated = NegotiatedChild {
            suite: pair.suite,
            mode: pair.mode,
            is_udp_encapsulated: pair.is_udp_encapsulated,
            spi_in: pair.spi_in ^ 1,
            spi_out: pair.spi_out,
            keys_in: keys(),
            keys_out: keys(),
            local: pair.local.to_vec(),
            remote: pair.remote.to_vec(),
            original: None,
            lifetime_s: 3_600,
            lifetime_bytes: None,
        };
        let agreed = AgreedChild {
            child,
            exchange: 0x53,
            is_ours: true,
            begun: now,
            renews: Some(pair.spi_in),
            negotiated: Box::new(negotiated),
            is_redundant: (version == Version::V2).then_some(false),
        };
        node.handle(Input::Wake, now);
        node.child_agreed(id, path, agreed, Outbox::default(), now);
        world.settle(1);
        let refused = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
        assert_eq!(world.ends[1].count(refused), 1);
        assert_eq!(
            world.ends[1]
                .seen
                .inbound
                .keys()
                .copied()
                .collect::<Vec<_>>(),
            [pair.spi_in]
        );
        assert_eq!(world.sealing(1), pair.spi_out);
        world.assert_up();
    }
}
