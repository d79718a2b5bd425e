//! Small steps of the set-up.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use engine::config::{Config, Connection, Encapsulation};
use engine::sa::{Mode, Via};
use engine::skip::udp;
use tracing::warn;
use wire::ip::protocol;

use super::OVERHEAD_BYTES;
use crate::capture::{Capture, CaptureFile, Keys, Tap};
use crate::config::{ConfigError, Loaded, Mobility};
use crate::options::Role;
use crate::raw::{IPSEC, RawSockets, TUNNELS};
use crate::udp::{UdpConfig, UdpSockets};

/// Octets of an IP packet on Ethernet.
const LINK_MTU: u16 = 1_500;

/// The engine's part: connections are shared, the rest is small.
pub(super) fn engine_config(loaded: &Loaded) -> Config {
    Config {
        connections: loaded.engine.connections.clone(),
        pools: loaded.engine.pools.clone(),
        radius: loaded.engine.radius.clone(),
        limits: loaded.engine.limits.clone(),
    }
}

/// A client's file starts tunnels, a gateway's waits for them. With the wrong command, the process
/// would seem to run.
pub fn check_role(role: Role, path: &Path, loaded: &Loaded) -> Result<(), ConfigError> {
    let wanted = match &loaded.mobility {
        Some(Mobility::HomeAgent(_)) => Some(Role::HomeAgent),
        Some(Mobility::ForeignAgent(_)) => Some(Role::ForeignAgent),
        Some(Mobility::MobileNode(_)) => Some(Role::Station),
        Some(Mobility::Firewall(_)) => Some(Role::Firewall),
        None if !matches!(role, Role::Gateway | Role::Station) => {
            let table = role.command().replace('-', "_");
            let text = format!("there is no [{table}] in this file");
            return Err(wrong_role(path, table, text));
        }
        None => None,
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != role) {
        let part = loaded.mobility.as_ref().map_or("", Mobility::name);
        let text = format!(
            "this is no file for `caravan {}`: `caravan {} -c {}` runs it",
            role.command(),
            wanted.command(),
            path.display()
        );
        return Err(wrong_role(path, part.replace('-', "_"), text));
    }
    let connections = &loaded.engine.connections;
    let mut stations = connections.iter().filter(|c| !c.remote_addrs.is_empty());
    let mut gateways = connections.iter().filter(|c| c.remote_addrs.is_empty());
    let serves = !loaded.engine.pools.is_empty() || !loaded.publish.is_empty();
    let (key, text) = match (role, stations.next(), gateways.next()) {
        (Role::Station, _, Some(gateway)) => (
            format!("connections.{}.remote_addrs", gateway.name),
            format!(
                "there is none: `caravan up` needs the gateway's address; `caravan gateway -c \
                 {}` runs the file of a gateway",
                path.display()
            ),
        ),
        (Role::Gateway, Some(station), None) if !serves => (
            format!("connections.{}.remote_addrs", station.name),
            format!(
                "this is a client's file: `caravan up -c {}` runs it; the connections of a \
                 gateway have no remote_addrs",
                path.display()
            ),
        ),
        _ => return Ok(()),
    };
    Err(wrong_role(path, key, text))
}

fn wrong_role(path: &Path, key: String, text: String) -> ConfigError {
    ConfigError::Value {
        path: path.to_owned(),
        line: None,
        key,
        text,
    }
}

