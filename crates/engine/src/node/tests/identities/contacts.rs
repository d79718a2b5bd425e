//! Notices of one connection's peers do not affect another connection's peers.

use super::*;

/// The key of `guests` is known to many, that of `staff` to one; both lend from one pool.
fn staff_and_guests() -> Crowd {
    let staff = responder(|connection| {
        connection.name = "staff".into();
        connection.remote.identities = vec![pattern("alice.example")];
        key(connection, "alice's own");
    });
    let guests = responder(|connection| {
        connection.name = "guests".into();
        connection.remote.identities = vec![IdentityPattern::Any];
        connection.proposals = vec!["aes256-sha256-modp2048".parse().unwrap()];
        key(connection, "known to all guests");
    });
    Crowd::new(vec![staff, guests])
}

fn alice() -> Connection {
    station(|connection| {
        connection.local.identity = identity("alice.example");
        key(connection, "alice's own");
    })
}

fn guest(name: &str) -> Connection {
    station(|connection| {
        connection.local.identity = identity(name);
        connection.proposals = vec!["aes256-sha256-modp2048".parse().unwrap()];
        key(connection, "known to all guests");
    })
}

#[test]
fn a_guest_of_the_same_name_ends_no_tunnel_of_the_staff() {
    let mut crowd = staff_and_guests();
    let alice = crowd.enter([10, 0, 0, 10], alice());
    for name in ["alice.example", "Alice.EXAMPLE"] {
        let guest = crowd.enter([10, 0, 0, 20], guest(name));
        assert!(crowd.members[guest].is_up());
        let (path, message) = crowd.members[guest].first_contact();
        crowd.input(0, Input::Datagram(path, &message));
        crowd.run(Duration::from_secs(3));
        assert!(crowd.members[alice].is_up(), "{name}");
        assert_eq!(crowd.gateway().established(), 2, "{name}");
        crowd.command(guest, Command::Down("road".into()));
        crowd.run(Duration::from_secs(1));
        // from now on its address belongs to another host
        crowd.members[guest].address = [10, 0, 0, 99].into();
    }
}

#[test]
fn a_guest_of_the_same_name_does_not_get_the_address_of_the_staff() {
    let mut crowd = staff_and_guests();
    let first = crowd.enter([10, 0, 0, 10], alice());
    let lent = crowd.members[first].inner();
    crowd.command(first, Command::Down("road".into()));
    crowd.run(Duration::from_secs(1));
    let stranger = crowd.enter([10, 0, 0, 20], guest("alice.example"));
    assert_ne!(crowd.members[stranger].inner(), lent);
    let again = crowd.enter([10, 0, 0, 11], alice());
    assert_eq!(crowd.members[again].inner(), lent);
}

#[test]
fn an_initial_contact_ends_the_earlier_tunnel_of_the_same_peer() {
    let mut crowd = staff_and_guests();
    crowd.enter([10, 0, 0, 20], guest("bob.example"));
    crowd.enter([10, 0, 0, 21], guest("carol.example"));
    let before = crowd.guests();
    crowd.members[1].address = [10, 0, 0, 99].into();
    crowd.enter([10, 0, 0, 22], guest("BOB.example"));
    let mut after = crowd.guests();
    after.rotate_right(1);
    assert_eq!(before[0].1, after[0].1, "bob's address");
    assert_eq!(before[1], after[1]);
    assert_eq!(after.len(), 2);
}
