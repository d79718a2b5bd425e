use super::*;
use crate::plane::sealer::write_ip_header;
use crypto::rand::Seed;
use wire::ip::fragment::Fragments;

const V4: (&str, &str) = ("10.0.0.1", "10.0.0.2");
const V6: (&str, &str) = ("fd00::1", "fd00::2");

fn packet(ends: (&str, &str), length: usize, id: u16) -> Vec<u8> {
    let ends: (IpAddr, IpAddr) = (
        ends.0.parse().expect("an address"),
        ends.1.parse().expect("an address"),
    );
    let header_bytes = if ends.0.is_ipv4() { 20 } else { 40 };
    let mut packet: Vec<u8> = (0..length).map(|at| at as u8).collect();
    write_ip_header(&mut packet[..header_bytes], ends, 17, 0, (id, 0));
    finish_ip_header(&mut packet[..header_bytes], length);
    packet
}

fn cut(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    if packet[0] >> 4 == 6 {
        return cut_v6(packet, mtu);
    }
    let mut fragments = Fragments::new(packet, mtu).expect("may be cut");
    let mut scratch = vec![0; packet.len()];
    let mut all = Vec::new();
    while let Some(length) = fragments.write_next(&mut scratch) {
        all.push(scratch[..length].to_vec());
    }
    all
}

/// RFC 8200 §4.5, behind an empty destination options header.
fn cut_v6(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let room = (mtu - 40 - 8 - 8) & !7;
    let number = packet[40..].chunks(room).len();
    let parts = packet[40..].chunks(room).enumerate();
    let one = |(at, part): (usize, &[u8])| {
        let field = (at * room) as u16 | u16::from(at + 1 < number);
        let mut fragment = packet[..40].to_vec();
        fragment[6] = 60;
        fragment.extend([44, 0, 1, 4, 0, 0, 0, 0, packet[6], 0]);
        fragment.extend(field.to_be_bytes());
        fragment.extend([0, 0, 0, packet[4]]);
        fragment.extend(part);
        let length = fragment.len();
        finish_ip_header(&mut fragment[..40], length);
        fragment
    };
    parts.map(one).collect()
}

#[test]
fn fragments_in_any_order_make_the_packet() {
    let mut random = Seed::new([1; 32]).stream("order", 0);
    for (length, mtu) in [(2000, 1500), (65_535, 1500), (500, 68), (1500, 1500)] {
        let whole = packet(V4, length, 7);
        let mut parts = cut(&whole, mtu);
        for at in (1..parts.len()).rev() {
            parts.swap(at, random.u32() as usize % (at + 1));
        }
        let mut reassembly = Reassembly::default();
        let (last, others) = parts.split_last().expect("a fragment");
        for part in others {
            assert_eq!(reassembly.take(part.clone(), Instant(0)).whole, None);
        }
        let taken = reassembly.take(last.clone(), Instant(0));
        assert_eq!(taken.whole, Some(whole));
        assert!(reassembly.packets.is_empty());
    }
}

#[test]
fn ipv6_loses_its_fragment_header_and_keeps_what_is_before_it() {
    let whole = packet(V6, 4000, 0);
    let mut reassembly = Reassembly::default();
    let parts = cut(&whole, 1280);
    let mut made = None;
    for part in parts.iter().rev() {
        assert_eq!(made, None);
        made = reassembly.take(part.clone(), Instant(0)).whole;
    }
    let made = made.expect("whole");
    assert_eq!(made[40..48], [17, 0, 1, 4, 0, 0, 0, 0]);
    assert_eq!(made[48..], whole[40..]);
    let upper = Ipv6::new(&made[..]).expect("a packet").upper();
    let upper = upper.expect("sound headers");
    assert_eq!(
        (upper.protocol, upper.offset, upper.fragment),
        (17, 48, None)
    );
    assert!(reassembly.packets.is_empty());
}

#[test]
fn what_is_no_fragment_comes_back() {
    let mut reassembly = Reassembly::default();
    let mut atomic = cut(&packet(V6, 400, 0), 1280);
    let atomic = atomic.remove(0);
    for packet in [
        packet(V4, 100, 1),
        packet(V6, 100, 1),
        atomic,
        vec![0x45, 1],
        vec![],
    ] {
        let taken = reassembly.take(packet.clone(), Instant(0));
        assert_eq!((taken.whole, taken.given_up), (Some(packet), 0));
    }
    assert!(reassembly.packets.is_empty());
}

#[test]
fn overlaps_age_and_numbers_end_what_is_in_the_making() {
    for ends in [V4, V6] {
        let mut reassembly = Reassembly::default();
        let parts = cut(&packet(ends, 3000, 1), 1500);
        reassembly.take(parts[0].clone(), Instant(0));
        let taken = reassembly.take(parts[0].clone(), Instant(0));
        assert_eq!((taken.whole, taken.given_up), (None, 1));
    }
    let mut reassembly = Reassembly::default();
    let mut given_up = 0;
    for id in 0..200 {
        let first = cut(&packet(V4, 3000, id), 1500)[0].clone();
        given_up += reassembly.take(first, Instant(0)).given_up;
    }
    assert_eq!(reassembly.packets.len(), MAX_PACKETS);
    assert_eq!(given_up, 200 - MAX_PACKETS as u64);
    // one that completes a packet in the making pushes none out
    let second = cut(&packet(V4, 3000, 199), 1500).remove(1);
    let third = cut(&packet(V4, 3000, 199), 1500).remove(2);
    reassembly.take(second, Instant(0));
    assert!(reassembly.take(third, Instant(0)).whole.is_some());
    assert_eq!(reassembly.packets.len(), MAX_PACKETS - 1);
    let first = cut(&packet(V4, 3000, 999), 1500)[0].clone();
    let late = reassembly.take(first, Instant(0) + LIFETIME);
    assert_eq!(late.given_up, MAX_PACKETS as u64 - 1);
    assert_eq!(reassembly.packets.len(), 1);
}

#[test]
fn fragments_of_more_than_a_packet_are_never_one() {
    let mut parts = cut(&packet(V4, 65_535, 3), 1500);
    let mut last = parts.pop().expect("a last one");
    last.extend([0; 8]);
    let length = last.len();
    finish_ip_header(&mut last[..20], length);
    let mut reassembly = Reassembly::default();
    for part in parts.into_iter().chain([last]) {
        assert_eq!(reassembly.take(part, Instant(0)).whole, None);
    }
}
