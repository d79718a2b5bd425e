use proptest::collection::vec;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::codec::Malformed;
use crate::tests::hex;

/// The first message of main mode, spelled out by hand from RFC 2408 §3 and RFC 2409 appendix A:
/// one proposal, two transforms, and the vendor ID of DPD.
const FIRST_MESSAGE: &str = "
    0123456789abcdef 0000000000000000 01 10 02 00 00000000 00000088
    0d 00 0058 00000001 00000001
      00 00 004c 01 01 00 02
        03 00 0024 01 01 0000
          80010007 800e0080 80020002 80030001 8004000e 800b0001 800c7080
        00 00 0020 02 01 0000
          80010005 80020001 80030001 80040002 800b0001 800c7080
    00 00 0014 afcad71368a1f1c96b8696fc77570100";

fn first_message_transforms() -> Vec<Transform> {
    let lifetime = |mut attributes: Vec<Attribute>| {
        attributes.push(Attribute::short(phase1::LIFE_TYPE, phase2::life::SECONDS));
        attributes.push(Attribute::number(phase1::LIFE_DURATION, 28800));
        attributes
    };
    let aes = lifetime(vec![
        Attribute::short(phase1::ENCRYPTION, phase1::encryption::AES_CBC),
        Attribute::short(phase1::KEY_LENGTH, 128),
        Attribute::short(phase1::HASH, phase1::hash::SHA1),
        Attribute::short(
            phase1::AUTHENTICATION,
            phase1::authentication::PRE_SHARED_KEY,
        ),
        Attribute::short(phase1::GROUP, 14),
    ]);
    let triple_des = lifetime(vec![
        Attribute::short(phase1::ENCRYPTION, phase1::encryption::TRIPLE_DES_CBC),
        Attribute::short(phase1::HASH, phase1::hash::MD5),
        Attribute::short(
            phase1::AUTHENTICATION,
            phase1::authentication::PRE_SHARED_KEY,
        ),
        Attribute::short(phase1::GROUP, 2),
    ]);
    let transform = |number, attributes| Transform {
        number,
        id: phase1::transform::KEY_IKE,
        attributes,
    };
    vec![transform(1, aes), transform(2, triple_des)]
}

#[test]
fn first_message_of_main_mode_reads_and_writes() {
    let datagram = hex(FIRST_MESSAGE);
    let (header, body) = Header::parse(&datagram).unwrap();
    assert_eq!(header.exchange, Exchange::IdentityProtection);
    assert_eq!(header.cookies.responder, Cookie::ZERO);
    assert_eq!(header.next_payload, PayloadKind::Sa);
    let located = payloads(header.next_payload, body).unwrap();
    let sa = Payload::Sa(SaPayload {
        proposals: vec![Proposal {
            number: 1,
            protocol: ProtocolId::Isakmp,
            spi: vec![],
            transforms: first_message_transforms(),
        }],
    });
    let vendor = Payload::VendorId(vendor::DPD.to_vec());
    assert_eq!(located[0].payload, sa);
    assert_eq!(located[0].range, 0..0x58);
    assert_eq!(body[located[0].body_range()], sa.body());
    assert_eq!(located[1].payload, vendor);
    assert_eq!(located[1].range, 0x58..0x6c);

    let (kind, written) = write_payloads(&[sa, vendor]);
    assert_eq!(kind, header.next_payload);
    assert_eq!(header.write(&written), datagram);
}

#[test]
fn every_truncation_is_refused() {
    let datagram = hex(FIRST_MESSAGE);
    for len in 0..datagram.len() {
        assert!(Header::parse(&datagram[..len]).is_err(), "{len} octets");
    }
    let body = &datagram[HEADER_LEN..];
    for len in 0..body.len() {
        assert!(
            payloads(PayloadKind::Sa, &body[..len]).is_err(),
            "{len} octets"
        );
    }
}

#[test]
fn header_refuses_what_its_length_or_version_denies() {
    let good = hex(FIRST_MESSAGE);
    let mut long = good.clone();
    long.push(0);
    assert_eq!(
        Header::parse(&long),
        Err(Malformed::Trailing("ISAKMP message"))
    );
    let mut short = good.clone();
    short[24..28].copy_from_slice(&27u32.to_be_bytes());
    assert_eq!(
        Header::parse(&short),
        Err(Malformed::Length("ISAKMP message"))
    );
    let mut huge = good.clone();
    huge[24..28].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(
        Header::parse(&huge),
        Err(Malformed::Truncated("ISAKMP message"))
    );
    let mut ikev2 = good;
    ikev2[17] = 0x20;
    assert_eq!(
        Header::parse(&ikev2),
        Err(Malformed::Value("ISAKMP version"))
    );
}

