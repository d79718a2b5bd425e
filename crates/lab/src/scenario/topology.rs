//! Nodes and the links that join them: a chain from the station to the last node, or a graph.

use std::collections::BTreeMap;

use document::{Fault, Item, Table, Value, unknown};
use serde::Serialize;

use super::address::Network;
use super::catalogue::{Catalogue, Entry, Kind};
use super::link::Link;
use super::{Node, Role, name};

/// The largest number of nodes; more are taken for a mistake.
pub const NODES_MAX: usize = 64;

/// The keys for the ends of a link.
const ENDS: [&str; 2] = ["from", "to"];

/// A link and the nodes that it joins. Its near side is towards the stations.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Joint {
    /// Its name in edits and moves; in a chain, the node that it starts from.
    pub name: String,
    /// Indices of the nodes that share its near side; moves may add others.
    pub near: Vec<usize>,
    /// Index of the node at its other end.
    pub far: usize,
    /// The address range of its segment, if the file gives one.
    pub network: Option<Network>,
    /// The properties of the link.
    #[serde(flatten)]
    pub link: Link,
}

/// Nodes and links, checked against each other.
pub(super) struct Topology {
    pub(super) nodes: Vec<Node>,
    pub(super) links: Vec<Joint>,
}

/// The nodes and links of a file.
struct Written<'a> {
    node_list: &'a Item,
    items: &'a [Item],
    nodes: Vec<Node>,
    link_items: &'a [Item],
    links: Vec<Joint>,
}

/// The nodes of a chain in order, and the links between them.
pub(super) fn chain(
    table: &Table<'_>,
    catalogue: &Catalogue,
    files: &mut Vec<(String, String)>,
) -> Result<Topology, Fault> {
    let written = Written::read(table, catalogue, files)?;
    let order = written.walk()?;
    written.check_roles(&order)?;
    let mut links = Vec::new();
    for (index, pair) in order.windows(2).enumerate() {
        let joint = written.links.iter().find(|joint| joint.near == [pair[0]]);
        links.extend(joint.map(|joint| Joint {
            near: vec![index],
            far: index + 1,
            ..joint.clone()
        }));
    }
    let nodes = order.iter().map(|index| written.nodes[*index].clone());
    Ok(Topology {
        nodes: nodes.collect(),
        links,
    })
}

/// Nodes and links in the order of the file; links may be shared, and paths may branch.
pub(super) fn graph(
    table: &Table<'_>,
    catalogue: &Catalogue,
    files: &mut Vec<(String, String)>,
) -> Result<Topology, Fault> {
    let written = Written::read(table, catalogue, files)?;
    for (index, (joint, item)) in written.links.iter().zip(written.link_items).enumerate() {
        let others = &written.links[..index];
        if others.iter().any(|other| other.name == joint.name) {
            let what = format!("two links are called '{}': give each a name", joint.name);
            return Err(item.fault_of(&["name", "from"], what));
        }
    }
    for (index, item) in written.items.iter().enumerate() {
        if let Some(why) = written.misplaced(index) {
            let what = format!("'{}': {why}", written.nodes[index].name);
            return Err(item.fault_of(&["role"], what));
        }
        check_radius(item, &written.nodes[index], &written.nodes)?;
    }
    Ok(Topology {
        nodes: written.nodes,
        links: written.links,
    })
}

impl<'a> Written<'a> {
    fn read(
        table: &Table<'a>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let node_list = table.need("node")?;
        let items = node_list.list()?;
        if items.len() > NODES_MAX {
            return Err(node_list.fault(format!("{} nodes, limit {NODES_MAX}", items.len())));
        }
        let mut nodes: Vec<Node> = Vec::new();
        for item in items {
            let node = Node::read(item, catalogue, files)?;
            if nodes.iter().any(|other| other.name == node.name) {
                let what = format!("two nodes are called '{}'", node.name);
                return Err(item.fault_of(&["name"], what));
            }
            nodes.push(node);
        }
        let link_list = table.need("link")?;
        let link_items = link_list.list()?;
        // A tree with a link to move to for each of its nodes.
        let most = 2 * NODES_MAX;
        if link_items.len() > most {
            return Err(link_list.fault(format!("{} links, limit {most}", link_items.len())));
        }
        let mut links = Vec::new();
        for item in link_items {
            links.push(Joint::read(item, &nodes, catalogue, files)?);
        }
        files.sort();
        files.dedup();
        Ok(Self {
            node_list,
            items,
            nodes,
            link_items,
            links,
        })
    }

