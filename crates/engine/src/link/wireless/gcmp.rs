//! GCMP with AES-256 on a link (IEEE 802.11-2020 §12.5.5). The nonce is transmitter and packet
//! number; the first four octets of the transmitter's address are the salt of the key.

use crypto::aead::{Aead, AeadKey, ICV_LEN, IV_LEN, SALT_LEN};
use wire::ieee80211::{Address, Header};
use zeroize::Zeroizing;

use super::aad::{aad, number_octets};
use crate::counters::DropReason;

pub(super) struct GcmpKey {
    key: AeadKey,
    transmitter: Address,
}

impl GcmpKey {
    pub(super) fn new(octets: &[u8], transmitter: Address) -> Self {
        let material = [octets, &transmitter.0[..SALT_LEN]].concat();
        Self {
            key: AeadKey::new(Aead::AesGcm, &Zeroizing::new(material)),
            transmitter,
        }
    }

    /// Seals data with room for the MIC behind them.
    pub(super) fn seal(&self, header: &Header, number: u64, data: &mut [u8]) {
        let (data, mic) = data.split_last_chunk_mut().expect("room for the MIC");
        let (aad, len) = aad(header);
        self.key.seal(self.iv(number), &aad[..len], data, mic);
    }

    /// Opens data with their MIC. Returns the length of the clear text.
    pub(super) fn open(
        &self,
        header: &Header,
        number: u64,
        data: &mut [u8],
    ) -> Result<usize, DropReason> {
        let (aad, len) = aad(header);
        let opened = self.key.open(self.iv(number), &aad[..len], data);
        opened.map_err(|_| DropReason::BadIcv)?;
        Ok(data.len() - ICV_LEN)
    }

    fn iv(&self, number: u64) -> [u8; IV_LEN] {
        let mut iv = [0; IV_LEN];
        iv[..2].copy_from_slice(&self.transmitter.0[SALT_LEN..]);
        iv[2..].copy_from_slice(&number_octets(number));
        iv
    }
}
