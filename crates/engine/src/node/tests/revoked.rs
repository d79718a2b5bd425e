use crypto::cert::{
    Authority, Certificate, KeyMaterial, Request, RevocationList, RevokedEntry, SigningKey,
    TrustStore,
};
use crypto::sign::PrivateKey;

use super::crash::kill;
use super::*;
use crate::time::Calendar;

const NOW: i64 = 1_800_000_000;
const AUTHORITY_KEY: &str = include_str!("../../ikev1/tests/keys/intruder.key");
const GATEWAY_KEY: &str = include_str!("../../ikev1/tests/keys/gateway.key");
const STATION_KEY: &str = include_str!("../../ikev1/tests/keys/station.key");
const GATEWAY_SERIAL: u8 = 2;
pub(super) const STATION_SERIAL: u8 = 3;

#[test]
fn a_new_list_ends_the_tunnels_of_whom_it_names_at_once() {
    for mode in MODES {
        let mut world = certified(mode, 80);
        world.run(Duration::from_secs(2));
        world.assert_up();
        reload(&mut world, 1, &[GATEWAY_SERIAL]);
        world.run(Duration::from_secs(1));
        world.assert_up();
        reload(&mut world, 1, &[STATION_SERIAL]);
        let gateway = &world.ends[1];
        assert_eq!(gateway.node.established(), 0);
        assert!(gateway.seen.inbound.is_empty() && gateway.seen.outbound.is_empty());
        let revoked = "certificate CN=ms.example was revoked at 2027-01-15 07:59:00 UTC";
        assert!(gateway.told(
            |event| matches!(event, Event::IkeClosed { cause, .. } if cause.to_string() == revoked)
        ));
        // The station is told, and does not return.
        world.run(Duration::from_secs(30));
        assert_eq!(world.ends[0].node.established(), 0);
        assert_eq!(world.ends[1].failure().as_deref(), Some(revoked));
        // A list without it admits it again.
        reload(&mut world, 1, &[]);
        world.run(Duration::from_secs(600));
        world.assert_up();
    }
}

#[test]
fn a_station_leaves_a_gateway_that_a_new_list_names() {
    for mode in MODES {
        let mut world = certified(mode, 81);
        world.run(Duration::from_secs(2));
        reload(&mut world, 0, &[GATEWAY_SERIAL]);
        assert_eq!(world.ends[0].node.established(), 0);
        world.run(Duration::from_secs(30));
        assert_eq!(world.ends[1].node.established(), 0);
        let failure = world.ends[0].failure().unwrap();
        assert!(failure.contains("CN=sg.example was revoked"), "{failure}");
    }
}

#[test]
fn a_list_that_is_read_while_phase_1_runs_counts() {
    for mode in MODES {
        let mut seen = 0;
        for steps in 1..40 {
            let mut world = certified(mode, 82);
            world.run(Duration::from_millis(5 * steps));
            seen += usize::from(world.ends[1].node.established() == 0);
            reload(&mut world, 1, &[STATION_SERIAL]);
            world.run(Duration::from_secs(30));
            assert_eq!(world.ends[1].node.established(), 0, "{steps}");
            assert!(world.ends[1].seen.inbound.is_empty(), "{steps}");
        }
        assert!(seen > 5, "{seen} reloads before the end of phase 1");
    }
}

#[test]
fn a_peer_that_is_pinned_no_more_is_ended_and_stays_out() {
    for mode in MODES {
        let mut world = certified(mode, 84);
        world.run(Duration::from_secs(5));
        world.assert_up();
        let pins = |world: &mut World, is_pinned: bool| {
            let change = world.change.clone();
            let pinned: Change = Arc::new(move |connection: &mut Connection, is_station| {
                change(connection, is_station);
                let own = &connection.local.method;
                let LocalMethod::Signature { chain: own, .. } = own else {
                    unreachable!("certificates")
                };
                // At this end the other one's certificate, or our own in its place.
                let RemoteMethod::Signature(store) = &connection.remote.method else {
                    unreachable!("certificates")
                };
                let pin = match is_pinned {
                    true => certificate(!is_station),
                    false => own[0].clone(),
                };
                connection.remote.method = RemoteMethod::Signature(Arc::new(TrustStore {
                    authorities: store.authorities.clone(),
                    pinned: vec![pin],
                    ..TrustStore::default()
                }));
            });
            let config = Arc::new(config(false, &pinned));
            world.input(1, Input::Configure(config));
        };
        pins(&mut world, true);
        world.run(Duration::from_secs(5));
        world.assert_up();
        let begun = |event: &Event| matches!(event, Event::IkeEstablished { .. });
        assert_eq!(world.ends[1].count(begun), 1);
        pins(&mut world, false);
        assert_eq!(world.ends[1].node.established(), 0);
        assert!(world.ends[1].told(|event| matches!(
            event,
            Event::IkeClosed { cause, .. } if cause.to_string().contains("pinned")
        )));
        world.run(Duration::from_secs(60));
        assert_eq!(world.ends[1].node.established(), 0);
    }
}

