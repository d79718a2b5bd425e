//! The configuration of one `caravan` process: TOML in swanctl's words.
//!
//! [`mod@file`] is the text as written; [`build`] checks it and turns it into what the engine and
//! the rest of the daemon use; `check` checks what types cannot. No other code sees the text.

pub mod agent;
pub mod association;
pub mod build;
mod check;
mod credentials;
pub mod file;
pub mod firewall;
mod include;
mod keys;
mod loaded;
pub mod mobility;
mod parts;
pub mod radius;
mod read;
pub mod skip;
pub mod values;
pub mod wireless;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use document::{Fault, Item, shown};
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::files;

pub use check::own_fault;
pub use credentials::Credentials;
pub use keys::KeyValues;
pub use loaded::{Loaded, PublishedPort};
pub use parts::{
    FirewallSetup, HomeAgentSetup, MobileSetup, Mobility, NodeFirewall, NodeGateway, VisitedLink,
    Wall,
};

/// Octets of a text file at most. A wrong name could lead to an endless file.
const MAX_FILE: u64 = 16 << 20;
/// Octets of a configuration and all files that it names, if one process reads them for another.
const TEXTS_MAX: usize = 12 << 20;

/// Why a configuration cannot be used: which file, which line and key, what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file itself cannot be read.
    #[error("cannot read {}: {fault}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// The system's error.
        fault: std::io::Error,
    },
    /// Not TOML; the text has line and column.
    #[error("{}: {text}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// Place and problem.
        text: String,
    },
    /// An unknown or missing key, or a value that does not make sense.
    #[error("{}: {}{}: {text}", path.display(), at_line(*line), shown(key))]
    Value {
        /// Which file.
        path: PathBuf,
        /// Line of the key, from 1.
        line: Option<usize>,
        /// Dotted key.
        key: String,
        /// The problem, and what to write instead.
        text: String,
    },
    /// Several of these, one per line.
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
    /// All of them as one; `None` if there are none.
    fn of(mut all: Vec<Self>) -> Option<Self> {
        match all.len() {
            0 | 1 => all.pop(),
            _ => Some(Self::Several(all)),
        }
    }

    /// Whether it is about the value of this key.
    fn is_of(&self, wanted: &str) -> bool {
        matches!(self, Self::Value { key, .. } if key == wanted)
    }

    /// The same for a fault of a file's text.
    fn of_fault(path: &Path, fault: Fault) -> Self {
        let (path, line, key) = (path.to_owned(), fault.place.line, fault.place.key);
        match (line.zip(fault.place.column), key.as_str()) {
            (Some((line, column)), "") => Self::Syntax {
                path,
                text: format!("line {line}, column {column}: {}", fault.what),
            },
            (None, "") => Self::Syntax {
                path,
                text: fault.what,
            },
            _ => Self::Value {
                path,
                line,
                key,
                text: fault.what,
            },
        }
    }

    /// Finds the line of its key in the text of the file.
    fn located(mut self, text: &str) -> Self {
        if let Ok(item) = document::parse("", text) {
            self.locate(&item);
        }
        self
    }

    fn locate(&mut self, item: &Item) {
        match self {
            Self::Value { line, key, .. } => *line = item.place_of(key).line,
            Self::Several(all) => all.iter_mut().for_each(|one| one.locate(item)),
            Self::Unreadable { .. } | Self::Syntax { .. } => {}
        }
    }
}

/// How to treat an unresolvable name, and a certificate or list that is not in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// For running: without an address the peer cannot be reached. A clock may be wrong, so an
    /// expired certificate is tried, with a warning.
    Needed,
    /// Before the first attempt: no name is resolved, because that may take long or reveal
    /// something. Otherwise as for running.
    Unasked,
    /// For checking a file, perhaps on another machine: the name is a warning, the certificate an
    /// error.
    Wanted,
}

/// The text of a configuration and of its files, read by a process with the right to do so for one
/// without. It may contain secrets: it has no `Debug`, and is wiped on drop.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
pub struct Texts(BTreeMap<PathBuf, Result<Vec<u8>, String>>);

impl Texts {
    /// Reads all of them. A file that cannot be read is an error only when it is used.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable = |fault| ConfigError::Unreadable {
            path: path.to_owned(),
            fault,
        };
        let text = octets(path).map_err(unreadable)?;
        let mut left = TEXTS_MAX.saturating_sub(text.len());
        let parsed = Zeroizing::new(text_of(text.clone()).map_err(unreadable)?);
        let mut file = file::parse(path, &parsed)?;
        let mut texts = BTreeMap::from([(path.to_owned(), Ok(text))]);
        let folder = path.parent().unwrap_or(Path::new("."));
        let included = match include::folder(path, &file) {
            Some(folder) => include::files(&folder)?,
            None => Vec::new(),
        };
        include::add(path, &mut file, Origin::Files)?;
        let private: Vec<PathBuf> = file.private_files().map(|it| folder.join(it)).collect();
        let named = file.files().map(|name| folder.join(name));
        for name in included.into_iter().chain(named) {
            let read = match private.contains(&name) {
                true => files::read_private(&name, MAX_FILE),
                false => octets(&name),
            };
            let text = match read {
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

    /// The configurations of a folder, by name.
    fn within(&self, folder: &Path) -> Vec<PathBuf> {
        let all = self.0.keys();
        let is_one = |path: &&PathBuf| {
            path.parent() == Some(folder) && path.extension().is_some_and(|end| end == "toml")
        };
        all.filter(is_one).cloned().collect()
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

/// The source of texts: files, or texts that another process has read.
#[derive(Clone, Copy)]
pub enum Origin<'a> {
    /// Files.
    Files,
    /// Texts that another process has read.
    Texts(&'a Texts),
}

impl Origin<'_> {
    fn octets(self, path: &Path) -> io::Result<Vec<u8>> {
        match self {
            Self::Files => octets(path),
            Self::Texts(texts) => texts.get(path),
        }
    }

    /// A file that nobody else may read. Who has read it for us has checked that.
    fn private(self, path: &Path) -> io::Result<Vec<u8>> {
        match self {
            Self::Files => files::read_private(path, MAX_FILE),
            Self::Texts(texts) => texts.get(path),
        }
    }

    fn text(self, path: &Path) -> io::Result<String> {
        text_of(self.octets(path)?)
    }
}

/// The names of all connections, in the order of [`Loaded::on_failure`], and that of a part in
/// Mobile IPv4. Nothing else is checked.
pub fn connection_names(path: &Path) -> Result<Vec<String>, ConfigError> {
    let mut file = file::parse(path, &read(path, Origin::Files)?)?;
    include::add(path, &mut file, Origin::Files)?;
    Ok(file.names())
}

/// The folder that a configuration includes. Nothing else is checked.
pub fn included_folder(path: &Path) -> Result<Option<PathBuf>, ConfigError> {
    let file = file::parse(path, &read(path, Origin::Files)?)?;
    Ok(include::folder(path, &file))
}

/// The text of the configuration itself, which may hold secrets.
fn read(path: &Path, origin: Origin<'_>) -> Result<Zeroizing<String>, ConfigError> {
    let text = origin.text(path).map(Zeroizing::new);
    text.map_err(|fault| ConfigError::Unreadable {
        path: path.to_owned(),
        fault,
    })
}

/// Reads a file of at most [`MAX_FILE`] octets.
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
    let mut file = file::parse(path, &text)?;
    include::add(path, &mut file, origin)?;
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
