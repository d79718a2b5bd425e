use std::sync::Arc;

use super::*;
use crate::config::{Encapsulation, LocalAuth, RemoteAuth};
use crate::sa::Secret;

fn connection(ike: &str, esp: &str) -> Connection {
    let secret = || Arc::new(Secret(b"secret".to_vec()));
    let children = vec![Child::new("net", Mode::Tunnel, vec![esp.parse().unwrap()])];
    Connection::new(
        "road",
        vec![ike.parse().unwrap()],
        LocalAuth {
            identity: Identity::parse("gw.example.org").unwrap(),
            method: LocalMethod::PresharedKey(secret()),
        },
        RemoteAuth {
            identities: vec![IdentityPattern::parse("ms.example.org").unwrap()],
            method: RemoteMethod::PresharedKey(secret()),
        },
        children,
    )
}

fn errors(connection: &Connection) -> Vec<String> {
    texts(connection, Severity::Error)
}

fn texts(connection: &Connection, severity: Severity) -> Vec<String> {
    let all = connection.check().into_iter();
    all.filter(|finding| finding.severity == severity)
        .map(|finding| finding.text)
        .collect()
}

#[test]
fn a_current_connection_is_told_of_rfc_9395_only() {
    let sound = connection("aes128-sha256-modp2048", "aes128gcm16-modp2048");
    let all: Vec<String> = sound.check().iter().map(ToString::to_string).collect();
    assert_eq!(all, ["warning: IKEv1 is deprecated, RFC 9395"]);
}

#[test]
fn legacy_algorithms_need_the_word_and_are_named_with_it() {
    let mut weak = connection("3des-md5-modp1024", "des-md5");
    let found = errors(&weak);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("legacy = true is needed for proposal 3des-md5-modp1024 (3DES"));
    assert!(found[1].contains("proposal des-md5 of child net (single DES"));
    weak.is_legacy = true;
    assert_eq!(errors(&weak), [""; 0]);
    let warnings = texts(&weak, Severity::Warning);
    assert!(warnings[1].starts_with("insecure, permitted by legacy = true: proposal 3des"));
    for esp in [
        "des",
        "3des",
        "aes128-md5",
        "ah-md5",
        "aes128gcm16-modp1536",
    ] {
        let weak = connection("aes128-sha1-modp2048", esp);
        assert_eq!(errors(&weak).len(), 1, "{esp}");
    }
}

#[test]
fn a_preshared_key_is_legacy_in_aggressive_mode_and_a_group_key_in_main_mode() {
    let mut shared = connection("aes128-sha256-modp2048", "aes128gcm16");
    shared.is_aggressive = true;
    assert!(errors(&shared)[0].contains("aggressive mode with a pre-shared key"));
    shared.is_aggressive = false;
    shared.remote.identities = vec![IdentityPattern::Any];
    assert!(texts(&shared, Severity::Warning)[1].contains("is a group key"));
    shared.remote_addrs = vec!["192.0.2.1:500".parse().unwrap()];
    let found = texts(&shared, Severity::Warning);
    assert!(found.iter().all(|text| !text.contains("group key")));
}

#[test]
fn ah_goes_into_no_udp() {
    let mut wrong = connection("aes128-sha256-modp2048", "ah-sha256");
    assert_eq!(errors(&wrong), [""; 0]);
    assert!(!wrong.prefers_udp());
    wrong.encapsulation = Encapsulation::Always;
    assert!(errors(&wrong)[0].contains("AH, which cannot be encapsulated"));
}

#[test]
fn transport_mode_for_many_needs_a_pool() {
    let mut gateway = connection("aes128-sha256-modp2048", "aes128gcm16");
    gateway.children[0].mode = Mode::Transport;
    assert_eq!(errors(&gateway), [""; 0]);
    for text in ["*", "*.example.org", "C=CH, CN=*"] {
        gateway.remote.identities = vec![IdentityPattern::parse(text).unwrap()];
        gateway.pools.clear();
        assert!(errors(&gateway)[0].contains("needs a pool"), "{text}");
        gateway.pools = vec![0];
        assert_eq!(errors(&gateway), [""; 0]);
    }
}

