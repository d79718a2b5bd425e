//! The default-deny table of a firewall: between outside and inside, only what our own program has
//! found authentic passes, and what it is to protect.
//!
//! [`Config::passages`] says what that is. From outside come packets that carry their keys, to our
//! address, and ICMP about ours; the program opens or drops them. What it opens comes out of the
//! TUN device. To the outside go its own packets alone; nothing is forwarded there. The table
//! outlives the process, so that a firewall that was killed stays closed; `caravan down` removes
//! it.
//!
//! Left out: the host's own traffic to the outside, such as its DNS, beyond the source addresses
//! that it may have there, and everything between networks inside.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use engine::firewall::{Config, Passage, Way};
use engine::selector::TrafficSelector;
use wire::ip::protocol::{SKIP, UDP};

use super::links::Links;
use super::names::WALL_PREFIX;
use super::{NftError, forget, put, remove};
use crate::config::{FirewallSetup, Loaded, Mobility};
use crate::footprint::FootprintFile;

/// Loads the table of a firewall and replaces the existing one. Other processes have none.
/// `links` are this host's.
pub fn keep(loaded: &Loaded, links: &Links, file: &mut FootprintFile) -> Result<(), NftError> {
    let Some(Mobility::Firewall(setup)) = &loaded.mobility else {
        return Ok(());
    };
    let table = format!("{WALL_PREFIX}{}", file.name());
    file.update(|footprint| {
        let _ = footprint.nft_tables.insert(table.clone());
    })
    .map_err(NftError::Footprint)?;
    let text = text(&table, &loaded.daemon.tun, (setup, links));
    put(&table, &text, file)
}

/// Says that no link counts as inside, where neither the file nor an address tells which are.
pub fn all_outside(loaded: &Loaded, links: &Links) -> Option<String> {
    let Some(Mobility::Firewall(setup)) = &loaded.mobility else {
        return None;
    };
    let is_told = !setup.inside_interfaces.is_empty() || !links.is_empty();
    let outside = setup.config.outside;
    (!is_told).then(|| {
        format!(
            "firewall.outside: no interface has {outside}, so each may be the one outside, and all \
             are filtered until the next start: give one the address, or name those inside \
             (firewall.inside_interfaces)"
        )
    })
}

/// Removes the packet filters that a footprint names. Only `caravan down`, run by root, calls it:
/// the process that reads packets of strangers cannot ask for it.
pub fn lift(file: &mut FootprintFile) -> Result<(), NftError> {
    let tables = file.footprint.nft_tables.clone();
    let walls = tables.iter().filter(|table| table.starts_with(WALL_PREFIX));
    for table in walls {
        remove(table)?;
        forget(table, file)?;
    }
    Ok(())
}

/// The input of `nft -f -`: one transaction. Every link that is not known to be inside is taken for
/// the one outside: that may have been renamed, or come again as another one.
fn text(table: &str, tun: &str, (setup, links): (&FirewallSetup, &Links)) -> String {
    let link = &setup.outside_interface;
    let named = Links::of(&setup.inside_interfaces);
    let links = if setup.inside_interfaces.is_empty() {
        links
    } else {
        &named
    };
    let outside_links = [link.clone(), tun.to_owned()];
    let inside_links = links.set(&["lo"], &outside_links);
    let own_links = links.set(&["lo", tun], &outside_links);
    let passages = setup.config.passages();
    let Config {
        outside, inside, ..
    } = &setup.config;
    let mut text = format!(
        "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  \
         chain from-outside {{\n    type filter hook input priority filter;\n    \
         iifname {own_links} accept\n{}    ct state established,related accept\n    \
         udp sport 67 udp dport 68 accept\n    \
         icmpv6 type {{ nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert }} accept\n",
        spoofed(&setup.config)
    );
    pass(&mut text, &passages, Way::In, "");
    text += "    counter drop\n  }\n  chain to-outside {\n    type filter hook output priority \
             filter;\n";
    // A redirect would name an address inside.
    text += "    icmp type redirect counter drop\n";
    let _ = writeln!(text, "    oifname {own_links} accept");
    if inside != outside {
        // Where the route inside is gone, their tunnels would follow the one outside, in clear.
        if let Some(agents) = agents(&setup.config) {
            let _ = writeln!(text, "    ip daddr {{ {agents} }} counter drop");
        }
    }
    let own = format!("{outside}, {inside}, 0.0.0.0");
    let _ = writeln!(text, "    ip saddr != {{ {own} }} counter drop");
    text += "  }\n  chain through {\n    type filter hook forward priority filter;\n";
    through(&mut text, &passages, (tun, link, &inside_links));
    text + "  }\n}\n"
}

