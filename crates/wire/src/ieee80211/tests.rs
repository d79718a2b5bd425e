use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codec::{Malformed, Reader, Writer};
use crate::tests::hex;

const AP: Address = Address([0x02, 0, 0, 0, 0, 1]);
const STATION: Address = Address([0x02, 0, 0, 0, 0, 2]);

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    write(&mut w);
    w.into_vec()
}

/// Header and CCMP header of P802.11i/D7.0 annex I.7.4, the seventh MPDU.
#[test]
fn a_published_header_is_read() {
    let frame = hex("187981469b50f4fd56f6efec9520169183570c4ccdee20a0 23e700e07340ec5e");
    let (header, len) = Header::parse(&frame).unwrap();
    assert_eq!(len, 24);
    assert_eq!(header.direction(), Direction::ToAccessPoint);
    assert_eq!(header.receiver.to_string(), "9b:50:f4:fd:56:f6");
    assert_eq!(
        header.source(),
        Address(hex("efec95201691").try_into().unwrap())
    );
    assert_eq!(
        header.destination(),
        Address(hex("83570c4ccdee").try_into().unwrap())
    );
    assert!(header.is_protected() && !header.is_fragment());
    assert_eq!(written(|w| header.write(w)), frame[..24]);
    let iv = ExtendedIv::read(&mut Reader::new(&frame[24..])).unwrap();
    assert_eq!((iv.number, iv.key_id), (0x5eec_4073_e723, 3));
    assert_eq!(iv.octets(), frame[24..]);
}

/// The same annex, I.7.2 and the TKIP MPDU of I.7.3.
#[test]
fn published_ivs_are_read() {
    let wep = hex("fb029e80");
    let iv = WepIv::read(&mut Reader::new(&wep)).unwrap();
    assert_eq!((iv.iv, iv.key_id), ([0xfb, 0x02, 0x9e], 2));
    assert_eq!(iv.octets(), wep[..]);
    let tkip = hex("0020012000000000");
    let iv = ExtendedIv::read_tkip(&mut Reader::new(&tkip)).unwrap();
    assert_eq!((iv.number, iv.key_id), (1, 0));
    assert_eq!(iv.tkip_octets(), tkip[..]);
    let swapped = Err(Malformed::Value("extended IV bit of WEP"));
    assert_eq!(WepIv::read(&mut Reader::new(&tkip)), swapped);
    let swapped = Err(Malformed::Value("extended IV bit"));
    assert_eq!(ExtendedIv::read(&mut Reader::new(&[0; 8])), swapped);
}

#[test]
fn headers_that_are_not_ours_are_refused() {
    let refused = |first: u8, second: u8| {
        let mut frame = [0; 30];
        frame[..2].copy_from_slice(&[first, second]);
        Header::parse(&frame).unwrap_err()
    };
    assert_eq!(refused(0x09, 0), Malformed::Value("802.11 version"));
    assert_eq!(refused(0xb4, 0), Malformed::Value("frame type"));
    let four = Malformed::Value("frame with four addresses");
    assert_eq!(refused(0x08, 0x03), four);
    let (header, len) = Header::parse(&[0x88; 26]).unwrap();
    assert_eq!((header.qos, len), (Some(0x8888), 26));
    for end in 0..26 {
        assert!(Header::parse(&[0x88; 26][..end]).is_err(), "{end}");
    }
}

/// RFC 1042, and IEEE 802.1H for IPX.
#[test]
fn types_become_llc_and_snap() {
    assert_eq!(snap::octets(0x0800), hex("aaaa030000000800")[..]);
    assert_eq!(snap::octets(0x8137), hex("aaaa030000f88137")[..]);
    let read = |octets: &str| snap::read(&mut Reader::new(&hex(octets)));
    assert_eq!(read("aaaa03000000888e"), Ok(ETHERTYPE_EAPOL));
    assert_eq!(read("aaaa030000f88137"), Ok(0x8137));
    for wrong in [
        "aaaa0300000005ff",
        "aaaa030000008137",
        "aaaa030000f80800",
        "424203000000",
    ] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
    let header = EthernetHeader {
        destination: AP,
        source: STATION,
        ethertype: 0x86dd,
    };
    let octets = header.octets();
    assert_eq!(EthernetHeader::read(&mut Reader::new(&octets)), Ok(header));
    let length = [[0; 12].as_slice(), &[0x05, 0xdc]].concat();
    let refused = Err(Malformed::Value("Ethernet type"));
    assert_eq!(EthernetHeader::read(&mut Reader::new(&length)), refused);
}

