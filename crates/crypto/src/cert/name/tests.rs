use super::*;

#[test]
fn one_reader_serves_text_der_and_what_a_certificate_shows() {
    for text in [
        "C=CH, O=Caravan, CN=ms",
        "DC=example, CN=b+OU=a",
        "1.2.3.4=x, E=ms@example.org",
        "CN=\\ a\\,b\\\"c\\\\d\\/\\0a",
    ] {
        let name: DistinguishedName = text.parse().unwrap();
        let der = name.to_der();
        assert_eq!(DistinguishedName::from_der(&der).as_ref(), Ok(&name));
        assert_eq!(text_of(&der), text);
    }
    // strings of every length form
    for len in [1, 127, 128, 255, 256, 4000] {
        let text = format!("CN={}", "x".repeat(len));
        let der = text.parse::<DistinguishedName>().unwrap().to_der();
        assert_eq!(text_of(&der), text);
    }
}

#[test]
fn what_does_not_read_is_shown_in_hexadecimal() {
    assert_eq!(text_of(&[0x30, 2, 0x31, 0]), "30023100");
    assert_eq!(text_of(&[0x30, 0x84, 0, 0, 0, 0]), "308400000000");
    assert_eq!(text_of(&[]), "");
    assert_eq!(text_of(&[0x30, 0]), "");
}

/// A common name of this many octets of T61. Each becomes two octets in UTF-8.
fn long_name(octets: usize) -> Vec<u8> {
    let inner = [
        tagged(OID, &[0x55, 4, 3]),
        tagged(T61_STRING, &vec![0xe9; octets]),
    ]
    .concat();
    tagged(SEQUENCE, &tagged(SET, &tagged(SEQUENCE, &inner)))
}

#[test]
fn a_name_whose_normal_form_would_be_too_long_is_refused() {
    for octets in [40_000, 60_000, MAX_DER] {
        let der = long_name(octets);
        let fault = NameFault::TooLong(der.len(), MAX_DER);
        assert_eq!(DistinguishedName::from_der(&der), Err(fault));
    }
    let most = long_name(MAX_DER - 64);
    let normal = DistinguishedName::from_der(&most).unwrap().normal_form();
    assert!(normal.to_der().len() > 2 * (MAX_DER - 64));
    assert!(normal.is_same(&DistinguishedName::from_der(&most).unwrap()));
}

#[test]
fn the_first_common_name_is_the_one_that_counts() {
    let name = |text: &str| text.parse::<DistinguishedName>().unwrap().common_name();
    assert_eq!(
        name("C=GR, O=x, CN=Example & Söhne, CN=y").as_deref(),
        Some("Example & Söhne")
    );
    assert_eq!(name("C=GR, O=x"), None);
}
