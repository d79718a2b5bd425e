//! SKIP: sizes are the engine's, prices are those of its work.

use engine::skip::IvLen;
use engine::skip::counter::STEP_BYTES;
use engine::skip::profile::Renewal;
use engine::work::{Task, Work};
use wire::skip::{CryptAlg, KijAlg, MacAlg, Nsid};

use super::*;

fn suite_of(name: &str) -> SkipSuite {
    *policy(name).suite.skip().expect("SKIP")
}

/// Every profile and choice of algorithms that goes together, by its policy's text.
fn everyone() -> Vec<Policy> {
    let mut all = Vec::new();
    for profile in ["skip-draft", "skip-paper", "skip-x25519"] {
        for kij in ["des", "3des", "hkdf-sha256"] {
            for crypt in ["none", "des", "3des", "rc2", "rc4", "aes256gcmsiv"] {
                for mac in ["none", "keyed-md5", "des-mac", "keyed-sha", "aes256gcmsiv"] {
                    for iv in ["4 B", "8 B"] {
                        let skip = format!(
                            "profile = \"{profile}\"\nkij = \"{kij}\"\ncrypt = \"{crypt}\"\nmac = \
                             \"{mac}\"\niv = \"{iv}\"\n"
                        );
                        all.extend(parsed(&skip));
                    }
                }
            }
        }
    }
    all
}

fn parsed(skip: &str) -> Result<Policy, document::Fault> {
    Policy::parse(
        "mine",
        &format!("name = \"mine\"\ntitle = \"mine\"\n[skip]\n{skip}"),
    )
}

#[test]
fn sizes_are_the_engines_at_every_size() {
    let all = everyone();
    assert!(all.len() > 50, "{}", all.len());
    for policy in all {
        let suite = policy.suite.skip().expect("SKIP");
        let size = Accounting::Rfc.size(&policy).expect("a size");
        let layout = suite.layout();
        for bytes in 20..3000 {
            assert_eq!(
                size.at(bytes as f64),
                layout.wire_bytes(bytes) as f64,
                "{policy:?}"
            );
        }
        assert_eq!(Accounting::PaperU.size(&policy), Err(NoFormula));
        let parts = suite.parts();
        let ends = parts.trailer_bytes + parts.tag_bytes;
        let whole = parts.ip_bytes + layout.clear_at() + ends;
        // Padding is all that is missing, and a packet without its last octets has none.
        let padding = layout.wire_bytes(1006) - 1006 - whole;
        assert_eq!(
            padding,
            (8 - (1006 + parts.trailer_bytes) % 8) % 8 % suite_block(suite)
        );
    }
}

fn suite_block(suite: &SkipSuite) -> usize {
    suite.algorithms.crypt().block_len()
}

/// The paper counts 116 octets: ESP header 4, padding 8, AH 8 and 16, SKIP header 60, IP header 20.
#[test]
fn the_papers_116_octets_are_a_mean_of_ours() {
    let suite = suite_of("skip-des-md5-paper");
    let parts = suite.parts();
    assert_eq!(
        (parts.skip_bytes, parts.key_bytes, parts.name_bytes),
        (60, 16, 32)
    );
    assert_eq!(
        (parts.ip_bytes, parts.ah_bytes, parts.authenticator_bytes),
        (20, 8, 16)
    );
    assert_eq!(
        (parts.spi_bytes, parts.iv_bytes, parts.trailer_bytes),
        (4, 4, 2)
    );
    let added = |bytes: usize| suite.layout().wire_bytes(bytes) - bytes;
    let all: Vec<usize> = (1000..1008).map(added).collect();
    assert_eq!(
        (all.iter().min(), all.iter().max()),
        (Some(&114), Some(&121))
    );
    assert_eq!(suite_of("skip-des-md5-paper-ipv4").parts().skip_bytes, 32);
    assert_eq!(suite_of("skip-des-md5").parts().iv_bytes, 8);
    assert_eq!(suite_of("skip-x25519").names, [Nsid::Ipv4, Nsid::None]);
    assert_eq!(suite_of("skip-des-md5").iv_len, IvLen::Whole);
}

/// What the engine counts for a packet, under a key that it keeps.
fn work_of(suite: &SkipSuite, bytes: usize) -> Work {
    let mut work = Work::default();
    let text = suite.encrypted().octets().at(bytes as f64) as u64;
    work.count(Task::SkipCipher(suite.algorithms.crypt()), text);
    let wire = suite.layout().wire_bytes(bytes) as u64;
    work.count(Task::SkipMac(suite.algorithms.mac()), wire);
    work
}

