//! Tunnels of Mobile IPv4 (RFC 2003, RFC 2004, RFC 2784, RFC 3519): from a home agent at
//! 203.0.113.1 to the care-of address 198.51.100.7 of the node with home address 10.18.3.17, and
//! back.

use super::support::*;
use crate::counters::DropReason;
use crate::plane::inner::{be16, put16};
use crate::plane::path_mtu::{CLAIM_HOLDS, REPORT_HOLDS};
use crate::plane::sealer::finish_ip_header;
use crate::plane::trouble::{TELL_INTERVAL, TROUBLE_HOLDS, Unreached};
use crate::plane::{
    InboundChange, InboundPlane, MAX_NESTED, Notice, OutboundChange, Packets, Received, TooBig,
    Undelivered,
};
use crate::sa::{ChildId, Direction, Encapsulation, Layer, Path, Sa, Via};
use crate::selector::TrafficSelector;
use crate::work::Task;
use std::net::IpAddr;
use wire::ip::icmp;
use wire::ip::protocol::{ICMP, TCP, UDP};

pub(super) const HOME_AGENT: &str = "203.0.113.1";
pub(super) const CARE_OF: &str = "198.51.100.7";
pub(super) const HOME: &str = "10.18.3.17";
pub(super) const CORRESPONDENT: &str = "10.9.0.1";

const FORMS: [Encapsulation; 3] = [
    Encapsulation::IpInIp,
    Encapsulation::Minimal,
    Encapsulation::Gre,
];

pub(super) fn host(address: &str) -> TrafficSelector {
    TrafficSelector::host(ip(address))
}

pub(super) fn everything() -> Vec<TrafficSelector> {
    vec![within("0.0.0.0", "255.255.255.255")]
}

fn udp_path() -> Path {
    Path::udp_with_type((ip(HOME_AGENT), 434), (ip("192.0.2.9"), 40_001))
}

/// The home agent's side.
pub(super) fn to_node(form: Encapsulation, path: Path) -> Sa {
    let name = (Direction::Outbound, CHILD, 1);
    let mut sa = Sa::tunnel(name, form, path, everything(), vec![host(HOME)]);
    sa.path_mtu = 1_500;
    sa
}

fn raw(form: Encapsulation) -> Sa {
    to_node(form, raw_path(HOME_AGENT, CARE_OF))
}

fn to_home(upper: &[u8]) -> Vec<u8> {
    packet(CORRESPONDENT, HOME, UDP, upper)
}

fn unhex(text: &str) -> Vec<u8> {
    let octet = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    (0..text.len()).step_by(2).map(octet).collect()
}

/// With another identification.
fn numbered(packet: &[u8], id: u16) -> Vec<u8> {
    let mut packet = packet.to_vec();
    put16(&mut packet, 4, id);
    let length = packet.len();
    finish_ip_header(&mut packet[..20], length);
    packet
}

#[test]
fn octets_are_those_of_another_implementation() {
    // made by scapy 2.5; minimal encapsulation by hand
    const INNER: &str = "45b80021123440003f1111b40a0900010a12031113880035000d911868656c6c6f";
    for (form, outer) in [
        (
            Encapsulation::IpInIp,
            "45b80035000140004004d3cfcb007101c6336407",
        ),
        (
            Encapsulation::Gre,
            "45b8003900014000402fd3a0cb007101c633640700000800",
        ),
    ] {
        let mut pair = Pair::with_offloads(raw(form), NO_OFFLOADS);
        let sent = pair.seal(&[unhex(INNER)]);
        let want = [unhex(outer), unhex(INNER)].concat();
        assert_eq!(numbered(&sent[0].bytes, 1), want, "{form:?}");
        assert_ne!(be16(&sent[0].bytes, 4), 0);
        assert_eq!(sent[0].path, raw_path(HOME_AGENT, CARE_OF));
        assert_eq!(pair.open(&sent), [unhex(INNER)]);
    }
    for (inner, outer) in [
        (
            INNER,
            "45b8002d123440003f37c271cb007101c63364071180d7520a1203110a09000113880035000d9118686\
             56c6c6f",
        ),
        // The encapsulator is the packet's source.
        (
            "45b80021123440003f11dfbbcb0071010a12031113880035000d5f2068656c6c6f",
            "45b80029123440003f37c275cb007101c63364071100e1dc0a12031113880035000d5f2068656c6c6f",
        ),
    ] {
        let mut pair = Pair::with_offloads(raw(Encapsulation::Minimal), NO_OFFLOADS);
        let sent = pair.seal(&[unhex(inner)]);
        assert_eq!(sent[0].bytes, unhex(&outer.replace(' ', "")));
        assert_eq!(pair.open(&sent), [unhex(inner)]);
    }
}

