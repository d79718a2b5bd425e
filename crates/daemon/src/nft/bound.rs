//! Blocks for programs that bind to a device. Any user's program may do that and bypass blocking
//! routes.
//!
//! Such a packet ignores routes of other devices. IPv6 sends it where that device's table leads;
//! IPv4 treats a refused destination as a neighbour on the link. So a separate nftables table
//! repeats the blocking routes and rules: traffic that is refused or belongs to a tunnel leaves by
//! no other device. It is made from the footprint, lives as long as the blocks, and exists only at
//! a client: what a gateway forwards is bound to no device.
//!
//! Left out: private addresses beyond the local network. A full tunnel spares them here by address
//! alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::names::{BOUND_PREFIX, is_bound};
use super::{NftError, TO_GROUPS, family, forget, put, remove};
use crate::footprint::{Footprint, FootprintFile};
use crate::routes::Prefix;
use crate::routes::full::{Purpose, SECURED_PORT};

/// Loads the table that the footprint's blocks need and replaces the existing one. Without blocks
/// there is none.
pub fn keep(file: &mut FootprintFile) -> Result<(), NftError> {
    let table = format!("{BOUND_PREFIX}{}", file.name());
    let was_there = file.footprint.nft_tables.contains(&table);
    let Some(text) = text(&table, &file.footprint) else {
        return match was_there {
            true => remove(&table).and_then(|()| forget(&table, file)),
            false => Ok(()),
        };
    };
    file.update(|footprint| {
        let _ = footprint.nft_tables.insert(table.clone());
    })
    .map_err(NftError::Footprint)?;
    let loaded = put(&table, &text, file);
    if loaded.is_err() && !was_there {
        forget(&table, file)?;
    }
    loaded
}

/// The same if such a table already exists: its blocks have changed or are gone.
pub fn renew(file: &mut FootprintFile) -> Result<(), NftError> {
    let mut tables = file.footprint.nft_tables.iter();
    match tables.any(|table| is_bound(table)) {
        true => keep(file),
        false => Ok(()),
    }
}

/// The input of `nft -f -`; `None` if nothing is blocked.
fn text(table: &str, footprint: &Footprint) -> Option<String> {
    let blocked: BTreeSet<Prefix> = footprint.blocks.values().flatten().copied().collect();
    if blocked.is_empty() {
        return None;
    }
    // An earlier version has noted no device.
    let device = Some(&footprint.device[..]).filter(|device| !device.is_empty());
    let own: Vec<String> = ["lo"]
        .into_iter()
        .chain(device)
        .map(|it| format!("\"{it}\""))
        .collect();
    let mut text = format!(
        "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n  \
         chain bound {{\n    type filter hook output priority filter;\n    \
         oifname {{ {} }} accept\n",
        own.join(", ")
    );
    let marks: BTreeSet<u32> = footprint.rules.iter().map(|rule| rule.fwmark).collect();
    for mark in marks {
        let _ = writeln!(text, "    meta mark {mark} accept");
    }
    for alive in TO_GROUPS {
        let _ = writeln!(text, "    {alive} accept");
    }
    // In the order of the kernel's rules: kept networks come before local ones.
    let (mut kept, mut local) = (String::new(), String::new());
    for rule in &footprint.rules {
        match rule.purpose {
            Purpose::Kept(prefix) => line(&mut kept, &prefix, "counter drop"),
            Purpose::Secured(prefix) => {
                let to = format!("tcp dport {SECURED_PORT} counter drop");
                line(&mut kept, &prefix, &to);
            }
            Purpose::Questions { is_tcp } => {
                let nfproto = if rule.is_ipv6 { "ipv6" } else { "ipv4" };
                let protocol = if is_tcp { "tcp" } else { "udp" };
                let _ = writeln!(
                    kept,
                    "    meta nfproto {nfproto} {protocol} dport 53 counter drop"
                );
            }
            Purpose::Local(prefix) | Purpose::Group(prefix) => line(&mut local, &prefix, "accept"),
            Purpose::ByAgent { .. }
            | Purpose::Landing
            | Purpose::Spared
            | Purpose::CareOf(_)
            | Purpose::Visitor { .. }
            | Purpose::Arrived { .. }
            | Purpose::Returned { .. }
            | Purpose::Tunnel
            | Purpose::Mobile
            | Purpose::Unregistered(_) => {}
        }
    }
    text += &kept;
    text += &local;
    for prefix in &blocked {
        line(&mut text, prefix, "counter drop");
    }
    Some(text + "  }\n}\n")
}

fn line(text: &mut String, prefix: &Prefix, verdict: &str) {
    let family = family(prefix.address);
    let _ = writeln!(text, "    {family} daddr {prefix} {verdict}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Rule;

    #[test]
    fn the_table_says_what_routes_and_rules_say_in_their_order() {
        let prefix = |text: &str| text.parse::<Prefix>().unwrap();
        let rule = |purpose| Rule {
            purpose,
            is_ipv6: false,
            fwmark: 7,
            table: 221,
        };
        let mut footprint = Footprint {
            device: "caravan0".to_owned(),
            ..Footprint::default()
        };
        assert_eq!(text("caravan-road", &footprint), None);
        let blocks = ["0.0.0.0/0", "::/0"].map(prefix);
        footprint.blocks = [("road".to_owned(), blocks.into())].into();
        footprint.rules = [
            rule(Purpose::Local(prefix("10.0.0.0/8"))),
            rule(Purpose::Kept(prefix("10.10.0.0/24"))),
            rule(Purpose::Secured(prefix("10.1.0.53/32"))),
            rule(Purpose::Questions { is_tcp: false }),
            rule(Purpose::Group(prefix("224.0.0.0/4"))),
            rule(Purpose::Tunnel),
        ]
        .into();
        let text = text("caravan-road", &footprint).unwrap();
        let lines = [
            "    oifname { \"lo\", \"caravan0\" } accept\n",
            "    meta mark 7 accept\n",
            "    udp sport 68 udp dport 67 accept\n",
            "    ip daddr 10.10.0.0/24 counter drop\n",
            "    ip daddr 10.1.0.53/32 tcp dport 853 counter drop\n",
            "    meta nfproto ipv4 udp dport 53 counter drop\n",
            "    ip daddr 10.0.0.0/8 accept\n",
            "    ip daddr 224.0.0.0/4 accept\n",
            "    ip daddr 0.0.0.0/0 counter drop\n",
            "    ip6 daddr ::/0 counter drop\n",
        ];
        let places = lines.map(|line| text.find(line).unwrap_or_else(|| panic!("{line}\n{text}")));
        assert!(places.is_sorted(), "{text}");
    }
}
