//! A full tunnel is a client's connection whose selectors take all of an address family: by
//! 0.0.0.0/0, by its two halves, or by all parts of it that the Internet uses. This module decides
//! about the host's other traffic.
//!
//! - The other family is refused: programs prefer IPv6, and would bypass a tunnel of IPv4.
//! - The local network keeps the host's own routes, except default routes, for private addresses. A
//!   network that declares public addresses local, by DHCP or router advertisements, would
//!   otherwise pull traffic for them out of the tunnel.
//! - Networks that a selector names and the gateway's resolvers stay in the tunnel, whatever the
//!   local network claims; so do all DNS queries. A gateway may name a host of the local network as
//!   its resolver: of such a host only DNS belongs to the tunnel.
//!
//! Kernel rules express all this, so a client that moves to another network changes nothing. IPv6
//! multicast is in the kernel's table `local`, which comes before all our rules.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::config::{Child, Connection};
use engine::sa::Mode;
use serde::{Deserialize, Serialize};

use super::Prefix;
use super::prefix::number;
use super::reach::is_link_local;

/// RFC 1918 §3, RFC 6598 §7, RFC 3927 §2.1.
const PRIVATE_V4: [(Ipv4Addr, u8); 5] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];
/// RFC 4193 §3.1, RFC 4291 §2.5.6.
const PRIVATE_V6: [(Ipv6Addr, u8); 2] = [
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
];
/// Multicast and the limited broadcast. Routers do not forward them by default.
const GROUPS_V4: [(Ipv4Addr, u8); 2] = [
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(255, 255, 255, 255), 32),
];
/// Addresses that no machine on the Internet has, besides the private ones: this host, loopback,
/// multicast and reserved (RFC 6890 §2.2.2).
const UNUSED_V4: [(Ipv4Addr, u8); 3] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];
/// All but 2000::/3, the assigned global unicast addresses (RFC 4291 §2.4).
const UNUSED_V6: [(Ipv6Addr, u8); 3] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 0), 3),
    (Ipv6Addr::new(0x4000, 0, 0, 0, 0, 0, 0, 0), 2),
    (Ipv6Addr::new(0x8000, 0, 0, 0, 0, 0, 0, 0), 1),
];

/// DNS over TLS (RFC 7858 §3.1).
pub const SECURED_PORT: u16 = 853;

/// A client's connection that takes all of an address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullTunnel {
    /// It takes all of IPv4.
    pub v4: bool,
    /// It takes all of IPv6.
    pub v6: bool,
    /// What happens to the local network.
    pub lan: Lan,
    /// What happens to the family that it does not take.
    pub other_family: OtherFamily,
}

/// What happens to the local network: `lan` in a configuration.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum Lan {
    /// Printers, containers and administrators of this host stay reachable. Only private addresses:
    /// a network that declares public addresses local would pull them out of the tunnel.
    #[default]
    Allow,
    /// Into the tunnel, or refused.
    Block,
}

/// What happens to the address family that a full tunnel does not take: `other_family`.
#[derive(Clone, Copy, Debug, Default, Serialize, PartialEq, Eq)]
pub enum OtherFamily {
    /// Refused. Programs prefer IPv6, and would bypass a tunnel of IPv4.
    #[default]
    Block,
    /// Traffic takes the ordinary route.
    Pass,
}

impl FullTunnel {
    /// `None` if the connection names only networks, or is a gateway's.
    pub fn of(connection: &Connection, lan: Lan, other_family: OtherFamily) -> Option<Self> {
        if connection.remote_addrs.is_empty() {
            return None;
        }
        let is_tunnel = |child: &&Child| child.mode == Mode::Tunnel;
        let children = connection.children.iter().filter(is_tunnel);
        let selectors = children.flat_map(|child| &child.remote);
        let mut ranges: Vec<_> = selectors.map(|s| (s.first, s.last)).collect();
        if ranges.is_empty() {
            return None;
        }
        // "All but the gateway" is a common list.
        let gateways = connection.remote_addrs.iter();
        ranges.extend(gateways.map(|gateway| (gateway.ip(), gateway.ip())));
        let (v4, v6) = (takes_all(&ranges, false), takes_all(&ranges, true));
        (v4 || v6).then_some(Self {
            v4,
            v6,
            lan,
            other_family,
        })
    }

    /// The whole family that is not taken. A selector in that family has a route of its own.
    fn other(&self) -> Option<Prefix> {
        (self.v4 != self.v6).then(|| Prefix::everything(self.v4))
    }

    /// What is refused because no tunnel carries it.
    pub fn refused(&self) -> Option<Prefix> {
        let is_blocked = self.other_family == OtherFamily::Block;
        self.other().filter(|_| is_blocked)
    }

    /// Whether we decide about this family: it is taken or refused.
    fn governs(&self, is_ipv6: bool) -> bool {
        let takes = if is_ipv6 { self.v6 } else { self.v4 };
        takes || self.refused().is_some()
    }

