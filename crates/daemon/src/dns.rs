//! The resolvers that come with a lease: used while the tunnel is up, restored afterwards.
//!
//! If systemd-resolved runs, `resolvectl` configures it, and it forgets the setting with the TUN
//! device. Otherwise `resolv.conf` is rewritten. Its former content is kept in the footprint, and
//! also in the state directory: after a power failure our file is still there and the footprint is
//! not.

pub mod anchors;
pub mod backup;

use std::fs::{self, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::footprint::{FootprintFile, written};
use crate::{files, leases};

pub use backup::{Backup, RESOLV_CONF};

/// The C library reads at most this many.
const RESOLVERS_MAX: usize = 3;
/// systemd-resolved's own folder.
const RESOLVED: &str = "/run/systemd/resolve";
/// Our files are recognized by this first line.
const HEADER: &str = "# written by caravan; the former content returns with the end of the tunnel";

/// The former content, in the process's folder of the state directory.
const KEPT: &str = "resolvers.json";
/// Longest such file. No real `resolv.conf` is longer.
const KEPT_BYTES_MAX: u64 = 1 << 20;

/// The resolvers that tunnels bring.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resolvers {
    /// Their addresses; empty: none.
    pub addresses: Vec<IpAddr>,
    /// Domains whose names alone they are asked for (RFC 8598); empty: all names.
    pub domains: Vec<String>,
    /// Keys of DNSSEC, as DS records. They also come with resolvers that are not asked.
    pub trust_anchors: Vec<String>,
}

/// Uses these resolvers. Without addresses it restores the former ones. `state` is the process's
/// folder in the state directory. A file cannot tell names apart, so there the resolvers are asked
/// for all of them.
pub fn take(
    resolvers: &Resolvers,
    tun: &str,
    state: &Path,
    file: &mut FootprintFile,
) -> io::Result<()> {
    let addresses = &resolvers.addresses;
    if addresses.is_empty() {
        return give_back(file);
    }
    if uses_file() {
        return take_file(addresses, Path::new(RESOLV_CONF), state, file);
    }
    for command in resolved_commands(resolvers, tun) {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        resolvectl(&words)?;
    }
    let tun = tun.to_owned();
    file.update(|footprint| footprint.dns = Some(Backup::Resolved { tun }))
}

/// What systemd-resolved is told. A domain after "~" decides who is asked and is no search domain;
/// "~." means every name, and a longer domain of another link wins. A link that has domains without
/// "~." is not asked for other names.
fn resolved_commands(resolvers: &Resolvers, tun: &str) -> [Vec<String>; 2] {
    let begin = |word: &str| vec![word.to_owned(), tun.to_owned()];
    let (mut dns, mut domain) = (begin("dns"), begin("domain"));
    dns.extend(resolvers.addresses.iter().map(ToString::to_string));
    match resolvers.domains.is_empty() {
        true => domain.push("~.".to_owned()),
        false => domain.extend(resolvers.domains.iter().map(|it| format!("~{it}"))),
    }
    [dns, domain]
}

/// Whether resolvers are set by rewriting [`RESOLV_CONF`], because systemd-resolved does not run.
pub fn uses_file() -> bool {
    !Path::new(RESOLVED).is_dir() || resolvectl(&["--version"]).is_err()
}

/// Rewrites this file. `take` calls it if systemd-resolved does not run.
pub fn take_file(
    resolvers: &[IpAddr],
    path: &Path,
    state: &Path,
    file: &mut FootprintFile,
) -> io::Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(files::at("cannot read", path)(error)),
    };
    if file.footprint.dns.is_none() {
        let backup = former(path, &old, state, file)?;
        file.update(|footprint| footprint.dns = Some(backup))?;
    }
    replace(path, &rewritten(&old, resolvers)).map_err(files::at("cannot write", path))
}