#[test]
fn gre_with_a_checksum_is_verified() {
    const PACKET: &str = "45b8003d00014000402fd39ccb007101c6336407800008008f4a000045b8002112344000\
                          3f1111b40a0900010a12031113880035000d911868656c6c6f";
    let mut pair = Pair::with_offloads(raw(Encapsulation::Gre), NO_OFFLOADS);
    let mut sent = pair.seal(&[to_home(&udp((5, 53), b"hello"))]);
    sent[0].bytes = unhex(PACKET);
    assert_eq!(pair.open(&sent).len(), 1);
    sent[0].bytes[30] ^= 1;
    assert_eq!(pair.open(&sent).len(), 0);
    assert_eq!(pair.received_drops(DropReason::WrongEncapsulation), 1);
    // RFC 1701's source routes
    sent[0].bytes = unhex(PACKET);
    sent[0].bytes[20] = 0x40;
    assert_eq!(pair.open(&sent).len(), 0);
}

#[test]
fn in_udp_the_message_header_names_the_form() {
    for (form, next) in [
        (Encapsulation::IpInIp, 4),
        (Encapsulation::Gre, 47),
        (Encapsulation::Minimal, 4),
    ] {
        let inner = to_home(&udp((5, 53), b"hello"));
        let mut pair = Pair::with_offloads(to_node(form, udp_path()), NO_OFFLOADS);
        let sent = pair.seal(core::slice::from_ref(&inner));
        let gre: &[u8] = if next == 47 { &[0, 0, 8, 0] } else { &[] };
        assert_eq!(sent[0].bytes, [&[4, next, 0, 0], gre, &inner].concat());
        assert_eq!(pair.open(&sent), [inner]);
    }
}

#[test]
fn in_udp_only_the_exact_ports_and_form_are_taken() {
    let inner = to_home(&udp((5, 53), b"hello"));
    let sa = to_node(Encapsulation::IpInIp, udp_path());
    let mut pair = Pair::with_offloads(sa, NO_OFFLOADS);
    let sent = pair.seal(&[inner]);
    for change in [
        |path: &mut Path| path.remote.set_port(40_002),
        |path: &mut Path| path.local.set_port(435),
        |path: &mut Path| path.local.set_ip(ip("203.0.113.2")),
    ] {
        let mut other = sent.clone();
        change(&mut other[0].path);
        assert_eq!(pair.open(&other).len(), 0);
    }
    assert_eq!(pair.received_drops(DropReason::UnknownTunnel), 3);
    let mut gre = sent.clone();
    gre[0].bytes.splice(1..4, [47, 0, 0, 0, 0, 8, 0]);
    assert_eq!(pair.open(&gre).len(), 0);
    assert_eq!(pair.received_drops(DropReason::UnknownTunnel), 4);
    let mut minimal = sent.clone();
    minimal[0].bytes[1] = 55;
    assert_eq!(pair.open(&minimal).len(), 0);
    assert_eq!(pair.received_drops(DropReason::WrongEncapsulation), 1);
    assert!(
        !pair
            .receiver_notices()
            .iter()
            .any(|it| matches!(it, Notice::PathMoved { .. }))
    );
    assert_eq!(pair.open(&sent).len(), 1);
}

/// RFC 3519 §4.6: the first keepalive tells the port of a tunnel.
#[test]
fn an_echo_request_from_an_unknown_end_goes_to_control() {
    let mut pair = Pair::with_offloads(to_node(Encapsulation::IpInIp, udp_path()), NO_OFFLOADS);
    let known = pair.seal(&[to_home(&udp((5, 53), b"hello"))]);
    let mut unknown = known.clone();
    unknown[0].path.local.set_port(50_123);
    let mut given = |sent: &[Sent], to, kind| {
        let mut sent = sent.to_vec();
        let ask = packet(HOME_AGENT, to, ICMP, &[kind, 0, 0, 0, 0, 0, 0, 1]);
        sent[0].bytes = [&[4, 4, 0, 0][..], &ask].concat();
        assert_eq!(pair.open(&sent).len(), 0);
        let drops = [DropReason::UnknownTunnel, DropReason::SelectorMismatch];
        let drops = drops.map(|reason| pair.received_drops(reason));
        (pair.packets.control().len(), drops)
    };
    let ours = "192.0.2.9";
    assert_eq!(given(&unknown, ours, 8), (1, [0, 0]));
    assert_eq!(given(&unknown, ours, 0), (0, [1, 0]), "an answer");
    assert_eq!(given(&unknown, HOME, 8), (0, [2, 0]), "for another host");
    assert_eq!(given(&known, ours, 8), (0, [2, 1]), "of a tunnel");
}

