//! Values of Mobile IPv4 and of its firewalls that cannot work, and those that are unwise.
//!
//! Left out: what a single key tells, which `build` checks where it reads the key, and what this
//! host lacks, which is in `run`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use engine::firewall::access::Origin;
use engine::mip4::firewall::Side;
use engine::skip::udp::PORT as SKIP_IN_UDP;
use wire::mip4::PORT as REGISTRATIONS;
use wire::skip::{Name, Nsid};

use super::KeyFault;
use crate::config::file::{ConfigFile, Start};
use crate::config::firewall::{FirewallTable, Network, NodeFirewallTable, NodeGatewayTable};
use crate::config::mobility::{HomeAgentTable, MobileTable};
use crate::config::values::{Span, Transport};

/// A shorter registration is hardly there before it is renewed.
const SHORT: Duration = Duration::from_secs(10);
const LOOPBACK: &str = "lo";

/// Values that cannot work anywhere.
pub(super) fn values(file: &ConfigFile) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    if let Some(table) = &file.mobile {
        faults.extend(interfaces(table, &file.daemon.tun));
        for (key, address) in [
            ("home_address", table.home_address),
            ("home_agent", table.home_agent),
        ] {
            let found = no_host(address, (table.home_address, table.prefix));
            faults.extend(found.map(|text| (format!("mobile.{key}"), text)));
        }
        let has_outside = table.firewall.is_some() || table.gateway.is_some();
        if has_outside && !table.reverse_tunnel {
            let text = "with a firewall or a VPN gateway all that the node sends goes through the \
                        tunnel: remove it, or write true";
            faults.push(("mobile.reverse_tunnel".to_owned(), text.to_owned()));
        }
        let is_told_by_address = |it: &&NodeFirewallTable| it.side == Side::ByAddress;
        let firewall = table.firewall.as_ref().filter(is_told_by_address);
        let networks = firewall.and_then(|it| it.networks.as_deref());
        if networks.is_some_and(is_everything) {
            let text = "every care-of address would be inside, so nothing would ever go through \
                        the firewall: name your own networks alone";
            faults.push(("mobile.firewall.networks".to_owned(), text.to_owned()));
        }
    }
    if let Some(table) = &file.home_agent {
        faults.extend(firewalls(table, file));
    }
    if let Some(table) = &file.firewall {
        faults.extend(agents_as_nodes(table, file));
    }
    faults
}

/// What works and is unwise: a part and a sentence.
pub(super) fn unwise(file: &ConfigFile) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    if let Some(table) = &file.mobile {
        warnings.extend(far_agent(table));
        warnings.extend(short("mobile", "lifetime", table.lifetime));
        let firewall = table.firewall.as_ref();
        warnings.extend(firewall.into_iter().flat_map(|it| behind(it, table)));
        warnings.extend(table.gateway.iter().flat_map(|it| gateway(it, file)));
    }
    if let Some(table) = &file.home_agent {
        warnings.extend(short("home_agent", "max_lifetime", table.max_lifetime));
    }
    if let Some(table) = &file.foreign_agent {
        warnings.extend(short("foreign_agent", "max_lifetime", table.max_lifetime));
    }
    if let Some(table) = &file.firewall {
        for address in table.home_agents.iter().filter(|it| is_edge(**it)) {
            let text = format!(
                "home_agents: {address} is no host in most networks: hosts end neither in .0 nor \
                 in .255"
            );
            warnings.push(("firewall".to_owned(), text));
        }
    }
    warnings.extend(lines(file));
    warnings
}

/// Interfaces of a node that lead nowhere, or are there twice.
fn interfaces(table: &MobileTable, tun: &str) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    for (at, name) in table.interfaces.iter().enumerate() {
        let text = if name == LOOPBACK {
            format!("{name} leads to this host alone: name the links to the networks")
        } else if name == tun {
            format!("{name} is the device of our own tunnels (daemon.tun): name the links")
        } else if table.interfaces[..at].contains(name) {
            format!("{name} is there twice")
        } else {
            continue;
        };
        faults.push(("mobile.interfaces".to_owned(), text));
    }
    faults
}