/// After a power failure: replaces what a forgotten process wrote to [`RESOLV_CONF`] by the former
/// content. `state` as in [`take`].
pub fn recall(state: &Path, file: &mut FootprintFile) -> io::Result<()> {
    recall_file(Path::new(RESOLV_CONF), state, file)
}

/// Whether we wrote [`RESOLV_CONF`]: a living process, or one that could not restore it.
pub fn is_taken() -> bool {
    is_ours(Path::new(RESOLV_CONF))
}

/// The same before any process of this name runs, for a command that is about to resolve a host
/// name, or that cleans up after a reboot. Returns whether the former resolvers are back.
pub fn recall_left(runtime_dir: &Path, state_dir: &Path, name: &str) -> io::Result<bool> {
    if !is_taken() {
        return Ok(false);
    }
    let mut file = FootprintFile::open(runtime_dir, name)?;
    recall(&leases::folder(state_dir, name), &mut file)?;
    file.close()?;
    Ok(!is_taken())
}

fn recall_file(path: &Path, state: &Path, file: &mut FootprintFile) -> io::Result<()> {
    let is_forgotten = file.footprint.dns.is_none() && is_ours(path) && !is_held(path, file);
    if is_forgotten && let Some(kept) = kept(path, state) {
        file.update(|footprint| footprint.dns = Some(kept))?;
    }
    give_back(file)
}

/// The content to restore at the end. A text of ours counts as former content only while another
/// process has stored the content before it.
fn former(path: &Path, old: &str, state: &Path, file: &FootprintFile) -> io::Result<Backup> {
    if !is_ours(path) {
        let backup = backup(path, old)?;
        if let Err(error) = keep(state, &backup) {
            let folder = state.display();
            warn!("the old resolvers cannot be stored in {folder} for a power failure: {error}");
        }
        return Ok(backup);
    }
    if is_held(path, file) {
        return backup(path, old);
    }
    Ok(kept(path, state).unwrap_or_else(|| Backup::File {
        path: path.to_owned(),
        text: settings(old).map(|line| line.to_owned() + "\n").collect(),
    }))
}

/// Whether another process, dead or alive, has stored the former content of this file.
fn is_held(path: &Path, file: &FootprintFile) -> bool {
    let Some(runtime_dir) = file.folder().parent() else {
        return false;
    };
    written(runtime_dir).any(|(folder, other)| {
        folder != file.folder() && other.dns.is_some_and(|backup| backup.is_of(path))
    })
}

/// Stores the former content where it survives a reboot.
fn keep(state: &Path, backup: &Backup) -> io::Result<()> {
    let folder = files::make_folder(state, 0o700)?;
    files::check_ours(&folder, state)?;
    let text = serde_json::to_vec_pretty(backup)?;
    files::replace(&folder, KEPT, &text)?.sync_all()?;
    folder.sync_all()
}

/// The former content of this file that any process stored last.
fn kept(path: &Path, state: &Path) -> Option<Backup> {
    let folders = fs::read_dir(state.parent()?)
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<_> = folders
        .filter_map(|folder| {
            let folder = folder.path();
            files::check_ours(&files::open_folder(&folder).ok()?, &folder).ok()?;
            let file = folder.join(KEPT);
            let text = files::read_ours(&file, KEPT_BYTES_MAX).ok()?;
            let backup: Backup = serde_json::from_slice(&text).ok()?;
            let at = fs::metadata(&file).ok()?.modified().ok()?;
            backup.is_of(path).then_some((at, backup))
        })
        .collect();
    found.sort_by_key(|(at, _)| *at);
    found.pop().map(|(_, backup)| backup)
}

