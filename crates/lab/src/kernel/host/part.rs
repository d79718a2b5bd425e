//! What a host is besides its programs: one of the machines with its packet planes, or nothing.

use engine::counters::DropCounters;
use engine::time::Instant;
use engine::work::Work;

use super::{Agent, Control, Mobile, Send, Wall};

/// The part that a host plays.
pub enum Part {
    /// A server, or a router of clear packets.
    Plain,
    /// A client or gateway with IKE.
    Control(Box<Control>),
    /// A mobile node, a home agent, or a host with SKIP alone.
    Mobile(Box<Mobile>),
    /// A firewall.
    Wall(Box<Wall>),
    /// A foreign agent.
    Agent(Box<Agent>),
}

impl Part {
    /// A client's or gateway's control plane.
    pub fn control(&self) -> Option<&Control> {
        match self {
            Self::Control(control) => Some(control),
            _ => None,
        }
    }

    /// The same, mutable.
    pub fn control_mut(&mut self) -> Option<&mut Control> {
        match self {
            Self::Control(control) => Some(control),
            _ => None,
        }
    }

    /// A mobile node or a home agent.
    pub fn mobile(&self) -> Option<&Mobile> {
        match self {
            Self::Mobile(mobile) => Some(mobile),
            _ => None,
        }
    }

    /// Messages and packets that it dropped, by reason.
    pub fn drops(&self) -> Option<DropCounters> {
        match self {
            Self::Plain => None,
            Self::Control(control) => Some(control.drops()),
            Self::Mobile(mobile) => Some(mobile.drops()),
            Self::Wall(wall) => Some(wall.drops()),
            Self::Agent(agent) => Some(agent.drops()),
        }
    }

    /// When it wants to be woken.
    pub(super) fn due(&self) -> Option<Instant> {
        match self {
            Self::Plain => None,
            Self::Control(control) => control.due(),
            Self::Mobile(mobile) => mobile.due(),
            Self::Wall(wall) => wall.due(),
            Self::Agent(agent) => agent.due(),
        }
    }

    pub(super) fn wake(&mut self, now: Instant, sends: &mut Vec<Send>) {
        match self {
            Self::Plain => {}
            Self::Control(control) => control.wake(now, sends),
            Self::Mobile(mobile) => mobile.wake(now, sends),
            Self::Wall(wall) => wall.wake(now, sends),
            Self::Agent(agent) => agent.wake(now, sends),
        }
    }

    /// The work since the last call; none: it never works.
    pub(super) fn take_work(&mut self) -> Option<Work> {
        Some(match self {
            Self::Plain => return None,
            Self::Control(control) => control.take_work(),
            Self::Mobile(mobile) => mobile.take_work(),
            Self::Wall(wall) => wall.take_work(),
            Self::Agent(agent) => agent.take_work(),
        })
    }
}
