//! Addresses, routes and rules of the host, through rtnetlink.
//!
//! A separate table routes traffic for the other side into the TUN device. A rule consults it for
//! every packet except those with our mark, so our own datagrams never loop. Blocking routes are in
//! the same table with a worse metric, so that traffic of a vanished tunnel is refused. [`full`]
//! decides what a full tunnel leaves to the host, [`reach`] what a connection carries and from
//! which address; [`prefix`] has the arithmetic, [`watch`] the host's changes and our own address.
//! Left out: routes by port or protocol. Such selectors route whole addresses.

mod ask;
pub mod entries;
pub mod exits;
pub mod full;
pub mod lost;
mod mtu;
mod netlink;
pub mod prefix;
pub mod reach;
pub mod roaming;
pub mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::config::{Loaded, Mobility};
use crate::footprint::{Footprint, FootprintFile};

use entries::Part;
use full::Purpose;
use netlink::Netlink;
use roaming::Roaming;

pub use ask::link_losses;
pub use entries::{Rule, TableRoute};
pub use mtu::{LinkMtus, NextHop, leaves_by, next_hop};
pub use prefix::{Prefix, covering, prefixes};

/// Routes into the tunnel.
const TUNNEL_METRIC: u32 = 100;
/// Blocking routes: every other route takes precedence.
const BLOCK_METRIC: u32 = 4_000_000;

/// How often a change of the desired state also adds again what is known to be there: another
/// program may have removed it, and the kernel removes routes without a notification.
const ADD_AGAIN_INTERVAL: Duration = Duration::from_secs(60);

/// Why the host's tables could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The kernel refused.
    #[error("cannot {what}: {why}")]
    Netlink {
        /// The operation.
        what: String,
        /// The kernel's error.
        why: io::Error,
    },
    /// The kernel refuses all of IPv6.
    #[error(
        "cannot {0}: IPv6 is switched off on this host (net.ipv6.conf.*.disable_ipv6 = 1): switch \
         it on, or leave IPv6 out of the configuration"
    )]
    Ipv6Off(String),
    /// The footprint cannot be written.
    #[error("cannot record the changes to this host: {0}")]
    Footprint(io::Error),
}

/// The desired state of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Desired {
    /// Inner addresses, on the TUN.
    pub addresses: BTreeSet<IpAddr>,
    /// Into the tunnel: destination, and which of our addresses is the source (the inner one in
    /// tunnel mode, the outer one in transport mode).
    pub routes: BTreeMap<Prefix, Option<IpAddr>>,
    /// By connection: what is refused while no tunnel carries it.
    pub blocks: BTreeMap<String, BTreeSet<Prefix>>,
    /// Connections whose blocks end with the process.
    pub passing: BTreeSet<String>,
    /// Rules of full tunnels, of IPv6 or not.
    pub rules: BTreeSet<(bool, Purpose)>,
    /// What Mobile IPv4 needs on links.
    #[serde(default)]
    pub roaming: Roaming,
}

impl Desired {
    /// `home` is the address of a mobile node; `links` are the TUN device and the visitors' link.
    fn rules(
        &self,
        (table, fwmark): (u32, u32),
        home: Option<Ipv4Addr>,
        links: (&str, &str),
    ) -> BTreeSet<Rule> {
        let tunnel = self.taken().into_iter().map(|prefix| {
            let purpose = match home {
                Some(_) => Purpose::Mobile,
                None => Purpose::Tunnel,
            };
            (prefix.address.is_ipv6(), purpose)
        });
        let roaming = self.roaming.rules(home, links).into_iter();
        let roaming = roaming.map(|purpose| (false, purpose));
        let all = tunnel.chain(self.rules.iter().cloned()).chain(roaming);
        all.map(|(is_ipv6, purpose)| Rule {
            purpose,
            is_ipv6,
            fwmark,
            table,
        })
        .collect()
    }

    /// A kernel without IPv6 has nothing of it to refuse. The kernel is asked only if that matters.
    pub fn fit_to_kernel(&mut self) {
        let everything = Prefix::everything(true);
        let is_refused = self.blocks.values().any(|it| it.contains(&everything));
        let has_rules = self.rules.iter().any(|(is_ipv6, _)| *is_ipv6);
        if (is_refused || has_rules) && !has_ipv6() {
            self.forget_ipv6();
        }
    }