#[test]
fn other_messages_on_the_port_go_to_control() {
    let mut pair = Pair::with_offloads(to_node(Encapsulation::IpInIp, udp_path()), NO_OFFLOADS);
    let mut sent = pair.seal(&[to_home(&udp((5, 53), b"hello"))]);
    for kind in [1, 3, 7, 15, 99] {
        sent[0].bytes[0] = kind;
        assert_eq!(pair.open(&sent).len(), 0);
        assert_eq!(pair.packets.control().len(), 1);
    }
    sent[0].bytes = vec![4, 4];
    assert_eq!(pair.open(&sent).len(), 0);
    assert_eq!(pair.received_drops(DropReason::Truncated), 1);
}

#[test]
fn super_packets_are_cut_and_joined() {
    let whole = packet(CORRESPONDENT, HOME, TCP, &tcp(9, 0x10, &[], &data(30_000)));
    for form in FORMS {
        for path in [raw_path(HOME_AGENT, CARE_OF), udp_path()] {
            let mut pair = Pair::new(to_node(form, path));
            let sent = pair.seal(&[super_packet(&whole, 1_360)]);
            assert_eq!(sent.len(), 30_000usize.div_ceil(1_360));
            let outside = if path.via == Via::Raw { 0 } else { 28 };
            assert!(sent.iter().all(|it| it.bytes.len() + outside <= 1_500));
            let runs = pair.datagrams.runs().len();
            assert_eq!(runs, if path.via == Via::Raw { sent.len() } else { 1 });
            for one in &sent {
                for write in pair.open(core::slice::from_ref(one)) {
                    assert_checksums(&write[10..]);
                }
            }
            let writes = pair.open(&sent);
            assert_eq!(writes.len(), 1, "{form:?}");
            assert_eq!(writes[0][10 + 40..], whole[40..]);
        }
    }
}

#[test]
fn ttl_dscp_and_congestion_marks_pass() {
    for form in [Encapsulation::IpInIp, Encapsulation::Gre] {
        let mut inner = to_home(&udp((5, 53), b"hello"));
        (inner[1], inner[8]) = (0xb8 | 2, 7);
        finish_ip_header(&mut inner[..20], 33);
        let mut pair = Pair::with_offloads(raw(form), NO_OFFLOADS);
        let mut sent = pair.seal(core::slice::from_ref(&inner));
        assert_eq!((sent[0].bytes[1], sent[0].bytes[8]), (0xba, 64));
        // A router on the way marks congestion (RFC 6040 §4.2).
        sent[0].bytes[1] |= 3;
        let opened = pair.open(&sent);
        assert_eq!((opened[0][1], opened[0][8]), (0xbb, 7));
        assert_checksums(&opened[0]);
        inner[8] = 0;
        finish_ip_header(&mut inner[..20], 33);
        assert_eq!(pair.seal(core::slice::from_ref(&inner)).len(), 0);
        assert_eq!(pair.sent_drops(DropReason::TtlExpired), 1);
        let headers = sent[0].bytes.len() - 33;
        sent[0].bytes.truncate(headers);
        sent[0].bytes.extend(&inner);
        assert_eq!(pair.open(&sent).len(), 0);
        assert_eq!(pair.received_drops(DropReason::TtlExpired), 1);
    }
}

#[test]
fn fragments_never_get_minimal_encapsulation() {
    let mut big = to_home(&udp((5, 53), &data(3_000)));
    big[6] = 0; // may be cut
    let length = big.len();
    finish_ip_header(&mut big[..20], length);
    let mut pair = Pair::with_offloads(raw(Encapsulation::Minimal), NO_OFFLOADS);
    let sent = pair.seal(&[big]);
    assert_eq!(sent.len(), 3);
    for one in &sent {
        assert!(one.bytes.len() <= 1_500);
        assert_eq!(one.bytes[9], 4);
        assert_eq!(one.bytes[6] & 0x40, 0);
    }
    let opened = pair.open(&sent);
    assert_eq!(opened.len(), 3);
    // A fragment of the sender's own, small enough.
    let again = pair.seal(&opened[2..]);
    assert_eq!(again[0].bytes[9], 4);
    assert_eq!(pair.open(&again), opened[2..]);
}

