//! The RC4 key descriptor of dynamic WEP (IEEE 802.1X-2001 §7.6): an access point gives a WEP key
//! to a station that EAP has authenticated. Legacy.

use crate::codec::{Malformed, Reader, Writer};

/// Octets of a frame without a key.
pub const RC4_KEY_LEN: usize = 44;

/// An EAPOL-Key frame with descriptor type 1.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Rc4KeyFrame<'a> {
    /// Octets of the key.
    pub key_length: u16,
    /// Increases with each frame; NTP time in practice.
    pub replay_counter: u64,
    /// The start of the RC4 key.
    pub iv: [u8; 16],
    /// Which key, 0 to 127.
    pub index: u8,
    /// For this station alone; without it, for all.
    pub is_unicast: bool,
    /// HMAC-MD5 over the EAPOL packet, with zeros in this place.
    pub signature: [u8; 16],
    /// The encrypted key; empty if the station takes it from EAP's key.
    pub key: &'a [u8],
}

impl<'a> Rc4KeyFrame<'a> {
    /// Where in an EAPOL packet the signature is.
    pub const SIGNATURE_AT: core::ops::Range<usize> = 32..48;

    /// Reads the body of an EAPOL packet.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        if r.u8("key descriptor")? != 1 {
            return Err(Malformed::Value("key descriptor"));
        }
        let key_length = r.u16("key length")?;
        let replay_counter = r.u64("key replay counter")?;
        let iv = r.array("key IV")?;
        let index = r.u8("key index")?;
        let signature = r.array("key signature")?;
        let key = r.rest();
        if !key.is_empty() && key.len() != usize::from(key_length) {
            return Err(Malformed::Length("key"));
        }
        Ok(Self {
            key_length,
            replay_counter,
            iv,
            index: index & 0x7f,
            is_unicast: index & 0x80 != 0,
            signature,
            key,
        })
    }

    /// Appends the body.
    pub fn write(&self, w: &mut Writer) {
        w.u8(1);
        w.u16(self.key_length);
        w.u64(self.replay_counter);
        w.bytes(&self.iv);
        w.u8(self.index & 0x7f | u8::from(self.is_unicast) << 7);
        w.bytes(&self.signature);
        w.bytes(self.key);
    }
}
