//! SKIP in cycles: cipher, keyed hash (RFC 1828, RFC 1852), and what a new packet key costs.
//!
//! Left out: K_ij and, with the draft's n, K_ijn. One is computed once for a pair, the other once
//! an hour, both apart from packets.

use engine::skip::{Profile, words};
use wire::skip::{CryptAlg, KijAlg, MacAlg};

use super::{Cycles, block_of};
use crate::cost::bill::{Bill, Direction, Gap, Part};
use crate::cost::skip::SkipSuite;
use crate::staircase::{Staircase, Step};

/// Cycles of something, and the sources of the numbers.
#[derive(Default)]
struct Sum<'a> {
    cycles: f64,
    sources: Vec<&'a str>,
}

impl<'a> Sum<'a> {
    fn add(&mut self, cycles: f64, source: &'a str) {
        self.cycles += cycles;
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }
}

impl Cycles {
    /// Cycles as functions of the clear packet's size.
    pub(super) fn skip_bill(&self, suite: &SkipSuite, direction: Direction) -> Result<Bill, Gap> {
        let mut bill = Bill::default();
        if let Some(name) = cipher_of(suite.algorithms.crypt()) {
            self.linear(&mut bill, name, direction, suite.encrypted().octets())?;
        }
        match suite.algorithms.mac() {
            MacAlg::Md5 => self.keyed_hash(&mut bill, suite, "md5")?,
            MacAlg::Sha => self.keyed_hash(&mut bill, suite, "sha1")?,
            // A MAC encrypts at both ends.
            MacAlg::DesCbc => {
                let covered = suite.wire().octets();
                self.linear(&mut bill, "des-cbc", Direction::Seal, covered)?;
            }
            MacAlg::None | MacAlg::AesGcmSiv => {}
        }
        self.packet_key(&mut bill, suite, direction)?;
        self.packet(&mut bill);
        Ok(bill)
    }

    /// RFC 1828 §1.2: the filled key, which is hashed once for all packets of a key; the datagram;
    /// the key again.
    fn keyed_hash(&self, bill: &mut Bill, suite: &SkipSuite, hash: &str) -> Result<(), Gap> {
        let cell = self.cell(hash, Direction::Seal)?;
        let (block, ends) = block_of(hash);
        let key = suite.algorithms.mac().key_len() as f64;
        let step = Step {
            height: cell.value * block,
            ..suite.wire().blocks(key + ends, block)
        };
        bill.parts.push(Part {
            what: format!("keyed-{hash}"),
            units: Staircase {
                fixed: self.call(hash),
                per_byte: 0.0,
                steps: vec![step],
            },
            source: cell.source.clone(),
        });
        Ok(())
    }

    /// A new packet key: with every packet, or its share of the octets that it lasts for.
    fn packet_key(
        &self,
        bill: &mut Bill,
        suite: &SkipSuite,
        direction: Direction,
    ) -> Result<(), Gap> {
        let algorithms = suite.algorithms;
        let field = algorithms.field_len() as f64;
        let mut sum = Sum::default();
        match kij_cipher(algorithms.kij()) {
            Some(cipher) => {
                let cell = self.cell(cipher, direction)?;
                sum.add(cell.value * field + self.call(cipher), &cell.source);
                let name = words::of_kij(algorithms.kij());
                let is_counted = suite.profile == Profile::Paper;
                // The algorithm and a constant follow the packet key; n and a constant K_ij.
                let hashed = [
                    (field + 2.0, 4.0),
                    (INTERVAL_BYTES, if is_counted { 2.0 } else { 0.0 }),
                ];
                let cell = self.cell("md5", Direction::Seal)?;
                for (bytes, calls) in hashed {
                    sum.add(calls * self.hash("md5", bytes)?, &cell.source);
                }
                if is_counted {
                    self.set_key(bill, &mut sum, name);
                }
            }
            None => {
                let cell = self.cell("sha256", Direction::Seal)?;
                // RFC 5869 §2.3: two blocks for 36 octets
                sum.add(2.0 * self.prf("sha256", field + 8.0)?, &cell.source);
            }
        }
        let crypt = words::of_crypt(algorithms.crypt());
        match algorithms.crypt() {
            CryptAlg::None => {}
            // Without an IV, every packet has its own key: this is no share of it.
            CryptAlg::Rc4 => {
                let name = format!("{crypt}-set-key");
                sum.add(self.works.cost(&name)?, self.works.source(&name)?);
            }
            _ => self.set_key(bill, &mut sum, crypt),
        }
        let renewal = suite.renewal();
        bill.parts.push(Part {
            what: "packet-key".to_owned(),
            units: match renewal.packets {
                1 => Staircase::constant(sum.cycles),
                _ => Staircase::linear(sum.cycles / renewal.bytes as f64),
            },
            source: sum.sources.join("; "),
        });
        Ok(())
    }

    /// The schedule of a cipher that keeps its key for many packets: nothing if no source says it.
    fn set_key<'a>(&'a self, bill: &mut Bill, sum: &mut Sum<'a>, cipher: &str) {
        let name = format!("{cipher}-set-key");
        match (self.works.cost(&name), self.works.source(&name)) {
            (Ok(cycles), Ok(source)) => sum.add(cycles, source),
            _ => bill.note(format!(
                "no source gives the cost of {name}: it is left out"
            )),
        }
    }
}

/// K_ij, n and a constant.
const INTERVAL_BYTES: f64 = 37.0;

/// The primitive that encrypts the text.
pub(in crate::cost) fn cipher_of(crypt: CryptAlg) -> Option<&'static str> {
    match crypt {
        CryptAlg::None => None,
        CryptAlg::Des => Some("des-cbc"),
        CryptAlg::TripleDes => Some("3des-cbc"),
        CryptAlg::Rc2 => Some("rc2-cbc"),
        CryptAlg::Rc4 => Some("rc4"),
        CryptAlg::AesGcmSiv => Some("aes256-gcm-siv"),
    }
}

fn kij_cipher(kij: KijAlg) -> Option<&'static str> {
    match kij {
        KijAlg::Des => Some("des-cbc"),
        KijAlg::TripleDes => Some("3des-cbc"),
        KijAlg::Hkdf => None,
    }
}
