mod limbo;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    NameConstraints, PublicKeyData, RevokedCertParams, SanType, SerialNumber, SubjectPublicKeyInfo,
};
use time::OffsetDateTime;

use super::*;
use crate::cert::{ListFault, Name, RevocationList, RevocationRule};
use crate::curve::Curve;
use crate::hash::Hash;
use crate::ml_dsa::MlDsa;
use crate::rsa::{PrivateKey, PublicKey};
use crate::sign;

/// 2027-01-15. Certificates are valid for a year around it.
const NOW: i64 = 1_800_000_000;
const YEAR: i64 = 365 * 86_400;
const LEGACY_CA: &str = include_str!("../keys/legacy-ca.crt");
const LEGACY_MD5: &str = include_str!("../keys/legacy-md5.crt");
const LEGACY_SHA1: &str = include_str!("../keys/legacy-sha1.crt");
const LEGACY_SHA256: &str = include_str!("../keys/legacy-sha256.crt");
const LEGACY_LIST: &str = include_str!("../keys/legacy.crl");
const END_PUBLIC: &str = include_str!("../keys/end.pub");
const END_PRIVATE: &str = include_str!("../keys/end.key");

#[test]
fn a_chain_of_three_verifies_whatever_the_order_of_intermediates() {
    let (root, middle, other) = (root("root"), root("x"), root("other"));
    let middle = Made::authority("middle", Some(&root), middle.key, |_| {});
    let lower = Made::authority("lower", Some(&middle), new_key(), |_| {});
    let leaf = leaf(&lower, |params| {
        params.subject_alt_names = vec![
            SanType::DnsName("gw.example".try_into().unwrap()),
            SanType::IpAddress([192, 0, 2, 1].into()),
        ];
    });
    let certificates = [other.read(), lower.read(), middle.read()];
    let store = trust(&[&other, &root]);
    let verified = store.verify(&leaf, &certificates, NOW).unwrap();
    assert_eq!(verified.names, leaf.names());
    assert!(verified.names.contains(&Name::Dns("gw.example".into())));
    assert!(
        verified
            .names
            .contains(&Name::Address([192, 0, 2, 1].into()))
    );
    assert_eq!(verified.not_after, NOW + YEAR);
    let key = PublicKey::from_spki(&verified.spki).unwrap();
    assert!(key == PrivateKey::from_pem(END_PRIVATE).unwrap().public());
    // Without the link in the middle, no known authority issued the lower one.
    let fault = store.verify(&leaf, &certificates[..2], NOW).err();
    let expected = CertFault::UnknownAuthority {
        subject: "CN=lower".into(),
        issuer: "CN=middle".into(),
    };
    assert_eq!(fault, Some(expected));
    assert!(store.verify(&leaf, &[], NOW).is_err());
    assert!(
        TrustStore::default()
            .verify(&leaf, &certificates, NOW)
            .is_err()
    );
}

#[test]
fn only_the_validity_period_counts() {
    let root = root("root");
    let leaf = leaf(&root, |params| params.not_before = moment(NOW - 10));
    let store = trust(&[&root]);
    let at = |now| store.verify(&leaf, &[], now).err();
    let subject = String::from("CN=end");
    for now in [NOW - 10, NOW, NOW + YEAR] {
        assert_eq!(at(now), None);
    }
    let not_before = "2027-01-15 07:59:50 UTC".into();
    assert_eq!(
        at(NOW - 11),
        Some(CertFault::NotYetValid {
            subject: subject.clone(),
            not_before,
            now: "2027-01-15 07:59:49 UTC".into(),
        })
    );
    let not_after = "2028-01-15 08:00:00 UTC".into();
    assert_eq!(
        at(NOW + YEAR + 1),
        Some(CertFault::Expired { subject, not_after })
    );
    assert!(at(i64::MIN).is_some() && at(i64::MAX).is_some());
}

#[test]
fn an_authority_out_of_date_issues_nothing() {
    let root = Made::authority("root", None, new_key(), |params| {
        params.not_after = moment(NOW - 1);
    });
    let fault = trust(&[&root]).verify(&leaf(&root, |_| {}), &[], NOW).err();
    assert!(matches!(fault, Some(CertFault::Expired { subject, .. }) if subject == "CN=root"));
}

#[test]
fn another_authority_of_the_same_name_did_not_sign() {
    let (real, other) = (root("root"), root("root"));
    let leaf = leaf(&real, |_| {});
    let fault = trust(&[&other]).verify(&leaf, &[], NOW).err();
    let expected = CertFault::BadSignature {
        subject: "CN=end".into(),
        issuer: "CN=root".into(),
    };
    assert_eq!(fault, Some(expected));
    // Both are known, as during a change of keys: the right one counts.
    assert!(trust(&[&other, &real]).verify(&leaf, &[], NOW).is_ok());
    assert!(trust(&[&real, &other]).verify(&leaf, &[], NOW).is_ok());
}

