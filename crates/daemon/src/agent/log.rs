//! The log: an append-only file of chained lines ([`engine::agent::chain`]), mode 0600.
//!
//! A line is written before what follows it is done, and is on the disk soon after: a kill loses no
//! line, a loss of power the last ones. A file is one agent's alone.
//!
//! What cannot be written is kept until it can: standing tunnels and their ends go on. Nothing new
//! begins meanwhile ([`Log::is_ready`]): there must be room for all that it will say.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use anyhow::{Context as _, bail};
use engine::agent::audit::{Event, Role, Step};
use engine::agent::chain::{self, Head, Whole};
use engine::agent::identity::Keys;
use engine::time::Calendar;
use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, Flock, FlockArg, fallocate};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK};
use nix::sys::stat::{major, minor};
use nix::unistd::Uid;
use tracing::{info, warn};

use super::clock::calendar;
use crate::files;

/// Octets of a log that is gone through at a start. A larger one is moved away first.
pub(super) const LEN_MAX: u64 = 1 << 28;
const OTHERS: u32 = 0o077;
/// Lines after which the agent signs its log.
const SIGNED_EVERY: u64 = 32;
/// Octets that the disk keeps for the log, twice as many as what begins may need: the ends of
/// standing tunnels are written on a full disk too.
const ROOM: u64 = 32 << 10;
/// Lines that wait for the disk. Refusals go first, and the number of what is lost is written.
const KEPT_MAX: usize = 1_024;

/// A log that is written.
pub(super) struct Log {
    file: Flock<File>,
    path: PathBuf,
    head: Head,
    role: Role,
    /// Octets of its lines.
    len: u64,
    /// A write has failed, and may have left a part of its line in the file.
    is_torn: bool,
    /// Octets for which the disk has room.
    room: u64,
    /// Signs the log, and how many lines it has signed.
    signer: Option<(Keys, u64)>,
    /// Events that could not be written yet.
    kept: VecDeque<Event>,
    /// Those for which there was no place.
    lost: u64,
    /// What is wrong with it.
    trouble: Option<String>,
    disk: Disk,
}

/// Brings to the disk what was written, in a thread of its own.
struct Disk {
    /// Asks for it.
    asks: SyncSender<()>,
    /// Whether the disk has refused it last.
    has_refused: Arc<AtomicBool>,
}

/// The name in the chain of a role's log.
pub(super) fn name_of(role: Role) -> &'static str {
    match role {
        Role::Client => "client",
        Role::Host => "host",
        Role::Target => "target",
    }
}

impl Log {
    /// Whether it could be opened. Nothing is made, changed or locked: an agent may write it.
    pub(super) fn check(path: &Path, role: Role) -> anyhow::Result<()> {
        check_folder(path)?;
        let mut options = File::options();
        options.read(true);
        options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        let file = match options.open(path) {
            Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened.with_context(|| format!("cannot open the log {}", path.display()))?,
        };
        check_file(&file, path)?;
        read(&file, path, role).map(drop)
    }

