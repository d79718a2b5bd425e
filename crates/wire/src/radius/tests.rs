use super::*;
use crate::tests::hex;

/// RFC 2865 §7.1.
const REQUEST: &str = "01 00 00 38 0f 40 3f 94 73 97 80 57 bd 83 d5 cb 98 f4 22 7a 01 06 6e 65 \
                       6d 6f 02 12 0d be 70 8d 93 d4 13 ce 31 96 e4 3f 78 2a 0a ee 04 06 c0 a8 \
                       01 10 05 06 00 00 00 03";
/// RFC 2865 §7.1.
const ACCEPT: &str = "02 00 00 26 86 fe 22 0e 76 24 ba 2a 10 05 f6 bf 9b 55 e0 b2 06 06 00 00 00 \
                      01 0f 06 00 00 00 00 0e 06 c0 a8 01 03";

#[test]
fn the_examples_of_the_document_are_read_and_written() {
    let octets = hex(REQUEST);
    let packet = Packet::parse(&octets).unwrap();
    assert_eq!((packet.code, packet.id), (Code::AccessRequest, 0));
    assert_eq!(packet.authenticator, octets[4..20]);
    assert_eq!(packet.all(Kind::UserName).next(), Some(&b"nemo"[..]));
    // NAS-Port, which has no name here.
    assert_eq!(packet.number(Kind::Other(5)), Some(3));
    assert_eq!(packet.number(Kind::Other(2)), None);
    assert_eq!(packet.to_vec(), octets);
    let octets = hex(ACCEPT);
    let packet = Packet::parse(&octets).unwrap();
    assert_eq!(packet.code, Code::AccessAccept);
    assert_eq!(packet.attributes.len(), 3);
    assert_eq!(packet.to_vec(), octets);
}

#[test]
fn a_packet_that_ends_anywhere_else_is_refused() {
    let octets = hex(ACCEPT);
    for len in 0..octets.len() {
        assert!(Packet::parse(&octets[..len]).is_err(), "{len}");
        assert!(without_padding(&octets[..len]).is_err(), "{len}");
        // Its length says so too.
        let mut short = octets[..len].to_vec();
        if let Some(field) = short.get_mut(2..4) {
            field.copy_from_slice(&(len as u16).to_be_bytes());
            let is_whole = [20, 26, 32].contains(&len);
            assert_eq!(Packet::parse(&short).is_ok(), is_whole, "{len}");
        }
    }
}

#[test]
fn padding_is_ignored() {
    let mut datagram = hex(ACCEPT);
    let octets = datagram.clone();
    datagram.extend([0; 7]);
    assert_eq!(without_padding(&datagram), Ok(&octets[..]));
    assert!(Packet::parse(&datagram).is_err());
}

#[test]
fn values_have_octets_and_packets_a_limit() {
    let head = |len: u16| {
        let mut octets = vec![2, 9];
        octets.extend(len.to_be_bytes());
        octets.extend([7; AUTHENTICATOR_LEN]);
        octets
    };
    for len in [0, 1, 2] {
        let mut octets = head(22);
        octets.extend([1, len]);
        let fault = Malformed::Length("RADIUS attribute");
        assert_eq!(Packet::parse(&octets), Err(fault));
    }
    let mut octets = head(4098);
    while octets.len() < 4098 {
        octets.extend([200, 3, 0]);
    }
    octets.truncate(4098);
    assert!(Packet::parse(&octets).is_err());
}

#[test]
fn an_eap_packet_of_any_length_is_in_parts() {
    for len in [1_usize, 252, 253, 254, 1500] {
        let eap: Vec<u8> = (0..len).map(|at| at as u8).collect();
        let packet = Packet {
            code: Code::AccessChallenge,
            id: 3,
            authenticator: [1; AUTHENTICATOR_LEN],
            attributes: Attribute::of_eap(&eap).collect(),
        };
        assert_eq!(packet.attributes.len(), len.div_ceil(MAX_VALUE_LEN));
        let read = Packet::parse(&packet.to_vec()).unwrap();
        assert_eq!(read, packet);
        assert_eq!(read.eap(), eap);
    }
    assert_eq!(Attribute::of_eap(&[]).count(), 0);
}

#[test]
fn a_vendor_may_have_several_attributes_in_one_and_broken_ones() {
    let own = |octets: &[u8]| Attribute::of_octets(Kind::VendorSpecific, octets).unwrap();
    let mut both = MICROSOFT.to_be_bytes().to_vec();
    both.extend([1, 3, 9, MPPE_SEND_KEY, 5, 1, 2, 3]);
    let mut broken = MICROSOFT.to_be_bytes().to_vec();
    broken.extend([MPPE_RECV_KEY, 200, 1]);
    let mut other = 9_u32.to_be_bytes().to_vec();
    other.extend([MPPE_RECV_KEY, 4, 1, 1]);
    let packet = Packet {
        code: Code::AccessAccept,
        id: 0,
        authenticator: [0; AUTHENTICATOR_LEN],
        attributes: vec![own(&[1]), own(&broken), own(&other), own(&both)],
    };
    let found = packet.of_vendor(MICROSOFT, MPPE_SEND_KEY);
    assert_eq!(found, Some(&[1, 2, 3][..]));
    assert_eq!(packet.of_vendor(MICROSOFT, MPPE_RECV_KEY), None);
}

#[test]
fn numbers_without_a_name_are_kept() {
    for number in 0..=u8::MAX {
        assert_eq!(Code::from(number).number(), number);
        assert_eq!(Kind::from(number).number(), number);
    }
}
