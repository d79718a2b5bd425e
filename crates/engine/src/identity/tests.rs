use proptest::prelude::*;

use super::*;
use wire::isakmp::{Identification, IdentificationType};

fn identity(text: &str) -> Identity {
    Identity::parse(text).unwrap()
}

fn fits(pattern: &str, text: &str) -> bool {
    IdentityPattern::parse(pattern)
        .unwrap()
        .fits(&identity(text))
}

#[test]
fn reads_swanctls_words() {
    use Identity::{Address, Fqdn, KeyId, UserFqdn};
    assert_eq!(identity("192.0.2.1"), Address("192.0.2.1".parse().unwrap()));
    assert_eq!(identity("::1"), Address("::1".parse().unwrap()));
    assert_eq!(identity("gw.example.org"), Fqdn("gw.example.org".into()));
    assert_eq!(identity("@gw"), Fqdn("gw".into()));
    assert_eq!(identity("@192.0.2.1"), Fqdn("192.0.2.1".into()));
    assert_eq!(identity("fqdn:gw"), Fqdn("gw".into()));
    assert_eq!(
        identity("ms@example.org"),
        UserFqdn("ms@example.org".into())
    );
    assert_eq!(
        identity("@@ms@example.org"),
        UserFqdn("ms@example.org".into())
    );
    assert_eq!(
        identity("keyid:road warriors"),
        KeyId(b"road warriors".to_vec())
    );
    assert_eq!(identity("@#0aFF"), KeyId(vec![10, 255]));
    assert_eq!(identity("keyid:group").to_string(), "keyid:group");
    assert_eq!(identity("@#0aff").to_string(), "@#0aff");
}

#[test]
fn a_distinguished_name_is_der_with_printable_strings() {
    let der = [
        &[
            0x30, 0x38, 0x31, 0x0b, 0x30, 0x09, 0x06, 0x03, 0x55, 0x04, 0x06, 0x13, 0x02,
        ][..],
        b"CH",
        &[
            0x31, 0x10, 0x30, 0x0e, 0x06, 0x03, 0x55, 0x04, 0x0a, 0x13, 0x07,
        ],
        b"Caravan",
        &[
            0x31, 0x17, 0x30, 0x15, 0x06, 0x03, 0x55, 0x04, 0x03, 0x13, 0x0e,
        ],
        b"ms.example.org",
    ]
    .concat();
    for text in [
        "C=CH, O=Caravan, CN=ms.example.org",
        "c=CH,o=Caravan,cn=ms.example.org",
        "/C=CH/O=Caravan/CN=ms.example.org",
        "2.5.4.6=CH, O=\"Caravan\", CN = ms.example.org ",
    ] {
        assert_eq!(
            identity(text),
            Identity::DistinguishedName(der.clone()),
            "{text}"
        );
    }
    let printed = Identity::DistinguishedName(der).to_string();
    assert_eq!(printed, "C=CH, O=Caravan, CN=ms.example.org");
}

#[test]
fn special_values_survive() {
    for text in [
        r"O=Caravan\, Ltd, CN=a\+b",
        r"O=\ x\ , CN=\\\/",
        r"O=x\ ",
        "O=Ünicode, E=ms@example.org",
        "C=CH+O=two, DC=org",
        "1.3.6.1.4.1.99999.1=x, UID=y",
        "CN=*",
    ] {
        assert_eq!(identity(text).to_string(), text);
    }
    assert_eq!(identity(r"CN=\41\c3\bc").to_string(), "CN=Aü");
}

#[test]
fn refuses_with_a_sentence() {
    for (text, part) in [
        ("", "empty"),
        ("@", "empty"),
        ("keyid:", "empty"),
        ("a b", "no DNS name has"),
        ("ä@example.org", "no mail address has"),
        ("@#0", "hexadecimal"),
        ("@#0g", "hexadecimal"),
        ("asn1dn:#0g", "hexadecimal"),
        ("asn1dn:#3000", "no attribute"),
        ("asn1dn:#3001", "not the DER"),
        ("C=CH, CN", "not TYPE=VALUE"),
        ("XX=y", "no attribute type"),
        ("CN=", "has no value"),
        ("CN=\"x", "does not end"),
        ("CN=x\\", "does not end"),
    ] {
        let fault = Identity::parse(text).unwrap_err().to_string();
        assert!(fault.contains(part), "{text}: {fault}");
    }
    let long = "x".repeat(MAX_LEN + 1);
    assert!(matches!(
        Identity::parse(&long),
        Err(IdentityFault::TooLong(1025))
    ));
    let far = "x".repeat(MAX_TEXT_LEN + 1);
    assert_eq!(
        Identity::parse(&far),
        Err(IdentityFault::TextTooLong(MAX_TEXT_LEN + 1))
    );
    let many = "CN=x,".repeat(65);
    assert!(Identity::parse(&format!("{many}CN=y")).is_err());
}

