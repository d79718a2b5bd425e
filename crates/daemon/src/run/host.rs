//! What the process does to its host: routes, resolvers, nftables, each as the node's facts want
//! it and noted in the footprint.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::path::Path;

use engine::config::{Config, Connection, Start};
use engine::node::{Event, Node};
use engine::time::Instant;
use tracing::warn;

use super::former::FormerPeers;
use crate::blocks::{self, is_blocking, targets};
use crate::cli::Role;
use crate::config::Loaded;
use crate::dns;
use crate::footprint::FootprintFile;
use crate::leases::{Lease, LeaseFile};
use crate::nft::{self, Forwarding};
use crate::routes::{self, Blocks, Desired, Routes, watch};

/// What the node asked for; answered once its outputs are drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Our address towards this peer, one of these if there are any.
    LocalAddress(IpAddr, Vec<IpAddr>),
    /// What the inbound plane has seen.
    Report,
}

/// The host, as far as it is ours.
pub(super) struct Host {
    role: Role,
    routes: Routes,
    file: FootprintFile,
    name: String,
    tun: String,
    /// By connection, what it has, or had last and asks for again.
    leases: BTreeMap<String, Lease>,
    lease_file: LeaseFile,
    resolvers: Vec<IpAddr>,
    answers: VecDeque<Answer>,
    config: Config,
    former: FormerPeers,
}

