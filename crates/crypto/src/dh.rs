//! Diffie-Hellman over the MODP groups of RFC 2409 §6 and RFC 3526.

use zeroize::ZeroizeOnDrop;

use crate::rand::Stream;

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

impl KeyPair {
    /// A fresh pair.
    pub fn generate(group: Group, random: &mut Stream) -> Self {
        let _ = (group, random);
        panic!("crypto")
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
        let _ = (peer, &self.exponent.0);
        panic!("crypto")
    }
}

impl AsRef<[u8]> for SharedSecret {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
