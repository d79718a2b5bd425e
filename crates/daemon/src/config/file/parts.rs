//! What a file holds of Mobile IPv4 and SKIP.

use std::path::PathBuf;

use super::ConfigFile;
use crate::config::association::AssociationTable;
use crate::config::firewall::FIREWALL;
use crate::config::mobility::{AaaTable, FOREIGN_AGENT, HOME_AGENT, MOBILE};
use crate::config::skip::SkipPeerTable;

/// The home agent outside.
const OUTSIDE: &str = "mobile.gateway.outside";

impl ConfigFile {
    /// Every association of Mobile IPv4, with the key of its table.
    pub fn associations(&self) -> Vec<(String, &AssociationTable)> {
        let own = self
            .mobile
            .iter()
            .map(|it| ("mobile".to_owned(), &it.association));
        let gateway = self.mobile.iter().filter_map(|it| it.gateway.as_ref());
        let outside = gateway.filter_map(|it| it.outside.as_ref());
        let outside = outside.map(|it| (OUTSIDE.to_owned(), &it.association));
        let nodes = self.mobile_nodes.iter();
        let nodes = nodes.filter_map(|(name, it)| {
            let association = it.association.as_ref()?;
            Some((format!("mobile_nodes.{name}"), association))
        });
        let agents = [
            ("home_agents", &self.home_agents),
            ("foreign_agents", &self.foreign_agents),
        ];
        let agents = agents.into_iter().flat_map(|(key, agents)| {
            let each = agents.iter();
            each.map(move |(name, it)| (format!("{key}.{name}"), &it.association))
        });
        let all = own.chain(outside).chain(nodes).chain(agents);
        all.map(|(key, it)| (key + ".association", it)).collect()
    }

    /// Every AAA key of Mobile IPv4, with the key of its table.
    pub fn aaa_keys(&self) -> Vec<(String, &AaaTable)> {
        let own = self.mobile.iter().filter_map(|it| it.aaa.as_ref());
        let own = own.map(|it| ("mobile.aaa".to_owned(), it));
        let nodes = self.mobile_nodes.iter();
        let nodes = nodes.filter_map(|(name, it)| {
            let aaa = it.aaa.as_ref()?;
            Some((format!("mobile_nodes.{name}.aaa"), aaa))
        });
        own.chain(nodes).collect()
    }

    /// Every peer of SKIP, with the key of its table.
    pub fn peers_of_skip(&self) -> impl Iterator<Item = (String, &SkipPeerTable)> {
        let access = self.access.iter();
        let access = access.map(|(name, it)| (format!("access.{name}.skip"), &it.skip));
        let own = self.mobile.iter().filter_map(|it| it.firewall.as_ref());
        let own = own.flat_map(|it| {
            let named = |list, it| (format!("mobile.firewall.{list}.skip"), it);
            let first = ("mobile.firewall.skip".to_owned(), &it.skip);
            let behind = it.behind.iter().map(move |it| named("behind", &it.skip));
            let others = it.others.iter().map(move |it| named("others", &it.skip));
            core::iter::once(first).chain(behind).chain(others)
        });
        access.chain(own)
    }

    pub(super) fn files_of_skip(&self) -> impl Iterator<Item = &PathBuf> {
        let publics = self.peers_of_skip().map(|(_, it)| &it.public);
        let own = self.skip.iter();
        let own = own.flat_map(|it| {
            let pin = it.token.as_ref().map(|token| &token.pin_file);
            it.key.iter().chain(pin)
        });
        publics.chain(own)
    }

    /// Every name under which a process of this file runs: its own connections, those of included
    /// files, and its part in Mobile IPv4. The first is its own.
    pub fn names(&self) -> Vec<String> {
        let parts = [
            (self.home_agent.is_some(), HOME_AGENT),
            (self.foreign_agent.is_some(), FOREIGN_AGENT),
            (self.mobile.is_some(), MOBILE),
            (self.firewall.is_some(), FIREWALL),
        ];
        let parts = parts.into_iter().filter(|(is_there, _)| *is_there);
        let parts = parts.map(|(_, name)| name.to_owned());
        let mut connections: Vec<String> = self.connections.keys().cloned().collect();
        connections.sort_by_key(|name| self.included.contains(name));
        connections.into_iter().chain(parts).collect()
    }
}
