//! How the host should be: routes, resolvers and blocks as the node's facts want them, asked of the
//! steward.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;

use engine::config::{Config, Connection, Start};
use engine::node::{Event, Node};
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
    steward: Steward,
    name: String,
    tun: String,
    /// By connection, what it has, or had last and asks for again.
    leases: BTreeMap<String, Lease>,
    lease_file: LeaseFile,
    /// By connection: resolvers that came and that no tunnel leads to.
    refused_resolvers: BTreeMap<String, BTreeSet<IpAddr>>,
    /// This host's addresses, as far as a program can speak from them.
    own: Vec<IpAddr>,
    /// Connections that none of these fits: said once.
    sourceless: BTreeSet<String>,
    /// What was asked of the steward last.
    applied: Option<(Desired, Vec<IpAddr>)>,
    /// By connection, what is refused at this moment while no tunnel takes it.
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
            own: own_addresses(tun),
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

    /// A configuration comes into force here.
    pub(super) fn adopt(&mut self, loaded: &Loaded) {
        self.config = super::setup::engine_config(loaded);
        if self.role == Role::Gateway
            && let Some(warning) = routes::forwarding_warning(false)
        {
            warn!("{warning}");
        }
    }

    /// A connection begins: it has the address that it was lent last, so that what programs send
    /// before it is up has the right source. Resolvers come before the tunnel only where questions
    /// bring it up. Empty: it never was lent one.
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

    /// Links or addresses changed.
    pub(super) fn look(&mut self) {
        self.own = own_addresses(&self.tun);
    }

    /// The name of that table.
    pub(super) fn table(&self, loaded: &Loaded) -> String {
        Forwarding::new(&self.name, loaded).table()
    }

    /// The configuration and its files, read by who may.
    pub(super) async fn read(&mut self) -> anyhow::Result<Texts> {
        Ok(self.steward.read().await?)
    }

    /// Returns when nobody is there who changes this host.
    pub(super) async fn unattended(&self) {
        self.steward.gone().await;
    }

    /// What was read is in force: connections came or went, and what the leases of those that went
    /// gave is no more.
    pub(super) async fn follow(&mut self, names: &[String], loaded: &Loaded) -> anyhow::Result<()> {
        self.steward.adopt().await?;
        self.leases.retain(|name, _| names.contains(name));
        self.adopt(loaded);
        // Another policy may want another host although the node's facts are the same.
        self.applied = None;
        Ok(())
    }

    pub(super) async fn set_mtu(&mut self, mtu: u16) -> anyhow::Result<()> {
        Ok(self.steward.resize(mtu).await?)
    }

    /// Our address towards a peer: who asks needs a right that this process does not have.
    pub(super) async fn local_address(
        &mut self,
        remote: IpAddr,
        among: &[IpAddr],
    ) -> anyhow::Result<Option<IpAddr>> {
        Ok(self.steward.local_address(remote, among).await?)
    }

    /// Packets in clear that belong into the tunnel, which the kernel drops for us (`None`: it does
    /// not), and requests that the steward refused.
    pub(super) async fn kept_out(&mut self) -> (Option<u64>, u64) {
        self.steward.kept_out().await.unwrap_or_default()
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
                warn!(connection, "cannot store the inner address: {error}");
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
        let connections = self.config.connections.clone();
        for connection in connections.iter().filter(|c| !downed.contains(&c.name)) {
            if connection.remote_addrs.is_empty() {
                self.route_peers(connection, loaded, &mut desired);
            } else {
                self.route_gateway(connection, loaded, &mut desired).await?;
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

    /// A host that is so already is left alone: on a gateway most tunnels that come and go change
    /// nothing.
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

    /// The resolvers of all leases that tunnels lead to. Others would be asked in clear: they are
    /// not used, and that is said once.
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

    /// What `status` warns of.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let refused = self.refused_resolvers.iter();
        refused.map(|(name, resolvers)| format!("{name}: {}", refusal(resolvers)))
    }

    /// Where our own programs speak from towards the peers of a connection, of one family.
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

    /// A gateway: lent addresses and what lies behind its peers go into the tunnel, or nowhere.
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

    /// A station: what lies behind the gateway, from our inner address; in transport mode the
    /// gateway itself, from our outer one.
    async fn route_gateway(
        &mut self,
        connection: &Connection,
        loaded: &Loaded,
        desired: &mut Desired,
    ) -> anyhow::Result<()> {
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
                        self.local_address(prefix.address, among).await?
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
        Ok(())
    }

    /// Whether this connection's traffic is refused at this moment where no tunnel takes it.
    pub(super) fn blocks(&self, connection: &str) -> bool {
        let lasting = self.lasting();
        lasting.into_iter().any(|(name, _)| name == connection)
    }

    /// What stays refused when the process ends, a sentence a connection.
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

    /// Takes everything back; the blocks on demand. Returns when the steward has ended.
    pub(super) async fn close(self, lifts: bool) -> anyhow::Result<()> {
        Ok(self.steward.end(lifts).await?)
    }
}

fn own_addresses(tun: &str) -> Vec<IpAddr> {
    let found = reach::own_networks(tun).into_iter();
    found.map(|(_, address, _)| address).collect()
}

fn refusal(resolvers: &BTreeSet<IpAddr>) -> String {
    let named: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
    format!(
        "the gateway's resolver {} is not used: it is outside remote_ts and would be queried \
         unencrypted",
        named.join(", ")
    )
}
