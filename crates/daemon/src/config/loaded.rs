//! A checked configuration: the engine's part, and the program's own part.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use engine::config::{Config, Limits, Pool};

use super::parts::Mobility;
use super::values::Transport;
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
    /// The part of this process in Mobile IPv4.
    pub mobility: Option<Mobility>,
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
    /// What a reader should know, and need not change.
    pub notes: Vec<String>,
    /// The same for whoever asks `caravan check`.
    pub details: Vec<String>,
    /// Warnings of `caravan check`: connection and sentence.
    pub warnings: Vec<(String, String)>,
}

impl Loaded {
    /// The process and the pools; everything else is added.
    pub(super) fn begun(daemon: file::DaemonTable, pools: Vec<Pool>) -> Self {
        Self {
            engine: Config {
                connections: Vec::new(),
                pools,
                radius: None,
                limits: Limits::default(),
            },
            daemon,
            publish: Vec::new(),
            mobility: None,
            notes: Vec::new(),
            details: Vec::new(),
            on_failure: Vec::new(),
            full_tunnels: BTreeMap::new(),
            clear: Vec::new(),
            credentials: BTreeMap::new(),
            keys: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }

    /// Every connection, with or without IPsec, and the part in Mobile IPv4.
    pub fn names(&self) -> Vec<String> {
        let all = self.on_failure.iter().map(|(name, _)| name.clone());
        let part = self.mobility.iter().map(|it| it.name().to_owned());
        all.chain(part).collect()
    }

    /// Whether there is a connection or part of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().iter().any(|it| it == name)
    }

    /// Whether this connection carries a mobile node's packets to its home agent, and nothing else.
    pub fn is_of_node(&self, connection: &str) -> bool {
        match &self.mobility {
            Some(Mobility::MobileNode(node)) => {
                let gateway = node.gateway.as_ref();
                gateway.is_some_and(|it| it.connection == connection)
            }
            _ => false,
        }
    }

    /// Whether traffic of this connection is refused while no tunnel carries it.
    pub fn is_blocking(&self, connection: &str) -> bool {
        let mut all = self.on_failure.iter();
        all.any(|(name, what)| name == connection && *what == file::OnFailure::Block)
    }

    /// What its full tunnels do on this host, and notes.
    pub fn descriptions(&self) -> Vec<String> {
        if self.full_tunnels.is_empty() {
            return self.notes.clone();
        }
        let own = reach::own_networks(&self.daemon.tun).into_iter();
        let networks = own.map(|(link, _, network)| (link, network));
        let networks: Vec<_> = networks.filter(|(_, it)| !it.is_host()).collect();
        let all = self.full_tunnels.iter();
        let told = all.map(|(name, full)| format!("{name}: {}", full.describe(&networks)));
        told.chain(self.notes.iter().cloned()).collect()
    }
}

/// A port of this gateway that is forwarded to a server inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// "tcp" or "udp".
    pub protocol: Transport,
    /// Port of the gateway.
    pub port: u16,
    /// Server inside.
    pub to: SocketAddr,
    /// The server sees the gateway's address.
    pub masquerade: bool,
}
