//! WEP on a link (IEEE 802.11-2020 §12.3.2). Its faults are kept: the IV counts 24 bits and begins
//! again, a wrong check drops a frame without any other consequence, and a repeated frame is
//! accepted.

use core::ops::Range;

use crypto::wep::{ICV_LEN, WepKey};
use wire::codec::Reader;
use wire::ieee80211::{WEP_IV_LEN, WepIv};

use crate::counters::DropReason;

pub(super) struct WepSealer {
    key: WepKey,
    key_id: u8,
    next_iv: u32,
}

pub(super) struct WepOpener {
    key: WepKey,
}

impl WepSealer {
    pub(super) fn new(key: &[u8], key_id: u8) -> Self {
        Self {
            key: WepKey::new(key),
            key_id,
            next_iv: 0,
        }
    }

    /// Protects a body whose clear text has room before and behind it.
    pub(super) fn seal(&mut self, body: &mut [u8]) {
        let [_, iv @ ..] = self.next_iv.to_be_bytes();
        self.next_iv = (self.next_iv + 1) & 0x00ff_ffff;
        let key_id = self.key_id;
        let (front, data) = body.split_at_mut(WEP_IV_LEN);
        front.copy_from_slice(&WepIv { iv, key_id }.octets());
        self.key.seal(iv, data);
    }
}

impl WepOpener {
    pub(super) fn new(key: &[u8]) -> Self {
        Self {
            key: WepKey::new(key),
        }
    }

    /// Takes off the protection. Returns where the clear text is.
    pub(super) fn open(&self, body: &mut [u8]) -> Result<Range<usize>, DropReason> {
        let iv = WepIv::read(&mut Reader::new(body)).map_err(|_| DropReason::Truncated)?;
        let data = &mut body[WEP_IV_LEN..];
        self.key.open(iv.iv, data).map_err(|_| DropReason::BadIcv)?;
        Ok(WEP_IV_LEN..body.len() - ICV_LEN)
    }
}