#[test]
fn a_certificate_that_names_its_issuer_s_key_is_told_apart_from_a_forged_one() {
    let (real, other) = (root("root"), root("root"));
    let names_key = |params: &mut CertificateParams| {
        params.use_authority_key_identifier_extension = true;
    };
    let leaf = leaf(&real, names_key);
    let fault = trust(&[&other]).verify(&leaf, &[], NOW).err();
    let fault = fault.expect("another authority's");
    assert!(matches!(fault, CertFault::Namesake { .. }), "{fault}");
    let said = fault.to_string();
    let wanted = "CN=end was issued by another authority that is also called CN=root: compare";
    assert!(said.contains(wanted), "{said}");
    for both in [[&other, &real], [&real, &other]] {
        assert!(trust(&both).verify(&leaf, &[], NOW).is_ok());
    }
    // The key has the right name, and the signature is damaged.
    let mut der = leaf.der().to_vec();
    *der.last_mut().expect("a signature") ^= 1;
    let forged = Certificate::from_der(&der).expect("a certificate");
    let fault = trust(&[&real]).verify(&forged, &[], NOW).err();
    assert!(matches!(fault, Some(CertFault::BadSignature { .. })));
}

#[test]
fn no_flipped_bit_passes() {
    let root = root("root");
    let (leaf, store) = (leaf(&root, |_| {}), trust(&[&root]));
    for at in 0..leaf.der().len() {
        let mut der = leaf.der().to_vec();
        der[at] ^= 1 << (at % 8);
        if let Ok(read) = Certificate::from_der(&der) {
            assert!(
                store.verify(&read, &[], NOW).is_err(),
                "octet {at} in {:02x?}",
                &der[at.saturating_sub(6)..]
            );
        }
    }
}

#[test]
fn key_usage_decides() {
    use KeyUsagePurpose::{ContentCommitment, DigitalSignature, KeyEncipherment};
    let root = root("root");
    let verdict = |usages: &[KeyUsagePurpose]| {
        let leaf = leaf(&root, |params| params.key_usages = usages.to_vec());
        trust(&[&root]).verify(&leaf, &[], NOW).err()
    };
    for good in [
        &[][..],
        &[DigitalSignature],
        &[ContentCommitment, KeyEncipherment],
    ] {
        assert_eq!(verdict(good), None);
    }
    let fault = verdict(&[KeyEncipherment]);
    assert!(matches!(fault, Some(CertFault::WrongUsage { .. })));
}

#[test]
fn extended_key_usage_decides() {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, Other, ServerAuth};
    let root = root("root");
    let verdict = |purposes: &[ExtendedKeyUsagePurpose]| {
        let leaf = leaf(&root, |params| {
            params.extended_key_usages = purposes.to_vec()
        });
        trust(&[&root]).verify(&leaf, &[], NOW).err()
    };
    let kp = |last| Other(vec![1, 3, 6, 1, 5, 5, 7, 3, last]);
    let intermediate = Other(vec![1, 3, 6, 1, 5, 5, 8, 2, 2]);
    let good = [
        Any,
        ClientAuth,
        ServerAuth,
        kp(17),
        kp(5),
        kp(6),
        kp(7),
        intermediate,
    ];
    assert_eq!(verdict(&[]), None);
    for purpose in good {
        assert_eq!(verdict(&[CodeSigning, purpose]), None);
    }
    for purpose in [CodeSigning, kp(8), kp(4)] {
        assert!(matches!(
            verdict(&[purpose]),
            Some(CertFault::WrongUsage { .. })
        ));
    }
}

#[test]
fn an_end_entity_issues_nothing() {
    let root = root("root");
    for ca in [IsCa::NoCa, IsCa::ExplicitNoCa] {
        let end = Made::authority("end", Some(&root), new_key(), |params| params.is_ca = ca);
        let leaf = leaf(&end, |_| {});
        let fault = trust(&[&root]).verify(&leaf, &[end.read()], NOW).err();
        assert!(
            matches!(fault, Some(CertFault::WrongUsage { subject, .. }) if subject == "CN=end")
        );
        // A directly trusted certificate does not help either.
        assert!(trust(&[&end]).verify(&leaf, &[], NOW).is_err());
    }
}

#[test]
fn an_authority_needs_its_key_usage_and_no_name_constraints() {
    let bad: [fn(&mut CertificateParams); 2] = [
        |params| params.key_usages = vec![KeyUsagePurpose::CrlSign],
        |params| {
            params.name_constraints = Some(NameConstraints {
                permitted_subtrees: vec![GeneralSubtree::DnsName("example".into())],
                excluded_subtrees: Vec::new(),
            });
        },
    ];
    for tweak in bad {
        let root = Made::authority("root", None, new_key(), tweak);
        let fault = trust(&[&root]).verify(&leaf(&root, |_| {}), &[], NOW).err();
        assert!(matches!(fault, Some(CertFault::WrongUsage { .. })));
    }
    let root = Made::authority("root", None, new_key(), |params| params.key_usages.clear());
    assert!(
        trust(&[&root])
            .verify(&leaf(&root, |_| {}), &[], NOW)
            .is_ok()
    );
}

#[test]
fn unknown_critical_extensions_are_refused() {
    let extension = |is_critical| {
        let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        extension.set_criticality(is_critical);
        vec![extension]
    };
    let good = root("root");
    for is_critical in [false, true] {
        let leaf_of = |issuer: &Made| {
            leaf(issuer, |params| {
                params.custom_extensions = extension(is_critical)
            })
        };
        let fault = trust(&[&good]).verify(&leaf_of(&good), &[], NOW).err();
        assert_eq!(fault.is_some(), is_critical, "{fault:?}");
        let odd = Made::authority("root", None, new_key(), |params| {
            params.custom_extensions = extension(is_critical);
        });
        let fault = trust(&[&odd]).verify(&leaf(&odd, |_| {}), &[], NOW).err();
        assert_eq!(fault.is_some(), is_critical, "{fault:?}");
    }
}