#[test]
fn travels_and_comes_back() {
    for text in [
        "192.0.2.1",
        "2001:db8::1",
        "gw.example.org",
        "ms@example.org",
        "C=CH, CN=y",
        "keyid:x",
    ] {
        let id = identity(text).to_identification();
        assert_eq!((id.protocol, id.port), (0, 0));
        assert_eq!(Identity::from_identification(&id), Ok(identity(text)));
    }
    for (kind, value) in [
        (IdentificationType::Fqdn, &b"a\0b"[..]),
        (IdentificationType::Fqdn, b""),
        (IdentificationType::DerAsn1Dn, b"\x30\x01"),
        (IdentificationType::DerAsn1Gn, b"\x30\x00"),
        (IdentificationType::Ipv4AddrSubnet, b"\0\0\0\0\0\0\0\0"),
        (IdentificationType::Other(77), b"x"),
    ] {
        let id = Identification::of(kind, value);
        assert!(Identity::from_identification(&id).is_err(), "{kind:?}");
    }
}

#[test]
fn patterns_fit_what_they_say() {
    assert!(fits("*", "anything"));
    assert!(fits("%any", "192.0.2.1"));
    assert!(fits("*.example.org", "MS.Example.org"));
    assert!(!fits("*.example.org", "example.org"));
    assert!(!fits("*.example.org", "ms.example.org.evil"));
    assert!(fits("*@example.org", "ms@EXAMPLE.org"));
    assert!(!fits("*@example.org", "keyid:ms@example.org"));
    assert!(fits("ms@example.org", "ms@Example.org"));
    assert!(!fits("ms@example.org", "MS@example.org"));
    assert!(fits("C=CH, O=Caravan, CN=*", "C=CH, O=caravan, CN=ms 1"));
    assert!(!fits("C=CH, O=Caravan, CN=*", "C=CH, O=Other, CN=ms 1"));
    assert!(!fits(
        "C=CH, O=Caravan, CN=*",
        "C=CH, O=Caravan, OU=x, CN=ms"
    ));
    assert!(!fits("CN=ms", "CN=*"));
    assert!(!fits("192.0.2.1", "192.0.2.2"));
}

#[test]
fn a_certificate_proves_its_subject_and_its_alternative_names_only() {
    let Identity::DistinguishedName(subject) = identity("C=CH, CN=gw.example.org") else {
        panic!("not a name");
    };
    let names = [
        Name::Subject(subject),
        Name::Dns("gw.example.org".into()),
        Name::Email("gw@example.org".into()),
        Name::Address("192.0.2.1".parse().unwrap()),
    ];
    for text in [
        "C=CH, CN=gw.example.org",
        "GW.example.org",
        "gw@example.org",
        "192.0.2.1",
    ] {
        assert!(identity(text).proven_by(&names).is_some(), "{text}");
    }
    for text in [
        "CN=gw.example.org",
        "C=CH, CN=*",
        "*.example.org",
        "www.example.org",
        "ms@example.org",
        "192.0.2.2",
        "keyid:gw.example.org",
    ] {
        assert!(identity(text).proven_by(&names).is_none(), "{text}");
    }
    let proven = identity("gw.example.org").proven_by(&names[..1]);
    assert_eq!(proven, None, "CN is no DNS name");
}

#[test]
fn string_types_do_not_part_equal_names() {
    let printable =
        DistinguishedName::from_der(b"\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x13\x01x");
    let utf8 =
        DistinguishedName::from_der(b"\x30\x0c\x31\x0a\x30\x08\x06\x03\x55\x04\x03\x0c\x01X");
    assert!(printable.unwrap().is_same(&utf8.unwrap()));
}