/// Firewalls that a home agent could not tell from its nodes.
fn firewalls(table: &HomeAgentTable, file: &ConfigFile) -> Vec<KeyFault> {
    let home = (table.address, table.prefix);
    let named = table.firewalls.iter().filter_map(|address| {
        let node = file
            .mobile_nodes
            .iter()
            .find(|(_, it)| it.home_address == *address);
        match node {
            Some((name, _)) => Some(format!(
                "{address} is the home address of [mobile_nodes.{name}]: write the firewall's \
                 inside address"
            )),
            None => no_host(*address, home),
        }
    });
    let key = "home_agent.firewalls";
    named.map(|text| (key.to_owned(), text)).collect()
}

/// Lines whose node has the address of a home agent.
fn agents_as_nodes(table: &FirewallTable, file: &ConfigFile) -> Vec<KeyFault> {
    let mut faults = Vec::new();
    for (line, access) in &file.access {
        let by_name = access.skip.remote.as_ref().and_then(home_address);
        for (key, address) in [
            ("skip.remote", by_name),
            ("home_address", access.home_address),
        ] {
            let own = [table.outside, table.inside];
            let Some(address) = address else { continue };
            let whose = if table.home_agents.contains(&address) {
                "that of a home agent"
            } else if own.contains(&address) {
                "the firewall's own"
            } else {
                continue;
            };
            let text = format!("{address} is {whose}: name the node's home address");
            faults.push((format!("access.{line}.{key}"), text));
        }
    }
    faults
}

/// A home agent that is not on its node's home network.
fn far_agent(table: &MobileTable) -> Option<(String, String)> {
    let home = network(table.home_address, table.prefix);
    (network(table.home_agent, table.prefix) != home).then(|| {
        let text = format!(
            "home_agent: {} is not in the home network {home}/{}: a home agent of Caravan serves \
             its own network alone",
            table.home_agent, table.prefix
        );
        ("mobile".to_owned(), text)
    })
}

/// What a node writes about its firewall.
fn behind(table: &NodeFirewallTable, node: &MobileTable) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    if table.inside == Some(table.outside) {
        texts.push(
            "inside: it is firewall.outside: whoever can send from the home agent's address \
             outside speaks for the home network"
                .to_owned(),
        );
    }
    let is_told_by_address = table.side == Side::ByAddress;
    let networks = table.networks.as_deref().filter(|_| is_told_by_address);
    if let Some(networks) = networks.filter(|it| !is_everything(it)) {
        let home = network(node.home_address, node.prefix);
        let has = |address| networks.iter().any(|it| it.has(address));
        if networks.is_empty() {
            texts.push(
                "networks: there is none, so every network but the home network is taken to be \
                 outside, those inside too"
                    .to_owned(),
            );
        } else if !has(node.home_address) {
            texts.push(format!(
                "networks: the home network {home}/{} is not among them: networks of the company \
                 may be missing, and are taken to be outside",
                node.prefix
            ));
        }
        if has(table.outside) {
            texts.push(format!(
                "networks: they have firewall.outside, {}: who is there beside it is taken to be \
                 inside, and asks in clear",
                table.outside
            ));
        }
    }
    if !table.filter {
        texts.push(
            "filter: false lets all other packets of this host pass in clear outside, those of \
             attackers too"
                .to_owned(),
        );
    }
    let ours = [
        (REGISTRATIONS, "registrations"),
        (SKIP_IN_UDP, "SKIP in UDP"),
    ];
    for service in &table.clear {
        let own = ours.iter().find(|(port, _)| *port == service.1);
        if let Some((port, what)) = own.filter(|_| service.0 == Transport::Udp) {
            texts.push(format!(
                "clear: udp/{port} is the port of {what}, which pass without it; nothing else \
                 should: remove it"
            ));
        }
    }
    let say = |text| ("mobile".to_owned(), format!("firewall.{text}"));
    texts.into_iter().map(say).collect()
}