#[test]
fn what_is_too_big_is_answered_with_the_tunnels_size() {
    for (form, path, headers) in [
        (Encapsulation::IpInIp, raw_path(HOME_AGENT, CARE_OF), 20),
        (Encapsulation::Minimal, raw_path(HOME_AGENT, CARE_OF), 20),
        (Encapsulation::Gre, raw_path(HOME_AGENT, CARE_OF), 24),
        (Encapsulation::IpInIp, udp_path(), 32),
        (Encapsulation::Gre, udp_path(), 36),
    ] {
        let mut pair = Pair::with_offloads(to_node(form, path), NO_OFFLOADS);
        let largest = 1_500 - headers;
        let fits = to_home(&udp((5, 53), &data(largest - 28)));
        assert_eq!(pair.seal(&[fits]).len(), 1);
        let big = to_home(&udp((5, 53), &data(largest - 27)));
        assert_eq!(pair.seal(&[big]).len(), 0);
        let answer = pair.datagrams.replies().next().expect("an answer");
        assert_eq!(usize::from(be16(answer, 26)), largest, "{form:?}");
        assert_eq!(answer[16..20], [10, 9, 0, 1]);
        assert_eq!(pair.sent_drops(DropReason::TooBig), 1);
    }
}

#[test]
fn reports_about_the_outer_packet_make_the_tunnel_smaller() {
    for form in FORMS {
        let mut pair = Pair::with_offloads(raw(form), NO_OFFLOADS);
        let sent = pair.seal(&[to_home(&udp((5, 53), &data(1_400)))]);
        let size = |pair: &Pair| pair.sender.report().associations[0].path_mtu;
        let report = |quoted, mtu| TooBig {
            remote: (ip(CARE_OF), 0).into(),
            via: Via::Raw,
            mtu,
            quoted,
        };
        // A forged identification is only a claim.
        let forged = numbered(&sent[0].bytes, be16(&sent[0].bytes, 4) ^ 1);
        assert!(pair.sender.too_big(&report(&forged[..28], 600), NOW));
        assert_eq!(size(&pair), 1_280);
        let later = NOW + CLAIM_HOLDS;
        pair.sender
            .seal(&mut to_home(&udp((5, 53), b"")), later, &mut pair.datagrams);
        assert_eq!(size(&pair), 1_500);
        assert!(
            pair.sender
                .too_big(&report(&sent[0].bytes[..28], 600), later)
        );
        assert_eq!(size(&pair), 600);
        let later = later + REPORT_HOLDS;
        pair.sender
            .seal(&mut to_home(&udp((5, 53), b"")), later, &mut pair.datagrams);
        assert_eq!(size(&pair), 1_500);
        // Of another form, or about somebody else.
        let mut other = sent[0].bytes.clone();
        other[9] = if form == Encapsulation::Gre { 55 } else { 47 };
        assert!(!pair.sender.too_big(&report(&other, 600), later));
        let elsewhere = TooBig {
            remote: (ip("192.0.2.1"), 0).into(),
            ..report(&sent[0].bytes, 600)
        };
        assert!(!pair.sender.too_big(&elsewhere, later));
        assert_eq!(pair.sent_drops(DropReason::ForgedReport), 2);
    }
}

