//! ESP in UDP without a NAT: which peers use it, for what, and what does not use it.

use super::*;
use crate::config::Encapsulation::{Always, Auto, ThroughNat};

/// Both ends after the first seconds, without a NAT between.
fn settled(change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    settled_in(Version::V1, change)
}

/// The same with this version of IKE.
fn settled_in(
    version: Version,
    change: impl Fn(&mut Connection, bool) + Send + Sync + 'static,
) -> World {
    let mut world = World::of(version, 150, change);
    // The first message was already sent: it is lost and repeated.
    world.network.nat = None;
    world.network.wire.clear();
    world.run(Duration::from_secs(5));
    world
}

/// What each end reports: whether its child is in UDP, and whether there is a NAT.
fn shown(world: &World) -> [(bool, (bool, bool)); 2] {
    [0, 1].map(|end| {
        let status = world.ends[end].node.status(world.now);
        let session = &status.connections[0].sessions[0];
        (session.children[0].is_udp_encapsulated, session.nat)
    })
}

/// Both ends have ESP in UDP and know of no NAT, through renewals too.
fn assert_in_udp_without_a_nat(world: &mut World) {
    world.assert_up();
    assert_eq!(shown(world), [(true, (false, false)); 2]);
    assert_eq!(world.ends[1].path().local.port(), NAT_T_PORT);
    world.command(1, Command::RekeyIke("road".into()));
    world.run(Duration::from_secs(10));
    world.command(0, Command::RekeyChildren("road".into()));
    world.run(Duration::from_secs(10));
    world.assert_up();
    assert_eq!(shown(world), [(true, (false, false)); 2]);
}

#[test]
fn by_default_two_ends_without_a_nat_meet_in_udp() {
    for mode in [Mode::Tunnel, Mode::Transport] {
        for is_aggressive in [true, false] {
            for pair in [[Auto, Auto], [Auto, ThroughNat], [ThroughNat, Auto]] {
                let mut world = settled(move |connection, is_station| {
                    connection.encapsulation = pair[usize::from(!is_station)];
                    connection.is_aggressive = is_aggressive;
                    connection.children[0].mode = mode;
                });
                assert_in_udp_without_a_nat(&mut world);
            }
        }
    }
}

#[test]
fn with_ikev2_two_ends_meet_in_udp_without_a_nat_that_either_would_fake() {
    for mode in [Mode::Tunnel, Mode::Transport] {
        for (setting, mobike) in [(Auto, true), (Auto, false), (Always, true), (Always, false)] {
            let mut world = settled_in(Version::V2, move |connection, _| {
                connection.encapsulation = setting;
                connection.mobike = mobike;
                connection.children[0].mode = mode;
            });
            assert_in_udp_without_a_nat(&mut world);
        }
    }
}

#[test]
fn without_a_nat_keepalives_are_sent_where_udp_was_ordered_alone() {
    for version in VERSIONS {
        for (encapsulation, keepalives) in [(Auto, 0), (Always, 30)] {
            let mut world = settled_in(version, move |connection, _| {
                connection.encapsulation = encapsulation;
            });
            world.network.log.clear();
            world.run(Duration::from_secs(300));
            // From both ends, every 20 s.
            assert_eq!(world.network.log, vec![vec![0xff]; keepalives]);
        }
    }
}

#[test]
fn ah_stays_out_of_udp_and_so_does_esp_beside_it() {
    let all = [&["ah-sha256"][..], &["aes128gcm16", "ah-sha256"]];
    for (version, suites) in VERSIONS.into_iter().flat_map(|it| all.map(|all| (it, all))) {
        let world = settled_in(version, move |connection, _| {
            connection.encapsulation = Auto;
            connection.mobike = false;
            let suites = suites.iter().map(|suite| suite.parse().unwrap());
            connection.children[0].proposals = suites.collect();
        });
        world.assert_up();
        assert_eq!(shown(&world), [(false, (false, false)); 2]);
        assert_eq!(world.ends[1].path().local.port(), IKE_PORT);
    }
}

#[test]
fn a_peer_without_rfc_3947_gets_protocol_50_unless_udp_was_ordered() {
    let hash = wire::isakmp::vendor::NAT_T_RFC_3947;
    for (encapsulation, is_up) in [(Auto, true), (Always, false)] {
        let mut world = World::new(151, move |connection, is_station| {
            // Main mode: its announcements are unencrypted and covered by no hash.
            connection.is_aggressive = false;
            connection.encapsulation = if is_station {
                encapsulation
            } else {
                ThroughNat
            };
        });
        world.has_no_nat();
        world.network.garbles = Some(hash.to_vec());
        world.run(Duration::from_secs(10));
        assert_eq!(!world.ends[0].seen.outbound.is_empty(), is_up);
        if is_up {
            world.assert_up();
            assert_eq!(shown(&world), [(false, (false, false)); 2]);
        }
    }
}

#[test]
fn a_station_without_a_nat_takes_its_tunnel_along() {
    let mut world = settled(|connection, _| connection.encapsulation = Auto);
    world.assert_up();
    world.has_address([10, 0, 0, 77].into());
    world.run(Duration::from_secs(1));
    world.assert_up();
    assert_eq!(
        world.ends[1].path().remote.ip(),
        IpAddr::from([10, 0, 0, 77])
    );
    assert!(!world.ends[0].told(|event| matches!(event, Event::IkeClosed { .. })));
}

/// A socket carries ESP or it does not. Its port, and the one that a NAT gives the peer, do not
/// matter.
#[test]
fn the_marker_goes_by_the_socket_and_not_by_its_port() {
    let mut world = World::new(31, |_, _| {});
    let first = world.first_message().expect("a first message");
    world.network.wire.clear();
    let peer = |port: u16| (std::net::Ipv4Addr::from([198, 51, 100, 9]), port);
    for (path, marker) in [
        (Path::udp((GATEWAY, 4_500), peer(4_500)), &[][..]),
        (Path::udp_with_marker((GATEWAY, 500), peer(500)), &[0; 4]),
        (Path::udp_with_marker((GATEWAY, 7_000), peer(9)), &[0; 4]),
    ] {
        let mut message = first.clone();
        message[0] = message[0].wrapping_add(path.local.port() as u8 | 1);
        world.network.nat = None;
        world.deliver(1, path, &[marker, &message].concat());
        let answer = world.network.wire.pop().expect("an answer");
        let (seen, answer) = (answer.path, answer.octets);
        assert_eq!(seen, path.reversed());
        let answer = answer.strip_prefix(marker).expect("the marker");
        assert_eq!(answer[..8], message[..8], "{path:?}");
    }
}
