//! Scenario files: topology, devices, links, policy, traffic and seed, parsed and checked.
//!
//! All three levels use the same file. `model` and the tandem read a [`Scenario`] as queues in
//! series, the event kernel builds its hosts from it, and the testbed builds its namespaces from
//! its [`Graph`]. A scenario is a graph of nodes and links, with flows, and with moves that change
//! it. The short form with `[traffic]` is a chain: station, relays and NATs, gateway, server.
//!
//! Left out: opening files. Texts are read through a [`Catalogue`]. Traces and captures are only
//! named here; the caller that runs the scenario reads them.
//!
//! A scenario that is a chain becomes a [`Tandem`](crate::tandem::Tandem): processors and links in
//! the order in which the counted packets pass them.

mod address;
mod base;
mod catalogue;
mod edit;
pub mod graph;
mod layered;
mod layers;
mod link;
mod mobile;
mod motion;
mod name;
mod named;
mod node;
mod quantity;
mod resolved;
mod run;
mod tandem;
mod topology;
mod traffic;
mod transport;
mod uncomputable;
mod whole;
mod wireless;
mod work;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::cost::{Accounting, Suite};

pub use address::Network;
pub use catalogue::{Catalogue, Entry, Kind};
pub use document::{Fault, Item, Place, Table, nearest, parse, unknown};
pub use graph::Graph;
pub use layered::Layered;
use layers::{Around, Layers, Named};
pub use link::{Link, LinkFile, Rate};
pub use mobile::{MobileIp, Skip};
pub use motion::{Change, Flow, LinkChange, Move, POLICIES_MAX, Tunnel};
pub use named::named;
pub use node::{Computer, Node, Role, Speed};
pub use resolved::Resolved;
pub use run::Run;
use run::{CALENDAR_S, calendar};
pub use topology::{Joint, NODES_MAX};
pub use traffic::{After, Direction, Model, Pace, Sizes, Traffic};
pub use transport::{Tls, Transport};
pub use uncomputable::Uncomputable;
pub use whole::{WholeLink, WholeLinkChange, WholeMove, WholeRate};
pub use wireless::{Access, Cipher, Wireless};

/// A checked scenario: everything that it names exists, and every number is within its range.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The name used in results.
    pub name: String,
    /// A title of one line.
    pub title: String,
    /// The seed of all random numbers.
    pub seed: u64,
    /// A policy of the catalogue, used between stations and gateways. If layers name several
    /// policies, it is that of the first layer.
    pub policy: String,
    /// How the size of protected packets is computed.
    pub accounting: Accounting,
    /// The date and time at the beginning of the simulation, in seconds since 1970, for
    /// certificates.
    pub calendar_s: u64,
    /// Whether networks that the lab chooses are IPv6.
    pub is_v6: bool,
    /// How long and how often it is simulated.
    pub run: Run,
    /// The nodes; of a chain in order, the station first; of a graph in the order of the file.
    pub nodes: Vec<Node>,
    /// The links; in a chain `links[i]` joins `nodes[i]` and `nodes[i + 1]`.
    pub links: Vec<Joint>,
    /// What applications send; the short form has one flow.
    pub flows: Vec<Flow>,
    /// What changes during the run, in the order of time.
    pub moves: Vec<Move>,
    /// The tunnels that layers state; none if no layer is of IPsec.
    pub layers: Option<Vec<Tunnel>>,
    /// The policy of the tunnels of stations that no layer names, each to the nearest gateway. None
    /// if there are layers alone: such stations have no tunnel.
    pub others: Option<String>,
    /// The stations that keep their address, with their home agents.
    pub mobile: Vec<MobileIp>,
    /// Those of them whose tunnel to a gateway begins at an address that another home agent keeps.
    pub outside: Vec<MobileIp>,
    /// The stations with keys in their packets, with their firewalls.
    pub skip: Vec<Skip>,
    /// How stations get access to radio links, and the ciphers of these.
    pub wireless: Wireless,
    /// The flows that TLS protects between their ends.
    pub transport: Vec<Transport>,
    /// Whether tunnels of mobile nodes and SKIP make TCP's segments so small that they fit.
    pub clamps_mss: bool,
    /// Whether it is in the short form, with `[traffic]`.
    pub is_short: bool,
    /// SHA-256 of every catalogue file that it names, so that the scenario's hash includes them.
    pub files: Vec<(String, String)>,
    /// The positions of values whose errors can only be found when they are used, by key.
    places: BTreeMap<String, Place>,
}

