//! The surroundings of a process: the service manager, the terminal it leaves, signals.

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use nix::sys::signal::kill;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, dup2_stdout, setsid};
use tokio::io::{AsyncBufReadExt, AsyncReadExt};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::console::{complain, say};
use crate::files;

/// The hidden option that marks the background process.
pub const BACKGROUND: &str = "--background";
/// First words of the background process's lines.
const UP: &str = "up ";
const FAILED: &str = "failed ";
const NOTE: &str = "note ";

/// Messages to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceState<'a> {
    /// Traffic without a tunnel is refused, and the process serves. A client's tunnels may come
    /// later: the boot of a host must not wait for its gateway.
    Ready,
    /// The configuration is being read again; [`ServiceState::Ready`] follows.
    Reloading,
    /// The end has begun.
    Stopping,
    /// One line for `systemctl status`.
    Status(&'a str),
}

/// Sends a message to the service manager, if there is one.
pub fn notify(notice: ServiceState<'_>) {
    let Some(path) = env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    // A manager that does not listen is no reason to end.
    let _ = send(&path, &notice.text());
}

impl ServiceState<'_> {
    fn text(self) -> String {
        match self {
            Self::Ready => "READY=1".to_owned(),
            Self::Reloading => {
                // With this time the manager tells this reload from earlier ones.
                let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
                let microseconds =
                    now.map_or(0, |now| now.tv_sec() * 1_000_000 + now.tv_nsec() / 1_000);
                format!("RELOADING=1\nMONOTONIC_USEC={microseconds}")
            }
            Self::Stopping => "STOPPING=1".to_owned(),
            Self::Status(text) => format!("STATUS={}", text.replace('\n', " ")),
        }
    }
}

fn send(path: &std::ffi::OsStr, text: &str) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// Starts this program again in the background with the same arguments and [`BACKGROUND`], waits
/// until it is up or has failed, and prints its messages. Its log, which starts empty, and its
/// [`Outcome`] have this name. ^C ends both. Must run within a tokio runtime.
pub async fn detach(runtime_dir: &Path, name: &str) -> io::Result<ExitCode> {
    let mut signals = Signals::new(hang_ups()?)?;
    let log = log_path(runtime_dir, name);
    let log_file = files::open_log(&log)?;
    // That of an earlier process must not pass for this one's.
    Outcome::open(runtime_dir, name)?;
    let mut arguments = env::args_os();
    let called = arguments.next().unwrap_or_else(|| "caravan".into());
    let program = env::current_exe().unwrap_or_else(|_| "/proc/self/exe".into());
    let mut child = Command::new(program)
        .arg0(called)
        .args(arguments)
        .arg(BACKGROUND)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log_file)
        .spawn()?;
    let output = child.stdout.take().map(OwnedFd::from);
    let output = output.ok_or_else(|| io::Error::other("the pipe is missing"))?;
    let mut lines = tokio::io::BufReader::new(Receiver::from_owned_fd(output)?).lines();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            signalled = signals.next() => {
                if signalled == Signalled::Stop {
                    return interrupted(&mut child);
                }
                continue;
            }
        };
        let Some(line) = line else {
            return ended(&mut child, runtime_dir, name);
        };
        if let Some(text) = line.strip_prefix(UP) {
            // The tunnel is up, even if nobody can read that.
            if let Err(error) = say(&format!("{text}\n")) {
                complain(error);
            }
            return Ok(ExitCode::SUCCESS);
        } else if let Some(text) = line.strip_prefix(FAILED) {
            // It restores routes and resolvers before it ends.
            child.wait()?;
            complain(text);
            return Ok(ExitCode::FAILURE);
        } else if let Some(text) = line.strip_prefix(NOTE) {
            complain(text);
        }
    }
}

/// The user interrupted the wait.
fn interrupted(child: &mut Child) -> io::Result<ExitCode> {
    let number = i32::try_from(child.id()).map_err(io::Error::other)?;
    // If it has already ended, waiting for it still works.
    let _ = kill(Pid::from_raw(number), nix::sys::signal::Signal::SIGTERM);
    child.wait()?;
    complain("interrupted: nothing is left in the background");
    Ok(ExitCode::FAILURE)
}

