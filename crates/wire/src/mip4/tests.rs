use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::codec::{Malformed, Writer};
use crate::tests::hex;

const HOME: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 17);
const AGENT: Ipv4Addr = Ipv4Addr::new(10, 18, 3, 1);
const CARE_OF: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);

/// A request with NAI, Mobile-Home authenticator, padding, challenge and Foreign-Home
/// authenticator, spelled out by hand from RFC 5944 §3.3 and §3.5, RFC 2794 §2 and RFC 4721 §4.
const REQUEST: &str = "
    01 22 0708 0a120311 0a120301 c0000207 e8f0a1b200000000
    83 04 75406578
    20 14 00000100 000102030405060708090a0b0c0d0e0f
    00
    84 04 deadbeef
    22 08 00000101 cafebabe";

fn written(extension: &Extension) -> Vec<u8> {
    let mut w = Writer::new();
    extension.write(&mut w);
    w.into_vec()
}

#[test]
fn a_request_is_read_as_its_documents_lay_it_out() {
    let datagram = hex(REQUEST);
    let (message, at) = Message::parse(&datagram).unwrap();
    let request = Request {
        flags: RequestFlags(RequestFlags::DECAPSULATES | RequestFlags::REVERSE_TUNNEL),
        lifetime: 1_800,
        home_address: HOME,
        home_agent: AGENT,
        care_of_address: CARE_OF,
        identification: 0xe8f0_a1b2_0000_0000,
    };
    assert_eq!((message, at), (Message::Request(request), 24));
    let list = extensions(&datagram, at).unwrap();
    assert_eq!(list[0].extension, Extension::Nai(b"u@ex".to_vec()));
    assert_eq!(list[1].covered(), Some(0..24 + 6 + 6));
    let challenge = Extension::Challenge(vec![0xde, 0xad, 0xbe, 0xef]);
    assert_eq!(list[2].extension, challenge);
    assert_eq!(list[2].covered(), None);
    let Extension::Authenticator(last) = &list[3].extension else {
        panic!("an authenticator");
    };
    assert_eq!(last.between, Authentication::ForeignHome);
    assert_eq!((last.spi, last.value.len()), (0x101, 4));
    assert_eq!(list[3].covered(), Some(0..datagram.len() - 4));
    let mut w = Writer::new();
    request.write(&mut w);
    assert_eq!(w.as_slice(), &datagram[..24]);
}

#[test]
fn an_authenticator_covers_what_is_written_before_it() {
    for between in [
        Authentication::MobileHome,
        Authentication::MobileForeign,
        Authentication::ForeignHome,
        Authentication::MobileAaa,
    ] {
        let mut w = Writer::new();
        w.bytes(&hex(REQUEST)[..24]);
        between.write_start(0x1234, 16, &mut w);
        let before = w.len();
        w.bytes(&[7; 16]);
        let datagram = w.into_vec();
        let list = extensions(&datagram, 24).unwrap();
        assert_eq!(list[0].covered(), Some(0..before), "{between:?}");
        assert_eq!(written(&list[0].extension), datagram[24..]);
    }
}

#[test]
fn unknown_extensions_below_128_make_the_message_unreadable_and_others_are_skipped() {
    for kind in (1..=127).filter(|kind| ![32, 33, 34, 36, 44].contains(kind)) {
        let refused = extensions(&[kind, 1, 0], 0).unwrap_err();
        assert_eq!(refused, Malformed::Value("extension type"), "{kind}");
    }
    for kind in 128..=255 {
        let octets = [kind, 1, 9];
        let list = extensions(&octets, 0).unwrap();
        assert_eq!(written(&list[0].extension), octets, "{kind}");
    }
}

#[test]
fn a_udp_tunnel_request_with_used_reserved_octets_is_skipped() {
    let request = "90 06 00 00 80 00 0000";
    let list = extensions(&hex(request), 0).unwrap();
    let understood = UdpTunnelRequest {
        is_forced: true,
        is_through_foreign_agent: false,
        encapsulation: 0,
    };
    assert_eq!(list[0].extension, Extension::UdpTunnelRequest(understood));
    let list = extensions(&hex("90 06 00 00 80 00 0001"), 0).unwrap();
    assert!(matches!(
        list[0].extension,
        Extension::Skipped { kind: 144, .. }
    ));
    let list = extensions(&hex("90 06 01 00 80 00 0000"), 0).unwrap();
    assert!(matches!(
        list[0].extension,
        Extension::Skipped { kind: 144, .. }
    ));
}