#[test]
fn chain_refuses_short_looping_and_endless_payloads() {
    for len in 0..4 {
        let body = [0, 0, 0, len];
        assert_eq!(
            payloads(PayloadKind::Hash, &body),
            Err(Malformed::Length("payload"))
        );
    }
    assert_eq!(
        payloads(PayloadKind::Hash, &[0, 1, 0, 4]),
        Err(Malformed::Value("reserved octet"))
    );
    let endless = [13, 0, 0, 4].repeat(65);
    assert_eq!(
        payloads(PayloadKind::VendorId, &endless),
        Err(Malformed::TooMany("payloads"))
    );
    let mut full = [13, 0, 0, 4].repeat(MAX_PAYLOADS);
    full[4 * (MAX_PAYLOADS - 1)] = 0;
    assert_eq!(
        payloads(PayloadKind::VendorId, &full).unwrap().len(),
        MAX_PAYLOADS
    );
}

#[test]
fn padding_after_the_chain_is_left_to_the_caller() {
    let body = [0, 0, 0, 6, 1, 2, 9, 9, 9];
    let located = payloads(PayloadKind::Hash, &body).unwrap();
    assert_eq!(located.len(), 1);
    assert_eq!(located[0].range, 0..6);
    assert_eq!(located[0].payload, Payload::Hash(vec![1, 2]));
    assert!(payloads(PayloadKind::None, &body).unwrap().is_empty());
}

#[test]
fn sa_payload_refuses_contradictions() {
    let sa = |text: &str| {
        let body = hex(text);
        let mut chain = vec![0, 0, 0, body.len() as u8 + 4];
        chain.extend(body);
        payloads(PayloadKind::Sa, &chain)
    };
    let head = "00000001 00000001";
    let good = format!("{head} 00000010 01010001 00000008 01010000");
    assert!(sa(&good).is_ok());
    assert!(sa("00000002 00000001 00000010 01010001 00000008 01010000").is_err());
    assert!(sa("00000001 00000002 00000010 01010001 00000008 01010000").is_err());
    assert!(sa(head).is_err());
    // One announced transform too many, one too few, and none.
    assert!(sa(&format!("{head} 00000010 01010002 00000008 01010000")).is_err());
    assert!(
        sa(&format!(
            "{head} 00000018 01010001 03000008 01010000 00000008 01010000"
        ))
        .is_err()
    );
    assert!(sa(&format!("{head} 00000008 01010000")).is_err());
    // An announced proposal that is missing, and octets after the last.
    assert!(sa(&format!("{head} 02000010 01010001 00000008 01010000")).is_err());
    assert!(sa(&format!("{good} 00")).is_err());
    // A nested kind that is not allowed there.
    assert!(sa(&format!("{head} 05000010 01010001 00000008 01010000")).is_err());
    let endless = "02000010 01010001 00000008 01010000".repeat(MAX_PROPOSALS);
    let full = format!("{head} {endless} 00000010 01010001 00000008 01010000");
    let mut chain = hex(&full);
    let len = chain.len() as u16 + 4;
    chain.splice(0..0, [0, 0, (len >> 8) as u8, len as u8]);
    assert_eq!(
        payloads(PayloadKind::Sa, &chain),
        Err(Malformed::TooMany("proposals"))
    );
}

#[test]
fn phase_one_spi_is_read_and_ignored() {
    let body =
        hex("00000024 00000001 00000001 00000018 01010801 1122334455667788 00000008 01010000");
    let located = payloads(PayloadKind::Sa, &body).unwrap();
    let Payload::Sa(sa) = &located[0].payload else {
        panic!("{located:?}")
    };
    assert!(sa.proposals[0].spi.is_empty());
}

#[test]
fn delete_of_spis_without_length_is_refused() {
    let body = hex("0000000c 00000001 03000001");
    assert_eq!(
        payloads(PayloadKind::Delete, &body),
        Err(Malformed::Length("delete SPI"))
    );
    let body = hex("0000000c 00000001 03040101");
    assert_eq!(
        payloads(PayloadKind::Delete, &body),
        Err(Malformed::TooMany("deleted SPIs"))
    );
    let body = hex("0000000d 00000001 03040000 ff");
    assert_eq!(
        payloads(PayloadKind::Delete, &body),
        Err(Malformed::Trailing("payload"))
    );
}

