//! Diffie-Hellman over the MODP groups of RFC 2409 §6 and RFC 3526, and over Curve25519 (RFC 7748)
//! in the encoding of RFC 8031 §3.1.
//!
//! The primes are safe (p = 2q + 1), so the range 2..p-2 is the whole check of a peer's value (RFC
//! 6989 §2.1). On Curve25519 any 32 octets are a value, but values of low order are refused. Left
//! out: other curves and larger primes, which [`crate::key_exchange`] has.

use zeroize::ZeroizeOnDrop;

use crate::rand::Stream;

pub mod long_term;
pub(crate) mod modp;
pub(crate) mod primes;
pub(crate) mod x25519;

use modp::Exponent;

/// Groups; the number is IANA's.
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
    /// 31, from the registry of IKEv2: the one of IKEv1 has no number for it (RFC 8031 §5).
    Curve25519,
}

/// Our secret and the public value that belongs to it.
pub struct KeyPair {
    group: Group,
    secret: Secret,
    public: Vec<u8>,
}

enum Secret {
    Modp(Exponent),
    Curve25519(x25519::Scalar),
}

/// What both ends share, wiped on drop: g^xy as long as a public value, the first coordinate of a
/// point, or the secret of a KEM.
#[derive(Clone, ZeroizeOnDrop)]
pub struct SharedSecret(Vec<u8>);

/// Why the peer's public value is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPublicValue {
    /// 0, 1, p - 1, p or more, or of a wrong length.
    #[error("the peer's public value is not in 2..p-2 of the group")]
    OutOfRange,
    /// Not as long as the public values of the group.
    #[error("the peer's public value is not as long as those of the group")]
    WrongLength,
    /// The shared value would be zero, on Curve25519.
    #[error("the peer's public value is of low order in the group")]
    LowOrder,
    /// Not a point of the curve, or the one at infinity.
    #[error("the peer's public value is not a point of the curve")]
    NotOnCurve,
    /// A public key of a KEM with a coefficient outside its field.
    #[error("the peer's public value is not a key of the method")]
    NotAKey,
    /// The peer sent our own value back.
    #[error("the peer's public value is our own")]
    Own,
}

impl Group {
    /// Every group, by number.
    pub const ALL: [Self; 7] = [
        Self::Modp768,
        Self::Modp1024,
        Self::Modp1536,
        Self::Modp2048,
        Self::Modp3072,
        Self::Modp4096,
        Self::Curve25519,
    ];

    /// The group of this number.
    pub fn of_number(number: u64) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|group| u64::from(group.number()) == number)
    }

    /// IANA's number (RFC 2409 appendix A, RFC 8031 §5).
    pub const fn number(self) -> u16 {
        match self {
            Self::Modp768 => 1,
            Self::Modp1024 => 2,
            Self::Modp1536 => 5,
            Self::Modp2048 => 14,
            Self::Modp3072 => 15,
            Self::Modp4096 => 16,
            Self::Curve25519 => 31,
        }
    }

    /// Octets of every public value, and of the prime if the group has one.
    #[expect(clippy::len_without_is_empty, reason = "no group is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Modp768 => 96,
            Self::Modp1024 => 128,
            Self::Modp1536 => 192,
            Self::Modp2048 => 256,
            Self::Modp3072 => 384,
            Self::Modp4096 => 512,
            Self::Curve25519 => x25519::LEN,
        }
    }

    /// The prime of a MODP group, big-endian.
    pub const fn prime(self) -> Option<&'static [u8]> {
        match self {
            Self::Modp768 => Some(&primes::MODP_768),
            Self::Modp1024 => Some(&primes::MODP_1024),
            Self::Modp1536 => Some(&primes::MODP_1536),
            Self::Modp2048 => Some(&primes::MODP_2048),
            Self::Modp3072 => Some(&primes::MODP_3072),
            Self::Modp4096 => Some(&primes::MODP_4096),
            Self::Curve25519 => None,
        }
    }

    /// Checks that `value` is a public value: padded to the group's length by its sender (RFC 2409
    /// §5), and in 2..p-2, or not of low order. A responder checks before it makes a pair of its
    /// own, which costs an exponentiation.
    pub fn check(self, value: &[u8]) -> Result<(), BadPublicValue> {
        match self.prime() {
            Some(prime) => modp::check(value, prime),
            None if value.len() != self.len() => Err(BadPublicValue::WrongLength),
            None if x25519::is_of_low_order(value) => Err(BadPublicValue::LowOrder),
            None => Ok(()),
        }
    }
}

impl KeyPair {
    /// A fresh pair.
    pub fn generate(group: Group, random: &mut Stream) -> Self {
        let secret = match group.prime() {
            Some(prime) => Secret::Modp(Exponent::generate(prime, random)),
            None => Secret::Curve25519(x25519::Scalar::generate(random)),
        };
        Self::of(group, secret)
    }

    fn of(group: Group, secret: Secret) -> Self {
        let public = match &secret {
            Secret::Modp(exponent) => exponent.public(),
            Secret::Curve25519(scalar) => scalar.public(),
        };
        Self {
            group,
            secret,
            public,
        }
    }

    /// The group.
    pub fn group(&self) -> Group {
        self.group
    }

    /// Our public value: a residue left-padded to the length of the prime, or the octets of
    /// RFC 7748 §5.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Computes g^xy with the peer's public value, which [`Group::check`] must accept. Refuses our
    /// own value.
    pub fn agree(&self, peer: &[u8]) -> Result<SharedSecret, BadPublicValue> {
        self.group.check(peer)?;
        if peer == self.public {
            return Err(BadPublicValue::Own);
        }
        match &self.secret {
            Secret::Modp(exponent) => Ok(exponent.agree(peer)),
            Secret::Curve25519(scalar) => scalar.agree(peer).ok_or(BadPublicValue::LowOrder),
        }
    }
}

impl SharedSecret {
    pub(crate) fn new(octets: Vec<u8>) -> Self {
        Self(octets)
    }
}

impl AsRef<[u8]> for SharedSecret {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests;
