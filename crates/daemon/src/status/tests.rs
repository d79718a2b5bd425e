use std::time::Duration;

use engine::ike::Role;
use engine::node;
use engine::plane::SaReport;
use engine::sa::{ChildId, Mode, Path};
use engine::time::Instant;

use super::*;

fn report() -> StatusReport {
    let child = ChildStatus {
        name: "net".to_owned(),
        protocol: "ESP".to_owned(),
        mode: "tunnel".to_owned(),
        suite: "3des-md5".to_owned(),
        legacy: true,
        encapsulated: true,
        spi_in: "c0ffee01".to_owned(),
        spi_out: "c0ffee02".to_owned(),
        local_ts: "10.99.0.1/32".to_owned(),
        remote_ts: "10.10.0.0/24".to_owned(),
        packets_in: 3,
        bytes_in: 1_500_000,
        last_seen_s: Some(7_500.0),
        ..ChildStatus::default()
    };
    let session = SessionStatus {
        peer: Some("CN=sg".to_owned()),
        local: Some("192.0.2.2:4500".parse().unwrap()),
        remote: Some("192.0.2.1:4500".parse().unwrap()),
        role: "initiator".to_owned(),
        suite: Some("aes128-sha1-modp2048".to_owned()),
        deprecated: Some(convert::DEPRECATED.to_owned()),
        nat: "local".to_owned(),
        age_s: Some(61.0),
        inner: vec!["10.99.0.1".parse().unwrap()],
        children: vec![child],
        ..SessionStatus::default()
    };
    StatusReport {
        process: ProcessStatus {
            version: "0.1.0".to_owned(),
            pid: 7,
            role: "client".to_owned(),
            capture: Some("/tmp/x.pcapng".to_owned()),
            offloads: vec![OffloadStatus {
                name: "udp gso".to_owned(),
                in_force: false,
                reason: Some("not in this kernel".to_owned()),
            }],
            ..ProcessStatus::default()
        },
        connections: vec![ConnectionStatus {
            name: "home".to_owned(),
            state: ConnectionState::Established,
            version: "IKEv1".to_owned(),
            deprecated: Some(convert::DEPRECATED.to_owned()),
            sessions: vec![session],
            ..ConnectionStatus::default()
        }],
        drops: [("bad-icv".to_owned(), 4), ("replayed".to_owned(), 0)].into(),
        ..StatusReport::default()
    }
}

#[test]
fn people_are_told_of_a_post_quantum_pre_shared_key() {
    let mut report = report();
    report.connections[0].sessions[0].ppk = Some("fleet".into());
    report.connections[0].sessions[0].ppk_exchange = Some("IKE_AUTH".into());
    let text = report.to_string();
    assert!(text.contains(", PPK fleet in IKE_AUTH, "), "{text}");
}

#[test]
fn people_are_told_of_keys_of_dnssec_and_of_their_file() {
    let mut report = report();
    assert!(!report.to_string().contains("DNSSEC"), "{report}");
    let record = "corp.example. IN DS 43547 13 2 07";
    report.connections[0].trust_anchors = vec![record.to_owned()];
    report.connections[0].trust_anchor_file = Some("/run/caravan/home.trust-anchors".to_owned());
    let words = format!("  keys of DNSSEC, in /run/caravan/home.trust-anchors:\n    {record}\n");
    assert!(report.to_string().contains(&words), "{report}");
}

#[test]
fn people_are_told_of_mobike_and_of_moves() {
    let mut report = report();
    assert!(!report.to_string().contains("MOBIKE"), "{report}");
    let session = &mut report.connections[0].sessions[0];
    session.mobike = true;
    assert!(report.to_string().contains("NAT, MOBIKE, up"), "{report}");
    report.connections[0].sessions[0].sha1_signature = true;
    let words = "NAT, signed with SHA-1, MOBIKE, up";
    assert!(report.to_string().contains(words), "{report}");
    for (moves, words) in [
        (1, "MOBIKE, moved once, up"),
        (3, "MOBIKE, moved 3 times, up"),
    ] {
        report.connections[0].sessions[0].moves = moves;
        assert!(report.to_string().contains(words), "{report}");
    }
    let others = ["192.0.2.9", "2001:db8::1"].map(|it| it.parse().unwrap());
    report.connections[0].sessions[0].peer_addresses = others.to_vec();
    let words = "    other addresses of the peer: 192.0.2.9, 2001:db8::1\n";
    assert!(report.to_string().contains(words), "{report}");
}

#[test]
fn people_are_told_how_esp_travels_and_what_that_costs() {
    let mut report = report();
    assert!(
        report
            .to_string()
            .contains("net: ESP tunnel in UDP, 3des-md5")
    );
    let child = &mut report.connections[0].sessions[0].children[0];
    child.encapsulated = false;
    let raw = "net: ESP tunnel by protocol 50 (one system call a packet), 3des-md5";
    assert!(report.to_string().contains(raw), "{report}");
    report.connections[0].sessions[0].children[0].protocol = "AH".to_owned();
    assert!(report.to_string().contains("net: AH tunnel, 3des-md5"));
}

