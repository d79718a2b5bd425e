//! Nodes against each other over a small network in memory: loss, a NAT, time that jumps from
//! deadline to deadline. Everything is drawn from a seed.

mod accounts;
mod authenticated;
mod beginnings;
mod child_exchanges;
mod crash;
mod decoys;
mod encapsulation;
mod families;
mod farewells;
mod first_messages;
mod floods;
mod follow;
mod groups;
mod heirs;
mod identities;
mod ikev2;
mod layers;
mod leases;
mod mobike;
mod moves;
mod neighbours;
mod pace;
mod packets;
mod proof;
mod proven;
mod quotas;
mod race;
mod radius;
mod redirect;
mod refused;
mod removals;
mod renewals;
mod replays;
mod restart;
mod resumption;
mod revoked;
mod silence;
mod sizes;
mod storm;
mod strangers;
mod turns;
mod two_links;
mod unheard;
mod users;
mod versions;
mod work;
mod xauth;

use core::ops::{Deref, DerefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crypto::rand::Seed;
use wire::isakmp::{
    Attribute, ConfigAttributes, ConfigKind, ConfigType, Cookie, Cookies, Exchange, Flags, Header,
    NotifyType, Payload, PayloadKind, ProtocolId,
};

use super::session::Session;
use super::session_id::SessionId;
use super::*;
use crate::config::{
    Child, ChildLayer, Connection, Encapsulation, IdentityPattern, InnerFamilies, Limits,
    LocalAuth, LocalMethod, Pool, RemoteAuth, RemoteMethod, Unique, Version,
};
use crate::counters::DropReason;
use crate::endpoint::network::{Datagram, Nat, Network};
use crate::endpoint::pair::{End, Pair};
use crate::endpoint::{Act, Endpoint};
use crate::identity::{Identity, Peer};
use crate::ike::{Outbox, Step};
use crate::ikev1::informational;
use crate::plane::Offloads;
use crate::sa::{Direction, Mode, Secret};
use crate::time::Duration;

const STATION: [u8; 4] = [10, 0, 0, 2];
const NAT: [u8; 4] = [192, 0, 2, 100];
const GATEWAY: [u8; 4] = [192, 0, 2, 1];
/// What either version of IKE does alike is tested with both.
const VERSIONS: [Version; 2] = [Version::V1, Version::V2];
/// The versions, IKEv1 in both of its modes: whether it is aggressive.
const MODES: [(Version, bool); 3] = [
    (Version::V1, true),
    (Version::V1, false),
    (Version::V2, false),
];
/// A host behind the gateway.
const INSIDE: [u8; 4] = [10, 10, 0, 1];

#[test]
fn a_station_behind_a_nat_comes_up_and_both_ends_hold_the_same_keys() {
    let mut world = World::new(1, |_, _| {});
    world.run(Duration::from_secs(2));
    world.assert_up();
    let (station, gateway) = (&world.ends[0], &world.ends[1]);
    assert!(station.told(|event| matches!(event, Event::InnerAddress { .. })));
    let path = gateway.path();
    assert_eq!(path.remote.ip(), IpAddr::from(NAT));
    assert_eq!(path.local.port(), NAT_T_PORT);
}

#[test]
fn main_mode_comes_up_without_a_nat_too() {
    let mut world = World::new(2, |connection, _| connection.is_aggressive = false);
    world.has_no_nat();
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(world.ends[1].path().local.port(), IKE_PORT);
}

#[test]
fn a_third_of_all_datagrams_may_be_lost() {
    for seed in 10..20 {
        let mut world = World::new(seed, |_, _| {});
        world.network.loss = 0.3;
        world.run(Duration::from_secs(120));
        world.network.loss = 0.0;
        world.run(Duration::from_secs(120));
        world.assert_up();
    }
}

#[test]
fn datagrams_may_overtake_each_other_and_come_twice() {
    for (seed, is_aggressive) in (40..50).zip([true, false].into_iter().cycle()) {
        let mut world = World::new(seed, move |connection, _| {
            connection.is_aggressive = is_aggressive;
        });
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
fn children_are_renewed_before_they_expire_and_never_overlap_for_long() {
    let mut world = World::new(3, |connection, _| {
        connection.children[0].lifetime = Duration::from_secs(100);
        connection.children[0].rekey_margin = Duration::from_secs(20);
    });
    world.run(Duration::from_secs(1000));
    world.assert_up();
    let renewals = world.ends[0]
        .count(|event| matches!(event, Event::ChildEstablished { is_rekey: true, .. }));
    assert!((10..=14).contains(&renewals), "{renewals}");
    assert!(!world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. })));
    world.run(Duration::from_secs(20));
    assert!(world.ends[0].seen.inbound.len() <= 2 && world.ends[1].seen.inbound.len() <= 2);
}

#[test]
fn the_isakmp_sa_is_renewed_and_the_children_move_over() {
    let mut world = World::new(4, |connection, _| {
        connection.lifetime = Duration::from_secs(200);
        connection.rekey_margin = Duration::from_secs(50);
    });
    world.run(Duration::from_secs(1000));
    world.assert_up();
    let established = world.ends[0].count(|event| matches!(event, Event::IkeEstablished { .. }));
    assert!((6..=8).contains(&established), "{established}");
    assert!(!world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. })));
    assert_eq!(world.ends[1].node.established(), 1);
}

#[test]
fn either_side_can_renew_at_once() {
    let mut world = World::new(5, |_, _| {});
    world.run(Duration::from_secs(2));
    for end in [0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(60));
        world.command(end, Command::RekeyIke("road".into()));
        world.run(Duration::from_secs(60));
        world.assert_up();
    }
    assert!(!world.ends[0].told(|event| matches!(event, Event::ChildClosed { .. })));
}

#[test]
fn down_deletes_at_both_ends_and_up_brings_the_same_inner_address_back() {
    let mut world = World::new(6, |_, _| {});
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
    let mut world = World::new(7, |connection, is_station| {
        if is_station {
            connection.dpd_delay = Some(Duration::from_secs(10));
        }
    });
    world.run(Duration::from_secs(2));
    let first = world.ends[0].inner();
    world.restart_gateway();
    world.run(Duration::from_secs(60));
    world.assert_up();
    assert_eq!(world.ends[0].inner(), first);
}

#[test]
fn a_station_on_demand_waits_for_traffic_and_for_it_again_after_a_loss() {
    let mut world = World::new(8, |connection, is_station| {
        if is_station {
            connection.start = Start::OnTraffic;
            connection.dpd_delay = Some(Duration::from_secs(10));
        }
    });
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[0].node.established(), 0);
    world.notice(0, Notice::Acquire { child: ChildId(0) });
    world.run(Duration::from_secs(5));
    world.assert_up();
    world.restart_gateway();
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[0].node.established(), 0);
    world.notice(0, Notice::Acquire { child: ChildId(0) });
    world.run(Duration::from_secs(5));
    world.assert_up();
}