/// What passes between devices.
fn through(text: &mut String, passages: &[Passage], (tun, link, inside): (&str, &str, &str)) {
    let ways = [
        (
            Way::Returned,
            format!("iifname \"{tun}\" oifname \"{tun}\" "),
        ),
        (Way::Opened, format!("iifname \"{tun}\" oifname {inside} ")),
        (Way::Sealed, format!("iifname {inside} oifname \"{tun}\" ")),
    ];
    for (way, devices) in &ways {
        pass(text, passages, *way, devices);
    }
    forward(text, passages, (link, inside));
    let _ = writeln!(
        text,
        "    iifname {inside} oifname {inside} accept\n    counter drop"
    );
}

/// Home agents, and hosts that packets go to and come from inside, are not outside: what says
/// otherwise is forged, also where the kernel takes it for a part of a tunnel. One leg cannot tell.
fn spoofed(config: &Config) -> String {
    if config.inside == config.outside {
        return String::new();
    }
    let mut text = format!("    ip daddr {} counter drop\n", config.inside);
    if let Some(agents) = agents(config) {
        let _ = writeln!(text, "    ip saddr {{ {agents} }} counter drop");
    }
    let inside = config.entries.iter().flat_map(|(_, it)| &it.inside);
    let inside: BTreeSet<_> = inside.map(|it| range("saddr", it)).collect();
    // All addresses: a node may reach everything, and nothing is told apart.
    for range in inside.iter().filter(|it| !it.is_empty()) {
        let _ = writeln!(text, "    {range}counter drop");
    }
    text
}

/// Home agents, as nft lists them.
fn agents(config: &Config) -> Option<String> {
    let agents: Vec<_> = config.home_agents.iter().map(ToString::to_string).collect();
    (!agents.is_empty()).then(|| agents.join(", "))
}

/// What passes as it is: from outside to an end inside, and from such an end to outside.
fn forward(text: &mut String, passages: &[Passage], (link, inside): (&str, &str)) {
    let forwarded = passages.iter().filter(|it| it.way == Way::Forwarded);
    let (inwards, outwards): (Vec<Passage>, Vec<Passage>) =
        forwarded.partition(|it| it.to.is_host());
    for (passages, devices) in [
        (inwards, format!("iifname \"{link}\" oifname {inside} ")),
        (outwards, format!("iifname {inside} oifname \"{link}\" ")),
    ] {
        if !passages.is_empty() {
            pass(text, &passages, Way::Forwarded, &devices);
        }
    }
}

/// Rules that let packets of one way pass, and ICMP about them.
fn pass(text: &mut String, passages: &[Passage], way: Way, devices: &str) {
    let about = match way {
        Way::In => None,
        // Not of other traffic through this host.
        Way::Forwarded => Some(format!("ct protocol {SKIP} ")),
        _ => Some(String::new()),
    };
    if let Some(about) = about {
        let _ = writeln!(text, "    {devices}{about}ct state related accept");
    }
    for passage in passages.iter().filter(|it| it.way == way) {
        let ends = [("saddr", &passage.from), ("daddr", &passage.to)];
        let ends: String = ends
            .into_iter()
            .map(|(word, selector)| range(word, selector))
            .collect();
        let protocol = match (passage.from.protocol, passage.to.ports) {
            (0, _) => String::new(),
            (UDP, ports) if !ports.is_any() => format!("udp dport {ports} "),
            (number, _) => format!("ip protocol {number} "),
        };
        let _ = writeln!(
            text,
            "    {devices}meta nfproto ipv4 {ends}{protocol}accept"
        );
    }
}

/// Empty for any address.
fn range(word: &str, selector: &TrafficSelector) -> String {
    let TrafficSelector { first, last, .. } = selector;
    let everything = TrafficSelector::subnet(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    match (
        first == last,
        (*first, *last) == (everything.first, everything.last),
    ) {
        (_, true) => String::new(),
        (true, _) => format!("ip {word} {first} "),
        (false, _) => format!("ip {word} {first}-{last} "),
    }
}

#[cfg(test)]
pub(crate) mod tests;