#[test]
fn what_is_proven_is_as_the_certificate_has_it() {
    let subject = b"\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x03\x13\x02Ms".to_vec();
    let names = [
        Name::Subject(subject.clone()),
        Name::Dns("Ms.Example.org".into()),
        Name::Email("Ms@Example.org".into()),
    ];
    let proven = |text: &str| identity(text).proven_by(&names);
    assert_eq!(proven("CN=mS"), Some(Identity::DistinguishedName(subject)));
    assert_eq!(
        proven("MS.EXAMPLE.org"),
        Some(Identity::Fqdn("ms.example.org".into()))
    );
    assert_eq!(
        proven("Ms@EXAMPLE.org"),
        Some(Identity::UserFqdn("Ms@example.org".into()))
    );
    assert_eq!(proven("ms@example.org"), None);
}

#[test]
fn the_empty_distinguished_name_names_nobody() {
    let empty = vec![0x30, 0];
    let id = Identification::of(IdentificationType::DerAsn1Dn, empty.clone());
    assert!(Identity::from_identification(&id).is_err());
    assert_eq!(
        Identity::of_certificate(&Name::Subject(empty.clone())),
        None
    );
    let claimed = Identity::DistinguishedName(empty.clone());
    assert_eq!(claimed.proven_by(&[Name::Subject(empty)]), None);
}

/// The sender of a certificate chooses its subject, and is a stranger until it is verified.
#[test]
fn a_subject_of_tens_of_kilobytes_names_nobody() {
    let tagged = |tag: u8, content: &[u8]| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[tag, 0x82, high, low], content].concat()
    };
    // T61, which is twice as long as UTF-8
    let pair = [tagged(6, &[0x55, 4, 3]), tagged(0x14, &[0xe9; 40_000])].concat();
    let subject = tagged(0x30, &tagged(0x31, &tagged(0x30, &pair)));
    let names = [Name::Subject(subject)];
    for text in ["ms.example.org", "CN=ms"] {
        assert_eq!(identity(text).proven_by(&names), None);
    }
    assert_eq!(Identity::of_certificate(&names[0]), None);
}

#[test]
fn a_name_never_reads_as_one_of_another_type() {
    use Identity::{Fqdn, KeyId, UserFqdn};
    for (identity, text) in [
        (Fqdn("192.0.2.1".into()), "fqdn:192.0.2.1"),
        (Fqdn("ms@example.org".into()), "fqdn:ms@example.org"),
        (Fqdn("CN=director".into()), "fqdn:CN=director"),
        (Fqdn("keyid:x".into()), "fqdn:keyid:x"),
        (Fqdn("it's\\ours".into()), "it's\\ours"),
        (UserFqdn("gw.example.org".into()), "email:gw.example.org"),
        (KeyId(b"gw.example.org".to_vec()), "keyid:gw.example.org"),
        (KeyId(b"two words".to_vec()), "@#74776f20776f726473"),
    ] {
        assert_eq!(identity.to_string(), text);
        assert_eq!(Identity::parse(text), Ok(identity));
    }
}

#[test]
fn marks_that_a_reader_does_not_see_are_escaped() {
    for (value, shown) in [
        ("a\u{202e}b", "CN=a\\e2\\80\\aeb"),
        ("a\u{200b}", "CN=a\\e2\\80\\8b"),
        ("a\n2026 established", "CN=a\\0a2026 established"),
        ("a\u{1b}[2J", "CN=a\\1b[2J"),
        ("Ünï", "CN=Ünï"),
    ] {
        let name = identity(&format!("CN={value}"));
        assert_eq!(name.to_string(), shown);
        assert_eq!(identity(shown), name);
    }
}

/// Attributes of one part each: object identifier, tag and content of the value.
fn der_of(attributes: &[(&[u8], u8, &[u8])]) -> Vec<u8> {
    let tagged = |tag: u8, content: &[u8]| {
        let [high, low] = (content.len() as u16).to_be_bytes();
        [&[tag, 0x82, high, low], content].concat()
    };
    let parts = attributes.iter().map(|(oid, tag, value)| {
        let pair = [tagged(6, oid), tagged(*tag, value)].concat();
        tagged(0x31, &tagged(0x30, &pair))
    });
    tagged(0x30, &parts.collect::<Vec<_>>().concat())
}

