//! What is wrong with a file, and where.

use core::fmt;
use std::sync::Arc;

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name that messages give the file; `--set` for an edit.
    pub file: Arc<str>,
    /// From 1; none for an edit, and for what stands nowhere.
    pub line: Option<usize>,
    /// The key as one would write it for `--set`, such as `node.ms.mips`; empty for the whole file.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        Ok(())
    }
}

/// A file that says something wrong: the place, and one sentence with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Fault {
    /// File, line and key.
    pub place: Place,
    /// What is wrong and what would be right.
    pub what: String,
}

/// The candidate that looks most like `word`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(word, candidate);
    candidates
        .into_iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// "unknown `what` 'word', the nearest valid one is 'near'".
pub fn unknown<'a>(
    what: &str,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    match nearest(word, candidates) {
        Some(near) => format!("unknown {what} '{word}', the nearest valid one is '{near}'"),
        None => format!("unknown {what} '{word}', and there is none to choose from"),
    }
}
