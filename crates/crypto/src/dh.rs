//! Diffie-Hellman over the MODP groups of RFC 2409 §6 and RFC 3526.
//!
//! The primes are safe (p = 2q + 1), so that 2..p-2 is the whole check of a peer's value
//! (RFC 6989 §2.1). Elliptic curves are left out.

use zeroize::ZeroizeOnDrop;

use crate::rand::Stream;
use crate::sys::exponentiate;

mod primes;

/// MODP groups; the number is IANA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// 1, legacy.
    Modp768,
    /// 2, legacy.
    Modp1024,
    /// 5, legacy.
    Modp1536,
    /// 14
    Modp2048,
    /// 15
    Modp3072,
    /// 16
    Modp4096,
}

/// Our secret exponent and the public value that belongs to it. The exponent is short: twice the
/// group's strength in bits (RFC 3526 §8), at least 256 bits.
pub struct KeyPair {
    group: Group,
    exponent: Exponent,
    public: Vec<u8>,
}

#[derive(ZeroizeOnDrop)]
struct Exponent(Vec<u8>);

/// The shared value g^xy, as long as the prime, wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SharedSecret(Vec<u8>);

/// The peer's public value is not one, or not the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicValue {
    /// 0, 1, p - 1, p or more, or of a wrong length.
    #[error("the peer's public value is not in 2..p-2 of the group")]
    OutOfRange,
    /// Ours comes back.
    #[error("the peer's public value is our own")]
    Own,
}

impl Group {
    /// IANA's number (RFC 2409 appendix A).
    pub const fn number(self) -> u16 {
        match self {
            Self::Modp768 => 1,
            Self::Modp1024 => 2,
            Self::Modp1536 => 5,
            Self::Modp2048 => 14,
            Self::Modp3072 => 15,
            Self::Modp4096 => 16,
        }
    }

    /// Octets of the prime and of every public value.
    #[expect(clippy::len_without_is_empty, reason = "no group is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Modp768 => 96,
            Self::Modp1024 => 128,
            Self::Modp1536 => 192,
            Self::Modp2048 => 256,
            Self::Modp3072 => 384,
            Self::Modp4096 => 512,
        }
    }

    /// The prime, big-endian.
    pub const fn prime(self) -> &'static [u8] {
        match self {
            Self::Modp768 => &primes::MODP_768,
            Self::Modp1024 => &primes::MODP_1024,
            Self::Modp1536 => &primes::MODP_1536,
            Self::Modp2048 => &primes::MODP_2048,
            Self::Modp3072 => &primes::MODP_3072,
            Self::Modp4096 => &primes::MODP_4096,
        }
    }

    /// Octets of our exponents: the first estimate of RFC 3526 §8, rounded up to whole words.
    const fn exponent_len(self) -> usize {
        match self {
            Self::Modp3072 | Self::Modp4096 => 40,
            _ => 32,
        }
    }

    /// Whether `value` is a public value: as long as the prime, and in 2..p-2. A responder asks
    /// before it makes a pair of its own, which costs an exponentiation.
    pub fn admits(self, value: &[u8]) -> bool {
        let prime = self.prime();
        let (last, front) = prime.split_last().expect("no prime is empty");
        let below_p_minus_1 = match value.split_last() {
            // An odd prime: p - 1 differs from it in the last octet only.
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
}

impl KeyPair {
    /// A fresh pair.
    pub fn generate(group: Group, random: &mut Stream) -> Self {
        let mut exponent = Exponent(vec![0; group.exponent_len()]);
        random.fill(&mut exponent.0);
        // The first bit is set, so that the exponent is as long as it says.
        exponent.0[0] |= 0x80;
        let mut public = vec![0; group.len()];
        exponentiate(&[2], &exponent.0, group.prime(), &mut public);
        Self {
            group,
            exponent,
            public,
        }
    }

    /// The group.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Our public value, left-padded to the length of the prime.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// g^xy with the peer's public value, which must be as long as the prime: a sender pads it
    /// (RFC 2409 §5). Our own value sent back to us is refused.
    pub fn agree(&self, peer: &[u8]) -> Result<SharedSecret, BadPublicValue> {
        if !self.group.admits(peer) {
            return Err(BadPublicValue::OutOfRange);
        }
        if peer == self.public {
            return Err(BadPublicValue::Own);
        }
        let mut secret = SharedSecret(vec![0; self.group.len()]);
        exponentiate(peer, &self.exponent.0, self.group.prime(), &mut secret.0);
        Ok(secret)
    }
}

impl AsRef<[u8]> for SharedSecret {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests;