#[test]
fn a_tunnel_ends_with_its_peer_s_certificate_and_another_one_lets_the_peer_in() {
    for (index, (version, is_aggressive)) in MODES.into_iter().enumerate() {
        let mut world = World::of(version, 90 + index as u8, move |connection, is_station| {
            connection.is_aggressive = is_aggressive;
            sign(connection, is_station, &[]);
            if is_station && let LocalMethod::Signature { chain, .. } = &mut connection.local.method
            {
                // It ends 600 s from now.
                *chain = vec![certificate_of(true, NOW + 600 - 86_400, 1)];
            }
        });
        for end in [0, 1] {
            world.input(end, Input::Calendar(Calendar(NOW)));
        }
        world.run(Duration::from_secs(580));
        // Renewals on the way have not made it longer.
        let has_ended = |event: &Event| {
            matches!(
                event,
                Event::IkeClosed {
                    had_children: true,
                    ..
                }
            )
        };
        assert!(!world.ends[1].seen.outbound.is_empty(), "{version:?}");
        assert!(!world.ends[1].told(has_ended), "{version:?}");
        world.run(Duration::from_secs(25));
        let gateway = &world.ends[1];
        assert!(gateway.seen.inbound.is_empty() && gateway.seen.outbound.is_empty());
        assert!(gateway.told(has_ended), "{version:?}");
        world.run(Duration::from_secs(60));
        assert_eq!(world.ends[1].node.established(), 0);
        let why = world.ends[1].failure().expect("a failure");
        assert!(why.contains("expired"), "{why}");
        // The station has another certificate.
        reload(&mut world, 0, &[]);
        world.run(Duration::from_secs(60));
        assert_eq!(world.ends[1].node.established(), 1);
        let is_up = |end: usize| !world.ends[end].seen.outbound.is_empty();
        assert!(is_up(0) && is_up(1), "{version:?}");
    }
}

#[test]
fn one_peer_of_a_connection_is_ended_and_the_others_stay() {
    for version in VERSIONS {
        let mut world = World::of(version, 83, |_, _| {});
        world.run(Duration::from_secs(2));
        for (name, peer) in [
            ("road", "other.example"),
            ("other", "ms.example"),
            ("road", "email:ms.example"),
        ] {
            let peer = Identity::Fqdn(peer.into());
            world.command(1, Command::End(name.into(), peer));
            world.run(Duration::from_millis(100));
            world.assert_up();
        }
        let peer = Identity::Fqdn("MS.Example".into());
        world.command(1, Command::End("road".into(), peer));
        assert_eq!(world.ends[1].node.established(), 0);
        assert!(world.ends[1].seen.outbound.is_empty());
        let with_children = |event: &Event| {
            matches!(
                event,
                Event::IkeClosed {
                    had_children: true,
                    ..
                }
            )
        };
        assert_eq!(world.ends[1].count(with_children), 1);
        // It may reconnect.
        world.run(Duration::from_secs(60));
        world.assert_up();
    }
}

pub(super) fn certified((version, is_aggressive): (Version, bool), seed: u8) -> World {
    let mut world = World::of(version, seed, move |connection, is_station| {
        connection.is_aggressive = is_aggressive;
        sign(connection, is_station, &[]);
    });
    for end in [0, 1] {
        world.input(end, Input::Calendar(Calendar(NOW)));
    }
    world
}

/// The same configuration with a list of these serial numbers.
pub(super) fn reload(world: &mut World, end: usize, revoked: &'static [u8]) {
    let change = world.change.clone();
    let listed: Change = Arc::new(move |connection: &mut Connection, is_station| {
        change(connection, is_station);
        sign(connection, is_station, revoked);
    });
    let config = Arc::new(config(end == 0, &listed));
    world.input(end, Input::Configure(config));
}

/// Certificates of one authority at both ends.
fn sign(connection: &mut Connection, is_station: bool, revoked: &[u8]) {
    let authority = authority();
    let key = if is_station { STATION_KEY } else { GATEWAY_KEY };
    let entries: Vec<RevokedEntry> = revoked
        .iter()
        .map(|serial| RevokedEntry {
            serial: vec![*serial],
            at: NOW - 60,
        })
        .collect();
    let list = authority.revocation_list(&entries, 1, NOW, 30).unwrap();
    let read = |pem: &str| Certificate::all_from_pem(pem).unwrap();
    connection.local.method = LocalMethod::Signature {
        key: Arc::new(PrivateKey::from_pem(key).unwrap()),
        chain: vec![certificate(is_station)],
    };
    connection.remote.method = RemoteMethod::Signature(Arc::new(TrustStore {
        authorities: read(authority.certificate_pem()),
        revocations: vec![RevocationList::parse(list.as_bytes()).unwrap()],
        ..TrustStore::default()
    }));
}