#[test]
fn nat_original_address_has_the_layout_of_rfc_3947() {
    let nat_oa = Payload::NatOriginalAddress(IpAddr::from([10, 0, 0, 7]));
    assert_eq!(nat_oa.body(), hex("01000000 0a000007"));
    assert_eq!(nat_oa.kind().number(), 21);
    let wrong = hex("0000000c 04000000 0a000007");
    assert!(payloads(PayloadKind::NatOriginalAddress, &wrong).is_err());
}

#[test]
fn fragment_number_zero_is_refused() {
    let body = hex("00000009 0001 00 01 ff");
    assert_eq!(
        payloads(PayloadKind::Fragment, &body),
        Err(Malformed::Value("fragment number"))
    );
}

#[test]
fn nonces_outside_rfc_2409_are_refused() {
    for (len, is_good) in [(7, false), (8, true), (256, true), (257, false)] {
        let (kind, body) = write_payloads(&[Payload::Nonce(vec![1; len])]);
        assert_eq!(payloads(kind, &body).is_ok(), is_good, "{len}");
    }
}

#[test]
fn identifications_say_what_they_cover() {
    let net = Identification::subnet([10, 1, 2, 3].into(), 16);
    assert_eq!(net.value, [10, 1, 0, 0, 255, 255, 0, 0]);
    assert_eq!(net.to_subnet(), Some(([10, 1, 0, 0].into(), 16)));
    let whole = ([10, 1, 0, 0].into(), [10, 1, 255, 255].into());
    assert_eq!(net.to_range(), Some(whole));
    assert_eq!(net.to_address(), None);
    assert_eq!(net.to_string(), "10.1.0.0/16");

    let any = Identification::subnet(IpAddr::from([1u8; 16]), 0);
    assert_eq!(any.to_string(), "::/0");
    let host = Identification::subnet([10, 1, 2, 3].into(), 200);
    assert_eq!(host.to_subnet(), Some(([10, 1, 2, 3].into(), 32)));

    let one = Identification::address([10, 1, 2, 3].into()).with_port(17, 1701);
    assert_eq!(one.to_string(), "10.1.2.3[17/1701]");
    assert_eq!(
        one.to_range(),
        Some(([10, 1, 2, 3].into(), [10, 1, 2, 3].into()))
    );

    let range = Identification::range([10, 0, 0, 1].into(), [10, 0, 0, 9].into()).unwrap();
    assert_eq!(range.to_string(), "10.0.0.1-10.0.0.9");
    assert_eq!(
        Identification::range([2, 0, 0, 0].into(), [1, 0, 0, 0].into()),
        None
    );
    assert_eq!(
        Identification::range([2, 0, 0, 0].into(), [1; 16].into()),
        None
    );

    let mut odd = net;
    odd.value[5] = 0x0f;
    assert_eq!(odd.to_subnet(), None);
    assert_eq!(odd.to_range(), None);
    assert_eq!(odd.to_string(), "#0a010000ff0f0000");

    let name = Identification::of(IdentificationType::Fqdn, "sg\n.example");
    assert_eq!(name.to_string(), "sg\\n.example");
    let key = Identification::of(IdentificationType::KeyId, [1, 2]);
    assert_eq!(key.to_string(), "#0102");
}

#[test]
fn identification_data_must_suit_its_type() {
    for (kind, len) in [(1, 4), (4, 8), (5, 16), (6, 32), (7, 8), (8, 32)] {
        for wrong in [0, len - 1, len + 1] {
            let id = Identification::of(kind.into(), vec![0; wrong]);
            let (first, body) = write_payloads(&[Payload::Identification(id)]);
            assert!(
                payloads(first, &body).is_err(),
                "type {kind}, {wrong} octets"
            );
        }
    }
}

#[test]
fn attribute_values_are_numbers_in_either_form() {
    assert_eq!(Attribute::short(1, 7).value.number(), Some(7));
    assert_eq!(
        Attribute::long(1, [0, 1, 0, 0]).value.number(),
        Some(0x10000)
    );
    assert_eq!(Attribute::long(1, [0xff; 8]).value.number(), Some(u64::MAX));
    assert_eq!(Attribute::long(1, [0; 9]).value.number(), None);
    assert_eq!(Attribute::long(1, []).value.number(), None);
    assert_eq!(Attribute::number(1, 0xffff), Attribute::short(1, 0xffff));
    assert_eq!(
        Attribute::number(1, 0x10000),
        Attribute::long(1, [0, 1, 0, 0])
    );
}

