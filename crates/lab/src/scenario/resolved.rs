//! A scenario with its policies: addresses, routes, and what each tunnel does to packets. Every
//! level takes the shape of packets from here.

use document::Fault;
use serde::Serialize;

use super::catalogue::{Catalogue, Kind};
use super::graph::crossing::SkipSetup;
use super::graph::setup::Setup;
use super::motion::POLICIES_MAX;
use super::{Graph, Scenario, WholeLink, WholeMove};
use crate::cost;

/// A scenario's network, and what is set up on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resolved {
    /// What is set up.
    pub setup: Setup,
    /// The links, in the order of the scenario.
    pub links: Vec<WholeLink>,
    /// What changes while packets flow, in the order of time.
    pub moves: Vec<WholeMove>,
    /// Addresses and routes. It has the tunnels that protect something.
    #[serde(flatten)]
    pub graph: Graph,
}

impl Scenario {
    /// A home agent outside keeps the outer address of a tunnel that leads a mobile node home.
    fn check_outside(&self, setup: &Setup, graph: &Graph) -> Result<(), Fault> {
        for layer in &self.outside {
            let name = |node: usize| &self.nodes[node].name;
            let mut tunnels = setup.tunnels.iter();
            let own = tunnels.find(|set| set.from == layer.station && set.leads_home);
            let what = match own {
                None => format!(
                    "'{}' has no tunnel to a gateway with its home agent behind it, whose outer \
                     address '{}' could keep",
                    name(layer.station),
                    name(layer.agent)
                ),
                Some(set) if graph.is_behind(layer.agent, set.to) => format!(
                    "'{}' is behind '{}': a home agent outside is before the gateway",
                    name(layer.agent),
                    name(set.to)
                ),
                Some(_) => continue,
            };
            return Err(self.fault(&["layer"], what));
        }
        Ok(())
    }

    /// Computes the network of a scenario, and how its tunnels protect packets there.
    pub fn resolved(&self, catalogue: &Catalogue) -> Result<Resolved, Fault> {
        let mut graph = Graph::of(self)?;
        let mut policies = Vec::new();
        for tunnel in std::mem::take(&mut graph.tunnels) {
            let key = self.policy_key(tunnel.from);
            let policy = self.policy_named(&tunnel.policy, &key, catalogue)?;
            if policy.suite.skip().is_some() {
                let why =
                    "this policy is SKIP's: name it in a layer of the kind skip, to a firewall";
                return Err(self.fault(&[&key], why));
            }
            if policy.suite.ipsec().is_none() {
                continue;
            }
            let own = graph.address(tunnel.from);
            if policy.is_outer_v6 && own.is_some_and(|address| address.is_ipv4()) {
                let why = "its outer header is IPv6 and the path is IPv4: add family = 6";
                return Err(self.fault(&[&key], why));
            }
            graph.tunnels.push(tunnel);
            policies.push(policy);
        }
        let skip = self.skip_setups(catalogue)?;
        let crossings = graph.crossings(self, &skip)?;
        let setup = Setup::of(self, &graph, policies, (skip, crossings));
        if let Some(tunnel) = setup.tunnels.iter().find(|it| it.rank >= POLICIES_MAX) {
            let why = format!("more than {POLICIES_MAX} policies of one family at a gateway");
            return Err(self.fault(&[&tunnel.policy_key], why));
        }
        self.check_outside(&setup, &graph)?;
        for (tunnel, set) in graph.tunnels.iter().zip(&setup.tunnels) {
            if !set.trusted.is_empty() {
                graph.check_asking(self, (tunnel, set.is_tunnel))?;
            }
        }
        Ok(Resolved {
            setup,
            links: self.whole_links(),
            moves: self.whole_moves(),
            graph,
        })
    }

    fn skip_setups(&self, catalogue: &Catalogue) -> Result<Vec<SkipSetup>, Fault> {
        let layers = self.skip.iter().map(|layer| {
            let key = format!("layer.{}.policy", self.nodes[layer.station].name);
            let protection = self.policy_named(&layer.policy, &key, catalogue)?;
            if protection.suite.skip().is_none() {
                let why = "this policy is not SKIP's: a layer of the kind skip needs a policy \
                           with a table [skip]";
                return Err(self.fault(&[&key, "layer"], why));
            }
            Ok(SkipSetup {
                station: layer.station,
                firewall: layer.firewall,
                protection,
                udp: layer.udp,
            })
        });
        layers.collect()
    }

    /// The key that names the policy of a station's tunnel: that of its layer, or the scenario's.
    pub(crate) fn policy_key(&self, station: usize) -> String {
        let mut layers = self.layers.iter().flatten();
        match layers.find(|tunnel| tunnel.from == station) {
            Some(_) => format!("layer.{}.policy", self.nodes[station].name),
            None => "policy".to_owned(),
        }
    }

    /// A policy from its file or by its suite's name; `key` names it in the scenario.
    pub(super) fn policy_named(
        &self,
        name: &str,
        key: &str,
        catalogue: &Catalogue,
    ) -> Result<cost::Policy, Fault> {
        match catalogue.find(Kind::Policy, name) {
            Some(entry) => cost::Policy::parse(&entry.file, &entry.text),
            None => match name.parse() {
                Ok(suite) => Ok(cost::Policy::of(suite)),
                Err(fault) => Err(self.fault(&[key], format!("{fault}"))),
            },
        }
    }
}