/// It ended before it was up or gave up.
fn ended(child: &mut Child, runtime_dir: &Path, name: &str) -> io::Result<ExitCode> {
    let status = child.wait()?;
    let log = log_path(runtime_dir, name);
    let is_empty = std::fs::metadata(&log).map_or(true, |found| found.len() == 0);
    match last_failure(runtime_dir, name) {
        Some(reason) => complain(reason),
        None if is_empty => complain(format!(
            "it ended ({status}) and could not say why: {} is empty, is the disk full?",
            log.display()
        )),
        None if status.success() => complain(format!(
            "it was taken down before it was up: see {}",
            log.display()
        )),
        None => complain(format!("it ended ({status}): see {}", log.display())),
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code
        .filter(|code| *code != 0)
        .map_or(ExitCode::FAILURE, ExitCode::from))
}

/// The file in which a background process says why it failed. It is empty while the process runs,
/// and after an end without an error. It is opened before rights are dropped.
pub struct Outcome(File);

/// Longest reason that is read back.
const REASON_BYTES_MAX: u64 = 64 << 10;
const OUTCOME: &str = "outcome";

impl Outcome {
    /// Opens the file of this name, and empties it.
    pub fn open(runtime_dir: &Path, name: &str) -> io::Result<Self> {
        files::open_log(&runtime_dir.join(format!("{name}.{OUTCOME}"))).map(Self)
    }

    /// Says why the process failed.
    pub fn failed(&mut self, reason: &str) {
        // Another process of this name that came too late may have written its own.
        let emptied = self.0.set_len(0);
        // On a full disk the log may still have it.
        let _ = emptied.and_then(|()| self.0.write_all(reason.as_bytes()));
    }
}

/// Why the last background process of this name failed, if it did.
pub fn last_failure(runtime_dir: &Path, name: &str) -> Option<String> {
    let path = runtime_dir.join(format!("{name}.{OUTCOME}"));
    let reason = String::from_utf8(files::read_ours(&path, REASON_BYTES_MAX).ok()?).ok()?;
    (!reason.is_empty()).then_some(reason)
}

/// Forgets why the last background process of this name failed. The file of one that runs is empty
/// and stays.
pub fn forget_failure(runtime_dir: &Path, name: &str) {
    if last_failure(runtime_dir, name).is_some() {
        // Another user's stays, and is not ours to show.
        let _ = std::fs::remove_file(runtime_dir.join(format!("{name}.{OUTCOME}")));
    }
}

/// The names of all background processes that have run, in order.
pub fn background_names(runtime_dir: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(runtime_dir).into_iter().flatten();
    let names = entries.flatten().filter_map(|entry| {
        let path = entry.path();
        let is_ours = path.extension().is_some_and(|end| end == OUTCOME);
        let name = path.file_stem().filter(|_| is_ours)?;
        name.to_str().map(str::to_owned)
    });
    names.collect()
}

/// The log file of a background process.
pub fn log_path(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(format!("{name}.log"))
}

/// The receivers of messages on the progress: a service manager, or the terminal that a background
/// process has left. The manager waits until the process serves, the terminal until everything is
/// up.
pub struct Ready {
    is_background: bool,
    is_serving: bool,
}

impl Ready {
    /// A background process leaves the terminal's session here.
    pub fn new(is_background: bool) -> io::Result<Self> {
        if is_background {
            setsid()?;
        }
        Ok(Self {
            is_background,
            is_serving: false,
        })
    }

    /// Tells the service manager that the process serves, and what it waits for. Later calls only
    /// update this line.
    pub fn serving(&mut self, line: &str) {
        if !core::mem::replace(&mut self.is_serving, true) {
            notify(ServiceState::Ready);
        }
        notify(ServiceState::Status(line));
    }

    /// Reports that everything is up, in one line for the terminal and the service manager.
    pub fn up(&mut self, line: &str) -> io::Result<()> {
        self.serving(line);
        self.tell(UP, line)
    }

    /// Whether a terminal is waiting.
    pub fn is_awaited(&self) -> bool {
        self.is_background
    }

    /// Sends a progress line to the waiting terminal.
    pub fn note(&self, line: &str) {
        if self.is_background {
            // The terminal may be gone.
            let _ = writeln!(io::stdout(), "{NOTE}{}", line.replace('\n', " "));
        }
    }

    /// It has failed for good; the process ends.
    pub fn failed(&mut self, line: &str) -> io::Result<()> {
        notify(ServiceState::Status(line));
        self.tell(FAILED, line)
    }

    fn tell(&mut self, word: &str, line: &str) -> io::Result<()> {
        if !core::mem::take(&mut self.is_background) {
            return Ok(());
        }
        let mut output = io::stdout();
        // The terminal may be gone; the tunnel is not.
        let _ = writeln!(output, "{word}{}", line.replace('\n', " "));
        let _ = output.flush();
        let null = File::options().write(true).open("/dev/null")?;
        Ok(dup2_stdout(null)?)
    }
}

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signalled {
    /// SIGTERM, SIGINT: end cleanly.
    Stop,
    /// SIGHUP: read the configuration again.
    Reload,
}

