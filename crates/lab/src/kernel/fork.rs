//! A branch: forwards packets by their address. It represents a router, and the near end of a link
//! that several nodes share.
//!
//! It takes no time and holds nothing. Packets without a target are counted and dropped. A router
//! that filters sources also drops what comes from its own networks with the source of another one
//! (RFC 2827).

use std::collections::BTreeMap;
use std::net::IpAddr;

use wire::ip::Flow;

use super::{Port, Target};

/// The port of a router at which packets arrive that do not come from its own networks. Each of
/// those has a port of its own, from 0 on; past the last one they share it.
pub const FROM_ELSEWHERE: Port = Port(OWN_PORTS);
/// Ports for own networks.
pub const OWN_PORTS: u8 = 15;

/// Targets by ranges of addresses; the first match counts.
#[derive(Clone, Debug, Default)]
pub struct Fork {
    ways: Vec<(IpAddr, IpAddr, Target)>,
    /// Packets without a target, for example for a node that has left.
    pub unrouted: u64,
    /// The sources that each of its own networks may have, if it filters them.
    sources: Option<Vec<(Port, IpAddr, IpAddr)>>,
    /// Packets with another source.
    pub foreign: u64,
    /// A router's own addresses: packets for them on their segment are for it to forward.
    pub own: Vec<IpAddr>,
    /// Where plain packets go, by the number of their flow: frames without an IP packet.
    pub frames: BTreeMap<u32, Target>,
}

impl Fork {
    /// Routes the addresses from `first` to `last` to an element.
    pub fn lead(&mut self, first: IpAddr, last: IpAddr, to: Target) {
        self.ways.push((first, last, to));
    }

    /// Routes one address to an element, before all ranges.
    pub fn lead_one(&mut self, address: IpAddr, to: Target) {
        self.forget(address);
        self.ways.insert(0, (address, address, to));
    }

    /// Removes the route of this address.
    pub fn forget(&mut self, address: IpAddr) {
        let is_of = |way: &(IpAddr, IpAddr, Target)| (way.0, way.1) == (address, address);
        self.ways.retain(|way| !is_of(way));
    }

    /// Removes the route of this address if it leads to this element.
    pub fn forget_of(&mut self, address: IpAddr, element: u32) {
        let is_of = |way: &(IpAddr, IpAddr, Target)| {
            (way.0, way.1) == (address, address) && way.2.element == element
        };
        self.ways.retain(|way| !is_of(way));
    }

    /// From now on, drops what arrives at the port of a network of its own with a source outside of
    /// the ranges of this port.
    pub fn filter_sources(&mut self, sources: Vec<(Port, IpAddr, IpAddr)>) {
        self.sources = Some(sources);
    }

    /// The target of an IP packet that arrived at a port, for `next` on this segment, otherwise for
    /// its destination. Counts a packet without one.
    pub fn way(&mut self, port: Port, octets: &[u8], next: Option<IpAddr>) -> Option<Target> {
        let flow = Flow::of(octets).ok();
        if let (Some(sources), Some(flow)) = (&self.sources, &flow)
            && port != FROM_ELSEWHERE
        {
            let is_own = |(own, first, last): &(Port, IpAddr, IpAddr)| {
                *own == port && (*first..=*last).contains(&flow.source)
            };
            if !sources.iter().any(is_own) {
                self.foreign += 1;
                return None;
            }
        }
        let way = flow.and_then(|flow| {
            let mut ways = self.ways.iter();
            let next = next.filter(|next| !self.own.contains(next));
            let to = next.unwrap_or(flow.destination);
            ways.find(|(first, last, _)| (*first..=*last).contains(&to))
        });
        self.unrouted += u64::from(way.is_none());
        way.map(|(.., target)| *target)
    }

    /// All its targets.
    pub fn targets(&self) -> Vec<Target> {
        let ways = self.ways.iter().map(|(.., target)| *target);
        ways.chain(self.frames.values().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Port, ip};

    #[test]
    fn packets_go_by_their_address_and_who_has_left_gets_none() {
        let address = |host| IpAddr::from([10, 0, 0, host]);
        let to = |element| Target {
            element,
            port: Port(0),
        };
        let packet = |host| ip::udp((address(9), 1), (address(host), 2), b"", 1);
        let mut fork = Fork::default();
        fork.lead(address(0), address(127), to(1));
        fork.lead_one(address(7), to(2));
        let way =
            |fork: &mut Fork, host| fork.way(Port(0), &packet(host), None).map(|to| to.element);
        assert_eq!(
            [7, 8, 200].map(|host| way(&mut fork, host)),
            [Some(2), Some(1), None]
        );
        fork.lead_one(address(7), to(3));
        assert_eq!(way(&mut fork, 7), Some(3));
        fork.forget(address(7));
        assert_eq!(way(&mut fork, 7), Some(1));
        assert_eq!(fork.way(Port(0), b"no packet", None), None);
        assert_eq!(fork.unrouted, 2);
        assert_eq!(fork.targets(), [to(1)]);
    }

    #[test]
    fn a_filter_drops_foreign_sources_of_its_own_networks_alone() {
        let address = |net, host| IpAddr::from([10, 0, net, host]);
        let mut fork = Fork::default();
        let target = Target {
            element: 1,
            port: Port(0),
        };
        fork.lead(address(0, 0), address(9, 255), target);
        let range = |port, net| (Port(port), address(net, 0), address(net, 255));
        fork.filter_sources(vec![range(0, 1), range(1, 3)]);
        let packet = |net| ip::udp((address(net, 7), 1), (address(2, 1), 2), b"", 1);
        assert_eq!(fork.way(Port(0), &packet(1), None), Some(target));
        assert_eq!(fork.way(Port(0), &packet(3), None), None);
        assert_eq!(fork.way(Port(1), &packet(3), None), Some(target));
        assert_eq!(fork.way(FROM_ELSEWHERE, &packet(4), None), Some(target));
        assert_eq!((fork.foreign, fork.unrouted), (1, 0));
    }
}
