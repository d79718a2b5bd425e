//! Addresses, routes and rules of the host, through rtnetlink.
//!
//! A separate table routes traffic for the other side into the TUN device. A rule consults it for
//! every packet except those with our mark, so our own datagrams never loop. Blocking routes are in
//! the same table with a worse metric, so that traffic of a vanished tunnel is refused. [`full`]
//! decides what a full tunnel leaves to the host, [`reach`] what a connection carries and from
//! which address; [`prefix`] has the arithmetic, [`watch`] the host's changes and our own address.
//! Left out: routes by port or protocol. Such selectors route whole addresses.

pub mod entries;
pub mod full;
mod mtu;
mod netlink;
pub mod prefix;
pub mod reach;
pub mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::footprint::{Footprint, FootprintFile};

use full::Purpose;
use netlink::Netlink;

pub use entries::{Rule, TableRoute};
pub use mtu::link_mtu;
pub use prefix::{Prefix, covering, prefixes};

/// Routes into the tunnel.
const TUNNEL_METRIC: u32 = 100;
/// Blocking routes: every other route takes precedence.
const BLOCK_METRIC: u32 = 4_000_000;

/// Why the host's tables could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum RouteError {
    /// The kernel refused.
    #[error("cannot {what}: {source}")]
    Netlink {
        /// The operation.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
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
}

impl Desired {
    fn rules(&self, fwmark: u32, table: u32) -> BTreeSet<Rule> {
        let tunnel = self.taken().into_iter();
        let tunnel = tunnel.map(|prefix| (prefix.address.is_ipv6(), Purpose::Tunnel));
        let all = tunnel.chain(self.rules.iter().copied());
        all.map(|(is_ipv6, purpose)| Rule {
            purpose,
            is_ipv6,
            fwmark,
            table,
        })
        .collect()
    }

    /// A kernel without IPv6 has nothing of it to refuse.
    pub fn forget_ipv6(&mut self) {
        self.rules.retain(|(is_ipv6, _)| !is_ipv6);
        let everything = Prefix::everything(true);
        for prefixes in self.blocks.values_mut() {
            prefixes.remove(&everything);
        }
    }

    /// All destinations that go into a tunnel or are refused.
    pub fn taken(&self) -> BTreeSet<Prefix> {
        let blocks = self.blocks.values().flatten();
        self.routes.keys().chain(blocks).copied().collect()
    }

    fn table_routes(&self, table: u32) -> BTreeSet<TableRoute> {
        let routes = self.routes.iter();
        routes
            .map(|(&to, &source)| TableRoute { table, to, source })
            .collect()
    }
}

/// What happens to the blocking routes when a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// They stay: nothing leaks until `caravan down`.
    Stay,
    /// They are removed.
    Lifted,
}

/// The routes of one process.
pub struct Routes {
    netlink: Netlink,
    link: u32,
    table: u32,
    fwmark: u32,
    addresses: BTreeSet<IpAddr>,
    /// The state applied last.
    applied: Option<Desired>,
}

impl Routes {
    /// Opens the TUN device of this name, which must exist. Brings it up, keeps link-local
    /// addresses off it and loosens its reverse path filter. Must run within a tokio runtime.
    pub async fn open(tun: &str, mtu: u16, table: u32, fwmark: u32) -> Result<Self, RouteError> {
        // Without an address family its file is missing. A filter that cannot be loosened stays.
        let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{tun}/rp_filter"), "2");
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{tun}/addr_gen_mode"), "1");
        let netlink = Netlink::open()?;
        let link = netlink.link_index(tun).await?;
        netlink.bring_up(link, mtu).await?;
        Ok(Self {
            netlink,
            link,
            table,
            fwmark,
            addresses: BTreeSet::new(),
            applied: None,
        })
    }

    /// Sets the largest inner packet.
    pub async fn set_mtu(&self, mtu: u16) -> Result<(), RouteError> {
        self.netlink.bring_up(self.link, mtu).await
    }

    /// Brings the host into the desired state. The order is: add blocks, add routes, remove old
    /// routes, remove old blocks. Does nothing if the state is the same: on a gateway most tunnels
    /// come and go without a change.
    pub async fn apply(
        &mut self,
        desired: &Desired,
        file: &mut FootprintFile,
    ) -> Result<(), RouteError> {
        if self.applied.as_ref() == Some(desired) {
            return Ok(());
        }
        let last = self.applied.take();
        self.change(desired, last.as_ref(), file).await?;
        self.applied = Some(desired.clone());
        Ok(())
    }

    async fn change(
        &mut self,
        desired: &Desired,
        last: Option<&Desired>,
        file: &mut FootprintFile,
    ) -> Result<(), RouteError> {
        let rules = desired.rules(self.fwmark, self.table);
        let routes = desired.table_routes(self.table);
        let before = file.footprint.clone();
        file.update(|footprint| {
            footprint.table = self.table;
            footprint.passing.extend(desired.passing.iter().cloned());
            footprint.rules.extend(&rules);
            footprint.routes.extend(&routes);
            for (name, prefixes) in &desired.blocks {
                let known = footprint.blocks.entry(name.clone()).or_default();
                known.extend(prefixes);
            }
        })
        .map_err(RouteError::Footprint)?;
        // Blocks do not vanish with a device: they are still there.
        let is_there = |prefix: &&Prefix| {
            last.is_some_and(|last| last.blocks.values().any(|known| known.contains(*prefix)))
        };
        let blocks = desired.blocks.values().flatten();
        for prefix in blocks.filter(|prefix| !is_there(prefix)) {
            self.netlink
                .add_block(self.table, *prefix, BLOCK_METRIC)
                .await?;
        }
        for address in desired.addresses.difference(&self.addresses) {
            self.netlink.add_address(self.link, *address).await?;
        }
        for route in &routes {
            self.netlink
                .add_route(self.link, route, TUNNEL_METRIC)
                .await?;
        }
        for rule in &rules {
            self.netlink.add_rule(rule).await?;
        }
        self.remove_superfluous(desired, &before, file).await?;
        self.addresses = desired.addresses.clone();
        Ok(())
    }

    async fn remove_superfluous(
        &self,
        desired: &Desired,
        before: &Footprint,
        file: &mut FootprintFile,
    ) -> Result<(), RouteError> {
        let routes = desired.table_routes(self.table);
        let rules = desired.rules(self.fwmark, self.table);
        for rule in before.rules.iter().rev() {
            if !rules.contains(rule) && !file.shares_rule(rule) {
                self.netlink.remove_rule(rule).await?;
            }
        }
        for route in before.routes.difference(&routes) {
            // A route to the same destination from another address has already replaced it.
            if !desired.routes.contains_key(&route.to) {
                self.netlink.remove_route(route, TUNNEL_METRIC).await?;
            }
        }
        for address in self.addresses.difference(&desired.addresses) {
            self.netlink.remove_address(self.link, *address).await?;
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
    (table, fwmark): (u32, u32),
    file: &mut FootprintFile,
) -> Result<(), RouteError> {
    let netlink = Netlink::open()?;
    let before = file.footprint.clone();
    let rules = desired.rules(fwmark, table);
    file.update(|footprint| {
        footprint.table = table;
        footprint.rules.extend(&rules);
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
pub fn has_ipv6() -> bool {
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
            "{setting} is 0: this host forwards nothing to the servers inside; `sysctl -w \
             {setting}=1` allows it"
        )
    })
}
