//! The part of a process in Mobile IPv4, checked.

use std::fmt;
use std::net::Ipv4Addr;

use engine::firewall;
use engine::mip4::firewall::{HomeFirewall, Side};
use engine::mip4::{foreign_agent, home_agent, mobile_node};
use engine::skip::Association;

use super::firewall::FIREWALL;
use super::mobility::{FOREIGN_AGENT, HOME_AGENT, MOBILE};
use super::values::Transport;
use crate::routes::entries::Part;

/// A part in Mobile IPv4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mobility {
    /// A home agent.
    HomeAgent(HomeAgentSetup),
    /// A foreign agent.
    ForeignAgent(VisitedLink),
    /// A mobile node.
    MobileNode(MobileSetup),
    /// The firewall between home agents and mobile nodes.
    Firewall(FirewallSetup),
}

/// A home agent and its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeAgentSetup {
    /// The machine's.
    pub config: home_agent::Config,
    /// Whether firewalls may leave out the header between care-of address and us.
    pub takes_short_form: bool,
    /// Interface of the home link.
    pub interface: String,
    /// Whether broadcasts there go to nodes that want them.
    pub forwards_broadcasts: bool,
    /// Seconds that an advertisement holds, if it advertises.
    pub advertised_lifetime: Option<u16>,
    /// Its own SKIP, which then carries every packet to a node that is away.
    pub own_skip: Option<Box<FirewallSetup>>,
}

/// A foreign agent and its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitedLink {
    /// The machine's.
    pub config: foreign_agent::Config,
    /// Interface of the visitors.
    pub interface: String,
}

/// A mobile node and its interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MobileSetup {
    /// The machine's.
    pub config: mobile_node::Config,
    /// The preferred one first.
    pub interfaces: Vec<String>,
    /// Bits of the home network's prefix.
    pub prefix: u8,
    /// The firewall of the home network.
    pub firewall: Option<Box<NodeFirewall>>,
    /// Its VPN gateway.
    pub gateway: Option<Box<NodeGateway>>,
}

/// What a mobile node knows of the VPN gateway of its home network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGateway {
    /// The connection to it.
    pub connection: String,
    /// Its addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Whether nothing else passes on the node's links outside, besides `clear`.
    pub is_filtered: bool,
    /// Connections that the node may open in clear outside.
    pub clear: Vec<(Transport, u16)>,
    /// What the node is to a home agent outside, whose home address is the tunnel's outer one.
    pub outside: Option<mobile_node::Config>,
}

impl MobileSetup {
    /// What the node is to a home agent outside.
    pub fn outside(&self) -> Option<&mobile_node::Config> {
        self.gateway.as_ref()?.outside.as_ref()
    }

    /// Whether there are networks from which nothing may leave in clear.
    pub fn has_outside(&self) -> bool {
        self.firewall.is_some() || self.gateway.is_some()
    }

    /// Whether a packet filter stands there.
    pub fn is_filtered(&self) -> bool {
        let firewall = self.firewall.as_ref().is_some_and(|it| it.is_filtered);
        firewall || self.gateway.as_ref().is_some_and(|it| it.is_filtered)
    }
}

/// What a mobile node knows of the firewall of its home network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFirewall {
    /// The one that packets are sent to, the outermost of several.
    pub first: Wall,
    /// Further ones on the way, from there inwards.
    pub behind: Vec<Wall>,
    /// Others that may send to the node.
    pub others: Vec<Wall>,
    /// What the node's machine knows. `None`: SKIP goes from end to end, from every place but home.
    pub machine: Option<HomeFirewall>,
    /// Where the node is, if its file says so.
    pub side: Side,
    /// Whether packets go to it in UDP.
    pub is_udp: bool,
    /// Whether it may leave out the header between home agent and care-of address.
    pub takes_short_form: bool,
    /// Whether nothing else passes on the node's links outside, besides `clear`.
    pub is_filtered: bool,
    /// Connections that the node may open in clear outside.
    pub clear: Vec<(Transport, u16)>,
}

/// A firewall as a node knows it, or a home agent that ends SKIP itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wall {
    /// Its address.
    pub outside: Ipv4Addr,
    /// What protects packets between both.
    pub association: Association,
}

impl NodeFirewall {
    /// All of them. The place in this order is that of their children
    /// ([`engine::mip4::security`]).
    pub fn walls(&self) -> impl Iterator<Item = &Wall> {
        let first = core::iter::once(&self.first);
        first.chain(&self.others).chain(&self.behind)
    }
}

/// A firewall.
#[derive(Clone, PartialEq, Eq)]
pub struct FirewallSetup {
    /// The machine's.
    pub config: firewall::Config,
    /// The interface outside.
    pub outside_interface: String,
    /// Those inside; none: all others of this host.
    pub inside_interfaces: Vec<String>,
    /// The entries' names.
    pub names: Vec<String>,
}

