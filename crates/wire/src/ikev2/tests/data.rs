//! What configuration, EAP, selectors and notifications carry.

use super::*;

fn read(kind: PayloadKind, body: &[u8]) -> Result<Payload, Malformed> {
    let mut chain = vec![0, 0];
    chain.extend((4 + body.len() as u16).to_be_bytes());
    chain.extend(body);
    payloads(kind, &chain).map(|mut chain| chain.remove(0).payload)
}

#[test]
fn traffic_selectors_of_both_families_ports_and_unknown_types_read_and_write() {
    let body = hex("
        05 000000
        07 00 0010 0000 ffff 0a000000 0affffff
        08 11 0028 0035 0035 20010db8000000000000000000000000 20010db80000000000000000000000ff
        07 06 0010 ffff 0000 c0000201 c0000201
        0a 00 0009 6c6162656c
        63 07 0004");
    let payload = read(PayloadKind::TrafficSelectorsResponder, &body).unwrap();
    assert_eq!(payload.body(), body);
    let Payload::TrafficSelectorsResponder(selectors) = payload else {
        panic!("TSr");
    };
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let any = AddressSelector::of_addresses(address("10.0.0.0"), address("10.255.255.255"));
    assert!(any.is_any_port() && !any.is_opaque());
    assert_eq!(selectors[0], TrafficSelector::Addresses(any));
    let dns = AddressSelector {
        protocol: 17,
        first_port: 53,
        last_port: 53,
        first: address("2001:db8::"),
        last: address("2001:db8::ff"),
    };
    assert_eq!(selectors[1], TrafficSelector::Addresses(dns));
    let TrafficSelector::Addresses(opaque) = selectors[2] else {
        panic!("a range");
    };
    assert!(opaque.is_opaque() && !opaque.is_any_port());
    let other = |kind, protocol, body: &[u8]| TrafficSelector::Other {
        kind,
        protocol,
        body: body.to_vec(),
    };
    assert_eq!(
        selectors[3..],
        [
            other(TrafficSelectorType::SecurityLabel, 0, b"label"),
            other(TrafficSelectorType::Other(0x63), 7, b""),
        ]
    );
}

#[test]
fn a_request_like_those_of_phones_reads_and_writes() {
    // Addresses, netmask, DHCP, DNS of both families, and a domain, all empty.
    let body = hex("01 000000
        0001 0000 0002 0000 0006 0000 0003 0000 0008 0000 000c 0000 000a 0000 0019 0000");
    let payload = read(PayloadKind::Configuration, &body).unwrap();
    assert_eq!(payload.body(), body);
    let Payload::Configuration(request) = payload else {
        panic!("CP");
    };
    assert_eq!(request.kind, ConfigType::Request);
    let asked: Vec<ConfigKind> = request.attributes.iter().map(|one| one.kind).collect();
    assert_eq!(
        asked,
        [
            ConfigKind::InternalIp4Address,
            ConfigKind::InternalIp4Netmask,
            ConfigKind::InternalIp4Dhcp,
            ConfigKind::InternalIp4Dns,
            ConfigKind::InternalIp6Address,
            ConfigKind::InternalIp6Dhcp,
            ConfigKind::InternalIp6Dns,
            ConfigKind::InternalDnsDomain,
        ]
    );
    for attribute in &request.attributes {
        assert_eq!(*attribute, ConfigAttribute::request(attribute.kind));
        assert_eq!(attribute.to_address(), None);
        assert_eq!(attribute.to_subnet(), None);
        assert_eq!(attribute.to_domain(), None);
    }
}

#[test]
fn a_reply_has_addresses_subnets_and_domains() {
    let v4: IpAddr = "10.1.2.3".parse().unwrap();
    let v6: IpAddr = "2001:db8::5".parse().unwrap();
    let reply = Configuration {
        kind: ConfigType::Reply,
        attributes: vec![
            ConfigAttribute::address(ConfigKind::InternalIp4Address, v4),
            ConfigAttribute::address(ConfigKind::InternalIp6Address, v6),
            ConfigAttribute::address(ConfigKind::InternalIp6Dns, v6),
            ConfigAttribute::subnet("10.1.0.0".parse().unwrap(), 16),
            ConfigAttribute::subnet("2001:db8::".parse().unwrap(), 32),
            ConfigAttribute::subnet("0.0.0.0".parse().unwrap(), 0),
            ConfigAttribute::domain("corp.example"),
            ConfigAttribute {
                kind: ConfigKind::SupportedAttributes,
                value: hex("0001 8019"),
            },
        ],
    };
    let body = Payload::Configuration(reply.clone()).body();
    let read = read(PayloadKind::Configuration, &body).unwrap();
    assert_eq!(read, Payload::Configuration(reply.clone()));
    let [inner4, inner6, dns, net4, net6, all, domain, kinds] = &reply.attributes[..] else {
        panic!("eight attributes");
    };
    assert_eq!(inner4.to_address(), Some(v4));
    assert_eq!(inner6.to_address(), Some(v6));
    assert_eq!(inner6.to_subnet(), Some((v6, 128)));
    assert_eq!(dns.to_address(), Some(v6));
    assert_eq!(net4.value, hex("0a010000 ffff0000"));
    assert_eq!(net4.to_subnet(), Some(("10.1.0.0".parse().unwrap(), 16)));
    assert_eq!(net6.to_subnet(), Some(("2001:db8::".parse().unwrap(), 32)));
    assert_eq!(all.to_subnet(), Some(("0.0.0.0".parse().unwrap(), 0)));
    assert_eq!(domain.to_domain(), Some("corp.example"));
    assert_eq!(
        kinds.to_kinds(),
        Some(vec![
            ConfigKind::InternalIp4Address,
            ConfigKind::InternalDnsDomain
        ])
    );
    assert_eq!(domain.to_kinds(), None);
    let torn = ConfigAttribute {
        kind: ConfigKind::InternalIp4Subnet,
        value: hex("0a010000 ff00ff00"),
    };
    assert_eq!(torn.to_subnet(), None);
}

#[test]
fn a_trust_anchor_has_a_digest_of_its_type() {
    // The example of RFC 4509 §2.3.
    let digest = "D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A";
    let octets = hex(&format!("ec45 05 02 {digest}"));
    let signer = DelegationSigner::new(60485, 5, 2, hex(digest)).unwrap();
    assert_eq!(signer.to_string(), format!("60485 5 2 {digest}"));
    let attribute = ConfigAttribute::trust_anchor(&signer);
    assert_eq!(attribute.kind, ConfigKind::InternalDnssecTa);
    assert_eq!(attribute.value, octets);
    assert_eq!(attribute.to_trust_anchor(), Some(signer));
    let with = |kind: ConfigKind, value: &[u8]| ConfigAttribute {
        kind,
        value: value.to_vec(),
    };
    let read = |value: &[u8]| with(ConfigKind::InternalDnssecTa, value).to_trust_anchor();
    for len in 0..octets.len() {
        assert_eq!(read(&octets[..len]), None, "{len}");
    }
    assert_eq!(read(&[&octets[..], &[0]].concat()), None);
    let other = with(ConfigKind::InternalDnsDomain, &octets);
    assert_eq!(other.to_trust_anchor(), None);
    for digest_type in 0..=u8::MAX {
        let len = DelegationSigner::digest_len(digest_type);
        for given in [20, 32, 48] {
            let mut value = vec![0xEC, 0x45, 13, digest_type];
            value.resize(4 + given, 7);
            let found = read(&value);
            assert_eq!(found.is_some(), len == Some(given), "{digest_type} {given}");
            let again = found.map(|it| ConfigAttribute::trust_anchor(&it).value);
            assert!(again.is_none_or(|it| it == value));
        }
    }
}

#[test]
fn domains_are_names_and_nothing_else() {
    for name in [
        "",
        "a b",
        "x\n",
        "\u{1b}[31m",
        "ü.example",
        &"a".repeat(256),
    ] {
        assert_eq!(ConfigAttribute::domain(name).to_domain(), None, "{name:?}");
    }
    for name in [".", "_tcp.corp.example", "xn--bcher-kva.example."] {
        assert_eq!(ConfigAttribute::domain(name).to_domain(), Some(name));
    }
    let other = ConfigAttribute {
        kind: ConfigKind::ApplicationVersion,
        value: b"corp.example".to_vec(),
    };
    assert_eq!(other.to_domain(), None);
}

#[test]
fn attributes_of_wrong_lengths_are_refused() {
    let length = Malformed::Length("configuration attribute");
    let cases = [
        ("0001 0003 0a0102", length),
        ("0001 0005 0a01020304", length),
        ("0003 0010 00000000000000000000000000000000", length),
        ("0008 0010 00000000000000000000000000000000", length),
        (
            "0008 0011 20010db8000000000000000000000005 81",
            Malformed::Value("prefix length"),
        ),
        ("000d 0004 0a010000", length),
        (
            "000e 0003 000100",
            Malformed::Length("supported attributes"),
        ),
        (
            "0001 0005 0a0102",
            Malformed::Truncated("configuration attribute"),
        ),
        (
            "0001 00",
            Malformed::Truncated("configuration attribute length"),
        ),
        ("00", Malformed::Truncated("configuration attribute type")),
    ];
    for (attribute, fault) in cases {
        let body = [&hex("02 000000")[..], &hex(attribute)].concat();
        let read = read(PayloadKind::Configuration, &body);
        assert_eq!(read, Err(fault), "{attribute}");
    }
    let many = |count| [&hex("01 000000")[..], &hex("4000 0000").repeat(count)].concat();
    assert!(read(PayloadKind::Configuration, &many(MAX_CONFIG_ATTRIBUTES)).is_ok());
    assert_eq!(
        read(PayloadKind::Configuration, &many(MAX_CONFIG_ATTRIBUTES + 1)),
        Err(Malformed::TooMany("configuration attributes"))
    );
}

#[test]
fn eap_packets_read_and_write() {
    let identity = Eap::of_kind(EapCode::Response, 7, EapKind::Identity, b"user");
    assert_eq!(identity.octets(), hex("02 07 0009 01 75736572"));
    assert_eq!(
        (identity.code(), identity.id(), identity.kind()),
        (EapCode::Response, 7, Some(EapKind::Identity))
    );
    assert_eq!(identity.data(), b"user");
    let success = Eap::verdict(true, 8);
    assert_eq!(success.octets(), hex("03 08 0004"));
    assert_eq!((success.kind(), success.data()), (None, &[][..]));
    for eap in [identity, success, Eap::verdict(false, 0)] {
        assert_eq!(Eap::parse(eap.octets()), Ok(eap.clone()));
        let payload = Payload::Eap(eap);
        assert_eq!(read(PayloadKind::Eap, &payload.body()), Ok(payload));
    }
}

#[test]
fn eap_packets_of_wrong_lengths_are_refused() {
    let refused = [
        "",
        "01",
        "01 07 00",
        "01 07 0004",
        "01 07 0005",
        "01 07 0006 0d",
        "01 07 0005 0d 00",
        "03 07 0005 01",
        "04 07 0003",
        "05 07 0003",
        "02 07 0000 01",
    ];
    for packet in refused {
        assert!(Eap::parse(&hex(packet)).is_err(), "{packet:?}");
    }
    let other = Eap::parse(&hex("05 07 0006 aabb")).unwrap();
    assert_eq!(other.code(), EapCode::Other(5));
    assert_eq!((other.kind(), other.data()), (None, &[][..]));
}

#[test]
fn notify_types_have_the_numbers_of_the_registry() {
    for (kind, number, is_error) in [
        (NotifyType::UnsupportedCriticalPayload, 1, true),
        (NotifyType::InvalidKePayload, 17, true),
        (NotifyType::TsUnacceptable, 38, true),
        (NotifyType::StateNotFound, 47, true),
        (NotifyType::Other(8192), 8192, true),
        (NotifyType::Other(16_383), 16_383, true),
        (NotifyType::InitialContact, 16_384, false),
        (NotifyType::RekeySa, 16_393, false),
        (NotifyType::MobikeSupported, 16_396, false),
        (NotifyType::QuickCrashDetection, 16_419, false),
        (NotifyType::Ikev2FragmentationSupported, 16_430, false),
        (NotifyType::IntermediateExchangeSupported, 16_438, false),
        (NotifyType::AdditionalKeyExchange, 16_441, false),
        (NotifyType::PpkIdentityKey, 16_446, false),
        (NotifyType::Other(40_960), 40_960, false),
    ] {
        assert_eq!(kind.number(), number);
        assert_eq!(NotifyType::from(number), kind);
        assert_eq!(kind.is_error(), is_error, "{kind:?}");
    }
}

#[test]
fn notifications_about_children_name_them() {
    let rekey = Notify::of_child(NotifyType::RekeySa, Protocol::Esp, 0xc1c2_c3c4);
    let payload = Payload::Notify(rekey.clone());
    assert_eq!(payload.body(), hex("03 04 4009 c1c2c3c4"));
    assert_eq!(read(PayloadKind::Notify, &payload.body()), Ok(payload));
    assert_eq!(rekey.to_child(), Some((Protocol::Esp, 0xc1c2_c3c4)));
    assert_eq!(Notify::new(NotifyType::RekeySa, []).to_child(), None);
    let ike = Notify {
        protocol: Protocol::Ike,
        ..rekey.clone()
    };
    assert_eq!(ike.to_child(), None);
    let long = Notify {
        spi: vec![0; 8],
        ..rekey
    };
    assert_eq!(long.to_child(), None);
    for body in ["03", "03 04", "03 04 40", "03 04 4009 c1c2c3"] {
        assert!(read(PayloadKind::Notify, &hex(body)).is_err(), "{body}");
    }
}

#[test]
fn data_of_notifications_is_checked_for_type_and_length() {
    let kind = NotifyType::SetWindowSize;
    assert_eq!(Notify::new(kind, hex("0000000a")).to_window_size(), Ok(10));
    for value in ["", "00000a", "0000000a00", "00000000"] {
        assert!(Notify::new(kind, hex(value)).to_window_size().is_err());
    }
    let ke = Notify::invalid_ke(31);
    assert_eq!((ke.to_method(), ke.value.len()), (Ok(31), 2));
    assert!(ke.to_window_size().is_err(), "another type");
    let kind = NotifyType::InvalidKePayload;
    for value in ["", "00", "001f00"] {
        assert!(Notify::new(kind, hex(value)).to_method().is_err());
    }
    for (kind, lengths) in [(NotifyType::Cookie, 1..=64), (NotifyType::Cookie2, 8..=64)] {
        for len in 0..80 {
            let cookie = Notify::new(kind, vec![5; len]);
            assert_eq!(cookie.to_cookie().is_ok(), lengths.contains(&len));
        }
    }
    for len in 0..140 {
        let token = Notify::new(NotifyType::QuickCrashDetection, vec![5; len]);
        assert_eq!(token.to_qcd_token().is_ok(), (16..=128).contains(&len));
    }
    let lifetime = Notify::new(NotifyType::AuthLifetime, hex("00000e10"));
    assert_eq!(lifetime.to_auth_lifetime_seconds(), Ok(3600));
    assert_eq!(lifetime, Notify::auth_lifetime(3600));
    for len in [0, 19, 21] {
        let hash = Notify::new(NotifyType::NatDetectionSourceIp, vec![1; len]);
        assert!(hash.to_nat_detection().is_err());
    }
    assert!(ke.to_nat_detection().is_err() && ke.to_cookie().is_err());
}

#[test]
fn hash_algorithms_are_kept_and_counted() {
    let notify = Notify::new(NotifyType::SignatureHashAlgorithms, hex("0005 1234 0002"));
    assert_eq!(
        notify.to_hash_algorithms().unwrap(),
        [
            HashAlgorithm::Identity,
            HashAlgorithm::Other(0x1234),
            HashAlgorithm::Sha2_256
        ]
    );
    let odd = Notify::new(NotifyType::SignatureHashAlgorithms, hex("0005 12"));
    assert_eq!(
        odd.to_hash_algorithms(),
        Err(Malformed::Truncated("hash algorithm"))
    );
    let of = |count| Notify::new(NotifyType::SignatureHashAlgorithms, vec![0; 2 * count]);
    assert!(of(MAX_HASH_ALGORITHMS).to_hash_algorithms().is_ok());
    assert_eq!(
        of(MAX_HASH_ALGORITHMS + 1).to_hash_algorithms(),
        Err(Malformed::TooMany("hash algorithms"))
    );
}

#[test]
fn additional_addresses_read_and_write() {
    for text in ["192.0.2.7", "2001:db8::7"] {
        let address: IpAddr = text.parse().unwrap();
        let notify = Notify::additional_address(address);
        assert_eq!(notify.to_additional_address(), Ok(address));
        let longer = Notify::new(notify.kind, [&notify.value[..], &[0]].concat());
        assert!(longer.to_additional_address().is_err());
        let shorter = Notify::new(notify.kind, &notify.value[1..]);
        assert!(shorter.to_additional_address().is_err());
    }
    let none = Notify::new(NotifyType::NoAdditionalAddresses, []);
    assert!(none.to_additional_address().is_err());
}

#[test]
fn redirections_read_and_write() {
    let gateways = [
        (
            Gateway::Address("192.0.2.7".parse().unwrap()),
            "01 04 c0000207",
        ),
        (
            Gateway::Address("2001:db8::7".parse().unwrap()),
            "02 10 20010db8000000000000000000000007",
        ),
        (
            Gateway::Fqdn("gw2.example".into()),
            "03 0b 6777322e6578616d706c65",
        ),
    ];
    for (gateway, octets) in gateways {
        let redirect = Redirect {
            gateway: gateway.clone(),
            nonce: vec![9; 16],
        };
        let notify = Notify::redirect(&redirect);
        assert_eq!(notify.value, [&hex(octets)[..], &[9; 16]].concat());
        assert_eq!(notify.to_redirect(), Ok(redirect));
        let from = Notify::redirected_from(&gateway);
        assert_eq!(from.value, hex(octets));
        assert_eq!(from.to_redirected_from(), Ok(gateway));
        for len in 0..from.value.len() {
            let short = Notify::new(NotifyType::RedirectedFrom, &from.value[..len]);
            assert!(short.to_redirected_from().is_err(), "{len} of {octets}");
        }
    }
    for value in [
        "01 05 c000020700",
        "01 03 c00002",
        "03 00",
        "03 02 610a",
        "04 01 61",
    ] {
        let notify = Notify::new(NotifyType::Redirect, hex(value));
        assert!(notify.to_redirect().is_err(), "{value}");
    }
}

#[test]
fn tickets_and_ppk_identities_read_and_write() {
    let ticket = Ticket {
        lifetime_seconds: 3600,
        opaque: vec![1, 2, 3],
    };
    let notify = Notify::ticket(&ticket);
    assert_eq!(notify.value, hex("00000e10 010203"));
    assert_eq!(notify.to_ticket(), Ok(ticket));
    for value in ["", "00000e", "00000e10"] {
        let notify = Notify::new(NotifyType::TicketLtOpaque, hex(value));
        assert!(notify.to_ticket().is_err(), "{value}");
    }
    let identity = Notify::ppk_identity(2, b"blue");
    assert_eq!(identity.to_ppk_identity(), Ok((2, &b"blue"[..])));
    let empty = Notify::new(NotifyType::PpkIdentity, []);
    assert!(empty.to_ppk_identity().is_err());
    let key = Notify::new(NotifyType::PpkIdentityKey, *b"\x02blueCONFIRMS");
    let read = key.to_ppk_identity_key().unwrap();
    assert_eq!((read.kind, read.identity), (2, &b"blue"[..]));
    assert_eq!(read.confirmation, b"CONFIRMS");
    let short = Notify::new(NotifyType::PpkIdentityKey, *b"\x02CONFIRM");
    assert!(short.to_ppk_identity_key().is_err());
}

#[test]
fn announced_authentication_methods_read_and_write() {
    let announcement = |method, authority, algorithm: &str| AuthenticationAnnouncement {
        method,
        authority,
        algorithm: hex(algorithm),
    };
    let all = [
        announcement(AuthenticationMethod::SharedKey, 0, ""),
        announcement(AuthenticationMethod::RsaDigitalSignature, 2, ""),
        announcement(AuthenticationMethod::DigitalSignature, 0, "300506032b6570"),
    ];
    let notify = Notify::auth_methods(&all);
    assert_eq!(
        notify.value,
        hex("02 02  03 01 02  0a 0e 00 300506032b6570")
    );
    assert_eq!(notify.to_auth_methods().unwrap(), all);
    for value in ["00", "01", "01 02", "03 02", "02 02 05 0e"] {
        let notify = Notify::new(NotifyType::SupportedAuthMethods, hex(value));
        assert!(notify.to_auth_methods().is_err(), "{value}");
    }
    let many = |count| Notify::new(NotifyType::SupportedAuthMethods, hex("0202").repeat(count));
    assert!(many(MAX_ANNOUNCED_METHODS).to_auth_methods().is_ok());
    assert_eq!(
        many(MAX_ANNOUNCED_METHODS + 1).to_auth_methods(),
        Err(Malformed::TooMany("authentication methods"))
    );
}
