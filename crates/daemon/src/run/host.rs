//! The desired state of the host: routes, resolvers and blocks derived from the node's state. The
//! steward applies it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use engine::config::{Config, Connection, Start};
use engine::node::{Addresses, Event, Node, Way};
use engine::time::Instant;
use tracing::{info, warn};

use super::former::FormerPeers;
use crate::blocks::{self, targets};
use crate::config::{Loaded, Texts};
use crate::leases::{Lease, LeaseFile};
use crate::nft::Forwarding;
use crate::options::Role;
use crate::routes::reach::{self, Source};
use crate::routes::{self, Desired, Prefix};
use crate::steward::client::Steward;

/// Questions of the node, answered once its outputs are drained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Our addresses.
    Addresses,
    /// The counts of the inbound plane.
    Report,
}

/// Our part of the host's state.
pub(super) struct Host {
    role: Role,
    steward: Steward,
    name: String,
    tun: String,
    /// By connection: its lease, or its last one, which it requests again.
    leases: BTreeMap<String, Lease>,
    lease_file: LeaseFile,
    /// By connection: assigned resolvers that no tunnel leads to.
    refused_resolvers: BTreeMap<String, BTreeSet<IpAddr>>,
    /// This host's addresses that programs can use as a source.
    own: Vec<IpAddr>,
    /// Our addresses towards the peers, as the node knows them.
    addresses: Addresses,
    /// Connections without a usable source address. Each is logged once.
    sourceless: BTreeSet<String>,
    /// The last state that the steward was asked to apply.
    applied: Option<(Desired, Vec<IpAddr>)>,
    /// By connection: what is refused at the moment while no tunnel carries it.
    blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// Connections whose blocks end with the process.
    passing: BTreeSet<String>,
    answers: VecDeque<Answer>,
    config: Config,
    former: FormerPeers,
}

impl Host {
    pub(super) fn new(
        role: Role,
        steward: Steward,
        blocks: BTreeMap<String, BTreeSet<Prefix>>,
        lease_file: LeaseFile,
        (name, tun): (&str, &str),
    ) -> Self {
        Self {
            role,
            steward,
            former: FormerPeers::left_by(&blocks),
            blocks,
            name: name.to_owned(),
            tun: tun.to_owned(),
            leases: BTreeMap::new(),
            lease_file,
            refused_resolvers: BTreeMap::new(),
            own: reach::own_addresses(tun),
            addresses: Addresses::default(),
            sourceless: BTreeSet::new(),
            applied: None,
            passing: BTreeSet::new(),
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

    /// Takes a new configuration into use.
    pub(super) fn adopt(&mut self, loaded: &Loaded) {
        self.config = super::setup::engine_config(loaded);
        if self.role == Role::Gateway
            && let Some(warning) = routes::forwarding_warning(false)
        {
            warn!("{warning}");
        }
    }

    /// Starts a connection with its last inner address, so that packets that programs send before
    /// it is up have the right source. Sets its resolvers before the tunnel only if DNS queries
    /// bring the tunnel up. Returns nothing if it never had a lease.
    pub(super) fn begin(&mut self, connection: &Connection) -> Vec<IpAddr> {
        let Some(mut lease) = self.lease_file.again(connection) else {
            return Vec::new();
        };
        let addresses = lease.addresses.clone();
        if connection.start != Start::OnTraffic {
            lease.dns.clear();
        }
        // At a reload it may have one.
        let name = connection.name.clone();
        self.leases.entry(name).or_insert(lease);
        addresses
    }

    /// Reads links and addresses again after a change.
    pub(super) fn look(&mut self) {
        self.own = reach::own_addresses(&self.tun);
    }

    /// The name of the nftables table.
    pub(super) fn table(&self, loaded: &Loaded) -> String {
        Forwarding::new(&self.name, loaded).table()
    }

    /// The configuration and its files, read by the steward, which has the right to do so.
    pub(super) async fn read(&mut self) -> anyhow::Result<Texts> {
        Ok(self.steward.read().await?)
    }

    /// Returns when the steward is gone.
    pub(super) async fn unattended(&self) {
        self.steward.gone().await;
    }

    /// The new configuration is in force: connections came or went. Drops the leases of those that
    /// went.
    pub(super) async fn follow(&mut self, names: &[String], loaded: &Loaded) -> anyhow::Result<()> {
        self.steward.adopt().await?;
        self.leases.retain(|name, _| names.contains(name));
        self.adopt(loaded);
        // Another policy may need another state although the node's state is the same.
        self.applied = None;
        Ok(())
    }

    pub(super) async fn set_mtu(&mut self, mtu: u16) -> anyhow::Result<()> {
        Ok(self.steward.resize(mtu).await?)
    }

    /// Our addresses towards the node's peers. The steward finds them, because this process lacks
    /// the right.
    pub(super) async fn addresses(&mut self, node: &Node) -> anyhow::Result<Addresses> {
        let connections = self.config.connections.iter();
        let named: BTreeSet<IpAddr> = connections
            .flat_map(|it| &it.local_addrs)
            .copied()
            .collect();
        let (peers, named) = (
            node.peers().into_iter().collect(),
            named.into_iter().collect(),
        );
        self.addresses = Addresses(self.steward.ways(peers, named).await?);
        Ok(self.addresses.clone())
    }

    /// Unencrypted packets for the tunnel that the kernel dropped (`None`: it does not check), and
    /// requests that the steward refused.
    pub(super) async fn kept_out(&mut self) -> (Option<u64>, u64) {
        self.steward.kept_out().await.unwrap_or_default()
    }

    pub(super) fn wants(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    pub(super) fn next_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
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
                warn!(connection, "cannot store the inner address: {error}");
            }
            self.leases.insert(connection.clone(), lease);
        }
    }

