//! The packet filter of a mobile node that is outside of its firewall or VPN gateway: on its links,
//! only SKIP or IPsec between both passes, registrations, DHCP, what keeps a link alive, and
//! connections that its file lets it open in clear. A node is outside until its home agent has
//! answered it in clear, with their key: what a link says of itself proves nothing. Of ICMP, only
//! errors about packets that passed come in, and nothing goes out.
//!
//! Linux takes packets for any of its addresses from any link, so without it everybody on a visited
//! link could send to the home address. The filter stays when the process ends outside. It goes
//! when the node is inside or at home, or by root's `caravan down`.
//!
//! Left out: what is inside SKIP or IPsec. It comes out of the TUN device, which is not filtered.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use engine::mip4::mobile_node;
use engine::sa::Encapsulation;
use engine::skip::udp::PORT;
use wire::ip::protocol::{ESP, SKIP};
use wire::mip4::PORT as REGISTRATION;

use super::links::Links;
use super::names::WALL_PREFIX;
use super::{NftError, forget, protocol_word, put, put_at_once, remove};
use crate::config::values::Transport;
use crate::config::{Loaded, MobileSetup, Mobility, NodeFirewall, NodeGateway};
use crate::footprint::FootprintFile;

/// What both ends of a link need to find each other, and an address (RFC 2131 §4.1, RFC 4861 §4).
const ALIVE: [&str; 2] = [
    "udp sport { 67, 68 } udp dport { 67, 68 }",
    "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }",
];

/// IKE, and ESP in UDP (RFC 7296 §2.23). The ports of the other end do not change behind a NAT.
const IKE: &str = "udp sport { 500, 4500 } udp dport { 500, 4500 }";

/// Of ICMP, what a router or a host says about a packet (RFC 792).
const ERRORS: &str = "icmp type { destination-unreachable, time-exceeded, parameter-problem }";

/// Loads or removes the table of a mobile node. Other processes have none. `former` is what was
/// loaded last, and becomes what is loaded now.
pub fn follow(
    wanted: (&Loaded, &Links, bool),
    former: &mut Option<String>,
    file: &mut FootprintFile,
) -> Result<(), NftError> {
    // A node on its way waits for it.
    keep(wanted, former, file, put_at_once)
}

/// Loads the table again: another program has changed or removed it.
pub fn put_back(
    (loaded, links): (&Loaded, &Links),
    former: &mut Option<String>,
    file: &mut FootprintFile,
) -> Result<(), NftError> {
    let was = former.take();
    let done = keep((loaded, links, true), former, file, put);
    if done.is_err() {
        *former = was;
    }
    done
}

fn keep(
    (loaded, links, is_outside): (&Loaded, &Links, bool),
    former: &mut Option<String>,
    file: &mut FootprintFile,
    put: fn(&str, &str, &mut FootprintFile) -> Result<(), NftError>,
) -> Result<(), NftError> {
    let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
        return Ok(());
    };
    let table = format!("{WALL_PREFIX}{}", file.name());
    let secured = Secured::of(node).filter(|_| is_outside && node.is_filtered());
    let Some(secured) = secured else {
        *former = None;
        return match file.footprint.nft_tables.contains(&table) {
            true => remove(&table).and_then(|()| forget(&table, file)),
            false => Ok(()),
        };
    };
    let tun = &loaded.daemon.tun;
    let ends = Ends::of(node, links.set(&["lo", tun], &node.interfaces));
    let text = text((&table, tun), &ends, &secured);
    if former.as_ref() == Some(&text) {
        return Ok(());
    }
    file.update(|footprint| {
        let _ = footprint.nft_tables.insert(table.clone());
    })
    .map_err(NftError::Footprint)?;
    put(&table, &text, file)?;
    *former = Some(text);
    Ok(())
}

/// What a home agent outside sends to a mobile node, in nft's words. It comes by the link although
/// programs reach that host through the tunnel.
pub(super) fn from_agent_outside(loaded: &Loaded) -> Vec<String> {
    let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
        return Vec::new();
    };
    let gateway = node.gateway.as_deref();
    let Some((gateway, outside)) = gateway.zip(node.outside()) else {
        return Vec::new();
    };
    let tunnel = Passing::of_agent_outside(outside);
    let ipsec = Passing::ipsec(gateway, Some(outside.home_address));
    tunnel.heard().chain(ipsec.heard()).collect()
}

/// Refuses a file that loads no filter while that of an earlier run stands: the node may still be
/// outside.
pub fn check_left(loaded: &Loaded, left: &FootprintFile) -> Result<(), NftError> {
    let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
        return Ok(());
    };
    let name = left.name();
    let has_filter = node.is_filtered();
    let table = format!("{WALL_PREFIX}{name}");
    match !has_filter && left.footprint.nft_tables.contains(&table) {
        true => Err(NftError::Standing(name)),
        false => Ok(()),
    }
}

