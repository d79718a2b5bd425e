//! Hybrid public key encryption (RFC 9180), base mode, one message for each context:
//! DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and one of two AEADs, by aws-lc.
//!
//! Left out: the modes that authenticate the sender (whoever needs that signs), further messages of
//! a context, and exported secrets. [`SecretKey::agree`] is no part of HPKE: it is what two
//! long-term keys share, for a key of another use.

use zeroize::Zeroizing;

use crate::dh::SharedSecret;
use crate::dh::x25519::Scalar;
use crate::rand::Stream;
use crate::sys::hpke::{self as sys, HpkeKey};

pub use crate::sys::hpke::Aead;

/// Octets of a secret key.
pub const SECRET_LEN: usize = 32;
/// Octets of a public value, and of the key that a sender encapsulates.
pub const PUBLIC_LEN: usize = sys::PUBLIC_LEN;
/// Octets that a ciphertext is longer than its clear text.
pub const TAG_LEN: usize = sys::TAG_LEN;

/// A recipient's key pair. Its secret is wiped on drop.
pub struct SecretKey {
    key: HpkeKey,
    scalar: Scalar,
}

/// A recipient's public value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PublicKey(pub [u8; PUBLIC_LEN]);

/// A sealed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The encapsulated key.
    pub encapsulated: [u8; PUBLIC_LEN],
    /// The ciphertext with its tag.
    pub ciphertext: Vec<u8>,
}

/// The public value is of low order: every secret shared with it would be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the recipient's public value is of low order")]
pub struct LowOrder;

/// The message was not sealed to this key with this `info` and this additional data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message is not sealed to this key for this use")]
pub struct NotForUs;

impl SecretKey {
    /// A fresh pair.
    pub fn generate(random: &mut Stream) -> Self {
        let mut octets = Zeroizing::new([0; SECRET_LEN]);
        random.fill(&mut octets[..]);
        Self::of(&octets)
    }

    /// The pair of a secret that was generated before.
    pub fn of(octets: &[u8; SECRET_LEN]) -> Self {
        Self {
            key: HpkeKey::new(octets),
            scalar: Scalar::new(octets),
        }
    }

    /// What this pair shares with the owner of a public value (RFC 7748 §6.1), the same for ever.
    /// It must go through a key derivation with a use of its own, as HPKE's contexts do.
    pub fn agree(&self, peer: PublicKey) -> Result<SharedSecret, LowOrder> {
        self.scalar.agree(&peer.0).ok_or(LowOrder)
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.key.public())
    }

    /// Opens a message that was sealed with the same `info` and `aad` (RFC 9180 §6.1).
    pub fn open(
        &self,
        aead: Aead,
        sealed: &Sealed,
        info: &[u8],
        aad: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, NotForUs> {
        let opened = self
            .key
            .open(aead, &sealed.encapsulated, info, aad, &sealed.ciphertext);
        opened.map(Zeroizing::new).ok_or(NotForUs)
    }
}

impl PublicKey {
    /// Seals one message (RFC 9180 §6.1). `info` says what it is for, `aad` is authenticated
    /// beside it.
    pub fn seal(
        &self,
        aead: Aead,
        clear: &[u8],
        info: &[u8],
        aad: &[u8],
        random: &mut Stream,
    ) -> Result<Sealed, LowOrder> {
        let mut ephemeral = Zeroizing::new([0; SECRET_LEN]);
        random.fill(&mut ephemeral[..]);
        self.seal_with(aead, clear, info, aad, &ephemeral)
    }

    fn seal_with(
        &self,
        aead: Aead,
        clear: &[u8],
        info: &[u8],
        aad: &[u8],
        ephemeral: &[u8; SECRET_LEN],
    ) -> Result<Sealed, LowOrder> {
        let sealed = sys::seal(aead, &self.0, ephemeral, info, aad, clear);
        let (encapsulated, ciphertext) = sealed.ok_or(LowOrder)?;
        Ok(Sealed {
            encapsulated,
            ciphertext,
        })
    }
}

#[cfg(test)]
mod tests;
