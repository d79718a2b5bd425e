//! Two hosts in closed form: sizes by hand, and paper T's Table 5.

use proptest::prelude::*;

use super::super::{Cut, Hosts, Wire};
use super::*;

const ETHERNET: Wire = Wire {
    rate_bps: 1e8,
    overhead_bytes: 38.0,
    mtu_bytes: 1500,
};

macro_rules! of_the_study {
    ($path:literal) => {
        include_str!(concat!(
            "../../../../../python/caravan/catalogue/studies/tunnel-agents/",
            $path
        ))
    };
}

fn esp_3des(mode: &str) -> Policy {
    policy(&format!(
        "suite = \"3des-md5\"\nmode = \"{mode}\"\nudp = false\n"
    ))
}

fn policy(keys: &str) -> Policy {
    let text = format!("name = \"it\"\ntitle = \"it\"\n{keys}");
    Policy::parse("it.toml", &text).expect("a policy")
}

fn pentium() -> Device {
    let text = of_the_study!("devices/pentium-4-1700.toml");
    let profile = Profile::parse("pentium-4-1700.toml", text).expect("a profile");
    Device::new(profile, None).expect("it has a clock")
}

fn between<'a>(policy: &'a Policy, device: Option<&'a Device>, cut: Cut) -> Hosts<'a> {
    Hosts::new(Some(policy), device, ETHERNET, cut).expect("two hosts")
}

/// ESP with 3DES and HMAC-MD5-96: SPI and number, IV, padding and trailer, check.
fn esp(payload: u32) -> u32 {
    8 + 8 + (payload + 2).div_ceil(8) * 8 + 12
}

#[test]
fn the_largest_datagram_in_one_packet_is_where_headers_say() {
    for (mode, largest) in [("tunnel", 1418), ("transport", 1438)] {
        let policy = esp_3des(mode);
        let hosts = between(&policy, None, Cut::Inside);
        let load = |data| hosts.datagram(data, None).expect("a load");
        for data in 16..=largest {
            let protected = match mode {
                "tunnel" => 28 + data,
                _ => 8 + data,
            };
            assert_eq!(load(data).wired, [20 + esp(protected)], "{mode}, {data}");
        }
        let rate = |data| load(data).link_mbit_s;
        let around = largest - 60..=largest + 60;
        assert!(around.clone().all(|data| rate(data) <= rate(largest)));
        // One byte more costs a second packet, and within a block of 3DES each byte is free.
        assert_eq!(load(largest + 1).wired.len(), 2);
        assert!(rate(largest + 1) < 0.97 * rate(largest));
        assert_eq!(load(largest - 7).wired, load(largest).wired);
        assert_ne!(load(largest - 8).wired, load(largest).wired);
    }
}

#[test]
fn a_tunnel_cuts_before_it_protects_or_after_it() {
    let policy = esp_3des("tunnel");
    // 1447 octets of IP; 1446 is the largest inner packet.
    let inside = between(&policy, None, Cut::Inside);
    let inside = inside.datagram(1419, None).expect("a load");
    assert_eq!(inside.largest_bytes, 1446);
    assert_eq!(inside.wired, [20 + esp(1444), 20 + esp(23)]);
    let outside = between(&policy, None, Cut::Outside);
    let outside = outside.datagram(1419, None).expect("a load");
    // 20 + ESP of 1447 octets = 1504: 1500, and 4 octets behind a header of their own.
    assert_eq!(outside.wired, [1500, 24]);
    let bits = f64::from(1500 + 24 + 2 * 38) * 8.0;
    assert_eq!(outside.wire_s, bits / 1e8);
    assert_eq!(outside.link_mbit_s, 1419.0 * 8e-6 / (bits / 1e8));
}

#[test]
fn a_full_segment_costs_what_table_5_prints() {
    let device = pentium();
    let texts = [
        (None, 1448, 14.5453),
        (Some(of_the_study!("policies/ah-md5.toml")), 1424, 55.0922),
        (Some(of_the_study!("policies/ah-sha1.toml")), 1424, 90.0094),
        (
            Some(of_the_study!("policies/esp-3des-md5.toml")),
            1394,
            231.9884,
        ),
    ];
    for (text, data, cycles) in texts {
        let policy = text.map(|text| Policy::parse("it.toml", text).expect("a policy"));
        let hosts = Hosts::new(policy.as_ref(), Some(&device), ETHERNET, Cut::Inside);
        let load = hosts.expect("two hosts").segment(None).expect("a load");
        assert_eq!(load.data_bytes, data);
        let found = load.cycles_byte.expect("cycles");
        assert!((found / cycles - 1.0).abs() < 1e-4, "{found}, not {cycles}");
        let carried = load.cpu_mbit_s.expect("a processor");
        let shared = 100.0 * load.data_mbit_s / carried;
        assert_eq!(load.cpu_percent, Some(shared));
        assert_eq!(load.data_mbit_s, carried.min(load.link_mbit_s));
    }
}

