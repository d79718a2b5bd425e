//! ICMP reports about paths: which are trusted, how far, and for how long.

use super::support::*;
use crate::counters::DropReason;
use crate::plane::inner::be16;
use crate::plane::path_mtu::{CLAIM_HOLDS, REPORT_HOLDS};
use crate::plane::{OutboundChange, TooBig};
use crate::sa::{ChildId, Ipsec, Layer, Mode, Protocol, Sa};
use crate::time::{Duration, Instant};
use std::net::SocketAddr;
use wire::ip::protocol::UDP;

const SECOND: Duration = Duration::from_secs(1);

fn later(span: Duration) -> Instant {
    NOW + span
}

/// The size that ICMP reports to the sender of a packet that is too large.
fn told(pair: &mut Pair, now: Instant) -> usize {
    let mut big = plain(&packet(
        "10.1.0.1",
        "10.2.0.1",
        UDP,
        &udp((1, 2), &data(9_000)),
    ));
    pair.datagrams.clear();
    pair.sender.seal(&mut big, now, &mut pair.datagrams);
    let reply = pair.datagrams.replies().next().expect("an answer");
    be16(&reply[10..], 26).into()
}

fn fits(sa: &Sa, path_mtu: usize) -> usize {
    shape_of(sa).largest_packet(path_mtu)
}

/// The datagram of one small packet, as a router would quote it.
fn quotation(pair: &mut Pair) -> Vec<u8> {
    let small = plain(&packet("10.1.0.1", "10.2.0.1", UDP, &udp((1, 2), b"x")));
    pair.seal(&[small]).remove(0).bytes
}

fn raw_sa(protocol: Protocol, v6: bool) -> Sa {
    let ends = match v6 {
        true => raw_path("2001:db8::1", "2001:db8::2"),
        false => raw_path("198.51.100.1", "203.0.113.1"),
    };
    Sa {
        layer: Layer::Ipsec(Ipsec {
            protocol,
            ..layer(suites()[1])
        }),
        path: ends,
        ..tunnel_sa(suites()[1])
    }
}

fn report<'a>(sa: &Sa, mtu: u32, quoted: &'a [u8]) -> TooBig<'a> {
    TooBig {
        remote: sa.path.remote,
        via: sa.path.via,
        mtu,
        quoted,
    }
}

#[test]
fn a_report_that_quotes_a_recent_packet_is_believed_for_ten_minutes() {
    let udp = tunnel_sa(AES_GCM);
    let [esp, ah, esp6] = [
        raw_sa(Protocol::Esp, false),
        raw_sa(Protocol::Ah, false),
        raw_sa(Protocol::Esp, true),
    ];
    let again = || [tunnel_sa(AES_GCM), raw_sa(Protocol::Esp, false)];
    let [udp2, esp2] = again();
    for (sa, sent, holds) in [
        (udp, 1_400, 1_400),
        (esp, 1_400, 1_400),
        (ah, 1_400, 1_400),
        (esp6, 1_400, 1_400),
        // Not below the minimum of the family; an old router reports 0.
        (udp2, 68, 576),
        (esp2, 0, 1_280),
    ] {
        let shape = shape_of(&sa);
        let (remote, protocol) = (sa.path.remote, shape.protocol);
        let probe = Sa {
            layer: Layer::Ipsec(Ipsec {
                protocol,
                ..layer(shape.protection)
            }),
            path: sa.path,
            ..tunnel_sa(shape.protection)
        };
        let mut pair = Pair::new(sa);
        let quoted = quotation(&mut pair);
        // A router quotes at least the IP header and 8 octets; for AH we need 12.
        let ip = match shape.is_udp_encapsulated {
            true => 0,
            false => shape.ip_header_bytes(),
        };
        let least = ip + if protocol == Protocol::Ah { 12 } else { 8 };
        assert!(
            pair.sender
                .too_big(&report(&probe, sent, &quoted[..least]), NOW),
            "{shape:?}"
        );
        assert_eq!(
            told(&mut pair, NOW),
            shape.largest_packet(holds),
            "{shape:?}"
        );
        assert_eq!(
            told(&mut pair, later(REPORT_HOLDS - SECOND)),
            shape.largest_packet(holds)
        );
        assert_eq!(
            told(&mut pair, later(REPORT_HOLDS)),
            shape.largest_packet(1_500)
        );
        assert_eq!(pair.sent_drops(DropReason::ForgedReport), 0, "{remote}");
    }
}

#[test]
fn a_report_that_quotes_what_we_did_not_send_is_ignored_and_counted() {
    let sa = tunnel_sa(AES_GCM);
    let full = fits(&sa, 1_500);
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let quoted = quotation(&mut pair);
    let forged = |spi: u32, sequence: u32| [spi.to_be_bytes(), sequence.to_be_bytes()].concat();
    let other_spi = forged(SPI + 1, 1);
    let (future, never, ike) = (forged(SPI, 1_000), forged(SPI, 0), forged(0, 0));
    for (count, guess) in [other_spi, future, never, ike].iter().enumerate() {
        assert!(!pair.sender.too_big(&report(&sa, 68, guess), NOW));
        assert_eq!(pair.sent_drops(DropReason::ForgedReport), count as u64 + 1);
    }
    let elsewhere = TooBig {
        remote: "203.0.113.1:4501"
            .parse::<SocketAddr>()
            .expect("an address"),
        ..report(&sa, 68, &quoted)
    };
    assert!(!pair.sender.too_big(&elsewhere, NOW));
    assert_eq!(told(&mut pair, NOW), full);
    // A number that was right long ago proves nothing.
    pair.sender.fixed_sequence_for_testing(CHILD, 1 << 20);
    assert!(!pair.sender.too_big(&report(&sa, 68, &quoted), NOW));
    assert_eq!(told(&mut pair, NOW), full);
}