#[test]
fn a_packet_costs_what_the_engines_work_costs_and_its_share_of_a_key() {
    let profile = device("pentium-pro-200");
    let device = Device::new(profile, None).expect("it has a clock");
    for policy in everyone() {
        let suite = policy.suite.skip().expect("SKIP");
        let crypt = suite.algorithms.crypt();
        if crypt == CryptAlg::AesGcmSiv {
            let missing = device
                .service(&policy, Direction::Seal)
                .expect_err("no cost");
            assert!(missing.cell.contains("aes256-gcm-siv"), "{missing}");
            continue;
        }
        let service = device.service(&policy, Direction::Seal).expect("a cost");
        for bytes in [28, 480, 1006, 1084] {
            let alone = device
                .work_time(&policy, &work_of(suite, bytes))
                .whole()
                .expect("a time");
            let share = service.at(bytes as f64) - alone;
            let most = match (crypt, suite.profile) {
                // RC4: the schedule is in the work already, and the packet's key is not
                (CryptAlg::Rc4, _) => 60e-6,
                (_, engine::skip::Profile::Paper) => 0.4e-6,
                _ => 0.02e-6,
            };
            assert!((0.0..most).contains(&share), "{policy:?} {bytes}: {share}");
        }
    }
}

/// A text of 1008 octets, under a packet of 1122; RFC 1828 adds a key of 16 and an end of 9.
#[test]
fn des_and_keyed_md5_of_a_pentium_pro_by_hand() {
    let profile = device("pentium-pro-200");
    let policy = policy("skip-des-md5-paper");
    let device = Device::new(profile, None).expect("a device");
    let price = device
        .price(&policy, 1006.0, Direction::Seal)
        .expect("a price");
    let kbyte_s = |rate: f64| 200e3 / rate;
    let near = |name: &str, cycles: f64| {
        let part = price
            .parts
            .iter()
            .find(|part| part.what == name)
            .expect(name);
        let found = part.time_s * 200e6;
        assert!(
            (found / cycles - 1.0).abs() < 1e-3,
            "{name}: {found} for {cycles}"
        );
    };
    let call = |kbyte_s_of_8: f64, rate: f64, block: f64| {
        8.0 * kbyte_s(kbyte_s_of_8) - block * kbyte_s(rate)
    };
    near(
        "des-cbc",
        1008.0 * kbyte_s(4572.73) + call(4131.97, 4572.73, 8.0),
    );
    assert_eq!(price.protected_bytes, 1120.0);
    let blocks = ((1120.0 + 16.0 + 9.0) / 64.0_f64).ceil();
    near(
        "keyed-md5",
        blocks * 64.0 * kbyte_s(32677.89) + call(1917.71, 32677.89, 64.0),
    );
    assert!(price.is_lower_bound);
    assert_eq!(
        (price.standing, price.suite.as_str()),
        ("legacy", "skip-paper des keyed-md5")
    );
}

#[test]
fn rc4_needs_its_key_schedule_and_other_ciphers_say_that_they_lack_it() {
    let slow = Device::new(device("r3000-25"), None).expect("a device");
    let missing = slow
        .service(&policy("skip-rc4-md5-paper"), Direction::Seal)
        .expect_err("no schedule");
    assert_eq!(missing.cell, "per_operation.rc4-set-key");
    let bill = slow
        .bill(&policy("skip-des-md5"), Direction::Open)
        .expect("a bill");
    assert!(
        bill.notes.iter().any(|note| note.contains("des-set-key")),
        "{:?}",
        bill.notes
    );
    let mut work = Work::default();
    work.count(Task::SkipCipher(CryptAlg::Rc4), 1000);
    let time = slow.work_time(&policy("skip-rc4-md5-paper"), &work);
    assert!(
        time.missing
            .is_some_and(|it| it.cell.contains("rc4-set-key"))
    );
}

#[test]
fn derivations_are_hash_calls_and_wrapping_is_a_block_or_two() {
    let device = Device::new(device("pentium-pro-200"), None).expect("a device");
    let policy = policy("skip-des-md5");
    let time = |task, times, bytes| {
        let mut work = Work::default();
        work.add(task, times, bytes);
        device.work_time(&policy, &work).whole().expect("a time") * 200e6
    };
    let md5 = 64.0 * 6.1203 + 442.6;
    let derive = time(Task::DeriveSkipKey(KijAlg::TripleDes), 4, 4 * 18);
    assert!((derive / (4.0 * md5) - 1.0).abs() < 1e-3);
    let wrap = time(Task::WrapPacketKey(KijAlg::TripleDes), 1, 16);
    assert!((wrap / (16.0 * 121.6649 + 47.6) - 1.0).abs() < 1e-3);
    let mac = time(Task::SkipMac(MacAlg::Sha), 1, 1096);
    let blocks = ((1096.0 + 20.0 + 9.0) / 64.0_f64).ceil();
    assert!((mac / (blocks * 64.0 * 12.6345 + 382.0) - 1.0).abs() < 1e-3);
}

