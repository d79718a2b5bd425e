use super::*;
use crate::cert::signed::{Signed, VerifyKey};
use crate::cert::{Authority, KeyMaterial, Request, SigningKey, describe};
use crate::rand::Seed;

const NOW: i64 = 1_800_000_000;

fn key(group: Group) -> LongTermKey {
    LongTermKey::generate(group, &mut Seed::new([1; 32]).stream("key", 0))
}

#[test]
fn keys_are_read_as_they_were_written() {
    for group in Group::ALL {
        let key = key(group);
        let pem = private_pem(&key);
        let again = read_private(&pem).unwrap();
        assert_eq!((again.group(), again.public()), (group, key.public()));
        assert_eq!(again.secret(), key.secret());
        let public = public_pem(group, key.public());
        assert_eq!(read_public(&public), Ok((group, key.public().to_vec())));
        assert_eq!(
            read_public(&pem),
            Err(LongTermFault::Missing("public key or certificate"))
        );
        assert_eq!(
            read_private(&public).err(),
            Some(LongTermFault::Missing("PRIVATE KEY"))
        );
        let shown = describe(&public).unwrap();
        let name: String = mkid(key.public())
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect();
        assert!(shown.contains(&format!("8/{name}")), "{shown}");
        assert!(describe(&pem).unwrap().contains("private long-term key"));
    }
}

/// Python's `cryptography` writes this for the scalar 00 01 .. 1f.
#[test]
fn the_form_is_that_of_other_programs() {
    let text = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VuBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
        -----END PRIVATE KEY-----\n";
    let key = read_private(text).unwrap();
    assert_eq!(key.group(), Group::Curve25519);
    assert_eq!(key.secret()[..], (0..32).collect::<Vec<u8>>());
    assert_eq!(private_pem(&key).replace('\r', ""), text);
}

#[test]
fn every_truncation_and_every_changed_octet_is_refused_or_another_key() {
    for group in Group::ALL {
        let key = key(group);
        let info = public_info(group, key.public());
        for end in 0..info.len() {
            assert!(of_public(&info[..end]).is_err(), "{end}");
        }
        assert!(of_public(&[&info[..], &[0]].concat()).is_err());
        for at in 0..info.len() {
            let mut changed = info.clone();
            changed[at] ^= 1;
            if let Ok((_, value)) = of_public(&changed) {
                assert_ne!(value, key.public());
                assert_eq!(public_info(group, &value), changed);
            }
        }
    }
}

#[test]
fn values_outside_the_group_are_refused() {
    let zero = public_info(Group::Curve25519, &[0; 32]);
    let refused = LongTermFault::BadPublicValue(BadPublicValue::LowOrder);
    assert_eq!(of_public(&zero), Err(refused));
    let mut one = vec![0; 128];
    one[127] = 1;
    let refused = LongTermFault::BadPublicValue(BadPublicValue::OutOfRange);
    let one = public_info(Group::Skip1024, &one);
    assert_eq!(of_public(&one), Err(refused));
}

#[test]
fn a_certificate_holds_the_public_value_and_is_signed() {
    let authority = SigningKey::generate(2048).unwrap();
    let authority = Authority::create("O=Test, CN=ca", authority, &[1], NOW, 30).unwrap();
    for group in Group::ALL {
        let key = key(group);
        let request = Request {
            subject: "CN=ms1",
            alternative_names: &["10.18.3.17".to_owned()],
            key: KeyMaterial::LongTerm {
                group,
                public: key.public(),
            },
            serial: &[7; 16],
            now: NOW,
            days: 30,
        };
        let issued = authority.issue(&request).unwrap();
        assert_eq!(read_public(&issued), Ok((group, key.public().to_vec())));
        let shown = describe(&issued).unwrap();
        assert!(
            shown.contains("subject: CN=ms1") && shown.contains("10.18.3.17"),
            "{shown}"
        );
        assert!(shown.contains("SKIP name (NSID 8)"), "{shown}");
        let object = first(&issued, &[CERTIFICATE]).unwrap();
        let (_, read) = X509Certificate::from_der(&object.contents).unwrap();
        let root = first(authority.certificate_pem(), &[CERTIFICATE]).unwrap();
        let (_, root) = X509Certificate::from_der(&root.contents).unwrap();
        let (algorithm, signature) = (&read.signature_algorithm, &read.signature_value.data);
        let authority_key = VerifyKey::new(root.public_key());
        let signed = read.tbs_certificate.as_ref();
        assert!(Signed::new(signed, algorithm, signature).is_by(&authority_key, false));
        let shorter = Signed::new(&signed[1..], algorithm, signature);
        assert!(!shorter.is_by(&authority_key, false));
        let usage = read.key_usage().unwrap().unwrap();
        assert!(usage.value.key_agreement() && !usage.value.digital_signature());
    }
}
