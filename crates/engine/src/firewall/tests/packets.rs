//! The paper's packets 1 to 8, octet by octet (its Figs. 7 and 8).

use wire::ip::{Ipv4, protocol};
use wire::mip4::Message;
use wire::skip::{Name, Nsid};

use super::world::*;
use crate::mip4::mobile_node::Attachment;

/// The headers of a packet, from outside to inside, as far as they can be read.
pub(super) fn headers(packet: &[u8]) -> String {
    let ip = Ipv4::new(packet).expect("an IPv4 packet");
    assert_eq!(ip.total_len(), packet.len());
    let ends = format!("{}>{}", ip.source(), ip.destination());
    let rest = ip.payload();
    match ip.protocol() {
        protocol::IPV4 => format!("{ends} ipip {}", headers(rest)),
        protocol::SKIP => format!("{ends} {}", skip_headers(rest)),
        protocol::UDP => {
            let ports = [&rest[..2], &rest[2..4]].map(|it| u16::from_be_bytes([it[0], it[1]]));
            let kind = match Message::parse(&rest[8..]).expect("a message").0 {
                Message::Request(_) => "request",
                Message::Reply(_) => "reply",
                _ => "other",
            };
            format!("{ends} udp {}>{} {kind}", ports[0], ports[1])
        }
        253 => format!("{ends} data"),
        other => format!("{ends} protocol {other}"),
    }
}

/// SKIP, AH and ESP by their next-header octets and SPIs.
fn skip_headers(octets: &[u8]) -> String {
    let (header, len) = crate::skip::peek(octets, 0).expect("a header");
    assert_eq!(header.next_header, protocol::AH);
    let ah = &octets[len..];
    // RFC 1826 §3: next header, length in words, reserved, SPI.
    assert_eq!(ah[..8], [protocol::ESP, 4, 0, 0, 0, 0, 0, 1]);
    assert_eq!(ah[24..28], [0, 0, 0, 1], "ESP's SPI is 1");
    format!("skip {:?}>{:?} ah esp", header.source, header.destination)
}

/// The name of a node by its public value.
pub(super) fn by_key(number: usize) -> Name {
    Name::new(Nsid::Md5PublicValue, &[number as u8; 16]).expect("16 octets")
}

fn contains(octets: &[u8], address: std::net::Ipv4Addr) -> bool {
    octets.windows(4).any(|window| window == address.octets())
}

/// Both exchanges of the paper: 8 packets.
fn eight_packets(names: fn(usize) -> Name) -> World {
    let mut world = World::new(Options {
        names,
        ..Options::default()
    });
    world.attach(0, Attachment::Colocated(CARE_OF));
    assert!(world.is_registered(0));
    assert!(world.is_joined(0));
    assert_eq!(world.at_correspondent, [data(home(0), CORRESPONDENT)]);
    assert_eq!(world.at_nodes[0], [data(CORRESPONDENT, home(0))]);
    assert_eq!(world.wire.len(), 8);
    world
}

#[test]
fn the_papers_eight_packets_have_its_headers_in_its_order() {
    let world = eight_packets(|number| Name::ipv4(home(number)));
    let seen: Vec<String> = world
        .wire
        .iter()
        .map(|sent| headers(&sent.packet))
        .collect();
    let expected = [
        "198.51.100.7>203.0.113.1 skip 1/10.18.3.17>0/na ah esp",
        "10.18.0.254>10.18.0.1 ipip 198.51.100.7>10.18.0.1 udp 434>434 request",
        "10.18.0.1>10.18.0.254 ipip 10.18.0.1>198.51.100.7 udp 434>434 reply",
        "203.0.113.1>198.51.100.7 skip 0/na>1/10.18.3.17 ah esp",
        "198.51.100.7>203.0.113.1 skip 1/10.18.3.17>0/na ah esp",
        "10.18.0.254>10.18.0.1 ipip 198.51.100.7>10.18.0.1 ipip 10.18.3.17>10.19.5.2 data",
        "10.18.0.1>10.18.0.254 ipip 10.18.0.1>198.51.100.7 ipip 10.19.5.2>10.18.3.17 data",
        "203.0.113.1>198.51.100.7 skip 0/na>1/10.18.3.17 ah esp",
    ];
    assert_eq!(seen, expected);
    // What is in SKIP is, to the octet, what is in the tunnel inside.
    for (skip, tunnel, is_node) in [(0, 1, false), (3, 2, true), (4, 5, false), (7, 6, true)] {
        let association = skip_association(&world.options, 0, is_node);
        let inner = opened(&association, &world.wire[skip].packet, world.now);
        assert_eq!(
            inner,
            world.wire[tunnel].packet[20..],
            "packet {}",
            skip + 1
        );
    }
    // SKIP's sizes: IP 20, SKIP 32, AH 24, ESP 12, and at least 2 behind.
    for at in [0, 3, 4, 7] {
        let inner = world.wire[if at % 4 == 0 { at + 1 } else { at - 1 }]
            .packet
            .len()
            - 20;
        let text = (inner + 2).next_multiple_of(8);
        assert_eq!(world.wire[at].packet.len(), 88 + text, "packet {}", at + 1);
    }
}

#[test]
fn outside_no_inside_address_is_in_clear_and_inside_no_care_of_address_is_outer() {
    let by_address = eight_packets(|number| Name::ipv4(home(number)));
    let by_key = eight_packets(by_key);
    for (world, shows_home) in [(by_address, true), (by_key, false)] {
        let outside = world.wire.iter().filter(|sent| sent.is_outside);
        assert_eq!(outside.clone().count(), 4);
        for sent in outside {
            let mut octets = sent.packet.clone();
            if shows_home {
                // The name of the node is its home address: SKIP's header shows it, once.
                assert!(contains(&octets[48..52], home(0)));
                octets[48..52].fill(0);
            }
            for address in [AGENT, WALL_INSIDE, CORRESPONDENT, home(0)] {
                assert!(!contains(&octets, address), "{address}");
            }
        }
        let inside = world.wire.iter().filter(|sent| !sent.is_outside);
        assert_eq!(inside.clone().count(), 4);
        for sent in inside {
            let ip = Ipv4::new(&sent.packet).expect("a packet");
            assert!(
                [ip.source(), ip.destination()]
                    .iter()
                    .all(|it| it.octets()[0] == 10)
            );
            assert!(!contains(&sent.packet[..20], CARE_OF));
        }
    }
}