#[test]
fn a_proven_report_is_handed_on_to_the_sender_at_once() {
    for (form, overhead) in [(Encapsulation::IpInIp, 20), (Encapsulation::Gre, 24)] {
        let mut pair = Pair::with_offloads(raw(form), NO_OFFLOADS);
        let mut whole = to_home(&udp((5, 53), &data(1_400)));
        whole[6] |= 0x40; // may not be fragmented
        finish_ip_header(&mut whole[..20], 1_428);
        let sent = pair.seal(&[whole.clone()]);
        let told = |pair: &mut Pair, quoted: &[u8], mtu| {
            let report = TooBig {
                remote: (ip(CARE_OF), 0).into(),
                via: Via::Raw,
                mtu,
                quoted,
            };
            pair.sender.too_big(&report, NOW);
            pair.datagrams.clear();
            pair.sender.release(NOW, &mut pair.datagrams);
            pair.datagrams
                .replies()
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        };
        // Nobody is told by what is a claim, nor where the sender is cut off.
        let forged = numbered(&sent[0].bytes, be16(&sent[0].bytes, 4) ^ 1);
        assert_eq!(
            told(&mut pair, &forged[..300], 1_300),
            Vec::<Vec<u8>>::new()
        );
        assert_eq!(
            told(&mut pair, &sent[0].bytes[..40], 1_200),
            Vec::<Vec<u8>>::new()
        );
        // Who guesses 16 bits may quote anything: a packet to somebody else is not ours.
        let mut others = sent[0].bytes[..300].to_vec();
        others[overhead + 19] ^= 1;
        let count = pair.sent_drops(DropReason::ForgedReport);
        assert_eq!(told(&mut pair, &others, 1_100), Vec::<Vec<u8>>::new());
        assert_eq!(pair.sent_drops(DropReason::ForgedReport), count + 1);
        let replies = told(&mut pair, &sent[0].bytes[..300], 1_000);
        let [reply] = replies.as_slice() else {
            panic!("{} replies", replies.len());
        };
        let read = icmp::TooBig::read(reply).expect("a report");
        assert_eq!(usize::from(read.mtu), 1_000 - overhead);
        assert_eq!(IpAddr::from(read.destination), ip(HOME));
        assert_eq!(be16(reply, 16), be16(&whole, 12), "to the sender");
        assert_eq!(read.quoted[..28], whole[..28], "as it was sent");
        // The same report again changes nothing.
        assert_eq!(
            told(&mut pair, &sent[0].bytes[..300], 1_000),
            Vec::<Vec<u8>>::new()
        );
    }
}

#[test]
fn senders_are_told_that_the_tunnel_leads_nowhere() {
    for (why, code) in [
        (Unreached::Code(0), Some(0)),
        (Unreached::Code(1), Some(1)),
        (Unreached::Code(2), Some(1)),
        (Unreached::TimeExceeded, Some(1)),
        (Unreached::Code(3), None),
        (Unreached::Code(5), None),
    ] {
        let mut pair = Pair::with_offloads(raw(Encapsulation::IpInIp), NO_OFFLOADS);
        let inner = to_home(&udp((5, 53), b"hello"));
        let quoted = pair.seal(core::slice::from_ref(&inner))[0].bytes[..28].to_vec();
        let report = Undelivered {
            remote: (ip(CARE_OF), 0).into(),
            via: Via::Raw,
            unreachable: why,
            quoted: &quoted,
        };
        pair.sender.undelivered(&report, NOW);
        let mut told = |now| {
            pair.datagrams.clear();
            pair.sender
                .seal(&mut inner.clone(), now, &mut pair.datagrams);
            // The packet leaves all the same (RFC 2003 §5).
            assert_eq!(pair.datagrams.runs().len(), 1);
            let answer = pair.datagrams.replies().next();
            answer.map(|answer| {
                assert_eq!((answer[9], answer[20]), (ICMP, 3));
                assert_eq!(answer[28..], inner);
                answer[21]
            })
        };
        assert_eq!(told(NOW), code);
        assert_eq!(told(NOW), None);
        assert_eq!(told(NOW + TELL_INTERVAL), code);
        assert_eq!(told(NOW + TROUBLE_HOLDS), None);
    }
}

#[test]
fn an_error_about_a_packet_that_the_tunnel_did_not_carry_is_forged() {
    let mut pair = Pair::with_offloads(raw(Encapsulation::IpInIp), NO_OFFLOADS);
    let inner = to_home(&udp((5, 53), b"hello"));
    let sent = pair.seal(core::slice::from_ref(&inner))[0].bytes.clone();
    let mut is_told = |quoted: &[u8]| {
        let report = Undelivered {
            remote: (ip(CARE_OF), 0).into(),
            via: Via::Raw,
            unreachable: Unreached::Code(1),
            quoted,
        };
        pair.sender.undelivered(&report, NOW);
        pair.datagrams.clear();
        pair.sender
            .seal(&mut inner.clone(), NOW, &mut pair.datagrams);
        pair.datagrams.replies().next().is_some()
    };
    let guessed = numbered(&sent, be16(&sent, 4) ^ 1);
    assert!(!is_told(&guessed));
    let mut of_another = sent.clone();
    of_another[20 + 16..][..4].copy_from_slice(&[10, 18, 3, 99]);
    assert!(!is_told(&of_another));
    assert!(is_told(&sent));
    assert_eq!(pair.sent_drops(DropReason::ForgedReport), 2);
}

