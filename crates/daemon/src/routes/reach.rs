//! What a connection's tunnels carry, and from which address of this host: whether DNS queries to a
//! resolver go through it, and the source address of the host's own programs.

use std::net::IpAddr;

use engine::config::{Child, ChildLayer, Connection};
use engine::ike::{NotReached, Unreachable};
use engine::sa::Mode;
use engine::selector::TrafficSelector;
use wire::ip::protocol::UDP;

use super::Prefix;
use super::prefix::number;
use crate::interfaces::entries;

/// The DNS port (RFC 1035 §4.2.1).
const DOMAIN_PORT: u16 = 53;

/// Whether queries to this resolver go through the connection's tunnels. A resolver that the
/// gateway assigned but that is outside would be queried unencrypted.
pub fn carries_questions(connection: &Connection, resolver: IpAddr) -> bool {
    let asks = |selector: &TrafficSelector| {
        (selector.first..=selector.last).contains(&resolver)
            && selector.first.is_ipv4() == resolver.is_ipv4()
            && [0, UDP].contains(&selector.protocol)
            && selector.ports.takes(Some(DOMAIN_PORT))
    };
    let to_gateway = || {
        let mut gateways = connection.remote_addrs.iter();
        gateways.any(|gateway| gateway.ip() == resolver)
    };
    connection.children.iter().any(|child| match child.mode {
        Mode::Tunnel => child.remote.iter().any(asks),
        Mode::Transport => child.remote.is_empty() && to_gateway(),
    })
}

/// The source address of this host's own programs in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Any of our addresses: the kernel chooses.
    Any,
    /// This address: a tunnel takes it.
    Address(IpAddr),
    /// None: no address of ours is within a selector.
    Nowhere,
}

impl Source {
    /// The first of `own` that a child of the connection takes, for peers of one family.
    pub fn of(connection: &Connection, is_ipv6: bool, own: &[IpAddr]) -> Self {
        let children = connection.children.iter();
        let mut selectors = Vec::new();
        let is_tunnel =
            |child: &&Child| child.mode == Mode::Tunnel && child.layer != ChildLayer::Around;
        for child in children.filter(is_tunnel) {
            // An empty selector means the outer address of the tunnel itself.
            if child.local.is_empty() {
                return Self::Any;
            }
            selectors.extend(of_family(child, is_ipv6));
        }
        if selectors.is_empty() || selectors.iter().any(is_everything) {
            return Self::Any;
        }
        let fits = |address: &&IpAddr| {
            let mut within = selectors.iter();
            within.any(|s| (s.first..=s.last).contains(*address))
        };
        let of_family = own.iter().filter(|address| address.is_ipv6() == is_ipv6);
        let found = of_family.copied().collect::<Vec<_>>();
        match found.iter().find(fits) {
            Some(address) => Self::Address(*address),
            None => Self::Nowhere,
        }
    }

    /// The address to route from.
    pub fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(address),
            Self::Any | Self::Nowhere => None,
        }
    }
}

fn of_family(child: &Child, is_ipv6: bool) -> impl Iterator<Item = TrafficSelector> {
    let local = child.local.iter().copied();
    local.filter(move |selector| selector.first.is_ipv6() == is_ipv6)
}

fn is_everything(selector: &TrafficSelector) -> bool {
    let all = TrafficSelector::everything(selector.first);
    (selector.first, selector.last) == (all.first, all.last)
}

/// The addresses and networks of this host's links except `tun`, by link. Excludes loopback and
/// link-local addresses, but a gateway may have another address on its loopback device.
pub fn own_networks(tun: &str) -> Vec<(String, IpAddr, Prefix)> {
    let found = entries().unwrap_or_default().into_iter();
    let usable = found.filter(|it| it.interface != tun);
    let mut all: Vec<_> = usable
        .filter_map(|it| {
            let address = it.address?;
            let length = number(it.mask?).count_ones() as u8;
            Some((it.interface, address, Prefix::around(address, length)))
        })
        .filter(|(_, address, _)| !address.is_loopback() && !is_link_local(*address))
        .collect();
    all.dedup();
    all
}

/// The addresses of [`own_networks`].
pub fn own_addresses(tun: &str) -> Vec<IpAddr> {
    let found = own_networks(tun).into_iter();
    found.map(|(_, address, _)| address).collect()
}

/// The networks of [`own_networks`].
pub fn near(tun: &str) -> Vec<Prefix> {
    let found = own_networks(tun).into_iter();
    found.map(|(_, _, network)| network).collect()
}

/// Interprets an ICMP message about an address in one of our own networks: our own host itself
/// reports that a host on its link is not reached.
pub fn seen_from_here(
    remote: IpAddr,
    what: Unreachable,
    own: &[(String, IpAddr, Prefix)],
) -> Unreachable {
    if what.why != NotReached::Host || !own.iter().any(|(_, address, _)| *address == what.by) {
        return what;
    }
    let peer = Prefix::host(remote);
    let is_near = own.iter().any(|(_, _, network)| network.contains(&peer));
    let why = match is_near {
        true => NotReached::Neighbour,
        false => NotReached::NextHop,
    };
    Unreachable { why, ..what }
}

/// Whether an address is known on its own link alone.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