#[test]
fn eapol_ends_where_its_length_says() {
    let octets = hex("01030002 aabb 0000");
    let eapol = Eapol::parse(&octets).unwrap();
    assert_eq!((eapol.version, eapol.kind), (1, PacketType::Key));
    assert_eq!(eapol.body, [0xaa, 0xbb]);
    assert_eq!(written(|w| eapol.write(w)), octets[..6]);
    let truncated = Err(Malformed::Truncated("EAPOL body"));
    assert_eq!(Eapol::parse(&octets[..5]), truncated);
    let other = [1, 9, 0, 0];
    assert_eq!(Eapol::parse(&other).unwrap().kind, PacketType::Other(9));
}

#[test]
fn the_mic_is_where_the_constants_say() {
    let frame = KeyFrame {
        mic: [0xee; MIC_LEN],
        ..key_frame(&[1, 2, 3])
    };
    let body = written(|w| frame.write(w));
    assert_eq!(body.len(), KEY_FRAME_LEN + 3);
    let packet = [[2, 3, 0, 98].as_slice(), &body].concat();
    assert_eq!(packet[KeyFrame::MIC_AT], [0xee; 16]);
    let rc4 = Rc4KeyFrame {
        signature: [0xdd; 16],
        ..rc4_key(&[7; 13])
    };
    let body = written(|w| rc4.write(w));
    assert_eq!(body.len(), RC4_KEY_LEN + 13);
    let packet = [[1, 3, 0, 57].as_slice(), &body].concat();
    assert_eq!(packet[Rc4KeyFrame::SIGNATURE_AT], [0xdd; 16]);
}

#[test]
fn key_frames_are_truncated_nowhere_and_end_where_they_say() {
    let body = written(|w| key_frame(&[1, 2, 3]).write(w));
    for end in 0..body.len() {
        assert!(KeyFrame::parse(&body[..end]).is_err(), "{end}");
    }
    let long = [body.as_slice(), &[0]].concat();
    let trailing = Err(Malformed::Trailing("EAPOL-Key frame"));
    assert_eq!(KeyFrame::parse(&long), trailing);
    let of_rc4 = written(|w| rc4_key(&[]).write(w));
    assert_eq!(
        KeyFrame::parse(&of_rc4),
        Err(Malformed::Value("key descriptor"))
    );
    assert!(Rc4KeyFrame::parse(&body).is_err());
    for end in 0..RC4_KEY_LEN {
        assert!(Rc4KeyFrame::parse(&of_rc4[..end]).is_err(), "{end}");
    }
    let half = written(|w| rc4_key(&[7; 13]).write(w));
    let refused = Rc4KeyFrame::parse(&half[..half.len() - 1]).err();
    assert_eq!(refused, Some(Malformed::Length("key")));
    let mut other = body.clone();
    other[0] = 77;
    let parsed = KeyFrame::parse(&other).unwrap();
    assert_eq!(parsed.descriptor, Descriptor::Other(77));
}

/// The element that WPA2-PSK with CCMP has everywhere.
#[test]
fn the_usual_rsn_element_is_read() {
    let octets = hex("3014 0100 000fac04 0100 000fac04 0100 000fac02 0000");
    let rsn = Rsn::parse(&octets[2..]).unwrap();
    assert_eq!(rsn.pairwise, [CipherSuite::Ccmp128]);
    assert_eq!(rsn.akms, [AkmSuite::Psk]);
    assert_eq!(written(|w| rsn.write(w)), octets);
}

/// Each field may be the last (IEEE 802.11-2020 §9.4.2.24.1), but none is half.
#[test]
fn an_rsn_element_may_end_after_each_field() {
    let full = hex(
        "0100 000fac09 0100 000fac09 0200 000fac08 000fac12 c000 0100 \
         00112233445566778899aabbccddeeff 000fac06",
    );
    let ends = [2, 6, 12, 22, 24, 42, 46];
    for end in 0..=full.len() {
        let parsed = Rsn::parse(&full[..end]);
        assert_eq!(parsed.is_ok(), ends.contains(&end), "{end}");
    }
    let rsn = Rsn::parse(&full).unwrap();
    assert_eq!(rsn.akms, [AkmSuite::Sae, AkmSuite::Owe]);
    let of_management = CipherSuite::Other(0x000f_ac06);
    assert_eq!(rsn.group_management, Some(of_management));
    assert_eq!(written(|w| rsn.write(w))[2..], full);
    let short = Rsn::parse(&full[..2]).unwrap();
    assert_eq!(short.akms, [AkmSuite::Ieee8021x]);
    let version = Err(Malformed::Value("RSN version"));
    assert_eq!(Rsn::parse(&[2, 0]), version);
    let many = hex("0100000fac041100000fac04");
    assert_eq!(Rsn::parse(&many), Err(Malformed::TooMany("suites")));
    let many = [&full[..24], &[7, 0]].concat();
    assert_eq!(Rsn::parse(&many), Err(Malformed::TooMany("PMKIDs")));
}