    /// A warning about the family that is not taken.
    pub fn warning(&self) -> Option<String> {
        let other = self.other()?;
        let (taken, other, wants) = match other.address {
            IpAddr::V6(_) => ("IPv4", "IPv6", "\"::/0\" in remote_ts and \"::\" in vips"),
            IpAddr::V4(_) => (
                "IPv6",
                "IPv4",
                "\"0.0.0.0/0\" in remote_ts and \"0.0.0.0\" in vips",
            ),
        };
        Some(match self.other_family {
            OtherFamily::Block => format!(
                "remote_ts covers all of {taken} but not of {other}: the rest of {other} is \
                 refused; {wants} send it through the tunnel, other_family = \"pass\" lets it out \
                 unencrypted"
            ),
            OtherFamily::Pass => format!(
                "remote_ts covers all of {taken} but not of {other}: the rest of {other} leaves \
                 unencrypted, outside the tunnel, as other_family = \"pass\" says"
            ),
        })
    }

    /// Describes the tunnel's effect on a host with these networks on its links.
    pub fn describe(&self, networks: &[(String, Prefix)]) -> String {
        let taken = match (self.v4, self.v6) {
            (true, true) => "all of IPv4 and IPv6 goes",
            (true, false) => "all of IPv4 goes",
            _ => "all of IPv6 goes",
        };
        let governed = networks
            .iter()
            .filter(|(_, it)| self.governs(it.address.is_ipv6()));
        let is_private =
            |prefix: &Prefix| private(prefix.address.is_ipv6()).any(|it| it.contains(prefix));
        let (near, public): (Vec<_>, Vec<_>) = governed.partition(|(_, it)| is_private(it));
        let list = |found: &[&(String, Prefix)]| {
            let each = found.iter().map(|(link, it)| format!("{it} on {link}"));
            each.collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("full tunnel: {taken} into it, DNS queries too; ");
        match (self.lan, near.is_empty()) {
            (Lan::Block, _) => {
                text += "the local network is not reached (lan = \"block\")";
                return text;
            }
            (Lan::Allow, true) => text += "the local network stays reachable",
            (Lan::Allow, false) => {
                text += &format!("the local network stays reachable, here {}", list(&near));
            }
        }
        text += " (lan = \"block\" changes that)";
        if !public.is_empty() {
            text += &format!(
                ", but not {}: public addresses always use the tunnel",
                list(&public)
            );
        }
        text
    }
}

/// The purpose of a rule. Rules are added in this order and removed in the reverse order. A rule
/// names its interface, as the kernel does, and so it is found when the interface is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// IPsec of a mobile node from the address that a home agent outside keeps, to this VPN
    /// gateway: by the table, which leads to a foreign agent. It comes before all others: on a link
    /// without an address the host has no route.
    ByAgent {
        /// The node's address.
        own: Ipv4Addr,
        /// The VPN gateway's.
        gateway: Ipv4Addr,
    },
    /// The target of [`Purpose::Spared`], behind all others.
    Landing,
    /// Our own datagrams skip all other rules.
    Spared,
    /// A private network that belongs to the tunnel, whatever the local network claims.
    Kept(Prefix),
    /// DNS over TLS to a resolver of the gateway whose address is in a network of this host, too.
    /// All other ports of this address stay with that network.
    Secured(Prefix),
    /// DNS queries over TCP (otherwise UDP) belong to the tunnel.
    Questions {
        /// TCP or UDP.
        is_tcp: bool,
    },
    /// The local network: the host's own routes, except default routes.
    Local(Prefix),
    /// Multicast and broadcast: the host's own routes.
    Group(Prefix),
    /// Programs that use a mobile node's care-of address: the host's own routes.
    CareOf(Ipv4Addr),
    /// Packets of a foreign agent's visitor that come from this interface: into the next table,
    /// which leads into the tunnel.
    Visitor {
        /// Its home address.
        home: Ipv4Addr,
        /// Name of the interface.
        link: String,
    },
    /// Packets that come out of the TUN device: by the table. It leads to visitors of a foreign
    /// agent, who get what their home agents send, and nothing else.
    Arrived {
        /// Name of the TUN device.
        link: String,
    },
    /// Packets of a home agent that come out of the TUN device go into it again, by the next
    /// table: a firewall opens them, and closes them for the other side.
    Returned {
        /// The home agent.
        agent: Ipv4Addr,
        /// They are from it; otherwise to it.
        is_source: bool,
        /// Name of the TUN device.
        link: String,
    },
    /// Every packet into the tunnel's table, except our own datagrams.
    #[default]
    Tunnel,
    /// The same for the table of a mobile node, behind those of all other tunnels of this host:
    /// what a VPN takes must not leave through Mobile IPv4 alone.
    Mobile,
    /// What a mobile node sends from its home address, and no tunnel takes, is refused: it is away
    /// and not registered.
    Unregistered(Ipv4Addr),
}