impl Scenario {
    /// Reads a scenario; `file` is its name in messages.
    pub fn parse(file: &str, text: &str, catalogue: &Catalogue) -> Result<Self, Fault> {
        Self::edited(file, text, &[], catalogue)
    }

    /// Reads a scenario after edits such as `node.ms.mips=200`, in the order given.
    ///
    /// A member of a list is addressed by its name, a link by the node that it starts from, and
    /// both also by their number from 0. An edit without a value (`node.ms.mips=`) removes the key.
    pub fn edited(
        file: &str,
        text: &str,
        edits: &[&str],
        catalogue: &Catalogue,
    ) -> Result<Self, Fault> {
        let (mut document, bases) = base::with_bases(parse(file, text)?, catalogue)?;
        for text in edits {
            edit::apply(&mut document, text)?;
        }
        Self::read(&document, catalogue, bases)
    }

    fn read(
        document: &Item,
        catalogue: &Catalogue,
        mut files: Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let table = document.table()?;
        let is_short = table.find("flow").is_none();
        let run = table.or("run", Run::default(), Run::read)?;
        let scenario = Self {
            name: table.need("name")?.text()?.to_owned(),
            title: table.need("title")?.text()?.to_owned(),
            seed: table.or("seed", 1, |item| item.whole(0, i64::MAX.unsigned_abs()))?,
            policy: String::new(),
            accounting: table.or("accounting", Accounting::Rfc, |item| {
                let known = Accounting::ALL.map(|one| (one.name(), one));
                item.choice("accounting", &known)
            })?,
            calendar_s: table.or("calendar", CALENDAR_S, calendar)?,
            is_v6: table.or("family", false, |item| match item.whole(0, u64::MAX)? {
                4 => Ok(false),
                6 => Ok(true),
                other => Err(item.fault(format!("must be 4 or 6, found {other}"))),
            })?,
            run,
            nodes: Vec::new(),
            links: Vec::new(),
            flows: Vec::new(),
            moves: Vec::new(),
            layers: None,
            others: None,
            mobile: Vec::new(),
            outside: Vec::new(),
            skip: Vec::new(),
            wireless: Wireless::default(),
            transport: Vec::new(),
            clamps_mss: table.or("clamps_mss", true, Item::boolean)?,
            is_short,
            files: Vec::new(),
            places: document.places(),
        };
        let read = match is_short {
            true => Self::read_chain,
            false => Self::read_graph,
        };
        let (policies, mut scenario) = read(scenario, &table, catalogue, &mut files)?;
        for Named { name, place } in &policies {
            match catalogue.find(Kind::Policy, name) {
                Some(entry) => files.push(entry.fingerprint()),
                // The name of a suite is also the name of a policy.
                None if name.parse::<Suite>().is_ok() => {}
                None => return Err(catalogue.unknown(Kind::Policy, name, place)),
            }
        }
        files.sort();
        files.dedup();
        scenario.files = files;
        match policies.first() {
            Some(policy) => policy.name.clone_into(&mut scenario.policy),
            // Every layer of such a scenario only moves packets.
            None => "none".clone_into(&mut scenario.policy),
        }
        scenario.check_gateway(&policies)?;
        table.finish()?;
        Ok(scenario)
    }

    /// Refuses a policy for whoever no layer names if there is no gateway for it.
    fn check_gateway(&self, policies: &[Named]) -> Result<(), Fault> {
        if self.gateway().is_none()
            && let Some(named) = self.others.as_ref().filter(|it| *it != "none")
        {
            let what = "a policy needs a gateway at its other end: add a node with that role, or \
                        use the policy 'none'";
            let found = policies.iter().find(|it| it.name == *named);
            let place = found.unwrap_or(&policies[0]).place.clone();
            let what = what.to_owned();
            return Err(Fault { place, what });
        }
        Ok(())
    }