#[test]
fn truncated_and_endless_lists_are_refused() {
    let datagram = hex(REQUEST);
    for end in 0..24 {
        assert!(Message::parse(&datagram[..end]).is_err(), "{end}");
    }
    assert_eq!(
        extensions(&hex("20 14 00000100 00"), 0),
        Err(Malformed::Truncated("extension"))
    );
    assert_eq!(
        extensions(&hex("20 03 000001"), 0),
        Err(Malformed::Truncated("SPI"))
    );
    let many = [128, 0].repeat(MAX_EXTENSIONS + 1);
    assert_eq!(
        extensions(&many, 0),
        Err(Malformed::TooMany("Mobile IP extensions"))
    );
    assert!(extensions(&[], 1).is_err());
    assert_eq!(extensions(&[0; 2_000], 0), Ok(vec![]));
}

/// RFC 5265 §3.4: the reserved octet is ignored, another subtype is another extension.
#[test]
fn the_extension_of_trusted_networks_is_read_whatever_its_reserved_octet_says() {
    let read = |text| extensions(&hex(text), 0).unwrap().remove(0).extension;
    assert_eq!(read("95 02 00 00"), Extension::TrustedNetworks);
    assert_eq!(read("95 02 00 7f"), Extension::TrustedNetworks);
    for other in ["95 02 01 00", "95 01 00", "95 03 000000", "95 00"] {
        assert!(
            matches!(read(other), Extension::Skipped { kind: 149, .. }),
            "{other}"
        );
    }
    let mut w = Writer::new();
    Extension::TrustedNetworks.write(&mut w);
    assert_eq!(w.into_vec(), hex("95 02 00 00"));
}

/// A vendor's extension (RFC 3115 §2.2) with our layout; others of the vendor are kept.
#[test]
fn the_traversal_extension_has_the_layout_of_a_vendors_extension() {
    let octets = hex("86 0c 0000 00007ed9 0001 c0a80414");
    let read = |octets: &[u8]| extensions(octets, 0).unwrap().remove(0).extension;
    let traversal = Extension::Traversal {
        firewall: Ipv4Addr::new(192, 168, 4, 20),
    };
    assert_eq!(read(&octets), traversal);
    let mut w = Writer::new();
    traversal.write(&mut w);
    assert_eq!(w.into_vec(), octets);
    for (other, kind, len) in [
        ("86 0c 0000 00007ed9 0002 c0a80414", 2, 4),
        ("86 0b 0000 00007ed9 0001 c0a804", 1, 3),
        ("86 0d 0000 00007ed9 0001 c0a8041400", 1, 5),
    ] {
        let expected = Extension::Vendor {
            vendor: OUR_VENDOR,
            kind,
            value: hex("c0a8041400")[..len].to_vec(),
        };
        assert_eq!(read(&hex(other)), expected);
    }
}

#[test]
fn a_code_says_who_denied() {
    for number in 0..=255u8 {
        let code = Code::from(number);
        assert_eq!(code.number(), number);
        assert_eq!(code.is_accepted(), number < 2);
        let is_foreign = (64..128).contains(&number) || number == 194;
        assert_eq!(code.is_from_foreign_agent(), is_foreign, "{number}");
    }
}

/// RFC 3543 §3.3 and §3.4: the I bit has another place in the acknowledgment.
#[test]
fn revocations_are_read_as_the_document_lays_them_out() {
    let datagram = hex("07 00 c000 0a120311 0a120301 c0000207 00000011");
    let revocation = Revocation {
        is_from_home_agent: true,
        informs: true,
        home_address: HOME,
        home_domain: AGENT,
        foreign_domain: CARE_OF,
        identifier: 17,
    };
    let read = Message::parse(&datagram).unwrap();
    assert_eq!(read, (Message::Revocation(revocation), 20));
    let mut w = Writer::new();
    revocation.write(&mut w);
    assert_eq!(w.into_vec(), datagram);

    let datagram = hex("0f 00 8000 0a120311 00000011");
    let acknowledgment = RevocationAcknowledgment {
        informs: true,
        home_address: HOME,
        identifier: 17,
    };
    let read = Message::parse(&datagram).unwrap();
    let expected = Message::RevocationAcknowledgment(acknowledgment);
    assert_eq!(read, (expected, 12));
    let mut w = Writer::new();
    acknowledgment.write(&mut w);
    assert_eq!(w.into_vec(), datagram);
}

#[test]
fn a_tunnel_header_is_four_octets() {
    let header = TunnelHeader { next_header: 4 };
    let (message, at) = Message::parse(&header.octets()).unwrap();
    assert_eq!((message, at), (Message::Tunnel(header), TUNNEL_HEADER_LEN));
}

fn advertisement() -> AgentAdvertisement {
    AgentAdvertisement {
        routes_common_traffic: true,
        lifetime: 1_800,
        routers: vec![Router {
            address: CARE_OF,
            preference: -1,
            prefix_len: Some(24),
        }],
        agent: MobilityAgent {
            sequence: 256,
            registration_lifetime: 600,
            flags: AgentFlags(AgentFlags::FOREIGN_AGENT | AgentFlags::REVERSE_TUNNEL),
            care_of_addresses: vec![CARE_OF],
        },
        challenge: Some(vec![1, 2, 3, 4]),
    }
}