/// Libreswan 4 as a gateway: the network behind it is an attribute of 14 octets.
#[test]
fn attributes_of_mode_config_may_be_padded_to_four_octets() {
    let attributes = [
        &[2, 0, 0, 7][..],
        &[0, 1, 0, 4, 10, 99, 0, 7],
        &[
            0x70, 4, 0, 14, 10, 10, 0, 0, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0,
        ],
    ]
    .concat();
    let read = |padding: &[u8]| {
        let len = 4 + attributes.len() + padding.len();
        let head = [0, 0, 0, u8::try_from(len).unwrap()];
        let body = [&head[..], &attributes, padding].concat();
        payloads(PayloadKind::Attributes, &body)
    };
    for padding in [&[][..], &[0], &[0, 0], &[0, 0, 0]] {
        let found = read(padding).unwrap();
        let Payload::Attributes(found) = &found[0].payload else {
            panic!("one of attributes");
        };
        assert_eq!(found.attributes.len(), 2);
        assert_eq!(found.attributes[0], Attribute::long(1, [10, 99, 0, 7]));
        assert_eq!(found.attributes[1].kind, 0x7004);
    }
    assert!(read(&[0, 1]).is_err());
    assert_eq!(
        read(&[0; 4]).map(|it| it.len()),
        Ok(1),
        "an empty attribute"
    );
}

#[test]
fn numbers_and_names_agree() {
    for n in 0..=u8::MAX {
        assert_eq!(PayloadKind::from(n).number(), n);
        assert_eq!(Exchange::from(n).number(), n);
        assert_eq!(IdentificationType::from(n).number(), n);
        assert_eq!(ConfigType::from(n).number(), n);
        assert_eq!(ProtocolId::from(n).number(), n);
    }
    for n in 0..=u16::MAX {
        assert_eq!(NotifyType::from(n).number(), n);
        assert_eq!(ConfigKind::from(n).number(), n);
    }
    assert_eq!(NotifyType::from(36136), NotifyType::RUThere);
    assert_eq!(PayloadKind::from(130), PayloadKind::Other(130));
    assert!(NotifyType::NoProposalChosen.is_error());
    assert!(!NotifyType::InitialContact.is_error());
}

fn octets(max: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..max)
}

fn attribute() -> impl Strategy<Value = Attribute> {
    prop_oneof![
        (0..0x8000u16, any::<u16>()).prop_map(|(kind, value)| Attribute::short(kind, value)),
        (0..0x8000u16, octets(12)).prop_map(|(kind, value)| Attribute::long(kind, value)),
    ]
}

fn transform() -> impl Strategy<Value = Transform> {
    (any::<u8>(), any::<u8>(), vec(attribute(), 0..8)).prop_map(|(number, id, attributes)| {
        Transform {
            number,
            id,
            attributes,
        }
    })
}

fn proposal() -> impl Strategy<Value = Proposal> {
    (any::<u8>(), any::<u8>(), octets(9), vec(transform(), 1..5)).prop_map(
        |(number, protocol, spi, transforms)| {
            let protocol = ProtocolId::from(protocol);
            Proposal {
                number,
                protocol,
                spi: if protocol == ProtocolId::Isakmp {
                    vec![]
                } else {
                    spi
                },
                transforms,
            }
        },
    )
}

fn identification() -> impl Strategy<Value = Identification> {
    let id = prop_oneof![
        any::<IpAddr>().prop_map(Identification::address),
        (any::<IpAddr>(), any::<u8>()).prop_map(|(a, len)| Identification::subnet(a, len)),
        (any::<Ipv4Addr>(), any::<Ipv4Addr>()).prop_map(|(a, b)| Identification::range(
            a.min(b).into(),
            a.max(b).into()
        )
        .unwrap()),
        (9..=u8::MAX, octets(40)).prop_map(|(kind, value)| Identification::of(kind.into(), value)),
    ];
    (id, any::<u8>(), any::<u16>()).prop_map(|(id, protocol, port)| id.with_port(protocol, port))
}

fn delete() -> impl Strategy<Value = Delete> {
    (any::<u8>(), 1..20usize, 0..9usize, any::<u8>()).prop_map(|(protocol, len, count, fill)| {
        Delete {
            protocol: protocol.into(),
            spis: (0..count)
                .map(|i| vec![fill.wrapping_add(i as u8); len])
                .collect(),
        }
    })
}

