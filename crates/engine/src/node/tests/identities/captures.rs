//! If many may request parts of one range, nobody can take another's part.

use super::*;

const SITES: &str = "10.0.0.0/8";

/// A site's gateway with this network behind it.
fn site(subject: &str, networks: &[&str]) -> Connection {
    let mut site = certified_station(0, subject, &[], identity(subject));
    site.wants_inner = InnerFamilies::default();
    site.children[0].local = selectors(networks);
    site
}

/// Any certified site, with any part of this range.
fn sites(range: &str) -> Connection {
    certified_gateway(|connection| {
        connection.name = "sites".into();
        connection.pools.clear();
        connection.children[0].remote = selectors(&[range]);
    })
}

#[test]
fn a_part_of_another_peers_network_is_refused_and_both_are_named() {
    for part in [
        "10.1.5.0/24",
        "10.1.0.0/16",
        "10.0.0.0/8",
        "10.1.0.9[tcp/80]",
    ] {
        let mut crowd = Crowd::new(vec![sites(SITES)]);
        crowd.enter([10, 9, 0, 10], site("CN=a", &["10.1.0.0/16"]));
        let thief = crowd.enter([10, 9, 0, 20], site("CN=b", &[part]));
        assert_eq!(crowd.destinations(), ["10.1.0.0/16"], "{part}");
        assert!(!crowd.members[thief].is_up());
        assert_eq!(
            crowd.refusal(),
            format!(
                "CN=b asks for {part}, which it may not have: CN=a of connection sites has \
                 10.1.0.0/16"
            )
        );
        assert!(crowd.drops(DropReason::SelectorTaken) > 0);
        let told = |event: &Event| match event {
            Event::NegotiationFailed { reason, .. } => reason.contains("INVALID-ID-INFORMATION"),
            _ => false,
        };
        assert!(crowd.members[thief].events.iter().any(told));
    }
}

#[test]
fn networks_side_by_side_are_served() {
    let mut crowd = Crowd::new(vec![sites(SITES)]);
    crowd.enter([10, 9, 0, 10], site("CN=a", &["10.1.0.0/16"]));
    crowd.enter(
        [10, 9, 0, 20],
        site("CN=b", &["10.2.0.0/16", "10.3.0.0/16"]),
    );
    let mut destinations = crowd.destinations();
    destinations.sort();
    assert_eq!(destinations, ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"]);
    assert_eq!(crowd.drops(DropReason::SelectorTaken), 0);
}

#[test]
fn a_peer_renews_and_comes_back_from_elsewhere_with_what_it_has() {
    let mut crowd = Crowd::new(vec![sites(SITES)]);
    let first = crowd.enter([10, 9, 0, 10], site("CN=a", &["10.1.0.0/16"]));
    for command in [
        Command::RekeyChildren("road".into()),
        Command::RekeyIke("road".into()),
    ] {
        crowd.command(first, command);
        crowd.run(Duration::from_secs(30));
        assert_eq!(crowd.destinations(), ["10.1.0.0/16"]);
    }
    // Its old tunnel lives on at the gateway: neither a first contact nor a delete comes.
    crowd.members[first].address = [10, 9, 0, 99].into();
    let mut moved = site("CN=A", &["10.1.0.0/17"]);
    moved.local.identity = identity("cn=a");
    let moved = crowd.enter([10, 9, 0, 11], moved);
    assert!(crowd.members[moved].is_up());
    assert_eq!(crowd.drops(DropReason::SelectorTaken), 0);
}

#[test]
fn a_network_is_free_when_its_tunnel_has_ended() {
    let mut crowd = Crowd::new(vec![sites(SITES)]);
    let first = crowd.enter([10, 9, 0, 10], site("CN=a", &["10.1.0.0/16"]));
    let second = crowd.enter([10, 9, 0, 20], site("CN=b", &["10.1.0.0/16"]));
    assert!(!crowd.members[second].is_up());
    crowd.command(first, Command::Down("road".into()));
    crowd.run(Duration::from_secs(60));
    assert!(crowd.members[second].is_up());
}

#[test]
fn what_a_connection_keeps_for_one_peer_is_refused_although_that_one_is_down() {
    let kept = certified_gateway(|connection| {
        connection.name = "headquarters".into();
        connection.pools.clear();
        connection.remote.identities = vec![pattern("CN=hq")];
        connection.children[0].remote = selectors(&["10.1.0.0/16"]);
    });
    let mut crowd = Crowd::new(vec![kept, sites(SITES)]);
    let thief = crowd.enter([10, 9, 0, 20], site("CN=b", &["10.1.5.0/24"]));
    assert!(!crowd.members[thief].is_up());
    assert!(
        crowd
            .refusal()
            .ends_with("connection headquarters reserves 10.1.0.0/16 for its peer"),
        "{}",
        crowd.refusal()
    );
    let owner = crowd.enter([10, 9, 0, 30], site("CN=hq", &["10.1.0.0/16"]));
    assert!(crowd.members[owner].is_up());
}

#[test]
fn sites_inside_a_tunnel_that_takes_everything_else_are_meant() {
    let everything = certified_gateway(|connection| {
        connection.name = "uplink".into();
        connection.pools.clear();
        connection.remote.identities = vec![pattern("CN=hub")];
        connection.children[0].remote = selectors(&["0.0.0.0/0"]);
    });
    let mut crowd = Crowd::new(vec![everything, sites(SITES)]);
    crowd.enter([10, 9, 0, 30], site("CN=hub", &["0.0.0.0/0"]));
    let one = crowd.enter([10, 9, 0, 10], site("CN=a", &["10.1.0.0/16"]));
    assert!(crowd.members[one].is_up());
}

#[test]
fn addresses_of_a_pool_are_lent_and_not_asked_for() {
    let lending = certified_gateway(|connection| {
        connection.name = "stations".into();
        connection.remote.identities = vec![pattern("*.example")];
    });
    let mut crowd = Crowd::new(vec![lending, sites(SITES)]);
    let thief = crowd.enter([10, 9, 0, 20], site("CN=b", &["10.99.0.1/32"]));
    assert!(!crowd.members[thief].is_up());
    let refusal = crowd.refusal();
    assert!(refusal.ends_with("it lies in pool inner"), "{refusal}");
    let name = ["ms.example"];
    let ms = certified_station(1, "CN=ms", &name, identity("ms.example"));
    let ms = crowd.enter([10, 9, 0, 40], ms);
    assert!(crowd.members[ms].is_up());
    let thief = crowd.enter([10, 9, 0, 21], site("CN=c", &["10.0.0.0/8"]));
    assert!(!crowd.members[thief].is_up());
    let refusal = crowd.refusal();
    assert!(
        refusal.contains("ms.example of connection stations"),
        "{refusal}"
    );
}

#[test]
fn a_part_of_a_range_that_reaches_into_a_pool_is_refused_although_nothing_is_lent() {
    for part in ["10.99.0.0/16", "10.98.0.0/15"] {
        let mut crowd = Crowd::new(vec![sites(SITES)]);
        let thief = crowd.enter([10, 9, 0, 20], site("CN=b", &[part]));
        assert!(!crowd.members[thief].is_up(), "{part}");
        let refusal = crowd.refusal();
        assert!(refusal.ends_with("it reaches into pool inner"), "{refusal}");
    }
}
