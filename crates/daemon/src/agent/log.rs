//! The log: an append-only file of chained lines ([`engine::agent::chain`]), mode 0600.
//!
//! A line is written before what follows it is done, and is on the disk soon after: a kill loses no
//! line, a loss of power the last ones. A file is one agent's alone.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use anyhow::{Context as _, bail};
use engine::agent::audit::{Event, Role, Step};
use engine::agent::chain::{self, Head};
use engine::agent::identity::Keys;
use engine::time::Calendar;
use nix::fcntl::{Flock, FlockArg};
use nix::libc::{O_CLOEXEC, O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::Uid;
use tracing::info;

use super::clock::calendar;

/// Octets of a log that is gone through at a start. A larger one is moved away first.
pub(super) const LEN_MAX: u64 = 1 << 28;
const OTHERS: u32 = 0o077;
/// Lines after which the agent signs its log.
const SIGNED_EVERY: u64 = 32;

/// A log that is written.
pub(super) struct Log {
    file: Flock<File>,
    path: PathBuf,
    head: Head,
    role: Role,
    /// Signs the log, and how many lines it has signed.
    signer: Option<(Keys, u64)>,
    /// Asks for what was written to be brought to the disk.
    syncs: SyncSender<()>,
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
    /// Opens or makes it, goes through its chain, and cuts a torn line off.
    pub(super) fn open(path: &Path, role: Role, at: Calendar) -> anyhow::Result<Self> {
        let context = || format!("cannot open the log {}", path.display());
        let mut options = File::options();
        options.read(true).append(true).create(true).mode(0o600);
        options.custom_flags(O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        let file = options.open(path).with_context(context)?;
        let found = file.metadata().with_context(context)?;
        let is_ours = found.is_file() && found.uid() == Uid::effective().as_raw();
        if !is_ours || found.permissions().mode() & OTHERS != 0 {
            bail!(
                "{} is not a file of ours alone (mode 0600): another log_file, or `chmod 600`",
                path.display()
            );
        }
        let file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| errno)
            .with_context(|| format!("another agent writes {}", path.display()))?;
        if found.len() > LEN_MAX {
            bail!(
                "{} has more than {} MiB: move it away, and note the end that `caravan \
                 tunnel-agent audit` prints",
                path.display(),
                LEN_MAX >> 20
            );
        }
        let mut text = Vec::new();
        let mut reader: &File = &file;
        reader.read_to_end(&mut text).with_context(context)?;
        let whole = chain::verify(name_of(role), &text, None, None).with_context(|| {
            format!(
                "{} was changed: keep it as evidence, and name another log_file",
                path.display()
            )
        })?;
        file.set_len(whole.octets as u64).with_context(context)?;
        let (syncs, asked) = sync_channel(1);
        let other = file.try_clone().with_context(context)?;
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || sync(&other, &asked))
            .with_context(context)?;
        let mut log = Self {
            file,
            path: path.to_owned(),
            head: whole.head,
            role,
            signer: None,
            syncs,
        };
        if whole.torn > 0 {
            log.write(&Event::new(at, role, Step::LogTorn))?;
        }
        Ok(log)
    }

    /// Signs it with these keys: now, every [`SIGNED_EVERY`] lines, and when it is closed.
    pub(super) fn signed_by(mut self, keys: Keys, at: Calendar) -> anyhow::Result<Self> {
        self.signer = Some((keys, 0));
        self.sign(at)?;
        Ok(self)
    }

    /// Signs the lines so far, if there are new ones.
    fn sign(&mut self, at: Calendar) -> anyhow::Result<()> {
        let Some((keys, signed)) = &mut self.signer else {
            return Ok(());
        };
        if *signed == self.head.lines {
            return Ok(());
        }
        let text = chain::signed_text(name_of(self.role), self.head, keys, at);
        // Its own line is covered by the next.
        *signed = self.head.lines + 1;
        self.append(&text)
    }

    /// Writes a line about an event.
    pub(super) fn write(&mut self, event: &Event) -> anyhow::Result<()> {
        let text = event.to_string();
        self.append(&text)?;
        info!("{text}");
        match &self.signer {
            Some((_, signed)) if self.head.lines - signed >= SIGNED_EVERY => self.sign(event.at),
            _ => Ok(()),
        }
    }

    fn append(&mut self, text: &str) -> anyhow::Result<()> {
        let line = self.head.append(text);
        let mut file: &File = &self.file;
        let written = file.write_all(line.as_bytes());
        written.with_context(|| format!("cannot write the log {}", self.path.display()))?;
        match self.syncs.try_send(()) {
            // One that is asked for and not begun brings this line too.
            Ok(()) | Err(TrySendError::Full(())) => Ok(()),
            Err(TrySendError::Disconnected(())) => {
                bail!(
                    "the log {} cannot be brought to the disk",
                    self.path.display()
                )
            }
        }
    }

    /// Its end, to be noted elsewhere.
    pub(super) fn head(&self) -> Head {
        self.head
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = self.sign(calendar());
        let _ = self.file.sync_data();
    }
}

/// Ends with the log, or when the disk refuses.
fn sync(file: &File, asked: &Receiver<()>) {
    while asked.recv().is_ok() {
        let synced: io::Result<()> = file.sync_data();
        if synced.is_err() {
            return;
        }
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
        log.write(&event(Step::KeyTaken)).unwrap();
        let said = open().err().map(|it| it.to_string());
        assert!(said.is_some_and(|it| it.contains("another agent writes")));
        drop(log);
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
        let mut log = open().signed_by(keys(), at).unwrap();
        assert_eq!(read().head.lines, 0, "there is nothing to sign");
        for _ in 0..SIGNED_EVERY + 5 {
            log.write(&Event::new(at, Role::Host, Step::KeyTaken))
                .unwrap();
        }
        assert_eq!(read().signed, SIGNED_EVERY);
        drop(log);
        let whole = read();
        assert_eq!(whole.signed + 1, whole.head.lines);
        // A log whose end somebody wrote is signed as it is found: that is a new start.
        drop(open().signed_by(keys(), at).unwrap());
        assert_eq!(read().signed, whole.head.lines);
        fs::remove_dir_all(&folder).unwrap();
    }
}
