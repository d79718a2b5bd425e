//! The route of packets between a station and the node that it talks to.

use std::net::IpAddr;

use super::{Graph, Port};
use crate::scenario::address::Network;

/// What packets pass, in the direction away from the station.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Indices of the links.
    pub links: Vec<usize>,
    /// Indices of the routers and NATs that forward, and of the gateway before a server.
    pub nodes: Vec<usize>,
}

impl Graph {
    /// The route at the beginning; none if no path leads there.
    pub fn route(&self, station: usize, other: usize) -> Option<Route> {
        let first = self.ports_of(station).next()?;
        self.route_from(first, other)
    }

    /// The routes from every link that the station ever uses: moves bring it to other links.
    pub fn routes(&self, station: usize, other: usize) -> impl Iterator<Item = Route> {
        let ports = self.ports.iter().filter(move |port| port.node == station);
        ports.filter_map(move |port| self.route_from(port, other))
    }

    /// The links between two nodes, of which the first may be any that sends; none if no path leads
    /// there.
    pub fn leg(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let address = self.address_for(from, to)?;
        let last = self.ports.iter().find(|port| port.address == address)?;
        let mut links = Vec::new();
        let mut node = from;
        for _ in &self.segments {
            let (port, via) = match self.hop(node, last.segment) {
                Some(hop) => (self.port(node, hop.link)?, hop.via),
                None => {
                    let port = self.ports_of(node).next()?;
                    let head = self.segments[port.segment].head;
                    (port, (port.segment != last.segment).then_some(head))
                }
            };
            links.extend(&self.segments[port.segment].links);
            match via {
                None => return Some(links),
                Some(via) => node = self.owner(port.segment, via)?,
            }
        }
        None
    }

    /// The address of a node on a segment that it shares with another one.
    pub(super) fn between(&self, from: usize, to: usize) -> Option<IpAddr> {
        let is_shared = |port: &&Port| self.ports_of(from).any(|own| own.segment == port.segment);
        let own = self.ports_of(to);
        own.filter(is_shared).map(|port| port.address).next()
    }

    /// The network of stations at a router, not that between it and another.
    pub(super) fn own_network(&self, router: usize, other: usize) -> Option<Network> {
        let inward = self.ports_of(router).filter(|port| !port.is_near);
        let mut own = inward.filter(|port| {
            let mut others = self.ports_of(other);
            others.all(|it| it.segment != port.segment)
        });
        own.next().map(|port| self.segments[port.segment].network)
    }

    /// Follows the routes of routers and NATs to the node, or to the gateway that it is behind.
    fn route_from(&self, port: &Port, other: usize) -> Option<Route> {
        let end = self.outer_end(other);
        let address = self.address_for(port.node, end)?;
        let last = self.ports.iter().find(|port| port.address == address)?;
        let mut route = Route::default();
        let mut segment = port.segment;
        let mut next = self.owner(segment, self.segments[segment].head);
        route.links.extend(&self.segments[segment].links);
        while segment != last.segment {
            let node = next.filter(|node| !route.nodes.contains(node))?;
            let hop = self.hop(node, last.segment)?;
            segment = self.port(node, hop.link)?.segment;
            next = hop.via.and_then(|via| self.owner(segment, via));
            route.nodes.push(node);
            route.links.extend(&self.segments[segment].links);
        }
        if end != other {
            route.nodes.push(end);
            route.links.extend(&self.behind(end)?.links);
        }
        Some(route)
    }

    /// The node that has an address on a segment.
    fn owner(&self, segment: usize, address: IpAddr) -> Option<usize> {
        let mut ports = self.ports.iter().filter(|port| port.segment == segment);
        ports
            .find(|port| port.address == address)
            .map(|port| port.node)
    }
}