#[test]
fn only_the_home_address_of_the_tunnel_is_taken() {
    // The home agent's reverse tunnels from two nodes behind one foreign agent.
    let from = |home: &str, number| {
        let name = (Direction::Inbound, ChildId(number), number);
        let path = raw_path(HOME_AGENT, CARE_OF);
        let form = Encapsulation::IpInIp;
        Box::new(Sa::tunnel(name, form, path, everything(), vec![host(home)]))
    };
    let mut sending = to_node(Encapsulation::IpInIp, raw_path(CARE_OF, HOME_AGENT));
    (sending.local, sending.remote) = (everything(), everything());
    let mut pair = Pair::of(sending, *from(HOME, 3), NO_OFFLOADS);
    pair.receiver
        .apply(InboundChange::Install(from("10.18.3.18", 4)));
    let sent = |pair: &mut Pair, home: &str| {
        pair.seal(&[packet(home, CORRESPONDENT, UDP, &udp((5, 53), b"hello"))])
    };
    for (home, child) in [(HOME, 3), ("10.18.3.18", 4)] {
        let sent = sent(&mut pair, home);
        assert_eq!(pair.open(&sent).len(), 1);
        let reports = pair.receiver.report().associations;
        let report = reports.iter().find(|it| it.child == ChildId(child));
        assert_eq!(
            report.map(|it| (it.packets, it.bytes, it.spi)),
            Some((1, 33, child))
        );
    }
    let stranger = sent(&mut pair, "10.18.3.19");
    assert_eq!(pair.open(&stranger).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SelectorMismatch), 1);
    let mut elsewhere = sent(&mut pair, HOME);
    elsewhere[0].path.local = (ip("198.51.100.8"), 0).into();
    assert_eq!(pair.open(&elsewhere).len(), 0);
    assert_eq!(pair.received_drops(DropReason::UnknownTunnel), 1);
    let known = sent(&mut pair, HOME);
    let told = pair.receiver.apply(InboundChange::Remove(ChildId(3), 3));
    let Some(Notice::Removed(Direction::Inbound, counted)) = told else {
        panic!("{told:?}");
    };
    assert_eq!((counted.packets, counted.bytes), (1, 33));
    assert_eq!(pair.open(&known).len(), 0);
    assert_eq!(pair.received_drops(DropReason::SelectorMismatch), 2);
    let work = pair.receiver.report().work;
    let task = Task::Decapsulate(Encapsulation::IpInIp);
    assert_eq!(work.entries(), [(task, 2, 66)]);
}

#[test]
fn a_packet_from_the_tunnels_other_end_does_not_enter_it() {
    let mut pair = Pair::with_offloads(raw(Encapsulation::IpInIp), NO_OFFLOADS);
    let inner = to_home(&udp((5, 53), b"hello"));
    let loops = packet(CARE_OF, HOME, 4, &inner);
    assert_eq!(pair.seal(&[loops]).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::RoutingLoop), 1);
    // Encapsulated by somebody else (RFC 5944 §4.2.3).
    let forwarded = packet("198.51.100.8", HOME, 4, &inner);
    assert_eq!(pair.seal(&[forwarded]).len(), 1);
}

/// In a tunnel of this form.
fn wrapped(form: Encapsulation, (from, to): (&str, &str), inner: &[u8]) -> Vec<u8> {
    let name = (Direction::Outbound, CHILD, 1);
    let sa = Sa::tunnel(name, form, raw_path(from, to), everything(), everything());
    let mut pair = Pair::with_offloads(sa, NO_OFFLOADS);
    pair.seal(&[inner.to_vec()]).remove(0).bytes
}

/// In a tunnel in UDP.
fn wrapped_in_udp((from, to): (&str, &str), inner: &[u8]) -> Vec<u8> {
    let message = [&[4, 4, 0, 0], inner].concat();
    packet(from, to, UDP, &udp((434, 434), &message))
}

