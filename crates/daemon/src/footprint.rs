//! What a process has changed on its host, written down before it is done, so that whoever comes
//! after a crash can undo it.
//!
//! One folder `NAME.d` a process in the runtime directory: `footprint.json`, and `lock`, which the
//! living process holds; the kernel lets go of it whatever the process dies of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::dns::Backup;
use crate::routes::{Prefix, Rule, TableRoute};

/// What was changed.
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
    /// Unreachable routes, by connection: they outlive the process.
    pub blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// Connections whose blocks end with the process all the same.
    pub passing: BTreeSet<String>,
    /// nftables tables of family inet.
    pub nft_tables: BTreeSet<String>,
    /// How the resolvers were before.
    pub dns: Option<Backup>,
}

impl Footprint {
    /// Connections that go on refusing traffic when the process has ended, and what they refuse.
    pub fn lasting_blocks(&self) -> impl Iterator<Item = (&String, &BTreeSet<Prefix>)> {
        let blocks = self.blocks.iter();
        blocks.filter(|(name, prefixes)| !prefixes.is_empty() && !self.passing.contains(*name))
    }

    /// Whether nothing is left to undo.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.routes.is_empty()
            && self.blocks.values().all(BTreeSet::is_empty)
            && self.nft_tables.is_empty()
            && self.dns.is_none()
    }
}

/// The footprint on disk, held by one process at a time.
pub struct FootprintFile {
    folder: PathBuf,
    /// What is written there.
    pub footprint: Footprint,
    _lock: Flock<File>,
}

impl FootprintFile {
    /// Takes the footprint of this name over, with what an earlier process left in it.
    /// `WouldBlock` while that process lives.
    pub fn open(runtime_dir: &Path, name: &str) -> io::Result<Self> {
        let folder = folder(runtime_dir, name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, errno)| io::Error::from(errno))?;
        let footprint = match fs::read(folder.join("footprint.json")) {
            Ok(text) => serde_json::from_slice(&text).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Footprint::default(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            folder,
            footprint,
            _lock: lock,
        })
    }

    /// The folder: what the process becomes another user for must be able to write here.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether another process, dead or alive, has this block as well.
    pub fn shares_block(&self, table: u32, prefix: &Prefix) -> bool {
        let runtime_dir = self.folder.parent().unwrap_or(&self.folder);
        let mut others = written(runtime_dir).filter(|(folder, _)| *folder != self.folder);
        others.any(|(_, other)| {
            let mut blocks = other.blocks.values();
            other.table == table && blocks.any(|prefixes| prefixes.contains(prefix))
        })
    }

    /// Whether another process, dead or alive, needs this rule as well.
    pub fn shares_rule(&self, rule: &Rule) -> bool {
        let runtime_dir = self.folder.parent().unwrap_or(&self.folder);
        let mut others = written(runtime_dir).filter(|(folder, _)| *folder != self.folder);
        others.any(|(_, other)| other.rules.contains(rule))
    }

    /// Changes the footprint and writes it down, all or nothing.
    pub fn update(&mut self, change: impl FnOnce(&mut Footprint)) -> io::Result<()> {
        let mut next = self.footprint.clone();
        change(&mut next);
        if next == self.footprint {
            return Ok(());
        }
        let path = self.folder.join("footprint.json");
        let new = self.folder.join("footprint.json.new");
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&next).map_err(io::Error::other)?)?;
        fs::rename(&new, &path)?;
        self.footprint = next;
        Ok(())
    }

    /// Removes the folder once nothing is left to undo; else it stays.
    pub fn close(self) -> io::Result<()> {
        if self.footprint.is_empty() {
            fs::remove_dir_all(&self.folder)?;
        }
        Ok(())
    }
}

/// Takes over the footprints that dead processes left and that hold this connection. Those of
/// others are only read: to hold one for a moment would keep its process from starting.
pub fn leftovers(runtime_dir: &Path, connection: &str) -> Vec<FootprintFile> {
    let holds = |footprint: &Footprint| {
        footprint.connections.iter().any(|name| name == connection)
            || footprint.blocks.contains_key(connection)
    };
    written(runtime_dir)
        .filter(|(_, footprint)| holds(footprint))
        .filter_map(|(folder, _)| {
            let name = folder.file_name()?.to_str()?.strip_suffix(".d")?;
            FootprintFile::open(runtime_dir, name).ok()
        })
        .collect()
}

/// Every footprint with its folder, of the dead and the living alike, as it stands.
pub fn written(runtime_dir: &Path) -> impl Iterator<Item = (PathBuf, Footprint)> {
    let entries = fs::read_dir(runtime_dir).into_iter().flatten();
    entries.filter_map(|entry| {
        let folder = entry.ok()?.path();
        let text = fs::read(folder.join("footprint.json")).ok()?;
        Some((folder, serde_json::from_slice(&text).ok()?))
    })
}

fn folder(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(format!("{name}.d"))
}

#[cfg(test)]
mod tests {
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
        assert!(leftovers(&runtime, "home").is_empty());
        assert_eq!(written(&runtime).count(), 1);
        drop(file);
        assert!(leftovers(&runtime, "work").is_empty());
        let mut left = leftovers(&runtime, "home");
        let mut file = left.pop().unwrap();
        assert!(file.footprint.nft_tables.contains("caravan_home"));
        file.update(|footprint| footprint.nft_tables.clear())
            .unwrap();
        file.close().unwrap();
        assert!(!runtime.join("home.d").exists());
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
                    assert!(leftovers(&runtime, "work").is_empty());
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
