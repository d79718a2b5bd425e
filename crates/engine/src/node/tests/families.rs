//! Inner addresses of both families under one session.

use super::*;
use crate::ike::Outbox;
use crate::ike::Step;
use crate::ike::{ChildRequest, Groups};
use crate::ikev1::quick::Quick;

const V4: &str = "10.10.0.0/24";
const V6: &str = "fd10::/64";

/// A station that requests both, and a gateway with networks of both.
fn world(version: Version, seed: u8, lends_both: bool) -> World {
    let mut world = World::of(version, seed, move |connection, is_station| {
        let networks = vec![V4.parse().unwrap(), V6.parse().unwrap()];
        let child = &mut connection.children[0];
        if is_station {
            connection.wants_inner.v6 = true;
            child.remote = networks;
        } else {
            child.local = networks;
            connection.pools = if lends_both { vec![1, 0] } else { vec![0] };
        }
    });
    world.run(Duration::from_secs(2));
    world
}

/// The inner addresses that packets may have.
fn locals(world: &World) -> BTreeSet<IpAddr> {
    let children = world.ends[0].node.children.values();
    let current = children.filter_map(|entry| entry.current.as_ref());
    current
        .flat_map(|pair| pair.local.iter().map(|it| it.first))
        .collect()
}

fn pairs(world: &World) -> Vec<(IpAddr, String)> {
    let children = world.ends[0].node.children.values();
    let current = children.filter_map(|entry| entry.current.as_ref());
    current
        .map(|pair| {
            (
                pair.local[0].first,
                crate::node::children::listed(&pair.remote),
            )
        })
        .collect()
}

#[test]
fn both_families_are_lent_and_each_network_has_a_child_of_its_own() {
    for version in VERSIONS {
        let mut world = world(version, 80, true);
        world.assert_up();
        let inner = world.ends[0].inner();
        assert_eq!(inner.len(), 2);
        let of = |is_v4: bool| *inner.iter().find(|it| it.is_ipv4() == is_v4).expect("one");
        // With IKEv2 one child has both.
        let expected = match version {
            Version::V2 => vec![(of(true), format!("{V4},{V6}"))],
            _ => vec![(of(true), V4.to_owned()), (of(false), V6.to_owned())],
        };
        assert_eq!(pairs(&world), expected);
        let locals: BTreeSet<IpAddr> = locals(&world);
        assert_eq!(locals, inner.iter().copied().collect());
        let pools = world.ends[1].node.status(world.now).pools;
        assert!(pools.iter().all(|(_, lent, _)| *lent == 1), "{pools:?}");

        // The same ones after a loss of everything at either end.
        world.restart_gateway();
        world.command(0, Command::Down("road".into()));
        world.command(0, Command::Up("road".into()));
        world.run(Duration::from_secs(5));
        world.assert_up();
        assert_eq!(pairs(&world), expected);
    }
}

#[test]
fn a_family_that_is_not_lent_is_named_and_the_other_is_up() {
    for version in VERSIONS {
        let world = world(version, 81, false);
        world.assert_up();
        assert_eq!(pairs(&world).len(), 1);
        let failures = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
        assert_eq!(world.ends[0].count(failures), 1);
        let reason = world.ends[0].failure().expect("a failure");
        assert_eq!(
            reason,
            "the gateway gives no IPv6 address: no traffic goes to fd10::/64"
        );
        assert_eq!(world.ends[1].count(failures), 0);
    }
}

#[test]
fn a_station_without_an_inner_address_asks_for_nothing_of_the_other_family() {
    for version in VERSIONS {
        let mut world = World::of(version, 82, |connection, is_station| {
            let child = &mut connection.children[0];
            match is_station {
                true => {
                    connection.wants_inner = InnerFamilies::default();
                    child.remote = vec![V6.parse().unwrap()];
                }
                false => child.local = vec![V6.parse().unwrap()],
            }
        });
        world.run(Duration::from_secs(2));
        let reason = world.ends[0].failure().expect("a failure");
        assert_eq!(
            reason,
            "10.0.0.2 === fd10::/64 mixes IPv4 and IPv6: no packet goes from one to the other"
        );
        let asked = |event: &Event| {
            matches!(
                event,
                Event::Message {
                    step: Step::Quick(1) | Step::Create(1),
                    ..
                }
            )
        };
        assert!(!world.ends.iter().any(|end| end.told(asked)));
        assert_eq!(world.ends[1].failure(), None);
    }
}

#[test]
fn a_gateway_refuses_a_child_of_two_families() {
    let mut world = world(Version::V1, 83, false);
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let (sa, path) = (session.ike.sa().expect("established"), session.path());
    let inner = crate::selector::TrafficSelector::host(world.ends[0].inner()[0]);
    let child = child(true);
    let request = ChildRequest {
        child: &child,
        spi: 0x1234_5678,
        local: vec![inner],
        remote: vec![V6.parse().unwrap()],
        needs_udp: true,
        groups: Groups::default(),
    };
    let (mut out, mut random) = (Outbox::default(), Seed::new([1; 32]).stream("", 0));
    Quick::initiate(sa, request, 7, &mut random, world.now, &mut out).expect("a message");
    let message = super::session::with_marker(path, out.messages[0].message.clone());
    let path = world.ends[1].path();
    world.deliver(1, path, &message);
    let reason = world.ends[1].failure().expect("a failure");
    assert!(
        reason.contains("fd10::/64 === 10.99.0.1 mixes IPv4 and IPv6"),
        "{reason}"
    );
    assert_eq!(world.drops(1, DropReason::SelectorRefused), 1);
    world.run(Duration::from_secs(1));
    let refused = "INVALID-ID-INFORMATION";
    assert!(world.ends[0].told(
        |event| matches!(event, Event::PeerComplains { complaint, .. } if complaint == refused)
    ));
}
