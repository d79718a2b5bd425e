//! Transport mode through a NAT (RFC 3948 §3.1.2, §5.2): a client at 192.168.1.2 behind
//! 198.51.100.9 talks to the gateway's own address 203.0.113.1, which knows it as 10.99.0.x.

use std::net::IpAddr;

use super::support::*;
use crate::counters::DropReason;
use crate::plane::inner::{Inner, be16};
use crate::plane::{InboundChange, Notice, OutboundChange};
use crate::sa::{ChildId, Direction, Ipsec, Layer, Mode, OriginalAddresses, Sa};
use crate::selector::TrafficSelector;
use crate::time::Duration;
use wire::ip::fragment::Fragments;
use wire::ip::protocol::{TCP, UDP};

const PRIVATE: &str = "192.168.1.2";
const NAT: &str = "198.51.100.9";
const GATEWAY: &str = "203.0.113.1";
const ACK: u8 = 0x10;

/// Both ends' SAs of both directions: client out, gateway in, gateway out, client in.
fn sas(child: u32, nat_port: u16, pool: &str) -> [Sa; 4] {
    let station = path(PRIVATE, GATEWAY);
    let mut gateway = path(GATEWAY, NAT);
    gateway.remote.set_port(nat_port);
    let host = |address: &str| TrafficSelector {
        protocol: TCP,
        ..within(address, address)
    };
    let sa = |direction, path, number: u32| Sa {
        layer: Layer::Ipsec(Ipsec {
            spi: SPI + child * 16 + number,
            ..layer(AES_GCM)
        }),
        direction,
        child: ChildId(child),
        mode: Mode::Transport,
        path,
        ..tunnel_sa(AES_GCM)
    };
    let of_station = |sa| Sa {
        local: vec![host(PRIVATE)],
        remote: vec![host(GATEWAY)],
        original: Some(OriginalAddresses {
            peer: ip(GATEWAY),
            own: ip(NAT),
        }),
        ..sa
    };
    let of_gateway = |sa| Sa {
        local: vec![host(GATEWAY)],
        remote: vec![host(PRIVATE)],
        original: Some(OriginalAddresses {
            peer: ip(PRIVATE),
            own: ip(GATEWAY),
        }),
        pool_address: Some(ip(pool)),
        ..sa
    };
    [
        of_station(sa(Direction::Outbound, station, 1)),
        of_gateway(sa(Direction::Inbound, gateway, 1)),
        of_gateway(sa(Direction::Outbound, gateway, 2)),
        of_station(sa(Direction::Inbound, station, 2)),
    ]
}

/// What the NAT does to a datagram of the client.
fn translated(sent: &[Sent], nat_port: u16) -> Vec<Sent> {
    let mut sent = sent.to_vec();
    for datagram in &mut sent {
        datagram.path = path(GATEWAY, NAT).reversed();
        datagram.path.local.set_port(nat_port);
    }
    sent
}

/// What it does to one of the gateway.
fn translated_back(sent: &[Sent]) -> Vec<Sent> {
    let mut sent = sent.to_vec();
    for datagram in &mut sent {
        datagram.path = path(GATEWAY, PRIVATE);
    }
    sent
}

fn addresses(frame: &[u8]) -> (String, String) {
    let inner = Inner::parse(&frame[10..]).expect("a packet");
    (
        inner.flow.source.to_string(),
        inner.flow.destination.to_string(),
    )
}

#[test]
fn checksums_are_repaired_on_both_ends() {
    let [station_out, gateway_in, gateway_out, station_in] = sas(1, 4500, "10.99.0.1");
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let mut down = Pair::of(gateway_out, station_in, OFFLOADS);

    let request = packet(PRIVATE, GATEWAY, TCP, &tcp(1, ACK, &[], &data(700)));
    let sent = up.seal(&[plain(&request)]);
    let opened = up.open(&translated(&sent, 4500));
    assert_eq!(addresses(&opened[0]), ("10.99.0.1".into(), GATEWAY.into()));
    assert_checksums(&opened[0][10..]);

    let big = tcp(9, ACK, &[], &data(20_000));
    for reply in [
        plain(&packet(
            GATEWAY,
            "10.99.0.1",
            TCP,
            &tcp(1, ACK, &[], &data(700)),
        )),
        super_packet(&packet(GATEWAY, "10.99.0.1", TCP, &big), 1300),
    ] {
        let sent = down.seal(&[reply]);
        let opened = down.open(&translated_back(&sent));
        assert_eq!(opened.len(), 1);
        assert_eq!(addresses(&opened[0]), (GATEWAY.into(), PRIVATE.into()));
    }
    // one by one, so that no checksum is left to the device
    let big = packet(GATEWAY, "10.99.0.1", TCP, &tcp(9, ACK, &[], &data(20_000)));
    for sent in down.seal(&[super_packet(&big, 1300)]) {
        let opened = down.open(&translated_back(&[sent]));
        assert_checksums(&opened[0][10..]);
    }
}

