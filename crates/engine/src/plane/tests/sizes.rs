//! Path MTU, ICMP, fragments, maximum segment sizes, and the size on the wire.

use super::support::*;
use crate::counters::DropReason;
use crate::plane::inner::{Inner, be16, be32};
use crate::plane::reassembly::Reassembly;
use crate::plane::{OutboundChange, Shape, wire_bytes};
use crate::sa::{Ipsec, Layer, Mode, Protocol, Sa};
use wire::ip::protocol::{ICMP, ICMPV6, TCP, UDP};

fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for protection in suites() {
        for (protocol, is_udp_encapsulated) in [
            (Protocol::Esp, true),
            (Protocol::Esp, false),
            (Protocol::Ah, false),
        ] {
            for mode in [Mode::Tunnel, Mode::Transport] {
                for is_outer_v6 in [false, true] {
                    shapes.push(Shape {
                        protection,
                        protocol,
                        mode,
                        is_udp_encapsulated,
                        is_outer_v6,
                    });
                }
            }
        }
    }
    shapes
}

#[test]
fn the_largest_packet_fits_and_one_octet_more_does_not() {
    for shape in shapes() {
        for path_mtu in [576, 1280, 1400, 1492, 1500, 9000] {
            let largest = shape.largest_packet(path_mtu);
            assert!(wire_bytes(&shape, largest) <= path_mtu, "{shape:?}");
            assert!(wire_bytes(&shape, largest + 1) > path_mtu, "{shape:?}");
        }
    }
}

#[test]
fn a_packet_too_big_with_df_tells_its_sender_the_exact_size() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    pair.sender.apply(OutboundChange::LinkMtu(CHILD, 1400), NOW);
    let largest = shape_of(&tunnel_sa(AES_GCM)).largest_packet(1400);
    let with = |length| {
        packet(
            "10.1.0.1",
            "10.2.0.1",
            UDP,
            &udp((1, 2), &data(length - 28)),
        )
    };
    assert_eq!(pair.carry(&[plain(&with(largest))]).len(), 1);
    let big = with(largest + 1);
    assert!(pair.seal(&[plain(&big)]).is_empty());
    assert_eq!(pair.sent_drops(DropReason::TooBig), 1);
    let replies: Vec<_> = pair.datagrams.replies().collect();
    assert_eq!(replies.len(), 1);
    let reply = &replies[0][10..];
    assert_checksums(reply);
    let inner = Inner::parse(reply).expect("a packet");
    assert_eq!(inner.flow.protocol, ICMP);
    assert_eq!(inner.flow.destination, ip("10.1.0.1"));
    assert_eq!(reply[20..22], [3, 4]);
    assert_eq!(usize::from(be16(reply, 26)), largest);
    assert!(wire::ip::Sum::new().bytes(&reply[20..]).folded() == 0xffff);
    assert_eq!(reply[28..], big[..576 - 28]);
}

#[test]
fn ipv6_is_told_too_and_never_less_than_1280() {
    for (path_mtu, told) in [(1500, 1438), (1300, 1280)] {
        let mut pair = Pair::new(tunnel_sa(AES_GCM));
        pair.sender
            .apply(OutboundChange::LinkMtu(CHILD, path_mtu), NOW);
        let big = packet("fd01::1", "fd02::1", UDP, &udp((1, 2), &data(1439)));
        assert!(pair.seal(&[plain(&big)]).is_empty());
        let replies: Vec<_> = pair.datagrams.replies().collect();
        let reply = &replies[0][10..];
        assert_checksums(reply);
        assert_eq!(Inner::parse(reply).expect("a packet").flow.protocol, ICMPV6);
        assert_eq!((reply[40], be32(reply, 44)), (2, told));
        let small = packet("fd01::1", "fd02::1", UDP, &udp((1, 2), &data(1280 - 48)));
        assert_eq!(pair.carry(&[plain(&small)]).len(), 1);
    }
}

#[test]
fn a_super_packet_too_big_is_refused_with_df() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let tcp = packet("10.1.0.1", "10.2.0.1", TCP, &tcp(1, 16, &[], &data(9000)));
    assert!(pair.seal(&[super_packet(&tcp, 1460)]).is_empty());
    assert_eq!(pair.datagrams.replies().count(), 1);
    let mut free = tcp.clone();
    free[6] = 0;
    let sent = pair.seal(&[super_packet(&free, 1460)]);
    let mtu = sent.iter().map(|sent| sent.bytes.len() + 28).max();
    assert!(mtu <= Some(1500));
    let opened = pair.open(&sent);
    assert_eq!(opened.len(), 1);
    assert_eq!(opened[0][50..], tcp[40..]);
}

