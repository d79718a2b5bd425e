//! Long-term Diffie-Hellman: pairs that stay for years, for SKIP.
//!
//! SKIP's two groups have primes of their own (draft-ietf-ipsec-skip-06). Curve25519 is Caravan's
//! addition. The value that two pairs share never changes: it has no forward secrecy.

use zeroize::{ZeroizeOnDrop, Zeroizing};

use super::modp::is_between_2_and_p_minus_2;
use super::{BadPublicValue, SharedSecret, primes, x25519};
use crate::rand::Stream;
use crate::sys::exponentiate;

/// Groups of long-term pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// SKIP's prime of 1024 bits, legacy.
    Skip1024,
    /// SKIP's prime of 2048 bits.
    Skip2048,
    /// Curve25519.
    Curve25519,
}

/// Octets of a secret: an exponent of 256 bits, or a scalar.
pub const SECRET_LEN: usize = 32;

/// Octets of what SKIP takes of a shared value: the last ones.
pub const SHARED_LEN: usize = 32;

/// A secret and its public value.
pub struct LongTermKey {
    group: Group,
    secret: Secret,
    public: Vec<u8>,
}

#[derive(ZeroizeOnDrop)]
struct Secret([u8; SECRET_LEN]);

impl Group {
    /// Every group.
    pub const ALL: [Self; 3] = [Self::Skip1024, Self::Skip2048, Self::Curve25519];

    /// Octets of a public value.
    #[expect(clippy::len_without_is_empty, reason = "no group is empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::Skip1024 => primes::SKIP_1024.len(),
            Self::Skip2048 => primes::SKIP_2048.len(),
            Self::Curve25519 => x25519::LEN,
        }
    }

    /// The prime of SKIP's groups, whose generator is 2.
    pub const fn prime(self) -> Option<&'static [u8]> {
        match self {
            Self::Skip1024 => Some(&primes::SKIP_1024),
            Self::Skip2048 => Some(&primes::SKIP_2048),
            Self::Curve25519 => None,
        }
    }

    /// Whether a configuration must allow it explicitly.
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::Skip1024)
    }

    /// Checks that `value` is a public value, as [`super::Group::check`] does.
    pub fn check(self, value: &[u8]) -> Result<(), BadPublicValue> {
        match self.prime() {
            Some(prime) if is_between_2_and_p_minus_2(value, prime) => Ok(()),
            Some(_) => Err(BadPublicValue::OutOfRange),
            None if value.len() != self.len() => Err(BadPublicValue::WrongLength),
            None if x25519::is_of_low_order(value) => Err(BadPublicValue::LowOrder),
            None => Ok(()),
        }
    }
}

impl LongTermKey {
    /// A fresh pair.
    pub fn generate(group: Group, random: &mut Stream) -> Self {
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        random.fill(&mut secret[..]);
        Self::of(group, &secret)
    }

    /// The pair of a secret that was generated before.
    pub fn of(group: Group, octets: &[u8; SECRET_LEN]) -> Self {
        let mut secret = Secret(*octets);
        let public = match group.prime() {
            Some(prime) => {
                // The first bit is set, so that the exponent has its full length.
                secret.0[0] |= 0x80;
                let mut public = vec![0; group.len()];
                exponentiate(&[2], &secret.0, prime, &mut public);
                public
            }
            None => x25519::Scalar::new(octets).public(),
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

    /// What [`Self::of`] takes. For a file that only the owner may read.
    pub fn secret(&self) -> &[u8; SECRET_LEN] {
        &self.secret.0
    }

    /// The public value, of the group's length.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The shared value with a peer's public value. Refuses our own value.
    pub fn agree(&self, peer: &[u8]) -> Result<SharedSecret, BadPublicValue> {
        self.group.check(peer)?;
        if peer == self.public {
            return Err(BadPublicValue::Own);
        }
        match self.group.prime() {
            Some(prime) => {
                let mut shared = SharedSecret(vec![0; self.group.len()]);
                exponentiate(peer, &self.secret.0, prime, &mut shared.0);
                Ok(shared)
            }
            None => x25519::Scalar::new(&self.secret.0)
                .agree(peer)
                .ok_or(BadPublicValue::LowOrder),
        }
    }
}

impl SharedSecret {
    /// The low-order 256 bits.
    pub fn low_256(&self) -> &[u8; SHARED_LEN] {
        self.0.last_chunk().expect("every group is longer")
    }
}

#[cfg(test)]
mod tests;