/// The longest that is read, without the fields that have defaults, can be written.
#[test]
fn the_longest_rsn_element_is_written() {
    let suites = [[16, 0].as_slice(), &[0, 0x0f, 0xac, 4].repeat(16)].concat();
    let pmkids = [[0, 0, 6, 0].as_slice(), &[1; 96], &[0, 0x0f, 0xac, 6]].concat();
    let front = [&hex("0100000fac04"), &suites[..]].concat();
    let whole = [&front[..], &suites, &pmkids].concat();
    for body in [&front[..], &whole] {
        let rsn = Rsn::parse(body).unwrap();
        let again = written(|w| rsn.write(w));
        assert_eq!(Rsn::parse(&again[2..]), Ok(rsn));
    }
}

#[test]
fn key_data_are_kdes_elements_and_padding() {
    let gtk = Gtk {
        key_id: 2,
        key: &[9; 16],
    };
    let mut w = Writer::new();
    let rsn = Element {
        id: element_id::RSN,
        body: &[1, 0],
    };
    rsn.write(&mut w);
    write_gtk(&gtk, &mut w);
    // A MAC address: a type that nobody here uses.
    w.bytes(&[0xdd, 10, 0, 0x0f, 0xac, 3, 1, 2, 3, 4, 5, 6]);
    write_pmkid(&[5; 16], &mut w);
    w.bytes(&[0xdd, 4, 0, 0x50, 0xf2, 1]);
    pad_key_data(&mut w);
    assert!(w.len().is_multiple_of(8));
    let octets = w.into_vec();
    let read: Result<Vec<_>, _> = KeyData::new(&octets).collect();
    let [a, b, c, d, e] = read.unwrap().try_into().ok().expect("five parts");
    assert!(a == KeyDatum::Element(rsn));
    assert!(b == KeyDatum::Gtk(gtk));
    assert!(matches!(c, KeyDatum::Element(Element { id: 221, .. })));
    assert!(d == KeyDatum::Pmkid([5; 16]));
    assert!(matches!(e, KeyDatum::Element(Element { id: 221, .. })));
    // A GTK KDE of four octets has no flags.
    let cut = [0xdd, 4, 0, 0x0f, 0xac, 1];
    assert!(KeyData::new(&cut).next().unwrap().is_err());
    let over = [48, 3, 1];
    assert!(KeyData::new(&over).next().unwrap().is_err());
}

#[test]
fn key_data_are_padded_to_two_blocks_at_least() {
    for (len, padded) in [(0, 16), (1, 16), (16, 16), (17, 24), (24, 24)] {
        let mut w = Writer::new();
        w.bytes(&vec![1; len]);
        pad_key_data(&mut w);
        assert_eq!(w.len(), padded);
        assert!(len == padded || w.as_slice()[len] == 0xdd);
    }
}

/// The commit of IEEE 802.11-2020 annex J.10, shortened to its layout.
#[test]
fn a_commit_carries_its_token_in_one_of_two_places() {
    let parts = CommitParts {
        group: 19,
        token: &[1, 2, 3],
        scalar: [4; 32],
        element: [5; 64],
    };
    for is_hash_to_element in [false, true] {
        let octets = written(|w| parts.write(is_hash_to_element, w));
        assert_eq!(octets[..2], [19, 0]);
        assert_eq!(CommitParts::parse(&octets, is_hash_to_element), Ok(parts));
        for end in 0..98 {
            let cut = CommitParts::parse(&octets[..end], is_hash_to_element);
            assert!(cut.is_err(), "{end}");
        }
    }
    assert_eq!(CommitParts::peek_group(&[20, 0]), Ok(20));
    let authentication = Authentication {
        algorithm: SAE_ALGORITHM,
        transaction: 1,
        status: sae_status::HASH_TO_ELEMENT,
        fields: &[19, 0],
    };
    let octets = written(|w| authentication.write(w));
    assert_eq!(octets, [3, 0, 1, 0, 126, 0, 19, 0]);
    assert_eq!(Authentication::parse(&octets), Ok(authentication));
    assert!(Authentication::parse(&octets[..5]).is_err());
}

fn key_frame(data: &[u8]) -> KeyFrame<'_> {
    KeyFrame {
        descriptor: Descriptor::Ieee80211,
        information: key_information::PAIRWISE | key_information::HMAC_SHA1_AES,
        key_length: 16,
        replay_counter: 1,
        nonce: [3; NONCE_LEN],
        iv: [0; 16],
        receive_sequence: [0; 8],
        mic: [0; MIC_LEN],
        data,
    }
}

fn rc4_key(key: &[u8]) -> Rc4KeyFrame<'_> {
    Rc4KeyFrame {
        key_length: 13,
        replay_counter: 77,
        iv: [1; 16],
        index: 1,
        is_unicast: true,
        signature: [0; 16],
        key,
    }
}