#[test]
fn path_lengths_hold() {
    let limited = |name: &str, issuer: Option<&Made>, most: u8| {
        Made::authority(name, issuer, new_key(), |params| {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(most));
        })
    };
    for (most, is_good) in [(0, false), (1, true)] {
        let root = limited("root", None, most);
        let middle = limited("middle", Some(&root), 0);
        let under = leaf(&middle, |_| {});
        let verdict = trust(&[&root]).verify(&under, &[middle.read()], NOW);
        assert_eq!(verdict.is_ok(), is_good);
        assert!(
            trust(&[&root])
                .verify(&leaf(&root, |_| {}), &[], NOW)
                .is_ok()
        );
    }
    // A self-issued certificate of an authority, as for a new key, does not count.
    let old = limited("root", None, 0);
    let new = limited("root", Some(&old), 0);
    let verdict = trust(&[&old]).verify(&leaf(&new, |_| {}), &[new.read()], NOW);
    assert!(verdict.is_ok(), "{:?}", verdict.err());
}

#[test]
fn chains_of_eight_are_the_longest() {
    for (authorities, is_good) in [(7, true), (8, false)] {
        let mut chain = vec![root("ca 0")];
        for at in 1..authorities {
            let issuer = chain.last();
            chain.push(Made::authority(
                &format!("ca {at}"),
                issuer,
                new_key(),
                |_| {},
            ));
        }
        let leaf = leaf(chain.last().unwrap(), |_| {});
        let others: Vec<_> = chain[1..].iter().map(Made::read).collect();
        let fault = trust(&[&chain[0]]).verify(&leaf, &others, NOW).err();
        assert_eq!(fault, (!is_good).then_some(CertFault::TooLong));
    }
}

#[test]
fn work_is_bounded_when_all_have_the_same_name() {
    let real = root("same");
    let others: Vec<_> = (0..40).map(|_| root("same").read()).collect();
    let fault = trust(&[&root("same")])
        .verify(&leaf(&real, |_| {}), &others, NOW)
        .err();
    assert_eq!(fault, Some(CertFault::TooMany));
    // Two authorities that issued each other lead nowhere.
    let a = Made::authority(
        "a",
        Some(&Made {
            name: "b".into(),
            ..root("b")
        }),
        new_key(),
        |_| {},
    );
    let b = Made::authority("b", Some(&a), new_key(), |_| {});
    let leaf = leaf(&b, |_| {});
    let verdict = trust(&[&real]).verify(&leaf, &[a.read(), b.read()], NOW);
    assert!(verdict.is_err());
}

#[test]
fn revoked_certificates_are_refused() {
    let root = root("root");
    let middle = Made::authority("middle", Some(&root), new_key(), |params| {
        params.serial_number = Some(SerialNumber::from(77_u64));
    });
    let (leaf, chain) = (leaf(&middle, |_| {}), [middle.read()]);
    let verdict = |lists: Vec<RevocationList>, is_strict| {
        let store = TrustStore {
            revocations: lists,
            revocation: rule(is_strict),
            ..trust(&[&root])
        };
        store.verify(&leaf, &chain, NOW).err()
    };
    let clean = || vec![root.list(&[], -9, 9), middle.list(&[1, 3], -9, 9)];
    assert_eq!(verdict(clean(), true), None);
    assert_eq!(verdict(clean(), false), None);
    for is_strict in [false, true] {
        let by_middle = vec![root.list(&[], -9, 9), middle.list(&[1, 5, 9], -9, 9)];
        let expected = CertFault::Revoked {
            subject: "CN=end".into(),
            at: "2027-01-15 07:59:00 UTC".into(),
        };
        assert_eq!(verdict(by_middle, is_strict), Some(expected));
        let by_root = vec![root.list(&[77], -9, 9), middle.list(&[], -9, 9)];
        let fault = verdict(by_root, is_strict);
        assert!(
            matches!(fault, Some(CertFault::Revoked { subject, .. }) if subject == "CN=middle")
        );
    }
    let missing = |subject: &str, issuer: &str| {
        Some(CertFault::NotChecked {
            subject: subject.into(),
            why: ListFault::Missing {
                issuer: issuer.into(),
            },
        })
    };
    assert_eq!(verdict(Vec::new(), false), None);
    assert_eq!(verdict(Vec::new(), true), missing("CN=end", "CN=middle"));
    assert_eq!(
        verdict(vec![middle.list(&[], -9, 9)], true),
        missing("CN=middle", "CN=root")
    );
}

#[test]
fn the_newest_list_that_its_authority_signed_counts() {
    let root = root("root");
    let impostor = Made::authority("root", None, new_key(), |_| {});
    let leaf = leaf(&root, |_| {});
    let verdict = |revocations: Vec<RevocationList>, is_strict| {
        let store = TrustStore {
            revocations,
            revocation: rule(is_strict),
            ..trust(&[&root])
        };
        store.verify(&leaf, &[], NOW).err()
    };
    let is_revoked = |fault| matches!(fault, Some(CertFault::Revoked { .. }));
    let lists = || [root.list(&[], -20, 9), root.list(&[5], -10, 9)];
    for lists in [lists().to_vec(), lists().into_iter().rev().collect()] {
        assert!(is_revoked(verdict(lists, true)));
    }
    // A list from the future, and one that somebody else signed, do not count.
    for odd in [root.list(&[5], 1, 9), impostor.list(&[5], -1, 9)] {
        assert_eq!(
            verdict(vec![odd.clone(), root.list(&[], -20, 9)], true),
            None
        );
        assert!(matches!(
            verdict(vec![odd], true),
            Some(CertFault::NotChecked { .. })
        ));
    }
    // An expired list does not prove that a certificate is good, but still proves a revocation.
    assert_eq!(verdict(vec![root.list(&[], -20, -1)], false), None);
    let stale = verdict(vec![root.list(&[], -20, -1)], true);
    assert!(matches!(stale, Some(CertFault::NotChecked { .. })));
    assert!(is_revoked(verdict(vec![root.list(&[5], -20, -1)], false)));
}

