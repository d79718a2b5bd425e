//! GCMP with AES-256 on a link (IEEE 802.11-2020 §12.5.5). The packet number must increase. The
//! nonce is transmitter and packet number; the first four octets of the transmitter's address are
//! the salt of the key.

use core::ops::Range;

use crypto::aead::{Aead, AeadKey, ICV_LEN, IV_LEN, SALT_LEN};
use wire::ieee80211::{Address, EXTENDED_IV_LEN, ExtendedIv, Header};
use zeroize::Zeroizing;

use super::aad::{aad, fresh_number, next, number_octets};
use crate::counters::DropReason;

pub(super) struct GcmpSealer {
    key: Key,
    key_id: u8,
    pub(super) last_number: u64,
}

pub(super) struct GcmpOpener {
    key: Key,
    last_number: u64,
}

struct Key {
    key: AeadKey,
    transmitter: Address,
}

impl Key {
    fn new(octets: &[u8], transmitter: Address) -> Self {
        let material = [octets, &transmitter.0[..SALT_LEN]].concat();
        Self {
            key: AeadKey::new(Aead::AesGcm, &Zeroizing::new(material)),
            transmitter,
        }
    }

    fn iv(&self, number: u64) -> [u8; IV_LEN] {
        let mut iv = [0; IV_LEN];
        iv[..2].copy_from_slice(&self.transmitter.0[SALT_LEN..]);
        iv[2..].copy_from_slice(&number_octets(number));
        iv
    }
}

impl GcmpSealer {
    pub(super) fn new(octets: &[u8], key_id: u8, transmitter: Address, last_number: u64) -> Self {
        Self {
            key: Key::new(octets, transmitter),
            key_id,
            last_number,
        }
    }

    /// Protects a body whose clear text has room before and behind it.
    pub(super) fn seal(&mut self, header: &Header, body: &mut [u8]) -> Result<(), DropReason> {
        let (number, key_id) = (next(&mut self.last_number)?, self.key_id);
        let (front, data) = body.split_at_mut(EXTENDED_IV_LEN);
        front.copy_from_slice(&ExtendedIv { number, key_id }.octets());
        let (data, mic) = data.split_last_chunk_mut().expect("room for the MIC");
        let (aad, len) = aad(header);
        let iv = self.key.iv(number);
        self.key.key.seal(iv, &aad[..len], data, mic);
        Ok(())
    }
}

impl GcmpOpener {
    pub(super) fn new(octets: &[u8], transmitter: Address, last_number: u64) -> Self {
        Self {
            key: Key::new(octets, transmitter),
            last_number,
        }
    }

    /// Takes off the protection. Returns where the clear text is.
    pub(super) fn open(
        &mut self,
        header: &Header,
        body: &mut [u8],
    ) -> Result<Range<usize>, DropReason> {
        let number = fresh_number(body, ExtendedIv::read, self.last_number)?;
        let (aad, len) = aad(header);
        let nonce = self.key.iv(number);
        let data = &mut body[EXTENDED_IV_LEN..];
        let opened = self.key.key.open(nonce, &aad[..len], data);
        opened.map_err(|_| DropReason::BadIcv)?;
        self.last_number = number;
        Ok(EXTENDED_IV_LEN..body.len() - ICV_LEN)
    }
}