    /// Derives the desired routes and resolvers from the node's current state and applies them.
    pub(super) async fn apply(
        &mut self,
        loaded: &Loaded,
        node: &Node,
        now: Instant,
        downed: &BTreeSet<String>,
    ) -> anyhow::Result<()> {
        self.leases.retain(|name, _| !downed.contains(name));
        let mut desired = Desired::default();
        let connections = self.config.connections.clone();
        for connection in connections.iter().filter(|c| !downed.contains(&c.name)) {
            if connection.remote_addrs.is_empty() {
                self.route_peers(connection, loaded, &mut desired);
            } else {
                self.route_gateway(connection, loaded, &mut desired);
            }
        }
        if self.role == Role::Gateway {
            let up = self.config.connections.iter();
            let up = up.filter(|c| c.has_bare_peers() && !downed.contains(&c.name));
            let bare = up.map(|c| (&**c, loaded.is_blocking(&c.name)));
            self.former.route((node, now), bare, &mut desired);
        }
        let mut resolvers = self.resolvers(loaded);
        blocks::complete((loaded, downed), &resolvers, &mut desired);
        if !loaded.daemon.dns {
            resolvers.clear();
        }
        self.settle(desired, resolvers).await
    }

    /// Does nothing if the state is the same: on a gateway most tunnels come and go without a
    /// change.
    async fn settle(&mut self, desired: Desired, resolvers: Vec<IpAddr>) -> anyhow::Result<()> {
        let wanted = (desired, resolvers);
        if self.applied.as_ref() == Some(&wanted) {
            return Ok(());
        }
        let (desired, resolvers) = wanted.clone();
        self.blocks.clone_from(&desired.blocks);
        self.passing.clone_from(&desired.passing);
        self.steward.apply(desired, resolvers).await?;
        self.applied = Some(wanted);
        Ok(())
    }

    /// The resolvers of all leases that tunnels lead to. Others would be queried unencrypted: they
    /// are not used, and each is logged once.
    fn resolvers(&mut self, loaded: &Loaded) -> Vec<IpAddr> {
        let mut used = Vec::new();
        let mut refused: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for connection in &self.config.connections {
            let lent = self.leases.get(&connection.name);
            for resolver in lent.iter().flat_map(|lease| &lease.dns) {
                if reach::carries_questions(connection, *resolver) {
                    used.push(*resolver);
                } else if loaded.daemon.dns {
                    let of_connection = refused.entry(connection.name.clone()).or_default();
                    of_connection.insert(*resolver);
                }
            }
        }
        for (connection, resolvers) in &refused {
            if self.refused_resolvers.get(connection) != Some(resolvers) {
                warn!(connection, "{}", refusal(resolvers));
            }
        }
        self.refused_resolvers = refused;
        used
    }