#[test]
fn an_authority_without_crl_sign_has_no_list() {
    let key = new_key();
    let kept = KeyPair::from_pem(&key.serialize_pem()).unwrap();
    let root = Made::authority("root", None, key, |_| {});
    let silent = Made::authority("root", None, kept, |params| {
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    });
    let store = TrustStore {
        revocations: vec![root.list(&[], -9, 9)],
        ..trust(&[&silent])
    };
    let fault = store.verify(&leaf(&root, |_| {}), &[], NOW).err();
    let expected = CertFault::NotChecked {
        subject: "CN=end".into(),
        why: ListFault::NoSigner {
            issuer: "CN=root".into(),
        },
    };
    assert_eq!(fault, Some(expected));
}

#[test]
fn rsa_every_curve_ed25519_and_ml_dsa_may_sign() {
    let keys = [
        KeyPair::from_pem(END_PRIVATE).unwrap(),
        KeyPair::from_pem_and_sign_algo(END_PRIVATE, &rcgen::PKCS_RSA_SHA384).unwrap(),
        KeyPair::from_pem_and_sign_algo(END_PRIVATE, &rcgen::PKCS_RSA_SHA512).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ECDSA_P521_SHA512).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ML_DSA_44).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ML_DSA_65).unwrap(),
        KeyPair::generate_for(&rcgen::PKCS_ML_DSA_87).unwrap(),
    ];
    for key in keys {
        let root = Made::authority("root", None, key, |_| {});
        let verdict = trust(&[&root]).verify(&leaf(&root, |_| {}), &[], NOW);
        assert!(verdict.is_ok(), "{:?}", verdict.err());
    }
    let kinds = [
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_ML_DSA_44,
        &rcgen::PKCS_ML_DSA_65,
    ];
    for kind in kinds {
        let made = |kind| {
            let key = KeyPair::generate_for(kind).unwrap();
            Made::authority("root", None, key, |_| {})
        };
        let root = made(kind);
        let rsa = KeyPair::from_pem(END_PRIVATE).unwrap();
        let rsa = Made::authority("root", None, rsa, |_| {});
        let strangers = [made(kind), made(&rcgen::PKCS_ML_DSA_87), rsa];
        for stranger in strangers {
            let fault = trust(&[&stranger])
                .verify(&leaf(&root, |_| {}), &[], NOW)
                .err();
            assert!(matches!(fault, Some(CertFault::BadSignature { .. })));
        }
    }
}

/// A certificate that an RSA authority signs by PSS: rcgen signs by PKCS #1, so its algorithm is
/// replaced in both places, and it is signed again.
fn signed_by_pss(issuer: &Made, made: &Certificate, hash: Hash) -> Vec<u8> {
    use crate::cert::long_term::{BITS, SEQUENCE, der, only};
    let old = sign::Scheme::RsaPkcs1(Hash::Sha256);
    let old = old.to_algorithm_identifier().unwrap();
    let new = sign::Scheme::RsaPss(hash);
    let algorithm = new.to_algorithm_identifier().unwrap();
    let whole = only(made.der(), SEQUENCE).unwrap();
    let signature_at = whole
        .windows(old.len())
        .rposition(|part| part == old)
        .unwrap();
    let body = only(&whole[..signature_at], SEQUENCE).unwrap();
    let at = body
        .windows(old.len())
        .position(|part| part == old)
        .unwrap();
    let parts = [&body[..at], &algorithm, &body[at + old.len()..]];
    let body = der(SEQUENCE, &parts);
    let key = sign::PrivateKey::from_pem(&issuer.key.serialize_pem()).unwrap();
    let mut random = crate::rand::Seed::new([1; 32]).stream("salt", 0);
    let signature = key.sign(new, &[&body], &mut random).unwrap();
    let signature = der(BITS, &[&[0], &signature]);
    der(SEQUENCE, &[&body, &algorithm, &signature])
}

#[test]
fn authorities_may_sign_by_pss() {
    let root = Made::authority(
        "root",
        None,
        KeyPair::from_pem(END_PRIVATE).unwrap(),
        |_| {},
    );
    let store = trust(&[&root]);
    for hash in [Hash::Sha256, Hash::Sha384, Hash::Sha512] {
        let der = signed_by_pss(&root, &leaf(&root, |_| {}), hash);
        let end = Certificate::from_der(&der).unwrap();
        let verdict = store.verify(&end, &[], NOW);
        assert!(verdict.is_ok(), "{hash:?}: {:?}", verdict.err());
        // Each octet of the signature counts.
        for at in [1, 100, 255] {
            let mut changed = der.clone();
            let len = changed.len();
            changed[len - at] ^= 1;
            let fault = store
                .verify(&Certificate::from_der(&changed).unwrap(), &[], NOW)
                .err();
            assert!(matches!(fault, Some(CertFault::BadSignature { .. })));
        }
        // A salt of another length in both algorithms: the last octet of each.
        let algorithm = sign::Scheme::RsaPss(hash)
            .to_algorithm_identifier()
            .unwrap();
        let mut other = der.clone();
        for at in 0..der.len() - algorithm.len() {
            if der[at..].starts_with(&algorithm) {
                other[at + algorithm.len() - 1] -= 1;
            }
        }
        let fault = store
            .verify(&Certificate::from_der(&other).unwrap(), &[], NOW)
            .err();
        assert!(matches!(fault, Some(CertFault::BadSignature { .. })));
    }
}