#[test]
fn without_original_addresses_the_checksum_is_made_anew() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let gateway_in = Sa {
        original: None,
        ..gateway_in
    };
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let request = packet(PRIVATE, GATEWAY, TCP, &tcp(1, ACK, &[], &data(700)));
    let sent = up.seal(&[plain(&request)]);
    let opened = up.open(&translated(&sent, 4500));
    assert_checksums(&opened[0][10..]);
}

#[test]
fn a_wrong_checksum_is_not_repaired_into_a_right_one() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let mut request = packet(PRIVATE, GATEWAY, TCP, &tcp(1, ACK, &[], &data(700)));
    request[200] ^= 4;
    let sent = up.seal(&[plain(&request)]);
    let opened = up.open(&translated(&sent, 4500));
    let result = std::panic::catch_unwind(|| assert_checksums(&opened[0][10..]));
    assert!(result.is_err());
}

#[test]
fn two_stations_with_equal_addresses_and_ports_stay_apart() {
    let [one_out, one_in, one_back, one_home] = sas(1, 4500, "10.99.0.1");
    let [two_out, two_in, two_back, two_home] = sas(2, 61_000, "10.99.0.2");
    let mut one = Pair::of(one_out, one_in, OFFLOADS);
    let mut two = Pair::of(two_out, two_home, OFFLOADS);
    // the gateway: both clients' SAs in one plane of each direction
    one.receiver.apply(InboundChange::Install(Box::new(two_in)));
    let mut back = Pair::of(one_back, one_home, OFFLOADS);
    back.sender
        .apply(OutboundChange::Install(Box::new(two_back)), NOW);

    let request = plain(&packet(
        PRIVATE,
        GATEWAY,
        TCP,
        &tcp(1, ACK, &[], &data(700)),
    ));
    let mut sent = translated(&one.seal(std::slice::from_ref(&request)), 4500);
    sent.extend(translated(&two.seal(&[request]), 61_000));
    let opened = one.open(&sent);
    assert_eq!(opened.len(), 2);
    let sources: Vec<_> = opened.iter().map(|frame| addresses(frame).0).collect();
    assert_eq!(sources, ["10.99.0.1", "10.99.0.2"]);

    for (pool, port) in [("10.99.0.1", 4500), ("10.99.0.2", 61_000)] {
        let reply = plain(&packet(GATEWAY, pool, TCP, &tcp(1, ACK, &[], &data(9))));
        let sent = back.seal(&[reply]);
        assert_eq!(sent[0].path.remote.port(), port);
        let home = if port == 4500 { &mut back } else { &mut two };
        let opened = home.open(&translated_back(&sent));
        assert_eq!(addresses(&opened[0]), (GATEWAY.into(), PRIVATE.into()));
        assert_checksums(&opened[0][10..]);
    }
}

#[test]
fn selectors_of_transport_mode_are_protocols_and_ports() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let any = Sa {
        local: vec![within(PRIVATE, PRIVATE)],
        remote: vec![within(GATEWAY, GATEWAY)],
        ..station_out
    };
    let mut up = Pair::of(any, gateway_in, OFFLOADS);
    let udp = plain(&packet(PRIVATE, GATEWAY, UDP, &udp((1, 2), &data(70))));
    let sent = up.seal(&[udp]);
    assert!(up.open(&translated(&sent, 4500)).is_empty());
    assert_eq!(up.received_drops(DropReason::SelectorMismatch), 1);
}

