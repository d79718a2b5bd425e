//! The running process's end of the control socket.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{ControlError, LAST_WORD, REQUEST_BYTES_MAX, Reply, Request, check_name, socket_path};
use crate::files;

/// How long an asker may take to write its line.
const ASKER_PATIENCE: Duration = Duration::from_secs(5);
/// Requests that wait at once; more askers wait in the socket.
const QUEUE: usize = 16;

/// One question, and where the answer goes. Dropping it answers "the process is ending".
pub struct Asked {
    /// The question.
    pub request: Request,
    /// The answer.
    pub reply: oneshot::Sender<Reply>,
}

/// The sockets of one process; removed on drop. Questions come out of the channel that
/// [`ControlServer::bind`] returns, one by one, from the runtime's tasks.
pub struct ControlServer {
    runtime_dir: PathBuf,
    sockets: BTreeMap<String, Socket>,
    sender: mpsc::Sender<Asked>,
}

/// One connection's socket.
struct Socket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl ControlServer {
    /// Opens one socket a name. Sockets that a dead process left are replaced; one that answers
    /// is an error. Must run within a tokio runtime that drives IO.
    pub fn bind(
        runtime_dir: &Path,
        names: &[String],
    ) -> Result<(Self, mpsc::Receiver<Asked>), ControlError> {
        make_directory(runtime_dir)?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let mut server = Self {
            runtime_dir: runtime_dir.to_owned(),
            sockets: BTreeMap::new(),
            sender,
        };
        server.follow(names)?;
        Ok((server, receiver))
    }

    /// Opens the sockets of these names that are not there, closes those of no name among them.
    /// On an error nothing has changed.
    pub fn follow(&mut self, names: &[String]) -> Result<(), ControlError> {
        if names.iter().all(|name| self.sockets.contains_key(name)) {
            self.sockets.retain(|name, _| names.contains(name));
            return Ok(());
        }
        // Two processes that start at once must not both find the other's socket dead.
        let lock_path = self.runtime_dir.join(".lock");
        let lock = files::open_lock(&lock_path)
            .map_err(ControlError::io("cannot create the lock", &lock_path))?;
        let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| {
            ControlError::io("cannot take the lock", &lock_path)(errno.into())
        })?;
        let mut added = Vec::new();
        for name in names {
            if !self.sockets.contains_key(name) {
                added.push((name.clone(), self.open(name)?));
            }
        }
        self.sockets.retain(|name, _| names.contains(name));
        self.sockets.extend(added);
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Socket, ControlError> {
        check_name(name)?;
        let path = socket_path(&self.runtime_dir, name);
        if is_live(&path) {
            let name = name.to_owned();
            return Err(ControlError::AlreadyRuns { name, path });
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ControlError::io("cannot replace", &path)(error));
            }
            _ => (),
        }
        let listener =
            UnixListener::bind(&path).map_err(ControlError::io("cannot listen on", &path))?;
        let task = tokio::spawn(accept(listener, self.sender.clone()));
        let socket = Socket { path, task };
        fs::set_permissions(&socket.path, Permissions::from_mode(0o600))
            .map_err(ControlError::io("cannot protect", &socket.path))?;
        Ok(socket)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.task.abort();
        // What cannot be removed is found dead by the next process.
        let _ = fs::remove_file(&self.path);
    }
}

async fn accept(listener: UnixListener, sender: mpsc::Sender<Asked>) {
    while !sender.is_closed() {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(attend(stream, sender.clone()));
            }
            // Out of descriptors, most likely: let others end first.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Whether a process answers at this socket.
pub(super) fn is_live(path: &Path) -> bool {
    StdUnixStream::connect(path).is_ok()
}

fn make_directory(path: &Path) -> Result<(), ControlError> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755);
    builder.create(path).map_err(ControlError::io(
        "cannot create the runtime directory",
        path,
    ))
}

/// Answers the questions of one asker, one line each, until it hangs up.
async fn attend(stream: UnixStream, sender: mpsc::Sender<Asked>) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut read).take(REQUEST_BYTES_MAX as u64);
        let asked = tokio::time::timeout(ASKER_PATIENCE, limited.read_until(b'\n', &mut line));
        match asked.await {
            Ok(Ok(count)) if count > 0 => (),
            _ => return,
        }
        let is_whole = line.ends_with(b"\n");
        let reply = match serde_json::from_slice::<Request>(&line) {
            Ok(request) if is_whole => ask(request, &sender).await,
            Ok(_) => failed("the request does not end with a line feed"),
            Err(error) => failed(&format!("not a request: {error}")),
        };
        let mut text = serde_json::to_vec(&reply).expect("replies are plain data");
        text.push(b'\n');
        if write.write_all(&text).await.is_err() || !is_whole {
            return;
        }
    }
}

async fn ask(request: Request, sender: &mpsc::Sender<Asked>) -> Reply {
    let (reply, answer) = oneshot::channel();
    match sender.send(Asked { request, reply }).await {
        Ok(()) => answer.await.unwrap_or_else(|_| failed(LAST_WORD)),
        Err(_) => failed(LAST_WORD),
    }
}

fn failed(text: &str) -> Reply {
    Reply::Failed {
        text: text.to_owned(),
    }
}