/// RFC 1256 §3, RFC 5944 §2.1.1 and §2.1.2, RFC 4721 §2, with the pad octet of §2.1.3.
#[test]
fn an_advertisement_is_written_as_its_documents_lay_it_out() {
    let icmp = advertisement().to_icmp();
    let expected = hex("09 00 0000 01 02 0708 c0000207 ffffffff
        10 0a 0100 0258 1100 c0000207 13 01 18 18 04 01020304 00");
    assert_eq!(icmp[..2], expected[..2]);
    assert_eq!(icmp[4..], expected[4..]);
    assert_eq!(AgentAdvertisement::parse(&icmp), Ok(Some(advertisement())));
}

#[test]
fn a_damaged_advertisement_is_refused_and_a_plain_router_is_no_agent() {
    let icmp = advertisement().to_icmp();
    for at in 1..icmp.len() {
        let mut damaged = icmp.clone();
        damaged[at] ^= 0x5a;
        assert!(AgentAdvertisement::parse(&damaged).is_err(), "{at}");
    }
    // The last octet is padding.
    for end in 0..icmp.len() - 1 {
        assert!(AgentAdvertisement::parse(&icmp[..end]).is_err(), "{end}");
    }
    let mut router = hex("09 00 0000 01 02 0708 c0000207 00000000");
    let sum = crate::ip::checksum::checksum(&router);
    router[2..4].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(AgentAdvertisement::parse(&router), Ok(None));
    assert_eq!(AgentAdvertisement::parse(&[8, 0, 0, 0]), Ok(None));
    let mut without_care_of = advertisement();
    without_care_of.agent.care_of_addresses.clear();
    let icmp = without_care_of.to_icmp();
    assert!(AgentAdvertisement::parse(&icmp).is_err());
}

#[test]
fn a_solicitation_is_known_by_type_and_checksum() {
    assert!(is_solicitation(&SOLICITATION));
    let mut damaged = SOLICITATION;
    damaged[7] = 1;
    assert!(!is_solicitation(&damaged));
    assert!(!is_solicitation(&SOLICITATION[..4]));
    assert!(!is_solicitation(&advertisement().to_icmp()));
}

fn an_extension() -> impl Strategy<Value = Extension> {
    let between = prop_oneof![
        Just(Authentication::MobileHome),
        Just(Authentication::MobileForeign),
        Just(Authentication::ForeignHome),
        Just(Authentication::MobileAaa),
    ];
    prop_oneof![
        (between, any::<u32>(), vec(any::<u8>(), 0..64)).prop_map(|(between, spi, value)| {
            Extension::Authenticator(Authenticator {
                between,
                spi,
                value,
            })
        }),
        (any::<u8>(), any::<bool>(), any::<u16>()).prop_map(|(code, is_forced, keepalive)| {
            Extension::UdpTunnelReply(UdpTunnelReply {
                code,
                is_forced,
                keepalive,
            })
        }),
        Just(Extension::EncapsulatingDelivery),
        Just(Extension::TrustedNetworks),
        vec(any::<u8>(), 0..256).prop_map(Extension::Nai),
        vec(any::<u8>(), 0..256).prop_map(Extension::Challenge),
        (any::<u32>(), any::<u16>(), vec(any::<u8>(), 0..64)).prop_map(|(vendor, kind, value)| {
            Extension::Vendor {
                vendor,
                kind,
                value,
            }
        }),
        any::<u32>().prop_map(|bits| Extension::Traversal {
            firewall: Ipv4Addr::from_bits(bits),
        }),
        (any::<bool>(), any::<u32>())
            .prop_map(|(informs, timestamp)| Extension::RevocationSupport { informs, timestamp }),
        (any::<bool>(), any::<bool>(), any::<u8>()).prop_map(
            |(is_forced, is_through_foreign_agent, encapsulation)| {
                Extension::UdpTunnelRequest(UdpTunnelRequest {
                    is_forced,
                    is_through_foreign_agent,
                    encapsulation,
                })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_equal(list in vec(an_extension(), 0..MAX_EXTENSIONS)) {
        let mut w = Writer::new();
        for extension in &list {
            extension.write(&mut w);
        }
        let read = extensions(w.as_slice(), 0).unwrap();
        prop_assert!(read.iter().map(|one| &one.extension).eq(&list));
        let mut end = 0;
        for one in &read {
            prop_assert_eq!(one.range.start, end);
            end = one.range.end;
        }
        prop_assert_eq!(end, w.len());
    }
}
