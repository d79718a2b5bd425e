//! Peers of transport mode appear inside under a pool address, or not at all.

use super::*;
use crate::config::Pool;

/// A station whose traffic to the gateway is protected on these ports.
fn host(name: &str, ports: &[&str]) -> Connection {
    station(|connection| {
        connection.local.identity = identity(name);
        connection.wants_inner = InnerFamilies::default();
        let child = &mut connection.children[0];
        child.mode = Mode::Transport;
        let remotes: Vec<String> = ports.iter().map(|it| format!("0.0.0.0/0[{it}]")).collect();
        let remotes: Vec<&str> = remotes.iter().map(String::as_str).collect();
        child.remote = selectors(&remotes);
    })
}

fn hosts(pools: Vec<usize>) -> Connection {
    responder(|connection| {
        connection.remote.identities = vec![IdentityPattern::Any];
        connection.pools = pools;
        connection.children[0].mode = Mode::Transport;
        connection.children[0].local.clear();
    })
}

fn with_pool(connection: Connection, last: u8) -> Crowd {
    let mut crowd = Crowd::new(vec![connection]);
    let config = &crowd.gateway().config;
    let pools = config.pools.iter().enumerate().map(|(at, pool)| Pool {
        last: if at == 0 {
            [10, 99, 0, last].into()
        } else {
            pool.last
        },
        ..pool.clone()
    });
    let config = Config {
        connections: config.connections.clone(),
        pools: pools.collect(),
        radius: None,
        limits: config.limits.clone(),
    };
    crowd.input(0, Input::Configure(Arc::new(config)));
    crowd
}

#[test]
fn all_children_of_one_peer_are_shown_under_one_address() {
    let mut crowd = with_pool(hosts(vec![0]), 2);
    crowd.enter(
        [10, 0, 0, 10],
        host("a.example", &["tcp/80", "tcp/443", "udp/53"]),
    );
    let a = [
        "10.99.0.1[tcp/443]",
        "10.99.0.1[tcp/80]",
        "10.99.0.1[udp/53]",
    ];
    let protocols = |crowd: &Crowd| {
        let status = crowd.gateway().status(crowd.now);
        let sessions = status.connections.into_iter().flat_map(|it| it.sessions);
        let children = sessions.flat_map(|it| it.children);
        let mut shown: Vec<Option<IpAddr>> = children.map(|it| it.pool_address).collect();
        shown.sort();
        shown
    };
    assert_eq!(protocols(&crowd), [Some([10, 99, 0, 1].into()); 3], "{a:?}");
    crowd.enter([10, 0, 0, 11], host("b.example", &["tcp/80"]));
    assert_eq!(protocols(&crowd)[3], Some([10, 99, 0, 2].into()));
    // It stays the peer's during a renewal of phase 1.
    crowd.command(1, Command::RekeyIke("road".into()));
    crowd.run(Duration::from_secs(20));
    crowd.command(1, Command::RekeyChildren("road".into()));
    crowd.run(Duration::from_secs(20));
    assert_eq!(crowd.gateway().leases.live("inner"), 2);
    assert_eq!(protocols(&crowd)[..3], [Some([10, 99, 0, 1].into()); 3]);
    crowd.command(1, Command::Down("road".into()));
    crowd.run(Duration::from_secs(5));
    assert_eq!(crowd.gateway().leases.live("inner"), 1);
}

#[test]
fn without_an_address_to_stand_for_it_a_peer_is_refused() {
    let mut crowd = with_pool(hosts(vec![0]), 1);
    crowd.enter([10, 0, 0, 10], host("a.example", &["tcp/80"]));
    let second = crowd.enter([10, 0, 0, 11], host("b.example", &["tcp/80"]));
    assert!(!crowd.members[second].is_up());
    assert_eq!(crowd.destinations().len(), 1);
    assert_eq!(
        crowd.refusal(),
        "b.example asks for transport mode, but no pool address is free for it: pool inner is \
         exhausted"
    );
    assert!(crowd.drops(DropReason::NoInnerAddress) > 0);
    crowd.command(1, Command::Down("road".into()));
    crowd.run(Duration::from_secs(60));
    assert!(crowd.members[second].is_up());
}

#[test]
fn a_pool_of_the_other_family_stands_for_nobody() {
    let mut crowd = Crowd::new(vec![hosts(vec![1])]);
    let host = crowd.enter([10, 0, 0, 10], host("a.example", &["tcp/80"]));
    assert!(!crowd.members[host].is_up());
    assert!(crowd.destinations().is_empty());
    let refusal = crowd.refusal();
    assert!(
        refusal.ends_with("its connection has no pool of IPv4"),
        "{refusal}"
    );
}

