//! The control socket: how `caravan status`, `down`, `reload` and `rekey` reach a running process.
//!
//! Each connection has a socket `NAME.sock` (mode 0600) in the runtime directory; those of one
//! process are the same file ([`sockets`]). A request is one line of JSON, and so is the reply.
//! [`server`] is the running process's end, [`client`] the command's.

pub mod client;
pub mod server;
pub mod sockets;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use engine::identity::Identity;
use serde::{Deserialize, Serialize};

use crate::status::StatusReport;

/// Longest request: the longest identity as text, all of it escaped.
pub const REQUEST_BYTES_MAX: usize = 2 * engine::identity::MAX_TEXT_LEN + 1024;
/// Longest reply: the status of a gateway with 100,000 tunnels.
pub const REPLY_BYTES_MAX: usize = 512 << 20;
/// Longest name of a connection, so that the path of its socket fits into an address.
pub const NAME_BYTES_MAX: usize = 64;

/// A request to a running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The reply is [`Reply::Status`].
    Status,
    /// Take a connection down for good: send deletes, remove blocking routes. A process without any
    /// other connection ends.
    Down {
        /// Its key in the configuration.
        connection: String,
    },
    /// End the tunnels of one peer of a gateway's connection and send deletes. It may reconnect.
    End {
        /// The connection's key in the configuration.
        connection: String,
        /// The peer's identity, as the text that [`Reply::Status`] shows.
        #[serde(with = "identity")]
        peer: Identity,
    },
    /// Let a client that has used IKEv2 use IKEv1 again.
    Forget {
        /// The connection's key in the configuration.
        connection: String,
        /// The peer's identity, as the text that [`Reply::Status`] shows.
        #[serde(with = "identity")]
        peer: Identity,
    },
    /// Send peers that can go elsewhere to another gateway.
    Drain {
        /// A connection of the process.
        connection: String,
        /// Address or name of the other gateway; none: serve peers again.
        to: Option<String>,
        /// What its name means to whoever asks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leads_to: Vec<IpAddr>,
    },
    /// Read the configuration and the revocation lists again. Tunnels stay, except those of revoked
    /// peers.
    Reload,
    /// Renew keys.
    Rekey {
        /// Its key in the configuration.
        connection: String,
        /// Those of phase 1; otherwise those of the children.
        ike: bool,
    },
    /// End the process as a signal does: send deletes, keep blocking routes.
    Stop,
}

/// An identity as text, in a request.
mod identity {
    use engine::identity::Identity;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(it: &Identity, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(it)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Identity, D::Error> {
        let text = String::deserialize(from)?;
        Identity::parse(&text).map_err(D::Error::custom)
    }
}

/// The reply to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// It is done, or has begun.
    Done {
        /// One sentence, may be empty.
        text: String,
    },
    /// It has begun, and the process ends with it. The command may wait for that.
    Ending {
        /// One sentence.
        text: String,
    },
    /// The process ends before it reads the request.
    Ended,
    /// It cannot be done.
    Failed {
        /// Why.
        text: String,
    },
    /// The status.
    Status {
        /// The whole process.
        report: Box<StatusReport>,
    },
}

/// Why a control socket does not work.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Two processes want the same name.
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
    /// No process has that name.
    #[error("no connection named {name:?} is running; {running}")]
    NotRunning {
        /// The connection.
        name: String,
        /// The names of running connections.
        running: String,
    },
    /// A name that cannot be a file name.
    #[error(
        "{0:?} cannot be a connection's name: use letters, digits, '-', '_' and '.', \
         {NAME_BYTES_MAX} at most, and no '.' in front"
    )]
    Name(String),
    /// The file system or the socket refused.
    #[error("{what} {path}: {source}")]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The process is about to end, or has just ended.
    #[error("the process at {0} is ending")]
    Ending(PathBuf),
    /// The reply is not understood. The other program may have another version.
    #[error("{path} sent an invalid reply: {text}")]
    Reply {
        /// The socket.
        path: PathBuf,
        /// The reason.
        text: String,
    },
}

impl ControlError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// Refuses names that would leave the runtime directory or be hidden in it.
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