#[test]
fn a_packet_s_own_cost_is_paid_for_every_one_on_the_wire() {
    let (policy, device) = (esp_3des("tunnel"), pentium());
    let each = device.profile().packet_cycles();
    let wide = Wire {
        mtu_bytes: 9000,
        ..ETHERNET
    };
    let whole = Hosts::new(Some(&policy), Some(&device), wide, Cut::Outside);
    let whole = whole.expect("two hosts").packet(1447).expect("one packet");
    assert_eq!(whole.wired.len(), 1);
    let cut = between(&policy, Some(&device), Cut::Outside);
    let cut = cut.packet(1447).expect("two packets");
    let (whole, cut) = (
        whole.seal_cycles.expect("cycles"),
        cut.seal_cycles.expect("cycles"),
    );
    assert!((cut - whole - each).abs() < 1e-6);
    let clear = Hosts::new(None, Some(&device), ETHERNET, Cut::Inside).expect("two hosts");
    assert_eq!(
        clear.packet(1501).expect("two").open_cycles,
        Some(2.0 * each)
    );
}

#[test]
fn ah_around_esp_adds_a_header_and_a_check_to_each_packet() {
    let policy =
        policy("suite = \"aes128gcm16\"\nmode = \"tunnel\"\nudp = false\naround = \"ah-sha256\"\n");
    let hosts = between(&policy, None, Cut::Inside);
    for data in 16..=1300 {
        // IP, SPI and number, IV, words of four, check; then IP and AH with 16 octets of check.
        let esp = 20 + 8 + 8 + (28 + data + 2_u32).div_ceil(4) * 4 + 16;
        let wired = hosts.datagram(data, None).expect("a load").wired;
        assert_eq!(wired, [20 + 12 + 16 + esp]);
        assert_eq!(policy.wire_bytes(28 + data as usize), wired[0] as usize);
    }
    let largest = hosts.datagram(16, None).expect("a load").largest_bytes;
    assert_eq!(largest as usize, policy.largest_packet(1500));
    assert_eq!(hosts.packet(largest).expect("one").wired.len(), 1);
    assert_eq!(hosts.packet(largest + 1).expect("two").wired.len(), 2);
    assert_eq!(policy.word(), "aes128gcm16 in ah-sha256");
}

#[test]
fn two_layers_cost_both_and_their_packet_once() {
    let two = policy("suite = \"3des-md5\"\nudp = false\naround = \"ah-md5\"\n");
    let (esp, own) = (esp_3des("tunnel"), pentium());
    let cycles = |policy| {
        let price = own.price(policy, 1000.0, Direction::Seal).expect("a price");
        price.cycles.expect("cycles")
    };
    // The ESP packet of 1000 octets has 1056; with IP and AH 1100, and 9 octets end the hash.
    assert_eq!(esp.wire_bytes(1000), 1056);
    let blocks = (1056.0 + 20.0 + 24.0 + 9.0_f64) / 64.0;
    let md5 = 33.8383 * 64.0 * (blocks.ceil() + 1.0);
    let more = cycles(&two) - cycles(&esp);
    assert!((more - md5).abs() < 1e-6, "{more}, not {md5}");
    let paper = Device::new(device("paper-u"), Some(Clock::Mips(100.0))).expect("a device");
    assert!(paper.price(&two, 1000.0, Direction::Seal).is_err());
}

#[test]
fn layers_that_no_end_has_are_refused() {
    for keys in [
        "suite = \"aes128gcm16\"\naround = \"ah-sha256\"\n",
        "suite = \"aes128gcm16\"\nudp = false\nmode = \"transport\"\naround = \"ah-sha256\"\n",
        "suite = \"ah-sha256\"\nudp = false\naround = \"ah-sha256\"\n",
        "suite = \"aes128gcm16\"\nudp = false\naround = \"aes128gcm16\"\n",
        "suite = \"none\"\nudp = false\naround = \"ah-sha256\"\n",
    ] {
        let text = format!("name = \"it\"\ntitle = \"it\"\n{keys}");
        let fault = Policy::parse("it.toml", &text).expect_err(keys).to_string();
        assert!(fault.contains("around"), "{fault}");
    }
    let old = policy("suite = \"aes128gcm16\"\nudp = false\naround = \"ah-md5\"\n");
    assert_eq!(old.standing().word(), "legacy");
}

#[test]
fn a_wire_that_carries_nothing_is_refused() {
    let policy = esp_3des("tunnel");
    for (rate_bps, overhead_bytes, mtu_bytes) in [
        (0.0, 38.0, 1500),
        (f64::NAN, 38.0, 1500),
        (1e8, -1.0, 1500),
        (1e8, 38.0, 67),
        (1e8, 38.0, 70_000),
        // 20 of IP and 28 of ESP leave 20, a header alone.
        (1e8, 38.0, 72),
    ] {
        let wire = Wire {
            rate_bps,
            overhead_bytes,
            mtu_bytes,
        };
        let refused = Hosts::new(Some(&policy), None, wire, Cut::Inside);
        assert!(matches!(refused, Err(Refusal::Absurd { .. })), "{wire:?}");
    }
    let hosts = between(&policy, None, Cut::Inside);
    assert!(hosts.packet(19).is_err() && hosts.datagram(u32::MAX, None).is_err());
}

proptest! {
    #[test]
    fn fragments_are_whole(packet in 21_u32..=65535, mtu in 68_u32..=9000) {
        let wire = Wire { mtu_bytes: mtu, ..ETHERNET };
        let hosts = Hosts::new(None, None, wire, Cut::Inside).expect("two hosts");
        let found = hosts.packet(packet).expect("fragments").wired;
        prop_assert_eq!(found.iter().map(|one| one - 20).sum::<u32>(), packet - 20);
        prop_assert!(found.iter().all(|one| *one <= mtu));
        let (_, first) = found.split_last().expect("one at least");
        prop_assert!(first.iter().all(|one| (one - 20) % 8 == 0 && *one + 8 > mtu));
    }
}
