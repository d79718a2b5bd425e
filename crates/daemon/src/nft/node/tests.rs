use std::net::Ipv4Addr;

use engine::mip4::association::{Algorithm, Association, Associations, ReplayProtection};
use engine::mip4::firewall::{HomeFirewall, Side};
use engine::mip4::tunnel::UdpWish;
use engine::selector::TrafficSelector;
use wire::skip::Name;

use super::*;
use crate::config::Wall;
use crate::config::values::Transport;
use crate::nft::wall::tests::association;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const PEER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

fn firewall(is_udp: bool, clear: &[(Transport, u16)]) -> NodeFirewall {
    NodeFirewall {
        first: Wall {
            outside: PEER,
            association: association(Name::ipv4(HOME), Name::NONE),
        },
        behind: Vec::new(),
        others: Vec::new(),
        machine: Some(HomeFirewall {
            address: [192, 168, 4, 1].into(),
            inside: vec![TrafficSelector::subnet([10, 0, 0, 0].into(), 8)],
        }),
        side: Side::ByAddress,
        is_udp,
        takes_short_form: false,
        is_filtered: true,
        clear: clear.to_vec(),
    }
}

/// Another firewall may send to the node, which sends to the first one alone.
#[test]
fn firewalls_beside_the_first_one_are_heard_and_not_spoken_to() {
    let mut wall = firewall(false, &[]);
    let other = Ipv4Addr::new(203, 0, 113, 9);
    wall.others.push(Wall {
        outside: other,
        ..wall.first.clone()
    });
    let text = text(
        ("caravan.mobile", "caravan0"),
        &ends(),
        &Secured::by_skip(&wall),
    );
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    let heard = format!("ip saddr {{ {other}, {PEER} }} ip protocol 57 accept");
    assert!(input.contains(&heard), "{text}");
    assert!(!output.iter().any(|it| it.contains(&other.to_string())));
}

fn ends() -> Ends {
    Ends {
        open: OPEN.to_owned(),
        home: HOME,
        agent: Ipv4Addr::new(10, 18, 3, 1),
    }
}

const OPEN: &str = "{ \"caravan0\", \"docker0\", \"lo\" }";

/// The rules of a chain, in order.
fn chain(text: &str, name: &str) -> Vec<String> {
    let (_, rest) = text
        .split_once(&format!("chain {name} {{"))
        .expect("a chain");
    let (own, _) = rest.split_once("\n  }").expect("its end");
    let rules = own.lines().map(str::trim).filter(|it| !it.is_empty());
    rules.map(str::to_owned).collect()
}

#[test]
fn outside_only_skip_of_the_firewall_passes_and_never_the_home_address_in_clear() {
    let text = text(
        ("caravan.mobile", "caravan0"),
        &ends(),
        &Secured::by_skip(&firewall(false, &[])),
    );
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    for (rules, link, home, peer) in [
        (&input, "iifname", "daddr", "saddr"),
        (&output, "oifname", "saddr", "daddr"),
    ] {
        let place = |rule: String| rules.iter().position(|it| *it == rule).expect(&rule);
        let tunnel = place(format!("{link} \"caravan0\" accept"));
        let dropped = place(format!("ip {home} {HOME} counter drop"));
        let others = place(format!("{link} {OPEN} accept"));
        let skip = place(format!("ip {peer} {PEER} ip protocol 57 accept"));
        assert!(tunnel < dropped && dropped < others && others < skip);
        assert_eq!(rules.last().expect("one"), "counter drop");
        // Before it, nothing of the home address but registrations, and no other protocol.
        for rule in &rules[1..dropped] {
            let is_own = [
                link,
                "ip saddr 10.18.3.1 ip daddr",
                "ip daddr 10.18.3.1 udp sport 434 udp dport 434",
            ];
            assert!(is_own.iter().any(|it| rule.starts_with(it)), "{rule}");
        }
    }
    assert_eq!(chain(&text, "through").len(), 3, "nothing is forwarded");
}

#[test]
fn in_udp_no_other_port_of_either_end_passes() {
    let text = text(
        ("caravan.mobile", "caravan0"),
        &ends(),
        &Secured::by_skip(&firewall(true, &[])),
    );
    assert!(!text.contains("ip protocol 57"));
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    let ports = "udp sport 61057 udp dport 61057 accept";
    assert!(input.contains(&format!("ip saddr {PEER} {ports}")));
    assert!(output.contains(&format!("ip daddr {PEER} {ports}")));
    let other = text
        .lines()
        .filter(|line| line.contains("61057") && !line.contains(ports));
    assert_eq!(other.count(), 0);
}

#[test]
fn what_the_file_names_may_be_opened_from_here_alone() {
    let clear = [(Transport::Tcp, 80), (Transport::Udp, 53)];
    let text = text(
        ("caravan.mobile", "caravan0"),
        &ends(),
        &Secured::by_skip(&firewall(false, &clear)),
    );
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    for (protocol, port) in [("tcp", 80), ("udp", 53)] {
        let answers = format!("{protocol} sport {port} ct state established accept");
        assert!(input.contains(&answers), "{input:?}");
        assert!(output.contains(&format!("{protocol} dport {port} accept")));
    }
}