    /// The nodes along the chain. A branch, a cycle or an unconnected node is an error.
    fn walk(&self) -> Result<Vec<usize>, Fault> {
        let (mut onward, mut backward) = (BTreeMap::new(), BTreeMap::new());
        for (joint, item) in self.links.iter().zip(self.link_items) {
            let [from] = joint.near[..] else {
                let what = "this link has several nodes at one end: a scenario that branches \
                            needs [[flow]] instead of [traffic]";
                return Err(item.fault_of(&["from"], what));
            };
            if onward.insert(from, joint.far).is_some() {
                let name = &self.nodes[from].name;
                let what = format!("a second link from '{name}': a chain cannot branch");
                return Err(item.fault_of(&ENDS, what));
            }
            if backward.insert(joint.far, from).is_some() {
                let name = &self.nodes[joint.far].name;
                let what = format!("a second link to '{name}': a chain cannot branch");
                return Err(item.fault_of(&ENDS, what));
            }
        }
        let Some(start) = (0..self.nodes.len()).find(|index| !backward.contains_key(index)) else {
            return Err(match self.link_items.last() {
                Some(item) => item.fault_of(&ENDS, "this link closes a cycle"),
                None => self.node_list.fault("there must be at least one node"),
            });
        };
        let mut order = vec![start];
        while let Some(next) = onward.get(&order[order.len() - 1]) {
            order.push(*next);
        }
        match (0..self.nodes.len()).find(|index| !order.contains(index)) {
            // A node that is not on the chain but has a link into it lies on a cycle.
            Some(aside) if backward.contains_key(&aside) => {
                let pairs = self.links.iter().zip(self.link_items);
                let is_aside = |joint: &Joint| !order.contains(&joint.near[0]);
                let found = pairs.rev().find(|(joint, _)| is_aside(joint));
                let item = found.map_or(&self.items[aside], |(_, item)| item);
                Err(item.fault_of(&ENDS, "this link closes a cycle beside the chain"))
            }
            Some(aside) => {
                let what = format!("no link leads to '{}'", self.nodes[aside].name);
                Err(self.items[aside].fault(what))
            }
            None => Ok(order),
        }
    }

    fn check_roles(&self, order: &[usize]) -> Result<(), Fault> {
        let role = |at: usize| self.nodes[order[at]].role;
        let fault = |at: usize, what: &str| Err(self.items[order[at]].fault_of(&["role"], what));
        let last = order.len() - 1;
        if role(0) != Role::Station {
            return fault(0, "a chain must begin with a station");
        }
        if last == 0 || !matches!(role(last), Role::Gateway | Role::Server) {
            return fault(last, "a chain must end with a gateway or a server");
        }
        let mut gateways = 0;
        for at in 1..order.len() {
            match role(at) {
                Role::Station => return fault(at, "a second station in the chain"),
                Role::Gateway if gateways == 1 => {
                    return fault(at, "a second gateway in the chain");
                }
                Role::Gateway => gateways = 1,
                Role::Server if at != last => return fault(at, "a server must end the chain"),
                Role::Nat if gateways == 1 => {
                    return fault(at, "a NAT must be before the gateway");
                }
                Role::Router => {
                    let what = "a chain cannot have a router: a scenario that branches needs \
                                [[flow]] instead of [traffic]";
                    return fault(at, what);
                }
                Role::Server | Role::Nat | Role::Relay => {}
                Role::HomeAgent | Role::ForeignAgent | Role::Firewall | Role::AccessPoint => {
                    let what = "a chain cannot have this role: only a graph can, which has \
                                [[flow]] instead of [traffic]";
                    return fault(at, what);
                }
            }
        }
        Ok(())
    }

