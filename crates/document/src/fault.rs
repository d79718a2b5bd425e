//! What is wrong with a file, and where.

use core::fmt;
use std::sync::Arc;

use super::words::shown;

/// The name that messages give to an edit from outside.
pub const EDIT: &str = "--set";

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name that messages give the file; `--set` for an edit.
    pub file: Arc<str>,
    /// From 1. None for an edit, and for an error without a place.
    pub line: Option<usize>,
    /// From 1, in characters. None if only the line is known.
    pub column: Option<usize>,
    /// The key as one would write it for `--set`, such as `node.ms.mips`; empty for the whole file.
    pub key: String,
}

impl Place {
    /// The place of an edit of `key`.
    pub fn edit(key: &str) -> Self {
        Self {
            file: EDIT.into(),
            line: None,
            column: None,
            key: key.to_owned(),
        }
    }

    /// Whether an edit put the value there.
    pub fn is_edit(&self) -> bool {
        &*self.file == EDIT
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        match (self.key.as_str(), self.is_edit()) {
            ("", _) => Ok(()),
            (key, true) => write!(f, " {}", shown(key)),
            (key, false) => write!(f, ": {}", shown(key)),
        }
    }
}

/// An error in a file: the place, and one sentence with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// File, line and key.
    pub place: Place,
    /// What is wrong and what would be right.
    pub what: String,
}
