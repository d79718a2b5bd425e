//! Texts of a writer, carried out on this machine: files are written, commands run.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use engine::agent::writers::{Order, Texts};
use nix::fcntl::AtFlags;
use nix::unistd::{AccessFlags, Uid, faccessat};

use super::BackendError;
use crate::files;

/// How long a command may take. `ipsec auto --up` waits for IKE.
const COMMAND_MAX: Duration = Duration::from_secs(45);
const TICK: Duration = Duration::from_millis(20);
const WRITABLE_BY_OTHERS: u32 = 0o022;
const STICKY: u32 = 0o1000;
/// Octets of what a command prints: pluto tells some thousand of each connection.
const OUTPUT_MAX: u64 = 16 << 20;
/// Signs of its words that are told when it fails.
const WORDS_MAX: usize = 2_048;

/// Whether files can be made in a folder, and by nobody else: it is there, and our own or root's.
pub(in crate::agent) fn check_folder(folder: &Path) -> Result<(), BackendError> {
    check(folder, |_| false)
}

/// The same for a folder in which we make folders of our own. Others may make theirs beside them if
/// it is sticky, as /run of a container can be: then nobody but the owner removes or renames ours.
pub(super) fn check_place(folder: &Path) -> Result<(), BackendError> {
    check(folder, |mode| mode & STICKY != 0)
}

fn check(folder: &Path, is_shared: impl Fn(u32) -> bool) -> Result<(), BackendError> {
    let told = |what| BackendError::file(what, folder);
    let opened = files::open_folder(folder).map_err(told("cannot open the folder"))?;
    let found = opened.metadata().map_err(told("cannot open the folder"))?;
    let is_ours = found.uid() == 0 || found.uid() == Uid::effective().as_raw();
    let is_writable = found.mode() & WRITABLE_BY_OTHERS != 0 && !is_shared(found.mode());
    if !is_ours || is_writable {
        let text = "make it its user's own, mode 0700, or name another folder (--runtime-dir, or \
                    folder in [back_end])";
        let fault = io::Error::new(ErrorKind::PermissionDenied, text);
        return Err(told("other users can write into")(fault));
    }
    let is_allowed = faccessat(&opened, ".", AccessFlags::W_OK, AtFlags::AT_EACCESS);
    is_allowed.map_err(|errno| told("cannot write into")(errno.into()))
}

/// Writes every file for its owner alone.
pub(super) fn write_files(texts: &Texts) -> Result<(), BackendError> {
    for file in &texts.files {
        write_private(Path::new(&file.path), file.text.as_bytes())?;
    }
    Ok(())
}

/// Writes a new file, mode 0600. What was there under this name is removed first: nothing is
/// written through a link, or into a file that somebody else has open.
pub(super) fn write_private(path: &Path, octets: &[u8]) -> Result<(), BackendError> {
    let told = |fault| BackendError::file("cannot write", path)(fault);
    match fs::remove_file(path) {
        Err(fault) if fault.kind() != ErrorKind::NotFound => return Err(told(fault)),
        _ => {}
    }
    let mut options = File::options();
    let opened = options.write(true).create_new(true).mode(0o600).open(path);
    let written = opened.and_then(|mut file| file.write_all(octets));
    written.map_err(told)
}

/// Removes the files of a folder whose names begin so. Tells how many.
pub(super) fn remove_files(folder: &Path, start: &str) -> Result<usize, BackendError> {
    let entries = match fs::read_dir(folder) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(0),
        entries => entries.map_err(BackendError::file("cannot read", folder))?,
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry.map_err(BackendError::file("cannot read", folder))?;
        let name = entry.file_name();
        if !name.to_string_lossy().starts_with(start) {
            continue;
        }
        let path = entry.path();
        fs::remove_file(&path).map_err(BackendError::file("cannot remove", &path))?;
        removed += 1;
    }
    Ok(removed)
}

/// Runs commands in their order until one fails.
pub(super) async fn run(orders: Vec<Order>) -> Result<(), BackendError> {
    blocking(move || orders.iter().try_for_each(|order| run_one(order).map(drop))).await
}

/// Runs all of them. One that fails has found nothing to undo, or tells why not.
pub(super) async fn run_all(orders: Vec<Order>) -> Vec<BackendError> {
    let all = move || {
        let failed = orders.iter().filter_map(|order| run_one(order).err());
        Ok(failed.collect())
    };
    blocking(all).await.unwrap_or_else(|error| vec![error])
}

/// What a command prints.
pub(super) async fn output(words: &[&str]) -> Result<String, BackendError> {
    let order = Order(words.iter().map(|word| (*word).to_owned()).collect());
    blocking(move || run_one(&order)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|fault| {
        Err(BackendError::Process {
            what: "a command",
            source: io::Error::other(fault),
        })
    })
}

fn run_one(order: &Order) -> Result<String, BackendError> {
    let what = || {
        order
            .0
            .iter()
            .take(3)
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let refused = |text: String| BackendError::Refused { what: what(), text };
    let Some((program, arguments)) = order.0.split_first() else {
        return Err(refused("it is empty".to_owned()));
    };
    let started = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = started.map_err(|fault| refused(fault.to_string()))?;
    // Both pipes are read, or a command with much to say would wait for ever.
    let readers = [
        child.stdout.take().map(|pipe| reader(Box::new(pipe))),
        child.stderr.take().map(|pipe| reader(Box::new(pipe))),
    ];
    let until = Instant::now() + COMMAND_MAX;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(TICK),
            Ok(None) => {
                // It may end just now.
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            Err(fault) => return Err(refused(fault.to_string())),
        }
    };
    let [said, complained] = readers.map(|reader| {
        let read = reader.and_then(|thread| thread.join().ok());
        read.unwrap_or_default()
    });
    match status {
        Some(status) if status.success() => Ok(said),
        Some(status) => {
            let words = said.trim().chars().chain(complained.trim().chars());
            let words: String = words.take(WORDS_MAX).collect();
            Err(refused(format!("{status}: {words}")))
        }
        None => Err(refused(format!("no end in {} s", COMMAND_MAX.as_secs()))),
    }
}

/// Reads all of a pipe and keeps its start.
fn reader(mut pipe: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = (&mut pipe).take(OUTPUT_MAX).read_to_end(&mut kept);
        let _ = io::copy(&mut pipe, &mut io::sink());
        String::from_utf8_lossy(&kept).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_of_others_is_a_place_for_ours_only_if_it_is_sticky() {
        let name = format!("caravan-agent-place-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        for (mode, is_folder, is_place) in [
            (0o700, true, true),
            (0o755, true, true),
            (0o777, false, false),
            (0o1777, false, true),
        ] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_folder(&folder).is_ok(), is_folder, "{mode:o}");
            assert_eq!(check_place(&folder).is_ok(), is_place, "{mode:o}");
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
