//! The configuration of one `caravan` process: TOML in swanctl's words.
//!
//! [`mod@file`] is the text as it stands; [`build`] checks it and turns it into what the engine and
//! the rest of the daemon work with; `check` knows what types cannot say. Nothing else ever sees
//! the text.

pub mod build;
mod check;
mod credentials;
mod encap;
mod explain;
pub mod file;
mod keys;
mod loaded;
mod place;
pub mod values;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

pub use check::own_fault;
pub use credentials::Credentials;
pub use keys::Keys;
pub use loaded::{Loaded, PublishedPort};

/// Octets of a file of text: what a wrong name may lead to has no end.
const MAX_FILE: u64 = 16 << 20;
/// Octets of a configuration and of all that it names, where one process reads them for another.
const TEXTS_MAX: usize = 12 << 20;

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

/// The text of a configuration and of the files that it names, read by a process that may for one
/// that may not. Secrets among them: it has no `Debug`, and is wiped on drop.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts(BTreeMap<PathBuf, Result<Vec<u8>, String>>);

impl Texts {
    /// All of them; what cannot be read is told by whoever wants it.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |fault| ConfigError::Unreadable {
            path: path.to_owned(),
            fault,
        };
        let text = octets(path).map_err(unreadable)?;
        let mut left = TEXTS_MAX.saturating_sub(text.len());
        let parsed = Zeroizing::new(text_of(text.clone()).map_err(unreadable)?);
        let file = file::parse(path, &parsed)?;
        let mut texts = BTreeMap::from([(path.to_owned(), Ok(text))]);
        let folder = path.parent().unwrap_or(Path::new("."));
        for name in file.files().map(|name| folder.join(name)) {
            let text = match octets(&name) {
                Ok(mut text) if text.len() > left => {
                    text.zeroize();
                    let most = TEXTS_MAX >> 20;
                    Err(format!("all files together are longer than {most} MiB"))
                }
                Ok(text) => {
                    left -= text.len();
                    Ok(text)
                }
                Err(fault) => Err(fault.to_string()),
            };
            texts.insert(name, text);
        }
        Ok(Self(texts))
    }

    fn get(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.0.get(path) {
            Some(Ok(text)) => Ok(text.clone()),
            Some(Err(fault)) => Err(io::Error::other(fault.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Drop for Texts {
    fn drop(&mut self) {
        self.0.values_mut().flatten().for_each(Zeroize::zeroize);
    }
}

/// Where texts come from: files, or what another process has read.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// Files.
    Files,
    /// What another process has read.
    Texts(&'a Texts),
}

impl Origin<'_> {
    fn octets(self, path: &Path) -> io::Result<Vec<u8>> {
        match self {
            Self::Files => octets(path),
            Self::Texts(texts) => texts.get(path),
        }
    }

    fn text(self, path: &Path) -> io::Result<String> {
        text_of(self.octets(path)?)
    }
}

/// The connections that a configuration names, in the order of [`Loaded::on_failure`]; nothing
/// else of it is looked at.
pub fn connection_names(path: &Path) -> Result<Vec<String>, ConfigError> {
    let file = file::parse(path, &read(path, Origin::Files)?)?;
    Ok(file.connections.into_keys().collect())
}

/// The text of the configuration itself, which may hold secrets.
fn read(path: &Path, origin: Origin<'_>) -> Result<Zeroizing<String>, ConfigError> {
    let text = origin.text(path).map(Zeroizing::new);
    text.map_err(|fault| ConfigError::Unreadable {
        path: path.to_owned(),
        fault,
    })
}

/// A file of [`MAX_FILE`] octets at most.
fn octets(path: &Path) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    File::open(path)?
        .take(MAX_FILE + 1)
        .read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_FILE {
        octets.zeroize();
        let text = format!("it is longer than {} MiB", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(octets)
}

fn text_of(octets: Vec<u8>) -> io::Result<String> {
    String::from_utf8(octets).map_err(|fault| {
        fault.into_bytes().zeroize();
        let text = "it is not text, as PEM and TOML are (`openssl x509 -inform der` and `openssl \
                    rsa -inform der` make PEM)";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Reads, checks and builds a configuration.
pub fn load(path: &Path, names: Names) -> Result<Loaded, ConfigError> {
    load_by(path, names, Origin::Files)
}

/// The same from texts that another process has read.
pub fn load_from(path: &Path, names: Names, texts: &Texts) -> Result<Loaded, ConfigError> {
    load_by(path, names, Origin::Texts(texts))
}

fn load_by(path: &Path, names: Names, origin: Origin<'_>) -> Result<Loaded, ConfigError> {
    let text = read(path, origin)?;
    let file = file::parse(path, &text)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let credentials = file.connections.iter();
    let credentials = credentials
        .map(|(name, table)| (name.clone(), Credentials::of(table, folder, origin)))
        .collect();
    let mut loaded =
        build::build(path, file, (names, origin)).map_err(|fault| fault.located(&text))?;
    loaded.credentials = credentials;
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
