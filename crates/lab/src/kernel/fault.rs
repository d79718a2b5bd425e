//! Why a world is impossible or cannot continue, and what of its scenario that is about.

use crate::scenario::Scenario;

/// What a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Index of an element of the kernel, which knows no scenario.
    Element(u32),
    /// Index of a link of the scenario.
    Link(usize),
    /// Index of a node.
    Node(usize),
    /// Index of a flow.
    Flow(usize),
}

/// Why a world is impossible, or cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KernelFault {
    /// Packets would circulate for ever.
    #[error("packets go round in a loop: {0}")]
    Cycle(String),
    /// Impossible numbers, or a missing element.
    #[error("{name}: {why}")]
    Impossible {
        /// What is impossible.
        subject: Subject,
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The capture could not be written.
    #[error("the capture: {0}")]
    Capture(String),
    /// More packets come in than can be carried.
    #[error("{packets} packets are in the network after {seconds} s: more enter than leave")]
    Overloaded {
        /// What sends them.
        subject: Subject,
        /// In flight.
        packets: usize,
        /// Simulated time.
        seconds: u64,
    },
}

impl KernelFault {
    /// The scenario's keys that could fix it, the likeliest first.
    pub(super) fn keys(&self, scenario: &Scenario) -> Vec<String> {
        let subject = match self {
            Self::Capture(_) => return Vec::new(),
            Self::Cycle(_) => return vec!["link".to_owned()],
            Self::Impossible { subject, .. } | Self::Overloaded { subject, .. } => *subject,
        };
        match subject {
            Subject::Element(_) => vec!["link".to_owned()],
            Subject::Link(link) => {
                vec![format!("link.{}", scenario.links[link].name), "link".into()]
            }
            Subject::Node(node) => {
                vec![format!("node.{}", scenario.nodes[node].name), "node".into()]
            }
            Subject::Flow(_) if scenario.is_short => vec!["traffic.rate".into(), "traffic".into()],
            Subject::Flow(flow) => {
                let name = &scenario.flows[flow].name;
                vec![format!("flow.{name}.rate"), format!("flow.{name}")]
            }
        }
    }
}
