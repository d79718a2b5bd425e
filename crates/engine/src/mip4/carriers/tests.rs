use std::net::SocketAddrV4;

use super::*;
use crate::mip4::foreign_agent::Mac;
use crate::plane::{Datagrams, InboundPlane, Offloads, OutboundPlane};
use crate::time::Instant;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 2);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 9);
const FIREWALL: Ipv4Addr = Ipv4Addr::new(192, 168, 4, 1);
const NETWORK: HomeNetwork = HomeNetwork {
    address: AGENT,
    prefix_len: 24,
};

fn tunnel(care_of: Ipv4Addr) -> Tunnel {
    Tunnel {
        care_of,
        encapsulation: Encapsulation::IpInIp,
        udp: None,
        firewall: None,
        is_reverse: true,
        has_broadcasts: false,
        is_colocated: true,
    }
}

/// The changes in words.
fn said(changes: &[Change]) -> Vec<String> {
    let each = changes.iter().map(|change| match change {
        Change::Inbound(InboundChange::Install(sa)) => format!("in {}", ends(sa)),
        Change::Outbound(OutboundChange::Install(sa)) => {
            let nested = if sa.is_nested { " nested" } else { "" };
            format!("out {}{nested}", ends(sa))
        }
        Change::Inbound(InboundChange::Remove(..)) => "in ends".to_owned(),
        Change::Outbound(OutboundChange::Remove(..)) => "out ends".to_owned(),
        _ => "another".to_owned(),
    });
    each.collect()
}

fn ends(sa: &Sa) -> String {
    let list = |list: &[TrafficSelector]| {
        let each = list.iter().map(ToString::to_string);
        each.collect::<Vec<_>>().join("+")
    };
    let to = match sa.path.remote.port() {
        0 => sa.path.remote.ip().to_string(),
        _ => sa.path.remote.to_string(),
    };
    format!("{} -> {} via {to}", list(&sa.local), list(&sa.remote))
}

fn home_agent(outside: Vec<Outside>) -> HomeCarriers {
    HomeCarriers::new(NETWORK, outside)
}

#[test]
fn a_binding_has_a_tunnel_and_a_reverse_tunnel() {
    let mut home_agent = home_agent(Vec::new());
    assert!(home_agent.begin(&BTreeSet::new()).is_empty());
    let both = [
        "in 0.0.0.0/0 -> 10.18.3.17 via 203.0.113.9",
        "out 0.0.0.0/0 -> 10.18.3.17 via 203.0.113.9",
    ];
    let changes = home_agent.follow(HOME, &[tunnel(CARE_OF)]);
    assert_eq!(said(&changes), both);
    let renewed = home_agent.follow(HOME, &[tunnel(CARE_OF)]);
    assert!(renewed.is_empty(), "a renewal changes nothing");
    let one_way = Tunnel {
        is_reverse: false,
        ..tunnel(CARE_OF)
    };
    let changes = home_agent.follow(HOME, &[one_way]);
    assert_eq!(said(&changes), [both[1], "in ends", "out ends"]);
    assert_eq!(said(&home_agent.follow(HOME, &[])), ["out ends"]);
    assert_eq!(home_agent.carriers().iter().count(), 0);
}

#[test]
fn simultaneous_bindings_are_two_carriers_of_the_same_packets() {
    let mut home_agent = home_agent(Vec::new());
    let other = Ipv4Addr::new(198, 51, 100, 4);
    home_agent.follow(HOME, &[tunnel(CARE_OF)]);
    let changes = home_agent.follow(HOME, &[tunnel(CARE_OF), tunnel(other)]);
    assert_eq!(
        said(&changes),
        [
            "in 0.0.0.0/0 -> 10.18.3.17 via 198.51.100.4",
            "out 0.0.0.0/0 -> 10.18.3.17 via 198.51.100.4",
        ]
    );
    assert_eq!(home_agent.carriers().iter().count(), 2);
}

