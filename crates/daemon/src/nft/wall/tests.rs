use engine::firewall::access::Origin;
use engine::firewall::{Mode, Template};
use engine::skip::{Association, IvLen, MasterKey, Parts, Profile, Renewal};
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use super::*;

/// A pair whose packets prove who sent them.
pub(crate) fn association(local: Name, remote: Name) -> Association {
    let association = Association::new(Parts {
        profile: Profile::Draft,
        algorithms: Algorithms::new(KijAlg::TripleDes, CryptAlg::Des, MacAlg::Md5)
            .expect("a choice"),
        local,
        remote,
        iv_len: IvLen::Whole,
        renewal: Renewal::DRAFT,
        master: MasterKey::manual(&[7; 32]),
    });
    association.expect("an association")
}

fn template(remote: Name, inside: &[(&str, u8)]) -> Template {
    let subnet = |(first, bits): &(&str, u8)| {
        TrafficSelector::subnet(first.parse().expect("an address"), *bits)
    };
    Template {
        association: association(Name::NONE, remote),
        inside: inside.iter().map(subnet).collect(),
        home_address: None,
        stored_n: 0,
        heard_n: 0,
    }
}

fn setup() -> FirewallSetup {
    let node = Name::ipv4([10, 18, 3, 17].into());
    FirewallSetup {
        config: Config {
            outside: [203, 0, 113, 1].into(),
            inside: [192, 168, 0, 1].into(),
            home_agents: vec![[10, 18, 3, 1].into()],
            entries: vec![
                (Origin::Nomadic, template(node, &[])),
                (
                    Origin::Network([192, 168, 4, 0].into(), 24),
                    template(Name::NONE, &[("10.18.0.0", 16)]),
                ),
            ],
            lifetime: engine::firewall::LIFETIME,
            mode: Mode::Binding,
            removes_header: false,
            takes_udp: false,
            end_to_end: Vec::new(),
        },
        outside_interface: "eth0".to_owned(),
        inside_interfaces: Vec::new(),
        names: vec!["ms1".to_owned(), "branch".to_owned()],
    }
}

fn written(setup: &FirewallSetup) -> String {
    let links = Links::of(&["eth0", "eth1", "lo", "caravan0"].map(str::to_owned));
    text("caravan.firewall", "caravan0", (setup, &links))
}

/// It has another name, or is another link.
#[test]
fn a_link_that_came_later_is_outside() {
    let mut setup = setup();
    for (named, inside) in [
        (&[][..], "{ \"eth1\", \"lo\" }"),
        (&["lan0"], "{ \"lan0\", \"lo\" }"),
    ] {
        setup.inside_interfaces = named.iter().map(|it| (*it).to_owned()).collect();
        let text = written(&setup);
        // Nothing is said by what a link is not called.
        assert!(!text.contains("name !="), "{text}");
        let through = chain(&text, "through");
        let rules = through.lines().map(str::trim).skip(2);
        for rule in rules.filter(|it| it.ends_with("accept")) {
            let known = rule.contains(inside) || rule.matches("caravan0").count() == 2;
            assert!(known, "{rule}");
        }
    }
}

fn chain<'a>(text: &'a str, name: &str) -> &'a str {
    let (_, rest) = text
        .split_once(&format!("chain {name} {{"))
        .expect("a chain");
    rest.split_once("\n  }").map_or(rest, |(own, _)| own)
}

#[test]
fn only_skip_comes_from_outside_and_nothing_is_forwarded_there() {
    let text = written(&setup());
    let input = chain(&text, "from-outside");
    let any = "    meta nfproto ipv4 ip daddr 203.0.113.1 ip protocol 57 accept\n";
    assert!(input.contains(any), "{input}");
    assert!(input.trim_end().ends_with("counter drop"), "{input}");
    let through = chain(&text, "through");
    let end = "iifname { \"eth1\", \"lo\" } oifname { \"eth1\", \"lo\" } accept\n    counter drop";
    assert!(through.trim_end().ends_with(end), "{through}");
    // What is opened never leaves to the outside.
    let opened = through
        .lines()
        .filter(|line| line.contains("iifname \"caravan0\""));
    for line in opened.filter(|line| line.ends_with("accept")) {
        let stays = !line.contains("eth0");
        assert!(stays, "{line}");
    }
    let branch = "ip saddr 192.168.4.0-192.168.4.255 ip daddr 10.18.0.0-10.18.255.255 accept";
    assert!(through.contains(branch), "{through}");
}

#[test]
fn inside_addresses_do_not_leave_to_the_outside() {
    let text = written(&setup());
    let output = chain(&text, "to-outside");
    let own = "ip saddr != { 203.0.113.1, 192.168.0.1, 0.0.0.0 ";
    assert!(text.contains(own), "{output}");
}

#[test]
fn udp_comes_in_only_where_the_file_takes_it_and_only_to_the_port_of_skip() {
    let mut setup = setup();
    let port = format!("udp dport {} accept", engine::skip::udp::PORT);
    assert!(!written(&setup).contains(&port));
    setup.config.takes_udp = true;
    let text = written(&setup);
    let input = chain(&text, "from-outside");
    let line = format!("    meta nfproto ipv4 ip daddr 203.0.113.1 {port}\n");
    assert!(input.contains(&line), "{input}");
}

#[test]
fn what_claims_to_come_from_a_home_agent_does_not_come_from_outside() {
    let mut setup = setup();
    let forged = [
        "ip daddr 192.168.0.1 counter drop",
        "ip saddr { 10.18.3.1 } counter drop",
        "ip saddr 10.18.0.0-10.18.255.255 counter drop",
        "ct state established,related accept",
    ]
    .join("\n    ");
    let with = written(&setup);
    assert!(chain(&with, "from-outside").contains(&forged), "{with}");
    // Nor does its tunnel leave there, if the route inside is gone.
    let inside = "oifname { \"caravan0\", \"eth1\", \"lo\" } accept\n    \
                  ip daddr { 10.18.3.1 } counter drop";
    assert!(chain(&with, "to-outside").contains(inside), "{with}");
    // With one leg, inside is where outside is.
    setup.config.inside = setup.config.outside;
    let without = written(&setup);
    assert!(
        !chain(&without, "from-outside").contains("saddr {"),
        "{without}"
    );
}

#[test]
fn skip_from_end_to_end_passes_both_ways_and_nothing_else() {
    let mut setup = setup();
    setup.config.home_agents.clear();
    setup.config.entries.clear();
    setup.config.end_to_end = vec![[10, 18, 3, 1].into()];
    let text = written(&setup);
    let through = chain(&text, "through");
    let passing = through.lines().filter(|it| it.contains("protocol"));
    let passing: Vec<&str> = passing.map(str::trim).collect();
    let skip = |device: &str, end: &str| {
        format!("{device} meta nfproto ipv4 ip {end} 10.18.3.1 ip protocol 57 accept")
    };
    let about = |device: &str| format!("{device} ct protocol 57 ct state related accept");
    let (inwards, outwards) = (
        "iifname \"eth0\" oifname { \"eth1\", \"lo\" }",
        "iifname { \"eth1\", \"lo\" } oifname \"eth0\"",
    );
    let expected = [
        about(inwards),
        skip(inwards, "daddr"),
        about(outwards),
        skip(outwards, "saddr"),
    ];
    assert_eq!(passing, expected);
    assert!(!text.contains("{  }"), "an empty set is none of nft");
}