/// Finds reverse path filters that would drop the gateway's answers: if traffic for the gateway
/// itself goes into the tunnel, its datagrams arrive on a device that its route does not use.
pub(super) fn strict_filters(loaded: &Loaded) -> Vec<(String, String)> {
    let folder = "/proc/sys/net/ipv4/conf";
    let filter = |name: &str| {
        let text = std::fs::read_to_string(format!("{folder}/{name}/rp_filter"));
        text.ok()?.trim().parse::<u8>().ok()
    };
    let all = filter("all").unwrap_or(0);
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // The kernel uses the larger of the two values: 1 is strict, 2 is loose.
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

/// The ports of IKE, if there are connections, that of Mobile IPv4, and that of SKIP in UDP.
pub(super) fn ports(loaded: &Loaded) -> UdpConfig {
    let mut ports = Vec::new();
    if !loaded.engine.connections.is_empty() || loaded.mobility.is_none() {
        ports.extend(engine::node::SOCKETS);
    }
    if loaded.mobility.is_some() {
        ports.push((wire::mip4::PORT, Via::UdpWithType));
    }
    if loaded.mobility.as_ref().is_some_and(Mobility::is_in_udp) {
        ports.push((udp::PORT, Via::UdpWithSkip));
    }
    UdpConfig {
        ports,
        mark: Some(loaded.daemon.fwmark),
    }
}

/// Raw sockets carry ESP without UDP, AH, SKIP, and tunnels of Mobile IPv4. Without the right to
/// open them, everything in UDP still works.
pub(super) fn open_raw(loaded: &Loaded, udp: &UdpSockets) -> Option<RawSockets> {
    let mut connections = loaded.engine.connections.iter();
    let needs_ipsec = connections.any(|it| it.encapsulation != Encapsulation::Always);
    let ipsec = IPSEC.iter().filter(|_| needs_ipsec);
    let tunnels = TUNNELS.iter().filter(|_| loaded.mobility.is_some());
    let has_keys_in_line = loaded.mobility.as_ref().is_some_and(Mobility::is_in_line);
    let in_line = has_keys_in_line.then_some(&protocol::SKIP);
    let protocols: Vec<u8> = ipsec.chain(tunnels).chain(in_line).copied().collect();
    if protocols.is_empty() {
        return None;
    }
    let (mark, exits) = (loaded.daemon.fwmark, Arc::clone(udp.exits()));
    match RawSockets::open(&protocols, Some(mark), exits) {
        Ok(raw) => Some(raw),
        Err(error) => {
            warn!("no raw sockets ({error}): only packets in UDP will pass");
            None
        }
    }
}

/// Creates the files of a capture, with the rights of the start.
pub(super) fn open_capture(path: &Path) -> anyhow::Result<(CaptureFile, Keys)> {
    let context = || format!("cannot write the capture {}", path.display());
    let file = CaptureFile::create(path).with_context(context)?;
    let keys = Keys::create(path).with_context(context)?;
    Ok((file, keys))
}

/// Starts the thread that writes the capture.
pub(super) fn record(file: CaptureFile, keys: Keys) -> anyhow::Result<(Capture, Tap, Keys)> {
    let capture = Capture::start(file).context("cannot write the capture")?;
    let folder: PathBuf = keys.folder().to_owned();
    warn!(keys = %folder.display(), "capturing packets: their KEYS are written beside the file");
    let tap = capture.tap();
    Ok((capture, tap, keys))
}

/// Octets of the largest packet that the TUN device takes. A visitor of a foreign agent would not
/// hear what the kernel says of a larger one: the agent's own packets to its home address go
/// through its home network. What our plane says comes out of the device, and goes to the visitor.
pub(super) fn inner_mtu(loaded: &Loaded) -> u16 {
    if let Some(Mobility::ForeignAgent(_)) = &loaded.mobility {
        return LINK_MTU;
    }
    let children = loaded
        .engine
        .connections
        .iter()
        .flat_map(|connection| &connection.children);
    children
        .map(|child| child.path_mtu)
        .min()
        .unwrap_or(LINK_MTU)
        .saturating_sub(OVERHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Names, load};

    #[test]
    fn a_file_of_the_other_end_is_refused_with_what_to_do() {
        let of_station = "remote_addrs = [\"192.0.2.1\"]\nvips = [\"0.0.0.0\"]\n";
        let of_gateway = "pools = [\"inner\"]\n";
        let pool = "[pools.inner]\naddrs = \"10.99.0.0/24\"\n";
        let (up, gateway) = ("`caravan up -c", "`caravan gateway -c");
        for (says, more, role, wanted) in [
            (of_station, "", Role::Station, None),
            (of_station, "", Role::Gateway, Some(up)),
            (of_gateway, pool, Role::Gateway, None),
            (of_gateway, pool, Role::Station, Some(gateway)),
            // A connection that lends addresses and also initiates.
            (of_station, pool, Role::Gateway, None),
        ] {
            let text = format!(
                "[connections.home]\nlegacy = true\n{says}\
                 local = {{ auth = \"psk\", secret = \"s\", id = \"a.example\" }}\n\
                 remote = {{ auth = \"psk\", id = \"b.example\" }}\n\
                 [connections.home.children.net]\n{more}"
            );
            let own = std::process::id();
            let path = std::env::temp_dir().join(format!("caravan-role-{own}.toml"));
            std::fs::write(&path, text).expect("written");
            let loaded = load(&path, Names::Wanted).unwrap_or_else(|fault| panic!("{fault}"));
            std::fs::remove_file(&path).expect("removed");
            let refused = check_role(role, &path, &loaded).err();
            let refused = refused.map(|fault| fault.to_string());
            let is_right = match (&refused, wanted) {
                (Some(text), Some(wanted)) => text.contains(wanted),
                (refused, wanted) => refused.is_none() && wanted.is_none(),
            };
            assert!(is_right, "{role:?} {refused:?}");
        }
    }
}
