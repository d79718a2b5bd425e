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
mod catalogue;
mod edit;
pub mod graph;
mod layers;
mod link;
mod mobile;
mod motion;
mod name;
mod named;
mod quantity;
mod resolved;
mod tandem;
mod topology;
mod traffic;
mod uncomputable;
mod whole;
mod work;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;
use toml::value::{Datetime, Offset};

use crate::cost::{Accounting, Suite};

pub use address::Network;
pub use catalogue::{Catalogue, Entry, Kind};
pub use document::{Fault, Item, Place, Table, nearest, parse, unknown};
pub use graph::Graph;
use layers::Layers;
pub use link::{Link, LinkFile, Rate};
pub use mobile::{MobileIp, Skip};
pub use motion::{Change, Flow, LinkChange, Move, POLICIES_MAX, Tunnel};
pub use named::named;
pub use resolved::Resolved;
pub use topology::{Joint, NODES_MAX};
pub use traffic::{After, Direction, Model, Pace, Sizes, Traffic};
pub use uncomputable::Uncomputable;
pub use whole::{WholeLink, WholeLinkChange, WholeMove, WholeRate};

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
    /// The tunnels, if layers state them; otherwise each station has a tunnel to the nearest
    /// gateway.
    pub layers: Option<Vec<Tunnel>>,
    /// The stations that keep their address, with their home agents.
    pub mobile: Vec<MobileIp>,
    /// The stations with keys in their packets, with their firewalls.
    pub skip: Vec<Skip>,
    /// Whether tunnels of mobile nodes and SKIP make TCP's segments so small that they fit.
    pub clamps_mss: bool,
    /// Whether it is in the short form, with `[traffic]`.
    pub is_short: bool,
    /// SHA-256 of every catalogue file that it names, so that the scenario's hash includes them.
    pub files: Vec<(String, String)>,
    /// The positions of values whose errors can only be found when they are used, by key.
    places: BTreeMap<String, Place>,
}

/// How long and how often a scenario is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Simulated seconds that are measured.
    pub time_s: f64,
    /// Simulated seconds before them that are not measured.
    pub warm_up_s: f64,
    /// Independent repetitions.
    pub replications: u32,
}

/// A node of the network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Node {
    /// Unique within the scenario.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its processor; none: computing takes no time.
    pub computer: Option<Computer>,
    /// The time after which a NAT removes an idle UDP mapping.
    pub udp_timeout_s: Option<f64>,
    /// Whether a router drops what comes from the stations' side with an address that is not of
    /// that side.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub filters_sources: bool,
    /// Whether routers inside a firewall know the networks outside of it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub announces: bool,
}

/// A device of the catalogue at a clock rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Computer {
    /// Name in the catalogue.
    pub device: String,
    /// Operations or cycles per second; none: the device's own value.
    pub speed: Option<Speed>,
}

/// How fast a device computes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// Million operations per second, for devices whose cost is in operations.
    Mips(f64),
    /// Cycles per second, for devices whose cost is in cycles.
    ClockHz(f64),
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The client: it initiates the tunnel and protects its packets.
    Station,
    /// Stores and forwards; the links that it joins are one segment.
    Relay,
    /// Forwards between segments, by address.
    Router,
    /// Forwards, and translates addresses and ports.
    Nat,
    /// The responder of tunnels.
    Gateway,
    /// Answers the station, behind the gateway.
    Server,
    /// Keeps the bindings of mobile nodes, on the link that is their home (RFC 5944).
    HomeAgent,
    /// A router that serves visiting mobile nodes (RFC 5944).
    ForeignAgent,
    /// Ends SKIP between a private network, behind it, and the others. It forwards nothing else.
    Firewall,
}

const ROLES: [(&str, Role); 9] = [
    ("station", Role::Station),
    ("relay", Role::Relay),
    ("router", Role::Router),
    ("nat", Role::Nat),
    ("gateway", Role::Gateway),
    ("server", Role::Server),
    ("home-agent", Role::HomeAgent),
    ("foreign-agent", Role::ForeignAgent),
    ("firewall", Role::Firewall),
];

