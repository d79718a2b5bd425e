//! Profiles: which n is sent and accepted, and when a packet key ends.

use core::fmt;

use wire::skip::{Algorithms, CryptAlg, KijAlg};

use super::counter;
use crate::time::Duration;

/// A set of rules for both ends of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// draft-ietf-ipsec-skip-06: n is the hour.
    #[default]
    Draft,
    /// Gupta and Montenegro, 1998: n steps at 30 s or 512 KB. It breaks rules of the draft, see
    /// [`Profile::broken_rules`].
    Paper,
    /// Caravan's own: the header and n of the draft, X25519, HKDF with SHA-256, AES-256-GCM-SIV,
    /// and a sequence number. Only Caravan speaks it.
    X25519,
}

/// What `skip-x25519` gives up against IKEv2.
pub const LOSSES: &str = "skip-x25519 has no forward secrecy: whoever learns one of the two \
    long-term secrets reads all packets, past and future; it hides no names; a receiver that \
    restarts accepts once more what was sent in the last two hours, though it follows nobody by \
    it; both clocks must agree to an hour; and its algorithms are fixed, nothing is negotiated";

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 3] = [Self::Draft, Self::Paper, Self::X25519];

    /// Its name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Draft => "skip-draft",
            Self::Paper => "skip-paper",
            Self::X25519 => "skip-x25519",
        }
    }

    /// Whether a configuration must allow it explicitly: all that uses the draft's algorithms.
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::Draft | Self::Paper)
    }

    pub(super) const fn counts_hours(self) -> bool {
        !matches!(self, Self::Paper)
    }

    /// Sentences on the rules of the draft that the profile breaks with these algorithms. Empty for
    /// the draft's own profile.
    pub fn broken_rules(self, algorithms: Algorithms) -> Vec<&'static str> {
        let is_paper = self == Self::Paper;
        let is_own = self == Self::X25519;
        let rules = [
            is_paper.then_some(
                "n is a count of this pair: the draft has the whole hours since 1995-01-01, so \
                 that the receiver needs only a clock",
            ),
            is_paper.then_some(
                "n is accepted from 1 below to 4,096 above the highest that was authentic: the \
                 draft accepts 1 on either side of the receiver's hour",
            ),
            (is_paper && has_weak_wrapping(algorithms)).then_some(
                "DES encrypts the packet key of a stronger algorithm: the draft wants 3DES with \
                 keyed MD5 and with each cipher of 128 bits",
            ),
            is_own.then_some(
                "algorithm 252 is of the private range, without the draft's required algorithms",
            ),
            is_own.then_some("the field of the packet key holds a salt instead of a key"),
        ];
        rules.into_iter().flatten().collect()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the packet key is wrapped by something weaker than what it keys.
pub(super) fn has_weak_wrapping(algorithms: Algorithms) -> bool {
    algorithms.kij() == KijAlg::Des && algorithms.packet_key_len() > KijAlg::Des.key_len()
}

/// When the sender takes a new packet key: at the first limit that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Octets of clear text under one key.
    pub bytes: u64,
    /// Age of a key.
    pub age: Duration,
    /// Packets under one key.
    pub packets: u64,
}

impl Renewal {
    /// The draft's: 10 MB or 2 minutes.
    pub const DRAFT: Self = Self {
        bytes: 10_000_000,
        age: Duration::from_mins(2),
        packets: u64::MAX,
    };

    /// The paper's: when n steps.
    pub const PAPER: Self = Self {
        bytes: counter::STEP_BYTES,
        age: counter::STEP_AGE,
        packets: u64::MAX,
    };

    /// A new key for every packet.
    pub const EVERY_PACKET: Self = Self {
        packets: 1,
        ..Self::DRAFT
    };

    /// The latest that a profile allows with these algorithms.
    pub fn of(profile: Profile, algorithms: Algorithms) -> Self {
        let of_profile = match profile {
            Profile::Draft | Profile::X25519 => Self::DRAFT,
            Profile::Paper => Self::PAPER,
        };
        match algorithms.crypt() {
            // RC4 has no IV: a second packet under the same key would have the same keystream.
            CryptAlg::Rc4 => of_profile.min(Self::EVERY_PACKET),
            _ => of_profile,
        }
    }

    /// The smaller of each limit.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            age: self.age.min(other.age),
            packets: self.packets.min(other.packets),
        }
    }
}
