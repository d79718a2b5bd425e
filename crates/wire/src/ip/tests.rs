mod encapsulation;

use proptest::collection::vec;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::checksum::{checksum, update};
use super::fragment::{Fragments, Refused};
use super::*;
use crate::codec::Malformed;

#[test]
fn checksum_vectors_of_the_rfcs() {
    // RFC 1071 §3.
    let octets = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(Sum::new().bytes(&octets).folded(), 0xddf2);
    assert_eq!(checksum(&octets), 0x220d);
    // RFC 1624 §4.
    assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
}

const V4_HEADER: [u8; 20] = [
    0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
];

#[test]
fn ipv4_header_reads_and_writes() {
    let mut packet = V4_HEADER.to_vec();
    packet.resize(0x73 + 5, 1);
    let ip = Ipv4::new(&packet[..]).unwrap();
    assert!(ip.has_valid_checksum());
    assert!(ip.has_dont_fragment() && !ip.is_fragment());
    assert_eq!(
        (ip.header_len(), ip.total_len(), ip.payload().len()),
        (20, 0x73, 0x73 - 20)
    );
    assert_eq!((ip.ttl(), ip.protocol(), ip.id(), ip.tos()), (64, 17, 0, 0));
    let mut written = vec![0; 0x73];
    ipv4::Header {
        tos: 0,
        id: 0,
        dont_fragment: true,
        ttl: 64,
        protocol: 17,
        source: ip.source(),
        destination: ip.destination(),
    }
    .write(&mut written);
    assert_eq!(written[..20], V4_HEADER);
    for cut in 0..0x73 {
        assert!(Ipv4::new(&packet[..cut]).is_err());
    }
    for (at, value) in [(0, 0x55), (0, 0x44), (3, 19)] {
        let mut bad = packet.clone();
        bad[at] = value;
        assert!(Ipv4::new(&bad[..]).is_err());
    }
}

#[test]
fn a_hop_keeps_the_ipv4_checksum_right() {
    let mut packet = V4_HEADER;
    packet[3] = 20;
    let mut ip = Ipv4::new(&mut packet[..]).unwrap();
    ip.fill_checksum();
    for ttl in (1..64).rev() {
        assert!(ip.decrement_ttl());
        assert_eq!(ip.ttl(), ttl);
        assert!(ip.has_valid_checksum());
    }
    assert!(!ip.decrement_ttl());
}

fn v4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend(payload);
    ipv4::Header {
        tos: 0,
        id: 77,
        dont_fragment: false,
        ttl: 64,
        protocol,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
    }
    .write(&mut packet);
    packet
}

fn v6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN];
    packet.extend(payload);
    ipv6::Header {
        traffic_class: 0xa5,
        flow_label: 0x54321,
        next_header,
        hop_limit: 9,
        source: "2001:db8::1".parse().unwrap(),
        destination: "2001:db8::2".parse().unwrap(),
    }
    .write(&mut packet);
    packet
}

#[test]
fn ipv6_header_reads_and_writes() {
    let packet = v6(17, &[0, 1, 0, 2, 0, 8, 0, 0]);
    let mut copy = packet.clone();
    let mut ip = Ipv6::new(&mut copy[..]).unwrap();
    assert_eq!((ip.traffic_class(), ip.flow_label()), (0xa5, 0x54321));
    assert_eq!(
        (ip.payload_len(), ip.next_header(), ip.hop_limit()),
        (8, 17, 9)
    );
    ip.set_traffic_class(0x3c);
    assert_eq!((ip.traffic_class(), ip.flow_label()), (0x3c, 0x54321));
    assert!(ip.decrement_hop_limit());
    for cut in 0..packet.len() {
        assert!(Ipv6::new(&packet[..cut]).is_err());
    }
}

