//! EAPOL-Key frames (IEEE 802.11-2020 §12.7.2). The MIC has 16 octets, as with every AKM of this
//! crate; the longer ones of AKMs with SHA-384 are left out.

use crate::codec::{Malformed, Reader, Writer};

/// Octets of a frame without key data.
pub const KEY_FRAME_LEN: usize = 95;
/// Octets of a nonce.
pub const NONCE_LEN: usize = 32;
/// Octets of a MIC.
pub const MIC_LEN: usize = 16;

/// The kind of an EAPOL-Key frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Descriptor {
    /// Dynamic WEP, 1: [`super::Rc4KeyFrame`] has another layout.
    Rc4,
    /// IEEE 802.11, 2.
    Ieee80211,
    /// Any other.
    Other(u8),
}

numbered!(Descriptor: u8 { Rc4 = 1, Ieee80211 = 2 });

/// Bits of the key information field.
pub mod key_information {
    /// The descriptor version: how MIC and key data are made.
    pub const VERSION: u16 = 0x0007;
    /// HMAC-MD5 and RC4.
    pub const HMAC_MD5_RC4: u16 = 1;
    /// HMAC-SHA-1 and AES key wrap.
    pub const HMAC_SHA1_AES: u16 = 2;
    /// AES-128-CMAC and AES key wrap.
    pub const CMAC_AES: u16 = 3;
    /// As the AKM says.
    pub const OF_AKM: u16 = 0;
    /// A pairwise key; without it, a group key.
    pub const PAIRWISE: u16 = 0x0008;
    /// The receiver installs the pairwise key.
    pub const INSTALL: u16 = 0x0040;
    /// An answer is expected.
    pub const ACK: u16 = 0x0080;
    /// The frame has a MIC.
    pub const MIC: u16 = 0x0100;
    /// Both have the keys.
    pub const SECURE: u16 = 0x0200;
    /// A supplicant reports a wrong Michael MIC.
    pub const ERROR: u16 = 0x0400;
    /// A supplicant asks for a handshake.
    pub const REQUEST: u16 = 0x0800;
    /// The key data are encrypted.
    pub const ENCRYPTED: u16 = 0x1000;
}

/// An EAPOL-Key frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFrame<'a> {
    /// The kind, [`Descriptor::Ieee80211`].
    pub descriptor: Descriptor,
    /// See [`key_information`].
    pub information: u16,
    /// Octets of the pairwise key.
    pub key_length: u16,
    /// Increases with each frame of the authenticator.
    pub replay_counter: u64,
    /// ANonce or SNonce.
    pub nonce: [u8; NONCE_LEN],
    /// The IV of key data under RC4.
    pub iv: [u8; 16],
    /// The packet number of the group key: the six low octets.
    pub receive_sequence: [u8; 8],
    /// The MIC, zero if there is none.
    pub mic: [u8; MIC_LEN],
    /// Elements and KDEs, possibly encrypted.
    pub data: &'a [u8],
}

impl<'a> KeyFrame<'a> {
    /// Reads the body of an EAPOL packet. Refuses octets behind the key data, and the descriptor
    /// of dynamic WEP.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let descriptor = r.u8("key descriptor")?.into();
        if descriptor == Descriptor::Rc4 {
            return Err(Malformed::Value("key descriptor"));
        }
        let information = r.u16("key information")?;
        let key_length = r.u16("key length")?;
        let replay_counter = r.u64("key replay counter")?;
        let nonce = r.array("key nonce")?;
        let iv = r.array("key IV")?;
        let receive_sequence = r.array("key RSC")?;
        r.take(8, "reserved octets")?;
        let mic = r.array("key MIC")?;
        let len = r.u16("key data length")?;
        let data = r.take(len.into(), "key data")?;
        r.finish("EAPOL-Key frame")?;
        Ok(Self {
            descriptor,
            information,
            key_length,
            replay_counter,
            nonce,
            iv,
            receive_sequence,
            mic,
            data,
        })
    }

    /// Appends the body. Panics if the key data have more than 65,535 octets.
    pub fn write(&self, w: &mut Writer) {
        w.u8(self.descriptor.number());
        w.u16(self.information);
        w.u16(self.key_length);
        w.u64(self.replay_counter);
        w.bytes(&self.nonce);
        w.bytes(&self.iv);
        w.bytes(&self.receive_sequence);
        w.bytes(&[0; 8]);
        w.bytes(&self.mic);
        w.u16(u16::try_from(self.data.len()).expect("key data of 16 bits"));
        w.bytes(self.data);
    }

    /// Whether all bits of `mask` are set.
    pub const fn has(&self, mask: u16) -> bool {
        self.information & mask == mask
    }

    /// The descriptor version.
    pub const fn version(&self) -> u16 {
        self.information & key_information::VERSION
    }

    /// Where in an EAPOL packet the MIC is, whose octets count as zero in its own computation.
    pub const MIC_AT: core::ops::Range<usize> = 81..97;
}