#[test]
fn a_nat_that_forgets_its_mapping_moves_the_path_at_the_next_question() {
    let mut world = World::new(9, |connection, is_station| {
        if is_station {
            connection.dpd_delay = Some(Duration::from_secs(10));
        }
    });
    world.run(Duration::from_secs(2));
    world.rebind();
    world.run(Duration::from_secs(30));
    let port = world.nat_port(NAT_T_PORT);
    assert_eq!(world.ends[1].path().remote.port(), port);
    assert!(world.ends[1].told(|event| matches!(event, Event::PathMoved { .. })));
    assert_eq!(
        world.ends[0].count(|event| matches!(event, Event::IkeEstablished { .. })),
        1
    );
}

#[test]
fn a_moved_packet_path_moves_ike_and_the_outbound_sa() {
    let mut world = World::new(21, |_, _| {});
    world.run(Duration::from_secs(2));
    let mut path = world.ends[1].path();
    path.remote.set_port(7777);
    let child = *world.ends[1].seen.inbound.values().next().expect("a child");
    world.notice(
        1,
        Notice::PathMoved {
            child,
            path,
            bytes: 100,
        },
    );
    assert_eq!(world.ends[1].path(), path);
}

#[test]
fn a_wrong_selector_is_refused_in_one_sentence_at_both_ends() {
    let mut world = World::new(22, |connection, is_station| {
        if is_station {
            connection.children[0].remote = vec!["10.77.0.0/24".parse().unwrap()];
        }
    });
    world.run(Duration::from_secs(3));
    let reason = world.ends[1].failure().expect("a failure");
    let sentence = "no selector in common: the peer asks for tunnel mode 10.77.0.0/24 === ";
    assert!(reason.starts_with(sentence), "{reason}");
    assert!(
        reason.contains("10.77.0.0/24") && reason.contains("10.10.0.0/24"),
        "{reason}"
    );
    // The station's attempt ends with it, as a single event says.
    let complaints = |event: &Event| matches!(event, Event::PeerComplains { .. });
    assert_eq!(world.ends[0].count(complaints), 0);
    let reason = world.ends[0].failure().expect("a failure");
    let sentence = "the peer refused with INVALID-ID-INFORMATION: it does not protect these \
                    networks for us; we asked for tunnel mode in UDP, ";
    assert!(reason.starts_with(sentence), "{reason}");
    assert!(reason.ends_with("=== 10.77.0.0/24"), "{reason}");
    assert!(world.ends[0].told(|event| matches!(event, Event::RetryScheduled { .. })));
}

#[test]
fn a_refused_child_leaves_the_others_up_and_is_not_begun_again_at_once() {
    let mut world = World::new(31, |connection, is_station| {
        if is_station {
            let wrong = "10.77.0.0/24".parse().unwrap();
            connection.children[0].remote.insert(0, wrong);
        }
    });
    world.run(Duration::from_secs(20));
    world.assert_up();
    let refusals = |world: &World| {
        world.ends[0].count(|event| matches!(event, Event::NegotiationFailed { .. }))
    };
    assert_eq!(refusals(&world), 1);
    world.run(Duration::from_secs(40));
    assert_eq!(refusals(&world), 2);
    assert_eq!(
        world.ends[0].count(|event| matches!(event, Event::IkeClosed { .. })),
        0
    );
}

/// The position in the log, counted from 1, of quick mode's first datagram.
fn first_quick(world: &World) -> usize {
    let is_quick = |datagram: &Vec<u8>| {
        let message = datagram.strip_prefix(&[0; 4]);
        let header = message.and_then(|message| Header::parse(message).ok());
        header.is_some_and(|(header, _)| header.exchange == Exchange::QuickMode)
    };
    world
        .network
        .log
        .iter()
        .position(is_quick)
        .expect("a quick mode")
        + 1
}

#[test]
fn a_refusal_ends_the_quick_mode_that_it_names_by_its_spi() {
    let world = || {
        World::new(46, |connection, is_station| {
            if is_station {
                let wrong = "10.77.0.0/24".parse().unwrap();
                connection.children[0].remote.push(wrong);
            }
        })
    };
    let mut first = world();
    first.run(Duration::from_secs(2));
    let mut world = world();
    let begun = first_quick(&first);
    while world.network.sent < begun {
        world.run(Duration::from_millis(1));
    }
    // the good one is asked for in vain, until the other one is asked for as well
    world.network.wire.clear();
    world.network.loss = 1.0;
    world.run(Duration::from_millis(2_900));
    world.network.loss = 0.0;
    world.run(Duration::from_secs(1));
    let reason = world.ends[0].failure().expect("a failure");
    assert!(reason.ends_with("=== 10.77.0.0/24"), "{reason}");
    world.run(Duration::from_secs(10));
    world.assert_up();
    let refused = |event: &Event| matches!(event, Event::NegotiationFailed { .. });
    assert_eq!(world.ends[0].count(refused), 1);
}

#[test]
fn an_answer_of_ours_that_the_peer_refuses_is_taken_back() {
    let begun = || {
        let mut world = World::new(47, |_, _| {});
        world.run(Duration::from_secs(2));
        world
    };
    let mut world = begun();
    // the third message of a renewal is lost
    world.command(0, Command::RekeyChildren("road".into()));
    world.network.loses = Some(world.network.sent + 2);
    world.run(Duration::from_millis(100));
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    let session = world.ends[1].node.sessions.values().next().expect("one");
    let pending = session.ike.exchanges().into_iter().find(|it| !it.is_done);
    let spi = pending.expect("an exchange").spi;
    let refuse = |world: &mut World, spi: u32, id: u32| {
        let session = world.ends[0].node.sessions.values().next().expect("one");
        let sa = session.ike.sa().expect("established");
        let named = Some((ProtocolId::Esp, spi.to_be_bytes().to_vec()));
        let refusal = informational::notification(sa, NotifyType::NoProposalChosen, named);
        let mut out = Outbox::default();
        informational::send(sa, vec![refusal], id, &mut out);
        let message = super::session::with_marker(session.path(), out.messages[0].message.clone());
        let path = world.ends[1].path();
        world.deliver(1, path, &message);
    };
    refuse(&mut world, spi ^ 1, 0x51);
    assert_eq!(world.ends[1].seen.inbound.len(), 2);
    refuse(&mut world, spi, 0x52);
    assert_eq!(world.ends[1].seen.inbound.len(), 1);
    assert!(!world.ends[1].seen.inbound.contains_key(&spi));
    let reason = world.ends[1].failure().expect("a failure");
    assert_eq!(
        reason,
        "the peer refused our answer with NO-PROPOSAL-CHOSEN"
    );
}

