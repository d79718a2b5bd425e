//! Messages from a generator: what is written reads back.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn what_is_written_reads_back(header in header(), list in vec(payload(), 0..6)) {
        let (first, body) = write_payloads(&list);
        let header = Header { next_payload: first, ..header };
        let datagram = header.write(&body);
        let message = Message::parse(&datagram).unwrap();
        prop_assert_eq!(message.header, header);
        prop_assert_eq!(message.protected, None);
        let mut end = HEADER_LEN;
        for one in &message.clear {
            prop_assert_eq!(one.range.start, end);
            prop_assert_eq!(&datagram[one.body_range()], one.payload.body());
            prop_assert!(!one.is_critical);
            end = one.range.end;
        }
        prop_assert_eq!(end, datagram.len());
        prop_assert_eq!(payloads_of(message.clear), list);
    }

    #[test]
    fn every_strict_prefix_of_a_chain_is_refused(
        list in vec(payload(), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (first, body) = write_payloads(&list);
        prop_assert!(payloads(first, &body[..cut.index(body.len())]).is_err());
    }

    #[test]
    fn a_frame_is_as_long_as_asked_for(
        header in header(),
        first in 0u8..=255,
        fragment in proptest::option::of((1u16..9, 9u16..99)),
        len in 0usize..3000,
    ) {
        let fragment = fragment.map(|(number, total)| FragmentNumbers { number, total });
        let (frame, start) = sealed_frame(&header, first.into(), fragment, len);
        prop_assert_eq!(frame.len(), start + len);
        let protected = Message::parse(&frame).unwrap().protected.unwrap();
        prop_assert_eq!(protected.first, PayloadKind::from(first));
        prop_assert_eq!(protected.fragment, fragment);
        prop_assert_eq!(protected.sealed, start..start + len);
    }

    #[test]
    fn arbitrary_octets_never_panic(first in any::<u8>(), body in octets(200)) {
        let _ = Message::parse(&body);
        let _ = DigitalSignature::parse(&body);
        let _ = Eap::parse(&body);
        let Ok(chain) = payloads(first.into(), &body) else {
            return Ok(());
        };
        let list = payloads_of(chain);
        let (kind, written) = write_payloads(&list);
        let again = payloads(kind, &written).unwrap();
        prop_assert_eq!(payloads_of(again), list);
    }
}

fn octets(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..=most)
}

fn header() -> impl Strategy<Value = Header> {
    let spis = (any::<[u8; 8]>(), any::<[u8; 8]>());
    (spis, any::<u8>(), 0u8..16, any::<u8>(), any::<u32>()).prop_map(
        |((initiator, responder), exchange, minor_version, flags, message_id)| Header {
            spis: Spis {
                initiator: Spi(initiator),
                responder: Spi(responder),
            },
            next_payload: PayloadKind::None,
            minor_version,
            exchange: exchange.into(),
            flags: Flags(flags),
            message_id,
        },
    )
}

fn payload() -> BoxedStrategy<Payload> {
    prop_oneof![
        vec(proposal(), 1..4).prop_map(Payload::SecurityAssociation),
        (any::<u16>(), octets(40))
            .prop_map(|(method, value)| Payload::KeyExchange(KeyExchange { method, value })),
        id().prop_map(Payload::IdentificationInitiator),
        id().prop_map(Payload::IdentificationResponder),
        (any::<u8>(), octets(40)).prop_map(|(encoding, body)| {
            Payload::Certificate(Certificate {
                encoding: encoding.into(),
                body,
            })
        }),
        vec(any::<[u8; 20]>(), 0..3)
            .prop_map(|hashes| Payload::CertificateRequest(CertificateRequest::x509(&hashes))),
        (any::<u8>(), octets(40)).prop_map(|(method, value)| {
            Payload::Authentication(Authentication {
                method: method.into(),
                value,
            })
        }),
        vec(any::<u8>(), NONCE_LEN).prop_map(Payload::Nonce),
        (any::<u8>(), octets(9), any::<u16>(), octets(20)).prop_map(
            |(protocol, spi, kind, value)| {
                Payload::Notify(Notify {
                    protocol: protocol.into(),
                    spi,
                    kind: kind.into(),
                    value,
                })
            }
        ),
        prop_oneof![
            Just(Delete::IkeSa),
            (any::<bool>(), vec(any::<u32>(), 0..4)).prop_map(|(is_ah, spis)| Delete::Children {
                protocol: if is_ah { Protocol::Ah } else { Protocol::Esp },
                spis,
            }),
        ]
        .prop_map(Payload::Delete),
        octets(20).prop_map(Payload::VendorId),
        vec(selector(), 0..4).prop_map(Payload::TrafficSelectorsInitiator),
        vec(selector(), 0..4).prop_map(Payload::TrafficSelectorsResponder),
        (any::<u8>(), vec(attribute(), 0..5)).prop_map(|(kind, attributes)| {
            Payload::Configuration(Configuration {
                kind: kind.into(),
                attributes,
            })
        }),
        (any::<bool>(), any::<u8>(), any::<u8>(), octets(30)).prop_map(
            |(is_request, id, kind, data)| {
                let code = match is_request {
                    true => EapCode::Request,
                    false => EapCode::Response,
                };
                Payload::Eap(Eap::of_kind(code, id, kind.into(), &data))
            }
        ),
        (54u8..=255, octets(30)).prop_map(|(kind, body)| Payload::Other { kind, body }),
    ]
    .boxed()
}

