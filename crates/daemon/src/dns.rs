//! The resolvers that come with a lease: taken while the tunnel is up, given back afterwards.
//!
//! Where systemd-resolved runs, it is told by `resolvectl` and forgets with the TUN device; else
//! `resolv.conf` is rewritten and its former self kept in the footprint.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::footprint::FootprintFile;

/// Where the C library looks.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The C library reads this many.
const RESOLVERS_MAX: usize = 3;
/// systemd-resolved's own folder.
const RESOLVED: &str = "/run/systemd/resolve";
/// By this first line a file of ours is known.
const HEADER: &str = "# written by caravan; the former content returns with the end of the tunnel";

/// How the resolvers were before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "was")]
pub enum Backup {
    /// A link to another file.
    Link {
        /// The file that we wrote.
        path: PathBuf,
        /// The other file.
        target: PathBuf,
    },
    /// A file.
    File {
        /// The file that we wrote.
        path: PathBuf,
        /// What it said.
        text: String,
    },
    /// Nothing was there.
    Absent {
        /// The file that we wrote.
        path: PathBuf,
    },
    /// systemd-resolved was told.
    Resolved {
        /// The device.
        tun: String,
    },
}

/// Uses these resolvers. An empty list gives the former ones back.
pub fn take(resolvers: &[IpAddr], tun: &str, file: &mut FootprintFile) -> io::Result<()> {
    if resolvers.is_empty() {
        return give_back(file);
    }
    if !uses_file() {
        let tun = tun.to_owned();
        let words: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
        let mut arguments = vec!["dns", &tun];
        arguments.extend(words.iter().map(String::as_str));
        resolvectl(&arguments)?;
        resolvectl(&["domain", &tun, "~."])?;
        return file.update(|footprint| footprint.dns = Some(Backup::Resolved { tun }));
    }
    take_file(resolvers, Path::new(RESOLV_CONF), file)
}

/// Whether resolvers are taken by rewriting [`RESOLV_CONF`]: systemd-resolved does not run.
pub fn uses_file() -> bool {
    !Path::new(RESOLVED).is_dir() || resolvectl(&["--version"]).is_err()
}

/// Rewrites this file; `take` does it where systemd-resolved does not run.
pub fn take_file(resolvers: &[IpAddr], path: &Path, file: &mut FootprintFile) -> io::Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if file.footprint.dns.is_none() {
        let backup = backup(path, &old)?;
        file.update(|footprint| footprint.dns = Some(backup))?;
    }
    replace(path, &rewritten(&old, resolvers))
}

/// Gives the former resolvers back, unless somebody else has written since.
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

/// Our resolvers; what else the file says (search lists, options) stays.
fn rewritten(old: &str, resolvers: &[IpAddr]) -> String {
    let own = resolvers
        .iter()
        .take(RESOLVERS_MAX)
        .map(|address| format!("nameserver {address}"));
    let kept = old.lines().map(str::trim).filter(|line| {
        line.starts_with("search") || line.starts_with("domain") || line.starts_with("options")
    });
    let lines = [HEADER.to_owned()].into_iter().chain(own);
    lines
        .chain(kept.map(str::to_owned))
        .map(|line| line + "\n")
        .collect()
}

fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.starts_with(HEADER))
}

/// Atomically, a link giving way to a file; a file that is a mount of its own is written in place.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = beside(path);
    let renamed = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
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

    fn case(name: &str) -> Case {
        let name = format!("caravan-dns-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let file = FootprintFile::open(&folder, "home").unwrap();
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
    fn a_file_is_rewritten_and_given_back() {
        let mut case = case("file");
        let path = case.folder.join("resolv.conf");
        let before = "# mine\nnameserver 192.0.2.53\nsearch example\n";
        fs::write(&path, before).unwrap();
        for _ in 0..2 {
            take_file(&resolvers(), &path, &mut case.file).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.ends_with("nameserver 10.10.0.53\nsearch example\n"),
            "{text}"
        );
        assert!(!text.contains("192.0.2.53"));
        give_back(&mut case.file).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        assert_eq!(case.file.footprint.dns, None);
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
        take_file(&resolvers(), &path, &mut case.file).unwrap();
        assert!(!path.is_symlink() && is_ours(&path));
        assert!(!is_ours(&target));
        give_back(&mut case.file).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), Path::new("stub.conf"));
    }

    #[test]
    fn what_was_absent_goes_and_what_others_wrote_stays() {
        let mut case = case("absent");
        let path = case.folder.join("resolv.conf");
        take_file(&resolvers(), &path, &mut case.file).unwrap();
        give_back(&mut case.file).unwrap();
        assert!(!path.exists());
        take_file(&resolvers(), &path, &mut case.file).unwrap();
        fs::write(&path, "nameserver 198.51.100.1\n").unwrap();
        give_back(&mut case.file).unwrap();
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            "nameserver 198.51.100.1\n"
        );
    }
}
