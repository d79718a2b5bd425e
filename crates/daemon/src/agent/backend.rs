//! Back-ends of tunnel agents: each builds one end of a tunnel by an implementation of IPsec that
//! is there, tells how it is, and takes it down again.
//!
//! [`gateway`], [`client`] and [`rootless`] are Caravan itself, [`strongswan`] a running charon by
//! vici, [`libreswan`] a running pluto by its commands, [`foreign`] writes texts for a system that
//! somebody else configures. What is built has one name everywhere, [`description::name_of`], so it
//! can be found and taken down by an agent that knows nothing else. [`lines`] drives all of it
//! without an agent.

pub mod attendant;
pub mod client;
mod folder;
pub mod foreign;
pub mod gateway;
pub mod libreswan;
pub mod lines;
pub(super) mod orders;
pub mod rootless;
pub mod strongswan;
mod vici;

use std::io;
use std::path::{Path, PathBuf};

use engine::agent::TunnelId;
use engine::agent::description::{self, Description};
use engine::agent::ike::IkeAbilities;
use engine::agent::objectives::{Options, SecurityOption};
use engine::agent::target::Seen;
use engine::agent::writers::{Kind, WriteFault};

use crate::control::ControlError;

/// A back-end.
pub enum Backend {
    /// Target: a running `caravan gateway`.
    Gateway(gateway::Gateway),
    /// Client: a `caravan up` of its own for each tunnel.
    Client(client::Client),
    /// Client: a SOCKS server in this process.
    Rootless(rootless::Rootless),
    /// A running charon.
    StrongSwan(strongswan::StrongSwan),
    /// A running pluto.
    Libreswan(libreswan::Libreswan),
    /// Texts in a folder.
    Files(foreign::Files),
}

/// How an end is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is nothing of it.
    Absent,
    /// It is there, and IKE has made no tunnel, or none again.
    Waiting,
    /// IKE has made the tunnel.
    Up,
    /// It is there and needs no IKE of ours, so nobody can see whether its peer uses it.
    Open,
    /// The tunnel was there, or could not be made, for this reason. It will not come back.
    Down(String),
}

