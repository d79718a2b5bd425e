//! Texts of the catalogue: what is wrong with one, with file, line and key.

use document::{position, unknown};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {key}: {why}")]
pub struct Fault {
    /// As the caller named the text.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Key, with its table where that is known.
    pub key: String,
    /// The value, the limit, the nearest valid key.
    pub why: String,
}

/// A number and where it was found.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// In the unit of its table.
    pub value: f64,
    /// File and line, table, or equation.
    pub source: String,
}

/// A text and its name, for messages.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// Reads the TOML; unknown keys are errors that name the nearest valid one.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, Fault> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let (key, why) = explain(error.message());
            let key = key.unwrap_or_else(|| self.key_at(at));
            self.fault(at, key, why)
        })
    }

    /// A fault at this octet of the text.
    pub(super) fn fault(&self, at: usize, key: impl Into<String>, why: impl Into<String>) -> Fault {
        let (line, column) = position(self.text, at);
        Fault {
            file: self.file.to_owned(),
            line,
            column,
            key: key.into(),
            why: why.into(),
        }
    }

    /// A cell whose value is a number above zero, up to [`MOST`], and whose source is named.
    pub(super) fn cell(&self, key: &str, cell: &Spanned<Cell>) -> Result<Cell, Fault> {
        let Cell { value, source } = cell.get_ref();
        let at = cell.span().start;
        if !(value.is_finite() && *value > 0.0 && *value <= MOST) {
            let why = format!("{value} is not above zero and at most {MOST:e}");
            return Err(self.fault(at, key, why));
        }
        if source.trim().is_empty() {
            return Err(self.fault(at, key, "a value needs its source: file and line, or table"));
        }
        Ok(cell.get_ref().clone())
    }

    /// What stands before the `=` of that line.
    fn key_at(&self, at: usize) -> String {
        let (line, _) = position(self.text, at);
        let line = self.text.split('\n').nth(line - 1).unwrap_or_default();
        let key = line.split('=').next().unwrap_or_default();
        key.trim().chars().take(LONGEST_SHOWN).collect()
    }
}

/// More operations, cycles or nanoseconds than any one thing takes.
const MOST: f64 = 1e15;

/// Of serde's message: the key that it names, and the sentence for people.
fn explain(message: &str) -> (Option<String>, String) {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let key = quoted.next().map(str::to_owned);
    if message.starts_with("unknown field") {
        let valid: Vec<&str> = quoted.collect();
        let name = key.clone().unwrap_or_default();
        return (key, unknown("key", &name, valid));
    }
    if message.starts_with("missing field") {
        return (key, "the key is missing".to_owned());
    }
    (None, message.lines().next().unwrap_or_default().to_owned())
}

const LONGEST_SHOWN: usize = 64;
