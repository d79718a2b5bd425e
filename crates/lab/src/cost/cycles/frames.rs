//! Frames of wireless links in cycles: what each cipher of IEEE 802.11-2020 does to the octets of a
//! frame, from the primitives of the table.
//!
//! A frame has LLC and SNAP before the IP packet. Without a cost of CRC-32 it costs the rest, and
//! the bill names what is missing. Left out: key mixing of TKIP, which nobody timed, and everything
//! of a frame that is not of its octets.

use engine::link::wireless::LinkCipher;

use super::{AES_BLOCK, Cycles, gcm};
use crate::cost::bill::{Bill, Direction, Gap, Part};
use crate::cost::works::Each;
use crate::staircase::{Staircase, Step};

/// Octets of LLC and SNAP (IEEE 802-2014 §9.4), which are protected with the packet.
pub(in crate::cost) const LLC_BYTES: f64 = 8.0;
/// ICV of WEP and TKIP.
const ICV_BYTES: f64 = 4.0;
/// MIC of TKIP: Michael's.
const MIC_BYTES: f64 = 8.0;
/// What Michael covers besides the text: both addresses and the priority (§12.5.2.3.3).
const MICHAEL_BYTES: f64 = 16.0;
/// Michael works on words, and fills up with at least five octets.
const MICHAEL_WORD: f64 = 4.0;
/// Blocks of a CCM MAC besides the text: the first one, and two of associated data (§12.5.3.3.3).
const CCM_MAC_BLOCKS: f64 = 3.0;

/// AES-128-CMAC over a message (RFC 4493 §2.4): its blocks, and one for the subkeys.
pub(in crate::cost) fn cmac(bytes: f64) -> Each {
    Each::Bytes {
        primitive: "aes128-cbc",
        bytes: AES_BLOCK * (libm::ceil(bytes / AES_BLOCK).max(1.0) + 1.0),
    }
}

/// Key data in AES Key Wrap (RFC 3394 §2.2.1): six passes over its halves of blocks.
pub(in crate::cost) fn key_data(bytes: f64) -> Each {
    Each::Bytes {
        primitive: "aes128-cbc",
        bytes: AES_BLOCK * 6.0 * libm::ceil(bytes / (AES_BLOCK / 2.0)),
    }
}

/// A passphrase to a key of 256 bits (IEEE 802.11-2020 annex J.4): PBKDF2 with two blocks of 4,096
/// rounds of HMAC-SHA-1, each of two blocks of the hash.
pub(in crate::cost) fn passphrase() -> Each {
    Each::Bytes {
        primitive: "sha1",
        bytes: 2.0 * 4096.0 * 2.0 * 64.0,
    }
}

impl Cycles {
    /// Cycles as functions of the IP packet's size.
    pub(in crate::cost) fn frame(
        &self,
        cipher: LinkCipher,
        direction: Direction,
    ) -> Result<Bill, Gap> {
        let mut bill = Bill::default();
        match cipher {
            LinkCipher::Wep40 | LinkCipher::Wep104 => self.wep(&mut bill, 0.0)?,
            LinkCipher::Tkip => {
                self.wep(&mut bill, MIC_BYTES)?;
                self.michael(&mut bill)?;
                bill.note("tkip: without key mixing, a lower bound");
            }
            LinkCipher::Ccmp128 => self.ccmp(&mut bill)?,
            LinkCipher::Gcmp256 => self.gcmp(&mut bill, direction)?,
        }
        self.packet(&mut bill);
        Ok(bill)
    }

    /// CRC-32 of the text; RC4 with a key of its own over text and ICV (§12.3.4).
    fn wep(&self, bill: &mut Bill, added: f64) -> Result<(), Gap> {
        let text = Staircase::linear(1.0).plus(&Staircase::constant(LLC_BYTES + added));
        let ciphered = text.clone().plus(&Staircase::constant(ICV_BYTES));
        if let Err(gap) = self.linear(bill, "crc32", Direction::Seal, text) {
            bill.note("without CRC-32, a lower bound");
            bill.missing = Some(gap);
        }
        bill.parts.push(Part {
            what: "rc4-set-key".to_owned(),
            units: Staircase::constant(self.works.cost("rc4-set-key")?),
            source: self.works.source("rc4-set-key")?.to_owned(),
        });
        self.linear(bill, "rc4", Direction::Seal, ciphered)
    }

    /// In whole words, and one more if the text fills its last word.
    fn michael(&self, bill: &mut Bill) -> Result<(), Gap> {
        let step = Step {
            height: MICHAEL_WORD,
            offset: LLC_BYTES + 5.0,
            width: MICHAEL_WORD,
        };
        let octets = Staircase {
            fixed: MICHAEL_BYTES,
            per_byte: 0.0,
            steps: vec![step],
        };
        self.linear(bill, "michael", Direction::Seal, octets)
    }

    /// CTR over the text and one block that masks the MIC; CBC-MAC over the text and its blocks.
    fn ccmp(&self, bill: &mut Bill) -> Result<(), Gap> {
        let blocks = |more: f64| {
            let step = Step {
                height: AES_BLOCK,
                offset: LLC_BYTES,
                width: AES_BLOCK,
            };
            Staircase {
                fixed: AES_BLOCK * more,
                per_byte: 0.0,
                steps: vec![step],
            }
        };
        match self.cell("aes128-ctr", Direction::Seal) {
            Ok(_) => self.linear(bill, "aes128-ctr", Direction::Seal, blocks(1.0))?,
            Err(_) => {
                self.linear(bill, "aes128-cbc", Direction::Seal, blocks(1.0))?;
                bill.note("ccmp: CTR priced as CBC");
            }
        }
        self.linear(bill, "aes128-cbc", Direction::Seal, blocks(CCM_MAC_BLOCKS))
    }

    /// As an AEAD of ESP, over the text.
    fn gcmp(&self, bill: &mut Bill, direction: Direction) -> Result<(), Gap> {
        let text = Staircase::linear(1.0).plus(&Staircase::constant(LLC_BYTES));
        self.sealed(bill, direction, &text, &gcm("aes256"))
    }
}