#[test]
fn icmp_errors_and_groups_are_not_answered() {
    let mut pair = Pair::new(Sa {
        remote: vec![within("10.2.0.0", "239.255.255.255")],
        ..tunnel_sa(AES_GCM)
    });
    let error = [&[3, 4, 0, 0][..], &data(1600)].concat();
    let group = packet("10.1.0.1", "224.1.1.1", UDP, &udp((1, 2), &data(1600)));
    let frames = [packet("10.1.0.1", "10.2.0.1", ICMP, &error), group].map(|p| plain(&p));
    assert!(pair.seal(&frames).is_empty());
    assert_eq!(pair.datagrams.replies().count(), 0);
    assert_eq!(pair.sent_drops(DropReason::TooBig), 2);
}

/// Puts IPv4 fragments together.
fn reassemble(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = frames[0][10..].to_vec();
    for (number, frame) in frames.iter().enumerate() {
        let packet = &frame[10..];
        assert_checksums_of_header(packet);
        let field = be16(packet, 6);
        assert_eq!(field & 0x2000 != 0, number + 1 < frames.len());
        let header = usize::from(packet[0] & 15) * 4;
        let at = header + usize::from(field & 0x1fff) * 8;
        whole.resize(at + packet.len() - header, 0);
        whole[at..].copy_from_slice(&packet[header..]);
    }
    let length = whole.len() as u16;
    whole[2..4].copy_from_slice(&length.to_be_bytes());
    whole[6..8].fill(0);
    let header = usize::from(whole[0] & 15) * 4;
    crate::plane::checksum::put_v4(&mut whole[..header]);
    whole
}

fn assert_checksums_of_header(packet: &[u8]) {
    let header = usize::from(packet[0] & 15) * 4;
    let sum = wire::ip::Sum::new().bytes(&packet[..header]);
    assert!(sum.folded() == 0xffff);
}

#[test]
fn without_df_a_packet_is_cut_before_it_is_sealed() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let mut big = packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 2), &data(4000)));
    big[6] = 0;
    crate::plane::checksum::put_v4(&mut big[..20]);
    let sent = pair.seal(&[plain(&big)]);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|sent| sent.bytes.len() + 28 <= 1500));
    assert_eq!(reassemble(&pair.open(&sent)), big);

    // each datagram of a UDP super-packet as well, the checksum of the whole datagram inside
    let sent = pair.seal(&[super_packet(&big, 2000)]);
    let opened = pair.open(&sent);
    assert_eq!(opened.len(), 4);
    let first = reassemble(&opened[..2]);
    assert_checksums(&first);
    assert_eq!(first[28..], data(4000)[..2000]);
}

#[test]
fn raw_packets_without_df_are_cut_after_they_are_sealed() {
    for protocol in [Protocol::Esp, Protocol::Ah] {
        let protection = suites()[1];
        let mut pair = Pair::new(Sa {
            layer: Layer::Ipsec(Ipsec {
                protocol,
                ..layer(protection)
            }),
            mode: Mode::Transport,
            path: raw_path("10.1.0.1", "10.2.0.1"),
            ..tunnel_sa(protection)
        });
        let mut big = packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 2), &data(4000)));
        big[6] = 0;
        crate::plane::checksum::put_v4(&mut big[..20]);
        let sent = pair.seal(&[plain(&big)]);
        assert_eq!(sent.len(), 3);
        assert!(sent.iter().all(|sent| sent.bytes.len() <= 1500));
        // the kernel reassembles them before a raw socket sees them
        let parts: Vec<_> = sent.iter().map(|sent| plain(&sent.bytes)).collect();
        let whole = Sent {
            bytes: reassemble(&parts),
            ..sent[0].clone()
        };
        assert_eq!(pair.open(&[whole]), [plain(&big)]);
    }
}

