//! An association: two names, their secret, and how they protect packets. Checked once.

use core::fmt;

use crypto::dh::long_term::Group;
use wire::skip::{Algorithms, CryptAlg, KijAlg, MacAlg, Name};

use super::keys::MasterKey;
use super::layout::{IvLen, Layout};
use super::profile::{Profile, Renewal, has_weak_wrapping};

/// What an association is made of.
#[derive(Clone, PartialEq, Eq)]
pub struct Parts {
    /// Rules of n and of packet keys.
    pub profile: Profile,
    /// Algorithms; both ends send with these.
    pub algorithms: Algorithms,
    /// Our name. `Name::NONE`: our IP address.
    pub local: Name,
    /// The peer's name.
    pub remote: Name,
    /// Of DES, 3DES and RC2.
    pub iv_len: IvLen,
    /// When we take a new packet key, if that is before the profile's limits.
    pub renewal: Renewal,
    /// The secret of both.
    pub master: MasterKey,
}

/// Shows no secret.
impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (local, remote) = self.names();
        write!(f, "{} {local} {remote}", self.profile())
    }
}

/// Why parts do not make an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Algorithms of one profile with the rules of another.
    #[error("{0} does not use these algorithms: HKDF with AES-256-GCM-SIV is skip-x25519's alone")]
    OtherAlgorithms(Profile),
    /// The draft's rule on Kij Alg.
    #[error("DES may not encrypt a packet key of {packet_key_bits} bits: use 3DES")]
    WeakWrapping {
        /// Bits of the packet key.
        packet_key_bits: usize,
    },
    /// n would come from packets that anyone could have made.
    #[error("skip-paper takes n from authentic packets: choose a MAC")]
    NoMac,
    /// HKDF binds the keys to public values of Curve25519.
    #[error("skip-x25519 needs long-term keys on Curve25519")]
    OtherGroup,
    /// A packet of ours would come back as the peer's.
    #[error("both ends have the name {0}")]
    SameName(Name),
}

/// Effective bits of an association's algorithms: the work of the best known attack, as a power of
/// two. A chain is as strong as its weakest link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strength {
    /// Of the long-term pairs; none of a key set by hand.
    pub group_bits: Option<u16>,
    /// Of what encrypts the packet key.
    pub kij_bits: u16,
    /// Of the cipher; none without encryption.
    pub crypt_bits: Option<u16>,
    /// Of the MAC's key; none without authentication.
    pub mac_bits: Option<u16>,
}

impl Strength {
    /// The weakest link.
    pub fn bits(&self) -> u16 {
        let others = [self.group_bits, self.crypt_bits, self.mac_bits];
        others.into_iter().flatten().fold(self.kij_bits, u16::min)
    }
}

/// Parts that fit. [`super::Sealer`] and [`super::Opener`] are made of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Association {
    parts: Parts,
}

impl Association {
    /// Checks the parts.
    pub fn new(mut parts: Parts) -> Result<Self, Unfit> {
        let (profile, algorithms) = (parts.profile, parts.algorithms);
        let is_own = profile == Profile::X25519;
        if is_own != (algorithms == Algorithms::HKDF_AES_GCM_SIV) {
            return Err(Unfit::OtherAlgorithms(profile));
        }
        if is_own && parts.master.group() != Some(Group::Curve25519) {
            return Err(Unfit::OtherGroup);
        }
        if profile == Profile::Draft && has_weak_wrapping(algorithms) {
            return Err(Unfit::WeakWrapping {
                packet_key_bits: 8 * algorithms.packet_key_len(),
            });
        }
        if profile == Profile::Paper && algorithms.mac() == MacAlg::None {
            return Err(Unfit::NoMac);
        }
        if parts.local == parts.remote && parts.local != Name::NONE {
            return Err(Unfit::SameName(parts.local));
        }
        parts.renewal = parts.renewal.min(Renewal::of(profile, algorithms));
        Ok(Self { parts })
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The rules.
    pub fn profile(&self) -> Profile {
        self.parts.profile
    }

    /// The algorithms.
    pub fn algorithms(&self) -> Algorithms {
        self.parts.algorithms
    }

    /// Our name and the peer's.
    pub fn names(&self) -> (Name, Name) {
        (self.parts.local, self.parts.remote)
    }

    /// Tells its secret from others that the same two names have had. Whoever has it can test a
    /// guess of the secret, as with a packet.
    pub fn fingerprint(&self) -> u64 {
        self.parts.master.fingerprint()
    }

    /// Where the parts of its packets are.
    pub fn layout(&self) -> Layout {
        let names = [self.parts.local.nsid(), self.parts.remote.nsid()];
        Layout::new(self.parts.algorithms, names, self.parts.iv_len)
    }

    /// Whether packets prove their sender. One that does not must never bind a nomadic entry to an
    /// address: anyone could have sent it.
    pub fn is_authenticated(&self) -> bool {
        self.parts.algorithms.mac() != MacAlg::None
    }

    /// Whether a configuration must allow it explicitly.
    pub fn is_legacy(&self) -> bool {
        self.parts.profile.is_legacy()
    }

    /// How strong its algorithms are.
    pub fn strength(&self) -> Strength {
        let algorithms = self.parts.algorithms;
        Strength {
            group_bits: self.parts.master.group().map(|group| match group {
                Group::Skip1024 => 80,
                Group::Skip2048 => 112,
                Group::Curve25519 => 128,
            }),
            kij_bits: match algorithms.kij() {
                KijAlg::Des => 56,
                KijAlg::TripleDes => 112,
                KijAlg::Hkdf => 256,
            },
            crypt_bits: match algorithms.crypt() {
                CryptAlg::None => None,
                CryptAlg::Des => Some(56),
                CryptAlg::TripleDes => Some(112),
                CryptAlg::Rc2 | CryptAlg::Rc4 => Some(128),
                CryptAlg::AesGcmSiv => Some(256),
            },
            mac_bits: match algorithms.mac() {
                MacAlg::None => None,
                MacAlg::DesCbc => Some(56),
                MacAlg::Md5 => Some(128),
                MacAlg::Sha => Some(160),
                MacAlg::AesGcmSiv => Some(256),
            },
        }
    }
}
