//! Layout, sizes, round trips, and when a packet key ends.

use super::*;
use wire::skip::SkipHeader;

#[test]
fn every_choice_of_algorithms_carries_every_length() {
    for algorithms in every_fitting_choice() {
        for iv_len in [IvLen::Short, IvLen::Whole] {
            let mut parts = parts_of(profile_of(algorithms), algorithms);
            parts.iter_mut().for_each(|parts| parts.iv_len = iv_len);
            let mut pair = Pair::new(parts);
            for len in (0..40).chain([100, 1_400]) {
                let clear: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let (opened, text) = pair.pass(&clear, MID_HOUR);
                assert_eq!(text, clear, "{algorithms:?} {len}");
                assert_eq!(opened.next_header, 4);
                assert!(!opened.is_repeated);
                let is_authenticated = algorithms.mac() != MacAlg::None;
                assert_eq!(opened.is_newest, is_authenticated, "{algorithms:?}");
            }
        }
    }
}

#[test]
fn every_pair_of_names_finds_its_place() {
    for (source, source_id) in nsids() {
        for (destination, destination_id) in nsids() {
            if source == destination && source != Nsid::None {
                continue;
            }
            let (from, to) = (
                Name::new(source, &source_id).unwrap(),
                Name::new(destination, &destination_id).unwrap(),
            );
            let [mut mobile, mut gateway] = parts_of(Profile::Draft, algorithms(DES_MD5));
            (mobile.local, mobile.remote) = (from, to);
            (gateway.local, gateway.remote) = (to, from);
            let mut pair = Pair::new([mobile, gateway]);
            let packet = pair.seal(b"data", MID_HOUR).unwrap();
            let (header, len) = peek(&packet, IP_LEN).unwrap();
            assert_eq!((header.source, header.destination), (from, to));
            let expected = SkipHeader::header_len(algorithms(DES_MD5), source, destination);
            assert_eq!(len, expected);
            assert!(pair.open(&packet, MID_HOUR).unwrap().is_newest);
        }
    }
}

/// The paper's 116 octets: its SKIP header of 60 has two names of 16; its own setting has 32.
#[test]
fn sizes_are_those_of_the_formats() {
    let names = [Nsid::Md5PublicValue, Nsid::Md5PublicValue];
    let [first, second] = names.map(|nsid| nsid.mkid_len());
    assert_eq!((first, second), (16, 16));
    let [mut parts, _] = parts_of(Profile::Draft, algorithms(DES_MD5));
    let sealer = |parts: &Parts| {
        let association = Association::new(parts.clone()).unwrap();
        Sealer::new(&association, 0)
    };
    // SKIP 32, AH 8 + 16, SPI 4 and IV 8.
    assert_eq!(sealer(&parts).clear_at(), 32 + 24 + 12);
    parts.local = Name::new(Nsid::Md5PublicValue, &[1; 16]).unwrap();
    parts.remote = Name::new(Nsid::Md5PublicValue, &[2; 16]).unwrap();
    parts.iv_len = IvLen::Short;
    let long = sealer(&parts);
    assert_eq!(long.clear_at(), 60 + 24 + 8);
    // A whole packet of 1006 octets needs no padding: 20 + 60 + 24 + 4 + 4 + 2.
    assert_eq!(20 + long.sealed(1_006) - 1_006, 114);
    assert_eq!(20 + long.sealed(1_007) - 1_007, 121);
    for room in 0..200 {
        match long.largest_clear(room) {
            None => assert!(long.sealed(0) > room),
            Some(clear) => {
                assert!(long.sealed(clear) <= room);
                assert!(long.sealed(clear + 1) > room);
            }
        }
    }
}

#[test]
fn the_layout_is_skip_ah_esp() {
    let mut pair = Pair::of(algorithms(DES_MD5));
    let packet = pair.seal(&[0x45; 14], MID_HOUR).unwrap();
    let skip = &packet[IP_LEN..];
    assert_eq!(skip[..4], [0x10, 1, 0, 51]);
    assert_eq!(skip[4..8], counter::hours(MID_HOUR.calendar).to_be_bytes());
    assert_eq!(skip[8..12], [2, 1, 1, 0]);
    assert_eq!(skip[28..32], [10, 18, 3, 17]);
    assert_eq!(skip[32..40], [50, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(skip[56..60], [0, 0, 0, 1]);
    assert_eq!(skip.len(), 56 + 12 + 16);
    // The outer header is the caller's.
    assert_eq!(packet[..IP_LEN], outer(packet.len())[..IP_LEN]);
}

fn field(packet: &[u8]) -> Vec<u8> {
    peek(packet, IP_LEN).unwrap().0.encrypted_key.to_vec()
}

/// The draft: at least every 10 MB or 2 minutes, and whenever n changes.
#[test]
fn a_packet_key_ends_by_bytes_by_age_and_with_n() {
    let mut pair = Pair::of(algorithms(DES_MD5));
    let mut next = |span: Duration, clear: usize| {
        field(&pair.seal(&vec![0; clear], later(MID_HOUR, span)).unwrap())
    };
    let second = Duration::from_secs(1);
    let first = next(Duration::ZERO, 100);
    assert_eq!(first, next(119 * second, 100));
    let after_age = next(120 * second, 100);
    assert_ne!(first, after_age);
    // 10 MB and not an octet more: 100 + 153 * 65,000 = 9,945,100.
    for _ in 0..153 {
        assert_eq!(after_age, next(121 * second, 65_000));
    }
    assert_eq!(after_age, next(121 * second, 54_900));
    let after_bytes = next(121 * second, 1);
    assert_ne!(after_age, after_bytes);
    let next_hour = next(1_800 * second, 1);
    let (before, at) = (next(5_399 * second, 1), next(5_400 * second, 1));
    assert_ne!(next_hour, before);
    assert_ne!(before, at);
}

#[test]
fn a_packet_key_can_end_with_every_packet() {
    let mut parts = parts_of(Profile::Draft, algorithms(DES_MD5));
    parts[0].renewal = Renewal::EVERY_PACKET;
    let mut pair = Pair::new(parts);
    let fields: Vec<_> = (0..20)
        .map(|_| field(&pair.seal(b"x", MID_HOUR).unwrap()))
        .collect();
    for (at, one) in fields.iter().enumerate() {
        assert!(!fields[..at].contains(one));
    }
}

/// RC4 adds its keystream to the text: text of zeros shows it.
#[test]
fn no_two_packets_share_a_keystream_of_rc4() {
    let rc4 = algorithms((KijAlg::TripleDes, CryptAlg::Rc4, MacAlg::Md5));
    let mut pair = Pair::of(rc4);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let packet = pair.seal(&[0; 32], MID_HOUR).unwrap();
        let at = IP_LEN + pair.sealer.clear_at();
        assert!(seen.insert(packet[at..at + 32].to_vec()));
        assert!(seen.insert(field(&packet)));
        assert!(pair.open(&packet, MID_HOUR).is_ok());
    }
    assert_eq!(seen.len(), 1_000);
}

#[test]
fn old_packet_keys_still_open_and_their_number_is_bounded() {
    let mut parts = parts_of(Profile::Draft, algorithms(DES_MD5));
    parts[0].renewal = Renewal::EVERY_PACKET;
    let mut pair = Pair::new(parts);
    let packets: Vec<_> = (0..40)
        .map(|_| pair.seal(b"x", MID_HOUR).unwrap())
        .collect();
    for packet in packets.iter().rev().chain(&packets) {
        assert!(pair.open(packet, MID_HOUR).is_ok());
    }
    assert!(pair.opener.kept() <= (1, 8));
}
