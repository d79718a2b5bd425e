//! Target's end in a running `caravan gateway`: its configuration includes a folder, into which the
//! agent writes a file for each tunnel, and which it reads again on request.
//!
//! A tunnel's file names its peer by the certificate of minutes alone. The gateway needs another
//! connection of its own, so that it runs and answers while there is no tunnel. That one's name
//! is that of the process, and of all that it leaves on its host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use engine::agent::TunnelId;
use engine::agent::description::Description;
use engine::agent::target::Seen;
use engine::agent::writers::{Kind, write_in};

use super::{BackendError, State, name_of, orders};
use crate::config;
use crate::control::client::{ask, find};
use crate::control::{ControlError, Reply, Request};
use crate::status::{ConnectionState, ConnectionStatus, SessionStatus};

/// How long its answer serves.
const KNOWN_FOR: Duration = Duration::from_millis(100);

/// A running gateway.
pub struct Gateway {
    /// Where it has its control sockets.
    runtime_dir: PathBuf,
    /// Its own connection.
    connection: String,
    /// The folder that its configuration includes.
    folder: PathBuf,
    /// Tunnels that were said to be up.
    seen: BTreeSet<TunnelId>,
    /// Its connections, and when it told them. A look at many tunnels asks once.
    known: Option<(Instant, Vec<ConnectionStatus>)>,
}

impl Gateway {
    /// The gateway that has this connection of its own and includes this folder.
    pub fn new(runtime_dir: PathBuf, connection: String, folder: PathBuf) -> Self {
        Self {
            runtime_dir,
            connection,
            folder,
            seen: BTreeSet::new(),
            known: None,
        }
    }

    /// Whether it runs and reads the folder.
    pub(super) async fn can_build(&self) -> Result<(), BackendError> {
        orders::check_folder(&self.folder)?;
        let report = match self.ask(Request::Status).await? {
            Reply::Status { report } => report,
            reply => return Err(unexpected("its status", reply)),
        };
        let file = Path::new(&report.process.config);
        // It may be a file that we cannot read.
        let Ok(included) = config::included_folder(file) else {
            return Ok(());
        };
        let real = |path: &Path| path.canonicalize().ok();
        match included.and_then(|it| real(&it)) == real(&self.folder) {
            true => Ok(()),
            false => Err(BackendError::Refused {
                what: format!("the gateway of {}", file.display()),
                text: format!("it does not include the folder {}", self.folder.display()),
            }),
        }
    }

    pub(super) async fn build(&mut self, description: &Description) -> Result<(), BackendError> {
        self.known = None;
        let folder = self.folder.to_string_lossy();
        let texts = write_in(Kind::Caravan, description, &folder)?;
        let name = description.name();
        let built = match orders::write_files(&texts) {
            Ok(()) => self.reload().await,
            Err(error) => Err(error),
        };
        let Err(error) = built else {
            return Ok(());
        };
        // The former error tells more than what the second reload says.
        let _ = orders::remove_files(&self.folder, &name);
        let _ = self.reload().await;
        Err(error)
    }

    pub(super) async fn destroy(&mut self, tunnel: TunnelId) -> Result<(), BackendError> {
        // A prefix: the name has 32 digits, so no other tunnel's begins with it.
        orders::remove_files(&self.folder, &name_of(tunnel))?;
        self.seen.remove(&tunnel);
        self.known = None;
        match self.find(tunnel).await {
            // It reads the folder when it starts.
            Err(BackendError::Control(ControlError::NotRunning { .. })) => Ok(()),
            Ok(None) => Ok(()),
            Ok(Some(_)) => self.reload().await,
            Err(error) => Err(error),
        }
    }

    pub(super) async fn state(&mut self, tunnel: TunnelId) -> Result<State, BackendError> {
        let is_fresh = |(at, _): &(Instant, _)| at.elapsed() < KNOWN_FOR;
        if !self.known.as_ref().is_some_and(is_fresh) {
            self.known = Some((Instant::now(), self.connections().await?));
        }
        let name = name_of(tunnel);
        let mut all = self.known.iter().flat_map(|(_, all)| all);
        let Some(found) = all.find(|one| one.name == name).cloned() else {
            return Ok(State::Absent);
        };
        let has_come = found.last_peer.is_some();
        let state = state_of(found);
        // A peer that has come and gone between two looks was here once: it is said once.
        let is_new = (state == State::Up || has_come) && self.seen.insert(tunnel);
        Ok(match state {
            State::Waiting if is_new => State::Up,
            state => state,
        })
    }

    pub(super) async fn seen(&self, tunnel: TunnelId) -> Seen {
        let Ok(Some(found)) = self.find(tunnel).await else {
            return Seen::default();
        };
        let mut sessions = found.sessions.iter().filter(|it| !it.children.is_empty());
        let session = sessions.next();
        let here = session.and_then(|it| it.remote);
        Seen {
            peer: here.or(found.last_peer).map(|it| it.ip()),
            ppk: session.and_then(SessionStatus::ppk_exchange),
        }
    }

    async fn find(&self, tunnel: TunnelId) -> Result<Option<ConnectionStatus>, BackendError> {
        let name = name_of(tunnel);
        let all = self.connections().await?;
        Ok(all.into_iter().find(|one| one.name == name))
    }

    async fn connections(&self) -> Result<Vec<ConnectionStatus>, BackendError> {
        match self.ask(Request::Status).await? {
            Reply::Status { report } => Ok(report.connections),
            reply => Err(unexpected("its status", reply)),
        }
    }

    async fn reload(&self) -> Result<(), BackendError> {
        match self.ask(Request::Reload).await? {
            Reply::Done { .. } => Ok(()),
            reply => Err(unexpected("reload", reply)),
        }
    }

    /// The calls of the control socket wait, so they have a thread.
    async fn ask(&self, request: Request) -> Result<Reply, BackendError> {
        let (folder, name) = (self.runtime_dir.clone(), self.connection.clone());
        let asked = tokio::task::spawn_blocking(move || ask(&find(&folder, &name)?, &request));
        let answered = asked.await.map_err(|fault| BackendError::Process {
            what: "the control socket",
            source: std::io::Error::other(fault),
        })?;
        Ok(answered?)
    }
}

/// A connection of a gateway waits for its peer, and has no state of its own after it.
fn state_of(connection: ConnectionStatus) -> State {
    let has_child = |sessions: &ConnectionStatus| {
        let mut all = sessions.sessions.iter();
        all.any(|session| !session.children.is_empty())
    };
    match connection.state {
        ConnectionState::InClear => State::Open,
        _ if has_child(&connection) => State::Up,
        _ => State::Waiting,
    }
}

fn unexpected(what: &str, reply: Reply) -> BackendError {
    let text = match reply {
        Reply::Failed { text } => text,
        _ => "it sent an answer to another request".to_owned(),
    };
    BackendError::Refused {
        what: format!("the gateway ({what})"),
        text,
    }
}
