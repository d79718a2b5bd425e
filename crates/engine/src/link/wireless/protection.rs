//! One direction under a key, whatever its cipher is.

use core::ops::Range;

use wire::ieee80211::{Address, EXTENDED_IV_LEN, Header, WEP_IV_LEN};

use super::ccmp::{CcmpOpener, CcmpSealer};
use super::cipher::{LinkCipher, TemporalKey};
use super::gcmp::{GcmpOpener, GcmpSealer};
use super::tkip::{TkipOpener, TkipSealer};
use super::wep::{WepOpener, WepSealer};
use crate::counters::DropReason;

/// Who sends the frames under a key, and from where their numbers go on.
#[derive(Clone, Copy)]
pub(super) struct Sender {
    pub(super) address: Address,
    pub(super) is_authenticator: bool,
    pub(super) key_id: u8,
    pub(super) last_number: u64,
}

pub(super) enum Sealer {
    Wep(LinkCipher, WepSealer),
    Tkip(TkipSealer),
    Ccmp(CcmpSealer),
    Gcmp(GcmpSealer),
}

pub(super) enum Opener {
    Wep(LinkCipher, WepOpener),
    Tkip(TkipOpener),
    Ccmp(CcmpOpener),
    Gcmp(GcmpOpener),
}

impl Sealer {
    pub(super) fn new(key: &TemporalKey, sender: Sender) -> Self {
        let (octets, key_id) = (key.octets(), sender.key_id);
        let (address, last) = (sender.address, sender.last_number);
        match key.cipher() {
            cipher @ (LinkCipher::Wep40 | LinkCipher::Wep104) => {
                Self::Wep(cipher, WepSealer::new(octets, key_id))
            }
            LinkCipher::Tkip => {
                let is_authenticator = sender.is_authenticator;
                let sealer = TkipSealer::new(octets, key_id, address, is_authenticator, last);
                Self::Tkip(sealer)
            }
            LinkCipher::Ccmp128 => Self::Ccmp(CcmpSealer::new(octets, key_id, last)),
            LinkCipher::Gcmp256 => Self::Gcmp(GcmpSealer::new(octets, key_id, address, last)),
        }
    }

    pub(super) fn cipher(&self) -> LinkCipher {
        match self {
            Self::Wep(cipher, _) => *cipher,
            Self::Tkip(_) => LinkCipher::Tkip,
            Self::Ccmp(_) => LinkCipher::Ccmp128,
            Self::Gcmp(_) => LinkCipher::Gcmp256,
        }
    }

    /// The last packet number. WEP has none.
    pub(super) fn last_number(&self) -> u64 {
        match self {
            Self::Wep(..) => 0,
            Self::Tkip(sealer) => sealer.last_number,
            Self::Ccmp(sealer) => sealer.last_number,
            Self::Gcmp(sealer) => sealer.last_number,
        }
    }

    /// Octets between header and clear text.
    pub(super) fn iv_len(&self) -> usize {
        match self {
            Self::Wep(..) => WEP_IV_LEN,
            _ => EXTENDED_IV_LEN,
        }
    }

    /// Protects a body: its clear text begins after [`Self::iv_len`] octets, and behind it is room
    /// for the rest of the cipher's overhead.
    pub(super) fn seal(&mut self, header: &Header, body: &mut [u8]) -> Result<(), DropReason> {
        match self {
            Self::Wep(_, sealer) => sealer.seal(body),
            Self::Tkip(sealer) => sealer.seal(header, body)?,
            Self::Ccmp(sealer) => sealer.seal(header, body)?,
            Self::Gcmp(sealer) => sealer.seal(header, body)?,
        }
        Ok(())
    }
}

impl Opener {
    pub(super) fn new(key: &TemporalKey, sender: Sender) -> Self {
        let (octets, address, last) = (key.octets(), sender.address, sender.last_number);
        match key.cipher() {
            cipher @ (LinkCipher::Wep40 | LinkCipher::Wep104) => {
                Self::Wep(cipher, WepOpener::new(octets))
            }
            LinkCipher::Tkip => {
                let is_authenticator = sender.is_authenticator;
                Self::Tkip(TkipOpener::new(octets, address, is_authenticator, last))
            }
            LinkCipher::Ccmp128 => Self::Ccmp(CcmpOpener::new(octets, last)),
            LinkCipher::Gcmp256 => Self::Gcmp(GcmpOpener::new(octets, address, last)),
        }
    }

    pub(super) fn cipher(&self) -> LinkCipher {
        match self {
            Self::Wep(cipher, _) => *cipher,
            Self::Tkip(_) => LinkCipher::Tkip,
            Self::Ccmp(_) => LinkCipher::Ccmp128,
            Self::Gcmp(_) => LinkCipher::Gcmp256,
        }
    }

    /// Takes the protection off a body in place. Returns where in it the clear text is.
    pub(super) fn open(
        &mut self,
        header: &Header,
        body: &mut [u8],
    ) -> Result<Range<usize>, DropReason> {
        match self {
            Self::Wep(_, opener) => opener.open(body),
            Self::Tkip(opener) => opener.open(header, body),
            Self::Ccmp(opener) => opener.open(header, body),
            Self::Gcmp(opener) => opener.open(header, body),
        }
    }
}
