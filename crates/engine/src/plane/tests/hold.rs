//! Packets that wait for their child.

use wire::ip::protocol::UDP;

use super::support::*;
use crate::counters::DropReason;
use crate::plane::{Notice, OutboundChange, hold};
use crate::sa::Sa;

/// A pair whose sender expects the traffic of its SA's child, and that SA for both ends.
fn waiting() -> (Pair, Sa) {
    let sa = tunnel_sa(AES_GCM);
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let removed = OutboundChange::Remove(CHILD, SPI);
    pair.sender.apply(removed, NOW);
    let expected = OutboundChange::Expect(CHILD, sa.local.clone(), sa.remote.clone());
    pair.sender.apply(expected, NOW);
    (pair, sa)
}

fn numbered(number: u8, from: &str) -> Vec<u8> {
    plain(&packet(
        from,
        "10.2.0.1",
        UDP,
        &udp((number.into(), 2), &data(10)),
    ))
}

#[test]
fn what_waits_for_its_child_leaves_in_order_when_it_is_up() {
    let (mut pair, sa) = waiting();
    let frames = [numbered(1, "10.1.0.1"), numbered(2, "10.1.0.1")];
    assert!(pair.seal(&frames).is_empty());
    pair.sender
        .apply(OutboundChange::Install(Box::new(sa)), NOW);
    let sent = pair.release(NOW);
    let opened = pair.open(&sent);
    assert_eq!(opened, frames);
    assert!(pair.release(NOW).is_empty(), "once");
    assert_eq!(pair.sent_drops(DropReason::NoSa), 0);
}

#[test]
fn a_child_holds_a_bounded_number_of_frames_and_octets_and_drops_the_newest() {
    let (mut pair, sa) = waiting();
    let frames: Vec<_> = (0..40).map(|number| numbered(number, "10.1.0.1")).collect();
    pair.seal(&frames);
    assert_eq!(
        pair.sent_drops(DropReason::NoSa),
        40 - hold::MAX_HELD_FRAMES as u64
    );
    pair.sender
        .apply(OutboundChange::Install(Box::new(sa)), NOW);
    let sent = pair.release(NOW);
    assert_eq!(pair.open(&sent), frames[..hold::MAX_HELD_FRAMES]);

    let (mut pair, _) = waiting();
    let long = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(20_000)),
    ));
    pair.seal(&[long.clone(), long.clone(), long.clone(), long]);
    assert_eq!(pair.sent_drops(DropReason::NoSa), 1);
}

#[test]
fn what_waited_too_long_is_dropped_and_makes_room() {
    let (mut pair, sa) = waiting();
    let frames: Vec<_> = (0..40).map(|number| numbered(number, "10.1.0.1")).collect();
    pair.seal(&frames[..hold::MAX_HELD_FRAMES]);
    let later = NOW + hold::MAX_HELD_FOR + crate::time::Duration::from_nanos(1);
    let mut frame = frames[39].clone();
    pair.sender.seal(&mut frame, later, &mut pair.datagrams);
    assert_eq!(
        pair.sent_drops(DropReason::NoSa),
        hold::MAX_HELD_FRAMES as u64
    );
    pair.sender
        .apply(OutboundChange::Install(Box::new(sa)), later);
    let sent = pair.release(later + hold::MAX_HELD_FOR);
    assert_eq!(pair.open(&sent), [frames[39].clone()]);
}

#[test]
fn a_source_that_the_new_sa_does_not_cover_ends_the_wait() {
    let (mut pair, sa) = waiting();
    pair.seal(&[numbered(1, "10.1.0.1"), numbered(2, "10.1.0.2")]);
    let lent = Sa {
        local: vec![within("10.1.0.2", "10.1.0.2")],
        ..sa
    };
    pair.sender
        .apply(OutboundChange::Install(Box::new(lent)), NOW);
    let sent = pair.release(NOW);
    assert_eq!(pair.open(&sent), [numbered(2, "10.1.0.2")]);
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
}

#[test]
fn the_first_packet_of_a_watched_child_is_told_of_once() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let frame = numbered(1, "10.1.0.1");
    let told = |pair: &mut Pair| {
        pair.seal(core::slice::from_ref(&frame));
        pair.datagrams.notices().to_vec()
    };
    assert_eq!(told(&mut pair), []);
    let later = NOW + core::time::Duration::from_nanos(1);
    pair.sender.apply(OutboundChange::Watch(CHILD, later), NOW);
    assert_eq!(told(&mut pair), [], "not yet");
    pair.sender.apply(OutboundChange::Watch(CHILD, NOW), NOW);
    let used = Notice::OutboundUsed {
        child: CHILD,
        at: NOW,
    };
    assert_eq!(told(&mut pair), [used]);
    assert_eq!(told(&mut pair), []);
}