#[test]
fn broadcasts_are_wrapped_twice_through_a_foreign_agent() {
    let near = Tunnel {
        has_broadcasts: true,
        ..tunnel(CARE_OF)
    };
    let changes = home_agent(Vec::new()).follow(HOME, &[near]);
    let broadcasts = "10.18.3.255+255.255.255.255";
    assert_eq!(
        said(&changes)[1],
        format!("out 0.0.0.0/0 -> 10.18.3.17+{broadcasts} via 203.0.113.9")
    );
    let far = Tunnel {
        is_colocated: false,
        ..near
    };
    let changes = home_agent(Vec::new()).follow(HOME, &[far]);
    assert_eq!(
        said(&changes)[1..],
        [
            "out 0.0.0.0/0 -> 10.18.3.17 via 203.0.113.9".to_owned(),
            format!("out 0.0.0.0/0 -> {broadcasts} via 10.18.3.17 nested"),
        ]
    );
}

#[test]
fn a_tunnel_in_udp_goes_to_the_address_that_the_nat_shows() {
    let behind = Tunnel {
        udp: Some(SocketAddrV4::new([198, 51, 100, 1].into(), 40_434)),
        ..tunnel(Ipv4Addr::new(192, 168, 1, 5))
    };
    let changes = home_agent(Vec::new()).follow(HOME, &[behind]);
    assert_eq!(
        said(&changes)[1],
        "out 0.0.0.0/0 -> 10.18.3.17 via 198.51.100.1:40434"
    );
}

#[test]
fn an_address_outside_is_reached_through_the_firewall_of_the_configuration() {
    let outside = Outside {
        care_of: TrafficSelector::subnet(Ipv4Addr::new(203, 0, 113, 0).into(), 24),
        firewall: FIREWALL,
    };
    let mut home_agent = home_agent(vec![outside]);
    let way = "10.18.3.2 -> 203.0.113.0/24 via 192.168.4.1";
    let begun = home_agent.begin(&BTreeSet::new());
    assert_eq!(said(&begun), [format!("in {way}"), format!("out {way}")]);
    let away = Tunnel {
        firewall: Some(FIREWALL),
        ..tunnel(CARE_OF)
    };
    let changes = home_agent.follow(HOME, &[away]);
    assert_eq!(
        said(&changes)[1..],
        ["out 0.0.0.0/0 -> 10.18.3.17 via 203.0.113.9 nested"]
    );
}

#[test]
fn two_nodes_with_one_care_of_address_share_the_way_to_the_firewall() {
    let mut home_agent = home_agent(Vec::new());
    let away = Tunnel {
        firewall: Some(FIREWALL),
        ..tunnel(CARE_OF)
    };
    let other = Ipv4Addr::new(10, 18, 3, 18);
    let way = "10.18.3.2 -> 203.0.113.9 via 192.168.4.1";
    let changes = home_agent.follow(HOME, &[away]);
    assert_eq!(
        said(&changes)[..2],
        [format!("in {way}"), "out  ->  via 192.168.4.1".to_owned()]
    );
    assert_eq!(changes.len(), 4);
    assert_eq!(home_agent.follow(other, &[away]).len(), 2, "only its own");
    assert_eq!(home_agent.follow(HOME, &[]).len(), 2, "the other needs it");
    assert_eq!(home_agent.follow(other, &[]).len(), 4);
    assert_eq!(home_agent.carriers().iter().count(), 0);
}

/// A home agent's packets, and where the firewall's tunnel leads them.
struct Sent {
    carriers: HomeCarriers,
    plane: OutboundPlane,
}

impl Sent {
    fn new(carriers: HomeCarriers) -> Self {
        let random = crypto::rand::Seed::new([4; 32]).stream("outbound", 0);
        Self {
            carriers,
            plane: OutboundPlane::new(random, Offloads::default()),
        }
    }

