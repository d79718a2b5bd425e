//! The part of a process in Mobile IPv4.

use core::fmt::{self, Display, Formatter};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use serde::{Deserialize, Serialize};

/// A home agent, a foreign agent or a mobile node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MobilityStatus {
    /// "home-agent", "foreign-agent" or "mobile": as `caravan down` knows it.
    pub name: String,
    /// "home agent", "foreign agent" or "mobile node".
    pub role: String,
    /// An agent's own address.
    pub address: Option<Ipv4Addr>,
    /// A mobile node's: "at home", "registered", "registering", "coming home" or "no link".
    pub state: Option<String>,
    /// Why a mobile node is not registered, some seconds after it has begun to ask.
    #[serde(default)]
    pub trouble: Option<String>,
    /// The interface that a mobile node uses.
    pub interface: Option<String>,
    /// The address that a mobile node keeps.
    pub home_address: Option<Ipv4Addr>,
    /// The home agent of a mobile node.
    pub home_agent: Option<Ipv4Addr>,
    /// The care-of address of a mobile node, or that a foreign agent offers.
    pub care_of: Option<Ipv4Addr>,
    /// The foreign agent through which a mobile node is registered.
    pub through: Option<Ipv4Addr>,
    /// Where a mobile node with a firewall is: "at home", "inside", "outside", or "unknown" until
    /// its home agent has answered.
    #[serde(default)]
    pub side: Option<String>,
    /// Outside, what a mobile node and its home agent say to each other is encrypted up to this
    /// firewall, or to the home agent itself.
    #[serde(default)]
    pub firewall: Option<Ipv4Addr>,
    /// The same, in the tunnel of this connection.
    #[serde(default)]
    pub tunnel: Option<String>,
    /// What a mobile node is to a home agent outside, where that tunnel begins.
    #[serde(default)]
    pub outside: Option<OutsideStatus>,
    /// Whether a packet filter is on the links of a mobile node.
    #[serde(default)]
    pub filtered: bool,
    /// Of a mobile node's tunnel: "ip-in-ip", "minimal" or "gre".
    pub encapsulation: Option<String>,
    /// The other end of a mobile node's tunnel in UDP.
    pub udp: Option<SocketAddrV4>,
    /// Whether a mobile node sends through the tunnel too.
    pub reverse: Option<bool>,
    /// Until a mobile node's registration ends.
    pub left_s: Option<f64>,
    /// Nodes that a home agent serves.
    pub nodes: u64,
    /// Bindings of a home agent.
    pub bindings: Vec<BindingStatus>,
    /// Nodes of a home agent whose registration was refused after the last one that was accepted.
    #[serde(default)]
    pub refusals: Vec<RefusalStatus>,
    /// Visitors of a foreign agent.
    pub visitors: Vec<VisitorStatus>,
    /// The access list of a firewall, in the order of its names.
    pub entries: Vec<EntryStatus>,
    /// Copies of authentic packets of SKIP that were handed on: it has no replay window.
    pub accepted_replays: u64,
    /// Messages that were not served, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Frames that a link did not take.
    pub unsent: u64,
}

/// A mobile node and its home agent outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutsideStatus {
    /// The address that the home agent keeps for the node.
    pub home_address: Ipv4Addr,
    /// Its own.
    pub home_agent: Ipv4Addr,
    /// Where the node is registered there.
    pub care_of: Option<Ipv4Addr>,
    /// The foreign agent there that delivers its packets, if one does.
    #[serde(default)]
    pub through: Option<Ipv4Addr>,
}

/// An entry of a firewall's access list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EntryStatus {
    /// The name in the file.
    pub name: String,
    /// Where its packets come from: an address, a network, or "*".
    pub address: String,
    /// Our name in its packets, as name space and identifier.
    pub local: String,
    /// The other end's.
    pub remote: String,
    /// "skip-draft", "skip-paper" or "skip-x25519".
    pub profile: String,
    /// Whether its algorithms are those of 1998.
    pub legacy: bool,
    /// Effective bits of its weakest algorithm.
    pub bits: u16,
    /// Where its node is; port 0: its packets are not in UDP.
    pub care_of: Option<SocketAddrV4>,
    /// Since its last authentic packet.
    pub silent_s: Option<f64>,
}

/// A binding: a node is away, at this care-of address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BindingStatus {
    /// Whose.
    pub home_address: Ipv4Addr,
    /// Where it is.
    pub care_of: Ipv4Addr,
    /// "ip-in-ip", "minimal" or "gre".
    pub encapsulation: String,
    /// The other end of a tunnel in UDP.
    pub udp: Option<SocketAddrV4>,
    /// The firewall that is between home agent and care-of address.
    #[serde(default)]
    pub firewall: Option<Ipv4Addr>,
    /// Whether its packets come through the tunnel too.
    pub reverse: bool,
    /// Whether the node itself is the tunnel's end.
    pub colocated: bool,
    /// Until it ends.
    pub left_s: Option<f64>,
}

/// The last registration of a node that a home agent has refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RefusalStatus {
    /// The node, as the request says.
    pub home_address: Ipv4Addr,
    /// Where the request came from.
    pub from: Ipv4Addr,
    /// Why, as in `refused`.
    pub reason: String,
    /// Since then.
    pub ago_s: f64,
}

/// A visitor of a foreign agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VisitorStatus {
    /// Its home address.
    pub home_address: Ipv4Addr,
    /// Its home agent.
    pub home_agent: Ipv4Addr,
    /// Its link-layer address.
    pub mac: String,
    /// "ip-in-ip", "minimal" or "gre".
    pub encapsulation: String,
    /// Whether its packets go back through the tunnel.
    pub reverse: bool,
    /// Whether it encapsulates them to us.
    pub encapsulating_delivery: bool,
    /// Until its registration ends.
    pub left_s: Option<f64>,
}

