//! Small steps of the set-up: what a configuration asks of the process, and what the system gives.

use std::io::Read;
use std::path::PathBuf;

use anyhow::Context;
use crypto::rand::Seed;
use engine::config::Config;
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

pub(super) fn open_capture(
    path: &std::path::Path,
    nat_port: u16,
) -> anyhow::Result<(Capture, Tap, Keys)> {
    let context = || format!("cannot write the capture {}", path.display());
    let capture = Capture::create(path).with_context(context)?;
    let keys = capture::Keys::create(path, nat_port).with_context(context)?;
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