impl Host {
    pub(super) fn new(
        role: Role,
        routes: Routes,
        file: FootprintFile,
        lease_file: LeaseFile,
        (name, tun): (&str, &str),
    ) -> Self {
        Self {
            role,
            routes,
            former: FormerPeers::left_by(&file.footprint),
            file,
            name: name.to_owned(),
            tun: tun.to_owned(),
            leases: BTreeMap::new(),
            lease_file,
            resolvers: Vec::new(),
            answers: VecDeque::new(),
            config: Config {
                connections: Vec::new(),
                pools: Vec::new(),
                limits: engine::config::Limits::default(),
            },
        }
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// The process's own nftables table, and a copy of the connections.
    pub(super) fn load_forwarding(&mut self, loaded: &Loaded) -> anyhow::Result<()> {
        self.config = super::setup::engine_config(loaded);
        if self.role == Role::Gateway
            && let Some(warning) = routes::forwarding_warning(false)
        {
            warn!("{warning}");
        }
        let mut forwarding = Forwarding::new(&self.name, loaded);
        forwarding.tun.clone_from(&self.tun);
        match forwarding.load(&mut self.file) {
            Err(error) if !forwarding.is_needed() => {
                warn!("packets in clear that belong into the tunnel are not kept out: {error}");
            }
            result => result?,
        }
        Ok(())
    }

    /// A connection begins: it has the address that it was lent last, so that what programs send
    /// before it is up has the right source. Resolvers come before the tunnel only where questions
    /// bring it up. Empty: it never was lent one.
    pub(super) fn begin(&mut self, connection: &Connection) -> Vec<IpAddr> {
        let Some(last) = self.lease_file.last(&connection.name).cloned() else {
            return Vec::new();
        };
        let wants = connection.wants_inner;
        let is_wanted = |address: &IpAddr| match address {
            IpAddr::V4(_) => wants.v4,
            IpAddr::V6(_) => wants.v6,
        };
        let addresses: Vec<IpAddr> = last.addresses.into_iter().filter(is_wanted).collect();
        if addresses.is_empty() {
            return addresses;
        }
        let lease = Lease {
            addresses: addresses.clone(),
            dns: match connection.start {
                Start::OnTraffic => last.dns,
                Start::AtOnce | Start::Responder => Vec::new(),
            },
        };
        // At a reload it may have one.
        let name = connection.name.clone();
        self.leases.entry(name).or_insert(lease);
        addresses
    }

    /// What the process becomes another user for must be able to write in these.
    pub(super) fn folders(&self) -> [&Path; 2] {
        [self.file.folder(), self.lease_file.folder()]
    }

    /// The name of that table.
    pub(super) fn table(&self, loaded: &Loaded) -> String {
        Forwarding::new(&self.name, loaded).table()
    }

    /// Connections came or went: what the leases of those that went gave is no more.
    pub(super) fn follow(&mut self, names: &[String]) -> anyhow::Result<()> {
        self.leases.retain(|name, _| names.contains(name));
        let connections = names.to_vec();
        self.file
            .update(|footprint| footprint.connections = connections)?;
        Ok(())
    }

    pub(super) async fn set_mtu(&self, mtu: u16) -> anyhow::Result<()> {
        Ok(self.routes.set_mtu(mtu).await?)
    }

    pub(super) fn wants(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    pub(super) fn next_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Peers that we begin with, and from which addresses of ours.
    pub(super) fn peers(&self) -> BTreeSet<(IpAddr, Vec<IpAddr>)> {
        let of = |c: &'_ Connection| {
            let among = c.local_addrs.clone();
            let remotes: Vec<IpAddr> = c.remote_addrs.iter().map(|it| it.ip()).collect();
            remotes.into_iter().map(move |it| (it, among.clone()))
        };
        self.config.connections.iter().flat_map(|c| of(c)).collect()
    }

    pub(super) fn on_event(&mut self, event: &Event) {
        if let Event::InnerAddress {
            connection,
            addresses,
            dns,
        } = event
        {
            let lease = Lease {
                addresses: addresses.clone(),
                dns: dns.clone(),
            };
            if let Err(error) = self.lease_file.note(connection, lease.clone()) {
                warn!(connection, "cannot note the inner address: {error}");
            }
            self.leases.insert(connection.clone(), lease);
        }
    }

    /// Makes routes and resolvers as they should be at this moment.
    pub(super) async fn apply(
        &mut self,
        loaded: &Loaded,
        node: &Node,
        now: Instant,
        downed: &BTreeSet<String>,
    ) -> anyhow::Result<()> {
        self.leases.retain(|name, _| !downed.contains(name));
        let mut desired = Desired::default();
        for connection in self
            .config
            .connections
            .iter()
            .filter(|c| !downed.contains(&c.name))
        {
            if connection.remote_addrs.is_empty() {
                self.route_peers(connection, loaded, &mut desired);
            } else {
                self.route_gateway(connection, loaded, &mut desired);
            }
        }
        if self.role == Role::Gateway {
            let up = self.config.connections.iter();
            let up = up.filter(|c| c.has_bare_peers() && !downed.contains(&c.name));
            let bare = up.map(|c| (&**c, is_blocking(c, loaded)));
            self.former.route((node, now), bare, &mut desired);
        }
        self.routes.apply(&desired, &mut self.file).await?;
        let resolvers: Vec<IpAddr> = self
            .leases
            .values()
            .flat_map(|lease| lease.dns.iter().copied())
            .collect();
        if loaded.daemon.dns && resolvers != self.resolvers {
            let state = self.lease_file.folder();
            if let Err(error) = dns::take(&resolvers, &self.tun, state, &mut self.file) {
                warn!("cannot take the resolvers {resolvers:?}: {error}");
            }
            self.resolvers = resolvers;
        }
        Ok(())
    }

    /// A gateway: lent addresses and what lies behind its peers go into the tunnel, or nowhere.
    fn route_peers(&self, connection: &Connection, loaded: &Loaded, desired: &mut Desired) {
        let all = blocks::behind_peers(connection, &self.config);
        desired
            .routes
            .extend(all.iter().map(|prefix| (*prefix, None)));
        if is_blocking(connection, loaded) {
            desired.blocks.insert(connection.name.clone(), all);
        }
    }

    /// A station: what lies behind the gateway, from our inner address; in transport mode the
    /// gateway itself, from our outer one.
    fn route_gateway(&self, connection: &Connection, loaded: &Loaded, desired: &mut Desired) {
        let inner = self
            .leases
            .get(&connection.name)
            .map(|lease| &lease.addresses[..])
            .unwrap_or(&[]);
        desired.addresses.extend(inner);
        let mut blocked = BTreeSet::new();
        for child in &connection.children {
            for (prefix, is_host) in targets(connection, child) {
                let of_family = |a: &&IpAddr| a.is_ipv4() == prefix.address.is_ipv4();
                let source = match is_host {
                    true => {
                        let among = &connection.local_addrs;
                        watch::local_address_for(prefix.address, among, loaded.daemon.fwmark)
                    }
                    false => inner.iter().find(of_family).copied(),
                };
                desired.routes.insert(prefix, source);
                blocked.insert(prefix);
            }
        }
        if is_blocking(connection, loaded) {
            desired.blocks.insert(connection.name.clone(), blocked);
        }
    }

    /// Whether this connection's traffic is refused at this moment where no tunnel takes it.
    pub(super) fn blocks(&self, connection: &str) -> bool {
        let blocked = self.file.footprint.blocks.get(connection);
        blocked.is_some_and(|prefixes| !prefixes.is_empty())
    }

    /// What stays refused when the process ends, a sentence a connection.
    pub(super) fn blocking(&self) -> Vec<String> {
        blocks::sentences(&self.file.footprint)
    }

    /// Undoes everything; the blocks on demand.
    pub(super) async fn close(mut self, runtime_dir: &Path, blocks: Blocks) -> anyhow::Result<()> {
        undo(runtime_dir, &mut self.file, blocks).await?;
        self.file.close()?;
        Ok(())
    }
}

/// Undoes what a footprint tells.
pub(super) async fn undo(
    runtime_dir: &Path,
    file: &mut FootprintFile,
    blocks: Blocks,
) -> anyhow::Result<()> {
    // What one part cannot undo keeps no other from it.
    let resolvers = dns::give_back(file);
    let tables = nft::undo(file);
    routes::undo(runtime_dir, file, blocks).await?;
    resolvers?;
    Ok(tables?)
}