    /// Warnings for `status`.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let refused = self.refused_resolvers.iter();
        refused.map(|(name, resolvers)| format!("{name}: {}", refusal(resolvers)))
    }

    /// The source address of our own programs towards the peers of a connection, for one family.
    fn source(&mut self, connection: &Connection, is_ipv6: bool) -> Option<IpAddr> {
        let source = Source::of(connection, is_ipv6, &self.own);
        let name = &connection.name;
        if source != Source::Nowhere {
            self.sourceless.remove(name);
        } else if self.sourceless.insert(name.clone()) {
            info!(
                connection = name,
                "no address of this host is in local_ts: programs on this host cannot reach its \
                 peers, hosts in the networks behind it can"
            );
        }
        source.address()
    }

    /// At a gateway: pool addresses and the networks behind its peers go into the tunnel, or are
    /// refused.
    fn route_peers(&mut self, connection: &Connection, loaded: &Loaded, desired: &mut Desired) {
        let all = blocks::behind_peers(connection, &self.config);
        for prefix in &all {
            let source = self.source(connection, prefix.address.is_ipv6());
            desired.routes.insert(*prefix, source);
        }
        if loaded.is_blocking(&connection.name) {
            desired.blocks.insert(connection.name.clone(), all);
        }
    }

    /// At a client: the networks behind the gateway are routed from our inner address; in transport
    /// mode the gateway itself is, from our outer one.
    fn route_gateway(&mut self, connection: &Connection, loaded: &Loaded, desired: &mut Desired) {
        let lease = self.leases.get(&connection.name);
        let inner = lease.map_or_else(Vec::new, |lease| lease.addresses.clone());
        desired.addresses.extend(&inner);
        let mut blocked = BTreeSet::new();
        for child in &connection.children {
            for (prefix, is_host) in targets(connection, child) {
                let of_family = |a: &&IpAddr| a.is_ipv4() == prefix.address.is_ipv4();
                let source = match is_host {
                    true => {
                        let among = &connection.local_addrs;
                        match self.addresses.way_to(prefix.address, among) {
                            Way::From(own) => Some(own),
                            Way::Unknown | Way::Nowhere => None,
                        }
                    }
                    false => match inner.iter().find(of_family) {
                        Some(address) => Some(*address),
                        None => self.source(connection, prefix.address.is_ipv6()),
                    },
                };
                desired.routes.insert(prefix, source);
                blocked.insert(prefix);
            }
        }
        if loaded.is_blocking(&connection.name) {
            desired.blocks.insert(connection.name.clone(), blocked);
        }
    }

    /// Whether this connection's traffic is refused at the moment if no tunnel carries it.
    pub(super) fn blocks(&self, connection: &str) -> bool {
        let lasting = self.lasting();
        lasting.into_iter().any(|(name, _)| name == connection)
    }

    /// What stays refused when the process ends, one sentence per connection.
    pub(super) fn blocking(&self) -> Vec<String> {
        blocks::sentences(self.lasting().into_iter())
    }

    /// Blocks that do not end with the process.
    fn lasting(&self) -> Vec<(&String, &BTreeSet<Prefix>)> {
        let blocks = self.blocks.iter();
        let lasting = |(name, prefixes): &(&String, &BTreeSet<Prefix>)| {
            !prefixes.is_empty() && !self.passing.contains(*name)
        };
        blocks.filter(lasting).collect()
    }

    /// Undoes everything, the blocks only if `lifts`. Returns when the steward has ended.
    pub(super) async fn close(self, lifts: bool) -> anyhow::Result<()> {
        Ok(self.steward.end(lifts).await?)
    }
}

fn refusal(resolvers: &BTreeSet<IpAddr>) -> String {
    let named: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
    format!(
        "the gateway's resolver {} is not used: it is outside remote_ts and would be queried \
         unencrypted",
        named.join(", ")
    )
}