/// The signals of this process.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

/// The process that has started this one and attends it: its end is that of our standard input.
pub struct Attendant(Option<Receiver>);

impl Attendant {
    /// Without one, nobody's end is waited for. Must run within a tokio runtime.
    pub fn open(is_attended: bool) -> io::Result<Self> {
        if !is_attended {
            return Ok(Self(None));
        }
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        Receiver::from_owned_fd(input).map(|input| Self(Some(input)))
    }

    /// Waits until it has ended, however that was. Says so once.
    pub async fn ended(&mut self) {
        let Some(input) = &mut self.0 else {
            return std::future::pending().await;
        };
        let mut octets = [0; 16];
        while matches!(input.read(&mut octets).await, Ok(1..)) {}
        self.0 = None;
    }
}

/// From here on, SIGHUP does not end the process. Must run within a tokio runtime.
pub fn hang_ups() -> io::Result<Signal> {
    signal(SignalKind::hangup())
}

impl Signals {
    /// From here on, no signal ends the process. Must run within a tokio runtime.
    pub fn new(hang_up: Signal) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up,
        })
    }

    /// The next signal. Nothing is lost when this future is dropped.
    pub async fn next(&mut self) -> Signalled {
        tokio::select! {
            _ = self.terminate.recv() => Signalled::Stop,
            _ = self.interrupt.recv() => Signalled::Stop,
            _ = self.hang_up.recv() => Signalled::Reload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_manager_gets_one_datagram_a_notice() {
        let path = env::temp_dir().join(format!("caravan-notify-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        let mut buffer = [0; 256];
        for (notice, expected) in [
            (ServiceState::Ready, "READY=1"),
            (ServiceState::Stopping, "STOPPING=1"),
            (ServiceState::Status("a\nb"), "STATUS=a b"),
        ] {
            send(path.as_os_str(), &notice.text()).unwrap();
            let length = manager.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], expected.as_bytes());
        }
        assert!(ServiceState::Reloading.text().contains("\nMONOTONIC_USEC="));
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn the_end_of_an_attendant_is_heard_once() {
        let (theirs, ours) = io::pipe().unwrap();
        let input = Receiver::from_owned_fd(theirs.into()).unwrap();
        let mut attendant = Attendant(Some(input));
        let soon = std::time::Duration::from_millis(20);
        let mut waits = Box::pin(attendant.ended());
        assert!(tokio::time::timeout(soon, &mut waits).await.is_err());
        drop(ours);
        waits.await;
        let again = tokio::time::timeout(soon, attendant.ended()).await;
        assert!(again.is_err());
        let mut nobody = Attendant::open(false).unwrap();
        assert!(tokio::time::timeout(soon, nobody.ended()).await.is_err());
    }

    #[test]
    fn a_manager_on_an_abstract_address_is_reached() {
        let name = format!("caravan-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(format!("@{name}").as_ref(), "READY=1").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(manager.recv(&mut buffer).unwrap(), 7);
    }

    #[test]
    fn a_failure_is_read_back_whole_until_the_next_process_begins() {
        let folder = env::temp_dir().join(format!("caravan-outcome-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(last_failure(&folder, "road"), None);
        let mut outcome = Outcome::open(&folder, "road").unwrap();
        assert_eq!(last_failure(&folder, "road"), None, "it runs");
        // The words of a log line, and a second line: nothing is taken apart.
        let reason = "caravan: cannot bind UDP ports 500 and 4500\nin use";
        outcome.failed(reason);
        assert_eq!(last_failure(&folder, "road").as_deref(), Some(reason));
        assert_eq!(background_names(&folder), ["road".to_owned()].into());
        let mut late = Outcome::open(&folder, "road").unwrap();
        late.failed("a connection named \"road\" is already running, and more than the next one");
        outcome.failed(reason);
        assert_eq!(last_failure(&folder, "road").as_deref(), Some(reason));
        Outcome::open(&folder, "road").unwrap();
        assert_eq!(last_failure(&folder, "road"), None);
        // Another one begins in the foreground, or the connection is taken down.
        forget_failure(&folder, "road");
        assert_eq!(background_names(&folder).len(), 1, "it may still run");
        outcome.failed(reason);
        forget_failure(&folder, "road");
        assert!(background_names(&folder).is_empty());
        forget_failure(&folder, "road");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
