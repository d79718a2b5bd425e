//! What an enemy or a broken peer sends: each is a counted reason.

use proptest::prelude::*;

use super::support::*;
use crate::counters::DropReason;
use crate::plane::sealer::finish_ip_header;
use crate::plane::{InboundChange, Notice, Offloads, OutboundChange};
use crate::sa::{ChildId, Ipsec, Layer, Mode, Path, Protocol, Sa};
use crate::selector::TrafficSelector;
use wire::ip::protocol::{TCP, UDP};

fn frame(length: usize) -> Vec<u8> {
    plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(length)),
    ))
}

#[test]
fn every_changed_bit_is_a_bad_icv_or_another_sa() {
    for protection in suites() {
        if !protection.is_authenticated() {
            continue;
        }
        let mut pair = Pair::new(tunnel_sa(protection));
        let good = pair.seal(&[frame(20)]);
        for at in 0..good[0].bytes.len() {
            let mut bad = good.clone();
            bad[0].bytes[at] ^= 0x10;
            assert!(pair.open(&bad).is_empty(), "{protection:?} {at}");
        }
        let unknown = pair.received_drops(DropReason::UnknownSpi);
        let wrong = pair.received_drops(DropReason::BadIcv);
        assert_eq!((unknown, wrong), (4, good[0].bytes.len() as u64 - 4));
        assert_eq!(pair.open(&good).len(), 1);
    }
}

#[test]
fn every_truncation_is_counted() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let good = pair.seal(&[frame(20)]);
    let whole = good[0].bytes.len();
    for length in 1..whole {
        let mut bad = good.clone();
        bad[0].bytes.truncate(length);
        assert!(pair.open(&bad).is_empty());
    }
    let short = pair.received_drops(DropReason::Truncated);
    let wrong = pair.received_drops(DropReason::BadIcv);
    assert_eq!(short + wrong, whole as u64 - 1);
    let mut long = good.clone();
    long[0].bytes.extend_from_slice(&[0; 4]);
    assert!(pair.open(&long).is_empty());
    assert_eq!(pair.open(&good).len(), 1);
}

#[test]
fn replays_and_late_packets_are_counted_and_reordered_ones_taken() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let sent = pair.seal(&vec![frame(20); 200]);
    assert!(!pair.open(&sent[150..151]).is_empty());
    assert!(pair.open(&sent[150..151]).is_empty());
    assert!(!pair.open(&sent[100..101]).is_empty());
    assert!(pair.open(&sent[100..101]).is_empty());
    assert!(pair.open(&sent[22..23]).is_empty());
    assert!(!pair.open(&sent[23..24]).is_empty());
    assert_eq!(pair.received_drops(DropReason::Replayed), 2);
    assert_eq!(pair.received_drops(DropReason::OutsideWindow), 1);
}

#[test]
fn unknown_spis_are_told_at_a_bounded_rate() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let mut sent = pair.seal(&vec![frame(20); 9]);
    for datagram in &mut sent {
        datagram.bytes[3] ^= 0xff;
    }
    assert!(pair.open(&sent).is_empty());
    let path = sent[0].path.reversed();
    let spi = SPI ^ 0xff;
    assert_eq!(pair.receiver_notices(), [Notice::UnknownSpi { path, spi }]);
    assert_eq!(pair.received_drops(DropReason::UnknownSpi), 9);
}