#[test]
fn a_transport_peer_is_shown_inside_under_the_address_it_had() {
    let mut world = World::new(32, |connection, is_station| {
        connection.wants_inner = InnerFamilies::default();
        let child = &mut connection.children[0];
        child.mode = Mode::Transport;
        child.local.clear();
        child.remote.clear();
        if !is_station {
            connection.pools = vec![0];
        }
    });
    let mut shown = Vec::new();
    for _ in 0..3 {
        world.command(0, Command::Up("road".into()));
        world.run(Duration::from_secs(5));
        let status = world.ends[1].node.status(world.now);
        let sessions = status.connections.iter().flat_map(|c| &c.sessions);
        shown.extend(sessions.flat_map(|s| &s.children).map(|c| c.pool_address));
        world.command(0, Command::Down("road".into()));
        world.run(Duration::from_secs(5));
    }
    assert_eq!(shown.len(), 3);
    assert!(
        shown[0].is_some() && shown.iter().all(|one| *one == shown[0]),
        "{shown:?}"
    );
}

#[test]
fn a_wrong_key_ends_without_a_tunnel_and_both_ends_say_so_at_once() {
    let mut world = World::new(23, |connection, is_station| {
        if is_station {
            wrong_key(connection);
        }
    });
    world.run(Duration::from_millis(200));
    let reason = world.ends[0].failure().expect("a failure");
    let sentence = "the peer's answer does not verify: the pre-shared key differs; a peer that \
                    does not know us as ms.example answers the same way";
    assert_eq!(reason, sentence);
    let hint = |event: &Event| match event {
        Event::PeerComplains { complaint, .. } => complaint == "AUTHENTICATION-FAILED",
        _ => false,
    };
    assert!(world.ends[1].told(hint));
    world.run(Duration::from_secs(90));
    assert_eq!(world.ends[0].node.established(), 0);
    assert_eq!(world.ends[1].node.established(), 0);
}

/// A pre-shared key that differs from the other end's.
fn wrong_key(connection: &mut Connection) {
    let secret = Arc::new(Secret(b"wrong".to_vec()));
    connection.remote.method = RemoteMethod::PresharedKey(secret.clone());
    connection.local.method = LocalMethod::PresharedKey(secret);
}

#[test]
fn what_differs_is_counted_under_its_own_reason() {
    type Differs = fn(&mut Connection);
    let cases: [(DropReason, Differs); 4] = [
        (DropReason::NoConnection, |it| it.is_aggressive = false),
        (DropReason::NoProposalChosen, |it| {
            it.proposals = vec!["aes256-sha384-modp2048".parse().unwrap()];
        }),
        (DropReason::SelectorRefused, |it| {
            it.children[0].remote = vec!["10.77.0.0/24".parse().unwrap()];
        }),
        (DropReason::AuthenticationFailed, wrong_key),
    ];
    for (seed, (reason, differs)) in (100..).zip(cases) {
        let is_key = reason == DropReason::AuthenticationFailed;
        let mut world = World::new(seed, move |connection, is_station| {
            connection.is_aggressive = !is_key;
            if is_station {
                differs(connection);
            }
        });
        world.run(Duration::from_secs(8));
        for (of, _) in cases {
            let counted = world.drops(1, of);
            assert_eq!(counted > 0, of == reason, "{reason:?}: {counted} {of:?}");
        }
    }
}

#[test]
fn a_flood_of_first_messages_is_bounded_and_each_gets_at_most_one_answer() {
    let mut world = World::new(24, |_, _| {});
    world.run(Duration::from_secs(2));
    let first = world.first_message().expect("the station's first message");
    let before = world.network.sent;
    for n in 0..20_000_u32 {
        let mut forged = first.clone();
        forged[..4].copy_from_slice(&(n + 1).to_be_bytes());
        let from = SocketAddr::from(([198, 51, (n >> 8) as u8, n as u8], IKE_PORT));
        let path = arrives((GATEWAY, IKE_PORT), from);
        world.deliver(1, path, &forged);
    }
    assert!(
        world.network.sent - before <= 500,
        "{}",
        world.network.sent - before
    );
    let gateway = &world.ends[1].node;
    assert!(gateway.half_open.total() <= 500);
    assert!(gateway.drops().of(DropReason::TooManyHalfOpen) >= 19_500);
    world.run(Duration::from_secs(60));
    assert_eq!(world.ends[1].node.half_open.total(), 0);
    world.assert_up();
}

#[test]
fn a_reload_keeps_tunnels_whose_connection_says_the_same() {
    let mut world = World::new(25, |_, _| {});
    world.run(Duration::from_secs(2));
    let same = Arc::new(config(false, &world.change));
    world.input(1, Input::Configure(same));
    world.run(Duration::from_secs(1));
    world.assert_up();
    let change = world.change.clone();
    let other = config(
        false,
        &(Arc::new(move |connection: &mut Connection, is_station| {
            change(connection, is_station);
            connection.revision += 1;
        }) as Change),
    );
    world.input(1, Input::Configure(Arc::new(other)));
    assert_eq!(world.ends[1].node.established(), 0);
}

#[test]
fn rubbish_is_counted_and_changes_nothing() {
    let mut world = World::new(26, |_, _| {});
    world.run(Duration::from_secs(2));
    let mut random = Seed::new([9; 32]).stream("rubbish", 0);
    let path = world.ends[1].path();
    for n in 0..2_000_usize {
        let mut octets = vec![0; n % 200];
        random.fill(&mut octets);
        world.deliver(1, path, &octets);
    }
    world.run(Duration::from_secs(1));
    world.assert_up();
}

#[test]
fn a_lost_third_aggressive_message_comes_again_as_soon_as_the_station_goes_on() {
    let mut world = World::new(27, |_, _| {});
    world.network.loses = Some(3);
    world.run(Duration::from_secs(2));
    world.assert_up();
    assert_eq!(world.network.loses, None);
}

#[test]
fn phase_1_is_forgotten_at_the_first_message_of_phase_2() {
    for is_aggressive in [true, false] {
        let mut world = World::new(28, move |connection, _| {
            connection.is_aggressive = is_aggressive;
        });
        world.run(Duration::from_secs(1));
        world.assert_up();
        for end in &world.ends {
            assert!(end.node.sessions.values().all(|s| !s.ike.has_phase1()));
            assert_eq!(end.node.sessions.first_messages().len(), 0);
        }
    }
}

