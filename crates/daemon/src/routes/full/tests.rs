use super::*;
use crate::routes::Desired;

fn ranges(words: &[&str]) -> Vec<(IpAddr, IpAddr)> {
    let selectors = words
        .iter()
        .map(|word| word.parse::<engine::selector::TrafficSelector>());
    selectors
        .map(|it| it.map(|it| (it.first, it.last)).expect("a selector"))
        .collect()
}

fn full(v4: bool, v6: bool) -> FullTunnel {
    FullTunnel {
        v4,
        v6,
        lan: Lan::Allow,
        other_family: OtherFamily::Block,
    }
}

fn prefix_of(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

fn said(full: &[FullTunnel], taken: &[&str], resolvers: &[&str], asks: bool) -> Vec<String> {
    let taken = taken.iter().map(|text| prefix_of(text)).collect();
    let resolvers: Vec<IpAddr> = resolvers.iter().map(|it| it.parse().unwrap()).collect();
    let around = Surroundings {
        taken: &taken,
        resolvers: &resolvers,
        takes_questions: asks,
    };
    let found = rules(full, &around).into_iter();
    found
        .map(|(is_ipv6, purpose)| {
            let family = if is_ipv6 { "v6" } else { "v4" };
            match purpose {
                Purpose::Kept(it) => format!("{family} kept {it}"),
                Purpose::Local(it) => format!("{family} local {it}"),
                Purpose::Group(it) => format!("{family} group {it}"),
                other => format!("{family} {other:?}"),
            }
        })
        .collect()
}

#[test]
fn halves_and_all_that_the_internet_uses_are_a_whole_family() {
    for (words, v4, v6) in [
        (&["0.0.0.0/0"][..], true, false),
        (&["0.0.0.0/1", "128.0.0.0/1"], true, false),
        (&["128.0.0.0/1", "0.0.0.0/1", "10.0.0.0/8"], true, false),
        (&["0.0.0.0/1"], false, false),
        (&["0.0.0.0/1", "128.0.0.0/2"], false, false),
        (&["0.0.0.0/0", "::/0"], true, true),
        (&["::/1", "8000::/1"], false, true),
        (&["2000::/3"], false, true),
        (&["2000::/4"], false, false),
        (
            &["1.0.0.0-9.255.255.255", "11.0.0.0-223.255.255.255"],
            true,
            false,
        ),
        (
            &["1.0.0.0-9.255.255.255", "12.0.0.0-223.255.255.255"],
            false,
            false,
        ),
        (&["10.10.0.0/24", "fd00::/64"], false, false),
        (&[], false, false),
    ] {
        let ranges = ranges(words);
        let found = (takes_all(&ranges, false), takes_all(&ranges, true));
        assert_eq!(found, (v4, v6), "{words:?}");
    }
}

#[test]
fn the_other_family_is_refused_unless_a_key_lets_it_pass() {
    assert_eq!(full(true, false).refused(), Some(prefix_of("::/0")));
    assert_eq!(full(false, true).refused(), Some(prefix_of("0.0.0.0/0")));
    assert_eq!(full(true, true).refused(), None);
    let passing = FullTunnel {
        other_family: OtherFamily::Pass,
        ..full(true, false)
    };
    assert_eq!(passing.refused(), None);
    let told = |full: FullTunnel| full.warning().unwrap_or_default();
    assert!(told(full(true, false)).contains("the rest of IPv6 is refused"));
    assert!(told(passing).contains("IPv6 leaves unencrypted"));
    assert_eq!(told(full(true, true)), "");
}

#[test]
fn private_networks_stay_local_and_what_a_selector_names_does_not() {
    let found = said(&[full(true, false)], &["0.0.0.0/0", "::/0"], &[], false);
    assert_eq!(
        found,
        [
            "v4 local 10.0.0.0/8",
            "v4 local 100.64.0.0/10",
            "v4 local 169.254.0.0/16",
            "v4 local 172.16.0.0/12",
            "v4 local 192.168.0.0/16",
            "v4 group 224.0.0.0/4",
            "v4 group 255.255.255.255/32",
            "v6 local fc00::/7",
            "v6 local fe80::/10",
        ]
    );
    let taken = [
        "0.0.0.0/1",
        "128.0.0.0/1",
        "10.10.0.0/24",
        "::/0",
        "203.0.113.0/24",
    ];
    let found = said(
        &[full(true, false)],
        &taken,
        &["10.10.0.53", "9.9.9.9"],
        true,
    );
    let kept: Vec<&String> = found.iter().filter(|it| !it.contains("local")).collect();
    assert_eq!(
        kept,
        [
            "v4 Landing",
            "v4 Spared",
            "v4 kept 10.10.0.0/24",
            "v4 kept 10.10.0.53/32",
            "v4 Questions { is_tcp: false }",
            "v4 Questions { is_tcp: true }",
            "v4 group 224.0.0.0/4",
            "v4 group 255.255.255.255/32",
            "v6 Landing",
            "v6 Spared",
            "v6 Questions { is_tcp: false }",
            "v6 Questions { is_tcp: true }",
        ]
    );
}

#[test]
fn a_resolver_in_a_network_of_this_host_leaves_all_but_dns_to_it() {
    let taken = ["0.0.0.0/0", "192.168.1.7/32"].map(prefix_of).into();
    let resolvers = ["192.168.1.1", "192.168.1.7", "192.168.2.1", "169.254.0.9"];
    let resolvers = resolvers.map(|it| it.parse().unwrap());
    let around = Surroundings {
        taken: &taken,
        resolvers: &resolvers,
        takes_questions: true,
    };
    let mut desired = Desired {
        routes: taken.iter().map(|to| (*to, None)).collect(),
        rules: rules(&[full(true, false)], &around),
        ..Desired::default()
    };
    let of_resolvers = |desired: &Desired| -> Vec<Purpose> {
        let rules = desired.rules.iter().map(|(_, purpose)| purpose.clone());
        let is_of = |it: &Purpose| matches!(it, Purpose::Kept(_) | Purpose::Secured(_));
        rules.filter(is_of).collect()
    };
    let count = desired.rules.len();
    desired.spare(&[prefix_of("192.168.1.0/24"), prefix_of("fd00::/64")]);
    assert_eq!(
        of_resolvers(&desired),
        [
            Purpose::Kept(prefix_of("192.168.1.7/32")),
            Purpose::Kept(prefix_of("192.168.2.1/32")),
            Purpose::Secured(prefix_of("169.254.0.9/32")),
            Purpose::Secured(prefix_of("192.168.1.1/32")),
        ]
    );
    let asks = |is_tcp| {
        desired
            .rules
            .contains(&(false, Purpose::Questions { is_tcp }))
    };
    assert!(desired.rules.len() == count && asks(false) && asks(true));
}

#[test]
fn a_family_that_passes_has_no_rules_and_one_block_is_enough() {
    let passing = FullTunnel {
        other_family: OtherFamily::Pass,
        ..full(true, false)
    };
    let found = said(&[passing], &[], &[], true);
    assert!(found.iter().all(|it| it.starts_with("v4")), "{found:?}");
    let blocking = FullTunnel {
        lan: Lan::Block,
        ..full(true, false)
    };
    assert!(said(&[full(true, true), blocking], &[], &[], true).is_empty());
    assert!(said(&[], &["10.0.0.0/8"], &["10.0.0.53"], true).is_empty());
}

#[test]
fn a_description_names_the_networks_of_this_host() {
    let networks = [
        ("wlan0", "192.168.1.0/24"),
        ("eth0", "203.0.113.0/24"),
        ("eth0", "2001:db8::/64"),
    ];
    let networks = networks.map(|(link, it)| (link.to_owned(), prefix_of(it)));
    let text = full(true, false).describe(&networks);
    assert!(text.contains("all of IPv4 goes into it"), "{text}");
    assert!(text.contains("here 192.168.1.0/24 on wlan0 (lan"), "{text}");
    assert!(
        text.ends_with(
            "(lan = \"block\" changes that), but not 203.0.113.0/24 on eth0, 2001:db8::/64 on \
             eth0: public addresses always use the tunnel"
        ),
        "{text}"
    );
    let blocking = FullTunnel {
        lan: Lan::Block,
        ..full(true, true)
    };
    assert!(
        blocking
            .describe(&networks)
            .ends_with("not reached (lan = \"block\")")
    );
}
