//! CCMP with AES-128 on a link (IEEE 802.11-2020 §12.5.3).

use crypto::ccm::{CcmKey, MIC_LEN, NONCE_LEN};
use wire::ieee80211::Header;

use super::aad::{aad, number_octets, priority};
use crate::counters::DropReason;

pub(super) struct CcmpKey(CcmKey);

impl CcmpKey {
    pub(super) fn new(octets: &[u8]) -> Self {
        Self(CcmKey::new(octets.try_into().expect("a key of CCMP-128")))
    }

    /// Seals data with room for the MIC behind them.
    pub(super) fn seal(&self, header: &Header, number: u64, data: &mut [u8]) {
        let (data, mic) = data.split_last_chunk_mut().expect("room for the MIC");
        let (aad, len) = aad(header);
        self.0.seal(&nonce(header, number), &aad[..len], data, mic);
    }

    /// Opens data with their MIC. Returns the length of the clear text.
    pub(super) fn open(
        &self,
        header: &Header,
        number: u64,
        data: &mut [u8],
    ) -> Result<usize, DropReason> {
        let (aad, len) = aad(header);
        let opened = self.0.open(&nonce(header, number), &aad[..len], data);
        opened.map_err(|_| DropReason::BadIcv)?;
        Ok(data.len() - MIC_LEN)
    }
}

fn nonce(header: &Header, number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[0] = priority(header);
    nonce[1..7].copy_from_slice(&header.transmitter.0);
    nonce[7..].copy_from_slice(&number_octets(number));
    nonce
}