#[test]
fn extension_headers_are_walked_and_bounded() {
    let mut payload = vec![60, 0, 1, 4, 0, 0, 0, 0];
    payload.extend([44, 0, 1, 4, 0, 0, 0, 0]);
    payload.extend([6, 0, 0, 1, 0, 0, 0, 9]);
    payload.extend([0, 80, 1, 187]);
    let packet = v6(protocol::HOP_BY_HOP, &payload);
    let upper = Ipv6::new(&packet[..]).unwrap().upper().unwrap();
    assert_eq!((upper.protocol, upper.offset), (6, 64));
    let fragment = ipv6::FragmentHeader {
        offset: 0,
        has_more: true,
        id: 9,
    };
    assert_eq!(upper.fragment, Some(fragment));
    let flow = Flow::of(&packet).unwrap();
    assert_eq!((flow.ports, flow.transport), (Some((80, 443)), 64));
    assert!(flow.is_fragment && !flow.is_later_fragment);

    let mut later = packet.clone();
    later[40 + 16 + 3] = 8;
    let flow = Flow::of(&later).unwrap();
    assert_eq!((flow.protocol, flow.ports), (6, None));
    assert!(flow.is_later_fragment);

    let endless = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
    let packet = v6(60, &endless);
    let too_many = Err(Malformed::TooMany("IPv6 extension headers"));
    assert_eq!(Ipv6::new(&packet[..]).unwrap().upper(), too_many);
    let packet = v6(60, &[6, 1, 1, 4, 0, 0, 0, 0]);
    assert!(Flow::of(&packet).is_err());
    let packet = v6(60, &[0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0]);
    assert!(Flow::of(&packet).is_err());
}

#[test]
fn flows_have_ports_only_where_they_are() {
    let packet = v4(17, &[0, 53, 0, 99, 0, 8, 0, 0]);
    let flow = Flow::of(&packet).unwrap();
    assert_eq!(
        (flow.source, flow.ports),
        ([10, 0, 0, 1].into(), Some((53, 99)))
    );
    let mut later = packet.clone();
    later[7] = 1;
    assert_eq!(Flow::of(&later).unwrap().ports, None);
    assert_eq!(Flow::of(&v4(1, &[8, 0])).unwrap().ports, None);
    assert!(Flow::of(&v4(6, &[0, 53, 0])).is_err());
    assert!(Flow::of(&[]).is_err());
    assert!(Flow::of(&[0x50; 60]).is_err());
}

/// A SYN from 10.0.0.1 to 10.0.0.2 with its checksum, after `options`.
fn syn(options: &[u8]) -> Vec<u8> {
    let mut segment = vec![
        0,
        80,
        4,
        0,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        0,
        flags_syn(),
        0x20,
        0,
        0,
        0,
        0,
        0,
    ];
    segment.extend(options);
    segment[12] = ((segment.len() / 4) << 4) as u8;
    let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let pseudo = Sum::pseudo_header(from, to, protocol::TCP, segment.len());
    let sum = pseudo.bytes(&segment).finish();
    put16(&mut segment, 16, sum);
    v4(protocol::TCP, &segment)
}

fn flags_syn() -> u8 {
    tcp::flags::SYN
}

fn has_valid_transport_checksum(packet: &[u8]) -> bool {
    let flow = Flow::of(packet).unwrap();
    let transport = &packet[flow.transport..];
    let pseudo = Sum::pseudo_header(
        flow.source,
        flow.destination,
        flow.protocol,
        transport.len(),
    );
    pseudo.bytes(transport).finish() == 0
}