    fn forget_ipv6(&mut self) {
        self.rules.retain(|(is_ipv6, _)| !is_ipv6);
        let everything = Prefix::everything(true);
        for prefixes in self.blocks.values_mut() {
            prefixes.remove(&everything);
        }
    }

    /// Leaves hosts in these networks of this host there, except for DNS ([`Purpose::beside`]).
    pub fn spare(&mut self, own: &[Prefix]) {
        let taken = self.taken();
        let rules = core::mem::take(&mut self.rules).into_iter();
        let beside = |(is_ipv6, rule): (bool, Purpose)| (is_ipv6, rule.beside(own, &taken));
        self.rules = rules.map(beside).collect();
    }

    /// All destinations that go into a tunnel or are refused.
    pub fn taken(&self) -> BTreeSet<Prefix> {
        let blocks = self.blocks.values().flatten();
        self.routes.keys().chain(blocks).copied().collect()
    }

    /// Keeps the routes and blocks that another state has too. A change to that one leaves them
    /// alone, even if it fails half way.
    fn keep_common(&mut self, other: &Self) {
        self.routes
            .retain(|to, source| other.routes.get(to) == Some(source));
        let taken: BTreeSet<&Prefix> = other.blocks.values().flatten().collect();
        for prefixes in self.blocks.values_mut() {
            prefixes.retain(|prefix| taken.contains(prefix));
        }
    }

    /// What must be added so that this state is in force. What `known` has is there.
    fn additions(&self, known: Option<&Self>, table: u32) -> Additions {
        let is_blocked = |prefix: &&Prefix| {
            known.is_some_and(|known| known.blocks.values().any(|it| it.contains(*prefix)))
        };
        let is_routed = |(to, source): &(&Prefix, &Option<IpAddr>)| {
            known.is_some_and(|known| known.routes.get(*to) == Some(*source))
        };
        let blocks = self.blocks.values().flatten();
        let routes = self.routes.iter().filter(|it| !is_routed(it));
        Additions {
            blocks: blocks.filter(|it| !is_blocked(it)).copied().collect(),
            routes: routes
                .map(|(&to, &source)| TableRoute { table, to, source })
                .chain(self.route_of_next(table))
                .collect(),
        }
    }

    fn table_routes(&self, table: u32) -> BTreeSet<TableRoute> {
        let routes = self.routes.iter();
        let routes = routes.map(|(&to, &source)| TableRoute { table, to, source });
        routes.chain(self.route_of_next(table)).collect()
    }

    /// The next table leads everything into the tunnel.
    fn route_of_next(&self, table: u32) -> Option<TableRoute> {
        self.roaming.needs_next_table().then(|| TableRoute {
            table: table + 1,
            to: Prefix::everything(false),
            source: None,
        })
    }
}

/// What one change of the host adds, with one request to the kernel for each.
#[derive(Debug, PartialEq, Eq)]
struct Additions {
    blocks: BTreeSet<Prefix>,
    routes: Vec<TableRoute>,
}

/// What happens to the blocking routes when a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// They stay: nothing leaks until `caravan down`.
    Stay,
    /// They are removed.
    Lifted,
}

/// What a configuration says of the process's own part of the host.
#[derive(Clone, Debug)]
pub struct Own {
    /// The TUN device.
    pub tun: String,
    /// Routing table of the routes into the tunnel.
    pub table: u32,
    /// The mark of our own datagrams.
    pub fwmark: u32,
    /// The mobile part.
    pub part: Option<Part>,
}

impl Own {
    /// From a configuration.
    pub fn of(loaded: &Loaded) -> Self {
        let table = &loaded.daemon;
        Self {
            tun: table.tun.clone(),
            table: table.table,
            fwmark: table.fwmark,
            part: loaded.mobility.as_ref().map(Mobility::part),
        }
    }

    fn rules(&self, desired: &Desired) -> BTreeSet<Rule> {
        let visited = self.part.as_ref().map_or("", roaming::visited);
        let home = self.part.as_ref().and_then(|part| part.home);
        let home = home.map(|(address, _)| address);
        desired.rules((self.table, self.fwmark), home, (&self.tun, visited))
    }
}

/// The routes of one process.
pub struct Routes {
    netlink: Netlink,
    link: u32,
    own: Own,
    addresses: BTreeSet<IpAddr>,
    /// What is there of the state that was applied last, or nothing if that is not known.
    known: Option<Desired>,
    /// Whether that is all of it, and nothing else is there.
    is_whole: bool,
    /// When all routes and blocks were last added, or an attempt to do so failed.
    all_added_at: Instant,
}

