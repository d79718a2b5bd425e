use proptest::prelude::*;

use super::*;
use crate::ip::{ipv4, ipv6};

#[test]
fn lengths_are_those_of_rfc_4302() {
    // RFC 4302 §2.2: a 96-bit ICV makes payload length 4 in both families.
    assert_eq!(header_len(12, Family::V4), 24);
    assert_eq!(header_len(12, Family::V6), 24);
    assert_eq!(header_len(16, Family::V4), 28);
    assert_eq!(header_len(16, Family::V6), 32);
}

#[test]
fn header_reads_back() {
    for (icv_len, family) in [(12, Family::V4), (16, Family::V4), (16, Family::V6)] {
        let mut packet = [0xee; 40];
        let len = write_header(&mut packet, 6, 0x1122_3344, 7, icv_len, family);
        let mut ah = Ah::new(&mut packet[..]).unwrap();
        assert_eq!(
            (ah.next_header(), ah.spi(), ah.sequence()),
            (6, 0x1122_3344, 7)
        );
        assert_eq!(ah.header_len(), len);
        assert_eq!(ah.icv(icv_len), Ok(&vec![0; icv_len][..]));
        ah.icv_mut(icv_len).unwrap().fill(5);
        assert_eq!(ah.icv(icv_len), Ok(&vec![5; icv_len][..]));
        assert_eq!(ah.payload()[0], 0xee);
        assert!(ah.icv(icv_len + 8).is_err());
        assert!(ah.icv(4).is_err());
        for cut in 0..len {
            assert!(Ah::new(&packet[..cut]).is_err(), "{cut} octets");
        }
    }
    assert_eq!(Ah::new([0; 12]).unwrap_err(), Malformed::Length("AH"));
}

fn v4_with_options(options: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN + options.len() + 4];
    ipv4::Header {
        tos: 0xb8,
        id: 0x1234,
        dont_fragment: true,
        ttl: 63,
        protocol: protocol::AH,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    }
    .write(&mut packet);
    packet[0] = 0x45 + (options.len() / 4) as u8;
    packet[ipv4::HEADER_LEN..][..options.len()].copy_from_slice(options);
    packet
}

#[test]
fn mutable_fields_of_ipv4_become_zero() {
    let mut packet = v4_with_options(&[]);
    assert_eq!(zero_mutable_v4(&mut packet), Ok(20));
    let expected = [
        0x45, 0, 0, 24, 0x12, 0x34, 0, 0, 0, 51, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    assert_eq!(packet[..20], expected);
}

#[test]
fn mutable_options_of_ipv4_become_zero() {
    // Router alert stays, record route goes, an unknown one goes, no operation stays.
    let options = [148, 4, 0, 0, 7, 3, 4, 1, 30, 4, 9, 9];
    let mut packet = v4_with_options(&options);
    assert_eq!(zero_mutable_v4(&mut packet), Ok(32));
    assert_eq!(packet[20..32], [148, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    for bad in [[7, 0, 0, 0], [7, 1, 0, 0], [7, 5, 0, 0], [1, 1, 1, 7]] {
        assert!(
            zero_mutable_v4(&mut v4_with_options(&bad)).is_err(),
            "{bad:?}"
        );
    }
}

#[test]
fn source_route_makes_the_last_address_the_destination() {
    let underway = [131, 11, 4, 10, 9, 9, 1, 10, 9, 9, 2, 0];
    let mut packet = v4_with_options(&underway);
    zero_mutable_v4(&mut packet).unwrap();
    assert_eq!(packet[16..20], [10, 9, 9, 2]);
    assert_eq!(packet[20..32], [0; 12]);
    let mut arrived = underway;
    arrived[2] = 12;
    let mut packet = v4_with_options(&arrived);
    zero_mutable_v4(&mut packet).unwrap();
    assert_eq!(packet[16..20], [10, 0, 0, 2]);
}

fn v6_with(first: u8, extensions: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN + extensions.len() + 8];
    ipv6::Header {
        traffic_class: 0xb8,
        flow_label: 0x12345,
        next_header: first,
        hop_limit: 63,
        source: [1; 16].into(),
        destination: [2; 16].into(),
    }
    .write(&mut packet);
    packet[ipv6::HEADER_LEN..][..extensions.len()].copy_from_slice(extensions);
    packet
}

#[test]
fn mutable_fields_of_ipv6_become_zero() {
    // One option that may change (0x3e), one that may not (0x1e).
    let options = [51, 1, 0x3e, 2, 7, 7, 0x1e, 2, 7, 7, 0, 0, 0, 0, 0, 0];
    let mut packet = v6_with(protocol::HOP_BY_HOP, &options);
    assert_eq!(zero_mutable_v6(&mut packet), Ok(56));
    assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 24, 0, 0]);
    assert_eq!(
        packet[40..56],
        [51, 1, 0x3e, 2, 0, 0, 0x1e, 2, 7, 7, 0, 0, 0, 0, 0, 0]
    );
    let overlong = [51, 0, 0x3e, 5, 0, 0, 0, 0];
    assert!(zero_mutable_v6(&mut v6_with(protocol::HOP_BY_HOP, &overlong)).is_err());
}

