//! Exponents modulo a safe prime, with the generator 2.

use zeroize::Zeroizing;

use super::{BadPublicValue, SharedSecret};
use crate::rand::Stream;
use crate::sys::exponentiate;

/// Our secret. Exponents are short: twice the group's strength in bits (RFC 3526 §8), at least 256
/// bits.
pub(crate) struct Exponent {
    prime: &'static [u8],
    octets: Zeroizing<Vec<u8>>,
}

impl Exponent {
    /// A fresh one.
    pub(crate) fn generate(prime: &'static [u8], random: &mut Stream) -> Self {
        let mut octets = Zeroizing::new(vec![0; exponent_len(prime)]);
        random.fill(&mut octets);
        // The first bit is set, so that the exponent has its full length.
        octets[0] |= 0x80;
        Self { prime, octets }
    }

    #[cfg(test)]
    pub(super) fn of(prime: &'static [u8], octets: Vec<u8>) -> Self {
        let octets = Zeroizing::new(octets);
        Self { prime, octets }
    }

    /// 2 to its power, as long as the prime.
    pub(crate) fn public(&self) -> Vec<u8> {
        let mut public = vec![0; self.prime.len()];
        exponentiate(&[2], &self.octets, self.prime, &mut public);
        public
    }

    /// A value that [`check`] accepts, to its power.
    pub(crate) fn agree(&self, peer: &[u8]) -> SharedSecret {
        let mut secret = SharedSecret(vec![0; self.prime.len()]);
        exponentiate(peer, &self.octets, self.prime, &mut secret.0);
        secret
    }
}

/// Octets of exponents: the first estimate of RFC 3526 §8, rounded up to whole words.
pub(super) const fn exponent_len(prime: &[u8]) -> usize {
    match prime.len() {
        0..=256 => 32,
        257..=512 => 40,
        513..=768 => 44,
        _ => 48,
    }
}

/// Checks that a public value is as long as the prime (RFC 2409 §5, RFC 7296 §3.4) and in 2..p-2.
pub(crate) fn check(value: &[u8], prime: &[u8]) -> Result<(), BadPublicValue> {
    match is_between_2_and_p_minus_2(value, prime) {
        true => Ok(()),
        false => Err(BadPublicValue::OutOfRange),
    }
}

/// Also checks that it is as long as the prime.
pub(super) fn is_between_2_and_p_minus_2(value: &[u8], prime: &[u8]) -> bool {
    let (last, front) = prime.split_last().expect("no prime is empty");
    let below_p_minus_1 = match value.split_last() {
        // The prime is odd, so p - 1 differs from it only in the last octet.
        Some((value_last, value_front)) if value.len() == prime.len() => {
            (value_front, *value_last) < (front, last - 1)
        }
        _ => false,
    };
    let above_1 = value.iter().rev().enumerate().any(|(at, octet)| match at {
        0 => *octet > 1,
        _ => *octet > 0,
    });
    below_p_minus_1 && above_1
}
