//! Blocking routes: traffic that is refused while no tunnel carries it. They are installed first
//! when a configuration comes up, before anything that can fail or take long, such as name
//! resolution. They stay however the process ends; `caravan down` removes them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;
use engine::config::{Child, Config, Connection};
use engine::sa::Mode;
use engine::selector::TrafficSelector;
use tracing::warn;

use crate::config::Loaded;
use crate::control::client::none_runs;
use crate::footprint::{FootprintFile, leftovers, written};
use crate::nft;
use crate::routes::full::{self, Surroundings};
use crate::routes::{self, Desired, Own, Prefix, covering, prefixes, reach};

/// How many blocked networks of one connection a sentence lists.
const PREFIXES_SHOWN: usize = 8;

/// Installs the blocks of a configuration, unless another process holds it: then that process does.
pub async fn lay(runtime_dir: &Path, loaded: &Loaded) -> anyhow::Result<()> {
    let (Some((name, _)), desired) = (loaded.on_failure.first(), first(loaded)) else {
        return Ok(());
    };
    if desired.blocks.is_empty() {
        return Ok(());
    }
    let mut file = match FootprintFile::open(runtime_dir, name) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        opened => opened.context("cannot record the changes to this host")?,
    };
    let names = loaded.on_failure.iter().map(|(name, _)| name);
    file.update(|footprint| {
        let strange = names.filter(|name| !footprint.connections.contains(name));
        let strange: Vec<String> = strange.cloned().collect();
        footprint.connections.extend(strange);
    })?;
    routes::block(&desired, &Own::of(loaded), &mut file).await?;
    bind(&mut file);
    Ok(())
}

/// Extends a client's blocks to programs that bind to a device, if the host has nftables.
pub fn bind(file: &mut FootprintFile) {
    if let Err(error) = nft::bound::keep(file) {
        warn!("a program that binds to a device can bypass the blocks: {error}");
    }
}

/// The blocks before there is any tunnel, and their rules.
pub fn first(loaded: &Loaded) -> Desired {
    let mut desired = Desired {
        blocks: wanted(loaded),
        ..Desired::default()
    };
    if desired.blocks.is_empty() {
        return desired;
    }
    complete((loaded, &BTreeSet::new()), &[], &mut desired);
    // Parts that end with a process are not installed before it.
    desired
        .blocks
        .retain(|name, _| !desired.passing.contains(name));
    desired
}

/// The blocked prefixes of each blocking connection.
fn wanted(loaded: &Loaded) -> BTreeMap<String, BTreeSet<Prefix>> {
    let all = loaded.engine.connections.iter();
    let blocking = all.filter(|connection| loaded.is_blocking(&connection.name));
    let of = |connection: &Connection| reach(connection, &loaded.engine);
    let named = blocking.map(|connection| (connection.name.clone(), of(connection)));
    named.filter(|(_, prefixes)| !prefixes.is_empty()).collect()
}

/// Adds the effect of full tunnels, except those that are down, on the host's other traffic: the
/// other address family, which is refused, and the local network. If a connection's traffic may
/// pass without a tunnel, so may the other family once the process has ended.
pub fn complete(
    (loaded, downed): (&Loaded, &BTreeSet<String>),
    resolvers: &[IpAddr],
    desired: &mut Desired,
) {
    let all = loaded.full_tunnels.iter();
    let up = all.filter(|(name, _)| !downed.contains(*name));
    let mut tunnels = Vec::new();
    for (name, full) in up {
        tunnels.push(*full);
        let Some(other) = full.refused() else {
            continue;
        };
        let blocked = desired.blocks.entry(name.clone()).or_default();
        if blocked.is_empty() {
            desired.passing.insert(name.clone());
        }
        blocked.insert(other);
    }
    let taken = desired.taken();
    let around = Surroundings {
        taken: &taken,
        resolvers,
        takes_questions: loaded.daemon.dns,
    };
    desired.rules = full::rules(&tunnels, &around);
    if !resolvers.is_empty() {
        desired.spare(&reach::near(&loaded.daemon.tun));
    }
    desired.fit_to_kernel();
}

/// All that a connection's tunnels lead to, as far as the configuration names it.
pub fn reach(connection: &Connection, config: &Config) -> BTreeSet<Prefix> {
    if connection.remote_addrs.is_empty() {
        return behind_peers(connection, config);
    }
    let children = connection.children.iter();
    let targets = children.flat_map(|child| targets(connection, child));
    targets.map(|(prefix, _)| prefix).collect()
}

/// For a client: the destinations of a child, and whether each is the peer itself (transport mode).
pub fn targets(connection: &Connection, child: &Child) -> Vec<(Prefix, bool)> {
    match child.mode {
        Mode::Transport => {
            let peers = connection.remote_addrs.iter().map(|address| address.ip());
            // A peer with an unresolved name has no address yet.
            let known = peers.filter(|address| !address.is_unspecified());
            known.map(|address| (Prefix::host(address), true)).collect()
        }
        Mode::Tunnel => {
            let remote = child.remote.iter().flat_map(|s| prefixes(s.first, s.last));
            remote.map(|prefix| (prefix, false)).collect()
        }
    }
}

