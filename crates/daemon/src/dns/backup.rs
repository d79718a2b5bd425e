//! The former state of the resolvers, as the footprint stores it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file that the C library reads.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The former state of the resolvers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "was")]
pub enum Backup {
    /// A link to another file.
    Link {
        /// The file that we wrote.
        path: PathBuf,
        /// The other file.
        target: PathBuf,
    },
    /// A file.
    File {
        /// The file that we wrote.
        path: PathBuf,
        /// Its content.
        text: String,
    },
    /// The file did not exist.
    Absent {
        /// The file that we wrote.
        path: PathBuf,
    },
    /// systemd-resolved was configured.
    Resolved {
        /// The device.
        tun: String,
    },
}

impl Backup {
    pub(super) fn is_of(&self, file: &Path) -> bool {
        match self {
            Self::Link { path, .. } | Self::File { path, .. } | Self::Absent { path } => {
                path == file
            }
            Self::Resolved { .. } => false,
        }
    }

    /// Whether it names a resolver file, or a device that a configuration could name.
    pub fn is_plain(&self) -> bool {
        match self {
            Self::Link { path, .. } | Self::File { path, .. } | Self::Absent { path } => {
                path.is_absolute() && path.file_name() == Path::new(RESOLV_CONF).file_name()
            }
            Self::Resolved { tun } => {
                tun.starts_with(|c: char| c.is_ascii_alphanumeric())
                    && tun
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
            }
        }
    }
}