#[test]
fn routing_header_becomes_what_its_last_hop_sees() {
    let mut routing = vec![51, 4, 0, 2, 0, 0, 0, 0];
    routing.extend([3; 16]);
    routing.extend([4; 16]);
    let mut packet = v6_with(protocol::ROUTING, &routing);
    assert_eq!(zero_mutable_v6(&mut packet), Ok(80));
    assert_eq!(packet[24..40], [4; 16]);
    assert_eq!(packet[40..48], [51, 4, 0, 0, 0, 0, 0, 0]);
    assert_eq!(packet[48..64], [2; 16]);
    assert_eq!(packet[64..80], [3; 16]);
    let arrived = packet.clone();
    zero_mutable_v6(&mut packet).unwrap();
    assert_eq!(packet, arrived);

    routing[3] = 3;
    assert!(zero_mutable_v6(&mut v6_with(protocol::ROUTING, &routing)).is_err());
    let fragment = [51, 0, 0, 1, 0, 0, 0, 9];
    assert!(zero_mutable_v6(&mut v6_with(protocol::FRAGMENT, &fragment)).is_err());
}

proptest! {
    #[test]
    fn hops_change_nothing_that_the_icv_covers(tos: u8, ttl: u8, flags: u16, sum: u16) {
        let mut sent = v4_with_options(&[148, 4, 0, 0]);
        let mut received = sent.clone();
        received[1] = tos;
        received[8] = ttl;
        received[6..8].copy_from_slice(&flags.to_be_bytes());
        received[10..12].copy_from_slice(&sum.to_be_bytes());
        zero_mutable_v4(&mut sent).unwrap();
        zero_mutable_v4(&mut received).unwrap();
        prop_assert_eq!(sent, received);
    }

    #[test]
    fn arbitrary_octets_never_panic_and_zeroing_twice_is_once(
        first in prop_oneof![Just(0x45u8), Just(0x48), Just(0x60), any::<u8>()],
        rest in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut packet = vec![first];
        packet.extend(rest);
        let len = packet.len() as u16;
        if let Some(place) = packet.get_mut(2..6) {
            place[..2].copy_from_slice(&len.to_be_bytes());
            place[2..].copy_from_slice(&len.saturating_sub(40).to_be_bytes());
        }
        let _ = Ah::new(&packet[..]);
        for zero in [zero_mutable_v4, zero_mutable_v6] {
            let mut once = packet.clone();
            if let Ok(len) = zero(&mut once) {
                let mut twice = once.clone();
                prop_assert_eq!(zero(&mut twice), Ok(len));
                prop_assert_eq!(once, twice);
            }
        }
    }
}