#[test]
fn what_can_never_work_is_an_error() {
    let mut empty = connection("aes128-sha256-modp2048", "aes128gcm16");
    empty.proposals.clear();
    empty.children[0].proposals.clear();
    assert_eq!(errors(&empty).len(), 2);
    empty.children.clear();
    assert!(errors(&empty)[1].contains("nothing would be protected"));
    let mut unproven = connection("aes128-sha256-modp2048", "aes128gcm16");
    unproven.remote.method = RemoteMethod::Signature(Arc::default());
    unproven.remote.identities = vec![IdentityPattern::parse("keyid:group").unwrap()];
    assert!(errors(&unproven)[0].contains("no certificate proves the key ID keyid:group"));
}

#[test]
fn networks_of_two_families_that_nothing_joins_are_an_error() {
    let child = |local: &[&str], remote: &[&str]| {
        let mut site = connection("aes128-sha256-modp2048", "aes128gcm16-modp2048");
        let read = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect();
        site.children[0].local = read(local);
        site.children[0].remote = read(remote);
        site
    };
    let crossed = child(&["fd77:3::/64"], &["10.78.0.0/24"]);
    let sentence = "child net: local_ts fd77:3::/64 has an address family that remote_ts does not \
                    have: no packet goes from IPv4 to IPv6 or back";
    assert_eq!(errors(&crossed), [sentence]);
    let both = ["10.10.0.0/24", "fd10::/64"];
    assert_eq!(errors(&child(&both, &both)), [""; 0]);
    for (local, remote) in [(&both[..], &both[..1]), (&both[..1], &both[..])] {
        let half = child(local, remote);
        assert_eq!(errors(&half), [""; 0]);
        let told = texts(&half, Severity::Warning).join("\n");
        assert!(
            told.contains("fd10::/64 has an address family that"),
            "{told}"
        );
    }
    // A client whose inner address has the other family.
    let mut station = child(&[], &["fd10::/64"]);
    station.remote_addrs = vec!["192.0.2.1:500".parse().unwrap()];
    station.wants_inner.v4 = true;
    let found = errors(&station);
    assert!(
        found[0].starts_with("child net has remote_ts fd10::/64, but vips asks"),
        "{found:?}"
    );
    station.wants_inner.v6 = true;
    assert_eq!(errors(&station), [""; 0]);
}

#[test]
fn a_station_is_told_what_its_tunnel_does_not_reach() {
    let warnings = |change: &dyn Fn(&mut Connection)| {
        let mut station = connection("aes128-sha256-modp2048", "aes128gcm16-modp2048");
        station.remote_addrs = vec!["192.0.2.1:500".parse().unwrap()];
        station.wants_inner.v4 = true;
        station.children[0].remote = vec!["10.10.0.0/24".parse().unwrap()];
        change(&mut station);
        assert_eq!(errors(&station), [""; 0]);
        texts(&station, Severity::Warning)[1..].to_vec()
    };
    assert_eq!(warnings(&|_| {}), [""; 0]);
    let bare = warnings(&|station| {
        station.wants_inner.v4 = false;
        station.children[0].remote.clear();
    });
    assert_eq!(bare.len(), 2);
    assert!(bare[0].starts_with(
        "child net has no remote_ts: its tunnel reaches only the \
                                 gateway's"
    ));
    assert!(bare[1].starts_with("child net has neither vips nor local_ts"));
    let site = warnings(&|station| {
        station.wants_inner.v4 = false;
        station.children[0].local = vec!["10.20.0.0/24".parse().unwrap()];
    });
    assert_eq!(site, [""; 0]);
    let family = warnings(&|station| {
        station.children[0]
            .remote
            .push("fd00::/64".parse().unwrap());
    });
    assert!(family[0].starts_with(
        "child net has remote_ts fd00::/64, but vips asks for no \
                                   address"
    ));
    assert!(family[0].ends_with("\"::\" is missing"));
    let transport = warnings(&|station| {
        station.children[0] = Child::new(
            "net",
            Mode::Transport,
            station.children[0].proposals.clone(),
        );
    });
    assert_eq!(transport, [""; 0]);
}

