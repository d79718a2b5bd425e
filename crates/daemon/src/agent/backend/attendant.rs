//! `caravan tunnel-end`: the process between an agent and its tunnel. It runs `caravan up` and waits
//! for the end of its standard input, which the kernel closes however the agent ends. Then it takes
//! the tunnel down as `caravan down` does, and removes the tunnel's folder.
//!
//! The configuration, certificates and key come over standard input and go into sealed memory files
//! without a name, which `caravan up` and its steward inherit.

use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use crate::control::check_name;
use crate::{files, sys};

/// The arguments of this process.
pub const COMMAND: [&str; 1] = ["tunnel-end"];
/// Stand in a configuration for the files of own certificates, key, and the other end's.
pub const PLACES: [&str; 3] = ["place-of-own", "place-of-key", "place-of-peer"];
/// Octets of what it is started with.
const START_MAX: usize = 256 << 10;
/// How long `caravan up` may take to end after its last order.
const END_MAX: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(20);
/// How long a look at standard input waits: so late it is noticed that the tunnel has ended.
const LOOK: PollTimeout = PollTimeout::from(200u8);

/// What a tunnel is started with. Wiped on drop.
pub struct Start {
    name: String,
    folder: PathBuf,
    configuration: Zeroizing<String>,
    files: [Zeroizing<Vec<u8>>; 3],
}

impl Start {
    /// A tunnel of this name, in a folder of its own, by this configuration.
    pub fn new(name: String, folder: PathBuf, configuration: String) -> Self {
        Self {
            name,
            folder,
            configuration: Zeroizing::new(configuration),
            files: Default::default(),
        }
    }

    /// The file of this place.
    pub fn file(&mut self, place: usize, octets: &[u8]) {
        if let Some(file) = self.files.get_mut(place) {
            *file = Zeroizing::new(octets.to_vec());
        }
    }

    /// Its octets: each part behind its length, all behind theirs.
    pub fn to_frame(&self) -> Zeroizing<Vec<u8>> {
        let folder = self.folder.to_string_lossy();
        let mut parts: Vec<&[u8]> = vec![
            self.name.as_bytes(),
            folder.as_bytes(),
            self.configuration.as_bytes(),
        ];
        parts.extend(self.files.iter().map(|file| &file[..]));
        let whole: usize = parts.iter().map(|part| part.len() + 4).sum();
        // Its whole size at once: octets that move leave a copy.
        let mut frame = Zeroizing::new(Vec::with_capacity(whole + 4));
        let length = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        frame.extend_from_slice(&length(whole));
        for part in parts {
            frame.extend_from_slice(&length(part.len()));
            frame.extend_from_slice(part);
        }
        frame
    }

    /// Reads a frame.
    pub fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        input.read_exact(&mut length)?;
        let len = u32::from_be_bytes(length) as usize;
        if len > START_MAX {
            return Err(io::Error::other(
                "what the tunnel is started with is too long",
            ));
        }
        let mut octets = Zeroizing::new(vec![0; len]);
        input.read_exact(&mut octets)?;
        let mut rest = &octets[..];
        let mut part = || {
            let (len, tail) = rest.split_first_chunk::<4>()?;
            let (part, tail) = tail.split_at_checked(u32::from_be_bytes(*len) as usize)?;
            rest = tail;
            Some(part.to_vec())
        };
        let mut text = || part().and_then(|octets| String::from_utf8(octets).ok());
        let texts = (text(), text(), text());
        let files = [part(), part(), part()].map(|file| file.map(Zeroizing::new));
        match (texts, files) {
            ((Some(name), Some(folder), Some(configuration)), [Some(a), Some(b), Some(c)])
                if rest.is_empty() =>
            {
                Ok(Self {
                    name,
                    folder: folder.into(),
                    configuration: Zeroizing::new(configuration),
                    files: [a, b, c],
                })
            }
            _ => Err(io::Error::other(
                "what the tunnel is started with cannot be read",
            )),
        }
    }
}

