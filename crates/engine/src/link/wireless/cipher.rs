//! The ciphers, and the keys for them.

use crypto::hash::is_equal;
use wire::ieee80211::CipherSuite;
use zeroize::Zeroizing;

/// A cipher of a wireless link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkCipher {
    /// WEP with a key of 40 bits. Legacy.
    Wep40,
    /// WEP with a key of 104 bits. Legacy.
    Wep104,
    /// TKIP. Legacy.
    Tkip,
    /// CCMP with AES-128.
    Ccmp128,
    /// GCMP with AES-256.
    Gcmp256,
}

/// A cipher that the configuration permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermittedCipher(LinkCipher);

/// The cipher is legacy and the configuration does not permit that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("legacy = true is needed for {}", .0.name())]
pub struct LegacyCipher(pub LinkCipher);

impl LinkCipher {
    /// Every cipher, the weakest first.
    pub const ALL: [Self; 5] = [
        Self::Wep40,
        Self::Wep104,
        Self::Tkip,
        Self::Ccmp128,
        Self::Gcmp256,
    ];

    /// Its name in files and answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wep40 => "wep-40",
            Self::Wep104 => "wep-104",
            Self::Tkip => "tkip",
            Self::Ccmp128 => "ccmp-128",
            Self::Gcmp256 => "gcmp-256",
        }
    }

    /// Whether it is WEP.
    pub const fn is_wep(self) -> bool {
        matches!(self, Self::Wep40 | Self::Wep104)
    }

    /// Whether only a configuration with `legacy = true` may have it.
    pub const fn is_legacy(self) -> bool {
        matches!(self, Self::Wep40 | Self::Wep104 | Self::Tkip)
    }

    /// Checks that the configuration permits it.
    pub fn permit(self, allows_legacy: bool) -> Result<PermittedCipher, LegacyCipher> {
        match self.is_legacy() && !allows_legacy {
            true => Err(LegacyCipher(self)),
            false => Ok(PermittedCipher(self)),
        }
    }

    /// Octets of a key; with TKIP, both MIC keys too.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Wep40 => 5,
            Self::Wep104 => 13,
            Self::Ccmp128 => 16,
            Self::Tkip | Self::Gcmp256 => 32,
        }
    }

    /// Octets that it adds to a frame.
    pub const fn overhead(self) -> usize {
        match self {
            Self::Wep40 | Self::Wep104 => 4 + 4,
            Self::Tkip => 8 + 8 + 4,
            Self::Ccmp128 => 8 + 8,
            Self::Gcmp256 => 8 + 16,
        }
    }

    /// Its name in RSN elements.
    pub const fn suite(self) -> CipherSuite {
        match self {
            Self::Wep40 => CipherSuite::Wep40,
            Self::Wep104 => CipherSuite::Wep104,
            Self::Tkip => CipherSuite::Tkip,
            Self::Ccmp128 => CipherSuite::Ccmp128,
            Self::Gcmp256 => CipherSuite::Gcmp256,
        }
    }
}

impl PermittedCipher {
    /// The cipher.
    pub const fn cipher(self) -> LinkCipher {
        self.0
    }
}

/// A key of a cipher, wiped on drop.
#[derive(Clone)]
pub struct TemporalKey {
    cipher: PermittedCipher,
    octets: Zeroizing<Vec<u8>>,
}

impl TemporalKey {
    /// None if `octets` do not have the length of the cipher's keys.
    pub fn new(cipher: PermittedCipher, octets: &[u8]) -> Option<Self> {
        (octets.len() == cipher.0.key_len()).then(|| Self {
            cipher,
            octets: Zeroizing::new(octets.to_vec()),
        })
    }

    /// Its cipher.
    pub fn cipher(&self) -> LinkCipher {
        self.cipher.0
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }
}

impl PartialEq for TemporalKey {
    fn eq(&self, other: &Self) -> bool {
        self.cipher == other.cipher && is_equal(&self.octets, &other.octets)
    }
}

impl Eq for TemporalKey {}

/// A key for frames of an access point to groups.
#[derive(Clone, PartialEq, Eq)]
pub struct GroupKey {
    /// The key.
    pub key: TemporalKey,
    /// Its number, 0 to 3. Access points use 1 and 2 in turn.
    pub key_id: u8,
    /// The packet number of the last frame that was sent with it.
    pub last_number: u64,
}
