use super::*;
use x509_parser::prelude::*;

use crate::cert::{Certificate, describe};

const NOW: i64 = 1_750_000_000;

fn authority() -> Authority {
    let key = SigningKey::generate(2048).unwrap();
    Authority::create("C=GR, O=Test, CN=ca", key, &[1], NOW, 3650).unwrap()
}

fn der(pem: &str) -> Vec<u8> {
    x509_parser::pem::parse_x509_pem(pem.as_bytes())
        .unwrap()
        .1
        .contents
}

#[test]
fn an_issued_certificate_carries_its_names_and_its_authority_s_signature() {
    let authority = authority();
    let authority = Authority::load(authority.certificate_pem(), &authority.key_pem()).unwrap();
    let key = SigningKey::generate(2048).unwrap();
    let names = ["sg.example", "192.0.2.1", "a@example.org"].map(str::to_owned);
    let request = Request {
        subject: r"C=GR, O=Test\, more, CN=sg",
        alternative_names: &names,
        key: KeyMaterial::Pair(&key),
        serial: &[0x7f, 2],
        now: NOW,
        days: 30,
    };
    let pem = authority.issue(&request).unwrap();
    assert_eq!(read_serial(&pem).unwrap(), [0x7f, 2]);
    let text = crate::cert::describe(&pem).unwrap();
    for line in [
        "serial: 7f02\n",
        "names: sg.example, 192.0.2.1, a@example.org\n",
        "key: RSA, 2048 bits\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    let text = crate::cert::describe(&key.to_pem()).unwrap();
    assert_eq!(text, "private RSA key, 2048 bits\n");
    // describes each key by itself, whatever comes before it
    let other = "-----BEGIN EC PRIVATE KEY-----\nMAMCAQE=\n-----END EC PRIVATE KEY-----\n";
    let text = crate::cert::describe(&format!("{}{other}", &*key.to_pem())).unwrap();
    assert_eq!(
        text,
        "private RSA key, 2048 bits\nprivate key that IKEv1's RSA signatures cannot use\n"
    );
    let (leaf, ca) = (der(&pem), der(authority.certificate_pem()));
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    leaf.verify_signature(Some(ca.public_key())).unwrap();
    assert_eq!(leaf.subject().to_string(), "C=GR, O=Test, more, CN=sg");
    assert_eq!(leaf.issuer(), ca.subject());
    assert_eq!(leaf.validity().not_after.timestamp(), NOW + 30 * 86_400);
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names.len(), 3);
    assert!(ca.is_ca() && !leaf.is_ca());
    let usage = leaf.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_cert_sign());
}

#[test]
fn a_key_of_others_is_certified_without_its_private_half() {
    let authority = authority();
    let key = SigningKey::generate(2048).unwrap();
    let public = ::pem::encode(&::pem::Pem::new("PUBLIC KEY", key.public_info()));
    let request = Request {
        subject: "CN=other",
        alternative_names: &[],
        key: KeyMaterial::Pem(&public),
        serial: &[3],
        now: NOW,
        days: 30,
    };
    let leaf = der(&authority.issue(&request).unwrap());
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    assert_eq!(
        leaf.public_key().raw,
        &key.public_info()[..],
        "the key itself"
    );
}

#[test]
fn names_of_a_signing_request_count_only_where_they_are_taken() {
    let key = SigningKey::generate(2048).unwrap();
    let asked = |subject: &str, names: &[&str]| {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut asked = CertificateParams::new(names).unwrap();
        asked.distinguished_name = match subject {
            "" => DistinguishedName::new(),
            subject => distinguished_name(subject).unwrap(),
        };
        asked.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        asked.serialize_request(&key).unwrap().pem().unwrap()
    };
    let issue = |pem: &str, takes_names| {
        let names = ["ms.example".to_owned()];
        let request = Request {
            subject: "CN=ms",
            alternative_names: &names,
            key: KeyMaterial::SigningRequest { pem, takes_names },
            serial: &[4],
            now: NOW,
            days: 30,
        };
        let issued = authority().issue(&request)?;
        let issued = Certificate::all_from_pem(&issued).unwrap().swap_remove(0);
        assert!(!issued.is_authority());
        Ok(issued.names().iter().map(ToString::to_string).collect())
    };
    let pem = asked("CN=boss", &["sg.example", "192.0.2.1"]);
    let given: Result<Vec<String>, MakeFault> = issue(&pem, false);
    assert_eq!(given.unwrap(), ["CN=ms", "ms.example"]);
    let taken = issue(&pem, true).unwrap();
    assert_eq!(taken, ["CN=boss", "sg.example", "192.0.2.1"]);
    let nobody = issue(&asked("", &[]), true).unwrap_err();
    assert!(nobody.to_string().contains("names nobody"), "{nobody}");
}