#[test]
fn a_packet_that_comes_back_from_another_home_agent_does_not_go_round() {
    const OTHER: &str = "203.0.113.2";
    let mut pair = Pair::with_offloads(raw(Encapsulation::IpInIp), NO_OFFLOADS);
    let inner = to_home(&udp((5, 53), b"hello"));
    let (first, back) = ((HOME_AGENT, CARE_OF), (OTHER, HOME));
    let mut rounds: Vec<Vec<u8>> = FORMS
        .iter()
        .flat_map(|one| FORMS.iter().map(move |other| (*one, *other)))
        .map(|(one, other)| wrapped(other, back, &wrapped(one, first, &inner)))
        .collect();
    rounds.push(wrapped_in_udp(back, &wrapped_in_udp(first, &inner)));
    // Through a third one. A fragment shows as much as a whole packet.
    let once = wrapped(Encapsulation::IpInIp, first, &inner);
    let third = wrapped(Encapsulation::IpInIp, ("203.0.113.3", OTHER), &once);
    rounds.push(wrapped(Encapsulation::Gre, back, &third));
    let mut fragment = rounds[0].clone();
    put16(&mut fragment, 6, 0x2000);
    finish_ip_header(&mut fragment[..20], rounds[0].len());
    rounds.push(fragment);
    let count = rounds.len() as u64;
    assert_eq!(pair.seal(&rounds).len(), 0);
    assert_eq!(pair.sent_drops(DropReason::RoutingLoop), count);
    // So many tunnels are read, no more.
    let mut nested = inner.clone();
    for depth in 0..=MAX_NESTED {
        let from = format!("192.0.2.{depth}");
        nested = wrapped(Encapsulation::IpInIp, (&from, HOME), &nested);
        let is_read = depth < MAX_NESTED;
        assert_eq!(pair.seal(&[nested.clone()]).len(), usize::from(is_read));
    }
    assert_eq!(pair.sent_drops(DropReason::NestedTooDeep), 1);
}

#[test]
fn a_packet_that_this_host_has_put_into_a_tunnel_enters_another() {
    let mut pair = Pair::with_offloads(raw(Encapsulation::IpInIp), NO_OFFLOADS);
    let inner = to_home(&udp((5, 53), b"hello"));
    let own = packet(HOME_AGENT, HOME, 4, &inner);
    assert_eq!(pair.seal(&[own]).len(), 1);
}

#[test]
fn simultaneous_bindings_get_a_copy_each() {
    let whole = packet(CORRESPONDENT, HOME, TCP, &tcp(9, 0x18, &[], &data(4_000)));
    let frame = super_packet(&whole, 1_360);
    let mut pair = Pair::new(raw(Encapsulation::IpInIp));
    let alone = pair.seal(core::slice::from_ref(&frame));
    let mut second = to_node(Encapsulation::Gre, raw_path(HOME_AGENT, "192.0.2.77"));
    second.child = ChildId(8);
    let mut third = to_node(Encapsulation::IpInIp, udp_path());
    third.child = ChildId(9);
    // This one is for less traffic, and comes first.
    let mut narrower = to_node(Encapsulation::IpInIp, raw_path(HOME_AGENT, "192.0.2.78"));
    narrower.child = ChildId(10);
    narrower.remote[0].protocol = UDP;
    for sa in [second, third, narrower] {
        pair.sender
            .apply(OutboundChange::Install(Box::new(sa)), NOW);
    }
    let sent = pair.seal(&[frame]);
    let to = |remote: &str| {
        let of = sent.iter().filter(|it| it.path.remote.ip() == ip(remote));
        of.map(|it| it.bytes.clone()).collect::<Vec<_>>()
    };
    assert_eq!(sent.len(), 3 * alone.len());
    let inner = |all: &[Vec<u8>], at: usize| -> Vec<Vec<u8>> {
        all.iter().map(|it| it[at..].to_vec()).collect()
    };
    let alone: Vec<_> = alone.iter().map(|it| it.bytes.clone()).collect();
    assert_eq!(inner(&to(CARE_OF), 20), inner(&alone, 20));
    assert_eq!(inner(&to("192.0.2.77"), 24), inner(&alone, 20));
    assert_eq!(inner(&to("192.0.2.9"), 4), inner(&alone, 20));
    pair.sender.apply(OutboundChange::Remove(CHILD, 1), NOW);
    assert_eq!(
        pair.seal(&[super_packet(&whole, 1_360)]).len(),
        2 * alone.len()
    );
}

#[test]
fn a_newer_tunnel_of_the_same_child_takes_over() {
    let mut pair = Pair::with_offloads(raw(Encapsulation::IpInIp), NO_OFFLOADS);
    let mut moved = to_node(Encapsulation::IpInIp, raw_path(HOME_AGENT, "192.0.2.77"));
    let Layer::Tunnel { number, .. } = &mut moved.layer else {
        panic!("no tunnel");
    };
    *number = 2;
    pair.sender
        .apply(OutboundChange::Install(Box::new(moved)), NOW);
    let sent = pair.seal(&[to_home(&udp((5, 53), b"hello"))]);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].path, raw_path(HOME_AGENT, "192.0.2.77"));
}