#[test]
fn a_refusal_in_clear_ends_the_station_s_attempt_with_its_sentence() {
    let mut world = World::new(29, |connection, is_station| {
        if is_station {
            connection.proposals = vec!["aes256-sha384-modp2048".parse().unwrap()];
        }
    });
    world.run(Duration::from_secs(4));
    let reason = world.ends[0].failure().expect("a failure");
    let sentence = "NO-PROPOSAL-CHOSEN; we offer aes256-sha384-modp2048 in IKEv1 aggressive mode";
    assert_eq!(reason, format!("the peer refused with {sentence}"));
    // The first hint says as much.
    let hint = |event: &Event| match event {
        Event::PeerComplains { complaint, .. } => complaint == sentence,
        _ => false,
    };
    assert!(world.ends[0].told(hint));
    assert_eq!(world.ends[1].node.half_open.total(), 0);
}

#[test]
fn fragments_are_held_only_for_known_cookies_and_first_messages() {
    let mut world = World::new(30, |_, _| {});
    world.run(Duration::from_secs(2));
    let sa_cookies = {
        let session = world.ends[1].node.sessions.values().next().expect("one");
        session.ike.sa().expect("established").cookies
    };
    let unknown = Cookies {
        responder: Cookie([7; 8]),
        ..sa_cookies
    };
    let unasked = Cookies {
        initiator: Cookie([9; 8]),
        responder: Cookie::ZERO,
    };
    let path = world.ends[1].path();
    for (cookies, is_held) in [(unknown, false), (sa_cookies, true), (unasked, true)] {
        let before = world.ends[1].node.assembly.octets();
        let refused = world.drops(1, DropReason::UnknownCookies);
        world.deliver(1, path, &first_fragment(cookies));
        let node = &world.ends[1].node;
        assert_eq!(node.assembly.octets() > before, is_held);
        let counted = node.drops().of(DropReason::UnknownCookies) - refused;
        assert_eq!(counted, u64::from(!is_held));
    }
}

#[test]
fn a_replayed_quick_mode_is_dropped_after_the_exchange_is_forgotten() {
    let mut world = World::new(31, |_, _| {});
    world.run(Duration::from_secs(200));
    let path = world.ends[1].path();
    let is_quick = |datagram: &&Vec<u8>| {
        let message = datagram.strip_prefix(&[0; 4]);
        let header = message.and_then(|message| Header::parse(message).ok());
        header.is_some_and(|(header, _)| header.exchange == Exchange::QuickMode)
    };
    let first = world
        .network
        .log
        .iter()
        .find(is_quick)
        .expect("a quick mode")
        .clone();
    assert!(world.ends.iter().all(|end| {
        end.node
            .sessions
            .values()
            .all(|s| s.ike.exchanges().is_empty())
    }));
    let sent = world.network.sent;
    for end in [1, 0] {
        // At the responder it is a replay, at the initiator its own message reflected.
        let path = if end == 1 { path } else { world.ends[0].path() };
        let before = world.drops(end, DropReason::RetransmittedMessage);
        world.deliver(end, path, &first);
        assert_eq!(
            world.drops(end, DropReason::RetransmittedMessage),
            before + 1
        );
    }
    assert_eq!(world.network.sent, sent);
    world.assert_up();
    assert_eq!(world.ends[1].seen.inbound.len(), 1);
}

#[test]
fn nothing_that_comes_again_from_elsewhere_moves_a_peer_or_its_sas() {
    let mut world = World::new(33, |connection, _| {
        connection.dpd_delay = Some(Duration::from_secs(10));
    });
    world.run(Duration::from_secs(60));
    for end in [0, 1] {
        world.command(end, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(30));
    }
    assert!(world.network.log.len() > 30);
    for octets in world.network.log.clone() {
        for end in [0, 1] {
            let is_moved = |event: &Event| matches!(event, Event::PathMoved { .. });
            let before = world.ends[end].path();
            let mut path = before;
            path.remote = ([203, 0, 113, 7], 4_500).into();
            world.deliver(end, path, &octets);
            assert_eq!(world.ends[end].path(), before);
            assert!(!world.ends[end].told(is_moved));
        }
    }
    world.network.wire.clear();
    world.run(Duration::from_secs(100));
    world.assert_up();
}

#[test]
fn rubbish_under_the_message_id_of_a_quick_mode_moves_nothing() {
    let mut world = World::new(34, |_, _| {});
    world.run(Duration::from_secs(2));
    let is_quick = |datagram: &&Vec<u8>| datagram.get(4 + 18) == Some(&32);
    let mut forged = world
        .network
        .log
        .iter()
        .find(is_quick)
        .expect("one")
        .clone();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    for end in [0, 1] {
        let before = world.ends[end].path();
        let mut path = before;
        path.remote = ([203, 0, 113, 7], 4_500).into();
        world.deliver(end, path, &forged);
        assert_eq!(world.ends[end].path(), before);
    }
}

#[test]
fn a_life_shorter_than_the_margin_is_renewed_at_its_half() {
    let mut world = World::new(35, |connection, is_station| {
        let child = &mut connection.children[0];
        if is_station {
            child.lifetime = Duration::from_secs(60);
        }
        child.rekey_margin = Duration::from_secs(360);
        connection.rekey_margin = Duration::from_secs(100_000);
    });
    world.run(Duration::from_secs(600));
    world.assert_up();
    let renewals = world.ends[1]
        .count(|event| matches!(event, Event::ChildEstablished { is_rekey: true, .. }));
    assert!((15..=25).contains(&renewals), "{renewals}");
    assert!(world.network.sent < 300, "{}", world.network.sent);
}

#[test]
fn a_peer_holds_a_bounded_number_of_children() {
    let mut world = World::new(36, |connection, is_station| {
        if is_station {
            connection.children = (0..8).map(|_| child(true)).collect();
            for (number, child) in connection.children.iter_mut().enumerate() {
                child.remote = vec![format!("10.10.0.{number}/32").parse().unwrap()];
            }
        }
    });
    let mut bounded = config(false, &world.change);
    bounded.limits.children = 3;
    world.input(1, Input::Configure(Arc::new(bounded)));
    world.run(Duration::from_secs(100));
    assert_eq!(world.ends[1].seen.inbound.len(), 3);
    assert!(world.drops(1, DropReason::TooManyExchanges) > 0);
}

