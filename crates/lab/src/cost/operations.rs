//! Profiles in operations, as papers U and W have them: so many a block, on a processor of so many
//! million operations a second.

use document::unknown;
use std::collections::BTreeMap;

use crypto::packet::{Encryption, Integrity};
use serde::Deserialize;
use toml::Spanned;

use super::accounting::Accounting;
use super::bill::{Bill, Direction, Gap, Part};
use super::file::{Cell, Fault, Source};
use super::names;
use super::policy::Policy;
use super::works::{Each, Works};
use crate::staircase::{Staircase, Step};

/// A profile of `kind = "operations"`.
#[derive(Clone, Debug)]
pub(super) struct Operations {
    pub(super) accounting: Accounting,
    /// What sizes asked of the profile lack to be IP packets.
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OperationsFile {
    #[expect(dead_code, reason = "read before, to know which kind this is")]
    kind: String,
    pub(super) name: Spanned<String>,
    pub(super) title: String,
    accounting: Spanned<String>,
    #[serde(default = "super::names::no_bytes")]
    header_bytes: Spanned<f64>,
    #[serde(default)]
    cipher: BTreeMap<String, Spanned<CipherFile>>,
    #[serde(default)]
    mac: BTreeMap<String, Spanned<MacFile>>,
    #[serde(default)]
    per_operation: BTreeMap<String, Spanned<Cell>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CipherFile {
    block_bytes: Spanned<f64>,
    #[serde(default = "super::names::no_bytes")]
    added_bytes: Spanned<f64>,
    encrypt: Option<Spanned<Cell>>,
    decrypt: Option<Spanned<Cell>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MacFile {
    block_bytes: Spanned<f64>,
    #[serde(default = "super::names::no_bytes")]
    added_bytes: Spanned<f64>,
    fixed: Spanned<Cell>,
    per_block: Spanned<Cell>,
}

impl Operations {
    pub(super) fn read(source: Source<'_>, file: &OperationsFile) -> Result<Self, Fault> {
        let accounting = &file.accounting;
        let named = accounting.get_ref().parse();
        let named = named.map_err(|unknown: super::UnknownAccounting| {
            source.fault(accounting.span().start, "accounting", unknown.to_string())
        });
        let mut ciphers = BTreeMap::new();
        for (name, table) in &file.cipher {
            let cost = CipherCost::read(source, name, table)?;
            ciphers.insert(name.clone(), cost);
        }
        let mut macs = BTreeMap::new();
        for (name, table) in &file.mac {
            macs.insert(name.clone(), MacCost::read(source, name, table)?);
        }
        if ciphers.is_empty() && macs.is_empty() {
            return Err(source.fault(0, "cipher", "the profile costs no cipher and no MAC"));
        }
        Ok(Self {
            accounting: named?,
            header_bytes: bytes(source, "header_bytes", &file.header_bytes, 0.0)?,
            ciphers,
            macs,
            works: Works::read(source, &file.per_operation)?,
        })
    }

    /// Operations as functions of the clear IP packet's size.
    pub(super) fn bill(&self, policy: &Policy, direction: Direction) -> Result<Bill, Gap> {
        let mut bill = Bill::default();
        let Some(suite) = policy.suite.ipsec() else {
            return Ok(bill);
        };
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
        }
    }

    /// Every cell that has a value, for people: table and name, value, source.
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

    /// Sizes in the file are over what is asked of the profile, in a bill over IP packets.
    fn step(&self, height: f64, added_bytes: f64, width: f64) -> Step {
        Step {
            height,
            offset: added_bytes - self.header_bytes,
            width,
        }
    }
}

/// What MD5 and SHA-1 append besides the mandatory bit, which the papers do not count.
const LENGTH_BYTES: f64 = 8.0;
/// The widest block or header that makes sense.
const MOST_BYTES: f64 = 4096.0;

impl CipherCost {
    fn read(source: Source<'_>, name: &str, table: &Spanned<CipherFile>) -> Result<Self, Fault> {
        known(source, "cipher", name, &names::CBC, table.span().start)?;
        let (file, prefix) = (table.get_ref(), format!("cipher.{name}"));
        let cell = |word: &str, cell: &Option<Spanned<Cell>>| {
            let key = format!("{prefix}.{word}");
            cell.as_ref()
                .map(|cell| source.cell(&key, cell))
                .transpose()
        };
        Ok(Self {
            block_bytes: bytes(
                source,
                &format!("{prefix}.block_bytes"),
                &file.block_bytes,
                1.0,
            )?,
            added_bytes: bytes(
                source,
                &format!("{prefix}.added_bytes"),
                &file.added_bytes,
                0.0,
            )?,
            encrypt: cell("encrypt", &file.encrypt)?,
            decrypt: cell("decrypt", &file.decrypt)?,
        })
    }
}

impl MacCost {
    /// Of both cells, once where it is the same.
    fn source(&self) -> String {
        let (fixed, per_block) = (&self.fixed.source, &self.per_block.source);
        if fixed == per_block {
            return fixed.clone();
        }
        format!("{fixed}; {per_block}")
    }

    fn read(source: Source<'_>, name: &str, table: &Spanned<MacFile>) -> Result<Self, Fault> {
        known(source, "mac", name, &names::HASHES, table.span().start)?;
        let (file, prefix) = (table.get_ref(), format!("mac.{name}"));
        Ok(Self {
            block_bytes: bytes(
                source,
                &format!("{prefix}.block_bytes"),
                &file.block_bytes,
                1.0,
            )?,
            added_bytes: bytes(
                source,
                &format!("{prefix}.added_bytes"),
                &file.added_bytes,
                0.0,
            )?,
            fixed: source.cell(&format!("{prefix}.fixed"), &file.fixed)?,
            per_block: source.cell(&format!("{prefix}.per_block"), &file.per_block)?,
        })
    }
}

fn known(
    source: Source<'_>,
    table: &str,
    name: &str,
    valid: &[&str],
    at: usize,
) -> Result<(), Fault> {
    if valid.contains(&name) {
        return Ok(());
    }
    let why = unknown("name", name, valid.iter().copied());
    Err(source.fault(at, format!("{table}.{name}"), why))
}

fn bytes(source: Source<'_>, key: &str, value: &Spanned<f64>, least: f64) -> Result<f64, Fault> {
    let bytes = *value.get_ref();
    if bytes >= least && bytes <= MOST_BYTES {
        return Ok(bytes);
    }
    let why = format!("{bytes} is not between {least} and {MOST_BYTES} bytes");
    Err(source.fault(value.span().start, key, why))
}