fn certificate(is_station: bool) -> Certificate {
    certificate_of(is_station, NOW, 365)
}

/// It is good for so many days from then on.
fn certificate_of(is_station: bool, from: i64, days: u32) -> Certificate {
    let (name, key, serial) = match is_station {
        true => ("ms.example", STATION_KEY, STATION_SERIAL),
        false => ("sg.example", GATEWAY_KEY, GATEWAY_SERIAL),
    };
    let request = Request {
        subject: &format!("CN={name}"),
        alternative_names: &[name.to_owned()],
        key: KeyMaterial::Pem(key),
        serial: &[serial],
        now: from,
        days,
    };
    let pem = authority().issue(&request).unwrap();
    Certificate::all_from_pem(&pem).unwrap().remove(0)
}

fn authority() -> Authority {
    let key = SigningKey::from_pem(AUTHORITY_KEY).unwrap();
    Authority::create("CN=authority", key, &[1], NOW, 365).unwrap()
}

#[test]
fn a_ticket_dies_with_its_certificate_even_if_the_session_was_lost() {
    let cases: [(&'static [u8], bool); 2] = [(&[GATEWAY_SERIAL], true), (&[STATION_SERIAL], false)];
    for (revoked, is_let_in) in cases {
        let mut world = World::of(Version::V2, 85, |connection, is_station| {
            connection.resumption = true;
            connection.crash_detection = true;
            connection.dpd_delay = Some(Duration::from_secs(10));
            sign(connection, is_station, &[]);
        });
        for end in [0, 1] {
            world.input(end, Input::Calendar(Calendar(NOW)));
        }
        world.run(Duration::from_secs(12));
        world.assert_up();
        // The gateway has its keys of tickets, knows of no session, and reads a new list.
        kill(&mut world, 1);
        world.input(1, Input::Calendar(Calendar(NOW)));
        reload(&mut world, 1, revoked);
        world.packet();
        world.run(Duration::from_secs(40));
        let is_resumed = |event: &Event| {
            matches!(
                event,
                Event::IkeEstablished {
                    is_resumed: true,
                    ..
                }
            )
        };
        assert_eq!(world.ends[1].told(is_resumed), is_let_in);
        assert_eq!(world.ends[0].node.established() > 0, is_let_in);
        assert_eq!(world.drops(1, DropReason::TicketRefused) > 0, !is_let_in);
        let refused = |event: &Event| match event {
            Event::NegotiationFailed { reason, .. } => {
                reason.contains("a ticket is refused: the certificate or the user")
            }
            _ => false,
        };
        assert_eq!(world.ends[1].told(refused), !is_let_in);
    }
}

/// Who knows only the former key has begun in time, and comes too late.
#[test]
fn a_key_that_changed_during_an_exchange_lets_nobody_in() {
    for is_changed in [false, true] {
        let mut world = World::new(97, |connection, _| {
            super::ikev2::speaks(connection, Version::V2);
        });
        while world.ends[1].node.sessions.is_empty() {
            world.run(Duration::from_millis(1));
        }
        let mut read_again = config(false, &world.change);
        if is_changed {
            let connection = Arc::get_mut(&mut read_again.connections[0]).expect("alone");
            let other = Arc::new(Secret(b"another secret".to_vec()));
            connection.remote.method = RemoteMethod::PresharedKey(other);
        }
        world.input(1, Input::Configure(Arc::new(read_again)));
        world.run(Duration::from_secs(1));
        assert_eq!(world.ends[1].node.established() == 0, is_changed);
    }
}

#[test]
fn an_authority_that_went_during_an_exchange_lets_nobody_in() {
    for is_gone in [false, true] {
        let mut world = World::of(Version::V2, 98, |connection, is_station| {
            sign(connection, is_station, &[]);
        });
        for end in [0, 1] {
            world.input(end, Input::Calendar(Calendar(NOW)));
        }
        while world.ends[1].node.sessions.is_empty() {
            world.run(Duration::from_millis(1));
        }
        let mut read_again = config(false, &world.change);
        if is_gone {
            let key = SigningKey::from_pem(GATEWAY_KEY).unwrap();
            let other = Authority::create("CN=authority", key, &[1], NOW, 365).unwrap();
            let connection = Arc::get_mut(&mut read_again.connections[0]).expect("alone");
            connection.remote.method = RemoteMethod::Signature(Arc::new(TrustStore {
                authorities: Certificate::all_from_pem(other.certificate_pem()).unwrap(),
                ..TrustStore::default()
            }));
        }
        world.input(1, Input::Configure(Arc::new(read_again)));
        world.run(Duration::from_secs(1));
        assert_eq!(world.ends[1].node.established() == 0, is_gone);
    }
}
