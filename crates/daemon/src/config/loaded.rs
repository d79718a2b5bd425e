//! A checked configuration: the engine's part, and the program's own part.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use engine::config::Config;

use super::{Credentials, KeyValues, file};
use crate::routes::full::FullTunnel;
use crate::routes::reach;

/// What the program uses.
pub struct Loaded {
    /// For the node.
    pub engine: Config,
    /// For the process.
    pub daemon: file::DaemonTable,
    /// For the gateway's own nftables table.
    pub publish: Vec<PublishedPort>,
    /// Per connection: what happens to traffic without a tunnel.
    pub on_failure: Vec<(String, file::OnFailure)>,
    /// Connections that take all of an address family, by name.
    pub full_tunnels: BTreeMap<String, FullTunnel>,
    /// Connections whose policy is "none": the same traffic without IPsec.
    pub clear: Vec<String>,
    /// Digests of each connection's files and secrets, by name.
    pub credentials: BTreeMap<String, Credentials>,
    /// Other values of each connection, by name.
    pub keys: BTreeMap<String, KeyValues>,
    /// Warnings of `caravan check`: connection and sentence.
    pub warnings: Vec<(String, String)>,
}

impl Loaded {
    /// Every connection, with or without IPsec.
    pub fn names(&self) -> Vec<String> {
        let all = self.on_failure.iter();
        all.map(|(name, _)| name.clone()).collect()
    }

    /// Whether there is a connection of this name.
    pub fn has(&self, name: &str) -> bool {
        self.on_failure.iter().any(|(it, _)| it == name)
    }

    /// Whether traffic of this connection is refused while no tunnel carries it.
    pub fn is_blocking(&self, connection: &str) -> bool {
        let mut all = self.on_failure.iter();
        all.any(|(name, what)| name == connection && *what == file::OnFailure::Block)
    }

    /// What its full tunnels do on this host.
    pub fn descriptions(&self) -> Vec<String> {
        if self.full_tunnels.is_empty() {
            return Vec::new();
        }
        let own = reach::own_networks(&self.daemon.tun).into_iter();
        let networks = own.map(|(link, _, network)| (link, network));
        let networks: Vec<_> = networks.filter(|(_, it)| !it.is_host()).collect();
        let all = self.full_tunnels.iter();
        all.map(|(name, full)| format!("{name}: {}", full.describe(&networks)))
            .collect()
    }
}

/// A port of this gateway that is forwarded to a server inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// "tcp" or "udp".
    pub protocol: file::Transport,
    /// Port of the gateway.
    pub port: u16,
    /// Server inside.
    pub to: SocketAddr,
    /// The server sees the gateway's address.
    pub masquerade: bool,
}
