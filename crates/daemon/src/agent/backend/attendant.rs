//! `caravan tunnel-end`: the process between an agent and Client's end of a tunnel. It waits for
//! the end of its standard input, which the kernel closes however the agent ends. Then it takes the
//! tunnel down: as `caravan down` does, with the tunnel's folder, or by unloading it from charon.
//!
//! The configuration, certificates and key of a `caravan up` come over standard input and go into
//! sealed memory files without a name, which it and its steward inherit. If this process is killed,
//! the tunnel ends by itself: its standard input ends too ([`crate::service::Attendant`]). Its
//! folder is removed by the agent, or by the next one (`folder.rs`).

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zeroize::Zeroizing;

use super::folder::{self, down, order};
use super::vici::{Vici, ViciError};
use crate::agent::hygiene;
use crate::control::check_name;
use crate::sys;

/// The arguments of this process.
pub const COMMAND: [&str; 1] = ["tunnel-end"];
/// Stand in a configuration for the files of own certificates, key, the other end's certificates,
/// and the PPK.
pub const PLACES: [&str; 4] = [
    "place-of-own",
    "place-of-key",
    "place-of-peer",
    "place-of-ppk",
];
/// Octets of what it is started with.
const START_MAX: usize = 256 << 10;
/// Octets of a line.
const LINE_MAX: u64 = 4_096;
/// How long a tunnel and its process may take to be gone.
pub(super) const GONE_MAX: Duration = Duration::from_secs(30);
/// How long `caravan up` may take to end after its last order.
const END_MAX: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(20);
/// Ticks after which a tunnel is told once more to end.
const AGAIN: usize = 25;
/// How long a look at standard input waits: so late it is noticed that the tunnel has ended.
const LOOK_MS: u8 = 200;

/// What this process is started with: parts, wiped on drop.
struct Parts(Vec<Zeroizing<Vec<u8>>>);

/// A `caravan up` of its own.
pub struct Start {
    name: String,
    folder: PathBuf,
    configuration: Zeroizing<String>,
    files: [Zeroizing<Vec<u8>>; 4],
}

/// Questions to a running charon that make a tunnel.
pub struct Load {
    name: String,
    socket: PathBuf,
    /// Packets of vici. They may hold a key.
    questions: Vec<Zeroizing<Vec<u8>>>,
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

    /// Its octets.
    pub fn to_frame(&self) -> Zeroizing<Vec<u8>> {
        let folder = self.folder.to_string_lossy();
        let mut parts: Vec<&[u8]> = vec![
            OWN,
            self.name.as_bytes(),
            folder.as_bytes(),
            self.configuration.as_bytes(),
        ];
        parts.extend(self.files.iter().map(|file| &file[..]));
        frame(&parts)
    }

    fn of(parts: &Parts) -> Option<Self> {
        let text = |at: usize| String::from_utf8(parts.0.get(at)?.to_vec()).ok();
        let [a, b, c, d] = [4, 5, 6, 7].map(|at| parts.0.get(at).cloned());
        let is_it = parts.0.first().is_some_and(|kind| &kind[..] == OWN);
        (is_it && parts.0.len() == 8).then_some(())?;
        Some(Self {
            name: text(1)?,
            folder: text(2)?.into(),
            configuration: Zeroizing::new(text(3)?),
            files: [a?, b?, c?, d?],
        })
    }
}

impl Load {
    /// A tunnel of this name, in the charon at this socket.
    pub fn new(name: String, socket: PathBuf) -> Self {
        Self {
            name,
            socket,
            questions: Vec::new(),
        }
    }

    /// Asks this, too.
    pub fn ask(&mut self, packet: Vec<u8>) {
        self.questions.push(Zeroizing::new(packet));
    }

    /// Its octets.
    pub fn to_frame(&self) -> Zeroizing<Vec<u8>> {
        let socket = self.socket.to_string_lossy();
        let mut parts: Vec<&[u8]> = vec![CHARON, self.name.as_bytes(), socket.as_bytes()];
        parts.extend(self.questions.iter().map(|packet| &packet[..]));
        frame(&parts)
    }

    fn of(parts: &Parts) -> Option<Self> {
        let text = |at: usize| String::from_utf8(parts.0.get(at)?.to_vec()).ok();
        let is_it = parts.0.first().is_some_and(|kind| &kind[..] == CHARON);
        is_it.then_some(())?;
        Some(Self {
            name: text(1)?,
            socket: text(2)?.into(),
            questions: parts.0.get(3..)?.to_vec(),
        })
    }
}

