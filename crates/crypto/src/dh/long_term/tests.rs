use super::*;
use crate::hash::Hash;
use crate::rand::Seed;
use crate::tests::hex;

/// The sentence from which SKIP's primes are made.
const SENTENCE: &[u8; 79] =
    b"Whatever you do will be insignificant, but it is very important that you do it.";

fn pair(group: Group, number: u64) -> LongTermKey {
    LongTermKey::generate(group, &mut Seed::new([4; 32]).stream("long-term", number))
}

/// A number of `bits` with its two highest set, from SHA-1 of the sentence and its successors.
fn start(bits: usize) -> Vec<u8> {
    let mut number = Vec::new();
    let mut seed = SENTENCE.to_vec();
    while number.len() * 8 < bits {
        number.splice(0..0, Hash::Sha1.digest(&[&seed]).as_ref().to_vec());
        *seed.last_mut().unwrap() += 1;
    }
    number.drain(..number.len() - bits / 8);
    number[0] |= 0xc0;
    number
}

fn plus(number: &[u8], mut more: u32) -> Vec<u8> {
    let mut sum = number.to_vec();
    for octet in sum.iter_mut().rev() {
        more += u32::from(*octet);
        *octet = more as u8;
        more >>= 8;
    }
    assert_eq!(more, 0);
    sum
}

/// The start has its second-highest bit set and the rest from the hash: t = N mod 2^(k-2) + 2^(k-1)
/// + 2^(k-2).
#[test]
fn the_primes_come_from_the_sentence() {
    for (group, bits, steps) in [
        (Group::Skip1024, 1024, 505_479),
        (Group::Skip2048, 2048, 674_043),
    ] {
        assert_eq!(group.prime().unwrap(), plus(&start(bits), steps));
    }
}

/// As other programs have printed them.
#[test]
fn the_primes_are_the_published_ones() {
    let ends = [
        (Group::Skip1024, "f488fd584e49dbcd", "aba25ec355e92f78c7"),
        (Group::Skip2048, "f64257b7087f0817", "aba25ec355e9320b3b"),
    ];
    for (group, first, last) in ends {
        let prime = group.prime().unwrap();
        assert!(prime.starts_with(&hex(first)));
        assert!(prime.ends_with(&hex(last)));
    }
}

/// a^(m-1) mod m.
fn fermat(base: u8, modulus: &[u8]) -> Vec<u8> {
    let mut exponent = modulus.to_vec();
    *exponent.last_mut().unwrap() -= 1;
    let mut result = vec![0; modulus.len()];
    exponentiate(&[base], &exponent, modulus, &mut result);
    result
}

fn half(number: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut halved = number.to_vec();
    for octet in &mut halved {
        let next = *octet & 1;
        *octet = *octet >> 1 | carry << 7;
        carry = next;
    }
    halved
}

#[test]
fn the_primes_are_safe() {
    for group in [Group::Skip1024, Group::Skip2048] {
        let prime = group.prime().unwrap().to_vec();
        let half = half(&prime);
        for number in [&prime, &half] {
            let one = [vec![0; number.len() - 1], vec![1]].concat();
            for base in [2, 3, 5, 7, 11, 13] {
                assert_eq!(fermat(base, number), one, "{group:?} {base}");
            }
        }
        assert_ne!(fermat(3, &plus(&prime, 2))[..], [1]);
    }
}

#[test]
fn both_sides_share_a_value() {
    for group in Group::ALL {
        let (a, b) = (pair(group, 1), pair(group, 2));
        assert_eq!((a.group(), a.public().len()), (group, group.len()));
        let ab = a.agree(b.public()).unwrap();
        assert_eq!(ab.low_256(), b.agree(a.public()).unwrap().low_256());
        assert_eq!(ab.as_ref()[group.len() - 32..], ab.low_256()[..]);
        let again = LongTermKey::of(group, a.secret());
        assert_eq!(again.public(), a.public());
        let c = pair(group, 3).agree(b.public()).unwrap();
        assert_ne!(c.low_256(), ab.low_256());
    }
}

#[test]
fn bad_public_values_are_refused() {
    for group in Group::ALL {
        let own = pair(group, 1);
        let refused = |value: &[u8]| own.agree(value).err();
        assert_eq!(refused(own.public()), Some(BadPublicValue::Own));
        let mut one = vec![0; group.len()];
        *one.last_mut().unwrap() = 1;
        let (zero, short) = (vec![0; group.len()], vec![9; group.len() - 1]);
        if let Some(prime) = group.prime() {
            let mut last = prime.to_vec();
            *last.last_mut().unwrap() -= 1;
            for value in [&zero[..], &one, &short, prime, &last, &[]] {
                assert_eq!(refused(value), Some(BadPublicValue::OutOfRange));
            }
        } else {
            assert_eq!(refused(&zero), Some(BadPublicValue::LowOrder));
            assert_eq!(refused(&short), Some(BadPublicValue::WrongLength));
        }
    }
    assert!(Group::Skip1024.is_legacy() && !Group::Skip2048.is_legacy());
}

/// SHA-256 of what Python computes with `pow(2, secret, prime)`.
#[test]
fn a_known_secret_gives_its_public_value() {
    let key = LongTermKey::of(Group::Skip1024, &[0x80; 32]);
    let digest = Hash::Sha256.digest(&[key.public()]);
    assert_eq!(digest.as_ref(), hex(PUBLIC_OF_0X80), "Skip1024");
}

const PUBLIC_OF_0X80: &str = "81c5d009056106768df753b4a8ec117d94c6690f8db21a9501dc683ba3146fd5";