/// Anybody can send an error that quotes a flow of another program of this host.
#[test]
fn of_icmp_only_errors_about_what_passes_come_in_and_nothing_goes_out() {
    for is_udp in [false, true] {
        let text = text(
            ("caravan.mobile", "caravan0"),
            &ends(),
            &Secured::by_skip(&firewall(is_udp, &[(Transport::Tcp, 80)])),
        );
        let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
        let errors = "icmp type { destination-unreachable, time-exceeded, parameter-problem }";
        let skip = if is_udp { "udp" } else { "57" };
        let about = [
            format!("{skip} ct original ip daddr {PEER} "),
            format!("{skip} ct original ip saddr {PEER} "),
            "udp ct original ip daddr 10.18.3.1 ".to_owned(),
            "tcp ".to_owned(),
        ];
        let wanted =
            about.map(|flow| format!("ct state related ct protocol {flow}{errors} accept"));
        let found = input.iter().filter(|rule| rule.contains("icmp "));
        assert_eq!(found.cloned().collect::<BTreeSet<_>>(), wanted.into());
        assert!(!output.iter().any(|rule| rule.contains("icmp ")), "{text}");
    }
}

/// RFC 5266: between node and gateway IKE and ESP pass, and no port of theirs besides.
#[test]
fn before_a_vpn_gateway_only_ike_and_esp_pass() {
    let gateway = NodeGateway {
        connection: "work".to_owned(),
        addresses: vec![PEER, [203, 0, 113, 2].into()],
        is_filtered: true,
        clear: Vec::new(),
        outside: None,
    };
    let secured = Secured::by_ipsec(&gateway);
    let text = text(("caravan.mobile", "caravan0"), &ends(), &secured);
    for (name, home, peer) in [
        ("from-link", "daddr", "saddr"),
        ("to-link", "saddr", "daddr"),
    ] {
        let rules = chain(&text, name);
        let peers = format!("ip {peer} {{ {PEER}, 203.0.113.2 }}");
        let ike = format!("{peers} udp sport {{ 500, 4500 }} udp dport {{ 500, 4500 }} accept");
        let place = |rule: &str| rules.iter().position(|it| it == rule).expect(rule);
        let dropped = place(&format!("ip {home} {HOME} counter drop"));
        assert!(dropped < place(&ike), "{text}");
        place(&format!("{peers} ip protocol 50 accept"));
        let named = rules.iter().filter(|it| it.starts_with(&peers));
        assert_eq!(named.count(), 2);
        assert_eq!(rules.last().expect("one"), "counter drop");
    }
    assert!(!text.contains("57"), "no SKIP: {text}");
    let errors = "ct state related ct protocol 50 ct original ip saddr";
    assert!(text.contains(errors), "{text}");
}

/// RFC 5265: IKE and ESP are in the tunnel of the home agent outside, or pass alone between the
/// outer address and the gateway, which a foreign agent delivers.
#[test]
fn with_a_home_agent_outside_its_tunnel_and_messages_pass_and_ipsec_of_the_outer_address() {
    let agent = Ipv4Addr::new(198, 51, 100, 30);
    for (encapsulation, forms) in [
        (Encapsulation::IpInIp, &["4"][..]),
        (Encapsulation::Minimal, &["55", "4"]),
        (Encapsulation::Gre, &["47"]),
    ] {
        let gateway = NodeGateway {
            connection: "work".to_owned(),
            addresses: vec![PEER],
            is_filtered: true,
            clear: Vec::new(),
            outside: Some(outside(agent, encapsulation)),
        };
        let secured = Secured::by_ipsec(&gateway);
        let text = text(("caravan.mobile", "caravan0"), &ends(), &secured);
        for (name, peer, end) in [
            ("from-link", "saddr", "daddr"),
            ("to-link", "daddr", "saddr"),
        ] {
            let rules = chain(&text, name);
            let peers = format!("ip {peer} {agent} ");
            let own = rules.iter().filter_map(|it| it.strip_prefix(&peers));
            let forms = forms.iter().map(|it| format!("ip protocol {it} accept"));
            let messages = "udp sport 434 udp dport 434 accept".to_owned();
            assert_eq!(
                own.collect::<Vec<_>>(),
                forms.chain([messages]).collect::<Vec<_>>()
            );
            let gateway = rules
                .iter()
                .filter(|it| it.starts_with(&format!("ip {peer} {PEER}")));
            let by_link = [IKE, "ip protocol 50"];
            let by_link =
                by_link.map(|it| format!("ip {peer} {PEER} ip {end} 198.51.100.66 {it} accept"));
            assert_eq!(gateway.cloned().collect::<Vec<_>>(), by_link);
            // Within the tunnel only IPsec, from and to the outer address.
            let device = match name {
                "from-link" => "iifname",
                _ => "oifname",
            };
            let outer = format!("{device} \"caravan0\" ip {end} 198.51.100.66 ");
            let place = |rule: &str| rules.iter().position(|it| it == rule).expect(rule);
            let dropped = place(&format!("{outer}counter drop"));
            assert!(place(&format!("{outer}{IKE} accept")) < dropped);
            assert!(place(&format!("{outer}ip protocol 50 accept")) < dropped);
            assert!(dropped < place(&format!("{device} \"caravan0\" accept")));
        }
    }
}

fn outside(home_agent: Ipv4Addr, encapsulation: Encapsulation) -> mobile_node::Config {
    let replay = ReplayProtection::Timestamps;
    let one = Association::new(1_000, Algorithm::HmacSha256, replay, b"key").expect("a key");
    mobile_node::Config {
        home_address: [198, 51, 100, 66].into(),
        home_agent,
        nai: None,
        aaa: None,
        associations: Associations::new(vec![one]).expect("one"),
        foreign_agents: std::collections::BTreeMap::new(),
        lifetime: 300,
        encapsulation,
        is_reverse: true,
        encapsulates_delivery: false,
        wants_broadcasts: false,
        is_simultaneous: false,
        udp: UdpWish::BehindNat,
        firewall: None,
        hears_revocations: true,
        monitor: None,
    }
}
