//! What is wrong with a file, and where.

use core::fmt;
use std::sync::Arc;

/// How messages name an edit from outside.
pub(super) const EDIT: &str = "--set";
/// Below this likeness (Jaro and Winkler's) a word is no slip of another one.
const LIKENESS: f64 = 0.75;
const LONGEST_COMPARED: usize = 64;

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

impl Place {
    /// The place of an edit of `key`.
    pub(super) fn edit(key: &str) -> Self {
        Self {
            file: EDIT.into(),
            line: None,
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
        match (self.key.as_str(), self.is_edit()) {
            ("", _) => Ok(()),
            (key, true) => write!(f, " {key}"),
            (key, false) => write!(f, ": {key}"),
        }
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

/// The candidate that `word` is a slip of, or a part of; none where no one looks like it.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Likeness costs time by both lengths; the rest of a long word changes nothing.
    let word: String = word.chars().take(LONGEST_COMPARED).collect();
    let likeness = |candidate: &str| strsim::jaro_winkler(&word, candidate);
    let is_near = |candidate: &&str| {
        let shorter = word.len().min(candidate.len());
        let is_part = candidate.contains(&word) || word.contains(*candidate);
        let is_slip = shorter > 1 && strsim::damerau_levenshtein(&word, candidate) == 1;
        likeness(candidate) >= LIKENESS || is_slip || shorter > 2 && is_part
    };
    let near = candidates.into_iter().filter(is_near);
    near.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
}

/// "unknown `what` 'word', the nearest valid one is 'near'", or all that would do.
pub fn unknown<'a>(
    what: &str,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> String {
    let valid: Vec<&str> = candidates.into_iter().collect();
    match nearest(word, valid.iter().copied()) {
        Some(near) => format!("unknown {what} '{word}', the nearest valid one is '{near}'"),
        None if valid.is_empty() => {
            format!("unknown {what} '{word}', and there is none to choose from")
        }
        None => format!(
            "unknown {what} '{word}', valid are '{}'",
            valid.join("', '")
        ),
    }
}