impl Routes {
    /// Opens the TUN device, which must exist. Brings it up, keeps link-local addresses off it and
    /// loosens its reverse path filter. Must run within a tokio runtime.
    pub async fn open(own: Own, mtu: u16) -> Result<Self, RouteError> {
        let tun = &own.tun;
        // Without an address family its file is missing. A filter that cannot be loosened stays.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{tun}/rp_filter"), "2");
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{tun}/addr_gen_mode"), "1");
        let netlink = Netlink::open()?;
        let link = netlink.link_index(tun).await?;
        netlink.bring_up(link, mtu).await?;
        Ok(Self {
            netlink,
            link,
            own,
            addresses: BTreeSet::new(),
            known: None,
            is_whole: false,
            all_added_at: Instant::now(),
        })
    }

    /// Sets the largest inner packet.
    pub async fn set_mtu(&self, mtu: u16) -> Result<(), RouteError> {
        self.netlink.bring_up(self.link, mtu).await
    }

    /// Brings the host into the desired state. The order is: add blocks, add routes, remove old
    /// routes, remove old blocks. Does nothing if the state is the same: on a gateway most tunnels
    /// come and go without a change. What the last state had is not added again, unless
    /// `ADD_AGAIN_INTERVAL` has passed: a gateway may have routes to thousands of peers, and the
    /// messages of all wait for the route to a new one.
    pub async fn apply(
        &mut self,
        desired: &Desired,
        file: &mut FootprintFile,
    ) -> Result<(), RouteError> {
        if self.is_whole && self.known.as_ref() == Some(desired) {
            return Ok(());
        }
        let begun = Instant::now();
        if let Some(known) = &mut self.known {
            known.keep_common(desired);
        }
        self.is_whole = false;
        let is_recent = begun - self.all_added_at < ADD_AGAIN_INTERVAL;
        let known = self.known.clone().filter(|_| is_recent);
        if known.is_none() {
            self.all_added_at = begun;
        }
        self.change(desired, known.as_ref(), file).await?;
        self.known = Some(desired.clone());
        self.is_whole = true;
        Ok(())
    }

    async fn change(
        &mut self,
        desired: &Desired,
        known: Option<&Desired>,
        file: &mut FootprintFile,
    ) -> Result<(), RouteError> {
        let table = self.own.table;
        let rules = self.own.rules(desired);
        let routes = desired.table_routes(table);
        let before = file.footprint.clone();
        file.update(|footprint| {
            footprint.table = table;
            footprint.device.clone_from(&self.own.tun);
            footprint.passing.extend(desired.passing.iter().cloned());
            footprint.rules.extend(rules.iter().cloned());
            footprint.routes.extend(&routes);
            for (name, prefixes) in &desired.blocks {
                let known = footprint.blocks.entry(name.clone()).or_default();
                known.extend(prefixes);
            }
        })
        .map_err(RouteError::Footprint)?;
        let additions = desired.additions(known, table);
        for prefix in &additions.blocks {
            self.netlink.add_block(table, *prefix, BLOCK_METRIC).await?;
        }
        for address in &desired.addresses {
            if !self.addresses.contains(address) {
                self.netlink.add_address(self.link, *address).await?;
                self.addresses.insert(*address);
            }
        }
        for route in &additions.routes {
            self.netlink
                .add_route(self.link, route, TUNNEL_METRIC)
                .await?;
        }
        if let Some(part) = &self.own.part {
            let place = (part, table, self.link);
            roaming::apply(&self.netlink, &desired.roaming, place, file).await?;
        }
        for rule in &rules {
            self.netlink.add_rule(rule).await?;
        }
        self.remove_superfluous(desired, &before, file).await
    }