#[test]
fn authenticated_packets_move_the_path_and_old_ones_do_not() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let request = plain(&packet(PRIVATE, GATEWAY, TCP, &tcp(1, ACK, &[], &data(70))));
    let sent = up.seal(&[request.clone(), request.clone(), request]);
    up.open(&translated(&sent[1..2], 62_000));
    let moved = translated(&sent, 62_000)[0].path.reversed();
    let child = ChildId(1);
    let bytes = sent[1].bytes.len() as u64;
    let notice = Notice::PathMoved {
        child,
        path: moved,
        bytes,
    };
    let spi = SPI + 17;
    let used = Notice::InboundUsed { child, spi };
    assert_eq!(up.receiver_notices(), [notice, used]);
    up.open(&translated(&sent[..1], 63_000)); // older, though never seen
    assert_eq!(up.receiver_notices(), []);
    up.open(&translated(&sent[1..2], 64_000)); // replayed
    assert_eq!(up.receiver_notices(), []);
    assert_eq!(up.received_drops(DropReason::Replayed), 1);
    let mut forged = translated(&sent[2..], 65_000);
    forged[0].bytes[30] ^= 1;
    up.open(&forged);
    assert_eq!(up.receiver_notices(), []);
    assert_eq!(up.received_drops(DropReason::BadIcv), 1);
}

const ANOTHER: &str = "203.0.113.66";

/// A gateway's SA without a pool address: the peer is known by its source address.
fn bare(sa: Sa) -> Sa {
    Sa {
        pool_address: None,
        remote: vec![within(NAT, NAT)],
        ..sa
    }
}

#[test]
fn a_peer_without_a_pool_address_cannot_write_as_who_is_elsewhere() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let mut up = Pair::of(station_out, bare(gateway_in), OFFLOADS);
    let request = plain(&packet(PRIVATE, GATEWAY, TCP, &tcp(1, ACK, &[], &data(70))));
    let mut arrives_as = |from: &str, change: Option<InboundChange>| {
        let mut sent = translated(&up.seal(core::slice::from_ref(&request)), 4500);
        sent[0].path.local.set_ip(ip(from));
        if let Some(change) = change {
            up.receiver.apply(change);
        }
        let opened = up.open(&sent);
        assert_checksums(&opened[0][10..]);
        addresses(&opened[0]).0
    };
    assert_eq!(arrives_as(NAT, None), NAT);
    assert_eq!(arrives_as(ANOTHER, None), NAT);
    let moved = InboundChange::Move(ChildId(1), path(GATEWAY, ANOTHER));
    assert_eq!(arrives_as(ANOTHER, Some(moved)), NAT);
    // Once it has answered from there.
    let proven = InboundChange::Proven(ChildId(1), ip(ANOTHER));
    assert_eq!(arrives_as(ANOTHER, Some(proven)), ANOTHER);
}

#[test]
fn a_peer_without_a_pool_address_does_not_get_what_is_for_who_is_elsewhere() {
    let [.., gateway_out, station_in] = sas(1, 4500, "10.99.0.1");
    let mut down = Pair::of(bare(gateway_out), station_in, OFFLOADS);
    let child = ChildId(1);
    assert_eq!(goes(&mut down, NAT), Some(ip(NAT)));
    assert_eq!(goes(&mut down, ANOTHER), None);
    let moved = OutboundChange::Move(child, path(GATEWAY, ANOTHER));
    down.sender.apply(moved, NOW);
    assert_eq!(goes(&mut down, NAT), Some(ip(ANOTHER)));
    assert_eq!(goes(&mut down, ANOTHER), None);
    let proven = OutboundChange::Proven(child, ip(ANOTHER));
    down.sender.apply(proven, NOW);
    assert_eq!(goes(&mut down, NAT), None);
    assert_eq!(goes(&mut down, ANOTHER), Some(ip(ANOTHER)));
}

/// The destination of a gateway's packet to this address, if any.
fn goes(down: &mut Pair, to: &str) -> Option<IpAddr> {
    let reply = packet(GATEWAY, to, TCP, &tcp(1, ACK, &[], &data(70)));
    let sent = down.seal(&[plain(&reply)]);
    sent.first().map(|sent| sent.path.remote.ip())
}

#[test]
fn a_peer_that_sends_from_two_places_in_turn_is_followed_now_and_then() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let request = plain(&packet(PRIVATE, GATEWAY, TCP, &tcp(1, ACK, &[], &data(70))));
    let (mut moves, mut now) = (0, NOW);
    for n in 0..2_000_u16 {
        let sent = up.seal(core::slice::from_ref(&request));
        up.open_at(now, &translated(&sent, 62_000 + n % 2));
        let notices = up.receiver_notices();
        let is_move = |it: &&Notice| matches!(it, Notice::PathMoved { .. });
        moves += notices.iter().filter(is_move).count();
        now = now + Duration::from_millis(1);
    }
    assert!((8..=10).contains(&moves), "{moves} moves in two seconds");
}