#[test]
fn every_network_of_a_long_list_comes_up() {
    let networks = 40;
    let mut world = World::new(41, move |connection, is_station| {
        if is_station {
            let to = |number| format!("10.10.0.{number}/32").parse().unwrap();
            connection.children[0].remote = (0..networks).map(to).collect();
        }
    });
    world.run(Duration::from_secs(2));
    assert_eq!(world.ends[1].seen.inbound.len(), networks);
    assert_eq!(world.drops(1, DropReason::TooManyExchanges), 0);
    let status = world.ends[0].node.status(world.now);
    assert!(status.connections[0].missing.is_empty());
    for session in world.ends.iter().flat_map(|end| end.node.sessions.values()) {
        assert!(session.ike.exchanges().len() <= networks);
    }
}

#[test]
fn a_child_that_is_not_up_is_shown_with_where_it_leads() {
    let mut world = World::new(42, |connection, is_station| {
        if is_station {
            let other = "192.168.9.0/24".parse().unwrap();
            connection.children[0].remote.push(other);
        }
    });
    world.run(Duration::from_secs(10));
    world.assert_up();
    let status = world.ends[0].node.status(world.now);
    let [connection] = &status.connections[..] else {
        panic!("one connection");
    };
    assert_eq!(connection.missing.len(), 1);
    assert!(connection.missing[0].ends_with(" to 192.168.9.0/24"));
    assert!(connection.sessions[0].children[0].age >= Duration::from_secs(8));
}

#[test]
fn a_peer_that_renews_often_is_answered() {
    let mut world = World::new(43, |_, _| {});
    world.run(Duration::from_secs(2));
    for _ in 0..40 {
        world.command(0, Command::RekeyChildren("road".into()));
        world.run(Duration::from_secs(1));
    }
    let is_renewal = |e: &Event| matches!(e, Event::ChildEstablished { is_rekey: true, .. });
    assert_eq!(world.ends[1].count(is_renewal), 40);
    assert_eq!(world.drops(1, DropReason::TooManyExchanges), 0);
    let session = world.ends[1].node.sessions.values().next();
    assert!(session.is_some_and(|session| session.ike.exchanges().len() <= 16));
}

#[test]
fn a_station_goes_by_the_order_of_its_configured_addresses() {
    let other: IpAddr = "10.0.0.77".parse().unwrap();
    let own: Vec<IpAddr> = vec![STATION.into(), other];
    let among = own.clone();
    let mut world = World::new(44, move |connection, is_station| {
        if is_station {
            connection.local_addrs = among.clone();
        }
    });
    world.run(Duration::from_secs(2));
    world.assert_up();
    let remote = world.ends[0].path().remote.ip();
    // The routing table prefers the second one; the configuration names the first one first.
    let own: IpAddr = STATION.into();
    let strange: IpAddr = [10, 0, 0, 78].into();
    for (ours, wanted) in [
        (vec![other, own], own),
        (vec![strange], own),
        (vec![strange, other], other),
        (vec![], other),
    ] {
        let ways = [(remote, ours)].into();
        world.input(0, Input::Ways(Ways(ways)));
        assert_eq!(world.ends[0].path().local.ip(), wanted);
    }
}

#[test]
fn what_is_down_holds_no_packets_and_what_is_up_again_does() {
    let mut world = World::new(45, |_, _| {});
    world.run(Duration::from_secs(2));
    let count = |world: &World| {
        let trail = &world.ends[0].seen.trail;
        [Act::Expect, Act::Forget].map(|act| trail.iter().filter(|it| **it == act).count())
    };
    assert_eq!(count(&world), [1, 0]);
    world.command(0, Command::Down("road".into()));
    assert_eq!(count(&world), [1, 1]);
    world.command(0, Command::Up("road".into()));
    assert_eq!(count(&world), [2, 1]);
    world.run(Duration::from_secs(5));
    world.assert_up();
}

/// Renews the child from one end and only completes the exchange. Returns the other end's SPIs.
fn renewed_by(world: &mut World, end: usize) -> (u32, u32) {
    world.run(Duration::from_secs(2));
    let old = world.sealing(1 - end);
    world.command(end, Command::RekeyChildren("road".into()));
    world.run(Duration::from_millis(100));
    let renewals =
        world.ends[1 - end].count(|e| matches!(e, Event::ChildEstablished { is_rekey: true, .. }));
    assert_eq!(renewals, 1);
    let new = world.ends[end].node.children.values().next();
    let new = new
        .and_then(|child| child.current.as_ref())
        .expect("a pair");
    (old, new.spi_in)
}

#[test]
fn who_answered_a_renewal_seals_anew_when_the_peer_has_done_so() {
    for (end, seed) in [(0, 41), (1, 42)] {
        let mut world = World::new(seed, |_, _| {});
        let (old, new) = renewed_by(&mut world, end);
        assert_eq!(world.sealing(1 - end), old);
        let entry = world.ends[1 - end].node.children.values().next();
        let entry = entry.expect("a child");
        let (child, used) = (entry.id, entry.current.as_ref().expect("a pair").spi_in);
        let spi = entry.old[0].0.spi_in;
        world.notice(1 - end, Notice::InboundUsed { child, spi });
        assert_eq!(world.sealing(1 - end), old);
        let spi = used;
        world.notice(1 - end, Notice::InboundUsed { child, spi });
        assert_eq!(world.sealing(1 - end), new);
        world.run(Duration::from_secs(60));
        assert_eq!(world.sealing(1 - end), new);
        world.assert_up();
    }
}

#[test]
fn who_began_a_renewal_seals_anew_once_the_peer_must_have_read_its_last_word() {
    for (is_heard, seed) in [(true, 47), (false, 46)] {
        let mut world = World::new(seed, |_, _| {});
        world.run(Duration::from_secs(2));
        let former = world.sealing(0);
        renewed_by(&mut world, 0);
        assert_eq!(world.sealing(0), former);
        let entry = world.ends[0].node.children.values().next();
        let (child, pair) = entry
            .map(|it| (it.id, it.current.as_ref()))
            .expect("a child");
        let (spi, new) = pair.map(|it| (it.spi_in, it.spi_out)).expect("a pair");
        match is_heard {
            true => world.notice(0, Notice::InboundUsed { child, spi }),
            false => world.run(Duration::from_secs(2)),
        }
        assert_eq!(world.sealing(0), new);
        world.run(Duration::from_secs(10));
        assert_eq!(world.sealing(0), new);
        world.assert_up();
    }
}

#[test]
fn who_answered_a_renewal_seals_anew_after_a_short_time_too() {
    let mut world = World::new(43, |_, _| {});
    let (old, new) = renewed_by(&mut world, 0);
    world.run(Duration::from_millis(900));
    assert_eq!(world.sealing(1), old);
    world.run(Duration::from_millis(100));
    assert_eq!(world.sealing(1), new);
    // the peer removes the old pair long after
    assert_eq!(world.ends[0].seen.inbound.len(), 2);
    world.assert_up();
}

