//! Authentication and key management: which functions a handshake uses (IEEE 802.11-2020 table
//! 12-10).

use crypto::hash::Hash;
use wire::codec::Writer;
use wire::ieee80211::{AkmSuite, Rsn, key_information};

use crate::link::wireless::cipher::LinkCipher;

/// Where the master key comes from, and which functions go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Akm {
    /// EAP, 1.
    Ieee8021x,
    /// A passphrase or key, 2.
    Psk,
    /// EAP with SHA-256, 5.
    Ieee8021xSha256,
    /// A passphrase or key with SHA-256, 6.
    PskSha256,
    /// SAE, 8.
    Sae,
    /// OWE, 18.
    Owe,
}

/// How the MIC of a message is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MicKind {
    Hmac(Hash),
    Cmac,
}

impl Akm {
    /// Every AKM.
    pub const ALL: [Self; 6] = [
        Self::Ieee8021x,
        Self::Psk,
        Self::Ieee8021xSha256,
        Self::PskSha256,
        Self::Sae,
        Self::Owe,
    ];

    /// Its name in RSN elements.
    pub const fn suite(self) -> AkmSuite {
        match self {
            Self::Ieee8021x => AkmSuite::Ieee8021x,
            Self::Psk => AkmSuite::Psk,
            Self::Ieee8021xSha256 => AkmSuite::Ieee8021xSha256,
            Self::PskSha256 => AkmSuite::PskSha256,
            Self::Sae => AkmSuite::Sae,
            Self::Owe => AkmSuite::Owe,
        }
    }

    /// The RSN element of a network with this cipher, for frames to one station and to groups.
    pub fn element(self, cipher: LinkCipher) -> Vec<u8> {
        let rsn = Rsn {
            group: cipher.suite(),
            pairwise: vec![cipher.suite()],
            akms: vec![self.suite()],
            capabilities: 0,
            pmkids: Vec::new(),
            group_management: None,
        };
        let mut w = Writer::new();
        rsn.write(&mut w);
        w.into_vec()
    }

    /// The hash that derives keys.
    pub(super) const fn hash(self) -> Hash {
        match self {
            Self::Ieee8021x | Self::Psk => Hash::Sha1,
            _ => Hash::Sha256,
        }
    }

    /// The descriptor version of its messages. Beside TKIP the two oldest use RC4 and MD5.
    pub(super) const fn version(self, pairwise: LinkCipher) -> u16 {
        match self {
            Self::Ieee8021x | Self::Psk => match pairwise {
                LinkCipher::Tkip => key_information::HMAC_MD5_RC4,
                _ => key_information::HMAC_SHA1_AES,
            },
            Self::Ieee8021xSha256 | Self::PskSha256 => key_information::CMAC_AES,
            Self::Sae | Self::Owe => key_information::OF_AKM,
        }
    }

    pub(super) const fn mic_kind(self, pairwise: LinkCipher) -> MicKind {
        match self.version(pairwise) {
            key_information::HMAC_MD5_RC4 => MicKind::Hmac(Hash::Md5),
            key_information::HMAC_SHA1_AES => MicKind::Hmac(Hash::Sha1),
            _ => match self {
                Self::Owe => MicKind::Hmac(Hash::Sha256),
                _ => MicKind::Cmac,
            },
        }
    }
}
