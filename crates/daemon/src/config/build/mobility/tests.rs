//! The keys of Mobile IPv4, each with a good value and with bad ones.

use std::path::Path;

use engine::mip4::tunnel::{ReverseTunnel, UdpWish};

use super::*;
use crate::config::build::{Names, Origin, build, file};

const HOME_AGENT: &str = "[home_agent]\naddress = \"10.18.3.1\"\nprefix = 24\n\
    interface = \"eth1\"\n";
const FOREIGN_AGENT: &str = "[foreign_agent]\naddress = \"198.51.100.1\"\ninterface = \"wlan0\"\n";
const MOBILE_NODE: &str = "[mobile]\nhome_address = \"10.18.3.17\"\nprefix = 24\n\
    home_agent = \"10.18.3.1\"\ninterfaces = [\"eth0\"]\n";
const KEY: &str = "association = { spi = 1000, key = \"30313233343536373839616263646566\" }\n";
const AAA: &str = "aaa = { spi = 2000, key = \"31313233343536373839616263646566\" }\n";
const NODE: &str = "[mobile_nodes.ms]\nhome_address = \"10.18.3.17\"\n";

fn built(text: &str) -> Result<Mobility, String> {
    let path = Path::new("mobile.toml");
    let file = file::parse(path, text).map_err(|fault| fault.to_string())?;
    let built = build(path, file, (Names::Needed, Origin::Files));
    let built = built.map_err(|fault| fault.to_string())?;
    Ok(built.mobility.expect("a part in Mobile IPv4"))
}

fn home_agent(more: &str) -> Result<home_agent::Config, String> {
    match built(&format!("{HOME_AGENT}{more}{NODE}{KEY}"))? {
        Mobility::HomeAgent(setup) => Ok(setup.config),
        other => panic!("{}", other.name()),
    }
}

fn foreign_agent(more: &str) -> Result<foreign_agent::Config, String> {
    match built(&format!("{FOREIGN_AGENT}{more}"))? {
        Mobility::ForeignAgent(setup) => Ok(setup.config),
        other => panic!("{}", other.name()),
    }
}

fn mobile(more: &str) -> Result<mobile_node::Config, String> {
    match built(&format!("{MOBILE_NODE}{more}{KEY}"))? {
        Mobility::MobileNode(setup) => Ok(setup.config),
        other => panic!("{}", other.name()),
    }
}

/// Each line is refused with a text that contains this.
fn refused<T>(read: impl Fn(&str) -> Result<T, String>, lines: &[(&str, &str)]) {
    for (line, why) in lines {
        match read(line) {
            Err(text) => assert!(text.contains(why), "{line}: {text}"),
            Ok(_) => panic!("{line} is good"),
        }
    }
}

#[test]
fn a_home_agent_has_the_defaults_of_the_standards() {
    let config = home_agent("").expect("good");
    assert_eq!((config.max_lifetime, config.max_bindings), (3_600, 4));
    assert_eq!(config.udp_keepalive, Some(110));
    assert_eq!(config.reverse_tunnel, ReverseTunnel::Allowed);
    assert_eq!(config.encapsulations.len(), 2);
    assert_eq!(config.revocation, Some(REVOCATION));
}

