//! The packet filter of a mobile node that is outside of its firewall: on its links, only packets
//! in SKIP between both pass, what keeps a link alive, and connections that its file lets it open
//! in clear.
//!
//! Linux takes packets for any of its addresses from any link, so without it everybody on a visited
//! link could send to the home address. The table stays when the process ends outside. It goes when
//! the node is inside or at home, or by `caravan down`.
//!
//! Left out: what is inside SKIP. It comes out of the TUN device, which is not filtered.

use std::fmt::Write as _;
use std::net::Ipv4Addr;

use engine::skip::udp::PORT;

use super::names::WALL_PREFIX;
use super::{NFT, NftError, forget, protocol_word, remove, run};
use crate::config::{Loaded, Mobility, NodeFirewall};
use crate::footprint::FootprintFile;

/// What both ends of a link need to find each other, and an address (RFC 2131 §4.1, RFC 4861 §4).
const ALIVE: [&str; 2] = [
    "udp sport { 67, 68 } udp dport { 67, 68 }",
    "icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }",
];

/// Loads or removes the table of a mobile node. Other processes have none. `former` is what was
/// loaded last, and becomes what is loaded now.
pub fn follow(
    (loaded, is_outside): (&Loaded, bool),
    former: &mut Option<String>,
    file: &mut FootprintFile,
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
    let place = (&*node.interfaces, node.config.home_address);
    let text = text(&table, place, firewall);
    if former.as_ref() == Some(&text) {
        return Ok(());
    }
    file.update(|footprint| {
        let _ = footprint.nft_tables.insert(table.clone());
    })
    .map_err(NftError::Footprint)?;
    run(&NFT, &table, &text)?;
    *former = Some(text);
    Ok(())
}

/// The input of `nft -f -`: one transaction.
fn text(table: &str, (links, home): (&[String], Ipv4Addr), firewall: &NodeFirewall) -> String {
    let quoted = links.iter().map(|name| format!("\"{name}\""));
    let links = quoted.collect::<Vec<_>>().join(", ");
    let peer = firewall.outside;
    let (from, to) = match firewall.is_udp {
        true => (format!("udp sport {PORT}"), format!("udp dport {PORT}")),
        false => ["ip protocol 57"; 2].map(str::to_owned).into(),
    };
    let mut text = format!(
        "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  \
         chain from-link {{\n    type filter hook input priority filter;\n    \
         iifname != {{ {links} }} accept\n    ip daddr {home} counter drop\n    \
         ip saddr {peer} {from} accept\n    \
         ct state related icmp type {{ destination-unreachable, time-exceeded, \
         parameter-problem }} accept\n"
    );
    alive(&mut text);
    for (protocol, port) in &firewall.clear {
        let word = protocol_word(*protocol);
        let _ = writeln!(text, "    {word} sport {port} ct state established accept");
    }
    let _ = write!(
        text,
        "    counter drop\n  }}\n  chain to-link {{\n    type filter hook output priority \
         filter;\n    oifname != {{ {links} }} accept\n    ip saddr {home} counter drop\n    \
         ip daddr {peer} {to} accept\n"
    );
    alive(&mut text);
    for (protocol, port) in &firewall.clear {
        let word = protocol_word(*protocol);
        let _ = writeln!(text, "    {word} dport {port} accept");
    }
    text + "    counter drop\n  }\n}\n"
}

fn alive(text: &mut String) {
    for packets in ALIVE {
        let _ = writeln!(text, "    {packets} accept");
    }
}

#[cfg(test)]
mod tests;