#[test]
fn a_gateway_that_lends_addresses_is_told_what_they_do_not_reach() {
    let mut gateway = connection("aes128-sha256-modp2048", "aes128gcm16-modp2048");
    let told = |it: &Connection| {
        let all = texts(it, Severity::Warning).join("\n");
        all.contains("child net has no local_ts: clients reach only this gateway's own address")
    };
    assert!(!told(&gateway), "a peer without a pool");
    gateway.pools = vec![0];
    assert!(told(&gateway));
    gateway.children[0].layer = crate::config::ChildLayer::Around;
    assert!(!told(&gateway), "the child inside is told");
    gateway.children[0].layer = crate::config::ChildLayer::Alone;
    gateway.children[0].mode = Mode::Transport;
    assert!(!told(&gateway), "transport mode reaches the gateway alone");
    gateway.children[0].mode = Mode::Tunnel;
    gateway.children[0].local = vec!["10.10.0.0/24".parse().unwrap()];
    assert!(!told(&gateway));
}

#[test]
fn esp_and_ah_in_one_child_are_alternatives() {
    let mut both = connection("aes128-sha256-modp2048", "aes128gcm16-modp2048");
    let ah = crate::suite::EspSuite::parse_ah("sha256-modp2048").unwrap();
    both.children[0].proposals.push(ah);
    let found = texts(&both, Severity::Warning);
    assert!(found[1].starts_with("child net proposes ESP and AH: the peer chooses one of them"));
    both.children[0].proposals.remove(0);
    assert_eq!(texts(&both, Severity::Warning).len(), 1);
}

#[test]
fn a_range_that_many_may_ask_for_in_parts_is_told() {
    let mut sites = connection("aes128-sha256-modp2048", "aes128gcm16-modp2048");
    let told = |it: &Connection| texts(it, Severity::Warning).join("\n");
    sites.children[0].remote = vec!["10.0.0.0/8".parse().unwrap()];
    assert!(!told(&sites).contains("ask for any part"));
    sites.remote.identities = vec![IdentityPattern::Any];
    assert!(told(&sites).contains("ask for any part of remote_ts 10.0.0.0/8"));
    sites.children[0].remote.clear();
    assert!(!told(&sites).contains("ask for any part"));
}

#[test]
fn a_client_is_told_who_can_pose_as_its_gateway() {
    let mut client = connection("aes128-sha256-modp2048", "aes128gcm16");
    client.remote_addrs = vec!["192.0.2.1:500".parse().unwrap()];
    client.remote.method = RemoteMethod::Signature(Arc::default());
    let mut told = |pattern: &str| {
        client.remote.identities = vec![IdentityPattern::parse(pattern).unwrap()];
        let is_about = |text: &String| text.contains("as the gateway: name the gateway");
        let count = |severity| {
            texts(&client, severity)
                .into_iter()
                .filter(is_about)
                .count()
        };
        [Severity::Error, Severity::Warning].map(count)
    };
    for pattern in ["*", "%any", "CN=*", "O=*, CN=*"] {
        assert_eq!(told(pattern), [1, 0], "{pattern}");
    }
    for pattern in ["*.example", "*@example", "O=Example, CN=*"] {
        assert_eq!(told(pattern), [0, 1], "{pattern}");
    }
    for pattern in ["sg.example", "CN=sg", "192.0.2.1"] {
        assert_eq!(told(pattern), [0, 0], "{pattern}");
    }
}
