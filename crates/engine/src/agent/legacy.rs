//! The paper's own form, only where a configuration says `legacy = true`: Client and Host hold the
//! same private keys, and Target delivers a pre-shared key.
//!
//! The paper leaves the algorithm of the pairs open, but a pair encrypts and signs. Here a pair is
//! 32 octets, from which HKDF makes an X25519 key and an Ed25519 key. Requests and responses are
//! sealed to the one and signed by the other, whoever sends them.

use crypto::ed25519::SigningKey;
use crypto::hash::{Hash, HmacKey, expand, extract};
use crypto::hpke;
use zeroize::Zeroizing;

/// Octets of the pre-shared key.
pub const SESSION_KEY_LEN: usize = 32;

/// What this form does not give. The default form has none of these.
pub const WEAKNESSES: [&str; 9] = [
    "Host knows the session key, so it can read the tunnel, change it and be either end of it",
    "Host holds the private keys, so it can make requests in the name of its users",
    "Target checks no signature of the user, so a Host with this form comes in as every user of \
     its own whose keys Target has not enrolled, and nothing shows who it was",
    "with a pre-shared key IKEv1 runs in aggressive mode, which shows the user's name to whoever \
     listens",
    "whoever prints the sheet, or copies Host's database, can do the same",
    "the tag proves possession of the pair only: Host and Client can each have made it, so neither \
     can be held to it, and Client cannot tell who has answered",
    "it is not forward secret: whoever has recorded the exchange and finds the sheet later learns \
     the session key, and with a weak IKE mode what was in the tunnel",
    "Target is not named on the sheet, so Host can lead Client to any machine",
    "no certificate ends with the tunnel: while Target's agent is gone, whoever has the session \
     key comes in again",
];

/// A shared pair. Wiped on drop.
pub struct Pair {
    /// Signs both directions.
    pub signing: SigningKey,
    /// Opens both directions.
    pub sealing: hpke::SecretKey,
}

impl Pair {
    /// The pair of a secret on a sheet and in Host's database.
    pub fn of(secret: &[u8; 32]) -> Self {
        let key = extract(Hash::Sha256, b"caravan tunnel-agent 1 pair", secret);
        let key = HmacKey::new(Hash::Sha256, key.as_ref());
        let part = |what: &[u8]| {
            let mut octets = Zeroizing::new([0; 32]);
            expand(&key, &[what], &mut octets[..]);
            octets
        };
        Self {
            signing: SigningKey::of(&part(b"sign")),
            sealing: hpke::SecretKey::of(&part(b"seal")),
        }
    }
}
