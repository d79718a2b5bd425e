//! The folder of a tunnel that a `caravan up` of its own makes: it is gone once all of the tunnel
//! is, whichever of its processes was killed.
//!
//! The tunnel's processes share one lock of the folder: the attendant, `caravan up` and its
//! steward. Who gets it knows that none of them lives, and takes away what they have left.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use engine::agent::description::tunnel_of;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, Flock, FlockArg, fcntl};

use crate::files;

const TICK: Duration = Duration::from_millis(20);

/// A folder whose lock is ours.
pub(super) struct Held(Flock<File>);

/// Makes the folder of a new tunnel, for its owner alone. Where others can make folders too, one of
/// theirs may have the name.
pub(super) fn make(path: &Path) -> io::Result<Held> {
    let folder = files::make_folder(path, 0o700)?;
    match files::is_ours_alone(&folder.metadata()?) {
        true => hold(path, Duration::ZERO),
        false => Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("{} is not our folder", path.display()),
        )),
    }
}

/// Takes away what a tunnel has left whose processes were killed, once none of them lives. It
/// succeeds if there is nothing.
pub(super) fn clear(path: &Path, patience: Duration) -> io::Result<()> {
    let held = match hold(path, patience) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(()),
        held => held?,
    };
    held.remove(path)
}

/// Takes away what tunnels of dead agents have left in this folder.
pub(super) fn clear_all(folder: &Path) {
    for path in tunnels(folder) {
        match clear(&path, Duration::ZERO) {
            Ok(()) => tracing::info!("{}: what an agent has left is removed", path.display()),
            // Another agent's tunnel is up.
            Err(fault) if fault.kind() == ErrorKind::WouldBlock => {}
            Err(fault) => tracing::warn!("cannot remove {}: {fault}", path.display()),
        }
    }
}

/// The folders of tunnels in this one that are ours.
pub(super) fn tunnels(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let is_name = entry
            .file_name()
            .to_str()
            .is_some_and(|name| tunnel_of(name).is_some());
        let found = fs::symlink_metadata(entry.path());
        is_name && found.is_ok_and(|it| it.is_dir() && files::is_ours_alone(&it))
    });
    ours.map(|entry| entry.path()).collect()
}

/// `WouldBlock` while a process of the tunnel lives.
fn hold(path: &Path, patience: Duration) -> io::Result<Held> {
    let until = Instant::now() + patience;
    let mut folder = files::open_folder(path)?;
    let lock = loop {
        match Flock::lock(folder, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => break lock,
            Err((again, Errno::EWOULDBLOCK)) if Instant::now() < until => folder = again,
            Err((_, errno)) => return Err(errno.into()),
        }
        std::thread::sleep(TICK);
    };
    // Whoever had it may have removed the folder.
    let (held, named) = (lock.metadata()?, fs::symlink_metadata(path)?);
    match (held.dev(), held.ino()) == (named.dev(), named.ino()) {
        true => Ok(Held(lock)),
        false => Err(ErrorKind::NotFound.into()),
    }
}

impl Held {
    /// Programs that are started from here on hold the folder too, as long as they live.
    pub(super) fn share(&self) -> io::Result<()> {
        Ok(fcntl(&*self.0, FcntlArg::F_SETFD(FdFlag::empty())).map(drop)?)
    }

    /// Undoes what a dead process of the tunnel has changed, and removes the folder.
    pub(super) fn remove(self, path: &Path) -> io::Result<()> {
        if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            // Mostly there is nothing, which is an error.
            down(path, name);
        }
        fs::remove_dir_all(path)
    }
}

/// This program, with folders of the tunnel's own.
pub(super) fn order(folder: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("--runtime-dir")
        .arg(folder)
        .arg("--state-dir")
        .arg(folder.join("state"));
    command
}

/// Takes the tunnel down, and removes what a dead one has left.
pub(super) fn down(folder: &Path, name: &str) -> bool {
    let order = order(folder)
        .args(["down", name])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    order.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_goes_when_the_last_process_that_shares_it_has_ended() {
        let name = format!("caravan-folders-{}", std::process::id());
        let all = std::env::temp_dir().join(name);
        let path = all.join(format!("cta-{}", "07".repeat(16)));
        let other = all.join("cta-other");
        fs::create_dir_all(&other).unwrap();
        clear(&path, Duration::ZERO).expect("nothing is there");
        let held = make(&path).unwrap();
        let busy = |done: io::Result<()>| done.err().map(|it| it.kind());
        assert_eq!(busy(clear(&path, TICK)), Some(ErrorKind::WouldBlock));
        assert!(make(&path).is_err(), "it is another's");
        held.share().unwrap();
        let mut sleep = Command::new("sleep").arg("600").spawn().unwrap();
        // As the kernel does with a process that is killed: nobody unlocks.
        nix::unistd::close(held.0.as_raw_fd()).unwrap();
        std::mem::forget(held);
        clear_all(&all);
        assert_eq!(busy(clear(&path, TICK)), Some(ErrorKind::WouldBlock));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        // Programs of other tests may have it for a moment.
        clear(&path, Duration::from_secs(20)).unwrap();
        assert!(!path.exists() && other.exists());
        fs::create_dir(&path).unwrap();
        clear_all(&all);
        assert!(!path.exists() && other.exists());
        // Somebody else has made one of that name.
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = busy(make(&path).map(drop));
        assert_eq!(refused, Some(ErrorKind::PermissionDenied));
        fs::remove_dir_all(&all).unwrap();
    }
}
