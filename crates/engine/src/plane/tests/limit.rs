//! Packets for a peer that has moved and has not answered from there.

use wire::ip::protocol::{TCP, UDP};

use super::support::*;
use crate::counters::DropReason;
use crate::plane::{OutboundChange, hold};
use crate::sa::{Ipsec, Layer, Protocol, Sa};
use crate::time::{Duration, Instant};

fn raw() -> Sa {
    Sa {
        layer: Layer::Ipsec(Ipsec {
            protocol: Protocol::Esp,
            ..layer(AES_GCM)
        }),
        path: raw_path("198.51.100.1", "203.0.113.1"),
        ..tunnel_sa(AES_GCM)
    }
}

fn small(number: u8) -> Vec<u8> {
    let payload = udp((number.into(), 2), &data(10));
    plain(&packet("10.1.0.1", "10.2.0.1", UDP, &payload))
}

/// One frame for each way to become datagrams: whole, cut inside, a super-packet.
fn frames() -> [Vec<u8>; 4] {
    let mut free = packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 2), &data(4_000)));
    free[6] = 0;
    crate::plane::checksum::put_v4(&mut free[..20]);
    let segments = packet("10.1.0.1", "10.2.0.1", TCP, &tcp(1, 16, &[], &data(9_000)));
    let tiny = packet("10.1.0.1", "10.2.0.1", TCP, &tcp(1, 16, &[], &data(4_800)));
    [
        small(1),
        plain(&free),
        super_packet(&segments, 1_300),
        super_packet(&tiny, 48),
    ]
}

fn on_the_wire(sent: &[Sent], is_udp: bool) -> u64 {
    let headers = if is_udp { 28 } else { 0 };
    sent.iter()
        .map(|sent| (sent.bytes.len() + headers) as u64)
        .sum()
}

#[test]
fn no_more_leaves_than_is_allowed_and_the_rest_leaves_in_order_when_the_peer_is_proven() {
    for is_udp in [true, false] {
        for frame in frames() {
            let make = || if is_udp { tunnel_sa(AES_GCM) } else { raw() };
            let whole = on_the_wire(
                &Pair::new(make()).seal(std::slice::from_ref(&frame)),
                is_udp,
            );
            for allowed in [
                0,
                1,
                whole / 2,
                whole - 1,
                whole,
                2 * whole,
                4 * whole,
                40 * whole,
            ] {
                let mut pair = Pair::new(make());
                pair.sender
                    .apply(OutboundChange::Allow(CHILD, allowed), NOW);
                let mut all = pair.seal(&vec![frame.clone(); 4]);
                let at_first = on_the_wire(&all, is_udp);
                assert!(at_first <= allowed, "{at_first} of {allowed}");
                assert!(allowed < 40 * whole || at_first == 4 * whole, "{whole}");
                pair.sender
                    .apply(OutboundChange::Proven(CHILD, ip("192.0.2.2")), NOW);
                all.extend(pair.release(NOW));
                assert_eq!(on_the_wire(&all, is_udp), 4 * whole);
                assert_eq!(pair.sent_drops(DropReason::UnprovenPath), 0);
                // Nothing is limited any more.
                assert_eq!(
                    on_the_wire(&pair.seal(std::slice::from_ref(&frame)), is_udp),
                    whole
                );
            }
        }
    }
}

#[test]
fn what_is_allowed_adds_up_and_lets_go_what_waited() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    pair.sender.apply(OutboundChange::Allow(CHILD, 100), NOW);
    assert!(pair.seal(&[small(1), small(2)]).is_empty());
    pair.sender.apply(OutboundChange::Allow(CHILD, 600), NOW);
    let sent = pair.release(NOW);
    assert_eq!(pair.open(&sent)[0], small(1));
    let mut all = sent;
    for _ in 0..10 {
        pair.sender.apply(OutboundChange::Allow(CHILD, 600), NOW);
        all.extend(pair.release(NOW));
    }
    assert_eq!(all.len(), 2);
}

#[test]
fn what_waits_for_a_proof_is_bounded_in_number_and_time_and_counted() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    pair.sender.apply(OutboundChange::Allow(CHILD, 0), NOW);
    let frames: Vec<_> = (0..40).map(small).collect();
    assert!(pair.seal(&frames).is_empty());
    let lost = 40 - hold::MAX_HELD_FRAMES as u64;
    assert_eq!(pair.sent_drops(DropReason::UnprovenPath), lost);
    // Small allowances again and again do not extend their time.
    let mut now = NOW;
    while now <= NOW + hold::MAX_HELD_FOR {
        pair.sender.apply(OutboundChange::Allow(CHILD, 1), now);
        assert!(pair.release(now).is_empty());
        now = now + Duration::from_secs(3);
    }
    pair.sender
        .apply(OutboundChange::Proven(CHILD, ip("192.0.2.2")), now);
    assert!(pair.release(now).is_empty());
}

#[test]
fn what_waits_ends_with_the_last_sa_and_is_counted() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    pair.sender.apply(OutboundChange::Allow(CHILD, 0), NOW);
    pair.seal(&[small(1), small(2)]);
    let removed = OutboundChange::Remove(CHILD, SPI);
    pair.sender.apply(removed, Instant(2));
    assert_eq!(pair.sent_drops(DropReason::UnprovenPath), 2);
}