    /// Opens or makes it, goes through its chain, and cuts a torn line off.
    pub(super) fn open(path: &Path, role: Role, at: Calendar) -> anyhow::Result<Self> {
        let context = || format!("cannot open the log {}", path.display());
        check_folder(path)?;
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(0o600);
        options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        let file = options.open(path).with_context(context)?;
        check_file(&file, path)?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((file, Errno::EWOULDBLOCK)) => bail!("{}", taken(path, &file)),
            Err((_, errno)) => return Err(errno).with_context(context),
        };
        let whole = read(&file, path, role)?;
        if whole.torn > 0 {
            file.set_len(whole.octets as u64).with_context(context)?;
        }
        let other = file.try_clone().with_context(context)?;
        let mut log = Self {
            file,
            path: path.to_owned(),
            head: whole.head,
            role,
            len: whole.octets as u64,
            is_torn: false,
            room: 0,
            signer: None,
            kept: VecDeque::new(),
            lost: 0,
            trouble: None,
            disk: Disk::start(other).with_context(context)?,
        };
        if whole.torn > 0 {
            log.write(&Event::new(at, role, Step::LogTorn));
        }
        Ok(log)
    }

    /// Signs it with these keys: now, every [`SIGNED_EVERY`] lines, and when it is closed.
    pub(super) fn signed_by(mut self, keys: Keys, at: Calendar) -> Self {
        self.signer = Some((keys, 0));
        self.sign(at);
        self
    }

    /// Signs the lines so far, if there are new ones. Without room for it the next does.
    fn sign(&mut self, at: Calendar) {
        let Some((keys, signed)) = &self.signer else {
            return;
        };
        if *signed == self.head.lines {
            return;
        }
        let text = chain::signed_text(name_of(self.role), self.head, keys, at);
        // Its own line is covered by the next.
        let signed = self.head.lines + 1;
        if self.append(&text).is_ok() {
            self.signer.as_mut().expect("as above").1 = signed;
        }
    }

    /// Writes a line about an event, now or once it can be.
    pub(super) fn write(&mut self, event: &Event) {
        info!("{event}");
        if self.kept.len() >= KEPT_MAX {
            self.lost += 1;
            let mut kept = self.kept.iter();
            match kept.position(|it| it.step == Step::Refused) {
                Some(at) => drop(self.kept.remove(at)),
                None => return,
            }
        }
        self.kept.push_back(event.clone());
        if let Err(fault) = self.flush() {
            self.judge(Some(format!("{fault:#}")));
        }
    }

    /// Whether something may begin that will be told here: the file is the one that is named, all
    /// so far is written, and there is room. It is said when that changes.
    pub(super) fn is_ready(&mut self) -> bool {
        let ready = self.check_file().and_then(|()| self.flush());
        let ready = ready.and_then(|()| self.reserve());
        self.judge(ready.err().map(|fault| format!("{fault:#}")));
        self.trouble.is_none()
    }

    fn judge(&mut self, trouble: Option<String>) {
        match (&trouble, &self.trouble) {
            (Some(new), old) if old.as_ref() != Some(new) => warn!(
                "{new}: no new tunnel begins until that is mended; {} lines wait",
                self.kept.len()
            ),
            (None, Some(_)) => info!("the log {} is well again", self.path.display()),
            _ => {}
        }
        self.trouble = trouble;
    }

    /// Another program may have removed or replaced the file, or written into it.
    fn check_file(&self) -> anyhow::Result<()> {
        let named = fs::symlink_metadata(&self.path);
        let found = self.file.metadata()?;
        let is_it = named.is_ok_and(|it| (it.dev(), it.ino()) == (found.dev(), found.ino()));
        if !is_it {
            bail!(
                "the log {} was removed or replaced: put it back, or start the agent again",
                self.path.display()
            );
        }
        if found.len() != self.len && !self.is_torn {
            bail!(
                "the log {} was changed by another program: keep it, and start the agent with \
                 another log_file",
                self.path.display()
            );
        }
        if self.disk.has_refused.load(Ordering::Relaxed) {
            self.disk.ask();
            bail!(
                "the log {} cannot be brought to the disk",
                self.path.display()
            );
        }
        Ok(())
    }

    /// Has the disk keep room for what is to be written.
    fn reserve(&mut self) -> anyhow::Result<()> {
        if self.room >= self.len + ROOM / 2 {
            return Ok(());
        }
        let (from, len) = (i64::try_from(self.len)?, i64::try_from(ROOM)?);
        let keep = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        match fallocate(&*self.file, keep, from, len) {
            // A file system that cannot promise room.
            Ok(()) | Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => {
                self.room = self.len + ROOM;
                Ok(())
            }
            Err(errno) => {
                let text = format!("there is no room for the log {}", self.path.display());
                Err(errno).context(text)
            }
        }
    }

    /// Writes what is kept, in its order.
    fn flush(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.kept.front() {
            let (text, at) = (event.to_string(), event.at);
            self.append(&text)?;
            self.kept.pop_front();
            if let Some((_, signed)) = &self.signer
                && self.head.lines - signed >= SIGNED_EVERY
            {
                self.sign(at);
            }
        }
        if self.lost > 0 {
            let mut event = Event::new(calendar(), self.role, Step::LogGap);
            event.unlogged = self.lost;
            self.append(&event.to_string())?;
            self.lost = 0;
        }
        Ok(())
    }

    /// Appends a line, all of it or nothing.
    fn append(&mut self, text: &str) -> anyhow::Result<()> {
        let context = || format!("cannot write the log {}", self.path.display());
        let mut head = self.head;
        let line = head.append(text);
        let mut file: &File = &self.file;
        if self.is_torn {
            // This gives the disk's room back, too.
            file.set_len(self.len).with_context(context)?;
            (self.is_torn, self.room) = (false, 0);
        }
        if let Err(fault) = file.write_all(line.as_bytes()) {
            self.is_torn = true;
            return Err(fault).with_context(context);
        }
        self.head = head;
        self.len += line.len() as u64;
        self.disk.ask();
        Ok(())
    }

    /// Its end, to be noted elsewhere.
    pub(super) fn head(&self) -> Head {
        self.head
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Nobody is left who could be told.
        let _ = self.flush();
        self.sign(calendar());
        let _ = self.file.sync_data();
    }
}