    async fn remove_superfluous(
        &mut self,
        desired: &Desired,
        before: &Footprint,
        file: &mut FootprintFile,
    ) -> Result<(), RouteError> {
        let routes = desired.table_routes(self.own.table);
        let rules = self.own.rules(desired);
        for rule in before.rules.iter().rev() {
            if !rules.contains(rule) && !file.shares_rule(rule) {
                self.netlink.remove_rule(rule).await?;
            }
        }
        for route in before.routes.difference(&routes) {
            // A route to the same destination from another address has already replaced it.
            let is_replaced =
                route.table == self.own.table && desired.routes.contains_key(&route.to);
            if !is_replaced {
                self.netlink.remove_route(route, TUNNEL_METRIC).await?;
            }
        }
        for address in &self.addresses - &desired.addresses {
            self.netlink.remove_address(self.link, address).await?;
            self.addresses.remove(&address);
        }
        let wanted: BTreeSet<Prefix> = desired.blocks.values().flatten().copied().collect();
        for prefix in before.blocks.values().flatten() {
            if !wanted.contains(prefix) && !file.shares_block(before.table, prefix) {
                self.netlink
                    .remove_block(before.table, *prefix, BLOCK_METRIC)
                    .await?;
            }
        }
        file.update(|footprint| {
            footprint.rules = rules;
            footprint.routes = routes;
            footprint.blocks = desired.blocks.clone();
            footprint.passing = desired.passing.clone();
        })
        .map_err(RouteError::Footprint)
    }
}

/// Adds the desired blocks to the existing ones, without a device, before there is a tunnel.
/// Replaces blocks in another table.
pub async fn block(
    desired: &Desired,
    own: &Own,
    file: &mut FootprintFile,
) -> Result<(), RouteError> {
    let netlink = Netlink::open()?;
    let before = file.footprint.clone();
    let (table, rules) = (own.table, own.rules(desired));
    file.update(|footprint| {
        footprint.table = table;
        footprint.device.clone_from(&own.tun);
        footprint.rules.extend(rules.iter().cloned());
        for (name, prefixes) in &desired.blocks {
            let known = footprint.blocks.entry(name.clone()).or_default();
            known.extend(prefixes);
        }
    })
    .map_err(RouteError::Footprint)?;
    // All blocks of the footprint: the state of another table is unknown here.
    for prefix in file.footprint.blocks.values().flatten() {
        netlink.add_block(table, *prefix, BLOCK_METRIC).await?;
    }
    for rule in &rules {
        netlink.add_rule(rule).await?;
    }
    if before.table != table {
        for prefix in before.blocks.values().flatten() {
            if !file.shares_block(before.table, prefix) {
                netlink
                    .remove_block(before.table, *prefix, BLOCK_METRIC)
                    .await?;
            }
        }
    }
    Ok(())
}

/// Undoes the routes and rules of a footprint, of this process at its end or of a dead one. Rules
/// stay while blocking routes do, or while another process needs them.
pub async fn undo(file: &mut FootprintFile, blocks: Blocks) -> Result<(), RouteError> {
    let netlink = Netlink::open()?;
    let footprint = file.footprint.clone();
    roaming::undo(&netlink, file).await?;
    for route in &footprint.routes {
        netlink.remove_route(route, TUNNEL_METRIC).await?;
    }
    let is_kept = |name: &String| blocks == Blocks::Stay && !footprint.passing.contains(name);
    let (kept, lifted): (BTreeMap<_, _>, BTreeMap<_, _>) = footprint
        .blocks
        .iter()
        .filter(|(_, prefixes)| !prefixes.is_empty())
        .map(|(name, prefixes)| (name.clone(), prefixes.clone()))
        .partition(|(name, _)| is_kept(name));
    let still: BTreeSet<Prefix> = kept.values().flatten().copied().collect();
    for prefix in lifted.values().flatten() {
        if !still.contains(prefix) && !file.shares_block(footprint.table, prefix) {
            netlink
                .remove_block(footprint.table, *prefix, BLOCK_METRIC)
                .await?;
        }
    }
    if still.is_empty() {
        for rule in footprint.rules.iter().rev() {
            if !file.shares_rule(rule) {
                netlink.remove_rule(rule).await?;
            }
        }
    }
    file.update(|footprint| {
        footprint.routes.clear();
        footprint.passing.clear();
        if still.is_empty() {
            footprint.rules.clear();
        }
        footprint.blocks = kept;
    })
    .map_err(RouteError::Footprint)
}

/// Whether this kernel supports IPv6.
fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// Warns if the kernel does not forward packets for others.
pub fn forwarding_warning(is_ipv6: bool) -> Option<String> {
    let key = match is_ipv6 {
        false => "net/ipv4/ip_forward",
        true => "net/ipv6/conf/all/forwarding",
    };
    let text = std::fs::read_to_string(format!("/proc/sys/{key}")).ok()?;
    let setting = key.replace('/', ".");
    (text.trim() == "0").then(|| {
        format!(
            "{setting} is 0: this host forwards nothing for others; `sysctl -w {setting}=1` \
             allows it"
        )
    })
}

