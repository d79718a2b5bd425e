//! The configuration of one `caravan` process: TOML in swanctl's words.
//!
//! [`mod@file`] is the text as it stands; [`build`] checks it and turns it into what the engine and
//! the rest of the daemon work with; `check` knows what types cannot say. Nothing else ever sees
//! the text.

pub mod build;
mod check;
mod explain;
pub mod file;
mod place;
pub mod values;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use zeroize::Zeroize;

pub use build::{Loaded, PublishedPort};

/// Octets of a file of text: what a wrong name may lead to has no end.
const MAX_FILE: u64 = 16 << 20;

/// Why a configuration cannot be used: which file, which line and key, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file itself cannot be read.
    #[error("cannot read {}: {fault}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's word.
        fault: std::io::Error,
    },
    /// Not TOML, or an unknown key or wrong type; the text has line and column.
    #[error("{}: {text}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Where and what.
        text: String,
    },
    /// A value that does not make sense.
    #[error("{}: {}{key}: {text}", path.display(), at_line(*line))]
    Value {
        /// Which file.
        path: PathBuf,
        /// Where the key stands, from 1.
        line: Option<usize>,
        /// Dotted key.
        key: String,
        /// What is wrong, and what would be right.
        text: String,
    },
    /// Several of these, a line each.
    #[error("{}", lines(.0))]
    Several(Vec<ConfigError>),
}

fn at_line(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!("line {line}: "))
}

fn lines(all: &[ConfigError]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join("\n")
}

impl ConfigError {
    /// All of them as one; `None` where there is none.
    fn of(mut all: Vec<Self>) -> Option<Self> {
        match all.len() {
            0 | 1 => all.pop(),
            _ => Some(Self::Several(all)),
        }
    }

    /// Looks up where its key stands in the text of the file.
    fn located(mut self, text: &str) -> Self {
        match &mut self {
            Self::Value { line, key, .. } => *line = place::line_of(text, key),
            Self::Several(all) => {
                let found = core::mem::take(all).into_iter();
                *all = found.map(|one| one.located(text)).collect();
            }
            Self::Unreadable { .. } | Self::Syntax { .. } => {}
        }
        self
    }
}

/// What a name that cannot be resolved means, or a certificate or list that is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// For use: without an address there is nobody to reach; a clock may be wrong, so a certificate
    /// that seems expired is tried, with a warning.
    Needed,
    /// Before the first attempt: no name is asked for, which may take long, and nothing is sent to
    /// who has one. Else as for use.
    Unasked,
    /// For a look at the file, maybe on another machine: the name is a warning, the certificate an
    /// error.
    Wanted,
}

/// The connections that a configuration names, in the order of [`Loaded::on_failure`]; nothing
/// else of it is looked at.
pub fn connection_names(path: &Path) -> Result<Vec<String>, ConfigError> {
    let file = file::parse(path, &read(path)?)?;
    Ok(file.connections.into_keys().collect())
}

fn read(path: &Path) -> Result<String, ConfigError> {
    bounded(path).map_err(|fault| ConfigError::Unreadable {
        path: path.to_owned(),
        fault,
    })
}

/// A file of text, of [`MAX_FILE`] octets at most.
fn bounded(path: &Path) -> io::Result<String> {
    let mut octets = Vec::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_FILE {
        let text = format!("it is longer than {} MiB", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    String::from_utf8(octets).map_err(|fault| {
        fault.into_bytes().zeroize();
        let text = "it is not text, as PEM and TOML are (`openssl x509 -inform der` and `openssl \
                    rsa -inform der` make PEM)";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Reads, checks and builds a configuration.
pub fn load(path: &Path, names: Names) -> Result<Loaded, ConfigError> {
    let text = read(path)?;
    let file = file::parse(path, &text)?;
    let mut loaded = build::build(path, file, names).map_err(|fault| fault.located(&text))?;
    let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) else {
        return Ok(loaded);
    };
    let mut faults = Vec::new();
    for found in check::credentials(&loaded, since.as_secs() as i64) {
        let text = found.text;
        if found.is_fault && names == Names::Wanted {
            faults.push(ConfigError::Value {
                path: path.to_owned(),
                line: None,
                key: format!("connections.{}.{}", found.connection, found.key),
                text,
            });
        } else {
            let said = format!("{}: {text}", found.key);
            loaded.warnings.push((found.connection, said));
        }
    }
    match ConfigError::of(faults) {
        Some(fault) => Err(fault.located(&text)),
        None => Ok(loaded),
    }
}
