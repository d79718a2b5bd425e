//! IP: flows are within the packet, fragments reassemble to the packet, clamping and hops keep
//! checksums right, ICMP errors can be read back, and no error answers an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::ip::fragment::Fragments;
use wire::ip::{ChecksumState, Flow, Ipv4, Sum, Tcp, checksum, icmp, protocol, tcp};

const LEAST_MTU: usize = 68;

fuzz_target!(|input: &[u8]| {
    let Ok(flow) = Flow::of(input) else {
        return;
    };
    assert!(flow.transport <= flow.total_len && flow.total_len <= input.len());
    let packet = &input[..flow.total_len];
    assert_eq!(Flow::of(packet), Ok(flow));
    clamp(packet, &flow);
    fragment(packet);
    answer(packet, &flow);
});

fn clamp(packet: &[u8], flow: &Flow) {
    let mut clamped = packet.to_vec();
    if !tcp::clamp_mss(&mut clamped, flow, 1000, ChecksumState::Full) {
        assert_eq!(clamped, packet);
        return;
    }
    let segment = &clamped[flow.transport..];
    assert_eq!(Tcp::new(segment).expect("clamped").mss(), Some(1000));
    let sum = |bytes: &[u8]| Sum::new().bytes(&bytes[flow.transport..]).finish() % 0xffff;
    assert_eq!(sum(&clamped), sum(packet));
}

fn fragment(packet: &[u8]) {
    let Ok(whole) = Ipv4::new(packet) else {
        return;
    };
    let Ok(mut fragments) = Fragments::new(packet, LEAST_MTU) else {
        return;
    };
    let mut out = vec![0; packet.len().max(LEAST_MTU)];
    let mut payload: Vec<u8> = Vec::new();
    while let Some(len) = fragments.write_next(&mut out) {
        assert!(len <= LEAST_MTU);
        let mut fragment = Ipv4::new(&mut out[..len]).expect("a fragment is a packet");
        assert!(fragment.has_valid_checksum());
        assert_eq!(
            fragment.fragment_offset(),
            whole.fragment_offset() + payload.len()
        );
        payload.extend(fragment.payload());
        fragment.decrement_ttl();
        assert!(fragment.has_valid_checksum());
    }
    assert_eq!(payload, whole.payload());
}

fn answer(packet: &[u8], flow: &Flow) {
    if let Some(reply) = icmp::fragmentation_needed(packet, [10, 0, 0, 1].into(), 1280) {
        let answered = Flow::of(&reply).expect("an error is a packet");
        assert_eq!(
            (answered.destination, answered.protocol),
            (flow.source, protocol::ICMP)
        );
        assert_eq!(checksum::checksum(&reply[answered.transport..]), 0);
        assert_eq!(
            icmp::fragmentation_needed(&reply, [10, 0, 0, 2].into(), 1280),
            None
        );
    }
    if let Some(reply) = icmp::packet_too_big(packet, [1; 16].into(), 1280) {
        let answered = Flow::of(&reply).expect("an error is a packet");
        assert_eq!(
            (answered.destination, answered.protocol),
            (flow.source, protocol::ICMPV6)
        );
        let message = &reply[answered.transport..];
        let (from, to) = (answered.source, answered.destination);
        let pseudo = Sum::pseudo_header(from, to, protocol::ICMPV6, message.len());
        assert_eq!(pseudo.bytes(message).finish(), 0);
        assert_eq!(icmp::packet_too_big(&reply, [2; 16].into(), 1280), None);
    }
}
