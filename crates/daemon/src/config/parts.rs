//! The part of a process in Mobile IPv4, checked.

use engine::mip4::{foreign_agent, home_agent, mobile_node};

use super::mobility::{FOREIGN_AGENT, HOME_AGENT, MOBILE};
use crate::routes::entries::Part;

/// A part in Mobile IPv4.
#[derive(Clone, Debug)]
pub enum Mobility {
    /// A home agent.
    HomeAgent(HomeAgentSetup),
    /// A foreign agent.
    ForeignAgent(VisitedLink),
    /// A mobile node.
    MobileNode(MobileSetup),
}

/// A home agent and its link.
#[derive(Clone, Debug)]
pub struct HomeAgentSetup {
    /// The machine's.
    pub config: home_agent::Config,
    /// Interface of the home link.
    pub interface: String,
    /// Seconds that an advertisement holds, if it advertises.
    pub advertised_lifetime: Option<u16>,
}

/// A foreign agent and its link.
#[derive(Clone, Debug)]
pub struct VisitedLink {
    /// The machine's.
    pub config: foreign_agent::Config,
    /// Interface of the visitors.
    pub interface: String,
}

/// A mobile node and its interfaces.
#[derive(Clone, Debug)]
pub struct MobileSetup {
    /// The machine's.
    pub config: mobile_node::Config,
    /// The preferred one first.
    pub interfaces: Vec<String>,
    /// Bits of the home network's prefix.
    pub prefix: u8,
}

impl Mobility {
    /// The name under which it runs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::HomeAgent(_) => HOME_AGENT,
            Self::ForeignAgent(_) => FOREIGN_AGENT,
            Self::MobileNode(_) => MOBILE,
        }
    }

    /// The interfaces on which it hears and sends frames.
    pub fn interfaces(&self) -> Vec<String> {
        match self {
            Self::HomeAgent(it) => vec![it.interface.clone()],
            Self::ForeignAgent(it) => vec![it.interface.clone()],
            Self::MobileNode(it) => it.interfaces.clone(),
        }
    }

    /// What the steward must know of it.
    pub fn part(&self) -> Part {
        let home = match self {
            Self::MobileNode(it) => Some((it.config.home_address, it.prefix)),
            Self::HomeAgent(_) | Self::ForeignAgent(_) => None,
        };
        let interfaces = match self {
            Self::HomeAgent(_) => Vec::new(),
            Self::ForeignAgent(_) | Self::MobileNode(_) => self.interfaces(),
        };
        Part { home, interfaces }
    }
}
