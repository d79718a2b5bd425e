//! Profiles in operations, as in papers U and W: operations per block, on a processor with a number
//! of million operations per second.

use std::collections::BTreeMap;

use crypto::packet::{Encryption, Integrity};
use document::{Fault, Item, Table, unknown};

use super::accounting::{Accounting, UnknownAccounting};
use super::bill::{Bill, Direction, Gap, Part};
use super::cell::Cell;
use super::names;
use super::policy::Policy;
use super::works::{Each, Works};
use crate::staircase::{Staircase, Step};

/// A profile of `kind = "operations"`.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    pub(super) accounting: Accounting,
    /// The bytes to add to a size in the paper's terms to get an IP packet.
    pub(super) header_bytes: f64,
    ciphers: BTreeMap<String, CipherCost>,
    macs: BTreeMap<String, MacCost>,
    works: Works,
}

#[derive(Clone, Debug)]
struct CipherCost {
    block_bytes: f64,
    added_bytes: f64,
    encrypt: Option<Cell>,
    decrypt: Option<Cell>,
}

#[derive(Clone, Debug)]
struct MacCost {
    block_bytes: f64,
    added_bytes: f64,
    fixed: Cell,
    per_block: Cell,
}

impl Operations {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Fault> {
        let ciphers = Cell::named(table, "cipher", CipherCost::read)?;
        let macs = Cell::named(table, "mac", MacCost::read)?;
        if ciphers.is_empty() && macs.is_empty() {
            let what = "the profile has no cost of a cipher or MAC";
            return Err(table.fault_of(&["cipher", "mac"], what));
        }
        let accounting = table.need("accounting")?;
        let named = accounting.text()?.parse();
        let named =
            named.map_err(|unknown: UnknownAccounting| accounting.fault(unknown.to_string()));
        Ok(Self {
            accounting: named?,
            header_bytes: table.or("header_bytes", 0.0, |item| item.number(0.0, MOST_BYTES))?,
            ciphers,
            macs,
            works: Works::read(table)?,
        })
    }

    /// Operations as functions of the clear IP packet's size.
    pub(super) fn bill(&self, policy: &Policy, direction: Direction) -> Result<Bill, Gap> {
        let mut bill = Bill::default();
        if policy.suite.skip().is_some() {
            return Err(Gap("a formula of SKIP".to_owned()));
        }
        let Some(suite) = policy.suite.ipsec() else {
            return Ok(bill);
        };
        if policy.around.is_some() {
            return Err(Gap("a formula of two layers".to_owned()));
        }
        match suite.protection.encryption {
            Encryption::Null => {}
            Encryption::Cbc(cipher) => {
                bill.parts
                    .push(self.cipher(names::of_cipher(cipher), direction)?);
            }
            Encryption::AesGcm { .. } | Encryption::ChaCha20Poly1305 => {
                let cipher = names::of_encryption(suite.protection.encryption);
                return Err(Gap(format!("cipher.{cipher}")));
            }
        }
        if let Integrity::Hmac(hash) = suite.protection.integrity {
            bill.parts.push(self.mac(names::of_hash(hash))?);
        }
        Ok(bill)
    }

    /// Operations of one call of IKE's work.
    pub(super) fn work(&self, each: &Each) -> Result<f64, Gap> {
        match each {
            Each::Cell(cell) => self.works.cost(cell),
            Each::Cipher { cipher, bytes } => {
                let cost = self.ciphers.get(*cipher);
                let each = cost.and_then(|cost| Some((cost, cost.encrypt.as_ref()?)));
                let (cost, each) = each.ok_or_else(|| Gap(format!("cipher.{cipher}")))?;
                Ok(each.value * libm::ceil(bytes / cost.block_bytes))
            }
            Each::Prf { hash, bytes } => {
                let cost = self.macs.get(*hash);
                let cost = cost.ok_or_else(|| Gap(format!("mac.{hash}")))?;
                let blocks = libm::ceil((bytes + LENGTH_BYTES) / cost.block_bytes);
                Ok(cost.fixed.value + cost.per_block.value * blocks)
            }
            Each::Aead { cipher, .. } => {
                Err(Gap(format!("cipher.{}", names::of_encryption(*cipher))))
            }
            Each::Bytes { primitive, .. } => Err(Gap(format!("cipher.{primitive}"))),
            Each::Hash { hash, bytes } => {
                let cost = self.macs.get(*hash);
                let cost = cost.ok_or_else(|| Gap(format!("mac.{hash}")))?;
                let blocks = libm::ceil((bytes + LENGTH_BYTES) / cost.block_bytes);
                Ok(cost.per_block.value * blocks)
            }
        }
    }

