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
                name: "udp-gso".to_owned(),
                in_force: false,
                reason: Some("not in this kernel".to_owned()),
            }],
            ..ProcessStatus::default()
        },
        connections: vec![ConnectionStatus {
            name: "home".to_owned(),
            state: "established".to_owned(),
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
        "without offload: udp-gso (not in this kernel)",
        "in 3 packets, 1.5 MB",
        "last seen 2 h 5 min ago",
        "drops: bad-icv 4\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
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