/// A foreign agent: its visitor encapsulates to it what is to go home (RFC 3024 §5.2), and its
/// home agent sends it what may say that it is from any host.
#[test]
fn what_a_sender_encapsulates_itself_is_returned_and_is_not_on_the_device() {
    const AGENT: &str = "203.0.113.9";
    let from = |end: &str, number, remote: Vec<TrafficSelector>| {
        let name = (Direction::Inbound, CHILD, number);
        let form = Encapsulation::IpInIp;
        Sa::tunnel(name, form, raw_path(AGENT, end), everything(), remote)
    };
    let mut plane = InboundPlane::new(NO_OFFLOADS);
    let mut delivery = from(HOME, 1, vec![host(HOME)]);
    delivery.sent_on_from = Some(7);
    for sa in [delivery, from(HOME_AGENT, 2, everything())] {
        plane.apply(InboundChange::Install(Box::new(sa)));
    }
    let mut out = Packets::new();
    let mut take_from = |interface: u32, end: &str, inner: &[u8]| {
        let mut octets = wrapped(Encapsulation::IpInIp, (end, AGENT), inner);
        let received = Received {
            path: raw_path(AGENT, end),
            traffic_class: 0,
            interface,
            segment_bytes: octets.len(),
            bytes: &mut octets,
        };
        out.clear();
        let dropped = plane.open(0, received, NOW, &mut out);
        let returned = out.returned().iter();
        let returned: Vec<Vec<u8>> = returned
            .map(|it| octets[it.range.clone()].to_vec())
            .collect();
        (returned, out.writes().count(), dropped)
    };
    let own = packet(HOME, CORRESPONDENT, UDP, &udp((5, 53), b"hello"));
    // Whoever is elsewhere can write the visitor's address.
    let forged = Some(DropReason::ForgedSource);
    assert_eq!(take_from(8, HOME, &own), (vec![], 0, forged));
    let mut take = |end: &str, inner: &[u8]| take_from(7, end, inner);
    let mut onward = own.clone();
    onward[8] -= 1;
    finish_ip_header(&mut onward[..20], own.len());
    assert_eq!(take(HOME, &own), (vec![onward], 0, None));
    // From the home agent: the same packet, or one from anywhere, is for the device.
    assert_eq!(take(HOME_AGENT, &own), (vec![], 1, None));
    let others = packet(CORRESPONDENT, HOME, UDP, &udp((53, 5), b"hello"));
    let mismatch = Some(DropReason::SelectorMismatch);
    assert_eq!(take(HOME, &others), (vec![], 0, mismatch));
    let mut last = own;
    last[8] = 1;
    let length = last.len();
    finish_ip_header(&mut last[..20], length);
    assert_eq!(take(HOME, &last), (vec![], 0, Some(DropReason::TtlExpired)));
}

#[test]
fn damaged_packets_are_dropped_or_taken_but_never_trusted_with_their_lengths() {
    for form in FORMS {
        for path in [raw_path(HOME_AGENT, CARE_OF), udp_path()] {
            let mut pair = Pair::with_offloads(to_node(form, path), NO_OFFLOADS);
            let sent = pair.seal(&[to_home(&udp((5, 53), b"hello"))]);
            for length in 0..sent[0].bytes.len() {
                let mut cut = sent.clone();
                cut[0].bytes.truncate(length);
                assert_eq!(pair.open(&cut).len(), 0, "{form:?} {length}");
            }
            for bit in 0..sent[0].bytes.len() * 8 {
                let mut flipped = sent.clone();
                flipped[0].bytes[bit / 8] ^= 1 << (bit % 8);
                for write in pair.open(&flipped) {
                    assert_eq!(write[16..20], [10, 18, 3, 17], "{form:?} {bit}");
                    assert_eq!(usize::from(be16(&write, 2)), write.len());
                }
            }
        }
    }
}

#[test]
fn ipv6_never_enters_a_tunnel_of_mobile_ipv4() {
    let mut sa = raw(Encapsulation::IpInIp);
    let all = within("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    sa.local.push(all);
    sa.remote.push(all);
    let mut pair = Pair::with_offloads(sa, NO_OFFLOADS);
    assert_eq!(
        pair.seal(&[packet("fd01::1", "fd02::1", UDP, &udp((5, 53), b""))])
            .len(),
        0
    );
    assert_eq!(pair.sent_drops(DropReason::NoPolicy), 1);
}
