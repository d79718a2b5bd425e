//! What `caravan bench` writes.

use crypto::cipher::Cipher;
use crypto::hash::Hash;
use engine::link::wireless::LinkCipher;
use engine::work::{Task, Work};

use super::*;

pub(super) const BENCH: &str = r#"missing = []

[device]
name = "box"
cpu = "a processor"
date = "2026-01-01 00:00 UTC"
tsc_mhz = 2000.0
is_quick = false

[suite.aes128gcm16]
seal_ns_64 = 100.0
seal_ns_480 = 204.0
seal_ns_1400 = 434.0
open_ns_64 = 120.0
open_ns_480 = 230.0
open_ns_1400 = 450.0

[suite.aes128-sha1]
seal_ns_64 = 400.0
seal_ns_480 = 1700.0
seal_ns_1400 = 4700.0

[frame.ccmp-128]
protect_ns_64 = 300.0
protect_ns_480 = 508.0
protect_ns_1400 = 968.0
unprotect_ns_64 = 330.0
unprotect_ns_480 = 538.0
unprotect_ns_1400 = 998.0

[exchange.modp2048]
generate_ns = 300000.0
agree_ns = 310000.0

[exchange.rsa2048]
sign_ns = 660000.0
verify_ns = 20000.0

[exchange.prf-sha1]
prf_ns_512 = 900.0

[road.tun]
read_ns_packet = 1000.0
read_ns_burst = 60.0
write_ns_packet = 1100.0

[road.udp]
send_ns_packet = 2000.0
send_ns_burst = 90.0
receive_ns_packet = 500.0
receive_ns_burst = 40.0
"#;

fn machine() -> Device {
    let profile = Profile::parse("box.toml", BENCH).expect("a profile");
    Device::new(profile, None).expect("a device")
}

fn gcm() -> Policy {
    Policy::of("aes128gcm16".parse().expect("a suite"))
}

#[test]
fn a_line_through_what_was_measured_says_how_far_off_it_is() {
    let suite_alone = machine().on(HostPath::None);
    let sealed = suite_alone
        .service(&gcm(), Direction::Seal)
        .expect("a cost");
    // 0.25 ns a byte from 84 ns on, exactly
    assert!((sealed.at(480.0) - 204e-9).abs() < 1e-12);
    let price = suite_alone
        .price(&gcm(), 480.0, Direction::Seal)
        .expect("a price");
    assert_eq!(
        price.notes,
        ["fitted to 64 to 1400 bytes, largest error 0.0 %"]
    );
    assert!((price.cycles.expect("the clock is known") - 408.0).abs() < 1e-6);
    let opened = suite_alone
        .price(&gcm(), 480.0, Direction::Open)
        .expect("a price");
    assert!(opened.notes[0].contains("largest error") && !opened.notes[0].contains(" 0.0 %"));
    assert!((opened.time_s / 230e-9 - 1.0).abs() < 0.05);
}

#[test]
fn the_host_path_is_charged_a_packet_or_a_burst_at_a_time() {
    let at = |host_path, direction| {
        let service = machine().on(host_path).service(&gcm(), direction);
        service.map(|service| service.at(64.0) * 1e9)
    };
    let alone = at(HostPath::None, Direction::Seal).expect("a cost");
    let packet = at(HostPath::Packet, Direction::Seal).expect("a cost");
    let burst = at(HostPath::Burst, Direction::Seal).expect("a cost");
    assert!((packet - alone - 3000.0).abs() < 1e-6);
    assert!((burst - alone - 150.0).abs() < 1e-6);
    // no burst was ever written to this device
    let missing = at(HostPath::Burst, Direction::Open).expect_err("a gap");
    assert_eq!(missing.cell, "road.tun.write_ns_burst");
    let price = machine()
        .price(&gcm(), 64.0, Direction::Seal)
        .expect("a price");
    let parts: Vec<&str> = price.parts.iter().map(|part| part.what.as_str()).collect();
    assert_eq!(parts, ["tun.read", "aes128gcm16", "udp.send"]);
}

