//! TKIP on a link (IEEE 802.11-2020 §12.5.2). A wrong MIC behind a right ICV is an attack, see
//! [`super::countermeasures`].

use crypto::hash::is_equal;
use crypto::tkip::{MIC_LEN, MichaelKey, TEMPORAL_KEY_LEN, TkipKey};
use crypto::wep::ICV_LEN;
use wire::ieee80211::{Address, Header};

use super::aad::priority;
use crate::counters::DropReason;

/// The keys of one direction.
pub(super) struct TkipKeys {
    key: TkipKey,
    mic: MichaelKey,
}

impl TkipKeys {
    /// The first MIC key is for what the authenticator sends.
    pub(super) fn new(octets: &[u8], transmitter: Address, is_from_authenticator: bool) -> Self {
        let (temporal, mics) = octets
            .split_first_chunk::<TEMPORAL_KEY_LEN>()
            .expect("TKIP");
        let (first, second) = mics.split_first_chunk::<MIC_LEN>().expect("TKIP");
        let mic = match is_from_authenticator {
            true => first,
            false => second.first_chunk().expect("TKIP"),
        };
        Self {
            key: TkipKey::new(temporal, transmitter.0),
            mic: MichaelKey::new(mic),
        }
    }

    /// Seals data with room for MIC and ICV behind them.
    pub(super) fn seal(&mut self, header: &Header, number: u64, data: &mut [u8]) {
        let end = data.len() - MIC_LEN - ICV_LEN;
        let mic = self.sign(header, &data[..end]);
        data[end..end + MIC_LEN].copy_from_slice(&mic);
        self.key.seal(number, data);
    }

    /// Opens data with their MIC and ICV. Returns the length of the clear text.
    pub(super) fn open(
        &mut self,
        header: &Header,
        number: u64,
        data: &mut [u8],
    ) -> Result<usize, DropReason> {
        let end = data.len().checked_sub(MIC_LEN + ICV_LEN);
        let end = end.ok_or(DropReason::Truncated)?;
        let opened = self.key.open(number, data);
        opened.map_err(|_| DropReason::BadIcv)?;
        let mic = self.sign(header, &data[..end]);
        match is_equal(&mic, &data[end..end + MIC_LEN]) {
            true => Ok(end),
            false => Err(DropReason::LinkBadMic),
        }
    }

    fn sign(&self, header: &Header, clear: &[u8]) -> [u8; MIC_LEN] {
        let (to, from) = (header.destination(), header.source());
        self.mic.sign(to.0, from.0, priority(header), clear)
    }
}
