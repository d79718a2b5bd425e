//! Small steps of the set-up: what a configuration asks of the process, and what the system gives.

use std::io::Read;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::Context;
use crypto::rand::Seed;
use engine::config::{Config, Connection};
use engine::sa::Mode;
use tracing::warn;

use super::OVERHEAD_BYTES;
use crate::capture::{self, Capture, Keys, Tap};
use crate::cli::{Role, RunOptions};
use crate::config::Loaded;
use crate::raw::RawSockets;

/// The engine's part: connections are shared, the rest is small.
pub(super) fn engine_config(loaded: &Loaded) -> Config {
    Config {
        connections: loaded.engine.connections.clone(),
        pools: loaded.engine.pools.clone(),
        limits: loaded.engine.limits.clone(),
    }
}

/// Every connection, with or without IPsec.
pub(super) fn names(loaded: &Loaded) -> Vec<String> {
    loaded
        .on_failure
        .iter()
        .map(|(name, _)| name.clone())
        .collect()
}

pub(super) fn check_role(options: &RunOptions, loaded: &Loaded) -> anyhow::Result<()> {
    let is_station = |name: &str| {
        let connection = loaded.engine.connections.iter().find(|c| c.name == name);
        connection.is_none_or(|connection| !connection.remote_addrs.is_empty())
    };
    let wrong = names(loaded).into_iter().find(|name| match options.role {
        Role::Station => !is_station(name),
        Role::Gateway => false,
    });
    match wrong {
        None => Ok(()),
        Some(name) => anyhow::bail!(
            "{}: connections.{name} has no remote_addrs: `caravan up` needs the gateway's address",
            options.config.display()
        ),
    }
}

/// Reverse path filters that would drop the gateway's answers: where traffic for the gateway itself
/// goes into the tunnel, its datagrams do not come from where the route to it leads.
pub(super) fn strict_filters(loaded: &Loaded) -> Vec<(String, String)> {
    let folder = "/proc/sys/net/ipv4/conf";
    let filter = |name: &str| {
        let text = std::fs::read_to_string(format!("{folder}/{name}/rp_filter"));
        text.ok()?.trim().parse::<u8>().ok()
    };
    let all = filter("all").unwrap_or(0);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // The kernel takes the greater of both: 1 is strict, 2 is loose.
    let is_strict =
        |name: &String| filter(name).unwrap_or(0).max(all) == 1 && *name != loaded.daemon.tun;
    let strict: Vec<String> = links
        .filter(|name| !["all", "default", "lo"].contains(&&name[..]))
        .filter(is_strict)
        .collect();
    if strict.is_empty() {
        return Vec::new();
    }
    let stations = loaded.engine.connections.iter();
    let caught = stations.filter(|connection| catches_its_gateway(connection));
    caught
        .map(|connection| {
            let text = format!(
                "net.ipv4.conf.{}.rp_filter is strict and drops the gateway's answers: \
                 `sysctl -w net.ipv4.conf.all.rp_filter=2` lets them in",
                strict.join(", ")
            );
            (connection.name.clone(), text)
        })
        .collect()
}

fn catches_its_gateway(connection: &Connection) -> bool {
    let is_caught = |gateway: IpAddr| {
        connection.children.iter().any(|child| {
            let mut selectors = child.remote.iter();
            child.mode == Mode::Transport
                || selectors.any(|s| (s.first..=s.last).contains(&gateway))
        })
    };
    let gateways = connection.remote_addrs.iter().map(|address| address.ip());
    gateways.filter(IpAddr::is_ipv4).any(is_caught)
}

/// Raw sockets serve ESP without UDP and AH. Without the right to open them everything that goes
/// in UDP still works.
pub(super) fn open_raw(config: &Config, mark: u32) -> Option<RawSockets> {
    let is_needed = config.connections.iter().any(|c| !c.forces_encapsulation);
    if !is_needed {
        return None;
    }
    match RawSockets::open(Some(mark)) {
        Ok(raw) => Some(raw),
        Err(error) => {
            warn!("no raw sockets ({error}): only ESP in UDP will pass");
            None
        }
    }
}

pub(super) fn open_capture(path: &std::path::Path) -> anyhow::Result<(Capture, Tap, Keys)> {
    let context = || format!("cannot write the capture {}", path.display());
    let capture = Capture::create(path).with_context(context)?;
    let keys = capture::Keys::create(path).with_context(context)?;
    let folder: PathBuf = keys.folder().to_owned();
    warn!(keys = %folder.display(), "a capture is on: the KEYS are written beside it");
    let tap = capture.tap();
    Ok((capture, tap, keys))
}

pub(super) fn inner_mtu(config: &Config) -> u16 {
    let children = config
        .connections
        .iter()
        .flat_map(|connection| &connection.children);
    children
        .map(|child| child.path_mtu)
        .min()
        .unwrap_or(1_500)
        .saturating_sub(OVERHEAD_BYTES)
}

pub(super) fn system_seed() -> anyhow::Result<Seed> {
    let mut octets = [0; 32];
    let mut source = std::fs::File::open("/dev/urandom").context("cannot open /dev/urandom")?;
    source
        .read_exact(&mut octets)
        .context("cannot read /dev/urandom")?;
    let seed = Seed::new(octets);
    zeroize::Zeroize::zeroize(&mut octets);
    Ok(seed)
}
