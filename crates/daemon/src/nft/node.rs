//! The packet filter of a mobile node that is outside of its firewall: on its links, only SKIP
//! between both passes, registrations, DHCP, what keeps a link alive, and connections that its file
//! lets it open in clear. A node is outside until its home agent has answered it in clear, with
//! their key: what a link says of itself proves nothing. Of ICMP, only errors about packets that
//! passed come in, and nothing goes out.
//!
//! Linux takes packets for any of its addresses from any link, so without it everybody on a visited
//! link could send to the home address. The filter stays when the process ends outside. It goes
//! when the node is inside or at home, or by root's `caravan down`.
//!
//! Left out: what is inside SKIP. It comes out of the TUN device, which is not filtered.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;

use engine::skip::udp::PORT;
use wire::ip::protocol::SKIP;
use wire::mip4::PORT as REGISTRATION;

use super::links::Links;
use super::names::WALL_PREFIX;
use super::{NftError, forget, protocol_word, put, put_at_once, remove};
use crate::config::{Loaded, MobileSetup, Mobility, NodeFirewall};
use crate::footprint::FootprintFile;

/// What both ends of a link need to find each other, and an address (RFC 2131 §4.1, RFC 4861 §4).
const ALIVE: [&str; 2] = [
    "udp sport { 67, 68 } udp dport { 67, 68 }",
    "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }",
];

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
    let firewall = node.firewall.as_ref().filter(|it| it.is_filtered);
    let Some(firewall) = firewall.filter(|_| is_outside) else {
        *former = None;
        return match file.footprint.nft_tables.contains(&table) {
            true => remove(&table).and_then(|()| forget(&table, file)),
            false => Ok(()),
        };
    };
    let tun = &loaded.daemon.tun;
    let ends = Ends::of(node, links.set(&["lo", tun], &node.interfaces));
    let text = text((&table, tun), &ends, firewall);
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

/// Refuses a file that loads no filter while that of an earlier run stands: the node may still be
/// outside.
pub fn check_left(loaded: &Loaded, left: &FootprintFile) -> Result<(), NftError> {
    let Some(Mobility::MobileNode(node)) = &loaded.mobility else {
        return Ok(());
    };
    let name = left.name();
    let has_filter = node.firewall.as_ref().is_some_and(|it| it.is_filtered);
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

/// The input of `nft -f -`: one transaction. Registrations in clear pass: they prove that the node
/// is inside.
fn text((table, tun): (&str, &str), ends: &Ends, firewall: &NodeFirewall) -> String {
    let Ends { open, home, agent } = ends;
    let peers = firewall.others.iter().chain([&firewall.first]);
    let peers: Vec<_> = peers.map(|it| it.outside.to_string()).collect();
    let from = match &peers[..] {
        [one] => one.clone(),
        several => format!("{{ {} }}", several.join(", ")),
    };
    let peer = firewall.first.outside;
    let skip = match firewall.is_udp {
        true => format!("udp sport {PORT} udp dport {PORT}"),
        false => format!("ip protocol {SKIP}"),
    };
    let registration = format!("udp sport {REGISTRATION} udp dport {REGISTRATION}");
    let mut text = format!(
        "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  \
         chain from-link {{\n    type filter hook input priority filter;\n    \
         iifname lo accept\n    iifname \"{tun}\" accept\n    \
         ip saddr {agent} ip daddr {home} {registration} accept\n    \
         ip daddr {home} counter drop\n    iifname {open} accept\n    \
         ip saddr {agent} {registration} accept\n    ip saddr {from} {skip} accept\n"
    );
    alive(&mut text);
    for (protocol, port) in &firewall.clear {
        let word = protocol_word(*protocol);
        let _ = writeln!(text, "    {word} sport {port} ct state established accept");
    }
    for flow in flows(firewall, &from, *agent) {
        let _ = writeln!(
            text,
            "    ct state related ct protocol {flow}{ERRORS} accept"
        );
    }
    let _ = write!(
        text,
        "    counter drop\n  }}\n  chain to-link {{\n    type filter hook output priority \
         filter;\n    oifname lo accept\n    oifname \"{tun}\" accept\n    \
         ip daddr {agent} {registration} accept\n    \
         ip saddr {home} counter drop\n    oifname {open} accept\n    \
         ip daddr {peer} {skip} accept\n"
    );
    alive(&mut text);
    for (protocol, port) in &firewall.clear {
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
fn flows(firewall: &NodeFirewall, from: &str, agent: Ipv4Addr) -> BTreeSet<String> {
    let skip = match firewall.is_udp {
        true => "udp".to_owned(),
        false => SKIP.to_string(),
    };
    // Whoever sent first.
    let skip = ["daddr", "saddr"].map(|end| format!("{skip} ct original ip {end} {from} "));
    let registration = format!("udp ct original ip daddr {agent} ");
    let clear = firewall.clear.iter();
    let clear = clear.map(|(protocol, _)| format!("{} ", protocol_word(*protocol)));
    skip.into_iter()
        .chain([registration])
        .chain(clear)
        .collect()
}

fn alive(text: &mut String) {
    for packets in ALIVE {
        let _ = writeln!(text, "    {packets} accept");
    }
}

#[cfg(test)]
mod tests;