#[test]
fn keys_last_as_the_profile_says() {
    assert_eq!(suite_of("skip-des-md5").renewal(), Renewal::DRAFT);
    assert_eq!(suite_of("skip-des-md5-paper").renewal(), Renewal::PAPER);
    assert_eq!(suite_of("skip-rc4-md5-paper").renewal().packets, 1);
}

#[test]
fn a_key_for_every_packet_has_its_price_in_every_packet() {
    let device = Device::new(device("r3000-25"), None).expect("a device");
    let keys = "profile = \"skip-paper\"\nkij = \"3des\"\ncrypt = \"des\"\nmac = \"keyed-md5\"\n";
    let mine = |rest: &str| parsed(&format!("{keys}{rest}")).expect("a policy");
    let of_key = |policy: &Policy, bytes: f64| {
        let bill = device.bill(policy, Direction::Seal).expect("a bill");
        let mut parts = bill.parts.into_iter();
        let part = parts.find(|it| it.what == "packet-key").expect("a key");
        part.units.at(bytes)
    };
    let (often, seldom) = (mine("key_per_packet = true\n"), mine(""));
    assert_eq!(of_key(&often, 64.0), of_key(&often, 1084.0));
    let share = STEP_BYTES as f64 / 1084.0;
    let ratio = of_key(&often, 1084.0) / of_key(&seldom, 1084.0);
    assert!((ratio / share - 1.0).abs() < 1e-9, "{ratio} {share}");
    assert_eq!(
        often.suite.skip().expect("SKIP").word(),
        "skip-paper des keyed-md5 key-per-packet"
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (skip, why) in [
        ("crypt = \"des\"\nmac = \"none\"\n", "profile"),
        ("profile = \"skip-draft\"\nmac = \"none\"\n", "crypt"),
        (
            "profile = \"skip-paper\"\ncrypt = \"des\"\nmac = \"none\"\n",
            "choose a MAC",
        ),
        (
            "profile = \"skip-draft\"\ncrypt = \"none\"\nmac = \"none\"\n",
            "do not go together",
        ),
        (
            "profile = \"skip-x25519\"\ncrypt = \"des\"\n",
            "do not go together",
        ),
        (
            "profile = \"skip-draft\"\nkij = \"des\"\ncrypt = \"des\"\nmac = \"keyed-md5\"\n",
            "DES may not encrypt",
        ),
        (
            "profile = \"skip-x25519\"\nnames = [\"ipv4\"]\n",
            "two name spaces",
        ),
        (
            "profile = \"skip-x25519\"\nnames = [\"ipv4\", \"ipv5\"]\n",
            "unknown name space",
        ),
        ("profile = \"skip-x25519\"\niv = \"5 B\"\n", "5 B"),
    ] {
        let fault = parsed(skip).expect_err(skip).to_string();
        assert!(fault.contains(why), "{skip}: {fault}");
    }
    let text = "name = \"x\"\ntitle = \"x\"\nudp = true\n[skip]\nprofile = \"skip-x25519\"\n";
    let fault = Policy::parse("mine", text).expect_err("UDP").to_string();
    assert!(fault.contains("UDP"), "{fault}");
}

#[test]
fn a_tunnel_header_costs_a_copy_or_nothing() {
    use engine::plane::shape::TunnelShape;
    use engine::sa::Encapsulation;
    let shape = TunnelShape {
        encapsulation: Encapsulation::IpInIp,
        is_in_udp: false,
    };
    let free = Device::new(device("r3000-25"), None).expect("a device");
    assert_eq!(free.tunnel(shape, Direction::Seal).at(1000.0), 0.0);
    let text = "kind = \"cycles\"\nname = \"x\"\ntitle = \"x\"\nclock_mhz = { value = 1, source = \
                \"a page\" }\n[per_byte]\ncopy = { value = 2, source = \"a page\" }\n[per_call]\n\
                copy = { value = 7, source = \"a page\" }\n[per_operation]\nip-in-ip-decapsulate = \
                { value = 5, source = \"a page\" }\n";
    let copies =
        Device::new(Profile::parse("x", text).expect("a profile"), None).expect("a device");
    let cycles = |direction| copies.tunnel(shape, direction).at(1000.0) * 1e6;
    assert!((cycles(Direction::Seal) - (2.0 * 1020.0 + 7.0)).abs() < 1e-9);
    assert!((cycles(Direction::Open) - 5.0).abs() < 1e-9);
}