#[test]
fn of_peers_without_a_pool_address_those_that_the_host_cannot_route_to_end() {
    let ended = |crowd: &Crowd| {
        let events = crowd.members[0].events.iter();
        let closed = events.filter_map(|event| match event {
            Event::SessionEnded { stay, summary } => {
                Some((stay.identity.clone(), summary.cause.clone()))
            }
            _ => None,
        });
        closed.collect::<Vec<_>>()
    };
    let mut crowd = with_pool(hosts(Vec::new()), 2);
    let [a, b] = [("a.example", 10), ("b.example", 11)]
        .map(|(name, last)| crowd.enter([10, 0, 0, last], host(name, &["tcp/80"])));
    let unroutable = BTreeSet::from([[10, 0, 0, 10].into(), [10, 0, 0, 99].into()]);
    crowd.input(0, Input::Unroutable(&unroutable));
    assert_eq!(crowd.guests(), [("b.example".to_owned(), Vec::new())]);
    // It may connect again, and the host may route to it by then.
    crowd.run(Duration::from_secs(60));
    let cause = EndCause::Unroutable;
    assert_eq!(ended(&crowd), [("a.example".to_owned(), cause)]);
    assert!(crowd.is_up(a) && crowd.is_up(b));

    // Traffic of these peers has a pool address.
    let mut crowd = with_pool(hosts(vec![0]), 2);
    let a = crowd.enter([10, 0, 0, 10], host("a.example", &["tcp/80"]));
    crowd.input(0, Input::Unroutable(&unroutable));
    crowd.run(Duration::from_secs(1));
    assert!(ended(&crowd).is_empty() && crowd.is_up(a));
}

#[test]
fn a_bare_peer_at_an_address_that_no_route_leads_to_gets_no_tunnel() {
    let mut crowd = with_pool(hosts(Vec::new()), 2);
    let a = crowd.enter([10, 0, 0, 10], host("a.example", &["tcp/80"]));
    for (at, address) in [[127, 0, 0, 2], [224, 0, 0, 9]].into_iter().enumerate() {
        let b = crowd.enter(address, host("b.example", &["tcp/80"]));
        assert!(!crowd.is_up(b));
        assert_eq!(crowd.guests(), [("a.example".to_owned(), Vec::new())]);
        assert_eq!(crowd.destinations().len(), 1);
        assert!(crowd.drops(DropReason::UnusableAddress) > at as u64);
        let [w, x, y, z] = address;
        assert_eq!(
            crowd.refusal(),
            format!(
                "b.example has no pool address and is at {w}.{x}.{y}.{z}, which no route can lead \
                 to"
            )
        );
        crowd.members.remove(b);
    }
    assert!(crowd.is_up(a));

    // A pool address stands for it.
    let mut crowd = with_pool(hosts(vec![0]), 2);
    let b = crowd.enter([127, 0, 0, 2], host("b.example", &["tcp/80"]));
    assert!(crowd.is_up(b));
}

#[test]
fn a_bare_peer_is_not_followed_to_an_address_that_no_route_leads_to() {
    let homes = |crowd: &Crowd| {
        let status = crowd.gateway().status(crowd.now);
        let sessions = status.connections.into_iter().flat_map(|it| it.sessions);
        let homes = sessions.map(|it| (it.path.remote.ip(), it.home.remote.ip()));
        homes.collect::<Vec<_>>()
    };
    for (to, is_followed) in [([10, 0, 0, 77], true), ([127, 0, 0, 2], false)] {
        let mut crowd = with_pool(hosts(Vec::new()), 2);
        let a = crowd.enter([10, 0, 0, 10], host("a.example", &["tcp/80"]));
        // Its NAT gives it another address.
        crowd.members[a].address = to.into();
        crowd.command(a, Command::RekeyChildren("road".into()));
        crowd.run(Duration::from_secs(2));
        let home: IpAddr = if is_followed { to } else { [10, 0, 0, 10] }.into();
        assert_eq!(homes(&crowd), [(home, home)]);
        assert_eq!(crowd.drops(DropReason::UnusableAddress) > 0, !is_followed);
    }
}

#[test]
fn a_link_local_address_leads_to_no_bare_peer() {
    let (bare, pooled) = (hosts(Vec::new()), hosts(vec![0]));
    let fe80: IpAddr = "fe80::1".parse().unwrap();
    assert!(!bare.has_room_at(fe80) && pooled.has_room_at(fe80));
    let ipv4: IpAddr = [169, 254, 0, 1].into();
    assert!(bare.has_room_at(ipv4) && bare.has_room_at("fd00::1".parse().unwrap()));
}