fn assert_read_back(identity: &Identity) {
    let text = identity.to_string();
    assert!(!text.chars().any(char::is_control), "{text}");
    let read = Identity::parse(&text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
    assert!(read.is_same(identity), "{text}");
    assert_eq!(read.to_string(), text);
}

#[test]
fn what_is_shown_of_a_peer_names_it() {
    const CN: &[u8] = &[0x55, 4, 3];
    const UTF8: u8 = 0x0c;
    const T61: u8 = 0x14;
    const BMP: u8 = 0x1e;
    for (oid, tag, value) in [
        (CN, UTF8, &b"ms1"[..]),
        (CN, UTF8, b""),
        (CN, UTF8, b"*"),
        (CN, UTF8, b"#1e0041"),
        (CN, UTF8, b" a,b+c=\"d\"\\ "),
        (CN, UTF8, b"fqdn:x"),
        (CN, UTF8, b"\xff\0"),
        (CN, UTF8, b"a\n\x1b[2J\xe2\x80\xae"),
        (CN, T61, &[0xe9; 300]),
        (CN, T61, &[0x80; 900]),
        (CN, BMP, b"\0A"),
        (CN, 0x04, b"\x1e\0A"),
        (&[0x2a, 0x86, 0x48, 0x80], UTF8, b"x"),
        (&[0x2a, 0x90, 0x80, 0x80, 0x80, 0x01], UTF8, b"x"),
    ] {
        let der = der_of(&[(oid, tag, value)]);
        assert_read_back(&Identity::DistinguishedName(der));
    }
    let many = vec![(CN, UTF8, &b"\x1b"[..]); 64];
    assert_read_back(&Identity::DistinguishedName(der_of(&many)));
    for octets in [
        &[0; MAX_LEN][..],
        &[b'x'; MAX_LEN],
        b"#00",
        b"keyid:x",
        b" ",
    ] {
        assert_read_back(&Identity::KeyId(octets.to_vec()));
    }
    for name in ["*", "%any", "@x", "@#00", "asn1dn:#00", "x@y", "::1", "a=b"] {
        assert_read_back(&Identity::Fqdn(name.into()));
        assert_read_back(&Identity::UserFqdn(name.into()));
    }
    for address in ["192.0.2.1", "::ffff:192.0.2.1", "fe80::1"] {
        assert_read_back(&Identity::Address(address.parse().unwrap()));
    }
    let text = Identity::DistinguishedName(der_of(&[(CN, UTF8, b"#1e0041")])).to_string();
    let binary = Identity::DistinguishedName(der_of(&[(CN, BMP, b"\0A")])).to_string();
    assert_ne!(text, binary);
}

#[test]
fn der_cut_anywhere_is_refused() {
    let Identity::DistinguishedName(der) = identity("C=CH, O=Caravan+OU=x, CN=ms") else {
        panic!("not a name");
    };
    for len in 0..der.len() {
        assert!(DistinguishedName::from_der(&der[..len]).is_err());
    }
    let longer = [der.as_slice(), &[0]].concat();
    assert!(DistinguishedName::from_der(&longer).is_err());
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}") {
        let _ = Identity::parse(&text);
        let _ = Identity::parse(&format!("CN={text}"));
    }

    #[test]
    fn any_octets_are_read_or_refused(octets in proptest::collection::vec(any::<u8>(), 0..80)) {
        for kind in 0..=12 {
            let id = Identification::of(IdentificationType::from(kind), octets.clone());
            if let Ok(identity) = Identity::from_identification(&id) {
                let canonical = identity.canonical();
                prop_assert!(identity.is_same(&canonical));
                prop_assert_eq!(canonical.canonical(), canonical);
                prop_assert_eq!(identity.to_identification().value, id.value);
                assert_read_back(&identity);
            }
        }
    }

    #[test]
    fn any_distinguished_name_is_read_back(
        attributes in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 1..6), any::<u8>(), any::<Vec<u8>>()),
            1..5,
        ),
    ) {
        let attributes: Vec<(&[u8], u8, &[u8])> = attributes
            .iter()
            .map(|(oid, tag, value)| (&oid[..], *tag, &value[..]))
            .collect();
        assert_read_back(&Identity::DistinguishedName(der_of(&attributes)));
    }

    #[test]
    fn every_value_survives_text(values in proptest::collection::vec("\\PC{1,12}", 1..5)) {
        let quoted: Vec<_> = values
            .iter()
            .map(|value| {
                let escaped: String = value.chars().flat_map(|symbol| ['\\', symbol]).collect();
                // An escaped hexadecimal digit must not join with the next one.
                if value.chars().any(|symbol| symbol.is_ascii_hexdigit()) {
                    format!("OU=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
                } else {
                    format!("OU={escaped}")
                }
            })
            .collect();
        let name: DistinguishedName = quoted.join(", ").parse().unwrap();
        let again: DistinguishedName = name.to_string().parse().unwrap();
        prop_assert_eq!(&again, &name);
        prop_assert_eq!(DistinguishedName::from_der(&name.to_der()), Ok(name));
    }
}
