//! The control socket: how `caravan status`, `down`, `reload` and `rekey` reach a running process.
//!
//! Each connection has a socket `NAME.sock` (mode 0600) in the runtime directory; those of one
//! process are one file ([`sockets`]). One line of JSON asks, one line answers. [`server`] is the
//! running process's end, [`client`] the command's.

pub mod client;
pub mod server;
pub mod sockets;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::status::StatusReport;

/// Longest question: an identity of 1,024 octets, each of them escaped.
pub const REQUEST_BYTES_MAX: usize = 16 << 10;
/// Longest answer: the status of a gateway with 100,000 tunnels.
pub const REPLY_BYTES_MAX: usize = 512 << 20;
/// Longest name of a connection, so that the path of its socket fits into an address.
pub const NAME_BYTES_MAX: usize = 64;

/// What is asked of a running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Answered with [`Reply::Status`].
    Status,
    /// Take a connection down for good: deletes are sent, blocking routes lifted. A process
    /// without any other connection ends.
    Down {
        /// Its key in the configuration.
        connection: String,
    },
    /// End the tunnels of one peer of a gateway's connection: deletes are sent. It may come back.
    End {
        /// The connection's key in the configuration.
        connection: String,
        /// The peer's identity, as [`Reply::Status`] shows it.
        peer: String,
    },
    /// Read the configuration and the revocation lists again; tunnels stay, but for those of peers
    /// whom a list names.
    Reload,
    /// Renew keys.
    Rekey {
        /// Its key in the configuration.
        connection: String,
        /// Those of phase 1; else those of the children.
        ike: bool,
    },
    /// End the process as a signal does: deletes are sent, blocking routes stay.
    Stop,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// It is done, or has begun; what there is to say.
    Done {
        /// One sentence, perhaps empty.
        text: String,
    },
    /// It has begun, and the process ends with it: the asker may wait for its end.
    Ending {
        /// One sentence.
        text: String,
    },
    /// It cannot be done.
    Failed {
        /// Why.
        text: String,
    },
    /// What there is.
    Status {
        /// The whole process.
        report: Box<StatusReport>,
    },
}

/// Why a control socket does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Two processes want one name.
    #[error(
        "a connection named {name:?} is already running (socket {path}); \
         `caravan down {name}` ends it"
    )]
    AlreadyRuns {
        /// The connection.
        name: String,
        /// Its socket.
        path: PathBuf,
    },
    /// Nobody answers to that name.
    #[error("no connection named {name:?} is running; {running}")]
    NotRunning {
        /// The connection.
        name: String,
        /// Those that are.
        running: String,
    },
    /// A name that cannot be a file's.
    #[error(
        "{0:?} cannot be a connection's name: use letters, digits, '-', '_' and '.', \
         {NAME_BYTES_MAX} at most, and no '.' in front"
    )]
    Name(String),
    /// The file system or the socket refuses.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// The process is about to end, or has ended meanwhile.
    #[error("the process at {0} is ending")]
    Ending(PathBuf),
    /// The process answers something else, or the program here is of another version.
    #[error("{path} sent an invalid reply: {text}")]
    Reply {
        /// The socket.
        path: PathBuf,
        /// Why not.
        text: String,
    },
}

impl ControlError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// What a process answers that has no time left to look at the question.
const LAST_WORD: &str = "the process is ending";

/// Refuses names that would leave the runtime directory or hide in it.
pub fn check_name(name: &str) -> Result<(), ControlError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_good = (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name.chars().all(is_plain);
    match is_good {
        true => Ok(()),
        false => Err(ControlError::Name(name.to_owned())),
    }
}

/// The socket of a connection.
pub fn socket_path(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(format!("{name}.sock"))
}

#[cfg(test)]
mod tests;