/// Begins what a process says that has loaded a tunnel; charon's name of its key follows, if it has
/// one.
pub const LOADED: &str = "loaded ";

/// The first part of [`Start`] and of [`Load`].
const OWN: &[u8] = b"caravan";
const CHARON: &[u8] = b"charon";

/// Each part behind its length, all behind theirs.
fn frame(parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
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

impl Parts {
    /// Reads a frame.
    fn read(input: &mut impl Read) -> io::Result<Self> {
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
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let part = rest
                .split_first_chunk::<4>()
                .and_then(|(len, tail)| tail.split_at_checked(u32::from_be_bytes(*len) as usize));
            let Some((part, tail)) = part else {
                return Err(io::Error::other("what the tunnel is started with is torn"));
            };
            parts.push(Zeroizing::new(part.to_vec()));
            rest = tail;
        }
        Ok(Self(parts))
    }
}

/// A tunnel and the process that ends it.
pub struct Attended {
    child: Child,
    /// Open as long as the tunnel shall live.
    lifeline: Option<ChildStdin>,
}

impl Attended {
    /// Starts the process with this frame, and with options by which it and the tunnel log.
    pub fn start(frame: &[u8], logging: &[OsString]) -> io::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg0("caravan")
            .args(COMMAND)
            .args(logging)
            .env(hygiene::PRIVATE, "1")
            // A signal to the agent's terminal is the agent's.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut lifeline = child.stdin.take();
        let written = match &mut lifeline {
            Some(pipe) => pipe.write_all(frame),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        let mut started = Self { child, lifeline };
        if let Err(fault) = written {
            started.lifeline = None;
            started.child.wait()?;
            return Err(fault);
        }
        Ok(started)
    }

    /// What it says of its start: a line, which begins with [`LOADED`] if all is well.
    pub async fn said(&mut self) -> io::Result<String> {
        let Some(output) = self.child.stdout.take() else {
            return Ok(String::new());
        };
        let read = move || {
            let mut line = String::new();
            let mut output = BufReader::new(output.take(LINE_MAX));
            match output.read_line(&mut line)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(line),
            }
        };
        let line = tokio::task::spawn_blocking(read).await;
        line.map_err(io::Error::other)?
            .map(|line| line.trim_end().to_owned())
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends the tunnel. [`Self::ended`] tells when it has.
    pub fn let_go(&mut self) {
        self.lifeline = None;
    }

    /// Ends the tunnel, and waits until its process has ended: well, if nothing is left.
    pub async fn end(&mut self) -> io::Result<ExitStatus> {
        self.let_go();
        let until = Instant::now() + GONE_MAX;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() < until => tokio::time::sleep(TICK).await,
                None => return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not end")),
            }
        }
    }
}

/// Runs one tunnel for the process at the other end of standard input. The tunnel is told the
/// options `logging`.
pub fn run(logging: &[OsString]) -> anyhow::Result<()> {
    let parts = Parts::read(&mut io::stdin().lock()).context("an agent starts this by itself")?;
    // Its end is that of its input: the agent's, or the agent's order.
    sys::ignore(&[Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP])?;
    match (Start::of(&parts), Load::of(&parts)) {
        (Some(start), _) => run_own(start, logging),
        (_, Some(load)) => {
            drop(parts);
            run_charon(load)
        }
        _ => anyhow::bail!("what the tunnel is started with cannot be read"),
    }
}

/// A `caravan up`.
fn run_own(start: Start, logging: &[OsString]) -> anyhow::Result<()> {
    check_name(&start.name)?;
    let (name, folder) = (start.name.clone(), start.folder.clone());
    let held = folder::make(&folder);
    let held = held.with_context(|| format!("cannot make {}", folder.display()))?;
    let begun = held.share().map_err(anyhow::Error::from);
    let begun = begun.and_then(|()| begin(&start, logging));
    drop(start);
    let ended = begun.and_then(|child| attend(child, &folder, &name));
    let removed = held.remove(&folder);
    removed.with_context(|| format!("cannot remove {}", folder.display()))?;
    let status = ended?;
    match status.success() {
        true => Ok(()),
        false => anyhow::bail!("{name} has ended: {status}"),
    }
}