    fn apply(&mut self, changes: Vec<Change>) {
        for change in changes {
            if let Change::Outbound(change) = change {
                self.plane.apply(change, Instant(0));
            }
        }
    }

    fn follow(&mut self, home: Ipv4Addr, tunnels: &[Tunnel]) {
        let changes = self.carriers.follow(home, tunnels);
        self.apply(changes);
    }

    /// Which hosts get a packet: the other ends of its outermost tunnels.
    fn ends(&mut self, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<IpAddr> {
        let mut packet = vec![0; 28];
        let header = wire::ip::ipv4::Header {
            tos: 0,
            id: 0,
            dont_fragment: true,
            ttl: 64,
            protocol: wire::ip::protocol::UDP,
            source,
            destination,
        };
        header.write(&mut packet);
        let mut out = Datagrams::new();
        self.plane.seal(&mut packet, Instant(0), &mut out);
        out.runs().iter().map(|run| run.path.remote.ip()).collect()
    }
}

/// Private networks use the same addresses.
#[test]
fn nodes_with_one_care_of_address_behind_two_firewalls_stay_apart() {
    let second = Ipv4Addr::new(192, 168, 4, 2);
    let correspondent = Ipv4Addr::new(10, 18, 3, 5);
    let other = Ipv4Addr::new(10, 18, 3, 18);
    let through = |firewall| Tunnel {
        firewall: Some(firewall),
        ..tunnel(CARE_OF)
    };
    let mut sent = Sent::new(home_agent(Vec::new()));
    sent.follow(HOME, &[through(second)]);
    sent.follow(other, &[through(FIREWALL)]);
    for firewall in [FIREWALL, second, FIREWALL] {
        let changes = sent.carriers.reply(CARE_OF, firewall);
        sent.apply(changes);
        assert_eq!(sent.ends(AGENT, CARE_OF), [IpAddr::from(firewall)]);
        assert_eq!(sent.ends(correspondent, HOME), [IpAddr::from(second)]);
        assert_eq!(sent.ends(correspondent, other), [IpAddr::from(FIREWALL)]);
    }
    sent.follow(HOME, &[]);
    assert!(sent.ends(correspondent, HOME).is_empty());
    assert_eq!(sent.ends(correspondent, other), [IpAddr::from(FIREWALL)]);
    sent.follow(other, &[]);
    assert!(sent.ends(correspondent, other).is_empty());
}

/// The configuration says how replies and data go, whatever a request names.
#[test]
fn the_firewall_of_the_configuration_comes_first() {
    let outside = Outside {
        care_of: TrafficSelector::subnet(Ipv4Addr::new(203, 0, 113, 0).into(), 24),
        firewall: FIREWALL,
    };
    let mut sent = Sent::new(home_agent(vec![outside]));
    let begun = sent.carriers.begin(&BTreeSet::new());
    sent.apply(begun);
    let named = Ipv4Addr::new(192, 168, 4, 2);
    let away = Tunnel {
        firewall: Some(named),
        ..tunnel(CARE_OF)
    };
    sent.follow(HOME, &[away]);
    assert!(sent.carriers.reply(CARE_OF, named).is_empty());
    for (source, to) in [(AGENT, CARE_OF), (Ipv4Addr::new(10, 18, 3, 5), HOME)] {
        assert_eq!(sent.ends(source, to), [IpAddr::from(FIREWALL)]);
    }
}

#[test]
fn a_node_has_carriers_only_while_it_is_registered() {
    let registered = |tunnel, through| State::Registered {
        tunnel,
        through,
        encapsulates_delivery: through.is_some(),
        keepalive: 0,
    };
    let own = HomeNetwork {
        address: HOME,
        prefix_len: 24,
    };
    let of = |state: &State| {
        let carriers = of_node(own, AGENT, state);
        said(&Carriers::default().follow(Owner::Home(HOME), carriers))
    };
    assert!(of(&State::Unreachable).is_empty());
    assert!(of(&State::Home).is_empty());
    assert_eq!(
        of(&registered(tunnel(CARE_OF), None)),
        [
            "in 10.18.3.17 -> 0.0.0.0/0 via 10.18.3.2",
            "out 10.18.3.17 -> 0.0.0.0/0 via 10.18.3.2",
        ]
    );
    let visiting = Tunnel {
        is_colocated: false,
        has_broadcasts: true,
        ..tunnel(CARE_OF)
    };
    assert_eq!(
        of(&registered(visiting, Some(Ipv4Addr::new(203, 0, 113, 1)))),
        [
            "out 10.18.3.17 -> 0.0.0.0/0 via 203.0.113.1",
            "in 10.18.3.255+255.255.255.255 -> 0.0.0.0/0 via 10.18.3.2",
        ]
    );
}

#[test]
fn a_visitor_has_its_tunnel_and_encapsulating_delivery() {
    let visitor = Visitor {
        home_address: HOME,
        home_agent: AGENT,
        mac: Mac([2; 6]),
        encapsulation: Encapsulation::Gre,
        is_reverse: true,
        encapsulates_delivery: true,
        udp: None,
        keepalive: 0,
    };
    let address = Ipv4Addr::new(203, 0, 113, 1);
    let carriers = of_visitor((address, 0), CARE_OF, &visitor);
    assert_eq!(
        said(&Carriers::default().follow(Owner::Home(HOME), carriers)),
        [
            "in 10.18.3.17 -> 0.0.0.0/0 via 10.18.3.2",
            "out 10.18.3.17 -> 0.0.0.0/0 via 10.18.3.2",
            "in 0.0.0.0/0 -> 10.18.3.17 via 10.18.3.17",
        ]
    );
    let behind = Visitor {
        udp: Some(SocketAddrV4::new(AGENT, PORT)),
        encapsulates_delivery: false,
        ..visitor
    };
    let carriers = of_visitor((address, 0), CARE_OF, &behind);
    assert_eq!(
        said(&Carriers::default().follow(Owner::Home(HOME), carriers)),
        [
            "in 10.18.3.17 -> 0.0.0.0/0 via 10.18.3.2:434",
            "out 10.18.3.17 -> 0.0.0.0/0 via 10.18.3.2:434",
        ]
    );
}

/// The planes end with what the carriers say, however often tunnels change.
#[test]
fn the_planes_follow_any_changes() {
    let mut random = crypto::rand::Seed::new([3; 32]).stream("carriers", 0);
    let seed = crypto::rand::Seed::new([4; 32]);
    let mut outbound = OutboundPlane::new(seed.stream("outbound", 0), Offloads::default());
    let mut inbound = InboundPlane::new(Offloads::default());
    let mut home_agent = home_agent(Vec::new());
    for _ in 0..2_000 {
        let home = Ipv4Addr::new(10, 18, 3, (random.u32() % 5) as u8 + 10);
        let count = random.u32() % 4;
        let mut tunnels: Vec<Tunnel> = (0..count)
            .map(|number| Tunnel {
                is_reverse: random.u32().is_multiple_of(2),
                firewall: random.u32().is_multiple_of(2).then_some(FIREWALL),
                ..tunnel(Ipv4Addr::new(203, 0, 113, number as u8 + 1))
            })
            .collect();
        tunnels.truncate(random.u32() as usize % 4);
        for change in home_agent.follow(home, &tunnels) {
            match change {
                Change::Inbound(change) => drop(inbound.apply(change)),
                Change::Outbound(change) => drop(outbound.apply(change, Instant(0))),
            }
        }
        let all = || home_agent.carriers().iter();
        let into = all().filter(|(.., it)| it.outbound.is_some()).count();
        let from = all().filter(|(.., it)| it.inbound.is_some()).count();
        assert_eq!(outbound.report().associations.len(), into);
        assert_eq!(inbound.report().associations.len(), from);
    }
}
