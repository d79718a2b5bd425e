//! The network process's end of the steward's socket.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tokio::net::UnixStream;

use super::{Counts, REPLY_BYTES_MAX, Reply, Request, Untaken, read_frame, write_frame};
use crate::config::Texts;
use crate::dns::Resolvers;
use crate::routes::watch::Ways;
use crate::routes::{Desired, Prefix};

/// Why the steward did not execute a request.
#[derive(Debug, thiserror::Error)]
pub enum StewardError {
    /// It cannot be started, or its socket fails.
    #[error("the process that changes this host is gone: {0}")]
    Gone(io::Error),
    /// The host refused it.
    #[error("{0}")]
    Failed(String),
    /// The configuration does not allow it.
    #[error("refused by the process that changes this host: {0}")]
    Refused(String),
    /// The reply does not match the request.
    #[error("the process that changes this host sent an answer without a request")]
    Confused,
}

/// A running steward.
pub struct Steward {
    /// Closed at the end.
    socket: Option<UnixStream>,
    child: Child,
}

/// Its first message.
pub struct Begun {
    /// The blocks on this host, by connection.
    pub blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// The restrictions of the steward itself.
    pub limits: Vec<String>,
}

impl Steward {
    /// Starts this program again as the steward with these arguments, and waits until its blocks
    /// are in place. Must run within a tokio runtime, with the rights that the steward needs.
    pub async fn start(arguments: &[OsString]) -> Result<(Self, Begun), StewardError> {
        let (own, other) = StdUnixStream::pair().map_err(StewardError::Gone)?;
        let name = std::env::args_os()
            .next()
            .unwrap_or_else(|| "caravan".into());
        let child = Command::new("/proc/self/exe")
            .arg0(name)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(StewardError::Gone)?;
        own.set_nonblocking(true).map_err(StewardError::Gone)?;
        let socket = UnixStream::from_std(own).map_err(StewardError::Gone)?;
        let mut steward = Self::at(socket, child);
        match steward.reply().await? {
            Reply::Ready { blocks, limits } => Ok((steward, Begun { blocks, limits })),
            other => Err(unexpected(other)),
        }
    }

    /// The steward at the other end of this socket, which is this process.
    pub fn at(socket: UnixStream, child: Child) -> Self {
        let socket = Some(socket);
        Self { socket, child }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reports that the TUN device exists.
    pub async fn device(&mut self, mtu: u16) -> Result<(), StewardError> {
        self.order(&Request::Device { mtu }).await
    }

    /// Changes the largest inner packet.
    pub async fn resize(&mut self, mtu: u16) -> Result<(), StewardError> {
        self.order(&Request::Resize { mtu }).await
    }

    /// Applies routes and resolvers. Returns the resolvers that could not be taken, if so.
    pub async fn apply(
        &mut self,
        desired: Desired,
        resolvers: Resolvers,
    ) -> Result<Option<Untaken>, StewardError> {
        let desired = Box::new(desired);
        match self.ask(&Request::Apply { desired, resolvers }).await? {
            Reply::Done => Ok(None),
            Reply::DoneButResolvers { untaken } => Ok(Some(untaken)),
            other => Err(unexpected(other)),
        }
    }

    /// Our addresses towards these peers, and all from which a program can speak.
    pub async fn ways(
        &mut self,
        peers: Vec<IpAddr>,
        named: Vec<IpAddr>,
    ) -> Result<(Ways, Vec<IpAddr>), StewardError> {
        match self.ask(&Request::Ways { peers, named }).await? {
            Reply::Ways { ways, own } => Ok((ways, own)),
            other => Err(unexpected(other)),
        }
    }

    /// What the steward has counted.
    pub async fn kept_out(&mut self) -> Result<Counts, StewardError> {
        match self.ask(&Request::KeptOut).await? {
            Reply::KeptOut { counts } => Ok(counts),
            other => Err(unexpected(other)),
        }
    }

    /// The current configuration and its files, read with the steward's rights.
    pub async fn read(&mut self) -> Result<Texts, StewardError> {
        match self.ask(&Request::Read).await? {
            Reply::Read { texts } => Ok(texts),
            other => Err(unexpected(other)),
        }
    }

    /// Puts the last read configuration into force.
    pub async fn adopt(&mut self) -> Result<(), StewardError> {
        self.order(&Request::Adopt).await
    }

    /// Returns when the steward is gone. It sends nothing without a request, so any message counts
    /// as its end. Nothing is lost when this future is dropped.
    pub async fn gone(&self) {
        let Some(socket) = &self.socket else {
            return;
        };
        loop {
            let is_quiet = socket.readable().await.is_ok()
                && socket
                    .try_read(&mut [0])
                    .is_err_and(|fault| fault.kind() == io::ErrorKind::WouldBlock);
            if !is_quiet {
                return;
            }
        }
    }

    /// Undoes everything. Returns when the steward has ended.
    pub async fn end(mut self, lifts: bool) -> Result<(), StewardError> {
        self.order(&Request::End { lifts }).await
    }

    async fn order(&mut self, request: &Request) -> Result<(), StewardError> {
        match self.ask(request).await? {
            Reply::Done => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    async fn ask(&mut self, request: &Request) -> Result<Reply, StewardError> {
        let written = match &mut self.socket {
            Some(socket) => write_frame(socket, request).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        written.map_err(StewardError::Gone)?;
        self.reply().await
    }

    async fn reply(&mut self) -> Result<Reply, StewardError> {
        let read = match &mut self.socket {
            Some(socket) => read_frame(socket, REPLY_BYTES_MAX).await,
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        let frame = read.map_err(StewardError::Gone)?;
        let Some(frame) = frame else {
            let text = "it ended, and its last line says why";
            return Err(StewardError::Gone(io::Error::other(text)));
        };
        serde_json::from_slice(&frame).map_err(|_| StewardError::Confused)
    }
}

impl Drop for Steward {
    /// The steward undoes everything before this process ends, so that the next one finds a host
    /// that nobody is changing.
    fn drop(&mut self) {
        self.socket.take();
        let _ = self.child.wait();
    }
}

fn unexpected(reply: Reply) -> StewardError {
    match reply {
        Reply::Failed { text } => StewardError::Failed(text),
        Reply::Refused { text } => StewardError::Refused(text),
        _ => StewardError::Confused,
    }
}
