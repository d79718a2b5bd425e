//! The names of a process's control socket: one file name for each connection, all of the same
//! socket.
//!
//! The network process creates them at its start. The steward adds and removes names later, because
//! only it may write to the runtime directory.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, fchmod};
use socket2::{Domain, SockAddr, Socket, Type};

use super::client::is_live;
use super::{ControlError, check_name, socket_path};
use crate::files;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 16;

/// A file by device and number, independent of its name.
type Inode = (u64, u64);

/// The names of one socket. Before a name is removed, its file is checked: another process may have
/// replaced a dead one.
pub struct Sockets {
    runtime_dir: PathBuf,
    names: Vec<String>,
    inode: Inode,
}

impl Sockets {
    /// Opens the socket under these names. Replaces sockets of dead processes; one that answers is
    /// an error.
    pub fn open(
        runtime_dir: &Path,
        names: &[String],
    ) -> Result<(Self, UnixListener), ControlError> {
        make_directory(runtime_dir)?;
        let _lock = lock(runtime_dir)?;
        let first = names.first().map_or("", |name| name);
        make_way(runtime_dir, first)?;
        let path = socket_path(runtime_dir, first);
        let told = ControlError::io("cannot listen on", &path);
        let (listener, inode) = listen(&path).map_err(told)?;
        let mut sockets = Self {
            runtime_dir: runtime_dir.to_owned(),
            names: vec![first.to_owned()],
            inode,
        };
        match sockets.add(names) {
            Ok(()) => Ok((sockets, listener)),
            Err(error) => {
                sockets.remove();
                Err(error)
            }
        }
    }

    /// The socket that another process has opened under these names.
    pub fn found(runtime_dir: &Path, names: &[String]) -> Option<Self> {
        let inode = inode(&socket_path(runtime_dir, names.first()?)).ok()?;
        Some(Self {
            runtime_dir: runtime_dir.to_owned(),
            names: names.to_owned(),
            inode,
        })
    }

    /// Adds missing names, also ones that somebody else removed if one is left, and removes names
    /// that are not in this list. On an error nothing has changed. A process without any connection
    /// keeps its former names.
    pub fn follow(&mut self, names: &[String]) -> Result<(), ControlError> {
        if names.is_empty() {
            return Ok(());
        }
        let _lock = lock(&self.runtime_dir)?;
        let standing = self.names.iter().filter(|name| self.is_ours(name));
        let standing: Vec<String> = standing.cloned().collect();
        if standing.is_empty() {
            // No name is left to link from. Only a new name is an error.
            let new = names.iter().find(|name| !self.names.contains(name));
            return new.map_or(Ok(()), |name| {
                let path = socket_path(&self.runtime_dir, name);
                Err(ControlError::io("cannot name", &path)(
                    io::ErrorKind::NotFound.into(),
                ))
            });
        }
        self.names = standing;
        let before = self.names.len();
        if let Err(error) = self.add(names) {
            let added = self.names.split_off(before);
            added.iter().for_each(|name| self.remove_one(name));
            return Err(error);
        }
        let all = core::mem::take(&mut self.names);
        let (kept, gone) = all.into_iter().partition(|name| names.contains(name));
        self.names = kept;
        let gone: Vec<String> = gone;
        gone.iter().for_each(|name| self.remove_one(name));
        Ok(())
    }

    fn add(&mut self, names: &[String]) -> Result<(), ControlError> {
        let first = self.names.first().map_or("", |name| name);
        let first = socket_path(&self.runtime_dir, first);
        for name in names {
            if self.names.contains(name) {
                continue;
            }
            make_way(&self.runtime_dir, name)?;
            let path = socket_path(&self.runtime_dir, name);
            fs::hard_link(&first, &path).map_err(ControlError::io("cannot name", &path))?;
            self.names.push(name.clone());
        }
        Ok(())
    }

    /// Removes every name.
    pub fn remove(&self) {
        self.names.iter().for_each(|name| self.remove_one(name));
    }

    fn remove_one(&self, name: &str) {
        if self.is_ours(name) {
            // The next process finds a file that cannot be removed dead.
            let _ = fs::remove_file(socket_path(&self.runtime_dir, name));
        }
    }

    fn is_ours(&self, name: &str) -> bool {
        let found = inode(&socket_path(&self.runtime_dir, name));
        found.is_ok_and(|found| found == self.inode)
    }
}

/// A socket that only its owner may use. Its mode is set before it has a name: somebody else could
/// redirect a name.
fn listen(path: &Path) -> io::Result<(UnixListener, Inode)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    fchmod(&socket, Mode::from_bits_truncate(0o600))?;
    socket.bind(&SockAddr::unix(path)?)?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok((OwnedFd::from(socket).into(), inode(path)?))
}

/// Removes the file of a dead process under this name.
fn make_way(runtime_dir: &Path, name: &str) -> Result<(), ControlError> {
    check_name(name)?;
    let path = socket_path(runtime_dir, name);
    if is_live(&path) {
        let name = name.to_owned();
        return Err(ControlError::AlreadyRuns { name, path });
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(ControlError::io("cannot replace", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Two processes that start at the same time must not both find the other's socket dead.
fn lock(runtime_dir: &Path) -> Result<Flock<File>, ControlError> {
    let path = runtime_dir.join(".lock");
    let file =
        files::open_lock(&path).map_err(ControlError::io("cannot create the lock", &path))?;
    Flock::lock(file, FlockArg::LockExclusive)
        .map_err(|(_, errno)| ControlError::io("cannot take the lock", &path)(errno.into()))
}

fn inode(path: &Path) -> io::Result<Inode> {
    let found = fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

fn make_directory(path: &Path) -> Result<(), ControlError> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o755);
    let created = builder.create(path);
    // Whatever our umask is: programs of other users read the keys of DNSSEC in it.
    let readable = || fs::set_permissions(path, Permissions::from_mode(0o755));
    created.and_then(|()| readable()).map_err(ControlError::io(
        "cannot create the runtime directory",
        path,
    ))
}