#[test]
fn padding_that_does_not_count_up_is_refused_and_uses_its_number_up() {
    let sa = tunnel_sa(AES_GCM);
    let key = crypto::packet::PacketKey::new(AES_GCM, &layer(AES_GCM).keys.encryption.0, &[]);
    let mut pair = Pair::new(sa);
    let sent = |sequence: u64, trailer: &[u8]| {
        let inner = packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 2), &data(4)));
        let mut bytes = vec![0; 16];
        bytes[..4].copy_from_slice(&SPI.to_be_bytes());
        bytes[4..8].copy_from_slice(&(sequence as u32).to_be_bytes());
        bytes[8..16].copy_from_slice(&sequence.to_be_bytes());
        bytes.extend_from_slice(&inner);
        bytes.extend_from_slice(trailer);
        bytes.extend_from_slice(&[0; 16]);
        key.seal(&mut bytes, None);
        Sent {
            path: path("198.51.100.1", "203.0.113.1"),
            traffic_class: 0,
            bytes,
        }
    };
    assert!(pair.open(&[sent(1, &[1, 3, 2, 4])]).is_empty());
    assert!(pair.open(&[sent(2, &[1, 2, 200, 4])]).is_empty());
    assert_eq!(pair.received_drops(DropReason::BadPadding), 2);
    assert!(pair.open(&[sent(1, &[1, 2, 2, 4])]).is_empty());
    assert_eq!(pair.received_drops(DropReason::Replayed), 1);
    // a family that the packet is not of, a dummy packet, and more padding than needed
    assert!(pair.open(&[sent(3, &[1, 2, 2, 41])]).is_empty());
    assert_eq!(pair.received_drops(DropReason::BadInnerPacket), 1);
    assert!(pair.open(&[sent(4, &[1, 2, 2, 59])]).is_empty());
    assert_eq!(pair.open(&[sent(5, &[1, 2, 3, 4, 5, 6, 6, 4])]).len(), 1);
    // traffic flow confidentiality: octets behind the inner packet
    assert_eq!(pair.open(&[sent(6, &[9, 9, 9, 9, 1, 2, 2, 4])]).len(), 1);
    assert_eq!(
        pair.receiver.report().drops.of(DropReason::BadInnerPacket),
        1
    );
}

/// If the headers before AH cannot be read, it is unknown what the ICV covers. Nothing is proven
/// then, and the number of such a packet must not count.
#[test]
fn headers_that_ah_cannot_cover_move_no_window() {
    let mut pair = Pair::new(Sa {
        layer: Layer::Ipsec(Ipsec {
            protocol: Protocol::Ah,
            ..layer(suites()[1])
        }),
        path: raw_path("198.51.100.1", "203.0.113.1"),
        ..tunnel_sa(suites()[1])
    });
    let sent = pair.seal(&[frame(20)]);
    let bytes = &sent[0].bytes;
    // a timestamp option of no octets
    let mut forged = [&bytes[..20], &[0x44, 0, 0, 0], &bytes[20..]].concat();
    forged[0] = 0x46;
    forged[32..36].copy_from_slice(&[0xff; 4]);
    let length = forged.len();
    finish_ip_header(&mut forged[..24], length);
    let forged = Sent {
        bytes: forged,
        ..sent[0].clone()
    };
    assert!(pair.open(&[forged]).is_empty());
    assert_eq!(pair.received_drops(DropReason::BadInnerPacket), 1);
    assert_eq!(pair.open(&sent), [frame(20)]);
}

#[test]
fn inner_packets_outside_the_selectors_are_refused_on_both_ends() {
    let wide = Sa {
        local: vec![within("0.0.0.0", "255.255.255.255")],
        ..tunnel_sa(AES_GCM)
    };
    let receiving = inbound(&tunnel_sa(AES_GCM));
    let mut pair = Pair::of(wide, receiving, OFFLOADS);
    let spoofed = plain(&packet("10.7.0.1", "10.2.0.1", UDP, &udp((1, 2), &data(4))));
    assert!(pair.carry(std::slice::from_ref(&spoofed)).is_empty());
    assert_eq!(pair.received_drops(DropReason::SelectorMismatch), 1);
    let mut narrow = Pair::new(tunnel_sa(AES_GCM));
    assert!(narrow.carry(&[spoofed]).is_empty());
    assert_eq!(narrow.sent_drops(DropReason::NoPolicy), 1);
}

#[test]
fn the_wrong_encapsulation_is_refused() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let sent = pair.seal(&[frame(20)]);
    let raw = packet("198.51.100.1", "203.0.113.1", 50, &sent[0].bytes);
    let as_raw = Sent {
        path: raw_path("198.51.100.1", "203.0.113.1"),
        bytes: raw.clone(),
        ..sent[0].clone()
    };
    // Some other protocol than the two.
    let as_udp = Sent {
        bytes: [&raw[..9], &[17], &raw[10..]].concat(),
        ..as_raw.clone()
    };
    // The port of plain IKE carries no ESP.
    let at_ike = Sent {
        path: Path::udp(sent[0].path.local, sent[0].path.remote),
        ..sent[0].clone()
    };
    for wrong in [as_raw, as_udp, at_ike] {
        assert!(pair.open(&[wrong]).is_empty());
    }
    assert_eq!(pair.received_drops(DropReason::WrongEncapsulation), 3);
    assert_eq!(pair.open(&sent).len(), 1);
}

