//! TKIP on a link (IEEE 802.11-2020 §12.5.2). The packet number must increase; it counts only once
//! ICV and MIC are right. A wrong MIC behind a right ICV is an attack, see
//! [`super::countermeasures`].

use core::ops::Range;

use crypto::hash::is_equal;
use crypto::tkip::{MIC_LEN, MichaelKey, TEMPORAL_KEY_LEN, TkipKey};
use crypto::wep::ICV_LEN;
use wire::ieee80211::{Address, EXTENDED_IV_LEN, ExtendedIv, Header};

use super::aad::{fresh_number, next, priority};
use crate::counters::DropReason;

pub(super) struct TkipSealer {
    keys: Keys,
    key_id: u8,
    pub(super) last_number: u64,
}

pub(super) struct TkipOpener {
    keys: Keys,
    last_number: u64,
}

struct Keys {
    key: TkipKey,
    mic: MichaelKey,
}

impl Keys {
    /// The first MIC key is for what the authenticator sends.
    fn new(octets: &[u8], transmitter: Address, is_from_authenticator: bool) -> Self {
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

    fn sign(&self, header: &Header, clear: &[u8]) -> [u8; MIC_LEN] {
        let (to, from) = (header.destination(), header.source());
        self.mic.sign(to.0, from.0, priority(header), clear)
    }
}

impl TkipSealer {
    pub(super) fn new(
        octets: &[u8],
        key_id: u8,
        transmitter: Address,
        is_from_authenticator: bool,
        last_number: u64,
    ) -> Self {
        Self {
            keys: Keys::new(octets, transmitter, is_from_authenticator),
            key_id,
            last_number,
        }
    }

    /// Protects a body whose clear text has room before and behind it.
    pub(super) fn seal(&mut self, header: &Header, body: &mut [u8]) -> Result<(), DropReason> {
        let (number, key_id) = (next(&mut self.last_number)?, self.key_id);
        let (front, data) = body.split_at_mut(EXTENDED_IV_LEN);
        front.copy_from_slice(&ExtendedIv { number, key_id }.tkip_octets());
        let mic_at = data.len() - MIC_LEN - ICV_LEN;
        let mic = self.keys.sign(header, &data[..mic_at]);
        data[mic_at..mic_at + MIC_LEN].copy_from_slice(&mic);
        self.keys.key.seal(number, data);
        Ok(())
    }
}

impl TkipOpener {
    pub(super) fn new(
        octets: &[u8],
        transmitter: Address,
        is_from_authenticator: bool,
        last_number: u64,
    ) -> Self {
        Self {
            keys: Keys::new(octets, transmitter, is_from_authenticator),
            last_number,
        }
    }

    /// Takes off the protection. Returns where the clear text is.
    pub(super) fn open(
        &mut self,
        header: &Header,
        body: &mut [u8],
    ) -> Result<Range<usize>, DropReason> {
        let number = fresh_number(body, ExtendedIv::read_tkip, self.last_number)?;
        let end = body.len().checked_sub(MIC_LEN + ICV_LEN);
        let end = end.filter(|end| *end >= EXTENDED_IV_LEN);
        let end = end.ok_or(DropReason::Truncated)?;
        let data = &mut body[EXTENDED_IV_LEN..];
        let opened = self.keys.key.open(number, data);
        opened.map_err(|_| DropReason::BadIcv)?;
        let clear = EXTENDED_IV_LEN..end;
        let mic = self.keys.sign(header, &body[clear.clone()]);
        if !is_equal(&mic, &body[end..end + MIC_LEN]) {
            return Err(DropReason::LinkBadMic);
        }
        self.last_number = number;
        Ok(clear)
    }
}
