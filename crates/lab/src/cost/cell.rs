//! A number of a cost table, and its source.

use std::collections::BTreeMap;

use document::{Fault, Item, Table};

/// A number and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// In the unit of its table.
    pub value: f64,
    /// File and line, table, or equation.
    pub source: String,
}

/// More operations, cycles or nanoseconds than anything takes.
const MOST: f64 = 1e15;

impl Cell {
    /// A value above zero, and its source.
    pub(super) fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let value = table.need("value")?.positive(MOST)?;
        let source = table.need("source")?.text()?.to_owned();
        table.finish()?;
        Ok(Self { value, source })
    }

    /// The cell of a key that may be absent.
    pub(super) fn find(table: &Table<'_>, key: &'static str) -> Result<Option<Self>, Fault> {
        table.find(key).map(Self::read).transpose()
    }

    /// A table whose keys are names; no entries if it is absent.
    pub(super) fn named<T>(
        table: &Table<'_>,
        key: &'static str,
        read: impl Fn(&str, &Item) -> Result<T, Fault>,
    ) -> Result<BTreeMap<String, T>, Fault> {
        let Some(item) = table.find(key) else {
            return Ok(BTreeMap::new());
        };
        let members = item.members()?.iter();
        let read = members.map(|(name, item)| Ok((name.clone(), read(name, item)?)));
        read.collect()
    }
}
