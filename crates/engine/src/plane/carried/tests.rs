use wire::ip::protocol::{AH, GRE, ICMP, IPV4, MINIMAL, UDP};

use super::*;

const CARE_OF: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 0, 1);
const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const CORRESPONDENT: Ipv4Addr = Ipv4Addr::new(10, 19, 5, 2);

fn packet(ends: (Ipv4Addr, Ipv4Addr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    packet.extend_from_slice(payload);
    let header = wire::ip::ipv4::Header {
        tos: 0,
        id: 9,
        dont_fragment: true,
        ttl: 64,
        protocol,
        source: ends.0,
        destination: ends.1,
    };
    header.write(&mut packet);
    packet
}

fn read(packet: &[u8], heading: Heading) -> Carried {
    carried(&Inner::parse(packet).expect("a packet"), packet, heading)
}

fn datagram(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; 8];
    datagram.extend_from_slice(payload);
    udp::write_header(&mut datagram, ports.0, ports.1);
    datagram
}

/// A registration reply without extensions (RFC 5944 §3.4).
fn reply() -> Vec<u8> {
    let mut reply = vec![3, 0, 1, 44];
    reply.extend_from_slice(&HOME.octets());
    reply.extend_from_slice(&AGENT.octets());
    reply.extend_from_slice(&[0; 8]);
    reply
}

fn all_forms() -> Vec<(u8, Vec<u8>)> {
    let inside = packet((CORRESPONDENT, HOME), 253, &[1; 30]);
    let gre = [&gre::HEADER[..], &inside].concat();
    let mut minimal = vec![0; 12];
    minimal.extend_from_slice(&inside);
    let start = wire::ip::minimal::encapsulate(&mut minimal, 12, AGENT, CARE_OF);
    assert_eq!(start, Ok(0));
    let in_udp = [&[4, 4, 0, 0][..], &inside].concat();
    vec![
        (IPV4, inside),
        (GRE, gre),
        (MINIMAL, minimal[20..].to_vec()),
        (UDP, datagram((434, 434), &reply())),
        (UDP, datagram((434, 434), &in_udp)),
    ]
}

#[test]
fn every_form_of_tunnel_and_message_tells_the_home_address() {
    for (protocol, payload) in all_forms() {
        let whole = packet((AGENT, CARE_OF), protocol, &payload);
        assert_eq!(
            read(&whole, Heading::ToNode),
            Carried::Home(HOME),
            "{protocol}"
        );
        // An ICMP error of the node about it.
        let error = [&[3, 4, 0, 0, 0, 0, 4, 0][..], &whole].concat();
        let error = packet((CARE_OF, AGENT), ICMP, &error);
        assert_eq!(
            read(&error, Heading::FromNode),
            Carried::Home(HOME),
            "{protocol}"
        );
        for length in 0..whole.len() {
            let cut = [&[3, 4, 0, 0, 0, 0, 4, 0][..], &whole[..length]].concat();
            let cut = packet((CARE_OF, AGENT), ICMP, &cut);
            let seen = read(&cut, Heading::FromNode);
            assert!(matches!(seen, Carried::Home(HOME) | Carried::Unreadable));
        }
    }
}

#[test]
fn what_carries_no_home_address_is_told_from_what_hides_it() {
    let of = |protocol, payload: &[u8]| {
        read(
            &packet((AGENT, CARE_OF), protocol, payload),
            Heading::ToNode,
        )
    };
    assert_eq!(of(253, &[0; 40]), Carried::Nothing);
    assert_eq!(of(AH, &[0; 40]), Carried::Nothing);
    assert_eq!(
        of(ICMP, &[8, 0, 0, 0, 0, 0, 0, 0]),
        Carried::Nothing,
        "an echo"
    );
    assert_eq!(of(UDP, &datagram((53, 4_000), &reply())), Carried::Nothing);
    // A node's messages go to the port of agents, and come back from there.
    let message = packet((CARE_OF, AGENT), UDP, &datagram((434, 9_999), &reply()));
    assert_eq!(read(&message, Heading::FromNode), Carried::Nothing);
    assert_eq!(
        of(UDP, &datagram((434, 9_999), &reply())),
        Carried::Home(HOME)
    );
    assert_eq!(of(IPV4, &[0x60; 40]), Carried::Unreadable, "no IPv4");
    assert_eq!(of(IPV4, &[0x45; 19]), Carried::Unreadable);
    assert_eq!(of(GRE, &[0x40; 40]), Carried::Unreadable);
    assert_eq!(
        of(UDP, &datagram((434, 434), &[9; 24])),
        Carried::Unreadable
    );
    // A later fragment has its header elsewhere.
    for protocol in [IPV4, UDP, MINIMAL] {
        let mut later = packet((AGENT, CARE_OF), protocol, &all_forms()[0].1);
        later[6..8].copy_from_slice(&[0x20, 6]);
        assert_eq!(read(&later, Heading::ToNode), Carried::Later);
        later[7] = 5;
        let could_change_it = read(&later, Heading::ToNode);
        assert_eq!(could_change_it, Carried::Unreadable);
    }
    // An error or none: only its first fragment says.
    for octet in [3, 8] {
        let mut later = packet((AGENT, CARE_OF), ICMP, &[octet; 40]);
        later[7] = 1;
        assert_eq!(read(&later, Heading::ToNode), Carried::Unreadable);
        later[7] = 6;
        assert_eq!(read(&later, Heading::ToNode), Carried::Later);
    }
    let mut later = packet((AGENT, CARE_OF), 253, &[0; 40]);
    later[7] = 6;
    assert_eq!(read(&later, Heading::ToNode), Carried::Nothing);
}

#[test]
fn an_error_from_another_than_the_quoted_destination_is_told() {
    let to_node = packet((AGENT, CARE_OF), IPV4, &all_forms()[0].1);
    let error = |kind, from, quoted: &[u8]| {
        let message = [&[kind, 1, 0, 0, 0, 0, 0, 0][..], quoted].concat();
        let error = packet((from, AGENT), ICMP, &message);
        is_about_another(&Inner::parse(&error).expect("a packet"), &error)
    };
    let router = Ipv4Addr::new(198, 51, 100, 8);
    for kind in [3, 4, 5, 11, 12] {
        assert!(!error(kind, CARE_OF, &to_node));
        assert!(error(kind, router, &to_node));
        assert!(error(kind, router, &to_node[..28]));
    }
    assert!(!error(8, router, &to_node), "an echo");
}

#[test]
fn only_a_whole_packet_is_taken_out() {
    let inside_it = packet((CORRESPONDENT, HOME), 253, &[1; 30]);
    let whole = packet((AGENT, CARE_OF), IPV4, &inside_it);
    let take = |packet: &[u8]| {
        let inner = Inner::parse(packet).expect("a packet");
        inside(&inner, packet).map(|(found, at)| (found.flow.source, at))
    };
    assert_eq!(take(&whole), Some((CORRESPONDENT.into(), 20)));
    let mut fragment = whole.clone();
    fragment[6] = 0x20;
    assert_eq!(take(&fragment), None);
    let mut longer = packet((AGENT, CARE_OF), IPV4, &[&inside_it[..], &[0]].concat());
    assert_eq!(take(&longer), None, "something follows it");
    longer[28] = 0;
    assert_eq!(take(&longer), None, "its TTL is over");
    assert_eq!(take(&packet((AGENT, CARE_OF), GRE, &inside_it)), None);
}