#[test]
fn encryption_without_integrity_never_moves_anything() {
    let protection = crypto::packet::Protection {
        encryption: crypto::packet::Encryption::Cbc(crypto::cipher::Cipher::TripleDes),
        integrity: crypto::packet::Integrity::None,
    };
    let mut pair = Pair::new(Sa {
        replay_window: 64,
        ..tunnel_sa(protection)
    });
    let mut sent = pair.seal(&[frame(20)]);
    sent[0].path.local.set_port(9999);
    for _ in 0..2 {
        assert_eq!(pair.open(&sent).len(), 1);
        assert_eq!(pair.receiver_notices(), []);
    }
    // a sequence number from nowhere changes nothing either
    sent[0].bytes[4] = 0xff;
    assert_eq!(pair.open(&sent).len(), 1);
    sent[0].bytes[4] = 0;
    assert_eq!(pair.open(&sent).len(), 1);
}

#[test]
fn the_last_sequence_number_ends_the_sa() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let last = u64::from(u32::MAX);
    pair.sender.fixed_sequence_for_testing(CHILD, last - 1);
    assert_eq!(pair.seal(&vec![frame(9); 3]).len(), 1);
    assert_eq!(pair.sent_drops(DropReason::SequenceExhausted), 2);
    assert_eq!(
        pair.datagrams.notices(),
        [Notice::SoftLimit { child: CHILD }]
    );
}

#[test]
fn extended_sequence_numbers_roll_over() {
    for protocol in [Protocol::Esp, Protocol::Ah] {
        for protection in suites() {
            let is_null = protection.encryption == crypto::packet::Encryption::Null;
            if !protection.is_authenticated() || (protocol == Protocol::Ah && !is_null) {
                continue;
            }
            let mut pair = Pair::new(Sa {
                layer: Layer::Ipsec(Ipsec {
                    protocol,
                    ..layer(protection)
                }),
                has_esn: true,
                path: match protocol {
                    Protocol::Esp => path("198.51.100.1", "203.0.113.1"),
                    Protocol::Ah => raw_path("198.51.100.1", "203.0.113.1"),
                },
                ..tunnel_sa(protection)
            });
            let start = (3u64 << 32) - 5;
            pair.sender.fixed_sequence_for_testing(CHILD, start);
            // the receiver has followed up to here
            for step in 1..6 {
                let at = (step << 31).min(start);
                pair.receiver.fixed_sequence_for_testing(SPI, at);
            }
            pair.receiver.fixed_sequence_for_testing(SPI, start);
            let sent = pair.seal(&vec![frame(30); 10]);
            let opened: usize = sent
                .iter()
                .rev()
                .map(|sent| pair.open(std::slice::from_ref(sent)).len())
                .sum();
            assert_eq!(opened, 10, "{protection:?}");
            assert!(pair.open(&sent).is_empty());
            assert_eq!(pair.received_drops(DropReason::Replayed), 10);
        }
    }
}

#[test]
fn each_window_size_admits_what_it_should() {
    for window in [64, 128, 1024, 4096] {
        let mut pair = Pair::new(Sa {
            replay_window: window,
            ..tunnel_sa(AES_GCM)
        });
        let sent = pair.seal(&vec![frame(9); window as usize + 1]);
        assert_eq!(pair.open(&sent[window as usize..]).len(), 1);
        assert_eq!(pair.open(&sent[1..2]).len(), 1);
        assert!(pair.open(&sent[..1]).is_empty());
        assert_eq!(pair.received_drops(DropReason::OutsideWindow), 1);
    }
}

