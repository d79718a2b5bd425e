//! A device's cost table, of one of three kinds, parsed from text.

use document::{Fault, parse};
use engine::link::wireless::LinkCipher;

use super::accounting::Accounting;
use super::bill::{Bill, Direction, Gap};
use super::cycles::Cycles;
use super::measured::Measured;
use super::operations::Operations;
use super::policy::Policy;
use super::records::Records;
use super::suite::Suite;
use super::works::Each;
use crate::staircase::Staircase;

/// The computation costs of a device, with the source of every number.
#[derive(Clone, Debug)]
pub struct Profile {
    /// File's or machine's name.
    pub name: String,
    /// For people.
    pub title: String,
    pub(super) table: Table,
}

/// The unit of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Operations of a processor with a given number of MIPS.
    Operations,
    /// Cycles of a clock with a given number of MHz.
    Cycles,
    /// Nanoseconds of the measured machine.
    Nanoseconds,
}

/// One number of a profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Table and name.
    pub name: String,
    /// In the profile's unit.
    pub value: f64,
    /// Its source.
    pub source: String,
}

#[derive(Clone, Debug)]
pub(super) enum Table {
    Operations(Operations),
    Cycles(Cycles),
    Measured(Measured),
}

impl Profile {
    /// Parses a file of `devices/`, or one from `caravan bench`. `file` is its name in messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, Fault> {
        let document = parse(file, text)?;
        let top = document.table()?;
        let kind = match top.find("device") {
            // a file from bench needs no kind
            Some(_) => top.or("kind", Kind::Measured, |item| item.choice("kind", &KINDS))?,
            None => top.need("kind")?.choice("kind", &KINDS)?,
        };
        let table = match kind {
            Kind::Operations => Table::Operations(Operations::read(&top)?),
            Kind::Cycles => Table::Cycles(Cycles::read(&top)?),
            Kind::Measured => Table::Measured(Measured::read(&top)?),
        };
        let (name, title) = match &table {
            Table::Measured(measured) => (measured.name.clone(), measured.title.clone()),
            Table::Operations(_) | Table::Cycles(_) => {
                let text = |key| top.need(key)?.text().map(str::to_owned);
                (text("name")?, text("title")?)
            }
        };
        top.finish()?;
        Ok(Self { name, title, table })
    }

    /// Its unit.
    pub fn unit(&self) -> Unit {
        match self.table {
            Table::Operations(_) => Unit::Operations,
            Table::Cycles(_) => Unit::Cycles,
            Table::Measured(_) => Unit::Nanoseconds,
        }
    }

    /// The accounting for it: a paper's own, or the exact one.
    pub fn accounting(&self) -> Accounting {
        match &self.table {
            Table::Operations(table) => table.accounting,
            Table::Cycles(_) | Table::Measured(_) => Accounting::Rfc,
        }
    }

    /// The bytes to add to a size in this profile's terms to get an IP packet: paper W counts
    /// application bytes, 20 fewer.
    pub fn header_bytes(&self) -> f64 {
        match &self.table {
            Table::Operations(table) => table.header_bytes,
            Table::Cycles(_) | Table::Measured(_) => 0.0,
        }
    }

    /// The clock of the device in MHz and its source, if the profile has one.
    pub fn clock_mhz(&self) -> Option<(f64, &str)> {
        match &self.table {
            Table::Operations(_) => None,
            Table::Cycles(table) => {
                let clock = table.clock_mhz.as_ref()?;
                Some((clock.value, clock.source.as_str()))
            }
            Table::Measured(table) => Some((table.tsc_mhz?, table.source())),
        }
    }

    /// Whether it has costs for bytes but none per packet. Then its times are lower bounds, because
    /// every packet costs something.
    pub fn prices_bytes_alone(&self) -> bool {
        matches!(&self.table, Table::Cycles(table) if !table.has_packet_cost())
    }

    /// Cycles of a packet whatever its bytes, and without protection too; 0 if no source gives
    /// them.
    pub fn packet_cycles(&self) -> f64 {
        match &self.table {
            Table::Cycles(table) => table.packet_cycles(),
            Table::Operations(_) | Table::Measured(_) => 0.0,
        }
    }

    /// The suites with costs in both directions and with sizes in its accounting.
    pub fn suites(&self) -> Vec<Suite> {
        let mut all = Suite::all();
        all.retain(|suite| {
            let policy = Policy::of(suite.clone());
            let is_sized = self.accounting().size(&policy).is_ok();
            let both = [Direction::Seal, Direction::Open];
            is_sized && both.iter().all(|way| self.bill(&policy, *way).is_ok())
        });
        all
    }

    /// All its numbers with their sources.
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |name: String, value, source: &str| Entry {
            name,
            value,
            source: source.to_owned(),
        };
        match &self.table {
            Table::Operations(table) => {
                let cells = table.cells().into_iter();
                cells
                    .map(|(name, cell)| entry(name, cell.value, &cell.source))
                    .collect()
            }
            Table::Cycles(table) => {
                let cells = table.cells().into_iter();
                cells
                    .map(|(name, cell)| entry(name, cell.value, &cell.source))
                    .collect()
            }
            Table::Measured(table) => {
                let costs = table.costs();
                costs
                    .map(|(name, ns)| entry(name.to_owned(), ns, table.source()))
                    .collect()
            }
        }
    }

    /// The cost of a packet, in the profile's unit.
    pub(super) fn bill(&self, policy: &Policy, direction: Direction) -> Result<Bill, Gap> {
        match &self.table {
            Table::Operations(table) => table.bill(policy, direction),
            Table::Cycles(table) => table.bill(policy, direction),
            Table::Measured(table) => table.bill(policy, direction),
        }
    }

    /// The cost of a frame of a wireless link, in the profile's unit.
    pub(super) fn frame(&self, cipher: LinkCipher, direction: Direction) -> Result<Bill, Gap> {
        match &self.table {
            Table::Cycles(table) => table.frame(cipher, direction),
            Table::Measured(table) => table.frame(cipher, direction),
            Table::Operations(_) => {
                let act = match direction {
                    Direction::Seal => "protect",
                    Direction::Open => "unprotect",
                };
                Err(Gap(format!("frame.{}.{act}", cipher.name())))
            }
        }
    }

    /// The cost of a record of TLS, in the profile's unit.
    pub(super) fn record(&self, records: &Records, direction: Direction) -> Result<Bill, Gap> {
        match &self.table {
            Table::Operations(_) => Err(Gap(format!("record.{}", records.suite))),
            Table::Cycles(table) => table.record(records, direction),
            Table::Measured(table) => table.record(records, direction),
        }
    }

    /// The cost to put a tunnel's header before a packet or to take it away, in the profile's unit;
    /// nothing if no source gives it.
    pub(super) fn tunnel(&self, name: &str, direction: Direction, header: f64) -> Staircase {
        match &self.table {
            Table::Cycles(table) => table.tunnel(name, direction, header),
            Table::Operations(_) | Table::Measured(_) => Staircase::default(),
        }
    }

    /// The cost of one call of a machine's work, in the profile's unit.
    pub(super) fn work(&self, each: &Each) -> Result<f64, Gap> {
        match &self.table {
            Table::Operations(table) => table.work(each),
            Table::Cycles(table) => table.work(each),
            Table::Measured(table) => table.work(each),
        }
    }

    /// The error for a missing cost, with what the file has.
    pub(super) fn missing(&self, what: &str, cell: Gap) -> Missing {
        Missing {
            inside: self.suites().iter().map(ToString::to_string).collect(),
            ..self.missing_work(what, cell)
        }
    }

    /// The same for a part of a key exchange, where no other suite would help.
    pub(super) fn missing_work(&self, what: &str, cell: Gap) -> Missing {
        Missing {
            profile: self.name.clone(),
            what: what.to_owned(),
            cell: cell.0,
            inside: Vec::new(),
        }
    }
}

/// A cost that a profile lacks. It is never derived from others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{}{}",
    self.brief(),
    if inside.is_empty() { "" } else { "; suites inside are " },
    inside.join(", ")
)]
pub struct Missing {
    /// The profile.
    pub profile: String,
    /// Suite or operation.
    pub what: String,
    /// The cell without a value.
    pub cell: String,
    /// The profile's suites; empty if the missing cost is not a suite's.
    pub inside: Vec<String>,
}

impl Missing {
    /// What has no cost, without the list of what the profile has.
    pub fn brief(&self) -> String {
        let Self {
            profile,
            what,
            cell,
            ..
        } = self;
        format!("{profile} has no cost of {what}: {cell} is empty")
    }
}

/// The kind of a file's tables.
#[derive(Clone, Copy)]
enum Kind {
    Operations,
    Cycles,
    Measured,
}

const KINDS: [(&str, Kind); 3] = [
    ("operations", Kind::Operations),
    ("cycles", Kind::Cycles),
    ("measured", Kind::Measured),
];
