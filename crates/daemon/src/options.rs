//! What a process is started with, once its command line is read.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::service::Ready;

/// Which end a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `caravan gateway`
    Gateway,
    /// `caravan up`
    Station,
}

/// What the main loop is started with.
pub struct RunOptions {
    /// Which end.
    pub role: Role,
    /// The configuration's path, absolute.
    pub config: PathBuf,
    /// Where sockets and footprints go.
    pub runtime_dir: PathBuf,
    /// Where last leases are kept.
    pub state_dir: PathBuf,
    /// Where packets and keys are recorded.
    pub capture: Option<PathBuf>,
    /// User to become, before the configuration's.
    pub user: Option<String>,
    /// Command line of the steward.
    pub steward: Vec<OsString>,
    /// Who waits for the news that it is up.
    pub ready: Ready,
    /// How long it waits for that.
    pub timeout: Duration,
}