#[test]
fn a_renewal_under_the_last_breath_of_an_sa_does_not_outlive_it() {
    let mut world = World::new(44, |connection, _| {
        connection.children[0].lifetime = Duration::from_secs(100);
        connection.children[0].rekey_margin = Duration::ZERO;
    });
    world.run(Duration::from_secs(2));
    world.run(Duration::from_millis(95_500));
    let (old, new) = renewed_by(&mut world, 0);
    assert_eq!(world.sealing(1), old);
    world.run(Duration::from_millis(850));
    assert_eq!(world.sealing(1), new);
    world.assert_up();
}

#[test]
fn a_deleted_pair_is_sealed_with_no_longer() {
    let mut world = World::new(45, |_, _| {});
    let (old, new) = renewed_by(&mut world, 0);
    assert_eq!(world.sealing(1), old);
    let now = world.now;
    let station = world.ends[0].node.children.values_mut().next();
    let child = station.expect("a child");
    let id = child.id;
    child.old[0].1 = now;
    world.ends[0].node.on_child_timer(id, now);
    world.settle(0);
    world.run(Duration::from_millis(100));
    assert_eq!(world.sealing(1), new);
    assert!(!world.ends[1].seen.outbound.contains_key(&old));
    world.assert_up();
}

/// A station with this many connections to the gateway, all of one identity.
fn many_of_one_identity(seed: u8, number: usize, dpd: Option<Duration>) -> World {
    let mut world = World::new(seed, move |connection, is_station| {
        connection.unique = Unique::Keep;
        if is_station {
            connection.start = Start::Responder;
            connection.dpd_delay = dpd;
        }
    });
    let mut many = config(true, &world.change);
    many.connections = (0..number)
        .map(|n| {
            let mut connections = config(true, &world.change).connections;
            let mut one = Arc::into_inner(connections.remove(0)).expect("the only one");
            one.name = format!("road{n}");
            Arc::new(one)
        })
        .collect();
    world.input(0, Input::Configure(Arc::new(many)));
    for n in 0..number {
        world.command(0, Command::Up(format!("road{n}")));
        world.run(Duration::from_millis(300));
    }
    world
}

#[test]
fn kept_sessions_of_one_identity_are_bounded_and_the_oldest_ends() {
    let world = many_of_one_identity(48, 16, None);
    assert_eq!(world.ends[1].node.established(), 16);
    assert_eq!(world.drops(1, DropReason::TooManySessions), 0);
    let world = many_of_one_identity(49, 18, None);
    assert_eq!(world.ends[1].node.established(), 16);
    // whose session ended begins again, and ends the oldest of the others
    let ended = world.drops(1, DropReason::TooManySessions) as usize;
    assert!((2..=4).contains(&ended), "{ended}");
    let node = &world.ends[1].node;
    assert_eq!(node.sessions.peers(), 16);
    let peer = peer_of(node.sessions.values().next().expect("one"));
    let kept: Vec<SessionId> = node.sessions.of_peer(&peer).map(|(id, _)| id).collect();
    assert_eq!(kept, node.sessions.keys().copied().collect::<Vec<_>>());
    let closed = |event: &Event| match event {
        Event::IkeClosed { cause, .. } => *cause == EndCause::NewerSessions,
        _ => false,
    };
    assert_eq!(world.ends[1].count(closed), ended);
}

#[test]
fn initial_contact_ends_nothing_where_several_may_have_one_identity() {
    let mut world = many_of_one_identity(50, 3, None);
    let session = world.ends[0].node.sessions.values().next().expect("one");
    let sa = session.ike.sa().expect("established");
    let contact = informational::notification(sa, NotifyType::InitialContact, None);
    let mut out = Outbox::default();
    informational::send(sa, vec![contact], 0x53, &mut out);
    let message = super::session::with_marker(session.path(), out.messages[0].message.clone());
    let path = world.ends[1].path();
    world.deliver(1, path, &message);
    assert_eq!(world.ends[1].node.established(), 3);
}

#[test]
fn many_idle_sessions_ask_the_planes_together() {
    let mut world = many_of_one_identity(51, 10, Some(Duration::from_secs(10)));
    let before = world.reports();
    world.run(Duration::from_secs(100));
    // each probes its peer every ten seconds, three tenths of a second after the one before
    let reports = world.reports() - before;
    assert!((9..=25).contains(&reports), "{reports}");
}

#[test]
fn replaced_sessions_of_one_peer_are_bounded() {
    let mut world = World::new(37, |_, _| {});
    world.run(Duration::from_secs(2));
    for _ in 0..12 {
        world.command(0, Command::RekeyIke("road".into()));
        world.run(Duration::from_millis(200));
        assert!(world.ends[1].node.sessions.len() <= 6);
    }
    world.run(Duration::from_secs(10));
    world.assert_up();
    assert_eq!(world.ends[1].node.established(), 1);
}

#[test]
fn an_inner_address_that_the_gateway_pushes_is_taken_and_acknowledged_once_more() {
    let mut world = World::new(32, |_, _| {});
    world.run(Duration::from_secs(2));
    let pushed = IpAddr::from([10, 99, 0, 77]);
    let push = world.ends[1].push(pushed);
    let path = world.ends[0].path();
    for answers in [1, 0] {
        let told = world.ends[0].count(|event| matches!(event, Event::InnerAddress { .. }));
        let sent = world.network.sent;
        world.deliver(0, path, &push);
        assert!(world.network.sent > sent);
        let after = world.ends[0].count(|event| matches!(event, Event::InnerAddress { .. }));
        assert_eq!(after - told, answers);
    }
    assert_eq!(world.ends[0].inner(), [pushed]);
}

#[test]
fn a_gateway_on_another_port_is_reached_with_the_marker_from_the_first_message_on() {
    let mut world = World::new(40, |connection, is_station| {
        if is_station {
            connection.remote_addrs[0].set_port(NAT_T_PORT);
        }
    });
    let path = world.ends[0]
        .node
        .sessions
        .values()
        .next()
        .map(|s| s.path());
    let ports = path.map(|path| (path.local.port(), path.remote.port()));
    assert_eq!(ports, Some((NAT_T_PORT, NAT_T_PORT)));
    world.run(Duration::from_secs(2));
    assert!(world.network.log[0].starts_with(&[0; 4]));
    world.assert_up();
}

