//! Inner addresses that a station refuses, and what comes with those that it takes.

use super::*;
use crate::dns::TrustAnchor;

/// A station that has asked a gateway for an inner address that lends `first` to `last`.
fn lent(
    (version, seed): (Version, u8),
    gateways: &'static [[u8; 4]],
    (first, last): ([u8; 4], [u8; 4]),
) -> World {
    let mut world = World::of(version, seed, move |connection, is_station| {
        let known = gateways.iter().map(|it| (*it, IKE_PORT).into());
        if is_station {
            connection.remote_addrs = known.collect();
        }
    });
    lend(&mut world, first, last);
    world.run(Duration::from_secs(5));
    world
}

fn lend(world: &mut World, first: [u8; 4], last: [u8; 4]) {
    let mut gateway = config(false, &world.change);
    (gateway.pools[0].first, gateway.pools[0].last) = (first.into(), last.into());
    world.input(1, Input::Configure(Arc::new(gateway)));
}

#[test]
fn an_address_of_the_gateway_is_never_the_station_s_own() {
    let other = [192, 0, 2, 9];
    let cases = [
        (110, &[GATEWAY][..], GATEWAY),
        (111, &[GATEWAY, [192, 0, 2, 9]][..], other),
    ];
    let cases = VERSIONS
        .into_iter()
        .flat_map(|it| cases.map(|case| (it, case)));
    for (version, (seed, gateways, address)) in cases {
        let mut world = lent((version, seed), gateways, (address, address));
        let taken = |event: &Event| matches!(event, Event::InnerAddress { .. });
        assert!(!world.ends[0].told(taken), "{address:?}");
        let lent = IpAddr::from(address);
        let sentence = format!(
            "the gateway lends us {lent}, which is its own address: we could not reach it any more"
        );
        assert_eq!(world.ends[0].failure(), Some(sentence));
        assert_eq!(world.ends[0].node.established(), 0);

        // A gateway with a corrected pool is not given up.
        lend(&mut world, [10, 99, 0, 1], [10, 99, 0, 9]);
        world.run(Duration::from_secs(60));
        world.assert_up();
    }
}

#[test]
fn an_address_beside_the_gateway_s_is_taken() {
    for version in VERSIONS {
        let beside = [192, 0, 2, 2];
        let mut world = lent((version, 112), &[GATEWAY], (beside, beside));
        assert_eq!(world.ends[0].inner(), [IpAddr::from(beside)]);
        world.run(Duration::from_secs(1));
        world.assert_up();
    }
}

#[test]
fn an_address_that_this_host_has_on_another_link_is_refused_unless_others_may_have_it_too() {
    let lent = [198, 51, 100, 7];
    for (version, seed) in VERSIONS.into_iter().zip([113, 114]) {
        let mut world = World::of(version, seed, |_, _| {});
        world.input(0, Input::Addresses([lent.into(), STATION.into()].into()));
        lend(&mut world, lent, lent);
        world.run(Duration::from_secs(5));
        let taken = |event: &Event| matches!(event, Event::InnerAddress { .. });
        assert!(!world.ends[0].told(taken));
        let sentence =
            "the gateway lends us 198.51.100.7, which this host has already on another link";
        assert_eq!(world.ends[0].failure().as_deref(), Some(sentence));

        // Its home network and that of the gateway may both have this one.
        let private = [10, 99, 0, 1];
        world.input(0, Input::Addresses([private.into(), STATION.into()].into()));
        lend(&mut world, private, private);
        world.run(Duration::from_secs(60));
        world.assert_up();
        assert_eq!(world.ends[0].inner(), [IpAddr::from(private)]);
    }
}

#[test]
fn keys_of_dnssec_reach_a_station_that_has_listed_their_domain() {
    let digest = "07".repeat(20);
    let anchor = |domain: &str| format!("{domain} 43547 13 1 {digest}").parse().unwrap();
    let lists: [(&[&str], &[&str], &[&str]); 3] = [
        (&[], &[], &[]),
        (&["corp.example"], &["corp.example"], &["lab.example"]),
        (&["example"], &["corp.example", "lab.example"], &[]),
    ];
    for (seed, (listed, taken, refused)) in (115..).zip(lists) {
        let mut world = World::of(Version::V2, seed, move |connection, is_station| {
            if is_station {
                connection.dnssec_domains = listed.iter().map(|it| (*it).to_owned()).collect();
            }
        });
        let mut gateway = config(false, &world.change);
        let pool = &mut gateway.pools[0];
        pool.domains = vec!["corp.example".into(), "lab.example".into()];
        pool.trust_anchors = vec![anchor("corp.example"), anchor("lab.example")];
        world.input(1, Input::Configure(Arc::new(gateway)));
        world.run(Duration::from_secs(5));
        world.assert_up();
        let expected: Vec<TrustAnchor> = taken.iter().map(|it| anchor(it)).collect();
        let is_so = |event: &Event| match event {
            Event::InnerAddress {
                trust_anchors,
                refused_anchors,
                ..
            } => *trust_anchors == expected && refused_anchors == refused,
            _ => false,
        };
        assert!(world.ends[0].told(is_so), "{listed:?}");
    }
}
