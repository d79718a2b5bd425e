//! Keys of agents and of users.

use core::fmt;

use crypto::ed25519::{SigningKey, VerifyKey};
use crypto::hash::Hash;
use crypto::hpke;
use crypto::rand::Stream;

use super::Digest;

/// Starts what is hashed to a fingerprint.
const FINGERPRINT: &[u8] = b"caravan tunnel-agent 1 identity";

/// What others know of Host or Target: where to seal to, and whose signature to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Messages are sealed to it.
    pub sealing: hpke::PublicKey,
    /// Its signatures are checked with it.
    pub signing: VerifyKey,
}

/// Secret keys of Host or Target.
pub struct Keys {
    /// Opens messages.
    pub sealing: hpke::SecretKey,
    /// Signs messages.
    pub signing: SigningKey,
}

/// SHA-256 over both public keys of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fingerprint(pub Digest);

/// The start of a fingerprint, by which an agent names itself in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentName(pub [u8; 16]);

impl Identity {
    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint(digest(&[FINGERPRINT, &self.sealing.0, &self.signing.0]))
    }

    /// Its name.
    pub fn name(&self) -> AgentName {
        self.fingerprint().name()
    }
}

impl Fingerprint {
    /// The name of its agent.
    pub fn name(&self) -> AgentName {
        AgentName(*self.0.0.first_chunk().expect("16 of 32 octets"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Keys {
    /// Fresh keys.
    pub fn generate(random: &mut Stream) -> Self {
        Self {
            sealing: hpke::SecretKey::generate(random),
            signing: SigningKey::generate(random),
        }
    }

    /// The public halves.
    pub fn identity(&self) -> Identity {
        Identity {
            sealing: self.sealing.public(),
            signing: self.signing.public(),
        }
    }
}

/// SHA-256 over the parts, one after the other.
pub(super) fn digest(parts: &[&[u8]]) -> Digest {
    let digest = Hash::Sha256.digest(parts);
    Digest(digest.as_ref().try_into().expect("SHA-256"))
}
