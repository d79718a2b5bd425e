//! The command's end of the control socket: plain blocking calls.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;

use super::{ControlError, REPLY_BYTES_MAX, Reply, Request, check_name, socket_path};

/// How long a process may take to answer. `down` waits for the peer's last message.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How often to check whether a process has ended.
pub const TICK: Duration = Duration::from_millis(20);
/// The kernel closes the sockets of a killed process in this time.
const DYING_MAX: Duration = Duration::from_millis(300);

/// A running connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its key in the configuration.
    pub name: String,
    /// Its socket.
    pub path: PathBuf,
}

/// Every running connection, by name. Skips sockets of dead processes.
pub fn running(runtime_dir: &Path) -> Vec<Running> {
    let Ok(entries) = std::fs::read_dir(runtime_dir) else {
        return Vec::new();
    };
    let mut found: Vec<Running> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path
                .file_name()?
                .to_str()?
                .strip_suffix(".sock")?
                .to_owned();
            is_live(&path).then_some(Running { name, path })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The error if no process answers: none is running, or we may not talk to it.
pub fn nobody(runtime_dir: &Path) -> String {
    let none = || format!("nothing is running under {}", runtime_dir.display());
    hidden(runtime_dir).unwrap_or_else(none)
}

/// Why we cannot see what runs, if so.
pub fn hidden(runtime_dir: &Path) -> Option<String> {
    let is_forbidden = |path: &Path| {
        let refused = UnixStream::connect(path).err().map(|error| error.kind());
        refused == Some(ErrorKind::PermissionDenied)
    };
    let folder = runtime_dir.display();
    let entries = match std::fs::read_dir(runtime_dir) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let text = format!("permission denied: only the owner of {folder} can see what runs");
            return Some(text);
        }
        entries => entries.into_iter().flatten(),
    };
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let is_any =
        paths.any(|path| path.extension().is_some_and(|e| e == "sock") && is_forbidden(&path));
    is_any.then(|| format!("processes under {folder} answer only root"))
}

/// Whether a process answers at this socket.
pub(super) fn is_live(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

/// The process that listens at this socket, as the kernel says.
pub fn listener(path: &Path) -> Option<u32> {
    let stream = UnixStream::connect(path).ok()?;
    let peer = getsockopt(&stream, PeerCredentials).ok()?;
    u32::try_from(peer.pid()).ok()
}

/// Removes the socket of a dead process.
pub fn discard(runtime_dir: &Path, name: &str) {
    let path = socket_path(runtime_dir, name);
    if !is_live(&path) {
        // If it stays, the next process finds it dead.
        let _ = std::fs::remove_file(&path);
    }
}

/// The running connection of this name.
pub fn find(runtime_dir: &Path, name: &str) -> Result<Running, ControlError> {
    check_name(name)?;
    let path = socket_path(runtime_dir, name);
    if is_live(&path) {
        let name = name.to_owned();
        return Ok(Running { name, path });
    }
    let names: Vec<String> = running(runtime_dir).into_iter().map(|r| r.name).collect();
    Err(ControlError::NotRunning {
        name: name.to_owned(),
        running: match names.is_empty() {
            true => nobody(runtime_dir),
            false => format!("running: {}", names.join(", ")),
        },
    })
}

/// Refuses if one of these connections is running already.
pub fn none_runs(runtime_dir: &Path, names: &[String]) -> Result<(), ControlError> {
    for name in names {
        let path = socket_path(runtime_dir, name);
        if check_name(name).is_ok() && is_live(&path) {
            let name = name.clone();
            return Err(ControlError::AlreadyRuns { name, path });
        }
    }
    Ok(())
}

/// The same for one that begins: another that was killed just now has a moment to be gone. Blocks.
pub fn none_runs_soon(runtime_dir: &Path, names: &[String]) -> Result<(), ControlError> {
    let until = Instant::now() + DYING_MAX;
    loop {
        match none_runs(runtime_dir, names) {
            Err(ControlError::AlreadyRuns { .. }) if Instant::now() < until => {
                std::thread::sleep(TICK);
            }
            found => return found,
        }
    }
}

/// Sends a request and waits for the reply. [`ControlError::Ending`]: the process ended without
/// one.
pub fn ask(running: &Running, request: &Request) -> Result<Reply, ControlError> {
    converse(running, request).map(|(reply, _)| reply)
}

/// Sends a request that may end the process. If it does, waits until it has undone its changes.
pub fn ask_to_end(running: &Running, request: &Request) -> Result<Reply, ControlError> {
    let (reply, mut stream) = converse(running, request)?;
    let until = Instant::now() + PATIENCE;
    if matches!(reply, Reply::Ending { .. }) {
        // It closes the connection when it ends, or earlier if it is slow.
        let _ = stream.read(&mut [0]);
        while is_live(&running.path) && Instant::now() < until {
            std::thread::sleep(TICK);
        }
    }
    Ok(reply)
}

fn converse(
    running: &Running,
    request: &Request,
) -> Result<(Reply, BufReader<UnixStream>), ControlError> {
    let path = &running.path;
    let failed = |what| {
        let told = ControlError::io(what, path);
        move |error: io::Error| match error.kind() {
            ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::BrokenPipe
            | ErrorKind::NotFound => ControlError::Ending(path.clone()),
            _ => told(error),
        }
    };
    let mut stream = UnixStream::connect(path).map_err(failed("cannot connect to"))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(failed("cannot limit the wait for"))?;
    let mut text = serde_json::to_vec(request).expect("requests are plain data");
    text.push(b'\n');
    stream.write_all(&text).map_err(failed("cannot ask"))?;
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    (&mut stream)
        .take(REPLY_BYTES_MAX as u64)
        .read_until(b'\n', &mut line)
        .map_err(failed("no answer from"))?;
    if line.is_empty() {
        return Err(ControlError::Ending(path.clone()));
    }
    match serde_json::from_slice(&line) {
        Ok(Reply::Ended) => Err(ControlError::Ending(path.clone())),
        Ok(reply) => Ok((reply, stream)),
        Err(error) => Err(ControlError::Reply {
            path: path.clone(),
            text: error.to_string(),
        }),
    }
}
