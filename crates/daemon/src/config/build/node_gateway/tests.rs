//! `[mobile.gateway]` and the connection that it names, and the networks that a home agent trusts.

use std::path::Path;

use super::*;
use crate::config::build::{Names, Origin, build, file};

const NODE: &str = "[mobile]\nhome_address = \"10.18.3.17\"\nprefix = 24\n\
    home_agent = \"10.18.3.1\"\ninterfaces = [\"eth0\"]\n";
const KEY: &str = "association = { spi = 1000, key = \"30313233343536373839616263646566\" }\n";
const GATEWAY: &str = "[mobile.gateway]\nconnection = \"work\"\n";
const WORK: &str = "[connections.work]\nremote_addrs = [\"203.0.113.1\"]\nvips = [\"0.0.0.0\"]\n\
    local = { auth = \"psk\", secret = \"a long secret of both ends\", id = \"ms.example\" }\n\
    remote = { auth = \"psk\", id = \"gw.example\" }\n";
const CHILD: &str = "[connections.work.children.net]\nremote_ts = [\"10.18.3.1/32\"]\n";
const AGENT: &str = "[home_agent]\naddress = \"10.18.3.1\"\nprefix = 24\ninterface = \"eth1\"\n";

fn built(text: &str) -> Result<Loaded, String> {
    let path = Path::new("mobile.toml");
    let file = file::parse(path, text).map_err(|fault| fault.to_string())?;
    let built = build(path, file, (Names::Needed, Origin::Files));
    built.map_err(|fault| fault.to_string())
}

fn whole() -> String {
    format!("{NODE}{KEY}{GATEWAY}{WORK}{CHILD}")
}

#[test]
fn the_connection_serves_the_node_alone() {
    // A full tunnel would take everything of this host.
    for child in [
        CHILD,
        "[connections.work.children.net]\nremote_ts = [\"0.0.0.0/0\"]\n",
    ] {
        let loaded = built(&format!("{NODE}{KEY}{GATEWAY}{WORK}{child}")).expect("good");
        assert!(loaded.is_of_node("work") && !loaded.is_of_node("mobile"));
        assert!(!loaded.is_blocking("work"));
        assert!(loaded.full_tunnels.is_empty());
        assert_eq!(loaded.engine.connections[0].start, Start::OnCommand);
        let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
            panic!("a mobile node");
        };
        assert_eq!(node.config.monitor, Some(Duration::from_secs(60)));
        let gateway = node.gateway.as_ref().expect("a gateway");
        assert_eq!(gateway.addresses, [Ipv4Addr::new(203, 0, 113, 1)]);
        assert!(node.has_outside() && node.is_filtered());
    }
    let other = whole().replace(
        "connection = \"work\"",
        "connection = \"work\"\nfilter = false",
    );
    let loaded = built(&other).expect("good");
    let said = loaded.warnings.iter().find(|(part, _)| part == "mobile");
    assert!(
        said.expect("a warning")
            .1
            .starts_with("gateway.filter: false lets")
    );
    // Without the table the connection is one like others.
    let plain = built(&format!("{NODE}{KEY}{WORK}{CHILD}")).expect("good");
    assert!(plain.is_blocking("work") && !plain.is_of_node("work"));
    assert_eq!(plain.engine.connections[0].start, Start::AtOnce);
}

#[test]
fn what_a_gateway_of_a_node_lacks_is_told() {
    for (old, new, why) in [
        (
            "\"work\"",
            "\"wrok\"",
            "there is no [connections.wrok] in this file",
        ),
        (
            "[connections.work]\n",
            "monitor = \"2s\"\n[connections.work]\n",
            "2 s is outside 10 s to 1 h",
        ),
        (
            "spi = 1000,",
            "spi = 1000, replay = \"nonces\",",
            "nonces allow one question",
        ),
        (
            "\"203.0.113.1\"",
            "\"gw.example\"",
            "\"gw.example\" is not an IPv4 address",
        ),
        ("\"203.0.113.1\"", "\"2001:db8::1\"", "not an IPv4 address"),
        (
            "vips =",
            "remote_port = 4500\nvips =",
            "lets IKE pass on UDP ports 500 and 4500 alone",
        ),
        (
            "vips =",
            "mobike = false\nvips =",
            "needs IKEv2 with MOBIKE",
        ),
        (
            "\"0.0.0.0\"",
            "\"::\"",
            "the tunnel's inner address is the care-of address",
        ),
        (
            "10.18.3.1/32",
            "10.19.0.0/16",
            "no child leads from the inner address to the home agent",
        ),
        (
            "[connections.work.children.net]\n",
            "[connections.work.children.net]\nlocal_ts = [\"10.18.3.17/32\"]\n",
            "without local_ts",
        ),
        (
            "interfaces =",
            "reverse_tunnel = false\ninterfaces =",
            "goes through the tunnel: remove it, or write true",
        ),
        (
            "interfaces =",
            "udp = \"always\"\ninterfaces =",
            "nothing leaves in clear",
        ),
    ] {
        let wrong = whole().replacen(old, new, 1);
        // "work" is named twice: by the node, and by the table's header.
        match built(&wrong) {
            Err(text) => assert!(text.contains(why), "{new}: {text}"),
            Ok(_) => panic!("{new} is good"),
        }
    }
}

const OUTSIDE: &str = "[mobile.gateway.outside]\nhome_agent = \"198.51.100.30\"\n\
    home_address = \"198.51.100.66\"\n";

fn with_outside() -> String {
    format!("{NODE}{KEY}{GATEWAY}{OUTSIDE}{KEY}{WORK}{CHILD}")
}

