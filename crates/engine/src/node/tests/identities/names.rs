//! A certificate has many names in many spellings, and counts as one peer.

use super::*;

const NAMES: [&str; 3] = ["Ms.Example", "vpn.example", "10.0.0.10"];

/// The gateway's peers while this station, then that one, comes up.
fn one_after_the_other(first: Connection, second: Connection) -> [Vec<(String, Vec<IpAddr>)>; 2] {
    let mut crowd = Crowd::new(vec![certified_gateway(|_| {})]);
    crowd.enter([10, 0, 0, 10], first);
    let before = crowd.guests();
    crowd.members[1].address = [10, 0, 0, 99].into();
    crowd.enter([10, 0, 0, 11], second);
    [before, crowd.guests()]
}

#[test]
fn every_name_and_spelling_of_one_certificate_is_one_peer_with_one_address() {
    let utf8 = b"\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x0c\x02mS".to_vec();
    let claims = [
        (identity("MS.EXAMPLE"), "ms.example"),
        (identity("Vpn.example"), "vpn.example"),
        (identity("10.0.0.10"), "10.0.0.10"),
        (identity("cn=MS"), "CN=Ms"),
        (Identity::DistinguishedName(utf8), "CN=Ms"),
    ];
    for (claimed, shown) in claims {
        let first = certified_station(0, "CN=Ms", &NAMES, identity("ms.example"));
        let second = certified_station(0, "CN=Ms", &NAMES, claimed);
        let [before, after] = one_after_the_other(first, second);
        assert_eq!(before.len(), 1);
        assert_eq!(before[0].0, "ms.example");
        assert_eq!(after.len(), 1, "{after:?}");
        assert_eq!(after[0].0, shown);
        assert_eq!(before[0].1, after[0].1);
    }
}

#[test]
fn a_renewed_certificate_keeps_the_address_and_replaces_the_tunnel() {
    let first = certified_station(0, "CN=Ms", &NAMES[..1], identity("ms.example"));
    let renewed = certified_station(1, "CN=Ms", &["ms.example", "new.example"], {
        identity("new.example")
    });
    let [before, after] = one_after_the_other(first, renewed);
    assert_eq!(after.len(), 1, "{after:?}");
    assert_eq!(before[0].1, after[0].1);
}

#[test]
fn certificates_of_other_names_are_other_peers() {
    for (subject, names) in [("CN=Ms2", &NAMES[..1]), ("CN=Ms", &["ms2.example"])] {
        let first = certified_station(0, "CN=Ms", &NAMES[..1], identity("ms.example"));
        let second = certified_station(1, subject, names, identity(names[0]));
        let [before, after] = one_after_the_other(first, second);
        assert_eq!(after.len(), 2, "{after:?}");
        assert_ne!(before[0].1, after[1].1);
    }
}

#[test]
fn the_empty_subject_is_no_identity() {
    let empty = Identity::DistinguishedName(vec![0x30, 0]);
    let mut crowd = Crowd::new(vec![certified_gateway(|_| {})]);
    let station = certified_station(0, "CN=Ms", &NAMES[..1], empty);
    crowd.enter([10, 0, 0, 10], station);
    assert_eq!(crowd.gateway().established(), 0);
    let reason = "the peer's ID of type 9 is no identity: ";
    assert!(crowd.refusal().starts_with(reason), "{}", crowd.refusal());
}

#[test]
fn a_pre_shared_key_shows_the_name_that_it_is_configured_for() {
    let gateway = responder(|connection| {
        connection.remote.identities = vec![pattern("Ms.example")];
    });
    let mut crowd = Crowd::new(vec![gateway]);
    let claims = |name: &str| station(|it| it.local.identity = identity(name));
    crowd.enter([10, 0, 0, 10], claims("mS.EXAMPLE"));
    let before = crowd.guests();
    assert_eq!(before[0].0, "Ms.example");
    crowd.members[1].address = [10, 0, 0, 99].into();
    crowd.enter([10, 0, 0, 11], claims("ms.example"));
    assert_eq!(crowd.guests(), before);
}