/// For a gateway: its pool addresses, and the networks behind its peers.
pub fn behind_peers(connection: &Connection, config: &Config) -> BTreeSet<Prefix> {
    let pools = connection.pools.iter();
    let pools = pools.filter_map(|index| config.pools.get(*index));
    let lent = pools.flat_map(|pool| covering(pool.first, pool.last));
    let children = connection.children.iter();
    let selectors = children.flat_map(|c| c.remote.iter().map(|s| (c.mode, s)));
    // In transport mode the addresses are those of the ends. A selector for any address is no
    // network.
    let is_anybody = |s: &TrafficSelector| {
        let all = TrafficSelector::everything(s.first);
        (s.first, s.last) == (all.first, all.last)
    };
    let behind = selectors
        .filter(|(mode, s)| *mode == Mode::Tunnel || !is_anybody(s))
        .flat_map(|(_, s)| prefixes(s.first, s.last));
    lent.chain(behind).collect()
}

/// One sentence on what stays blocked of these connections, and which packet filters stay; `None`
/// if nothing does, or if another process has them.
pub fn standing(runtime_dir: &Path, names: &[String]) -> Option<String> {
    if is_of_another(runtime_dir, names) {
        return None;
    }
    let mut blocks: BTreeMap<String, BTreeSet<Prefix>> = BTreeMap::new();
    let mut filters = Vec::new();
    for (_, footprint) in written(runtime_dir) {
        let tables = footprint.nft_tables.iter();
        let own = tables.filter_map(|table| nft::names::filtering(table));
        let own = own.filter(|own| names.iter().any(|name| name == own));
        filters.extend(own.map(nft::names::standing));
        let own = footprint.blocks.into_iter();
        for (name, prefixes) in own.filter(|(name, _)| names.contains(name)) {
            blocks.entry(name).or_default().extend(prefixes);
        }
    }
    let mut sentences = sentences(blocks.iter());
    sentences.append(&mut filters);
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

/// Whether a living process has one of these connections. `down` would end that.
fn is_of_another(runtime_dir: &Path, names: &[String]) -> bool {
    let is_held = |name: &String| {
        let left = leftovers(runtime_dir, name);
        left.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    none_runs(runtime_dir, names).is_err() || names.iter().any(is_held)
}

/// One sentence for each connection that stays blocked.
pub fn sentences<'a>(
    blocks: impl Iterator<Item = (&'a String, &'a BTreeSet<Prefix>)>,
) -> Vec<String> {
    let blocked = blocks.filter(|(_, prefixes)| !prefixes.is_empty());
    let sentence = |(name, prefixes): (&String, &BTreeSet<Prefix>)| {
        let shown = prefixes.iter().take(PREFIXES_SHOWN);
        let shown: Vec<String> = shown.map(ToString::to_string).collect();
        let (more, stay) = match (prefixes.len(), prefixes.len() - shown.len()) {
            (1, _) => (String::new(), "stays"),
            (_, 0) => (String::new(), "stay"),
            (_, more) => (format!(" and {more} more"), "stay"),
        };
        let shown = shown.join(", ");
        format!("{shown}{more} {stay} blocked; `caravan down {name}` unblocks that")
    };
    blocked.map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_living_process_has_blocked_is_not_called_left_behind() {
        let folder = std::env::temp_dir().join(format!("caravan-standing-{}", std::process::id()));
        let names = ["home".to_owned()];
        let mut file = FootprintFile::open(&folder, "home").unwrap();
        file.update(|footprint| {
            let blocked = [("10.10.0.0/24".parse().unwrap())].into();
            footprint.blocks.insert("home".to_owned(), blocked);
        })
        .unwrap();
        assert_eq!(standing(&folder, &names), None);
        drop(file);
        let text = standing(&folder, &names).unwrap();
        assert!(text.starts_with("10.10.0.0/24 stays blocked"), "{text}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_stays_blocked_is_named_with_the_remedy() {
        let blocks = |count: u8| {
            let prefixes = (0..count).map(|n| format!("10.{n}.0.0/16").parse().unwrap());
            let blocks = BTreeMap::from([("home".to_owned(), prefixes.collect())]);
            sentences(blocks.iter())
        };
        assert_eq!(blocks(0), Vec::<String>::new());
        let one = "10.0.0.0/16 stays blocked; `caravan down home` unblocks that";
        assert_eq!(blocks(1), [one]);
        let two = "10.0.0.0/16, 10.1.0.0/16 stay blocked; `caravan down home` unblocks that";
        assert_eq!(blocks(2), [two]);
        assert!(blocks(20)[0].contains("10.7.0.0/16 and 12 more stay blocked"));
    }
}