#[test]
fn one_renewal_at_a_time_however_often_it_is_ordered() {
    let mut world = World::new(39, |_, _| {});
    world.run(Duration::from_secs(2));
    for _ in 0..20 {
        world.command(0, Command::RekeyIke("road".into()));
    }
    assert_eq!(world.ends[0].node.sessions.len(), 2);
    world.run(Duration::from_secs(10));
    world.assert_up();
}

#[test]
fn a_gateway_is_ready_to_receive_and_keeps_its_answers_before_it_says_so() {
    let mut world = World::new(38, |_, _| {});
    world.run(Duration::from_secs(2));
    let trail = &world.ends[1].seen.trail;
    let [one, two, three] = [1, 2, 3].map(|number| Act::Message(Step::Quick(number)));
    let first = trail.iter().position(|act| *act == one);
    let expected = [
        one,
        Act::Install(Direction::Inbound),
        Act::Expect,
        two,
        three,
        Act::Install(Direction::Outbound),
        Act::Forget,
    ];
    assert_eq!(trail[first.expect("quick 1")..][..expected.len()], expected);
}

#[test]
fn a_gateway_of_ikev2_is_as_ready_before_its_answer() {
    let mut world = World::of(Version::V2, 37, |_, _| {});
    world.run(Duration::from_secs(2));
    let trail = &world.ends[1].seen.trail;
    let [asked, answered] = [1, 2].map(|number| Act::Message(Step::Auth(number)));
    let first = trail.iter().position(|act| *act == asked);
    let expected = [
        asked,
        Act::Install(Direction::Inbound),
        Act::Expect,
        answered,
        Act::Install(Direction::Outbound),
        Act::Forget,
    ];
    assert_eq!(trail[first.expect("auth 1")..][..expected.len()], expected);
}

pub(super) type Change = Arc<dyn Fn(&mut Connection, bool) + Send + Sync>;

/// The path of a datagram that a host receives on its socket of this port.
fn arrives(local: impl Into<SocketAddr>, remote: impl Into<SocketAddr>) -> Path {
    let (local, remote) = (local.into(), remote.into());
    Path {
        via: crate::ike::via_of(local.port()).expect("one of our ports"),
        local,
        remote,
    }
}

/// A station, a NAT (perhaps) and a gateway.
struct World {
    pair: Pair,
    change: Change,
    seed: u8,
}

impl Deref for World {
    type Target = Pair;

    fn deref(&self) -> &Pair {
        &self.pair
    }
}

impl DerefMut for World {
    fn deref_mut(&mut self) -> &mut Pair {
        &mut self.pair
    }
}

impl End {
    /// A push of an inner address, as this end would send it.
    fn push(&self, address: IpAddr) -> Vec<u8> {
        let session = self.node.sessions.values().next().expect("a session");
        let sa = session.ike.sa().expect("established");
        let IpAddr::V4(v4) = address else {
            unreachable!("an IPv4 address")
        };
        let kind = ConfigKind::InternalIp4Address.number();
        let set = Payload::Attributes(ConfigAttributes {
            kind: ConfigType::Set,
            identifier: 1,
            attributes: vec![Attribute::long(kind, v4.octets().to_vec())],
        });
        let (id, mut work) = (77_u32, Work::default());
        let mut iv = sa.first_iv(id);
        let prefix = id.to_be_bytes();
        let transaction = Exchange::Transaction;
        let message = sa.seal_hashed(transaction, id, &mut iv, &[&prefix], vec![set], &mut work);
        super::session::with_marker(session.path(), message)
    }

    fn path(&self) -> Path {
        let mut sessions = self
            .node
            .sessions
            .values()
            .filter(|session| session.ike.is_established());
        sessions.next_back().expect("a session").path()
    }
}

impl World {
    fn new(seed: u8, change: impl Fn(&mut Connection, bool) + Send + Sync + 'static) -> Self {
        let change: Change = Arc::new(change);
        let end = |is_station: bool| {
            let name = [seed, u8::from(is_station), 0];
            let mut octets = [0; 32];
            octets[..3].copy_from_slice(&name);
            endpoint(config(is_station, &change), &Seed::new(octets))
        };
        let mut network = Network::new(Seed::new([seed; 32]).stream("world", 0));
        network.nat = Some(Nat::new(STATION.into(), NAT.into()));
        Self {
            pair: Pair::new([end(true), end(false)], network),
            change,
            seed,
        }
    }

    /// The same with this version of IKE.
    fn of(
        version: Version,
        seed: u8,
        change: impl Fn(&mut Connection, bool) + Send + Sync + 'static,
    ) -> Self {
        Self::new(seed, move |connection, is_station| {
            ikev2::speaks(connection, version);
            change(connection, is_station);
        })
    }

    /// The peer's SPI of an end's current outbound SA.
    fn sealing(&self, end: usize) -> u32 {
        self.ends[end].seen.sealing
    }

    fn restart_gateway(&mut self) {
        let seed = Seed::new([self.seed ^ 0x80; 32]);
        let gateway = endpoint(config(false, &self.change), &seed);
        self.replace(1, gateway);
    }

    fn drops(&self, end: usize, reason: DropReason) -> u64 {
        self.ends[end].node.drops().of(reason)
    }

    fn nat(&mut self) -> &mut Nat {
        self.network.nat.as_mut().expect("a NAT")
    }

    /// From the first datagram on, which is on its way.
    fn has_no_nat(&mut self) {
        let nat = self.network.nat.take().expect("a NAT");
        for datagram in self.network.wire.iter_mut().filter(|it| it.to == 1) {
            let public = datagram.path.remote.port();
            let ports = nat.ports.iter().find(|(_, port)| **port == public);
            let (private, _) = ports.expect("a mapping");
            datagram.path.remote = (nat.inside, *private).into();
        }
    }

    fn rebind(&mut self) {
        self.nat().forget();
    }

    fn nat_port(&self, private: u16) -> u16 {
        self.network.nat.as_ref().expect("a NAT").ports[&private]
    }

    fn first_message(&self) -> Option<Vec<u8>> {
        self.network.log.first().cloned()
    }

    /// How often the planes were asked.
    fn reports(&self) -> usize {
        self.ends.iter().map(|end| end.reports).sum()
    }

    fn notice(&mut self, end: usize, notice: Notice) {
        self.input(end, Input::Notice(notice));
    }

    fn deliver(&mut self, end: usize, path: Path, payload: &[u8]) {
        self.input(end, Input::Datagram(path, payload));
    }

    /// The station has this address, and no other one.
    fn has_address(&mut self, own: IpAddr) {
        let ours = Ways::of_one(own, self.ends[0].node.peers());
        self.input(0, Input::Ways(ours));
    }