/// RFC 5265: the gateway sees the address outside alone, so nothing moves the tunnel.
#[test]
fn with_a_home_agent_outside_the_tunnel_begins_at_its_address_and_inside_of_its_tunnel() {
    let loaded = built(&with_outside()).expect("good");
    let connection = &loaded.engine.connections[0];
    let own = Ipv4Addr::new(198, 51, 100, 66);
    assert_eq!(connection.local_addrs, [IpAddr::V4(own)]);
    assert!(!connection.mobike);
    let mut children = connection.children.iter();
    assert!(children.all(|child| child.layer == ChildLayer::Carried));
    let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
        panic!("a mobile node");
    };
    let outside = node.outside().expect("a home agent outside");
    assert_eq!(outside.home_address, own);
    assert!(outside.is_reverse && outside.monitor.is_none());
    // Without MOBIKE a node needs it.
    built(&with_outside().replace("vips =", "mobike = false\nvips =")).expect("good");
}

#[test]
fn a_reload_that_cannot_follow_names_the_table() {
    let moved = |old: &str, new: &str| {
        let node = |text: &str| built(text).expect("good").mobility.expect("a node");
        let text = with_outside();
        node(&text).moved_key(&node(&text.replace(old, new)))
    };
    assert_eq!(moved("", ""), None);
    assert_eq!(moved("100.66", "100.67"), Some("gateway.outside"));
    assert_eq!(moved("203.0.113.1", "203.0.113.2"), Some("gateway"));
}

#[test]
fn what_does_not_go_through_a_home_agent_outside_is_refused() {
    for (old, new, why) in [
        (
            "\"198.51.100.66\"",
            "\"198.51.100.30\"",
            "it is the home agent's address",
        ),
        (
            "\"198.51.100.66\"",
            "\"10.18.3.66\"",
            "10.18.3.66 is in the home network, which is inside",
        ),
        (
            "vips =",
            "local_addrs = [\"192.0.2.7\"]\nvips =",
            "the tunnel begins at its home_address",
        ),
        (
            "vips =",
            "encap = true\nvips =",
            "ESP is in no UDP of its own",
        ),
        (
            "remote_ts =",
            "ah_around_esp = true\nah_proposals = [\"sha256\"]\nremote_ts =",
            "AH around ESP does not go through",
        ),
    ] {
        let wrong = with_outside().replacen(old, new, 1);
        match built(&wrong) {
            Err(text) => assert!(text.contains(why), "{new}: {text}"),
            Ok(_) => panic!("{new} is good"),
        }
    }
}

fn agent(lines: &str) -> Result<Loaded, String> {
    let node = "[mobile_nodes.ms]\nhome_address = \"10.18.3.17\"\n";
    built(&format!("{AGENT}{lines}\n{node}{KEY}"))
}

#[test]
fn a_home_agent_knows_the_networks_inside_and_those_of_vpn_gateways() {
    let networks = |lines: &str| match agent(lines).expect(lines).mobility {
        Some(Mobility::HomeAgent(setup)) => {
            (setup.config.trusted.len(), setup.config.tunnelled.len())
        }
        _ => panic!("a home agent"),
    };
    assert_eq!(networks(""), (0, 0));
    let inside = "trusted_networks = [\"10.0.0.0/8\"]";
    assert_eq!(networks(&format!("{inside}\nvpn_networks = []")), (1, 0));
    let pools = "vpn_networks = [\"10.18.9.0/24\", \"192.168.9.0/24\"]";
    assert_eq!(networks(&format!("{inside}\n{pools}")), (1, 2));
}

#[test]
fn networks_inside_that_prove_nothing_are_refused() {
    let inside = "trusted_networks = [\"10.0.0.0/8\"]";
    let alone = "vpn_networks = []\n";
    let whole = format!("{inside}\n{alone}");
    for (lines, why) in [
        (
            "trusted_networks = [\"192.168.9.0/24\"]\nvpn_networks = []".to_owned(),
            "the home network 10.18.3.0/24 is not among them",
        ),
        (
            format!("trusted_networks = []\n{alone}"),
            "the home network 10.18.3.0/24 is not among them",
        ),
        (
            format!("trusted_networks = [\"10.18.3.0/28\"]\n{alone}"),
            "the home network 10.18.3.0/24 is not among them",
        ),
        (
            format!("trusted_networks = [\"0.0.0.0/0\"]\n{alone}"),
            "would take every network to be inside",
        ),
        (inside.to_owned(), "vpn_networks must be there, too"),
        (alone.to_owned(), "without trusted_networks no reply says"),
        (
            format!("{inside}\nvpn_networks = [\"10.18.3.16/28\"]"),
            "they have 10.18.3.17, of the home network",
        ),
        (
            format!("{inside}\nvpn_networks = [\"10.18.3.0/29\"]"),
            "they have 10.18.3.1, of the home network",
        ),
        (
            format!("{whole}firewalls = [\"192.168.4.1\"]"),
            "`firewalls` is there too: then requests come from addresses that nodes outside choose",
        ),
        (
            format!(
                "{whole}[[home_agent.outside]]\ncare_of = \"192.0.2.0/24\"\n\
                 firewall = \"192.168.4.1\""
            ),
            "[[home_agent.outside]] is there too",
        ),
        (
            format!(
                "{whole}[access.ms]\naddress = \"*\"\n\
                 skip = {{ public = \"ms.skip.pub\", remote = \"1/10.18.3.17\" }}"
            ),
            "[access.NAME] is there too",
        ),
    ] {
        let said = agent(&lines).err().expect(&lines);
        assert!(said.contains(why), "{said}");
    }
}
