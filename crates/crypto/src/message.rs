//! The keys of one IKE SA in one direction, for the encrypted payload of IKEv2: SK and SKF
//! (RFC 7296 §3.14, RFC 5282, RFC 7634 §3, RFC 7383 §2.5).
//!
//! The caller finds the payload (`wire::ikev2`), chooses IVs, and reads the payloads within.
//! Padding is done here.

use core::ops::Range;

use crate::packet::{Encryption, Protection, RawKey};

pub use crate::packet::BadIcv;

/// The keys of one direction. The ciphers are those of packets. An IKE SA has a message in minutes,
/// and a gateway has many IKE SAs: so the keys are kept as they are, and prepared for each message.
/// Key schedules would take twenty times the memory.
pub struct MessageKey(RawKey);

/// Why an encrypted payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The ICV is wrong: the message is not the peer's, or is damaged.
    #[error(transparent)]
    BadIcv(#[from] BadIcv),
    /// The ICV is right, and the padding is longer than what was encrypted.
    #[error("the padding is longer than the payload")]
    Padding,
}

impl MessageKey {
    /// Takes keys of exactly the lengths that `protection` requires: SK_e, salt included, and SK_a.
    /// Panics on others, and on a protection that does not encrypt and authenticate.
    pub fn new(protection: Protection, encryption: &[u8], integrity: &[u8]) -> Self {
        assert!(
            protection.is_authenticated() && protection.encryption != Encryption::Null,
            "IKE encrypts and authenticates"
        );
        Self(RawKey::new(protection, encryption, integrity))
    }

    /// How it protects.
    pub fn protection(&self) -> Protection {
        self.0.protection()
    }

    /// Octets of IV, ciphertext and ICV for a clear text of this length.
    pub fn sealed_len(&self, clear_len: usize) -> usize {
        let protection = self.protection();
        protection.iv_len() + self.padded_len(clear_len) + protection.icv_len()
    }

    /// Octets of clear text at most, if IV, ciphertext and ICV shall have no more than `sealed_len`
    /// octets: how much a fragment holds. `None` if not even an empty one fits.
    pub fn clear_len(&self, sealed_len: usize) -> Option<usize> {
        let protection = self.protection();
        let room = sealed_len.checked_sub(protection.iv_len() + protection.icv_len())?;
        let blocks = room - room % block_len(protection);
        blocks.checked_sub(PAD_LENGTH_LEN)
    }

    /// Seals `clear` into a message: what is before `start` is authenticated, and the octets from
    /// there to the end are `sealed_len` of its length. The IV is `iv_len` octets: random with CBC,
    /// never used before with an AEAD. Panics on other lengths.
    pub fn seal(&self, message: &mut [u8], start: usize, iv: &[u8], clear: &[u8]) {
        let protection = self.protection();
        assert_eq!(message.len(), start + self.sealed_len(clear.len()), "room");
        assert_eq!(iv.len(), protection.iv_len(), "an IV");
        let (head, sealed) = message.split_at_mut(start);
        let (iv_at, body) = sealed.split_at_mut(iv.len());
        iv_at.copy_from_slice(iv);
        let padded_len = self.padded_len(clear.len());
        let pad_len = padded_len - clear.len() - PAD_LENGTH_LEN;
        body[..clear.len()].copy_from_slice(clear);
        body[clear.len()..padded_len].fill(0);
        body[padded_len - 1] = pad_len as u8;
        let key = self.0.prepare();
        key.encrypt(head, iv, body);
        key.write_mac(message, &[]);
    }

    /// Opens a message in place: checks the ICV over all of it first, then decrypts from `start`.
    /// Returns the range of the clear text without padding, whose content is ignored (RFC 7296
    /// §3.14). A payload too short for IV, pad length and ICV, or not of whole blocks, is refused
    /// like a wrong ICV. Panics if the message is shorter than `start`.
    pub fn open(&self, message: &mut [u8], start: usize) -> Result<Range<usize>, Refused> {
        let protection = self.protection();
        let body_at = start + protection.iv_len();
        assert!(start <= message.len(), "the payload begins in the message");
        let end = message.len().checked_sub(protection.icv_len());
        let end = end
            .filter(|end| *end >= body_at + PAD_LENGTH_LEN)
            .ok_or(BadIcv)?;
        let key = self.0.prepare();
        key.check_mac(message, &[])?;
        let (head, body) = message.split_at_mut(body_at);
        let (head, iv) = head.split_at(start);
        key.decrypt(head, iv, body)?;
        let pad_len = usize::from(message[end - 1]);
        let clear_end = (end - PAD_LENGTH_LEN).checked_sub(pad_len);
        match clear_end.filter(|clear_end| *clear_end >= body_at) {
            Some(clear_end) => Ok(body_at..clear_end),
            None => Err(Refused::Padding),
        }
    }

    /// Octets of clear text, padding and pad length.
    fn padded_len(&self, clear_len: usize) -> usize {
        (clear_len + PAD_LENGTH_LEN).next_multiple_of(block_len(self.protection()))
    }
}

/// Octets that the encrypted part is a multiple of. An AEAD needs no padding (RFC 5282 §3).
const fn block_len(protection: Protection) -> usize {
    match protection.encryption {
        Encryption::Cbc(cipher) => cipher.block_len(),
        _ => 1,
    }
}

/// The octet with the length of the padding.
const PAD_LENGTH_LEN: usize = 1;

#[cfg(test)]
mod tests;