#[test]
fn later_fragments_match_only_selectors_of_any_port() {
    let with_port = |port| TrafficSelector {
        protocol: UDP,
        ports: crate::selector::Ports::of_ikev1(port),
        ..within("10.2.0.0", "10.2.255.255")
    };
    let mut fragment = packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 53), &data(72)));
    fragment[6..8].copy_from_slice(&[0, 9]);
    crate::plane::checksum::put_v4(&mut fragment[..20]);
    for (port, taken) in [(0, 1), (53, 0)] {
        let mut pair = Pair::new(Sa {
            remote: vec![with_port(port)],
            ..tunnel_sa(AES_GCM)
        });
        assert_eq!(pair.carry(&[plain(&fragment)]).len(), taken);
    }
}

#[test]
fn only_ports_of_a_range_pass_at_either_end() {
    let to = |text: &str| Sa {
        remote: vec![text.parse().expect("a selector")],
        ..tunnel_sa(AES_GCM)
    };
    let (narrow, wide) = ("10.2.0.0/16[udp/1000-2000]", "10.2.0.0/16");
    for (port, taken) in [(999, 0), (1000, 1), (1500, 1), (2000, 1), (2001, 0)] {
        let sent = packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, port), &data(72)));
        let mut pair = Pair::new(to(narrow));
        assert_eq!(pair.carry(&[plain(&sent)]).len(), taken, "{port}");
        // A peer that seals more than it may gets nothing in.
        let mut pair = Pair::of(to(wide), inbound(&to(narrow)), OFFLOADS);
        assert_eq!(pair.carry(&[plain(&sent)]).len(), taken, "{port}");
    }
}

#[test]
fn absurd_super_packets_are_refused() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let tcp = packet("10.1.0.1", "10.2.0.1", TCP, &tcp(1, 16, &[], &data(9000)));
    let mut tiny = super_packet(&tcp, 1);
    assert!(pair.seal(std::slice::from_ref(&tiny)).is_empty());
    tiny[4..6].fill(0);
    assert!(pair.seal(std::slice::from_ref(&tiny)).is_empty());
    let mut as_udp = super_packet(&tcp, 1000);
    as_udp[1] = 5;
    assert!(pair.seal(&[as_udp]).is_empty());
    let mut far_checksum = plain(&tcp);
    far_checksum[0] = 1;
    far_checksum[6..8].fill(0xff);
    assert!(pair.seal(&[far_checksum]).is_empty());
    assert_eq!(pair.sent_drops(DropReason::BadInnerPacket), 4);
    assert!(pair.seal(&[vec![0; 4]]).is_empty());
    assert_eq!(pair.sent_drops(DropReason::Truncated), 1);
}