#[test]
fn each_key_of_a_home_agent_is_taken_and_checked() {
    let good = |line: &str| home_agent(line).expect(line);
    assert_eq!(good("max_lifetime = \"60s\"\n").max_lifetime, 60);
    assert_eq!(good("max_bindings = 1\n").max_bindings, 1);
    assert_eq!(
        good("encapsulations = [\"gre\"]\n").encapsulations,
        [Encapsulation::Gre].into()
    );
    assert_eq!(
        good("reverse_tunnel = \"required\"\n").reverse_tunnel,
        ReverseTunnel::Required
    );
    assert_eq!(good("udp_keepalive = \"0\"\n").udp_keepalive, None);
    assert_eq!(good("udp_keepalive = \"10s\"\n").udp_keepalive, Some(10));
    assert!(good("").allows_forced_udp);
    assert!(!good("forced_udp = false\n").allows_forced_udp);
    assert_eq!(good("revocation = false\n").revocation, None);
    assert_eq!(
        home_agent("").map(|it| it.clients[0].aaa.is_some()),
        Ok(false)
    );
    let with_aaa = built(&format!("{HOME_AGENT}{NODE}{AAA}{KEY}"));
    let Ok(Mobility::HomeAgent(setup)) = with_aaa else {
        panic!("good");
    };
    assert!(setup.config.clients[0].aaa.is_some());
    let without = built(&format!("{HOME_AGENT}{NODE}{AAA}")).err();
    let without = without.unwrap_or_default();
    assert!(without.contains("needs an association"), "{without}");
    let lines = [
        ("max_lifetime = \"0\"\n", "outside 1 s to 65534 s"),
        ("max_lifetime = \"20h\"\n", "72000 s is outside"),
        ("max_bindings = 0\n", "0 is outside 1 to 64"),
        ("max_bindings = 65\n", "65 is outside 1 to 64"),
        (
            "udp_keepalive = \"9s\"\n",
            "9 s is too short: 10 s at least",
        ),
        ("encapsulations = [\"ipsec\"]\n", "'gre'"),
        ("reverse_tunnel = true\n", "home_agent.reverse_tunnel"),
        ("revocation = \"yes\"\n", "home_agent.revocation"),
        (
            "advertised_lifetime = \"0\"\n",
            "home_agent.advertised_lifetime",
        ),
        ("lifetime = \"60s\"\n", "nearest valid"),
        (
            "[mobile_nodes.two]\nhome_address = \"10.18.3.17\"\n",
            "there twice",
        ),
    ];
    let with_key = |line: &str| match line.starts_with('[') {
        true => home_agent(&format!("{line}{KEY}")),
        false => home_agent(line),
    };
    refused(with_key, &lines);
}

#[test]
fn a_home_agent_serves_its_own_network_alone() {
    let whole = |text: &str, from: &str, to: &str| built(&text.replace(from, to));
    let text = format!("{HOME_AGENT}{NODE}{KEY}");
    for (from, to, why) in [
        (
            "10.18.3.17",
            "10.18.4.17",
            "is not in the home network 10.18.3.0/24",
        ),
        ("10.18.3.17", "10.18.3.1", "is there twice"),
        (
            "10.18.3.17",
            "10.18.3.0",
            "is the address of the home network 10.18.3.0/24 itself",
        ),
        (
            "10.18.3.17",
            "10.18.3.255",
            "is the broadcast address of the home network",
        ),
        ("10.18.3.1\"", "10.18.3.255\"", "is the broadcast address"),
        (
            "prefix = 24",
            "prefix = 24\nfirewalls = [\"10.18.3.1\"]",
            "is our own address: name the other's",
        ),
        (
            "prefix = 24",
            "prefix = 24\nfirewalls = [\"0.0.0.0\"]",
            "is not the address of a host",
        ),
        (
            "prefix = 24",
            "prefix = 24\noutside = [{ care_of = \"0.0.0.0/0\", firewall = \"10.18.3.1\" }]",
            "is our own address",
        ),
        ("10.18.3.1\"", "224.0.0.1\"", "is not the address of a host"),
        ("prefix = 24", "prefix = 33", "33 is outside 1 to 32"),
        ("eth1", "eth1/../x", "is not an interface's name"),
        ("spi = 1000", "spi = 255", "255 is reserved: 256 at least"),
        ("61", "", "15 octets are too few"),
        ("3031", "30xx", "not hexadecimal"),
        (
            "key =",
            "key_file = \"a\", key =",
            "write either key or key_file",
        ),
        (
            "spi = 1000",
            "spi = 1000, algorithm = \"keyed-md5\"",
            "needs legacy = true",
        ),
        ("spi = 1000", "spi = 1000, replay = \"none\"", "'nonces'"),
    ] {
        let said = whole(&text, from, to).err().unwrap_or_default();
        assert!(said.contains(why), "{to}: {said}");
        assert!(!said.contains("303132"), "no part of a key is told: {said}");
    }
    let said = built(HOME_AGENT).err().unwrap_or_default();
    assert!(
        said.contains("add [mobile_nodes.NAME] for each node"),
        "{said}"
    );
}

