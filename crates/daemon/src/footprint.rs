//! The footprint: every change of a process on its host, written down before it is made, so that it
//! can be undone after a crash.
//!
//! Each process has a folder `NAME.d` in the runtime directory with `footprint.json`, and `lock`,
//! which the living process holds; the kernel releases it however the process dies. Undoing trusts
//! the footprint, so it belongs to the steward's user, and a file that another user could have
//! written is not read.
//! written is not read.

mod undo;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::control::check_name;
use crate::dns::backup::Backup;
use crate::files;
use crate::nft::names::is_table_name;
use crate::routes::entries::{RoamingFootprint, Rule, TableRoute, is_interface};
use crate::routes::prefix::Prefix;

pub use undo::undo;

/// Longest footprint. Most of it are the former peers of a gateway.
const BYTES_MAX: u64 = 64 << 20;

const FILE: &str = "footprint.json";

/// The changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Footprint {
    /// The process's connections.
    pub connections: Vec<String>,
    /// Policy rules.
    pub rules: BTreeSet<Rule>,
    /// Routes into the tunnel.
    pub routes: BTreeSet<TableRoute>,
    /// Routing table of the blocking routes.
    pub table: u32,
    /// The TUN device.
    pub device: String,
    /// Unreachable routes, by connection. They outlive the process.
    pub blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// Connections whose blocks end with the process.
    pub passing: BTreeSet<String>,
    /// nftables tables of family inet.
    pub nft_tables: BTreeSet<String>,
    /// What Mobile IPv4 has on links.
    pub roaming: RoamingFootprint,
    /// The former state of the resolvers.
    pub dns: Option<Backup>,
    /// Whether keys of DNSSEC are in their file ([`crate::dns::anchors`]).
    pub has_trust_anchors: bool,
}

impl Footprint {
    /// Whether nothing is left to undo.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.routes.is_empty()
            && self.blocks.values().all(BTreeSet::is_empty)
            && self.nft_tables.is_empty()
            && self.roaming.is_empty()
            && self.dns.is_none()
            && !self.has_trust_anchors
    }

    /// Names reach command lines of other programs and nft's text. One that we could not have
    /// written makes the whole footprint untrusted.
    fn is_plain(&self) -> bool {
        let blocked = self.blocks.keys();
        let mut names = self.connections.iter().chain(blocked);
        let mut tables = self.nft_tables.iter();
        names.all(|name| check_name(name).is_ok())
            && tables.all(|table| is_table_name(table))
            && (self.device.is_empty() || is_interface(&self.device))
            && self.roaming.is_plain()
            && self.dns.as_ref().is_none_or(Backup::is_plain)
    }
}

/// How an nftables table must stay.
pub enum Listing {
    /// As nft lists it.
    Known(String),
    /// As it is listed while nftables is of this generation, that of its load.
    Of(Option<u32>),
}

/// The footprint on disk, held by one process at a time.
pub struct FootprintFile {
    folder: PathBuf,
    opened: File,
    /// The stored content.
    pub footprint: Footprint,
    /// Of each nftables table that this process has loaded: how it must stay. Not stored.
    pub listings: BTreeMap<String, Listing>,
    _lock: Flock<File>,
}

impl FootprintFile {
    /// Takes over the footprint of this name, with the content of an earlier process. `WouldBlock`
    /// while that process lives.
    pub fn open(runtime_dir: &Path, name: &str) -> io::Result<Self> {
        let folder = folder(runtime_dir, name);
        let named = files::at("cannot use", &folder);
        Self::open_at(folder.clone()).map_err(named)
    }

