use std::path::Path;

use super::*;
use crate::config::file;

const NODE: &str = "[mobile]\nhome_address = \"10.18.3.17\"\nprefix = 24\n\
    home_agent = \"10.18.3.1\"\ninterfaces = [\"eth0\"]\nlifetime = \"300s\"\n\
    association = { spi = 1000, key_file = \"ms1.key\" }\n\
    [mobile.firewall]\noutside = \"203.0.113.1\"\ninside = \"192.168.4.1\"\n\
    networks = [\"10.18.0.0/16\", \"192.168.4.0/24\"]\nskip = { public = \"fw.skip.pub\" }\n";
const HOME_AGENT: &str = "[home_agent]\naddress = \"10.18.3.1\"\nprefix = 24\n\
    interface = \"eth1\"\nfirewalls = [\"192.168.4.1\"]\n\
    [mobile_nodes.ms1]\nhome_address = \"10.18.3.17\"\n\
    association = { spi = 1000, key_file = \"ms1.key\" }\n\
    [mobile_nodes.ms2]\nhome_address = \"10.18.3.18\"\n\
    association = { spi = 1000, key_file = \"ms2.key\" }\n";
const FIREWALL: &str = "[firewall]\noutside = \"203.0.113.1\"\noutside_interface = \"eth0\"\n\
    inside = \"192.168.4.1\"\nhome_agents = [\"10.18.3.1\"]\n\
    [access.ms1]\naddress = \"*\"\n\
    skip = { public = \"ms1.skip.pub\", remote = \"1/10.18.3.17\" }\n\
    [access.site]\naddress = \"198.51.100.0/24\"\ninside = [\"10.18.0.0/16\"]\n\
    skip = { public = \"site.skip.pub\" }\n";

type Found = Vec<(String, String)>;

fn found(text: &str) -> (Found, Found) {
    let file = file::parse(Path::new("x.toml"), text).expect("a file");
    (values(&file), unwise(&file))
}

/// The sample with one change: only this is said, at this key.
fn said(sample: &str, cases: &[(&str, &str, &str, &str)], pick: fn((Found, Found)) -> Found) {
    assert_eq!(found(sample), (Vec::new(), Vec::new()));
    for (from, to, key, why) in cases {
        assert!(sample.contains(from), "{from}");
        let all = pick(found(&sample.replacen(from, to, 1)));
        let is_there = |(at, text): &(String, String)| at == key && text.contains(why);
        assert!(all.len() == 1 && is_there(&all[0]), "{to}: {all:?}");
    }
}

fn refuses(sample: &str, cases: &[(&str, &str, &str, &str)]) {
    said(sample, cases, |(faults, _)| faults);
}

fn warns(sample: &str, cases: &[(&str, &str, &str, &str)]) {
    said(sample, cases, |(faults, warnings)| {
        assert_eq!(faults, Vec::new());
        warnings
    });
}

#[test]
fn what_a_mobile_node_can_never_use_is_refused() {
    let networks = "networks = [\"10.18.0.0/16\", \"192.168.4.0/24\"]";
    let key = "mobile.firewall.networks";
    let eth0 = "[\"eth0\"]";
    refuses(
        NODE,
        &[
            (
                networks,
                "networks = [\"0.0.0.0/0\"]",
                key,
                "every care-of address would be inside",
            ),
            (
                networks,
                "networks = [\"128.0.0.0/1\", \"10.0.0.0/8\", \"0.0.0.0/1\"]",
                key,
                "every care-of address would be inside",
            ),
            (
                "\"10.18.3.17\"",
                "\"10.18.3.255\"",
                "mobile.home_address",
                "the broadcast address of the home network 10.18.3.0/24",
            ),
            (
                "\"10.18.3.17\"",
                "\"10.18.3.0\"",
                "mobile.home_address",
                "the address of the home network",
            ),
            (
                "\"10.18.3.1\"",
                "\"10.18.3.255\"",
                "mobile.home_agent",
                "the broadcast address",
            ),
            (eth0, "[\"lo\"]", "mobile.interfaces", "this host alone"),
            (
                eth0,
                "[\"caravan0\"]",
                "mobile.interfaces",
                "our own tunnels",
            ),
            (
                eth0,
                "[\"eth0\", \"wlan0\", \"eth0\"]",
                "mobile.interfaces",
                "eth0 is there twice",
            ),
            (
                "lifetime",
                "reverse_tunnel = false\nlifetime",
                "mobile.reverse_tunnel",
                "goes through the tunnel: remove it",
            ),
        ],
    );
    let outside = format!("{networks}\nside = \"outside\"");
    let all = NODE.replace(networks, &outside.replace("10.18.0.0/16", "0.0.0.0/0"));
    assert_eq!(found(&all), (Vec::new(), Vec::new()));
}