#[test]
fn a_point_to_point_home_network_has_no_broadcast_address() {
    let text = format!("{HOME_AGENT}{NODE}{KEY}").replace("prefix = 24", "prefix = 31");
    assert!(built(&text.replace("10.18.3.17", "10.18.3.0")).is_ok());
}

/// Each could register as the other.
#[test]
fn two_nodes_with_one_key_are_warned_of() {
    let two = NODE.replace("ms]", "two]").replace("3.17", "3.18");
    let warnings = |key: &str| {
        let text = format!("{HOME_AGENT}{NODE}{KEY}{two}{key}");
        let path = Path::new("home-agent.toml");
        let parsed = file::parse(path, &text).expect("a file");
        let built = build(path, parsed, (Names::Needed, Origin::Files));
        built.map(|it| it.warnings).expect("good")
    };
    let said = warnings(&KEY.replace("1000", "2000"));
    assert_eq!(said[0].0, "mobile_nodes.two");
    assert!(
        said[0].1.contains("it has the key of 10.18.3.17"),
        "{said:?}"
    );
    assert!(!said[0].1.contains("303132"), "no part of a key is told");
    assert_eq!(warnings(&KEY.replace("3031", "3939")), []);
}

#[test]
fn each_key_of_a_foreign_agent_is_taken_and_checked() {
    let good = |line: &str| foreign_agent(line).expect(line);
    let config = good("");
    assert_eq!(config.care_of, config.address);
    assert_eq!((config.max_visitors, config.is_required), (250, false));
    assert_eq!(config.udp, UdpWish::BehindNat);
    assert_eq!(config.revocation, Some(REVOCATION));
    assert_eq!(
        good("care_of = \"192.0.2.9\"\n").care_of,
        Ipv4Addr::new(192, 0, 2, 9)
    );
    assert!(good("required = true\n").is_required);
    assert_eq!(good("udp = \"never\"\n").udp, UdpWish::Never);
    assert_eq!(good("revocation = false\n").revocation, None);
    let shared = format!("challenges = true\n{NODE}{KEY}");
    assert!(good(&shared).challenges);
    let of_aaa = format!("challenges = true\n{NODE}{AAA}");
    let config = good(&of_aaa);
    assert_eq!((config.aaa.len(), config.mobile_nodes.len()), (1, 0));
    assert_eq!(good("").relays_to, None);
    let named = good("home_agents = [\"10.18.3.0/24\"]\n").relays_to;
    let network = TrafficSelector::subnet(Ipv4Addr::new(10, 18, 3, 0).into(), 24);
    assert_eq!(named, Some(vec![network]));
    let twice = format!("{NODE}{KEY}{}{KEY}", NODE.replace("ms]", "two]"));
    let agents = format!("[home_agents.ha]\naddress = \"10.18.3.1\"\n{KEY}");
    assert_eq!(good(&agents).home_agents.len(), 1);
    let lines = [
        ("max_visitors = 0\n", "0 would serve nobody"),
        (
            "care_of = \"255.255.255.255\"\n",
            "is not the address of a host",
        ),
        ("challenges = true\n", "only nodes with a key can answer"),
        ("home_agents = []\n", "an empty list would serve nobody"),
        ("home_agents = [\"10.18.3.1\"]\n", "is not a network"),
        (
            &agents.replace("10.18.3.1", "198.51.100.1"),
            "is our own address",
        ),
        (
            &shared.replace("10.18.3.17", "198.51.100.1"),
            "is our own address",
        ),
        (&twice, "10.18.3.17 is there twice"),
        ("udp = \"no\"\n", "'behind-nat'"),
        ("max_lifetime = \"0\"\n", "foreign_agent.max_lifetime"),
        ("[mobile]\n", "mobile"),
        (NODE, "it has no key: add an association or aaa"),
    ];
    refused(foreign_agent, &lines);
    for (from, to, why) in [
        ("2000", "3", "3 is reserved: 256 at least, or 2"),
        ("61", "", "15 octets are too few"),
        (
            "spi = 2000",
            "spi = 2000, algorithm = \"keyed-md5\"",
            "no AAA server needs it",
        ),
        (
            ", key = \"31313233343536373839616263646566\"",
            "",
            "write either key or key_file",
        ),
    ] {
        let said = foreign_agent(&of_aaa.replace(from, to)).err();
        let said = said.unwrap_or_default();
        assert!(said.contains(why), "{to}: {said}");
    }
}

