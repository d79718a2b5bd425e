use std::net::Ipv4Addr;

use engine::mip4::firewall::{Firewall, Side};
use engine::selector::TrafficSelector;
use wire::skip::Name;

use super::*;
use crate::config::values::Transport;
use crate::nft::wall::tests::association;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const PEER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);

fn firewall(is_udp: bool, clear: &[(Transport, u16)]) -> NodeFirewall {
    NodeFirewall {
        outside: PEER,
        machine: Firewall {
            address: [192, 168, 4, 1].into(),
            inside: vec![TrafficSelector::subnet([10, 0, 0, 0].into(), 8)],
        },
        side: Side::ByAddress,
        is_udp,
        takes_short_form: false,
        is_filtered: true,
        clear: clear.to_vec(),
        association: association(Name::ipv4(HOME), Name::NONE),
    }
}

fn links() -> [String; 2] {
    ["eth0", "wlan0"].map(str::to_owned)
}

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
    let text = text("caravan.mobile", (&links(), HOME), &firewall(false, &[]));
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    for (rules, links, home, skip) in [
        (&input, "iifname", "daddr", "saddr"),
        (&output, "oifname", "saddr", "daddr"),
    ] {
        assert_eq!(
            rules[1],
            format!("{links} != {{ \"eth0\", \"wlan0\" }} accept")
        );
        assert_eq!(rules[2], format!("ip {home} {HOME} counter drop"));
        assert_eq!(rules[3], format!("ip {skip} {PEER} ip protocol 57 accept"));
        assert_eq!(rules.last().expect("one"), "counter drop");
    }
}

#[test]
fn in_udp_no_other_port_of_the_firewall_passes() {
    let text = text("caravan.mobile", (&links(), HOME), &firewall(true, &[]));
    assert!(!text.contains("ip protocol 57"));
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    assert_eq!(input[3], format!("ip saddr {PEER} udp sport 61057 accept"));
    assert_eq!(output[3], format!("ip daddr {PEER} udp dport 61057 accept"));
}

#[test]
fn what_the_file_names_may_be_opened_from_here_alone() {
    let clear = [(Transport::Tcp, 80), (Transport::Udp, 53)];
    let text = text("caravan.mobile", (&links(), HOME), &firewall(false, &clear));
    let (input, output) = (chain(&text, "from-link"), chain(&text, "to-link"));
    for (protocol, port) in [("tcp", 80), ("udp", 53)] {
        let answers = format!("{protocol} sport {port} ct state established accept");
        assert!(input.contains(&answers), "{input:?}");
        assert!(output.contains(&format!("{protocol} dport {port} accept")));
    }
}
