//! Inner addresses that Target lends: one for each tunnel, remembered in a file, so that a new
//! agent does not lend an address again that is in use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use engine::agent::TunnelId;

use crate::config::agent::PoolRange;
use crate::files;

/// Octets of the file at most.
const LEN_MAX: u64 = 1 << 20;

/// A pool.
pub(super) struct Pool {
    range: PoolRange,
    lent: BTreeMap<String, IpAddr>,
    folder: File,
    name: String,
}

impl Pool {
    /// Opens a pool. What other tunnels than `former` have is free again.
    pub(super) fn open(range: PoolRange, path: &Path, former: &[TunnelId]) -> anyhow::Result<Self> {
        let context = || format!("cannot open {}", path.display());
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        let folder = parent.map_or_else(|| PathBuf::from("."), Path::to_path_buf);
        let folder = files::open_folder(&folder).with_context(context)?;
        let name = path.file_name().and_then(|it| it.to_str());
        let name = name.with_context(context)?.to_owned();
        let mut lent: BTreeMap<String, IpAddr> = match path.exists() {
            false => BTreeMap::new(),
            true => {
                let text = files::read_ours(path, LEN_MAX).with_context(context)?;
                serde_json::from_slice(&text)
                    .with_context(|| format!("{} is damaged", path.display()))?
            }
        };
        let former: BTreeSet<String> = former.iter().map(ToString::to_string).collect();
        lent.retain(|tunnel, _| former.contains(tunnel));
        Ok(Self {
            range,
            lent,
            folder,
            name,
        })
    }

    /// How many addresses it has.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.range.count).unwrap_or(usize::MAX)
    }

    /// Lends an address to a tunnel, or says which it has.
    pub(super) fn lend(&mut self, tunnel: TunnelId) -> anyhow::Result<IpAddr> {
        let key = tunnel.to_string();
        if let Some(address) = self.lent.get(&key) {
            return Ok(*address);
        }
        let taken: BTreeSet<IpAddr> = self.lent.values().copied().collect();
        let mut all = self.range.addresses();
        let Some(address) = all.find(|it| !taken.contains(it)) else {
            bail!("all {} addresses of the pool are lent", self.range.count);
        };
        self.lent.insert(key, address);
        self.write()?;
        Ok(address)
    }

    /// The address of a tunnel, if it has one.
    pub(super) fn lent_to(&self, tunnel: TunnelId) -> Option<IpAddr> {
        self.lent.get(&tunnel.to_string()).copied()
    }

    /// Takes the address of a tunnel back.
    pub(super) fn take_back(&mut self, tunnel: TunnelId) -> anyhow::Result<()> {
        match self.lent.remove(&tunnel.to_string()) {
            Some(_) => self.write(),
            None => Ok(()),
        }
    }

    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec(&self.lent)?;
        files::replace_durably(&self.folder, &self.name, &text)
            .with_context(|| format!("cannot write {}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_address_is_lent_once_also_after_a_restart() {
        let name = format!("caravan-agent-pool-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("target.leases");
        let ids = [1, 2, 3].map(|octet| TunnelId([octet; 16]));
        let range = PoolRange::parse("10.77.0.0/30").unwrap();
        let mut pool = Pool::open(range.clone(), &path, &[]).unwrap();
        let [one, two] = [ids[0], ids[1]].map(|id| pool.lend(id).unwrap().to_string());
        assert_eq!([&one[..], &two], ["10.77.0.1", "10.77.0.2"]);
        assert_eq!(pool.lend(ids[0]).unwrap().to_string(), one);
        assert!(pool.lend(ids[2]).unwrap_err().to_string().contains("all 2"));
        let mut pool = Pool::open(range, &path, &ids[1..2]).unwrap();
        assert_eq!(pool.lent_to(ids[0]), None);
        assert_eq!(pool.lent_to(ids[1]).unwrap().to_string(), two);
        assert_eq!(pool.lend(ids[2]).unwrap().to_string(), one);
        assert_eq!(pool.lend(ids[1]).unwrap().to_string(), two);
        pool.take_back(ids[1]).unwrap();
        assert_eq!(pool.lend(ids[0]).unwrap().to_string(), two);
        fs::remove_dir_all(&folder).unwrap();
    }
}