#[test]
fn each_key_of_a_mobile_node_is_taken_and_checked() {
    let good = |line: &str| mobile(line).expect(line);
    let config = good("");
    assert_eq!((config.lifetime, config.is_reverse), (300, true));
    assert!(!config.wants_broadcasts && config.hears_revocations);
    assert!(!good("revocation = false\n").hears_revocations);
    assert!(good("simultaneous = true\n").is_simultaneous);
    assert!(good("broadcasts = true\n").wants_broadcasts);
    assert!(good(AAA).aaa.is_some() && good("").aaa.is_none());
    assert_eq!(good("udp = \"always\"\n").udp, UdpWish::Always);
    assert_eq!(
        good("nai = \"ms@example\"\n").nai,
        Some(b"ms@example".to_vec())
    );
    assert_eq!(
        good("encapsulation = \"minimal\"\n").encapsulation,
        Encapsulation::Minimal
    );
    assert!(good("encapsulating_delivery = true\n").encapsulates_delivery);
    let lines = [
        ("lifetime = \"0\"\n", "mobile.lifetime"),
        ("encapsulation = \"esp\"\n", "'ip-in-ip'"),
        ("nai = \"\"\n", "mobile.nai: this text is empty"),
        ("broadcasts = \"all\"\n", "mobile.broadcasts"),
        (
            "encapsulating_delivery = true\nreverse_tunnel = false\n",
            "only a reverse tunnel has it",
        ),
    ];
    refused(mobile, &lines);
    let long = format!("nai = \"{}\"\n", "n".repeat(256));
    refused(mobile, &[(&long, "a name has 1 to 255 octets")]);
    for (from, to, why) in [
        (
            "\"10.18.3.1\"",
            "\"10.18.3.17\"",
            "it is the home agent's address",
        ),
        ("[\"eth0\"]", "[]", "name one at least"),
        (
            "[\"eth0\"]",
            "[\"a name that is too long\"]",
            "not an interface's name",
        ),
    ] {
        let text = format!("{MOBILE_NODE}{KEY}").replace(from, to);
        let said = built(&text).err().unwrap_or_default();
        assert!(said.contains(why), "{to}: {said}");
    }
}

#[test]
fn a_key_of_zeros_is_none() {
    let zeros = KEY.replace("30313233343536373839616263646566", &"00".repeat(16));
    let said = built(&format!("{MOBILE_NODE}{zeros}")).err();
    let said = said.unwrap_or_default();
    assert!(said.contains("mobile.association.key: all zeros"), "{said}");
}

#[test]
fn a_process_has_one_part_which_stays_where_it_is() {
    let two = format!("{HOME_AGENT}{FOREIGN_AGENT}{NODE}{KEY}");
    let said = built(&two).err().unwrap_or_default();
    assert!(
        said.contains("write two files and run two processes"),
        "{said}"
    );
    let node = |from: &str, to: &str| {
        built(&format!("{MOBILE_NODE}{KEY}").replace(from, to)).expect("good")
    };
    let one = node("", "");
    assert_eq!(one.moved_key(&node("", "")), None);
    assert_eq!(one, node("", ""));
    let other = node("home_agent =", "lifetime = \"60s\"\nhome_agent =");
    assert_eq!(one.moved_key(&other), None);
    assert_ne!(one, other);
    let key = node("3031", "3131");
    assert_eq!((one.moved_key(&key), one == key), (None, false));
    for (from, to, key) in [
        ("eth0", "eth1", "interfaces"),
        ("10.18.3.17", "10.18.3.18", "home_address"),
        ("\"10.18.3.1\"", "\"10.18.3.2\"", "home_agent"),
        ("prefix = 24", "prefix = 25", "prefix"),
    ] {
        assert_eq!(one.moved_key(&node(from, to)), Some(key));
    }
    let agent = built(FOREIGN_AGENT).expect("good");
    assert_eq!(one.moved_key(&agent), Some("role"));
}