    fn read_chain(
        self,
        table: &Table<'_>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<(Vec<Named>, Self), Fault> {
        let policy = table.need("policy")?;
        let entry = catalogue.find(Kind::Policy, policy.text()?);
        let layered = entry.map(|entry| Layered::find(entry, catalogue));
        if layered.transpose()?.flatten().is_some() {
            let what = "a policy of layers needs a graph, with [[flow]] instead of [traffic]";
            return Err(policy.fault(what));
        }
        let traffic = table.need("traffic")?;
        for key in ["move", "layer"] {
            table.refuse(
                key,
                "a scenario with this key needs [[flow]] instead of [traffic]",
            )?;
        }
        let topology = topology::chain(table, catalogue, files)?;
        let traffic = Traffic::read(traffic)?;
        let mut servers = topology.nodes.iter().filter(|it| it.role == Role::Server);
        if let Some(server) = servers.find(|it| it.computer.is_some()) {
            let key = format!("node.{}.device", server.name);
            let what = "a server computes for flows in TLS alone, which need a graph";
            return Err(self.fault(&[&key], what));
        }
        let last = topology.nodes.len() - 1;
        let (from, to) = match traffic.direction {
            Direction::Up => (0, last),
            Direction::Down => (last, 0),
        };
        let flow = Flow {
            name: topology.nodes[from].name.clone(),
            from,
            to,
            traffic,
            at_s: 0.0,
        };
        let scenario = Self {
            nodes: topology.nodes,
            links: topology.links,
            flows: vec![flow],
            others: Some(policy.text()?.to_owned()),
            ..self
        };
        Ok((vec![Named::of(policy)?], scenario))
    }

    fn read_graph(
        self,
        table: &Table<'_>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<(Vec<Named>, Self), Fault> {
        table.refuse("traffic", "a scenario has either [[flow]] or [traffic]")?;
        let topology = topology::graph(table, catalogue, files)?;
        let flows = motion::flows(table.need("flow")?, &topology)?;
        let moves = table.or("move", Vec::new(), |item| {
            motion::moves(item, &topology, self.run.time_s)
        })?;
        if let Some(link) = motion::deserted(&topology.links, &moves) {
            let name = &topology.links[link].name;
            let what = format!(
                "no station is ever on '{name}': name one in its from, or move one \
                                there"
            );
            return Err(self.fault(&[&format!("link.{name}.from"), "link"], what));
        }
        let around = Around {
            topology: &topology,
            moves: &moves,
            flows: &flows,
            catalogue,
        };
        let layers = match table.find("layer") {
            None => Layers::of(table.need("policy")?, &around)?,
            Some(layer) => Layers::read(layer, table.find("policy"), &around)?,
        };
        let Layers {
            policies,
            own,
            tunnels,
            mobile,
            outside,
            skip,
            wireless,
            transport,
            files: named,
        } = layers;
        files.extend(named);
        let scenario = Self {
            nodes: topology.nodes,
            links: topology.links,
            flows,
            moves,
            layers: tunnels,
            others: own,
            mobile,
            outside,
            skip,
            wireless,
            transport,
            ..self
        };
        Ok((policies, scenario))
    }

    /// The only flow of a chain, or of a graph whose station stays where it is and has Mobile IP or
    /// SKIP, for the tandem and the closed forms. Another graph that branches, and one with moves,
    /// has none.
    pub fn chain(&self) -> Result<&Flow, Fault> {
        let last = self.nodes.len() - 1;
        let joins =
            |(index, joint): (usize, &Joint)| joint.near == [index] && joint.far == index + 1;
        let is_chain = self.links.len() == last && self.links.iter().enumerate().all(joins);
        let kernel = "use the event kernel (simulate --events)";
        match &self.flows[..] {
            _ if !self.moves.is_empty() => {
                let what = format!("the tandem cannot simulate moves: {kernel}");
                Err(self.fault(&["move"], what))
            }
            [flow] if self.is_carried() => Ok(flow),
            [flow] if is_chain && [flow.from.min(flow.to), flow.from.max(flow.to)] == [0, last] => {
                Ok(flow)
            }
            _ => {
                let what = format!(
                    "the tandem can simulate only a chain, and this scenario \
                                    branches: {kernel}"
                );
                Err(self.fault(&["flow", "link"], what))
            }
        }
    }

    /// Whether layers carry packets by way of agents or firewalls.
    pub(crate) fn is_carried(&self) -> bool {
        !self.mobile.is_empty() || !self.skip.is_empty()
    }

    /// The nodes of a role, by index.
    pub(crate) fn with_role(&self, role: Role) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        let found = nodes.filter(move |(_, node)| node.role == role);
        found.map(|(index, _)| index)
    }

    /// The index in `nodes` of the first gateway. The tunnel of a chain begins at node 0, the
    /// station, and ends there.
    pub fn gateway(&self) -> Option<usize> {
        self.nodes.iter().position(Node::is_gateway)
    }

    /// The resolved scenario as JSON with keys in a fixed order.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("finite numbers and texts")
    }

    /// SHA-256 of [`Scenario::json`] in hexadecimal: equal for files with the same meaning.
    pub fn hash(&self) -> String {
        catalogue::fingerprint(&self.json())
    }
}
