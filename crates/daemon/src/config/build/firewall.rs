//! The firewall of a mobile private network, and what its nodes and home agents know of it: from
//! tables to the configuration of a machine.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use engine::firewall::access::{EntryId, ListFault, Origin};
use engine::firewall::{self, Template};
use engine::mip4::firewall::{Firewall, Outside, Side};
use engine::selector::TrafficSelector;
use wire::skip::Name;

use super::{Builder, ConfigError, Loaded};
use crate::config::file::ConfigFile;
use crate::config::firewall::{
    self as table, FirewallTable, Network, NodeFirewallTable, OutsideTable,
};
use crate::config::parts::{FirewallSetup, NodeFirewall};

impl Builder<'_> {
    pub(super) fn firewall(
        &self,
        loaded: &mut Loaded,
        (table, file): (&FirewallTable, &ConfigFile),
    ) -> Result<FirewallSetup, ConfigError> {
        self.host("firewall.outside", table.outside)?;
        self.host("firewall.inside", table.inside)?;
        self.interface("firewall.outside_interface", &table.outside_interface)?;
        let home_agents = self.home_agents(table)?;
        if table.binding_lifetime.0.is_zero() {
            return Err(self.value("firewall.binding_lifetime", "0 would forget every node"));
        }
        if table.inside == table.outside {
            let text = "firewall.inside: it is firewall.outside: whoever can send from a home \
                        agent's address outside speaks for the home network";
            loaded.notes.push(text.to_owned());
        }
        let own = self.own_key("firewall", file)?;
        let mut entries = Vec::new();
        for (name, access) in &file.access {
            let key = format!("access.{name}");
            let skip = format!("{key}.skip");
            let association = self.skip_association(
                (&skip, &access.skip),
                &own,
                (Name::NONE, Name::NONE),
                &mut loaded.notes,
            )?;
            if !association.is_authenticated() {
                let text = "its packets would not prove who sent them: choose a MAC";
                return Err(self.value(&format!("{skip}.mac"), text));
            }
            if access.address != Origin::Nomadic && access.inside.is_empty() {
                let text = "its packets could go nowhere: inside = [\"10.18.0.0/16\"]";
                return Err(self.value(&format!("{key}.inside"), text));
            }
            let template = Template {
                association,
                inside: access.inside.iter().copied().map(selector).collect(),
                home_address: access.home_address,
                stored_n: 0,
            };
            entries.push((access.address, template));
        }
        if entries.is_empty() {
            let text = "there is none: add [access.NAME] for each node, host or network";
            return Err(self.value("access", text));
        }
        let names: Vec<String> = file.access.keys().cloned().collect();
        let config = firewall::Config {
            outside: table.outside,
            inside: table.inside,
            home_agents,
            entries,
            lifetime: table.binding_lifetime.0,
            mode: table.mode,
            removes_header: table.header_removal,
            takes_udp: table.udp,
            end_to_end: Vec::new(),
        };
        if let Err(fault) = firewall::Firewall::new(config.clone()) {
            return Err(self.firewall_fault(fault, &names));
        }
        Ok(FirewallSetup {
            config,
            outside_interface: table.outside_interface.clone(),
            names,
        })
    }

    fn home_agents(&self, table: &FirewallTable) -> Result<Vec<Ipv4Addr>, ConfigError> {
        let key = "firewall.home_agents";
        if table.home_agents.is_empty() {
            return Err(self.value(key, "there is none: name one at least"));
        }
        let mut all = BTreeSet::new();
        for agent in &table.home_agents {
            self.host(key, *agent)?;
            if [table.outside, table.inside].contains(agent) {
                return Err(self.value(key, &format!("{agent} is the firewall's own address")));
            }
            if !all.insert(*agent) {
                return Err(self.value(key, &format!("{agent} is there twice")));
            }
        }
        Ok(all.into_iter().collect())
    }

    fn firewall_fault(&self, fault: firewall::Fault, names: &[String]) -> ConfigError {
        let of = |id: EntryId| format!("access.{}", names[id.0]);
        let list = match fault {
            firewall::Fault::List(list) => list,
            firewall::Fault::Unauthenticated(id) | firewall::Fault::NothingInside(id) => {
                return self.value(&of(id), &fault.to_string());
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

    /// What a mobile node knows of the firewall of its home network.
    pub(super) fn node_firewall(
        &self,
        loaded: &mut Loaded,
        (table, file): (&NodeFirewallTable, &ConfigFile),
        home: Ipv4Addr,
    ) -> Result<Box<NodeFirewall>, ConfigError> {
        self.host("mobile.firewall.outside", table.outside)?;
        self.host("mobile.firewall.inside", table.inside)?;
        let own = self.own_key("mobile.firewall", file)?;
        let association = self.skip_association(
            ("mobile.firewall.skip", &table.skip),
            &own,
            (Name::ipv4(home), Name::NONE),
            &mut loaded.notes,
        )?;
        Ok(Box::new(NodeFirewall {
            outside: table.outside,
            machine: Firewall {
                address: table.inside,
                inside: table.networks.iter().copied().map(selector).collect(),
            },
            side: match table.side {
                table::Side::ByAddress => Side::ByAddress,
                table::Side::Inside => Side::Inside,
                table::Side::Outside => Side::Outside,
            },
            is_udp: table.udp,
            takes_short_form: table.header_removal,
            is_filtered: table.filter,
            clear: table.clear.iter().map(|it| (it.0, it.1)).collect(),
            association,
        }))
    }

    /// Care-of addresses outside, as a home agent's file says it.
    pub(super) fn outside(&self, tables: &[OutsideTable]) -> Result<Vec<Outside>, ConfigError> {
        let mut all = Vec::new();
        for table in tables {
            self.host("home_agent.outside.firewall", table.firewall)?;
            all.push(Outside {
                care_of: selector(table.care_of),
                firewall: table.firewall,
            });
        }
        Ok(all)
    }
}

fn selector(network: Network) -> TrafficSelector {
    TrafficSelector::subnet(network.first.into(), network.bits)
}
