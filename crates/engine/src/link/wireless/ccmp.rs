//! CCMP with AES-128 on a link (IEEE 802.11-2020 §12.5.3). The packet number must increase.

use core::ops::Range;

use crypto::ccm::{CcmKey, MIC_LEN, NONCE_LEN};
use wire::ieee80211::{EXTENDED_IV_LEN, ExtendedIv, Header};

use super::aad::{aad, fresh_number, next, number_octets, priority};
use crate::counters::DropReason;

pub(super) struct CcmpSealer {
    key: CcmKey,
    key_id: u8,
    pub(super) last_number: u64,
}

pub(super) struct CcmpOpener {
    key: CcmKey,
    last_number: u64,
}

fn key_of(octets: &[u8]) -> CcmKey {
    CcmKey::new(octets.try_into().expect("a key of CCMP-128"))
}

fn nonce(header: &Header, number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[0] = priority(header);
    nonce[1..7].copy_from_slice(&header.transmitter.0);
    nonce[7..].copy_from_slice(&number_octets(number));
    nonce
}

impl CcmpSealer {
    pub(super) fn new(octets: &[u8], key_id: u8, last_number: u64) -> Self {
        Self {
            key: key_of(octets),
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
        let nonce = nonce(header, number);
        self.key.seal(&nonce, &aad[..len], data, mic);
        Ok(())
    }
}

impl CcmpOpener {
    pub(super) fn new(octets: &[u8], last_number: u64) -> Self {
        Self {
            key: key_of(octets),
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
        let nonce = nonce(header, number);
        let data = &mut body[EXTENDED_IV_LEN..];
        let opened = self.key.open(&nonce, &aad[..len], data);
        opened.map_err(|_| DropReason::BadIcv)?;
        self.last_number = number;
        Ok(EXTENDED_IV_LEN..body.len() - MIC_LEN)
    }
}
