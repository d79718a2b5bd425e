//! Records of TLS in cycles: what each suite does to the octets of a record, from the primitives of
//! the table.
//!
//! Left out: the cost of a packet besides its bytes, which is that of a packet of IPsec.

use crypto::packet::{Encryption, Integrity};

use super::{AES_BLOCK, Cycles, chacha_poly, gcm};
use crate::cost::bill::{Bill, Direction, Gap};
use crate::cost::names;
use crate::cost::records::Records;
use crate::staircase::{Staircase, Step};

/// What a MAC covers besides the text: number, type, version and length (RFC 5246 §6.2.3.1).
const COVERED_BYTES: f64 = 13.0;

impl Cycles {
    /// Cycles as functions of the octets that a record carries.
    pub(in crate::cost) fn record(
        &self,
        records: &Records,
        direction: Direction,
    ) -> Result<Bill, Gap> {
        let mut bill = Bill::default();
        let more = f64::from(records.inner_type());
        let text = Staircase::linear(1.0).plus(&Staircase::constant(more));
        match records.suite.protection.encryption {
            Encryption::Null => {}
            Encryption::AesGcm { .. } => {
                let cipher = names::of_encryption(records.suite.protection.encryption);
                self.sealed(&mut bill, direction, &text, &gcm(cipher))?;
            }
            Encryption::ChaCha20Poly1305 => {
                self.sealed(&mut bill, direction, &text, &chacha_poly())?;
            }
            Encryption::Cbc(cipher) => {
                let block = cipher.block_len() as f64;
                let step = Step {
                    height: block,
                    offset: f64::from(records.mac() + 1),
                    width: block,
                };
                let name = format!("{}-cbc", names::of_cipher(cipher));
                self.linear(&mut bill, &name, direction, Staircase::of(step))?;
            }
        }
        if let Integrity::Hmac(hash) = records.suite.protection.integrity {
            self.mac(&mut bill, hash, |ends, block| Step {
                height: 1.0,
                offset: COVERED_BYTES + ends,
                width: block,
            })?;
        }
        bill.note("a lower bound: it counts the cost of the bytes of records");
        Ok(bill)
    }

    /// The measured whole over a text, otherwise the sum of its halves. Associated data and lengths
    /// are in separate blocks.
    pub(super) fn sealed(
        &self,
        bill: &mut Bill,
        direction: Direction,
        text: &Staircase,
        aead: &super::Aead,
    ) -> Result<(), Gap> {
        if self.cell(&aead.whole, direction).is_ok() {
            return self.linear(bill, &aead.whole, direction, text.clone());
        }
        let gap = |missing: Gap| Gap(format!("per_byte.{} or {}", aead.whole, missing.0));
        let one = Staircase::constant(aead.key_bytes);
        let ciphered = text.clone().plus(&one);
        self.linear(bill, &aead.cipher, direction, ciphered)
            .map_err(gap)?;
        let hashed = text.clone().plus(&Staircase::constant(3.0 * AES_BLOCK));
        self.linear(bill, aead.mac, direction, hashed)
            .map_err(gap)?;
        bill.note(format!(
            "{}: sum of {} and {}",
            aead.whole, aead.cipher, aead.mac
        ));
        Ok(())
    }
}
