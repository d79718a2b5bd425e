//! Tunnels of IKEv2: what the node does for IKEv1 it does for IKEv2 too.

use super::*;
use crate::config::Version;
use crate::ikev1::tests::pair::{JANUARY_2027, pattern, signatures};
use crate::selector::{Ports, TrafficSelector};

const SUITE: &str = "aes128gcm16-prfsha256-curve25519";
/// A second address of the station, and one of the gateway without a host.
const WIFI: [u8; 4] = [10, 0, 0, 77];
const DEAD: [u8; 4] = [192, 0, 2, 9];

/// Lets a connection speak IKEv2.
pub(super) fn speaks(connection: &mut Connection, version: Version) {
    connection.version = version;
    connection.ikev2_proposals = vec![SUITE.parse().expect("a suite")];
}

fn world(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> World {
    World::new(seed, move |connection, is_station| {
        speaks(connection, Version::V2);
        change(connection, is_station);
    })
}

/// Both ends prove themselves by certificates.
pub(super) fn has_certificate(connection: &mut Connection, is_station: bool) {
    let (name, peer, key, chain): (_, _, _, &[&str]) = match is_station {
        true => (
            "station@example",
            "gateway.example",
            "station",
            &["station"],
        ),
        false => (
            "gateway.example",
            "*@example",
            "gateway",
            &["gateway", "mid"],
        ),
    };
    connection.local.identity = Identity::parse(name).unwrap();
    connection.remote.identities = vec![pattern(peer)];
    (connection.local.method, connection.remote.method) = signatures(key, chain);
}

fn asks_often(connection: &mut Connection, is_station: bool) {
    if is_station {
        connection.dpd_delay = Some(Duration::from_secs(10));
    }
}

fn wrong_network(connection: &mut Connection, is_station: bool) {
    if is_station {
        connection.children[0].remote = vec!["10.77.0.0/24".parse().unwrap()];
    }
}

fn has_closed_child(world: &World) -> bool {
    world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. }))
}

fn renewals(world: &World, end: usize) -> usize {
    let is_renewal = |e: &Event| matches!(e, Event::ChildEstablished { is_rekey: true, .. });
    world.ends[end].count(is_renewal)
}

fn established(world: &World, end: usize) -> usize {
    world.ends[end].count(|event| matches!(event, Event::IkeEstablished { .. }))
}

#[test]
fn a_station_behind_a_nat_comes_up_with_four_messages() {
    let mut world = world(200, |_, _| {});
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(world.network.sent, 4);
    let path = world.ends[1].path();
    assert_eq!(path.remote.ip(), IpAddr::from(NAT));
    assert_eq!(path.local.port(), NAT_T_PORT);
    for end in &world.ends {
        let status = end.node.status(world.now);
        let session = &status.connections[0].sessions[0];
        assert_eq!((session.version, &session.suite[..]), (2, SUITE));
    }
    assert_eq!(world.ends[0].inner().len(), 1);
}

#[test]
fn it_comes_up_without_a_nat_too() {
    let mut world = world(201, |connection, _| connection.mobike = false);
    world.network.nat = None;
    world.network.wire.clear();
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(world.ends[1].path().local.port(), IKE_PORT);
}

#[test]
fn certificates_of_both_ends_prove_them() {
    let mut world = world(202, has_certificate);
    for end in [0, 1] {
        world.input(end, Input::Calendar(JANUARY_2027));
    }
    world.run(Duration::from_secs(60));
    world.assert_up();
}

#[test]
fn a_third_of_all_datagrams_may_be_lost() {
    for seed in 210..220 {
        let mut world = world(seed, |_, _| {});
        world.network.loss = 0.3;
        world.run(Duration::from_secs(120));
        world.network.loss = 0.0;
        world.run(Duration::from_secs(120));
        world.assert_up();
    }
}

#[test]
fn datagrams_may_overtake_each_other_and_come_twice() {
    for seed in 220..230 {
        let mut world = world(seed, |_, _| {});
        world.network.jitter = Duration::from_millis(700);
        world.run(Duration::from_secs(60));
        for end in [0, 1] {
            world.command(end, Command::RekeyChildren("road".into()));
            world.run(Duration::from_secs(30));
            world.command(end, Command::RekeyIke("road".into()));
            world.run(Duration::from_secs(30));
        }
        world.assert_up();
        assert!(world.drops(1, DropReason::RetransmittedMessage) > 0);
    }
}