    fn open_at(folder: PathBuf) -> io::Result<Self> {
        let opened = files::make_folder(&folder, 0o700)?;
        files::check_ours(&opened, &folder)?;
        let lock = files::open_lock(&folder.join("lock"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        let footprint = match read(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Footprint::default(),
            found => found?,
        };
        Ok(Self {
            folder,
            opened,
            footprint,
            listings: BTreeMap::new(),
            _lock: lock,
        })
    }

    /// The folder, which only our user can write to.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether another process, dead or alive, also has this block.
    pub fn shares_block(&self, table: u32, prefix: &Prefix) -> bool {
        let runtime_dir = self.folder.parent().unwrap_or(&self.folder);
        let mut others = written(runtime_dir).filter(|(folder, _)| *folder != self.folder);
        others.any(|(_, other)| {
            let mut blocks = other.blocks.values();
            other.table == table && blocks.any(|prefixes| prefixes.contains(prefix))
        })
    }

    /// Whether another process, dead or alive, also needs this rule.
    pub fn shares_rule(&self, rule: &Rule) -> bool {
        let runtime_dir = self.folder.parent().unwrap_or(&self.folder);
        let mut others = written(runtime_dir).filter(|(folder, _)| *folder != self.folder);
        others.any(|(_, other)| other.rules.contains(rule))
    }

    /// The name of its process: the first connection of its own at its start.
    pub fn name(&self) -> String {
        let name = self.folder.file_stem().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Changes the footprint and stores it, all or nothing.
    pub fn update(&mut self, change: impl FnOnce(&mut Footprint)) -> io::Result<()> {
        let mut next = self.footprint.clone();
        change(&mut next);
        if next == self.footprint {
            return Ok(());
        }
        let text = serde_json::to_vec(&next).map_err(io::Error::other)?;
        if text.len() as u64 > BYTES_MAX {
            // A longer one could not be read back, and nothing would be undone.
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let named = files::at("cannot write into", &self.folder);
        files::replace(&self.opened, FILE, &text).map_err(named)?;
        self.footprint = next;
        Ok(())
    }

    /// Removes the folder once nothing is left to undo. Otherwise it stays.
    pub fn close(self) -> io::Result<()> {
        if self.footprint.is_empty() {
            let named = files::at("cannot remove", &self.folder);
            fs::remove_dir_all(&self.folder).map_err(named)?;
        }
        Ok(())
    }
}

/// Takes over the footprints of dead processes that contain this connection. Others are only read:
/// holding one for a moment would keep its process from starting. `WouldBlock` while a process with
/// the connection lives, or while its steward undoes its changes.
pub fn leftovers(runtime_dir: &Path, connection: &str) -> io::Result<Vec<FootprintFile>> {
    let holds = |footprint: &Footprint| {
        footprint.connections.iter().any(|name| name == connection)
            || footprint.blocks.contains_key(connection)
    };
    let mut found = Vec::new();
    for (folder, _) in written(runtime_dir).filter(|(_, footprint)| holds(footprint)) {
        let name = folder.file_stem().and_then(|name| name.to_str());
        found.push(FootprintFile::open(runtime_dir, name.unwrap_or_default())?);
    }
    Ok(found)
}

/// Whether a process of this name has left something, as far as its folder shows.
pub fn remains(runtime_dir: &Path, name: &str) -> bool {
    folder(runtime_dir, name).exists()
}

/// Every footprint with its folder, of dead and living processes.
pub fn written(runtime_dir: &Path) -> impl Iterator<Item = (PathBuf, Footprint)> {
    let entries = fs::read_dir(runtime_dir).into_iter().flatten();
    entries.filter_map(|entry| {
        let folder = entry.ok()?.path();
        let footprint = read(&folder).ok()?;
        Some((folder, footprint))
    })
}

/// Folders of the runtime directory that look like a footprint and that another user could have
/// written to, each with what to do about it.
pub fn strange(runtime_dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(runtime_dir).into_iter().flatten();
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let named = folders.filter(|path| path.extension().is_some_and(|end| end == "d"));
    let faults = named.filter_map(|path| {
        let folder = files::open_folder(&path).ok()?;
        let fault = files::check_ours(&folder, &path).err()?;
        Some(fault.to_string())
    });
    faults.collect()
}

/// Reads the footprint of a folder. One that we cannot have written is an error.
fn read(folder: &Path) -> io::Result<Footprint> {
    files::check_ours(&files::open_folder(folder)?, folder)?;
    let path = folder.join(FILE);
    let text = files::read_ours(&path, BYTES_MAX)?;
    let footprint: Footprint = serde_json::from_slice(&text).map_err(io::Error::other)?;
    if !footprint.is_plain() {
        let text = format!("{} contains names that are not ours", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(footprint)
}

/// The folder of a process of this name.
pub fn folder(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(format!("{name}.d"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_footprint_outlives_its_process_and_goes_when_undone() {
        let runtime = std::env::temp_dir().join(format!("caravan-foot-{}", std::process::id()));
        let mut file = FootprintFile::open(&runtime, "home").unwrap();
        file.update(|footprint| {
            footprint.connections.push("home".to_owned());
            footprint.nft_tables.insert("caravan_home".to_owned());
        })
        .unwrap();
        let error = FootprintFile::open(&runtime, "home").err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "it is alive");
        assert!(error.to_string().contains("home.d: "), "{error}");
        assert!(leftovers(&runtime, "home").is_err());
        assert_eq!(written(&runtime).count(), 1);
        drop(file);
        assert!(leftovers(&runtime, "work").unwrap().is_empty());
        let mut left = leftovers(&runtime, "home").unwrap();
        let mut file = left.pop().unwrap();
        assert!(file.footprint.nft_tables.contains("caravan_home"));
        file.update(|footprint| footprint.nft_tables.clear())
            .unwrap();
        file.close().unwrap();
        assert!(!runtime.join("home.d").exists());
        fs::remove_dir_all(&runtime).unwrap();
    }

    #[test]
    fn what_another_user_could_have_written_is_not_believed() {
        let runtime = std::env::temp_dir().join(format!("caravan-strange-{}", std::process::id()));
        let mut file = FootprintFile::open(&runtime, "home").unwrap();
        file.update(|footprint| footprint.table = 221).unwrap();
        drop(file);
        let folder = runtime.join("home.d");
        let text = folder.join(FILE);
        let is_read = || written(&runtime).count() == 1;
        assert!(is_read() && strange(&runtime).is_empty());
        let open_to_all = fs::Permissions::from_mode(0o666);
        fs::set_permissions(&text, open_to_all).unwrap();
        assert!(!is_read());
        fs::set_permissions(&text, fs::Permissions::from_mode(0o600)).unwrap();
        for evil in [
            r#"{"nft_tables": ["x\ndelete table inet filter"]}"#,
            r#"{"nft_tables": ["filter"]}"#,
            r#"{"connections": ["../../etc"]}"#,
            r#"{"blocks": {"a/b": []}}"#,
            r#"{"dns": {"was": "file", "path": "/etc/shadow", "text": ""}}"#,
            r#"{"dns": {"was": "absent", "path": "etc/resolv.conf"}}"#,
            r#"{"dns": {"was": "resolved", "tun": "-x"}}"#,
        ] {
            fs::write(&text, evil).unwrap();
            assert!(!is_read(), "{evil}");
            assert!(FootprintFile::open(&runtime, "home").is_err(), "{evil}");
        }
        fs::remove_file(&text).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &text).unwrap();
        assert!(FootprintFile::open(&runtime, "home").is_err());
        fs::remove_file(&text).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let fault = FootprintFile::open(&runtime, "home").err().unwrap();
        assert!(fault.to_string().contains("not trusted"), "{fault}");
        assert_eq!(strange(&runtime).len(), 1);
        fs::remove_dir_all(&runtime).unwrap();
    }

    #[test]
    fn who_looks_around_keeps_no_process_from_starting() {
        let runtime = std::env::temp_dir().join(format!("caravan-look-{}", std::process::id()));
        let mut file = FootprintFile::open(&runtime, "home").unwrap();
        file.update(|footprint| footprint.table = 221).unwrap();
        drop(file);
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let order = std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|threads| {
            threads.spawn(|| {
                while !is_over.load(order) {
                    assert_eq!(written(&runtime).count(), 1);
                    assert!(leftovers(&runtime, "work").unwrap().is_empty());
                }
            });
            let refused = (0..500).filter(|_| FootprintFile::open(&runtime, "home").is_err());
            let refused = refused.count();
            is_over.store(true, order);
            assert_eq!(refused, 0);
        });
        fs::remove_dir_all(&runtime).unwrap();
    }
}