/// A mobile node's links and addresses.
struct Ends {
    /// Links that are not filtered, as nft writes them: our device, and all that this host had when
    /// we started but those of the file.
    open: String,
    home: Ipv4Addr,
    agent: Ipv4Addr,
}

impl Ends {
    fn of(node: &MobileSetup, open: String) -> Self {
        Self {
            open,
            home: node.config.home_address,
            agent: node.config.home_agent,
        }
    }
}

/// What passes between a node outside and its home network.
struct Secured<'a> {
    /// By their ends.
    passing: Vec<Passing>,
    /// Connections that the node may open in clear.
    clear: &'a [(Transport, u16)],
    /// Our address at a home agent outside, whose tunnel protects nothing.
    outer: Option<Ipv4Addr>,
}

/// Packets that pass between the node and some hosts.
struct Passing {
    /// Addresses that may send to the node.
    heard: Vec<String>,
    /// Those that it sends to.
    spoken: Vec<String>,
    /// The node's own address, if it has but one for them.
    own: Option<Ipv4Addr>,
    /// Its packets, in nft's words.
    packets: Vec<String>,
    /// Their protocols, as connection tracking knows them.
    protocols: Vec<String>,
}

impl Passing {
    /// IKE and ESP of a VPN gateway.
    fn ipsec(gateway: &NodeGateway, own: Option<Ipv4Addr>) -> Self {
        let addresses: Vec<_> = gateway.addresses.iter().map(ToString::to_string).collect();
        Self {
            heard: addresses.clone(),
            spoken: addresses,
            own,
            packets: vec![IKE.to_owned(), format!("ip protocol {ESP}")],
            protocols: vec!["udp".to_owned(), ESP.to_string()],
        }
    }

    /// The tunnel of a home agent outside, and the messages about it.
    fn of_agent_outside(outside: &mobile_node::Config) -> Self {
        let address = outside.home_agent.to_string();
        let messages = format!("udp sport {REGISTRATION} udp dport {REGISTRATION}");
        let mut forms = vec![outside.encapsulation.protocol()];
        // Whoever tunnels minimally may tunnel a fragment as it is (RFC 2004 §1).
        if outside.encapsulation == Encapsulation::Minimal {
            forms.push(Encapsulation::IpInIp.protocol());
        }
        let packets = forms.iter().map(|form| format!("ip protocol {form}"));
        let protocols = forms.iter().map(ToString::to_string);
        Self {
            heard: vec![address.clone()],
            spoken: vec![address],
            own: None,
            packets: packets.chain([messages]).collect(),
            protocols: protocols.chain(["udp".to_owned()]).collect(),
        }
    }

    /// What comes in, in nft's words.
    fn heard(&self) -> impl Iterator<Item = String> {
        let own = self.own.map(|own| format!("ip daddr {own} "));
        let (from, own) = (set(&self.heard), own.unwrap_or_default());
        let packets = self.packets.iter();
        packets.map(move |it| format!("ip saddr {from} {own}{it}"))
    }

    /// What goes out.
    fn spoken(&self) -> impl Iterator<Item = String> {
        let own = self.own.map(|own| format!("ip saddr {own} "));
        let (to, own) = (set(&self.spoken), own.unwrap_or_default());
        let packets = self.packets.iter();
        packets.map(move |it| format!("ip daddr {to} {own}{it}"))
    }

    /// Its flows, as connection tracking knows them: whoever sent first.
    fn flows(&self) -> impl Iterator<Item = String> {
        let from = set(&self.heard);
        let protocols = self.protocols.iter();
        protocols.flat_map(move |protocol| {
            ["daddr", "saddr"].map(|end| format!("{protocol} ct original ip {end} {from} "))
        })
    }
}

impl<'a> Secured<'a> {
    fn of(node: &'a MobileSetup) -> Option<Self> {
        let firewall = node.firewall.as_deref().map(Self::by_skip);
        firewall.or_else(|| node.gateway.as_deref().map(Self::by_ipsec))
    }

    fn by_skip(firewall: &'a NodeFirewall) -> Self {
        let peers = firewall.others.iter().chain([&firewall.first]);
        let (packets, protocol) = match firewall.is_udp {
            true => (
                format!("udp sport {PORT} udp dport {PORT}"),
                "udp".to_owned(),
            ),
            false => (format!("ip protocol {SKIP}"), SKIP.to_string()),
        };
        let passing = Passing {
            heard: peers.map(|it| it.outside.to_string()).collect(),
            spoken: vec![firewall.first.outside.to_string()],
            own: None,
            packets: vec![packets],
            protocols: vec![protocol],
        };
        Self {
            passing: vec![passing],
            clear: &firewall.clear,
            outer: None,
        }
    }