#[test]
fn a_gateway_leaves_children_to_windows_behind_a_nat() {
    let after = |is_windows: bool, seconds: u64| {
        let mut world = world(231, |connection, is_station| {
            let seconds = if is_station { 10_000 } else { 100 };
            connection.children[0].lifetime = Duration::from_secs(seconds);
            connection.children[0].rekey_margin = Duration::from_secs(20);
        });
        world.run(Duration::from_secs(2));
        for session in world.ends[1].node.sessions.values_mut() {
            if is_windows {
                let ike = session.ike.v2_mut().expect("IKEv2");
                ike.is_with_windows_for_testing();
            }
        }
        world.command(0, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(seconds));
        let is_expired = world.ends[1].told(|event| {
            matches!(event, Event::ChildClosed { cause, .. } if *cause == EndCause::Expired)
        });
        (renewals(&world, 1), is_expired)
    };
    let (count, _) = after(false, 300);
    assert!(count > 2, "{count}");
    // Only the one that the station has begun.
    assert_eq!(after(true, 300), (1, false));
    // Four times its lifetime is the end, if the peer never renews it.
    assert!(after(true, 420).1);
}

#[test]
fn children_are_renewed_before_they_expire() {
    let mut world = world(230, |connection, _| {
        connection.children[0].lifetime = Duration::from_secs(100);
        connection.children[0].rekey_margin = Duration::from_secs(20);
    });
    world.run(Duration::from_secs(1000));
    world.assert_up();
    assert!(
        (10..=14).contains(&renewals(&world, 0)),
        "{}",
        renewals(&world, 0)
    );
    assert!(!has_closed_child(&world));
    world.run(Duration::from_secs(20));
    assert!(world.ends.iter().all(|end| end.seen.inbound.len() <= 2));
}

#[test]
fn the_ike_sa_is_renewed_and_the_children_move_over() {
    let mut world = world(231, |connection, _| {
        connection.lifetime = Duration::from_secs(200);
        connection.rekey_margin = Duration::from_secs(50);
    });
    world.run(Duration::from_secs(1000));
    world.assert_up();
    let count = established(&world, 0);
    assert!((6..=8).contains(&count), "{count}");
    assert!(!has_closed_child(&world));
    for end in &world.ends {
        assert_eq!(end.node.sessions.len(), 1);
        assert_eq!(
            end.node
                .sessions
                .values()
                .next()
                .unwrap()
                .ike
                .own_spis()
                .len(),
            1
        );
    }
}

#[test]
fn either_side_can_renew_at_once_and_both_at_the_same_time() {
    let mut world = world(232, |_, _| {});
    world.run(Duration::from_secs(2));
    for ends in [&[0][..], &[1], &[0, 1]] {
        for is_ike in [false, true] {
            for end in ends {
                let name = "road".to_owned();
                world.command(
                    *end,
                    match is_ike {
                        true => Command::RekeyIke(name),
                        false => Command::RekeyChildren(name),
                    },
                );
            }
            world.run(Duration::from_secs(60));
            world.assert_up();
            assert!(world.ends.iter().all(|end| end.seen.inbound.len() == 1));
        }
    }
    assert!(!has_closed_child(&world));
    assert!(renewals(&world, 0) >= 3 && established(&world, 0) >= 4);
}

#[test]
fn down_deletes_at_both_ends_and_up_brings_the_same_inner_address_back() {
    let mut world = world(233, |_, _| {});
    world.run(Duration::from_secs(2));
    let first = world.ends[0].inner();
    world.command(0, Command::Down("road".into()));
    world.run(Duration::from_secs(5));
    for end in &world.ends {
        assert_eq!(end.node.established(), 0);
        assert!(end.seen.inbound.is_empty() && end.seen.outbound.is_empty());
    }
    world.command(0, Command::Up("road".into()));
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(world.ends[0].inner(), first);
}

#[test]
fn a_restarted_gateway_is_found_dead_and_reached_again_with_the_same_inner_address() {
    let mut world = world(234, asks_often);
    world.run(Duration::from_secs(2));
    let first = world.ends[0].inner();
    world.restart_gateway();
    world.run(Duration::from_secs(100));
    world.assert_up();
    assert_eq!(world.ends[0].inner(), first);
}

#[test]
fn a_station_on_demand_waits_for_traffic_and_for_it_again_after_a_loss() {
    let mut world = world(235, |connection, is_station| {
        asks_often(connection, is_station);
        if is_station {
            connection.start = Start::OnTraffic;
        }
    });
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[0].node.established(), 0);
    world.notice(0, Notice::Acquire { child: ChildId(0) });
    world.run(Duration::from_secs(5));
    world.assert_up();
    world.restart_gateway();
    world.run(Duration::from_secs(100));
    assert_eq!(world.ends[0].node.established(), 0);
    world.notice(0, Notice::Acquire { child: ChildId(0) });
    world.run(Duration::from_secs(5));
    world.assert_up();
}