/// Shows no secret.
impl fmt::Debug for FirewallSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "firewall {} for {}",
            self.config.outside,
            self.names.join(", ")
        )
    }
}

impl Mobility {
    /// The name under which it runs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::HomeAgent(_) => HOME_AGENT,
            Self::ForeignAgent(_) => FOREIGN_AGENT,
            Self::MobileNode(_) => MOBILE,
            Self::Firewall(_) => FIREWALL,
        }
    }

    /// The interfaces on which it hears and sends frames.
    pub fn interfaces(&self) -> Vec<String> {
        match self {
            Self::HomeAgent(it) => vec![it.interface.clone()],
            Self::ForeignAgent(it) => vec![it.interface.clone()],
            Self::MobileNode(it) => it.interfaces.clone(),
            Self::Firewall(_) => Vec::new(),
        }
    }

    /// Whether broadcasts of its link are heard.
    pub fn hears_broadcasts(&self) -> bool {
        matches!(self, Self::HomeAgent(it) if it.forwards_broadcasts)
    }

    /// What differs in `other` that a running process cannot take over.
    pub fn moved_key(&self, other: &Self) -> Option<&'static str> {
        let keys: &[(&str, bool)] = match (self, other) {
            (Self::HomeAgent(one), Self::HomeAgent(two)) => &[
                ("address", one.config.address == two.config.address),
                ("prefix", one.config.prefix_len == two.config.prefix_len),
                ("interface", one.interface == two.interface),
                (
                    "broadcasts",
                    one.forwards_broadcasts == two.forwards_broadcasts,
                ),
                (
                    "advertise",
                    one.advertised_lifetime.is_some() == two.advertised_lifetime.is_some(),
                ),
                ("outside", one.config.outside == two.config.outside),
                (
                    "firewalls",
                    one.config.trusts_traversal == two.config.trusts_traversal,
                ),
                (
                    "header_removal",
                    one.takes_short_form == two.takes_short_form,
                ),
                ("access list", one.own_skip == two.own_skip),
            ],
            (Self::ForeignAgent(one), Self::ForeignAgent(two)) => &[
                ("address", one.config.address == two.config.address),
                ("care_of", one.config.care_of == two.config.care_of),
                ("interface", one.interface == two.interface),
            ],
            (Self::MobileNode(one), Self::MobileNode(two)) => &[
                (
                    "home_address",
                    one.config.home_address == two.config.home_address,
                ),
                ("prefix", one.prefix == two.prefix),
                ("home_agent", one.config.home_agent == two.config.home_agent),
                ("interfaces", one.interfaces == two.interfaces),
                (
                    "broadcasts",
                    one.config.wants_broadcasts == two.config.wants_broadcasts,
                ),
                ("firewall", one.firewall == two.firewall),
                ("gateway.outside", one.outside() == two.outside()),
                ("gateway", one.gateway == two.gateway),
            ],
            (Self::Firewall(one), Self::Firewall(two)) => &[
                (
                    "outside_interface",
                    one.outside_interface == two.outside_interface,
                ),
                ("access list", one.config.entries == two.config.entries),
                ("file", one == two),
            ],
            _ => return Some("role"),
        };
        keys.iter()
            .find(|(_, is_same)| !is_same)
            .map(|(key, _)| *key)
    }

    /// Whether its packets carry their keys.
    pub fn is_in_line(&self) -> bool {
        match self {
            Self::HomeAgent(it) => it.own_skip.is_some(),
            Self::ForeignAgent(_) => false,
            Self::MobileNode(it) => it.firewall.is_some(),
            Self::Firewall(_) => true,
        }
    }

    /// Whether such packets travel in UDP.
    pub fn is_in_udp(&self) -> bool {
        match self {
            Self::HomeAgent(_) | Self::ForeignAgent(_) => false,
            Self::MobileNode(it) => it.firewall.as_ref().is_some_and(|it| it.is_udp),
            Self::Firewall(it) => it.config.takes_udp,
        }
    }

    /// What the steward must know of it.
    pub fn part(&self) -> Part {
        let home = match self {
            Self::MobileNode(it) => Some((it.config.home_address, it.prefix)),
            Self::HomeAgent(_) | Self::ForeignAgent(_) | Self::Firewall(_) => None,
        };
        let interfaces = match self {
            Self::HomeAgent(_) | Self::Firewall(_) => Vec::new(),
            Self::ForeignAgent(_) | Self::MobileNode(_) => self.interfaces(),
        };
        let hears_broadcasts = match self {
            Self::MobileNode(it) => it.config.wants_broadcasts,
            _ => false,
        };
        let quiet = match self {
            Self::HomeAgent(_) | Self::ForeignAgent(_) => Vec::new(),
            Self::Firewall(it) => vec![it.outside_interface.clone()],
            Self::MobileNode(_) => self.interfaces(),
        };
        Part {
            home,
            hears_broadcasts,
            interfaces,
            quiet,
        }
    }
}