#[test]
fn mss_is_clamped_at_even_and_odd_places() {
    for options in [[2, 4, 5, 0xb4, 1, 1, 1, 0], [1, 2, 4, 5, 0xb4, 1, 1, 0]] {
        let packet = syn(&options);
        assert!(has_valid_transport_checksum(&packet));
        let flow = Flow::of(&packet).unwrap();
        let mut clamped = packet.clone();
        assert!(!tcp::clamp_mss(
            &mut clamped,
            &flow,
            1460,
            ChecksumState::Full
        ));
        assert_eq!(clamped, packet);
        assert!(tcp::clamp_mss(
            &mut clamped,
            &flow,
            1300,
            ChecksumState::Full
        ));
        assert_eq!(Tcp::new(&clamped[20..]).unwrap().mss(), Some(1300));
        assert!(has_valid_transport_checksum(&clamped));

        let mut partial = packet.clone();
        assert!(tcp::clamp_mss(
            &mut partial,
            &flow,
            1300,
            ChecksumState::Partial
        ));
        assert_eq!(partial[36..38], packet[36..38]);
        let mut data = packet.clone();
        data[20 + 13] = tcp::flags::ACK;
        assert!(!tcp::clamp_mss(&mut data, &flow, 1300, ChecksumState::Full));
    }
    for options in [
        [2, 3, 5, 0],
        [2, 5, 5, 0],
        [0, 2, 4, 5],
        [3, 0, 0, 0],
        [1, 1, 1, 2],
    ] {
        assert_eq!(
            Tcp::new(&syn(&options)[20..]).unwrap().mss(),
            None,
            "{options:?}"
        );
    }
}

#[test]
fn what_fragmentation_needed_tells_is_read_back() {
    let from = Ipv4Addr::new(192, 0, 2, 1);
    let packet = v4(17, &[7; 600]);
    let told = icmp::fragmentation_needed(&packet, from, 1280).unwrap();
    let read = icmp::TooBig::read(&told).unwrap();
    let whole = Ipv4::new(&packet[..]).unwrap();
    assert_eq!((read.mtu, read.protocol, read.header_len), (1280, 17, 20));
    assert_eq!(
        (read.source, read.destination),
        (whole.source(), whole.destination())
    );
    assert!(packet.starts_with(read.quoted));
    for at in 0..told.len() {
        let mut damaged = told.clone();
        damaged[at] ^= 1;
        // The outer header's own checksum is its reader's.
        assert!(
            at < 20 || icmp::TooBig::read(&damaged).is_none(),
            "octet {at}"
        );
        assert_eq!(icmp::TooBig::read(&told[..at]), None);
    }
    assert_eq!(icmp::TooBig::read(&packet), None);
}

#[test]
fn fragmentation_needed_quotes_and_is_checked() {
    let packet = v4(17, &[7; 1400]);
    let from = Ipv4Addr::new(10, 0, 0, 254);
    let reply = icmp::fragmentation_needed(&packet, from, 1280).unwrap();
    let ip = Ipv4::new(&reply[..]).unwrap();
    assert_eq!(reply.len(), icmp::MAX_V4_LEN);
    assert!(ip.has_valid_checksum());
    assert_eq!(
        (ip.source(), ip.destination()),
        (from, [10, 0, 0, 1].into())
    );
    assert_eq!(checksum(ip.payload()), 0);
    assert_eq!(ip.payload()[..2], [3, 4]);
    assert_eq!(ip.payload()[4..8], [0, 0, 5, 0]);
    assert_eq!(ip.payload()[8..], packet[..576 - 28]);

    assert!(icmp::fragmentation_needed(&v4(1, &[8, 0]), from, 1280).is_some());
    assert!(icmp::fragmentation_needed(&v4(1, &[3, 4]), from, 1280).is_none());
    assert!(icmp::fragmentation_needed(&reply, from, 1280).is_none());
    for (at, octets) in [
        (16, [224, 0, 0, 1]),
        (12, [0; 4]),
        (12, [224, 0, 0, 1]),
        (5, [0, 0, 1, 9]),
    ] {
        let mut silent = packet.clone();
        silent[at..at + 4].copy_from_slice(&octets);
        assert!(
            icmp::fragmentation_needed(&silent, from, 1280).is_none(),
            "{octets:?}"
        );
    }
}