/// Another agent has the log.
fn taken(path: &Path, file: &File) -> String {
    let process = match locker(file) {
        Some(pid) => format!("process {pid}"),
        None => "its number is not known here".to_owned(),
    };
    format!(
        "another agent writes {} ({process}): end it first, or name another log_file",
        path.display()
    )
}

/// The process that writes the log of this name, if one does and can be seen here.
pub(super) fn holder(path: &Path) -> Option<u32> {
    locker(&files::open_plain(path).ok()?)
}

/// The process that has locked a file (proc_locks(5)).
fn locker(file: &File) -> Option<u32> {
    let found = file.metadata().ok()?;
    let (device, inode) = (found.dev(), found.ino());
    let place = format!("{:02x}:{:02x}:{inode}", major(device), minor(device));
    let table = fs::read_to_string("/proc/locks").ok()?;
    let mut pids = table.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            // Who waits for a lock has an arrow here.
            [_, "FLOCK", _, _, pid, of, ..] if of == place => pid.parse().ok(),
            _ => None,
        }
    });
    pids.find(|pid| *pid > 0)
}

/// Refuses a folder in which others could put another file in the place of the log.
fn check_folder(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    let context = || format!("cannot open the folder of the log, {}", folder.display());
    let folder = folder.canonicalize().with_context(context)?;
    let opened = files::open_folder(&folder).with_context(context)?;
    if !files::is_ours_alone(&opened.metadata().with_context(context)?) {
        bail!(
            "other users can write into {}, so a log in it is not trusted: make it its user's \
             own, mode 0700, or name another log_file",
            folder.display()
        );
    }
    Ok(())
}

/// Refuses a file that is not ours alone.
fn check_file(file: &File, path: &Path) -> anyhow::Result<()> {
    let found = file.metadata();
    let found = found.with_context(|| format!("cannot open the log {}", path.display()))?;
    let is_ours = found.is_file() && found.uid() == Uid::effective().as_raw();
    if !is_ours || found.permissions().mode() & OTHERS != 0 {
        bail!(
            "{} is not a file of ours alone (mode 0600): another log_file, or `chmod 600`",
            path.display()
        );
    }
    if found.len() > LEN_MAX {
        bail!(
            "{} has more than {} MiB: move it away, and note the end that `caravan tunnel-agent \
             audit` prints",
            path.display(),
            LEN_MAX >> 20
        );
    }
    Ok(())
}