#[test]
fn only_rsa_keys_end_a_chain_unless_the_caller_takes_others() {
    let root = root("root");
    let kinds: [(&rcgen::SignatureAlgorithm, KeyKind); 6] = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, KeyKind::Ecdsa(Curve::P256)),
        (&rcgen::PKCS_ECDSA_P384_SHA384, KeyKind::Ecdsa(Curve::P384)),
        (&rcgen::PKCS_ECDSA_P521_SHA512, KeyKind::Ecdsa(Curve::P521)),
        (&rcgen::PKCS_ED25519, KeyKind::Ed25519),
        (&rcgen::PKCS_ML_DSA_44, KeyKind::MlDsa(MlDsa::Set44)),
        (&rcgen::PKCS_ML_DSA_87, KeyKind::MlDsa(MlDsa::Set87)),
    ];
    for (algorithm, kind) in kinds {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let end = Made::authority("end", Some(&root), key, |params| {
            params.is_ca = IsCa::NoCa;
            params.key_usages.clear();
        });
        let (store, end) = (trust(&[&root]), end.read());
        let fault = store.verify(&end, &[], NOW).err();
        assert!(matches!(fault, Some(CertFault::KeyUnsupported { why, .. }) if why == "not RSA"));
        assert!(end.check_as_own(NOW, true).is_err());
        let verified = store.verify_with(LeafKeys::Any, &end, &[], NOW).unwrap();
        let key = sign::PublicKey::from_spki(&verified.spki).unwrap();
        assert_eq!(key.kind(), kind);
        assert!(key == end.signature_key().unwrap());
        assert_eq!(end.check_as_own_with(LeafKeys::Any, NOW, false), Ok(()));
    }
    // The rules for RSA stay.
    let end = leaf(&root, |_| {});
    assert!(
        trust(&[&root])
            .verify_with(LeafKeys::Any, &end, &[], NOW)
            .is_ok()
    );
    let legacy = Certificate::all_from_pem(LEGACY_SHA256).unwrap().remove(0);
    let fault = legacy.check_as_own_with(LeafKeys::Any, NOW, false).err();
    assert!(
        matches!(fault, Some(CertFault::KeyUnsupported { .. })),
        "{fault:?}"
    );
}

#[test]
fn the_name_of_a_key_is_sha1_of_its_public_info() {
    let root = root("root");
    let read = root.read();
    let info = root.key.subject_public_key_info();
    assert_eq!(read.key_hash()[..], *Hash::Sha1.digest(&[&info]).as_ref());
}

#[test]
fn sha1_and_1024_bits_need_legacy_and_md5_never_passes() {
    let now = 1_830_000_000;
    let read = |text| Certificate::all_from_pem(text).unwrap().swap_remove(0);
    let mut store = TrustStore {
        authorities: vec![read(LEGACY_CA)],
        ..TrustStore::default()
    };
    let verdicts = |store: &TrustStore| {
        [LEGACY_SHA256, LEGACY_SHA1, LEGACY_MD5]
            .map(|text| store.verify(&read(text), &[], now).err())
    };
    for fault in verdicts(&store) {
        assert!(matches!(fault, Some(CertFault::KeyUnsupported { .. })));
    }
    store.accepts_legacy = true;
    let [sha256, sha1, md5] = verdicts(&store);
    assert_eq!((sha256, sha1), (None, None));
    assert!(matches!(md5, Some(CertFault::BadSignature { .. })));
    // openssl made this list of the same authority.
    store.revocations = vec![RevocationList::parse(LEGACY_LIST.as_bytes()).unwrap()];
    let fault = store.verify(&read(LEGACY_SHA256), &[], now).err();
    let expected = CertFault::Revoked {
        subject: "C=CH, O=Caravan Test, CN=old".into(),
        at: "2027-01-01 00:00:00 UTC".into(),
    };
    assert_eq!(fault, Some(expected));
}

#[test]
fn a_pinned_certificate_is_believed_octet_by_octet_and_no_other() {
    let root = root("root");
    let pinned = leaf(&root, |_| {});
    let mut store = TrustStore {
        authorities: vec![root.read()],
        pinned: vec![pinned.clone()],
        ..TrustStore::default()
    };
    assert!(store.verify(&pinned, &[], NOW).is_ok());
    let at = NOW + 2 * YEAR;
    let fault = store.verify(&pinned, &[], at).err();
    assert!(matches!(fault, Some(CertFault::Expired { .. })));
    // Same authority, name and key, but another certificate.
    let other = leaf(&root, |params| {
        params.serial_number = Some(SerialNumber::from(6_u64));
    });
    let subject = String::from("CN=end");
    let fault = store.verify(&other, &[], NOW).err();
    assert_eq!(fault, Some(CertFault::NotPinned { subject }));
    // A pinned certificate issues nothing, even if it is an authority.
    store.authorities.clear();
    store.pinned = vec![root.read()];
    let fault = store.verify(&pinned, &[root.read()], NOW).err();
    assert!(matches!(fault, Some(CertFault::NotPinned { .. })));
}

