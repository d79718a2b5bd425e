//! Captured and published messages, and each payload by hand.

mod data;
mod generated;
mod hostile;

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::codec::Malformed;
use crate::tests::hex;

/// IKE_SA_INIT of strongSwan, from Wireshark's capture `ikev2-decrypt-aes128ccm12`.
pub(super) const REQUEST: &str = "
    ea684d21597afd36 0000000000000000 21 20 22 08 00000000 000000f8
    22 00 0028 0000002401010003 0300000c0100000f800e0080 0300000802000005 0000000804000013
    28 00 0048 0013 0000
      32c6dffe5c43b0d5811f7eaaa84c9f78bf99b9069c2b072e0b82f46bf6f66dd4
      5f97ef89ee285fd5df527a44776b529fc9d8a909d842a6fb59b96a0953956172
    29 00 0024 b655462d6f4b66f872ccd7f0f4b4857732921339cbaa5237edba244f262b6823
    29 00 001c 0000 4004 949c9db5739d75a974a49c184618369b34b7f942
    29 00 001c 0000 4005 3e721b46be07d53111425d7f80d2c6e220c6072e
    00 00 0010 0000 402f 0001000200030004";

/// The answer, from the same capture.
const RESPONSE: &str = "
    ea684d21597afd36 d9fe2ab22dac23ac 21 20 22 20 00000000 000000f0
    22 00 0028 0000002401010003 0300000c0100000f800e0080 0300000802000005 0000000804000013
    28 00 0048 0013 0000
      2c66beadb6ce8535d6218cb401aa5a1eb4035b97caddaf36374a979c0446b880
      0506bf9d6f950952326bf3011913da93bb8e40f815376be1a06801c0a63e3b54
    29 00 0024 9e5d267379e681e7d38d81c710d383401de7e3607b926d90a9958adcb52831aa
    29 00 001c 0000 4004 7a0785273d59203829a697550f31cbb94eb72b43
    29 00 001c 0000 4005 c3e58a8cc9933ce0b78f2a50e8de80134e12ce31
    00 00 0008 0000 4014";

/// INFORMATIONAL with a delete payload in SK, from the same capture: IV of 8, ciphertext of 9 and
/// ICV of 12 octets.
const INFORMATIONAL: &str = "
    ea684d21597afd36 d9fe2ab22dac23ac 2e 20 25 08 00000002 0000003d
    2a 00 0021 cca0b35de5abc51c 9987cbf1f5ecff210e b767cdb85179383b964d78e2";

pub(super) fn kinds(chain: &[Located]) -> Vec<PayloadKind> {
    chain.iter().map(|one| one.payload.kind()).collect()
}

fn payloads_of(chain: Vec<Located>) -> Vec<Payload> {
    chain.into_iter().map(|one| one.payload).collect()
}

pub(super) fn notify_of(message: &Message, kind: NotifyType) -> Notify {
    let found = message.clear.iter().find_map(|one| match &one.payload {
        Payload::Notify(notify) if notify.kind == kind => Some(notify.clone()),
        _ => None,
    });
    found.expect("the notification")
}

#[test]
fn a_captured_request_reads_and_writes() {
    let datagram = hex(REQUEST);
    let message = Message::parse(&datagram).unwrap();
    assert_eq!(message.header.exchange, Exchange::IkeSaInit);
    assert_eq!(message.header.spis.responder, Spi::ZERO);
    assert!(message.header.flags.is_initiator() && !message.header.flags.is_response());
    assert_eq!(message.protected, None);
    assert_eq!(
        kinds(&message.clear),
        [
            PayloadKind::SecurityAssociation,
            PayloadKind::KeyExchange,
            PayloadKind::Nonce,
            PayloadKind::Notify,
            PayloadKind::Notify,
            PayloadKind::Notify,
        ]
    );
    let proposal = Proposal {
        number: 1,
        protocol: Protocol::Ike,
        spi: vec![],
        transforms: vec![
            Transform::with_key_length(15, 128),
            Transform::new(TransformType::Prf, transform::prf::HMAC_SHA2_256),
            Transform::new(TransformType::KeyExchange, transform::key_exchange::ECP_256),
        ],
    };
    let sa = Payload::SecurityAssociation(vec![proposal]);
    assert_eq!(message.clear[0].payload, sa);
    assert_eq!(message.clear[0].range, 28..68);
    assert_eq!(datagram[message.clear[0].body_range()], sa.body());
    let Payload::KeyExchange(exchange) = &message.clear[1].payload else {
        panic!("KE");
    };
    assert_eq!((exchange.method, exchange.value.len()), (19, 64));
    let source = notify_of(&message, NotifyType::NatDetectionSourceIp);
    assert_eq!(source.to_nat_detection().unwrap()[..2], [0x94, 0x9c]);
    let hashes = notify_of(&message, NotifyType::SignatureHashAlgorithms);
    let announced = [
        HashAlgorithm::Sha1,
        HashAlgorithm::Sha2_256,
        HashAlgorithm::Sha2_384,
        HashAlgorithm::Sha2_512,
    ];
    assert_eq!(hashes.to_hash_algorithms().unwrap(), announced);
    assert_eq!(Notify::hash_algorithms(&announced), hashes);

    let (first, body) = write_payloads(&payloads_of(message.clear));
    assert_eq!(first, message.header.next_payload);
    assert_eq!(message.header.write(&body), datagram);
}