/// RFC 8200 §5: nobody may report a smaller size, so its outer packet is fragmented, although it
/// has DF itself.
#[test]
fn the_smallest_ipv6_packet_passes_a_small_path_without_udp() {
    for protocol in [Protocol::Esp, Protocol::Ah] {
        let mut pair = Pair::new(Sa {
            layer: Layer::Ipsec(Ipsec {
                protocol,
                ..layer(suites()[1])
            }),
            path: raw_path("198.51.100.1", "203.0.113.1"),
            ..tunnel_sa(suites()[1])
        });
        pair.sender.apply(OutboundChange::LinkMtu(CHILD, 1300), NOW);
        let small = packet("fd01::1", "fd02::1", UDP, &udp((1, 2), &data(1280 - 48)));
        let sent = pair.seal(&[plain(&small)]);
        assert_eq!(pair.sent_drops(DropReason::TooBig), 0);
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|sent| sent.bytes.len() <= 1300));
        // the kernel reassembles them before a raw socket sees them
        let parts: Vec<_> = sent.iter().map(|sent| plain(&sent.bytes)).collect();
        let whole = Sent {
            bytes: reassemble(&parts),
            ..sent[0].clone()
        };
        assert_eq!(pair.open(&[whole]), [plain(&small)]);
    }
}

#[test]
fn raw_ipv6_packets_are_cut_after_they_are_sealed() {
    for protocol in [Protocol::Esp, Protocol::Ah] {
        for mode in [Mode::Tunnel, Mode::Transport] {
            let mut pair = Pair::new(Sa {
                layer: Layer::Ipsec(Ipsec {
                    protocol,
                    ..layer(suites()[1])
                }),
                mode,
                path: raw_path("fd01::1", "fd02::1"),
                copies_df: false,
                ..tunnel_sa(suites()[1])
            });
            let big = packet("fd01::1", "fd02::1", UDP, &udp((1, 2), &data(4000)));
            let sent = pair.seal(&[plain(&big)]);
            assert_eq!(sent.len(), 3);
            assert!(sent.iter().all(|sent| sent.bytes.len() <= 1500));
            // the kernel reassembles them before a raw socket sees them
            let mut kernel = Reassembly::default();
            let mut made = sent.iter().map(|s| kernel.take(s.bytes.clone(), NOW).whole);
            assert_eq!((made.next(), made.next()), (Some(None), Some(None)));
            let bytes = made.next().flatten().expect("whole");
            let whole = Sent {
                bytes,
                ..sent[0].clone()
            };
            assert_eq!(pair.open(&[whole]), [plain(&big)]);
        }
    }
}

#[test]
fn datagrams_larger_than_the_path_share_no_run() {
    let mut pair = Pair::new(Sa {
        copies_df: false,
        ..tunnel_sa(AES_GCM)
    });
    let big = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(2000)),
    ));
    assert_eq!(pair.seal(&[big.clone(), big]).len(), 2);
    assert_eq!(pair.datagrams.runs().len(), 2);
}

#[test]
fn maximum_segment_sizes_are_clamped_both_ways() {
    const SYN: u8 = 2;
    let sa = || tunnel_sa(AES_GCM);
    for (source, destination, headers) in [("10.1.0.1", "10.2.0.1", 40), ("fd01::1", "fd02::1", 60)]
    {
        for options in [&[2, 4, 5, 0xb4][..], &[1, 2, 4, 5, 0xb4, 1, 1, 0]] {
            let want = shape_of(&sa()).largest_packet(1400) - headers;
            let syn = packet(source, destination, TCP, &tcp(1, SYN, options, &[]));
            let whole = super_packet(&syn, 0);
            let partial = [&[1, 0][..], &whole[2..]].concat();
            for (frame, out) in [(plain(&syn), true), (partial, true), (plain(&syn), false)] {
                let mut pair = if out {
                    Pair::new(sa())
                } else {
                    let mut receiving = inbound(&sa());
                    receiving.path_mtu = 1400;
                    Pair::of(sa(), receiving, OFFLOADS)
                };
                if out {
                    let change = OutboundChange::LinkMtu(CHILD, 1400);
                    pair.sender.apply(change, NOW);
                }
                let opened = pair.carry(&[frame]);
                let packet = &opened[0][10..];
                assert_checksums(packet);
                let at = packet.len() - options.len() + options.len() % 4;
                let at = at + if options[0] == 1 { 3 } else { 2 };
                assert_eq!(usize::from(be16(packet, at)), want);
            }
        }
    }
    let small = packet(
        "10.1.0.1",
        "10.2.0.1",
        TCP,
        &tcp(1, SYN, &[2, 4, 2, 0], &[]),
    );
    assert_eq!(Pair::new(sa()).carry(&[plain(&small)]), [plain(&small)]);
}

#[test]
fn idle_sas_are_small() {
    assert!(size_of::<crate::plane::sealer::Sealer>() <= 1024);
    assert!(size_of::<crate::plane::opener::Opener>() <= 1024);
}