impl Display for MobilityStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.role)?;
        if let Some(address) = self.address {
            write!(f, " {address}")?;
        }
        match (&self.state, self.role.as_str()) {
            (Some(state), _) => self.node(state, f)?,
            (None, "home agent") => {
                let away: Vec<_> = self.bindings.iter().map(|it| it.home_address).collect();
                let mut away = away;
                away.dedup();
                writeln!(f, ", {} of {} nodes away", away.len(), self.nodes)?;
            }
            (None, "firewall") => {
                let bound = self.entries.iter().filter(|it| it.care_of.is_some());
                let nodes = self.entries.iter().filter(|it| it.address == "*");
                writeln!(f, ", {} of {} nodes bound", bound.count(), nodes.count())?;
            }
            _ => writeln!(f, ", {} visitors", self.visitors.len())?,
        }
        for it in &self.entries {
            it.fmt(f)?;
        }
        if self.accepted_replays > 0 {
            let count = self.accepted_replays;
            writeln!(f, "  repeated packets that SKIP has let in: {count}")?;
        }
        for it in &self.bindings {
            write!(
                f,
                "  {} at {}, {}",
                it.home_address, it.care_of, it.encapsulation
            )?;
            tunnel(it.udp, it.reverse, f)?;
            if !it.colocated {
                write!(f, ", through a foreign agent")?;
            }
            if let Some(firewall) = it.firewall {
                write!(f, ", behind firewall {firewall}")?;
            }
            left(it.left_s, f)?;
        }
        for it in &self.refusals {
            it.fmt(f)?;
        }
        for it in &self.visitors {
            write!(
                f,
                "  {} of {}, at {}",
                it.home_address, it.home_agent, it.mac
            )?;
            write!(f, ", {}", it.encapsulation)?;
            tunnel(None, it.reverse, f)?;
            if it.encapsulating_delivery {
                write!(f, ", encapsulating delivery")?;
            }
            left(it.left_s, f)?;
        }
        if !self.refused.is_empty() {
            let all = self.refused.iter();
            let all: Vec<String> = all.map(|(why, count)| format!("{why} {count}")).collect();
            writeln!(f, "  not served: {}", all.join(", "))?;
        }
        match self.unsent {
            0 => Ok(()),
            count => writeln!(f, "  frames that the link did not take: {count}"),
        }
    }
}

impl Display for RefusalStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {} refused {:.0} s ago, from {}: {}",
            self.home_address, self.ago_s, self.from, self.reason
        )
    }
}

impl Display for EntryStatus {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let legacy = if self.legacy { " LEGACY" } else { "" };
        write!(
            f,
            "  {} {} {}, {}{legacy}, {} bits",
            self.name, self.address, self.remote, self.profile, self.bits
        )?;
        match (self.care_of, self.silent_s) {
            (Some(care_of), Some(silent)) => {
                writeln!(f, ", at {}, silent for {silent:.0} s", care_of.ip())
            }
            _ if self.address == "*" => writeln!(f, ", not bound"),
            _ => writeln!(f),
        }
    }
}

impl MobilityStatus {
    fn node(&self, state: &str, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ", {state}")?;
        if let Some(interface) = &self.interface {
            write!(f, " on {interface}")?;
        }
        writeln!(f)?;
        if let Some(trouble) = &self.trouble {
            writeln!(f, "  {trouble}")?;
        }
        if let (Some(home), Some(agent)) = (self.home_address, self.home_agent) {
            writeln!(f, "  home address {home}, home agent {agent}")?;
        }
        if let Some(side) = &self.side {
            let told = match side.as_str() {
                "unknown" => "inside or outside: not known yet",
                side => side,
            };
            write!(f, "  {told}")?;
            if let Some(firewall) = self.firewall {
                write!(f, ", encrypted to {firewall}")?;
            }
            if let Some(connection) = &self.tunnel {
                write!(f, ", encrypted by {connection}")?;
            }
            match self.filtered {
                true => writeln!(f, ", packet filter in force")?,
                false => writeln!(f, ", no packet filter")?,
            }
        }
        if let Some(it) = &self.outside {
            let (home, agent) = (it.home_address, it.home_agent);
            write!(f, "  outside address {home}, home agent {agent}")?;
            match (it.care_of, it.through) {
                (Some(care_of), None) => writeln!(f, ", at {care_of}")?,
                (Some(care_of), Some(agent)) => writeln!(f, ", at {care_of} through {agent}")?,
                (None, _) => writeln!(f, ", not registered there")?,
            }
        }
        let Some(care_of) = self.care_of else {
            return Ok(());
        };
        let form = self.encapsulation.as_deref().unwrap_or_default();
        write!(f, "  care-of address {care_of}, {form}")?;
        tunnel(self.udp, self.reverse == Some(true), f)?;
        if let Some(agent) = self.through {
            write!(f, ", through {agent}")?;
        }
        left(self.left_s, f)
    }
}

fn tunnel(udp: Option<SocketAddrV4>, is_reverse: bool, f: &mut Formatter<'_>) -> fmt::Result {
    if let Some(udp) = udp {
        write!(f, " in UDP to {udp}")?;
    }
    match is_reverse {
        true => write!(f, ", both directions"),
        false => write!(f, ", to the node alone"),
    }
}

fn left(left_s: Option<f64>, f: &mut Formatter<'_>) -> fmt::Result {
    match left_s {
        Some(left) => writeln!(f, ", {left:.0} s left"),
        None => writeln!(f, ", without end"),
    }
}