    /// With a home agent outside, which proves nothing, IPsec is in its tunnel, or a foreign agent
    /// of the link delivers it.
    fn by_ipsec(gateway: &'a NodeGateway) -> Self {
        let outer = gateway.outside.as_ref();
        let own = outer.map(|it| it.home_address);
        let ipsec = Passing::ipsec(gateway, own);
        let tunnel = outer.map(Passing::of_agent_outside);
        Self {
            passing: tunnel.into_iter().chain([ipsec]).collect(),
            clear: &gateway.clear,
            outer: own,
        }
    }

    /// What may pass our device from or to the address at a home agent outside: IPsec alone.
    /// `device` and `address` are nft's words for the direction.
    fn within_outer(&self, tun: &str, (device, address): (&str, &str)) -> String {
        let Some(outer) = self.outer else {
            return String::new();
        };
        let at = format!("    {device} \"{tun}\" ip {address} {outer}");
        format!("{at} {IKE} accept\n{at} ip protocol {ESP} accept\n{at} counter drop\n")
    }
}

/// One address, or a set of them.
fn set(addresses: &[String]) -> String {
    match addresses {
        [one] => one.clone(),
        several => format!("{{ {} }}", several.join(", ")),
    }
}

/// The input of `nft -f -`: one transaction. Registrations in clear pass: they prove that the node
/// is inside.
fn text((table, tun): (&str, &str), ends: &Ends, secured: &Secured<'_>) -> String {
    let Ends { open, home, agent } = ends;
    let rule = |it: String| format!("    {it} accept\n");
    let passing = || secured.passing.iter();
    let hears: String = passing().flat_map(Passing::heard).map(rule).collect();
    let speaks: String = passing().flat_map(Passing::spoken).map(rule).collect();
    let registration = format!("udp sport {REGISTRATION} udp dport {REGISTRATION}");
    let comes = secured.within_outer(tun, ("iifname", "daddr"));
    let goes = secured.within_outer(tun, ("oifname", "saddr"));
    let mut text = format!(
        "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  \
         chain from-link {{\n    type filter hook input priority filter;\n    \
         iifname lo accept\n{comes}    iifname \"{tun}\" accept\n    \
         ip saddr {agent} ip daddr {home} {registration} accept\n    \
         ip daddr {home} counter drop\n    iifname {open} accept\n    \
         ip saddr {agent} {registration} accept\n{hears}"
    );
    alive(&mut text);
    for (protocol, port) in secured.clear {
        let word = protocol_word(*protocol);
        let _ = writeln!(text, "    {word} sport {port} ct state established accept");
    }
    for flow in flows(secured, *agent) {
        let _ = writeln!(
            text,
            "    ct state related ct protocol {flow}{ERRORS} accept"
        );
    }
    let _ = write!(
        text,
        "    counter drop\n  }}\n  chain to-link {{\n    type filter hook output priority \
         filter;\n    oifname lo accept\n{goes}    oifname \"{tun}\" accept\n    \
         ip daddr {agent} {registration} accept\n    \
         ip saddr {home} counter drop\n    oifname {open} accept\n{speaks}"
    );
    alive(&mut text);
    for (protocol, port) in secured.clear {
        let word = protocol_word(*protocol);
        let _ = writeln!(text, "    {word} dport {port} accept");
    }
    // What this host forwards is in no tunnel.
    let _ = write!(
        text,
        "    counter drop\n  }}\n  chain through {{\n    type filter hook forward priority \
         filter;\n    iifname {open} oifname {open} accept\n    counter drop\n  }}\n}}\n"
    );
    text
}

/// The flows that may pass, as connection tracking knows them: errors about others say nothing that
/// the node must know, and a flow may be older than the filter. For a packet of ICMP, nft compares
/// no ports of the flow.
fn flows(secured: &Secured<'_>, agent: Ipv4Addr) -> BTreeSet<String> {
    let own = secured.passing.iter().flat_map(Passing::flows);
    let registration = format!("udp ct original ip daddr {agent} ");
    let clear = secured.clear.iter();
    let clear = clear.map(|(protocol, _)| format!("{} ", protocol_word(*protocol)));
    own.chain([registration]).chain(clear).collect()
}

fn alive(text: &mut String) {
    for packets in ALIVE {
        let _ = writeln!(text, "    {packets} accept");
    }
}

#[cfg(test)]
mod tests;