/// Why a back-end has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// It cannot do the option.
    #[error("{backend} cannot do {option}: {why}")]
    Option {
        /// The back-end.
        backend: &'static str,
        /// The option.
        option: SecurityOption,
        /// Why.
        why: &'static str,
    },
    /// The implementation cannot do what the description says.
    #[error(transparent)]
    Write(#[from] WriteFault),
    /// A file.
    #[error("{what} {}: {source}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The running process of Caravan does not answer.
    #[error("the running gateway: {0}")]
    Control(#[from] ControlError),
    /// A process of ours does not start or does not answer.
    #[error("{what}: {source}")]
    Process {
        /// Which one.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The implementation refused, in its own words.
    #[error("{what} refused: {text}")]
    Refused {
        /// What was asked.
        what: String,
        /// Its words.
        text: String,
    },
}

impl BackendError {
    fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}

impl Backend {
    /// What it can do. It is asked before a key is spent.
    pub fn options(&self) -> Options {
        match self {
            Self::Gateway(_) | Self::Client(_) => Options::ALL,
            Self::Rootless(_) => rootless::Rootless::options(),
            Self::StrongSwan(it) => it.options(),
            Self::Libreswan(_) => Kind::Libreswan.options(),
            Self::Files(it) => it.options(),
        }
    }

    /// What it can do in IKE.
    pub fn ike(&self) -> IkeAbilities {
        let kind = match self {
            Self::Gateway(_) | Self::Client(_) | Self::Rootless(_) => Kind::Caravan,
            Self::StrongSwan(_) => Kind::StrongSwan,
            Self::Libreswan(_) => Kind::Libreswan,
            Self::Files(it) => it.kind(),
        };
        kind.ike()
    }

    /// Tries what this machine must be able to do for Client's end. It is asked before Host is, so
    /// what is wrong here spends no key.
    pub fn try_out(&mut self) -> Result<(), BackendError> {
        match self {
            Self::Client(it) => it.try_out(),
            Self::Rootless(it) => it.try_out(),
            Self::Libreswan(it) => it.try_out(),
            Self::Files(it) => it.try_out(),
            // Opening it has asked charon already.
            Self::StrongSwan(_) | Self::Gateway(_) => Ok(()),
        }
    }

    /// Whether it could build Target's end now. It is asked before Host hears an offer, so what is
    /// wrong here spends no key.
    pub async fn can_build(&self) -> Result<(), BackendError> {
        match self {
            Self::Gateway(it) => it.can_build().await,
            Self::StrongSwan(it) => it.can_build().await,
            Self::Libreswan(it) => it.can_build().await,
            Self::Files(it) => it.try_out(),
            // Client's: tried out once.
            Self::Client(_) | Self::Rootless(_) => Ok(()),
        }
    }

    /// Builds this end; at Client, IKE begins. Returns before IKE has made the tunnel, which
    /// [`Self::state`] tells. On an error nothing of it is left.
    pub async fn build(&mut self, description: &Description) -> Result<(), BackendError> {
        match self {
            Self::Gateway(it) => it.build(description).await,
            Self::Client(it) => it.build(description).await,
            Self::Rootless(it) => it.build(description),
            Self::StrongSwan(it) => it.build(description).await,
            Self::Libreswan(it) => it.build(description).await,
            Self::Files(it) => it.build(description),
        }
    }

    /// Takes an end down, whatever is there of it. It succeeds if there is nothing.
    pub async fn destroy(&mut self, tunnel: TunnelId) -> Result<(), BackendError> {
        match self {
            Self::Gateway(it) => it.destroy(tunnel).await,
            Self::Client(it) => it.destroy(tunnel).await,
            Self::Rootless(it) => it.destroy(tunnel).await,
            Self::StrongSwan(it) => it.destroy(tunnel).await,
            Self::Libreswan(it) => it.destroy(tunnel).await,
            Self::Files(it) => it.destroy(tunnel),
        }
    }

    /// How an end is.
    pub async fn state(&mut self, tunnel: TunnelId) -> Result<State, BackendError> {
        match self {
            Self::Gateway(it) => it.state(tunnel).await,
            Self::Client(it) => it.state(tunnel).await,
            Self::Rootless(it) => Ok(it.state(tunnel)),
            Self::StrongSwan(it) => it.state(tunnel).await,
            Self::Libreswan(it) => it.state(tunnel).await,
            Self::Files(it) => Ok(it.state(tunnel)),
        }
    }

    /// What it knows of the peer of an end that is up.
    pub async fn seen(&mut self, tunnel: TunnelId) -> Seen {
        match self {
            Self::Gateway(it) => it.seen(tunnel).await,
            Self::StrongSwan(it) => it.seen(tunnel).await,
            Self::Client(it) => it.seen(tunnel),
            Self::Rootless(it) => it.seen(tunnel),
            Self::Libreswan(it) => it.seen(tunnel),
            Self::Files(_) => Seen::default(),
        }
    }

    /// Why an end that was up is not, if that is known.
    pub fn last_end(&self, tunnel: TunnelId) -> Option<String> {
        match self {
            Self::Client(it) => it.last_end(tunnel),
            Self::Rootless(it) => it.last_end(tunnel),
            Self::Gateway(_) | Self::StrongSwan(_) | Self::Libreswan(_) | Self::Files(_) => None,
        }
    }

    /// At the agent's end: what lives in this process ends. Ends at Target stay.
    pub async fn close(self) {
        match self {
            Self::Client(it) => it.close().await,
            Self::Rootless(it) => it.close().await,
            Self::StrongSwan(it) => it.close().await,
            Self::Gateway(_) | Self::Libreswan(_) | Self::Files(_) => {}
        }
    }
}

/// The folders of Client's tunnels in this one.
pub(super) fn folders(folder: &Path) -> Vec<PathBuf> {
    folder::tunnels(folder)
}

/// The name of a tunnel's parts.
fn name_of(tunnel: TunnelId) -> String {
    description::name_of(tunnel)
}