/// What a node writes about its VPN gateway.
fn gateway(table: &NodeGatewayTable, file: &ConfigFile) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    if !table.filter {
        let text = "gateway.filter: false lets all other packets of this host pass in clear \
                    outside, those of attackers too";
        texts.push(("mobile".to_owned(), text.to_owned()));
    }
    let connection = file.connections.get(&table.connection);
    if connection.is_some_and(|it| it.start == Start::OnTraffic) {
        let text = "start: it does not count: [mobile] brings the tunnel up outside, and takes it \
                    down inside";
        texts.push((table.connection.clone(), text.to_owned()));
    }
    let gateways = connection.into_iter().flat_map(|it| &it.remote_addrs);
    let mut gateways = gateways.filter_map(|it| it.parse::<Ipv4Addr>().ok());
    if let Some(outside) = table
        .outside
        .as_ref()
        .filter(|it| is_private(it.home_address))
        && let Some(gateway) = gateways.find(|it| !is_private(*it))
    {
        let text = format!(
            "gateway.outside.home_address: {} is a private address and the gateway's {gateway} is \
             not. A NAT between them lets no ESP pass, which is in no UDP of its own there: name \
             an address that the gateway sees",
            outside.home_address
        );
        texts.push(("mobile".to_owned(), text));
    }
    texts
}

/// Whether an address is routed within a company or a provider alone (RFC 1918, RFC 6598).
fn is_private(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    address.is_private() || first == 100 && second & 0xc0 == 64
}

/// A lifetime that leaves hardly a pause between two registrations.
fn short(part: &str, key: &str, span: Span) -> Option<(String, String)> {
    (!span.0.is_zero() && span.0 < SHORT).then(|| {
        let text = format!(
            "{key}: after {} s without an answer the node is lost, and it registers all the time; \
             \"300s\" is usual",
            span.0.as_secs()
        );
        (part.to_owned(), text)
    })
}

/// Lines of the access list that let in more than they look.
fn lines(file: &ConfigFile) -> Vec<(String, String)> {
    let mut warnings = Vec::new();
    let mut keys = BTreeMap::new();
    for (line, access) in &file.access {
        let mut say = |text: String| warnings.push((format!("access.{line}"), text));
        if let Some(other) = keys.insert(&access.skip.public, line) {
            say(format!(
                "it has the key of [access.{other}], so each of both can speak as the other: let \
                 each make one, with `caravan pki skip`"
            ));
        }
        if matches!(access.address, Origin::Network(_, 0)) {
            say(
                "address: every address outside, so whoever has this key reaches `inside` from \
                 everywhere; \"*\" is for mobile nodes"
                    .to_owned(),
            );
        }
        let by_name = access.skip.remote.as_ref().and_then(home_address);
        for address in by_name.into_iter().chain(access.home_address) {
            if is_edge(address) {
                say(format!(
                    "{address} is no host in most networks: hosts end neither in .0 nor in .255"
                ));
            }
        }
    }
    warnings
}

/// Why this is not the address of a host of the network around `within`. Others may be.
fn no_host(address: Ipv4Addr, (within, prefix): (Ipv4Addr, u8)) -> Option<String> {
    let first = network(within, prefix);
    if !(1..31).contains(&prefix) || network(address, prefix) != first {
        return None;
    }
    let last = Ipv4Addr::from_bits(first.to_bits() | u32::MAX >> prefix);
    let what = match address {
        it if it == first => "the address of",
        it if it == last => "the broadcast address of",
        _ => return None,
    };
    Some(format!(
        "{address} is {what} the home network {first}/{prefix}: a host has another one"
    ))
}

/// Whether an address is at the end of a network of 8 bits, as most are.
fn is_edge(address: Ipv4Addr) -> bool {
    matches!(address.octets()[3], 0 | 255)
}

/// The home address that a name says.
fn home_address(name: &Name) -> Option<Ipv4Addr> {
    let octets = <[u8; 4]>::try_from(name.mkid()).ok()?;
    (name.nsid() == Nsid::Ipv4).then(|| octets.into())
}

/// Whether networks leave no address out.
fn is_everything(networks: &[Network]) -> bool {
    let mut all: Vec<Network> = networks.to_vec();
    all.sort_by_key(|it| it.first);
    let mut next: u64 = 0;
    for network in all {
        let first = u64::from(network.first.to_bits());
        if first > next {
            return false;
        }
        next = next.max(first + (1 << (32 - u32::from(network.bits))));
    }
    next > u64::from(u32::MAX)
}

/// The address of a network.
fn network(address: Ipv4Addr, prefix: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix.into()));
    Ipv4Addr::from_bits(address.to_bits() & mask.unwrap_or(0))
}

#[cfg(test)]
mod tests;
