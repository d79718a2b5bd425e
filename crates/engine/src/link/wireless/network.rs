//! What both ends of a network are configured with, and what they say of it to each other.

use wire::codec::Writer;
use wire::ieee80211::{
    AkmSuite, CipherSuite, Rsn, capability, element_id, find_element, write_rates, write_ssid,
};

use super::cipher::{PermittedCipher, TemporalKey};
use super::handshake::{Akm, MasterKey};
use super::outbox::Announced;
use super::port::Privacy;
use super::sae::Method;

/// Most octets of a network's name.
pub const MAX_SSID_LEN: usize = 32;

/// A network.
#[derive(Clone)]
pub struct Network {
    /// Its name, of 1 to [`MAX_SSID_LEN`] octets.
    pub ssid: Vec<u8>,
    /// How its frames are protected.
    pub security: Security,
}

/// How the frames of a network are protected, and where the keys come from.
#[derive(Clone)]
pub enum Security {
    /// Not at all.
    Open,
    /// By a key of WEP that all know. Legacy.
    StaticWep {
        /// The key.
        key: TemporalKey,
        /// Its number, 0 to 3.
        key_id: u8,
    },
    /// By keys of WEP that the access point gives after EAP. Legacy.
    DynamicWep(PermittedCipher),
    /// By keys of the four-way handshake.
    Rsn {
        /// Where the master key comes from.
        akm: Akm,
        /// Protects frames to one station and to groups.
        cipher: PermittedCipher,
        /// What both know beforehand.
        credential: Credential,
    },
}

/// What both ends know before a station joins.
#[derive(Clone)]
pub enum Credential {
    /// Nothing: the master key comes from EAP or OWE.
    None,
    /// The master key, as of a passphrase.
    Master(MasterKey),
    /// A password, for SAE.
    Password(Method),
}

impl Security {
    /// Whether data are protected.
    pub fn privacy(&self) -> Privacy {
        match self {
            Self::Open => Privacy::Open,
            _ => Privacy::Protected,
        }
    }

    /// Whether the keys come from EAP.
    pub fn wants_session(&self) -> bool {
        match self {
            Self::DynamicWep(_) => true,
            Self::Rsn { akm, .. } => matches!(akm, Akm::Ieee8021x | Akm::Ieee8021xSha256),
            _ => false,
        }
    }

    /// Whether EAPOL-Key packets are for the ends of the link.
    pub fn has_key_packets(&self) -> bool {
        matches!(self, Self::DynamicWep(_) | Self::Rsn { .. })
    }

    /// Whether EAPOL is carried for what is behind the ends. Elsewhere it is key packets alone,
    /// which are theirs.
    pub fn carries_eapol(&self) -> bool {
        !matches!(self, Self::Rsn { .. }) || self.wants_session()
    }

    /// Whether nothing of a handshake tells who a station is: anybody may take any address.
    pub(super) fn lets_anybody_in(&self) -> bool {
        match self {
            Self::Open | Self::StaticWep { .. } => true,
            Self::DynamicWep(_) => false,
            Self::Rsn { akm, .. } => *akm == Akm::Owe,
        }
    }

    /// Whether a station with keys is asked before a frame in the clear is believed that ends its
    /// link. Others do not ask: with a passphrase that all know anybody can make its keys, and with
    /// EAP only that tells who it is.
    pub(super) fn asks_first(&self) -> bool {
        matches!(
            self,
            Self::Rsn {
                akm: Akm::Sae | Akm::Owe,
                ..
            }
        )
    }

    /// The cipher of its data.
    pub fn cipher(&self) -> Option<super::LinkCipher> {
        match self {
            Self::Open => None,
            Self::StaticWep { key, .. } => Some(key.cipher()),
            Self::DynamicWep(cipher) | Self::Rsn { cipher, .. } => Some(cipher.cipher()),
        }
    }

    pub(super) fn is_sae(&self) -> bool {
        matches!(self, Self::Rsn { akm: Akm::Sae, .. })
    }

    pub(super) fn capabilities(&self) -> u16 {
        match self.privacy() {
            Privacy::Open => capability::ESS,
            Privacy::Protected => capability::ESS | capability::PRIVACY,
        }
    }

    /// The RSN element, empty without one.
    pub(super) fn rsn(&self) -> Vec<u8> {
        match self {
            Self::Rsn { akm, cipher, .. } => akm.element(cipher.cipher()),
            _ => Vec::new(),
        }
    }

    /// What an access point announces.
    pub(super) fn announced(capabilities: u16, elements: &[u8]) -> Announced {
        let Some(element) = find_element(elements, element_id::RSN) else {
            return match capabilities & capability::PRIVACY {
                0 => Announced::Open,
                _ => Announced::Wep,
            };
        };
        Rsn::parse(&element[2..]).map_or(Announced::Unreadable, |rsn| Announced::Rsn {
            akm: rsn.akms.first().copied(),
            pairwise: rsn.pairwise.first().copied(),
            group: rsn.group,
        })
    }

    /// Whether elements of the other end choose this security; otherwise what is not the same.
    pub(super) fn check(&self, capabilities: u16, elements: &[u8]) -> Result<(), Mismatch> {
        let rsn = find_element(elements, element_id::RSN);
        let (akm, suite) = match (self, rsn) {
            (Self::Rsn { akm, cipher, .. }, Some(_)) => (akm.suite(), cipher.cipher().suite()),
            (Self::Rsn { .. }, None) | (_, Some(_)) => return Err(Mismatch::Element),
            (_, None) => {
                let is_private = capabilities & capability::PRIVACY != 0;
                return match is_private == (self.privacy() == Privacy::Protected) {
                    true => Ok(()),
                    false => Err(Mismatch::Element),
                };
            }
        };
        let rsn = Rsn::parse(&rsn.unwrap_or_default()[2..]).map_err(|_| Mismatch::Element)?;
        let has_akm = |wanted: AkmSuite| rsn.akms.contains(&wanted);
        let has_cipher = |wanted: CipherSuite| rsn.pairwise.contains(&wanted);
        if !has_akm(akm) {
            return Err(Mismatch::Akm);
        }
        if !has_cipher(suite) {
            return Err(Mismatch::PairwiseCipher);
        }
        match rsn.group == suite {
            true => Ok(()),
            false => Err(Mismatch::GroupCipher),
        }
    }
}

/// What two ends do not have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    Element,
    Akm,
    PairwiseCipher,
    GroupCipher,
}

impl Network {
    pub(super) fn is_named(&self, elements: &[u8]) -> bool {
        let element = find_element(elements, element_id::SSID);
        element.is_some_and(|element| element[2..] == self.ssid)
    }

    /// Whether a probe asks for this network, or for any by the wildcard SSID of no octets (IEEE
    /// 802.11-2020 §9.4.2.2, §11.1.4.3.4).
    pub(super) fn is_sought(&self, elements: &[u8]) -> bool {
        let element = find_element(elements, element_id::SSID);
        self.is_named(elements) || element.is_some_and(|element| element.len() == 2)
    }

    /// The elements of name and rates.
    pub(super) fn write_name(&self, w: &mut Writer) {
        write_ssid(&self.ssid, w);
        write_rates(w);
    }
}

/// The first element of this kind with the two octets before its body, empty without one.
pub(super) fn whole(elements: &[u8], id: u8) -> Vec<u8> {
    find_element(elements, id).unwrap_or_default().to_vec()
}