/// A UDP datagram fragmented for a device's MTU of 1400, and whole.
fn datagram(source: &str, destination: &str, length: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut whole = packet(source, destination, UDP, &udp((7, 7), &data(length)));
    whole[6] = 0;
    crate::plane::checksum::put_v4(&mut whole[..20]);
    let mut cut = Fragments::new(&whole, 1400).expect("may be cut");
    let mut scratch = vec![0; 1400];
    let mut parts = Vec::new();
    while let Some(length) = cut.write_next(&mut scratch) {
        parts.push(plain(&scratch[..length]));
    }
    (parts, whole)
}

#[test]
fn fragments_are_put_together_before_transport_mode_and_may_be_cut_behind_it() {
    let any = |sa: Sa| Sa {
        local: vec![within("0.0.0.0", "255.255.255.255")],
        remote: vec![within("0.0.0.0", "255.255.255.255")],
        ..sa
    };
    let [station_out, gateway_in, gateway_out, station_in] = sas(1, 4500, "10.99.0.1").map(any);
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let mut down = Pair::of(gateway_out, station_in, OFFLOADS);
    let (parts, whole) = datagram(PRIVATE, GATEWAY, 3000);
    assert_eq!(parts.len(), 3);
    assert!(up.seal(&parts[..2]).is_empty());
    let sent = up.seal(&parts[2..]);
    assert_eq!(sent.len(), 1);
    let mut opened = up.open(&translated(&sent, 4500));
    let (parts, answer) = datagram(GATEWAY, "10.99.0.1", 3000);
    let sent = down.seal(&parts);
    opened.extend(down.open(&translated_back(&sent)));
    for (frame, whole) in opened.iter().zip([whole, answer]) {
        assert_checksums(&frame[10..]);
        assert_eq!(frame[38..], whole[28..]);
        // no DF, no fragment, and an identification that differs from the next packet's
        assert_eq!(be16(frame, 16), 0);
        assert_eq!(be16(frame, 14), 1);
    }
    assert_eq!(opened.len(), 2);
    assert_eq!(up.sent_drops(DropReason::BadInnerPacket), 0);
}

#[test]
fn what_was_put_together_waits_whole_for_the_proof_of_its_peer() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    for offloads in [OFFLOADS, NO_OFFLOADS] {
        let sa = |sa: &Sa| Sa {
            layer: copied(&sa.layer),
            local: vec![within("0.0.0.0", "255.255.255.255")],
            remote: vec![within("0.0.0.0", "255.255.255.255")],
            ..*sa
        };
        let mut up = Pair::of(sa(&station_out), sa(&gateway_in), offloads);
        let child = station_out.child;
        up.sender.apply(OutboundChange::Allow(child, 0), NOW);
        let (mut parts, whole) = datagram(PRIVATE, GATEWAY, 3000);
        if !offloads.has_vnet_header {
            parts.iter_mut().for_each(|part| drop(part.drain(..10)));
        }
        assert!(up.seal(&parts).is_empty());
        up.sender
            .apply(OutboundChange::Proven(child, ip(GATEWAY)), NOW);
        let sent = up.release(NOW);
        assert_eq!(sent.len(), 1);
        let opened = up.open(&translated(&sent, 4500));
        assert!(opened[0].ends_with(&whole[28..]));
        assert_eq!(up.sent_drops(DropReason::UnprovenPath), 0);
    }
}

#[test]
fn a_fragment_without_the_others_is_never_sent() {
    let [station_out, gateway_in, ..] = sas(1, 4500, "10.99.0.1");
    let mut up = Pair::of(station_out, gateway_in, OFFLOADS);
    let (parts, _) = datagram(PRIVATE, GATEWAY, 3000);
    assert!(up.seal(&[parts[0].clone(), parts[0].clone()]).is_empty());
    assert_eq!(up.sent_drops(DropReason::BadInnerPacket), 1);
}

#[test]
fn a_raw_packet_from_another_address_is_not_its_peers() {
    let sa = Sa {
        mode: Mode::Transport,
        path: raw_path("10.1.0.1", "10.2.0.1"),
        ..tunnel_sa(AES_GCM)
    };
    let mut pair = Pair::new(sa);
    let request = packet("10.1.0.1", "10.2.0.1", TCP, &tcp(1, ACK, &[], &data(70)));
    let mut sent = pair.seal(&[plain(&request)]);
    sent[0].path = raw_path("10.1.0.66", "10.2.0.1");
    sent[0].bytes[15] = 66;
    crate::plane::checksum::put_v4(&mut sent[0].bytes[..20]);
    assert!(pair.open(&sent).is_empty());
    assert_eq!(pair.received_drops(DropReason::SelectorMismatch), 1);
}