/// The slowest processor, in MIPS, that a scenario may have.
const MIPS_LEAST: f64 = 1e-3;
const MIPS_MAX: f64 = 1e9;
/// The largest number of replications; more would not narrow an interval usefully.
const REPLICATIONS_MAX: u64 = 100_000;
/// The longest simulated time: one year.
const TIME_S_MAX: f64 = 366.0 * 86_400.0;
/// The default date, 1 January 2026: the certificates of tests are valid then.
const CALENDAR_S: u64 = 1_767_225_600;

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
        let mut document = parse(file, text)?;
        for text in edits {
            edit::apply(&mut document, text)?;
        }
        Self::read(&document, catalogue)
    }

    fn read(document: &Item, catalogue: &Catalogue) -> Result<Self, Fault> {
        let table = document.table()?;
        let mut files = Vec::new();
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
            mobile: Vec::new(),
            skip: Vec::new(),
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
        for policy in &policies {
            let name = policy.text()?;
            match catalogue.find(Kind::Policy, name) {
                Some(entry) => files.push(entry.fingerprint()),
                // The name of a suite is also the name of a policy.
                None if name.parse::<Suite>().is_ok() => {}
                None => drop(catalogue.named(Kind::Policy, policy)?),
            }
        }
        files.sort();
        files.dedup();
        scenario.files = files;
        match policies.first() {
            Some(policy) => policy.text()?.clone_into(&mut scenario.policy),
            // Every layer of such a scenario only moves packets.
            None => "none".clone_into(&mut scenario.policy),
        }
        if scenario.gateway().is_none()
            && scenario.policy != "none"
            && scenario.layers.as_ref().is_none_or(|it| !it.is_empty())
        {
            let what = "a policy needs a gateway at its other end: add a node with that role, or \
                        use the policy 'none'";
            return Err(policies[0].fault(what));
        }
        table.finish()?;
        Ok(scenario)
    }

    fn read_chain<'a>(
        self,
        table: &Table<'a>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<(Vec<&'a Item>, Self), Fault> {
        let policy = table.need("policy")?;
        let traffic = table.need("traffic")?;
        for key in ["move", "layer"] {
            table.refuse(
                key,
                "a scenario with this key needs [[flow]] instead of [traffic]",
            )?;
        }
        let topology = topology::chain(table, catalogue, files)?;
        let traffic = Traffic::read(traffic)?;
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
            ..self
        };
        Ok((vec![policy], scenario))
    }

    fn read_graph<'a>(
        self,
        table: &Table<'a>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<(Vec<&'a Item>, Self), Fault> {
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
        let layers = match table.find("layer") {
            None => Layers::of(table.need("policy")?),
            Some(layer) => {
                table.refuse("policy", "a scenario has either [[layer]] or policy")?;
                Layers::read(layer, &topology)?
            }
        };
        let Layers {
            policies,
            tunnels,
            mobile,
            skip,
        } = layers;
        let scenario = Self {
            nodes: topology.nodes,
            links: topology.links,
            flows,
            moves,
            layers: tunnels,
            mobile,
            skip,
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
        self.nodes
            .iter()
            .position(|node| node.role == Role::Gateway)
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

impl Role {
    /// Whether its processor protects or wraps packets.
    pub const fn computes(self) -> bool {
        !matches!(self, Self::Relay | Self::Router | Self::Nat | Self::Server)
    }

    /// Whether it forwards what comes to it.
    pub const fn is_router(self) -> bool {
        matches!(self, Self::Router | Self::ForeignAgent)
    }

    /// Whether it has routes to what lies on both of its sides.
    pub const fn has_routes(self) -> bool {
        self.is_router() || matches!(self, Self::Nat | Self::Gateway | Self::Firewall)
    }
}

impl Run {
    fn read(item: &Item) -> Result<Self, Fault> {
        let table = item.table()?;
        let otherwise = Self::default();
        let time = |item: &Item| {
            item.quantity(quantity::time)
                .and_then(|time_s| match time_s <= TIME_S_MAX {
                    true => Ok(time_s),
                    false => Err(item.fault("more than a year of virtual time")),
                })
        };
        let run = Self {
            time_s: table.or("time", otherwise.time_s, time)?,
            warm_up_s: table.or("warm_up", otherwise.warm_up_s, time)?,
            replications: table.or("replications", otherwise.replications, |item| {
                let replications = item.whole(1, REPLICATIONS_MAX)?;
                Ok(u32::try_from(replications).expect("the limit is below"))
            })?,
        };
        if run.time_s <= 0.0 {
            return Err(table.fault_of(&["time"], "the time must be above zero"));
        }
        table.finish()?;
        Ok(run)
    }
}

impl Default for Run {
    /// One minute of warm-up and one hour, sixteen times: what the papers' tables need.
    fn default() -> Self {
        Self {
            time_s: 3600.0,
            warm_up_s: 60.0,
            replications: 16,
        }
    }
}

impl Node {
    fn read(
        item: &Item,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Self, Fault> {
        let table = item.table()?;
        let role = table.need("role")?.choice("role", &ROLES)?;
        if !role.computes() {
            for key in ["device", "mips", "clock"] {
                let what = "only a station, a gateway, an agent or a firewall can have this key";
                table.refuse(key, what)?;
            }
        }
        if role != Role::Router {
            table.refuse("filters_sources", "only a router can have this key")?;
        }
        if role != Role::Firewall {
            table.refuse("announces", "only a firewall can have this key")?;
        }
        if role != Role::Nat {
            table.refuse("udp_timeout", "only a NAT can have this key")?;
        }
        let node = Self {
            name: name::of_node(table.need("name")?)?,
            role,
            computer: Computer::read(&table, catalogue, files)?,
            udp_timeout_s: table.or("udp_timeout", None, |item| {
                match item.quantity(quantity::time)? {
                    0.0 => Err(item.fault("this must be above zero")),
                    timeout_s => Ok(Some(timeout_s)),
                }
            })?,
            filters_sources: table.or("filters_sources", false, Item::boolean)?,
            announces: table.or("announces", false, Item::boolean)?,
        };
        table.finish()?;
        Ok(node)
    }
}

impl Computer {
    fn read(
        table: &Table<'_>,
        catalogue: &Catalogue,
        files: &mut Vec<(String, String)>,
    ) -> Result<Option<Self>, Fault> {
        let speed = match (table.find("mips"), table.find("clock")) {
            (Some(_), Some(_)) => {
                let what = "both mips and clock are given: remove one";
                return Err(table.fault_of(&["mips", "clock"], what));
            }
            (Some(mips), None) => Some(Speed::Mips(mips.number(MIPS_LEAST, MIPS_MAX)?)),
            (None, Some(clock)) => Some(Speed::ClockHz(clock.quantity(quantity::clock)?)),
            (None, None) => None,
        };
        let Some(device) = table.find("device") else {
            return match speed {
                Some(_) => {
                    let what = "this speed needs a device: name one";
                    Err(table.fault_of(&["device", "mips", "clock"], what))
                }
                None => Ok(None),
            };
        };
        files.push(catalogue.named(Kind::Device, device)?.fingerprint());
        Ok(Some(Self {
            device: device.text()?.to_owned(),
            speed,
        }))
    }
}

/// `2026-01-01` or `2026-01-01T12:00:00+01:00`, in seconds since 1970; UTC without an offset.
fn calendar(item: &Item) -> Result<u64, Fault> {
    let text = item.text()?;
    let date = text.parse::<Datetime>();
    date.ok()
        .and_then(|date| {
            let day = date.date?;
            let time = date.time.map_or(0, |time| {
                let (hour, minute) = (u64::from(time.hour), u64::from(time.minute));
                hour * 3600 + minute * 60 + u64::from(time.second.unwrap_or(0))
            });
            let days = days_since_1970(day.year.into(), day.month.into(), day.day.into())?;
            let minutes = match date.offset {
                Some(Offset::Custom { minutes }) => i64::from(minutes),
                Some(Offset::Z) | None => 0,
            };
            (days * 86_400 + time).checked_add_signed(-60 * minutes)
        })
        .ok_or_else(|| item.fault("must be a date from 1970 on, such as 2026-01-01T00:00:00Z"))
}

/// Days in the Gregorian calendar; none before 1970.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // The year begins in March here, so that the leap day is its last.
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (153 * month + 2) / 5 + day - 1;
    // Days from 1 March of year 0 to 1 January 1970.
    days.checked_sub(719_468)
}
