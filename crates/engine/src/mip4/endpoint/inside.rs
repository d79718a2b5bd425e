//! Whether a mobile node with a VPN gateway is inside: what its driver tells the machine and asks
//! it ([`MobileNode::probe`]). Nothing of it happens at other hosts.

use std::net::Ipv4Addr;

use super::{Endpoint, Machine};
use crate::mip4::mobile_node::{Attachment, MobileNode};
use crate::time::Instant;

impl Endpoint {
    /// As [`MobileNode::probe`].
    pub fn probe(&mut self, care_of: Option<Ipv4Addr>, now: Instant) {
        self.with_node(|node| node.probe(care_of, now));
        self.follow(now);
    }

    /// As [`MobileNode::leave`].
    pub fn leave(&mut self, now: Instant) {
        self.with_node(|node| node.leave(now));
        self.follow(now);
    }

    /// As [`MobileNode::leave_from`].
    pub fn leave_from(&mut self, own: Ipv4Addr, now: Instant) {
        self.with_node(|node| node.leave_from(own, now));
        self.follow(now);
    }

    /// As [`MobileNode::rejoin`].
    pub fn rejoin(&mut self, now: Instant) {
        self.with_node(|node| node.rejoin(now));
        self.follow(now);
    }

    /// As [`MobileNode::is_proven_inside`].
    pub fn is_proven_inside(&self) -> bool {
        self.node().is_some_and(MobileNode::is_proven_inside)
    }

    /// As [`MobileNode::attachment`]. None at another host.
    pub fn attachment(&self) -> Option<Attachment> {
        self.node().map(MobileNode::attachment)
    }

    /// As [`MobileNode::secured`].
    pub fn secured(&self) -> Option<Ipv4Addr> {
        self.node().and_then(MobileNode::secured)
    }

    fn node(&self) -> Option<&MobileNode> {
        match &self.machine {
            Machine::Node { node, .. } => Some(node),
            Machine::Guest(_) | Machine::ForeignAgent { .. } | Machine::HomeAgent { .. } => None,
        }
    }

    fn with_node(&mut self, tell: impl FnOnce(&mut MobileNode)) {
        if let Machine::Node { node, .. } = &mut self.machine {
            tell(node);
        }
    }
}