/// Goes through the chain of a log.
fn read(mut file: &File, path: &Path, role: Role) -> anyhow::Result<Whole> {
    let mut text = Vec::new();
    let read = file.read_to_end(&mut text);
    read.with_context(|| format!("cannot open the log {}", path.display()))?;
    chain::verify(name_of(role), &text, None, None).with_context(|| {
        format!(
            "{} is no log of this agent, or was changed: keep it, and name another log_file",
            path.display()
        )
    })
}

impl Disk {
    fn start(file: File) -> anyhow::Result<Self> {
        let (asks, asked) = sync_channel(1);
        let has_refused = Arc::new(AtomicBool::new(false));
        let refused = has_refused.clone();
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || sync(&file, &asked, &refused))?;
        Ok(Self { asks, has_refused })
    }

    fn ask(&self) {
        // One that is asked for and not begun brings all that was written.
        let _ = self.asks.try_send(());
    }
}

/// Ends with the log.
fn sync(file: &File, asked: &Receiver<()>, has_refused: &AtomicBool) {
    while asked.recv().is_ok() {
        has_refused.store(file.sync_data().is_err(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_log_goes_on_after_a_torn_line_and_is_one_agent_s_alone() {
        let name = format!("caravan-agent-log-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("host.log");
        let event = |step| Event::new(Calendar(1_800_000_000), Role::Host, step);
        let open = || Log::open(&path, Role::Host, Calendar(1_800_000_000));
        let mut log = open().unwrap();
        log.write(&event(Step::KeyTaken));
        let said = open().err().map(|it| it.to_string());
        let own = format!("(process {})", std::process::id());
        let said = said.unwrap();
        assert!(
            said.contains("another agent writes") && said.contains(&own),
            "{said}"
        );
        assert_eq!(holder(&path), Some(std::process::id()));
        drop(log);
        assert_eq!(holder(&path), None);
        let mut text = fs::read(&path).unwrap();
        text.extend_from_slice(b"0123 torn");
        fs::write(&path, &text).unwrap();
        let log = open().unwrap();
        assert_eq!(log.head().lines, 2);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.lines().last().unwrap().ends_with("step=log-torn"),
            "{text}"
        );
        let whole = chain::verify("host", text.as_bytes(), Some(log.head()), None).unwrap();
        assert_eq!(whole.torn, 0);
        drop(log);
        fs::write(&path, text.replacen("key-taken", "key-failed", 1)).unwrap();
        let said = open().err().map(|it| it.to_string());
        assert!(said.is_some_and(|it| it.contains("was changed")));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let said = open().err().map(|it| it.to_string());
        assert!(said.is_some_and(|it| it.contains("ours alone")));
        fs::remove_dir_all(&folder).unwrap();
    }

    /// A log in a folder of its own.
    fn folder(name: &str) -> PathBuf {
        let name = format!("caravan-agent-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn opened(path: &Path) -> anyhow::Result<Log> {
        Log::open(path, Role::Host, Calendar(1_800_000_000))
    }

    fn taken() -> Event {
        Event::new(Calendar(1_800_000_000), Role::Host, Step::KeyTaken)
    }

    #[test]
    fn a_file_that_is_no_log_is_refused_and_stays_as_it_is() {
        let folder = folder("no-log");
        let path = folder.join("host.log");
        let start = Head::start("host").append("one");
        for other in [
            "a file without line feeds",
            &start[1..30],
            &start.replace(' ', "x"),
        ] {
            fs::write(&path, other.trim_end()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let said = opened(&path).err().map(|it| it.to_string());
            assert!(
                said.is_some_and(|it| it.contains("no log of this agent")),
                "{other}"
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), other.trim_end());
        }
        // The first line of ours, torn.
        for len in [1, 64, 65, start.len() - 1] {
            fs::write(&path, &start[..len]).unwrap();
            drop(opened(&path).unwrap());
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.ends_with("step=log-torn\n"), "{len}: {text}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_of_others_has_no_log() {
        let folder = folder("others");
        let path = folder.join("host.log");
        for (mode, is_good) in [(0o777, false), (0o770, false), (0o755, true), (0o700, true)] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let said = opened(&path).err().map(|it| it.to_string());
            assert_eq!(said.is_none(), is_good, "{mode:o}: {said:?}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_log_that_was_taken_away_or_changed_is_noticed_and_comes_back() {
        let folder = folder("away");
        let (path, away) = (folder.join("host.log"), folder.join("away"));
        let mut log = opened(&path).unwrap();
        log.write(&taken());
        assert!(log.is_ready());
        fs::rename(&path, &away).unwrap();
        assert!(!log.is_ready());
        // Another one in its place is not it.
        fs::write(&path, "").unwrap();
        assert!(!log.is_ready());
        assert!(
            log.trouble
                .as_ref()
                .unwrap()
                .contains("removed or replaced")
        );
        // What happens meanwhile is told in the file that is there.
        log.write(&taken());
        fs::rename(&away, &path).unwrap();
        assert!(log.is_ready());
        let text = fs::read(&path).unwrap();
        let whole = chain::verify("host", &text, Some(log.head()), None).unwrap();
        assert_eq!(whole.head.lines, 2);
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(10)
            .unwrap();
        assert!(!log.is_ready());
        assert!(
            log.trouble
                .as_ref()
                .unwrap()
                .contains("changed by another program")
        );
        drop(log);
        fs::remove_dir_all(&folder).unwrap();
    }

    /// The file cannot be written for a while. A full disk is in `test_agent_forms.py`.
    #[test]
    fn what_cannot_be_written_is_kept_and_written_in_its_order() {
        let folder = folder("kept");
        let path = folder.join("host.log");
        let mut log = opened(&path).unwrap();
        log.write(&taken());
        let flock = |file: File| Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        let good = std::mem::replace(&mut log.file, flock(File::open("/dev/null").unwrap()));
        let mut refused = taken();
        refused.step = Step::Refused;
        log.write(&refused);
        for _ in 0..KEPT_MAX {
            log.write(&taken());
        }
        assert_eq!((log.kept.len(), log.lost), (KEPT_MAX, 1));
        assert!(log.kept.iter().all(|it| it.step == Step::KeyTaken));
        log.write(&taken());
        assert_eq!((log.kept.len(), log.lost), (KEPT_MAX, 2));
        assert!(!log.is_ready());
        log.file = good;
        assert!(log.is_ready() && log.kept.is_empty());
        let text = fs::read_to_string(&path).unwrap();
        let whole = chain::verify("host", text.as_bytes(), Some(log.head()), None).unwrap();
        assert_eq!(whole.head.lines, 2 + KEPT_MAX as u64);
        assert!(text.ends_with("step=log-gap unlogged=2\n"), "{text}");
        drop(log);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_log_is_signed_at_its_start_now_and_then_and_at_its_end() {
        let name = format!("caravan-agent-signed-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("host.log");
        let at = Calendar(1_800_000_000);
        let keys = || Keys {
            sealing: crypto::hpke::SecretKey::of(&[1; 32]),
            signing: crypto::ed25519::SigningKey::of(&[2; 32]),
        };
        let by = Some(keys().identity().fingerprint());
        let read = || {
            let text = fs::read(&path).unwrap();
            chain::verify("host", &text, None, by).unwrap()
        };
        let open = || Log::open(&path, Role::Host, at).unwrap();
        let mut log = open().signed_by(keys(), at);
        assert_eq!(read().head.lines, 0, "there is nothing to sign");
        for _ in 0..SIGNED_EVERY + 5 {
            log.write(&Event::new(at, Role::Host, Step::KeyTaken));
        }
        assert_eq!(read().signed, SIGNED_EVERY);
        drop(log);
        let whole = read();
        assert_eq!(whole.signed + 1, whole.head.lines);
        // A log whose end somebody wrote is signed as it is found: that is a new start.
        drop(open().signed_by(keys(), at));
        assert_eq!(read().signed, whole.head.lines);
        fs::remove_dir_all(&folder).unwrap();
    }
}