#[test]
fn packet_too_big_quotes_and_is_checked() {
    let packet = v6(17, &[7; 1400]);
    let from: Ipv6Addr = "2001:db8::fe".parse().unwrap();
    let reply = icmp::packet_too_big(&packet, from, 1300).unwrap();
    assert_eq!(reply.len(), icmp::MAX_V6_LEN);
    assert!(has_valid_transport_checksum(&reply));
    assert_eq!(reply[40..42], [2, 0]);
    assert_eq!(reply[44..48], [0, 0, 5, 20]);
    assert_eq!(reply[48..], packet[..1280 - 48]);
    assert!(icmp::packet_too_big(&reply, from, 1300).is_none());
    assert!(icmp::packet_too_big(&v6(58, &[137, 0]), from, 1300).is_none());
    assert!(icmp::packet_too_big(&v6(58, &[128, 0]), from, 1300).is_some());
    let mut group = packet.clone();
    group[8] = 0xff;
    assert!(icmp::packet_too_big(&group, from, 1300).is_none());
}

#[test]
fn packets_that_may_not_be_cut_are_refused() {
    let packet = v4(17, &[1; 100]);
    let refused = |packet: &[u8], mtu| Fragments::new(packet, mtu).err();
    assert_eq!(refused(&packet, 27), Some(Refused::MtuTooSmall));
    let mut fixed = packet.clone();
    fixed[6] |= 0x40;
    assert_eq!(refused(&fixed, 100), Some(Refused::DontFragment));
    assert_eq!(refused(&fixed, 120), None);
    let mut beyond = packet;
    beyond[6..8].copy_from_slice(&0x1fffu16.to_be_bytes());
    assert!(matches!(refused(&beyond, 60), Some(Refused::Malformed(_))));
}

#[test]
fn later_fragments_carry_only_copied_options() {
    let mut packet = v4(17, &[1; 100]);
    // Record route is not copied; router alert is.
    packet.splice(20..20, [7, 3, 4, 1, 148, 4, 0, 0]);
    packet[0] = 0x47;
    packet[3] += 8;
    let mut out = [0; 120];
    let mut fragments = Fragments::new(&packet, 64).unwrap();
    assert_eq!(fragments.write_next(&mut out), Some(28 + 32));
    assert_eq!(out[20..28], packet[20..28]);
    assert_eq!(fragments.write_next(&mut out), Some(24 + 40));
    assert_eq!(out[20..24], [148, 4, 0, 0]);
    assert_eq!(fragments.write_next(&mut out), Some(24 + 28));
    assert_eq!(fragments.write_next(&mut out), None);
}

/// RFC 1071 taken literally: 16-bit words, end-around carry.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn udp_between(source: IpAddr, destination: IpAddr, payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; udp::HEADER_LEN];
    datagram.extend(payload);
    udp::write_header(&mut datagram, 1000, 2000);
    let pseudo = Sum::pseudo_header(source, destination, protocol::UDP, datagram.len());
    let sum = pseudo.bytes(&datagram).finish();
    Udp::new(&mut datagram[..])
        .unwrap()
        .set_checksum(if sum == 0 { 0xffff } else { sum });
    datagram
}