#[test]
fn a_request_is_described_with_its_names_and_nothing_in_them_moves_a_terminal() {
    let key = SigningKey::generate(2048).unwrap();
    let names = vec!["sg.example".to_owned(), "192.0.2.1".to_owned()];
    let mut asked = CertificateParams::new(names).unwrap();
    asked.distinguished_name = distinguished_name("O=a\u{1b}[2Jb, CN=ms").unwrap();
    asked
        .subject_alt_names
        .push(SanType::DnsName("x\n  key: fine".try_into().unwrap()));
    let request = asked.serialize_request(&key).unwrap().pem().unwrap();
    let told = describe(&request).unwrap();
    assert_eq!(
        told,
        "certificate request\n  subject: O=a\\1b[2Jb, CN=ms\n  \
         names: sg.example, 192.0.2.1, x\\n  key: fine\n  key: RSA, 2048 bits\n"
    );
    let issued = authority().issue(&Request {
        subject: "",
        alternative_names: &[],
        key: KeyMaterial::SigningRequest {
            pem: &request,
            takes_names: true,
        },
        serial: &[4],
        now: NOW,
        days: 30,
    });
    let told = describe(&issued.unwrap()).unwrap();
    assert!(
        told.contains("names: sg.example, 192.0.2.1, x\\n  key: fine\n"),
        "{told}"
    );
    assert!(!told.contains('\u{1b}'), "{told}");
}

#[test]
fn a_revocation_list_names_the_revoked_and_its_number() {
    let authority = authority();
    let revoked = [RevokedEntry {
        serial: vec![9, 9],
        at: NOW - 60,
    }];
    let text = authority.revocation_list(&revoked, 7, NOW, 30).unwrap();
    let (list, ca) = (der(&text), der(authority.certificate_pem()));
    let (_, list) = CertificateRevocationList::from_der(&list).unwrap();
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    list.verify_signature(ca.public_key()).unwrap();
    let serials: Vec<_> = list.iter_revoked_certificates().collect();
    assert_eq!(serials[0].serial().to_bytes_be(), [9, 9]);
    assert_eq!(list.crl_number().unwrap().to_bytes_be(), [7]);
}

#[test]
fn what_cannot_be_made_is_refused_with_a_reason() {
    assert_eq!(
        SigningKey::generate(1024).err(),
        Some(MakeFault::KeyBits(1024))
    );
    for subject in ["", "CN", "C=GRC, CN=x", "X=1", "CN=", "CN=a, CN=b"] {
        assert!(distinguished_name(subject).is_err(), "{subject:?}");
    }
    for name in ["", "white space", "a/b"] {
        assert!(alternative_name(name).is_err(), "{name:?}");
    }
    assert_eq!(serial(&[]).err(), Some(MakeFault::Serial(0)));
    assert_eq!(serial(&[1; 21]).err(), Some(MakeFault::Serial(21)));
    assert!(moment(i64::MAX, 1).is_err());
}