#[test]
fn what_was_not_measured_is_named() {
    let policy = Policy::of("chacha20poly1305".parse().expect("a suite"));
    let missing = machine()
        .service(&policy, Direction::Seal)
        .expect_err("a gap");
    assert_eq!(missing.cell, "suite.chacha20poly1305.seal_ns_*");
    assert_eq!(missing.inside, ["none", "aes128gcm16"]);
    let sha1 = Policy::of("aes128-sha1".parse().expect("a suite"));
    assert!(machine().service(&sha1, Direction::Seal).is_ok());
    assert!(machine().service(&sha1, Direction::Open).is_err());
    let none = Policy::of(Suite::none());
    let service = machine().service(&none, Direction::Seal).expect("nothing");
    assert_eq!(service.at(1400.0), 0.0);
    let clock = Some(Clock::MegaHertz(100.0));
    assert!(Device::new(machine().profile().clone(), clock).is_err());
}

#[test]
fn a_handshake_costs_what_was_measured() {
    let mut policy = gcm();
    policy.keys = Some(Keys {
        exchange: Exchange::Main,
        proposal: Proposal::V1("aes128-sha1-modp2048".parse().expect("a proposal")),
        proof: Proof::Rsa2048,
        asks_cookie: false,
        fragments: true,
        is_resumed: false,
    });
    let mut work = Work::default();
    work.count(Task::KeyPair(crypto::dh::Group::Modp2048), 0);
    work.count(Task::Agree(crypto::dh::Group::Modp2048), 0);
    work.count(Task::Sign(2048), 0);
    work.count(Task::Verify(2048), 0);
    work.add(Task::Prf(Hash::Sha1), 4, 800);
    let seconds = machine().work_time(&policy, &work).whole().expect("a time");
    assert!(
        (seconds * 1e9 - 1_290_000.0 - 3600.0).abs() < 1e-3,
        "{seconds}"
    );
    work.count(Task::MessageCipher(Cipher::Aes128), 480);
    let more = machine().work_time(&policy, &work).whole().expect("a time");
    assert!(((more - seconds) * 1e9 / 1700.0 - 1.0).abs() < 0.05);
    let suite = gcm();
    let suite = suite.suite.ipsec().expect("ESP");
    work.add(Task::Seal(suite.protocol, suite.protection), 10, 640);
    let most = machine().work_time(&policy, &work).whole().expect("a time");
    assert!(((most - more) * 1e9 - 10.0 * 3100.0).abs() < 1.0);
}

#[test]
fn a_bench_file_is_checked_as_well() {
    let refused = |from: &str, to: &str| {
        let text = BENCH.replacen(from, to, 1);
        assert_ne!(text, BENCH);
        Profile::parse("box.toml", &text)
            .expect_err("a fault")
            .to_string()
    };
    let text = refused("seal_ns_480 = 204.0", "seal_ns_480 = -204.0");
    assert!(
        text.starts_with("box.toml:12:1: suite.aes128gcm16.seal_ns_480: "),
        "{text}"
    );
    assert!(refused("seal_ns_480", "seal_ns_many").contains("seal_ns_many needs a size"));
    assert!(refused("tsc_mhz = 2000.0", "tsc_mhz = 0.0").contains("device.tsc_mhz"));
    assert!(refused("is_quick", "is_quik").contains("'is_quick'"));
    let one = "seal_ns_64 = 400.0\nseal_ns_480 = 1700.0\nseal_ns_1400 = 4700.0\n";
    assert!(refused(one, "seal_ns_64 = 400.0\n").contains("one size"));
}

/// Lines through points of a line, of frames and of records alike.
#[test]
fn frames_and_records_cost_what_was_measured() {
    let frame = |cipher, direction| machine().frame(cipher, direction);
    let (frames, left_out) = frame(LinkCipher::Ccmp128, Direction::Open).expect("measured");
    assert_eq!((frames.at(1000.0) * 1e9).round(), 798.0);
    assert_eq!(left_out, None);
    let missing = frame(LinkCipher::Wep104, Direction::Seal).expect_err("not measured");
    assert_eq!(missing.cell, "frame.wep-104.protect_ns_*");
    let before = BENCH.split("[frame.ccmp-128]").next().expect("a part");
    let after = BENCH.split("[exchange.modp2048]").nth(1).expect("a part");
    let former = format!("{before}[exchange.modp2048]{after}");
    let former = Profile::parse("box.toml", &former).expect("a file of a former version");
    assert!(
        former
            .entries()
            .iter()
            .all(|it| !it.name.starts_with("frame"))
    );
    let suite = "aes128gcm16".parse().expect("a suite");
    let version = TlsVersion::Tls13;
    let record = machine().record(&Records { version, suite }, Direction::Seal);
    assert_eq!((record.expect("measured").at(1400.0) * 1e9).round(), 434.0);
}
