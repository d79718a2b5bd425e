//! The running process's end of the control socket.

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

use super::{ControlError, REQUEST_BYTES_MAX, Reply, Request, check_name, socket_path};

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

/// The sockets of one process; removed on drop.
pub struct ControlServer {
    paths: Vec<PathBuf>,
    listeners: Vec<UnixListener>,
}

impl ControlServer {
    /// Opens one socket a name. Sockets that a dead process left are replaced; one that answers
    /// is an error. Must run within a tokio runtime that drives IO.
    pub fn bind(runtime_dir: &Path, names: &[String]) -> Result<Self, ControlError> {
        make_directory(runtime_dir)?;
        // Two processes that start at once must not both find the other's socket dead.
        let lock_path = runtime_dir.join(".lock");
        let lock = fs::File::create(&lock_path)
            .map_err(ControlError::io("cannot create the lock", &lock_path))?;
        let _lock = Flock::lock(lock, FlockArg::LockExclusive).map_err(|(_, errno)| {
            ControlError::io("cannot take the lock", &lock_path)(errno.into())
        })?;
        let mut server = Self {
            paths: Vec::new(),
            listeners: Vec::new(),
        };
        for name in names {
            check_name(name)?;
            let path = socket_path(runtime_dir, name);
            if is_live(&path) {
                let name = name.clone();
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
            server.paths.push(path.clone());
            server.listeners.push(listener);
            fs::set_permissions(&path, Permissions::from_mode(0o600))
                .map_err(ControlError::io("cannot protect", &path))?;
        }
        Ok(server)
    }

    /// Serves all sockets on the runtime's tasks; questions come out of the channel one by one.
    pub fn serve(&mut self) -> mpsc::Receiver<Asked> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        for listener in self.listeners.drain(..) {
            let sender = sender.clone();
            tokio::spawn(async move {
                while !sender.is_closed() {
                    match listener.accept().await {
                        Ok((stream, _)) => {
                            tokio::spawn(attend(stream, sender.clone()));
                        }
                        // Out of descriptors, most likely: let others end first.
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
            });
        }
        receiver
    }

    /// The sockets' paths.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        for path in &self.paths {
            // What cannot be removed is found dead by the next process.
            let _ = fs::remove_file(path);
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
        Ok(()) => answer
            .await
            .unwrap_or_else(|_| failed("the process is ending")),
        Err(_) => failed("the process is ending"),
    }
}

fn failed(text: &str) -> Reply {
    Reply::Failed {
        text: text.to_owned(),
    }
}
