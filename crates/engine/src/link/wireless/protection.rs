//! One direction under a key, whatever its cipher is.
//!
//! Packet numbers increase: a frame counts only once it is authentic, and the last number ends the
//! key. WEP's faults are kept (IEEE 802.11-2020 §12.3.2): its IV counts 24 bits and begins again, a
//! wrong check drops a frame without any other consequence, and a repeated frame is accepted.

use core::ops::Range;

use crypto::wep::{ICV_LEN, WepKey};
use wire::codec::Reader;
use wire::ieee80211::{Address, EXTENDED_IV_LEN, ExtendedIv, Header, WEP_IV_LEN, WepIv};

use super::ccmp::CcmpKey;
use super::cipher::{LinkCipher, TemporalKey};
use super::gcmp::GcmpKey;
use super::tkip::TkipKeys;
use crate::counters::DropReason;

/// Who sends the frames under a key, and from where their numbers go on.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) address: Address,
    pub(super) is_authenticator: bool,
    pub(super) key_id: u8,
    pub(super) last_number: u64,
}

/// Protects frames.
pub(super) struct Sealer {
    direction: Direction,
    key_id: u8,
}

/// Takes off the protection of frames.
pub(super) struct Opener(Direction);

struct Direction {
    cipher: LinkCipher,
    keys: Keys,
    /// With WEP, how many frames there were.
    last_number: u64,
}

enum Keys {
    Wep(WepKey),
    Tkip(TkipKeys),
    Ccmp(CcmpKey),
    Gcmp(GcmpKey),
}

impl Direction {
    fn new(key: &TemporalKey, sender: Sender) -> Self {
        let (octets, address) = (key.octets(), sender.address);
        let keys = match key.cipher() {
            LinkCipher::Wep40 | LinkCipher::Wep104 => Keys::Wep(WepKey::new(octets)),
            LinkCipher::Tkip => Keys::Tkip(TkipKeys::new(octets, address, sender.is_authenticator)),
            LinkCipher::Ccmp128 => Keys::Ccmp(CcmpKey::new(octets)),
            LinkCipher::Gcmp256 => Keys::Gcmp(GcmpKey::new(octets, address)),
        };
        Self {
            cipher: key.cipher(),
            keys,
            last_number: sender.last_number,
        }
    }

    /// Octets between header and data.
    fn iv_len(&self) -> usize {
        match self.keys {
            Keys::Wep(_) => WEP_IV_LEN,
            _ => EXTENDED_IV_LEN,
        }
    }

    /// The packet number in front of a body.
    fn read_number(&self, body: &[u8]) -> Result<u64, DropReason> {
        let r = &mut Reader::new(body);
        let iv = match self.keys {
            Keys::Wep(_) => {
                let iv = WepIv::read(r).map_err(|_| DropReason::Truncated)?;
                return Ok(number_of(iv.iv));
            }
            Keys::Tkip(_) => ExtendedIv::read_tkip(r),
            _ => ExtendedIv::read(r),
        };
        let number = iv.map_err(|_| DropReason::Truncated)?.number;
        match number > self.last_number {
            true => Ok(number),
            false => Err(DropReason::Replayed),
        }
    }
}

impl Sealer {
    pub(super) fn new(key: &TemporalKey, sender: Sender) -> Self {
        Self {
            direction: Direction::new(key, sender),
            key_id: sender.key_id,
        }
    }

    pub(super) fn cipher(&self) -> LinkCipher {
        self.direction.cipher
    }

    /// The last packet number. WEP has none.
    pub(super) fn last_number(&self) -> u64 {
        match self.direction.keys {
            Keys::Wep(_) => 0,
            _ => self.direction.last_number,
        }
    }

    /// Octets between header and clear text.
    pub(super) fn iv_len(&self) -> usize {
        self.direction.iv_len()
    }

    /// Protects a body: its clear text begins after [`Self::iv_len`] octets, and behind it is room
    /// for the rest of the cipher's overhead.
    pub(super) fn seal(&mut self, header: &Header, body: &mut [u8]) -> Result<(), DropReason> {
        let key_id = self.key_id;
        let (front, data) = body.split_at_mut(self.direction.iv_len());
        let last_number = &mut self.direction.last_number;
        if let Keys::Wep(key) = &self.direction.keys {
            let iv = iv_of(*last_number);
            *last_number += 1;
            front.copy_from_slice(&WepIv { iv, key_id }.octets());
            key.seal(iv, data);
            return Ok(());
        }
        if *last_number >= ExtendedIv::LAST {
            return Err(DropReason::SequenceExhausted);
        }
        *last_number += 1;
        let number = *last_number;
        let iv = ExtendedIv { number, key_id };
        let octets = match &self.direction.keys {
            Keys::Tkip(_) => iv.tkip_octets(),
            _ => iv.octets(),
        };
        front.copy_from_slice(&octets);
        match &mut self.direction.keys {
            Keys::Wep(_) => {}
            Keys::Tkip(keys) => keys.seal(header, number, data),
            Keys::Ccmp(key) => key.seal(header, number, data),
            Keys::Gcmp(key) => key.seal(header, number, data),
        }
        Ok(())
    }
}

impl Opener {
    pub(super) fn new(key: &TemporalKey, sender: Sender) -> Self {
        Self(Direction::new(key, sender))
    }

    pub(super) fn cipher(&self) -> LinkCipher {
        self.0.cipher
    }

    /// Takes the protection off a body in place. Returns where in it the clear text is.
    pub(super) fn open(
        &mut self,
        header: &Header,
        body: &mut [u8],
    ) -> Result<Range<usize>, DropReason> {
        let number = self.0.read_number(body)?;
        let start = self.0.iv_len();
        let data = &mut body[start..];
        let len = match &mut self.0.keys {
            Keys::Wep(key) => {
                let opened = key.open(iv_of(number), data);
                opened.map_err(|_| DropReason::BadIcv)?;
                data.len() - ICV_LEN
            }
            Keys::Tkip(keys) => keys.open(header, number, data)?,
            Keys::Ccmp(key) => key.open(header, number, data)?,
            Keys::Gcmp(key) => key.open(header, number, data)?,
        };
        self.0.last_number = number;
        Ok(start..start + len)
    }
}

/// The low 24 bits, which are WEP's IV.
fn iv_of(number: u64) -> [u8; 3] {
    let [.., a, b, c] = number.to_be_bytes();
    [a, b, c]
}

fn number_of([a, b, c]: [u8; 3]) -> u64 {
    u64::from_be_bytes([0, 0, 0, 0, 0, a, b, c])
}
