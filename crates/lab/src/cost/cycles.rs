//! Profiles in cycles, as published: per byte of a primitive, per packet, per key operation.
//!
//! The cost of a suite is the sum of its primitives over the octets that they process by RFC 4303,
//! RFC 4302, RFC 4106, RFC 7634 and RFC 2104. A primitive may also have a cost per call, whatever
//! its bytes. Left out: unpublished costs. A cell without a value
//! stays empty, and asking for it is an error with its name.

pub(super) mod frames;
mod records;
pub(super) mod skip;

use std::collections::BTreeMap;

use crypto::hash::Hash;
use crypto::packet::{Encryption, Integrity};
use document::{Fault, Item, Table, unknown};

use super::accounting::Sizes;
use super::aligned::Aligned;
use super::bill::{Bill, Direction, Gap, Part};
use super::cell::Cell;
use super::names;
use super::policy::Policy;
use super::works::{Each, Works};
use crate::staircase::{Staircase, Step};

/// A profile of `kind = "cycles"`.
#[derive(Clone, Debug)]
pub(super) struct Cycles {
    pub(super) clock_mhz: Option<Cell>,
    pub(super) mw_per_mhz: Option<Cell>,
    per_byte: BTreeMap<String, Cell>,
    per_call: BTreeMap<String, Cell>,
    per_packet: Option<Cell>,
    works: Works,
}

/// Fastest plausible clock.
pub(super) const MOST_MHZ: f64 = 1e5;

impl Cycles {
    pub(super) fn read(table: &Table<'_>) -> Result<Self, Fault> {
        let clock_mhz = Cell::find(table, "clock_mhz")?;
        if let (Some(clock), Some(item)) = (&clock_mhz, table.find("clock_mhz"))
            && clock.value > MOST_MHZ
        {
            return Err(item.fault(format!("{} is above {MOST_MHZ} MHz", clock.value)));
        }
        Ok(Self {
            clock_mhz,
            mw_per_mhz: Cell::find(table, "mw_per_mhz")?,
            per_packet: Cell::find(table, "per_packet")?,
            per_byte: Self::read_bytes(table)?,
            per_call: Cell::named(table, "per_call", |name, item| {
                match PRIMITIVES.contains(&name) {
                    true => Cell::read(item),
                    false => Err(item.fault(unknown("primitive", name, PRIMITIVES))),
                }
            })?,
            works: Works::read(table)?,
        })
    }

    fn read_bytes(table: &Table<'_>) -> Result<BTreeMap<String, Cell>, Fault> {
        let written = table.find("per_byte").map(Item::members).transpose()?;
        Cell::named(table, "per_byte", |name, item| {
            let bare = name.strip_suffix("-seal").or(name.strip_suffix("-open"));
            if !PRIMITIVES.contains(&bare.unwrap_or(name)) {
                return Err(item.fault(unknown("primitive", name, PRIMITIVES)));
            }
            let has_both = |bare: &str| written.is_some_and(|all| all.contains_key(bare));
            if bare.is_some_and(has_both) {
                let why = "both directions already have a value: give either this one, or -seal \
                           and -open";
                return Err(item.fault(why));
            }
            Cell::read(item)
        })
    }

    /// Whether it has a cost per packet besides its bytes.
    pub(super) fn has_packet_cost(&self) -> bool {
        self.per_packet.is_some()
    }

    /// The cost of a packet whatever its bytes; 0 if no source gives it.
    pub(super) fn packet_cycles(&self) -> f64 {
        self.per_packet.as_ref().map_or(0.0, |cell| cell.value)
    }

    /// Cycles as functions of the clear IP packet's size.
    pub(super) fn bill(&self, policy: &Policy, direction: Direction) -> Result<Bill, Gap> {
        if let Some(suite) = policy.suite.skip() {
            return self.skip_bill(suite, direction);
        }
        let mut bill = Bill::default();
        let (Some(suite), Some(shape)) = (policy.suite.ipsec(), policy.shape()) else {
            return Ok(bill);
        };
        let sizes = Sizes::of(&shape);
        match suite.protection.encryption {
            Encryption::Null => {}
            Encryption::Cbc(cipher) => {
                let name = format!("{}-cbc", names::of_cipher(cipher));
                self.linear(&mut bill, &name, direction, sizes.encrypted().octets())?;
            }
            Encryption::AesGcm { .. } => {
                let cipher = names::of_encryption(suite.protection.encryption);
                self.aead(&mut bill, &sizes, direction, &gcm(cipher))?;
            }
            Encryption::ChaCha20Poly1305 => {
                self.aead(&mut bill, &sizes, direction, &chacha_poly())?;
            }
        }
        if let Integrity::Hmac(hash) = suite.protection.integrity {
            self.hmac(&mut bill, &sizes, hash)?;
        }
        if let Some(around) = policy.around_shape()
            && let Integrity::Hmac(hash) = around.protection.integrity
        {
            self.hmac(&mut bill, &sizes.inside(&around), hash)?;
        }
        self.packet(&mut bill);
        Ok(bill)
    }