proptest! {
    #[test]
    fn checksum_equals_the_naive_one(bytes in vec(any::<u8>(), 0..300), cut in 0..150usize) {
        prop_assert_eq!(checksum(&bytes), naive(&bytes));
        let (head, tail) = bytes.split_at((cut * 2).min(bytes.len() & !1));
        prop_assert_eq!(Sum::new().bytes(head).bytes(tail).finish(), naive(&bytes));
        let parts = Sum::new().bytes(head).sum(Sum::new().bytes(tail));
        prop_assert_eq!(parts.finish(), naive(&bytes));
    }

    #[test]
    fn updated_checksum_equals_the_recomputed_one(
        mut bytes in vec(any::<u8>(), 2..100),
        at in any::<prop::sample::Index>(),
        new: u16,
    ) {
        // A packet of only zeros has two valid checksums. Headers are never all zero.
        bytes[0] |= 1;
        bytes.extend([1, 1]);
        let at = at.index(bytes.len() / 2 - 1) * 2 + 2;
        let at = at.min((bytes.len() - 2) & !1);
        let old = be16(&bytes, at);
        let before = checksum(&bytes);
        put16(&mut bytes, at, new);
        let after = checksum(&bytes);
        prop_assert_eq!(update(before, old, new), after);
    }

    #[test]
    fn translated_addresses_are_repaired(
        old: (Ipv4Addr, Ipv4Addr),
        new: (Ipv4Addr, Ipv4Addr),
        to_v6: (Ipv6Addr, Ipv6Addr),
        payload in vec(any::<u8>(), 0..60),
    ) {
        let old = (IpAddr::from(old.0), IpAddr::from(old.1));
        for new in [(new.0.into(), new.1.into()), (to_v6.0.into(), to_v6.1.into())] {
            let mut datagram = udp_between(old.0, old.1, &payload);
            let change = AddressChange::new(old, new);
            prop_assert!(change.repair(protocol::UDP, &mut datagram, ChecksumState::Full));
            let pseudo = Sum::pseudo_header(new.0, new.1, protocol::UDP, datagram.len());
            prop_assert_eq!(pseudo.bytes(&datagram).finish(), 0);

            let field = Sum::pseudo_header(old.0, old.1, protocol::TCP, 20).folded();
            let partial = change.apply(field, ChecksumState::Partial);
            let wanted = Sum::pseudo_header(new.0, new.1, protocol::TCP, 20).folded();
            prop_assert_eq!(partial % 0xffff, wanted % 0xffff);
        }
        let mut none = [0; 8];
        let change = AddressChange::new(old, (old.1, old.0));
        prop_assert!(!change.repair(protocol::UDP, &mut none, ChecksumState::Full));
        prop_assert!(!change.repair(protocol::TCP, &mut none, ChecksumState::Full));
    }

    #[test]
    fn fragments_are_the_packet_again(
        payload in vec(any::<u8>(), 0..2000),
        mtu in 28..600usize,
        base in 0..1000usize,
        was_more: bool,
    ) {
        let mut packet = v4(17, &payload);
        let mut ip = Ipv4::new(&mut packet[..]).unwrap();
        ip.set_fragment(base * 8, was_more);
        let mut fragments = Fragments::new(&packet, mtu).unwrap();
        let mut out = vec![0; packet.len().max(mtu)];
        let mut whole: Vec<u8> = Vec::new();
        let mut has_more = true;
        while let Some(len) = fragments.write_next(&mut out) {
            prop_assert!(len <= mtu || packet.len() <= mtu);
            let fragment = Ipv4::new(&out[..len]).unwrap();
            prop_assert!(fragment.has_valid_checksum());
            prop_assert_eq!(fragment.fragment_offset(), base * 8 + whole.len());
            prop_assert_eq!(fragment.id(), 77);
            whole.extend(fragment.payload());
            has_more = fragment.has_more_fragments();
        }
        prop_assert_eq!(whole, payload);
        prop_assert_eq!(has_more, was_more);
    }

    #[test]
    fn arbitrary_octets_never_panic(
        first in prop_oneof![Just(0x45u8), Just(0x4f), Just(0x60), any::<u8>()],
        rest in vec(any::<u8>(), 0..120),
    ) {
        let mut packet = vec![first];
        packet.extend(rest);
        if let Ok(flow) = Flow::of(&packet) {
            prop_assert!(flow.transport <= flow.total_len && flow.total_len <= packet.len());
            let state = ChecksumState::Full;
            tcp::clamp_mss(&mut packet, &flow, 500, state);
            prop_assert_eq!(Flow::of(&packet), Ok(flow));
        }
        let _ = icmp::fragmentation_needed(&packet, Ipv4Addr::LOCALHOST, 1280);
        let _ = icmp::packet_too_big(&packet, Ipv6Addr::LOCALHOST, 1280);
        let _ = (Tcp::new(&packet[..]).map(|tcp| tcp.mss()), Udp::new(&packet[..]).is_ok());
    }
}
