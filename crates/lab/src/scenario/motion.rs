//! Flows between nodes, tunnels, and moves: changes of nodes and links at stated times.

use document::{Fault, Item, Table, unknown};
use serde::Serialize;

use super::link::{Rate, read_rate};
use super::topology::{Joint, Topology, node_of};
use super::traffic::{Direction, Model, Traffic};
use super::{Role, name, quantity};

/// One flow of packets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// Its name in edits: its own, or that of the node where it starts.
    pub name: String,
    /// Index of the node whose packets are counted.
    pub from: usize,
    /// Index of the node that receives them.
    pub to: usize,
    /// What is sent.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// Seconds after the beginning of the first flows; of TCP alone.
    #[serde(skip_serializing_if = "is_zero")]
    pub at_s: f64,
}

/// A change while packets flow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Move {
    /// Seconds after the beginning of the flows.
    pub at_s: f64,
    /// What changes.
    #[serde(flatten)]
    pub change: Change<LinkChange>,
}

/// What changes: a station's link, or a link by an `L`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change<L> {
    /// A station moves to another link.
    Station {
        /// Index of the node.
        node: usize,
        /// Index of the new link.
        to: usize,
    },
    /// A link changes.
    Link {
        /// Index of the link.
        link: usize,
        /// Its new value.
        #[serde(flatten)]
        to: L,
    },
}

/// A change of a link. Packets that are already on it are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkChange {
    /// A new rate.
    Rate(Rate),
    /// A new delay.
    DelayS(f64),
    /// A new loss.
    Loss(f64),
    /// Whether it carries packets.
    Up(bool),
}

/// An IPsec tunnel: the layer of protection that the lab runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tunnel {
    /// Index of the station.
    pub from: usize,
    /// Index of the gateway.
    pub to: usize,
    /// Its policy, by name.
    pub policy: String,
}

impl Flow {
    /// The keys for the ends of a tunnel: the station, and the other end.
    pub const fn ends(&self) -> (usize, usize) {
        match self.traffic.direction {
            Direction::Up => (self.from, self.to),
            Direction::Down => (self.to, self.from),
        }
    }
}

/// The largest number of different policies at one gateway: the stations of each have a name and
/// inner addresses of their own.
pub const POLICIES_MAX: usize = 4;
/// The largest number of flows, moves or layers; more are taken for a mistake.
const LIST_MAX: usize = 1024;
/// The properties of a link that a move may change.
const CHANGES: [&str; 4] = ["rate", "delay", "loss", "up"];

