//! Minimal encapsulation and GRE.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::codec::Malformed;
use crate::ip::{Ipv4, gre, ipv4, minimal, protocol};

const CORRESPONDENT: Ipv4Addr = Ipv4Addr::new(10, 6, 0, 1);
const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

fn packet(body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_LEN];
    packet.extend_from_slice(body);
    ipv4::Header {
        tos: 0,
        id: 7,
        dont_fragment: false,
        ttl: 61,
        protocol: protocol::UDP,
        source: CORRESPONDENT,
        destination: HOME,
    }
    .write(&mut packet);
    packet
}

fn with_room(packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; minimal::LEN];
    frame.extend_from_slice(packet);
    frame
}

/// RFC 2004 §3, by hand: the checksum covers the forwarding header alone, the TTL stays.
#[test]
fn the_minimal_forwarding_header_is_laid_out_as_in_its_document() {
    let original = packet(b"data");
    let mut frame = with_room(&original);
    let start = minimal::encapsulate(&mut frame, minimal::LEN, AGENT, CARE_OF).unwrap();
    assert_eq!(start, 0);
    let ip = Ipv4::new(&frame[..]).unwrap();
    assert!(ip.has_valid_checksum());
    assert_eq!((ip.source(), ip.destination()), (AGENT, CARE_OF));
    assert_eq!((ip.ttl(), ip.protocol(), ip.total_len()), (61, 55, 36));
    let forwarding = [17, 0x80, 0x48, 0x5c, 10, 18, 3, 17, 10, 6, 0, 1];
    assert_eq!(frame[20..24][..2], forwarding[..2]);
    assert_eq!(frame[24..32], forwarding[4..]);
    let sum: u32 = frame[20..32]
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
        .sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);

    let mut frame = with_room(&original);
    let at = minimal::encapsulate(&mut frame, minimal::LEN, CORRESPONDENT, CARE_OF).unwrap();
    assert_eq!(at, minimal::LEN - minimal::LEN_WITHOUT_SOURCE);
}

#[test]
fn fragments_and_damaged_headers_are_refused() {
    let mut fragment = packet(b"data");
    Ipv4::new(&mut fragment[..]).unwrap().set_fragment(0, true);
    let mut frame = with_room(&fragment);
    assert_eq!(
        minimal::encapsulate(&mut frame, minimal::LEN, AGENT, CARE_OF),
        Err(Malformed::Value("fragment in minimal encapsulation"))
    );
    let mut good = with_room(&packet(b"data"));
    minimal::encapsulate(&mut good, minimal::LEN, AGENT, CARE_OF).unwrap();
    for at in 20..32 {
        let mut damaged = good.clone();
        damaged[at] ^= 0x40;
        assert!(minimal::decapsulate(&mut damaged).is_err(), "{at}");
    }
    assert!(minimal::decapsulate(&mut packet(b"data")).is_err());
    for body in [&[][..], &[17; 7], &[17, 0x80, 0, 0, 0, 0, 0, 0]] {
        let mut short = packet(body);
        Ipv4::new(&mut short[..])
            .unwrap()
            .set_protocol(protocol::MINIMAL);
        assert!(minimal::decapsulate(&mut short).is_err());
    }
}

#[test]
fn a_gre_header_may_have_checksum_key_and_sequence_number() {
    assert_eq!(gre::check(&gre::HEADER), Ok(4));
    assert_eq!(
        gre::check(&[0x30, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x45]),
        Ok(12)
    );
    assert_eq!(gre::check(&[0x80, 0, 8, 0, 0x77, 0xff, 0, 0]), Ok(8));
    let wrong = Err(Malformed::Value("GRE checksum"));
    assert_eq!(gre::check(&[0x80, 0, 8, 0, 0x77, 0xfe, 0, 0]), wrong);
    assert_eq!(
        gre::check(&[0x40, 0, 8, 0]),
        Err(Malformed::Value("GRE flags"))
    );
    assert_eq!(
        gre::check(&[0, 1, 8, 0]),
        Err(Malformed::Value("GRE version"))
    );
    assert_eq!(
        gre::check(&[0, 0, 0x86, 0xdd]),
        Err(Malformed::Value("GRE protocol"))
    );
    assert_eq!(gre::check(&[0x03, 0xf8, 8, 0]), Ok(4));
    let recursion = gre::check(&[0x04, 0, 8, 0]);
    assert_eq!(recursion, Err(Malformed::Value("GRE flags")));
    assert!(gre::check(&[0x20, 0, 8, 0, 1]).is_err());
}

proptest! {
    #[test]
    fn what_is_encapsulated_comes_back(body in vec(any::<u8>(), 0..200), own: bool) {
        let original = packet(&body);
        let mut frame = with_room(&original);
        let source = if own { CORRESPONDENT } else { AGENT };
        let at = minimal::encapsulate(&mut frame, minimal::LEN, source, CARE_OF).unwrap();
        let carried = &mut frame[at..];
        let start = minimal::decapsulate(carried).unwrap();
        prop_assert_eq!(&carried[start..], &original[..]);
    }

    #[test]
    fn hostile_packets_never_panic(mut packet in vec(any::<u8>(), 0..80)) {
        let _ = gre::check(&packet);
        if packet.len() > 20 {
            packet[0] = 0x45;
            packet[9] = protocol::MINIMAL;
        }
        let _ = minimal::decapsulate(&mut packet);
    }
}
