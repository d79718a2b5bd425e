//! Super-packets are split, sealed, opened and joined again.

use proptest::prelude::*;

use super::support::*;
use crate::plane::inner::{Inner, be16, be32};
use crate::sa::Sa;
use wire::ip::protocol::{TCP, UDP};

const ENDS: [(&str, &str); 2] = [("10.1.0.1", "10.2.0.1"), ("fd01::1", "fd02::1")];
const TIMESTAMP: [u8; 12] = [1, 1, 8, 10, 0, 0, 1, 2, 3, 4, 5, 6];
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;

#[test]
fn a_tcp_super_packet_comes_back_as_it_was() {
    for (source, destination) in ENDS {
        for length in [1349, 1350 * 2, 1300 * 47, 60_001] {
            let mut pair = Pair::new(tunnel_sa(AES_GCM));
            let tcp = tcp(u32::MAX - 5000, ACK | PSH, &TIMESTAMP, &data(length));
            let frame = super_packet(&packet(source, destination, TCP, &tcp), 1300);
            let sent = pair.seal(std::slice::from_ref(&frame));
            assert_eq!(sent.len(), length.div_ceil(1300));
            let on_wire: usize = sent.iter().map(|sent| sent.bytes.len()).sum();
            assert_eq!(pair.datagrams.runs().len(), on_wire.div_ceil(65_507));
            let opened = pair.open(&sent);
            assert_eq!(opened, [frame]);
        }
    }
}

#[test]
fn a_udp_super_packet_comes_back_as_it_was() {
    for (source, destination) in ENDS {
        let mut pair = Pair::new(tunnel_sa(AES_GCM));
        let udp = udp((4000, 5000), &data(1200 * 30 + 77));
        let frame = super_packet(&packet(source, destination, UDP, &udp), 1200);
        assert_eq!(pair.carry(std::slice::from_ref(&frame)), [frame]);
    }
}

#[test]
fn each_segment_is_a_right_packet() {
    let mut pair = Pair::with_offloads(tunnel_sa(AES_GCM), OFFLOADS);
    let tcp = tcp(1000, 0x80 | 0x01 | ACK | PSH, &TIMESTAMP, &data(5000));
    let frame = super_packet(&packet("10.1.0.1", "10.2.0.1", TCP, &tcp), 1000);
    let sent = pair.seal(&[frame]);
    let mut lone = Vec::new();
    for sent in &sent {
        lone.extend(pair.open(std::slice::from_ref(sent)));
    }
    let mut text = Vec::new();
    for (number, packet) in lone.iter().enumerate() {
        let packet = &packet[10..];
        assert_checksums(packet);
        assert_eq!(usize::from(be16(packet, 4)), 0x1234 + number);
        assert_eq!(be32(packet, 24) as usize, 1000 + number * 1000);
        // CWR first, FIN and PSH last
        assert_eq!(packet[33], [0x90, 0x10, 0x10, 0x10, 0x19][number]);
        text.extend_from_slice(&packet[52..]);
    }
    assert_eq!(text, data(5000));
}

#[test]
fn flows_stay_apart_and_in_order() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let mut frames = Vec::new();
    for n in 0..8u32 {
        for host in 1..=3 {
            let source = format!("10.1.0.{host}");
            let tcp = tcp(n * 500, ACK, &[], &data(500));
            frames.push(plain(&packet(&source, "10.2.0.1", TCP, &tcp)));
        }
    }
    let opened = pair.carry(&frames);
    assert_eq!(opened.len(), 3);
    for frame in opened {
        let packet = &frame[10..];
        assert_eq!(packet.len(), 40 + 8 * 500);
        assert_eq!(&packet[40..], [&data(500)[..]; 8].concat());
    }
}

#[test]
fn what_segmentation_could_not_have_made_is_left_alone() {
    let with = |sequence, flags, options: &[u8], length| {
        let tcp = tcp(sequence, flags, options, &data(length));
        plain(&packet("10.1.0.1", "10.2.0.1", TCP, &tcp))
    };
    let first = with(0, ACK, &[], 100);
    for second in [
        with(101, ACK, &[], 100),        // a gap
        with(100, ACK | 0x02, &[], 100), // SYN
        with(100, ACK | 0x20, &[], 100), // URG
        with(100, ACK, &[1, 1, 1, 1], 100),
        with(100, ACK, &[], 101), // longer than the first
        with(100, ACK, &[], 0),   // nothing but an acknowledgement
    ] {
        let frames = [first.clone(), second];
        assert_eq!(Pair::new(tunnel_sa(AES_GCM)).carry(&frames), frames);
    }
    let pushed = [with(0, ACK | PSH, &[], 100), with(100, ACK, &[], 100)];
    assert_eq!(Pair::new(tunnel_sa(AES_GCM)).carry(&pushed), pushed);
}

#[test]
fn a_wrong_inner_checksum_stays_wrong() {
    let mut frames: Vec<_> = (0..3)
        .map(|n| {
            let tcp = tcp(n * 100, ACK, &[], &data(100));
            plain(&packet("10.1.0.1", "10.2.0.1", TCP, &tcp))
        })
        .collect();
    frames[1][10 + 60] ^= 1;
    assert_eq!(Pair::new(tunnel_sa(AES_GCM)).carry(&frames), frames);
}

#[test]
fn a_checksum_left_to_the_device_is_completed() {
    for (source, destination) in ENDS {
        let mut pair = Pair::new(tunnel_sa(AES_GCM));
        let whole = packet(source, destination, UDP, &udp((7, 8), &data(333)));
        let mut frame = super_packet(&whole, 0);
        frame[1] = 0;
        assert_eq!(pair.carry(&[frame]), [plain(&whole)]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_super_packet_comes_back(
        length in 1usize..60_000, segment in 48usize..1340, sequence in any::<u32>(),
        is_v6 in any::<bool>(), is_udp in any::<bool>(), pushes in any::<bool>(),
    ) {
        let (source, destination) = ENDS[usize::from(is_v6)];
        let segment = if is_udp { segment.max(length / 64 + 1) } else { segment };
        prop_assume!(segment < 1340);
        let flags = ACK | if pushes { PSH } else { 0 };
        let (protocol, upper) = if is_udp {
            (UDP, udp((1, 2), &data(length)))
        } else {
            (TCP, tcp(sequence, flags, &TIMESTAMP, &data(length)))
        };
        let frame = super_packet(&packet(source, destination, protocol, &upper), segment);
        let mut pair = Pair::new(Sa { replay_window: 4096, ..tunnel_sa(AES_GCM) });
        let sent = pair.seal(std::slice::from_ref(&frame));
        prop_assert_eq!(sent.len(), length.div_ceil(segment));
        let opened = pair.open(&sent);
        // more than 64 segments make more than one write; text and order are the same
        let mut text = Vec::new();
        for write in &opened {
            let inner = Inner::parse(&write[10..]).expect("a packet");
            let headers = if is_udp { 8 } else { 32 };
            text.extend_from_slice(&write[10 + inner.flow.transport + headers..]);
        }
        prop_assert_eq!(text, data(length));
        if (2..=64).contains(&sent.len()) {
            prop_assert_eq!(opened, [frame]);
        }
    }
}