/// A tunnel of charon: it answers with a line, and unloads the tunnel when its input ends.
fn run_charon(load: Load) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut key = None;
    let loaded = runtime.block_on(async {
        let mut charon = Vici::open(&load.socket).await?;
        for octets in &load.questions {
            if let Some(id) = charon.ask_octets(octets).await?.text("id") {
                key = Some(id.to_owned());
            }
        }
        Ok::<(), ViciError>(())
    });
    let line = match &loaded {
        Ok(()) => format!("{LOADED}{}", key.as_deref().unwrap_or_default()),
        Err(fault) => fault.to_string().replace('\n', " "),
    };
    // An agent that was killed meanwhile hears nothing. Its tunnel is unloaded all the same.
    let _ = writeln!(io::stdout(), "{line}");
    while loaded.is_ok() && is_open() {}
    runtime.block_on(async {
        let mut charon = Vici::open(&load.socket).await?;
        charon.unload(&load.name, key.as_deref()).await
    })?;
    Ok(())
}

/// A configuration and its files in memory, as long as this is kept.
pub(super) struct Held {
    configuration: File,
    _files: Vec<File>,
}

impl Held {
    /// Takes them from what a tunnel is started with.
    pub(super) fn of(start: &Start) -> anyhow::Result<Self> {
        let mut text = start.configuration.clone();
        let mut files = Vec::new();
        for (place, octets) in PLACES.iter().zip(&start.files) {
            let file = memory(octets)?;
            let filled = text.replace(place, &file.as_raw_fd().to_string());
            text = Zeroizing::new(filled);
            files.push(file);
        }
        Ok(Self {
            configuration: memory(text.as_bytes())?,
            _files: files,
        })
    }

    /// Where this process, and one that it starts, reads the configuration.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.configuration.as_raw_fd()).into()
    }
}

/// Starts `caravan up` with its files in memory.
fn begin(start: &Start, logging: &[OsString]) -> anyhow::Result<Child> {
    // Only the tunnel has them after this.
    let held = Held::of(start)?;
    order(&start.folder)
        .args(logging)
        .args(["up", "--attended", "-c"])
        .arg(held.path())
        // It ends with this process, as the kernel closes the other end.
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot start the tunnel")
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

/// Waits until the tunnel ends, or the input does; then it takes the tunnel down.
fn attend(mut child: Child, folder: &Path, name: &str) -> anyhow::Result<ExitStatus> {
    while is_open() {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
    }
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    let until = Instant::now() + END_MAX;
    // One that has just begun does not answer yet, and ignores signals as this process does.
    while Instant::now() < until {
        if !down(folder, name) {
            let _ = kill(pid, Signal::SIGTERM);
        }
        for _ in 0..AGAIN {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(TICK);
        }
    }
    child.kill()?;
    Ok(child.wait()?)
}

/// Whether the other end of standard input is there; it waits a moment for the answer.
fn is_open() -> bool {
    let input = io::stdin();
    let mut watched = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    match poll(&mut watched, PollTimeout::from(LOOK_MS)) {
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
        let parts = Parts::read(&mut &frame[..]).expect("whole");
        let read = Start::of(&parts).expect("a start");
        assert_eq!(
            (read.name.as_str(), &*read.files[1]),
            ("cta-1", &b"secret".to_vec())
        );
        assert_eq!(read.folder, Path::new("/run/cta-1"));
        assert_eq!(*read.configuration, "key = 1");
        assert!(Load::of(&parts).is_none());
        for len in 0..frame.len() {
            assert!(Parts::read(&mut &frame[..len]).is_err());
        }
        let mut load = Load::new("cta-1".into(), "/run/charon.vici".into());
        load.ask(vec![1, 2]);
        let parts = Parts::read(&mut &load.to_frame()[..]).expect("whole");
        let read = Load::of(&parts).expect("a load");
        assert_eq!((read.questions.len(), read.name.as_str()), (1, "cta-1"));
        assert!(Start::of(&parts).is_none());
        let long = [0, 255, 255, 255];
        assert!(Parts::read(&mut &long[..]).is_err());
        let short = [0, 0, 0, 4, 0, 0, 0, 9];
        assert!(Parts::read(&mut &short[..]).is_err());
    }

    #[test]
    fn nobody_changes_a_file_in_memory_and_everybody_who_has_it_reads_it_again() {
        let file = memory(b"secret").expect("a file");
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        for _ in 0..2 {
            assert_eq!(std::fs::read(&path).expect("read"), b"secret");
        }
        assert!((&file).write_all(b"x").is_err());
    }
}