#[test]
fn an_end_entity_among_the_authorities_is_believed_by_nobody() {
    let root = root("root");
    let leaf = leaf(&root, |_| {});
    let store = TrustStore {
        authorities: vec![leaf.clone()],
        ..TrustStore::default()
    };
    let fault = store.verify(&leaf, &[], NOW).err();
    assert!(matches!(fault, Some(CertFault::UnknownAuthority { .. })));
}

#[test]
fn revocation_lists_speak_of_pinned_certificates_too() {
    let root = root("root");
    let leaf = leaf(&root, |_| {});
    let verdict = |authorities: Vec<Certificate>, revocations: Vec<RevocationList>, rule| {
        let store = TrustStore {
            authorities,
            pinned: vec![leaf.clone()],
            revocations,
            revocation: rule,
            ..TrustStore::default()
        };
        let verified = store.verify(&leaf, &[], NOW);
        if let Ok(verified) = &verified {
            assert_eq!(store.disbelieved_since(&verified.path, NOW), None);
        }
        verified.err().map(|fault| fault.to_string())
    };
    let known = || vec![root.read()];
    let list = |serials: &[u64]| vec![root.list(serials, -9, 9)];
    use RevocationRule::{IfListed, Relaxed, Strict};
    for rule in [Strict, IfListed, Relaxed] {
        let fault = verdict(known(), list(&[5]), rule).unwrap();
        assert!(fault.contains("CN=end was revoked at"), "{fault}");
        assert_eq!(verdict(known(), list(&[4]), rule), None);
    }
    // Without the authority nobody can tell whether the list is its own.
    for rule in [Strict, IfListed] {
        let fault = verdict(Vec::new(), list(&[]), rule).unwrap();
        assert!(
            fault.contains("list of CN=root matches no configured authority"),
            "{fault}"
        );
    }
    assert_eq!(verdict(Vec::new(), list(&[]), Relaxed), None);
    assert_eq!(verdict(Vec::new(), Vec::new(), IfListed), None);
    let fault = verdict(known(), Vec::new(), Strict).unwrap();
    assert!(fault.contains("no revocation list of CN=root"), "{fault}");
    // A later list ends trust in a passed path.
    let store = TrustStore {
        authorities: known(),
        pinned: vec![leaf.clone()],
        ..TrustStore::default()
    };
    let path = store.verify(&leaf, &[], NOW).unwrap().path;
    let store = TrustStore {
        revocations: list(&[5]),
        ..store
    };
    assert!(store.disbelieved_since(&path, NOW).is_some());
}

#[test]
fn a_path_that_was_written_and_read_is_disbelieved_as_it_was() {
    let root = root("root");
    let leaf = leaf(&root, |_| {});
    let store = TrustStore {
        authorities: vec![root.read()],
        ..TrustStore::default()
    };
    let path = store.verify(&leaf, &[], NOW).unwrap().path;
    let nobody = TrustStore::default();
    let listed = TrustStore {
        revocations: vec![root.list(&[5], -9, 9)],
        ..store.clone()
    };
    // With the issuer's key, or without it because the store knows it.
    let octets = [&nobody, &store].map(|knows| (knows, path.to_octets(knows).unwrap()));
    assert!(octets[0].1.len() > octets[1].1.len() + 32);
    for (knows, octets) in octets {
        let read = CertificatePath::from_octets(&octets, knows).expect("a path");
        assert_eq!(read.to_octets(knows).as_ref(), Some(&octets));
        assert_eq!(store.disbelieved_since(&read, NOW), None);
        assert!(listed.disbelieved_since(&read, NOW).is_some());
        // Cut anywhere it is no path, or one of fewer steps.
        for len in 0..octets.len() {
            if let Some(cut) = CertificatePath::from_octets(&octets[..len], knows) {
                assert_eq!(cut.to_octets(knows).as_deref(), Some(&octets[..len]));
            }
        }
    }
    let unknown = CertificatePath::from_octets(&path.to_octets(&store).unwrap(), &nobody);
    assert!(unknown.is_none());
}

#[test]
fn a_path_that_passed_is_believed_while_the_lists_are_as_the_rule_wants_them() {
    let root = root("root");
    let leaf = leaf(&root, |_| {});
    use RevocationRule::{IfListed, Relaxed, Strict};
    let store = |rule, revocations| TrustStore {
        authorities: vec![root.read()],
        revocations,
        revocation: rule,
        ..TrustStore::default()
    };
    for rule in [Strict, IfListed, Relaxed] {
        let fresh = || vec![root.list(&[4], -9, 9)];
        let path = store(rule, fresh()).verify(&leaf, &[], NOW).unwrap().path;
        assert_eq!(store(rule, fresh()).still_believes(&path, NOW), Ok(()));
        let revoked = vec![root.list(&[5], -9, 9)];
        let fault = store(rule, revoked).still_believes(&path, NOW);
        assert!(matches!(fault, Err(CertFault::Revoked { .. })), "{fault:?}");
        // An expired list, and none.
        let over = store(rule, vec![root.list(&[4], -9, -1)]);
        assert_eq!(over.still_believes(&path, NOW).is_ok(), rule == Relaxed);
        let none = store(rule, Vec::new());
        assert_eq!(none.still_believes(&path, NOW).is_ok(), rule != Strict);
    }
}

