//! Diffie-Hellman over the MODP groups of RFC 2409 §6 and RFC 3526.

mod primes;

use zeroize::ZeroizeOnDrop;

use crate::rand::Stream;
use crate::sys::{Modulus, mod_exp};

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
    modulus: Modulus,
    exponent: Exponent,
    public: Vec<u8>,
}

#[derive(ZeroizeOnDrop)]
struct Exponent(Vec<u8>);

/// The shared value g^xy, as long as the prime, wiped on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SharedSecret(Vec<u8>);

/// The peer's public value is not one: 0, 1, p - 1, p or more, or of a wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer's public value is not in 2..p-2 of the group")]
pub struct BadPublicValue;

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
}

impl Group {
    fn prime(self) -> &'static [u8] {
        match self {
            Self::Modp768 => &primes::MODP_768,
            Self::Modp1024 => &primes::MODP_1024,
            Self::Modp1536 => &primes::MODP_1536,
            Self::Modp2048 => &primes::MODP_2048,
            Self::Modp3072 => &primes::MODP_3072,
            Self::Modp4096 => &primes::MODP_4096,
        }
    }

    /// Octets of a secret exponent.
    const fn exponent_len(self) -> usize {
        match self {
            // RFC 3526 §8 puts this group's strength at 150 bits.
            Self::Modp4096 => 40,
            _ => 32,
        }
    }

    /// Whether it is in 2..=p-2 and as long as the prime.
    fn is_public_value(self, value: &[u8]) -> bool {
        let prime = self.prime();
        if value.len() != prime.len() {
            return false;
        }
        let (last, head) = value.split_last().expect("not empty");
        let is_small = head.iter().all(|octet| *octet == 0) && *last < 2;
        // The prime is odd: p - 1 differs from it in the last bit only.
        let (prime_last, prime_head) = prime.split_last().expect("not empty");
        let is_p_minus_1 = head == prime_head && *last == prime_last - 1;
        !is_small && !is_p_minus_1 && value < prime
    }
}

impl KeyPair {
    /// A fresh pair.
    pub fn generate(group: Group, random: &mut Stream) -> Self {
        let modulus = Modulus::new(group.prime());
        let mut exponent = Exponent(vec![0; group.exponent_len()]);
        random.fill(&mut exponent.0);
        let public = mod_exp(&[2], &exponent.0, &modulus);
        Self {
            group,
            modulus,
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

    /// g^xy with the peer's public value.
    pub fn agree(&self, peer: &[u8]) -> Result<SharedSecret, BadPublicValue> {
        if !self.group.is_public_value(peer) {
            return Err(BadPublicValue);
        }
        Ok(SharedSecret(mod_exp(peer, &self.exponent.0, &self.modulus)))
    }
}

impl AsRef<[u8]> for SharedSecret {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