/// Warns if the kernel drops what these hosts send on this interface: routes to their addresses
/// lead elsewhere.
pub fn source_check_warning(interface: &str, hosts: &str) -> Option<String> {
    let of = |name: &str| {
        let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    // The larger one counts: 1 is strict, 2 is loose.
    let [all, own]: [Option<u8>; 2] = ["all", interface].map(of);
    (all.max(own) == Some(1)).then(|| {
        let setting = format!("net.ipv4.conf.{interface}.rp_filter");
        format!(
            "{setting} is 1, here or for all: this host drops what {hosts} send; \
             `sysctl -w {setting}=2` allows it"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u32 = 221;

    fn peer(number: u16) -> Prefix {
        let [high, low] = number.to_be_bytes();
        Prefix::host([198, 51, high, low].into())
    }

    fn state(peers: impl IntoIterator<Item = u16>) -> Desired {
        let peers: Vec<Prefix> = peers.into_iter().map(peer).collect();
        Desired {
            routes: peers.iter().map(|to| (*to, None)).collect(),
            blocks: [("road".to_owned(), peers.into_iter().collect())].into(),
            ..Desired::default()
        }
    }

    /// Requests for blocks and for routes.
    fn requests(desired: &Desired, known: Option<&Desired>) -> (usize, usize) {
        let additions = desired.additions(known, TABLE);
        (additions.blocks.len(), additions.routes.len())
    }

    #[test]
    fn a_new_peer_among_thousands_costs_one_request_for_its_route() {
        let known = state(0..10_000);
        let desired = state(0..10_001);
        assert_eq!(requests(&desired, Some(&known)), (1, 1));
        let to = peer(10_000);
        let route = TableRoute {
            table: TABLE,
            to,
            source: None,
        };
        let additions = Additions {
            blocks: [to].into(),
            routes: vec![route],
        };
        assert_eq!(desired.additions(Some(&known), TABLE), additions);
        assert_eq!(requests(&known, Some(&desired)), (0, 0), "one has gone");
    }

    /// Both may route the same destination, and either process may start first.
    #[test]
    fn a_vpn_comes_before_mobile_ip() {
        let part = |home| Part {
            home,
            hears_broadcasts: false,
            interfaces: Vec::new(),
            quiet: Vec::new(),
        };
        let priority = |home| {
            let own = Own {
                tun: "caravan0".to_owned(),
                table: TABLE,
                fwmark: 7,
                part: Some(part(home)),
            };
            let rules = own.rules(&state(0..2));
            let [rule] = &rules.into_iter().collect::<Vec<_>>()[..] else {
                panic!("one rule")
            };
            netlink::priority(&netlink::rule_message(rule)).unwrap()
        };
        let home = Some(([10, 18, 3, 17].into(), 24));
        assert!(priority(None) < priority(home));
    }

    #[test]
    fn a_route_from_another_address_replaces_the_known_one() {
        let known = state(0..3);
        let mut desired = known.clone();
        let source: IpAddr = [10, 10, 0, 1].into();
        desired.routes.insert(peer(1), Some(source));
        assert_eq!(requests(&desired, Some(&known)), (0, 1));
    }

    #[test]
    fn where_nothing_is_known_everything_is_added() {
        assert_eq!(requests(&state(0..100), None), (100, 100));
    }

    #[test]
    fn after_a_failed_change_what_both_states_have_is_known() {
        let mut known = state(0..1_000);
        // One peer came, one has gone, and one is routed from another of our addresses.
        let mut desired = state(1..1_001);
        let source: IpAddr = [10, 10, 0, 1].into();
        desired.routes.insert(peer(7), Some(source));
        known.keep_common(&desired);
        assert_eq!(requests(&desired, Some(&known)), (1, 2));
        // The host refused that. The state before it needs again what may have gone.
        assert_eq!(requests(&state(0..1_000), Some(&known)), (1, 2));
        assert_eq!(requests(&state(1..7), Some(&known)), (0, 0));
        // A block of another connection is the same route.
        let mut renamed = state(1..1_000);
        renamed.blocks = [("rail".to_owned(), renamed.taken())].into();
        known.keep_common(&renamed);
        assert_eq!(requests(&renamed, Some(&known)).0, 0);
    }
}
