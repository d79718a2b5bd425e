//! Inner addresses that Target lends: one for each tunnel, remembered in a file, so that a new
//! agent does not lend an address again that is in use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use engine::agent::TunnelId;

use crate::files;

/// Octets of the file at most.
const LEN_MAX: u64 = 1 << 20;
/// Addresses of a pool at most: more tunnels than Target has at a time.
const COUNT_MAX: u32 = 1 << 16;

/// A pool.
pub(super) struct Pool {
    first: IpAddr,
    count: u32,
    lent: BTreeMap<String, IpAddr>,
    folder: File,
    name: String,
}

impl Pool {
    /// Opens a pool `ADDRESS/PREFIX`. What other tunnels than `former` have is free again.
    pub(super) fn open(network: &str, path: &Path, former: &[TunnelId]) -> anyhow::Result<Self> {
        let (first, count) = range(network).with_context(|| {
            format!("{network:?} is no pool: ADDRESS/PREFIX with host bits of zero and 2 of them")
        })?;
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
            first,
            count,
            lent,
            folder,
            name,
        })
    }

    /// How many addresses it has.
    pub(super) fn count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }

    /// Lends an address to a tunnel, or says which it has.
    pub(super) fn lend(&mut self, tunnel: TunnelId) -> anyhow::Result<IpAddr> {
        let key = tunnel.to_string();
        if let Some(address) = self.lent.get(&key) {
            return Ok(*address);
        }
        let taken: BTreeSet<IpAddr> = self.lent.values().copied().collect();
        let mut all = (0..self.count).map(|at| nth(self.first, at));
        let Some(address) = all.find(|it| !taken.contains(it)) else {
            bail!("all {} addresses of the pool are lent", self.count);
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

/// The addresses of a network that may be lent: without that of the network itself, and without
/// the last, IPv4's broadcast.
fn range(network: &str) -> Option<(IpAddr, u32)> {
    let (address, prefix) = network.split_once('/')?;
    let (address, prefix): (IpAddr, u32) = (address.parse().ok()?, prefix.parse().ok()?);
    let bits: u32 = if address.is_ipv4() { 32 } else { 128 };
    let host_bits = bits.checked_sub(prefix)?.min(127);
    let value = match address {
        IpAddr::V4(it) => u128::from(it.to_bits()),
        IpAddr::V6(it) => it.to_bits(),
    };
    if value & ((1 << host_bits) - 1) != 0 || host_bits < 2 {
        return None;
    }
    let all = 1u32.checked_shl(host_bits).unwrap_or(u32::MAX);
    let count = (all - 2).min(COUNT_MAX);
    Some((nth(address, 1), count))
}

fn nth(first: IpAddr, at: u32) -> IpAddr {
    match first {
        IpAddr::V4(it) => IpAddr::V4((it.to_bits() + at).into()),
        IpAddr::V6(it) => IpAddr::V6((it.to_bits() + u128::from(at)).into()),
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
        let mut pool = Pool::open("10.77.0.0/30", &path, &[]).unwrap();
        let [one, two] = [ids[0], ids[1]].map(|id| pool.lend(id).unwrap().to_string());
        assert_eq!([&one[..], &two], ["10.77.0.1", "10.77.0.2"]);
        assert_eq!(pool.lend(ids[0]).unwrap().to_string(), one);
        assert!(pool.lend(ids[2]).unwrap_err().to_string().contains("all 2"));
        let mut pool = Pool::open("10.77.0.0/30", &path, &ids[1..2]).unwrap();
        assert_eq!(pool.lent_to(ids[0]), None);
        assert_eq!(pool.lent_to(ids[1]).unwrap().to_string(), two);
        assert_eq!(pool.lend(ids[2]).unwrap().to_string(), one);
        assert_eq!(pool.lend(ids[1]).unwrap().to_string(), two);
        pool.take_back(ids[1]).unwrap();
        assert_eq!(pool.lend(ids[0]).unwrap().to_string(), two);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pool_is_a_network_with_room() {
        assert_eq!(
            range("fd00::/64"),
            Some(("fd00::1".parse().unwrap(), COUNT_MAX))
        );
        for wrong in [
            "10.77.0.1/24",
            "10.77.0.0/31",
            "10.77.0.0",
            "x/24",
            "10.77.0.0/33",
        ] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
        assert_eq!(range("0.0.0.0/0").unwrap().1, COUNT_MAX);
        assert_eq!(range("::/0").unwrap().1, COUNT_MAX);
    }
}
