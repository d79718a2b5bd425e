//! The stations of a world that ask whether they are inside: what their home agents trust, and the
//! keys of the foreign agents inside, which prove to a node that the agents are its company's.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use engine::mip4::association::Associations;
use engine::selector::TrafficSelector;

use super::blueprint::Blueprint;
use super::mobility::shared;
use crate::scenario::graph::setup::{MobileSetup, TunnelSetup};
use crate::scenario::{Network, Role};

impl Blueprint {
    /// Whether a node asks whether it is inside: not of a home agent outside.
    pub(super) fn asks(&self, own: &MobileSetup) -> bool {
        self.asking(own).is_some()
    }

    /// The networks from which a home agent hears these nodes in clear.
    pub(super) fn trusted(&self, clients: &[&MobileSetup]) -> Vec<TrafficSelector> {
        let sets = clients.iter().filter_map(|own| self.asking(own));
        let mut all: Vec<Network> = sets.flat_map(|set| set.trusted.clone()).collect();
        all.sort_by_key(|network| network.first);
        all.dedup();
        all.into_iter().map(subnet).collect()
    }

    /// The inner addresses of the tunnels by which it hears them. It asks for none if it trusts no
    /// network.
    pub(super) fn tunnelled(&self, clients: &[&MobileSetup]) -> Vec<TrafficSelector> {
        if self.trusted(clients).is_empty() {
            return Vec::new();
        }
        let sets = self.setup.tunnels.iter().filter(|set| set.leads_home);
        let own = sets.filter(|set| clients.iter().any(|it| it.layer.station == set.from));
        let mut pools: Vec<Network> = own.map(|set| set.pool).collect();
        pools.sort_by_key(|network| network.first);
        pools.dedup();
        pools.into_iter().map(subnet).collect()
    }

    /// The foreign agents inside that share a key with the home agent of these nodes, by the
    /// address from which they relay.
    pub(super) fn agents_inside(
        &self,
        clients: &[&MobileSetup],
    ) -> BTreeMap<Ipv4Addr, Associations> {
        let mut agents = BTreeMap::new();
        for own in clients {
            for agent in self.known_agents(own) {
                if let Some(IpAddr::V4(care_of)) = self.graph.inside(agent) {
                    let key = self.key_of_agents(agent, own.layer.agent);
                    agents.insert(care_of, key);
                }
            }
        }
        agents
    }

    /// The agents that may prove to a node that it is inside, by the addresses that it hears.
    pub(super) fn agents_that_may_be_inside(&self, station: usize) -> Vec<Ipv4Addr> {
        let all = self.setup.mobile.iter();
        let own = all.filter(|it| it.layer.station == station);
        let agents = own.flat_map(|own| {
            let foreign = self.agents_of(own).into_keys();
            foreign.chain([own.home_agent])
        });
        agents.collect()
    }

    /// Those that share a key with this node, by their address on the visitors' link.
    pub(super) fn agents_of(&self, own: &MobileSetup) -> BTreeMap<Ipv4Addr, Associations> {
        let agents = self.known_agents(own).into_iter();
        let agents = agents.filter_map(|agent| {
            let address = self.visitors_address(agent)?;
            Some((address, self.key_of_visitor(agent, own.layer.station)))
        });
        agents.collect()
    }

    /// The nodes with which a foreign agent shares a key, by their home addresses.
    pub(super) fn visitors_of(&self, agent: usize) -> BTreeMap<Ipv4Addr, Associations> {
        let own = self.known_visitors(agent);
        own.map(|own| (own.home, self.key_of_visitor(agent, own.layer.station)))
            .collect()
    }

    /// The home agents with which it shares one.
    pub(super) fn homes_of(&self, agent: usize) -> BTreeMap<Ipv4Addr, Associations> {
        let own = self.known_visitors(agent);
        own.map(|own| {
            let key = self.key_of_agents(agent, own.layer.agent);
            (own.home_agent, key)
        })
        .collect()
    }

    /// The tunnel of a node that asks.
    fn asking(&self, own: &MobileSetup) -> Option<&TunnelSetup> {
        let mut sets = self.setup.tunnels.iter();
        let set = sets.find(|set| set.from == own.layer.station && !set.trusted.is_empty())?;
        let is_inside = self.graph.is_behind(own.layer.agent, set.to);
        is_inside.then_some(set)
    }

    /// The foreign agents inside, for a node that asks.
    fn known_agents(&self, own: &MobileSetup) -> Vec<usize> {
        let Some(set) = self.asking(own) else {
            return Vec::new();
        };
        let nodes = self.nodes.iter().enumerate();
        let agents = nodes.filter(|(index, node)| {
            node.role == Role::ForeignAgent && self.graph.is_behind(*index, set.to)
        });
        agents.map(|(index, _)| index).collect()
    }

    fn known_visitors(&self, agent: usize) -> impl Iterator<Item = &MobileSetup> {
        let all = self.setup.mobile.iter();
        all.filter(move |own| self.known_agents(own).contains(&agent))
    }

    /// Between foreign agent and home agent.
    fn key_of_agents(&self, agent: usize, home_agent: usize) -> Associations {
        shared(self, agent, "home agent", home_agent as u64)
    }

    /// Between foreign agent and mobile node.
    fn key_of_visitor(&self, agent: usize, station: usize) -> Associations {
        shared(self, agent, "visitor", station as u64)
    }

    /// The address of a foreign agent that its visitors see.
    fn visitors_address(&self, agent: usize) -> Option<Ipv4Addr> {
        let outside = self.graph.outside(agent).map(|port| port.address);
        match outside.or(self.graph.inside(agent))? {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(_) => None,
        }
    }
}

fn subnet(network: Network) -> TrafficSelector {
    TrafficSelector::subnet(network.first, network.bits)
}