fn any_pair(suite: usize, variant: u8, offloads: Offloads) -> Pair {
    let protocol = if variant & 2 == 0 {
        Protocol::Esp
    } else {
        Protocol::Ah
    };
    let suites = suites();
    let protection = suites[suite % if variant & 2 == 0 { suites.len() } else { 5 }];
    Pair::with_offloads(
        Sa {
            layer: Layer::Ipsec(Ipsec {
                protocol,
                ..layer(protection)
            }),
            path: match variant & 3 {
                0 => path("198.51.100.1", "203.0.113.1"),
                _ => raw_path("198.51.100.1", "203.0.113.1"),
            },
            mode: if variant & 4 == 0 {
                Mode::Tunnel
            } else {
                Mode::Transport
            },
            local: vec![within("0.0.0.0", "255.255.255.255"), within("::", "ffff::")],
            remote: vec![within("0.0.0.0", "255.255.255.255"), within("::", "ffff::")],
            ..tunnel_sa(protection)
        },
        offloads,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn no_frame_breaks_the_sender(
        suite in 0usize..36, variant in 0u8..8, is_v6 in any::<bool>(),
        mut head in prop::collection::vec(any::<u8>(), 0..10),
        changes in prop::collection::vec((0usize..120, any::<u8>()), 0..6),
        length in 0usize..3000, flags in 0u8..2, kind in 0u8..6,
    ) {
        let mut pair = any_pair(suite, variant, OFFLOADS);
        let ends = if is_v6 { ("fd01::1", "fd02::1") } else { ("10.1.0.1", "10.2.0.1") };
        let mut packet = packet(ends.0, ends.1, TCP, &tcp(1, 2, &[2, 4, 5, 0xb4], &data(length)));
        for (at, value) in changes {
            let at = at % packet.len();
            packet[at] = value;
        }
        head.resize(10, 0);
        (head[0], head[1]) = (flags, kind);
        head.extend_from_slice(&packet);
        let sent = pair.seal(&[head]);
        pair.open(&sent);
    }

    #[test]
    fn no_datagram_breaks_the_receiver(
        suite in 0usize..36, variant in 0u8..8,
        mut bytes in prop::collection::vec(any::<u8>(), 1..200),
        (is_udp, is_ah) in any::<(bool, bool)>(),
        (has_spi, is_bare) in any::<(bool, bool)>(),
    ) {
        let mut pair = any_pair(suite, variant, if is_bare { NO_OFFLOADS } else { OFFLOADS });
        if has_spi && bytes.len() > 40 {
            let header = if is_ah { 24 } else { 20 };
            let at = if is_udp { 0 } else { header };
            bytes[at..at + 4].copy_from_slice(&SPI.to_be_bytes());
            if !is_udp {
                let length = bytes.len() as u16;
                bytes[0] = 0x45;
                bytes[2..4].copy_from_slice(&length.to_be_bytes());
                bytes[6..8].fill(0);
                bytes[9] = if is_ah { 51 } else { 50 };
            }
        }
        let path = match is_udp {
            true => path("198.51.100.1", "203.0.113.1"),
            false => raw_path("198.51.100.1", "203.0.113.1"),
        };
        let opened = pair.open(&[Sent { path, traffic_class: 3, bytes }]);
        let is_authenticated = suites()[suite].is_authenticated() || variant & 2 != 0;
        prop_assert!(opened.is_empty() || !is_authenticated);
    }
}

#[test]
fn many_sas_come_and_go() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let sa = |n: u32| Sa {
        layer: Layer::Ipsec(Ipsec {
            spi: 0x1000_0000 + n.wrapping_mul(0x9e37_79b9) / 16,
            ..layer(AES_GCM)
        }),
        child: ChildId(100 + n % 500),
        remote: vec![within(
            &format!("10.9.{}.{}", n / 250, n % 250),
            &format!("10.9.{}.{}", n / 250, n % 250),
        )],
        ..tunnel_sa(AES_GCM)
    };
    for n in 0..1000 {
        pair.sender
            .apply(OutboundChange::Install(Box::new(sa(n))), NOW);
        pair.receiver
            .apply(InboundChange::Install(Box::new(inbound(&sa(n)))));
    }
    assert_eq!(pair.receiver.report().associations.len(), 1001);
    for n in (0..1000).filter(|n| n % 3 != 0) {
        let (child, spi) = (sa(n).child, sa(n).spi());
        pair.sender.apply(OutboundChange::Remove(child, spi), NOW);
        pair.receiver.apply(InboundChange::Remove(child, spi));
    }
    let left = (0..1000).filter(|n| n % 3 == 0).count() + 1;
    assert_eq!(pair.receiver.report().associations.len(), left);
    assert_eq!(pair.sender.report().associations.len(), left);
    for n in (0..1000).filter(|n| n % 3 == 0) {
        let destination = sa(n).remote[0].first.to_string();
        let frame = plain(&packet(
            "10.1.0.1",
            &destination,
            UDP,
            &udp((1, 2), &[1, 2, 3]),
        ));
        let is_newest = n >= 500 || (n + 500) % 3 != 0;
        assert_eq!(pair.carry(&[frame]).len(), usize::from(is_newest), "{n}");
    }
    assert_eq!(pair.received_drops(DropReason::UnknownSpi), 0);
}

#[test]
fn a_checksum_within_the_ip_header_is_refused() {
    let mut frame = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(40)),
    ));
    frame[0] = 1; // needs a checksum, from the start of the packet
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    assert_eq!(pair.seal(core::slice::from_ref(&frame)).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::BadInnerPacket), 1);
    (frame[6], frame[8]) = (20, 6);
    assert_eq!(pair.seal(&[frame]).len(), 1);
}
