//! Every suite, mode, family and encapsulation there and back.

use proptest::prelude::*;

use super::support::*;
use crate::counters::DropReason;
use crate::plane::inner;
use crate::plane::{InboundChange, Notice, OutboundChange, wire_bytes};
use crate::sa::{Ipsec, Layer, Mode, Path, Protocol, Sa, Via};
use wire::ip::protocol::{ICMP, TCP, UDP};

/// SAs of each encapsulation between IPv4 and between IPv6 ends.
fn variants(protection: crypto::packet::Protection) -> Vec<Sa> {
    let mut all = Vec::new();
    for (protocol, is_udp) in [
        (Protocol::Esp, true),
        (Protocol::Esp, false),
        (Protocol::Ah, false),
    ] {
        let is_null = protection.encryption == crypto::packet::Encryption::Null;
        if protocol == Protocol::Ah && !is_null {
            continue;
        }
        for mode in [Mode::Tunnel, Mode::Transport] {
            for ends in [("10.1.0.1", "10.2.0.1"), ("fd01::1", "fd02::1")] {
                for has_esn in [false, protection.is_authenticated()] {
                    all.push(Sa {
                        layer: Layer::Ipsec(Ipsec {
                            protocol,
                            ..layer(protection)
                        }),
                        mode,
                        path: match is_udp {
                            true => path(ends.0, ends.1),
                            false => raw_path(ends.0, ends.1),
                        },
                        has_esn,
                        ..tunnel_sa(protection)
                    });
                }
            }
        }
    }
    all
}

fn is_v6(sa: &Sa) -> bool {
    sa.path.local.is_ipv6()
}

#[test]
fn keys_are_prepared_for_packets_and_rest_without_them() {
    for protection in suites() {
        let mut pair = Pair::new(tunnel_sa(protection));
        let frame = plain(&packet(
            "10.1.0.1",
            "10.2.0.1",
            UDP,
            &udp((5, 6), &data(64)),
        ));
        let prepared = |pair: &Pair| (pair.sender.prepared(), pair.receiver.prepared());
        let rest = |pair: &mut Pair| {
            pair.sender.rest();
            pair.receiver.rest();
        };
        assert_eq!(prepared(&pair), (0, 0));
        for _ in 0..3 {
            assert_eq!(pair.carry(core::slice::from_ref(&frame)).len(), 1);
            assert_eq!(prepared(&pair), (1, 1));
            rest(&mut pair);
            assert_eq!(prepared(&pair), (1, 1), "there was a packet");
            rest(&mut pair);
            assert_eq!(prepared(&pair), (0, 0), "there was none");
        }
    }
}

#[test]
fn every_suite_mode_family_and_encapsulation_carries_both_families() {
    for protection in suites() {
        for sa in variants(protection) {
            let shape = shape_of(&sa);
            let (mode, outer_v6) = (sa.mode, is_v6(&sa));
            let mut pair = Pair::new(sa);
            let mut sequence = 0;
            for length in [0, 1, 7, 64, 500, 1200] {
                let v4 = packet("10.1.0.1", "10.2.0.1", UDP, &udp((5, 6), &data(length)));
                let v6 = packet("fd01::1", "fd02::1", UDP, &udp((5, 6), &data(length)));
                for (packet, packet_v6) in [(v4, false), (v6, true)] {
                    if mode == Mode::Transport && packet_v6 != outer_v6 {
                        continue;
                    }
                    let sent = pair.seal(&[plain(&packet)]);
                    assert_eq!(sent.len(), 1, "{shape:?}");
                    sequence += 1;
                    let is_udp = sent[0].path.via != Via::Raw;
                    let headers = match is_udp {
                        true => shape.ip_header_bytes() + 8,
                        false => 0,
                    };
                    let on_wire = headers + sent[0].bytes.len();
                    assert_eq!(on_wire, wire_bytes(&shape, packet.len()), "{shape:?}");
                    let mut want = packet.clone();
                    if mode == Mode::Transport && is_udp && !packet_v6 {
                        // identification and DF are not carried
                        want[4..8].copy_from_slice(&[0, sequence, 0, 0]);
                        crate::plane::checksum::put_v4(&mut want[..20]);
                    }
                    assert_eq!(pair.open(&sent), [plain(&want)], "{shape:?} {length}");
                }
            }
        }
    }
}

#[test]
fn without_offloads_packets_are_bare() {
    let mut pair = Pair::with_offloads(tunnel_sa(AES_GCM), NO_OFFLOADS);
    let packets: Vec<_> = (0..5)
        .map(|n| {
            packet(
                "10.1.0.1",
                "10.2.0.1",
                TCP,
                &tcp(n * 100, 16, &[], &data(100)),
            )
        })
        .collect();
    assert_eq!(pair.carry(&packets), packets);
}