#[test]
fn people_are_told_what_is_deprecated_legacy_and_recorded() {
    let text = report().to_string();
    for part in [
        "home: established, IKEv1 (deprecated, RFC 9395)",
        "3des-md5 LEGACY",
        "(IKEv1 deprecated, RFC 9395), we are behind a NAT, up 1 min 1 s",
        "KEYS are being written to /tmp/x.pcapng",
        "without offload: udp gso (not in this kernel)",
        "in 3 packets, 1.5 MB",
        "last seen 2 h 5 min ago",
        "drops: bad-icv 4\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn people_are_told_while_the_host_is_not_ready() {
    let mut report = report();
    let words = "  host: addresses, routes or resolvers are still being set\n";
    assert!(!report.to_string().contains(words), "{report}");
    report.process.is_setting_up = true;
    assert!(report.to_string().contains(words), "{report}");
}

#[test]
fn json_goes_there_and_back() {
    let report = report();
    let read: StatusReport = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(read, report);
}

#[test]
fn every_drop_reason_has_its_key() {
    let mut report = StatusReport::default();
    let mut drops = engine::counters::DropCounters::default();
    drops.count(engine::counters::DropReason::BadIcv);
    report.add_drops(&drops);
    report.add_drops(&drops);
    assert_eq!(report.drops["bad-icv"], 2);
    assert_eq!(report.drops["replayed"], 0);
    assert_eq!(report.drops.len(), engine::counters::DropReason::COUNT);
}

#[test]
fn a_name_selects_its_connection() {
    let mut report = report();
    report.only("elsewhere");
    assert!(report.connections.is_empty());
}

#[test]
fn every_reason_of_a_drop_is_explained() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vpn-status.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut missing = engine::counters::DropReason::ALL
        .map(|reason| reason.name())
        .to_vec();
    missing.retain(|reason| !page.contains(&format!("`{reason}`")));
    assert!(missing.is_empty(), "docs/vpn-status.md lacks {missing:?}");
}

/// A session with one child, whose peer chose this SPI.
fn session(child: u32, spi_in: u32, spi_out: u32) -> node::SessionStatus {
    let path = Path::udp(([192, 0, 2, 1], 4500), ([192, 0, 2, 2], 4500));
    let child = node::ChildStatus {
        name: "net".to_owned(),
        id: ChildId(child),
        spi_in,
        spi_out,
        suite: "aes128gcm16".to_owned(),
        is_legacy: false,
        protocol: "ESP",
        mode: Mode::Tunnel,
        is_udp_encapsulated: true,
        local: "10.10.0.0/24".to_owned(),
        remote: "10.99.0.1/32".to_owned(),
        pool_address: None,
        age: Duration::from_secs(9),
    };
    node::SessionStatus {
        peer: None,
        path,
        home: path,
        role: Role::Responder,
        version: 1,
        suite: String::new(),
        is_legacy: false,
        has_signed_sha1: false,
        nat: (false, false),
        ppk: None,
        has_full_transcript: false,
        is_resumed: false,
        has_mobike: false,
        moves: 0,
        peer_addresses: Vec::new(),
        age: None,
        inner: Vec::new(),
        children: vec![child],
    }
}

fn carried(child: u32, spi: u32, packets: u64) -> SaReport {
    SaReport {
        spi,
        child: ChildId(child),
        packets,
        bytes: packets * 100,
        last: Some(Instant(packets)),
        path_mtu: 1400,
    }
}

#[test]
fn peers_that_chose_one_spi_have_their_own_traffic() {
    const CHOSEN: u32 = 0xc0ff_ee02;
    let status = node::Status {
        connections: vec![node::ConnectionStatus {
            name: "road".to_owned(),
            version: engine::config::Version::V1,
            state: node::ConnectionState::Established,
            is_legacy: false,
            missing: Vec::new(),
            narrowed: Vec::new(),
            retry_in: None,
            passed_over: Vec::new(),
            sessions: vec![session(1, 11, CHOSEN), session(2, 12, CHOSEN)],
        }],
        half_open: 0,
        fragment_octets: 0,
        pools: Vec::new(),
        radius: Vec::new(),
        draining: None,
    };
    // The second peer's predecessor by a renewal still receives.
    let inbound = vec![carried(1, 11, 3), carried(2, 10, 9), carried(2, 12, 4)];
    let outbound = vec![carried(2, CHOSEN, 70), carried(1, CHOSEN, 50)];
    let traffic = convert::Traffic::new(inbound, outbound, Instant(10));
    let report = StatusReport::new(status, &traffic);
    let sessions = report.connections[0].sessions.iter();
    let children = sessions.flat_map(|session| &session.children);
    let counted = children.map(|child| {
        assert_eq!(child.spi_out, "c0ffee02");
        (child.packets_in, child.packets_out, child.bytes_out)
    });
    assert_eq!(counted.collect::<Vec<_>>(), [(3, 50, 5000), (4, 70, 7000)]);
}

