//! Nodes and links as a road: one chain, from the station to the last node.

use std::collections::BTreeMap;

use document::{Fault, Item, Table, unknown};

use super::catalogue::{Catalogue, Entry, Kind};
use super::link::Link;
use super::{Node, Role};

/// More hops are a mistake.
const NODES_MAX: usize = 64;

/// What a link joins.
const ENDS: [&str; 2] = ["from", "to"];

/// A link as written: where it stands, and what it joins.
struct Joint<'a> {
    item: &'a Item,
    from: usize,
    to: usize,
    link: Link,
}

/// Nodes in the order of the road, and the links between them.
pub(super) fn read(
    table: &Table<'_>,
    catalogue: &Catalogue,
    files: &mut Vec<(String, String)>,
) -> Result<(Vec<Node>, Vec<Link>), Fault> {
    let node_list = table.need("node")?;
    let items = node_list.list()?;
    if items.len() > NODES_MAX {
        return Err(node_list.fault(format!("{} nodes, limit {NODES_MAX}", items.len())));
    }
    let mut nodes: Vec<Node> = Vec::new();
    for item in items {
        let node = Node::read(item, catalogue, files)?;
        if nodes.iter().any(|other| other.name == node.name) {
            return Err(item.fault_of(&["name"], format!("two nodes are called '{}'", node.name)));
        }
        nodes.push(node);
    }
    let link_list = table.need("link")?;
    let mut joints = Vec::new();
    for item in link_list.list()? {
        joints.push(Joint::read(item, &nodes, catalogue, files)?);
    }
    files.sort();
    files.dedup();
    let order = walk(&nodes, items, &joints, node_list)?;
    check_roles(&nodes, items, &order)?;
    let mut links = Vec::new();
    for pair in order.windows(2) {
        let joint = joints.iter().find(|joint| joint.from == pair[0]);
        links.extend(joint.map(|joint| joint.link.clone()));
    }
    let nodes = order.iter().map(|index| nodes[*index].clone()).collect();
    Ok((nodes, links))
}

impl<'a> Joint<'a> {
    fn read(
        item: &'a Item,
        nodes: &[Node],
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let table = item.table()?;
        let end = |key| {
            let end: &Item = table.need(key)?;
            let name = end.text()?;
            let found = nodes.iter().position(|node| node.name == name);
            found.ok_or_else(|| {
                let names = nodes.iter().map(|node| node.name.as_str());
                end.fault(unknown("node", name, names))
            })
        };
        let (from, to) = (end("from")?, end("to")?);
        if from == to {
            return Err(item.fault_of(&ENDS, "a link from a node to itself"));
        }
        let base = match table.find("link") {
            Some(name) => {
                let entry = catalogue.named(Kind::Link, name)?;
                files.push(entry.fingerprint());
                Some((
                    entry.name.as_str(),
                    entry.file.as_str(),
                    entry.text.as_str(),
                ))
            }
            None => None,
        };
        let link = Link::overridden(item, &table, base)?;
        // What is not there is a fault of the level that would replay it.
        let trace = link.trace.as_ref();
        let trace = trace.and_then(|name| catalogue.find(Kind::Trace, name));
        files.extend(trace.map(Entry::fingerprint));
        table.finish()?;
        Ok(Self {
            item,
            from,
            to,
            link,
        })
    }
}

/// The nodes along the road; a branch, a cycle or a node aside is an error.
fn walk(
    nodes: &[Node],
    items: &[Item],
    joints: &[Joint<'_>],
    list: &Item,
) -> Result<Vec<usize>, Fault> {
    let mut onward = BTreeMap::new();
    let mut backward = BTreeMap::new();
    for joint in joints {
        if onward.insert(joint.from, joint.to).is_some() {
            let name = &nodes[joint.from].name;
            let what = format!("a second link out of '{name}': a road does not branch");
            return Err(joint.item.fault_of(&ENDS, what));
        }
        if backward.insert(joint.to, joint.from).is_some() {
            let name = &nodes[joint.to].name;
            let what = format!("a second link into '{name}': a road does not branch");
            return Err(joint.item.fault_of(&ENDS, what));
        }
    }
    let Some(start) = (0..nodes.len()).find(|index| !backward.contains_key(index)) else {
        let what = match joints.last() {
            Some(joint) => {
                return Err(joint.item.fault_of(&ENDS, "this link closes a cycle"));
            }
            None => "there is no node",
        };
        return Err(list.fault(what));
    };
    let mut order = vec![start];
    while let Some(next) = onward.get(&order[order.len() - 1]) {
        order.push(*next);
    }
    match (0..nodes.len()).find(|index| !order.contains(index)) {
        // What is not on the road but has a link into it lies on a cycle.
        Some(aside) if backward.contains_key(&aside) => {
            let joint = joints.iter().rfind(|joint| !order.contains(&joint.from));
            let item = joint.map_or(&items[aside], |joint| joint.item);
            Err(item.fault_of(&ENDS, "this link closes a cycle beside the road"))
        }
        Some(aside) => {
            let what = format!("no link leads to '{}'", nodes[aside].name);
            Err(items[aside].fault(what))
        }
        None => Ok(order),
    }
}

fn check_roles(nodes: &[Node], items: &[Item], order: &[usize]) -> Result<(), Fault> {
    let role = |at: usize| nodes[order[at]].role;
    let last = order.len() - 1;
    if role(0) != Role::Station {
        return Err(items[order[0]].fault_of(&["role"], "a road begins at a station"));
    }
    if last == 0 || !matches!(role(last), Role::Gateway | Role::Server) {
        return Err(items[order[last]].fault_of(&["role"], "a road ends at a gateway or a server"));
    }
    let mut gateways = 0;
    for (at, index) in order.iter().enumerate().skip(1) {
        let item = &items[*index];
        match role(at) {
            Role::Station => return Err(item.fault_of(&["role"], "a second station on one road")),
            Role::Gateway if gateways == 1 => {
                return Err(item.fault_of(&["role"], "a second gateway"));
            }
            Role::Gateway => gateways = 1,
            Role::Server if at != last => {
                return Err(item.fault_of(&["role"], "a server ends the road"));
            }
            Role::Nat if gateways == 1 => {
                return Err(
                    item.fault_of(&["role"], "a NAT behind the gateway: it stands before it")
                );
            }
            Role::Server | Role::Nat | Role::Relay => {}
        }
    }
    Ok(())
}
