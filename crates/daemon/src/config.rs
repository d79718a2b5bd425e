//! The configuration of one `caravan` process: TOML in swanctl's words.
//!
//! [`mod@file`] is the text as it stands; [`build`] checks it and turns it into what the engine and
//! the rest of the daemon work with. Nothing else ever sees the text.

pub mod build;
pub mod file;
pub mod values;

use std::path::{Path, PathBuf};

pub use build::{Loaded, PublishedPort};

/// Why a configuration cannot be used: which file, which key, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// Not TOML, or an unknown key or wrong type; the text has line and column.
    #[error("{path}: {text}")]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        text: String,
    },
    /// A value that does not make sense.
    #[error("{path}: {key}: {text}")]
    Value {
        /// Which file.
        path: PathBuf,
        /// Dotted key.
        key: String,
        /// What is wrong, and what would be right.
        text: String,
    },
}

/// What a name that cannot be resolved means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// An error: there is nobody to reach.
    Needed,
    /// A warning: the file is looked at where it may not be used.
    Wanted,
}

/// Reads, checks and builds a configuration.
pub fn load(path: &Path, names: Names) -> Result<Loaded, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    let file = file::parse(path, &text)?;
    build::build(path, file, names)
}