    /// Why a node cannot be at its position in a graph.
    fn misplaced(&self, node: usize) -> Option<&'static str> {
        let near = || self.links.iter().filter(|joint| joint.near.contains(&node));
        let far = || self.links.iter().filter(|joint| joint.far == node);
        let (onward, inward) = (near().count(), far().count());
        let is_alone = near().all(|joint| joint.near.len() == 1);
        let role = |index: usize| self.nodes[index].role;
        let ends_behind = |joint: &Joint| matches!(role(joint.far), Role::Server | Role::Router);
        match role(node) {
            Role::Station if (onward, inward) != (1, 0) => Some(
                "a station needs exactly one link, which starts from it; a move changes the \
                      link",
            ),
            Role::Relay if (onward, inward) != (1, 1) || !is_alone => {
                Some("a relay joins exactly two links: use a router where paths branch")
            }
            Role::Router if onward + inward < 2 => Some("a router must join at least two links"),
            Role::HomeAgent if (onward, inward) != (1, 0) => {
                Some("a home agent needs exactly one link, which starts from it: the home link")
            }
            Role::ForeignAgent if onward == 0 => Some(
                "a foreign agent needs a link that starts from it; its visitors are on that link, \
                 or on one that ends at it",
            ),
            Role::AccessPoint if onward != 1 || inward == 0 => Some(
                "an access point needs one link that starts from it, and one for its stations, \
                 which ends at it",
            ),
            Role::Firewall if onward == 0 || inward == 0 => Some(
                "a firewall needs a link to the private network, which starts from it, and one \
                 from outside, which ends at it",
            ),
            Role::Nat if (onward, inward) != (1, 1) => {
                Some("a NAT needs one link on its inside and one on its outside")
            }
            Role::Gateway if inward == 0 => Some("no link leads to this gateway"),
            Role::Gateway if onward > 1 || !is_alone || !near().all(ends_behind) => {
                Some("a gateway can have only one server or router behind it, on a link of its own")
            }
            Role::Server if onward + inward != 1 => Some("a server needs exactly one link"),
            _ => None,
        }
    }
}

impl Joint {
    fn read(
        item: &Item,
        nodes: &[Node],
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let table = item.table()?;
        let near = match table.need("from")? {
            from if matches!(from.value, Value::List(_)) => {
                let names = from.list()?.iter();
                names.map(|name| node_of(name, nodes)).collect()
            }
            from => node_of(from, nodes).map(|node| vec![node]),
        }?;
        let far = node_of(table.need("to")?, nodes)?;
        if near.contains(&far) {
            return Err(item.fault_of(&ENDS, "this link leads from a node to itself"));
        }
        if (1..near.len()).any(|at| near[..at].contains(&near[at])) {
            return Err(item.fault_of(&["from"], "this node is twice at one end of the link"));
        }
        let name = match (table.find("name"), &near[..]) {
            (Some(name), _) => name::of_link(name)?,
            (None, [from]) => nodes[*from].name.clone(),
            (None, _) => {
                let what = "a link with several nodes at one end, or none, needs a name";
                return Err(item.fault_of(&["name", "from"], what));
            }
        };
        let base = match table.find("link") {
            Some(name) => {
                let entry = catalogue.named(Kind::Link, name)?;
                files.push(entry.fingerprint());
                let texts = (&*entry.name, &*entry.file, &*entry.text);
                Some(texts)
            }
            None => None,
        };
        let network = table.or("network", None, |item| Network::read(item).map(Some))?;
        let link = Link::overridden(item, &table, base)?;
        // A missing trace is an error only in the level that would replay it.
        let trace = link.trace.as_ref();
        let trace = trace.and_then(|name| catalogue.find(Kind::Trace, name));
        files.extend(trace.map(Entry::fingerprint));
        table.finish()?;
        Ok(Self {
            name,
            near,
            far,
            network,
            link,
        })
    }
}

/// The index of the node that an item names.
pub(super) fn node_of(item: &Item, nodes: &[Node]) -> Result<usize, Fault> {
    let name = item.text()?;
    let found = nodes.iter().position(|node| node.name == name);
    found.ok_or_else(|| {
        let names = nodes.iter().map(|node| node.name.as_str());
        item.fault(unknown("node", name, names))
    })
}

/// Refuses a RADIUS server that is not a node, or at a node that is no router or server.
fn check_radius(item: &Item, node: &Node, nodes: &[Node]) -> Result<(), Fault> {
    let Some(named) = &node.radius else {
        return Ok(());
    };
    let found = nodes.iter().find(|other| other.name == *named);
    let may_serve = |role| matches!(role, Role::Router | Role::Server | Role::Gateway);
    match found {
        Some(server) if may_serve(server.role) => Ok(()),
        Some(_) => {
            let what = format!("'{named}' must be a router, a gateway or a server");
            Err(item.fault_of(&["radius"], what))
        }
        None => Err(item.fault_of(&["radius"], format!("there is no node '{named}'"))),
    }
}