#[test]
fn a_captured_response_reads_and_writes() {
    let datagram = hex(RESPONSE);
    let message = Message::parse(&datagram).unwrap();
    assert!(message.header.flags.is_response() && !message.header.flags.is_initiator());
    let multiple = notify_of(&message, NotifyType::MultipleAuthSupported);
    assert_eq!(multiple, Notify::new(NotifyType::MultipleAuthSupported, []));
    let (_, body) = write_payloads(&payloads_of(message.clear));
    assert_eq!(message.header.write(&body), datagram);
}

#[test]
fn a_captured_encrypted_message_tells_where_the_ciphertext_is() {
    let datagram = hex(INFORMATIONAL);
    let message = Message::parse(&datagram).unwrap();
    assert_eq!(message.header.exchange, Exchange::Informational);
    assert_eq!(message.clear, []);
    let protected = message.protected.unwrap();
    assert_eq!(
        protected,
        Protected {
            first: PayloadKind::Delete,
            fragment: None,
            sealed: 32..61,
        }
    );
    let (mut frame, start) = sealed_frame(&message.header, protected.first, None, 29);
    frame[start..].copy_from_slice(&datagram[protected.sealed]);
    assert_eq!(frame, datagram);
}

#[test]
fn a_fragment_has_numbers_before_its_ciphertext() {
    let header = Message::parse(&hex(INFORMATIONAL)).unwrap().header;
    let numbers = FragmentNumbers {
        number: 2,
        total: 3,
    };
    let (frame, start) = sealed_frame(&header, PayloadKind::None, Some(numbers), 20);
    assert_eq!(frame.len(), start + 20);
    assert_eq!(
        frame[28..start],
        [0, 0, 0, 28, 0, 2, 0, 3],
        "generic header, number, total"
    );
    let message = Message::parse(&frame).unwrap();
    assert_eq!(message.header.next_payload, PayloadKind::EncryptedFragment);
    let protected = message.protected.unwrap();
    assert_eq!(protected.first, PayloadKind::None);
    assert_eq!(protected.fragment, Some(numbers));
    assert_eq!(protected.sealed, start..start + 20);
    for (number, total) in [(0, 3), (4, 3), (1, 0), (0, 0)] {
        let mut wrong = frame.clone();
        wrong[32..34].copy_from_slice(&u16::to_be_bytes(number));
        wrong[34..36].copy_from_slice(&u16::to_be_bytes(total));
        let fault = Err(Malformed::Value("fragment number"));
        assert_eq!(Message::parse(&wrong), fault, "{number} of {total}");
    }
}