    /// Cycles of one packet whatever its bytes, or that no source gives them.
    fn packet(&self, bill: &mut Bill) {
        match &self.per_packet {
            Some(cell) => bill.parts.push(Part {
                what: "packet".to_owned(),
                units: Staircase::constant(cell.value),
                source: cell.source.clone(),
            }),
            None => bill.note(
                "a lower bound: it counts the cost of the bytes; no source gives a cost per packet",
            ),
        }
    }

    /// Cycles to put `header` octets before a packet or to take them away: a cell of its own, or a
    /// copy of the packet. Nothing if there is neither.
    pub(super) fn tunnel(&self, name: &str, direction: Direction, header: f64) -> Staircase {
        let act = match direction {
            Direction::Seal => "encapsulate",
            Direction::Open => "decapsulate",
        };
        if let Ok(cycles) = self.works.cost(&format!("{name}-{act}")) {
            return Staircase::constant(cycles);
        }
        let Ok(cell) = self.cell("copy", direction) else {
            return Staircase::default();
        };
        let octets = Staircase::linear(1.0).plus(&Staircase::constant(header));
        let call = Staircase::constant(self.call("copy"));
        octets.times(cell.value).plus(&call)
    }

    /// Cycles of one call of a machine's work.
    pub(super) fn work(&self, each: &Each) -> Result<f64, Gap> {
        match each {
            Each::Cell(cell) => self.works.cost(cell),
            Each::Cipher { cipher, bytes } => self.bytes(&format!("{cipher}-cbc"), *bytes),
            Each::Aead { cipher, bytes } => self.message(*cipher, *bytes),
            Each::Bytes { primitive, bytes } => self.bytes(primitive, *bytes),
            Each::Prf { hash, bytes } => self.prf(hash, *bytes),
            Each::Hash { hash, bytes } => self.hash(hash, *bytes),
        }
    }

    fn bytes(&self, name: &str, bytes: f64) -> Result<f64, Gap> {
        Ok(self.cell(name, Direction::Seal)?.value * bytes + self.call(name))
    }

    /// A message under an AEAD: the measured whole, otherwise the sum of its halves.
    fn message(&self, cipher: Encryption, bytes: f64) -> Result<f64, Gap> {
        let aead = match cipher {
            Encryption::ChaCha20Poly1305 => chacha_poly(),
            other => gcm(names::of_encryption(other)),
        };
        if self.cell(&aead.whole, Direction::Seal).is_ok() {
            return self.bytes(&aead.whole, bytes);
        }
        let gap = |missing: Gap| Gap(format!("per_byte.{} or {}", aead.whole, missing.0));
        let ciphered = self.bytes(&aead.cipher, bytes + aead.key_bytes);
        let blocks = libm::ceil(bytes / MAC_BLOCK) + 2.0;
        let hashed = self.bytes(aead.mac, MAC_BLOCK * blocks);
        Ok(ciphered.map_err(gap)? + hashed.map_err(gap)?)
    }

    /// Besides the text: two blocks for the key, one for the outer hash.
    fn prf(&self, hash: &str, bytes: f64) -> Result<f64, Gap> {
        let cell = self.cell(hash, Direction::Seal)?;
        let (block, ends) = block_of(hash);
        let blocks = libm::ceil((bytes + ends) / block) + 3.0;
        Ok(cell.value * block * blocks + HMAC_CALLS * self.call(hash))
    }

    fn hash(&self, hash: &str, bytes: f64) -> Result<f64, Gap> {
        let cell = self.cell(hash, Direction::Seal)?;
        let (block, ends) = block_of(hash);
        Ok(cell.value * block * libm::ceil((bytes + ends) / block) + self.call(hash))
    }

    /// Cycles of a call of a primitive besides its bytes; 0 if no source gives them.
    fn call(&self, name: &str) -> f64 {
        self.per_call.get(name).map_or(0.0, |cell| cell.value)
    }

    /// Every cell with a value, for people: table and name, value, source.
    pub(super) fn cells(&self) -> Vec<(String, &Cell)> {
        let named = |name: &str, cell| (name.to_owned(), cell);
        let heads = [
            ("clock_mhz", &self.clock_mhz),
            ("mw_per_mhz", &self.mw_per_mhz),
            ("per_packet", &self.per_packet),
        ];
        let heads = heads.into_iter();
        let heads = heads.filter_map(|(name, cell)| Some(named(name, cell.as_ref()?)));
        let bytes = self.per_byte.iter();
        let bytes = bytes.map(|(name, cell)| named(&format!("per_byte.{name}"), cell));
        let calls = self.per_call.iter();
        let calls = calls.map(|(name, cell)| named(&format!("per_call.{name}"), cell));
        let works = self.works.cells();
        let works = works.map(|(name, cell)| named(&format!("per_operation.{name}"), cell));
        heads.chain(bytes).chain(calls).chain(works).collect()
    }

    fn linear(
        &self,
        bill: &mut Bill,
        name: &str,
        direction: Direction,
        bytes: Staircase,
    ) -> Result<(), Gap> {
        let cell = self.cell(name, direction)?;
        bill.parts.push(Part {
            what: name.to_owned(),
            units: bytes
                .times(cell.value)
                .plus(&Staircase::constant(self.call(name))),
            source: cell.source.clone(),
        });
        Ok(())
    }