#[test]
fn a_guest_s_certificate_ends_with_his_tunnel_and_is_for_rsa_keys_alone() {
    let authority = authority();
    let key = SigningKey::generate(2048).unwrap();
    let info = key.public_info();
    let request = |until, info| GuestRequest {
        subject: "00ff",
        identity: "alice@home",
        public_info: info,
        serial: &[0x7f, 3],
        now: NOW,
        until,
    };
    let made = authority.issue_to_guest(&request(NOW + 90, &info)).unwrap();
    let (_, leaf) = X509Certificate::from_der(&made).unwrap();
    let ca = authority.certificate_der().unwrap();
    let (_, ca) = X509Certificate::from_der(&ca).unwrap();
    leaf.verify_signature(Some(ca.public_key())).unwrap();
    assert_eq!(leaf.validity().not_after.timestamp(), NOW + 90);
    assert_eq!(leaf.public_key().raw, info);
    assert_eq!(leaf.subject().to_string(), "CN=00ff");
    let read = Certificate::from_der(&made).unwrap();
    let names: Vec<String> = read.names().iter().map(ToString::to_string).collect();
    assert!(names.contains(&"alice@home".to_owned()), "{names:?}");
    let ended = authority.issue_to_guest(&request(NOW, &info));
    assert_eq!(ended, Err(MakeFault::End(NOW)));
    for info in [&info[..info.len() - 1], &[]] {
        assert!(authority.issue_to_guest(&request(NOW + 90, info)).is_err());
    }
}

#[test]
fn ml_dsa_certifies_and_is_certified() {
    use crate::cert::{LeafKeys, RevocationList, TrustStore};
    use crate::ml_dsa::MlDsa;
    use crate::sign::{KeyKind, PrivateKey};
    for (set, own) in [
        (MlDsa::Set44, MlDsa::Set87),
        (MlDsa::Set65, MlDsa::Set65),
        (MlDsa::Set87, MlDsa::Set44),
    ] {
        let key = SigningKey::generate_ml_dsa(set).unwrap();
        let made = Authority::create("CN=ca", key, &[1], NOW, 3650).unwrap();
        let authority = Authority::load(made.certificate_pem(), &made.key_pem()).unwrap();
        let key = SigningKey::generate_ml_dsa(own).unwrap();
        let text = describe(&key.to_pem()).unwrap();
        assert_eq!(text, format!("private {} key\n", own.name()));
        let read = PrivateKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(read.kind(), KeyKind::MlDsa(own));
        let public = ::pem::encode(&::pem::Pem::new("PUBLIC KEY", key.public_info()));
        let private = key.to_pem();
        let materials = [
            KeyMaterial::Pair(&key),
            KeyMaterial::Pem(&public),
            KeyMaterial::Pem(&private),
        ];
        for material in materials {
            let pem = authority
                .issue(&Request {
                    subject: "CN=end",
                    alternative_names: &["sg.example".to_owned()],
                    key: material,
                    serial: &[2],
                    now: NOW,
                    days: 30,
                })
                .unwrap();
            let text = describe(&pem).unwrap();
            assert!(text.contains(&format!("key: {}\n", own.name())), "{text}");
            let leaf = Certificate::all_from_pem(&pem).unwrap().swap_remove(0);
            let ca = Certificate::all_from_pem(authority.certificate_pem()).unwrap();
            let list = authority.revocation_list(&[], 1, NOW, 30).unwrap();
            let store = TrustStore {
                authorities: ca,
                revocations: vec![RevocationList::parse(list.as_bytes()).unwrap()],
                ..TrustStore::default()
            };
            let verified = store.verify_with(LeafKeys::Any, &leaf, &[], NOW).unwrap();
            assert_eq!(verified.spki, key.public_info());
            let octets = verified.path.to_octets(&store).unwrap();
            let path = crate::cert::CertificatePath::from_octets(&octets, &store);
            assert!(path.is_some(), "it is kept in tickets");
        }
        // A key that cannot sign gets a certificate too, by another way.
        let long_term = authority.issue(&Request {
            subject: "CN=fw",
            alternative_names: &[],
            key: KeyMaterial::LongTerm {
                group: Group::Curve25519,
                public: &[9; 32],
            },
            serial: &[3],
            now: NOW,
            days: 30,
        });
        let long_term = Certificate::all_from_pem(&long_term.unwrap()).unwrap();
        let ca = Certificate::all_from_pem(authority.certificate_pem()).unwrap();
        let (signed, signer) = (&long_term[0].facts.signed, &ca[0].facts.signer);
        assert!(signed.is_by(&signer.key, false));
    }
}