#[test]
fn a_nat_that_forgets_its_mapping_moves_the_path_at_the_next_question() {
    let mut world = world(236, asks_often);
    world.run(Duration::from_secs(2));
    world.rebind();
    world.run(Duration::from_secs(30));
    let port = world.nat_port(NAT_T_PORT);
    assert_eq!(world.ends[1].path().remote.port(), port);
    assert!(world.ends[1].told(|event| matches!(event, Event::PathMoved { .. })));
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn a_station_that_changes_its_address_behind_a_nat_keeps_its_tunnel() {
    let mut world = world(237, |_, _| {});
    world.run(Duration::from_secs(2));
    world.has_address(WIFI.into());
    assert_eq!(world.ends[0].path().local.ip(), IpAddr::from(WIFI));
    world.run(Duration::from_secs(10));
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn a_dead_address_of_the_gateway_is_passed_over() {
    let mut world = world(238, |connection, is_station| {
        if is_station {
            connection.remote_addrs = [DEAD, GATEWAY].map(|it| (it, IKE_PORT).into()).to_vec();
        }
    });
    world.network.dead = vec![DEAD.into()];
    world.network.wire.clear();
    world.run(Duration::from_secs(2));
    world.assert_up();
    world.run(Duration::from_secs(100));
    world.assert_up();
    assert!(world.ends.iter().all(|end| end.node.sessions.len() == 1));
}

#[test]
fn a_wrong_selector_is_refused_in_one_sentence_at_both_ends() {
    let mut world = world(239, wrong_network);
    world.run(Duration::from_secs(3));
    let reason = world.ends[1].failure().expect("a failure");
    assert!(
        reason.starts_with("no selector in common: the peer asks for tunnel"),
        "{reason}"
    );
    let reason = world.ends[0].failure().expect("a failure");
    assert!(reason.contains("TS_UNACCEPTABLE"), "{reason}");
    assert!(world.ends[0].told(|event| matches!(event, Event::RetryScheduled { .. })));
    assert!(world.ends.iter().all(|end| end.seen.inbound.is_empty()));
}

#[test]
fn a_refused_child_leaves_the_others_up() {
    for number in [0, 1] {
        let mut world = world(240, move |connection, is_station| {
            if is_station {
                let mut wrong = child(true);
                wrong.remote = vec!["10.77.0.0/24".parse().unwrap()];
                connection.children.insert(number, wrong);
            }
        });
        world.run(Duration::from_secs(20));
        world.assert_up();
        let refused = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
        assert_eq!(world.ends[0].count(refused), 1);
        assert_eq!(established(&world, 0), 1);
    }
}

#[test]
fn a_child_of_many_networks_is_one_pair_and_a_gateway_may_narrow_it() {
    let networks = 20;
    let mut world = world(241, move |connection, is_station| {
        if is_station {
            let to = |number| format!("10.10.0.{number}/32").parse().unwrap();
            connection.children[0].remote = (0..networks).map(to).collect();
        }
    });
    world.run(Duration::from_secs(5));
    assert_eq!(world.ends[1].seen.inbound.len(), 1);
    for end in &world.ends {
        let status = end.node.status(world.now);
        let child = &status.connections[0].sessions[0].children[0];
        let lists = [&child.local, &child.remote].map(|list| list.split(',').count());
        assert_eq!(lists.into_iter().max(), Some(networks), "{child:?}");
    }
    let status = world.ends[0].node.status(world.now);
    assert!(status.connections[0].missing.is_empty());
}

#[test]
fn a_station_says_what_a_gateway_does_not_protect() {
    let mut world = world(251, |connection, is_station| {
        if is_station {
            let other = "10.77.0.0/24".parse().unwrap();
            connection.children[0].remote.push(other);
        }
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    let narrowed = |event: &Event| match event {
        Event::PeerComplains { complaint, .. } => complaint.starts_with("it protects only"),
        _ => false,
    };
    assert_eq!(world.ends[0].count(narrowed), 1);
    let status = world.ends[0].node.status(world.now);
    let connection = &status.connections[0];
    assert_eq!(connection.narrowed, ["net for 10.77.0.0/24"]);
    assert!(connection.missing.is_empty());
}

#[test]
fn what_is_lost_at_each_side_is_named_also_if_both_sides_ask_for_the_same() {
    let all = || vec!["0.0.0.0/0".parse().unwrap()];
    for (seed, peers, lost) in [
        (252, "0.0.0.0/0", "net for 0.0.0.0/0"),
        (253, "10.20.0.0/24", "net for 0.0.0.0/0 === 0.0.0.0/0"),
    ] {
        let mut world = world(seed, move |connection, is_station| {
            connection.wants_inner = InnerFamilies::default();
            let child = &mut connection.children[0];
            if is_station {
                (child.local, child.remote) = (all(), all());
            } else {
                child.remote = vec![peers.parse().unwrap()];
            }
        });
        world.run(Duration::from_secs(2));
        let status = world.ends[0].node.status(world.now);
        let child = &status.connections[0].sessions[0].children[0];
        assert_eq!(
            (child.local.as_str(), child.remote.as_str()),
            (peers, "10.10.0.0/24")
        );
        assert_eq!(status.connections[0].narrowed, [lost]);
    }
}

#[test]
fn transport_mode_comes_up_and_is_renewed() {
    let mut world = world(242, |connection, is_station| {
        connection.wants_inner = InnerFamilies::default();
        let child = &mut connection.children[0];
        child.mode = Mode::Transport;
        child.local.clear();
        child.remote.clear();
        if !is_station {
            connection.pools = vec![0];
        }
    });
    world.run(Duration::from_secs(5));
    world.assert_up();
    for end in [0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(30));
    }
    world.assert_up();
    assert!(
        !has_closed_child(&world),
        "{:#?}",
        world.ends[0].seen.events
    );
}

/// Each end of a host-to-host child names the ports that it protects, of both.
#[test]
fn transport_mode_holds_the_peer_to_its_configured_ports() {
    let web = Ports::of_ikev1(443);
    for (wanted, is_up) in [(web, true), (Ports::ANY, false)] {
        let mut world = world(255, move |connection, is_station| {
            connection.wants_inner = InnerFamilies::default();
            let child = &mut connection.children[0];
            child.mode = Mode::Transport;
            let at_station = |ports| TrafficSelector {
                protocol: 6,
                ports,
                ..TrafficSelector::host(STATION.into())
            };
            let (own, peers) = match is_station {
                true => (&mut child.local, &mut child.remote),
                false => (&mut child.remote, &mut child.local),
            };
            *own = vec![at_station(if is_station { wanted } else { web })];
            peers.clear();
            if !is_station {
                connection.pools = vec![0];
            }
        });
        world.run(Duration::from_secs(5));
        let children = world.ends.each_ref().map(|end| end.seen.outbound.len());
        assert_eq!(children, [usize::from(is_up); 2], "{wanted:?}");
    }
}

#[test]
fn a_wrong_key_ends_without_a_tunnel_and_both_ends_say_so() {
    let mut world = world(243, |connection, is_station| {
        if is_station {
            wrong_key(connection);
        }
    });
    world.run(Duration::from_secs(1));
    for end in [0, 1] {
        let reason = world.ends[end].failure();
        assert!(
            reason.is_some(),
            "{end}: {:#?}",
            world.ends[end].seen.events
        );
    }
    assert!(world.drops(1, DropReason::AuthenticationFailed) > 0);
    world.run(Duration::from_secs(90));
    assert!(world.ends.iter().all(|end| end.node.established() == 0));
}

#[test]
fn a_flood_of_first_messages_is_bounded_and_an_honest_station_comes_up_in_it() {
    let mut world = world(244, |_, _| {});
    let first = world.first_message().expect("the station's first message");
    world.network.wire.clear();
    for n in 0..20_000_u32 {
        let mut forged = first.clone();
        forged[..4].copy_from_slice(&(n + 1).to_be_bytes());
        let from = SocketAddr::from(([198, 51, (n >> 8) as u8, n as u8], IKE_PORT));
        world.deliver(1, arrives((GATEWAY, IKE_PORT), from), &forged);
    }
    let total = world.ends[1].node.half_open.total();
    assert!(total <= super::super::ikev2::COOKIE_THRESHOLD, "{total}");
    assert!(world.drops(1, DropReason::CookieAsked) >= 19_000);
    world.run(Duration::from_secs(8));
    world.assert_up();
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[1].node.half_open.total(), 0);
    world.assert_up();
}

/// They leave nothing that counts as half-open, and cost a look at every suite.
#[test]
fn first_messages_that_are_refused_are_load_too() {
    let mut world = world(249, |_, _| {});
    let first = world.first_message().expect("the station's first message");
    world.network.wire.clear();
    let refused = |world: &World| {
        world.ends[1].count(|event| matches!(event, Event::NegotiationFailed { .. }))
    };
    // Another method than that of the best suite (RFC 7296 §3.4), after the header and SA.
    let method = 28 + usize::from(u16::from_be_bytes([first[30], first[31]])) + 4;
    for n in 0..2_000_u32 {
        let mut forged = first.clone();
        forged[..4].copy_from_slice(&(n + 1).to_be_bytes());
        forged[method..method + 2].copy_from_slice(&14_u16.to_be_bytes());
        let from = SocketAddr::from(([198, 51, (n >> 8) as u8, n as u8], IKE_PORT));
        world.deliver(1, arrives((GATEWAY, IKE_PORT), from), &forged);
    }
    assert_eq!(world.ends[1].node.half_open.total(), 0);
    let most = super::super::ikev2::REFUSALS.burst as usize;
    assert_eq!(refused(&world), most);
    let asked = world.drops(1, DropReason::CookieAsked);
    assert_eq!(asked, 2_000 - most as u64);
    world.run(Duration::from_secs(8));
    world.assert_up();
}

#[test]
fn rubbish_is_counted_and_changes_nothing() {
    let mut world = world(245, |_, _| {});
    world.run(Duration::from_secs(2));
    let mut random = Seed::new([9; 32]).stream("rubbish", 0);
    let log = world.network.log.clone();
    let path = world.ends[1].path();
    for n in 0..4_000_usize {
        let mut octets = log[n % log.len()].clone();
        let place = random.u32() as usize % octets.len();
        octets[place] ^= 1 << (n % 8);
        world.deliver(n % 2, [world.ends[0].path(), path][n % 2], &octets);
    }
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}

#[test]
fn nothing_that_comes_again_from_elsewhere_moves_a_peer() {
    let mut world = world(246, |connection, _| {
        connection.dpd_delay = Some(Duration::from_secs(10));
    });
    world.run(Duration::from_secs(60));
    for end in [0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(30));
    }
    for octets in world.network.log.clone() {
        for end in [0, 1] {
            let before = world.ends[end].path();
            let mut path = before;
            path.remote = ([203, 0, 113, 7], 4_500).into();
            world.deliver(end, path, &octets);
            assert_eq!(world.ends[end].path(), before);
        }
    }
    world.network.wire.clear();
    world.run(Duration::from_secs(100));
    world.assert_up();
}

#[test]
fn a_gateway_of_both_versions_serves_stations_of_either() {
    for (own, version) in [(Version::V1, 1), (Version::V2, 2)] {
        let mut world = World::new(247, move |connection, is_station| {
            speaks(connection, if is_station { own } else { Version::Either });
        });
        world.run(Duration::from_secs(2));
        world.assert_up();
        let status = world.ends[1].node.status(world.now);
        assert_eq!(status.connections[0].sessions[0].version, version);
    }
}

#[test]
fn a_gateway_of_ikev1_tells_a_station_of_ikev2_so() {
    let mut world = World::new(248, |connection, is_station| {
        speaks(
            connection,
            if is_station { Version::V2 } else { Version::V1 },
        );
    });
    world.run(Duration::from_secs(2));
    assert!(
        world.ends[0].failure().is_some(),
        "{:#?}",
        world.ends[0].seen.events
    );
    assert!(world.drops(1, DropReason::UnsupportedVersion) > 0);
    assert_eq!(world.ends[1].node.half_open.total(), 0);
}

#[test]
fn a_second_session_of_one_identity_replaces_the_first() {
    let mut world = world(249, |_, _| {});
    world.run(Duration::from_secs(2));
    // The station restarts: it says INITIAL_CONTACT.
    let station = endpoint(config(true, &world.change), &Seed::new([0x77; 32]));
    world.replace(0, station);
    world.run(Duration::from_secs(5));
    world.assert_up();
    assert_eq!(world.ends[1].node.established(), 1);
    assert_eq!(world.ends[1].seen.inbound.len(), 1);
}

#[test]
fn a_reload_keeps_tunnels_whose_connection_says_the_same() {
    let mut world = world(250, |_, _| {});
    world.run(Duration::from_secs(2));
    let same = Arc::new(config(false, &world.change));
    world.input(1, Input::Configure(same));
    world.run(Duration::from_secs(1));
    world.assert_up();
    assert_eq!(established(&world, 0), 1);
}