#[test]
fn what_is_unwise_at_a_mobile_node_is_a_warning() {
    let networks = "networks = [\"10.18.0.0/16\", \"192.168.4.0/24\"]";
    let skip = "skip = {";
    warns(
        NODE,
        &[
            (networks, "networks = []", "mobile", "there is none"),
            (
                networks,
                "networks = [\"192.168.4.0/24\"]",
                "mobile",
                "the home network 10.18.3.0/24 is not among them",
            ),
            (
                networks,
                "networks = [\"10.18.0.0/16\", \"203.0.113.0/24\"]",
                "mobile",
                "they have firewall.outside, 203.0.113.1",
            ),
            (
                "\"10.18.3.1\"",
                "\"10.18.4.1\"",
                "mobile",
                "home_agent: 10.18.4.1 is not in the home network 10.18.3.0/24",
            ),
            ("\"300s\"", "\"1s\"", "mobile", "lifetime: after 1 s"),
            (
                "inside = \"192.168.4.1\"",
                "inside = \"203.0.113.1\"",
                "mobile",
                "it is firewall.outside",
            ),
            (
                skip,
                "filter = false\nskip = {",
                "mobile",
                "pass in clear outside",
            ),
            (
                skip,
                "clear = [\"tcp/80\", \"udp/61057\"]\nskip = {",
                "mobile",
                "udp/61057 is the port of SKIP in UDP",
            ),
            (
                skip,
                "clear = [\"udp/434\"]\nskip = {",
                "mobile",
                "the port of registrations",
            ),
        ],
    );
}

#[test]
fn a_home_agent_outside_behind_a_nat_is_a_warning() {
    let behind = NODE
        .split("[mobile.firewall]")
        .next()
        .expect("the node's table");
    let node = format!(
        "{behind}[mobile.gateway]\nconnection = \"work\"\n\
         [mobile.gateway.outside]\nhome_agent = \"198.18.30.1\"\n\
         home_address = \"198.18.30.17\"\n\
         association = {{ spi = 2000, key_file = \"outside.key\" }}\n\
         [connections.work]\nremote_addrs = [\"203.0.113.1\"]\n\
         local = {{ auth = \"psk\", secret_file = \"psk\", id = \"ms1.example\" }}\n\
         remote = {{ auth = \"psk\", id = \"gw.example\" }}\n\
         [connections.work.children.net]\nremote_ts = [\"10.18.3.1/32\"]\n"
    );
    let public = "home_address = \"198.18.30.17\"";
    let nat = "A NAT between them lets no ESP pass";
    let private = |address: &str| format!("home_address = \"{address}\"");
    for address in ["192.168.30.17", "172.16.0.17", "100.64.0.17"] {
        warns(&node, &[(public, &private(address), "mobile", nat)]);
    }
    // One network of private addresses, as within a company.
    let all = node.replace(public, &private("192.168.30.17"));
    let all = all.replace("203.0.113.1", "10.99.0.1");
    assert_eq!(found(&all), (Vec::new(), Vec::new()));
}

#[test]
fn a_home_agent_s_firewall_is_none_of_its_nodes() {
    let firewalls = "[\"192.168.4.1\"]";
    let key = "home_agent.firewalls";
    refuses(
        HOME_AGENT,
        &[
            (
                firewalls,
                "[\"10.18.3.18\"]",
                key,
                "the home address of [mobile_nodes.ms2]",
            ),
            (firewalls, "[\"10.18.3.255\"]", key, "the broadcast address"),
        ],
    );
    warns(
        HOME_AGENT,
        &[(
            "prefix = 24",
            "prefix = 24\nmax_lifetime = \"2s\"",
            "home_agent",
            "max_lifetime: after 2 s",
        )],
    );
}

#[test]
fn a_line_of_a_firewall_has_a_node_of_its_own_and_a_key_of_its_own() {
    let remote = "1/10.18.3.17";
    refuses(
        FIREWALL,
        &[
            (
                remote,
                "1/10.18.3.1",
                "access.ms1.skip.remote",
                "10.18.3.1 is that of a home agent",
            ),
            (
                remote,
                "1/192.168.4.1",
                "access.ms1.skip.remote",
                "the firewall's own",
            ),
            (
                "address = \"*\"",
                "address = \"*\"\nhome_address = \"10.18.3.1\"",
                "access.ms1.home_address",
                "that of a home agent",
            ),
        ],
    );
    warns(
        FIREWALL,
        &[
            (
                "[\"10.18.3.1\"]",
                "[\"10.18.3.255\"]",
                "firewall",
                "home_agents: 10.18.3.255 is no host",
            ),
            (
                remote,
                "1/10.18.3.255",
                "access.ms1",
                "10.18.3.255 is no host",
            ),
            (
                "site.skip.pub",
                "ms1.skip.pub",
                "access.site",
                "it has the key of [access.ms1]",
            ),
            (
                "198.51.100.0/24",
                "0.0.0.0/0",
                "access.site",
                "every address outside",
            ),
        ],
    );
}