    /// Every cell with a value, for people: table and name, value, source.
    pub(super) fn cells(&self) -> Vec<(String, &Cell)> {
        let mut cells = Vec::new();
        for (name, cost) in &self.ciphers {
            for (word, cell) in [("encrypt", &cost.encrypt), ("decrypt", &cost.decrypt)] {
                let named = cell
                    .iter()
                    .map(|cell| (format!("cipher.{name}.{word}"), cell));
                cells.extend(named);
            }
        }
        for (name, cost) in &self.macs {
            cells.push((format!("mac.{name}.fixed"), &cost.fixed));
            cells.push((format!("mac.{name}.per_block"), &cost.per_block));
        }
        let works = self.works.cells();
        cells.extend(works.map(|(name, cell)| (format!("per_operation.{name}"), cell)));
        cells
    }

    fn cipher(&self, name: &str, direction: Direction) -> Result<Part, Gap> {
        let (word, cell) = match direction {
            Direction::Seal => ("encrypt", self.ciphers.get(name).map(|cost| &cost.encrypt)),
            Direction::Open => ("decrypt", self.ciphers.get(name).map(|cost| &cost.decrypt)),
        };
        let gap = || Gap(format!("cipher.{name}.{word}"));
        let cell = cell.and_then(Option::as_ref).ok_or_else(gap)?;
        let cost = self.ciphers.get(name).ok_or_else(gap)?;
        let step = self.step(cell.value, cost.added_bytes, cost.block_bytes);
        Ok(Part {
            what: name.to_owned(),
            units: Staircase {
                fixed: 0.0,
                per_byte: 0.0,
                steps: vec![step],
            },
            source: cell.source.clone(),
        })
    }

    fn mac(&self, name: &str) -> Result<Part, Gap> {
        let cost = self
            .macs
            .get(name)
            .ok_or_else(|| Gap(format!("mac.{name}")))?;
        let step = self.step(cost.per_block.value, cost.added_bytes, cost.block_bytes);
        Ok(Part {
            what: format!("hmac-{name}"),
            units: Staircase {
                fixed: cost.fixed.value,
                per_byte: 0.0,
                steps: vec![step],
            },
            source: cost.source(),
        })
    }

    /// The file's sizes are in the paper's terms; a bill is over IP packets.
    fn step(&self, height: f64, added_bytes: f64, width: f64) -> Step {
        Step {
            height,
            offset: added_bytes - self.header_bytes,
            width,
        }
    }
}

/// The length field of MD5 and SHA-1, which the papers do not count.
const LENGTH_BYTES: f64 = 8.0;
/// The widest plausible block or header.
const MOST_BYTES: f64 = 4096.0;

impl CipherCost {
    fn read(name: &str, item: &Item) -> Result<Self, Fault> {
        check_known("cipher", name, &names::CBC, item)?;
        let table = item.table()?;
        let cost = Self {
            block_bytes: table.need("block_bytes")?.number(1.0, MOST_BYTES)?,
            added_bytes: table.or("added_bytes", 0.0, |item| item.number(0.0, MOST_BYTES))?,
            encrypt: Cell::find(&table, "encrypt")?,
            decrypt: Cell::find(&table, "decrypt")?,
        };
        table.finish()?;
        Ok(cost)
    }
}

impl MacCost {
    /// The sources of both cells, once if they are equal.
    fn source(&self) -> String {
        let (fixed, per_block) = (&self.fixed.source, &self.per_block.source);
        if fixed == per_block {
            return fixed.clone();
        }
        format!("{fixed}; {per_block}")
    }

    fn read(name: &str, item: &Item) -> Result<Self, Fault> {
        check_known("MAC", name, &names::HASHES, item)?;
        let table = item.table()?;
        let cost = Self {
            block_bytes: table.need("block_bytes")?.number(1.0, MOST_BYTES)?,
            added_bytes: table.or("added_bytes", 0.0, |item| item.number(0.0, MOST_BYTES))?,
            fixed: Cell::read(table.need("fixed")?)?,
            per_block: Cell::read(table.need("per_block")?)?,
        };
        table.finish()?;
        Ok(cost)
    }
}

fn check_known(what: &str, name: &str, valid: &[&str], item: &Item) -> Result<(), Fault> {
    match valid.contains(&name) {
        true => Ok(()),
        false => Err(item.fault(unknown(what, name, valid.iter().copied()))),
    }
}