proptest! {
    #[test]
    fn what_can_be_read_is_written_again(octets in vec(any::<u8>(), 0..160)) {
        if let Ok((header, len)) = Header::parse(&octets) {
            prop_assert_eq!(written(|w| header.write(w)), &octets[..len]);
        }
        if let Ok(rsn) = Rsn::parse(&octets) {
            let again = written(|w| rsn.write(w));
            prop_assert_eq!(Rsn::parse(&again[2..]), Ok(rsn));
        }
        for element in Elements::new(&octets).flatten() {
            let again = written(|w| element.write(w));
            prop_assert!(Element::read(&mut Reader::new(&again)).is_ok_and(|it| it == element));
        }
        let parts = KeyData::new(&octets).count();
        prop_assert!(parts <= octets.len());
    }

    #[test]
    fn key_frames_come_back(
        information in any::<u16>(),
        counter in any::<u64>(),
        data in vec(any::<u8>(), 0..80),
    ) {
        let frame = KeyFrame { information, replay_counter: counter, ..key_frame(&data) };
        let octets = written(|w| frame.write(w));
        prop_assert_eq!(KeyFrame::parse(&octets), Ok(frame));
    }

    #[test]
    fn packet_numbers_come_back(number in 0..=ExtendedIv::LAST, key_id in 0..4u8) {
        let iv = ExtendedIv { number, key_id };
        prop_assert_eq!(ExtendedIv::read(&mut Reader::new(&iv.octets())), Ok(iv));
        prop_assert_eq!(ExtendedIv::read_tkip(&mut Reader::new(&iv.tkip_octets())), Ok(iv));
    }
}

#[test]
fn bodies_of_management_frames_come_back() {
    let mut elements = Writer::new();
    write_ssid(b"caravan", &mut elements);
    write_rates(&mut elements);
    write_diffie_hellman(&[19, 0, 7], &mut elements);
    let elements = elements.into_vec();
    let beacon = Beacon {
        timestamp: 0x0102_0304,
        interval: 100,
        capabilities: capability::ESS,
        elements: &elements,
    };
    let mut w = Writer::new();
    beacon.write(&mut w);
    assert_eq!(Beacon::parse(w.as_slice()), Ok(beacon));
    let request = AssociationRequest {
        capabilities: capability::ESS | capability::PRIVACY,
        listen_interval: 1,
        elements: &elements,
    };
    let mut w = Writer::new();
    request.write(&mut w);
    assert_eq!(AssociationRequest::parse(w.as_slice()), Ok(request));
    for len in 0..4 {
        assert!(AssociationRequest::parse(&w.as_slice()[..len]).is_err());
    }
    let response = AssociationResponse {
        capabilities: 0,
        status: status::NO_ROOM,
        association_id: 2007,
        elements: &elements,
    };
    let mut w = Writer::new();
    response.write(&mut w);
    assert_eq!(w.as_slice()[4..6], [0xd7, 0xc7]);
    assert_eq!(AssociationResponse::parse(w.as_slice()), Ok(response));
    assert_eq!(read_reason(&[7, 0]), Ok(reason::NOT_ASSOCIATED));
    assert!(read_reason(&[7]).is_err());
}

#[test]
fn a_comeback_time_is_read_from_a_whole_element_of_its_type() {
    let mut w = Writer::new();
    write_comeback(0x0403_0201, &mut w);
    let element = w.into_vec();
    assert_eq!(element, [56, 5, 3, 1, 2, 3, 4]);
    assert_eq!(read_comeback(&element), Some(0x0403_0201));
    for len in 0..element.len() {
        assert_eq!(read_comeback(&element[..len]), None);
    }
    for other in [[56, 5, 2, 1, 2, 3, 4], [56, 4, 3, 1, 2, 3, 4]] {
        assert_eq!(read_comeback(&other), None);
    }
}

#[test]
fn elements_are_found_whole_and_not_beyond_a_malformed_one() {
    let mut w = Writer::new();
    write_ssid(b"net", &mut w);
    write_diffie_hellman(&[19, 0, 7], &mut w);
    w.bytes(&[element_id::RATES, 1, 0x82]);
    let all = w.into_vec();
    assert_eq!(
        find_element(&all, element_id::SSID),
        Some(&b"\0\x03net"[..])
    );
    assert_eq!(find_element(&all, element_id::RATES), Some(&all[11..]));
    assert_eq!(find_element(&all, element_id::RSN), None);
    let public = find_extension(&all, extension::DIFFIE_HELLMAN);
    assert_eq!(public, Some(&[19, 0, 7][..]));
    assert_eq!(find_extension(&all, extension::ANTI_CLOGGING_TOKEN), None);
    for len in 0..all.len() {
        assert_eq!(find_element(&all[..len], element_id::RATES), None, "{len}");
    }
}
