use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::config::{Names, Origin, build, file};

fn connection(more: &str, children: &str) -> Arc<Connection> {
    let text = format!(
        "[connections.road]\nlegacy = true\n{more}\n\
         local = {{ auth = \"psk\", secret = \"s\", id = \"ms.example\" }}\n\
         remote = {{ auth = \"psk\", secret = \"s\", id = \"sg.example\" }}\n\
         [connections.road.children.net]\n{children}\n"
    );
    let path = Path::new("road.toml");
    let file = file::parse(path, &text).expect("a file");
    let loaded = build::build(path, file, (Names::Needed, Origin::Files))
        .unwrap_or_else(|fault| panic!("{fault}"));
    Arc::clone(&loaded.engine.connections[0])
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

#[test]
fn a_resolver_outside_every_selector_would_be_asked_in_clear() {
    let station = "remote_addrs = [\"192.0.2.1\"]\nvips = [\"0.0.0.0\"]";
    for (children, resolver, is_carried) in [
        ("remote_ts = [\"10.10.0.0/24\"]", "10.10.0.53", true),
        ("remote_ts = [\"10.10.0.0/24\"]", "10.10.1.53", false),
        ("remote_ts = [\"10.10.0.0/24\"]", "9.9.9.9", false),
        ("remote_ts = [\"0.0.0.0/0\"]", "9.9.9.9", true),
        ("remote_ts = [\"0.0.0.0/0\"]", "2001:db8::53", false),
        ("remote_ts = [\"10.0.0.0/8[tcp/80]\"]", "10.10.0.53", false),
        ("remote_ts = [\"10.0.0.0/8[udp/53]\"]", "10.10.0.53", true),
        ("mode = \"transport\"", "192.0.2.1", true),
        ("mode = \"transport\"", "192.0.2.53", false),
    ] {
        let connection = connection(station, children);
        let found = carries_questions(&connection, address(resolver));
        assert_eq!(found, is_carried, "{children} {resolver}");
    }
}

#[test]
fn a_gateway_speaks_from_its_address_within_local_ts() {
    let own = ["192.0.2.1", "10.10.0.1", "2001:db8:c::1"].map(address);
    for (children, is_ipv6, wanted) in [
        (
            "local_ts = [\"10.10.0.0/24\"]",
            false,
            Source::Address(own[1]),
        ),
        ("local_ts = [\"10.10.1.0/24\"]", false, Source::Nowhere),
        (
            "local_ts = [\"10.10.1.0/24\", \"192.0.2.0/24\"]",
            false,
            Source::Address(own[0]),
        ),
        ("local_ts = [\"0.0.0.0/0\"]", false, Source::Any),
        ("local_ts = [\"10.10.0.0/24\"]", true, Source::Any),
        (
            "local_ts = [\"2001:db8:c::/64\"]",
            true,
            Source::Address(own[2]),
        ),
        ("", false, Source::Any),
        ("mode = \"transport\"", false, Source::Any),
    ] {
        let connection = connection("", children);
        let found = Source::of(&connection, is_ipv6, &own);
        assert_eq!(found, wanted, "{children}");
    }
}

#[test]
fn this_host_s_networks_are_listed_without_loopback() {
    for (link, address, prefix) in own_networks("no-such-device") {
        assert!(!address.is_loopback(), "{link} {address}");
        assert!(prefix.contains(&Prefix::host(address)), "{link} {prefix}");
    }
}

#[test]
fn what_our_own_host_says_of_its_link_is_no_other_host_s_answer() {
    let own = [(
        "wan0".to_owned(),
        address("10.0.0.2"),
        Prefix::around(address("10.0.0.2"), 24),
    )];
    let seen = |remote: &str, why, by: &str| {
        let by = address(by);
        seen_from_here(address(remote), Unreachable { why, by }, &own).why
    };
    for (remote, why, by, expected) in [
        (
            "10.0.0.1",
            NotReached::Host,
            "10.0.0.2",
            NotReached::Neighbour,
        ),
        (
            "192.0.2.1",
            NotReached::Host,
            "10.0.0.2",
            NotReached::NextHop,
        ),
        (
            "192.0.2.1",
            NotReached::Host,
            "198.51.100.1",
            NotReached::Host,
        ),
        (
            "192.0.2.1",
            NotReached::Forbidden,
            "10.0.0.2",
            NotReached::Forbidden,
        ),
    ] {
        assert_eq!(seen(remote, why, by), expected, "{remote} {by}");
    }
}