#[test]
fn a_path_is_believed_while_its_end_is_pinned_or_nothing_is() {
    let root = root("root");
    let end = leaf(&root, |_| {});
    // Same name, key and serial number.
    let other = leaf(&root, |params| {
        params.not_after += time::Duration::days(1);
    });
    let store = |pinned: &[&Certificate]| TrustStore {
        authorities: vec![root.read()],
        pinned: pinned.iter().map(|one| (*one).clone()).collect(),
        ..TrustStore::default()
    };
    for before in [store(&[]), store(&[&end])] {
        let path = before.verify(&end, &[], NOW).unwrap().path;
        for (pinned, is_believed) in [
            (&[][..], true),
            (&[&end][..], true),
            (&[&other, &end][..], true),
            (&[&other][..], false),
        ] {
            let fault = store(pinned).disbelieved_since(&path, NOW);
            let subject = "CN=end".to_owned();
            let wanted = (!is_believed).then_some(CertFault::NotPinned { subject });
            assert_eq!(fault, wanted);
        }
    }
}

#[test]
fn without_a_rule_a_list_that_is_named_must_be_in_force() {
    let (root, other) = (root("root"), root("other"));
    let middle = Made::authority("middle", Some(&root), new_key(), |_| {});
    let (leaf, chain) = (leaf(&middle, |_| {}), [middle.read()]);
    let verdict = |revocations: Vec<RevocationList>| {
        let store = TrustStore {
            revocations,
            ..trust(&[&root])
        };
        store.verify(&leaf, &chain, NOW).err()
    };
    // The middle authority has no list.
    assert_eq!(verdict(vec![root.list(&[], -9, 9)]), None);
    assert_eq!(verdict(vec![other.list(&[5], -9, 9)]), None);
    let issuer = || String::from("CN=middle");
    let impostor = Made::authority("middle", None, new_key(), |_| {});
    let over = ListFault::Over {
        issuer: issuer(),
        at: "2027-01-15 07:59:00 UTC".into(),
    };
    let not_yet = ListFault::NotYet {
        issuer: issuer(),
        at: "2027-01-15 08:01:00 UTC".into(),
    };
    let bad = ListFault::BadSignature { issuer: issuer() };
    for (list, why) in [
        (middle.list(&[], -9, -1), over),
        (middle.list(&[], 1, 9), not_yet),
        (impostor.list(&[], -9, 9), bad),
    ] {
        let subject = "CN=end".into();
        let expected = Some(CertFault::NotChecked { subject, why });
        assert_eq!(verdict(vec![list.clone()]), expected);
        assert_eq!(verdict(vec![list, middle.list(&[], -5, 9)]), None);
    }
}

#[test]
fn each_list_that_does_not_count_is_told_with_what_is_wrong() {
    let (root, other, gone) = (root("root"), root("other"), root("gone"));
    let impostor = Made::authority("other", None, new_key(), |_| {});
    let lists = |store: &TrustStore| {
        let told = |all: Vec<ListFault>| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        (told(store.list_faults(NOW)), told(store.uncovered(NOW)))
    };
    let mut store = TrustStore {
        revocations: vec![
            root.list(&[], -20, -10),
            root.list(&[], -9, 9),
            impostor.list(&[], -9, 9),
            gone.list(&[], -9, 9),
        ],
        ..trust(&[&root, &other])
    };
    let forged = "the revocation list of CN=other has a signature that this authority did not make";
    let stray = "the revocation list of CN=gone matches no configured authority";
    let (faults, uncovered) = lists(&store);
    assert_eq!(faults, [forged, stray]);
    assert_eq!(uncovered, [forged]);
    store.revocation = RevocationRule::Relaxed;
    assert_eq!(lists(&store).1, [""; 0]);
    store.revocation = RevocationRule::Strict;
    store.revocations = vec![root.list(&[], -9, -1)];
    let over = "the revocation list of CN=root was in force until 2027-01-15 07:59:00 UTC";
    let missing = "there is no revocation list of CN=other";
    let (faults, uncovered) = lists(&store);
    assert_eq!(faults, [over]);
    assert_eq!(uncovered, [over, missing]);
}

#[test]
fn a_path_that_passed_is_revoked_by_a_later_list_alone() {
    let root = root("root");
    let middle = Made::authority("middle", Some(&root), new_key(), |params| {
        params.serial_number = Some(SerialNumber::from(77_u64));
    });
    let (leaf, chain) = (leaf(&middle, |_| {}), [middle.read()]);
    let path = trust(&[&root]).verify(&leaf, &chain, NOW).unwrap().path;
    let impostor = Made::authority("middle", None, new_key(), |_| {});
    let later = |revocations: Vec<RevocationList>| {
        // Only the peer sends the middle authority; the configuration lacks it.
        let store = TrustStore {
            revocations,
            revocation: RevocationRule::Strict,
            ..trust(&[&root])
        };
        store
            .disbelieved_since(&path, NOW)
            .map(|fault| fault.to_string())
    };
    assert_eq!(later(Vec::new()), None);
    assert_eq!(
        later(vec![middle.list(&[4], -9, 9), root.list(&[5], -9, 9)]),
        None
    );
    assert_eq!(later(vec![impostor.list(&[5], -9, 9)]), None);
    let end = "certificate CN=end was revoked at 2027-01-15 07:59:00 UTC";
    assert_eq!(later(vec![middle.list(&[5], -9, 9)]).as_deref(), Some(end));
    // A newer list that does not name the certificate overrides an older one.
    let both = vec![middle.list(&[5], -9, 9), middle.list(&[], -5, 9)];
    assert_eq!(later(both), None);
    let by_root = later(vec![root.list(&[77], -9, 9)]).unwrap();
    assert!(by_root.contains("CN=middle was revoked"), "{by_root}");
}

