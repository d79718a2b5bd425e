//! The command's end of the control socket: plain blocking calls.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::server::is_live;
use super::{ControlError, REPLY_BYTES_MAX, Reply, Request, check_name, socket_path};

/// How long a process may take to answer. `down` waits for the peer's last word.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its key in the configuration.
    pub name: String,
    /// Its socket.
    pub path: PathBuf,
}

/// Every running connection, by name. Sockets of dead processes are passed over.
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

/// What to say where no process answers: none is there, or we may not ask it.
pub fn nobody(runtime_dir: &Path) -> String {
    let is_forbidden = |path: &Path| {
        let refused = UnixStream::connect(path).err().map(|error| error.kind());
        refused == Some(std::io::ErrorKind::PermissionDenied)
    };
    let entries = std::fs::read_dir(runtime_dir).into_iter().flatten();
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let folder = runtime_dir.display();
    match paths.any(|path| path.extension().is_some_and(|e| e == "sock") && is_forbidden(&path)) {
        true => format!("what runs under {folder} answers root alone"),
        false => format!("nothing is running under {folder}"),
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

/// Asks and waits for the answer.
pub fn ask(running: &Running, request: &Request) -> Result<Reply, ControlError> {
    let path = &running.path;
    let mut stream =
        UnixStream::connect(path).map_err(ControlError::io("cannot connect to", path))?;
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
        .map_err(ControlError::io("cannot limit the wait for", path))?;
    let mut text = serde_json::to_vec(request).expect("requests are plain data");
    text.push(b'\n');
    stream
        .write_all(&text)
        .map_err(ControlError::io("cannot ask", path))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(REPLY_BYTES_MAX as u64))
        .read_until(b'\n', &mut line)
        .map_err(ControlError::io("no answer from", path))?;
    serde_json::from_slice(&line).map_err(|error| ControlError::Reply {
        path: path.clone(),
        text: error.to_string(),
    })
}