#[test]
fn equal_datagrams_share_a_run() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let frame = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(900)),
    ));
    let sent = pair.seal(&vec![frame; 70]);
    assert_eq!(sent.len(), 70);
    let lengths: Vec<_> = pair
        .datagrams
        .runs()
        .iter()
        .map(|r| r.range.len())
        .collect();
    assert_eq!(lengths, [64 * sent[0].bytes.len(), 6 * sent[0].bytes.len()]);
}

#[test]
fn a_gro_buffer_of_many_datagrams_is_opened_in_one_call() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let packet = packet(
        "10.1.0.1",
        "10.2.0.1",
        ICMP,
        &[&[8, 0, 0, 0], &data(600)[..]].concat(),
    );
    let sent = pair.seal(&vec![plain(&packet); 10]);
    let mut bytes: Vec<u8> = sent.iter().flat_map(|sent| sent.bytes.clone()).collect();
    bytes.extend_from_slice(&[0, 0, 0, 0, 1, 2, 3]); // marked IKE, shorter than the others
    let received = crate::plane::Received {
        path: sent[0].path.reversed(),
        traffic_class: 0,
        interface: 0,
        segment_bytes: sent[0].bytes.len(),
        bytes: &mut bytes,
    };
    pair.receiver.open(3, received, NOW, &mut pair.packets);
    assert_eq!(pair.packets.writes().count(), 10);
    let control = &pair.packets.control()[0];
    assert_eq!(control.slice.buffer, 3);
    assert_eq!(bytes[control.slice.range.clone()], [0, 0, 0, 0, 1, 2, 3]);
}

/// Control leads a child to where IKE is, which is always UDP.
#[test]
fn a_raw_sa_stays_raw_when_its_peer_moves() {
    let raw = || Sa {
        path: raw_path("198.51.100.1", "203.0.113.1"),
        ..tunnel_sa(AES_GCM)
    };
    let mut pair = Pair::new(raw());
    let ike = Path::udp((ip("198.51.100.1"), 500), (ip("203.0.113.9"), 500));
    pair.sender.apply(OutboundChange::Move(CHILD, ike), NOW);
    pair.receiver
        .apply(InboundChange::Move(CHILD, ike.reversed()));
    let packet = packet("10.1.0.1", "10.2.0.1", UDP, &udp((5, 6), &data(9)));
    let sent = pair.seal(&[plain(&packet)]);
    assert_eq!(sent[0].path, raw_path("198.51.100.1", "203.0.113.9"));
    assert_eq!(pair.open(&sent), [plain(&packet)]);
}

#[test]
fn keepalives_are_counted_and_dropped() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let keepalive = Sent {
        path: path("198.51.100.1", "203.0.113.1"),
        traffic_class: 0,
        bytes: vec![0xff],
    };
    assert!(pair.open(&[keepalive]).is_empty());
    assert_eq!(pair.receiver.report().keepalives, 1);
}

#[test]
fn a_newer_sa_takes_over_and_the_older_is_still_opened() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let frame = plain(&packet("10.1.0.1", "10.2.0.1", ICMP, &[8, 0, 0, 0]));
    let old = pair.seal(std::slice::from_ref(&frame));
    let newer = Sa {
        layer: Layer::Ipsec(Ipsec {
            spi: SPI + 1,
            ..layer(AES_GCM)
        }),
        ..tunnel_sa(AES_GCM)
    };
    let receiving = inbound(&newer);
    pair.sender
        .apply(OutboundChange::Install(Box::new(newer)), NOW);
    pair.receiver
        .apply(InboundChange::Install(Box::new(receiving)));
    let new = pair.seal(std::slice::from_ref(&frame));
    assert_eq!(inner::be32(&new[0].bytes, 0), SPI + 1);
    assert_eq!(pair.open(&[new[0].clone(), old[0].clone()]).len(), 2);
    let removed = OutboundChange::Remove(CHILD, SPI + 1);
    pair.sender.apply(removed, NOW);
    let back = pair.seal(&[frame]);
    assert_eq!(inner::be32(&back[0].bytes, 0), SPI);
}

#[test]
fn expected_traffic_asks_for_its_child_and_never_leaves() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let frame = plain(&packet(
        "10.1.0.1",
        "10.3.0.1",
        UDP,
        &udp((1, 2), &data(10)),
    ));
    assert!(pair.seal(std::slice::from_ref(&frame)).is_empty());
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
    let child = crate::sa::ChildId(8);
    let local = vec![within("10.1.0.0", "10.1.255.255")];
    let remote = vec![within("10.3.0.0", "10.3.255.255")];
    pair.sender
        .apply(OutboundChange::Expect(child, local, remote), NOW);
    assert!(pair.seal(&[frame.clone(), frame.clone()]).is_empty());
    assert_eq!(pair.datagrams.notices(), [Notice::Acquire { child }]);
    assert_eq!(pair.sent_drops(DropReason::NoSa), 0, "both are held");
    pair.sender.apply(OutboundChange::Forget(child), NOW);
    assert_eq!(pair.sent_drops(DropReason::NoSa), 2);
    assert!(pair.seal(&[frame]).is_empty());
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 2);
}