    /// A packet of the station's, if it has an SA. The gateway's network answers it.
    fn packet(&mut self) {
        let seen = &self.ends[0].seen;
        if seen.outbound.contains_key(&seen.sealing) {
            let packet = datagram(self.ends[0].inner()[0], INSIDE.into(), 64);
            self.send(0, packet);
        }
    }

    /// Asserts that both ends are up, with the same keys under the same SPIs.
    fn assert_up(&self) {
        let [station, gateway] = &self.ends;
        let failures: Vec<_> = self
            .ends
            .iter()
            .map(|end| end.seen.events.iter().rev().take(6).collect::<Vec<_>>())
            .collect();
        assert_eq!(station.node.established(), 1, "{failures:#?}");
        assert!(!station.seen.outbound.is_empty(), "{failures:#?}");
        for (ours, theirs) in [(station, gateway), (gateway, station)] {
            for spi in ours.seen.outbound.keys() {
                assert!(theirs.seen.inbound.contains_key(spi), "{failures:#?}");
                let (own, peer) = (&ours.seen.keys[spi], &theirs.seen.keys[spi]);
                assert_eq!(own.encryption.0, peer.encryption.0);
                assert_eq!(own.integrity.0, peer.integrity.0);
            }
        }
    }
}

/// The peer of an established session.
fn peer_of(session: &Session) -> Peer {
    let sa = session.ike.sa().expect("established");
    sa.identity.clone()
}

/// The first fragment of a message under these cookies, on port 4500.
fn first_fragment(cookies: Cookies) -> Vec<u8> {
    let header = Header {
        cookies,
        next_payload: PayloadKind::Sa,
        exchange: Exchange::Aggressive,
        flags: Flags::default(),
        message_id: 0,
    };
    let parts = crate::ikev1::fragments::split(header.write(&[0; 3_000]), 1);
    [&[0; 4], &parts[0][..]].concat()
}

/// With a device that has no offloads.
fn endpoint(config: Config, seed: &Seed) -> Endpoint {
    let address = if config.pools.is_empty() {
        STATION
    } else {
        GATEWAY
    };
    Endpoint::new(config, seed, Offloads::default(), vec![address.into()])
}

/// A UDP packet of so many octets.
fn datagram(source: IpAddr, destination: IpAddr, bytes: u16) -> Vec<u8> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) else {
        unreachable!("IPv4")
    };
    let mut packet = vec![0; usize::from(bytes)];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&bytes.to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 17]);
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&destination.octets());
    packet[24..26].copy_from_slice(&(bytes - 20).to_be_bytes());
    let sum = wire::ip::checksum::checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

pub(super) fn config(is_station: bool, change: &Change) -> Config {
    let secret = Arc::new(Secret(b"a shared secret".to_vec()));
    let (own, peer) = if is_station {
        ("ms", "sg")
    } else {
        ("sg", "ms")
    };
    let fqdn = |name: &str| Identity::Fqdn(format!("{name}.example"));
    let mut connection = Connection {
        name: "road".into(),
        revision: 1,
        local_addrs: Vec::new(),
        remote_addrs: if is_station {
            vec![(GATEWAY, IKE_PORT).into()]
        } else {
            Vec::new()
        },
        version: Version::V1,
        is_aggressive: true,
        ikev2_proposals: Vec::new(),
        ppk: None,
        proposals: vec!["aes128-sha256-modp2048".parse().unwrap()],
        local: LocalAuth {
            identity: fqdn(own),
            method: LocalMethod::PresharedKey(secret.clone()),
        },
        remote: RemoteAuth {
            identities: vec![IdentityPattern::Is(fqdn(peer))],
            method: RemoteMethod::PresharedKey(secret),
        },
        children: vec![child(is_station)],
        wants_inner: InnerFamilies {
            v4: is_station,
            v6: false,
        },
        dnssec_domains: Vec::new(),
        pools: if is_station { Vec::new() } else { vec![0] },
        is_legacy: true,
        takes_rsa_sha1: false,
        start: if is_station {
            Start::AtOnce
        } else {
            Start::Responder
        },
        encapsulation: Encapsulation::ThroughNat,
        fragments: true,
        full_transcript: true,
        is_eap_only: false,
        mobike: true,
        reauth: true,
        childless: crate::config::Childless::Allow,
        crash_detection: false,
        resumption: false,
        redirects: crate::config::Redirects::default(),
        dpd_delay: None,
        dpd_timeout: Duration::from_secs(10),
        keepalive: Duration::from_secs(20),
        lifetime: Duration::from_secs(14_400),
        rekey_margin: Duration::from_secs(1_440),
        unique: Unique::Replace,
        peers_max: crate::config::PEERS_MAX,
    };
    change(&mut connection, is_station);
    Config {
        connections: vec![Arc::new(connection)],
        pools: if is_station { Vec::new() } else { pools() },
        radius: None,
        limits: limits(),
    }
}

fn limits() -> Limits {
    Limits {
        half_open: 500,
        half_open_total: 1_000,
        half_open_per_address: 100,
        quick_modes: 16,
        children: 64,
        half_open_lifetime: Duration::from_secs(30),
        has_quotas: true,
        asks_cookies: false,
    }
}

/// One of each family.
fn pools() -> Vec<Pool> {
    let pool = Pool {
        name: "inner".into(),
        first: [10, 99, 0, 1].into(),
        last: [10, 99, 0, 254].into(),
        dns: vec![[10, 10, 0, 53].into()],
        domains: Vec::new(),
        trust_anchors: Vec::new(),
    };
    let other = Pool {
        name: "inner6".into(),
        first: IpAddr::from([0xfd99, 0, 0, 0, 0, 0, 0, 1]),
        last: IpAddr::from([0xfd99, 0, 0, 0, 0, 0, 0, 0xff]),
        dns: Vec::new(),
        domains: Vec::new(),
        trust_anchors: Vec::new(),
    };
    vec![pool, other]
}

fn child(is_station: bool) -> Child {
    let inside = vec!["10.10.0.0/24".parse().unwrap()];
    Child {
        name: "net".into(),
        layer: ChildLayer::Alone,
        mode: Mode::Tunnel,
        proposals: vec!["aes128gcm16-modp2048".parse().unwrap()],
        local: if is_station {
            Vec::new()
        } else {
            inside.clone()
        },
        remote: if is_station { inside } else { Vec::new() },
        lifetime: Duration::from_secs(3_600),
        rekey_margin: Duration::from_secs(360),
        lifetime_bytes: u64::MAX,
        lifetime_packets: u64::MAX,
        replay_window: 1_024,
        path_mtu: 1_500,
    }
}