/// Restores the former resolvers, unless somebody else has written the file since.
pub fn give_back(file: &mut FootprintFile) -> io::Result<()> {
    match file.footprint.dns.clone() {
        None => return Ok(()),
        // The device may be gone, and the setting with it.
        Some(Backup::Resolved { tun }) => drop(resolvectl(&["revert", &tun])),
        Some(Backup::Link { path, target }) if is_ours(&path) => {
            let new = beside(&path);
            let _ = fs::remove_file(&new);
            std::os::unix::fs::symlink(target, &new)?;
            fs::rename(&new, &path)?;
        }
        Some(Backup::File { path, text }) if is_ours(&path) => replace(&path, &text)?,
        Some(Backup::Absent { path }) if is_ours(&path) => fs::remove_file(&path)?,
        Some(_) => (),
    }
    file.update(|footprint| footprint.dns = None)
}

fn backup(path: &Path, old: &str) -> io::Result<Backup> {
    let path = path.to_owned();
    match fs::symlink_metadata(&path) {
        Ok(found) if found.is_symlink() => {
            let target = fs::read_link(&path)?;
            Ok(Backup::Link { path, target })
        }
        Ok(_) => Ok(Backup::File {
            path,
            text: old.to_owned(),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Backup::Absent { path }),
        Err(error) => Err(error),
    }
}

/// The text with our resolvers. Other settings (search lists, options) stay.
fn rewritten(old: &str, resolvers: &[IpAddr]) -> String {
    let own = resolvers
        .iter()
        .take(RESOLVERS_MAX)
        .map(|address| format!("nameserver {address}"));
    let lines = [HEADER.to_owned()].into_iter().chain(own);
    lines
        .chain(settings(old).map(str::to_owned))
        .map(|line| line + "\n")
        .collect()
}

/// Search lists and options.
fn settings(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| {
        line.starts_with("search") || line.starts_with("domain") || line.starts_with("options")
    })
}

fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.starts_with(HEADER))
}

/// Replaces atomically, a link by a file. A file that is a mount point is written in place.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = beside(path);
    // Every program of the host must be able to read it, whatever our umask is.
    let readable = || fs::set_permissions(&new, Permissions::from_mode(0o644));
    let written = fs::write(&new, text).and_then(|()| readable());
    let renamed = written.and_then(|()| fs::rename(&new, path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new);
        return fs::write(path, text);
    }
    Ok(())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".caravan");
    PathBuf::from(name)
}

