//! The options of a process, after reading its command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::service::Ready;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `caravan gateway`
    Gateway,
    /// `caravan up`
    Station,
    /// `caravan home-agent`
    HomeAgent,
    /// `caravan foreign-agent`
    ForeignAgent,
    /// `caravan firewall`
    Firewall,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 5] = [
        Self::Gateway,
        Self::Station,
        Self::HomeAgent,
        Self::ForeignAgent,
        Self::Firewall,
    ];

    /// Its command.
    pub fn command(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Station => "up",
            Self::HomeAgent => "home-agent",
            Self::ForeignAgent => "foreign-agent",
            Self::Firewall => "firewall",
        }
    }

    /// The role of a command.
    pub fn of_command(command: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.command() == command)
    }
}

/// The options of the main loop.
pub struct RunOptions {
    /// Which command it is.
    pub role: Role,
    /// The configuration's path, absolute.
    pub config: PathBuf,
    /// Folder of sockets and footprints.
    pub runtime_dir: PathBuf,
    /// Folder of last leases.
    pub state_dir: PathBuf,
    /// File to record packets and keys.
    pub capture: Option<PathBuf>,
    /// Whether it is taken down, as by `down`, when its standard input ends: a process that attends
    /// it has started it.
    pub is_attended: bool,
    /// User to change to; it takes precedence over the configuration.
    pub user: Option<String>,
    /// Command line of the steward.
    pub steward: Vec<OsString>,
    /// Receives the message that the process is up.
    pub ready: Ready,
    /// How long it waits for that.
    pub timeout: Duration,
}