#[test]
fn payloads_before_the_encrypted_one_are_kept_and_none_may_follow_it() {
    let clear = hex("2e 00 000c 00 00 4016 01020304");
    let sk = hex("29 00 0008 aabbccdd");
    let mut header = Message::parse(&hex(INFORMATIONAL)).unwrap().header;
    header.next_payload = PayloadKind::Notify;
    let datagram = header.write(&[&clear[..], &sk].concat());
    let message = Message::parse(&datagram).unwrap();
    assert_eq!(kinds(&message.clear), [PayloadKind::Notify]);
    assert_eq!(message.clear[0].range, 28..40);
    assert_eq!(message.protected.unwrap().sealed, 44..48);

    let more = header.write(&[&clear[..], &sk, &clear].concat());
    assert_eq!(
        Message::parse(&more),
        Err(Malformed::Trailing("encrypted payload"))
    );
    // Nor is one within another: the clear text of SK is a chain without SK.
    for kind in [PayloadKind::Encrypted, PayloadKind::EncryptedFragment] {
        assert_eq!(
            payloads(kind, &hex("00 00 0010 00010001 0000000000000000")),
            Err(Malformed::Value("payload within an encrypted one"))
        );
    }
}

#[test]
fn minor_versions_and_reserved_bits_are_accepted_and_major_versions_refused() {
    let mut datagram = hex(REQUEST);
    datagram[17] = 0x27;
    datagram[19] |= 0xc7;
    // Generic header, KE, notification of SA: reserved octets and bits.
    datagram[29] |= 0x7f;
    datagram[28 + 40 + 6] = 9;
    let message = Message::parse(&datagram).unwrap();
    assert_eq!(message.header.minor_version, 7);
    assert!(message.header.flags.is_initiator());
    assert!(!message.header.flags.has_higher_version());
    assert!(!message.clear[0].is_critical);
    for version in [0x10, 0x00, 0x30, 0xf0] {
        datagram[17] = version;
        assert_eq!(
            Message::parse(&datagram),
            Err(Malformed::Value("IKE version"))
        );
    }
    assert_eq!(Flags::of(true, false), Flags(0x08));
    assert_eq!(Flags::of(false, true), Flags(0x20));
}

#[test]
fn an_unknown_critical_payload_is_found_and_an_unknown_other_one_is_kept() {
    let chain = hex("81 00 0005 aa  c8 80 0006 bbcc  00 80 0004");
    let located = payloads(PayloadKind::Other(54), &chain).unwrap();
    let other = |kind, body: &[u8]| Payload::Other {
        kind,
        body: body.to_vec(),
    };
    assert_eq!(
        payloads_of(located.clone()),
        [
            other(54, &[0xaa]),
            other(0x81, &[0xbb, 0xcc]),
            other(0xc8, &[])
        ]
    );
    assert_eq!(first_unknown_critical(&located), Some(0x81));
    assert_eq!(first_unknown_critical(&located[..1]), None);
    // The bit means nothing on a kind that we know.
    let known = payloads(PayloadKind::VendorId, &hex("00 80 0005 aa")).unwrap();
    assert!(known[0].is_critical);
    assert_eq!(first_unknown_critical(&known), None);
}