fn resolvectl(arguments: &[&str]) -> io::Result<()> {
    let mut command = Command::new("resolvectl");
    command.args(arguments).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!(
        "resolvectl {}: {}",
        arguments.join(" "),
        text.trim()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        folder: PathBuf,
        file: FootprintFile,
    }

    impl Case {
        fn state(&self) -> PathBuf {
            self.folder.join("state/home.d")
        }

        fn take(&mut self, path: &Path) -> io::Result<()> {
            let state = self.state();
            take_file(&resolvers(), path, &state, &mut self.file)
        }

        /// Empties the runtime directory.
        fn reboot(&mut self) {
            let runtime = self.folder.join("run");
            fs::remove_dir_all(&runtime).unwrap();
            self.file = FootprintFile::open(&runtime, "home").unwrap();
        }
    }

    fn case(name: &str) -> Case {
        let name = format!("caravan-dns-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let file = FootprintFile::open(&folder.join("run"), "home").unwrap();
        Case { folder, file }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    fn resolvers() -> Vec<IpAddr> {
        vec!["10.10.0.53".parse().unwrap()]
    }

    #[test]
    fn resolved_asks_us_for_all_names_or_for_those_of_the_domains() {
        let mut all = Resolvers {
            addresses: resolvers(),
            ..Resolvers::default()
        };
        let told = |it: &Resolvers| resolved_commands(it, "tun0").map(|words| words.join(" "));
        assert_eq!(told(&all), ["dns tun0 10.10.0.53", "domain tun0 ~."]);
        all.domains = vec!["corp.example".into(), "lab.example".into()];
        assert_eq!(told(&all)[1], "domain tun0 ~corp.example ~lab.example");
    }

    #[test]
    fn a_file_is_rewritten_and_given_back() {
        let mut case = case("file");
        let path = case.folder.join("resolv.conf");
        let before = "# mine\nnameserver 192.0.2.53\nsearch example\n";
        fs::write(&path, before).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for _ in 0..2 {
            case.take(&path).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.ends_with("nameserver 10.10.0.53\nsearch example\n"),
            "{text}"
        );
        assert!(!text.contains("192.0.2.53"));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        give_back(&mut case.file).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        assert_eq!(case.file.footprint.dns, None);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let mut case = case("unwritable");
        let path = case.folder.join("no-such-folder/resolv.conf");
        let fault = case.take(&path).unwrap_err();
        let expected = format!("cannot write {}: No such file", path.display());
        assert!(fault.to_string().starts_with(&expected), "{fault}");
        give_back(&mut case.file).unwrap();
        fs::create_dir_all(&path).unwrap();
        let fault = case.take(&path).unwrap_err();
        let expected = format!("cannot read {}: Is a directory", path.display());
        assert_eq!(fault.to_string(), expected);
    }

    #[test]
    fn a_link_is_a_link_again_and_its_target_untouched() {
        let mut case = case("link");
        let (path, target) = (
            case.folder.join("resolv.conf"),
            case.folder.join("stub.conf"),
        );
        fs::write(&target, "nameserver 127.0.0.53\n").unwrap();
        std::os::unix::fs::symlink("stub.conf", &path).unwrap();
        case.take(&path).unwrap();
        assert!(!path.is_symlink() && is_ours(&path));
        assert!(!is_ours(&target));
        give_back(&mut case.file).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("stub.conf"));
    }

    #[test]
    fn what_was_absent_goes_and_what_others_wrote_stays() {
        let mut case = case("absent");
        let path = case.folder.join("resolv.conf");
        case.take(&path).unwrap();
        give_back(&mut case.file).unwrap();
        assert!(!path.exists());
        case.take(&path).unwrap();
        fs::write(&path, "nameserver 198.51.100.1\n").unwrap();
        give_back(&mut case.file).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "nameserver 198.51.100.1\n"
        );
    }

    const BEFORE: &str = "nameserver 192.0.2.53\nsearch example\n";

    #[test]
    fn a_power_failure_leaves_what_was_before() {
        let mut case = case("power");
        let path = case.folder.join("resolv.conf");
        fs::write(&path, BEFORE).unwrap();
        for is_recalled in [true, false] {
            case.take(&path).unwrap();
            case.reboot();
            assert!(is_ours(&path));
            let state = case.state();
            match is_recalled {
                true => recall_file(&path, &state, &mut case.file).unwrap(),
                // Text of ours does not count as former content.
                false => {
                    case.take(&path).unwrap();
                    give_back(&mut case.file).unwrap();
                }
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), BEFORE);
        }
        case.take(&path).unwrap();
        case.reboot();
        fs::remove_dir_all(case.state()).unwrap();
        case.take(&path).unwrap();
        give_back(&mut case.file).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "search example\n");
    }

    #[test]
    fn two_processes_give_back_what_each_found() {
        let mut case = case("two");
        let path = case.folder.join("resolv.conf");
        fs::write(&path, BEFORE).unwrap();
        case.take(&path).unwrap();
        let of_first = fs::read_to_string(&path).unwrap();
        let mut other = FootprintFile::open(&case.folder.join("run"), "work").unwrap();
        let state = case.folder.join("state/work.d");
        // The first process still runs, so its text is not a leftover.
        recall_file(&path, &state, &mut other).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), of_first);
        let own = ["10.20.0.53".parse().unwrap()];
        take_file(&own, &path, &state, &mut other).unwrap();
        give_back(&mut other).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), of_first);
        take_file(&own, &path, &state, &mut other).unwrap();
        drop(other);
        // The next process after a power failure restores the content before both.
        case.reboot();
        let mut other = FootprintFile::open(&case.folder.join("run"), "work").unwrap();
        recall_file(&path, &state, &mut other).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), BEFORE);
    }
}
