use super::*;
use crate::rand::Seed;

const ALL: [Group; 6] = [
    Group::Modp768,
    Group::Modp1024,
    Group::Modp1536,
    Group::Modp2048,
    Group::Modp3072,
    Group::Modp4096,
];

fn pair(group: Group, number: u64) -> KeyPair {
    KeyPair::generate(group, &mut Seed::new([3; 32]).stream("dh", number))
}

/// The prime less `by`, which is below the last octet's value.
fn below_prime(group: Group, by: u8) -> Vec<u8> {
    let mut value = group.prime().to_vec();
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
    for group in ALL {
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
    for group in ALL {
        let pair = pair(group, 1);
        let mut above = group.prime().to_vec();
        above[group.len() - 9] = 0xff;
        above[group.len() - 1] = 0xff;
        let refused = [
            small(group, 0),
            small(group, 1),
            below_prime(group, 1),
            below_prime(group, 0),
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
        for value in [small(group, 2), below_prime(group, 2)] {
            assert!(pair.agree(&value).is_ok(), "{value:x?}");
        }
    }
}

#[test]
fn our_own_value_is_not_the_peer_s() {
    let pair = pair(Group::Modp768, 1);
    let own = pair.public().to_vec();
    assert_eq!(pair.agree(&own).err(), Some(BadPublicValue::Own));
}

#[test]
fn the_prime_is_a_safe_prime_by_fermat() {
    for group in ALL {
        let p = group.prime();
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
    for group in ALL {
        let pair = pair(group, 4);
        let shared = pair.agree(&small(group, 2)).unwrap();
        assert_eq!(shared.as_ref(), pair.public());
    }
}

#[test]
fn known_answers_of_python_hold() {
    // pow(2, x, p) and pow(y, x, p) with x = 80 01 02 .. and y = 2 + 2 ** 700.
    for (group, expected) in KNOWN {
        let mut exponent: Vec<u8> = (0..group.exponent_len() as u8).collect();
        exponent[0] = 0x80;
        let mut y = small(group, 2);
        y[group.len() - 1 - 700 / 8] |= 1 << (700 % 8);
        let pair = KeyPair {
            group,
            exponent: Exponent(exponent),
            public: Vec::new(),
        };
        let shared = pair.agree(&y).unwrap();
        let digest = crate::hash::Hash::Sha256.digest(&[shared.as_ref()]);
        assert_eq!(digest.as_ref(), crate::tests::hex(expected), "{group:?}");
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