impl Purpose {
    /// The rule as it is beside these networks of this host, and destinations that are `taken` by
    /// name: of a host in them that the gateway calls its resolver only DNS is kept.
    pub fn beside(self, own: &[Prefix], taken: &BTreeSet<Prefix>) -> Self {
        let is_near = |host: &Prefix| {
            is_link_local(host.address) || own.iter().any(|network| network.contains(host))
        };
        match self {
            Self::Kept(host) if host.is_host() && !taken.contains(&host) && is_near(&host) => {
                Self::Secured(host)
            }
            other => other,
        }
    }

    /// Whether [`rules`] could have made this rule, apart from the networks that it keeps in the
    /// tunnel.
    pub fn is_ours(&self, is_ipv6: bool) -> bool {
        match self {
            Self::Local(prefix) => private(is_ipv6).any(|it| it == *prefix),
            Self::Group(prefix) => groups(is_ipv6).any(|it| it == *prefix),
            Self::Kept(prefix) | Self::Secured(prefix) => prefix.address.is_ipv6() == is_ipv6,
            Self::Landing | Self::Spared | Self::Questions { .. } | Self::Tunnel => true,
            Self::ByAgent { .. }
            | Self::CareOf(_)
            | Self::Visitor { .. }
            | Self::Arrived { .. }
            | Self::Returned { .. }
            | Self::Mobile
            | Self::Unregistered(_) => false,
        }
    }
}

/// The facts that decide the rules of full tunnels.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Destinations that go into tunnels or are refused.
    pub taken: &'a BTreeSet<Prefix>,
    /// Resolvers that the tunnels lead to.
    pub resolvers: &'a [IpAddr],
    /// DNS queries belong to the tunnels.
    pub takes_questions: bool,
}

/// The rules for both families that these full tunnels need besides the tunnel's own.
pub fn rules(full: &[FullTunnel], around: &Surroundings) -> BTreeSet<(bool, Purpose)> {
    let mut found = BTreeSet::new();
    if full.iter().any(|one| one.lan == Lan::Block) {
        return found;
    }
    for is_ipv6 in [false, true] {
        if !full.iter().any(|one| one.governs(is_ipv6)) {
            continue;
        }
        let local: Vec<Purpose> = private(is_ipv6)
            .map(Purpose::Local)
            .chain(groups(is_ipv6).map(Purpose::Group))
            .collect();
        let resolvers = around
            .resolvers
            .iter()
            .map(|address| Prefix::host(*address));
        let named = around.taken.iter().copied().chain(resolvers);
        let is_within = |prefix: &Prefix| {
            let mut all = private(is_ipv6).chain(groups(is_ipv6));
            all.any(|it| it.contains(prefix))
        };
        let mut kept: Vec<Purpose> = named.filter(is_within).map(Purpose::Kept).collect();
        if around.takes_questions {
            kept.extend([false, true].map(|is_tcp| Purpose::Questions { is_tcp }));
        }
        if !kept.is_empty() {
            kept.extend([Purpose::Landing, Purpose::Spared]);
        }
        let all = kept.into_iter().chain(local);
        found.extend(all.map(|purpose| (is_ipv6, purpose)));
    }
    found
}

fn private(is_ipv6: bool) -> impl Iterator<Item = Prefix> {
    let v4 = (!is_ipv6).then_some(PRIVATE_V4).into_iter().flatten();
    let v6 = is_ipv6.then_some(PRIVATE_V6).into_iter().flatten();
    v4.map(prefix).chain(v6.map(prefix))
}

fn groups(is_ipv6: bool) -> impl Iterator<Item = Prefix> {
    let v4 = (!is_ipv6).then_some(GROUPS_V4).into_iter().flatten();
    v4.map(prefix)
}

fn prefix<A: Into<IpAddr>>((address, length): (A, u8)) -> Prefix {
    Prefix {
        address: address.into(),
        length,
    }
}

/// Whether these ranges contain all addresses of the family that the Internet uses.
fn takes_all(ranges: &[(IpAddr, IpAddr)], is_ipv6: bool) -> bool {
    let unused_v4 = (!is_ipv6).then_some(UNUSED_V4).into_iter().flatten();
    let unused_v6 = is_ipv6.then_some(UNUSED_V6).into_iter().flatten();
    let unused = unused_v4.map(prefix).chain(unused_v6.map(prefix));
    let free = unused.chain(private(is_ipv6)).map(|it| it.ends());
    let own = ranges.iter().copied();
    let of_family = own.filter(|(first, _)| first.is_ipv6() == is_ipv6);
    let all = of_family.chain(free);
    let mut all: Vec<(u128, u128)> = all.map(|(a, b)| (number(a), number(b))).collect();
    all.sort_unstable();
    // The first address that is not yet covered.
    let mut next = 0;
    for (first, last) in all {
        if first > next {
            return false;
        }
        match last.checked_add(1) {
            Some(after) => next = after.max(next),
            None => return true,
        }
    }
    let (_, end) = Prefix::everything(is_ipv6).ends();
    next > number(end)
}

#[cfg(test)]
mod tests;
