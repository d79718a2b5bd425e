use proptest::prelude::*;
use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};

use super::*;

const LEGACY_CA: &str = include_str!("../keys/legacy-ca.crt");
const LEGACY: &str = include_str!("../keys/legacy-sha256.crt");
const LEGACY_LIST: &str = include_str!("../keys/legacy.crl");
const KEY: &str = include_str!("../keys/end.key");

fn legacy() -> Certificate {
    Certificate::all_from_pem(LEGACY).unwrap().swap_remove(0)
}

fn list_der() -> Vec<u8> {
    let list = RevocationList::parse(LEGACY_LIST.as_bytes()).unwrap();
    list.der().to_vec()
}

#[test]
fn a_certificate_of_openssl_reads() {
    let read = legacy();
    assert_eq!(read.subject(), "C=CH, O=Caravan Test, CN=old");
    let expected = [
        Name::Subject(read.subject_der()),
        Name::Dns("old.example".into()),
    ];
    assert_eq!(read.names(), expected);
    assert_eq!(read.public_key().unwrap().bits(), 1024);
    let subject = crate::tests::hex(
        "303a310b300906035504061302434831153013060355040a0c0c4361726176616e2054657374\
         310c300a06035504030c036f6c64",
    );
    assert_eq!(read.subject_der()[2..], subject[2..]);
    let again = Certificate::from_der(read.der()).unwrap();
    assert_eq!(again.der(), read.der());
}

#[test]
fn pem_texts_may_hold_several_and_other_things() {
    let text = format!("some words\n{LEGACY}\n{KEY}{LEGACY_CA}");
    let all = Certificate::all_from_pem(&text).unwrap();
    let subjects: Vec<_> = all.iter().map(Certificate::subject).collect();
    assert_eq!(
        subjects,
        [
            "C=CH, O=Caravan Test, CN=old",
            "C=CH, O=Caravan Test, CN=Legacy"
        ]
    );
    for bad in [
        "",
        KEY,
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    ] {
        assert!(Certificate::all_from_pem(bad).is_err());
    }
    assert!(Certificate::all_from_pem(&LEGACY[..LEGACY.len() - 30]).is_err());
}

#[test]
fn lists_read_from_pem_and_der_and_find_serials() {
    let der = list_der();
    let list = RevocationList::parse(&der).unwrap();
    assert_eq!(list.der(), der);
    assert_eq!(list.revoked_at(&[2]), Some(1_798_761_600));
    assert_eq!(list.revoked_at(&[3]), None);
    assert_eq!(list.revoked_at(&[]), None);
    for bad in [&b""[..], b"x", KEY.as_bytes(), LEGACY.as_bytes()] {
        assert!(RevocationList::parse(bad).is_err());
    }
}

#[test]
fn truncated_and_trailing_octets_are_refused() {
    let (certificate, list) = (legacy().der().to_vec(), list_der());
    for len in 0..certificate.len() {
        assert!(Certificate::from_der(&certificate[..len]).is_err());
    }
    for len in 0..list.len() {
        assert!(RevocationList::parse(&list[..len]).is_err());
    }
    assert!(Certificate::from_der(&[&certificate[..], &[0]].concat()).is_err());
    assert!(RevocationList::parse(&[&list[..], &[0]].concat()).is_err());
    assert!(Certificate::from_der(&vec![0x30; MAX_CERTIFICATE + 1]).is_err());
}

#[test]
fn names_that_read_in_two_ways_are_none() {
    let read = made(|params| {
        params.subject_alt_names = vec![
            SanType::DnsName("a\0.example".try_into().unwrap()),
            SanType::DnsName("b.example".try_into().unwrap()),
            SanType::Rfc822Name("u@c.example".try_into().unwrap()),
            SanType::IpAddress("2001:db8::1".parse().unwrap()),
            SanType::URI("https://d.example".try_into().unwrap()),
        ];
    });
    let expected = [
        Name::Dns("b.example".into()),
        Name::Email("u@c.example".into()),
        Name::Address("2001:db8::1".parse().unwrap()),
    ];
    assert_eq!(read.names()[1..], expected);
}

#[test]
fn what_a_name_holds_cannot_pass_for_syntax() {
    let read = made(|params| {
        let name = &mut params.distinguished_name;
        name.push(
            DnType::CountryName,
            DnValue::PrintableString("CH".try_into().unwrap()),
        );
        name.push(DnType::OrganizationName, " a, CN=b+c\"\\/\u{7} ");
        name.push(DnType::OrganizationalUnitName, "Zürich");
        name.push(DnType::CustomDnType(vec![1, 2, 3]), "x");
    });
    assert_eq!(
        read.subject(),
        "C=CH, O=\\ a\\, CN=b\\+c\\\"\\\\\\/\\07\\ , OU=Zürich, 1.2.3=x"
    );
}

fn made(tweak: impl FnOnce(&mut CertificateParams)) -> Certificate {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    tweak(&mut params);
    if params.distinguished_name.iter().next().is_none() {
        params.distinguished_name.push(DnType::CommonName, "x");
    }
    let key = KeyPair::from_pem(KEY).unwrap();
    Certificate::from_der(params.self_signed(&key).unwrap().der()).unwrap()
}

proptest! {
    #[test]
    fn altered_octets_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (mut certificate, mut list) = (legacy().der().to_vec(), list_der());
        for (at, to) in changes {
            let index = at.index(certificate.len());
            certificate[index] = to;
            let index = at.index(list.len());
            list[index] = to;
        }
        if let Ok(read) = Certificate::from_der(&certificate) {
            let _ = (read.subject(), read.names(), read.public_key().is_ok());
        }
        let _ = RevocationList::parse(&list);
    }

    #[test]
    fn garbage_never_panics(octets in prop::collection::vec(any::<u8>(), 0..200), text in ".*") {
        prop_assert!(Certificate::from_der(&octets).is_err());
        prop_assert!(RevocationList::parse(&octets).is_err());
        prop_assert!(Certificate::all_from_pem(&text).is_err());
    }
}