    /// The measured whole, otherwise the sum of its halves.
    fn aead(
        &self,
        bill: &mut Bill,
        sizes: &Sizes,
        direction: Direction,
        aead: &Aead,
    ) -> Result<(), Gap> {
        if self.cell(&aead.whole, direction).is_ok() {
            return self.linear(bill, &aead.whole, direction, sizes.encrypted().octets());
        }
        let halves = self.cell(&aead.cipher, direction);
        let gap = |missing: Gap| Gap(format!("per_byte.{} or {}", aead.whole, missing.0));
        halves.map_err(gap)?;
        self.cell(aead.mac, direction).map_err(gap)?;
        let encrypted = sizes.encrypted();
        let ciphered = Aligned {
            fixed: encrypted.fixed + aead.key_bytes,
            ..encrypted
        };
        self.linear(bill, &aead.cipher, direction, ciphered.octets())?;
        // RFC 4106 §5: eight octets of header; these, and both lengths, are in separate blocks.
        let step = Step {
            height: MAC_BLOCK,
            ..encrypted.blocks(0.0, MAC_BLOCK)
        };
        let hashed = Staircase {
            fixed: 2.0 * MAC_BLOCK,
            per_byte: 0.0,
            steps: vec![step],
        };
        self.linear(bill, aead.mac, direction, hashed)?;
        bill.note(format!(
            "{}: sum of {} and {}, upper bound",
            aead.whole, aead.cipher, aead.mac
        ));
        Ok(())
    }

    /// RFC 2104 §4: the key's blocks are hashed once for all packets; the outer hash is one more
    /// block.
    fn hmac(&self, bill: &mut Bill, sizes: &Sizes, hash: Hash) -> Result<(), Gap> {
        self.mac(bill, hash, |ends, block| {
            sizes.covered().blocks(ends, block)
        })
    }

    /// The same over blocks of the hash: `blocks` has what ends a message, and the block's octets.
    fn mac(
        &self,
        bill: &mut Bill,
        hash: Hash,
        blocks: impl Fn(f64, f64) -> Step,
    ) -> Result<(), Gap> {
        let name = names::of_hash(hash);
        let cell = self.cell(name, Direction::Seal)?;
        let (block, ends) = block_of(name);
        let per_block = cell.value * block;
        let step = Step {
            height: per_block,
            ..blocks(ends, block)
        };
        bill.parts.push(Part {
            what: format!("hmac-{name}"),
            units: Staircase {
                fixed: per_block + HMAC_CALLS * self.call(name),
                per_byte: 0.0,
                steps: vec![step],
            },
            source: cell.source.clone(),
        });
        Ok(())
    }

    fn cell(&self, name: &str, direction: Direction) -> Result<&Cell, Gap> {
        let one_way = format!("{name}-{}", direction.word());
        let found = self.per_byte.get(name).or(self.per_byte.get(&one_way));
        found.ok_or_else(|| Gap(format!("per_byte.{name}")))
    }
}

/// An AEAD, as a whole and in halves.
struct Aead {
    whole: String,
    cipher: String,
    mac: &'static str,
    /// Octets of key stream besides those for the text.
    key_bytes: f64,
}

/// RFC 4106: one block masks the tag.
fn gcm(cipher: &str) -> Aead {
    Aead {
        whole: format!("{cipher}-gcm"),
        cipher: format!("{cipher}-ctr"),
        mac: "ghash",
        key_bytes: 16.0,
    }
}

/// RFC 8439 §2.6: one block of key stream is Poly1305's key.
fn chacha_poly() -> Aead {
    Aead {
        whole: "chacha20-poly1305".to_owned(),
        cipher: "chacha20".to_owned(),
        mac: "poly1305",
        key_bytes: 64.0,
    }
}

/// Octets of a block, and at least those of padding and length.
fn block_of(hash: &str) -> (f64, f64) {
    match hash {
        "sha384" | "sha512" => (128.0, 17.0),
        _ => (64.0, 9.0),
    }
}

/// Calls of the hash in an HMAC: the inner and the outer one.
const HMAC_CALLS: f64 = 2.0;

const AES_BLOCK: f64 = 16.0;

/// GHASH's and Poly1305's.
const MAC_BLOCK: f64 = 16.0;

const PRIMITIVES: [&str; 26] = [
    "des-cbc",
    "3des-cbc",
    "aes128-cbc",
    "aes192-cbc",
    "aes256-cbc",
    "aes128-ctr",
    "aes192-ctr",
    "aes256-ctr",
    "aes128-gcm",
    "aes192-gcm",
    "aes256-gcm",
    "ghash",
    "chacha20",
    "poly1305",
    "chacha20-poly1305",
    "md5",
    "sha1",
    "sha256",
    "sha384",
    "sha512",
    "rc2-cbc",
    "rc4",
    "aes256-gcm-siv",
    "copy",
    "crc32",
    "michael",
];
