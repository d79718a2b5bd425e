//! Connections of one gateway that trust different authorities: the certificate decides which one a
//! peer belongs to, not the names or the order of the connections.

use crypto::cert::{RevocationList, RevokedEntry};

use super::*;

const GUESTS: &str = "CN=Guests";

/// `staff` accepts this identity of its own authority, `guests` any identity of theirs.
fn gateway(staff: &str, is_aggressive: bool, guests_first: bool) -> Crowd {
    let staff = certified_gateway(|connection| {
        connection.name = "staff".into();
        connection.remote.identities = vec![pattern(staff)];
        connection.is_aggressive = is_aggressive;
    });
    let guests = certified_gateway(|connection| {
        connection.name = "guests".into();
        connection.is_aggressive = is_aggressive;
        trust(connection, &authority_named(GUESTS));
    });
    Crowd::new(if guests_first {
        vec![guests, staff]
    } else {
        vec![staff, guests]
    })
}

/// A station with a certificate of this authority.
fn of(authority: &Authority, number: usize, is_aggressive: bool) -> Connection {
    let mut station = certified_station(number, "CN=Ms", &[], identity("CN=Ms"));
    certify(&mut station, authority, number, "CN=Ms", &[]);
    station.is_aggressive = is_aggressive;
    station
}

/// Connections, and how many tunnels each has.
fn tunnels(crowd: &Crowd) -> Vec<(String, usize)> {
    let status = crowd.gateway().status(crowd.now);
    let connections = status.connections.into_iter();
    let mut found: Vec<_> = connections.map(|it| (it.name, it.sessions.len())).collect();
    found.sort();
    found
}

fn expected(guests: usize, staff: usize) -> Vec<(String, usize)> {
    vec![("guests".into(), guests), ("staff".into(), staff)]
}

#[test]
fn a_connection_for_everybody_takes_no_peer_of_another_authority() {
    for is_aggressive in [false, true] {
        for guests_first in [false, true] {
            for accepted in ["CN=Ms", "*"] {
                let mut crowd = gateway(accepted, is_aggressive, guests_first);
                let staff = of(&authority(), 0, is_aggressive);
                crowd.enter([10, 0, 0, 10], staff);
                assert_eq!(tunnels(&crowd), expected(0, 1));
                let guest = of(&authority_named(GUESTS), 1, is_aggressive);
                crowd.enter([10, 0, 0, 11], guest);
                assert_eq!(tunnels(&crowd), expected(1, 1));
                crowd.enter(
                    [10, 0, 0, 12],
                    of(&authority_named("CN=No"), 1, is_aggressive),
                );
                assert_eq!(tunnels(&crowd), expected(1, 1));
                assert!(crowd.refusal().contains("CN=No, which is not trusted"));
            }
        }
    }
}

#[test]
fn the_connection_that_names_a_peer_comes_before_one_for_everybody() {
    for is_aggressive in [false, true] {
        for guests_first in [false, true] {
            let change = |name: &str, accepted: &str| {
                certified_gateway(|connection| {
                    connection.name = name.into();
                    connection.is_aggressive = is_aggressive;
                    connection.remote.identities = vec![pattern(accepted)];
                })
            };
            let mut connections = vec![change("staff", "CN=Ms"), change("guests", "*")];
            if guests_first {
                connections.reverse();
            }
            let mut crowd = Crowd::new(connections);
            crowd.enter([10, 0, 0, 10], of(&authority(), 0, is_aggressive));
            assert_eq!(tunnels(&crowd), expected(0, 1));
        }
    }
}

#[test]
fn who_is_revoked_in_one_connection_does_not_come_in_by_the_next() {
    for guests_first in [false, true] {
        let revoked = [RevokedEntry {
            serial: vec![2],
            at: JANUARY_2027.0 - 60,
        }];
        let list = authority().revocation_list(&revoked, 1, JANUARY_2027.0, 30);
        let list = RevocationList::parse(list.expect("a list").as_bytes()).expect("a list");
        let staff = certified_gateway(|connection| {
            connection.name = "staff".into();
            connection.remote.identities = vec![pattern("CN=Ms")];
            let RemoteMethod::Signature(store) = &connection.remote.method else {
                panic!("it has authorities");
            };
            let store = TrustStore {
                revocations: vec![list],
                ..TrustStore::clone(store)
            };
            connection.remote.method = RemoteMethod::Signature(Arc::new(store));
        });
        let guests = certified_gateway(|connection| connection.name = "guests".into());
        let mut connections = vec![staff, guests];
        if guests_first {
            connections.reverse();
        }
        let mut crowd = Crowd::new(connections);
        crowd.enter([10, 0, 0, 10], of(&authority(), 0, true));
        assert_eq!(tunnels(&crowd), expected(0, 0));
        assert!(
            crowd.refusal().contains("was revoked"),
            "{}",
            crowd.refusal()
        );
    }
}
