//! The desired state of the host: routes, resolvers and blocks derived from the node's state.
//! `keeper.rs` applies it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use engine::config::{Config, Connection, Start};
use engine::dns::{MAX_DOMAINS, TrustAnchor, is_within};
use engine::node::{EndCause, Event, Node, Way, Ways};
use engine::time::Instant;
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::former::FormerPeers;
use super::keeper::{Ask, HostState, Keeper, KeeperEvent};
use crate::blocks::{self, targets};
use crate::config::Loaded;
use crate::dns::Resolvers;
use crate::leases::{self, Lease, LeaseFile};
use crate::nft::Forwarding;
use crate::options::Role;
use crate::routes::reach::{self, Source};
use crate::routes::{self, Desired, Prefix};
use crate::steward::Untaken;
use crate::steward::client::Steward;

/// Our part of the host's state.
pub(super) struct Host {
    role: Role,
    keeper: Keeper,
    name: String,
    /// The TUN device.
    tun: String,
    /// By connection: its lease, or its last one, which it requests again.
    leases: BTreeMap<String, Lease>,
    lease_file: LeaseFile,
    /// By connection: keys of DNSSEC that came with its lease.
    trust_anchors: BTreeMap<String, Vec<TrustAnchor>>,
    /// By connection: assigned resolvers that no tunnel leads to.
    refused_resolvers: BTreeMap<String, BTreeSet<IpAddr>>,
    /// This host's addresses that programs can use as a source.
    own: Vec<IpAddr>,
    /// Our addresses towards the peers, as the node knows them.
    ways: Ways,
    /// Connections without a usable source address. Each is logged once.
    sourceless: BTreeSet<(String, bool)>,
    /// How many configurations came into force after the first.
    revision: u64,
    /// The newest desired state.
    wanted: Option<HostState>,
    /// Why the host refused it, if it did.
    refusal: Option<String>,
    /// Resolvers that this host does not ask, although it should.
    untaken: Option<Untaken>,
    /// Sessions that ended because the host refused the routes to their peers.
    unroutable_ended: u64,
    /// Wanted routes to peers without a pool address, each with the number of the first desired
    /// state since which it is wanted. Each later state has it too, so it is there once one of them
    /// is applied, and stays there whatever the host refuses after that.
    bare: BTreeMap<Prefix, u64>,
    /// Whether one of them is not applied yet.
    misses_routes: bool,
    /// By connection: what is refused while no tunnel carries it.
    blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// Connections whose blocks end with the process.
    passing: BTreeSet<String>,
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
            keeper: Keeper::start(steward),
            former: FormerPeers::left_by(&blocks),
            blocks,
            name: name.to_owned(),
            tun: tun.to_owned(),
            leases: BTreeMap::new(),
            lease_file,
            trust_anchors: BTreeMap::new(),
            refused_resolvers: BTreeMap::new(),
            own: reach::own_addresses(tun),
            ways: Ways::default(),
            sourceless: BTreeSet::new(),
            revision: 0,
            wanted: None,
            refusal: None,
            untaken: None,
            unroutable_ended: 0,
            bare: BTreeMap::new(),
            misses_routes: false,
            passing: BTreeSet::new(),
            config: Config {
                connections: Vec::new(),
                pools: Vec::new(),
                radius: None,
                limits: engine::config::Limits::default(),
            },
        }
    }

    /// The inner IPv4 address that a connection has, or had last.
    pub(super) fn inner(&self, connection: &str) -> Option<Ipv4Addr> {
        let lease = self.leases.get(connection)?;
        lease.addresses.iter().find_map(|it| match it {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        })
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
        let Some(mut lease) = self.lease_file.again(connection, &self.own) else {
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

    /// The name of the process.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The name of the nftables table.
    pub(super) fn table(&self, loaded: &Loaded) -> String {
        Forwarding::new(&self.name, loaded).table()
    }

    /// The next event of the task that applies the desired state. Cancel-safe.
    pub(super) async fn next_event(&mut self) -> KeeperEvent {
        self.keeper.next_event().await
    }

    /// A desired state was applied.
    pub(super) fn on_applied(&mut self) {
        if self.keeper.is_up_to_date()
            && let Some(wanted) = &self.wanted
        {
            self.blocks.clone_from(&wanted.desired.blocks);
            self.passing.clone_from(&wanted.desired.passing);
        }
        self.find_missing();
    }

    /// Returns what to tell about resolvers that could not be taken.
    pub(super) fn on_resolvers(&mut self, untaken: Option<Untaken>) -> Option<String> {
        self.untaken = untaken;
        self.untaken.as_ref().map(ToString::to_string)
    }

    /// The host refused the desired state of this number. The attempt may have changed the host, so
    /// a notification of a change must not cause the next one: only another state does, or
    /// [`Host::forget_refusal`]. Returns the peers without a pool address whose routes are missing:
    /// their sessions must end, because messages of all peers wait for these routes. Returns nobody
    /// while a newer state is still to be tried.
    pub(super) fn on_refused(&mut self, number: u64, reason: String) -> BTreeSet<IpAddr> {
        if number != self.keeper.wanted() {
            return BTreeSet::new();
        }
        self.refusal = Some(reason);
        let bare = self.bare.iter();
        let missing = bare.filter(|(_, since)| !self.keeper.has_applied(**since));
        let missing: BTreeSet<Prefix> = missing.map(|(to, _)| *to).collect();
        let keeper = &self.keeper;
        self.former
            .forget_refused(&missing, |number| keeper.has_applied(number));
        missing.iter().map(|to| to.address).collect()
    }

    /// Lets a refused state, or resolvers, be tried again. Returns whether there is one.
    pub(super) fn forget_refusal(&mut self) -> bool {
        let is_any = self.refusal.is_some() || self.untaken.is_some();
        if is_any {
            self.wanted = None;
        }
        is_any
    }

    /// Whether the newest desired state is applied.
    pub(super) fn is_up_to_date(&self) -> bool {
        self.keeper.is_up_to_date()
    }

    /// Whether the steward still works on the newest desired state. A refused one is tried later.
    pub(super) fn is_setting_up(&self) -> bool {
        !self.is_up_to_date() && self.refusal.is_none()
    }

    /// The number of the newest desired state.
    pub(super) fn wanted(&self) -> u64 {
        self.keeper.wanted()
    }

    /// Whether the route to a peer without a pool address is missing. Until it is there no message
    /// is read: if the peer's tunnel came up first, answers to it would leave unencrypted.
    pub(super) fn misses_routes(&self) -> bool {
        self.misses_routes
    }

    /// For other requests to the steward.
    pub(super) fn asks(&self) -> mpsc::Sender<Ask> {
        self.keeper.asks()
    }

    /// The new configuration is in force: connections came or went. Drops the leases of those that
    /// went.
    pub(super) fn follow(&mut self, names: &[String], loaded: &Loaded) {
        self.revision += 1;
        self.leases.retain(|name, _| names.contains(name));
        self.trust_anchors.retain(|name, _| names.contains(name));
        self.adopt(loaded);
        // Another policy may need another state although the node's state is the same.
        self.wanted = None;
    }

    /// Asks for our addresses towards the node's peers. The steward finds them, because this
    /// process lacks the right.
    pub(super) fn ask_ways(&mut self, node: &Node) {
        let connections = self.config.connections.iter();
        let named = connections
            .flat_map(|it| &it.local_addrs)
            .copied()
            .collect();
        self.keeper.ask_ways(node.peers(), named);
    }

    /// This host's addresses that peers may reach.
    pub(super) fn own(&self) -> &[IpAddr] {
        &self.own
    }

    /// Whether none of our addresses leads to a peer that was asked for, in one sentence. `among`:
    /// those that its connection may use, all if empty.
    pub(super) fn no_way(&self, to: IpAddr, among: &[IpAddr]) -> Option<String> {
        let is_nowhere = self.ways.way_to(to, among) == Way::Nowhere;
        is_nowhere.then(|| match among {
            [] => format!("cannot send to {to}: no route"),
            some => format!("cannot send to {to}: no route from local_addrs = {some:?}"),
        })
    }

    /// Stores the addresses that the steward found. Returns whether they are others than before.
    pub(super) fn take_ways(&mut self, ways: Ways, own: Vec<IpAddr>) -> bool {
        let is_change = self.ways != ways || self.own != own;
        self.ways = ways;
        self.own = own;
        is_change
    }

    pub(super) fn on_event(&mut self, event: &Event) {
        match event {
            Event::InnerAddress {
                connection,
                addresses,
                dns,
                domains,
                trust_anchors,
                ..
            } => {
                let anchors = trust_anchors.clone();
                self.trust_anchors.insert(connection.clone(), anchors);
                let lease = Lease {
                    addresses: addresses.clone(),
                    dns: dns.clone(),
                    domains: domains.clone(),
                };
                let is_new = self.leases.get(connection) != Some(&lease);
                if is_new
                    && let Some(text) = leases::overlap(&lease, &reach::own_networks(&self.tun))
                {
                    warn!(connection, "{text}");
                }
                if let Err(error) = self.lease_file.note(connection, lease.clone()) {
                    warn!(connection, "cannot store the inner address: {error}");
                }
                self.leases.insert(connection.clone(), lease);
            }
            Event::IkeClosed { cause, .. } if *cause == EndCause::Unroutable => {
                self.unroutable_ended += 1;
            }
            _ => {}
        }
    }

    /// Keys of DNSSEC go with the last IKE SA of their connection (RFC 8598 §5).
    pub(super) fn drop_keys(&mut self, connection: &str, node: &Node) {
        if self.trust_anchors.contains_key(connection) && !node.is_connected(connection) {
            self.trust_anchors.remove(connection);
        }
    }

    /// Derives the desired routes and resolvers from the node's current state. `more` adds what
    /// Mobile IPv4 wants.
    pub(super) fn update(
        &mut self,
        loaded: &Loaded,
        (node, now): (&Node, Instant),
        downed: &BTreeSet<String>,
        more: impl FnOnce(&mut Desired),
    ) {
        self.leases.retain(|name, _| !downed.contains(name));
        self.trust_anchors.retain(|name, _| !downed.contains(name));
        let mut desired = Desired::default();
        let connections = self.config.connections.clone();
        for connection in connections.iter().filter(|c| !downed.contains(&c.name)) {
            if connection.remote_addrs.is_empty() {
                self.route_peers(connection, loaded, &mut desired);
            } else {
                self.route_gateway(connection, loaded, &mut desired);
            }
        }
        let mut routed = BTreeSet::new();
        if self.role == Role::Gateway {
            let up = self.config.connections.iter();
            let up = up.filter(|c| c.has_bare_peers() && !downed.contains(&c.name));
            let bare = up.map(|c| (&**c, loaded.is_blocking(&c.name)));
            let others = desired.routes.clone();
            self.former.route((node, now), bare, &mut desired);
            let bare = desired.routes.keys();
            routed.extend(bare.filter(|to| !others.contains_key(to)));
        }
        let resolvers = self.resolvers(loaded);
        blocks::complete((loaded, downed), &resolvers.addresses, &mut desired);
        more(&mut desired);
        self.want(HostState { desired, resolvers });
        self.note_bare(&routed);
    }

    /// The newest desired state has these routes to peers without a pool address.
    fn note_bare(&mut self, routed: &BTreeSet<Prefix>) {
        let number = self.keeper.wanted();
        self.bare.retain(|to, _| routed.contains(to));
        for to in routed {
            self.bare.entry(*to).or_insert(number);
        }
        self.former.note(number);
        self.find_missing();
    }

    fn find_missing(&mut self) {
        let mut all = self.bare.values();
        self.misses_routes = all.any(|since| !self.keeper.has_applied(*since));
    }

    /// Does nothing if the state is the same, also one that the host refused: on a gateway most
    /// tunnels come and go without a change.
    fn want(&mut self, wanted: HostState) {
        if self.wanted.as_ref() == Some(&wanted) {
            return;
        }
        self.refusal = None;
        self.wanted = Some(wanted.clone());
        self.keeper.want(self.revision, wanted);
    }

    /// The resolvers of all leases that tunnels lead to, and the domains whose names alone they are
    /// asked for, if each lease names some. Others would be queried unencrypted: they are not used,
    /// and each is logged once. None with `dns = false`: a rule for one is refused, too.
    fn resolvers(&mut self, loaded: &Loaded) -> Resolvers {
        if !loaded.daemon.dns {
            self.refused_resolvers.clear();
            return Resolvers {
                trust_anchors: self.all_trust_anchors(),
                ..Resolvers::default()
            };
        }
        let mut used = Vec::new();
        let mut domains = Some(BTreeSet::new());
        let mut refused: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for connection in &self.config.connections {
            let lent = self.leases.get(&connection.name);
            let before = used.len();
            for resolver in lent.iter().flat_map(|lease| &lease.dns) {
                if reach::carries_questions(connection, *resolver) {
                    used.push(*resolver);
                } else {
                    let of_connection = refused.entry(connection.name.clone()).or_default();
                    of_connection.insert(*resolver);
                }
            }
            let named = lent.filter(|_| used.len() > before).map(|it| &it.domains);
            if let (Some(named), Some(all)) = (named, &mut domains) {
                all.extend(named.iter().cloned());
                domains.take_if(|_| named.is_empty());
            }
        }
        for (connection, resolvers) in &refused {
            if self.refused_resolvers.get(connection) != Some(resolvers) {
                warn!(connection, "{}", refusal(resolvers));
            }
        }
        self.refused_resolvers = refused;
        let domains = domains.filter(|all| all.len() <= MAX_DOMAINS);
        Resolvers {
            addresses: used,
            domains: domains.into_iter().flatten().collect(),
            trust_anchors: self.all_trust_anchors(),
        }
    }

    /// The keys of DNSSEC of all connections, as DS records.
    fn all_trust_anchors(&self) -> Vec<String> {
        let names = self.config.connections.iter().map(|it| &it.name);
        let all: BTreeSet<String> = names.flat_map(|it| self.trust_anchors_of(it)).collect();
        all.into_iter().collect()
    }

    /// Those of one connection. A reload may have taken a domain from its list.
    pub(super) fn trust_anchors_of(&self, connection: &str) -> Vec<String> {
        let mut all = self.config.connections.iter();
        let listed = all.find(|it| it.name == connection);
        let listed = listed.map_or(&[][..], |it| &it.dnssec_domains);
        let found = self.trust_anchors.get(connection).into_iter().flatten();
        let found = found.filter(|it| is_within(&it.domain, listed));
        found.map(ToString::to_string).collect()
    }

    /// The resolvers of a connection's lease that this host asks.
    pub(super) fn resolvers_of(&self, connection: &str) -> Vec<IpAddr> {
        let taken = self.wanted.iter().filter(|_| self.untaken.is_none());
        let wanted = taken.flat_map(|it| &it.resolvers.addresses);
        let asked: BTreeSet<&IpAddr> = wanted.collect();
        let lent = self.leases.get(connection).into_iter();
        let lent = lent.flat_map(|it| &it.dns);
        lent.filter(|it| asked.contains(it)).copied().collect()
    }

    /// Warnings for `status`.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let refused = self.refused_resolvers.iter();
        let refused = refused.map(|(name, resolvers)| format!("{name}: {}", refusal(resolvers)));
        let refusal = self.refusal.iter().map(|reason| {
            format!("this host refused what the configuration wants, and is asked again: {reason}")
        });
        let ended = (self.unroutable_ended > 0).then(|| {
            format!(
                "sessions that ended because this host refused the routes to their peers: {}",
                self.unroutable_ended
            )
        });
        let untaken = self.untaken.iter().map(ToString::to_string);
        refused.chain(untaken).chain(refusal).chain(ended)
    }

    /// The source address of our own programs towards the peers of a connection, for one family.
    fn source(&mut self, connection: &Connection, is_ipv6: bool) -> Option<IpAddr> {
        let source = Source::of(connection, is_ipv6, &self.own);
        let name = &connection.name;
        let key = (name.clone(), is_ipv6);
        if source != Source::Nowhere {
            self.sourceless.remove(&key);
        } else if self.sourceless.insert(key) {
            let family = if is_ipv6 { "IPv6" } else { "IPv4" };
            info!(
                connection = name,
                "no {family} address of this host is in local_ts: programs on this host cannot \
                 reach its peers by {family}, hosts in the networks behind it can"
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
        // A mobile node puts its packets into the tunnel itself.
        if loaded.is_of_node(&connection.name) {
            return;
        }
        let mut blocked = BTreeSet::new();
        for child in &connection.children {
            for (prefix, is_host) in targets(connection, child) {
                let of_family = |a: &&IpAddr| a.is_ipv4() == prefix.address.is_ipv4();
                let source = match is_host {
                    true => {
                        let among = &connection.local_addrs;
                        match self.ways.way_to(prefix.address, among) {
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
        let mut lasting = lasting(&self.blocks, &self.passing);
        lasting.any(|(name, _)| name == connection)
    }

    /// What stays refused when the process ends, one sentence per connection. The newest desired
    /// state is applied before that, unless it was refused.
    pub(super) fn blocking(&self) -> Vec<String> {
        let wanted = self.wanted.as_ref().filter(|_| self.refusal.is_none());
        let (blocks, passing) = wanted.map_or((&self.blocks, &self.passing), |it| {
            (&it.desired.blocks, &it.desired.passing)
        });
        blocks::sentences(lasting(blocks, passing))
    }

    /// Undoes everything, the blocks only if `lifts`. Returns when the steward has ended.
    pub(super) async fn close(self, lifts: bool) -> anyhow::Result<()> {
        self.keeper.close(lifts).await
    }
}

/// Blocks that do not end with the process.
fn lasting<'a>(
    blocks: &'a BTreeMap<String, BTreeSet<Prefix>>,
    passing: &BTreeSet<String>,
) -> impl Iterator<Item = (&'a String, &'a BTreeSet<Prefix>)> {
    let blocks = blocks.iter();
    blocks.filter(move |(name, prefixes)| !prefixes.is_empty() && !passing.contains(*name))
}

fn refusal(resolvers: &BTreeSet<IpAddr>) -> String {
    let named: Vec<String> = resolvers.iter().map(ToString::to_string).collect();
    format!(
        "the gateway's resolver {} is not used: it is outside remote_ts and would be queried \
         unencrypted",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests;