pub(super) fn members<'a>(item: &'a Item, what: &str) -> Result<&'a [Item], Fault> {
    let items = item.list()?;
    match items.len() {
        0..=LIST_MAX => Ok(items),
        many => Err(item.fault(format!("{many} {what}, limit {LIST_MAX}"))),
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// The flows of a graph.
pub(super) fn flows(item: &Item, topology: &Topology) -> Result<Vec<Flow>, Fault> {
    let mut flows = Vec::new();
    for item in members(item, "flows")? {
        let table = item.table()?;
        let nodes = &topology.nodes;
        let from = node_of(table.need("from")?, nodes)?;
        let to = node_of(table.need("to")?, nodes)?;
        let ends_well = |role| {
            matches!(
                role,
                Role::Gateway | Role::Server | Role::HomeAgent | Role::Station
            )
        };
        let direction = match (nodes[from].role, nodes[to].role) {
            (Role::Station, other) if ends_well(other) && from != to => Direction::Up,
            (other, Role::Station) if ends_well(other) && from != to => Direction::Down,
            _ => {
                let what = "a flow needs a station at one end, and a gateway, a server, a home \
                            agent or another station at the other";
                return Err(item.fault_of(&["from", "to"], what));
            }
        };
        table.refuse("direction", "from and to already give the direction")?;
        let named = table.find("name").map(name::of_link).transpose()?;
        let name = named.unwrap_or_else(|| nodes[from].name.clone());
        if flows.iter().any(|other: &Flow| other.name == name) {
            let what = format!("two flows are called '{name}': give each a name");
            return Err(item.fault_of(&["name", "from"], what));
        }
        let traffic = Traffic::of(&table, direction)?;
        if !matches!(traffic.model, Model::Tcp { .. }) {
            table.refuse("at", "only a flow of the model tcp can begin later")?;
        }
        flows.push(Flow {
            name,
            from,
            to,
            traffic,
            at_s: table.or("at", 0.0, |item| item.quantity(quantity::time))?,
        });
        table.finish()?;
    }
    match flows.is_empty() {
        true => Err(item.fault("there must be at least one flow")),
        false => Ok(flows),
    }
}

/// The moves of a graph, in the order of time.
pub(super) fn moves(item: &Item, topology: &Topology, time_s: f64) -> Result<Vec<Move>, Fault> {
    let mut moves = Vec::new();
    for item in members(item, "moves")? {
        let table = item.table()?;
        let at = table.need("at")?;
        let at_s = at.quantity(quantity::time)?;
        if at_s >= time_s {
            let what = format!("{at_s} s is not before the end of the run at {time_s} s");
            return Err(at.fault(what));
        }
        let change = match (table.find("node"), table.find("link")) {
            (Some(node), None) => attachment(node, &table, topology)?,
            (None, Some(link)) => Change::Link {
                link: link_of(link, &topology.links)?,
                to: link_change(item, &table)?,
            },
            _ => {
                let what = "a move must name the node that moves, or the link that changes";
                return Err(item.fault_of(&["node", "link"], what));
            }
        };
        table.finish()?;
        moves.push(Move { at_s, change });
    }
    moves.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    Ok(moves)
}

/// The index of a link that is never used by any station.
pub(super) fn deserted(links: &[Joint], moves: &[Move]) -> Option<usize> {
    let is_taken = |link: usize| {
        let takes = |step: &Move| matches!(step.change, Change::Station { to, .. } if to == link);
        !links[link].near.is_empty() || moves.iter().any(takes)
    };
    (0..links.len()).find(|link| !is_taken(*link))
}

fn attachment(
    node: &Item,
    table: &Table<'_>,
    topology: &Topology,
) -> Result<Change<LinkChange>, Fault> {
    let index = node_of(node, &topology.nodes)?;
    let role = |index: usize| topology.nodes[index].role;
    if role(index) != Role::Station {
        return Err(node.fault("only a station can move"));
    }
    let item = table.need("to")?;
    let to = link_of(item, &topology.links)?;
    let joint = &topology.links[to];
    let may_share = |near: &usize| matches!(role(*near), Role::Station | Role::HomeAgent);
    let is_access = joint.near.iter().all(may_share);
    if !is_access || role(joint.far) == Role::Server {
        let what = format!("stations cannot be on '{}'", joint.name);
        return Err(item.fault(what));
    }
    Ok(Change::Station { node: index, to })
}

pub(super) fn link_of(item: &Item, links: &[Joint]) -> Result<usize, Fault> {
    let name = item.text()?;
    let found = links.iter().position(|joint| joint.name == name);
    found.ok_or_else(|| {
        let names = links.iter().map(|joint| joint.name.as_str());
        item.fault(unknown("link", name, names))
    })
}

fn link_change(item: &Item, table: &Table<'_>) -> Result<LinkChange, Fault> {
    let found: Vec<(&str, &Item)> = CHANGES
        .into_iter()
        .filter_map(|key| Some((key, table.find(key)?)))
        .collect();
    let [(key, value)] = found[..] else {
        let what = "a move of a link must change exactly one of rate, delay, loss and up";
        return Err(item.fault_of(&CHANGES, what));
    };
    Ok(match key {
        "rate" => LinkChange::Rate(read_rate(value)?),
        "delay" => LinkChange::DelayS(value.quantity(quantity::delay)?),
        "loss" => LinkChange::Loss(value.number(0.0, 1.0)?),
        _ => LinkChange::Up(value.boolean()?),
    })
}