#[test]
fn a_forger_once_a_second_costs_little_and_ten_seconds_later_nothing() {
    for is_raw in [false, true] {
        let make = || match is_raw {
            true => raw_sa(Protocol::Esp, false),
            false => tunnel_sa(AES_GCM),
        };
        let sa = make();
        let mut pair = Pair::new(make());
        // The least that RFC 792 requires a router to quote: 8 octets, of UDP only its header.
        let quoted = if is_raw {
            quotation(&mut pair)[..20].to_vec()
        } else {
            Vec::new()
        };
        for second in 0..100 {
            let now = later(SECOND * second);
            pair.sender.too_big(&report(&sa, 68, &quoted), now);
            assert_eq!(told(&mut pair, now), fits(&sa, 1_280));
        }
        // Its last claim that counted came before 99 s.
        let end = later(SECOND * 99 + CLAIM_HOLDS);
        assert_eq!(told(&mut pair, end), fits(&sa, 1_500));
    }
}

#[test]
fn a_claim_ends_after_ten_seconds_however_many_follow_it() {
    let sa = tunnel_sa(AES_GCM);
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    for second in 0..10 {
        pair.sender
            .too_big(&report(&sa, 1_300, &[]), later(SECOND * second));
    }
    assert_eq!(told(&mut pair, later(CLAIM_HOLDS)), fits(&sa, 1_500));
}

#[test]
fn what_a_router_proved_outlives_a_rekey_and_ends_with_a_move() {
    let sa = tunnel_sa(AES_GCM);
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let quoted = quotation(&mut pair);
    assert!(pair.sender.too_big(&report(&sa, 1_400, &quoted), NOW));
    let successor = Sa {
        layer: Layer::Ipsec(Ipsec {
            spi: SPI + 1,
            ..layer(AES_GCM)
        }),
        ..tunnel_sa(AES_GCM)
    };
    pair.sender
        .apply(OutboundChange::Install(Box::new(successor)), NOW);
    assert_eq!(told(&mut pair, NOW), fits(&sa, 1_400));
    let moved = path("198.51.100.1", "203.0.113.9");
    pair.sender.apply(OutboundChange::Move(CHILD, moved), NOW);
    assert_eq!(told(&mut pair, NOW), fits(&sa, 1_500));
    let there = TooBig {
        remote: moved.remote,
        ..report(&sa, 1_400, &[])
    };
    assert!(pair.sender.too_big(&there, NOW));
}

#[test]
fn a_link_is_asked_for_with_each_sa_and_path_and_as_long_as_it_is_smaller() {
    let sa = tunnel_sa(AES_GCM);
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    assert_eq!(pair.sender.link_to_ask(NOW), Some((CHILD, sa.path)));
    assert_eq!(pair.sender.link_to_ask(NOW), None);
    pair.sender
        .apply(OutboundChange::LinkMtu(CHILD, 9_000), NOW);
    assert_eq!(told(&mut pair, NOW), fits(&sa, 1_500));
    assert_eq!(pair.sender.link_to_ask(later(REPORT_HOLDS)), None);
    // A datagram was refused: the link shrank.
    pair.sender.doubt_link(sa.path.remote);
    assert_eq!(pair.sender.link_to_ask(NOW), Some((CHILD, sa.path)));
    pair.sender
        .apply(OutboundChange::LinkMtu(CHILD, 1_300), NOW);
    assert_eq!(told(&mut pair, NOW), fits(&sa, 1_300));
    assert_eq!(pair.sender.link_to_ask(later(REPORT_HOLDS - SECOND)), None);
    let asked = pair.sender.link_to_ask(later(REPORT_HOLDS));
    assert_eq!(asked, Some((CHILD, sa.path)));
    let moved = path("198.51.100.1", "203.0.113.9");
    pair.sender.apply(OutboundChange::Move(CHILD, moved), NOW);
    assert_eq!(pair.sender.link_to_ask(NOW), Some((CHILD, moved)));
}

#[test]
fn no_path_is_believed_to_carry_less_than_its_family_demands() {
    let v6 = || Sa {
        path: path("2001:db8::1", "2001:db8::2"),
        mode: Mode::Tunnel,
        ..tunnel_sa(AES_GCM)
    };
    for (sa, least) in [(tunnel_sa(AES_GCM), 576), (v6(), 1_280)] {
        let shape = shape_of(&sa);
        let mut pair = Pair::new(sa);
        pair.sender.apply(OutboundChange::LinkMtu(CHILD, 68), NOW);
        assert_eq!(told(&mut pair, NOW), shape.largest_packet(least));
    }
}

#[test]
fn nothing_stays_of_children_that_are_gone() {
    let mut pair = Pair::new(tunnel_sa(AES_GCM));
    let quoted = quotation(&mut pair);
    let sa = tunnel_sa(AES_GCM);
    pair.sender.too_big(&report(&sa, 1_400, &quoted), NOW);
    let gone = OutboundChange::Remove(CHILD, SPI);
    pair.sender.apply(gone, NOW);
    assert_eq!(pair.sender.link_to_ask(later(REPORT_HOLDS)), None);
    assert!(!pair.sender.too_big(&report(&sa, 1_300, &[]), NOW));
    assert_eq!(pair.sent_drops(DropReason::ForgedReport), 1);
    let anew = Sa {
        child: ChildId(8),
        ..tunnel_sa(AES_GCM)
    };
    pair.sender
        .apply(OutboundChange::Install(Box::new(anew)), NOW);
    assert_eq!(told(&mut pair, NOW), fits(&sa, 1_500));
}