#[test]
fn proposals_of_three_kinds_read_and_write() {
    let body = hex("
        02 00 0038 01 03 04 05 c1c2c3c4
          03 00 000c 01 00 0014 800e0100
          03 00 0008 04 00 001f
          03 00 0008 06 00 0024
          03 00 0008 06 00 0000
          00 00 0008 05 00 0001
        02 00 0018 02 01 08 01 0102030405060708
          00 00 0008 63 00 1234
        00 00 0008 03 07 00 00");
    let located = payloads(
        PayloadKind::SecurityAssociation,
        &[&hex("00 00 005c")[..], &body].concat(),
    );
    let Payload::SecurityAssociation(proposals) = located.unwrap().remove(0).payload else {
        panic!("SA");
    };
    let [esp, ike, other] = &proposals[..] else {
        panic!("three proposals");
    };
    assert_eq!(esp.protocol, Protocol::Esp);
    assert_eq!(esp.spi, hex("c1c2c3c4"));
    let additional = esp.transforms_of(TransformType::AdditionalKeyExchange1);
    let additional: Vec<u16> = additional.map(|one| one.id).collect();
    assert_eq!(
        additional,
        [
            transform::key_exchange::ML_KEM_768,
            transform::key_exchange::NONE
        ]
    );
    assert_eq!(esp.transforms[0].key_length(), Ok(Some(256)));
    assert_eq!(esp.transforms[1].key_length(), Ok(None));
    let numbers = &esp.transforms[4];
    assert_eq!(numbers.kind, TransformType::SequenceNumbers);
    assert_eq!(
        numbers.id,
        transform::sequence_numbers::PARTIALLY_TRANSMITTED_64
    );
    assert_eq!(ike.spi.len(), 8);
    assert_eq!(
        ike.transforms,
        [Transform::new(TransformType::Other(0x63), 0x1234)]
    );
    assert_eq!((other.protocol, other.number), (Protocol::Other(7), 3));
    assert_eq!(other.transforms, []);
    assert_eq!(Payload::SecurityAssociation(proposals).body(), body);
}

#[test]
fn a_transform_with_more_than_a_key_length_has_none() {
    let with = |attributes: Vec<Attribute>| Transform {
        attributes,
        ..Transform::new(TransformType::Encryption, 12)
    };
    let length = Attribute::short(transform::KEY_LENGTH, 128);
    assert_eq!(with(vec![length.clone()]).key_length(), Ok(Some(128)));
    let refused = [
        vec![length.clone(), length.clone()],
        vec![length, Attribute::short(15, 1)],
        vec![Attribute::long(transform::KEY_LENGTH, [0, 128])],
        vec![Attribute::short(99, 1)],
    ];
    for attributes in refused {
        assert!(
            with(attributes.clone()).key_length().is_err(),
            "{attributes:?}"
        );
    }
}

#[test]
fn identities_read_and_write() {
    let v4: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    for (id, kind) in [(v4, 1), (v6, 5)] {
        let id = Identification::address(id);
        assert_eq!(id.kind.number(), kind);
        let payload = Payload::IdentificationInitiator(id.clone());
        let body = payload.body();
        assert_eq!(body[..4], [kind, 0, 0, 0]);
        assert_eq!(id.to_address().map(Identification::address), Some(id));
    }
    let fqdn = Identification::new(IdentificationType::Fqdn, *b"gw.example");
    assert_eq!(fqdn.to_address(), None);
    // Reserved octets are ignored, and AUTH covers them as they came.
    let chain = hex("00 00 000a 0b 010203 6b79");
    let located = payloads(PayloadKind::IdentificationResponder, &chain).unwrap();
    let key = Identification::new(IdentificationType::KeyId, *b"ky");
    assert_eq!(located[0].payload, Payload::IdentificationResponder(key));
    assert_eq!(chain[located[0].body_range()], hex("0b 010203 6b79"));
    for (kind, len) in [(1, 3), (1, 5), (1, 16), (5, 15), (5, 4), (13, 1)] {
        let mut body = vec![0, 0, 0, 8 + len, kind, 0, 0, 0];
        body.extend(vec![7; len.into()]);
        assert_eq!(
            payloads(PayloadKind::IdentificationInitiator, &body),
            Err(Malformed::Length("identification data")),
            "kind {kind}, {len} octets"
        );
    }
}

#[test]
fn certificates_and_requests_read_and_write() {
    let hashes = [[1; 20], [2; 20]];
    let request = CertificateRequest::x509(&hashes);
    let body = Payload::CertificateRequest(request.clone()).body();
    assert_eq!((body[0], body.len()), (4, 41));
    assert_eq!(request.key_hashes(), hashes);
    let read = |body: &[u8]| {
        let mut chain = vec![0, 0, 0, 4 + body.len() as u8];
        chain.extend(body);
        payloads(PayloadKind::CertificateRequest, &chain).map(payloads_of)
    };
    assert_eq!(read(&body), Ok(vec![Payload::CertificateRequest(request)]));
    for len in [1, 19, 21, 39] {
        for encoding in [4, 12, 13] {
            let mut body = vec![encoding];
            body.extend(vec![0; len]);
            assert_eq!(
                read(&body),
                Err(Malformed::Length("certification authority"))
            );
        }
        // What other encodings name is theirs.
        let mut body = vec![7];
        body.extend(vec![0; len]);
        let Payload::CertificateRequest(list) = &read(&body).unwrap()[0] else {
            panic!("CERTREQ");
        };
        assert_eq!(list.key_hashes().len(), 0);
    }
    assert_eq!(read(&[]), Err(Malformed::Truncated("certificate encoding")));
    let certificate = Certificate {
        encoding: CertificateEncoding::HashAndUrl,
        body: b"x".to_vec(),
    };
    assert_eq!(Payload::Certificate(certificate).body(), [12, b'x']);
}

#[test]
fn digital_signatures_read_and_write() {
    let signature = DigitalSignature {
        algorithm: hex("300506032b6570"),
        signature: vec![9; 64],
    };
    let value = signature.to_value();
    assert_eq!((value[0], value.len()), (7, 72));
    assert_eq!(DigitalSignature::parse(&value), Ok(signature));
    // A truncated identifier or a missing signature must not be read as another one.
    for len in 0..=8 {
        assert!(DigitalSignature::parse(&value[..len]).is_err(), "{len}");
    }
    assert_eq!(
        DigitalSignature::parse(&[0, 1, 2]),
        Err(Malformed::Length("algorithm identifier"))
    );
    let auth = Authentication {
        method: AuthenticationMethod::DigitalSignature,
        value,
    };
    let body = Payload::Authentication(auth).body();
    assert_eq!(body[..5], [14, 0, 0, 0, 7]);
}

#[test]
fn deletes_read_and_write() {
    let read = |body: &[u8]| {
        let mut chain = vec![0, 0, 0, 4 + body.len() as u8];
        chain.extend(body);
        payloads(PayloadKind::Delete, &chain).map(|mut chain| chain.remove(0).payload)
    };
    let cases = [
        (Delete::IkeSa, hex("01 00 0000")),
        (
            Delete::Children {
                protocol: Protocol::Esp,
                spis: vec![0x0102_0304, 0xffff_ffff],
            },
            hex("03 04 0002 01020304 ffffffff"),
        ),
        (
            Delete::Children {
                protocol: Protocol::Ah,
                spis: vec![],
            },
            hex("02 04 0000"),
        ),
        (
            Delete::Other {
                protocol: 9,
                spi_len: 2,
                spis: vec![1, 2, 3, 4],
            },
            hex("09 02 0002 01020304"),
        ),
    ];
    for (delete, body) in cases {
        let payload = Payload::Delete(delete);
        assert_eq!(payload.body(), body);
        assert_eq!(read(&body), Ok(payload));
    }
    let refused = [
        (
            "01 08 0001 0102030405060708",
            Malformed::Length("delete SPI"),
        ),
        ("01 00 0001", Malformed::Length("delete SPI")),
        (
            "03 08 0001 0102030405060708",
            Malformed::Length("delete SPI"),
        ),
        ("03 04 0002 01020304", Malformed::Truncated("delete SPI")),
        ("03 04 0001 0102030405", Malformed::Trailing("payload")),
        ("03 04 0101", Malformed::TooMany("deleted SPIs")),
        ("09 00 0003", Malformed::Length("delete SPI")),
    ];
    for (body, fault) in refused {
        assert_eq!(read(&hex(body)), Err(fault), "{body}");
    }
}

#[test]
fn the_ends_of_a_path_without_nats_read_and_write() {
    let v4 = ["192.0.2.1:4500", "198.51.100.2:41000"];
    let v6 = ["[2001:db8::1]:4500", "[2001:db8::2]:500"];
    for (ends, octets) in [(v4, 12), (v6, 36)] {
        let [source, destination] = ends.map(|it| it.parse().unwrap());
        let notify = Notify::no_nats(source, destination).unwrap();
        assert_eq!(notify.value.len(), octets);
        assert_eq!(notify.to_no_nats(), Ok((source, destination)));
        // The first 12 octets of the longer form are those of a shorter one.
        for len in (0..octets).filter(|len| *len != 12) {
            let cut = Notify::new(NotifyType::NoNatsAllowed, &notify.value[..len]);
            assert!(cut.to_no_nats().is_err(), "{len} of {octets} octets");
        }
        let longer = [&notify.value[..], &[0]].concat();
        let longer = Notify::new(NotifyType::NoNatsAllowed, longer);
        assert!(longer.to_no_nats().is_err());
    }
    // Addresses first, then ports (RFC 4555 §4.2.6).
    let [source, destination] = v4.map(|it| it.parse().unwrap());
    let notify = Notify::no_nats(source, destination).unwrap();
    assert_eq!(notify.value, hex("c0000201 c6336402 1194 a028"));
    assert!(
        Notify::new(NotifyType::Cookie2, notify.value)
            .to_no_nats()
            .is_err()
    );
    let [other, _] = v6.map(|it| it.parse().unwrap());
    assert_eq!(Notify::no_nats(source, other), None);
}