#[test]
fn the_narrowest_child_seals_and_a_named_port_goes_first() {
    let selector = |first, last, port| crate::selector::TrafficSelector {
        protocol: if port > 0 { UDP } else { 0 },
        ports: crate::selector::Ports::of_ikev1(port),
        ..within(first, last)
    };
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    for (number, remote) in [
        selector("10.2.5.0", "10.2.5.255", 0),
        selector("10.2.5.9", "10.2.5.9", 0),
        selector("10.2.5.9", "10.2.5.9", 53),
    ]
    .into_iter()
    .enumerate()
    {
        let sa = Sa {
            layer: Layer::Ipsec(Ipsec {
                spi: 1000 + number as u32,
                ..layer(AES_GCM)
            }),
            child: crate::sa::ChildId(20 + number as u32),
            remote: vec![remote],
            ..tunnel_sa(AES_GCM)
        };
        pair.sender
            .apply(OutboundChange::Install(Box::new(sa)), NOW);
    }
    for (destination, port, spi) in [
        ("10.2.4.1", 53, SPI),
        ("10.2.5.1", 53, 1000),
        ("10.2.5.9", 54, 1001),
        ("10.2.5.9", 53, 1002),
    ] {
        let frame = packet("10.1.0.1", destination, UDP, &udp((1, port), &data(9)));
        let sent = pair.seal(&[plain(&frame)]);
        assert_eq!(inner::be32(&sent[0].bytes, 0), spi, "{destination} {port}");
    }
}

#[test]
fn soft_limits_are_told_once() {
    let mut pair = Pair::new(Sa {
        soft_packets: 3,
        ..tunnel_sa(AES_GCM)
    });
    let frame = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(10)),
    ));
    pair.carry(&vec![frame; 8]);
    let (child, spi) = (CHILD, SPI);
    let told = Notice::SoftLimit { child };
    assert_eq!(pair.datagrams.notices(), std::slice::from_ref(&told));
    let used = Notice::InboundUsed { child, spi };
    assert_eq!(pair.receiver_notices(), [used, told]);
}

#[test]
fn the_first_authentic_packet_under_an_sa_is_told_once() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let frame = plain(&packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 2), &data(9))));
    let mut sent = pair.seal(&vec![frame; 3]);
    sent[0].bytes[20] ^= 1;
    pair.open(&sent[..1]);
    assert_eq!(pair.receiver_notices(), []);
    pair.open(&sent[1..]);
    let (child, spi) = (CHILD, SPI);
    assert_eq!(
        pair.receiver_notices(),
        [Notice::InboundUsed { child, spi }]
    );
}

#[test]
fn congestion_is_told_to_the_inner_packet() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    for (own, outer, want) in [
        (2, 3, Some(3)),
        (1, 3, Some(3)),
        (2, 1, Some(1)),
        (0, 3, None),
    ] {
        for ends in [("10.1.0.1", "10.2.0.1"), ("fd01::1", "fd02::1")] {
            let mut packet = packet(ends.0, ends.1, UDP, &udp((1, 2), &data(50)));
            if ends.0 == "fd01::1" {
                packet[1] = own << 4;
            } else {
                packet[1] = own;
                crate::plane::checksum::put_v4(&mut packet[..20]);
            }
            let mut sent = pair.seal(&[plain(&packet)]);
            assert_eq!(sent[0].traffic_class, own);
            sent[0].traffic_class = outer;
            let opened = pair.open(&sent);
            match want {
                None => assert!(opened.is_empty()),
                Some(want) => {
                    assert_checksums(&opened[0][10..]);
                    let inner = inner::Inner::parse(&opened[0][10..]).expect("a packet");
                    assert_eq!(inner.traffic_class, want);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_payload_comes_back(
        suite in 0usize..36, variant in 0usize..24,
        payload in prop::collection::vec(any::<u8>(), 0..1300),
        protocol in any::<u8>(),
    ) {
        let protection = suites()[suite];
        let mut all = variants(protection);
        let at = variant % all.len();
        let sa = all.swap_remove(at);
        let ends = if is_v6(&sa) { ("fd01::1", "fd02::1") } else { ("10.1.0.1", "10.2.0.1") };
        let is_tunnel = sa.mode == Mode::Tunnel;
        let kept = is_tunnel || sa.path.via == Via::Raw;
        let mut pair = Pair::new(sa);
        // no extension header, no port that is not there, nothing that is opened again
        prop_assume!(![0, 6, 17, 33, 43, 44, 50, 51, 58, 59, 60, 132, 136].contains(&protocol));
        prop_assume!(![4, 47, 55, 57].contains(&protocol));
        let packet = packet(ends.0, ends.1, protocol, &payload);
        let opened = pair.carry(&[plain(&packet)]);
        prop_assert_eq!(opened.len(), 1);
        let header = if ends.0 == "fd01::1" { 40 } else { 20 };
        prop_assert_eq!(&opened[0][10 + header..], &packet[header..]);
        if kept {
            prop_assert_eq!(&opened[0][10..], &packet[..]);
        }
    }
}
