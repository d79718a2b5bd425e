//! What a mobile node knows of the firewalls of its home network: from tables to keys.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use engine::mip4::firewall::{HomeFirewall, Side};
use wire::skip::Name;

use super::firewall::selector;
use super::skip::OwnKey;
use super::{Builder, ConfigError, Loaded};
use crate::config::file::ConfigFile;
use crate::config::firewall::{NodeFirewallTable, WallTable};
use crate::config::mobility::MobileTable;
use crate::config::parts::{NodeFirewall, Wall};
use crate::config::skip::SkipPeerTable;

/// Firewalls behind the outermost one. The packet planes open no packet more often.
const BEHIND_MAX: usize = 2;
/// Firewalls beside it.
const OTHERS_MAX: usize = 16;

impl Builder<'_> {
    /// What a mobile node knows of the firewalls of its home network.
    pub(super) fn node_firewall(
        &self,
        loaded: &mut Loaded,
        (table, file): (&NodeFirewallTable, &ConfigFile),
        node: &MobileTable,
    ) -> Result<Box<NodeFirewall>, ConfigError> {
        let own = self.own_key("mobile.firewall", file)?;
        let mut seen = BTreeSet::new();
        let mut wall = |key: &str, outside: Ipv4Addr, skip: &SkipPeerTable| {
            let place = format!("{key}.outside");
            self.host(&place, outside)?;
            if !seen.insert(outside) {
                return Err(self.value(&place, &format!("{outside} is there twice")));
            }
            self.wall((key, outside, skip), &own, node.home_address, loaded)
        };
        let first = wall("mobile.firewall", table.outside, &table.skip)?;
        let mut list = |word: &str, most: usize, tables: &[WallTable]| {
            let key = format!("mobile.firewall.{word}");
            if tables.len() > most {
                let text = format!("{} are too many, limit {most}", tables.len());
                return Err(self.value(&key, &text));
            }
            let walls = tables.iter().map(|it| wall(&key, it.outside, &it.skip));
            walls.collect::<Result<Vec<_>, _>>()
        };
        let behind = list("behind", BEHIND_MAX, &table.behind)?;
        let others = list("others", OTHERS_MAX, &table.others)?;
        let all = || core::iter::once(&first).chain(&behind);
        let is_end = |it: &Wall| it.outside == node.home_agent;
        let last = all().last();
        if all().chain(&others).filter(|it| is_end(it)).count()
            > usize::from(last.is_some_and(is_end))
        {
            let text = "it is the home agent's address: the last one on the way may have it";
            return Err(self.value("mobile.firewall.outside", text));
        }
        let is_end_to_end = last.is_some_and(is_end);
        let machine = self.side_of_wall(table, is_end_to_end)?;
        Ok(Box::new(NodeFirewall {
            first,
            behind,
            others,
            machine,
            side: table.side,
            is_udp: table.udp,
            takes_short_form: table.header_removal,
            is_filtered: table.filter,
            clear: table.clear.iter().map(|it| (it.0, it.1)).collect(),
        }))
    }

    /// How the node tells inside and outside apart. From end to end nothing depends on it.
    fn side_of_wall(
        &self,
        table: &NodeFirewallTable,
        is_end_to_end: bool,
    ) -> Result<Option<HomeFirewall>, ConfigError> {
        if is_end_to_end {
            let unused = [
                ("inside", table.inside.is_some()),
                ("networks", table.networks.is_some()),
                ("others", !table.others.is_empty()),
                ("header_removal", table.header_removal),
                ("side", table.side != Side::ByAddress),
            ];
            return match unused.iter().find(|(_, is_there)| *is_there) {
                None => Ok(None),
                Some((word, _)) => {
                    let text = "the home agent ends SKIP itself, from every place: remove it";
                    Err(self.value(&format!("mobile.firewall.{word}"), text))
                }
            };
        }
        let missing = |word: &str, text: &str| {
            let text = format!("{text}, or end SKIP at the home agent: behind = [...]");
            self.value(&format!("mobile.firewall.{word}"), &text)
        };
        let Some(address) = table.inside else {
            return Err(missing("inside", "it is needed: inside = \"10.18.0.1\""));
        };
        let Some(networks) = &table.networks else {
            return Err(missing(
                "networks",
                "they are needed: networks = [\"10.18.0.0/16\"]",
            ));
        };
        self.host("mobile.firewall.inside", address)?;
        Ok(Some(HomeFirewall {
            address,
            inside: networks.iter().copied().map(selector).collect(),
        }))
    }

    fn wall(
        &self,
        (key, outside, skip): (&str, Ipv4Addr, &SkipPeerTable),
        own: &OwnKey<'_>,
        home: Ipv4Addr,
        loaded: &mut Loaded,
    ) -> Result<Wall, ConfigError> {
        let association = self.skip_association(
            (&format!("{key}.skip"), skip),
            own,
            (Name::ipv4(home), Name::NONE),
            loaded,
        )?;
        Ok(Wall {
            outside,
            association,
        })
    }
}
