//! The key hierarchy (IEEE 802.11-2020 §12.7.1.3): from the master key come the key for MICs, the
//! key for key data, and the temporal key.

use crypto::hash::Hash;
use crypto::passphrase::pairwise_master_key;
use crypto::prf::{kdf, prf};
use crypto::{cmac::cmac, key_wrap, rc};
use wire::codec::Writer;
use wire::ieee80211::{Address, MIC_LEN, NONCE_LEN, key_information, pad_key_data};
use zeroize::Zeroizing;

use super::akm::{Akm, MicKind};
use crate::counters::DropReason;
use crate::link::wireless::cipher::{LinkCipher, PermittedCipher, TemporalKey};
use crate::work::{Task, Work};

/// Octets of a pairwise master key.
pub const MASTER_KEY_LEN: usize = 32;

/// A pairwise master key, wiped on drop.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; MASTER_KEY_LEN]>);

impl MasterKey {
    /// Takes a key as it is.
    pub fn new(key: &[u8; MASTER_KEY_LEN]) -> Self {
        Self(Zeroizing::new(*key))
    }

    /// The key of a passphrase in a network of this name. Takes 4,096 rounds.
    pub fn of_passphrase(passphrase: &[u8], ssid: &[u8], work: &mut Work) -> Self {
        work.count(Task::Passphrase, passphrase.len() as u64);
        Self(pairwise_master_key(passphrase, ssid))
    }

    /// The start of the key that EAP gives, of 64 octets or more (RFC 3748 §7.10). None if that is
    /// too short.
    pub fn of_eap(session_key: &[u8]) -> Option<Self> {
        let whole: &[u8; 2 * MASTER_KEY_LEN] = session_key.first_chunk()?;
        whole.first_chunk().map(Self::new)
    }

    /// Its octets.
    pub fn octets(&self) -> &[u8; MASTER_KEY_LEN] {
        &self.0
    }
}

/// The functions and parties of a handshake.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) akm: Akm,
    pub(super) pairwise: PermittedCipher,
    pub(super) authenticator: Address,
    pub(super) supplicant: Address,
}

/// A pairwise transient key, wiped on drop.
#[derive(Clone)]
pub(super) struct TransientKey {
    setting: Setting,
    confirmation: Zeroizing<[u8; KEY_LEN]>,
    encryption: Zeroizing<[u8; KEY_LEN]>,
    temporal: TemporalKey,
}

const KEY_LEN: usize = 16;
const LABEL: &str = "Pairwise key expansion";
/// Octets of RC4's keystream that key data leave out.
const RC4_SKIP: usize = 256;

impl Setting {
    pub(super) fn cipher(&self) -> LinkCipher {
        self.pairwise.cipher()
    }

    pub(super) fn version(&self) -> u16 {
        self.akm.version(self.cipher())
    }

    pub(super) fn derive(
        &self,
        master: &MasterKey,
        anonce: &[u8; NONCE_LEN],
        snonce: &[u8; NONCE_LEN],
        work: &mut Work,
    ) -> TransientKey {
        let (a, s) = (self.authenticator.0, self.supplicant.0);
        let (low, high) = (anonce.min(snonce), anonce.max(snonce));
        let context = [&a.min(s)[..], &a.max(s), low, high].concat();
        let mut octets = Zeroizing::new([0; 2 * KEY_LEN + 32]);
        let octets = &mut octets[..2 * KEY_LEN + self.cipher().key_len()];
        match self.akm.hash() {
            Hash::Sha1 => prf(&master.0[..], LABEL, &context, octets),
            hash => kdf(hash, &master.0[..], LABEL, &context, octets),
        }
        let blocks = octets.len().div_ceil(self.akm.hash().len()) as u64;
        let bytes = (LABEL.len() + context.len()) as u64;
        work.add(Task::Prf(self.akm.hash()), blocks, blocks * bytes);
        let array = |at: usize| *octets[at..].first_chunk().expect("two keys");
        TransientKey {
            setting: *self,
            confirmation: Zeroizing::new(array(0)),
            encryption: Zeroizing::new(array(KEY_LEN)),
            temporal: TemporalKey::new(self.pairwise, &octets[2 * KEY_LEN..]).expect("its length"),
        }
    }
}

impl TransientKey {
    pub(super) fn temporal(&self) -> &TemporalKey {
        &self.temporal
    }

    /// The MIC of an EAPOL packet that has zeros in its place.
    pub(super) fn mic(&self, packet: &[u8], work: &mut Work) -> [u8; MIC_LEN] {
        match self.setting.akm.mic_kind(self.setting.cipher()) {
            MicKind::Hmac(hash) => {
                work.count(Task::Prf(hash), packet.len() as u64);
                let mic = hash.hmac(&self.confirmation[..], &[packet]);
                *mic.as_ref().first_chunk().expect("16 octets")
            }
            MicKind::Cmac => {
                work.count(Task::Cmac, packet.len() as u64);
                cmac(&self.confirmation, packet)
            }
        }
    }

    /// Encrypts key data. `iv` counts with RC4 alone.
    pub(super) fn encrypt(&self, mut data: Writer, iv: &[u8; 16], work: &mut Work) -> Vec<u8> {
        work.count(Task::KeyData, data.len() as u64);
        if self.setting.version() == key_information::HMAC_MD5_RC4 {
            let mut data = data.into_vec();
            self.apply_rc4(iv, &mut data);
            return data;
        }
        pad_key_data(&mut data);
        let clear = Zeroizing::new(data.into_vec());
        key_wrap::wrap(&self.encryption, &clear)
    }

    pub(super) fn decrypt(
        &self,
        data: &[u8],
        iv: &[u8; 16],
        work: &mut Work,
    ) -> Result<Zeroizing<Vec<u8>>, DropReason> {
        work.count(Task::KeyData, data.len() as u64);
        if self.setting.version() == key_information::HMAC_MD5_RC4 {
            let mut data = Zeroizing::new(data.to_vec());
            self.apply_rc4(iv, &mut data);
            return Ok(data);
        }
        let clear = key_wrap::unwrap(&self.encryption, data);
        clear.map_err(|_| DropReason::UndecryptableMessage)
    }

    fn apply_rc4(&self, iv: &[u8; 16], data: &mut [u8]) {
        let key = Zeroizing::new([&iv[..], &self.encryption[..]].concat());
        rc::rc4_from(&key, RC4_SKIP, data);
    }
}