#[test]
fn purposes_are_common_to_the_whole_path_below_the_anchor() {
    use ExtendedKeyUsagePurpose::{Any, ClientAuth, CodeSigning, Other, ServerAuth};
    let ike = || Other(vec![1, 3, 6, 1, 5, 5, 7, 3, 17]);
    let verdict = |middle: &[&[ExtendedKeyUsagePurpose]], end: &[ExtendedKeyUsagePurpose]| {
        let root = Made::authority("root", None, new_key(), |params| {
            params.extended_key_usages = vec![CodeSigning];
        });
        let mut chain = vec![];
        for purposes in middle {
            let issuer = chain.last().unwrap_or(&root);
            let name = format!("ca {}", chain.len());
            chain.push(Made::authority(&name, Some(issuer), new_key(), |params| {
                params.extended_key_usages = purposes.to_vec();
            }));
        }
        let leaf = leaf(chain.last().unwrap_or(&root), |params| {
            params.extended_key_usages = end.to_vec();
        });
        let others: Vec<_> = chain.iter().map(Made::read).collect();
        trust(&[&root]).verify(&leaf, &others, NOW).err()
    };
    for (middle, end) in [
        (&[&[][..]][..], &[ike()][..]),
        (&[&[ike()]], &[]),
        (&[&[ServerAuth, ClientAuth]], &[ike(), ServerAuth]),
        (&[&[Any]], &[ike()]),
        (&[&[CodeSigning, ike()], &[]], &[ike(), ClientAuth]),
        (&[&[]], &[Any]),
    ] {
        assert_eq!(verdict(middle, end), None, "{middle:?} {end:?}");
    }
    for (middle, end) in [
        (&[&[CodeSigning][..]][..], &[][..]),
        (&[&[CodeSigning]], &[ike()]),
        (&[&[ClientAuth]], &[ServerAuth]),
        (&[&[ServerAuth], &[ClientAuth]], &[ServerAuth, ClientAuth]),
    ] {
        let fault = verdict(middle, end);
        let is_ca = |subject: &str| subject.starts_with("CN=ca");
        assert!(
            matches!(&fault, Some(CertFault::WrongUsage { subject, .. }) if is_ca(subject)),
            "{middle:?} {end:?}: {fault:?}"
        );
    }
}

/// An authority, or an object in its place, with its key.
struct Made {
    name: String,
    params: CertificateParams,
    key: KeyPair,
    der: Vec<u8>,
}

impl Made {
    fn authority(
        name: &str,
        issuer: Option<&Made>,
        key: KeyPair,
        tweak: impl FnOnce(&mut CertificateParams),
    ) -> Self {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        tweak(&mut params);
        let made = match issuer {
            None => params.self_signed(&key),
            Some(issuer) => params.signed_by(&key, &issuer.issuer()),
        };
        Self {
            name: name.into(),
            der: made.unwrap().der().to_vec(),
            params,
            key,
        }
    }

    fn issuer(&self) -> Issuer<'_, &KeyPair> {
        assert!(!self.name.is_empty());
        Issuer::from_params(&self.params, &self.key)
    }

    /// A copy of its key.
    fn copy(&self) -> KeyPair {
        KeyPair::from_pem(&self.key.serialize_pem()).unwrap()
    }

    fn read(&self) -> Certificate {
        Certificate::from_der(&self.der).unwrap()
    }

    /// A list that is valid between these minutes from now.
    fn list(&self, serials: &[u64], from: i64, to: i64) -> RevocationList {
        let mut params = self.params.clone();
        params.key_usages = vec![KeyUsagePurpose::CrlSign];
        let list = CertificateRevocationListParams {
            this_update: moment(NOW + 60 * from),
            next_update: moment(NOW + 60 * to),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(|serial| revoked(*serial)).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let made = list
            .signed_by(&Issuer::from_params(&params, &self.key))
            .unwrap();
        RevocationList::parse(made.der()).unwrap()
    }
}

fn revoked(serial: u64) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from(serial),
        revocation_time: moment(NOW - 60),
        reason_code: None,
        invalidity_date: None,
    }
}

fn rule(is_strict: bool) -> RevocationRule {
    match is_strict {
        true => RevocationRule::Strict,
        false => RevocationRule::Relaxed,
    }
}

fn root(name: &str) -> Made {
    Made::authority(name, None, new_key(), |_| {})
}

/// Serial number 5, the fixed RSA key.
fn leaf(issuer: &Made, tweak: impl FnOnce(&mut CertificateParams)) -> Certificate {
    let mut params = params("end");
    tweak(&mut params);
    let public = SubjectPublicKeyInfo::from_pem(END_PUBLIC).unwrap();
    let made = params.signed_by(&public, &issuer.issuer()).unwrap();
    Certificate::from_der(made.der()).unwrap()
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from(5_u64));
    params.not_before = moment(NOW - YEAR);
    params.not_after = moment(NOW + YEAR);
    params
}

fn trust(authorities: &[&Made]) -> TrustStore {
    TrustStore {
        authorities: authorities.iter().map(|one| one.read()).collect(),
        ..TrustStore::default()
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap()
}

fn moment(seconds: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(seconds).unwrap()
}