#[test]
fn a_client_says_when_it_tries_again_and_that_it_cannot_send() {
    let waiting = ConnectionStatus {
        name: "home".to_owned(),
        state: ConnectionState::AwaitingRetry,
        version: "IKEv2".to_owned(),
        retry_in_s: Some(74.2),
        cannot_send: Some("cannot send to 192.0.2.1:500: Network is unreachable".to_owned()),
        dns: vec!["10.10.0.2".parse().unwrap()],
        ..ConnectionStatus::default()
    };
    assert_eq!(
        waiting.to_string(),
        "home: waiting to try again in 1 min 15 s, IKEv2\n  \
         cannot send to 192.0.2.1:500: Network is unreachable\n  resolvers: 10.10.0.2\n"
    );
}

#[test]
fn what_is_not_up_and_what_is_not_protected_are_two_lines() {
    let up = ConnectionStatus {
        name: "home".to_owned(),
        state: ConnectionState::Established,
        version: "IKEv2".to_owned(),
        missing: vec!["a to 10.1.0.0/24,10.2.0.0/24".to_owned(), "b".to_owned()],
        narrowed: vec!["net for 10.77.0.0/24".to_owned()],
        ..ConnectionStatus::default()
    };
    assert_eq!(
        up.to_string(),
        "home: established, IKEv2\n  not up: a to 10.1.0.0/24,10.2.0.0/24; b\n  \
         not all protected: net for 10.77.0.0/24\n"
    );
}

#[test]
fn the_words_of_a_state_are_the_same_in_json_and_for_people() {
    let words = [
        (ConnectionState::Established, "established"),
        (ConnectionState::Listening, "listening"),
        (ConnectionState::Down, "down"),
        (ConnectionState::AwaitingTraffic, "awaiting traffic"),
        (ConnectionState::AwaitingAddress, "awaiting an address"),
        (ConnectionState::Connecting, "connecting"),
        (ConnectionState::Up, "up"),
        (ConnectionState::AwaitingRetry, "waiting to try again"),
        (ConnectionState::InClear, "in clear"),
    ];
    for (state, word) in words {
        assert_eq!(serde_json::to_value(state).unwrap(), word);
        let read: ConnectionState = serde_json::from_value(word.into()).unwrap();
        assert_eq!((read, state.to_string().as_str()), (state, word));
    }
}

#[test]
fn a_node_that_is_not_registered_says_why_and_its_home_agent_whom_it_refused() {
    let node = MobilityStatus {
        name: "mobile".to_owned(),
        role: "mobile node".to_owned(),
        state: Some("registering".to_owned()),
        interface: Some("wlan0".to_owned()),
        trouble: Some("this host has no route to 10.18.3.1".to_owned()),
        ..MobilityStatus::default()
    };
    assert_eq!(
        node.to_string(),
        "mobile: mobile node, registering on wlan0\n  this host has no route to 10.18.3.1\n"
    );
    let mut outside = OutsideStatus {
        home_address: [198, 51, 100, 66].into(),
        home_agent: [198, 51, 100, 30].into(),
        care_of: None,
        through: None,
    };
    let told = |outside: &OutsideStatus| {
        let outside = Some(outside.clone());
        MobilityStatus {
            outside,
            ..node.clone()
        }
        .to_string()
    };
    let whole = "  outside address 198.51.100.66, home agent 198.51.100.30, ";
    assert!(told(&outside).ends_with(&format!("{whole}not registered there\n")));
    outside.care_of = Some([203, 0, 113, 7].into());
    assert!(told(&outside).ends_with(&format!("{whole}at 203.0.113.7\n")));
    outside.through = Some([203, 0, 113, 1].into());
    let by_agent = "at 203.0.113.7 through 203.0.113.1\n";
    assert!(told(&outside).ends_with(&format!("{whole}{by_agent}")));
    let agent = MobilityStatus {
        name: "home-agent".to_owned(),
        role: "home agent".to_owned(),
        nodes: 2,
        refusals: vec![RefusalStatus {
            home_address: [10, 18, 3, 17].into(),
            from: [198, 51, 100, 7].into(),
            reason: "denied-131".to_owned(),
            ago_s: 12.4,
        }],
        ..MobilityStatus::default()
    };
    let text = agent.to_string();
    let line = "  10.18.3.17 refused 12 s ago, from 198.51.100.7: denied-131\n";
    assert!(text.ends_with(line), "{text}");
}
