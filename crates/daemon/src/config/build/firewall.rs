//! The firewall of a mobile private network, and what its home agents know of it: from tables to
//! the configuration of a machine.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use engine::firewall::access::{EntryId, ListFault, Origin};
use engine::firewall::{self, Template};
use engine::mip4::firewall::Outside;
use engine::selector::TrafficSelector;
use wire::skip::Name;

use super::{Builder, ConfigError, Loaded};
use crate::config::file::ConfigFile;
use crate::config::firewall::{FirewallTable, Network};
use crate::config::mobility::HomeAgentTable;
use crate::config::parts::FirewallSetup;

impl Builder<'_> {
    pub(super) fn firewall(
        &self,
        loaded: &mut Loaded,
        (table, file): (&FirewallTable, &ConfigFile),
    ) -> Result<FirewallSetup, ConfigError> {
        self.host("firewall.outside", table.outside)?;
        self.host("firewall.inside", table.inside)?;
        self.interface("firewall.outside_interface", &table.outside_interface)?;
        for name in &table.inside_interfaces {
            self.interface("firewall.inside_interfaces", name)?;
            if *name == table.outside_interface {
                let text = format!("{name} is outside_interface");
                return Err(self.value("firewall.inside_interfaces", &text));
            }
        }
        let own = [table.outside, table.inside];
        self.distinct("firewall.home_agents", &table.home_agents, own)?;
        if table.binding_lifetime.0.is_zero() {
            return Err(self.value("firewall.binding_lifetime", "0 would forget every node"));
        }
        if table.inside == table.outside {
            let text = "firewall.inside: it is firewall.outside: whoever can send from a home \
                        agent's address outside speaks for the home network";
            loaded.notes.push(text.to_owned());
        }
        let entries = self.access_list(loaded, "firewall", file)?;
        if entries.is_empty() && table.end_to_end.is_empty() {
            let text = "there is none: add [access.NAME] for each node, host or network";
            return Err(self.value("access", text));
        }
        self.distinct("firewall.end_to_end", &table.end_to_end, own)?;
        let names: Vec<String> = file.access.keys().cloned().collect();
        let config = firewall::Config {
            outside: table.outside,
            inside: table.inside,
            home_agents: table.home_agents.clone(),
            entries,
            lifetime: table.binding_lifetime.0,
            mode: table.mode,
            removes_header: table.header_removal,
            takes_udp: table.udp,
            end_to_end: table.end_to_end.clone(),
        };
        if let Err(fault) = firewall::Firewall::new(config.clone()) {
            return Err(self.firewall_fault(fault, &names));
        }
        Ok(FirewallSetup {
            config,
            outside_interface: table.outside_interface.clone(),
            inside_interfaces: table.inside_interfaces.clone(),
            names,
        })
    }

    /// The access list, which is empty without a key of ours.
    pub(super) fn access_list(
        &self,
        loaded: &mut Loaded,
        key: &str,
        file: &ConfigFile,
    ) -> Result<Vec<(Origin, Template)>, ConfigError> {
        if file.access.is_empty() {
            return Ok(Vec::new());
        }
        let own = self.own_key(key, file)?;
        let mut entries = Vec::new();
        for (name, access) in &file.access {
            let line = format!("access.{name}");
            let skip = format!("{line}.skip");
            let association = self.skip_association(
                (&skip, &access.skip),
                &own,
                (Name::NONE, Name::NONE),
                loaded,
            )?;
            if !association.is_authenticated() {
                let text = "its packets would not prove who sent them: choose a MAC";
                return Err(self.value(&format!("{skip}.mac"), text));
            }
            if access.address != Origin::Nomadic && access.inside.is_empty() {
                let text = "its packets could go nowhere: inside = [\"10.18.0.0/16\"]";
                return Err(self.value(&format!("{line}.inside"), text));
            }
            let template = Template {
                association,
                inside: access.inside.iter().copied().map(selector).collect(),
                home_address: access.home_address,
                stored_n: 0,
                heard_n: 0,
            };
            entries.push((access.address, template));
        }
        Ok(entries)
    }

    /// Hosts inside, each once, none of which is ours.
    fn distinct(
        &self,
        key: &str,
        hosts: &[Ipv4Addr],
        own: [Ipv4Addr; 2],
    ) -> Result<(), ConfigError> {
        let mut all = BTreeSet::new();
        for host in hosts {
            self.host(key, *host)?;
            if own.contains(host) {
                return Err(self.value(key, &format!("{host} is the firewall's own address")));
            }
            if !all.insert(*host) {
                return Err(self.value(key, &format!("{host} is there twice")));
            }
        }
        Ok(())
    }

    fn firewall_fault(&self, fault: firewall::Fault, names: &[String]) -> ConfigError {
        let of = |id: EntryId| format!("access.{}", names[id.0]);
        let list = match fault {
            firewall::Fault::List(list) => list,
            firewall::Fault::Unauthenticated(id) => {
                return self.value(&of(id), &fault.to_string());
            }
            firewall::Fault::NothingInside(id) => {
                let text = format!("{fault}: name firewall.home_agents, or inside = [...] here");
                return self.value(&of(id), &text);
            }
            firewall::Fault::NoHomeAddress(id) => {
                let text = format!("{fault}: home_address = \"10.18.3.17\"");
                return self.value(&format!("{}.home_address", of(id)), &text);
            }
            firewall::Fault::RepeatedHome(first, second) => {
                let text = format!("{fault}, [{}] too", of(first));
                return self.value(&format!("{}.home_address", of(second)), &text);
            }
            firewall::Fault::TooManyHomeAgents(_) => {
                return self.value("firewall.home_agents", &fault.to_string());
            }
        };
        match list {
            ListFault::TooMany(_) => self.value("access", &list.to_string()),
            ListFault::Nameless(id) => {
                let text = format!(
                    "{list}: the node sends from anywhere; write its home address, such as \
                     remote = \"1/10.18.3.17\""
                );
                self.value(&format!("{}.skip.remote", of(id)), &text)
            }
            ListFault::Repeated(first, second) => {
                let text = format!("{list}, [{}]: only one would be found", of(first));
                self.value(&of(second), &text)
            }
            ListFault::Prefix(id, _) => {
                self.value(&format!("{}.address", of(id)), &list.to_string())
            }
        }
    }

    /// The SKIP that a home agent ends itself: its access list has mobile nodes alone.
    pub(super) fn own_skip(
        &self,
        loaded: &mut Loaded,
        (table, file): (&HomeAgentTable, &ConfigFile),
    ) -> Result<Option<Box<FirewallSetup>>, ConfigError> {
        let mut entries = self.access_list(loaded, "home_agent", file)?;
        if entries.is_empty() {
            return Ok(None);
        }
        let names: Vec<String> = file.access.keys().cloned().collect();
        for ((origin, template), name) in entries.iter_mut().zip(&names) {
            if *origin != Origin::Nomadic {
                let text = "a home agent has mobile nodes alone: address = \"*\"";
                return Err(self.value(&format!("access.{name}.address"), text));
            }
            if !template.inside.is_empty() {
                let text = "only a firewall lets nodes reach others: remove it";
                return Err(self.value(&format!("access.{name}.inside"), text));
            }
            template.inside = vec![TrafficSelector::host(table.address.into())];
        }
        let config = firewall::Config {
            outside: table.address,
            inside: table.address,
            home_agents: Vec::new(),
            entries,
            lifetime: firewall::LIFETIME,
            mode: firewall::Mode::Binding,
            removes_header: false,
            takes_udp: false,
            end_to_end: Vec::new(),
        };
        if let Err(fault) = firewall::Firewall::new(config.clone()) {
            return Err(self.firewall_fault(fault, &names));
        }
        Ok(Some(Box::new(FirewallSetup {
            config,
            outside_interface: table.interface.clone(),
            inside_interfaces: Vec::new(),
            names,
        })))
    }

    /// Care-of addresses outside, as a home agent's file says it.
    pub(super) fn outside(&self, own: &HomeAgentTable) -> Result<Vec<Outside>, ConfigError> {
        let mut all = Vec::new();
        for table in &own.outside {
            self.other_host(
                "home_agent.outside.firewall",
                table.firewall,
                &[own.address],
            )?;
            all.push(Outside {
                care_of: selector(table.care_of),
                firewall: table.firewall,
            });
        }
        Ok(all)
    }
}

pub(super) fn selector(network: Network) -> TrafficSelector {
    TrafficSelector::subnet(network.first.into(), network.bits)
}
