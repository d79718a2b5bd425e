//! A branch: forwards packets by their address. It represents a router, and the near end of a link
//! that several nodes share.
//!
//! It takes no time and holds nothing. Packets without a target are counted and dropped.

use std::net::IpAddr;

use wire::ip::Flow;

use super::Target;

/// Targets by ranges of addresses; the first match counts.
#[derive(Clone, Debug, Default)]
pub struct Fork {
    ways: Vec<(IpAddr, IpAddr, Target)>,
    /// Packets without a target, for example for a node that has left.
    pub unrouted: u64,
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

    /// The target of an IP packet.
    pub fn way(&self, octets: &[u8]) -> Option<Target> {
        let flow = Flow::of(octets).ok()?;
        let mut ways = self.ways.iter();
        let way = ways.find(|(first, last, _)| (*first..=*last).contains(&flow.destination));
        way.map(|(.., target)| *target)
    }

    /// All its targets.
    pub fn targets(&self) -> Vec<Target> {
        self.ways.iter().map(|(.., target)| *target).collect()
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
        let way = |fork: &Fork, host| fork.way(&packet(host)).map(|to| to.element);
        assert_eq!(
            [7, 8, 200].map(|host| way(&fork, host)),
            [Some(2), Some(1), None]
        );
        fork.lead_one(address(7), to(3));
        assert_eq!(way(&fork, 7), Some(3));
        fork.forget(address(7));
        assert_eq!(way(&fork, 7), Some(1));
        assert_eq!(fork.way(b"no packet"), None);
        assert_eq!(fork.targets(), [to(1)]);
    }
}
