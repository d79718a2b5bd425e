//! Frames of wireless links, by hand.

use engine::link::wireless::LinkCipher;
use engine::work::{Task, Work};

use super::*;

/// By hand: RC4 of 1500, LLC 8 and ICV 4; CRC-32 without the ICV; a key for each frame.
#[test]
fn a_frame_costs_what_its_primitives_take() {
    let text = "kind = \"cycles\"\nname = \"x\"\ntitle = \"x\"\nclock_mhz = { value = 1, source = \
                \"x\" }\n[per_byte]\nrc4 = { value = 10, source = \"x\" }\ncrc32 = { value = 4, \
                source = \"x\" }\nmichael = { value = 3, source = \"x\" }\naes128-cbc = { value = \
                25, source = \"x\" }\nsha1 = { value = 1, source = \"x\" }\n\
                [per_operation]\nrc4-set-key = { value = 3000, source = \"x\" }\n";
    let profile = Profile::parse("x", text).expect("a profile");
    let device = Device::new(profile, None).expect("a device");
    let cycles = |cipher, bytes| {
        let (frame, left_out) = device.frame(cipher, Direction::Seal).expect("a price");
        assert_eq!(left_out, None);
        (frame.at(bytes) * 1e6).round()
    };
    let wep = 10.0 * 1512.0 + 4.0 * 1508.0 + 3000.0;
    assert_eq!(cycles(LinkCipher::Wep104, 1500.0), wep);
    // MIC 8 more of both; Michael over 16, and 1508 and at least 5 in words.
    let tkip = wep + 8.0 * 14.0 + 3.0 * (16.0 + 1516.0);
    assert_eq!(cycles(LinkCipher::Tkip, 1500.0), tkip);
    // 95 blocks of text; one for the MIC's mask, three more of the MAC.
    assert_eq!(
        cycles(LinkCipher::Ccmp128, 1500.0),
        25.0 * 16.0 * (95.0 * 2.0 + 4.0)
    );
    let fault = device
        .frame(LinkCipher::Gcmp256, Direction::Open)
        .expect_err("no GCM");
    assert!(fault.to_string().contains("per_byte.aes256-gcm"), "{fault}");
    let mut work = Work::default();
    work.count(Task::Cmac, 100);
    work.count(Task::KeyData, 40);
    work.count(Task::Passphrase, 0);
    let time = device.work_time(&Policy::of(Suite::none()), &work).whole();
    let blocks = 25.0 * 16.0 * (7.0 + 1.0 + 30.0);
    assert_eq!((time.expect("a price") * 1e6).round(), blocks + 1_048_576.0);
    let mut more = Work::default();
    more.count(Task::HashToPoint, 0);
    let missing = device.work_time(&Policy::of(Suite::none()), &more).missing;
    assert_eq!(
        missing.expect("no source").cell,
        "per_operation.p256-hash-to-point"
    );
}

/// RC4 alone, and the name of what no source gives.
#[test]
fn wep_without_a_cost_of_its_checksum_is_rc4_and_says_so() {
    let text = "kind = \"cycles\"\nname = \"x\"\ntitle = \"x\"\nclock_mhz = { value = 1, source = \
                \"x\" }\n[per_byte]\nrc4 = { value = 10, source = \"x\" }\n[per_operation]\n\
                rc4-set-key = { value = 3000, source = \"x\" }\n";
    let profile = Profile::parse("x", text).expect("a profile");
    let device = Device::new(profile, None).expect("a device");
    let (frame, left_out) = device
        .frame(LinkCipher::Wep104, Direction::Open)
        .expect("RC4");
    assert_eq!((frame.at(1500.0) * 1e6).round(), 10.0 * 1512.0 + 3000.0);
    assert_eq!(left_out.expect("the checksum").cell, "per_byte.crc32");
    let mut work = Work::default();
    work.count(Task::ProtectFrame(LinkCipher::Wep104), 1508);
    let time = device.work_time(&Policy::of(Suite::none()), &work);
    assert_eq!(time.missing.expect("the checksum").cell, "per_byte.crc32");
    let tkip = device
        .frame(LinkCipher::Tkip, Direction::Seal)
        .expect_err("no Michael");
    assert_eq!(tkip.cell, "per_byte.michael");
}

/// 88 blocks of text; one for the MIC's mask, three more of the MAC.
#[test]
fn a_cipher_of_a_radio_has_a_price_by_its_name() {
    let profile = device("cortex-a53");
    let named = |word: &str| Protection::named(&profile, word).expect("a cipher");
    let at = Device::new(profile.clone(), Some(Clock::MegaHertz(1000.0))).expect("a device");
    let price = at
        .price_of(&named("ccmp-128"), 1400.0, Direction::Seal)
        .expect("a price");
    let cycles = 1.36 * 16.0 * (88.0 + 1.0) + 1.32 * 16.0 * (88.0 + 3.0);
    assert!((price.cycles.expect("cycles") - cycles).abs() < 1e-9);
    assert_eq!(price.protected_bytes, 1400.0 + 8.0 + 16.0);
    assert_eq!((price.standing, price.is_lower_bound), ("current", true));
    let fault = at
        .price_of(&named("wep-104"), 1400.0, Direction::Seal)
        .expect_err("no RC4");
    assert!(fault.to_string().contains("rc4"), "{fault}");
    let other = device("pentium-pro-200");
    let other = Device::new(other, Some(Clock::MegaHertz(200.0))).expect("a device");
    let wep = other
        .price_of(&named("wep-104"), 1400.0, Direction::Seal)
        .expect("a price");
    assert_eq!(wep.standing, "legacy");
    assert_eq!(wep.reasons, ["legacy = true is needed for wep-104"]);
    assert!(wep.is_lower_bound);
    assert!(Protection::named(&other.profile().clone(), "ccmp").is_err());
}