fn payload() -> impl Strategy<Value = Payload> {
    let notify = (any::<u8>(), octets(20), any::<u16>(), octets(20));
    let config = (any::<u8>(), any::<u16>(), vec(attribute(), 0..8));
    let fragment = (any::<u16>(), 1..=u8::MAX, any::<bool>(), octets(50));
    prop_oneof![
        vec(proposal(), 1..5).prop_map(|proposals| Payload::Sa(SaPayload { proposals })),
        octets(300).prop_map(Payload::KeyExchange),
        identification().prop_map(Payload::Identification),
        (any::<u8>(), octets(50))
            .prop_map(|(encoding, body)| Payload::Certificate { encoding, body }),
        (any::<u8>(), octets(50)).prop_map(|(encoding, authority)| Payload::CertificateRequest {
            encoding,
            authority
        }),
        octets(65).prop_map(Payload::Hash),
        octets(300).prop_map(Payload::Signature),
        vec(any::<u8>(), 8..=256).prop_map(Payload::Nonce),
        notify.prop_map(|(protocol, spi, kind, value)| Payload::Notify(Notify {
            protocol: protocol.into(),
            spi,
            kind: kind.into(),
            value,
        })),
        delete().prop_map(Payload::Delete),
        octets(30).prop_map(Payload::VendorId),
        config.prop_map(
            |(kind, identifier, attributes)| Payload::Attributes(ConfigAttributes {
                kind: kind.into(),
                identifier,
                attributes,
            })
        ),
        octets(65).prop_map(Payload::NatDiscovery),
        any::<IpAddr>().prop_map(Payload::NatOriginalAddress),
        fragment.prop_map(|(id, number, is_last, data)| Payload::Fragment(Fragment {
            id,
            number,
            is_last,
            data,
        })),
        (133..=u8::MAX, octets(50)).prop_map(|(kind, body)| Payload::Other { kind, body }),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let numbers = (any::<u8>(), any::<u8>(), any::<u8>(), any::<u32>());
    (any::<[u8; 8]>(), any::<[u8; 8]>(), numbers).prop_map(|(initiator, responder, numbers)| {
        let (next_payload, exchange, flags, message_id) = numbers;
        Header {
            cookies: Cookies {
                initiator: Cookie(initiator),
                responder: Cookie(responder),
            },
            next_payload: next_payload.into(),
            exchange: exchange.into(),
            flags: Flags(flags),
            message_id,
        }
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        header in header(),
        list in vec(payload(), 0..6),
        padding in octets(16),
    ) {
        let (kind, body) = write_payloads(&list);
        let datagram = header.write(&body);
        prop_assert_eq!(Header::parse(&datagram), Ok((header, &body[..])));

        let mut padded = body.clone();
        padded.extend(padding);
        let located = payloads(kind, &padded).unwrap();
        let mut end = 0;
        for one in &located {
            prop_assert_eq!(one.range.start, end);
            prop_assert_eq!(&padded[one.body_range()], one.payload.body());
            end = one.range.end;
        }
        prop_assert_eq!(end, body.len());
        let read: Vec<Payload> = located.into_iter().map(|one| one.payload).collect();
        prop_assert_eq!(read, list);
    }

    #[test]
    fn every_strict_prefix_of_a_chain_is_refused(
        list in vec(payload(), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (kind, body) = write_payloads(&list);
        prop_assert!(payloads(kind, &body[..cut.index(body.len())]).is_err());
    }

    #[test]
    fn arbitrary_octets_never_panic(first in any::<u8>(), body in octets(200)) {
        let _ = Header::parse(&body);
        if let Ok(located) = payloads(first.into(), &body) {
            for one in located {
                if let Payload::Identification(id) = one.payload {
                    let _ = (id.to_string(), id.to_range());
                }
            }
        }
    }

    #[test]
    fn a_flipped_octet_never_panics_and_what_reads_rewrites_equal(
        list in vec(payload(), 1..4),
        at in any::<prop::sample::Index>(),
        flip in 1..=u8::MAX,
    ) {
        let (kind, mut body) = write_payloads(&list);
        let at = at.index(body.len());
        body[at] ^= flip;
        if let Ok(located) = payloads(kind, &body) {
            let read: Vec<Payload> = located.into_iter().map(|one| one.payload).collect();
            let (kind, again) = write_payloads(&read);
            let located = payloads(kind, &again).unwrap();
            let reread: Vec<Payload> = located.into_iter().map(|one| one.payload).collect();
            prop_assert_eq!(read, reread);
        }
    }
}
