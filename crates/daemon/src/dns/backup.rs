//! How the resolvers were before, as the footprint keeps it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Where the C library looks.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// How the resolvers were before.
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
        /// What it said.
        text: String,
    },
    /// Nothing was there.
    Absent {
        /// The file that we wrote.
        path: PathBuf,
    },
    /// systemd-resolved was told.
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

    /// Whether it is of a file of resolvers, or of a device that a configuration could name.
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