/// Runs one tunnel for the process at the other end of standard input.
pub fn run() -> anyhow::Result<()> {
    let start = Start::read(&mut io::stdin().lock()).context("an agent starts this by itself")?;
    check_name(&start.name)?;
    // Its end is that of its input: the agent's, or the agent's order.
    sys::ignore(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    files::make_folder(&start.folder, 0o700)
        .with_context(|| format!("cannot make {}", start.folder.display()))?;
    let (name, folder) = (start.name.clone(), start.folder.clone());
    let ended = begin(start).and_then(|child| attend(child, &folder, &name));
    // What a tunnel that ended by itself has left. Mostly there is nothing, which is an error.
    let _ = down(&folder, &name);
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    let status = ended?;
    match status.success() {
        true => Ok(()),
        false => anyhow::bail!("{name} has ended: {status}"),
    }
}

/// Starts `caravan up` with its files in memory.
fn begin(start: Start) -> anyhow::Result<Child> {
    let mut text = start.configuration.clone();
    let mut held = Vec::new();
    for (place, octets) in PLACES.iter().zip(&start.files) {
        let file = memory(octets)?;
        let filled = text.replace(place, &file.as_raw_fd().to_string());
        text = Zeroizing::new(filled);
        held.push(file);
    }
    let configuration = memory(text.as_bytes())?;
    let path = format!("/proc/self/fd/{}", configuration.as_raw_fd());
    let child = order(&start.folder)
        .args(["up", "-c", &path])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the tunnel")?;
    // Only the tunnel has them now.
    drop((held, configuration));
    Ok(child)
}

/// This program, with folders of the tunnel's own.
fn order(folder: &Path) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("--runtime-dir")
        .arg(folder)
        .arg("--state-dir")
        .arg(folder.join("state"));
    command
}

/// A file without a name, which nobody can change any more.
fn memory(octets: &[u8]) -> anyhow::Result<File> {
    // Inherited by the tunnel: this process has no other child that lives as long.
    let opened: OwnedFd = memfd_create(c"tunnel", MFdFlags::MFD_ALLOW_SEALING)?;
    let mut file = File::from(opened);
    file.set_permissions(Permissions::from_mode(0o400))?;
    file.write_all(octets)?;
    let seals = [
        SealFlag::F_SEAL_WRITE,
        SealFlag::F_SEAL_GROW,
        SealFlag::F_SEAL_SHRINK,
        SealFlag::F_SEAL_SEAL,
    ];
    let seals = seals.into_iter().collect();
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// Takes the tunnel down, and removes what a dead one has left.
fn down(folder: &Path, name: &str) -> bool {
    let order = order(folder)
        .args(["down", name])
        .stderr(Stdio::null())
        .status();
    order.is_ok_and(|status| status.success())
}

/// Waits until the tunnel ends, or the input does; then it takes the tunnel down.
fn attend(mut child: Child, folder: &Path, name: &str) -> anyhow::Result<ExitStatus> {
    while is_open() {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
    if !down(folder, name) {
        // It has not come so far that it answers, or does not answer any more.
        let _ = kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM);
    }
    let until = Instant::now() + END_MAX;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(TICK);
    }
    child.kill()?;
    Ok(child.wait()?)
}

/// Whether the other end of standard input is there; it waits a moment for the answer.
fn is_open() -> bool {
    let input = io::stdin();
    let mut watched = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, LOOK) {
        Ok(0) | Err(Errno::EINTR) => true,
        Ok(_) => watched[0].revents().is_some_and(|found| {
            !found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL)
        }),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tunnel_is_started_with_reads_back_and_no_part_of_it_does() {
        let mut start = Start::new("cta-1".into(), "/run/cta-1".into(), "key = 1".into());
        start.file(1, b"secret");
        let frame = start.to_frame();
        let read = Start::read(&mut &frame[..]).expect("whole");
        assert_eq!(
            (read.name.as_str(), &*read.files[1]),
            ("cta-1", &b"secret".to_vec())
        );
        assert_eq!(read.folder, Path::new("/run/cta-1"));
        assert_eq!(*read.configuration, "key = 1");
        for len in 0..frame.len() {
            assert!(Start::read(&mut &frame[..len]).is_err());
        }
        let long = [0, 255, 255, 255];
        assert!(Start::read(&mut &long[..]).is_err());
        let short = [0, 0, 0, 4, 0, 0, 0, 9];
        assert!(Start::read(&mut &short[..]).is_err());
    }

    #[test]
    fn nobody_changes_a_file_in_memory_and_everybody_who_has_it_reads_it_again() {
        let file = memory(b"secret").expect("a file");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        for _ in 0..2 {
            assert_eq!(fs::read(&path).expect("read"), b"secret");
        }
        assert!((&file).write_all(b"x").is_err());
    }
}
