//! The keys of ESP and AH that one packet key gives.

use crypto::aead::{Aead, AeadKey};
use crypto::cbc_mac::DesMac;
use crypto::cipher::{CbcKey, Cipher};
use crypto::hash::{Hash, KeyedHash};
use crypto::rc::{Rc2Key, Rc4Key};
use wire::skip::{Algorithms, CryptAlg, MacAlg};

use super::keys::PacketKey;
use crate::work::{Task, Work};

/// Octets of the longest authentication data, keyed SHA's.
pub(super) const MAX_DATA_LEN: usize = 20;

pub(super) struct TrafficKey {
    pub(super) crypt: Crypt,
    mac: MacKey,
}

pub(super) enum Crypt {
    None,
    Cbc(CbcKey),
    Rc2(Rc2Key),
    Rc4(Rc4Key),
    Aead(AeadKey),
}

enum MacKey {
    None,
    Keyed(KeyedHash),
    Des(DesMac),
}

impl TrafficKey {
    pub(super) fn new(algorithms: Algorithms, packet_key: &PacketKey, work: &mut Work) -> Self {
        let (crypt_alg, mac_alg) = (algorithms.crypt(), algorithms.mac());
        if crypt_alg == CryptAlg::AesGcmSiv {
            return Self {
                crypt: Crypt::Aead(AeadKey::new(Aead::AesGcmSiv, packet_key.octets())),
                mac: MacKey::None,
            };
        }
        let encryption = packet_key.encryption_key(algorithms);
        let encryption = &encryption[encryption.len() - crypt_alg.key_len()..];
        let authentication = packet_key.authentication_key(algorithms);
        let authentication = &authentication[authentication.len() - mac_alg.key_len()..];
        let crypt = match crypt_alg {
            CryptAlg::None | CryptAlg::AesGcmSiv => Crypt::None,
            CryptAlg::Des => Crypt::Cbc(CbcKey::new(Cipher::Des, encryption)),
            CryptAlg::TripleDes => Crypt::Cbc(CbcKey::new(Cipher::TripleDes, encryption)),
            CryptAlg::Rc2 => Crypt::Rc2(Rc2Key::new(encryption)),
            CryptAlg::Rc4 => Crypt::Rc4(Rc4Key::new(encryption)),
        };
        let mac = match mac_alg {
            MacAlg::None | MacAlg::AesGcmSiv => MacKey::None,
            MacAlg::Md5 => MacKey::Keyed(KeyedHash::new(Hash::Md5, authentication)),
            MacAlg::Sha => MacKey::Keyed(KeyedHash::new(Hash::Sha1, authentication)),
            MacAlg::DesCbc => MacKey::Des(DesMac::new(authentication)),
        };
        let bytes = packet_key.octets().len() as u64 + 2;
        work.add(Task::DeriveSkipKey(algorithms.kij()), 4, 4 * bytes);
        Self { crypt, mac }
    }

    /// Encrypts in place, without authentication.
    pub(super) fn encrypt(&self, iv: [u8; 8], data: &mut [u8]) {
        match &self.crypt {
            Crypt::Cbc(key) => key.encrypt(&iv, data),
            Crypt::Rc2(key) => key.encrypt(iv, data),
            Crypt::Rc4(key) => key.apply(data),
            Crypt::None | Crypt::Aead(_) => {}
        }
    }

    /// Decrypts in place what [`Self::encrypt`] has made.
    pub(super) fn decrypt(&self, iv: [u8; 8], data: &mut [u8]) {
        match &self.crypt {
            Crypt::Cbc(key) => key.decrypt(&iv, data),
            Crypt::Rc2(key) => key.decrypt(iv, data),
            Crypt::Rc4(key) => key.apply(data),
            Crypt::None | Crypt::Aead(_) => {}
        }
    }

    /// The authentication data over the parts, in the first octets.
    pub(super) fn authenticate(&self, parts: &[&[u8]]) -> [u8; MAX_DATA_LEN] {
        let mut data = [0; MAX_DATA_LEN];
        match &self.mac {
            MacKey::None => {}
            MacKey::Keyed(key) => {
                let digest = key.sign(parts);
                data[..digest.as_ref().len()].copy_from_slice(digest.as_ref());
            }
            MacKey::Des(key) => {
                let code = key.sign(parts);
                data[..code.len()].copy_from_slice(&code);
            }
        }
        data
    }
}