fn proposal() -> impl Strategy<Value = Proposal> {
    let attribute = prop_oneof![
        (0u16..0x8000, any::<u16>()).prop_map(|(kind, value)| Attribute::short(kind, value)),
        (0u16..0x8000, octets(5)).prop_map(|(kind, value)| Attribute::long(kind, value)),
    ];
    let transform =
        (any::<u8>(), any::<u16>(), vec(attribute, 0..3)).prop_map(|(kind, id, attributes)| {
            Transform {
                kind: kind.into(),
                id,
                attributes,
            }
        });
    (any::<u8>(), any::<u8>(), octets(9), vec(transform, 0..4)).prop_map(
        |(number, protocol, spi, transforms)| Proposal {
            number,
            protocol: protocol.into(),
            spi,
            transforms,
        },
    )
}

fn id() -> impl Strategy<Value = Identification> {
    prop_oneof![
        any::<IpAddr>().prop_map(Identification::address),
        (14u8..=255, octets(30)).prop_map(|(kind, value)| Identification::new(kind.into(), value)),
        octets(30).prop_map(|value| Identification::new(IdentificationType::DerAsn1Dn, value)),
    ]
}

fn selector() -> impl Strategy<Value = TrafficSelector> {
    let ports = prop_oneof![
        Just((u16::MAX, 0)),
        (any::<u16>(), any::<u16>()).prop_map(|(a, b)| (a.min(b), a.max(b))),
    ];
    let addresses = prop_oneof![
        (any::<u32>(), any::<u32>()).prop_map(|(a, b)| {
            let of = |bits: u32| IpAddr::from(Ipv4Addr::from_bits(bits));
            (of(a.min(b)), of(a.max(b)))
        }),
        (any::<u128>(), any::<u128>()).prop_map(|(a, b)| {
            let of = |bits: u128| IpAddr::from(std::net::Ipv6Addr::from_bits(bits));
            (of(a.min(b)), of(a.max(b)))
        }),
    ];
    prop_oneof![
        (any::<u8>(), ports, addresses).prop_map(
            |(protocol, (first_port, last_port), (first, last))| {
                TrafficSelector::Addresses(AddressSelector {
                    protocol,
                    first_port,
                    last_port,
                    first,
                    last,
                })
            }
        ),
        (9u8..=255, any::<u8>(), octets(12)).prop_map(|(kind, protocol, body)| {
            TrafficSelector::Other {
                kind: kind.into(),
                protocol,
                body,
            }
        }),
    ]
}

fn attribute() -> impl Strategy<Value = ConfigAttribute> {
    prop_oneof![
        (0u16..30).prop_map(|kind| ConfigAttribute::request(kind.into())),
        any::<std::net::Ipv4Addr>().prop_map(|address| ConfigAttribute::address(
            ConfigKind::InternalIp4Address,
            address.into()
        )),
        any::<std::net::Ipv6Addr>().prop_map(|address| ConfigAttribute::address(
            ConfigKind::InternalIp6Address,
            address.into()
        )),
        (27u16..0x8000, octets(20)).prop_map(|(kind, value)| ConfigAttribute {
            kind: kind.into(),
            value,
        }),
    ]
}
